-- name: get_progress
-- How far the look for new runs has got.
SELECT w.runs_seen_until
  FROM watch_progress w
 WHERE w.organization_id = $1;

-- name: watch_new_runs
-- Notes runs that came in since the last look and go on, and gives how far it has got.
WITH came AS MATERIALIZED (
  -- So many, and those that came with the last of these.
  SELECT r.run_id, r.state, r.started_at, r.created_at
    FROM job_runs r
   WHERE r.organization_id = $1
     AND r.created_at > $2
     AND r.created_at <= $3
   ORDER BY r.created_at
   FETCH FIRST ($4::bigint) ROWS WITH TIES
), noted AS (
  INSERT INTO watched_runs (organization_id, run_id, due_at)
  SELECT $1, c.run_id, greatest(c.started_at, c.created_at - interval '1 day') + interval '10 minutes'
    FROM came c
   WHERE c.state IN ('START', 'RUNNING', 'OTHER')
   ORDER BY c.run_id
  ON CONFLICT (organization_id, run_id) DO NOTHING
)
SELECT count(*) AS runs, max(c.created_at) AS seen_until
  FROM came c;

-- name: set_progress
-- Notes how far the look for new runs has got.
INSERT INTO watch_progress (organization_id, runs_seen_until)
VALUES ($1, $2)
ON CONFLICT (organization_id) DO UPDATE
   SET runs_seen_until = EXCLUDED.runs_seen_until;

