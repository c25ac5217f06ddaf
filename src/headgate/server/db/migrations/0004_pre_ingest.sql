-- The write path. A group of events of one organisation is stored by claim_events, which says which of them are
-- new, and store_events, which writes what they say. Between the two the caller locks the runs and decides what is
-- refused. Rows are always locked in key order, so two groups cannot wait for each other.
SET LOCAL lock_timeout = '5s';

CREATE FUNCTION merge_lock(p_organization uuid) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT hashtextextended('headgate.merge.' || p_organization::text, 0) $$;

-- Makes every server forget what it remembers of the organisation, from the next group of events on.
CREATE FUNCTION bump_epoch(p_organization uuid) RETURNS void
  LANGUAGE sql
  AS $$
    INSERT INTO content_epochs AS t (organization_id, epoch)
    VALUES (p_organization, 1)
    ON CONFLICT (organization_id) DO UPDATE SET epoch = t.epoch + 1
  $$;

-- Makes this transaction the organisation's, and takes the keys of events that were not seen within a day.
-- The shared lock keeps datasets from being merged away while rows that point to them are being written; the
-- epoch is read behind it.
CREATE FUNCTION claim_events(p_organization uuid, p_keys bytea[], OUT fresh bytea[], OUT epoch bigint)
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM set_config('headgate.organization_id', p_organization::text, true);
  PERFORM pg_advisory_xact_lock_shared(merge_lock(p_organization));
  WITH taken AS (
    INSERT INTO idempotency_keys AS k (organization_id, key)
    SELECT p_organization, u.key
      FROM unnest(p_keys) AS u (key)
     ORDER BY u.key
    ON CONFLICT (organization_id, key) DO UPDATE
       SET created_at = now()
     WHERE k.created_at < now() - interval '24 hours'
    RETURNING k.key
  )
  SELECT coalesce(array_agg(t.key), '{}') INTO fresh FROM taken t;
  SELECT coalesce((SELECT c.epoch FROM content_epochs c WHERE c.organization_id = p_organization), 0) INTO epoch;
END
$$;

-- Runs that exist, locked in order, each with the place of its row.
CREATE FUNCTION lock_runs(p_organization uuid, p_runs uuid[], OUT place text, OUT run job_runs) RETURNS SETOF record
  LANGUAGE plpgsql
  AS $$
BEGIN
  RETURN QUERY
    SELECT r.place, r.run
      FROM (SELECT u.run FROM unnest(p_runs) AS u (run) ORDER BY u.run) s
     CROSS JOIN LATERAL (SELECT j.ctid::text AS place, j AS run
                           FROM job_runs j
                          WHERE j.organization_id = p_organization
                            AND j.run_id = s.run
                            FOR UPDATE) r;
END
$$;

-- Ids of the jobs named, in order, made if missing.
CREATE FUNCTION ingest_jobs(p_organization uuid, j_namespace text[], j_name text[], p_seen_at timestamptz)
  RETURNS uuid[]
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO jobs (organization_id, namespace, name, first_seen_at)
  SELECT p_organization, u.namespace, u.name, p_seen_at
    FROM unnest(j_namespace, j_name) AS u (namespace, name)
   ORDER BY 2, 3
  ON CONFLICT (organization_id, namespace, name) DO NOTHING;
  RETURN ARRAY(SELECT j.id
                 FROM unnest(j_namespace, j_name) WITH ORDINALITY AS u (namespace, name, i)
                CROSS JOIN LATERAL (SELECT x.id
                                      FROM jobs x
                                     WHERE x.organization_id = p_organization
                                       AND x.namespace = u.namespace
                                       AND x.name = u.name
                                    OFFSET 0) j
                ORDER BY u.i);
END
$$;

-- Ids of the datasets named, in order, made if missing.
CREATE FUNCTION ingest_datasets(
  p_organization uuid, d_namespace text[], d_name text[], d_display text[], d_type text[], d_location text[],
  p_seen_at timestamptz)
  RETURNS uuid[]
  LANGUAGE plpgsql
  AS $$
