-- name: list_namespaces
-- Every namespace of a dataset or a job: one step through the index for each, and none for what lies between.
WITH RECURSIVE data AS (
  (SELECT d.namespace
     FROM datasets d
    WHERE d.organization_id = $1
      AND d.merged_into IS NULL
    ORDER BY d.namespace
    LIMIT 1)
  UNION ALL
  SELECT (SELECT d.namespace
            FROM datasets d
           WHERE d.organization_id = $1
             AND d.namespace > p.namespace
             AND d.merged_into IS NULL
           ORDER BY d.namespace
           LIMIT 1)
    FROM data p
   WHERE p.namespace IS NOT NULL
), work AS (
  (SELECT j.namespace
     FROM jobs j
    WHERE j.organization_id = $1
    ORDER BY j.namespace
    LIMIT 1)
  UNION ALL
  SELECT (SELECT j.namespace
            FROM jobs j
           WHERE j.organization_id = $1
             AND j.namespace > p.namespace
           ORDER BY j.namespace
           LIMIT 1)
    FROM work p
   WHERE p.namespace IS NOT NULL
)
SELECT n.namespace, bool_or(n.has_data) AS has_data
  FROM (SELECT x.namespace, true AS has_data FROM data x
        UNION ALL
        SELECT x.namespace, false FROM work x) n
 WHERE n.namespace IS NOT NULL
 GROUP BY n.namespace
 ORDER BY n.namespace;

-- name: describe_namespaces
-- When the first and the latest of what a namespace holds was first seen, judged by up to a thousand of each kind.
SELECT u.namespace, d.seen_at IS NOT NULL AS has_data, least(d.seen_at, j.seen_at) AS first_seen_at,
       greatest(d.latest_at, j.latest_at) AS latest_at
  FROM unnest($2::text[]) WITH ORDINALITY AS u (namespace, place)
 CROSS JOIN LATERAL (SELECT min(s.first_seen_at) AS seen_at, max(s.first_seen_at) AS latest_at
                       FROM (SELECT x.first_seen_at
                               FROM datasets x
                              WHERE x.organization_id = $1
                                AND x.namespace = u.namespace
                                AND x.merged_into IS NULL
                              LIMIT 1000) s) d
 CROSS JOIN LATERAL (SELECT min(s.first_seen_at) AS seen_at, max(s.first_seen_at) AS latest_at
                       FROM (SELECT x.first_seen_at
                               FROM jobs x
                              WHERE x.organization_id = $1
                                AND x.namespace = u.namespace
                              LIMIT 1000) s) j
 WHERE coalesce(d.seen_at, j.seen_at) IS NOT NULL
 ORDER BY u.place;

-- name: find_datasets
-- The datasets that these names lead to, in the order of the names.
SELECT a.dataset_id
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (namespace, name, place)
 CROSS JOIN LATERAL (SELECT x.dataset_id
                       FROM dataset_aliases x
                      WHERE x.organization_id = $1
                        AND x.namespace = u.namespace
                        AND x.name = u.name
                     OFFSET 0) a
 ORDER BY u.place;

-- name: find_jobs
-- The jobs of these names, in the order of the names.
SELECT j.id
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (namespace, name, place)
 CROSS JOIN LATERAL (SELECT x.id
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = u.namespace
                        AND x.name = u.name
                     OFFSET 0) j
 ORDER BY u.place;

-- name: list_dataset_ids
-- A page of the datasets of a namespace, by name.
SELECT d.id
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.namespace = $2
   AND d.merged_into IS NULL
 ORDER BY d.name COLLATE "C"
 LIMIT $3
OFFSET $4;

-- name: count_datasets
-- How many datasets a namespace has, as far as pages reach.
SELECT count(*)
  FROM (SELECT 1
          FROM datasets d
         WHERE d.organization_id = $1
           AND d.namespace = $2
           AND d.merged_into IS NULL
         LIMIT $3) s;

