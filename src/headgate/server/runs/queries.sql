-- name: list_runs
-- These runs, in the order given.
SELECT r.run_id, r.state, r.start_at, r.started_at, r.ended_at, r.last_event_at, r.parent_run_id, r.root_run_id,
       r.application_id, r.partition_context, r.processing_type, r.is_test, r.error, r.producer, e.event_count, j.id AS job_id,
       j.namespace AS job_namespace, j.name AS job_name, j.processing_type AS job_processing_type
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (run_id, place)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.processing_type
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j
 CROSS JOIN LATERAL (SELECT count(*) AS event_count
                       FROM lineage_events x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                        AND x.outcome = 'accepted') e
 ORDER BY u.place;

-- name: list_durations
-- How long the last completed runs of these jobs took, as far as more than their end is known.
SELECT j.id, d.completed, d.p99_s, d.mean_log, d.stddev_log
  FROM unnest($2::uuid[]) AS j (id)
 CROSS JOIN LATERAL (SELECT count(*) AS completed,
                            percentile_cont(0.99) WITHIN GROUP (ORDER BY y.duration_s) AS p99_s,
                            avg(ln(greatest(y.duration_s, 1))) AS mean_log,
                            stddev_samp(ln(greatest(y.duration_s, 1))) AS stddev_log
                       FROM (SELECT extract(epoch FROM greatest(x.ended_at - x.started_at, '0'))::float8 AS duration_s
                               FROM (SELECT w.state, w.start_at, w.started_at, w.ended_at
                                       FROM job_runs w
                                      WHERE w.organization_id = $1
                                        AND w.job_id = j.id
                                      ORDER BY w.started_at DESC
                                      LIMIT 1000) x
                              WHERE x.state = 'COMPLETE'
                                AND (x.start_at IS NOT NULL OR x.ended_at > x.started_at)
                              LIMIT 200) y) d;

-- name: find_jobs_like
-- Jobs whose names hold a text, if they are few.
SELECT j.id
  FROM jobs j
 WHERE j.organization_id = $1
   AND strpos(lower(j.name), lower($2)) > 0
 LIMIT $3;

-- name: get_run
-- What one run has that a list does not show.
SELECT r.start_at, r.running_at, r.complete_at, r.fail_at, r.abort_at, r.other_at, r.ended_at, r.last_activity_at,
       cardinality(r.input_ids) AS input_count, cardinality(r.output_ids) AS output_count,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'namespace', o.namespace, 'name', o.name)
                                  ORDER BY o.namespace, o.name), '[]')
          FROM unnest(r.job_ids) AS k (id)
         CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                               FROM jobs x
                              WHERE x.organization_id = $1
                                AND x.id = k.id
                             OFFSET 0) o
         WHERE k.id <> r.job_id) AS other_jobs
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_run_datasets
-- What the run read and wrote, up to $3 of each, with the row counts it reported, over all partitions.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, u.role, m.row_count, m.byte_size, m.file_count
  FROM job_runs r
 CROSS JOIN LATERAL (SELECT i.id, 'input' AS role FROM unnest(r.input_ids[1:$3]) AS i (id)
                     UNION ALL
                     SELECT o.id, 'output' FROM unnest(r.output_ids[1:$3]) AS o (id)) u
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT total_of(sum(x.row_count)) AS row_count, total_of(sum(x.byte_size)) AS byte_size,
                            total_of(sum(x.file_count)) AS file_count
                       FROM dataset_metrics x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                        AND x.measured_at BETWEEN least(r.started_at, r.running_at, r.other_at, r.ended_at)
                                              AND r.last_event_at
                        AND x.run_id = r.run_id
                        AND x.direction = u.role) m ON true
 WHERE r.organization_id = $1
   AND r.run_id = $2
 ORDER BY u.role, d.namespace, d.name;

