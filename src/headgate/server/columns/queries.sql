-- name: get_fields
-- Columns of the current schema.
SELECT v.fields
  FROM schema_versions v
 WHERE v.organization_id = $1
   AND v.dataset_id = $2
   AND v.valid_to IS NULL;

-- name: list_edges
-- Column edges into a dataset, then out of it, each part in an order that stays, at most so many.
SELECT n.*
  FROM (SELECT e.*, e.target_id <> $2 AS is_out,
               s.namespace AS source_namespace, s.name AS source_name,
               t.namespace AS target_namespace, t.name AS target_name,
               j.namespace AS job_namespace, j.name AS job_name
          FROM ((SELECT x.*
                   FROM current_column_edges($1) x
                  WHERE x.target_id = $2
                  ORDER BY x.target_column, x.source_id, x.source_column, x.job_id
                  LIMIT $3)
                UNION ALL
                (SELECT x.*
                   FROM current_column_edges($1) x
                  WHERE x.source_id = $2
                    AND x.target_id <> $2
                  ORDER BY x.source_column, x.target_id, x.target_column, x.job_id
                  LIMIT $3)) e
         CROSS JOIN LATERAL (SELECT d.namespace, d.name
                               FROM datasets d
                              WHERE d.organization_id = $1
                                AND d.id = e.source_id
                             OFFSET 0) s
         CROSS JOIN LATERAL (SELECT d.namespace, d.name
                               FROM datasets d
                              WHERE d.organization_id = $1
                                AND d.id = e.target_id
                             OFFSET 0) t
         CROSS JOIN LATERAL (SELECT x.namespace, x.name
                               FROM jobs x
                              WHERE x.organization_id = $1
                                AND x.id = e.job_id
                             OFFSET 0) j) n
 ORDER BY n.is_out, n.target_namespace, n.target_name, n.target_column, n.source_namespace, n.source_name,
          n.source_column, n.job_namespace, n.job_name
 LIMIT $3;

-- name: count_edges
-- How many column edges each column of a dataset has, in both directions.
SELECT e.name, count(*) FILTER (WHERE NOT e.is_out) AS upstream, count(*) FILTER (WHERE e.is_out) AS downstream
  FROM (SELECT x.target_column AS name, false AS is_out
          FROM current_column_edges($1) x
         WHERE x.target_id = $2
         UNION ALL
        SELECT x.source_column, true
          FROM current_column_edges($1) x
         WHERE x.source_id = $2) e
 GROUP BY e.name;

-- name: has_column_edges
-- Whether a column is an end of any edge.
SELECT EXISTS (SELECT FROM current_column_edges($1) x WHERE x.target_id = $2 AND x.target_column = $3)
    OR EXISTS (SELECT FROM current_column_edges($1) x WHERE x.source_id = $2 AND x.source_column = $3);

-- name: list_writers
-- Jobs that write a dataset, and whether they send column lineage for it.
SELECT j.name, sends_columns($1, h.job_id, h.dataset_id) AS tells
  FROM job_datasets h
 CROSS JOIN LATERAL (SELECT x.id, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = h.job_id
                     OFFSET 0) j
 WHERE h.organization_id = $1
   AND h.dataset_id = $2
   AND h.role = 'output'
   AND NOT has_stopped($1, h.job_id, h.last_seen_at)
 ORDER BY j.name, j.id
 LIMIT $3;

-- name: list_readers
-- Jobs that read a dataset, and whether they send column lineage for anything.
SELECT j.name,
       EXISTS (SELECT
                 FROM column_lineage_edges e
                WHERE e.organization_id = $1
                  AND e.job_id = h.job_id
                  AND e.is_current) AS tells
  FROM job_datasets h
 CROSS JOIN LATERAL (SELECT x.id, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = h.job_id
                     OFFSET 0) j
 WHERE h.organization_id = $1
   AND h.dataset_id = $2
   AND h.role = 'input'
   AND NOT has_stopped($1, h.job_id, h.last_seen_at)
 ORDER BY j.name, j.id
 LIMIT $3;

