-- name: list_passed_symptoms
-- Open symptoms of tests that a run (of a dataset, without a run) has seen pass.
SELECT s.id
  FROM (SELECT x.dataset_id, x.test_key
          FROM test_results x
         WHERE x.organization_id = $1
           AND x.run_id = $2
           AND ($3::uuid IS NULL OR x.dataset_id = $3)
           AND x.status = 'passed'
         LIMIT 10000) t
 CROSS JOIN LATERAL (SELECT x.id
                       FROM incident_symptoms x
                      WHERE x.organization_id = $1
                        AND x.key = concat('test:', t.dataset_id, ':', t.test_key)
                        AND x.cleared_at IS NULL
                     OFFSET 0) s;

-- name: lock_anomalies
-- Some anomalies, for this transaction alone, always in the same order.
SELECT a.id
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.id = ANY ($2::uuid[])
 ORDER BY a.id
   FOR NO KEY UPDATE;

-- name: resolve_anomalies
-- Anomalies that are well again, each for its reason.
UPDATE anomalies a
   SET status = 'RESOLVED',
       resolved_at = now(),
       resolved_by = $4,
       resolution_notes = u.reason,
       changes = with_change(a.changes, $4, a.status, 'RESOLVED', u.reason),
       updated_at = now()
  FROM unnest($2::uuid[], $3::text[]) AS u (id, reason)
 WHERE a.organization_id = $1
   AND a.id = u.id
   AND a.status IN ('OPEN', 'ALERTED', 'ACKNOWLEDGED');

-- name: resolve_anomalies_of
-- Incidents that ended take what is left of their anomalies with them, each for its reason.
UPDATE anomalies a
   SET status = 'RESOLVED',
       resolved_at = now(),
       resolved_by = $4,
       resolution_notes = u.reason,
       changes = with_change(a.changes, $4, a.status, 'RESOLVED', u.reason),
       updated_at = now()
  FROM unnest($2::uuid[], $3::text[]) AS u (incident_id, reason)
 WHERE a.organization_id = $1
   AND a.incident_id = u.incident_id
   AND a.status IN ('OPEN', 'ALERTED', 'ACKNOWLEDGED');

-- name: reopen_anomalies
-- An incident that goes on takes the anomalies of its open symptoms with it; a false alarm stays one.
UPDATE anomalies a
   SET status = 'OPEN',
       resolved_at = NULL,
       resolved_by = NULL,
       resolution_notes = NULL,
       changes = with_change(a.changes, $4, a.status, 'OPEN', $3),
       updated_at = now()
  FROM incident_symptoms s
 WHERE s.organization_id = $1
   AND s.incident_id = $2
   AND s.cleared_at IS NULL
   AND a.organization_id = $1
   AND a.id = s.anomaly_id
   AND a.status = 'RESOLVED';

-- name: list_open_symptoms
-- Open symptoms on a job or on some datasets.
(SELECT s.id
   FROM incident_symptoms s
  WHERE s.organization_id = $1
    AND s.job_id = $2
    AND s.cleared_at IS NULL
  LIMIT 1000)
UNION
(SELECT s.id
   FROM incident_symptoms s
  WHERE s.organization_id = $1
    AND s.dataset_id = ANY ($3::uuid[])
    AND s.cleared_at IS NULL
  LIMIT 1000);

-- name: list_some_open_symptoms
-- The oldest and the newest of the open symptoms, so many of each.
(SELECT s.id
   FROM incident_symptoms s
  WHERE s.organization_id = $1
    AND s.cleared_at IS NULL
  ORDER BY s.created_at
  LIMIT $2)
UNION
(SELECT s.id
   FROM incident_symptoms s
  WHERE s.organization_id = $1
    AND s.cleared_at IS NULL
  ORDER BY s.created_at DESC
  LIMIT $2);

-- name: list_symptoms_of_anomaly
-- Open symptoms that an anomaly is.
SELECT s.id
  FROM anomalies a
 CROSS JOIN LATERAL (SELECT x.id
                       FROM incident_symptoms x
                      WHERE x.organization_id = $1
                        AND x.incident_id = a.incident_id
                        AND x.anomaly_id = a.id
                        AND x.cleared_at IS NULL
                     OFFSET 0) s
 WHERE a.organization_id = $1
   AND a.id = $2;

