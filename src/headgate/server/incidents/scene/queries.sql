-- name: list_runs_behind
-- The runs that datasets may be as they were at given moments because of, the latest first.
SELECT b.place, b.dataset_id, b.run_id
  FROM runs_behind($1, $2, $3, p_silent => true) WITH ORDINALITY
       AS b (place, dataset_id, run_id, job_id, state, started_at, ended_at, producer, i)
 ORDER BY b.i;

-- name: list_runs
-- Runs with what they read and wrote.
SELECT r.run_id, r.job_id, j.namespace AS job_namespace, j.name AS job_name, r.state, r.started_at, r.ended_at,
       r.last_event_at, r.input_ids[1:200] AS input_ids, r.output_ids[1:200] AS output_ids, r.parent_run_id,
       r.root_run_id, r.error, r.is_test, r.verdicts
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j;

-- name: list_sources
-- What datasets were made of at given moments, by table lineage; of one job, where a job is given.
SELECT u.place, e.source_id
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[]) WITH ORDINALITY AS u (dataset_id, job_id, at, place)
 CROSS JOIN LATERAL (SELECT DISTINCT x.source_id
                       FROM (SELECT y.source_id, y.job_id, y.first_seen_at
                               FROM lineage_edges y
                              WHERE y.organization_id = $1
                                AND y.target_id = u.dataset_id
                              LIMIT 500) x
                      WHERE (u.job_id IS NULL OR x.job_id = u.job_id)
                        AND x.first_seen_at <= u.at
                      ORDER BY x.source_id
                      LIMIT 100) e
 ORDER BY u.place, e.source_id;

-- name: list_source_columns
-- Which columns some columns of datasets were made of, by the column lineage of one job.
SELECT u.place, e.source_id, e.source_column
  FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[]) WITH ORDINALITY
       AS u (dataset_id, job_id, columns, at, place)
 CROSS JOIN LATERAL (SELECT DISTINCT x.source_id, x.source_column
                       FROM column_lineage_edges x
                      WHERE x.organization_id = $1
                        AND x.target_id = u.dataset_id
                        AND x.target_column = ANY (string_to_array(u.columns, E'\x1f') || ARRAY[''])
                        AND (u.job_id IS NULL OR x.job_id = u.job_id)
                        AND x.first_seen_at <= u.at
                        AND (x.is_current OR x.last_seen_at >= u.at)
                      LIMIT 500) e
 ORDER BY u.place, e.source_id, e.source_column;

-- name: list_named_columns
-- Columns of datasets that are named like some of those that jobs write which tell no column lineage.
SELECT u.place, c.name
  FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[]) WITH ORDINALITY
       AS u (target_id, job_id, source_id, columns, place)
 CROSS JOIN LATERAL (SELECT f.body ->> 'name' AS name
                       FROM schema_versions v
                      CROSS JOIN LATERAL jsonb_array_elements(v.fields) AS f (body)
                      WHERE v.organization_id = $1
                        AND v.dataset_id = u.source_id
                        AND v.valid_to IS NULL
                        AND jsonb_typeof(v.fields) = 'array'
                        AND f.body ->> 'name' = ANY (string_to_array(u.columns, E'\x1f'))) c
 WHERE NOT EXISTS (SELECT
                     FROM column_lineage_edges e
                    WHERE e.organization_id = $1
                      AND e.job_id = u.job_id
                      AND e.target_id = u.target_id);

-- name: list_fresh_runs
-- Earlier runs that may still be in what was read: those since the reader had read before, and those of the last day.
SELECT u.place, r.run_id
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::uuid[], $7::timestamptz[])
       WITH ORDINALITY AS u (dataset_id, job_id, started_at, read_at, reader_id, reader_at, place)
  LEFT JOIN LATERAL (SELECT y.started_at
                       FROM (SELECT x.started_at, x.state
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = u.reader_id
                                AND x.started_at < u.reader_at
                              ORDER BY x.started_at DESC
                              LIMIT 20) y
                      WHERE y.state = 'COMPLETE'
                      ORDER BY y.started_at DESC
                      LIMIT 1) b ON true
 CROSS JOIN LATERAL (SELECT y.run_id
                       FROM (SELECT x.run_id, x.started_at, x.ended_at, x.state, x.is_test, x.output_ids
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = u.job_id
                                AND x.started_at < u.started_at
                              ORDER BY x.started_at DESC
                              LIMIT 20) y
                      WHERE y.state = 'COMPLETE'
                        AND NOT y.is_test
                        AND y.ended_at > least(coalesce(b.started_at, u.reader_at), u.read_at - interval '24 hours')
                        AND u.dataset_id = ANY (y.output_ids)
                      ORDER BY y.started_at DESC
                      LIMIT 5) r;

