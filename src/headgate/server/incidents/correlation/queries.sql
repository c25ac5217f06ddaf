-- name: get_run
-- A run, what it was to a pipeline, and what its job wrote last: a run that fails may never say what it would have.
SELECT r.run_id, r.job_id, j.namespace AS job_namespace, j.name AS job_name, r.state, r.started_at, r.ended_at,
       r.last_event_at, r.is_test, r.processing_type, r.parent_run_id, r.output_ids, r.error, n.status AS node_status, n.gate, n.project,
       n.pipeline, n.node, n.rows_in, p.status AS pipeline_status, w.dataset_id AS usual_output_id
  FROM job_runs r
  JOIN jobs j ON j.organization_id = $1 AND j.id = r.job_id
  LEFT JOIN LATERAL (SELECT x.dataset_id
                       FROM job_datasets x
                       JOIN datasets d ON d.organization_id = $1 AND d.id = x.dataset_id AND d.merged_into IS NULL
                      WHERE x.organization_id = $1
                        AND x.job_id = r.job_id
                        AND x.role = 'output'
                      ORDER BY x.last_seen_at DESC, x.dataset_id
                      LIMIT 1) w ON r.state IN ('FAIL', 'ABORT')
  LEFT JOIN node_runs n ON n.organization_id = $1 AND n.run_id = r.run_id
  LEFT JOIN pipeline_runs p ON p.organization_id = $1 AND p.run_id = r.run_id
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_failures
-- Failed tests of severity error of a run (of a dataset, without a run), with who had produced the data by then.
SELECT t.dataset_id, t.job_id AS test_job_id, t.test_key, t.name, t.column_name, t.status, t.observed_at,
       d.name AS dataset_name, p.run_id AS producing_run_id, p.job_id AS producing_job_id, l.passed_at
  FROM (SELECT x.*
          FROM test_results x
         WHERE x.organization_id = $1
           AND x.run_id = $2
           AND ($3::uuid IS NULL OR x.dataset_id = $3)
           AND x.status IN ('failed', 'error')
           AND x.severity = 'error'
         ORDER BY x.name, x.column_name, x.dataset_id, x.test_key
         LIMIT $4) t
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = t.dataset_id
  LEFT JOIN LATERAL producing_run($1, t.dataset_id, t.observed_at, t.run_id) p ON t.dataset_id IS NOT NULL
  LEFT JOIN LATERAL (SELECT least(x.observed_at, now()) AS passed_at
                       FROM test_results x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = t.dataset_id
                        AND x.test_key = t.test_key
                        AND x.observed_at > t.observed_at
                        AND x.status = 'passed'
                        AND (NOT is_ahead(x.observed_at) OR x.created_at > t.created_at)
                      ORDER BY x.observed_at
                      LIMIT 1) l ON true
 ORDER BY t.observed_at, t.name, t.column_name, t.dataset_id, t.test_key;

-- name: count_failures
-- How many tests of severity error of a run (of a dataset, without a run) failed, by dataset.
SELECT t.dataset_id, d.name AS dataset_name, count(*) AS failures
  FROM test_results t
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = t.dataset_id
 WHERE t.organization_id = $1
   AND t.run_id = $2
   AND ($3::uuid IS NULL OR t.dataset_id = $3)
   AND t.status IN ('failed', 'error')
   AND t.severity = 'error'
 GROUP BY t.dataset_id, d.name
 ORDER BY d.name, t.dataset_id;

-- name: has_failed_tests
-- Whether failed tests say what is wrong with a run: any of a test run, else errors on what it has not written itself.
SELECT EXISTS (SELECT
                 FROM test_results t
                WHERE t.organization_id = $1
                  AND t.run_id = $2
                  AND t.status IN ('failed', 'error')
                  AND ($3 OR (t.severity = 'error' AND t.dataset_id IS NOT NULL AND t.dataset_id <> ALL ($4::uuid[]))));

