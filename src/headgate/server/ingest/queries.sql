-- name: claim_events
-- Makes the transaction the organisation's, takes the keys of new events, and locks those of their runs that exist.
SELECT fresh, epoch, held
  FROM claim_events($1, $2, $3);

-- name: lock_names
-- Keeps every other writer of the organisation out until this transaction ends.
SELECT pg_advisory_xact_lock(merge_lock($1));

-- name: release_keys
-- Events that were refused may come again.
DELETE FROM idempotency_keys
 WHERE organization_id = $1
   AND key = ANY ($2::bytea[]);

-- name: store_events
-- Writes the rows of a group; see migration 0016 for the arguments.
SELECT store_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                    $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34,
                    $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50,
                    $51, $52, $53, $54, $55, $56, $57, $58, $59);

-- name: compare_uses
-- Which uses have content that is not stored yet.
SELECT stale_facets, stale_columns, stale_schemas
  FROM compare_uses($1, $2, $3, $4, $5, $6, $7, $8);

-- name: supersede_metrics
-- Makes room for the metrics of runs that existed before; the places of those to be written.
SELECT supersede_metrics($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: touch_lineage
-- When known uses and edges were last seen.
SELECT touch_lineage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: bump_epoch
-- Makes every other server forget what it remembers of the organisation.
SELECT bump_epoch($1);

-- name: find_known_keys
-- Which of these keys were accepted within the last day.
SELECT key
  FROM idempotency_keys
 WHERE organization_id = $1
   AND key = ANY ($2::bytea[])
   AND created_at >= now() - interval '24 hours';

-- name: resolve_jobs
-- Ids of jobs by name, made if missing.
SELECT ingest_jobs($1, $2, $3, $4);

-- name: resolve_datasets
-- Ids of datasets by canonical name, made if missing.
SELECT ingest_datasets($1, $2, $3, $4, $5, $6, $7);

-- name: merge_job_facets
-- Adds facets to jobs: a newer event replaces, an older one only fills what is missing.
UPDATE jobs j
   SET job_type = coalesce(u.job_type, j.job_type),
       processing_type = coalesce(u.processing_type, j.processing_type),
       integration = coalesce(u.integration, j.integration),
       facets = CASE WHEN u.at >= coalesce(j.facets_at, '-infinity')
                     THEN (j.facets || u.body::jsonb) - string_to_array(u.deleted, E'\x1f')
                     ELSE u.body::jsonb || j.facets END,
       facets_hash = CASE WHEN u.at >= coalesce(j.facets_at, '-infinity') THEN u.hash ELSE j.facets_hash END,
       facets_at = greatest(j.facets_at, u.at)
  FROM unnest($2::uuid[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
       AS u (job_id, at, hash, body, deleted, job_type, processing_type, integration)
 WHERE j.organization_id = $1
   AND j.id = u.job_id;

-- name: upsert_dataset_facets
-- The latest body of each facet. A body that its job still sends counts as seen when the job was last seen.
INSERT INTO dataset_facets AS t (organization_id, dataset_id, name, body, event_time, job_id, role, facets_hash)
SELECT $1, u.dataset_id, u.name, u.body::jsonb, u.at, u.job_id, u.role, u.hash
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::uuid[], $7::text[], $8::bigint[])
       AS u (dataset_id, name, body, at, job_id, role, hash)
 ORDER BY u.dataset_id, u.name
ON CONFLICT (organization_id, dataset_id, name) DO UPDATE
   SET body = EXCLUDED.body,
       event_time = EXCLUDED.event_time,
       job_id = EXCLUDED.job_id,
       role = EXCLUDED.role,
       facets_hash = EXCLUDED.facets_hash
 WHERE EXCLUDED.event_time >= greatest(t.event_time, (
         SELECT h.last_seen_at
           FROM job_datasets h
          WHERE h.organization_id = t.organization_id
            AND h.job_id = t.job_id
            AND h.dataset_id = t.dataset_id
            AND h.role = t.role
            AND t.facets_hash IN (h.facets_hash, h.start_hash)));

-- name: delete_dataset_facets
-- Facets that a producer has marked deleted, unless they were sent again later.
DELETE FROM dataset_facets t
 USING unnest($2::uuid[], $3::text[], $4::timestamptz[]) AS u (dataset_id, name, at)
 WHERE t.organization_id = $1
   AND t.dataset_id = u.dataset_id
   AND t.name = u.name
   AND t.event_time <= u.at;

-- name: describe_datasets
-- Type, location and latest drop of datasets, as their newest event tells them; a type that says little changes none.
UPDATE datasets d
   SET type = CASE WHEN u.type IN ('table', 'file') THEN coalesce(d.type, u.type) ELSE coalesce(u.type, d.type) END,
       location = coalesce(u.location, d.location),
       dropped_at = greatest(d.dropped_at, u.dropped_at)
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::timestamptz[]) AS u (dataset_id, type, location, dropped_at)
 WHERE d.organization_id = $1
   AND d.id = u.dataset_id
   AND ((u.type IS NOT NULL AND u.type IS DISTINCT FROM d.type)
     OR (u.location IS NOT NULL AND u.location IS DISTINCT FROM d.location)
     OR u.dropped_at IS NOT NULL);

-- name: store_column_lineage
-- Makes these edges the current ones of a job and its output, if its newest event says so.
SELECT store_column_lineage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: carry_lineage
-- Lets what led into datasets lead into those that they were renamed to.
SELECT carry_lineage($1, $2, $3, $4);

-- name: lock_schemas
-- The current schema of each dataset, with the dataset locked in order.
SELECT d.id AS dataset_id, d.schema_by, v.id AS version_id, v.version, v.schema_hash, v.fields, v.valid_from,
       v.job_id,
       (SELECT max(h.schema_seen_at)
          FROM job_datasets h
         WHERE h.organization_id = d.organization_id
           AND h.dataset_id = d.id
           AND (h.role = 'output' OR d.schema_by = 'input')) AS seen_at
  FROM datasets d
  LEFT JOIN schema_versions v ON v.organization_id = d.organization_id AND v.dataset_id = d.id AND v.valid_to IS NULL
 WHERE d.organization_id = $1
   AND d.id = ANY ($2::uuid[])
 ORDER BY d.id
   FOR UPDATE OF d;

-- name: list_schema_history
-- All versions of one dataset, oldest first.
SELECT id AS version_id, version, schema_hash, fields, valid_from, valid_to, job_id
  FROM schema_versions
 WHERE organization_id = $1
   AND dataset_id = $2
 ORDER BY valid_from, version;

-- name: close_schema_versions
-- Ends versions at the time their successor begins.
UPDATE schema_versions v
   SET valid_to = u.valid_to
  FROM unnest($2::uuid[], $3::uuid[], $4::timestamptz[]) AS u (dataset_id, version_id, valid_to)
 WHERE v.organization_id = $1
   AND v.dataset_id = u.dataset_id
   AND v.id = u.version_id;

-- name: insert_schema_versions
-- New versions.
INSERT INTO schema_versions (organization_id, dataset_id, id, version, schema_hash, fields, run_id, job_id,
                             columns_added, columns_removed, columns_type_changed, change_type, description, breaking,
                             client_hash, valid_from, valid_to)
SELECT $1, u.dataset_id, u.id, u.version, u.hash, u.fields::jsonb, u.run_id, u.job_id,
       ARRAY(SELECT jsonb_array_elements_text(u.added::jsonb)),
       ARRAY(SELECT jsonb_array_elements_text(u.removed::jsonb)),
       ARRAY(SELECT jsonb_array_elements_text(u.type_changed::jsonb)),
       u.change_type, u.description, u.breaking, u.client_hash, u.valid_from, u.valid_to
  FROM unnest($2::uuid[], $3::uuid[], $4::integer[], $5::bytea[], $6::text[], $7::uuid[], $8::uuid[], $9::text[],
              $10::text[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::timestamptz[],
              $17::timestamptz[])
       AS u (dataset_id, id, version, hash, fields, run_id, job_id, added, removed, type_changed, change_type,
             description, breaking, client_hash, valid_from, valid_to);

-- name: move_schema_start
-- A version turns out to have begun earlier.
UPDATE schema_versions
   SET valid_from = $4
 WHERE organization_id = $1
   AND dataset_id = $2
   AND id = $3;

-- name: renumber_schema_versions
-- Numbers the versions of one dataset by time, after one was found to belong in between.
UPDATE schema_versions v
   SET version = n.place
  FROM (SELECT s.id, row_number() OVER (ORDER BY s.valid_from, s.version)::integer AS place
          FROM schema_versions s
         WHERE s.organization_id = $1
           AND s.dataset_id = $2) n
 WHERE v.organization_id = $1
   AND v.dataset_id = $2
   AND v.id = n.id
   AND v.version <> n.place;

-- name: set_dataset_schemas
-- What the datasets' current schemas are, so that an unchanged one is recognised at once.
UPDATE datasets d
   SET schema_hash = u.hash,
       schema_at = u.at,
       schema_by = u.schema_by
  FROM unnest($2::uuid[], $3::bytea[], $4::timestamptz[], $5::text[]) AS u (dataset_id, hash, at, schema_by)
 WHERE d.organization_id = $1
   AND d.id = u.dataset_id;

-- name: upsert_test_results
-- Results of tests, one a run, dataset and test; the latest event of the run speaks. Gives those that were news.
INSERT INTO test_results AS t (organization_id, run_id, job_id, dataset_id, test_key, name, assertion, column_name,
                               status, severity, expected, actual, description, detail, sent_urn, observed_at)
SELECT $1, u.run_id, u.job_id, u.dataset_id, u.test_key, u.name, u.assertion, u.column_name, u.status, u.severity,
       u.expected, u.actual, u.description, u.detail::jsonb, u.sent_urn, u.observed_at
  FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::timestamptz[])
       AS u (run_id, job_id, dataset_id, test_key, name, assertion, column_name, status, severity, expected, actual,
             description, detail, sent_urn, observed_at)
 ORDER BY u.run_id, u.dataset_id, u.test_key
ON CONFLICT (organization_id, run_id, coalesce(dataset_id, '00000000-0000-0000-0000-000000000000'), test_key) DO UPDATE
   SET status = EXCLUDED.status,
       severity = EXCLUDED.severity,
       expected = EXCLUDED.expected,
       actual = EXCLUDED.actual,
       description = EXCLUDED.description,
       detail = EXCLUDED.detail,
       sent_urn = EXCLUDED.sent_urn,
       observed_at = EXCLUDED.observed_at
 WHERE EXCLUDED.observed_at > t.observed_at
    OR (EXCLUDED.observed_at = t.observed_at
        AND (EXCLUDED.status, EXCLUDED.severity, EXCLUDED.expected, EXCLUDED.actual, EXCLUDED.description,
             EXCLUDED.detail) IS DISTINCT FROM (t.status, t.severity, t.expected, t.actual, t.description, t.detail))
RETURNING t.run_id, t.dataset_id, t.test_key;

-- name: upsert_stage_metrics
-- Cost of stages; what a later event leaves out stays.
SELECT store_stage_metrics($1, $2::jsonb);

-- name: find_aliases
-- Which datasets these names lead to, and since when those exist.
SELECT a.namespace, a.name, a.dataset_id, d.created_at
  FROM unnest($2::text[], $3::text[]) AS u (namespace, name)
  JOIN dataset_aliases a ON a.organization_id = $1 AND a.namespace = u.namespace AND a.name = u.name
  JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id;

-- name: insert_alias
-- One more name for a dataset, or for the one it has been merged into meanwhile.
INSERT INTO dataset_aliases (organization_id, namespace, name, dataset_id, source)
VALUES ($1, $2, $3, surviving_dataset($1, $4), $5)
ON CONFLICT (organization_id, namespace, name) DO NOTHING;

-- name: merge_datasets
-- Joins two datasets into the older one; returns the id of the merge.
SELECT merge_datasets($1, $2, $3, $4, NULL);

-- name: insert_refused
-- Keeps what was refused, for the producer to look at.
INSERT INTO refused_events (organization_id, route, code, reason, producer, errors, body, body_size, correlation_id)
SELECT $1, u.route, u.code, u.reason, u.producer, u.errors::jsonb, u.body, u.body_size, u.correlation_id
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::bigint[], $9::text[])
       AS u (route, code, reason, producer, errors, body, body_size, correlation_id);

