-- name: list_anomalies
-- Anomalies in the order in which they were found, the latest first; what is NULL is not asked for.
SELECT a.*, d.namespace, d.name, d.display_name, d.type, j.namespace AS job_namespace, j.name AS known_job
  FROM page_of_anomalies($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) a
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = a.job_uuid
 ORDER BY a.detected_at DESC, a.id DESC;

-- name: get_anomaly
-- One anomaly.
SELECT a.*, d.namespace, d.name, d.display_name, d.type, j.namespace AS job_namespace, j.name AS known_job
  FROM anomalies a
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = a.job_uuid
 WHERE a.organization_id = $1
   AND a.id = $2;

-- name: lock_anomaly
-- The status of an anomaly that is about to change.
SELECT a.status, a.anomaly_type, a.dataset_id, a.run_id, a.metric, a.column_name, a.partition_key, a.observed_at,
       a.source
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.id = $2
   FOR UPDATE;

-- name: change_anomaly
-- Changes the status or the notes of an anomaly, and remembers who did.
UPDATE anomalies a
   SET status = $3,
       resolution_notes = CASE WHEN a.status IN ('RESOLVED', 'FALSE_POSITIVE')
                                AND $3 NOT IN ('RESOLVED', 'FALSE_POSITIVE') THEN NULL
                               ELSE coalesce($4, a.resolution_notes) END,
       resolved_at = CASE WHEN $3 NOT IN ('RESOLVED', 'FALSE_POSITIVE') THEN NULL
                          WHEN a.status = $3 THEN a.resolved_at ELSE now() END,
       resolved_by = CASE WHEN $3 NOT IN ('RESOLVED', 'FALSE_POSITIVE') THEN NULL
                          WHEN a.status = $3 THEN a.resolved_by ELSE $5 END,
       changes = with_change(a.changes, $5, a.status, $3, $4),
       updated_at = now()
 WHERE a.organization_id = $1
   AND a.id = $2;

-- name: set_outside
-- Takes a metric of a measurement out of what is usual, or puts it back; out only if it was judged so.
UPDATE dataset_metrics m
   SET anomalous = CASE WHEN $7::boolean THEN array_append(array_remove(m.anomalous, $6), $6)
                        ELSE array_remove(m.anomalous, $6) END
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND m.measured_at = $3
   AND m.run_id = $4
   AND m.partition_key = $5
   AND (NOT $7 OR m.verdicts -> $6 ->> 'state' IN ('anomalous', 'new_level', 'expected'));

-- name: set_run_outside
-- The same for what was judged of a run itself.
UPDATE job_runs r
   SET anomalous = CASE WHEN $4::boolean THEN array_append(array_remove(r.anomalous, $3), $3)
                        ELSE array_remove(r.anomalous, $3) END
 WHERE r.organization_id = $1
   AND r.run_id = $2
   AND (NOT $4 OR r.verdicts -> $3 ->> 'state' IN ('anomalous', 'new_level', 'expected'));

-- name: count_anomalies
-- How many were found since a time, by day, type, severity and status.
SELECT date_trunc('day', a.detected_at, 'UTC') AS day, a.anomaly_type, a.severity, a.status, count(*) AS count
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.detected_at >= $2
 GROUP BY 1, 2, 3, 4;

-- name: count_open
-- How many are open, and how many were found lately.
SELECT (SELECT count(*)
          FROM anomalies a
         WHERE a.organization_id = $1
           AND a.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')) AS open,
       (SELECT count(*)
          FROM anomalies a
         WHERE a.organization_id = $1
           AND a.detected_at >= now() - interval '24 hours') AS last_24h,
       (SELECT count(*)
          FROM anomalies a
         WHERE a.organization_id = $1
           AND a.detected_at >= now() - interval '7 days') AS last_7d;

-- name: delete_closed_anomalies
-- One batch of what was closed and not changed since a time, unless it is part of an incident that goes on.
DELETE FROM anomalies a
 WHERE a.organization_id = $1
   -- Somebody may open one again meanwhile.
   AND a.status IN ('RESOLVED', 'FALSE_POSITIVE')
   AND a.updated_at < $2
   AND a.id = ANY (ARRAY(SELECT o.id
                           FROM unnest(ARRAY['RESOLVED', 'FALSE_POSITIVE']) AS s (status)
                          CROSS JOIN LATERAL (SELECT x.id
                                                FROM anomalies x
                                               WHERE x.organization_id = $1
                                                 AND x.status = s.status
                                                 AND x.detected_at < $2
                                                 AND x.updated_at < $2
                                                 AND NOT EXISTS (SELECT
                                                                   FROM incidents i
                                                                  WHERE i.organization_id = $1
                                                                    AND i.id = x.incident_id
                                                                    AND i.status <> 'resolved')
                                               ORDER BY x.detected_at
                                               LIMIT $3) o
                          LIMIT $3));