-- name: get_anomaly
-- An anomaly with the names of its dataset and job, and whether the run that tells of the dataset has only read it.
SELECT a.id, a.dataset_id, d.name AS dataset_name, a.job_uuid AS job_id, a.run_id, a.anomaly_type, a.severity, a.metric,
       a.column_name, a.partition_key, a.observed_at, a.description, a.status, a.occasion, a.incident_id,
       r.job_id AS run_job_id,
       coalesce(a.dataset_id = ANY (r.input_ids) AND a.dataset_id <> ALL (r.output_ids), false) AS is_reader
  FROM anomalies a
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
  LEFT JOIN job_runs r ON r.organization_id = $1 AND r.run_id = a.run_id
 WHERE a.organization_id = $1
   AND a.id = $2;

-- name: find_producing_run
-- Who had produced a dataset by a moment.
SELECT p.run_id, p.job_id
  FROM producing_run($1, $2, $3, NULL) p;

-- name: link_anomaly
-- Says which incident an anomaly belongs to.
UPDATE anomalies
   SET incident_id = $3
 WHERE organization_id = $1
   AND id = $2;

-- name: adopt_anomaly
-- Says which incident an anomaly belongs to that says nothing new; no row if it belongs to one.
UPDATE anomalies
   SET incident_id = $3
 WHERE organization_id = $1
   AND id = $2
   AND incident_id IS NULL
RETURNING id;

-- name: find_key
-- The symptom of this key that a new one goes with: of an incident that goes on, else of the one that ended last.
SELECT s.id, s.incident_id, s.observed_at, s.last_observed_at, s.cleared_at, i.status, i.resolved_at, i.resolved_by,
       i.cause_run_id, i.cause_job_id, i.cause_dataset_id, i.cause #>> '{evidence,0,kind}' AS cause_what,
       CASE WHEN i.root_is_manual THEN 1 ELSE i.confidence END AS confidence,
       coalesce(s.producing_run_id, s.run_id) IS NOT DISTINCT FROM $3::uuid AS is_same_run
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 WHERE s.organization_id = $1
   AND s.key = $2
 ORDER BY i.status = 'resolved', coalesce(s.producing_run_id, s.run_id) IS NOT DISTINCT FROM $3::uuid DESC,
          s.observed_at DESC
 LIMIT 1;

-- name: find_by_runs
-- Incidents that go on, not $3, with any of these runs or data on their path; how that run and the first of each ended.
SELECT p.run_id, p.role, i.id, i.status, i.dataset_id, i.run_id AS first_run_id, i.kind, i.cause_run_id, i.opened_at,
       i.cause_job_id, i.cause_dataset_id, i.cause #>> '{evidence,0,kind}' AS cause_what,
       CASE WHEN i.root_is_manual THEN 1 ELSE i.confidence END AS confidence,
       greatest(i.opened_at, i.reopened_at) AS began_at, i.last_seen_at, r.state AS run_state, f.parent_run_id AS first_parent_id,
       coalesce(btrim(f.error), '') <> '' AS first_says_why
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.role, x.incident_id
                       FROM incident_paths x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.id
                     OFFSET 0) p
  JOIN incidents i ON i.organization_id = $1 AND i.id = p.incident_id
  LEFT JOIN LATERAL (SELECT x.state
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = p.run_id
                     OFFSET 0) r ON true
  LEFT JOIN LATERAL (SELECT x.parent_run_id, x.error
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = i.run_id
                     OFFSET 0) f ON true
 WHERE i.status <> 'resolved'
   AND i.id IS DISTINCT FROM $3::uuid
 ORDER BY i.opened_at, i.number;