-- name: list_next_ends
-- When jobs completed next after given runs of theirs.
SELECT u.place, r.ended_at
  FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS u (job_id, started_at, ended_at, place)
 CROSS JOIN LATERAL (SELECT y.ended_at
                       FROM (SELECT x.started_at, x.ended_at, x.state, x.is_test
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = u.job_id
                                AND x.started_at > u.started_at
                              ORDER BY x.started_at
                              LIMIT 20) y
                      WHERE y.state = 'COMPLETE'
                        AND NOT y.is_test
                        AND y.ended_at > u.ended_at
                      ORDER BY y.started_at
                      LIMIT 1) r;

-- name: list_datasets
-- Names of datasets.
SELECT d.id, d.namespace, d.name
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d;

-- name: list_chains
-- What started runs, and what started that: nearest first, at most five levels.
WITH RECURSIVE above AS (
  SELECT u.id AS of_run, r.parent_run_id AS run_id, r.parent_job ->> 'name' AS job_name,
         r.root_run_id, r.root_job ->> 'name' AS root_name, 1 AS level
    FROM unnest($2::uuid[]) AS u (id)
   CROSS JOIN LATERAL (SELECT x.*
                         FROM job_runs x
                        WHERE x.organization_id = $1
                          AND x.run_id = u.id
                       OFFSET 0) r
   WHERE r.parent_run_id IS NOT NULL
   UNION ALL
  SELECT a.of_run, r.parent_run_id, r.parent_job ->> 'name', coalesce(a.root_run_id, r.root_run_id),
         coalesce(a.root_name, r.root_job ->> 'name'), a.level + 1
    FROM above a
   CROSS JOIN LATERAL (SELECT x.*
                         FROM job_runs x
                        WHERE x.organization_id = $1
                          AND x.run_id = a.run_id
                       OFFSET 0) r
   WHERE r.parent_run_id IS NOT NULL
     AND r.parent_run_id <> a.of_run
     AND a.level < 5
)
SELECT a.of_run, a.run_id, a.job_name, a.root_run_id, a.root_name
  FROM above a
 ORDER BY a.of_run, a.level;

-- name: list_measures
-- What runs have measured of datasets, with the verdicts on it.
SELECT u.place, m.measured_at, m.direction, m.row_count, m.byte_size, m.columns, m.partition_key, m.verdicts
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::boolean[]) WITH ORDINALITY
       AS u (dataset_id, run_id, since, until, is_read, place)
 CROSS JOIN LATERAL (SELECT x.measured_at, x.direction, x.row_count, x.byte_size, x.columns, x.partition_key,
                            x.verdicts
                       FROM dataset_metrics x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND x.measured_at BETWEEN u.since AND u.until
                        AND x.run_id = u.run_id
                        AND x.direction <> CASE WHEN u.is_read THEN 'output' ELSE 'input' END
                      ORDER BY x.measured_at DESC
                      LIMIT 20) m
 ORDER BY u.place, m.measured_at;

-- name: list_profiles
-- What others have found in datasets within given spans, with the verdicts on it.
SELECT u.place, m.measured_at, m.direction, m.row_count, m.byte_size, m.columns, m.partition_key, m.verdicts
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[]) WITH ORDINALITY
       AS u (dataset_id, run_id, since, until, place)
 CROSS JOIN LATERAL (SELECT y.*
                       FROM (SELECT x.measured_at, x.direction, x.row_count, x.byte_size, x.columns, x.partition_key,
                                    x.verdicts, x.run_id
                               FROM dataset_metrics x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.dataset_id
                                AND x.measured_at BETWEEN u.since AND u.until
                              ORDER BY x.measured_at
                              LIMIT 100) y
                      WHERE y.direction = 'profile'
                        AND y.run_id IS DISTINCT FROM u.run_id
                      ORDER BY y.measured_at
                      LIMIT 20) m
 ORDER BY u.place, m.measured_at;