-- name: find_ends
-- Symptoms that are well again, since when, and how that is known.
SELECT s.id, s.incident_id, s.anomaly_id, e.at, e.reason
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 CROSS JOIN LATERAL (SELECT greatest(s.last_observed_at, i.reopened_at) AS at) a
 CROSS JOIN LATERAL symptom_end($1, s, a.at) e
 WHERE s.organization_id = $1
   AND s.id = ANY ($2::uuid[])
   AND s.cleared_at IS NULL
   AND e.at IS NOT NULL;

-- name: clear_symptoms
-- Symptoms that are well again since given moments.
UPDATE incident_symptoms s
   SET cleared_at = u.at
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (id, at)
 WHERE s.organization_id = $1
   AND s.id = u.id;

-- name: list_ended_incidents
-- Of these incidents those that go on and have no open symptom left, with when the last one was well.
SELECT i.id, i.status, (SELECT max(x.cleared_at)
                          FROM incident_symptoms x
                         WHERE x.organization_id = $1
                           AND x.incident_id = i.id) AS ended_at
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.id = ANY ($2::uuid[])
   AND i.status <> 'resolved'
   AND NOT EXISTS (SELECT
                     FROM incident_symptoms x
                    WHERE x.organization_id = $1
                      AND x.incident_id = i.id
                      AND x.cleared_at IS NULL);

-- name: list_mutes_over
-- Muted incidents whose time is over, and whether anything is still open.
SELECT i.id
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.status = 'muted'
   AND i.muted_until <= now()
 ORDER BY i.muted_until
 LIMIT 500;

-- name: unmute_incident
-- A muted incident is as it was before.
UPDATE incidents
   SET status = CASE WHEN acknowledged_at IS NULL THEN 'open' ELSE 'acknowledged' END,
       muted_until = NULL,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2
   AND status = 'muted';

-- name: list_revived_symptoms
-- Symptoms that an anomaly was until somebody resolved it, if nothing else was said of them since.
SELECT s.id, s.incident_id, i.status
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 CROSS JOIN LATERAL (SELECT e.detail ->> 'reason' AS reason
                       FROM incident_events e
                      WHERE e.organization_id = $1
                        AND e.incident_id = s.incident_id
                        AND e.kind = 'symptom_cleared'
                        AND e.detail ->> 'symptom_id' = s.id::text
                      ORDER BY e.id DESC
                      LIMIT 1) c
 WHERE s.organization_id = $1
   AND s.incident_id = $3
   AND s.anomaly_id = $2
   AND s.cleared_at IS NOT NULL
   AND c.reason = ANY ($4::text[]);

-- name: unclear_symptoms
-- Symptoms that are open again.
UPDATE incident_symptoms
   SET cleared_at = NULL
 WHERE organization_id = $1
   AND id = ANY ($2::uuid[]);

-- name: delete_old_incidents
-- Incidents that ended and were not changed since a time, with all that is kept of them.
WITH gone AS (
  -- Not the last one, whose number the next one goes by.
  SELECT i.id
    FROM incidents i
   WHERE i.organization_id = $1
     AND i.status = 'resolved'
     AND i.updated_at < $2
     AND i.number < (SELECT max(n.number) FROM incidents n WHERE n.organization_id = $1)
   ORDER BY i.updated_at
   LIMIT $3
),
unlinked AS (
  UPDATE anomalies a
     SET incident_id = NULL
    FROM gone g
   WHERE a.organization_id = $1
     AND a.incident_id = g.id
)
DELETE FROM incidents i
 USING gone g
 WHERE i.organization_id = $1
   AND i.id = g.id
RETURNING i.id;

-- name: list_retold
-- Incidents that go on and are told by what is well again, with the first of what is not.
SELECT i.id, o.id AS symptom_id
  FROM incidents i
 CROSS JOIN LATERAL (SELECT x.id
                       FROM incident_symptoms x
                      WHERE x.organization_id = $1
                        AND x.incident_id = i.id
                        AND x.cleared_at IS NULL
                      ORDER BY x.observed_at, x.created_at, x.id
                      LIMIT 1) o
 WHERE i.organization_id = $1
   AND i.id = ANY ($2::uuid[])
   AND i.status <> 'resolved'
   AND (SELECT bool_and(x.cleared_at IS NOT NULL)
          FROM incident_symptoms x
         WHERE x.organization_id = $1
           AND x.incident_id = i.id
           AND x.sentence = i.title);
