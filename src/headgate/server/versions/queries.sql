-- name: list_versions
-- Versions from a time and a number back, newest first; two at least, then as many as have 50,000 fields together.
SELECT p.id, p.version, p.schema_hash, p.fields, p.run_id, p.columns_added, p.columns_removed, p.columns_type_changed,
       p.change_type, p.description, p.breaking, p.valid_from, p.valid_to, p.job_id,
       j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT v.*, row_number() OVER newest AS place, sum(jsonb_array_length(v.fields)) OVER newest AS width
          FROM (SELECT s.*
                  FROM schema_versions s
                 WHERE s.organization_id = $1
                   AND s.dataset_id = $2
                   AND s.valid_from <= coalesce($3::timestamptz, 'infinity')
                   AND ($4::integer IS NULL OR s.version <= $4)
                 ORDER BY s.valid_from DESC, s.version DESC
                 LIMIT $5) v
        WINDOW newest AS (ORDER BY v.valid_from DESC, v.version DESC)) p
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = p.job_id
 WHERE p.place <= 2
    OR p.width <= 50000
 ORDER BY p.place;

-- name: find_version_number
-- The number of the version with an id.
SELECT version
  FROM schema_versions
 WHERE organization_id = $1
   AND dataset_id = $2
   AND id = $3;

-- name: list_readers
-- What jobs make of these columns now.
SELECT u.name AS source_column, nullif(e.target_column, '') AS target_column, e.kinds, e.expression,
       d.id, d.namespace, d.name, d.display_name, d.type, j.id AS job_id, j.namespace AS job_namespace,
       j.name AS job_name
  FROM unnest($3::text[]) AS u (name)
 CROSS JOIN LATERAL (SELECT x.target_id, x.target_column, x.job_id, x.kinds, x.expression
                       FROM current_column_edges($1) x
                      WHERE x.source_id = $2
                        AND x.source_column = u.name
                     OFFSET 0) e
  JOIN datasets d ON d.organization_id = $1 AND d.id = e.target_id
  JOIN jobs j ON j.organization_id = $1 AND j.id = e.job_id
 ORDER BY u.name, d.namespace, d.name, e.target_column, j.namespace, j.name
 LIMIT $4;

-- name: list_possible_readers
-- Jobs that read a dataset, have not done without it for 30 days, and tell no columns of some or all that they write.
SELECT j.id, j.namespace, j.name
  FROM job_datasets h
  JOIN jobs j ON j.organization_id = $1 AND j.id = h.job_id
 WHERE h.organization_id = $1
   AND h.dataset_id = $2
   AND h.role = 'input'
   AND NOT coalesce((SELECT bool_and(o.columns_hash IS NOT NULL)
                       FROM job_datasets o
                      WHERE o.organization_id = $1
                        AND o.job_id = h.job_id
                        AND o.role = 'output'), false)
   AND NOT EXISTS (SELECT
                     FROM job_runs r
                    WHERE r.organization_id = $1
                      AND r.job_id = h.job_id
                      AND r.started_at > h.last_seen_at
                      AND r.state = 'COMPLETE'
                      AND r.complete_at > h.last_seen_at + interval '30 days')
 ORDER BY j.namespace, j.name
 LIMIT $3;
