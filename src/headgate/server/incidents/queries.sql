-- name: find_incident
-- The incident of an id or of a number.
SELECT i.id, i.number, i.status, i.merged_into, i.muted_until, i.resolved_at, i.title, i.kind
  FROM incidents i
 WHERE i.organization_id = $1
   AND (i.id = $2 OR i.number = $3);

-- name: list_incidents
-- Incidents that are asked for, the newest first.
SELECT p.id, p.opened_at
  FROM page_of_incidents($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) p
 ORDER BY p.opened_at DESC, p.id DESC;

-- name: find_symptom_type
-- A type of symptom that there is one of.
SELECT s.type
  FROM incident_symptoms s
 WHERE s.organization_id = $1
   AND s.type = $2
 LIMIT 1;

-- name: read_incidents
-- Incidents as they are told, the newest first.
SELECT i.id, i.number, i.title, i.status, i.severity, i.kind, i.column_name, i.run_id, i.opened_at, i.last_seen_at,
       i.acknowledged_at, i.acknowledged_by, i.resolved_at, i.resolved_by, i.resolution, i.muted_until, i.reopened_at,
       i.assignee, i.root_cause, i.confidence, i.cause_run_id, i.root_by, i.dataset_id,
       i.is_orphan AND NOT EXISTS (SELECT
                                     FROM job_datasets h
                                    WHERE h.organization_id = $1
                                      AND h.dataset_id = i.dataset_id
                                      AND h.role = 'output') AS is_orphan,
       d.namespace AS dataset_namespace, d.name AS dataset_name, d.display_name AS dataset_display_name,
       d.type AS dataset_type, r.started_at AS job_started_at, r.producer, j.id AS job_id,
       j.namespace AS job_namespace, j.name AS job_name, c.id AS cause_job_id, c.namespace AS cause_job_namespace,
       c.name AS cause_job_name, i.cause_dataset_id, e.namespace AS cause_dataset_namespace,
       e.name AS cause_dataset_name, e.display_name AS cause_dataset_display_name, e.type AS cause_dataset_type,
       m.number AS merged_into, f.test_name, f.test_status, n.symptoms, n.open_symptoms
  FROM incidents i
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = i.dataset_id
  LEFT JOIN job_runs r ON r.organization_id = $1 AND r.run_id = i.run_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = coalesce(r.job_id, i.job_id)
  LEFT JOIN jobs c ON c.organization_id = $1 AND c.id = i.cause_job_id
  LEFT JOIN datasets e ON e.organization_id = $1 AND e.id = i.cause_dataset_id
  LEFT JOIN incidents m ON m.organization_id = $1 AND m.id = i.merged_into
  LEFT JOIN LATERAL (SELECT s.test_name, s.test_status
                       FROM incident_symptoms s
                      WHERE s.organization_id = $1
                        AND s.incident_id = i.id
                        AND s.test_name IS NOT NULL
                        AND s.dataset_id IS NOT DISTINCT FROM i.dataset_id
                        AND s.producing_run_id IS NOT DISTINCT FROM i.run_id
                      ORDER BY s.sentence = i.title DESC, s.column_name IS NOT DISTINCT FROM i.column_name DESC,
                               s.observed_at
                      LIMIT 1) f ON true
 CROSS JOIN LATERAL (SELECT count(*) AS symptoms, count(*) FILTER (WHERE s.cleared_at IS NULL) AS open_symptoms
                       FROM incident_symptoms s
                      WHERE s.organization_id = $1
                        AND s.incident_id = i.id) n
 WHERE i.organization_id = $1
   AND i.id = ANY ($2::uuid[])
 ORDER BY i.opened_at DESC, i.id DESC;

-- name: list_symptoms
-- Symptoms of an incident in the order in which they were observed.
SELECT s.id, s.type, s.severity, s.sentence, s.column_name, s.run_id, s.producing_run_id, s.anomaly_id, s.test_name,
       s.test_status, s.root_cause, s.observed_at, s.last_observed_at, s.count, s.cleared_at, s.dataset_id,
       d.namespace AS dataset_namespace, d.name AS dataset_name, d.display_name AS dataset_display_name,
       d.type AS dataset_type, j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM incident_symptoms s
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = s.dataset_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = s.job_id
 WHERE s.organization_id = $1
   AND s.incident_id = $2
 ORDER BY s.observed_at, s.created_at, s.test_name, s.column_name, s.id
 LIMIT $3;