-- name: get_tenant
-- Settings and name rules of one organisation.
SELECT o.settings,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(p.name, p.regex, p.kind, p.enabled) ORDER BY p.name), '[]')
          FROM name_patterns p
         WHERE p.organization_id = o.id) AS patterns,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(r.pattern, r.canonical) ORDER BY r.position), '[]')
          FROM alias_rules r
         WHERE r.organization_id = o.id) AS rules
  FROM organizations o
 WHERE o.id = $1;

-- name: set_schema_change
-- What a version changed, now that another one turned out to stand before it.
UPDATE schema_versions
   SET columns_added = $4,
       columns_removed = $5,
       columns_type_changed = $6,
       change_type = $7,
       description = $8,
       breaking = $9
 WHERE organization_id = $1
   AND dataset_id = $2
   AND id = $3;

-- name: upsert_pipeline_runs
-- Runs of pipelines. The earliest event that ends one tells how; a row without a record knows it from a node only.
INSERT INTO pipeline_runs AS t (organization_id, run_id, project, pipeline, environment, file, status, started_at,
                                ended_at, told_at, told_rank, record)
SELECT $1, u.run_id, u.project, u.pipeline, u.environment, u.file, coalesce(u.status, 'running'), u.started_at,
       u.ended_at, u.told_at, u.told_rank, u.record::jsonb
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
              $9::timestamptz[], $10::timestamptz[], $11::smallint[], $12::text[])
       AS u (run_id, project, pipeline, environment, file, status, started_at, ended_at, told_at, told_rank, record)
 ORDER BY u.run_id