DECLARE
  found uuid[];
BEGIN
  FOR attempt IN 1 .. 2 LOOP
    found := ARRAY(SELECT a.dataset_id
                     FROM unnest(d_namespace, d_name) WITH ORDINALITY AS u (namespace, name, i)
                     LEFT JOIN dataset_aliases a ON a.organization_id = p_organization
                                                AND a.namespace = u.namespace AND a.name = u.name
                    ORDER BY u.i);
    EXIT WHEN attempt = 2 OR array_position(found, NULL) IS NULL;
    INSERT INTO datasets (organization_id, namespace, name, display_name, type, location, first_seen_at)
    SELECT p_organization, u.namespace, u.name, u.display, u.type, u.location, p_seen_at
      FROM unnest(found, d_namespace, d_name, d_display, d_type, d_location)
           AS u (known, namespace, name, display, type, location)
     WHERE u.known IS NULL
     ORDER BY 2, 3
    ON CONFLICT (organization_id, namespace, name) DO NOTHING;
    -- Lateral, so that the names are looked up one by one and never all datasets against all names.
    INSERT INTO dataset_aliases (organization_id, namespace, name, dataset_id, source)
    SELECT p_organization, u.namespace, u.name, d.id, 'primary'
      FROM unnest(found, d_namespace, d_name) AS u (known, namespace, name)
     CROSS JOIN LATERAL (SELECT x.id
                           FROM datasets x
                          WHERE x.organization_id = p_organization AND x.namespace = u.namespace AND x.name = u.name
                         OFFSET 0) d
     WHERE u.known IS NULL
     ORDER BY 2, 3
    ON CONFLICT (organization_id, namespace, name) DO NOTHING;
  END LOOP;
  RETURN found;
END
$$;

-- Places of those uses whose facets, column lineage or schema differ from what is stored; the caller stores that
-- content in the same transaction.
CREATE FUNCTION compare_uses(
  p_organization uuid, h_job uuid[], h_dataset uuid[], h_role text[], h_start_hash bigint[], h_facets_hash bigint[],
  h_columns_hash bigint[], h_schema bytea[],
  OUT stale_facets integer[], OUT stale_columns integer[], OUT stale_schemas integer[])
  LANGUAGE plpgsql
  AS $$
BEGIN
  SELECT coalesce(array_agg(c.i) FILTER (WHERE c.facets_differ), '{}'),
         coalesce(array_agg(c.i) FILTER (WHERE c.columns_differ), '{}'),
         coalesce(array_agg(c.i) FILTER (WHERE c.schema_differs), '{}')
    INTO stale_facets, stale_columns, stale_schemas
    FROM (SELECT u.i::integer AS i,
                 (u.facets_hash IS NOT NULL AND u.facets_hash IS DISTINCT FROM t.facets_hash)
                   OR (u.start_hash IS NOT NULL AND u.start_hash IS DISTINCT FROM t.start_hash) AS facets_differ,
                 u.columns_hash IS NOT NULL AND u.columns_hash IS DISTINCT FROM t.columns_hash AS columns_differ,
                 -- A reader may see fewer columns than there are; once a writer has spoken, only writers count. A
                 -- writer who says what so far only readers have said has to be looked at, too.
                 u.schema IS NOT NULL
                   AND CASE WHEN u.role = 'input'
                            THEN u.schema IS DISTINCT FROM d.schema_hash AND coalesce(d.schema_by, 'input') = 'input'
                            ELSE u.schema IS DISTINCT FROM d.schema_hash OR d.schema_by = 'input'
                       END AS schema_differs
            FROM unnest(h_job, h_dataset, h_role, h_start_hash, h_facets_hash, h_columns_hash, h_schema)
                 WITH ORDINALITY AS u (job, dataset, role, start_hash, facets_hash, columns_hash, schema, i)
           CROSS JOIN LATERAL (SELECT x.schema_hash, x.schema_by
                                 FROM datasets x
                                WHERE x.organization_id = p_organization
                                  AND x.id = u.dataset
                               OFFSET 0) d
            LEFT JOIN LATERAL (SELECT x.start_hash, x.facets_hash, x.columns_hash
                                 FROM job_datasets x
                                WHERE x.organization_id = p_organization
                                  AND x.job_id = u.job
                                  AND x.dataset_id = u.dataset
                                  AND x.role = u.role
                               OFFSET 0) t ON true) c;