-- name: find_by_cause
-- The oldest incident, not $8, that has this cause: a run, a job for the same reason, else a dataset without writers.
SELECT i.id
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.status <> 'resolved'
   AND i.id IS DISTINCT FROM $8::uuid
   AND (i.cause_run_id = $2
        OR (i.cause_job_id = $6 AND i.cause #>> '{evidence,0,kind}' = $7)
        OR ($2::uuid IS NULL AND i.cause_run_id IS NULL AND i.cause_dataset_id = $3))
   AND i.confidence >= $5
   AND greatest(i.opened_at, i.reopened_at) BETWEEN $4::timestamptz - interval '24 hours'
                                                AND $4::timestamptz + interval '24 hours'
 ORDER BY i.opened_at, i.number
 LIMIT 1;

-- name: list_below
-- A dataset and what is made of it, within a few steps.
SELECT w.dataset_id
  FROM walk_lineage($1, ARRAY[$2::uuid], 'down', 6, 300, NULL) w;

-- name: insert_incident
-- Opens an incident under the next number of the organisation, never later than now by whoever's clock.
INSERT INTO incidents (organization_id, number, title, severity, kind, dataset_id, column_name, job_id, run_id,
                       opened_at, last_seen_at, root_cause, cause, confidence, cause_run_id, cause_job_id,
                       cause_dataset_id, is_orphan)
SELECT $1, coalesce((SELECT max(n.number) FROM incidents n WHERE n.organization_id = $1), 0) + 1, $2, $3, $4, $5, $6,
       $7, $8, least($9, now()), least($9, now()), $10, $11::jsonb, $12, $13, $14, $15, $16
RETURNING id;

-- name: insert_symptom
-- Adds a symptom to an incident; no row if it has it.
INSERT INTO incident_symptoms (organization_id, incident_id, type, key, dataset_id, column_name, job_id, run_id,
                               producing_run_id, anomaly_id, test_key, test_name, test_status, severity, sentence,
                               root_cause, confidence, observed_at, last_observed_at, cleared_at, is_news)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18, $19, $20)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: repeat_symptom
-- A symptom was seen once more on what the same run had produced.
UPDATE incident_symptoms
   SET count = count + 1,
       observed_at = least(observed_at, $3),
       last_observed_at = greatest(last_observed_at, $3),
       cleared_at = CASE WHEN cleared_at > $3 THEN cleared_at END,
       test_status = coalesce($4, test_status),
       anomaly_id = coalesce($5, anomaly_id)
 WHERE organization_id = $1
   AND id = $2;

-- name: touch_incident
-- An incident was seen again, as bad as this.
UPDATE incidents
   SET last_seen_at = greatest(last_seen_at, least($3, now())),
       opened_at = least(opened_at, $3),
       severity = CASE WHEN severity = 'CRITICAL' OR $4 = 'CRITICAL' THEN 'CRITICAL'
                       WHEN severity = 'WARNING' OR $4 = 'WARNING' THEN 'WARNING' ELSE 'INFO' END,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: set_cause
-- What caused an incident, unless a person has said so.
UPDATE incidents
   SET root_cause = $3,
       cause = $4::jsonb,
       confidence = $5,
       cause_run_id = $6,
       cause_job_id = $7,
       cause_dataset_id = $8,
       root_by = $9,
       root_is_manual = $10,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2
   AND ($10 OR NOT root_is_manual)
RETURNING id;

-- name: add_paths
-- Runs on the path of an incident; the nearest part that a run has in it counts.
INSERT INTO incident_paths AS t (organization_id, run_id, incident_id, role)
SELECT $1, n.run_id, $2, n.role
  FROM (SELECT DISTINCT ON (u.run_id) u.run_id, u.role
          FROM unnest($3::uuid[], $4::text[]) AS u (run_id, role)
         ORDER BY u.run_id, array_position(ARRAY['own', 'above', 'upstream'], u.role)) n
ON CONFLICT (organization_id, run_id, incident_id) DO UPDATE
   SET role = EXCLUDED.role
 WHERE array_position(ARRAY['own', 'above', 'upstream'], EXCLUDED.role)
       < array_position(ARRAY['own', 'above', 'upstream'], t.role);

-- name: get_telling_symptom
-- The symptom that an incident is told by; of those of the same run the first that failed outright.
SELECT s.*, d.name AS dataset_name, d.namespace AS dataset_namespace
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = s.dataset_id
 WHERE s.organization_id = $1
   AND s.incident_id = $2
 ORDER BY coalesce(s.producing_run_id, s.run_id) IS NOT DISTINCT FROM i.run_id DESC,
          s.type IN ('TestFailed', 'RunFailed') DESC, s.created_at, s.observed_at, s.id
 LIMIT 1;

