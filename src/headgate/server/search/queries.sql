-- name: find_id
-- What has this id: a dataset, or the one that it was merged into, a job or a run.
SELECT 'dataset' AS kind, surviving_dataset($1, $2) AS id
 WHERE surviving_dataset($1, $2) IS NOT NULL
UNION ALL
SELECT 'job', j.id
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.id = $2
UNION ALL
SELECT 'run', r.run_id
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_runs_by_id
-- Runs whose ids lie in a range, and so begin alike.
SELECT r.run_id
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.run_id BETWEEN $2 AND $3
 ORDER BY r.run_id
 LIMIT $4;

-- name: list_runs_by_application
-- Runs whose application's id begins like this. In every collation they follow it; where they end differs.
SELECT r.run_id, r.application_id
  FROM (SELECT x.run_id, x.application_id, x.started_at
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.application_id >= $2
         ORDER BY x.application_id, x.started_at DESC
         LIMIT $3) r
 WHERE starts_with(r.application_id, $2)
 ORDER BY r.application_id, r.started_at DESC, r.run_id
 LIMIT $4;

-- name: describe_entries
-- What these entries of the index are. Datasets as they are called now, and pipelines with the id of their job.
SELECT u.kind, u.id AS entry_id, CASE u.kind WHEN 'pipeline' THEN j.id ELSE u.id END AS id, e.body,
       coalesce(d.namespace, e.namespace) AS namespace, coalesce(d.name, e.name) AS name, d.display_name, d.type,
       u.kind = 'dataset' AND is_gone($1, u.id, 'infinity') AS is_dropped
  FROM unnest($2::text[], $3::uuid[]) AS u (kind, id)
 CROSS JOIN LATERAL (SELECT x.namespace, x.name, x.body
                       FROM search_entries x
                      WHERE x.organization_id = $1
                        AND x.kind = u.kind
                        AND x.id = u.id
                     OFFSET 0) e
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type, x.merged_into
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d ON u.kind = 'dataset'
  LEFT JOIN LATERAL (SELECT x.id
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = e.namespace
                        AND x.name = e.name
                     OFFSET 0) j ON u.kind = 'pipeline'
 WHERE u.kind <> 'dataset'
    OR (d.id IS NOT NULL AND d.merged_into IS NULL);

-- name: describe_runs
-- Whose runs these are.
SELECT u.id, j.namespace, j.name
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.job_id
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j;

-- name: list_column_datasets
-- For each column some of the datasets that have it.
SELECT u.id AS column_id, d.id, d.namespace, d.name, d.display_name, d.type
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.dataset_id
                       FROM search_columns x
                      WHERE x.organization_id = $1
                        AND x.column_id = u.id
                      ORDER BY x.dataset_id
                      LIMIT $3) c
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type, x.merged_into
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = c.dataset_id
                     OFFSET 0) d
 WHERE d.merged_into IS NULL
 ORDER BY d.name, d.namespace, d.id;