END
$$;

-- Metrics of runs that existed before: one row a run, dataset, direction and partition; the latest event speaks.
-- Those of a run lie between its first and its last event. Gives the places of the metrics still to be written; what
-- is already there, word for word, is not.
CREATE FUNCTION supersede_metrics(
  p_organization uuid, m_dataset uuid[], m_at timestamptz[], m_run uuid[], m_direction text[], m_from timestamptz[],
  m_until timestamptz[], m_rows bigint[], m_bytes bigint[], m_partition_key text[], m_extra text[])
  RETURNS integer[]
  LANGUAGE plpgsql
  AS $$
DECLARE
  kept integer[] := ARRAY(SELECT i FROM generate_subscripts(m_run, 1) AS i);
  stored record;
BEGIN
  -- Row by row: joined with a table that was never analysed, the metrics of the whole organisation may be read.
  FOR stored IN
    SELECT u.i::integer AS place, u.dataset, t.measured_at, u.run, u.direction, u.partition_key,
           t.measured_at <= u.at AND (t.measured_at, t.row_count, t.byte_size, t.file_count, t.partition_count, t.columns)
             IS DISTINCT FROM
             (u.at, u.rows, u.bytes, (u.extra::jsonb ->> 'file_count')::bigint,
              (u.extra::jsonb ->> 'partition_count')::bigint, u.extra::jsonb -> 'columns') AS is_superseded
      FROM unnest(m_dataset, m_at, m_run, m_direction, m_from, m_until, m_rows, m_bytes, m_partition_key, m_extra)
           WITH ORDINALITY AS u (dataset, at, run, direction, since, until, rows, bytes, partition_key, extra, i)
     CROSS JOIN LATERAL (SELECT x.measured_at, x.row_count, x.byte_size, x.file_count, x.partition_count, x.columns
                           FROM dataset_metrics x
                          WHERE x.organization_id = p_organization
                            AND x.dataset_id = u.dataset
                            AND x.measured_at BETWEEN u.since AND u.until
                            AND x.run_id = u.run
                            AND x.direction = u.direction
                            AND x.partition_key = u.partition_key
                         OFFSET 0) t
  LOOP
    IF stored.is_superseded THEN
      DELETE FROM dataset_metrics t
       WHERE t.organization_id = p_organization
         AND t.dataset_id = stored.dataset
         AND t.measured_at = stored.measured_at
         AND t.run_id = stored.run
         AND t.direction = stored.direction
         AND t.partition_key = stored.partition_key;
    ELSE
      kept := array_remove(kept, stored.place);
    END IF;
  END LOOP;
  RETURN kept;
END
$$;

