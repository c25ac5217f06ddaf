-- name: list_latest_results
-- The latest result of each test of a dataset, newest first. Goes from test to test, not through their history.
WITH RECURSIVE latest AS (
  (SELECT t.test_key, t.id, t.observed_at, t.status
     FROM test_results t
    WHERE t.organization_id = $1
      AND t.dataset_id = $2
    ORDER BY t.test_key, t.observed_at DESC, t.id DESC
    LIMIT 1)
  UNION ALL
  SELECT n.test_key, n.id, n.observed_at, n.status
    FROM latest l
   CROSS JOIN LATERAL (SELECT t.test_key, t.id, t.observed_at, t.status
                         FROM test_results t
                        WHERE t.organization_id = $1
                          AND t.dataset_id = $2
                          AND t.test_key > l.test_key
                        ORDER BY t.test_key, t.observed_at DESC, t.id DESC
                        LIMIT 1) n
),
page AS (
  SELECT l.id
    FROM latest l
   WHERE ($3::text IS NULL OR l.status = $3)
     AND ($4::timestamptz IS NULL OR (l.observed_at, l.id) < ($4, $5::uuid))
   ORDER BY l.observed_at DESC, l.id DESC
   LIMIT $6
)
SELECT t.id, t.name, t.assertion, t.column_name, t.status, t.severity, t.expected, t.actual, t.description, t.run_id,
       t.observed_at, t.job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM page p
 CROSS JOIN LATERAL (SELECT r.*
                       FROM test_results r
                      WHERE r.organization_id = $1
                        AND r.id = p.id
                     OFFSET 0) t
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = t.job_id
 ORDER BY t.observed_at DESC, t.id DESC;

-- name: list_results
-- All results of a dataset's tests, newest first.
SELECT t.id, t.name, t.assertion, t.column_name, t.status, t.severity, t.expected, t.actual, t.description, t.run_id,
       t.observed_at, t.job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM test_results t
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = t.job_id
 WHERE t.organization_id = $1
   AND t.dataset_id = $2
   AND ($3::text IS NULL OR t.status = $3)
   AND t.observed_at <= coalesce($4::timestamptz, 'infinity')
   AND ($4::timestamptz IS NULL OR (t.observed_at, t.id) < ($4, $5::uuid))
 ORDER BY t.observed_at DESC, t.id DESC
 LIMIT $6;