-- name: get_cause
-- Why an incident came about, as far as it is known.
SELECT i.root_cause, i.cause, i.confidence, i.root_by, i.dataset_id,
       i.is_orphan AND NOT EXISTS (SELECT
                                     FROM job_datasets h
                                    WHERE h.organization_id = $1
                                      AND h.dataset_id = i.dataset_id
                                      AND h.role = 'output') AS is_orphan
  FROM incidents i
 WHERE i.organization_id = $1
   AND i.id = $2;

-- name: list_parents
-- What started a run: parents first, then what started those.
WITH RECURSIVE above AS (
  SELECT r.parent_run_id AS run_id, r.parent_job AS job, r.root_run_id, r.root_job, 1 AS level
    FROM job_runs r
   WHERE r.organization_id = $1
     AND r.run_id = $2
     AND r.parent_run_id IS NOT NULL
   UNION ALL
  SELECT r.parent_run_id, r.parent_job, coalesce(a.root_run_id, r.root_run_id), coalesce(a.root_job, r.root_job),
         a.level + 1
    FROM above a
    JOIN job_runs r ON r.organization_id = $1 AND r.run_id = a.run_id
   WHERE r.parent_run_id IS NOT NULL
     AND r.parent_run_id <> $2
     AND a.level < 5
),
chain AS (
  SELECT a.run_id, a.job, a.level FROM above a
   UNION ALL
  SELECT a.root_run_id, a.root_job, 100
    FROM (SELECT x.root_run_id, x.root_job FROM above x WHERE x.root_run_id IS NOT NULL
           ORDER BY x.level DESC LIMIT 1) a
   WHERE NOT EXISTS (SELECT FROM above x WHERE x.run_id = a.root_run_id)
     AND a.root_run_id <> $2
)
SELECT c.run_id, c.job ->> 'namespace' AS job_namespace, c.job ->> 'name' AS job_name, r.state, r.started_at,
       r.ended_at
  FROM chain c
  LEFT JOIN job_runs r ON r.organization_id = $1 AND r.run_id = c.run_id
 ORDER BY c.level;

-- name: list_events
-- What happened to an incident, in order, after a number, with the other incident or the symptom that it is about.
SELECT e.id, e.at, e.actor, e.kind, e.detail, o.number, s.sentence AS symptom
  FROM incident_events e
  LEFT JOIN incidents o ON o.organization_id = $1 AND o.id = (e.detail ->> 'incident_id')::uuid
  LEFT JOIN incident_symptoms s ON s.organization_id = $1 AND s.id = (e.detail ->> 'symptom_id')::uuid
 WHERE e.organization_id = $1
   AND e.incident_id = $2
   AND e.id > $3
 ORDER BY e.id
 LIMIT $4;

-- name: count_incidents
-- How many incidents there are, by status, severity and kind; of those that ended only the ones seen of late.
SELECT i.status, i.severity, i.kind, i.is_orphan, count(*) AS incidents
  FROM ((SELECT x.status, x.severity, x.kind,
                x.is_orphan AND NOT EXISTS (SELECT
                                              FROM job_datasets h
                                             WHERE h.organization_id = $1
                                               AND h.dataset_id = x.dataset_id
                                               AND h.role = 'output') AS is_orphan
           FROM incidents x
          WHERE x.organization_id = $1
            AND x.status <> 'resolved')
        UNION ALL
        (SELECT x.status, x.severity, x.kind, x.is_orphan
           FROM incidents x
          WHERE x.organization_id = $1
            AND x.status = 'resolved'
            AND x.merged_into IS NULL
            AND x.last_seen_at > now() - make_interval(hours => $2))) i
 GROUP BY i.status, i.severity, i.kind, i.is_orphan;

-- name: get_roots
-- The dataset that an incident came from, the one it was first seen on, and all that it was seen on.
SELECT c.id AS cause_id, d.id AS dataset_id,
       ARRAY(SELECT DISTINCT s.dataset_id
               FROM incident_symptoms s
              WHERE s.organization_id = $1
                AND s.incident_id = i.id
                AND s.dataset_id IS NOT NULL) AS seen_on
  FROM incidents i
  LEFT JOIN datasets c ON c.organization_id = $1 AND c.id = i.cause_dataset_id AND c.merged_into IS NULL
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = i.dataset_id AND d.merged_into IS NULL
 WHERE i.organization_id = $1
   AND i.id = $2;