-- name: list_path_symptoms
-- Symptoms of an incident, open ones and the latest first, to find the runs on its path again.
SELECT s.*, d.name AS dataset_name
  FROM incident_symptoms s
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = s.dataset_id
 WHERE s.organization_id = $1
   AND s.incident_id = $2
 ORDER BY s.cleared_at IS NULL DESC, s.last_observed_at DESC, s.id
 LIMIT $3;

-- name: get_state
-- How an incident stands.
SELECT i.status, i.kind, i.dataset_id, i.run_id, i.opened_at, i.resolved_at, i.root_is_manual, i.root_cause, i.confidence, i.cause_run_id, i.cause_job_id,
       i.cause_dataset_id, i.cause #>> '{evidence,0,kind}' AS cause_what, i.cause ->> 'symptom_type' AS cause_of
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.id = $2;

-- name: list_above
-- What started a run, and what started that.
SELECT u.id AS run_id
  FROM job_runs r
  LEFT JOIN job_runs p ON p.organization_id = $1 AND p.run_id = r.parent_run_id
 CROSS JOIN LATERAL (SELECT DISTINCT x.id
                       FROM unnest(ARRAY[r.parent_run_id, r.root_run_id, p.parent_run_id]) AS x (id)
                      WHERE x.id IS NOT NULL) u
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_misplaced
-- Open symptoms of tests on some datasets that another run had produced by then than was known at the time.
SELECT s.id, s.incident_id, p.run_id, p.job_id,
       i.run_id IS NOT DISTINCT FROM s.producing_run_id AND i.dataset_id = s.dataset_id AS is_first
  FROM (SELECT x.*
          FROM incident_symptoms x
         WHERE x.organization_id = $1
           AND x.dataset_id = ANY ($2::uuid[])
           AND x.cleared_at IS NULL
           AND x.type = 'TestFailed'
         LIMIT 200) s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 CROSS JOIN LATERAL producing_run($1, s.dataset_id, s.observed_at, s.run_id) p
 WHERE p.run_id IS DISTINCT FROM s.producing_run_id
   AND NOT EXISTS (SELECT
                     FROM incident_symptoms k
                    WHERE k.organization_id = $1
                      AND k.incident_id = s.incident_id
                      AND k.key = s.key
                      AND k.producing_run_id = p.run_id);

-- name: list_on_data
-- Incidents that go on with something open on some datasets that no run is known to have written.
SELECT DISTINCT i.id
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 WHERE s.organization_id = $1
   AND s.dataset_id = ANY ($2::uuid[])
   AND s.cleared_at IS NULL
   AND s.producing_run_id IS NULL
   AND i.status <> 'resolved'
 LIMIT 100;

-- name: place_symptom
-- The run that had produced what a symptom was observed on.
UPDATE incident_symptoms
   SET producing_run_id = $3,
       job_id = $4
 WHERE organization_id = $1
   AND id = $2;

-- name: place_incident
-- The run that had produced what opened an incident.
UPDATE incidents
   SET run_id = $3,
       job_id = $4,
       is_orphan = false,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: get_symptom
-- A symptom with the name of its dataset.
SELECT s.*, d.name AS dataset_name
  FROM incident_symptoms s
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = s.dataset_id
 WHERE s.organization_id = $1
   AND s.id = $2;

-- name: explain_symptom
-- What caused a symptom, as far as is known by now.
UPDATE incident_symptoms
   SET root_cause = $3,
       confidence = $4
 WHERE organization_id = $1
   AND id = $2
   AND (root_cause, confidence) IS DISTINCT FROM ($3, $4::real);

-- name: list_kin
-- Runs with how they ended and what had started them.
SELECT r.run_id, coalesce(btrim(r.error), '') <> '' AS says_why, r.ended_at,
       ARRAY[r.parent_run_id, r.root_run_id, p.parent_run_id] AS above
  FROM job_runs r
  LEFT JOIN job_runs p ON p.organization_id = $1 AND p.run_id = r.parent_run_id
 WHERE r.organization_id = $1
   AND r.run_id = ANY ($2::uuid[]);

