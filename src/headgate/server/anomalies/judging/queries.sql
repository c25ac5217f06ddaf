-- name: hold_names
-- Keeps datasets from being merged away until the transaction ends.
SELECT pg_advisory_xact_lock_shared(merge_lock($1));

-- name: hold_series
-- Lets nobody else judge series of these jobs and datasets until the transaction ends: verdicts follow from those before.
SELECT
       -- Of very many the whole organisation at once: there is not room for any number of locks.
       CASE WHEN cardinality($2::uuid[]) > 1000
            THEN pg_advisory_xact_lock(hashtextextended(concat('headgate.series:', $1::uuid), 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended(concat('headgate.series:', $1::uuid), 0)) END
UNION ALL
SELECT pg_advisory_xact_lock(u.key)
  -- In the same order for all.
  FROM (SELECT DISTINCT hashtextextended(concat('headgate.series:', $1::uuid, x.id), 0) AS key
          FROM unnest($2::uuid[]) AS x (id)
         WHERE cardinality($2::uuid[]) <= 1000
         ORDER BY key) u;

-- name: get_waiting_since
-- Since when others have waited to be judged, of those that were never tried in vain; NULL if nobody does.
SELECT
       -- Tasks are not numbered quite in the order of time.
       min(t.created_at) - interval '1 minute'
  FROM unnest(ARRAY['PENDING', 'RUNNING']) AS s (status)
 CROSS JOIN LATERAL (SELECT x.created_at
                       FROM async_task x
                      WHERE x.organization_id = $1
                        AND x.status = s.status
                        AND x.task_type = 'DETECT'
                        AND x.retry_count = 0
                        AND NOT x.resource_id = ANY ($2::text[])
                      ORDER BY x.id
                      LIMIT 1) t;

-- name: list_waiting
-- What was measured before in the same series, counts, and waits to be judged; not by these runs.
SELECT
       -- What came in before anything has waited is history that nobody judges. What was set apart while its run went on
       -- waits again once that has ended.
       m.dataset_id, m.measured_at, m.run_id, m.direction, m.partition_key, m.job_id, m.row_count, m.byte_size,
       m.columns, 'run' = ANY (m.anomalous) AS is_apart
  FROM unnest($4::uuid[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[], $9::timestamptz[])
       AS u (dataset_id, direction, partition_key, job_id, since, until)
 CROSS JOIN (SELECT o.tenant_id FROM organizations o WHERE o.id = $1) o
 CROSS JOIN LATERAL (SELECT y.*
                       FROM ((SELECT x.*
                                FROM dataset_metrics x
                               WHERE u.partition_key = ''
                                 AND x.organization_id = $1
                                 AND x.dataset_id = u.dataset_id
                                 AND x.measured_at BETWEEN u.since AND u.until
                               ORDER BY x.measured_at DESC
                               LIMIT 20000)
                             UNION ALL
                             (SELECT x.*
                                FROM dataset_metrics x
                               WHERE u.partition_key <> ''
                                 AND x.organization_id = $1
                                 AND x.dataset_id = u.dataset_id
                                 AND x.partition_key = u.partition_key
                                 AND x.partition_key <> ''
                                 AND x.direction = u.direction
                                 AND x.measured_at BETWEEN u.since AND u.until
                               ORDER BY x.measured_at DESC
                               LIMIT 20000)) y
                      WHERE y.direction = u.direction
                        AND y.partition_key = u.partition_key
                        AND (u.partition_key <> '' OR y.job_id IS NOT DISTINCT FROM u.job_id)
                        AND (y.verdicts IS NULL AND y.created_at >= $2 OR 'run' = ANY (y.anomalous))
                        AND NOT y.run_id = ANY ($3::uuid[])
                        AND EXISTS (SELECT
                                      FROM (SELECT t.status, t.retry_count
                                              FROM async_task t
                                             WHERE t.organization_id = $1
                                               AND t.tenant_id = o.tenant_id
                                               AND (t.resource_type, t.resource_id) = (
                                                     CASE y.run_id WHEN '00000000-0000-0000-0000-000000000000'
                                                                   THEN 'DATASET' ELSE 'RUN' END,
                                                     CASE y.run_id WHEN '00000000-0000-0000-0000-000000000000'
                                                                   THEN y.dataset_id ELSE y.run_id END::text)
                                               AND t.task_type = 'DETECT'
                                            OFFSET 0) t
                                     WHERE t.status IN ('PENDING', 'RUNNING')
                                       AND t.retry_count = 0
                                    OFFSET 0)
                        AND coalesce((SELECT r.state
                                        FROM job_runs r
                                       WHERE r.organization_id = $1
                                         AND r.run_id = y.run_id), 'COMPLETE') IN ('COMPLETE', 'OTHER')
                      LIMIT $10) m
 LIMIT $10;

-- name: list_waiting_runs
-- Runs of the same jobs that began before and wait to be judged, some of them again; not these.
SELECT r.run_id, r.job_id, r.started_at, r.verdicts IS NOT NULL AS is_judged
  FROM unnest($4::uuid[], $5::timestamptz[], $6::timestamptz[]) AS u (job_id, since, until)
 CROSS JOIN (SELECT o.tenant_id FROM organizations o WHERE o.id = $1) o
 CROSS JOIN LATERAL (SELECT y.*
                       FROM (SELECT x.run_id, x.job_id, x.started_at, x.updated_at, x.verdicts
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = u.job_id
                                AND x.started_at BETWEEN u.since AND u.until
                              ORDER BY x.started_at DESC
                              LIMIT 2000) y
                      WHERE y.updated_at >= $2
                        AND NOT y.run_id = ANY ($3::uuid[])
                        AND EXISTS (SELECT
                                      FROM (SELECT t.status, t.retry_count
                                              FROM async_task t
                                             WHERE t.organization_id = $1
                                               AND t.tenant_id = o.tenant_id
                                               AND t.resource_id = y.run_id::text
                                               AND t.resource_type = 'RUN'
                                               AND t.task_type = 'DETECT'
                                            OFFSET 0) t
                                     WHERE t.status IN ('PENDING', 'RUNNING')
                                       AND t.retry_count = 0
                                    OFFSET 0)
                      LIMIT $7) r
 LIMIT $7;

-- name: list_judged_runs
-- The runs that are to be judged, each with how long it took and what it wrote.
SELECT r.run_id, r.job_id, r.state, r.started_at, r.ended_at, r.is_test, r.output_ids, j.name AS job_name,
       upper(coalesce(r.processing_type, j.processing_type, '')) = 'STREAMING' AS is_streaming,
       CASE WHEN r.start_at IS NOT NULL OR r.ended_at > r.started_at
            THEN greatest(extract(epoch FROM r.ended_at - r.started_at) * 1000, 0)::float8 END AS duration_ms
  FROM unnest($2::uuid[]) AS u (run_id)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT x.name, x.processing_type
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j;

-- name: list_measurements
-- What these runs measured of what they wrote, and what they saw in what they read.
SELECT m.dataset_id, m.measured_at, m.run_id, m.direction, m.partition_key, m.job_id, m.row_count, m.byte_size,
       m.columns, 'run' = ANY (m.anomalous) AS is_apart
  FROM unnest($2::uuid[]) AS u (run_id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.started_at, x.running_at, x.other_at, x.ended_at, x.last_event_at, x.input_ids,
                            x.output_ids
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT DISTINCT d.id
                       FROM unnest(r.output_ids[1:1000] || r.input_ids[1:1000]) AS d (id)) d
 CROSS JOIN LATERAL (SELECT x.*
                       FROM dataset_metrics x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                        AND x.measured_at BETWEEN least(r.started_at, r.running_at, r.other_at, r.ended_at)
                                              AND r.last_event_at
                        AND x.run_id = r.run_id
                        AND x.direction <> 'input'
                     OFFSET 0) m;

-- name: list_runless
-- What was measured of these datasets by no run since somebody asked to judge it, and is not judged yet.
SELECT m.dataset_id, m.measured_at, m.run_id, m.direction, m.partition_key, m.job_id, m.row_count, m.byte_size,
       m.columns, false AS is_apart
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (dataset_id, asked_at)
 CROSS JOIN LATERAL (SELECT y.*
                       FROM (SELECT x.*
                               FROM dataset_metrics x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = surviving_dataset($1, u.dataset_id)
                              ORDER BY x.measured_at DESC
                              LIMIT 20000) y
                      WHERE y.run_id = '00000000-0000-0000-0000-000000000000'
                        AND y.direction <> 'input'
                        AND y.verdicts IS NULL
                        -- What came in before is history that nobody judges; both are of one transaction.
                        AND y.created_at > u.asked_at - interval '5 minutes'
                      LIMIT 1000) m;

-- name: list_baselines
-- What was measured before, latest first: of the same dataset and partition or, where there is none, by the same job.
SELECT
       -- Partitions have an index of their own: a dataset may have very many.
       -- Of what has just come in and was not judged yet the run is looked at: it may go on, or not have ended well.
       -- Earlier measurements count as they are marked, and history that nobody ever judged counts whatever is known
       -- of its runs.
       u.place, h.times, h.row_counts, h.byte_sizes, h.anomalous, h.columns
  FROM unnest($2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[],
              $9::integer[])
       WITH ORDINALITY AS u (dataset_id, at, run_id, direction, partition_key, job_id, since, most, place)
 CROSS JOIN LATERAL (SELECT array_agg(z.measured_at) AS times, array_agg(z.row_count) AS row_counts,
                            array_agg(z.byte_size) AS byte_sizes,
                            array_agg(array_to_string(z.anomalous, E'\x1f')) AS anomalous,
                            CASE WHEN u.most < 1000 THEN array_agg(z.columns) END AS columns
                       FROM (SELECT y.*
                               FROM ((SELECT x.measured_at, x.run_id, x.direction, x.partition_key, x.job_id,
                                             x.row_count, x.byte_size, x.columns, x.anomalous,
                                             x.verdicts IS NOT NULL OR x.created_at < now() - interval '1 minute'
                                               AS is_settled
                                        FROM dataset_metrics x
                                       WHERE u.partition_key = ''
                                         AND x.organization_id = $1
                                         AND x.dataset_id = u.dataset_id
                                         AND x.measured_at BETWEEN u.since AND u.at
                                       ORDER BY x.measured_at DESC
                                       LIMIT 20000)
                                     UNION ALL
                                     (SELECT x.measured_at, x.run_id, x.direction, x.partition_key, x.job_id,
                                             x.row_count, x.byte_size, x.columns, x.anomalous,
                                             x.verdicts IS NOT NULL OR x.created_at < now() - interval '1 minute'
                                        FROM dataset_metrics x
                                       WHERE u.partition_key <> ''
                                         AND x.organization_id = $1
                                         AND x.dataset_id = u.dataset_id
                                         AND x.partition_key = u.partition_key
                                         AND x.partition_key <> ''
                                         AND x.direction = u.direction
                                         AND x.measured_at BETWEEN u.since AND u.at
                                       ORDER BY x.measured_at DESC
                                       LIMIT 20000)) y
                              WHERE y.direction = u.direction
                                AND y.partition_key = u.partition_key
                                AND (u.partition_key <> '' OR y.job_id IS NOT DISTINCT FROM u.job_id)
                                AND (y.run_id <> u.run_id
                                     OR (y.run_id = '00000000-0000-0000-0000-000000000000' AND y.measured_at < u.at))
                                AND NOT 'run' = ANY (y.anomalous)
                                AND (y.is_settled
                                     OR coalesce((SELECT r.state
                                                    FROM job_runs r
                                                   WHERE r.organization_id = $1
                                                     AND r.run_id = y.run_id), 'COMPLETE') IN ('COMPLETE', 'OTHER'))
                              LIMIT u.most) z) h;

-- name: list_earlier_durations
-- How long completed runs of the same job took before these, latest first.
SELECT u.place, h.times, h.durations, h.anomalous
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[])
       WITH ORDINALITY AS u (job_id, run_id, started_at, since, place)
 CROSS JOIN LATERAL (SELECT array_agg(z.ended_at) AS times, array_agg(z.duration_ms) AS durations,
                            array_agg(array_to_string(z.anomalous, E'\x1f')) AS anomalous
                       FROM (SELECT y.ended_at, y.anomalous,
                                    greatest(extract(epoch FROM y.ended_at - y.started_at) * 1000, 0)::float8
                                      AS duration_ms
                               FROM (SELECT x.run_id, x.state, x.start_at, x.started_at, x.ended_at, x.is_test,
                                            x.anomalous
                                       FROM job_runs x
                                      WHERE x.organization_id = $1
                                        AND x.job_id = u.job_id
                                        AND x.started_at BETWEEN u.since AND u.started_at
                                      ORDER BY x.started_at DESC
                                      LIMIT 2000) y
                              WHERE y.state = 'COMPLETE'
                                AND y.run_id <> u.run_id
                                AND NOT y.is_test
                                AND (y.start_at IS NOT NULL OR y.ended_at > y.started_at)
                              LIMIT 1000) z) h;

-- name: list_quarantined
-- What nodes of pipelines set apart in these runs, with what they set apart before, latest first.
SELECT n.run_id, n.ended_at, n.project, n.pipeline, n.node, n.rows_quarantined, n.output_urn, h.times, h.counts,
       h.anomalous
  FROM unnest($2::uuid[]) AS u (run_id)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM node_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                        AND NOT x.handles_batch
                        AND x.status IN ('published', 'stopped')
                        AND x.ended_at IS NOT NULL
                     OFFSET 0) n
 CROSS JOIN LATERAL (SELECT array_agg(z.ended_at) AS times, array_agg(z.rows_quarantined) AS counts,
                            array_agg(array_to_string(r.anomalous, E'\x1f')) AS anomalous
                       FROM (SELECT y.run_id, y.ended_at, y.rows_quarantined
                               FROM (SELECT x.run_id, x.ended_at, x.rows_quarantined, x.status
                                       FROM node_runs x
                                      WHERE x.organization_id = $1
                                        AND x.project = n.project
                                        AND x.pipeline = n.pipeline
                                        AND x.node = n.node
                                        AND x.started_at BETWEEN n.started_at - interval '366 days' AND n.started_at
                                        AND NOT x.handles_batch
                                      ORDER BY x.started_at DESC
                                      LIMIT 1000) y
                              WHERE y.run_id <> n.run_id
                                AND y.status IN ('published', 'stopped')
                                AND y.ended_at IS NOT NULL
                              LIMIT 500) z
                      CROSS JOIN LATERAL (SELECT x.anomalous
                                            FROM job_runs x
                                           WHERE x.organization_id = $1
                                             AND x.run_id = z.run_id
                                          OFFSET 0) r) h;

