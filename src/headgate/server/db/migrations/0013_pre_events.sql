-- What the log says at a glance: events by hour and producer, counted as they come in.
SET LOCAL lock_timeout = '5s';

-- Each database connection counts in rows of its own, so writers never wait for each other; readers add them up.
CREATE TABLE ingest_hours (
  organization_id  uuid NOT NULL,
  hour             timestamptz NOT NULL,
  producer         text NOT NULL,
  outcome          text NOT NULL CHECK (outcome IN ('accepted', 'refused')),
  reason           text NOT NULL,
  backend          integer NOT NULL,
  events           bigint NOT NULL,
  first_id         bigint,
  last_id          bigint,
  first_at         timestamptz NOT NULL,
  last_at          timestamptz NOT NULL,
  ahead            bigint NOT NULL,
  max_ahead        interval NOT NULL,
  late             bigint NOT NULL,
  max_late         interval NOT NULL,
  PRIMARY KEY (organization_id, hour, producer, outcome, reason, backend)
) WITH (fillfactor = 50);
COMMENT ON TABLE ingest_hours IS 'Events by the hour in which they were received, those that were refused included';
COMMENT ON COLUMN ingest_hours.producer IS 'Its first 500 characters; empty where a refused body names none';
COMMENT ON COLUMN ingest_hours.reason IS 'Empty for accepted events';
COMMENT ON COLUMN ingest_hours.backend IS 'Process id of the connection that counted';
COMMENT ON COLUMN ingest_hours.first_id IS 'Lowest id in lineage_events; NULL for what never became a row of it';
COMMENT ON COLUMN ingest_hours.ahead IS 'Events that were received more than 5 seconds before their own time';
COMMENT ON COLUMN ingest_hours.late IS 'Events that were received more than an hour after their own time';