-- name: tell_by_symptom
-- An incident is told by a symptom of it.
UPDATE incidents i
   SET title = s.sentence,
       kind = s.type,
       dataset_id = s.dataset_id,
       column_name = s.column_name,
       job_id = s.job_id,
       run_id = o.run_id,
       is_orphan = s.type = 'TestFailed' AND s.dataset_id IS NOT NULL AND s.producing_run_id IS NULL,
       updated_at = now()
  FROM incident_symptoms s
 CROSS JOIN LATERAL (SELECT coalesce(s.producing_run_id,
                                     CASE WHEN s.type IN ('RunFailed', 'GateBlocked') THEN s.run_id END) AS run_id) o
 WHERE s.organization_id = $1
   AND s.id = $3
   AND i.organization_id = $1
   AND i.id = $2;

-- name: find_first_symptom
-- The first symptom of an incident, and whether it has the one that it is told by.
SELECT s.id, bool_or(s.type = i.kind AND s.dataset_id IS NOT DISTINCT FROM i.dataset_id
                     AND s.column_name IS NOT DISTINCT FROM i.column_name
                     AND coalesce(s.producing_run_id,
                                  CASE WHEN s.type IN ('RunFailed', 'GateBlocked') THEN s.run_id END)
                         IS NOT DISTINCT FROM i.run_id
                     AND s.sentence = i.title) OVER () AS is_told
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 WHERE s.organization_id = $1
   AND s.incident_id = $2
 ORDER BY s.observed_at, s.created_at, s.id
 LIMIT 1;

-- name: set_title
-- What an incident that was opened by tests on a dataset is called.
UPDATE incidents
   SET title = $4,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2
   AND kind = 'TestFailed'
   AND dataset_id IS NOT DISTINCT FROM $3::uuid;

-- name: has_later_symptoms
-- Whether anything that is open was observed within a day after a moment.
SELECT EXISTS (SELECT
                 FROM incident_symptoms s
                WHERE s.organization_id = $1
                  AND s.cleared_at IS NULL
                  AND s.observed_at > $2
                  AND s.observed_at < $2 + interval '24 hours');

-- name: list_incidents_below
-- Incidents that go on, not by a run, with what was observed downstream of what it wrote within a day after its end.
SELECT i.id
  FROM (SELECT DISTINCT s.incident_id
          FROM walk_lineage($1, $2, 'down', 6, 300, NULL) w
         CROSS JOIN LATERAL (SELECT x.incident_id
                               FROM incident_symptoms x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = w.dataset_id
                                AND x.cleared_at IS NULL
                                AND x.observed_at > $3
                                AND x.observed_at < $3 + interval '24 hours'
                              LIMIT 50) s
         WHERE w.depth > 0) b
  JOIN incidents i ON i.organization_id = $1 AND i.id = b.incident_id
 WHERE i.status <> 'resolved'
   AND NOT EXISTS (SELECT
                     FROM incident_paths p
                    WHERE p.organization_id = $1
                      AND p.run_id = $5
                      AND p.incident_id = i.id)
 ORDER BY i.opened_at, i.number
 LIMIT $4;

-- name: list_parts
-- Incidents that may become one with another, the oldest first: they go on, and no person has made one of the other.
SELECT i.id
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.id = ANY ($2::uuid[])
   AND i.status <> 'resolved'
   AND NOT EXISTS (SELECT
                     FROM incident_events e
                    WHERE e.organization_id = $1
                      AND e.incident_id = i.id
                      AND e.kind IN ('split_into', 'split_from'))
 ORDER BY i.opened_at, i.number;

-- name: list_times
-- When runs ended, or were last heard of, and when anomalies were observed.
SELECT r.run_id AS id, coalesce(r.ended_at, r.last_event_at) AS at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.run_id = ANY ($2::uuid[])
 UNION ALL
SELECT a.id, a.observed_at
  FROM anomalies a
 WHERE a.organization_id = $1
   AND a.id = ANY ($2::uuid[]);