-- name: list_due_runs
-- Runs that may be overdue, those that have been so for longest first; not those that another worker looks at.
SELECT
       -- A run may not say what it writes before it ends: then it is what its job wrote last.
       w.run_id, r.job_id, r.state, r.started_at, r.created_at, r.processing_type, j.name AS job_name,
       j.processing_type AS job_processing_type, coalesce(r.output_ids[1], o.dataset_id) AS output_id
  FROM (SELECT x.run_id
          FROM watched_runs x
         WHERE x.organization_id = $1
           AND x.due_at <= $2
         ORDER BY x.due_at
         LIMIT $3
           FOR UPDATE SKIP LOCKED) w
  LEFT JOIN LATERAL (SELECT x.*
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = w.run_id
                     OFFSET 0) r ON true
  LEFT JOIN LATERAL (SELECT x.name, x.processing_type
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j ON true
  LEFT JOIN LATERAL (SELECT x.dataset_id
                       FROM job_datasets x
                       JOIN datasets d ON d.organization_id = $1 AND d.id = x.dataset_id AND d.merged_into IS NULL
                      WHERE x.organization_id = $1
                        AND x.job_id = r.job_id
                        AND x.role = 'output'
                      ORDER BY x.last_seen_at DESC, x.dataset_id
                      LIMIT 1) o ON r.output_ids[1] IS NULL;

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

-- name: put_off_runs
-- When to look at these runs again.
UPDATE watched_runs w
   SET due_at = u.due_at
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (run_id, due_at)
 WHERE w.organization_id = $1
   AND w.run_id = u.run_id;

-- name: forget_runs
-- Runs that have ended, or that were told of.
DELETE FROM watched_runs w
 WHERE w.organization_id = $1
   AND w.run_id = ANY ($2::uuid[]);

-- name: list_due_datasets
-- Datasets of which a write may be missing, with their latest writes; not those that another worker looks at.
SELECT w.dataset_id, w.since, d.first_seen_at, d.dropped_at IS NOT NULL AND is_gone($1, d.id, 'infinity') AS is_gone,
       f.sla_hours::float8 AS sla_hours, latest_writes($1, w.dataset_id) AS writes, j.job_id, j.job_name
  FROM (SELECT x.dataset_id, x.since
          FROM watched_datasets x
         WHERE x.organization_id = $1
           AND x.due_at <= $2
         ORDER BY x.due_at
         LIMIT $3
           FOR UPDATE SKIP LOCKED) w
 CROSS JOIN LATERAL (SELECT x.id, x.first_seen_at, x.dropped_at
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = w.dataset_id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT x.sla_hours
                       FROM freshness_sla x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = w.dataset_id
                     OFFSET 0) f ON true
  LEFT JOIN LATERAL (SELECT x.job_id, y.name AS job_name
                       FROM job_datasets x
                       JOIN jobs y ON y.organization_id = $1 AND y.id = x.job_id
                      WHERE x.organization_id = $1
                        AND x.dataset_id = w.dataset_id
                        AND x.role = 'output'
                      ORDER BY x.last_completed_at DESC NULLS LAST
                      LIMIT 1) j ON true;

-- name: end_missed
-- Closes what was told of writes that are not missing by what is asked now, unless there was one since.
UPDATE anomalies a
   SET status = 'RESOLVED',
       resolved_at = now(),
       resolved_by = 'headgate',
       resolution_notes = u.reason,
       changes = with_change(a.changes, 'headgate', a.status, 'RESOLVED', u.reason),
       -- If more is asked again, the same write is missing once more.
       occasion = concat(a.occasion, ' until ', now()),
       updated_at = now()
  FROM unnest($2::uuid[], $3::timestamptz[], $4::text[]) AS u (dataset_id, waits_since, reason)
 WHERE a.organization_id = $1
   AND a.dataset_id = u.dataset_id
   AND a.anomaly_type = 'FreshnessMissed'
   AND a.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')
   AND a.source = 'detector'
   AND coalesce(a.actual_value ->> 'last_write_at', a.actual_value ->> 'known_since')::timestamptz >= u.waits_since
RETURNING a.id, a.resolution_notes;

-- name: list_not_missed
-- Of which of these datasets a write was not missing any more when less was asked, and since when it was waited for.
SELECT DISTINCT a.dataset_id,
       coalesce(a.actual_value ->> 'last_write_at', a.actual_value ->> 'known_since') AS waits_since
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.dataset_id = ANY ($2::uuid[])
   AND a.anomaly_type = 'FreshnessMissed'
   AND a.status = 'RESOLVED'
   AND a.occasion LIKE '% until %';

-- name: put_off_datasets
-- When to look at these datasets again.
UPDATE watched_datasets w
   SET due_at = u.due_at::timestamptz
  FROM unnest($2::uuid[], $3::text[]) AS u (dataset_id, due_at)
 WHERE w.organization_id = $1
   AND w.dataset_id = u.dataset_id;

-- name: set_staleness
-- Keeps with each SLA when the dataset was last written, and whether that is too long ago.
UPDATE freshness_sla f
   SET last_updated_at = u.last_updated_at,
       is_stale = u.is_stale
  FROM unnest($2::uuid[], $3::timestamptz[], $4::boolean[]) AS u (dataset_id, last_updated_at, is_stale)
 WHERE f.organization_id = $1
   AND f.dataset_id = u.dataset_id
   AND (f.last_updated_at, f.is_stale) IS DISTINCT FROM (u.last_updated_at, u.is_stale);

-- name: set_freshness
-- How old a dataset may become, as a person says.
INSERT INTO freshness_sla AS f (organization_id, dataset_id, sla_hours, source, told_at)
VALUES ($1, $2, $3::float8::numeric, 'user', NULL)
ON CONFLICT (organization_id, dataset_id) DO UPDATE
   SET sla_hours = EXCLUDED.sla_hours,
       source = 'user',
       told_at = NULL;

-- name: delete_freshness
-- Lets a dataset become as old as it likes.
DELETE FROM freshness_sla
 WHERE organization_id = $1
   AND dataset_id = $2;

-- name: look_again
-- Has a dataset looked at in the next round.
SELECT watch_dataset($1, $2);

-- name: get_freshness
-- How old a dataset may become, and when it was written.
SELECT d.first_seen_at, f.sla_hours::float8 AS sla_hours, f.source, w.writes,
       f.sla_hours IS NULL
       AND EXISTS (SELECT
                     FROM anomalies a
                    WHERE a.organization_id = $1
                      AND a.dataset_id = d.id
                      AND a.anomaly_type = 'FreshnessMissed'
                      AND a.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')
                      AND a.metadata ->> 'by' IS DISTINCT FROM 'sla'
                      AND coalesce((a.actual_value ->> 'last_write_at')::timestamptz, a.observed_at)
                          >= coalesce(w.writes[cardinality(w.writes)], '-infinity')) AS is_overdue
  FROM datasets d
 CROSS JOIN LATERAL (SELECT latest_writes($1, d.id) AS writes OFFSET 0) w
  LEFT JOIN freshness_sla f ON f.organization_id = $1 AND f.dataset_id = d.id
 WHERE d.organization_id = $1
   AND d.id = $2;

-- name: get_earlier
-- Which part of the log is still to be read for anomalies.
SELECT e.read_until, e.last_id
  FROM earlier_anomalies e
 WHERE e.organization_id = $1;

-- name: list_earlier_events
-- The next events of that part; of those that cannot tell of anomalies only the id.
SELECT e.id, e.event_time, e.received_at, e.run_id, e.job_id,
       CASE WHEN e.producer LIKE '%/simple' THEN e.raw END AS raw
  FROM lineage_events e
 WHERE e.organization_id = $1
   AND e.id > $2
   AND e.id <= $3
   AND e.outcome = 'accepted'
 ORDER BY e.id
 LIMIT $4;

-- name: store_earlier_anomalies
-- Keeps what clients have told.
SELECT store_client_anomalies($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: set_earlier
-- Notes how far the log was read.
UPDATE earlier_anomalies
   SET read_until = $2
 WHERE organization_id = $1;

-- name: forget_earlier
-- Everything was read.
DELETE FROM earlier_anomalies
 WHERE organization_id = $1;
