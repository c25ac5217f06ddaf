-- Fails: one customer has had more money back than paid.
SELECT customer_id
  FROM {{ ref('customer_totals') }}
 WHERE total < 0