-- name: walk_impact
-- Everything downstream of some datasets, nearest first, with who owns it.
SELECT w.depth, w.hidden, d.id, d.namespace, d.name, d.display_name, d.type, n.owners, f.body AS ownership
  FROM walk_lineage($1, $2, 'down', $3, $4, NULL, true) w
 CROSS JOIN LATERAL (SELECT x.*
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = w.dataset_id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT x.owners
                       FROM dataset_notes x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = w.dataset_id
                        AND x.column_name = ''
                     OFFSET 0) n ON true
  LEFT JOIN LATERAL (SELECT x.body
                       FROM dataset_facets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = w.dataset_id
                        AND x.name = 'ownership'
                     OFFSET 0) f ON true
 ORDER BY w.depth, d.namespace, d.name;

-- name: list_writers
-- Jobs that write datasets, with their owners; at most a few of each.
SELECT u.id AS dataset_id, j.id, j.namespace, j.name, j.facets -> 'ownership' AS ownership
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT h.job_id
                       FROM job_datasets h
                      WHERE h.organization_id = $1
                        AND h.dataset_id = u.id
                        AND h.role = 'output'
                      ORDER BY h.job_id
                      LIMIT 20) w
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.facets
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = w.job_id
                     OFFSET 0) j
 ORDER BY j.namespace, j.name;

-- name: acknowledge_incident
-- Somebody knows of an incident.
UPDATE incidents
   SET status = 'acknowledged',
       acknowledged_at = now(),
       acknowledged_by = $3,
       muted_until = NULL,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: open_incident
-- An incident that was acknowledged or muted is open.
UPDATE incidents
   SET status = 'open',
       acknowledged_at = NULL,
       acknowledged_by = NULL,
       muted_until = NULL,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: mute_incident
-- Nobody hears of an incident until a time; then it is acknowledged again, if it was and had not ended.
UPDATE incidents
   SET status = 'muted',
       acknowledged_at = CASE WHEN status <> 'resolved' THEN acknowledged_at END,
       acknowledged_by = CASE WHEN status <> 'resolved' THEN acknowledged_by END,
       muted_until = $3,
       resolved_at = NULL,
       resolved_by = NULL,
       resolution = NULL,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: assign_incident
-- Whose incident it is.
UPDATE incidents
   SET assignee = $3,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2;

-- name: forget_root
-- What a person said is the cause does not count any more; no row if nobody has said anything.
UPDATE incidents
   SET root_is_manual = false,
       updated_at = now()
 WHERE organization_id = $1
   AND id = $2
   AND root_is_manual
RETURNING id;

-- name: list_notes
-- What people have written down about an incident, the latest of it, in order.
SELECT n.at, n.actor, n.text
  FROM (SELECT e.id, e.at, e.actor, e.detail ->> 'text' AS text
          FROM incident_events e
         WHERE e.organization_id = $1
           AND e.incident_id = $2
           AND e.kind = 'note'
         ORDER BY e.id DESC
         LIMIT $3) n
 ORDER BY n.id;

-- name: list_namesakes
-- Datasets that a job writes and whose names end as that of a dataset does, in whatever case.
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM datasets o
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND lower(x.bare_name) = lower(o.bare_name)
                        AND x.merged_into IS NULL
                        AND x.id <> o.id
                        AND EXISTS (SELECT
                                      FROM job_datasets h
                                     WHERE h.organization_id = $1
                                       AND h.dataset_id = x.id
                                       AND h.role = 'output')
                      ORDER BY lower(x.name) = lower(o.name) DESC, x.namespace, x.name
                      LIMIT $3) d
 WHERE o.organization_id = $1
   AND o.id = $2;

-- name: list_symptom_ids
-- The symptoms of an incident, and which of them are open.
SELECT s.id, s.cleared_at IS NULL AS is_open
  FROM incident_symptoms s
 WHERE s.organization_id = $1
   AND s.incident_id = $2;