-- Writes the rows of a group. Arrays of one letter prefix are the columns of one kind of row: e an event of the
-- log, r a run, h what a job reads or writes, s a lineage edge, m a metric. Every row is final: the caller has folded
-- the group's events. A run in the r arrays is new, or locked with its row's place given. What is rarely set travels
-- in *_extra, a JSON object.
--
-- Only uses and edges whose content may be new are here; of the others nothing moves but when they were last seen,
-- which touch_lineage writes a little later.
CREATE FUNCTION store_events(
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
  AS $$
DECLARE
  held uuid[];
  written integer;
BEGIN
  INSERT INTO lineage_events (organization_id, kind, event_type, event_time, run_id, job_id, producer, tenant_code,
                              outcome, reason, marks, raw)
  SELECT p_organization, u.kind, u.type, u.at, u.run, u.job, u.producer, p_tenant_code,
         CASE WHEN u.extra IS NULL OR u.extra = 'lenient' THEN 'accepted' ELSE 'refused' END,
         NULLIF(u.extra, 'lenient'),
         CASE WHEN u.extra = 'lenient' THEN '{lenient}'::text[] ELSE '{}' END, u.raw
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

-- When known uses and edges were last seen. Rows that are gone meanwhile stay gone.
CREATE FUNCTION touch_lineage(
  p_organization uuid,
  h_job uuid[], h_dataset uuid[], h_role text[], h_first_at timestamptz[], h_last_at timestamptz[],
  h_completed_at timestamptz[], h_columns_at timestamptz[], h_schema_at timestamptz[],
  s_source uuid[], s_target uuid[], s_job uuid[], s_first_at timestamptz[], s_last_at timestamptz[],
  s_completed_at timestamptz[], s_run uuid[])
  RETURNS void
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM set_config('headgate.organization_id', p_organization::text, true);
  PERFORM t.role
     FROM unnest(h_job, h_dataset, h_role) AS u (job, dataset, role)
    CROSS JOIN LATERAL (SELECT x.role
                          FROM job_datasets x
                         WHERE x.organization_id = p_organization AND x.job_id = u.job AND x.dataset_id = u.dataset
                           AND x.role = u.role
                           FOR UPDATE) t;
  UPDATE job_datasets t
     SET first_seen_at = least(t.first_seen_at, u.first_at),
         last_seen_at = greatest(t.last_seen_at, u.last_at),
         last_completed_at = greatest(t.last_completed_at, u.completed_at),
         columns_seen_at = greatest(t.columns_seen_at, u.columns_at),
         schema_seen_at = greatest(t.schema_seen_at, u.schema_at)
    FROM unnest(h_job, h_dataset, h_role, h_first_at, h_last_at, h_completed_at, h_columns_at, h_schema_at)
         AS u (job, dataset, role, first_at, last_at, completed_at, columns_at, schema_at)
   WHERE t.organization_id = p_organization AND t.job_id = u.job AND t.dataset_id = u.dataset AND t.role = u.role;
  PERFORM t.job_id
     FROM unnest(s_source, s_target, s_job) AS u (source, target, job)
    CROSS JOIN LATERAL (SELECT x.job_id
                          FROM lineage_edges x
                         WHERE x.organization_id = p_organization AND x.source_id = u.source AND x.target_id = u.target
                           AND x.job_id = u.job
                           FOR UPDATE) t;
  UPDATE lineage_edges t
     SET first_seen_at = least(t.first_seen_at, u.first_at),
         last_run_id = CASE WHEN u.last_at >= t.last_seen_at THEN u.run ELSE t.last_run_id END,
         last_seen_at = greatest(t.last_seen_at, u.last_at),
         last_completed_at = greatest(t.last_completed_at, u.completed_at)
    FROM unnest(s_source, s_target, s_job, s_first_at, s_last_at, s_completed_at, s_run)
         AS u (source, target, job, first_at, last_at, completed_at, run)
   WHERE t.organization_id = p_organization AND t.source_id = u.source AND t.target_id = u.target AND t.job_id = u.job;
END
$$;

-- The statements look rows up by key, a few at a time, on tables of any size; whatever the statistics say, indexes
-- are right. Inserts keep their plan, for planning them costs more than running them. Look-ups are planned anew each
-- time: a plan made while a table was empty may use any index that begins with the organisation.
DO $$
DECLARE
  name text;
  signature regprocedure;
  setting text;
BEGIN
  FOR signature, name IN
    SELECT p.oid::regprocedure, p.proname
      FROM pg_proc p
     WHERE p.pronamespace = 'headgate'::regnamespace
       AND p.proname IN ('claim_events', 'store_events', 'lock_runs', 'compare_uses', 'supersede_metrics',
                         'touch_lineage', 'ingest_jobs', 'ingest_datasets')
  LOOP
    FOREACH setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan'] LOOP
      EXECUTE format('ALTER FUNCTION %s SET enable_%s = off', signature, setting);
    END LOOP;
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = %s', signature,
                   CASE WHEN name IN ('claim_events', 'store_events') THEN 'force_generic_plan'
                        ELSE 'force_custom_plan' END);
  END LOOP;
