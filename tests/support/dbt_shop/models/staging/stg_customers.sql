SELECT id AS customer_id,
       email,
       country
  FROM {{ ref('raw_customers') }}