-- name: list_schema_changes
-- These versions of schemas; the first of a dataset is no change.
SELECT v.id, v.dataset_id, v.run_id, v.job_id, v.version, v.change_type, v.breaking, v.description, v.valid_from,
       v.columns_added, v.columns_removed, v.columns_type_changed, j.name AS job_name, v.fields,
       b.fields AS fields_before
  FROM unnest($2::uuid[], $3::uuid[]) AS u (dataset_id, id)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = surviving_dataset($1, u.dataset_id)
                        AND x.id = u.id
                        AND x.change_type <> 'INITIAL'
                     OFFSET 0) v
 CROSS JOIN LATERAL (SELECT x.fields
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = v.dataset_id
                        AND (x.valid_from, x.version) < (v.valid_from, v.version)
                      ORDER BY x.valid_from DESC, x.version DESC
                      LIMIT 1) b
  LEFT JOIN LATERAL (SELECT x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = v.job_id
                     OFFSET 0) j ON true;

-- name: list_open_changes
-- The versions of these datasets whose change was told and is not over, the latest.
SELECT v.id, v.dataset_id, v.valid_from, v.breaking, b.fields AS fields_before
  FROM unnest($2::uuid[]) AS u (dataset_id)
 CROSS JOIN LATERAL (SELECT (x.metadata ->> 'version_id')::uuid AS version_id
                       FROM anomalies x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND x.anomaly_type = 'SchemaChange'
                        AND x.source = 'detector'
                        AND x.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')
                      ORDER BY x.detected_at DESC
                      LIMIT 20) a
 CROSS JOIN LATERAL (SELECT x.*
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND x.id = a.version_id
                     OFFSET 0) v
 CROSS JOIN LATERAL (SELECT x.fields
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND (x.valid_from, x.version) < (v.valid_from, v.version)
                      ORDER BY x.valid_from DESC, x.version DESC
                      LIMIT 1) b;

