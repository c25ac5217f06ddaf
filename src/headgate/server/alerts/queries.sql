-- name: list_rules
-- A page of the rules, newest first.
SELECT r.*
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND ($2::timestamptz IS NULL OR (r.created_at, r.id) < ($2, $3::uuid))
 ORDER BY r.created_at DESC, r.id DESC
 LIMIT $4;

-- name: get_rule
-- One rule.
SELECT r.*
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.id = $2;

-- name: find_rule_name
-- The id of the rule that has a name.
SELECT r.id
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.name = $2;

-- name: lock_rule
-- One rule, for this transaction alone.
SELECT r.*
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.id = $2
   FOR NO KEY UPDATE;

-- name: count_rules
-- How many rules there are, and whether one of this name is another than this.
SELECT count(*) AS total,
       coalesce(bool_or(r.name = $2 AND r.id IS DISTINCT FROM $3::uuid), false) AS is_taken
  FROM alert_rules r
 WHERE r.organization_id = $1;

-- name: insert_rule
-- Adds a rule.
INSERT INTO alert_rules (organization_id, name, description, dataset_name, anomaly_type, severity, owner, tag,
                         channel_type, channel_config, enabled, deduplication_minutes, max_per_minute, max_per_hour,
                         quiet_hours, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb, $11, $12, $13, $14, $15::text::jsonb, $16)
RETURNING *;

-- name: update_rule
-- Changes a rule.
UPDATE alert_rules r
   SET name = $3,
       description = $4,
       dataset_name = $5,
       anomaly_type = $6,
       severity = $7,
       owner = $8,
       tag = $9,
       channel_type = $10,
       channel_config = $11::text::jsonb,
       enabled = $12,
       deduplication_minutes = $13,
       max_per_minute = $14,
       max_per_hour = $15,
       quiet_hours = $16::text::jsonb,
       updated_at = now()
 WHERE r.organization_id = $1
   AND r.id = $2
RETURNING *;

-- name: delete_rule
-- Removes a rule; what it sent stays.
DELETE FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.id = $2
RETURNING r.id;

-- name: list_rules_without_recipients
-- Rules that send mails and name nobody, whether they are on or not.
SELECT r.name
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.channel_type = 'EMAIL'
   AND coalesce(jsonb_array_length(r.channel_config -> 'email_to'), 0) = 0
 ORDER BY r.name;

-- name: list_enabled_rules
-- Every rule that is on.
SELECT r.*
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.enabled
 ORDER BY r.id
 LIMIT $2;

-- name: lock_rules
-- Some rules that are still on: whoever decides for one of them waits for whoever does so before.
SELECT r.id
  FROM alert_rules r
 WHERE r.organization_id = $1
   AND r.id = ANY ($2::uuid[])
   AND r.enabled
 ORDER BY r.id
   FOR NO KEY UPDATE;

-- name: list_own_alerts
-- What became of a task so far, by rule.
SELECT h.id, h.alert_rule_id, h.status, h.reason, h.held_back
  FROM alert_history h
 WHERE h.organization_id = $1
   AND h.task_id = $2;

-- name: find_past
-- What a rule told lately, not row $9: of an incident and of the same subject and type, both as bad ($10), and in all.
SELECT g.sent_at AS grouped_at, g.id AS grouped_by, t.sent_at AS told_at, t.id AS told_by, n.in_minute, n.in_hour
  FROM (SELECT count(*) FILTER (WHERE c.sent_at > $6::timestamptz - interval '1 minute') AS in_minute,
               count(*) AS in_hour
          FROM (SELECT h.sent_at
                  FROM alert_history h
                 WHERE h.organization_id = $1
                   AND h.alert_rule_id = $2
                   AND (h.status = 'SENT' OR (h.reason = 'sending' AND h.sent_at > $8))
                   AND h.type <> 'TestAlert'
                   AND h.id IS DISTINCT FROM $9::uuid
                   AND h.sent_at > $6::timestamptz - interval '1 hour'
                 ORDER BY h.sent_at DESC
                 LIMIT 10000) c) n
  LEFT JOIN LATERAL (SELECT h.id, h.sent_at
                       FROM alert_history h
                      WHERE h.organization_id = $1
                        AND h.alert_rule_id = $2
                        AND h.incident_id = $3
                        AND h.severity = ANY ($10::text[])
                        AND (h.status = 'SENT' OR (h.reason = 'sending' AND h.sent_at > $8))
                        AND h.type <> 'TestAlert'
                        AND h.id IS DISTINCT FROM $9::uuid
                        AND h.sent_at > $7
                      ORDER BY h.sent_at DESC
                      LIMIT 1) g ON true
  LEFT JOIN LATERAL (SELECT h.id, h.sent_at
                       FROM alert_history h
                      WHERE h.organization_id = $1
                        AND h.alert_rule_id = $2
                        AND h.subject = $4
                        AND h.type = $5
                        AND h.severity = ANY ($10::text[])
                        AND (h.status = 'SENT' OR (h.reason = 'sending' AND h.sent_at > $8))
                        AND h.id IS DISTINCT FROM $9::uuid
                        AND h.sent_at > $7
                      ORDER BY h.sent_at DESC
                      LIMIT 1) t ON true;