ON CONFLICT (organization_id, run_id) DO UPDATE
   SET (project, pipeline, environment, file, status, started_at, ended_at, told_at, told_rank, record) = (
         SELECT CASE WHEN w.tells THEN EXCLUDED.project ELSE t.project END,
                CASE WHEN w.tells THEN EXCLUDED.pipeline ELSE t.pipeline END,
                CASE WHEN w.tells THEN coalesce(EXCLUDED.environment, t.environment)
                     ELSE coalesce(t.environment, EXCLUDED.environment) END,
                CASE WHEN w.tells THEN coalesce(EXCLUDED.file, t.file) ELSE coalesce(t.file, EXCLUDED.file) END,
                CASE WHEN w.ends THEN EXCLUDED.status ELSE t.status END,
                least(t.started_at, EXCLUDED.started_at),
                CASE WHEN w.ends THEN EXCLUDED.ended_at ELSE t.ended_at END,
                CASE WHEN w.ends THEN EXCLUDED.told_at ELSE t.told_at END,
                CASE WHEN w.ends THEN EXCLUDED.told_rank ELSE t.told_rank END,
                CASE WHEN w.tells THEN EXCLUDED.record ELSE t.record END
           FROM (SELECT e.ends, e.ends OR (t.record IS NULL AND EXCLUDED.record IS NOT NULL) AS tells
                   FROM (SELECT EXCLUDED.told_at IS NOT NULL
                                AND (t.told_at IS NULL
                                  OR (EXCLUDED.told_at, EXCLUDED.told_rank) < (t.told_at, t.told_rank)) AS ends) e) w);

