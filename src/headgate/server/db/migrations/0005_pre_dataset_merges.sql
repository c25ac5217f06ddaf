-- Joining two datasets into one, and giving a dataset another name.
--
-- A merge is a set of rows that change. For every key it touches, the log holds the row as it was (NULL: there was
-- none) and as the merge left it (NULL: removed), which is all that undo needs.
SET LOCAL lock_timeout = '5s';

ALTER TABLE dataset_merges ADD COLUMN place bigint GENERATED ALWAYS AS IDENTITY;
COMMENT ON COLUMN dataset_merges.place IS 'Order of merges; several of one transaction share their time';
COMMENT ON COLUMN dataset_merges.merged_id IS 'The survivor itself when it was only given another name';
CREATE INDEX dataset_merges_survivor ON dataset_merges (organization_id, survivor_id);
CREATE INDEX dataset_merges_rule ON dataset_merges (organization_id, rule_id) WHERE rule_id IS NOT NULL;
CREATE INDEX dataset_merges_time ON dataset_merges (organization_id, merged_at DESC, id DESC);

ALTER TABLE dataset_merge_rows
  ALTER COLUMN original DROP NOT NULL,
  ADD COLUMN result jsonb,
  ADD CHECK (original IS NOT NULL OR result IS NOT NULL);
COMMENT ON COLUMN dataset_merge_rows.result IS 'The row as the merge left it; NULL if it removed it';
CREATE INDEX dataset_merge_rows_names ON dataset_merge_rows (organization_id, merge_id) WHERE table_name = 'datasets';

CREATE INDEX datasets_merged ON datasets (organization_id, merged_into) WHERE merged_into IS NOT NULL;
-- Runs that job_datasets does not lead to: tests, whose outputs it leaves out, and runs of several jobs.
CREATE INDEX job_runs_tests ON job_runs (organization_id) WHERE is_test;
CREATE INDEX job_runs_shared ON job_runs (organization_id) WHERE cardinality(job_ids) > 1;

-- The dataset that an id stands for now; NULL for an unknown id.
CREATE FUNCTION surviving_dataset(p_organization uuid, p_dataset uuid) RETURNS uuid
  LANGUAGE sql STABLE
  AS $$
    WITH RECURSIVE way AS (
      SELECT d.id, d.merged_into
        FROM datasets d
       WHERE d.organization_id = p_organization AND d.id = p_dataset
      UNION
      SELECT d.id, d.merged_into
        FROM way w
        JOIN datasets d ON d.organization_id = p_organization AND d.id = w.merged_into
    )
    SELECT w.id FROM way w WHERE w.merged_into IS NULL
  $$;

-- A dataset and all that were merged into it.
CREATE FUNCTION merged_family(p_organization uuid, p_dataset uuid) RETURNS SETOF uuid
  LANGUAGE sql STABLE
  AS $$
    WITH RECURSIVE family AS (
      SELECT p_dataset AS id
      UNION
      SELECT d.id
        FROM family f
        JOIN datasets d ON d.organization_id = p_organization AND d.merged_into = f.id
    )
    SELECT f.id FROM family f
  $$;