-- name: split_incident
-- A new incident of a symptom, with the state and the assignee of the one that it was part of.
INSERT INTO incidents (organization_id, number, title, status, severity, kind, dataset_id, column_name, job_id, run_id,
                       opened_at, last_seen_at, assignee, acknowledged_at, acknowledged_by, muted_until, resolved_at,
                       resolved_by, resolution, reopened_at, is_orphan)
SELECT $1, (SELECT max(n.number) FROM incidents n WHERE n.organization_id = $1) + 1, s.sentence, i.status, s.severity,
       s.type, s.dataset_id, s.column_name, s.job_id, coalesce(s.producing_run_id, s.run_id), s.observed_at,
       s.last_observed_at, i.assignee, i.acknowledged_at, i.acknowledged_by, i.muted_until, i.resolved_at,
       i.resolved_by, i.resolution, i.reopened_at,
       s.type = 'TestFailed' AND s.dataset_id IS NOT NULL AND s.producing_run_id IS NULL
  FROM incidents i
  JOIN incident_symptoms s ON s.organization_id = $1 AND s.id = $3
 WHERE i.organization_id = $1
   AND i.id = $2
RETURNING id, number;

-- name: forget_producers
-- Open symptoms of tests on datasets whose run is known to have written other ones, since a merge was taken back.
WITH parted AS (
  SELECT s.id, s.incident_id, s.producing_run_id, s.dataset_id
    FROM incident_symptoms s
    JOIN job_runs r ON r.organization_id = $1 AND r.run_id = s.producing_run_id
   WHERE s.organization_id = $1
     AND s.dataset_id = ANY ($2::uuid[])
     AND s.cleared_at IS NULL
     AND s.type = 'TestFailed'
     AND s.dataset_id <> ALL (r.output_ids)
     AND NOT EXISTS (SELECT
                       FROM incident_symptoms k
                      WHERE k.organization_id = $1
                        AND k.incident_id = s.incident_id
                        AND k.key = s.key
                        AND k.id <> s.id)
),
forgotten AS (
  UPDATE incident_symptoms s
     SET producing_run_id = NULL,
         job_id = NULL
    FROM parted p
   WHERE s.organization_id = $1
     AND s.id = p.id
),
told AS (
  UPDATE incidents i
     SET run_id = NULL,
         job_id = NULL,
         is_orphan = true,
         updated_at = now()
    FROM parted p
   WHERE i.organization_id = $1
     AND i.id = p.incident_id
     AND i.run_id = p.producing_run_id
     AND i.dataset_id = p.dataset_id
)
SELECT DISTINCT p.incident_id
  FROM parted p;

-- name: list_orphans
-- Datasets of failed tests that no run is known to have produced, those that failed last first.
SELECT o.dataset_id AS id, o.failures, o.last_observed_at, o.incident, d.namespace, d.name, d.display_name, d.type
  FROM (SELECT s.dataset_id, sum(s.count) AS failures, max(s.last_observed_at) AS last_observed_at,
               max(i.number) AS incident
          FROM incidents i
          JOIN incident_symptoms s ON s.organization_id = $1 AND s.incident_id = i.id
         WHERE i.organization_id = $1
           AND s.type = 'TestFailed'
           AND s.dataset_id IS NOT NULL
           AND s.producing_run_id IS NULL
           AND s.last_observed_at > now() - make_interval(hours => $2)
         GROUP BY s.dataset_id) o
  JOIN datasets d ON d.organization_id = $1 AND d.id = o.dataset_id
 WHERE NOT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = $1
                      AND h.dataset_id = o.dataset_id
                      AND h.role = 'output')
   AND ($3::timestamptz IS NULL OR (o.last_observed_at, o.dataset_id) < ($3, $4::uuid))
 ORDER BY o.last_observed_at DESC, o.dataset_id DESC
 LIMIT $5;

-- name: count_correlated
-- How many datasets had failed tests of late, and of how many of them a producer is known.
SELECT count(*) AS failed,
       count(*) FILTER (WHERE EXISTS (SELECT
                                        FROM job_datasets h
                                       WHERE h.organization_id = $1
                                         AND h.dataset_id = f.dataset_id
                                         AND h.role = 'output')) AS correlated
  FROM (SELECT DISTINCT s.dataset_id
          FROM incident_symptoms s
         WHERE s.organization_id = $1
           AND s.type = 'TestFailed'
           AND s.dataset_id IS NOT NULL
           AND s.last_observed_at > now() - make_interval(hours => $2)) f;
