-- The write path: one call stores a group of events of one organisation.
SET LOCAL lock_timeout = '5s';

-- What a run's state is, from the earliest time of each state (the latest for RUNNING). The earliest terminal
-- wins; at the same instant FAIL, then ABORT, then COMPLETE.
CREATE FUNCTION fold_run(
  p_start timestamptz, p_running timestamptz, p_complete timestamptz, p_fail timestamptz, p_abort timestamptz,
  p_other timestamptz, p_first timestamptz,
  OUT state text, OUT state_at timestamptz, OUT started_at timestamptz, OUT ended_at timestamptz)
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT CASE
             WHEN e.at IS NULL THEN CASE WHEN p_running >= coalesce(p_start, p_running) THEN 'RUNNING'
                                         WHEN p_start IS NOT NULL THEN 'START'
                                         ELSE 'OTHER' END
             WHEN e.at = p_fail THEN 'FAIL'
             WHEN e.at = p_abort THEN 'ABORT'
             ELSE 'COMPLETE'
           END,
           coalesce(e.at, greatest(p_start, p_running), p_other),
           coalesce(p_start, p_first),
           e.at
      FROM (SELECT least(p_complete, p_fail, p_abort) AS at) e
  $$;

-- Ids of the jobs named, in order; those that accepted events speak of are made if missing, and touched.
CREATE FUNCTION ingest_jobs(
  p_organization uuid, j_namespace text[], j_name text[], ok boolean[], e_job integer[], e_time timestamptz[],
  e_run uuid[], e_job_type text[], e_processing text[], e_integration text[])
  RETURNS uuid[]
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO jobs AS t (organization_id, namespace, name, job_type, processing_type, integration, first_seen_at,
                         last_seen_at, latest_run_id)
  SELECT p_organization, j_namespace[u.job], j_name[u.job],
         (array_agg(u.job_type ORDER BY u.at DESC) FILTER (WHERE u.job_type IS NOT NULL))[1],
         (array_agg(u.processing ORDER BY u.at DESC) FILTER (WHERE u.processing IS NOT NULL))[1],
         (array_agg(u.integration ORDER BY u.at DESC) FILTER (WHERE u.integration IS NOT NULL))[1],
         min(u.at), max(u.at),
         (array_agg(u.run ORDER BY u.at DESC) FILTER (WHERE u.run IS NOT NULL))[1]
    FROM unnest(e_job, e_time, e_run, e_job_type, e_processing, e_integration, ok)
         AS u (job, at, run, job_type, processing, integration, ok)
   WHERE u.ok AND u.job IS NOT NULL
   GROUP BY u.job
   ORDER BY 2, 3
  ON CONFLICT (organization_id, namespace, name) DO UPDATE
     SET job_type = coalesce(EXCLUDED.job_type, t.job_type),
         processing_type = coalesce(EXCLUDED.processing_type, t.processing_type),
         integration = coalesce(EXCLUDED.integration, t.integration),
         first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         latest_run_id = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at
                              THEN coalesce(EXCLUDED.latest_run_id, t.latest_run_id) ELSE t.latest_run_id END,
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at);
  RETURN ARRAY(SELECT j.id
                 FROM unnest(j_namespace, j_name) WITH ORDINALITY AS u (namespace, name, i)
                 LEFT JOIN jobs j ON j.organization_id = p_organization AND j.namespace = u.namespace
                                 AND j.name = u.name
                ORDER BY u.i);
END
$$;

