SELECT id AS order_id,
       customer AS customer_id,
       amount,
       placed_on
  FROM {{ ref('raw_orders') }}