-- name: list_parents
-- Runs above a run, nearest first; what is above a run that never sent an event is known only if the run itself says.
WITH RECURSIVE chain AS (
  SELECT r.parent_run_id AS run_id, r.parent_job AS job, 1 AS depth, ARRAY[r.run_id] AS below
    FROM job_runs r
   WHERE r.organization_id = $1
     AND r.run_id = $2
     AND r.parent_run_id IS NOT NULL
  UNION ALL
  SELECT p.parent_run_id, p.parent_job, c.depth + 1, c.below || c.run_id
    FROM chain c
   CROSS JOIN LATERAL (SELECT x.parent_run_id, x.parent_job
                         FROM job_runs x
                        WHERE x.organization_id = $1
                          AND x.run_id = c.run_id
                          AND NOT c.run_id = ANY (c.below)
                       OFFSET 0) p
   WHERE p.parent_run_id IS NOT NULL
     AND c.depth < $3
), above AS MATERIALIZED (
  SELECT c.run_id, c.job ->> 'namespace' AS namespace, c.job ->> 'name' AS name, c.depth
    FROM chain c
   WHERE NOT c.run_id = ANY (c.below)
  UNION ALL
  SELECT r.root_run_id, r.root_job ->> 'namespace', r.root_job ->> 'name', $3 + 1
    FROM job_runs r
   WHERE r.organization_id = $1
     AND r.run_id = $2
     AND r.root_run_id <> r.run_id
     AND NOT EXISTS (SELECT FROM chain c WHERE c.run_id = r.root_run_id)
)
SELECT a.run_id, p.state, p.started_at, p.ended_at, coalesce(j.id, n.id) AS job_id,
       coalesce(j.namespace, a.namespace) AS job_namespace, coalesce(j.name, a.name) AS job_name
  FROM above a
  LEFT JOIN LATERAL (SELECT x.job_id, x.state, x.started_at, x.ended_at
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = a.run_id
                     OFFSET 0) p ON true
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = p.job_id
                     OFFSET 0) j ON true
  LEFT JOIN LATERAL (SELECT x.id
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = a.namespace
                        AND x.name = a.name
                     OFFSET 0) n ON true
 ORDER BY a.depth;

-- name: list_children
-- Runs directly under these runs, by start, up to $4 of them, but for those in $3.
SELECT r.run_id, r.parent_run_id, r.state, r.start_at, r.started_at, r.ended_at, j.id AS job_id,
       j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT y.*
          FROM unnest($2::uuid[]) AS u (run_id)
         CROSS JOIN LATERAL (SELECT x.run_id, x.parent_run_id, x.job_id, x.state, x.start_at, x.started_at, x.ended_at
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.parent_run_id = u.run_id
                             OFFSET 0) y
         WHERE y.run_id <> ALL ($3::uuid[])
         ORDER BY y.started_at, y.run_id
         LIMIT $4) r
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j
 ORDER BY r.started_at, r.run_id;

-- name: count_children
-- How many runs directly under a run are in which state.
SELECT r.state, count(*) AS runs
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.parent_run_id = $2
   AND r.run_id <> $2
 GROUP BY r.state;

-- name: find_run
-- Whether there is this run.
SELECT EXISTS (SELECT
                 FROM job_runs r
                WHERE r.organization_id = $1
                  AND r.run_id = $2);

-- name: list_going_on
-- Of the newest $2 runs, how many have not ended, and the $3 of those that began first.
SELECT r.job_id, r.state, r.started_at, r.processing_type, r.running, j.processing_type AS job_processing_type
  FROM (SELECT y.*, count(*) OVER () AS running
          FROM (SELECT x.run_id, x.job_id, x.state, x.started_at, x.processing_type
                  FROM job_runs x
                 WHERE x.organization_id = $1
                 ORDER BY x.started_at DESC, x.run_id DESC
                 LIMIT $2) y
         WHERE y.state IN ('START', 'RUNNING')
         ORDER BY y.started_at, y.run_id
         LIMIT $3) r
 CROSS JOIN LATERAL (SELECT x.processing_type
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j;
