SELECT c.customer_id,
       c.country,
       count(o.order_id) AS orders,
       sum(o.amount) AS total
  FROM {{ ref('stg_customers') }} AS c
  JOIN {{ ref('stg_orders') }} AS o ON o.customer_id = c.customer_id
 GROUP BY c.customer_id, c.country