-- name: list_earlier_measures
-- What was measured of datasets before given moments, the latest first.
SELECT u.place, m.measured_at, m.row_count, m.byte_size, m.columns, m.anomalous
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) WITH ORDINALITY
       AS u (dataset_id, direction, partition_key, at, place)
 CROSS JOIN LATERAL (SELECT y.*
                       FROM (SELECT x.measured_at, x.row_count, x.byte_size, x.columns, x.anomalous, x.direction,
                                    x.partition_key
                               FROM dataset_metrics x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.dataset_id
                                AND x.measured_at < u.at
                                AND x.measured_at > u.at - interval '30 days'
                              ORDER BY x.measured_at DESC
                              LIMIT 200) y
                      WHERE y.direction = u.direction
                        AND y.partition_key = u.partition_key
                      ORDER BY y.measured_at DESC
                      LIMIT 30) m
 ORDER BY u.place, m.measured_at DESC;

-- name: list_schema_changes
-- Changes of the schemas of datasets within given spans, the latest first.
SELECT u.place, v.version, v.columns_added, v.columns_removed, v.columns_type_changed, v.breaking, v.valid_from
  FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS u (dataset_id, since, until, place)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND x.valid_from > u.since
                        AND x.valid_from <= u.until
                        AND x.change_type <> 'INITIAL'
                      ORDER BY x.valid_from DESC
                      LIMIT 3) v
 ORDER BY u.place, v.valid_from DESC;

-- name: list_code_changes
-- The latest change of the code of jobs within given spans; not of jobs whose code changes all the time.
SELECT u.place, v.version, v.changed, v.code_version, v.seen_at
  FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS u (job_id, since, until, place)
 CROSS JOIN LATERAL (SELECT x.version, x.changed, x.code_version, x.seen_at
                       FROM job_versions x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.job_id
                        AND x.seen_at > u.since
                        AND x.seen_at <= u.until
                        AND x.changed <> '{}'
                      ORDER BY x.seen_at DESC
                      LIMIT 1) v
 WHERE NOT EXISTS (SELECT
                     FROM job_versions x
                    WHERE x.organization_id = $1
                      AND x.job_id = u.job_id
                      AND x.version = v.version - 5
                      AND x.seen_at > v.seen_at - interval '7 days');

-- name: list_failed_tests
-- Tests of severity error that failed on datasets within given spans.
SELECT u.place, t.name, t.column_name, t.test_key, t.observed_at
  FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS u (dataset_id, since, until, place)
 CROSS JOIN LATERAL (SELECT y.*
                       FROM (SELECT x.name, x.column_name, x.test_key, x.observed_at, x.status, x.severity
                               FROM test_results x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.dataset_id
                                AND x.observed_at BETWEEN u.since AND u.until
                              ORDER BY x.observed_at DESC
                              LIMIT 200) y
                      WHERE y.status IN ('failed', 'error')
                        AND y.severity = 'error'
                      LIMIT 20) t
 ORDER BY u.place, t.observed_at, t.test_key;

-- name: list_earlier_runs
-- Completed runs of jobs before given moments, the latest first: when they ended, and what they read.
SELECT u.place, r.ended_at, r.input_ids[1:200] AS input_ids
  FROM unnest($2::uuid[], $3::timestamptz[]) WITH ORDINALITY AS u (job_id, at, place)
 CROSS JOIN LATERAL (SELECT y.ended_at, y.input_ids, y.started_at
                       FROM (SELECT x.ended_at, x.input_ids, x.started_at, x.state, x.is_test
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = u.job_id
                                AND x.started_at <= u.at
                              ORDER BY x.started_at DESC
                              LIMIT 60) y
                      WHERE y.state = 'COMPLETE'
                        AND NOT y.is_test
                        AND y.ended_at <= u.at
                      ORDER BY y.started_at DESC
                      LIMIT 20) r
 ORDER BY u.place, r.started_at DESC;

-- name: list_node_runs
-- What nodes of pipelines set apart, and what the runs before them did.
SELECT n.run_id, n.project, n.pipeline, n.node, n.rows_in, n.rows_quarantined,
       ARRAY(SELECT x.rows_quarantined
               FROM node_runs x
              WHERE x.organization_id = $1
                AND x.project = n.project
                AND x.pipeline = n.pipeline
                AND x.node = n.node
                AND NOT x.handles_batch
                AND x.started_at < n.started_at
              ORDER BY x.started_at DESC
              LIMIT 10) AS earlier
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM node_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.id
                     OFFSET 0) n;
