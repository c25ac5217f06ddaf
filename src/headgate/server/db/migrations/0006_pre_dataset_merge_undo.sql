-- Taking merges back. Of every row that a merge logged: if it still is as the merge left it, it becomes what it was
-- before; if it moved on since, it stays with the survivor.
SET LOCAL lock_timeout = '5s';

-- Puts the logged rows of one table back. Rows that moved on since the merge stay, but for p_by_column, which puts
-- back each column that did not. Rows that were removed since stay so, but for p_missing.
CREATE FUNCTION restore_merged_rows(
  p_organization uuid, p_merge uuid, p_table text, p_by_column boolean DEFAULT false, p_missing boolean DEFAULT false)
  RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_known   text[];
  v_keys    text[] := merge_key_columns(p_table);
  v_on_key  text;
  v_columns text;
  v_values  text;
  v_sets    text;
  v_later   text[];
  v_from    text;
BEGIN
  SELECT ARRAY(SELECT jsonb_object_keys(coalesce(r.original, r.result)))
    INTO v_known
    FROM dataset_merge_rows r
   WHERE r.organization_id = p_organization AND r.merge_id = p_merge AND r.table_name = p_table
   LIMIT 1;
  IF v_known IS NULL THEN
    RETURN;
  END IF;
  -- A column that was added to the table since has no say. JSON null in a column that cannot be NULL is a value.
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.is_set),
         string_agg(a.original, ', ' ORDER BY a.attnum) FILTER (WHERE a.is_set),
         string_agg(CASE WHEN p_by_column
                         THEN format('%1$I = CASE WHEN t.%1$I IS NOT DISTINCT FROM n.%1$I THEN %2$s ELSE t.%1$I END',
                                     a.attname, a.original)
                         ELSE format('%I = %s', a.attname, a.original) END, ', ' ORDER BY a.attnum)
           FILTER (WHERE a.is_set AND NOT a.attname = ANY (v_keys)),
         coalesce(array_agg(a.attname::text) FILTER (WHERE NOT a.is_known), '{}'),
         string_agg(format('t.%1$I = n.%1$I', a.attname), ' AND ')
           FILTER (WHERE a.attname = ANY (v_keys))
    INTO v_columns, v_values, v_sets, v_later, v_on_key
    FROM (SELECT c.attname, c.attnum, c.attname = ANY (v_known) AS is_known,
                 c.attname = ANY (v_known) AND c.attgenerated = '' AS is_set,
                 CASE WHEN c.attnotnull AND c.atttypid = 'jsonb'::regtype
                      THEN format('coalesce(o.%I, ''null'')', c.attname)
                      ELSE format('o.%I', c.attname) END AS original
            FROM pg_attribute c
           WHERE c.attrelid = p_table::regclass AND c.attnum > 0 AND NOT c.attisdropped) a;
  v_from := format(
    'dataset_merge_rows r
      CROSS JOIN LATERAL jsonb_populate_record(NULL::%1$I, r.original) o
      CROSS JOIN LATERAL jsonb_populate_record(NULL::%1$I, r.result) n
      WHERE r.organization_id = $1 AND r.merge_id = $2 AND r.table_name = %1$L', p_table);

  EXECUTE format(
    'DELETE FROM %1$I t USING %2$s
        AND r.original IS NULL AND t.organization_id = $1 AND %3$s AND to_jsonb(t) - $3 = r.result',
    p_table, v_from, v_on_key)
    USING p_organization, p_merge, v_later;
  EXECUTE format(
    'UPDATE %1$I t SET %4$s FROM %2$s
        AND r.original IS NOT NULL AND t.organization_id = $1 AND %3$s AND ($4 OR to_jsonb(t) - $3 = r.result)',
    p_table, v_from, v_on_key, v_sets)
    USING p_organization, p_merge, v_later, p_by_column;
  EXECUTE format(
    'INSERT INTO %1$I (%3$s) SELECT %4$s FROM %2$s
        AND r.original IS NOT NULL AND (r.result IS NULL OR $3) ON CONFLICT DO NOTHING',
    p_table, v_from, v_columns, v_values)
    USING p_organization, p_merge, p_missing;
END
$$;

-- Of rows that moved on since the merge, the time they were first seen is no longer the merged dataset's.
CREATE FUNCTION part_touched_rows(p_organization uuid, p_merge uuid, p_table text, p_more text DEFAULT '') RETURNS void
  LANGUAGE plpgsql
  AS $$
BEGIN
  EXECUTE format($sql$
    UPDATE %1$I t
       SET first_seen_at = coalesce((r.original ->> 'first_seen_at')::timestamptz, t.last_seen_at) %2$s
      FROM dataset_merge_rows r
     CROSS JOIN LATERAL jsonb_populate_record(NULL::%1$I, r.result) n
     WHERE r.organization_id = $1 AND r.merge_id = $2 AND r.table_name = %1$L
       AND t.organization_id = $1 AND (%3$s)
       AND t.first_seen_at = n.first_seen_at
       AND t.last_seen_at > n.last_seen_at
    $sql$, p_table, p_more,
    (SELECT string_agg(format('t.%1$I = n.%1$I', u.name), ' AND ')
       FROM unnest(merge_key_columns(p_table)) AS u (name)))
    USING p_organization, p_merge;
END
$$;

-- What a run reads or writes after undo: as it was, and what it told of since.
CREATE FUNCTION parted_ids(p_current uuid[], p_result jsonb, p_original jsonb) RETURNS uuid[]
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT ARRAY(SELECT o.id::uuid FROM jsonb_array_elements_text(p_original) WITH ORDINALITY AS o (id, i) ORDER BY o.i)
           || ARRAY(SELECT c.id
                      FROM unnest(p_current) WITH ORDINALITY AS c (id, i)
                     WHERE NOT p_result ? c.id::text AND NOT p_original ? c.id::text
                     ORDER BY c.i)
  $$;

CREATE FUNCTION restore_merged_runs(p_organization uuid, p_merge uuid) RETURNS void
  LANGUAGE sql
  AS $$
    UPDATE job_runs t
       SET input_ids = parted_ids(t.input_ids, r.result -> 'input_ids', r.original -> 'input_ids'),
           output_ids = parted_ids(t.output_ids, r.result -> 'output_ids', r.original -> 'output_ids')
      FROM dataset_merge_rows r
     WHERE r.organization_id = p_organization AND r.merge_id = p_merge AND r.table_name = 'job_runs'
       AND t.organization_id = p_organization AND t.run_id = (r.original ->> 'run_id')::uuid
  $$;

-- Versions go back to where they were. If the survivor got new ones since, its history is put in order again.
CREATE FUNCTION restore_merged_schemas(p_organization uuid, p_merge uuid, p_kept uuid) RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_arrived jsonb;
BEGIN
  IF NOT EXISTS (SELECT
                   FROM dataset_merge_rows r
                  WHERE r.organization_id = p_organization AND r.merge_id = p_merge
                    AND r.table_name = 'schema_versions') THEN
    RETURN;
  END IF;
  SELECT jsonb_agg(to_jsonb(v))
    INTO v_arrived
    FROM schema_versions v
   WHERE v.organization_id = p_organization AND v.dataset_id = p_kept
     AND NOT EXISTS (SELECT
                       FROM dataset_merge_rows r
                      WHERE r.organization_id = p_organization AND r.merge_id = p_merge
                        AND r.table_name = 'schema_versions' AND r.result ->> 'id' = v.id::text);

  DELETE FROM schema_versions v
   WHERE v.organization_id = p_organization AND v.dataset_id = p_kept;
  PERFORM restore_merged_rows(p_organization, p_merge, 'schema_versions', p_missing => true);
  IF v_arrived IS NOT NULL THEN
    UPDATE schema_versions v
       SET valid_to = v.valid_from
     WHERE v.organization_id = p_organization AND v.dataset_id = p_kept AND v.valid_to IS NULL;
    INSERT INTO schema_versions
    SELECT o.*
      FROM jsonb_populate_recordset(NULL::schema_versions, v_arrived) o;
    UPDATE datasets d
       SET (schema_hash, schema_at) = (
             SELECT n.schema_hash, n.schema_at FROM rebuild_schema_history(p_organization, p_kept, false) n)
     WHERE d.organization_id = p_organization AND d.id = p_kept;
  END IF;
END
$$;

-- Names first, by way of names that nobody has: two datasets may have to exchange theirs.
CREATE FUNCTION restore_merged_names(p_organization uuid, p_merge uuid) RETURNS void
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_renamed uuid[];
BEGIN
  SELECT array_agg(d.id)
    INTO v_renamed
    FROM dataset_merge_rows r
    JOIN datasets d ON d.organization_id = p_organization AND d.id = (r.original ->> 'id')::uuid
   WHERE r.organization_id = p_organization AND r.merge_id = p_merge AND r.table_name = 'datasets'
     AND d.namespace = r.result ->> 'namespace' AND d.name = r.result ->> 'name'
     AND (d.namespace, d.name) <> (r.original ->> 'namespace', r.original ->> 'name');
  UPDATE datasets d
     SET namespace = '', name = d.id::text
   WHERE d.organization_id = p_organization AND d.id = ANY (v_renamed);
  UPDATE datasets d
     SET namespace = r.original ->> 'namespace', name = r.original ->> 'name'
    FROM dataset_merge_rows r
   WHERE r.organization_id = p_organization AND r.merge_id = p_merge AND r.table_name = 'datasets'
     AND d.organization_id = p_organization AND d.id = ANY (v_renamed) AND d.id = (r.original ->> 'id')::uuid;
  PERFORM restore_merged_rows(p_organization, p_merge, 'datasets', true);
  PERFORM restore_merged_rows(p_organization, p_merge, 'dataset_aliases');
END
$$;

-- The newest merge that has to be undone before this one can be: it began with what this one left.
CREATE FUNCTION later_merge(p_organization uuid, p_merge dataset_merges) RETURNS uuid
  LANGUAGE sql STABLE
  AS $$
    WITH rows AS (
      SELECT r.table_name, coalesce(r.result, r.original) AS body
        FROM dataset_merge_rows r
       WHERE r.organization_id = p_organization AND r.merge_id = p_merge.id
         AND r.table_name IN ('lineage_edges', 'column_lineage_edges', 'job_runs')
    ),
    near AS (
      SELECT x.id::uuid AS id
        FROM rows
       CROSS JOIN LATERAL (SELECT rows.body ->> 'source_id' AS id
                           UNION SELECT rows.body ->> 'target_id'
                           UNION SELECT jsonb_array_elements_text(rows.body -> 'input_ids')
                           UNION SELECT jsonb_array_elements_text(rows.body -> 'output_ids')) x
    ),
    later AS (
      SELECT m.id, m.place,
             p_merge.survivor_id IN (m.survivor_id, m.merged_id)
             OR p_merge.merged_id IN (m.survivor_id, m.merged_id) AS is_same
        FROM dataset_merges m
       WHERE m.organization_id = p_organization AND m.undone_at IS NULL AND m.place > p_merge.place
         AND (m.survivor_id IN (p_merge.survivor_id, p_merge.merged_id)
           OR m.merged_id IN (p_merge.survivor_id, p_merge.merged_id)
           OR m.survivor_id IN (SELECT n.id FROM near n)
           OR m.merged_id IN (SELECT n.id FROM near n))
    )
    SELECT l.id
      FROM later l
     WHERE l.is_same
        OR EXISTS (SELECT
                     FROM dataset_merge_rows o
                     JOIN rows ON rows.table_name = o.table_name
                              AND merge_row_key(merge_key_columns(rows.table_name), rows.body)
                                  = merge_row_key(merge_key_columns(o.table_name), coalesce(o.result, o.original))
                    WHERE o.organization_id = p_organization AND o.merge_id = l.id)
     ORDER BY l.place DESC
     LIMIT 1
  $$;

-- Takes a merge back: what it moved is again where it was; what came since stays with the survivor.
CREATE FUNCTION undo_dataset_merge(p_organization uuid, p_merge uuid) RETURNS void
  LANGUAGE plpgsql
  SET timezone = 'UTC' SET bytea_output = 'hex'
  AS $$
DECLARE
  v_merge dataset_merges;
  v_later uuid;
BEGIN
  PERFORM pg_advisory_xact_lock(merge_lock(p_organization));
  SELECT m.* INTO v_merge
    FROM dataset_merges m
   WHERE m.organization_id = p_organization AND m.id = p_merge
     FOR UPDATE;
  IF v_merge.id IS NULL THEN
    RAISE EXCEPTION 'there is no merge %', p_merge USING ERRCODE = 'HG003';
  END IF;
  IF v_merge.undone_at IS NOT NULL THEN
    RAISE EXCEPTION 'merge % was undone already', p_merge USING ERRCODE = 'HG003';
  END IF;
  PERFORM 1
     FROM datasets d
    WHERE d.organization_id = p_organization AND d.id IN (v_merge.survivor_id, v_merge.merged_id)
    ORDER BY d.id
      FOR UPDATE;
  v_later := later_merge(p_organization, v_merge);
  IF v_later IS NOT NULL THEN
    RAISE EXCEPTION 'merge % cannot be undone: merge % came later and changed what it left', p_merge, v_later
      USING ERRCODE = 'HG003', HINT = format('undo merge %s first', v_later);
  END IF;

  PERFORM part_touched_rows(p_organization, p_merge, 'job_datasets',
                            ', start_hash = NULL, facets_hash = NULL, columns_hash = NULL');
  PERFORM part_touched_rows(p_organization, p_merge, 'lineage_edges');
  PERFORM part_touched_rows(p_organization, p_merge, 'column_lineage_edges');
  PERFORM restore_merged_names(p_organization, p_merge);
  PERFORM restore_merged_rows(p_organization, p_merge, t.name, t.name = 'test_results')
     FROM unnest(ARRAY['job_datasets', 'dataset_facets', 'freshness_sla', 'lineage_edges', 'column_lineage_edges',
                       'dataset_metrics', 'test_results']) AS t (name);
  PERFORM restore_merged_runs(p_organization, p_merge);
  PERFORM restore_merged_schemas(p_organization, p_merge, v_merge.survivor_id);

  DELETE FROM dataset_merge_rows r
   WHERE r.organization_id = p_organization AND r.merge_id = p_merge;
  UPDATE dataset_merges m
     SET undone_at = now()
   WHERE m.organization_id = p_organization AND m.id = p_merge;
  PERFORM bump_epoch(p_organization);
  PERFORM pg_notify('headgate_organization', p_organization::text);
END
$$;