-- name: end_changes
-- Closes what was told of versions of schemas, for a reason; the ids of what was open.
UPDATE anomalies a
   SET status = 'RESOLVED',
       resolved_at = now(),
       resolved_by = 'headgate',
       resolution_notes = $4,
       changes = with_change(a.changes, 'headgate', a.status, 'RESOLVED', $4),
       updated_at = now()
 WHERE a.organization_id = $1
   AND a.dataset_id = ANY ($2::uuid[])
   AND a.anomaly_type = 'SchemaChange'
   AND a.source = 'detector'
   AND a.occasion = ANY ($3::text[])
   AND a.status NOT IN ('RESOLVED', 'FALSE_POSITIVE')
RETURNING a.id;

-- name: list_told
-- Anomalies of metrics that were told of these runs before.
SELECT a.id, a.dataset_id, a.run_id, a.metric, a.column_name, a.partition_key, a.anomaly_type, a.status
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.run_id = ANY ($2::uuid[])
   AND a.source = 'detector'
   AND a.metric IS NOT NULL;

-- name: store_verdicts
-- Keeps verdicts with the measurements and runs that they are on.
SELECT store_verdicts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: upsert_anomalies
-- Keeps what was found; gives the ids of what is new or says something else now, and whether it is new or open again.
INSERT INTO anomalies AS a (organization_id, dataset_id, job_uuid, run_id, anomaly_type, severity, metric, column_name,
                            partition_key, observed_at, expected_value, actual_value, deviation_score, job_id, job_name,
                            description, metadata, occasion, source)