-- name: upsert_node_runs
-- Attempts of nodes, under the same rule.
INSERT INTO node_runs AS t (organization_id, run_id, pipeline_run_id, project, pipeline, node, attempt, status, rows_in,
                            rows_valid, rows_quarantined, rows_published, gate, tests, passed_tests, failed_tests,
                            output_urn, output_label, started_at, ended_at, handles_batch, told_at, told_rank, record)
SELECT $1, u.run_id, u.pipeline_run_id, u.project, u.pipeline, u.node, u.attempt, coalesce(u.status, 'running'),
       u.rows_in, u.rows_valid, u.rows_quarantined, u.rows_published, u.gate::jsonb, u.tests, u.passed_tests,
       u.failed_tests, u.output_urn, u.output_label, u.started_at, u.ended_at, u.handles_batch, u.told_at, u.told_rank,
       u.record::jsonb
  FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::bigint[],
              $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::integer[], $15::integer[], $16::integer[],
              $17::text[], $18::text[], $19::timestamptz[], $20::timestamptz[], $21::boolean[], $22::timestamptz[],
              $23::smallint[], $24::text[])
       AS u (run_id, pipeline_run_id, project, pipeline, node, attempt, status, rows_in, rows_valid, rows_quarantined,
             rows_published, gate, tests, passed_tests, failed_tests, output_urn, output_label, started_at, ended_at,
             handles_batch, told_at, told_rank, record)
 ORDER BY u.run_id
