-- name: list_users
-- Jobs that read or write these datasets, in the role given with each; either role where none is.
SELECT h.job_id, u.id AS dataset_id, h.role
  FROM unnest($2::uuid[], $3::text[]) AS u (id, role)
 CROSS JOIN LATERAL (SELECT x.job_id, x.role
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.role = ANY (CASE WHEN u.role IS NULL THEN ARRAY['input', 'output']
                                               ELSE ARRAY[u.role] END)
                      LIMIT $4) h
 LIMIT $4;

-- name: list_columns
-- Columns of these datasets that column lineage knows.
SELECT u.id, c.name
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.target_column AS name
                       FROM current_column_edges($1) x
                      WHERE x.target_id = u.id
                        AND x.target_column <> ''
                     UNION
                     SELECT x.source_column
                       FROM current_column_edges($1) x
                      WHERE x.source_id = u.id
                        AND x.target_column <> ''
                     OFFSET 0) c
 ORDER BY u.id, c.name
 LIMIT $3;

-- name: list_column_sources
-- Where these columns come from now.
SELECT u.id AS target_id, u.name AS target_column, e.source_id, e.source_column, e.job_id, e.kinds, e.expression
  FROM unnest($2::uuid[], $3::text[]) AS u (id, name)
 CROSS JOIN LATERAL (SELECT x.source_id, x.source_column, x.job_id, x.kinds, x.expression
                       FROM current_column_edges($1) x
                      WHERE x.target_id = u.id
                        AND x.target_column = u.name
                     OFFSET 0) e
 ORDER BY u.id, u.name, e.source_id, e.source_column, e.job_id
 LIMIT $4;

-- name: list_column_targets
-- What comes from these columns now.
SELECT e.target_id, e.target_column, u.id AS source_id, u.name AS source_column, e.job_id, e.kinds, e.expression
  FROM unnest($2::uuid[], $3::text[]) AS u (id, name)
 CROSS JOIN LATERAL (SELECT x.target_id, x.target_column, x.job_id, x.kinds, x.expression
                       FROM current_column_edges($1) x
                      WHERE x.source_id = u.id
                        AND x.source_column = u.name
                        AND x.target_column <> ''
                     OFFSET 0) e
 ORDER BY u.id, u.name, e.target_id, e.target_column, e.job_id
 LIMIT $4;
