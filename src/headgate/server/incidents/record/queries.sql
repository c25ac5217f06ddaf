-- name: hold_names
-- Keeps datasets from being merged away until the transaction ends. What is small is not worth compiling, either.
SELECT pg_advisory_xact_lock_shared(merge_lock($1)), set_config('jit', 'off', true);

-- name: lock_incidents
-- Until the end of the transaction nobody else changes incidents of the organisation: one problem makes one incident.
SELECT pg_advisory_xact_lock(hashtextextended(concat('headgate.incidents:', $1::uuid), 0));

-- name: insert_event
-- What happened to an incident, and who did it.
INSERT INTO incident_events (organization_id, incident_id, actor, kind, detail)
VALUES ($1, $2, $3, $4, $5::jsonb)
RETURNING id;

-- name: count_event
-- What happened not long before has happened once more; no row if it is the first time.
UPDATE incident_events e
   SET detail = e.detail || $5::jsonb
                || jsonb_build_object('count', coalesce((e.detail ->> 'count')::integer, 1) + 1)
 WHERE e.organization_id = $1
   AND e.id = (SELECT x.id
                 FROM incident_events x
                WHERE x.organization_id = $1
                  AND x.incident_id = $2
                  AND x.kind = $3
                  AND x.detail ->> 'key' = $4
                  AND x.at > now() - $6::interval
                ORDER BY x.id DESC
                LIMIT 1)
RETURNING e.id, e.detail ->> 'count' AS count;

-- name: resolve_incident
-- Ends an incident.
UPDATE incidents
   SET status = 'resolved',
       resolved_at = $3,
       resolved_by = $4,
       resolution = $5,
       muted_until = NULL,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: clear_incident
-- What is left open of an incident counts as well.
UPDATE incident_symptoms
   SET cleared_at = $3
 WHERE organization_id = $1
   AND incident_id = $2
   AND cleared_at IS NULL;

-- name: reopen_incident
-- An incident goes on.
UPDATE incidents
   SET status = 'open',
       resolved_at = NULL,
       resolved_by = NULL,
       resolution = NULL,
       muted_until = NULL,
       acknowledged_at = NULL,
       acknowledged_by = NULL,
       reopened_at = $3,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: unclear_incident
-- The symptoms of an incident are open again, at most the latest of each key.
UPDATE incident_symptoms s
   SET cleared_at = NULL
  FROM (SELECT DISTINCT ON (x.key) x.id
          FROM incident_symptoms x
         WHERE x.organization_id = $1
           AND x.incident_id = $2
         ORDER BY x.key, x.last_observed_at DESC) l
 WHERE s.organization_id = $1
   AND s.id = l.id;

-- name: delete_paths
-- Nothing joins an incident that has ended.
DELETE FROM incident_paths p
 WHERE p.organization_id = $1
   AND p.incident_id = $2;

-- name: restore_paths
-- The runs of an incident's own symptoms, or the data where none is known, for one that goes on again.
INSERT INTO incident_paths (organization_id, run_id, incident_id, role)
SELECT DISTINCT s.organization_id, o.id, s.incident_id, 'own'
  FROM incident_symptoms s
 CROSS JOIN LATERAL (SELECT coalesce(s.producing_run_id, CASE WHEN s.type <> 'TestFailed' THEN s.run_id END,
                                     s.dataset_id) AS id) o
 WHERE s.organization_id = $1
   AND s.incident_id = $2
   AND o.id IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: move_symptoms
-- Symptoms of an incident, all or some, become another's; what that has already stays where it is.
UPDATE incident_symptoms s
   SET incident_id = $3
 WHERE s.organization_id = $1
   AND s.incident_id = $2
   AND ($4::uuid[] IS NULL OR s.id = ANY ($4))
   AND NOT EXISTS (SELECT
                     FROM incident_symptoms k
                    WHERE k.organization_id = $1
                      AND k.incident_id = $3
                      AND k.key = s.key
                      AND coalesce(k.producing_run_id, k.run_id)
                          IS NOT DISTINCT FROM coalesce(s.producing_run_id, s.run_id))
RETURNING s.id, s.anomaly_id;

-- name: move_paths
-- The runs on the path of an incident are on another's.
INSERT INTO incident_paths (organization_id, run_id, incident_id, role)
SELECT p.organization_id, p.run_id, $3::uuid, p.role
  FROM incident_paths p
 WHERE p.organization_id = $1
   AND p.incident_id = $2
ON CONFLICT DO NOTHING;

-- name: move_anomalies
-- Anomalies of an incident are another's.
UPDATE anomalies
   SET incident_id = $3
 WHERE organization_id = $1
   AND id = ANY ($2::uuid[]);

-- name: move_left_anomalies
-- What is left of the anomalies of an incident is another's.
UPDATE anomalies
   SET incident_id = $3
 WHERE organization_id = $1
   AND incident_id = $2;

-- name: mark_merged
-- Says where an incident went.
UPDATE incidents
   SET merged_into = $3,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: sum_up_incident
-- When an incident began and was last seen, and how bad it is, by its symptoms.
UPDATE incidents i
   SET opened_at = s.opened_at,
       last_seen_at = s.last_seen_at,
       severity = s.severity,
       updated_at = now()
  FROM (SELECT least(min(x.observed_at), now()) AS opened_at, least(max(x.last_observed_at), now()) AS last_seen_at,
               CASE WHEN bool_or(x.severity = 'CRITICAL') THEN 'CRITICAL'
                    WHEN bool_or(x.severity = 'WARNING') THEN 'WARNING' ELSE 'INFO' END AS severity
          FROM incident_symptoms x
         WHERE x.organization_id = $1
           AND x.incident_id = $2
        HAVING count(*) > 0) s
 WHERE i.organization_id = $1
   AND i.id = $2;