-- name: find_told_by_pipeline
-- When a run of the pipeline last told the same event itself by such a channel.
SELECT max(a.sent_at)
  FROM pipeline_alerts a
 WHERE a.organization_id = $1
   AND a.project = $2
   AND a.pipeline = $3
   AND a.event = $4
   AND a.outcome = 'sent'
   AND upper(split_part(a.channel, ' ', 1)) = $5
   AND a.sent_at > $6;

-- name: insert_alert
-- Notes an alert.
INSERT INTO alert_history (organization_id, id, alert_rule_id, rule_name, task_id, anomaly_id, incident_id, symptom_id,
                           dataset_id, run_id, subject, type, severity, title, channel_type, channel_context, status,
                           reason, held_by, held_back, attempts, sent_at, response_payload, error_message)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::text::jsonb, $17, $18, $19, $20, $21,
        $22, $23::text::jsonb, $24);

-- name: find_held
-- The first of the worst alerts held back because of one of some, whose task is known and that are not over; not $3.
SELECT h.id, t.resource_type, t.resource_id, t.payload
  FROM alert_history h
  JOIN async_task t ON t.organization_id = $1 AND t.id = h.task_id
  LEFT JOIN incident_symptoms s ON s.organization_id = $1 AND s.id = h.symptom_id
  LEFT JOIN anomalies a ON a.organization_id = $1 AND a.id = h.anomaly_id
 WHERE h.organization_id = $1
   AND h.held_by = ANY ($2::uuid[])
   AND h.status = 'DEDUPLICATED'
   AND h.id <> ALL ($3::uuid[])
   AND s.cleared_at IS NULL
   AND (h.symptom_id IS NOT NULL OR a.status IS NULL OR a.status NOT IN ('RESOLVED', 'FALSE_POSITIVE'))
 ORDER BY array_position(ARRAY['CRITICAL', 'WARNING', 'INFO'], h.severity), h.sent_at, h.id
 LIMIT 1;

-- name: settle_abandoned_alerts
-- One batch of what was under way before a time and whose task is over: nobody tries it again.
UPDATE alert_history h
   SET reason = 'gave_up',
       error_message = coalesce(h.error_message, $4)
 WHERE h.organization_id = $1
   AND h.id = ANY (ARRAY(SELECT o.id
                           FROM alert_history o
                          WHERE o.organization_id = $1
                            AND o.reason IN ('sending', 'retrying')
                            AND o.sent_at < $2
                            AND NOT EXISTS (SELECT
                                              FROM async_task t
                                             WHERE t.organization_id = $1
                                               AND t.id = o.task_id
                                               AND t.status IN ('PENDING', 'RUNNING', 'FAILED'))
                          ORDER BY o.sent_at
                          LIMIT $3));

-- name: wake_held_tasks
-- What waits for the end of the quiet hours of a rule is due now.
UPDATE async_task t
   SET next_run_at = now(),
       updated_at = now()
 WHERE t.organization_id = $1
   AND t.task_type = 'ALERT'
   AND t.status = 'PENDING'
   AND t.next_run_at > now()
   AND t.payload ->> 'held_for' = $2::text;