-- name: list_datasets
-- These datasets with their current schema and when they were last used, in the order asked for.
SELECT d.id, d.namespace, d.name, d.type, d.first_seen_at, d.dropped_at, v.id AS version_id, v.fields, v.valid_from,
       h.seen_at, h.written_at, h.completed_at
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, place)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT x.id, x.fields, x.valid_from
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.valid_to IS NULL
                     OFFSET 0) v ON true
 CROSS JOIN LATERAL (SELECT max(x.last_seen_at) AS seen_at,
                            max(x.last_seen_at) FILTER (WHERE x.role = 'output') AS written_at,
                            max(x.last_completed_at) FILTER (WHERE x.role = 'output') AS completed_at
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id) h
 ORDER BY u.place;

-- name: list_facets
-- Facets of these datasets; of the given names only, if any are given.
SELECT f.dataset_id, f.name, f.body, f.event_time
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.dataset_id, x.name, x.body, x.event_time
                       FROM dataset_facets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND ($3::text[] IS NULL OR x.name = ANY ($3))
                     OFFSET 0) f;

-- name: list_dataset_tags
-- Tags of these datasets and of their columns, whoever gave them.
SELECT t.dataset_id, t.column_name, t.tag
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT DISTINCT x.dataset_id, x.column_name, x.tag
                       FROM dataset_tags x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                     OFFSET 0) t
 ORDER BY t.tag;

-- name: list_notes
-- What people wrote of these datasets and of their columns.
SELECT n.dataset_id, n.column_name, n.description, n.updated_at
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.dataset_id, x.column_name, x.description, x.updated_at
                       FROM dataset_notes x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.description IS NOT NULL
                     OFFSET 0) n;

-- name: list_tags
-- Every tag of a dataset or column: one step through the index for each.
WITH RECURSIVE known AS (
  (SELECT t.tag
     FROM dataset_tags t
    WHERE t.organization_id = $1
    ORDER BY t.tag
    LIMIT 1)
  UNION ALL
  SELECT (SELECT t.tag
            FROM dataset_tags t
           WHERE t.organization_id = $1
             AND t.tag > p.tag
           ORDER BY t.tag
           LIMIT 1)
    FROM known p
   WHERE p.tag IS NOT NULL
)
SELECT k.tag
  FROM known k
 WHERE k.tag IS NOT NULL
 LIMIT $2;

-- name: list_versions
-- A page of the schema versions of a dataset, newest first.
SELECT v.id, v.fields, v.valid_from, v.valid_to, v.run_id
  FROM schema_versions v
 WHERE v.organization_id = $1
   AND v.dataset_id = $2
 ORDER BY v.valid_from DESC, v.version DESC
 LIMIT $3
OFFSET $4;

-- name: get_version
-- One schema version of a dataset.
SELECT v.id, v.fields, v.valid_from, v.valid_to, v.run_id
  FROM schema_versions v
 WHERE v.organization_id = $1
   AND v.dataset_id = $2
   AND v.id = $3;

-- name: count_versions
-- How many schema versions a dataset has.
SELECT count(*)
  FROM schema_versions v
 WHERE v.organization_id = $1
   AND v.dataset_id = $2;

-- name: list_job_ids
-- A page of the jobs of the organisation, by namespace and name.
SELECT j.id
  FROM jobs j
 WHERE j.organization_id = $1
 ORDER BY j.namespace, j.name
 LIMIT $2
OFFSET $3;

-- name: count_jobs
-- How many jobs the organisation has, as far as pages reach.
SELECT count(*)
  FROM (SELECT 1
          FROM jobs j
         WHERE j.organization_id = $1
         LIMIT $2) s;

-- name: list_namespace_job_ids
-- A page of the jobs of a namespace, by name.
SELECT j.id
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.namespace = $2
 ORDER BY j.name
 LIMIT $3
OFFSET $4;

-- name: count_namespace_jobs
-- How many jobs a namespace has, as far as pages reach.
SELECT count(*)
  FROM (SELECT 1
          FROM jobs j
         WHERE j.organization_id = $1
           AND j.namespace = $2
         LIMIT $3) s;

-- name: list_jobs
-- These jobs, in the order asked for.
SELECT j.id, j.namespace, j.name, j.processing_type, j.facets, j.facets_at, j.first_seen_at
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, place)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j
 ORDER BY u.place;