CREATE TABLE ingest_marks (
  organization_id  uuid NOT NULL,
  hour             timestamptz NOT NULL,
  producer         text NOT NULL,
  mark             text NOT NULL,
  backend          integer NOT NULL,
  events           bigint NOT NULL,
  last_id          bigint NOT NULL,
  PRIMARY KEY (organization_id, hour, producer, mark, backend)
) WITH (fillfactor = 50);
COMMENT ON TABLE ingest_marks IS 'Accepted events by what the log notes of them, counted as in ingest_hours';

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['ingest_hours', 'ingest_marks'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

-- Grouped twice: the inner groups are found by plain columns, which are many times cheaper to compare, and what is
-- cut or rounded is then worked out for a handful of rows.
CREATE FUNCTION count_logged_events() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO ingest_hours AS t (organization_id, hour, producer, outcome, reason, backend, events, first_id, last_id,
                                 first_at, last_at, ahead, max_ahead, late, max_late)
  SELECT g.organization_id, date_trunc('hour', g.received_at, 'UTC'), left(g.producer, 500), g.outcome,
         coalesce(g.reason, ''), pg_backend_pid(), sum(g.events), min(g.first_id), max(g.last_id),
         min(g.received_at), max(g.received_at), sum(g.ahead),
         greatest(max(g.newest - g.received_at), interval '0'), sum(g.late),
         greatest(max(g.received_at - g.oldest), interval '0')
    FROM (SELECT f.organization_id, f.producer, f.outcome, f.reason, f.received_at, count(*) AS events,
                 min(f.id) AS first_id, max(f.id) AS last_id, min(f.event_time) AS oldest,
                 max(f.event_time) AS newest,
                 count(*) FILTER (WHERE f.event_time > f.received_at
                                    AND f.event_time - f.received_at > interval '5 seconds') AS ahead,
                 count(*) FILTER (WHERE f.event_time < f.received_at
                                    AND f.received_at - f.event_time > interval '1 hour') AS late
            FROM fresh f
           WHERE f.organization_id = coalesce((SELECT current_organization()), f.organization_id)
           GROUP BY f.organization_id, f.producer, f.outcome, f.reason, f.received_at) g
   GROUP BY 1, 2, 3, 4, 5
  ON CONFLICT (organization_id, hour, producer, outcome, reason, backend) DO UPDATE
     SET events = t.events + EXCLUDED.events,
         first_id = least(t.first_id, EXCLUDED.first_id),
         last_id = greatest(t.last_id, EXCLUDED.last_id),
         first_at = least(t.first_at, EXCLUDED.first_at),
         last_at = greatest(t.last_at, EXCLUDED.last_at),
         ahead = t.ahead + EXCLUDED.ahead,
         max_ahead = greatest(t.max_ahead, EXCLUDED.max_ahead),
         late = t.late + EXCLUDED.late,
         max_late = greatest(t.max_late, EXCLUDED.max_late);
  IF EXISTS (SELECT FROM fresh f WHERE f.marks <> '{}') THEN
    INSERT INTO ingest_marks AS t (organization_id, hour, producer, mark, backend, events, last_id)
    SELECT f.organization_id, date_trunc('hour', f.received_at, 'UTC'), left(f.producer, 500), m.mark,
           pg_backend_pid(), count(*), max(f.id)
      FROM fresh f
     CROSS JOIN LATERAL unnest(f.marks) AS m (mark)
     WHERE f.organization_id = coalesce((SELECT current_organization()), f.organization_id)
     GROUP BY 1, 2, 3, 4
    ON CONFLICT (organization_id, hour, producer, mark, backend) DO UPDATE
       SET events = t.events + EXCLUDED.events,
           last_id = greatest(t.last_id, EXCLUDED.last_id);
  END IF;
  RETURN NULL;
END
$$;

-- What a run's state refuses is in the log, and counted there.
CREATE FUNCTION count_refused_events() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO ingest_hours AS t (organization_id, hour, producer, outcome, reason, backend, events, first_at, last_at,
                                 ahead, max_ahead, late, max_late)
  SELECT f.organization_id, date_trunc('hour', f.received_at, 'UTC'), left(coalesce(f.producer, ''), 500), 'refused',
         f.code, pg_backend_pid(), count(*), min(f.received_at), max(f.received_at), 0, interval '0', 0, interval '0'
    FROM fresh f
   WHERE f.organization_id = coalesce((SELECT current_organization()), f.organization_id)
     AND f.code <> 'run.state'
   GROUP BY 1, 2, 3, 5
  ON CONFLICT (organization_id, hour, producer, outcome, reason, backend) DO UPDATE
     SET events = t.events + EXCLUDED.events,
         first_at = least(t.first_at, EXCLUDED.first_at),
         last_at = greatest(t.last_at, EXCLUDED.last_at);
  RETURN NULL;
END
$$;

-- From here on nothing is written to either log until this is done, so nothing is missed or counted twice.
CREATE TRIGGER lineage_events_count
  AFTER INSERT ON lineage_events
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT
  EXECUTE FUNCTION count_logged_events();
CREATE TRIGGER refused_events_count
  AFTER INSERT ON refused_events
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT
  EXECUTE FUNCTION count_refused_events();

-- What was received before is counted once, one organisation after the other: without one set, no row is visible.
DO $$
DECLARE
  organization uuid;
BEGIN
  FOR organization IN SELECT o.id FROM organizations o LOOP
    PERFORM set_config('headgate.organization_id', organization::text, true);
    INSERT INTO ingest_hours (organization_id, hour, producer, outcome, reason, backend, events, first_id, last_id,
                              first_at, last_at, ahead, max_ahead, late, max_late)
    SELECT organization, date_trunc('hour', e.received_at, 'UTC'), left(e.producer, 500), e.outcome,
           coalesce(e.reason, ''), 0, count(*), min(e.id), max(e.id), min(e.received_at), max(e.received_at),
           count(*) FILTER (WHERE e.event_time - e.received_at > interval '5 seconds'),
           greatest(max(e.event_time - e.received_at), interval '0'),
           count(*) FILTER (WHERE e.received_at - e.event_time > interval '1 hour'),
           greatest(max(e.received_at - e.event_time), interval '0')
      FROM lineage_events e
     WHERE e.organization_id = organization
     GROUP BY 2, 3, 4, 5
    UNION ALL
    SELECT organization, date_trunc('hour', r.received_at, 'UTC'), left(coalesce(r.producer, ''), 500), 'refused',
           r.code, 0, count(*), NULL, NULL, min(r.received_at), max(r.received_at), 0, interval '0', 0, interval '0'
      FROM refused_events r
     WHERE r.organization_id = organization
       AND r.code <> 'run.state'
     GROUP BY 2, 3, 5;
    INSERT INTO ingest_marks (organization_id, hour, producer, mark, backend, events, last_id)
    SELECT organization, date_trunc('hour', e.received_at, 'UTC'), left(e.producer, 500), m.mark, 0, count(*),
           max(e.id)
      FROM lineage_events e
     CROSS JOIN LATERAL unnest(e.marks) AS m (mark)
     WHERE e.organization_id = organization
     GROUP BY 2, 3, 4;
  END LOOP;
  PERFORM set_config('headgate.organization_id', '', true);
END
$$;

-- store_events takes in e_extra why an event was refused, or what is to be noted of an accepted one: several words,
-- where it used to be the one word `lenient`. The rest is as in migration 0004, its settings included.
CREATE OR REPLACE FUNCTION store_events(
  p_organization    uuid,
  p_tenant_code     text,
  e_kind            text[],
  e_type            text[],
  e_time            timestamptz[],
  e_run             uuid[],
  e_job             uuid[],
  e_producer        text[],
  e_extra           text[],
  e_raw             bytea[],
  r_run             uuid[],
  r_place           text[],
  r_has_ended       boolean[],
  r_job             uuid[],
  r_state           text[],
  r_started_at      timestamptz[],
  r_last_event_at   timestamptz[],
  r_activity_at     timestamptz[],
  r_start_at        timestamptz[],
  r_complete_at     timestamptz[],
  r_parent          uuid[],
  r_root            uuid[],
  r_processing      text[],
  r_inputs          text[],
  r_outputs         text[],
  r_producer        text[],
  r_extra           text[],
  h_job             uuid[],
  h_dataset         uuid[],
  h_role            text[],
  h_first_at        timestamptz[],
  h_last_at         timestamptz[],
  h_completed_at    timestamptz[],
  h_start_hash      bigint[],
  h_facets_hash     bigint[],
  h_columns_hash    bigint[],
  h_columns_at      timestamptz[],
  h_schema          bytea[],
  h_schema_at       timestamptz[],
  s_source          uuid[],
  s_target          uuid[],
  s_job             uuid[],
  s_first_at        timestamptz[],
  s_last_at         timestamptz[],
  s_completed_at    timestamptz[],
  s_run             uuid[],
  m_dataset         uuid[],
  m_at              timestamptz[],
  m_run             uuid[],
  m_direction       text[],
  m_job             uuid[],
  m_rows            bigint[],
  m_bytes           bigint[],
  m_partition_key   text[],
  m_extra           text[]
)
  RETURNS void
  LANGUAGE plpgsql
  SET enable_seqscan = off
  SET enable_hashjoin = off
  SET enable_mergejoin = off
  SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan
  AS $$
DECLARE
  held uuid[];
  written integer;
BEGIN
  INSERT INTO lineage_events (organization_id, kind, event_type, event_time, run_id, job_id, producer, tenant_code,
                              outcome, reason, marks, raw)
  SELECT p_organization, u.kind, u.type, u.at, u.run, u.job, u.producer, p_tenant_code,
         CASE WHEN starts_with(u.extra, 'run.') THEN 'refused' ELSE 'accepted' END,
         CASE WHEN starts_with(u.extra, 'run.') THEN u.extra END,
         CASE WHEN u.extra IS NULL OR starts_with(u.extra, 'run.') THEN '{}' ELSE string_to_array(u.extra, ' ') END,
         u.raw
    FROM unnest(e_kind, e_type, e_time, e_run, e_job, e_producer, e_extra, e_raw)
         AS u (kind, type, at, run, job, producer, extra, raw);

  -- The caller holds the locks of those that have a row, and has found which runs end, or end earlier than was known.
  -- The trigger lets those through.
  held := ARRAY(SELECT u.run FROM unnest(r_run, r_place) AS u (run, place) WHERE u.place IS NOT NULL);
  IF cardinality(held) > 0 THEN
    PERFORM set_config('headgate.correcting_runs', coalesce((
              SELECT array_agg(u.run)::text
                FROM unnest(r_run, r_has_ended) AS u (run, has_ended)
               WHERE u.has_ended AND u.run = ANY (held)), ''), true);
  END IF;
  -- One statement for new and for known runs. An UPDATE that joins them cannot find them by ctid, which row-level
  -- security forbids, and on a table that was never analysed reads every run of the organisation instead.
  INSERT INTO job_runs AS r (
    organization_id, run_id, job_id, job_ids, state, started_at, last_event_at, last_activity_at, start_at,
    running_at, complete_at, fail_at, abort_at, other_at, parent_run_id, root_run_id, parent_job, root_job, is_test,
    processing_type, application_id, partition_context, error, error_at, input_ids, output_ids,
    producer)
  SELECT p_organization, u.run, u.job, coalesce((x.v).job_ids, ARRAY[u.job]), u.state, u.started_at,
         u.last_event_at, u.activity_at, u.start_at, (x.v).running_at, u.complete_at, (x.v).fail_at, (x.v).abort_at,
         (x.v).other_at, u.parent, u.root, (x.v).parent_job, (x.v).root_job, coalesce((x.v).is_test, false),
         u.processing, (x.v).application_id, (x.v).partition_context, (x.v).error, (x.v).error_at,
         u.inputs::uuid[], u.outputs::uuid[], u.producer
    FROM unnest(r_run, r_job, r_state, r_started_at, r_last_event_at, r_activity_at, r_start_at,
                r_complete_at, r_parent, r_root, r_processing, r_inputs, r_outputs, r_producer, r_extra)
         AS u (run, job, state, started_at, last_event_at, activity_at, start_at, complete_at, parent, root,
               processing, inputs, outputs, producer, extra)
   CROSS JOIN LATERAL (SELECT CASE WHEN u.extra IS NOT NULL
                                   THEN jsonb_populate_record(NULL::job_runs, u.extra::jsonb) END AS v OFFSET 0) x
  ON CONFLICT (organization_id, run_id) DO UPDATE
     SET job_ids = EXCLUDED.job_ids,
         state = EXCLUDED.state,
         started_at = EXCLUDED.started_at,
         last_event_at = EXCLUDED.last_event_at,
         last_activity_at = EXCLUDED.last_activity_at,
         start_at = EXCLUDED.start_at,
         running_at = EXCLUDED.running_at,
         complete_at = EXCLUDED.complete_at,
         fail_at = EXCLUDED.fail_at,
         abort_at = EXCLUDED.abort_at,
         other_at = EXCLUDED.other_at,
         parent_run_id = EXCLUDED.parent_run_id,
         root_run_id = EXCLUDED.root_run_id,
         parent_job = EXCLUDED.parent_job,
         root_job = EXCLUDED.root_job,
         is_test = EXCLUDED.is_test,
         processing_type = EXCLUDED.processing_type,
         application_id = EXCLUDED.application_id,
         partition_context = EXCLUDED.partition_context,
         error = EXCLUDED.error,
         error_at = EXCLUDED.error_at,
         input_ids = EXCLUDED.input_ids,
         output_ids = EXCLUDED.output_ids,
         updated_at = now()
   WHERE r.run_id = ANY (held);
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written <> cardinality(r_run) THEN
    -- Another writer made a run between the caller's look and this insert. The caller starts over.
    RAISE EXCEPTION 'a run was made by another writer' USING ERRCODE = 'HG002';
  END IF;
  IF cardinality(held) > 0 THEN
    PERFORM set_config('headgate.correcting_runs', '', true);
  END IF;

  IF cardinality(h_job) > 0 THEN
    INSERT INTO job_datasets AS t (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at,
                                   last_completed_at, start_hash, facets_hash, columns_hash, columns_seen_at,
                                   schema_seen_at)
    SELECT p_organization, u.job, u.dataset, u.role, u.first_at, u.last_at, u.completed_at, u.start_hash,
           u.facets_hash, u.columns_hash, u.columns_at, u.schema_at
      FROM unnest(h_job, h_dataset, h_role, h_first_at, h_last_at, h_completed_at, h_start_hash, h_facets_hash,
                  h_columns_hash, h_columns_at, h_schema_at)
           AS u (job, dataset, role, first_at, last_at, completed_at, start_hash, facets_hash, columns_hash,
                 columns_at, schema_at)
     WHERE u.job IS NOT NULL
    ON CONFLICT (organization_id, job_id, dataset_id, role) DO UPDATE
       SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
           last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
           last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at),
           start_hash = coalesce(EXCLUDED.start_hash, t.start_hash),
           facets_hash = coalesce(EXCLUDED.facets_hash, t.facets_hash),
           columns_hash = CASE WHEN EXCLUDED.columns_seen_at >= coalesce(t.columns_seen_at, '-infinity')
                               THEN EXCLUDED.columns_hash ELSE t.columns_hash END,
           columns_before_at = CASE WHEN EXCLUDED.columns_hash <> t.columns_hash
                                     AND EXCLUDED.columns_seen_at >= t.columns_seen_at
                                    THEN t.columns_seen_at ELSE t.columns_before_at END,
           columns_seen_at = greatest(t.columns_seen_at, EXCLUDED.columns_seen_at),
           schema_seen_at = greatest(t.schema_seen_at, EXCLUDED.schema_seen_at);
  END IF;

  IF cardinality(s_job) > 0 THEN
    INSERT INTO lineage_edges AS t (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at,
                                    last_completed_at, last_run_id)
    SELECT p_organization, u.source, u.target, u.job, u.first_at, u.last_at, u.completed_at, u.run
      FROM unnest(s_source, s_target, s_job, s_first_at, s_last_at, s_completed_at, s_run)
           AS u (source, target, job, first_at, last_at, completed_at, run)
    ON CONFLICT (organization_id, source_id, target_id, job_id) DO UPDATE
       SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
           last_run_id = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.last_run_id
                              ELSE t.last_run_id END,
           last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
           last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);
  END IF;

  IF cardinality(m_run) > 0 THEN
    INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, job_id, row_count,
                                 byte_size, file_count, partition_count, partition_key, columns)
    SELECT p_organization, u.dataset, u.at, u.run, u.direction, u.job, u.rows, u.bytes,
           (u.extra::jsonb ->> 'file_count')::bigint, (u.extra::jsonb ->> 'partition_count')::bigint,
           u.partition_key, u.extra::jsonb -> 'columns'
      FROM unnest(m_dataset, m_at, m_run, m_direction, m_job, m_rows, m_bytes, m_partition_key, m_extra)
           AS u (dataset, at, run, direction, job, rows, bytes, partition_key, extra)
    ON CONFLICT DO NOTHING;
  END IF;

  -- Follow-ups of runs that ended and of metrics that came in.
  INSERT INTO outbox (organization_id, kind, run_id, dataset_id, payload)
  SELECT p_organization, 'run_finished', u.run, NULL, jsonb_build_object('state', u.state)
    FROM unnest(r_run, r_has_ended, r_state) AS u (run, has_ended, state)
   WHERE u.has_ended
  UNION ALL
  SELECT p_organization, 'metrics_recorded', u.run, u.dataset, '{}'
    FROM unnest(m_run, m_dataset) AS u (run, dataset);
END
$$;

-- Which runs came in since a moment; BRIN keeps it almost free on the write path.
CREATE INDEX job_runs_created ON job_runs USING brin (created_at);