-- name: count_held_back
-- What the limits of a rule held back since its latest message, row $4 included, counted up to a bound.
SELECT count(*)
  FROM (SELECT
          FROM alert_history h
         WHERE h.organization_id = $1
           AND h.alert_rule_id = $2
           AND h.reason = 'throttled'
           AND h.sent_at > coalesce((SELECT max(l.sent_at)
                                       FROM alert_history l
                                      WHERE l.organization_id = $1
                                        AND l.alert_rule_id = $2
                                        AND (l.status = 'SENT' OR l.reason = 'sending' AND l.sent_at > $3)
                                        AND l.type <> 'TestAlert'),
                                    '-infinity')
           AND h.sent_at > coalesce((SELECT o.sent_at
                                       FROM alert_history o
                                      WHERE o.organization_id = $1
                                        AND o.id = $4::uuid),
                                    '-infinity')
         LIMIT $5) x;

-- name: settle_alert
-- Notes how an alert goes on.
UPDATE alert_history h
   SET status = $3,
       reason = $4,
       attempts = h.attempts + $5,
       sent_at = $6,
       response_payload = coalesce($7::text::jsonb, h.response_payload),
       error_message = $8,
       held_back = coalesce($9::integer, h.held_back),
       held_by = $10
 WHERE h.organization_id = $1
   AND h.id = $2;

-- name: mark_alerted
-- An open anomaly that somebody was told of.
UPDATE anomalies a
   SET status = 'ALERTED',
       changes = a.changes || jsonb_build_array(jsonb_build_object(
         'at', $3::timestamptz, 'by', 'headgate', 'from', 'OPEN', 'to', 'ALERTED', 'notes', NULL)),
       updated_at = now()
 WHERE a.organization_id = $1
   AND a.id = $2
   AND a.status = 'OPEN';

-- name: list_alerts
-- A page of the history, newest first.
SELECT p.*
  FROM page_of_alerts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) p;

-- name: find_symptom
-- A symptom with its incident, its anomaly and its job.
SELECT s.id AS symptom_id, s.type, s.severity, s.sentence, s.last_observed_at AS observed_at, s.dataset_id,
       s.column_name, s.job_id, s.run_id, s.test_name, s.anomaly_id, s.cleared_at, i.id AS incident_id, i.number,
       i.title, i.status AS incident_status, i.muted_until, i.root_cause, i.cause, i.confidence, i.root_is_manual,
       s.root_cause AS own_cause, s.confidence AS own_confidence, a.metric, a.partition_key, a.expected_value,
       a.actual_value, a.deviation_score, j.namespace AS job_namespace, j.name AS job_name
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
  LEFT JOIN anomalies a ON a.organization_id = $1 AND a.id = s.anomaly_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = s.job_id
 WHERE s.organization_id = $1
   AND s.id = $2;

-- name: find_anomaly
-- An anomaly that is no symptom, in the shape of one, and whether it is over.
SELECT NULL AS symptom_id, a.anomaly_type AS type, a.severity, concat_ws(': ', d.name, a.description) AS sentence,
       a.observed_at, a.dataset_id, a.column_name, a.job_uuid AS job_id, a.run_id, NULL AS test_name, a.id AS anomaly_id,
       NULL AS incident_id, a.metric, a.partition_key, a.expected_value, a.actual_value, a.deviation_score,
       j.namespace AS job_namespace, j.name AS job_name, a.status IN ('RESOLVED', 'FALSE_POSITIVE') AS is_over
  FROM anomalies a
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = a.job_uuid
 WHERE a.organization_id = $1
   AND a.id = $2;

-- name: list_mere_anomalies
-- Anomalies that are no symptoms, as incidents choose them, since a time, the oldest first, in the shape of a symptom.
SELECT NULL AS symptom_id, a.anomaly_type AS type, a.severity, concat_ws(': ', d.name, a.description) AS sentence,
       a.detected_at AS observed_at, a.dataset_id, a.column_name, a.job_uuid AS job_id, a.run_id, NULL AS test_name,
       a.id AS anomaly_id, NULL AS incident_id, NULL AS metric, NULL AS partition_key, NULL AS expected_value,
       NULL AS actual_value, NULL AS deviation_score, NULL AS job_namespace, NULL AS job_name, a.detected_at AS at,
       a.resolved_at AS over_at
  FROM anomalies a
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
 WHERE a.organization_id = $1
   AND a.detected_at >= $2
   AND (a.severity = 'INFO' OR (a.anomaly_type = 'SchemaChange' AND a.severity <> 'CRITICAL'))
 ORDER BY a.detected_at, a.id
 LIMIT $3;