END
$$;

-- Column edges of one job into one of its outputs. The newest set is current; edges it no longer has keep the
-- time at which the set before it was last seen. True when there was one before.
CREATE FUNCTION store_column_lineage(
  p_organization uuid, p_job uuid, p_target uuid, p_at timestamptz, p_hash bigint,
  p_sources uuid[], p_source_columns text[], p_target_columns text[], p_kinds text[], p_expressions text[])
  RETURNS boolean
  LANGUAGE plpgsql
  AS $$
DECLARE
  newest boolean;
  before_at timestamptz;
BEGIN
  SELECT h.columns_hash = p_hash, h.columns_before_at
    INTO newest, before_at
    FROM job_datasets h
   WHERE h.organization_id = p_organization AND h.job_id = p_job AND h.dataset_id = p_target AND h.role = 'output';
  newest := coalesce(newest, false);
  IF newest THEN
    UPDATE column_lineage_edges t
       SET is_current = false,
           last_seen_at = greatest(t.last_seen_at, before_at)
     WHERE t.organization_id = p_organization AND t.job_id = p_job AND t.target_id = p_target AND t.is_current;
  END IF;
  INSERT INTO column_lineage_edges AS t (organization_id, target_id, target_column, source_id, source_column, job_id,
                                         kinds, expression, is_current, first_seen_at, last_seen_at)
  SELECT DISTINCT ON (u.target_column, u.source, u.source_column)
         p_organization, p_target, u.target_column, u.source, u.source_column, p_job, u.kinds::jsonb, u.expression,
         newest, p_at, p_at
    FROM unnest(p_sources, p_source_columns, p_target_columns, p_kinds, p_expressions)
         AS u (source, source_column, target_column, kinds, expression)
   ORDER BY u.target_column, u.source, u.source_column
  ON CONFLICT (organization_id, target_id, target_column, source_id, source_column, job_id) DO UPDATE
     SET kinds = CASE WHEN newest THEN EXCLUDED.kinds ELSE t.kinds END,
         expression = CASE WHEN newest THEN EXCLUDED.expression ELSE t.expression END,
         is_current = t.is_current OR newest,
         first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at);
  RETURN before_at IS NOT NULL;
END
$$;

-- Stage costs given as a JSON array of rows; numbers that a later event leaves out stay.
CREATE FUNCTION store_stage_metrics(p_organization uuid, p_rows jsonb) RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  columns text;
  updates text;
BEGIN
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
         string_agg(format('%1$I = coalesce(EXCLUDED.%1$I, t.%1$I)', a.attname), ', ' ORDER BY a.attnum)
           FILTER (WHERE a.attname NOT IN ('organization_id', 'run_id', 'stage_id', 'attempt'))
    INTO columns, updates
    FROM pg_attribute a
   WHERE a.attrelid = 'stage_metrics'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
  EXECUTE format(
    'INSERT INTO stage_metrics AS t (%1$s)
     SELECT %1$s FROM jsonb_populate_recordset(NULL::stage_metrics, $1)
      ORDER BY run_id, stage_id, attempt
     ON CONFLICT (organization_id, run_id, stage_id, attempt) DO UPDATE SET %2$s', columns, updates)
    USING (SELECT jsonb_agg(r || jsonb_build_object('organization_id', p_organization))
             FROM jsonb_array_elements(p_rows) AS r);
END
$$;
