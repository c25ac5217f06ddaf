SELECT placed_on,
       count(order_id) AS orders
  FROM {{ ref('stg_orders') }}
 GROUP BY placed_on