CREATE FUNCTION quoted_columns(p_names text[]) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT string_agg('''' || n.name || '''', ', ' ORDER BY n.i) FILTER (WHERE n.i <= 20)
           || CASE WHEN cardinality(p_names) > 20 THEN format(' and %s more', cardinality(p_names) - 20) ELSE '' END
      FROM unnest(p_names) WITH ORDINALITY AS n (name, i)
  $$;

-- Columns of a schema; of two with one name the last speaks, in the place of the first.
CREATE FUNCTION schema_columns(p_fields jsonb)
  RETURNS TABLE (name text, type text, nullable boolean, place bigint)
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT f.body ->> 'name',
           (array_agg(f.body ->> 'type' ORDER BY f.i DESC))[1],
           (array_agg(coalesce((f.body ->> 'nullable')::boolean, true) ORDER BY f.i DESC))[1],
           min(f.i)
      FROM jsonb_array_elements(p_fields) WITH ORDINALITY AS f (body, i)
     GROUP BY 1
  $$;

-- What happened to turn one schema into another. Mirrors diff() of headgate/domain/schema.py; an integration
-- test holds the two together.
CREATE FUNCTION schema_change(
  p_old jsonb, p_new jsonb,
  OUT added text[], OUT removed text[], OUT type_changed text[], OUT change_type text, OUT description text,
  OUT breaking boolean)
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
  AS $$
DECLARE
  retyped   text[];
  tightened text[];
  loosened  text[];
  kinds     text[];
BEGIN
  IF p_old IS NULL THEN
    SELECT '{}', '{}', '{}', 'INITIAL', 'first schema seen', false
      INTO added, removed, type_changed, change_type, description, breaking;
    RETURN;
  END IF;
  SELECT coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.name IS NULL), '{}'),
         coalesce(array_agg(b.name ORDER BY b.place) FILTER (WHERE a.name IS NULL), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.type <> a.type), '{}'),
         coalesce(array_agg(format('''%s'' changed from %s to %s', a.name, b.type, a.type) ORDER BY a.place)
                    FILTER (WHERE b.type <> a.type), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.nullable AND NOT a.nullable), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE NOT b.nullable AND a.nullable), '{}')
    INTO added, removed, type_changed, retyped, tightened, loosened
    FROM schema_columns(p_old) b
    FULL JOIN schema_columns(p_new) a ON a.name = b.name;
  kinds := array_remove(ARRAY[
    CASE WHEN added <> '{}' THEN 'ADDED_COLUMN' END,
    CASE WHEN removed <> '{}' THEN 'DROPPED_COLUMN' END,
    CASE WHEN type_changed <> '{}' THEN 'TYPE_CHANGE' END,
    CASE WHEN tightened <> '{}' OR loosened <> '{}' THEN 'NULLABILITY' END], NULL);
  change_type := CASE cardinality(kinds) WHEN 0 THEN 'REORDERED' WHEN 1 THEN kinds[1] ELSE 'MIXED' END;
  breaking := removed <> '{}' OR type_changed <> '{}' OR tightened <> '{}';
  description := coalesce(NULLIF(concat_ws('; ',
    'added ' || quoted_columns(added),
    'removed ' || quoted_columns(removed),
    NULLIF(array_to_string(retyped[1:20], '; '), ''),
    'no longer nullable: ' || quoted_columns(tightened),
    'now nullable: ' || quoted_columns(loosened)), ''), 'columns in another order');
END
$$;

-- Whether a reading is just some columns of what is known: a reader that left some out, not a change.
CREATE FUNCTION is_projection(p_reading jsonb, p_known jsonb) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT jsonb_array_length(p_reading) < jsonb_array_length(p_known)
           AND NOT EXISTS (SELECT
                             FROM jsonb_array_elements(p_reading) AS f (body)
                             LEFT JOIN schema_columns(p_known) k ON k.name = f.body ->> 'name'
                            WHERE k.type IS DISTINCT FROM f.body ->> 'type')
  $$;

-- Puts the versions of a dataset in order of time: a version that repeats the one before it goes, the rest are
-- numbered and described anew, and the last one is open. Returns what the dataset's row says of its schema.
CREATE FUNCTION rebuild_schema_history(
  p_organization uuid, p_dataset uuid, p_readers boolean, OUT schema_hash bytea, OUT schema_at timestamptz)
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_kept uuid[];
BEGIN
  -- No two versions may be open at any moment, so all are closed first.
  UPDATE schema_versions v
     SET valid_to = v.valid_from
   WHERE v.organization_id = p_organization AND v.dataset_id = p_dataset AND v.valid_to IS NULL;

  WITH RECURSIVE ordered AS (
    SELECT v.id, v.schema_hash, v.fields, row_number() OVER (ORDER BY v.valid_from, v.version, v.id) AS i
      FROM schema_versions v
     WHERE v.organization_id = p_organization AND v.dataset_id = p_dataset
  ),
  -- What is current at each step; only a step that is new makes its own version current.
  walk AS (
    SELECT o.i, o.id, o.schema_hash, o.fields FROM ordered o WHERE o.i = 1
    UNION ALL
    SELECT o.i,
           CASE WHEN n.is_new THEN o.id ELSE w.id END,
           CASE WHEN n.is_new THEN o.schema_hash ELSE w.schema_hash END,
           CASE WHEN n.is_new THEN o.fields ELSE w.fields END
      FROM walk w
      JOIN ordered o ON o.i = w.i + 1
     CROSS JOIN LATERAL (SELECT o.schema_hash <> w.schema_hash
                                AND NOT (p_readers AND is_projection(o.fields, w.fields)) AS is_new) n
  )
  SELECT array_agg(DISTINCT w.id) INTO v_kept FROM walk w;

  DELETE FROM schema_versions v
   WHERE v.organization_id = p_organization AND v.dataset_id = p_dataset AND NOT v.id = ANY (v_kept);

  UPDATE schema_versions v
     SET version = c.i,
         valid_to = c.next_from,
         (columns_added, columns_removed, columns_type_changed, change_type, description, breaking) = (
           SELECT n.added, n.removed, n.type_changed, n.change_type, n.description, n.breaking
             FROM schema_change(c.before, c.fields) n)
    FROM (SELECT s.id, s.fields, row_number() OVER t AS i, lag(s.fields) OVER t AS before,
                 lead(s.valid_from) OVER t AS next_from
            FROM schema_versions s
           WHERE s.organization_id = p_organization AND s.dataset_id = p_dataset
          WINDOW t AS (ORDER BY s.valid_from, s.version, s.id)) c
   WHERE v.organization_id = p_organization AND v.dataset_id = p_dataset AND v.id = c.id;

  SELECT v.schema_hash, v.valid_from
    INTO schema_hash, schema_at
    FROM schema_versions v
   WHERE v.organization_id = p_organization AND v.dataset_id = p_dataset AND v.valid_to IS NULL;
END
$$;

-- Key columns of a table, without the organisation.
CREATE FUNCTION merge_key_columns(p_table text) RETURNS text[]
  LANGUAGE sql STABLE
  AS $$
    SELECT array_agg(a.attname::text ORDER BY a.attnum)
      FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
     WHERE i.indrelid = p_table::regclass AND i.indisprimary AND a.attname <> 'organization_id'
  $$;

CREATE FUNCTION merge_row_key(p_columns text[], p_row jsonb) RETURNS jsonb
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT jsonb_agg(p_row -> c.name ORDER BY c.i) FROM unnest(p_columns) WITH ORDINALITY AS c (name, i) $$;

-- Logs what became of some rows of one table, given before and after as JSON arrays.
CREATE FUNCTION log_merge_rows(p_organization uuid, p_merge uuid, p_table text, p_before jsonb, p_after jsonb)
  RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_keys text[] := merge_key_columns(p_table);
BEGIN
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, p_merge, p_table, b.body, a.body
    FROM jsonb_array_elements(coalesce(p_before, '[]')) AS b (body)
    FULL JOIN jsonb_array_elements(coalesce(p_after, '[]')) AS a (body)
      ON merge_row_key(v_keys, a.body) = merge_row_key(v_keys, b.body);
END
$$;

-- Whether a test run wrote the dataset, which job_datasets does not tell. Finding out takes a look at every test run,
-- so a transaction with many merges remembers the answer: the organisation, and all datasets that are written so.
CREATE FUNCTION is_test_output(p_organization uuid, p_kept uuid, p_gone uuid) RETURNS boolean
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_known text := current_setting('headgate.test_outputs', true);
  v_is_one boolean;
BEGIN
  IF v_known IS NULL OR NOT starts_with(v_known, p_organization::text) THEN
    SELECT concat_ws(' ', p_organization, string_agg(DISTINCT o.id::text, ' '))
      INTO v_known
      FROM job_runs r
     CROSS JOIN LATERAL unnest(r.output_ids) AS o (id)
     WHERE r.organization_id = p_organization AND r.is_test;
  END IF;
  v_is_one := position(p_gone::text IN v_known) > 0;
  PERFORM set_config('headgate.test_outputs', concat_ws(' ', v_known, CASE WHEN v_is_one THEN p_kept END), true);
  RETURN v_is_one;
END
$$;

-- Runs that read or wrote the dataset now read or wrote the other.
CREATE FUNCTION move_merged_runs(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_jobs  uuid[] := ARRAY(SELECT DISTINCT u.job_id
                            FROM job_datasets u
                           WHERE u.organization_id = p_organization AND u.dataset_id = p_gone);
  v_runs  uuid[];
  v_tests uuid[];
BEGIN
  -- Locked before they are read: what is logged has to be what is replaced.
  SELECT array_agg(h.run_id)
    INTO v_runs
    FROM (SELECT r.run_id
            FROM job_runs r
           WHERE r.organization_id = p_organization
             AND (r.job_id = ANY (v_jobs) OR cardinality(r.job_ids) > 1)
             AND (p_gone = ANY (r.input_ids) OR p_gone = ANY (r.output_ids))
           ORDER BY r.run_id
             FOR UPDATE) h;
  IF is_test_output(p_organization, p_kept, p_gone) THEN
    SELECT array_agg(h.run_id)
      INTO v_tests
      FROM (SELECT r.run_id
              FROM job_runs r
             WHERE r.organization_id = p_organization
               AND r.is_test
               AND p_gone = ANY (r.output_ids)
             ORDER BY r.run_id
               FOR UPDATE) h;
  END IF;

  WITH before AS (
    SELECT r.run_id, r.input_ids, r.output_ids
      FROM job_runs r
     WHERE r.organization_id = p_organization AND r.run_id = ANY (v_runs || v_tests)
  ),
  after AS (
    UPDATE job_runs r
       SET input_ids = CASE WHEN p_kept = ANY (r.input_ids) THEN array_remove(r.input_ids, p_gone)
                            ELSE array_replace(r.input_ids, p_gone, p_kept) END,
           output_ids = CASE WHEN p_kept = ANY (r.output_ids) THEN array_remove(r.output_ids, p_gone)
                             ELSE array_replace(r.output_ids, p_gone, p_kept) END
      FROM before b
     WHERE r.organization_id = p_organization AND r.run_id = b.run_id
    RETURNING r.run_id, r.input_ids, r.output_ids
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, p_merge, 'job_runs', to_jsonb(b), to_jsonb(a)
    FROM before b
    JOIN after a ON a.run_id = b.run_id;
END
$$;

-- Re-points the rows of one table. Where the survivor has a row with the same key, p_combine says how the two (t and
-- EXCLUDED) become one; rows (m) that do not fulfil p_which are left out. Columns come from the catalogue, so that
-- one that is added later moves along.
CREATE FUNCTION move_merged_rows(
  p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_combine text,
  p_which text DEFAULT 'true')
  RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_keys    text[] := merge_key_columns(p_table);
  v_columns text;
  v_values  text;
  v_is_gone text;
BEGIN
  SELECT string_agg(quote_ident(c.attname), ', ' ORDER BY c.attnum),
         string_agg(CASE WHEN c.leads THEN format('coalesce(NULLIF(m.%I, $4), $3)', c.attname)
                         ELSE format('m.%I', c.attname) END, ', ' ORDER BY c.attnum),
         string_agg(format('t.%I = $4', c.attname), ' OR ') FILTER (WHERE c.leads)
    INTO v_columns, v_values, v_is_gone
    FROM (SELECT a.attname, a.attnum, a.attname IN ('dataset_id', 'source_id', 'target_id') AS leads
            FROM pg_attribute a
           WHERE a.attrelid = p_table::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') c;
  EXECUTE format($sql$
    WITH moved AS (
      DELETE FROM %1$I t
       WHERE t.organization_id = $1 AND (%2$s)
      RETURNING t.*
    ),
    made AS (
      INSERT INTO %1$I AS t (%3$s)
      SELECT %4$s
        FROM moved m
       WHERE %5$s
      ON CONFLICT (organization_id, %6$s) DO UPDATE SET %7$s
      RETURNING t.*
    )
    INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
    SELECT $1, $2, %1$L, to_jsonb(m), NULL
      FROM moved m
     UNION ALL
    SELECT $1, $2, %1$L, to_jsonb(k), to_jsonb(n)
      FROM made n
      LEFT JOIN %1$I k ON k.organization_id = $1 AND (%8$s)
    $sql$, p_table, v_is_gone, v_columns, v_values, p_which, array_to_string(v_keys, ', '), p_combine,
    (SELECT string_agg(format('k.%1$I = n.%1$I', u.name), ' AND ') FROM unnest(v_keys) AS u (name)))
    USING p_organization, p_merge, p_kept, p_gone;
END
$$;

-- When a facet was last sent: if its job still sends it, when the job was last seen.
CREATE FUNCTION facet_seen_at(p_organization uuid, p_dataset uuid, p_name text) RETURNS timestamptz
  LANGUAGE sql STABLE
  AS $$
    SELECT greatest(f.event_time, u.last_seen_at)
      FROM dataset_facets f
      LEFT JOIN job_datasets u ON u.organization_id = p_organization AND u.job_id = f.job_id
                              AND u.dataset_id = p_dataset AND u.role = f.role
                              AND f.facets_hash IN (u.facets_hash, u.start_hash)
     WHERE f.organization_id = p_organization AND f.dataset_id = p_dataset AND f.name = p_name
  $$;

-- Everything that is said of the dataset, and how it joins what is said of the survivor.
CREATE FUNCTION move_merged_facts(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  -- An edge between the two becomes none; one that led to itself before still does.
  no_loop CONSTANT text := '(m.source_id = m.target_id OR NOT (m.source_id IN ($3, $4) AND m.target_id IN ($3, $4)))';
BEGIN
  -- Of two facets the one that was sent last stays.
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'dataset_facets', $sql$
      body = EXCLUDED.body,
      event_time = EXCLUDED.event_time,
      job_id = EXCLUDED.job_id,
      role = EXCLUDED.role,
      facets_hash = EXCLUDED.facets_hash
    $sql$, $sql$
      facet_seen_at($1, $4, m.name) > coalesce(facet_seen_at($1, $3, m.name), '-infinity')
    $sql$);
  -- Hashes that differ are forgotten, so that the next event tells again what holds.
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'job_datasets', $sql$
      first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
      last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
      last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at),
      start_hash = CASE WHEN t.start_hash <> EXCLUDED.start_hash THEN NULL
                        ELSE coalesce(t.start_hash, EXCLUDED.start_hash) END,
      facets_hash = CASE WHEN t.facets_hash <> EXCLUDED.facets_hash THEN NULL
                         ELSE coalesce(t.facets_hash, EXCLUDED.facets_hash) END,
      columns_hash = CASE WHEN t.columns_hash <> EXCLUDED.columns_hash THEN NULL
                          ELSE coalesce(t.columns_hash, EXCLUDED.columns_hash) END,
      columns_seen_at = greatest(t.columns_seen_at, EXCLUDED.columns_seen_at),
      columns_before_at = CASE WHEN t.columns_hash <> EXCLUDED.columns_hash
                               THEN greatest(t.columns_seen_at, EXCLUDED.columns_seen_at)
                               ELSE greatest(t.columns_before_at, EXCLUDED.columns_before_at) END
    $sql$);
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'freshness_sla', $sql$
      last_updated_at = greatest(t.last_updated_at, EXCLUDED.last_updated_at),
      is_stale = t.is_stale AND EXCLUDED.is_stale
    $sql$);
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'lineage_edges', $sql$
      first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
      last_run_id = CASE WHEN EXCLUDED.last_seen_at > t.last_seen_at THEN EXCLUDED.last_run_id ELSE t.last_run_id END,
      last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
      last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at)
    $sql$, no_loop);
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'column_lineage_edges', $sql$
      kinds = CASE WHEN EXCLUDED.last_seen_at > t.last_seen_at THEN EXCLUDED.kinds ELSE t.kinds END,
      expression = CASE WHEN EXCLUDED.last_seen_at > t.last_seen_at THEN EXCLUDED.expression ELSE t.expression END,
      is_current = t.is_current OR EXCLUDED.is_current,
      first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
      last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at)
    $sql$, no_loop);
  -- Metrics are one a run (but for the ones without a run), and the survivor's stay.
  PERFORM move_merged_rows(p_organization, p_merge, p_kept, p_gone, 'dataset_metrics',
    'row_count = t.row_count', $sql$
      NOT EXISTS (SELECT
                    FROM dataset_metrics k
                   WHERE k.organization_id = $1 AND k.run_id = m.run_id AND k.dataset_id = $3
                     AND k.direction = m.direction AND k.partition_key = m.partition_key
                     AND (k.measured_at = m.measured_at OR m.run_id <> '00000000-0000-0000-0000-000000000000'))
    $sql$);
END
$$;

-- Test results, of which the newer stays where both datasets have the same one of a run.
CREATE FUNCTION move_merged_tests(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
  LANGUAGE plpgsql
  AS $$
BEGIN
  -- Removed first, so that the newer one can take its place.
  WITH removed AS (
    DELETE FROM test_results t
     USING (SELECT CASE WHEN g.observed_at > k.observed_at THEN k.id ELSE g.id END AS id
              FROM test_results g
              JOIN test_results k ON k.organization_id = p_organization AND k.dataset_id = p_kept
                                 AND k.run_id = g.run_id AND k.test_key = g.test_key
             WHERE g.organization_id = p_organization AND g.dataset_id = p_gone) older
     WHERE t.organization_id = p_organization AND t.id = older.id
    RETURNING t.*
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, p_merge, 'test_results', to_jsonb(r), NULL
    FROM removed r;

  WITH moved AS (
    UPDATE test_results t
       SET dataset_id = p_kept
     WHERE t.organization_id = p_organization AND t.dataset_id = p_gone
    RETURNING t.*
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, p_merge, 'test_results', to_jsonb(m) || jsonb_build_object('dataset_id', p_gone), to_jsonb(m)
    FROM moved m;
END
$$;

-- Both histories as one. What readers saw counts only until the first writer speaks, as in ingest.
CREATE FUNCTION move_merged_schemas(
  p_organization uuid, p_merge uuid, p_kept datasets, p_gone datasets,
  OUT schema_hash bytea, OUT schema_at timestamptz, OUT schema_by text)
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_before  jsonb := schema_history_rows(p_organization, ARRAY[p_kept.id, p_gone.id]);
  v_readers boolean := coalesce(p_kept.schema_by, 'input') = 'input' AND coalesce(p_gone.schema_by, 'input') = 'input';
  v_reader  uuid := CASE WHEN v_readers THEN NULL
                         WHEN coalesce(p_kept.schema_by, 'input') = 'input' THEN p_kept.id
                         WHEN coalesce(p_gone.schema_by, 'input') = 'input' THEN p_gone.id END;
BEGIN
  IF NOT EXISTS (SELECT
                   FROM schema_versions v
                  WHERE v.organization_id = p_organization AND v.dataset_id = p_gone.id) THEN
    SELECT p_kept.schema_hash, p_kept.schema_at, p_kept.schema_by INTO schema_hash, schema_at, schema_by;
    RETURN;
  END IF;

  DELETE FROM schema_versions v
   WHERE v.organization_id = p_organization
     AND v.dataset_id = v_reader
     AND v.valid_from >= (SELECT min(w.valid_from)
                            FROM schema_versions w
                           WHERE w.organization_id = p_organization
                             AND w.dataset_id IN (p_kept.id, p_gone.id)
                             AND w.dataset_id <> v_reader);
  UPDATE schema_versions v
     SET valid_to = v.valid_from
   WHERE v.organization_id = p_organization AND v.dataset_id IN (p_kept.id, p_gone.id) AND v.valid_to IS NULL;
  UPDATE schema_versions v
     SET dataset_id = p_kept.id
   WHERE v.organization_id = p_organization AND v.dataset_id = p_gone.id;

  SELECT n.schema_hash, n.schema_at
    INTO schema_hash, schema_at
    FROM rebuild_schema_history(p_organization, p_kept.id, v_readers) n;
  SELECT s.schema_by
    INTO schema_by
    FROM (VALUES (p_kept.schema_by, p_kept.schema_at), (p_gone.schema_by, p_gone.schema_at)) AS s (schema_by, at)
   WHERE s.schema_by IS NOT NULL
   ORDER BY s.schema_by = 'input', s.at DESC
   LIMIT 1;
  PERFORM log_merge_rows(p_organization, p_merge, 'schema_versions', v_before,
                         schema_history_rows(p_organization, ARRAY[p_kept.id]));
END
$$;

CREATE FUNCTION schema_history_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
  LANGUAGE sql STABLE
  AS $$
    SELECT jsonb_agg(to_jsonb(v))
      FROM schema_versions v
     WHERE v.organization_id = p_organization AND v.dataset_id = ANY (p_datasets)
  $$;

-- The rows that say what datasets are and which names lead to them.
CREATE FUNCTION dataset_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
  LANGUAGE sql STABLE
  AS $$
    SELECT jsonb_agg(to_jsonb(d))
      FROM datasets d
     WHERE d.organization_id = p_organization AND d.id = ANY (p_datasets)
  $$;

CREATE FUNCTION alias_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
  LANGUAGE sql STABLE
  AS $$
    SELECT jsonb_agg(to_jsonb(a))
      FROM dataset_aliases a
     WHERE a.organization_id = p_organization AND a.dataset_id = ANY (p_datasets)
  $$;

-- Makes a name the dataset's own, and its old one an alias. A merged dataset that still has the name on its row
-- takes the old one in exchange.
CREATE FUNCTION take_dataset_name(
  p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_holder uuid)
  RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_old datasets;
BEGIN
  SELECT d.* INTO v_old FROM datasets d WHERE d.organization_id = p_organization AND d.id = p_dataset;
  UPDATE datasets d
     SET namespace = '', name = d.id::text
   WHERE d.organization_id = p_organization AND d.id = p_holder;
  UPDATE datasets d
     SET namespace = p_namespace, name = p_name, display_name = p_display
   WHERE d.organization_id = p_organization AND d.id = p_dataset;
  UPDATE datasets d
     SET namespace = v_old.namespace, name = v_old.name, display_name = v_old.display_name
   WHERE d.organization_id = p_organization AND d.id = p_holder;
  UPDATE dataset_aliases a
     SET source = 'rule'
   WHERE a.organization_id = p_organization AND a.dataset_id = p_dataset AND a.source = 'primary';
  INSERT INTO dataset_aliases AS a (organization_id, namespace, name, dataset_id, source)
  VALUES (p_organization, p_namespace, p_name, p_dataset, 'primary')
  ON CONFLICT (organization_id, namespace, name) DO UPDATE
     SET source = 'primary';
END
$$;

-- Whether people have undone a merge of these two, or of what was merged into them.
CREATE FUNCTION were_parted(p_organization uuid, p_one uuid, p_other uuid) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$
    SELECT EXISTS (SELECT
                     FROM merged_family(p_organization, p_one) AS a (id)
                    CROSS JOIN merged_family(p_organization, p_other) AS b (id)
                     JOIN dataset_merges m ON m.organization_id = p_organization
                                          AND m.undone_at IS NOT NULL
                                          AND ((m.survivor_id = a.id AND m.merged_id = b.id)
                                            OR (m.survivor_id = b.id AND m.merged_id = a.id)))
  $$;

-- Joins two datasets: the older survives, the other leads to it from now on, and all its rows become the
-- survivor's. Returns the id of the merge, or NULL if both are one already or people have parted them before.
-- With the reason 'rule' the survivor takes the name of p_other.
CREATE FUNCTION merge_datasets(p_organization uuid, p_one uuid, p_other uuid, p_reason text, p_rule_id uuid)
  RETURNS uuid
  LANGUAGE plpgsql
  -- The log compares rows as JSON, so their text must not depend on who is asking.
  SET timezone = 'UTC' SET bytea_output = 'hex'
  AS $$
DECLARE
  v_one     uuid;
  v_other   uuid;
  v_kept    datasets;
  v_gone    datasets;
  v_merge   uuid;
  v_rows    jsonb;
  v_names   jsonb;
  v_schema  record;
BEGIN
  -- Twice: most calls end before the lock, which waits until no event of the organisation is being written.
  FOR attempt IN 1 .. 2 LOOP
    v_one := surviving_dataset(p_organization, p_one);
    v_other := surviving_dataset(p_organization, p_other);
    IF v_one IS NULL OR v_other IS NULL THEN
      RAISE EXCEPTION 'there is no dataset %', CASE WHEN v_one IS NULL THEN p_one ELSE p_other END
        USING ERRCODE = 'HG003', HINT = 'give the ids of two datasets of this organisation';
    END IF;
    IF v_one = v_other OR (p_reason = 'symlink' AND were_parted(p_organization, v_one, v_other)) THEN
      RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(merge_lock(p_organization));
  END LOOP;
  PERFORM 1
     FROM datasets d
    WHERE d.organization_id = p_organization AND d.id IN (v_one, v_other)
    ORDER BY d.id
      FOR UPDATE;

  SELECT d.* INTO v_kept
    FROM datasets d
   WHERE d.organization_id = p_organization AND d.id IN (v_one, v_other)
   ORDER BY d.created_at, d.id
   LIMIT 1;
  SELECT d.* INTO v_gone
    FROM datasets d
   WHERE d.organization_id = p_organization AND d.id IN (v_one, v_other) AND d.id <> v_kept.id;
  v_rows := dataset_rows(p_organization, ARRAY[v_kept.id, v_gone.id]);
  v_names := alias_rows(p_organization, ARRAY[v_kept.id, v_gone.id]);

  INSERT INTO dataset_merges (organization_id, survivor_id, merged_id, reason, rule_id, merged_at)
  VALUES (p_organization, v_kept.id, v_gone.id, p_reason, p_rule_id, clock_timestamp())
  RETURNING id INTO v_merge;

  PERFORM move_merged_runs(p_organization, v_merge, v_kept.id, v_gone.id);
  PERFORM move_merged_facts(p_organization, v_merge, v_kept.id, v_gone.id);
  PERFORM move_merged_tests(p_organization, v_merge, v_kept.id, v_gone.id);
  SELECT * INTO v_schema FROM move_merged_schemas(p_organization, v_merge, v_kept, v_gone);

  UPDATE datasets d
     SET type = CASE WHEN coalesce(d.type, 'file') IN ('table', 'file') AND v_gone.type NOT IN ('table', 'file')
                     THEN v_gone.type ELSE coalesce(d.type, v_gone.type) END,
         location = coalesce(d.location, v_gone.location),
         dropped_at = CASE WHEN d.dropped_at IS NOT NULL AND v_gone.dropped_at IS NOT NULL
                           THEN greatest(d.dropped_at, v_gone.dropped_at) END,
         first_seen_at = least(d.first_seen_at, v_gone.first_seen_at),
         schema_hash = v_schema.schema_hash,
         schema_at = v_schema.schema_at,
         schema_by = v_schema.schema_by
   WHERE d.organization_id = p_organization AND d.id = v_kept.id;
  UPDATE datasets d
     SET merged_into = v_kept.id
   WHERE d.organization_id = p_organization AND d.id = v_gone.id;
  UPDATE dataset_aliases a
     SET dataset_id = v_kept.id,
         source = CASE WHEN a.source <> 'primary' THEN a.source WHEN p_reason = 'rule' THEN 'rule' ELSE 'merge' END
   WHERE a.organization_id = p_organization AND a.dataset_id = v_gone.id;
  IF p_reason = 'rule' AND v_other = v_gone.id THEN
    PERFORM take_dataset_name(p_organization, v_kept.id, v_gone.namespace, v_gone.name, v_gone.display_name, v_gone.id);
  END IF;

  PERFORM log_merge_rows(p_organization, v_merge, 'datasets', v_rows,
                         dataset_rows(p_organization, ARRAY[v_kept.id, v_gone.id]));
  PERFORM log_merge_rows(p_organization, v_merge, 'dataset_aliases', v_names,
                         alias_rows(p_organization, ARRAY[v_kept.id, v_gone.id]));
  PERFORM bump_epoch(p_organization);
  PERFORM pg_notify('headgate_organization', p_organization::text);
  RETURN v_merge;
END
$$;

-- Lets a name lead to a dataset, as its own name or (not p_primary) as one more. Logged like a merge of the dataset
-- with itself, and undone like one. Returns NULL if that is so already.
CREATE FUNCTION rename_dataset(
  p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_primary boolean,
  p_rule_id uuid)
  RETURNS uuid
  LANGUAGE plpgsql
  SET timezone = 'UTC' SET bytea_output = 'hex'
  AS $$
DECLARE
  v_dataset uuid := surviving_dataset(p_organization, p_dataset);
  v_led_to  uuid;
  v_holder  uuid;
  v_merge   uuid;
  v_rows    jsonb;
  v_names   jsonb;
BEGIN
  PERFORM pg_advisory_xact_lock(merge_lock(p_organization));
  PERFORM 1 FROM datasets d WHERE d.organization_id = p_organization AND d.id = v_dataset FOR UPDATE;
  SELECT a.dataset_id
    INTO v_led_to
    FROM dataset_aliases a
   WHERE a.organization_id = p_organization AND a.namespace = p_namespace AND a.name = p_name;
  SELECT d.id
    INTO v_holder
    FROM datasets d
   WHERE d.organization_id = p_organization AND d.namespace = p_namespace AND d.name = p_name;
  IF v_dataset IS NULL OR v_led_to <> v_dataset OR surviving_dataset(p_organization, v_holder) <> v_dataset THEN
    RAISE EXCEPTION 'the name %/% cannot lead to the dataset %', p_namespace, p_name, p_dataset
      USING ERRCODE = 'HG003', HINT = 'merge the dataset with the one that has the name';
  END IF;
  IF v_holder = v_dataset OR (v_led_to IS NOT NULL AND NOT p_primary) THEN
    RETURN NULL;
  END IF;

  v_rows := dataset_rows(p_organization, ARRAY[v_dataset, v_holder]);
  v_names := alias_rows(p_organization, ARRAY[v_dataset]);
  INSERT INTO dataset_merges (organization_id, survivor_id, merged_id, reason, rule_id, merged_at)
  VALUES (p_organization, v_dataset, v_dataset, CASE WHEN p_primary THEN 'rename' ELSE 'alias' END, p_rule_id,
          clock_timestamp())
  RETURNING id INTO v_merge;
  IF p_primary THEN
    PERFORM take_dataset_name(p_organization, v_dataset, p_namespace, p_name, p_display, v_holder);
  ELSE
    INSERT INTO dataset_aliases (organization_id, namespace, name, dataset_id, source)
    VALUES (p_organization, p_namespace, p_name, v_dataset, 'rule');
  END IF;
  PERFORM log_merge_rows(p_organization, v_merge, 'datasets', v_rows,
                         dataset_rows(p_organization, ARRAY[v_dataset, v_holder]));
  PERFORM log_merge_rows(p_organization, v_merge, 'dataset_aliases', v_names,
                         alias_rows(p_organization, ARRAY[v_dataset]));
  PERFORM bump_epoch(p_organization);
  PERFORM pg_notify('headgate_organization', p_organization::text);
  RETURN v_merge;
END
$$;