SELECT $1, u.dataset_id, u.job_id, u.run_id, u.type, u.severity, u.metric, u.column_name, u.partition_key, u.observed_at,
       u.expected::jsonb, u.actual::jsonb, (CASE WHEN u.score IS NOT NULL THEN least(greatest(u.score, -9999999999), 9999999999) END)::numeric(14, 4),
       u.job_id::text, u.job_name, u.description, u.metadata::jsonb, u.occasion, 'detector'
  FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::timestamptz[], $11::text[], $12::text[], $13::float8[], $14::text[], $15::text[], $16::text[],
              $17::text[])
       AS u (dataset_id, job_id, run_id, type, severity, metric, column_name, partition_key, observed_at, expected,
             actual, score, job_name, description, metadata, occasion)
ON CONFLICT (organization_id, coalesce(dataset_id, '00000000-0000-0000-0000-000000000000'),
             coalesce(run_id, '00000000-0000-0000-0000-000000000000'), anomaly_type, coalesce(column_name, ''),
             md5(partition_key), occasion) DO UPDATE
   SET severity = EXCLUDED.severity,
       observed_at = EXCLUDED.observed_at,
       expected_value = EXCLUDED.expected_value,
       actual_value = EXCLUDED.actual_value,
       deviation_score = EXCLUDED.deviation_score,
       description = EXCLUDED.description,
       metadata = EXCLUDED.metadata,
       -- What was withdrawn is so again; what anybody has closed for another reason stays closed.
       status = CASE WHEN is_withdrawn(a) THEN 'OPEN' ELSE a.status END,
       resolved_at = CASE WHEN NOT is_withdrawn(a) THEN a.resolved_at END,
       resolved_by = CASE WHEN NOT is_withdrawn(a) THEN a.resolved_by END,
       resolution_notes = CASE WHEN NOT is_withdrawn(a) THEN a.resolution_notes END,
       changes = CASE WHEN is_withdrawn(a)
                      THEN with_change(a.changes, 'headgate', a.status, 'OPEN',
                                       'the run was measured again, and the value is out of the ordinary')
                      ELSE a.changes END,
       updated_at = now()
 WHERE a.source = 'detector'
   AND (is_withdrawn(a)
        OR (a.severity, a.observed_at, a.actual_value, a.description) IS DISTINCT FROM
           (EXCLUDED.severity, EXCLUDED.observed_at, EXCLUDED.actual_value, EXCLUDED.description))