-- name: list_uses
-- What these jobs read and write now: no edge that is retired, and nothing that was dropped, renamed or merged away.
SELECT h.job_id, h.role, d.id AS dataset_id, d.namespace, d.name
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.job_id, x.dataset_id, x.role, x.last_seen_at
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                     OFFSET 0) h
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.renamed_at
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = h.dataset_id
                     OFFSET 0) d
 WHERE (h.last_seen_at >= now() - interval '30 days'
        OR NOT EXISTS (SELECT
                         FROM job_runs r
                        WHERE r.organization_id = $1
                          AND r.job_id = h.job_id
                          AND r.started_at > h.last_seen_at
                          AND r.state = 'COMPLETE'
                          AND r.complete_at > h.last_seen_at + interval '30 days'
                          AND NOT r.is_test))
   AND NOT is_gone($1, d.id, 'infinity')
   AND NOT (h.role = 'output' AND d.renamed_at IS NOT NULL AND d.renamed_at >= h.last_seen_at)
 ORDER BY h.job_id, h.role, d.namespace, d.name
 LIMIT $3;

-- name: list_latest_runs
-- The latest runs of each of these jobs, newest first.
SELECT r.*
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.job_id, x.state, x.start_at, x.started_at, x.ended_at, x.last_event_at,
                            x.parent_job, x.input_ids, x.output_ids
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC, x.run_id DESC
                      LIMIT $3) r;

-- name: list_runs
-- A page of the runs of a job, newest first.
SELECT r.run_id, r.job_id, r.state, r.start_at, r.started_at, r.ended_at, r.last_event_at, r.parent_job, r.input_ids,
       r.output_ids
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.job_id = $2
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $3
OFFSET $4;

-- name: count_runs
-- How many runs a job has, as far as pages reach.
SELECT count(*)
  FROM (SELECT 1
          FROM job_runs r
         WHERE r.organization_id = $1
           AND r.job_id = $2
         LIMIT $3) s;

-- name: get_runs
-- These runs, each with its job.
SELECT r.*
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.job_id, x.state, x.start_at, x.started_at, x.ended_at, x.last_event_at,
                            x.parent_job, x.input_ids, x.output_ids, j.namespace AS job_namespace, j.name AS job_name
                       FROM job_runs x
                       JOIN jobs j ON j.organization_id = $1 AND j.id = x.job_id
                      WHERE x.organization_id = $1
                        AND x.run_id = u.id
                     OFFSET 0) r;

-- name: list_run_datasets
-- Names of these datasets, and their latest schema versions with the time from which each is valid.
SELECT d.id, d.namespace, d.name, v.ids, v.times
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
 CROSS JOIN LATERAL (SELECT coalesce(array_agg(s.id ORDER BY s.valid_from DESC), '{}') AS ids,
                            coalesce(array_agg(s.valid_from ORDER BY s.valid_from DESC), '{}') AS times
                       FROM (SELECT x.id, x.valid_from
                               FROM schema_versions x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.id
                              ORDER BY x.valid_from DESC
                              LIMIT 50) s) v;

-- name: list_run_events
-- The latest events of each of these runs, oldest first, until they are too many bytes.
SELECT e.run_id, e.raw
  FROM (SELECT u.place, x.run_id, x.raw, x.event_time, x.id,
               sum(octet_length(x.raw)) OVER (ORDER BY u.place, x.event_time DESC, x.id DESC) AS size
          FROM unnest($2::uuid[]) WITH ORDINALITY AS u (run_id, place)
         CROSS JOIN LATERAL (SELECT l.run_id, l.raw, l.event_time, l.id
                               FROM lineage_events l
                              WHERE l.organization_id = $1
                                AND l.run_id = u.run_id
                                AND l.outcome = 'accepted'
                              ORDER BY l.event_time DESC, l.id DESC
                              LIMIT $3) x) e
 WHERE e.size <= $4
 ORDER BY e.place, e.event_time, e.id;

-- name: list_column_edges
-- Where the columns of these datasets come from now.
SELECT u.id AS target_id, e.target_column, e.source_id, e.source_column, e.job_id, e.kinds, e.expression
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.target_column, x.source_id, x.source_column, x.job_id, x.kinds, x.expression
                       FROM current_column_edges($1) x
                      WHERE x.target_id = u.id
                        AND x.target_column <> ''
                     OFFSET 0) e
 ORDER BY u.id, e.target_column, e.source_id, e.source_column, e.job_id
 LIMIT $3;