-- name: list_gone
-- Column edges of a dataset that their jobs still send and that lead nowhere, for an end was dropped or renamed.
SELECT DISTINCT e.is_out, e.column_name, d.id, d.name, d.is_renamed
  FROM (SELECT false AS is_out, x.target_column AS column_name, x.source_id, x.target_id, x.job_id, x.last_seen_at
          FROM column_lineage_edges x
         WHERE x.organization_id = $1
           AND x.target_id = $2
           AND x.is_current
         UNION ALL
        SELECT true, x.source_column, x.source_id, x.target_id, x.job_id, x.last_seen_at
          FROM column_lineage_edges x
         WHERE x.organization_id = $1
           AND x.source_id = $2
           AND x.is_current) e
 CROSS JOIN LATERAL (SELECT x.id, x.name, coalesce(x.renamed_at >= x.dropped_at, false) AS is_renamed
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = ANY (ARRAY[e.source_id, e.target_id])
                        AND x.dropped_at IS NOT NULL
                        AND x.merged_into IS NULL
                        AND is_gone($1, x.id, 'infinity')
                     OFFSET 0) d
 WHERE NOT has_stopped($1, e.job_id,
                       greatest(e.last_seen_at, (SELECT h.columns_seen_at
                                                   FROM job_datasets h
                                                  WHERE h.organization_id = $1
                                                    AND h.job_id = e.job_id
                                                    AND h.dataset_id = e.target_id
                                                    AND h.role = 'output')))
 ORDER BY d.name, d.id, e.is_out, e.column_name
 LIMIT $3;

-- name: list_possible_readers
-- Jobs that read any of these datasets and tell no columns of what they write, a row for each of that, or for nothing.
SELECT j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name,
       d.id, d.namespace, d.name, d.display_name, d.type
  FROM (SELECT e.job_id, e.neighbour_id AS dataset_id
          FROM lineage_neighbours($1, $2, 'down', NULL, 'infinity', now() - interval '30 days') e
         WHERE NOT sends_columns($1, e.job_id, e.neighbour_id)
         UNION
        SELECT h.job_id, NULL
          FROM unnest($2::uuid[]) AS u (id)
         CROSS JOIN LATERAL (SELECT x.job_id, x.last_seen_at
                               FROM job_datasets x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.id
                                AND x.role = 'input'
                             OFFSET 0) h
         WHERE NOT EXISTS (SELECT
                             FROM job_datasets o
                            WHERE o.organization_id = $1
                              AND o.job_id = h.job_id
                              AND o.role = 'output')
           AND NOT has_stopped($1, h.job_id, h.last_seen_at)) n
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = n.job_id
                     OFFSET 0) j
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = n.dataset_id
                     OFFSET 0) d ON true
 ORDER BY j.namespace, j.name, j.id, d.namespace, d.name
 LIMIT $3;

-- name: list_column_tags
-- Tags of the columns of a dataset.
SELECT t.column_name, array_agg(DISTINCT t.tag ORDER BY t.tag) AS tags
  FROM dataset_tags t
 WHERE t.organization_id = $1
   AND t.dataset_id = $2
   AND t.column_name <> ''
 GROUP BY t.column_name;

-- name: list_column_notes
-- What people wrote of the columns of a dataset.
SELECT n.column_name, n.description
  FROM dataset_notes n
 WHERE n.organization_id = $1
   AND n.dataset_id = $2
   AND n.column_name <> ''
   AND n.description IS NOT NULL;

-- name: walk_columns
-- Columns up- or downstream of some of a dataset, nearest first, with the names of their datasets.
SELECT w.dataset_id, d.namespace, d.name, d.display_name, d.type, w.column_name, w.depth, w.hidden
  FROM walk_columns($1, $2, $3, $4, $5, $6) w
 CROSS JOIN LATERAL (SELECT x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = w.dataset_id
                     OFFSET 0) d
 ORDER BY w.depth, d.namespace, d.name, w.column_name;

-- name: list_source_columns
-- Columns of a dataset that anything is made of.
SELECT DISTINCT x.source_column AS name
  FROM current_column_edges($1) x
 WHERE x.source_id = $2
 ORDER BY x.source_column
 LIMIT $3;