RETURNING a.id, a.xmax = 0 AS is_new,
          a.status = 'OPEN' AND coalesce((a.changes -> -1 ->> 'at')::timestamptz = now(), false) AS is_again;

-- name: withdraw_anomalies
-- Closes what was told of a value that has been measured again since, and is not out of the ordinary.
UPDATE anomalies a
   SET status = 'RESOLVED',
       resolved_at = now(),
       resolved_by = 'headgate',
       resolution_notes = withdrawn_note(),
       changes = with_change(a.changes, 'headgate', a.status, 'RESOLVED', withdrawn_note()),
       updated_at = now()
 WHERE a.organization_id = $1
   AND a.id = ANY ($2::uuid[])
   AND a.status NOT IN ('RESOLVED', 'FALSE_POSITIVE');

-- name: note_writes
-- Remembers that datasets were written: the next write is waited for, and none of them is stale.
SELECT note_writes($1, $2, $3);

-- name: list_open_symptoms
-- Which of these jobs and datasets an incident waits for.
SELECT s.dataset_id, s.job_id
  FROM incident_symptoms s
 WHERE s.organization_id = $1
   AND s.cleared_at IS NULL
   AND (s.dataset_id = ANY ($2::uuid[]) OR s.job_id = ANY ($3::uuid[]))
 LIMIT 10000;