-- name: find_incident
-- An incident with the job of its cause, in the shape of a symptom, and who last resolved or reopened it, as $3 says.
SELECT i.kind AS type, i.severity, coalesce(CASE $3 WHEN 'resolved' THEN i.resolved_at END, e.at, i.last_seen_at)
         AS observed_at,
       i.dataset_id, i.column_name, i.cause_run_id AS run_id, i.id AS incident_id, i.number, i.title,
       i.status AS incident_status, i.muted_until, i.root_cause, i.cause, i.confidence, j.namespace AS job_namespace,
       j.name AS job_name, e.actor, e.detail ->> 'reason' AS reason
  FROM incidents i
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = i.cause_job_id
  LEFT JOIN LATERAL (SELECT v.at, v.actor, v.detail
                       FROM incident_events v
                      WHERE v.organization_id = $1
                        AND v.incident_id = i.id
                        AND v.kind = $3::text
                      ORDER BY v.id DESC
                      LIMIT 1) e ON true
 WHERE i.organization_id = $1
   AND i.id = $2;

-- name: list_symptoms
-- Symptoms that were news, or news again, since a time, the oldest first, in the shape of one symptom.
SELECT s.id AS symptom_id, s.type, s.severity, s.sentence, f.at AS observed_at, s.dataset_id, s.column_name, s.job_id,
       s.run_id, s.test_name, s.anomaly_id, i.id AS incident_id, i.number, i.title, i.status AS incident_status,
       i.root_cause, i.cause, i.confidence, NULL AS metric, NULL AS partition_key, NULL AS expected_value,
       NULL AS actual_value, NULL AS deviation_score, NULL AS job_namespace, NULL AS job_name, f.at,
       least(s.cleared_at, i.resolved_at) AS over_at
  FROM ((SELECT n.id, n.created_at AS at
           FROM incident_symptoms n
          WHERE n.organization_id = $1
            AND n.created_at >= $2
            AND n.is_news
          ORDER BY n.created_at, n.id
          LIMIT $3)
        UNION ALL
        (SELECT (e.detail ->> 'symptom_id')::uuid, e.at
           FROM incident_events e
          WHERE e.organization_id = $1
            AND e.kind = 'symptom_repeated'
            AND e.detail -> 'is_news' IS DISTINCT FROM 'false'
            AND e.at >= $2
          ORDER BY e.at, e.id
          LIMIT $3)) f
  JOIN incident_symptoms s ON s.organization_id = $1 AND s.id = f.id
  JOIN incidents i ON i.organization_id = $1 AND i.id = s.incident_id
 ORDER BY f.at, s.id
 LIMIT $3;

-- name: list_news
-- How incidents went on since a time, the oldest first, in the shape of an incident; a merge is no news.
SELECT e.at, e.kind AS event, i.kind AS type, i.severity, e.at AS observed_at, i.dataset_id, i.column_name,
       i.cause_run_id AS run_id, i.id AS incident_id, i.number, i.title, i.status AS incident_status, i.root_cause,
       i.cause, i.confidence, NULL AS job_namespace, NULL AS job_name, e.actor, e.detail ->> 'reason' AS reason,
       (SELECT min(o.at)
          FROM incident_events o
         WHERE o.organization_id = $1
           AND o.incident_id = e.incident_id
           AND o.id > e.id
           AND o.kind IN ('resolved', 'reopened')
           AND o.kind <> e.kind) AS over_at
  FROM incident_events e
  JOIN incidents i ON i.organization_id = $1 AND i.id = e.incident_id
 WHERE e.organization_id = $1
   AND e.kind IN ('resolved', 'reopened')
   AND e.at >= $2
   AND (e.kind = 'reopened' OR i.merged_into IS NULL)
   AND e.detail -> 'is_news' IS DISTINCT FROM 'false'
 ORDER BY e.at, e.id
 LIMIT $3;

-- name: delete_old_alerts
-- One batch of what was sent before a time.
DELETE FROM alert_history h
 WHERE h.organization_id = $1
   AND h.id = ANY (ARRAY(SELECT o.id
                           FROM alert_history o
                          WHERE o.organization_id = $1
                            AND o.sent_at < $2
                          ORDER BY o.sent_at
                          LIMIT $3));