-- name: list_edges_between
-- Column edges whose ends are both among these columns.
SELECT e.*,
       s.namespace AS source_namespace, s.name AS source_name,
       t.namespace AS target_namespace, t.name AS target_name,
       j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT x.*
          FROM unnest($2::uuid[], $3::text[]) AS u (id, name)
         CROSS JOIN LATERAL (SELECT y.*
                               FROM current_column_edges($1) y
                              WHERE y.target_id = u.id
                                AND y.target_column = u.name
                             OFFSET 0) x
          JOIN unnest($2::uuid[], $3::text[]) AS v (id, name) ON v.id = x.source_id AND v.name = x.source_column
         LIMIT $4) e
 CROSS JOIN LATERAL (SELECT d.namespace, d.name
                       FROM datasets d
                      WHERE d.organization_id = $1
                        AND d.id = e.source_id
                     OFFSET 0) s
 CROSS JOIN LATERAL (SELECT d.namespace, d.name
                       FROM datasets d
                      WHERE d.organization_id = $1
                        AND d.id = e.target_id
                     OFFSET 0) t
 CROSS JOIN LATERAL (SELECT x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = e.job_id
                     OFFSET 0) j
 ORDER BY t.namespace, t.name, e.target_column, s.namespace, s.name, e.source_column, j.namespace, j.name;

-- name: walk_change
-- What a change of a column, or of any column, of a dataset may reach.
SELECT w.dataset_id, w.column_name, w.depth, w.hidden
  FROM walk_change($1, $2, $3, $4, $5) w;

-- name: walk_downstream
-- Datasets downstream of some, the roots included.
SELECT w.dataset_id, w.depth
  FROM walk_lineage($1, $2, 'down', $3, $4, NULL, false) w;

-- name: count_hidden
-- How many datasets next downstream of some are not among them; of what is left unread there, each counts one more.
SELECT count(DISTINCT e.neighbour_id) + count(*) FILTER (WHERE e.is_more)
  FROM lineage_neighbours($1, $2, 'down', $3, 'infinity', now() - interval '30 days') e
 WHERE e.is_more
    OR e.neighbour_id <> ALL ($2::uuid[]);

-- name: list_tables
-- Datasets with what people, facets and tags say of them.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, n.owners,
       (SELECT f.body
          FROM dataset_facets f
         WHERE f.organization_id = $1
           AND f.dataset_id = d.id
           AND f.name = 'ownership') AS ownership,
       coalesce(n.description, (SELECT f.body ->> 'description'
                                  FROM dataset_facets f
                                 WHERE f.organization_id = $1
                                   AND f.dataset_id = d.id
                                   AND f.name = 'documentation')) AS description,
       ARRAY(SELECT DISTINCT t.tag
               FROM dataset_tags t
              WHERE t.organization_id = $1
                AND t.dataset_id = d.id
                AND t.column_name = ''
              ORDER BY t.tag) AS tags
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT x.owners, x.description
                       FROM dataset_notes x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.column_name = ''
                     OFFSET 0) n ON true;

-- name: list_table_jobs
-- Jobs that make each of these tables out of some of those datasets, and jobs that read it; at most so many of each.
SELECT u.id AS dataset_id, n.job_id, n.role
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL ((SELECT DISTINCT e.job_id, 'writer' AS role
                        FROM lineage_neighbours($1, ARRAY[u.id], 'up', NULL, 'infinity', now() - interval '30 days') e
                       WHERE e.neighbour_id = ANY ($3::uuid[])
                       ORDER BY e.job_id
                       LIMIT $4)
                     UNION ALL
                     (SELECT DISTINCT e.job_id, 'reader'
                        FROM lineage_neighbours($1, ARRAY[u.id], 'down', 1000, 'infinity',
                                                now() - interval '30 days') e
                       ORDER BY e.job_id
                       LIMIT $4)) n;

-- name: list_column_jobs
-- Jobs that make columns of each of these tables, at most so many.
SELECT u.id AS dataset_id, n.job_id
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT DISTINCT e.job_id
                       FROM current_column_edges($1) e
                      WHERE e.target_id = u.id
                      ORDER BY e.job_id
                      LIMIT $3) n;

-- name: list_jobs
-- Jobs with their owners, and with what started the latest run of each.
SELECT j.id, j.namespace, j.name, j.facets -> 'ownership' AS ownership, r.parent, r.root
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.facets
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j
  LEFT JOIN LATERAL (SELECT x.parent_job ->> 'name' AS parent, x.root_job ->> 'name' AS root
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC
                      LIMIT 1) r ON true
 ORDER BY j.namespace, j.name;

-- name: get_run_outputs
-- What a run has written; no row if there is no such run.
SELECT r.output_ids
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.run_id = $2;