-- name: list_overtaken_runs
-- Runs that are heard of after something was observed, within a day after they had ended, that is still open.
SELECT u.run_id
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (run_id, at)
 WHERE EXISTS (SELECT
                 FROM incident_symptoms s
                WHERE s.organization_id = $1
                  AND s.cleared_at IS NULL
                  AND s.observed_at > u.at
                  AND s.observed_at < u.at + interval '24 hours');

-- name: list_rules
-- How an organisation wants its series to be judged, the oldest rule first: of two that say as much, that one counts.
SELECT p.dataset_id, p.pattern, p.metric, p.id, p.enabled, p.method, p.sigma, p.min_points, p.window_days,
       p.drop_share, p.floor_share, p.seasonality, p.small_sample, p.spike_severity, p.drop_severity
  FROM detection_policies p
 WHERE p.organization_id = $1
 ORDER BY p.created_at, p.id
 LIMIT 10000;

-- name: list_names
-- What these datasets are called.
SELECT d.id, d.namespace, d.name, d.display_name
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.id = ANY ($2::uuid[]);

-- name: list_marks_of
-- What people expect of these datasets, but for what was over before a time.
SELECT m.dataset_id, m.metric, m.column_name, m.partition_key, m.kind, m.at, m.weekday, m.until, m.side
  FROM expected_marks m
 WHERE m.organization_id = $1
   AND m.dataset_id = ANY ($2::uuid[])
   AND (m.kind = 'weekday' OR coalesce(m.until, m.at) >= $3)
 LIMIT 10000;