ON CONFLICT (organization_id, run_id) DO UPDATE
   SET (pipeline_run_id, project, pipeline, node, attempt, status, rows_in, rows_valid, rows_quarantined,
        rows_published, gate, tests, passed_tests, failed_tests, output_urn, output_label, started_at, ended_at,
        handles_batch, told_at, told_rank, record) = (
         SELECT coalesce(n.pipeline_run_id, t.pipeline_run_id, EXCLUDED.pipeline_run_id), n.project, n.pipeline, n.node,
                n.attempt, n.status, n.rows_in, n.rows_valid, n.rows_quarantined, n.rows_published, n.gate, n.tests,
                n.passed_tests, n.failed_tests, n.output_urn, n.output_label,
                least(t.started_at, EXCLUDED.started_at), n.ended_at, n.handles_batch, n.told_at, n.told_rank, n.record
           FROM (SELECT EXCLUDED.told_at IS NOT NULL
                        AND (t.told_at IS NULL
                          OR (EXCLUDED.told_at, EXCLUDED.told_rank) < (t.told_at, t.told_rank)) AS ends) e
          CROSS JOIN LATERAL (SELECT EXCLUDED.* WHERE e.ends UNION ALL SELECT t.* WHERE NOT e.ends) n);

-- name: count_nodes
-- Nodes of runs by how their latest attempt ended, and the rows that went through them.
UPDATE pipeline_runs p
   SET published_nodes = c.published,
       stopped_nodes = c.stopped,
       failed_nodes = c.failed,
       skipped_nodes = c.skipped,
       running_nodes = c.running,
       rows_in = least(c.rows_in, 9223372036854775807),
       rows_quarantined = least(c.rows_quarantined, 9223372036854775807),
       rows_published = least(c.rows_published, 9223372036854775807)
  FROM unnest($2::uuid[]) AS u (run_id)
 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE l.status = 'published') AS published,
                            count(*) FILTER (WHERE l.status = 'stopped') AS stopped,
                            count(*) FILTER (WHERE l.status = 'failed') AS failed,
                            count(*) FILTER (WHERE l.status = 'skipped') AS skipped,
                            count(*) FILTER (WHERE l.status = 'running') AS running,
                            coalesce(sum(l.rows_in), 0) AS rows_in,
                            coalesce(sum(l.rows_quarantined), 0) AS rows_quarantined,
                            coalesce(sum(l.rows_published), 0) AS rows_published
                       FROM (SELECT DISTINCT ON (n.node) n.status, n.rows_in, n.rows_quarantined, n.rows_published
                               FROM node_runs n
                              WHERE n.organization_id = $1
                                AND n.pipeline_run_id = u.run_id
                              ORDER BY n.node, n.attempt DESC, n.started_at DESC, n.run_id) l) c
 WHERE p.organization_id = $1
   AND p.run_id = u.run_id;

-- name: upsert_quarantine_batches
-- Batches in quarantine: what they hold as the latest run to write them says, their state as the latest to touch them.
INSERT INTO quarantine_batches AS t (organization_id, project, pipeline, node, batch_id, run_id, location, dataset_urn,
                                     rows, failed_tests, rejected_at, expires_at, made_at, state, changed_at,
                                     changed_by)