-- Ids of the datasets named, in order; those in p_wanted (1-based places) are made if missing.
CREATE FUNCTION ingest_datasets(
  p_organization uuid, d_namespace text[], d_name text[], d_display text[], d_type text[], d_location text[],
  p_wanted integer[], p_seen_at timestamptz)
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
    SELECT p_organization, d_namespace[w.i], d_name[w.i], d_display[w.i], d_type[w.i], d_location[w.i], p_seen_at
      FROM unnest(p_wanted) AS w (i)
     WHERE found[w.i] IS NULL
     ORDER BY 2, 3
    ON CONFLICT (organization_id, namespace, name) DO NOTHING;
    INSERT INTO dataset_aliases (organization_id, namespace, name, dataset_id, source)
    SELECT p_organization, d.namespace, d.name, d.id, 'primary'
      FROM unnest(p_wanted) AS w (i)
      JOIN datasets d ON d.organization_id = p_organization AND d.namespace = d_namespace[w.i]
                     AND d.name = d_name[w.i]
     WHERE found[w.i] IS NULL
     ORDER BY 2, 3
    ON CONFLICT (organization_id, namespace, name) DO NOTHING;
  END LOOP;
  RETURN found;
END
$$;

-- Every array named e_*, io_*, x_*, m_* holds one element a row; *_event and *_ds are 1-based places in the
-- e_* and d_* arrays. The caller has removed events that repeat each other's key.
--
-- Order of work: keys, run locks, verdicts, names, runs, log, what the job reads and writes, edges, metrics,
-- follow-ups. Rows are always locked in key order, so two groups cannot wait for each other.
--
-- outcome: 0 stored, 1 duplicate, 2 refused (the run ended otherwise), 3 refused (later than the run's end).
-- The stale_* arrays name the rows whose content differs from what is known; the caller stores that content
-- in the same transaction. Everything else a repeated event needs is done here.
CREATE FUNCTION ingest_events(
  p_organization  uuid,
  p_tenant_code   text,
  j_namespace     text[],
  j_name          text[],
  d_namespace     text[],
  d_name          text[],
  d_display       text[],
  d_type          text[],
  d_location      text[],
  e_key           bytea[],
  e_kind          text[],
  e_type          text[],
  e_time          timestamptz[],
  e_run           uuid[],
  e_job           integer[],
  e_producer      text[],
  e_lenient       boolean[],
  e_raw           bytea[],
  e_parent        uuid[],
  e_root          uuid[],
  e_parent_job    text[],
  e_root_job      text[],
  e_error         text[],
  e_application   text[],
  e_context       text[],
  e_test          boolean[],
  e_job_type      text[],
  e_processing    text[],
  e_integration   text[],
  e_job_hash      bigint[],
  e_explicit      boolean[],
  e_io            boolean[],
  io_event        integer[],
  io_ds           integer[],
  io_role         text[],
  io_hash         bigint[],
  io_columns      bigint[],
  io_schema       bytea[],
  x_event         integer[],
  x_source        integer[],
  x_target        integer[],
  m_event         integer[],
  m_ds            integer[],
  m_direction     text[],
  m_rows          bigint[],
  m_bytes         bigint[],
  m_files         bigint[],
  m_partitions    bigint[],
  m_partition_key text[],
  m_columns       text[],
  OUT outcome       integer[],
  OUT found_jobs     uuid[],
  OUT found_datasets uuid[],
  OUT stale_jobs    integer[],
  OUT stale_facets  integer[],
  OUT stale_columns integer[],
  OUT stale_schemas integer[]
)
  LANGUAGE plpgsql
  AS $$
DECLARE
  ok            boolean[];
  held          uuid[];      -- runs that existed before, locked
  ended         uuid[];      -- runs that this group ends
  corrected     uuid[];      -- runs that had ended already, and end earlier than was known
  new_runs      integer;
  inserted      integer;
  max_edges     CONSTANT integer := 250000;
BEGIN
  PERFORM set_config('headgate.organization_id', p_organization::text, true);

  -- Keys. One that is older than a day is taken over as if it were new.
  WITH fresh AS (
    INSERT INTO idempotency_keys AS k (organization_id, key)
    SELECT p_organization, u.key
      FROM unnest(e_key) AS u (key)
     ORDER BY u.key
    ON CONFLICT (organization_id, key) DO UPDATE
       SET created_at = now()
     WHERE k.created_at < now() - interval '24 hours'
    RETURNING k.key
  )
  SELECT array_agg(f.key IS NOT NULL ORDER BY u.i),
         array_agg(CASE WHEN f.key IS NULL THEN 1 ELSE 0 END ORDER BY u.i)
    INTO ok, outcome
    FROM unnest(e_key) WITH ORDINALITY AS u (key, i)
    LEFT JOIN fresh f ON f.key = u.key;

  -- Runs that exist, locked in order; then who wins each run, and who therefore is refused.
  SELECT coalesce(array_agg(h.run_id), '{}')
    INTO held
    FROM (SELECT r.run_id
            FROM job_runs r
           WHERE r.organization_id = p_organization
             AND r.run_id = ANY (ARRAY(SELECT DISTINCT u.run
                                         FROM unnest(e_run, e_kind, ok) AS u (run, kind, ok)
                                        WHERE u.ok AND u.kind = 'run'))
           ORDER BY r.run_id
             FOR UPDATE) h;

  WITH moments AS (
    SELECT u.run, u.type, u.at, u.i
      FROM unnest(e_run, e_type, e_time, ok, e_kind) WITH ORDINALITY AS u (run, type, at, ok, kind, i)
     WHERE u.ok AND u.kind = 'run'
  ),
  winner AS (
    SELECT DISTINCT ON (t.run) t.run, t.type, t.at, t.known
      FROM (SELECT m.run, m.type, m.at, false AS known FROM moments m WHERE m.type IN ('COMPLETE', 'FAIL', 'ABORT')
            UNION ALL
            SELECT r.run_id, r.state, r.ended_at, true
              FROM job_runs r
             WHERE r.organization_id = p_organization
               AND r.run_id = ANY (held)
               AND r.ended_at IS NOT NULL) t
     ORDER BY t.run, t.at, CASE t.type WHEN 'FAIL' THEN 1 WHEN 'ABORT' THEN 2 ELSE 3 END, t.known DESC
  ),
  refused AS (
    SELECT m.i, CASE WHEN m.type IN ('COMPLETE', 'FAIL', 'ABORT') THEN 2 ELSE 3 END AS why
      FROM moments m
      JOIN winner w ON w.run = m.run
     WHERE CASE WHEN m.type IN ('COMPLETE', 'FAIL', 'ABORT') THEN m.type <> w.type ELSE m.at > w.at END
  ),
  verdict AS (
    SELECT array_agg(coalesce(r.why, u.outcome) ORDER BY u.i) AS outcome,
           array_agg(u.outcome = 0 AND r.why IS NULL ORDER BY u.i) AS ok
      FROM unnest(outcome) WITH ORDINALITY AS u (outcome, i)
      LEFT JOIN refused r ON r.i = u.i
  )
  SELECT v.outcome, v.ok, ARRAY(SELECT w.run FROM winner w WHERE NOT w.known)
    INTO outcome, ok, ended
    FROM verdict v;

  IF array_position(ok, true) IS NULL AND NOT (2 = ANY (outcome) OR 3 = ANY (outcome)) THEN
    RETURN;
  END IF;

  -- Names of what the accepted events speak of.
  found_jobs := ingest_jobs(p_organization, j_namespace, j_name, ok, e_job, e_time, e_run, e_job_type, e_processing,
                         e_integration);
  found_datasets := ingest_datasets(
    p_organization, d_namespace, d_name, d_display, d_type, d_location,
    ARRAY(SELECT DISTINCT u.ds FROM (
            SELECT i.ds, i.event FROM unnest(io_ds, io_event) AS i (ds, event)
            UNION ALL SELECT x.source, x.event FROM unnest(x_source, x_event) AS x (source, event)
            UNION ALL SELECT x.target, x.event FROM unnest(x_target, x_event) AS x (target, event)) u
           WHERE ok[u.event]),
    (SELECT min(u.at) FROM unnest(e_time, ok) AS u (at, ok) WHERE u.ok));

  -- Runs: each is written once, with everything the group says of it.
  corrected := ARRAY(SELECT r.run_id
                       FROM job_runs r
                      WHERE r.organization_id = p_organization
                        AND r.run_id = ANY (held)
                        AND r.run_id = ANY (ended)
                        AND r.ended_at IS NOT NULL);
  IF cardinality(corrected) > 0 THEN
    PERFORM set_config('headgate.correcting_runs', corrected::text, true);
  END IF;

  WITH said AS (
    SELECT u.*
      FROM unnest(e_run, e_type, e_time, e_job, e_parent, e_root, e_parent_job, e_root_job, e_error, e_application,
                  e_context, e_test, e_processing, e_producer, ok, e_kind)
           WITH ORDINALITY AS u (run, type, at, job, parent, root, parent_job, root_job, error, application,
                                 context, test, processing, producer, ok, kind, i)
     WHERE u.ok AND u.kind = 'run'
  ),
  io AS (
    SELECT e_run[i.event] AS run,
           array_agg(DISTINCT found_datasets[i.ds]) FILTER (WHERE i.role = 'input') AS inputs,
           array_agg(DISTINCT found_datasets[i.ds]) FILTER (WHERE i.role = 'output') AS outputs
      FROM unnest(io_event, io_ds, io_role) AS i (event, ds, role)
     WHERE ok[i.event] AND e_kind[i.event] = 'run'
     GROUP BY e_run[i.event]
  ),
  folded AS (
    SELECT s.run,
           (array_agg(s.job ORDER BY s.at, s.i))[1] AS job,
           array_agg(DISTINCT found_jobs[s.job]) AS jobs,
           min(s.at) AS first_at,
           max(s.at) AS last_at,
           max(s.at) FILTER (WHERE s.type IN ('START', 'RUNNING', 'OTHER')) AS activity_at,
           min(s.at) FILTER (WHERE s.type = 'START') AS start_at,
           min(s.at) FILTER (WHERE s.type = 'RUNNING') AS running_at,
           max(s.at) FILTER (WHERE s.type = 'RUNNING') AS running_last_at,
           min(s.at) FILTER (WHERE s.type = 'COMPLETE') AS complete_at,
           min(s.at) FILTER (WHERE s.type = 'FAIL') AS fail_at,
           min(s.at) FILTER (WHERE s.type = 'ABORT') AS abort_at,
           min(s.at) FILTER (WHERE s.type = 'OTHER') AS other_at,
           (array_agg(s.parent ORDER BY s.at DESC) FILTER (WHERE s.parent IS NOT NULL))[1] AS parent,
           (array_agg(s.root ORDER BY s.at DESC) FILTER (WHERE s.root IS NOT NULL))[1] AS root,
           (array_agg(s.parent_job ORDER BY s.at DESC) FILTER (WHERE s.parent_job IS NOT NULL))[1] AS parent_job,
           (array_agg(s.root_job ORDER BY s.at DESC) FILTER (WHERE s.root_job IS NOT NULL))[1] AS root_job,
           (array_agg(s.error ORDER BY s.at DESC) FILTER (WHERE s.error IS NOT NULL))[1] AS error,
           max(s.at) FILTER (WHERE s.error IS NOT NULL) AS error_at,
           (array_agg(s.application ORDER BY s.at DESC) FILTER (WHERE s.application IS NOT NULL))[1] AS application,
           (array_agg(s.context ORDER BY s.at DESC) FILTER (WHERE s.context IS NOT NULL))[1] AS context,
           bool_or(s.test) AS test,
           (array_agg(s.processing ORDER BY s.at DESC) FILTER (WHERE s.processing IS NOT NULL))[1] AS processing,
           (array_agg(s.producer ORDER BY s.at DESC))[1] AS producer,
           count(*)::integer AS events
      FROM said s
     GROUP BY s.run
  ),
  changed AS (
    UPDATE job_runs r
       SET (state, state_at, started_at, ended_at) = (
             SELECT n.state, n.state_at, n.started_at, n.ended_at
               FROM fold_run(least(r.start_at, f.start_at),
                             greatest(r.running_at, f.running_last_at, CASE WHEN r.state = 'RUNNING' THEN r.state_at END),
                             least(r.complete_at, f.complete_at), least(r.fail_at, f.fail_at),
                             least(r.abort_at, f.abort_at), least(r.other_at, f.other_at),
                             least(r.started_at, f.first_at)) n),
           job_ids = CASE WHEN r.job_ids @> f.jobs THEN r.job_ids
                          ELSE ARRAY(SELECT unnest(r.job_ids) UNION SELECT unnest(f.jobs)) END,
           last_event_at = greatest(r.last_event_at, f.last_at),
           last_activity_at = greatest(r.last_activity_at, f.activity_at),
           start_at = least(r.start_at, f.start_at),
           running_at = least(r.running_at, f.running_at),
           complete_at = least(r.complete_at, f.complete_at),
           fail_at = least(r.fail_at, f.fail_at),
           abort_at = least(r.abort_at, f.abort_at),
           other_at = least(r.other_at, f.other_at),
           parent_run_id = coalesce(r.parent_run_id, f.parent),
           root_run_id = coalesce(r.root_run_id, f.root),
           parent_job = coalesce(r.parent_job, f.parent_job::jsonb),
           root_job = coalesce(r.root_job, f.root_job::jsonb),
           is_test = r.is_test OR f.test,
           processing_type = coalesce(f.processing, r.processing_type),
           application_id = coalesce(f.application, r.application_id),
           partition_context = coalesce(f.context::jsonb, r.partition_context),
           error = CASE WHEN f.error IS NOT NULL AND (r.error_at IS NULL OR f.error_at >= r.error_at) THEN f.error
                        ELSE r.error END,
           error_at = greatest(r.error_at, f.error_at),
           event_count = r.event_count + f.events,
           input_ids = CASE WHEN io.inputs IS NULL OR r.input_ids @> io.inputs THEN r.input_ids
                            ELSE ARRAY(SELECT unnest(r.input_ids) UNION SELECT unnest(io.inputs)) END,
           output_ids = CASE WHEN io.outputs IS NULL OR r.output_ids @> io.outputs THEN r.output_ids
                             ELSE ARRAY(SELECT unnest(r.output_ids) UNION SELECT unnest(io.outputs)) END,
           updated_at = now()
      FROM folded f
      LEFT JOIN io ON io.run = f.run
     WHERE r.organization_id = p_organization
       AND r.run_id = f.run
       AND f.run = ANY (held)
    RETURNING 1
  ),
  made AS (
    INSERT INTO job_runs (
      organization_id, run_id, job_id, job_ids, state, state_at, started_at, ended_at, last_event_at,
      last_activity_at, start_at, running_at, complete_at, fail_at, abort_at, other_at, parent_run_id, root_run_id,
      parent_job, root_job, is_test, processing_type, application_id, partition_context, error, error_at,
      event_count, input_ids, output_ids, producer)
    SELECT p_organization, f.run, found_jobs[f.job], f.jobs, n.state, n.state_at, n.started_at, n.ended_at, f.last_at,
           f.activity_at, f.start_at, f.running_at, f.complete_at, f.fail_at, f.abort_at, f.other_at, f.parent, f.root,
           f.parent_job::jsonb, f.root_job::jsonb, f.test, f.processing, f.application, f.context::jsonb, f.error,
           f.error_at, f.events, coalesce(io.inputs, '{}'), coalesce(io.outputs, '{}'), f.producer
      FROM folded f
      LEFT JOIN io ON io.run = f.run
     CROSS JOIN LATERAL fold_run(f.start_at, f.running_last_at, f.complete_at, f.fail_at, f.abort_at, f.other_at,
                                 f.first_at) n
     WHERE NOT f.run = ANY (held)
     ORDER BY f.run
    ON CONFLICT (organization_id, run_id) DO NOTHING
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM folded f WHERE NOT f.run = ANY (held)), (SELECT count(*) FROM made),
         (SELECT count(*) FROM changed)
    INTO new_runs, inserted;
  IF cardinality(corrected) > 0 THEN
    PERFORM set_config('headgate.correcting_runs', '', true);
  END IF;
  IF new_runs <> inserted THEN
    -- Another writer made the run between our look and our insert. The caller starts over, and then sees it.
    RAISE EXCEPTION 'a run was made by another writer' USING ERRCODE = 'HG002';
  END IF;

  -- Log: everything but duplicates, refused events too.
  INSERT INTO lineage_events (organization_id, kind, event_type, event_time, run_id, job_id, producer, tenant_code,
                              outcome, reason, marks, raw)
  SELECT p_organization, u.kind, u.type, u.at, u.run, found_jobs[u.job], u.producer, p_tenant_code,
         CASE WHEN u.outcome = 0 THEN 'accepted' ELSE 'refused' END,
         CASE u.outcome WHEN 2 THEN 'run.ended_otherwise' WHEN 3 THEN 'run.after_end' END,
         CASE WHEN u.lenient THEN '{lenient}'::text[] ELSE '{}' END, u.raw
    FROM unnest(e_kind, e_type, e_time, e_run, e_job, e_producer, e_lenient, e_raw, outcome)
         AS u (kind, type, at, run, job, producer, lenient, raw, outcome)
   WHERE u.outcome <> 1;

  IF 2 = ANY (outcome) OR 3 = ANY (outcome) THEN
    DELETE FROM idempotency_keys k
     WHERE k.organization_id = p_organization
       AND k.key IN (SELECT u.key FROM unnest(e_key, outcome) AS u (key, outcome) WHERE u.outcome > 1);
  END IF;

  -- Content that differs from what its job, reading or writing the dataset, sent last time.
  SELECT array_agg(u.i::integer ORDER BY u.at)
    INTO stale_jobs
    FROM unnest(e_job, e_job_hash, e_time, ok) WITH ORDINALITY AS u (job, hash, at, ok, i)
    JOIN jobs j ON j.organization_id = p_organization AND j.id = found_jobs[u.job]
   WHERE u.ok AND u.hash IS NOT NULL AND u.hash IS DISTINCT FROM j.facets_hash;

  SELECT array_agg(s.i ORDER BY s.at) FILTER (WHERE s.facets_differ),
         array_agg(s.i ORDER BY s.at) FILTER (WHERE s.columns_differ),
         array_agg(s.i ORDER BY s.at) FILTER (WHERE s.schema_differs)
    INTO stale_facets, stale_columns, stale_schemas
    FROM (SELECT i.i::integer AS i,
                 e_time[i.event] AS at,
                 i.hash IS NOT NULL AND (i.role = 'dataset' OR i.hash IS DISTINCT FROM
                   CASE WHEN e_type[i.event] = 'START' THEN h.start_hash ELSE h.facets_hash END) AS facets_differ,
                 i.columns IS NOT NULL AND i.columns IS DISTINCT FROM h.columns_hash AS columns_differ,
                 -- A reader may see fewer columns than there are; once a writer has spoken, only writers count.
                 i.schema IS NOT NULL AND i.schema IS DISTINCT FROM d.schema_hash
                   AND NOT (i.role = 'input' AND coalesce(d.schema_by, 'input') <> 'input') AS schema_differs
            FROM unnest(io_event, io_ds, io_role, io_hash, io_columns, io_schema)
                 WITH ORDINALITY AS i (event, ds, role, hash, columns, schema, i)
            JOIN datasets d ON d.organization_id = p_organization AND d.id = found_datasets[i.ds]
            LEFT JOIN job_datasets h ON h.organization_id = p_organization
                                    AND h.job_id = found_jobs[e_job[i.event]]
                                    AND h.dataset_id = found_datasets[i.ds]
                                    AND h.role = i.role
           WHERE ok[i.event]) s
   WHERE s.facets_differ OR s.columns_differ OR s.schema_differs;

  INSERT INTO job_datasets AS t (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at,
                                 last_completed_at, start_hash, facets_hash, columns_hash, columns_seen_at)
  SELECT p_organization, s.job_id, s.dataset_id, s.role, min(s.at), max(s.at),
         max(s.at) FILTER (WHERE s.type IS NULL OR s.type = 'COMPLETE'),
         (array_agg(s.hash ORDER BY s.at DESC) FILTER (WHERE s.type = 'START' AND s.hash IS NOT NULL))[1],
         (array_agg(s.hash ORDER BY s.at DESC)
            FILTER (WHERE s.type IS DISTINCT FROM 'START' AND s.hash IS NOT NULL))[1],
         (array_agg(s.columns ORDER BY s.at DESC) FILTER (WHERE s.columns IS NOT NULL))[1],
         max(s.at) FILTER (WHERE s.columns IS NOT NULL)
    FROM (SELECT found_jobs[e_job[i.event]] AS job_id, found_datasets[i.ds] AS dataset_id, i.role, e_time[i.event] AS at,
                 e_type[i.event] AS type, i.hash, i.columns
            FROM unnest(io_event, io_ds, io_role, io_hash, io_columns) AS i (event, ds, role, hash, columns)
           WHERE ok[i.event] AND i.role <> 'dataset' AND NOT (i.role = 'output' AND e_test[i.event])) s
   GROUP BY s.job_id, s.dataset_id, s.role
   ORDER BY s.job_id, s.dataset_id, s.role
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
         columns_seen_at = greatest(t.columns_seen_at, EXCLUDED.columns_seen_at);

  -- Edges: all that a run has read so far to all that it has written so far, or just what an event spells out.
  INSERT INTO lineage_edges AS t (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at,
                                  last_completed_at, last_run_id)
  SELECT p_organization, s.source, s.target, s.job_id, min(s.at), max(s.at),
         max(s.at) FILTER (WHERE s.type IS NULL OR s.type = 'COMPLETE'),
         (array_agg(s.run ORDER BY s.at DESC))[1]
    FROM (SELECT source.id AS source, target.id AS target, found_jobs[u.job] AS job_id, u.at, u.type, u.run
            FROM unnest(e_run, e_type, e_time, e_job, ok, e_explicit, e_kind, e_io)
                 AS u (run, type, at, job, ok, explicit, kind, io)
            JOIN job_runs r ON r.organization_id = p_organization AND r.run_id = u.run
           CROSS JOIN LATERAL unnest(r.input_ids) AS source (id)
           CROSS JOIN LATERAL unnest(r.output_ids) AS target (id)
           WHERE u.ok AND u.kind = 'run' AND NOT u.explicit AND NOT r.is_test
             AND u.io
             AND cardinality(r.input_ids)::bigint * cardinality(r.output_ids) <= max_edges
          UNION ALL
          SELECT found_datasets[a.ds], found_datasets[b.ds], found_jobs[e_job[a.event]], e_time[a.event], NULL, NULL
            FROM unnest(io_event, io_ds, io_role) AS a (event, ds, role)
            JOIN unnest(io_event, io_ds, io_role) AS b (event, ds, role) ON b.event = a.event
           WHERE 'job' = ANY (e_kind) AND e_kind[a.event] = 'job' AND ok[a.event] AND NOT e_explicit[a.event]
             AND a.role = 'input' AND b.role = 'output'
          UNION ALL
          SELECT found_datasets[x.source], found_datasets[x.target], found_jobs[e_job[x.event]], e_time[x.event],
                 e_type[x.event], CASE WHEN e_kind[x.event] = 'run' THEN e_run[x.event] END
            FROM unnest(x_event, x_source, x_target) AS x (event, source, target)
           WHERE ok[x.event] AND NOT e_test[x.event] AND e_job[x.event] IS NOT NULL) s
   WHERE s.source <> s.target
   GROUP BY s.source, s.target, s.job_id
   ORDER BY s.source, s.target, s.job_id
  ON CONFLICT (organization_id, source_id, target_id, job_id) DO UPDATE
     SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_run_id = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.last_run_id ELSE t.last_run_id END,
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
         last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);

  -- Metrics: one row a run, dataset and direction; the latest event of the run speaks.
  IF cardinality(m_event) > 0 THEN
    DELETE FROM dataset_metrics t
     USING unnest(m_event, m_ds, m_direction) AS m (event, ds, direction)
     WHERE ok[m.event]
       AND e_run[m.event] = ANY (held)
       AND t.organization_id = p_organization
       AND t.run_id = e_run[m.event]
       AND t.dataset_id = found_datasets[m.ds]
       AND t.direction = m.direction
       AND t.measured_at <= e_time[m.event];

    INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, job_id, row_count,
                                 byte_size, file_count, partition_count, partition_key, columns)
    SELECT DISTINCT ON (e_run[m.event], m.ds, m.direction)
           p_organization, found_datasets[m.ds], e_time[m.event],
           coalesce(e_run[m.event], '00000000-0000-0000-0000-000000000000'), m.direction, found_jobs[e_job[m.event]],
           m.rows, m.bytes, m.files, m.partitions, m.partition_key, m.columns::jsonb
      FROM unnest(m_event, m_ds, m_direction, m_rows, m_bytes, m_files, m_partitions, m_partition_key, m_columns)
           AS m (event, ds, direction, rows, bytes, files, partitions, partition_key, columns)
     WHERE ok[m.event]
       AND NOT (coalesce(e_run[m.event] = ANY (held), false)
                AND EXISTS (SELECT FROM dataset_metrics t
                             WHERE t.organization_id = p_organization
                               AND t.run_id = e_run[m.event]
                               AND t.dataset_id = found_datasets[m.ds]
                               AND t.direction = m.direction))
     ORDER BY e_run[m.event], m.ds, m.direction, e_time[m.event] DESC
    ON CONFLICT DO NOTHING;
  END IF;

  -- Follow-ups, in the same transaction.
  INSERT INTO outbox (organization_id, kind, run_id, payload)
  SELECT p_organization, 'run_finished', w.run, jsonb_build_object('state', r.state)
    FROM unnest(ended) AS w (run)
    JOIN job_runs r ON r.organization_id = p_organization AND r.run_id = w.run
  UNION ALL
  SELECT p_organization, 'metrics_recorded', e_run[m.event], jsonb_build_object('datasets', array_agg(found_datasets[m.ds]))
    FROM unnest(m_event, m_ds) AS m (event, ds)
   WHERE ok[m.event]
   GROUP BY m.event;

  stale_jobs := coalesce(stale_jobs, '{}');
  stale_facets := coalesce(stale_facets, '{}');
  stale_columns := coalesce(stale_columns, '{}');
  stale_schemas := coalesce(stale_schemas, '{}');
END
$$;

-- Column edges of one job into one of its outputs. The newest set is current; edges it no longer has keep the
-- time at which the set before it was last seen.
CREATE FUNCTION store_column_lineage(
  p_organization uuid, p_job uuid, p_target uuid, p_at timestamptz, p_hash bigint,
  p_sources uuid[], p_source_columns text[], p_target_columns text[], p_kinds text[], p_expressions text[])
  RETURNS void
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