-- name: list_told_nodes
-- Runs of nodes that ended since a time with something to tell, the oldest first.
SELECT n.run_id, n.project, n.status, n.output_urn, n.ended_at, n.record
  FROM node_runs n
 WHERE n.organization_id = $1
   AND n.ended_at >= $2
   AND NOT n.handles_batch
   AND (n.failed_tests > 0
        OR n.rows_quarantined > 0
        OR n.gate -> 'passed' = 'false'
        OR jsonb_typeof(n.record -> 'drift') = 'object')
 ORDER BY n.ended_at, n.run_id
 LIMIT $3;

-- name: list_told_pipelines
-- Runs of pipelines that began since a time, the oldest first.
SELECT p.run_id, p.project, p.pipeline, p.status, p.started_at, p.ended_at
  FROM pipeline_runs p
 WHERE p.organization_id = $1
   AND p.started_at >= $2
 ORDER BY p.started_at, p.run_id
 LIMIT $3;

-- name: list_datasets
-- Datasets as rules see them: their names, up to $3 of those that lead to them, owners and tags.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, n.owners, f.body AS ownership,
       ARRAY(SELECT ARRAY[a.namespace, a.name]
               FROM dataset_aliases a
              WHERE a.organization_id = $1
                AND a.dataset_id = d.id
                AND a.source <> 'primary'
              ORDER BY a.created_at, a.namespace, a.name
              LIMIT $3) AS aliases,
       ARRAY(SELECT DISTINCT t.tag
               FROM dataset_tags t
              WHERE t.organization_id = $1
                AND t.dataset_id = d.id
              ORDER BY t.tag) AS tags
  FROM datasets d
  LEFT JOIN dataset_notes n ON n.organization_id = $1 AND n.dataset_id = d.id AND n.column_name = ''
  LEFT JOIN dataset_facets f ON f.organization_id = $1 AND f.dataset_id = d.id AND f.name = 'ownership'
 WHERE d.organization_id = $1
   AND d.id = ANY ($2::uuid[]);

-- name: list_downstream
-- Datasets downstream of one, the nearest first, at most so many.
SELECT d.display_name
  FROM walk_lineage($1, ARRAY[$2::uuid], 'down', 10, $3, NULL, false) w
  JOIN datasets d ON d.organization_id = $1 AND d.id = w.dataset_id
 WHERE w.depth > 0
 ORDER BY w.depth, d.display_name;

-- name: list_series
-- The latest values of a metric of a dataset by a time, the newest first.
SELECT p.value
  FROM (SELECT m.measured_at, m.run_id,
               CASE $3::text WHEN 'row_count' THEN m.row_count::double precision
                             WHEN 'byte_size' THEN m.byte_size::double precision
                             ELSE (m.verdicts -> $3 ->> 'value')::double precision END AS value
          FROM dataset_metrics m
         WHERE m.organization_id = $1
           AND m.dataset_id = $2
           AND m.measured_at <= $5
           AND m.measured_at > $5 - interval '90 days'
           AND m.direction <> 'input'
           AND m.partition_key = $4
         ORDER BY m.measured_at DESC, m.run_id DESC
         LIMIT 90) p
 WHERE p.value IS NOT NULL
 ORDER BY p.measured_at DESC, p.run_id DESC
 LIMIT $6;

-- name: get_email_settings
-- How the organisation sends mails.
SELECT e.backend, e.host, e.port, e.tls, e.username, e.password, e.sender, e.email_to, e.email_cc, e.subject_template,
       e.updated_by, e.updated_at
  FROM email_settings e
 WHERE e.organization_id = $1;

-- name: set_email_settings
-- Sets how the organisation sends mails.
INSERT INTO email_settings AS e (organization_id, backend, host, port, tls, username, password, sender, email_to,
                                 email_cc, subject_template, updated_by, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9, $10, $11, $12, now())
ON CONFLICT (organization_id) DO UPDATE
   SET backend = EXCLUDED.backend,
       host = EXCLUDED.host,
       port = EXCLUDED.port,
       tls = EXCLUDED.tls,
       username = EXCLUDED.username,
       password = EXCLUDED.password,
       sender = EXCLUDED.sender,
       email_to = EXCLUDED.email_to,
       email_cc = EXCLUDED.email_cc,
       subject_template = EXCLUDED.subject_template,
       updated_by = EXCLUDED.updated_by,
       updated_at = now()
 WHERE e.organization_id = $1
RETURNING backend, host, port, tls, username, password, sender, email_to, email_cc, subject_template, updated_by,
          updated_at;