SELECT $1, u.project, u.pipeline, u.node, u.batch_id, u.run_id, u.location, u.dataset_urn, u.rows,
       u.failed_tests::jsonb, u.rejected_at, u.expires_at, u.made_at, u.state, u.changed_at, u.run_id
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[], $9::bigint[],
              $10::text[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::text[], $15::timestamptz[])
       AS u (project, pipeline, node, batch_id, run_id, location, dataset_urn, rows, failed_tests, rejected_at,
             expires_at, made_at, state, changed_at)
ON CONFLICT (organization_id, project, pipeline, node, batch_id) DO UPDATE
   SET (run_id, location, dataset_urn, rows, failed_tests, rejected_at, expires_at, made_at) = (
         SELECT n.run_id, n.location, n.dataset_urn, n.rows, n.failed_tests, n.rejected_at, n.expires_at, n.made_at
           FROM (SELECT EXCLUDED.made_at IS NOT NULL
                        AND (t.made_at IS NULL OR (EXCLUDED.made_at, EXCLUDED.run_id) > (t.made_at, t.run_id))
                          AS makes) m
          CROSS JOIN LATERAL (SELECT EXCLUDED.* WHERE m.makes UNION ALL SELECT t.* WHERE NOT m.makes) n),
       (state, changed_at, changed_by) = (
         SELECT CASE WHEN c.changes THEN EXCLUDED.state ELSE t.state END,
                CASE WHEN c.changes THEN EXCLUDED.changed_at ELSE t.changed_at END,
                CASE WHEN c.changes THEN EXCLUDED.changed_by ELSE t.changed_by END
           FROM (SELECT (EXCLUDED.changed_at, EXCLUDED.made_at IS NULL, EXCLUDED.changed_by)
                        > (t.changed_at, t.state NOT IN ('open', 'gate_aborted'), t.changed_by) AS changes) c);

-- name: move_watermarks
-- How far published runs have read: the run that ended last says it.
INSERT INTO pipeline_watermarks AS t (organization_id, project, pipeline, node, column_name, value, run_id, updated_at)
SELECT $1, u.project, u.pipeline, u.node, u.column_name, u.value, u.run_id, u.updated_at
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[])
       AS u (project, pipeline, node, column_name, value, run_id, updated_at)
ON CONFLICT (organization_id, project, pipeline, node, column_name) DO UPDATE
   SET value = EXCLUDED.value,
       run_id = EXCLUDED.run_id,
       updated_at = EXCLUDED.updated_at
 WHERE (EXCLUDED.updated_at, EXCLUDED.run_id) > (t.updated_at, t.run_id);

-- name: upsert_freshness
-- How old datasets may become, as the pipelines that write them say; what a person has set stays.
INSERT INTO freshness_sla AS t (organization_id, dataset_id, sla_hours, source, told_at)
SELECT DISTINCT ON (a.dataset_id) $1, a.dataset_id, u.hours::numeric, 'pipeline', u.told_at
  FROM unnest($2::text[], $3::text[], $4::double precision[], $5::timestamptz[]) AS u (namespace, name, hours, told_at)
  JOIN dataset_aliases a ON a.organization_id = $1 AND a.namespace = u.namespace AND a.name = u.name
 ORDER BY a.dataset_id, u.told_at DESC
ON CONFLICT (organization_id, dataset_id) DO UPDATE
   SET sla_hours = EXCLUDED.sla_hours,
       told_at = EXCLUDED.told_at
 WHERE t.source = 'pipeline'
   AND EXCLUDED.told_at >= t.told_at;

-- name: insert_alerts
-- Alerts that runs have sent, each once.
INSERT INTO pipeline_alerts (organization_id, run_id, alert_key, project, pipeline, node, event, channel, outcome,
                             reason, message, sent_at)
SELECT $1, u.run_id, u.alert_key, u.project, u.pipeline, u.node, u.event, u.channel, u.outcome, u.reason, u.message,
       u.sent_at
  FROM unnest($2::uuid[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::text[], $12::timestamptz[])
       AS u (run_id, alert_key, project, pipeline, node, event, channel, outcome, reason, message, sent_at)
ON CONFLICT (organization_id, run_id, alert_key) DO NOTHING;

-- name: store_client_anomalies
-- Anomalies that producers have found; gives the ids of those that are new.
SELECT store_client_anomalies($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);
