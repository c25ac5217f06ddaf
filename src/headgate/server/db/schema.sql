-- What the migrations give, without the monthly partitions. Made by `make schema`; do not edit.


CREATE SCHEMA headgate;

ALTER SCHEMA headgate OWNER TO headgate_owner;

CREATE FUNCTION headgate.add_dataset_stats(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO dataset_stats (organization_id, dataset_id)
    SELECT p_organization, u.id
      FROM unnest(p_datasets) AS u (id)
     ORDER BY u.id
    ON CONFLICT (organization_id, dataset_id) DO NOTHING
  $$;

ALTER FUNCTION headgate.add_dataset_stats(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.alias_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT jsonb_agg(to_jsonb(a))
      FROM dataset_aliases a
     WHERE a.organization_id = p_organization AND a.dataset_id = ANY (p_datasets)
  $$;

ALTER FUNCTION headgate.alias_rows(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.authenticate_key(p_key_hash bytea) RETURNS TABLE(key_id uuid, organization_id uuid, name text, scopes text[], expires_at timestamp with time zone, revoked_at timestamp with time zone, tenant_id bigint, tenant_code text, organization_name text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
  UPDATE api_keys k
     SET last_used_at = now()
   WHERE k.key_hash = p_key_hash
     AND (k.last_used_at IS NULL OR k.last_used_at < now() - interval '1 minute');
  RETURN QUERY
    SELECT k.id, k.organization_id, k.name, k.scopes, k.expires_at, k.revoked_at, o.tenant_id, o.tenant_code, o.name
      FROM api_keys k
      JOIN organizations o ON o.id = k.organization_id
     WHERE k.key_hash = p_key_hash;
END
$$;

ALTER FUNCTION headgate.authenticate_key(p_key_hash bytea) OWNER TO headgate_owner;

CREATE FUNCTION headgate.bare_name(p_name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(nullif(CASE WHEN strpos(p_name, '/') > 0 THEN regexp_replace(rtrim(p_name, '/'), '^.*/', '')
                                ELSE regexp_replace(p_name, '^.*\.', '') END, ''), p_name)
  $$;

ALTER FUNCTION headgate.bare_name(p_name text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.bump_epoch(p_organization uuid) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO content_epochs AS t (organization_id, epoch)
    VALUES (p_organization, 1)
    ON CONFLICT (organization_id) DO UPDATE SET epoch = t.epoch + 1
  $$;

ALTER FUNCTION headgate.bump_epoch(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.canonical_host(raw text, port text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  host text := btrim(raw, blank);
  parts text[] := regexp_match(host, '^(.*):([^:]*)$');
BEGIN
  -- More colons without brackets are an IPv6 address, not a port.
  IF parts IS NOT NULL
     AND (strpos(parts[1], ':') = 0 OR right(parts[1], 1) = ']')
     AND (parts[2] = '' OR parts[2] = port) THEN
    host := parts[1];
  END IF;
  RETURN lower(rtrim(host, blank) COLLATE "C");
END
$_$;

ALTER FUNCTION headgate.canonical_host(raw text, port text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.canonical_namespace(namespace text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'headgate'
    AS $_$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  raw text := btrim(namespace, blank);
  uri record := split_uri(raw);
  kind text := namespace_kind(uri.scheme);
  port text := default_port(uri.scheme);
  host text := uri.authority;
  path text := uri.path;
BEGIN
  IF uri.scheme IS NULL THEN
    RETURN coalesce(nullif(rtrim(raw, blank || '/'), ''), raw);
  END IF;
  IF kind = 'file_database' THEN
    host := btrim(host, blank);
  ELSIF uri.scheme IN ('abfss', 'wasbs') THEN
    host := CASE
      WHEN strpos(host, '@') = 0 THEN canonical_host(host, NULL)
      ELSE btrim(regexp_replace(host, '@[^@]*$', ''), blank) || '@'
        || canonical_host(regexp_replace(host, '^.*@', ''), NULL)
    END;
  ELSE
    host := CASE WHEN port IS NULL THEN host ELSE regexp_replace(host, '[?;#].*$', '') END;
    host := regexp_replace(host, '^.*@', '');
    host := CASE
      WHEN kind = 'object_store' THEN btrim(host, blank)
      WHEN port IS NULL OR strpos(host, ',') = 0 THEN canonical_host(host, port)
      ELSE coalesce((SELECT min(h COLLATE "C")
                       FROM (SELECT canonical_host(part, port) AS h
                               FROM unnest(string_to_array(host, ',')) AS part) AS hosts
                      WHERE h <> ''), '')
    END;
    host := CASE WHEN uri.scheme = 'file' AND host = 'localhost' THEN '' ELSE host END;
  END IF;
  IF port IS NOT NULL AND kind = 'service' THEN
    path := regexp_replace(path, '[?;#].*$', '');
  END IF;
  path := rtrim(path, blank || '/');
  IF host <> '' OR kind <> 'file_system' THEN
    RETURN uri.scheme || '://' || host || path;
  END IF;
  RETURN uri.scheme || CASE WHEN path = '' THEN '' ELSE ':/' || ltrim(path, '/') END;
END
$_$;

ALTER FUNCTION headgate.canonical_namespace(namespace text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.canonical_urn(urn text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'headgate'
    AS $_$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  raw text := btrim(urn, blank);
  uri record := split_uri(raw);
  kind text := namespace_kind(uri.scheme);
  base text;
  name text;
  cut int;
  segments text[];
BEGIN
  IF uri.scheme IS NULL THEN
    cut := strpos(raw, '/');
    IF cut = 0 THEN
      RETURN canonical_namespace(raw);
    END IF;
    base := left(raw, cut - 1);
    name := substr(raw, cut + 1);
  ELSIF kind IN ('file_system', 'object_store') THEN
    base := uri.scheme || '://' || uri.authority;
    name := CASE WHEN kind = 'file_system' THEN uri.path ELSE substr(uri.path, 2) END;
  ELSIF uri.path = '' THEN
    RETURN canonical_namespace(raw);
  ELSE
    cut := CASE
      WHEN kind = 'file_database' THEN length(regexp_replace(uri.path, '[^/]*$', ''))
      WHEN uri.scheme = 'azurecosmos' THEN coalesce(length(substring(uri.path FROM '^/[^/]*/[^/]*/')), 1)
      ELSE 1
    END;
    base := uri.scheme || '://' || uri.authority || left(uri.path, cut - 1);
    name := substr(uri.path, cut + 1);
  END IF;

  base := canonical_namespace(base);
  -- A bare namespace such as `file` or `dbfs` is a file system too.
  kind := namespace_kind(split_part(base, '://', 1));
  IF kind IN ('service', 'file_database') OR (kind = 'object_store' AND strpos(base, '://') = 0) THEN
    RETURN base || '/' || coalesce(nullif(btrim(name, blank), ''), name);
  END IF;

  name := btrim(name, blank);
  LOOP
    name := CASE WHEN kind = 'object_store' THEN ltrim(name, blank || '/') ELSE name END;
    EXIT WHEN strpos(name, ':/') = 0;
    uri := split_uri(name);
    EXIT WHEN uri.scheme IS NULL OR namespace_kind(uri.scheme) NOT IN ('object_store', 'file_system');
    kind := namespace_kind(uri.scheme);
    base := canonical_namespace(uri.scheme || '://' || uri.authority);
    name := coalesce(nullif(uri.path, ''), '/');
  END LOOP;

  segments := ARRAY(SELECT part
                      FROM unnest(string_to_array(name, '/')) WITH ORDINALITY AS p (part, place)
                     WHERE btrim(part, blank) <> ''
                     ORDER BY place);
  cut := dataset_depth(ARRAY(SELECT btrim(part, blank)
                               FROM unnest(segments) WITH ORDINALITY AS p (part, place)
                              ORDER BY place));
  raw := rtrim(array_to_string(segments[1:cut], '/'), blank);
  IF kind = 'file_system' AND NOT (base = 'file' AND left(name, 1) NOT IN ('', '/')) THEN
    raw := '/' || raw;
  END IF;
  RETURN base || '/' || coalesce(nullif(raw, ''), '/');
END
$_$;

ALTER FUNCTION headgate.canonical_urn(urn text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_alerts(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_merge uuid := open_merge(p_organization, p_kept, p_gone);
BEGIN
  IF v_merge IS NULL THEN
    RETURN;
  END IF;
  IF p_undo THEN
    PERFORM restore_merged_rows(p_organization, v_merge, 'alert_history', true);
    RETURN;
  END IF;
  WITH were AS (
    SELECT h.id, to_jsonb(h) AS body
      FROM alert_history h
     WHERE h.organization_id = p_organization AND h.dataset_id = p_gone
  ),
  moved AS (
    UPDATE alert_history h
       SET dataset_id = p_kept, subject = replace(h.subject, p_gone::text, p_kept::text)
     WHERE h.organization_id = p_organization AND h.dataset_id = p_gone
    RETURNING h.*
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, v_merge, 'alert_history', w.body, to_jsonb(m)
    FROM moved m
    JOIN were w ON w.id = m.id;
END
$$;

ALTER FUNCTION headgate.carry_alerts(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_dataset_notes(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
  v_merge uuid := (SELECT m.id
                     FROM dataset_merges m
                    WHERE m.organization_id = p_organization AND m.survivor_id = p_kept AND m.merged_id = p_gone
                      AND m.undone_at IS NULL
                    ORDER BY m.place DESC
                    LIMIT 1);
BEGIN
  IF v_merge IS NULL THEN
    RETURN;
  END IF;
  IF p_undo THEN
    PERFORM restore_merged_rows(p_organization, v_merge, 'dataset_tags');
    PERFORM restore_merged_rows(p_organization, v_merge, 'dataset_notes');
  ELSE
    PERFORM move_merged_rows(p_organization, v_merge, p_kept, p_gone, 'dataset_tags',
                             'created_at = least(t.created_at, EXCLUDED.created_at)');
    PERFORM move_merged_rows(p_organization, v_merge, p_kept, p_gone, 'dataset_notes', $sql$
        description = coalesce(t.description, EXCLUDED.description),
        owners = coalesce(t.owners, EXCLUDED.owners)
      $sql$);
  END IF;
END
$_$;

ALTER FUNCTION headgate.carry_dataset_notes(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_dataset_stats(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF p_undo THEN
    PERFORM add_dataset_stats(p_organization, ARRAY[p_gone]);
  ELSE
    DELETE FROM dataset_stats s WHERE s.organization_id = p_organization AND s.dataset_id = p_gone;
    PERFORM note_dataset_stats(p_organization, 'all', ARRAY[p_kept]);
  END IF;
END
$$;

ALTER FUNCTION headgate.carry_dataset_stats(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_incidents(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
  v_merge uuid := open_merge(p_organization, p_kept, p_gone);
BEGIN
  IF v_merge IS NULL THEN
    RETURN;
  END IF;
  IF p_undo THEN
    PERFORM restore_merged_rows(p_organization, v_merge, 'incident_symptoms', true);
    PERFORM restore_merged_rows(p_organization, v_merge, 'incidents', true);
    RETURN;
  END IF;
  WITH were AS (
    SELECT s.id, to_jsonb(s) AS body, replace(s.key, p_gone::text, p_kept::text) AS new_key
      FROM incident_symptoms s
     WHERE s.organization_id = p_organization AND s.dataset_id = p_gone
  ),
  moved AS (
    UPDATE incident_symptoms s
       SET dataset_id = p_kept,
           key = CASE WHEN EXISTS (SELECT
                                     FROM incident_symptoms k
                                    WHERE k.organization_id = p_organization
                                      AND k.incident_id = s.incident_id
                                      AND k.key = w.new_key
                                      AND coalesce(k.producing_run_id, k.run_id)
                                          IS NOT DISTINCT FROM coalesce(s.producing_run_id, s.run_id))
                      THEN s.key ELSE w.new_key END
      FROM were w
     WHERE s.organization_id = p_organization AND s.id = w.id
    RETURNING s.*
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, v_merge, 'incident_symptoms', w.body, to_jsonb(m)
    FROM moved m
    JOIN were w ON w.id = m.id;
  WITH were AS (
    SELECT i.id, to_jsonb(i) AS body
      FROM incidents i
     WHERE i.organization_id = p_organization AND p_gone IN (i.dataset_id, i.cause_dataset_id)
  ),
  moved AS (
    UPDATE incidents i
       SET dataset_id = coalesce(NULLIF(i.dataset_id, p_gone), CASE WHEN i.dataset_id = p_gone THEN p_kept END),
           cause_dataset_id = coalesce(NULLIF(i.cause_dataset_id, p_gone),
                                       CASE WHEN i.cause_dataset_id = p_gone THEN p_kept END)
      FROM were w
     WHERE i.organization_id = p_organization AND i.id = w.id
    RETURNING i.*
  )
  INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
  SELECT p_organization, v_merge, 'incidents', w.body, to_jsonb(m)
    FROM moved m
    JOIN were w ON w.id = m.id;
END
$$;

ALTER FUNCTION headgate.carry_incidents(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_judgement(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
    LANGUAGE plpgsql
    AS $_$
DECLARE
  v_merge uuid := open_merge(p_organization, p_kept, p_gone);
BEGIN
  IF v_merge IS NULL THEN
    RETURN;
  END IF;
  IF p_undo THEN
    PERFORM restore_merged_rows(p_organization, v_merge, t.name, true)
       FROM unnest(ARRAY['anomalies', 'detection_policies', 'expected_marks']) AS t (name);
  ELSE
    PERFORM move_judged_rows(p_organization, v_merge, p_kept, p_gone, 'anomalies', $sql$
        k.run_id IS NOT DISTINCT FROM g.run_id AND k.anomaly_type = g.anomaly_type
        AND coalesce(k.column_name, '') = coalesce(g.column_name, '') AND k.partition_key = g.partition_key
        AND k.occasion = g.occasion
      $sql$);
    PERFORM move_judged_rows(p_organization, v_merge, p_kept, p_gone, 'detection_policies', 'k.metric = g.metric');
    PERFORM move_judged_rows(p_organization, v_merge, p_kept, p_gone, 'expected_marks', 'k.id = g.id');
    DELETE FROM watched_datasets w WHERE w.organization_id = p_organization AND w.dataset_id = p_gone;
  END IF;
  PERFORM note_writes(p_organization, ARRAY[CASE WHEN p_undo THEN p_gone ELSE p_kept END], ARRAY[NULL::timestamptz]);
END
$_$;

ALTER FUNCTION headgate.carry_judgement(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.carry_lineage(p_organization uuid, p_from uuid[], p_to uuid[], p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_before CONSTANT timestamptz := p_at - interval '1 microsecond';
  v_from   uuid[];
  v_to     uuid[];
BEGIN
  -- Before anything is looked at: another event may be renaming one of them.
  PERFORM 1
     FROM datasets d
    WHERE d.organization_id = p_organization AND d.id = ANY (p_from || p_to)
    ORDER BY d.id
      FOR UPDATE;
  SELECT array_agg(u.old), array_agg(u.new)
    INTO v_from, v_to
    FROM unnest(p_from, p_to) AS u (old, new)
   WHERE u.old <> u.new
     AND NOT is_gone(p_organization, u.old, p_at);

  INSERT INTO lineage_edges AS t (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at,
                                  last_completed_at)
  SELECT p_organization, n.neighbour_id, v_to[n.place], n.job_id, p_at, p_at,
         CASE WHEN bool_or(n.is_completed) THEN p_at END
    FROM lineage_neighbours(p_organization, v_from, 'up', NULL, p_at, p_at - interval '30 days') n
   WHERE n.neighbour_id <> v_to[n.place]
   GROUP BY 2, 3, 4
  ON CONFLICT (organization_id, source_id, target_id, job_id) DO UPDATE
     SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
         last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);

  INSERT INTO column_lineage_edges AS t (organization_id, target_id, target_column, source_id, source_column, job_id,
                                         kinds, expression, is_current, first_seen_at, last_seen_at)
  SELECT DISTINCT ON (u.new, e.target_column, e.source_id, e.source_column, e.job_id)
         p_organization, u.new, e.target_column, e.source_id, e.source_column, e.job_id, e.kinds, e.expression,
         coalesce(o.columns_seen_at <= p_at, true), p_at, p_at
    FROM unnest(v_from, v_to) AS u (old, new)
   CROSS JOIN LATERAL (SELECT x.renamed_at
                         FROM datasets x
                        WHERE x.organization_id = p_organization
                          AND x.id = u.old
                       OFFSET 0) d
   CROSS JOIN LATERAL (SELECT x.*
                         FROM column_lineage_edges x
                        WHERE x.organization_id = p_organization
                          AND x.target_id = u.old
                       OFFSET 0) e
    LEFT JOIN LATERAL (SELECT x.columns_seen_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.job_id = e.job_id
                          AND x.dataset_id = u.old
                          AND x.role = 'output'
                       OFFSET 0) h ON true
    LEFT JOIN LATERAL (SELECT x.columns_seen_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.job_id = e.job_id
                          AND x.dataset_id = u.new
                          AND x.role = 'output'
                       OFFSET 0) o ON true
   WHERE e.source_id <> u.new
     AND e.first_seen_at <= p_at
     AND (e.is_current OR e.last_seen_at >= p_at)
     AND (d.renamed_at IS NULL OR d.renamed_at > p_at OR d.renamed_at < greatest(e.last_seen_at, h.columns_seen_at))
   ORDER BY 2, 3, 4, 5, 6
  ON CONFLICT (organization_id, target_id, target_column, source_id, source_column, job_id) DO UPDATE
     SET kinds = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.kinds ELSE t.kinds END,
         expression = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.expression ELSE t.expression END,
         is_current = t.is_current OR EXCLUDED.is_current,
         first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at);

  -- Who wrote it has written the other.
  INSERT INTO job_datasets AS t (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at,
                                 last_completed_at)
  SELECT p_organization, h.job_id, u.new, 'output', p_at, p_at, CASE WHEN bool_or(h.last_completed_at IS NOT NULL)
                                                                     THEN p_at END
    FROM unnest(v_from, v_to) AS u (old, new)
   CROSS JOIN LATERAL (SELECT x.renamed_at
                         FROM datasets x
                        WHERE x.organization_id = p_organization
                          AND x.id = u.old
                       OFFSET 0) d
   CROSS JOIN LATERAL (SELECT x.job_id, x.first_seen_at, x.last_seen_at, x.last_completed_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = u.old
                          AND x.role = 'output'
                       OFFSET 0) h
   WHERE h.first_seen_at <= p_at
     AND (d.renamed_at IS NULL OR d.renamed_at > p_at OR d.renamed_at < h.last_seen_at)
   GROUP BY 2, 3
  ON CONFLICT (organization_id, job_id, dataset_id, role) DO UPDATE
     SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
         last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);

  UPDATE datasets d
     SET dropped_at = greatest(d.dropped_at, p_at),
         renamed_at = greatest(d.renamed_at, p_at)
   WHERE d.organization_id = p_organization AND d.id = ANY (v_from);
  -- Something that takes a name in the same moment in which its holder leaves is there afterwards.
  UPDATE datasets d
     SET renamed_at = greatest(NULLIF(d.renamed_at, p_at), v_before),
         dropped_at = CASE WHEN d.dropped_at > p_at THEN d.dropped_at
                           WHEN d.dropped_at IS NOT NULL
                            AND was_written(p_organization, d.id, least(d.dropped_at, v_before), 'infinity')
                           THEN least(d.dropped_at, v_before) END
   WHERE d.organization_id = p_organization AND d.id = ANY (v_to);
END
$$;

ALTER FUNCTION headgate.carry_lineage(p_organization uuid, p_from uuid[], p_to uuid[], p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE TABLE headgate.job_runs (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    job_ids uuid[] NOT NULL,
    state text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone GENERATED ALWAYS AS (LEAST(complete_at, fail_at, abort_at)) STORED,
    last_event_at timestamp with time zone NOT NULL,
    last_activity_at timestamp with time zone,
    start_at timestamp with time zone,
    running_at timestamp with time zone,
    complete_at timestamp with time zone,
    fail_at timestamp with time zone,
    abort_at timestamp with time zone,
    other_at timestamp with time zone,
    parent_run_id uuid,
    root_run_id uuid,
    parent_job jsonb,
    root_job jsonb,
    is_test boolean DEFAULT false NOT NULL,
    processing_type text,
    application_id text,
    partition_context jsonb,
    error text,
    error_at timestamp with time zone,
    input_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    output_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    producer text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    verdicts jsonb,
    anomalous text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT job_runs_state_check CHECK ((state = ANY (ARRAY['START'::text, 'RUNNING'::text, 'COMPLETE'::text, 'FAIL'::text, 'ABORT'::text, 'OTHER'::text])))
)
WITH (fillfactor='75');

ALTER TABLE ONLY headgate.job_runs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_runs OWNER TO headgate_owner;

COMMENT ON TABLE headgate.job_runs IS 'No foreign key to jobs: it would lock the job''s row for each of its runs. Jobs are never deleted alone';

COMMENT ON COLUMN headgate.job_runs.last_activity_at IS 'Latest START, RUNNING or OTHER; after ended_at when such an event came before the end was known (late)';

COMMENT ON COLUMN headgate.job_runs.start_at IS 'State history: the earliest time each state was seen, one column a state; independent of arrival order';

COMMENT ON COLUMN headgate.job_runs.verdicts IS 'As in dataset_metrics: of duration_ms and rows_quarantined';

CREATE FUNCTION headgate.claim_events(p_organization uuid, p_keys bytea[], p_runs uuid[] DEFAULT '{}'::uuid[], OUT fresh bytea[], OUT epoch bigint, OUT held headgate.job_runs[]) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
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
  SELECT array_agg(l.run) INTO held FROM lock_runs(p_organization, p_runs) l;
END
$$;

ALTER FUNCTION headgate.claim_events(p_organization uuid, p_keys bytea[], p_runs uuid[], OUT fresh bytea[], OUT epoch bigint, OUT held headgate.job_runs[]) OWNER TO headgate_owner;

CREATE TABLE headgate.async_task (
    id bigint NOT NULL,
    organization_id uuid NOT NULL,
    task_type text NOT NULL COLLATE pg_catalog."C",
    tenant_id bigint NOT NULL,
    tenant_code text NOT NULL,
    resource_type text NOT NULL COLLATE pg_catalog."C",
    resource_id text NOT NULL COLLATE pg_catalog."C",
    content_hash text NOT NULL COLLATE pg_catalog."C",
    model_fingerprint text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    status text DEFAULT 'PENDING'::text NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    retry_count integer DEFAULT 0 NOT NULL,
    max_retry integer DEFAULT 5 NOT NULL,
    next_run_at timestamp with time zone DEFAULT now() NOT NULL,
    claim_token uuid,
    claim_until timestamp with time zone,
    claimed_at timestamp with time zone,
    worker_id text,
    batch_no text,
    attempts integer DEFAULT 0 NOT NULL,
    is_alone boolean DEFAULT false NOT NULL,
    last_error text,
    payload jsonb DEFAULT '{}'::jsonb NOT NULL,
    repeat_s integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT async_task_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'RUNNING'::text, 'SUCCEEDED'::text, 'FAILED'::text, 'DEAD'::text, 'CANCELED'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY headgate.async_task FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_task OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.async_task.priority IS 'The smaller, the sooner';

COMMENT ON COLUMN headgate.async_task.attempts IS 'How often it was claimed; the number of its latest attempt';

COMMENT ON COLUMN headgate.async_task.is_alone IS 'Its worker did not come back once: from then on it has a batch of its own';

COMMENT ON COLUMN headgate.async_task.repeat_s IS 'Set for recurring work: it is due again so many seconds after it was done';

CREATE FUNCTION headgate.claim_tasks(p_organization uuid, p_types text[], p_sizes integer[], p_claims_s integer[], p_worker text, p_turn integer, p_token uuid) RETURNS SETOF headgate.async_task
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_kind   record;
  v_place  integer;
  v_ids    bigint[];
BEGIN
  FOR v_kind IN
    -- From kind to kind by the index, however many tasks each has.
    WITH RECURSIVE kinds AS (
      (SELECT t.task_type, t.priority, t.model_fingerprint, t.is_alone
         FROM async_task t
        WHERE t.organization_id = p_organization AND t.status IN ('PENDING', 'FAILED')
        ORDER BY t.task_type, t.priority, t.model_fingerprint, t.is_alone
        LIMIT 1)
      UNION ALL
      SELECT n.task_type, n.priority, n.model_fingerprint, n.is_alone
        FROM kinds k
       CROSS JOIN LATERAL (SELECT t.task_type, t.priority, t.model_fingerprint, t.is_alone
                             FROM async_task t
                            WHERE t.organization_id = p_organization AND t.status IN ('PENDING', 'FAILED')
                              AND (t.task_type, t.priority, t.model_fingerprint, t.is_alone)
                                    > (k.task_type, k.priority, k.model_fingerprint, k.is_alone)
                            ORDER BY t.task_type, t.priority, t.model_fingerprint, t.is_alone
                            LIMIT 1) n),
    due AS (
      SELECT k.*, d.repeat_s, row_number() OVER (ORDER BY k.priority, d.next_run_at) - 1 AS place,
             count(*) OVER () AS number
        FROM kinds k
       CROSS JOIN LATERAL (SELECT t.next_run_at, t.repeat_s
                             FROM async_task t
                            WHERE t.organization_id = p_organization AND t.status IN ('PENDING', 'FAILED')
                              AND t.task_type = k.task_type AND t.priority = k.priority
                              AND t.model_fingerprint = k.model_fingerprint AND t.is_alone = k.is_alone
                              AND t.next_run_at <= now()
                            ORDER BY t.next_run_at, t.id
                            LIMIT 1) d
       WHERE k.task_type = ANY (p_types))
    SELECT d.task_type, d.priority, d.model_fingerprint, d.is_alone, d.repeat_s
      FROM due d
     ORDER BY (d.place + d.number - CASE WHEN p_turn % 4 = 3 AND d.number > 1 THEN 1 + p_turn / 4 % (d.number - 1)
                                         ELSE 0 END) % d.number
  LOOP
    v_place := array_position(p_types, v_kind.task_type);
    v_ids := ARRAY(
      SELECT t.id
        FROM async_task t
       WHERE t.organization_id = p_organization AND t.status IN ('PENDING', 'FAILED')
         AND t.task_type = v_kind.task_type AND t.priority = v_kind.priority
         AND t.model_fingerprint = v_kind.model_fingerprint AND t.is_alone = v_kind.is_alone
         AND t.next_run_at <= now()
       ORDER BY t.next_run_at, t.id
       LIMIT CASE WHEN v_kind.is_alone THEN 1 ELSE p_sizes[v_place] END
         FOR UPDATE SKIP LOCKED);
    CONTINUE WHEN cardinality(v_ids) = 0;
    -- Recurring work would leave a row a minute that nobody asks for.
    INSERT INTO async_batch (organization_id, batch_no, task_type, tenant_id, model_fingerprint, worker_id,
                             planned_size, started_at, status)
    SELECT p_organization, p_token::text, v_kind.task_type, o.tenant_id, v_kind.model_fingerprint, p_worker,
           cardinality(v_ids), clock_timestamp(), 'RUNNING'
      FROM organizations o
     WHERE o.id = p_organization AND v_kind.repeat_s IS NULL;
    RETURN QUERY
      UPDATE async_task t
         SET status = 'RUNNING',
             claim_token = p_token,
             claim_until = clock_timestamp() + make_interval(secs => p_claims_s[v_place]),
             claimed_at = clock_timestamp(),
             worker_id = p_worker,
             batch_no = p_token::text,
             attempts = t.attempts + 1,
             updated_at = clock_timestamp()
       WHERE t.organization_id = p_organization AND t.id = ANY (v_ids)
      RETURNING t.*;
    RETURN;
  END LOOP;
END
$$;

ALTER FUNCTION headgate.claim_tasks(p_organization uuid, p_types text[], p_sizes integer[], p_claims_s integer[], p_worker text, p_turn integer, p_token uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.close_batch(p_organization uuid, p_batch text, p_succeeded integer, p_failed integer) RETURNS void
    LANGUAGE sql
    AS $$
    UPDATE async_batch b
       SET success_count = p_succeeded,
           failed_count = p_failed,
           finished_at = clock_timestamp(),
           status = CASE WHEN p_failed > 0 THEN 'FAILED' ELSE 'SUCCEEDED' END
     WHERE b.organization_id = p_organization AND b.batch_no = p_batch AND b.status = 'RUNNING'
  $$;

ALTER FUNCTION headgate.close_batch(p_organization uuid, p_batch text, p_succeeded integer, p_failed integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.code_parts(p_facets jsonb, OUT sql_text text, OUT source_text text, OUT code_version text) RETURNS record
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT regexp_replace(regexp_replace(left(p_facets -> 'sql' ->> 'query', 100000),
                                         '\d{4}-\d\d-\d\d|\d{6,}|\d\d:\d\d(:\d\d)?', '#', 'g'), '\s+', ' ', 'g'),
           p_facets -> 'sourceCode' ->> 'sourceCode',
           p_facets -> 'sourceCodeLocation' ->> 'version'
  $$;

ALTER FUNCTION headgate.code_parts(p_facets jsonb, OUT sql_text text, OUT source_text text, OUT code_version text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.compare_uses(p_organization uuid, h_job uuid[], h_dataset uuid[], h_role text[], h_start_hash bigint[], h_facets_hash bigint[], h_columns_hash bigint[], h_schema bytea[], OUT stale_facets integer[], OUT stale_columns integer[], OUT stale_schemas integer[]) RETURNS record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.compare_uses(p_organization uuid, h_job uuid[], h_dataset uuid[], h_role text[], h_start_hash bigint[], h_facets_hash bigint[], h_columns_hash bigint[], h_schema bytea[], OUT stale_facets integer[], OUT stale_columns integer[], OUT stale_schemas integer[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.content_hash(VARIADIC p_parts text[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT encode(sha256(convert_to(array_to_string(p_parts, E'\x1f', ''), 'UTF8')), 'hex')
  $$;

ALTER FUNCTION headgate.content_hash(VARIADIC p_parts text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.count_due_tasks(p_most integer, p_limit integer) RETURNS TABLE(tenant_code text, task_type text, number bigint, oldest_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
    SELECT o.tenant_code, k.task_type, sum(d.number)::bigint, min(d.oldest_at)
      FROM open_task_kinds() k
      JOIN organizations o ON o.id = k.organization_id
     CROSS JOIN LATERAL (SELECT count(*) AS number, min(x.next_run_at) AS oldest_at
                           FROM (SELECT t.next_run_at
                                   FROM async_task t
                                  WHERE t.organization_id = k.organization_id AND t.status IN ('PENDING', 'FAILED')
                                    AND t.task_type = k.task_type AND t.priority = k.priority
                                    AND t.model_fingerprint = k.model_fingerprint AND t.is_alone = k.is_alone
                                    AND t.next_run_at <= now()
                                  ORDER BY t.next_run_at, t.id
                                  LIMIT p_most) x) d
     WHERE d.number > 0
     GROUP BY o.tenant_code, k.task_type
     ORDER BY 3 DESC, 1, 2
     LIMIT p_limit
  $$;

ALTER FUNCTION headgate.count_due_tasks(p_most integer, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.count_hidden(p_organization uuid, p_datasets uuid[], p_direction text, p_as_of timestamp with time zone) RETURNS TABLE(dataset_id uuid, hidden integer)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
BEGIN
  RETURN QUERY
    WITH looked AS MATERIALIZED (
      SELECT n.dataset_id, n.neighbour_id, n.is_more
        FROM lineage_neighbours(p_organization, p_datasets, p_direction, 100, v_at, v_recent) n
       WHERE n.is_more
          OR n.neighbour_id NOT IN (SELECT s.id FROM unnest(p_datasets) AS s (id))
    ),
    hubs AS (
      SELECT coalesce(array_agg(l.dataset_id), '{}') AS ids
        FROM looked l
       WHERE l.is_more
    )
    SELECT f.dataset_id, (count(DISTINCT f.neighbour_id) + count(*) FILTER (WHERE f.is_more))::integer
      FROM (SELECT l.dataset_id, l.neighbour_id, l.is_more
              FROM looked l
             WHERE l.dataset_id NOT IN (SELECT k.dataset_id FROM looked k WHERE k.is_more)
             UNION ALL
            SELECT n.dataset_id, n.neighbour_id, n.is_more
              FROM hubs h
             CROSS JOIN LATERAL lineage_neighbours(p_organization, h.ids, p_direction,
                                                   edges_of_hub(cardinality(h.ids)), v_at, v_recent) n
             WHERE n.is_more
                OR n.neighbour_id NOT IN (SELECT s.id FROM unnest(p_datasets) AS s (id))) f
     GROUP BY f.dataset_id;
END
$$;

ALTER FUNCTION headgate.count_hidden(p_organization uuid, p_datasets uuid[], p_direction text, p_as_of timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.count_logged_events() RETURNS trigger
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

ALTER FUNCTION headgate.count_logged_events() OWNER TO headgate_owner;

CREATE FUNCTION headgate.count_refused_events() RETURNS trigger
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

ALTER FUNCTION headgate.count_refused_events() OWNER TO headgate_owner;

CREATE FUNCTION headgate.current_column_edges(p_organization uuid) RETURNS TABLE(source_id uuid, source_column text, target_id uuid, target_column text, job_id uuid, kinds jsonb, expression text, last_seen_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    SELECT e.source_id, e.source_column, e.target_id, e.target_column, e.job_id, e.kinds, e.expression, s.at
      FROM column_lineage_edges e
     CROSS JOIN LATERAL (SELECT greatest(e.last_seen_at,
                                         (SELECT h.columns_seen_at
                                            FROM job_datasets h
                                           WHERE h.organization_id = p_organization
                                             AND h.job_id = e.job_id
                                             AND h.dataset_id = e.target_id
                                             AND h.role = 'output')) AS at
                         OFFSET 0) s
     WHERE e.organization_id = p_organization
       AND e.is_current
       AND (s.at >= now() - interval '30 days' OR NOT has_stopped(p_organization, e.job_id, s.at))
       AND NOT EXISTS (SELECT
                         FROM datasets d
                        WHERE d.organization_id = p_organization
                          AND d.id = ANY (ARRAY[e.source_id, e.target_id])
                          AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                          AND (is_gone(p_organization, d.id, 'infinity')
                            OR d.id = e.target_id AND d.renamed_at >= s.at)
                       OFFSET 0)
  $$;

ALTER FUNCTION headgate.current_column_edges(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.current_organization() RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT NULLIF(current_setting('headgate.organization_id', true), '')::uuid $$;

ALTER FUNCTION headgate.current_organization() OWNER TO headgate_owner;

CREATE FUNCTION headgate.dataset_depth(segments text[]) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
DECLARE
  kept int := cardinality(segments);
  tail text;
  before text;
  run int;
BEGIN
  WHILE kept > 1 LOOP
    tail := segments[kept];
    before := segments[kept - 1];
    run := coalesce(date_run(segments, kept), 0);
    IF tail ~ '^(?:part-[0-9rm].*|[0-9]{6}_[0-9]+(?:[._].*)?|_SUCCESS|_committed_.*|_started_.*)$' THEN
      kept := kept - 1;
    ELSIF strpos(before, '=') > 0
          AND tail ~ '[.][A-Za-z][A-Za-z0-9]{0,9}$'
          AND is_partition_segment(before) THEN
      kept := kept - 1;
    ELSIF strpos(before, '=') = 0
          AND tail ~ '[.](?:snappy|gz|gzip|zstd|lz4|lzo|zlib|brotli)[.](?:parquet|orc|avro)$'
          AND (is_partition_segment(before) OR date_run(segments, kept - 1) > 0) THEN
      kept := kept - 1;
    ELSIF is_partition_segment(tail) THEN
      kept := kept - 1;
    ELSIF run > 0 THEN
      kept := greatest(kept - run, 1);
    ELSE
      EXIT;
    END IF;
  END LOOP;
  RETURN kept;
END
$_$;

ALTER FUNCTION headgate.dataset_depth(segments text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.dataset_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT jsonb_agg(to_jsonb(d))
      FROM datasets d
     WHERE d.organization_id = p_organization AND d.id = ANY (p_datasets)
  $$;

ALTER FUNCTION headgate.dataset_rows(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.date_run(segments text[], size integer) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (length(regexp_replace("substring"((array_to_string((segments)[GREATEST((size - 3), 1):size], '/'::text) COLLATE "C"), '(?:^|/)((?:19|20)[0-9]{2}(?:/(?:0?[1-9]|1[0-2])(?:/(?:0?[1-9]|[12][0-9]|3[01])(?:/(?:[01]?[0-9]|2[0-3]))?)?))$'::text), '[^/]'::text, ''::text, 'g'::text)) + 1);

ALTER FUNCTION headgate.date_run(segments text[], size integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.default_port(scheme text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE scheme WHEN 'amqp'::text THEN '5672'::text WHEN 'cassandra'::text THEN '9042'::text WHEN 'clickhouse'::text THEN '9000'::text WHEN 'cockroachdb'::text THEN '26257'::text WHEN 'databricks'::text THEN '443'::text WHEN 'db2'::text THEN '50000'::text WHEN 'doris'::text THEN '9030'::text WHEN 'elasticsearch'::text THEN '9200'::text WHEN 'fabric-warehouse'::text THEN '1433'::text WHEN 'ftp'::text THEN '21'::text WHEN 'hdfs'::text THEN '8020'::text WHEN 'hive'::text THEN '10000'::text WHEN 'http'::text THEN '80'::text WHEN 'https'::text THEN '443'::text WHEN 'impala'::text THEN '21050'::text WHEN 'kafka'::text THEN '9092'::text WHEN 'mariadb'::text THEN '3306'::text WHEN 'milvus'::text THEN '19530'::text WHEN 'mongodb'::text THEN '27017'::text WHEN 'mssql'::text THEN '1433'::text WHEN 'mysql'::text THEN '3306'::text WHEN 'oceanbase'::text THEN '2881'::text WHEN 'oracle'::text THEN '1521'::text WHEN 'postgres'::text THEN '5432'::text WHEN 'presto'::text THEN '8080'::text WHEN 'pulsar'::text THEN '6650'::text WHEN 'redis'::text THEN '6379'::text WHEN 'redshift'::text THEN '5439'::text WHEN 'sftp'::text THEN '22'::text WHEN 'snowflake'::text THEN '443'::text WHEN 'spark'::text THEN '10000'::text WHEN 'sqlserver'::text THEN '1433'::text WHEN 'starrocks'::text THEN '9030'::text WHEN 'teradata'::text THEN '1025'::text WHEN 'thrift'::text THEN '9083'::text WHEN 'trino'::text THEN '8080'::text WHEN 'vertica'::text THEN '5433'::text ELSE NULL::text END;

ALTER FUNCTION headgate.default_port(scheme text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.downstream_of(p_dataset uuid, p_max_depth integer DEFAULT 10) RETURNS TABLE(dataset_id uuid, depth integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT w.dataset_id, w.depth
      FROM walk_lineage(current_organization(), ARRAY[p_dataset], 'down', p_max_depth, NULL, NULL) w
     WHERE w.depth > 0
  $$;

ALTER FUNCTION headgate.downstream_of(p_dataset uuid, p_max_depth integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.edges_of_hub(p_hubs integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT greatest(100, 20000 / greatest(p_hubs, 1)) $$;

ALTER FUNCTION headgate.edges_of_hub(p_hubs integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.end_of_metric(p_state text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE p_state WHEN 'new_level' THEN 'the metric has a new level'
                        WHEN 'expected' THEN 'the metric is as somebody expects it'
                        ELSE 'the metric is back to normal' END
  $$;

ALTER FUNCTION headgate.end_of_metric(p_state text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.enqueue_tasks(p_organization uuid, t_type text[], t_resource_type text[], t_resource_id text[], t_hash text[], t_model text[], t_payload text[], t_priority integer[], t_delay_s double precision[]) RETURNS bigint
    LANGUAGE sql
    AS $$
    WITH made AS (
      INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id,
                              content_hash, model_fingerprint, payload, priority, next_run_at)
      SELECT o.id, u.type, o.tenant_id, o.tenant_code, u.resource_type, u.resource_id, u.hash, u.model,
             u.payload::jsonb, u.priority, now() + make_interval(secs => u.delay_s)
        FROM unnest(t_type, t_resource_type, t_resource_id, t_hash, t_model, t_payload, t_priority, t_delay_s)
             AS u (type, resource_type, resource_id, hash, model, payload, priority, delay_s)
       CROSS JOIN (SELECT x.id, x.tenant_id, x.tenant_code FROM organizations x WHERE x.id = p_organization) o
      ON CONFLICT ON CONSTRAINT async_task_key DO NOTHING
      RETURNING 1)
    SELECT count(*) FROM made
  $$;

ALTER FUNCTION headgate.enqueue_tasks(p_organization uuid, t_type text[], t_resource_type text[], t_resource_id text[], t_hash text[], t_model text[], t_payload text[], t_priority integer[], t_delay_s double precision[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.ensure_partitions(p_months_ahead integer DEFAULT 3) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    AS $$
DECLARE
  parent text;
  month_start timestamptz;
  partition text;
  made integer := 0;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('headgate.ensure_partitions'));
  FOREACH parent IN ARRAY ARRAY['lineage_events', 'dataset_metrics'] LOOP
    FOR step IN -1 .. p_months_ahead LOOP
      month_start := (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => step)) AT TIME ZONE 'UTC';
      partition := parent || '_' || to_char(month_start AT TIME ZONE 'UTC', 'YYYY_MM');
      CONTINUE WHEN to_regclass('headgate.' || partition) IS NOT NULL;
      BEGIN
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', partition, parent, month_start,
                       ((month_start AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC');
        -- No policy: rows are reached through the parent, whose policy counts, and in no other way.
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', partition);
        made := made + 1;
      EXCEPTION WHEN check_violation THEN
        RAISE WARNING 'partition % not made: its rows are already in the default partition', partition;
      END;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;

ALTER FUNCTION headgate.ensure_partitions(p_months_ahead integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.facet_seen_at(p_organization uuid, p_dataset uuid, p_name text) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT greatest(f.event_time, u.last_seen_at)
      FROM dataset_facets f
      LEFT JOIN job_datasets u ON u.organization_id = p_organization AND u.job_id = f.job_id
                              AND u.dataset_id = p_dataset AND u.role = f.role
                              AND f.facets_hash IN (u.facets_hash, u.start_hash)
     WHERE f.organization_id = p_organization AND f.dataset_id = p_dataset AND f.name = p_name
  $$;

ALTER FUNCTION headgate.facet_seen_at(p_organization uuid, p_dataset uuid, p_name text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.facet_tags(p_body jsonb) RETURNS TABLE(column_name text, tag text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT DISTINCT f.column_name, f.tag
      FROM (SELECT coalesce(e.body ->> 'field', '') AS column_name,
                   btrim(CASE WHEN coalesce(e.body ->> 'value', '') IN ('', 'true') THEN e.body ->> 'key'
                              ELSE concat(e.body ->> 'key', ':', e.body ->> 'value') END) AS tag
              FROM jsonb_array_elements(CASE WHEN jsonb_typeof(p_body -> 'tags') = 'array' THEN p_body -> 'tags'
                                             ELSE '[]' END) AS e (body)
             WHERE jsonb_typeof(e.body -> 'key') = 'string') f
     WHERE f.tag <> ''
       AND octet_length(f.tag) <= 1000
       AND octet_length(f.column_name) <= 1000
  $$;

ALTER FUNCTION headgate.facet_tags(p_body jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.fail_tasks(p_organization uuid, p_ids bigint[], p_token uuid, p_types text[], p_messages text[], p_delays_s double precision[]) RETURNS TABLE(id bigint, status text)
    LANGUAGE sql
    SET enable_seqscan TO 'off'
    AS $$
    WITH failed AS (
      UPDATE async_task t
         SET status = CASE WHEN t.repeat_s IS NULL AND t.retry_count >= t.max_retry THEN 'DEAD' ELSE 'FAILED' END,
             retry_count = least(t.retry_count + 1, CASE WHEN t.repeat_s IS NULL THEN t.max_retry ELSE 5 END),
             next_run_at = clock_timestamp()
               + least(greatest(task_backoff(t.retry_count + 1), make_interval(secs => u.delay_s)),
                       CASE WHEN t.repeat_s IS NOT NULL THEN greatest(make_interval(secs => t.repeat_s),
                                                                      interval '1 minute') END),
             claim_token = NULL,
             claim_until = NULL,
             last_error = left(u.message, 1024),
             updated_at = clock_timestamp()
        FROM unnest(p_ids, p_types, p_messages, p_delays_s) AS u (id, type, message, delay_s)
       WHERE t.organization_id = p_organization AND t.id = u.id AND t.claim_token = p_token AND t.status = 'RUNNING'
      RETURNING t.id, t.status, t.attempts, t.worker_id, t.claimed_at, t.batch_no, u.type, u.message),
    noted AS (
      INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at, status,
                                      batch_no, input_size, latency_ms, error_type, error_message)
      SELECT p_organization, f.id, f.attempts, f.worker_id, f.claimed_at, clock_timestamp(), 'FAILED', f.batch_no,
             cardinality(p_ids), extract(epoch FROM clock_timestamp() - f.claimed_at) * 1000,
             left(f.type, 128), left(f.message, 1024)
        FROM failed f)
    SELECT f.id, f.status FROM failed f
  $$;

ALTER FUNCTION headgate.fail_tasks(p_organization uuid, p_ids bigint[], p_token uuid, p_types text[], p_messages text[], p_delays_s double precision[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.find_due_organizations(p_types text[], p_limit integer) RETURNS TABLE(organization_id uuid, tenant_code text, task_type text, status text, number bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH lost AS (
    SELECT t.organization_id, t.id
      FROM async_task t
     WHERE t.status = 'RUNNING' AND t.claim_until < now()
     ORDER BY t.claim_until
     LIMIT 10000
       FOR UPDATE SKIP LOCKED),
  freed AS (
    UPDATE async_task t
       SET status = CASE WHEN t.repeat_s IS NULL AND t.retry_count >= t.max_retry THEN 'DEAD' ELSE 'FAILED' END,
           retry_count = least(t.retry_count + 1, t.max_retry),
           next_run_at = now(),
           claim_token = NULL,
           claim_until = NULL,
           is_alone = true,
           last_error = 'its worker did not finish in time',
           updated_at = now()
      FROM lost
     WHERE t.organization_id = lost.organization_id AND t.id = lost.id
    RETURNING t.id, t.organization_id, t.tenant_code, t.task_type, t.status, t.attempts, t.worker_id, t.claimed_at,
              t.batch_no),
  ended AS (
    UPDATE async_batch b
       SET status = 'FAILED', finished_at = now(), failed_count = b.planned_size - b.success_count
     WHERE b.status = 'RUNNING' AND b.batch_no IN (SELECT f.batch_no FROM freed f)),
  noted AS (
    INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at, status,
                                    batch_no, latency_ms, error_type, error_message)
    SELECT f.organization_id, f.id, f.attempts, f.worker_id, f.claimed_at, now(), 'FAILED', f.batch_no,
           extract(epoch FROM now() - f.claimed_at) * 1000, 'ClaimExpired', 'its worker did not finish in time'
      FROM freed f)
  SELECT f.organization_id, f.tenant_code, f.task_type, f.status, count(*)
    FROM freed f
   GROUP BY f.organization_id, f.tenant_code, f.task_type, f.status;

  RETURN QUERY
    SELECT DISTINCT k.organization_id, NULL::text, NULL::text, NULL::text, 0::bigint
      FROM open_task_kinds() k
     CROSS JOIN LATERAL (SELECT t.id
                           FROM async_task t
                          WHERE t.organization_id = k.organization_id AND t.status IN ('PENDING', 'FAILED')
                            AND t.task_type = k.task_type AND t.priority = k.priority
                            AND t.model_fingerprint = k.model_fingerprint AND t.is_alone = k.is_alone
                            AND t.next_run_at <= now()
                          ORDER BY t.next_run_at, t.id
                          LIMIT 1) d
     WHERE k.task_type = ANY (p_types)
     LIMIT p_limit;
END
$$;

ALTER FUNCTION headgate.find_due_organizations(p_types text[], p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.find_login(p_email text, p_invite_hash bytea) RETURNS TABLE(user_id uuid, organization_id uuid, email text, password_hash text, name text, role text, invite_id uuid, invite_expires_at timestamp with time zone, invite_accepted_at timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    AS $$
    SELECT u.id, u.organization_id, u.email, u.password_hash, u.name, u.role, NULL::uuid, NULL::timestamptz,
           NULL::timestamptz
      FROM users u
     WHERE lower(u.email) = lower(p_email)
    UNION ALL
    SELECT NULL, i.organization_id, i.email, NULL, NULL, i.role, i.id, i.expires_at, i.accepted_at
      FROM invites i
     WHERE i.token_hash = p_invite_hash
  $$;

ALTER FUNCTION headgate.find_login(p_email text, p_invite_hash bytea) OWNER TO headgate_owner;

CREATE FUNCTION headgate.finish_tasks(p_organization uuid, p_ids bigint[], p_token uuid) RETURNS SETOF bigint
    LANGUAGE sql
    SET enable_seqscan TO 'off'
    AS $$
    WITH done AS (
      UPDATE async_task t
         SET status = CASE WHEN t.repeat_s IS NULL THEN 'SUCCEEDED' ELSE 'PENDING' END,
             next_run_at = CASE WHEN t.repeat_s IS NULL THEN t.next_run_at
                                ELSE clock_timestamp() + make_interval(secs => t.repeat_s) END,
             retry_count = CASE WHEN t.repeat_s IS NULL THEN t.retry_count ELSE 0 END,
             claim_token = NULL,
             claim_until = NULL,
             last_error = NULL,
             updated_at = clock_timestamp()
       WHERE t.organization_id = p_organization AND t.id = ANY (p_ids) AND t.claim_token = p_token
         AND t.status = 'RUNNING'
      RETURNING t.id, t.attempts, t.worker_id, t.claimed_at, t.batch_no, t.repeat_s),
    noted AS (
      INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at, status,
                                      batch_no, input_size, latency_ms)
      SELECT p_organization, d.id, d.attempts, d.worker_id, d.claimed_at, clock_timestamp(), 'SUCCEEDED', d.batch_no,
             cardinality(p_ids), extract(epoch FROM clock_timestamp() - d.claimed_at) * 1000
        FROM done d
       -- Recurring work would leave a row a minute; only its failures are worth one.
       WHERE d.repeat_s IS NULL)
    SELECT d.id FROM done d
  $$;

ALTER FUNCTION headgate.finish_tasks(p_organization uuid, p_ids bigint[], p_token uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.first_good_run(p_organization uuid, p_job uuid, p_after timestamp with time zone, p_known_at timestamp with time zone, p_metric text, p_looks integer DEFAULT 200, OUT at timestamp with time zone, OUT verdict text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  SELECT r.ended_at, r.verdict
    INTO at, verdict
    FROM (SELECT x.ended_at, x.created_at, x.updated_at, run_verdict(x.state, x.verdicts, p_metric) AS verdict
            FROM job_runs x
           WHERE x.organization_id = p_organization AND x.job_id = p_job AND x.ended_at > p_after
           ORDER BY x.ended_at
           LIMIT p_looks) r
   WHERE r.verdict IS NOT NULL
     AND (written_at(r.ended_at, r.updated_at) = r.ended_at OR r.created_at > p_known_at)
   ORDER BY r.ended_at
   LIMIT 1;
  IF at IS NULL THEN
    SELECT r.ended_at, r.verdict
      INTO at, verdict
      FROM (SELECT x.ended_at, x.created_at, x.updated_at, run_verdict(x.state, x.verdicts, p_metric) AS verdict
              FROM job_runs x
             WHERE x.organization_id = p_organization AND x.job_id = p_job AND x.ended_at > p_after
             ORDER BY x.ended_at DESC
             LIMIT p_looks) r
     WHERE r.verdict IS NOT NULL
       AND (written_at(r.ended_at, r.updated_at) = r.ended_at OR r.created_at > p_known_at)
     ORDER BY r.ended_at
     LIMIT 1;
  END IF;
END
$$;

ALTER FUNCTION headgate.first_good_run(p_organization uuid, p_job uuid, p_after timestamp with time zone, p_known_at timestamp with time zone, p_metric text, p_looks integer, OUT at timestamp with time zone, OUT verdict text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_alerted_datasets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM carry_alerts(NEW.organization_id, coalesce(NEW.merged_into, OLD.merged_into), NEW.id,
                       NEW.merged_into IS NULL);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_alerted_datasets() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_dataset_merge() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_kept uuid := coalesce(NEW.merged_into, OLD.merged_into);
BEGIN
  PERFORM carry_dataset_notes(NEW.organization_id, v_kept, NEW.id, NEW.merged_into IS NULL);
  PERFORM carry_dataset_stats(NEW.organization_id, v_kept, NEW.id, NEW.merged_into IS NULL);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_dataset_merge() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_dataset_metrics() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT c.organization_id, array_agg(DISTINCT c.dataset_id) FROM changed c WHERE c.direction <> 'input' GROUP BY 1
  LOOP
    PERFORM note_dataset_stats(v_organization, 'writes', v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_dataset_metrics() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_dataset_parting() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM note_dataset_stats(NEW.organization_id, 'all', ARRAY[NEW.survivor_id, NEW.merged_id]);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_dataset_parting() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_dataset_uses() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT c.organization_id, array_agg(DISTINCT c.dataset_id) FROM changed c WHERE c.role = 'output' GROUP BY 1
  LOOP
    PERFORM note_dataset_stats(v_organization, 'writes', v_datasets);
    PERFORM note_returned_datasets(v_organization, v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_dataset_uses() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_freshness_sla() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM watch_dataset(NEW.organization_id, NEW.dataset_id);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_freshness_sla() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_incident_datasets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_both uuid[] := ARRAY[coalesce(NEW.merged_into, OLD.merged_into), NEW.id];
BEGIN
  PERFORM carry_incidents(NEW.organization_id, v_both[1], NEW.id, NEW.merged_into IS NULL);
  -- Who had produced what failed may be another one now. It is looked for when all has moved.
  PERFORM enqueue_tasks(NEW.organization_id, ARRAY['CORRELATE'], ARRAY['DATASET'], ARRAY[v_both[1]::text],
                        ARRAY[content_hash('merged', NEW.id::text, clock_timestamp()::text)], ARRAY[''],
                        ARRAY[jsonb_build_object('kind', 'merged', 'dataset_ids', v_both)::text], ARRAY[60],
                        ARRAY[0::double precision])
    WHERE EXISTS (SELECT
                    FROM incident_symptoms s
                   WHERE s.organization_id = NEW.organization_id
                     AND s.dataset_id = ANY (v_both)
                     AND s.type = 'TestFailed'
                     AND s.cleared_at IS NULL);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_incident_datasets() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_incident_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM note_incident_datasets(NEW.organization_id, NEW.id);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_incident_status() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_job_code() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM keep_job_version(NEW.organization_id, NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.facets ELSE '{}' END,
                           NEW.facets, coalesce(NEW.facets_at, NEW.first_seen_at));
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_job_code() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_judged_merge() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM carry_judgement(NEW.organization_id, coalesce(NEW.merged_into, OLD.merged_into), NEW.id,
                          NEW.merged_into IS NULL);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_judged_merge() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_left_datasets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM note_around_datasets(NEW.organization_id, ARRAY[NEW.id]);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_left_datasets() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_lineage_edges() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT c.organization_id, array_agg(DISTINCT e.id)
      FROM changed c
     CROSS JOIN LATERAL (VALUES (c.source_id), (c.target_id)) AS e (id)
     GROUP BY 1
  LOOP
    PERFORM note_dataset_stats(v_organization, 'neighbours', v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_lineage_edges() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_new_datasets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT c.organization_id, array_agg(c.id) FROM changed c WHERE c.merged_into IS NULL GROUP BY 1
  LOOP
    PERFORM add_dataset_stats(v_organization, v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_new_datasets() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_symptoms() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  PERFORM note_dataset_stats(NEW.organization_id, 'tests', ARRAY[NEW.dataset_id]);
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_symptoms() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_tags_facet() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    PERFORM set_facet_tags(OLD.organization_id, OLD.dataset_id, NULL, NULL);
  ELSE
    PERFORM set_facet_tags(NEW.organization_id, NEW.dataset_id, NEW.body, NEW.event_time);
  END IF;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_tags_facet() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_test_results() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT c.organization_id, array_agg(DISTINCT c.dataset_id)
      FROM changed c
     WHERE c.dataset_id IS NOT NULL
     GROUP BY 1
  LOOP
    PERFORM note_dataset_stats(v_organization, 'tests', v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_test_results() OWNER TO headgate_owner;

CREATE FUNCTION headgate.follow_touched_uses() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization, v_datasets IN
    SELECT t.organization_id, array_agg(DISTINCT t.dataset_id)
      FROM (SELECT c.organization_id, c.dataset_id, c.job_id, c.last_seen_at, c.last_completed_at
              FROM changed c
             WHERE c.role = 'output'
            EXCEPT
            SELECT b.organization_id, b.dataset_id, b.job_id, b.last_seen_at, b.last_completed_at
              FROM before b
             WHERE b.role = 'output') t
     GROUP BY 1
  LOOP
    PERFORM note_dataset_stats(v_organization, 'writes', v_datasets);
    PERFORM note_returned_datasets(v_organization, v_datasets);
  END LOOP;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.follow_touched_uses() OWNER TO headgate_owner;

CREATE FUNCTION headgate.get_downstream_datasets(dataset_name_param character varying) RETURNS TABLE(dataset_name character varying, depth integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT d.name, min(w.depth)
      FROM walk_lineage(current_organization(),
                        ARRAY(SELECT a.dataset_id
                                FROM dataset_aliases a
                               WHERE a.organization_id = current_organization() AND a.name = dataset_name_param),
                        'down', 10, NULL, NULL) w
      JOIN datasets d ON d.organization_id = current_organization() AND d.id = w.dataset_id
     WHERE w.depth > 0
     GROUP BY d.name
     ORDER BY 2, 1
  $$;

ALTER FUNCTION headgate.get_downstream_datasets(dataset_name_param character varying) OWNER TO headgate_owner;

CREATE FUNCTION headgate.get_upstream_datasets(dataset_name_param character varying) RETURNS TABLE(dataset_name character varying, depth integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT d.name, min(w.depth)
      FROM walk_lineage(current_organization(),
                        ARRAY(SELECT a.dataset_id
                                FROM dataset_aliases a
                               WHERE a.organization_id = current_organization() AND a.name = dataset_name_param),
                        'up', 10, NULL, NULL) w
      JOIN datasets d ON d.organization_id = current_organization() AND d.id = w.dataset_id
     WHERE w.depth > 0
     GROUP BY d.name
     ORDER BY 2, 1
  $$;

ALTER FUNCTION headgate.get_upstream_datasets(dataset_name_param character varying) OWNER TO headgate_owner;

CREATE FUNCTION headgate.guard_terminal_state() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF OLD.state IN ('COMPLETE', 'FAIL', 'ABORT')
     AND NEW.state IS DISTINCT FROM OLD.state
     AND (position(OLD.run_id::text IN coalesce(current_setting('headgate.correcting_runs', true), '')) = 0
          OR least(NEW.complete_at, NEW.fail_at, NEW.abort_at) > OLD.ended_at) THEN
    RAISE EXCEPTION 'run % has ended as % and cannot become %', OLD.run_id, OLD.state, NEW.state
      USING ERRCODE = 'HG001',
            HINT = 'Terminal states change only when an earlier terminal event arrives late.';
  END IF;
  RETURN NEW;
END
$$;

ALTER FUNCTION headgate.guard_terminal_state() OWNER TO headgate_owner;

CREATE FUNCTION headgate.had_written(p_ended_at timestamp with time zone, p_processing_type text, p_is_test boolean, p_output_ids uuid[], p_dataset uuid, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (p_ended_at <= p_at OR coalesce(upper(p_processing_type) IN ('STREAMING', 'SERVICE'), false))
       AND NOT p_is_test
       AND p_dataset = ANY (p_output_ids)
  $$;

ALTER FUNCTION headgate.had_written(p_ended_at timestamp with time zone, p_processing_type text, p_is_test boolean, p_output_ids uuid[], p_dataset uuid, p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.has_stopped(p_organization uuid, p_job uuid, p_last_seen_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT
                     FROM job_runs r
                    WHERE r.organization_id = p_organization
                      AND r.job_id = p_job
                      AND r.started_at > p_last_seen_at
                      AND r.state = 'COMPLETE'
                      AND r.complete_at > p_last_seen_at + interval '30 days'
                      AND NOT r.is_test)
  $$;

ALTER FUNCTION headgate.has_stopped(p_organization uuid, p_job uuid, p_last_seen_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.ingest_datasets(p_organization uuid, d_namespace text[], d_name text[], d_display text[], d_type text[], d_location text[], p_seen_at timestamp with time zone) RETURNS uuid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.ingest_datasets(p_organization uuid, d_namespace text[], d_name text[], d_display text[], d_type text[], d_location text[], p_seen_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.ingest_jobs(p_organization uuid, j_namespace text[], j_name text[], p_seen_at timestamp with time zone) RETURNS uuid[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.ingest_jobs(p_organization uuid, j_namespace text[], j_name text[], p_seen_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.is_ahead(p_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT p_at > now() + interval '5 minutes'
  $$;

ALTER FUNCTION headgate.is_ahead(p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.is_gone(p_organization uuid, p_dataset uuid, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT
                     FROM datasets d
                    WHERE d.organization_id = p_organization
                      AND d.id = p_dataset
                      AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                      AND (d.merged_into IS NOT NULL
                        OR d.dropped_at <= p_at AND NOT was_written(p_organization, d.id, d.dropped_at, p_at)))
  $$;

ALTER FUNCTION headgate.is_gone(p_organization uuid, p_dataset uuid, p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.is_partition_segment(segment text) RETURNS boolean
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((length(segment) <= 256) AND (((segment COLLATE "C") ~ '^(?:[^=]+=.*|[A-Z]{2}|[*]{1,2}(?:[.][A-Za-z0-9.]+)?|[0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?)$'::text) OR ((segment COLLATE "C") ~ (((((('^(?:19|20)[0-9]{2}(?:-?(?:0[1-9]|1[0-2]))?$'::text || '|^(?:19|20)[0-9]{2}[-_](?:0[1-9]|1[0-2])[-_](?:0[1-9]|[12][0-9]|3[01])'::text) || '(?:(?:_|--|:|_to_)(?:19|20)[0-9]{2}[-_](?:0[1-9]|1[0-2])[-_](?:0[1-9]|[12][0-9]|3[01]))?$'::text) || '|^(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])'::text) || '(?:[-_](?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))?$'::text) || '|^(?:19|20)[0-9]{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12][0-9]|3[01])'::text) || '[T _-]?[0-9]{2}(?:[:_-]?[0-9]{2}){0,2}Z?$'::text))));

ALTER FUNCTION headgate.is_partition_segment(segment text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.is_projection(p_reading jsonb, p_known jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT jsonb_array_length(p_reading) < jsonb_array_length(p_known)
           AND NOT EXISTS (SELECT
                             FROM jsonb_array_elements(p_reading) AS f (body)
                             LEFT JOIN schema_columns(p_known) k ON k.name = f.body ->> 'name'
                            WHERE k.type IS DISTINCT FROM f.body ->> 'type')
  $$;

ALTER FUNCTION headgate.is_projection(p_reading jsonb, p_known jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.is_test_output(p_organization uuid, p_kept uuid, p_gone uuid) RETURNS boolean
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

ALTER FUNCTION headgate.is_test_output(p_organization uuid, p_kept uuid, p_gone uuid) OWNER TO headgate_owner;

CREATE TABLE headgate.anomalies (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    dataset_id uuid,
    job_uuid uuid,
    run_id uuid,
    anomaly_type text NOT NULL,
    severity text NOT NULL,
    metric text,
    column_name text,
    partition_key text DEFAULT ''::text NOT NULL,
    detected_at timestamp with time zone DEFAULT now() NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    expected_value jsonb,
    actual_value jsonb,
    deviation_score numeric(14,4),
    job_id text,
    job_name text,
    description text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    status text DEFAULT 'OPEN'::text NOT NULL,
    resolved_at timestamp with time zone,
    resolved_by text,
    resolution_notes text,
    changes jsonb DEFAULT '[]'::jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    source text NOT NULL,
    incident_id uuid,
    occasion text DEFAULT ''::text NOT NULL,
    CONSTRAINT anomalies_severity_check CHECK ((severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text]))),
    CONSTRAINT anomalies_source_check CHECK ((source = ANY (ARRAY['detector'::text, 'client'::text]))),
    CONSTRAINT anomalies_status_check CHECK ((status = ANY (ARRAY['OPEN'::text, 'ACKNOWLEDGED'::text, 'ALERTED'::text, 'RESOLVED'::text, 'FALSE_POSITIVE'::text])))
);

ALTER TABLE ONLY headgate.anomalies FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.anomalies OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.anomalies.dataset_id IS 'Of a slow or stuck run the first that it writes, or NULL if it writes none';

COMMENT ON COLUMN headgate.anomalies.anomaly_type IS 'One of the vocabulary or, from a client, a word of its own';

COMMENT ON COLUMN headgate.anomalies.observed_at IS 'When the value was measured, or what should have come was due';

COMMENT ON COLUMN headgate.anomalies.job_id IS 'As a client calls the job, else the id of the job';

COMMENT ON COLUMN headgate.anomalies.changes IS 'Changes of status, oldest first: at, by, from, to, notes';

COMMENT ON COLUMN headgate.anomalies.occasion IS 'Tells apart what one run, or none, may have several of: the version of a schema, the last write before a lapse';

CREATE FUNCTION headgate.is_withdrawn(p_anomaly headgate.anomalies) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT p_anomaly.status = 'RESOLVED'
           AND (p_anomaly.resolved_by, p_anomaly.resolution_notes) IS NOT DISTINCT FROM ('headgate', withdrawn_note())
  $$;

ALTER FUNCTION headgate.is_withdrawn(p_anomaly headgate.anomalies) OWNER TO headgate_owner;

CREATE FUNCTION headgate.keep_job_version(p_organization uuid, p_job uuid, p_before jsonb, p_now jsonb, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_old record := code_parts(p_before);
  v_new record := code_parts(p_now);
BEGIN
  IF v_new IS NOT DISTINCT FROM v_old OR num_nonnulls(v_new.sql_text, v_new.source_text, v_new.code_version) = 0 THEN
    RETURN;
  END IF;
  INSERT INTO job_versions (organization_id, job_id, version, code_hash, changed, code_version, seen_at)
  SELECT p_organization, p_job, coalesce(max(v.version), 0) + 1,
         md5(concat_ws(E'\x1f', v_new.sql_text, v_new.source_text, v_new.code_version)),
         CASE WHEN count(*) = 0 THEN '{}'
              ELSE array_remove(ARRAY[
                CASE WHEN v_new.sql_text IS DISTINCT FROM v_old.sql_text THEN 'sql' END,
                CASE WHEN v_new.source_text IS DISTINCT FROM v_old.source_text THEN 'source' END,
                CASE WHEN v_new.code_version IS DISTINCT FROM v_old.code_version THEN 'version' END], NULL) END,
         left(v_new.code_version, 200), p_at
    FROM job_versions v
   WHERE v.organization_id = p_organization AND v.job_id = p_job;
  -- What writes its SQL anew for each run has versions without end.
  DELETE FROM job_versions v
   WHERE v.organization_id = p_organization
     AND v.job_id = p_job
     AND v.version <= (SELECT max(x.version) - 100
                         FROM job_versions x
                        WHERE x.organization_id = p_organization AND x.job_id = p_job);
END
$$;

ALTER FUNCTION headgate.keep_job_version(p_organization uuid, p_job uuid, p_before jsonb, p_now jsonb, p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE TABLE headgate.dataset_merges (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    survivor_id uuid NOT NULL,
    merged_id uuid NOT NULL,
    reason text NOT NULL,
    rule_id uuid,
    merged_at timestamp with time zone DEFAULT now() NOT NULL,
    undone_at timestamp with time zone,
    place bigint NOT NULL
);

ALTER TABLE ONLY headgate.dataset_merges FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_merges OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.dataset_merges.merged_id IS 'The survivor itself when it was only given another name';

COMMENT ON COLUMN headgate.dataset_merges.place IS 'Order of merges; several of one transaction share their time';

CREATE FUNCTION headgate.later_merge(p_organization uuid, p_merge headgate.dataset_merges) RETURNS uuid
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

ALTER FUNCTION headgate.later_merge(p_organization uuid, p_merge headgate.dataset_merges) OWNER TO headgate_owner;

CREATE FUNCTION headgate.latest_writes(p_organization uuid, p_dataset uuid) RETURNS timestamp with time zone[]
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
  RETURN ARRAY(SELECT r.at
                 FROM (SELECT x.job_id
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = p_dataset
                          AND x.role = 'output'
                        ORDER BY x.last_seen_at DESC
                        LIMIT 3) p
                CROSS JOIN LATERAL latest_writes_of(p_organization, p.job_id, p_dataset) AS r (at)
                ORDER BY r.at);
END
$$;

ALTER FUNCTION headgate.latest_writes(p_organization uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.latest_writes_of(p_organization uuid, p_job uuid, p_dataset uuid) RETURNS SETOF timestamp with time zone
    LANGUAGE plpgsql STABLE
    SET jit TO 'off'
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
BEGIN
  RETURN QUERY
    WITH latest AS MATERIALIZED (
      SELECT y.started_at, y.at, y.is_write, max(y.started_at) OVER () AS last
        FROM (SELECT x.started_at, written_at(x.ended_at, x.updated_at) AS at,
                     x.state = 'COMPLETE' AND NOT x.is_test AND p_dataset = ANY (x.output_ids) AS is_write
                FROM job_runs x
               WHERE x.organization_id = p_organization AND x.job_id = p_job
               ORDER BY x.started_at DESC
               LIMIT 2500) y
    ), span AS MATERIALIZED (
      SELECT max(l.last) AS last,
             count(*) FILTER (WHERE l.is_write AND l.started_at > l.last - interval '22 days') AS writes,
             floor(extract(epoch FROM max(l.last) - min(l.started_at)) / 3600)::integer AS hours,
             count(*) = 2500 AND min(l.started_at) > max(l.last) - interval '22 days' AS is_short
        FROM latest l
    )
    (SELECT max(n.at)
       FROM (SELECT l.at, CASE WHEN s.is_short OR s.writes > 1000
                               THEN floor(extract(epoch FROM s.last - l.started_at) / 3600)
                               ELSE - row_number() OVER () END AS place
               FROM latest l
              CROSS JOIN span s
              WHERE l.is_write) n
      GROUP BY n.place
      ORDER BY 1 DESC
      LIMIT 1000)
    UNION ALL
    SELECT w.at
      FROM span s
     CROSS JOIN generate_series(s.hours + 1, 22 * 24) AS h (place)
     CROSS JOIN LATERAL (SELECT y.at
                           FROM (SELECT written_at(x.ended_at, x.updated_at) AS at, x.state, x.is_test, x.output_ids
                                   FROM job_runs x
                                  WHERE x.organization_id = p_organization AND x.job_id = p_job
                                    AND x.started_at > s.last - (h.place + 1) * interval '1 hour'
                                    AND x.started_at <= s.last - h.place * interval '1 hour'
                                  ORDER BY x.started_at DESC
                                  LIMIT 20) y
                          WHERE y.state = 'COMPLETE' AND NOT y.is_test AND p_dataset = ANY (y.output_ids)
                          LIMIT 1) w
     WHERE s.is_short;
END
$$;

ALTER FUNCTION headgate.latest_writes_of(p_organization uuid, p_job uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.lineage_between(p_organization uuid, p_datasets uuid[], p_as_of timestamp with time zone) RETURNS TABLE(source_id uuid, target_id uuid, job_id uuid, last_seen_at timestamp with time zone, is_completed boolean)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
BEGIN
  RETURN QUERY
    WITH looked AS MATERIALIZED (
      SELECT n.neighbour_id, n.dataset_id, n.job_id, n.last_seen_at, n.is_completed, n.is_more
        FROM lineage_neighbours(p_organization, p_datasets, 'up', 100, v_at, v_recent) n
       WHERE n.is_more
          OR n.neighbour_id IN (SELECT s.id FROM unnest(p_datasets) AS s (id))
    ),
    hubs AS (
      SELECT coalesce(array_agg(l.dataset_id), '{}') AS ids
        FROM looked l
       WHERE l.is_more
    )
    SELECT l.neighbour_id, l.dataset_id, l.job_id, l.last_seen_at, l.is_completed
      FROM looked l
     WHERE l.dataset_id NOT IN (SELECT k.dataset_id FROM looked k WHERE k.is_more)
     UNION ALL
    SELECT n.neighbour_id, n.dataset_id, n.job_id, n.last_seen_at, n.is_completed
      FROM hubs h
     CROSS JOIN LATERAL lineage_neighbours(p_organization, h.ids, 'up', edges_of_hub(cardinality(h.ids)), v_at,
                                           v_recent) n
     -- IS TRUE, or it would become a join, which compares each with each.
     WHERE (n.neighbour_id IN (SELECT s.id FROM unnest(p_datasets) AS s (id))) IS TRUE;
END
$$;

ALTER FUNCTION headgate.lineage_between(p_organization uuid, p_datasets uuid[], p_as_of timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.lineage_beyond(p_organization uuid, p_shown uuid[], p_up uuid[], p_down uuid[], p_as_of timestamp with time zone, p_enough integer) RETURNS integer
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
  v_known  uuid[] := p_shown;
  v_found  integer := 0;
  v_way    text;
  v_all    uuid[];
BEGIN
  FOREACH v_way IN ARRAY ARRAY['up', 'down'] LOOP
    v_all := CASE v_way WHEN 'up' THEN p_up ELSE p_down END;
    FOR v_next IN 1 .. cardinality(v_all) BY 100 LOOP
      EXIT WHEN v_found >= p_enough;
      v_known := v_known || ARRAY(SELECT DISTINCT n.neighbour_id
                                    FROM lineage_neighbours(p_organization, v_all[v_next : v_next + 99], v_way,
                                                            p_enough + cardinality(p_shown), v_at, v_recent) n
                                   WHERE n.neighbour_id NOT IN (SELECT s.id FROM unnest(v_known) AS s (id)));
      v_found := cardinality(v_known) - cardinality(p_shown);
    END LOOP;
  END LOOP;
  RETURN v_found;
END
$$;

ALTER FUNCTION headgate.lineage_beyond(p_organization uuid, p_shown uuid[], p_up uuid[], p_down uuid[], p_as_of timestamp with time zone, p_enough integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.lineage_neighbours(p_organization uuid, p_datasets uuid[], p_direction text, p_each integer, p_at timestamp with time zone, p_recent timestamp with time zone) RETURNS TABLE(place bigint, dataset_id uuid, neighbour_id uuid, job_id uuid, last_seen_at timestamp with time zone, is_completed boolean, is_more boolean)
    LANGUAGE sql STABLE
    AS $$
    SELECT f.place, f.id, CASE WHEN e.i > p_each THEN NULL ELSE e.far END, e.job_id, e.last_seen_at,
           e.last_completed_at IS NOT NULL, coalesce(e.i > p_each, false)
      FROM unnest(p_datasets) WITH ORDINALITY AS f (id, place)
      LEFT JOIN LATERAL (SELECT d.renamed_at, is_gone(p_organization, d.id, p_at) AS is_gone
                           FROM datasets d
                          WHERE d.organization_id = p_organization
                            AND d.id = f.id
                            AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                         OFFSET 0) n ON true
     CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS i
                           FROM ((SELECT t.target_id AS far, t.job_id, t.first_seen_at, t.last_seen_at,
                                         t.last_completed_at
                                    FROM lineage_edges t
                                   WHERE p_direction = 'down'
                                     AND t.organization_id = p_organization
                                     AND t.source_id = f.id
                                   ORDER BY t.target_id
                                   LIMIT p_each + 1)
                                 UNION ALL
                                 (SELECT t.source_id, t.job_id, t.first_seen_at, t.last_seen_at, t.last_completed_at
                                    FROM lineage_edges t
                                   WHERE p_direction = 'up'
                                     AND t.organization_id = p_organization
                                     AND t.target_id = f.id
                                   ORDER BY t.source_id
                                   LIMIT p_each + 1)) x) e
     WHERE n.is_gone IS NOT TRUE
       -- What says that there is more says so whether or not its own edge counts.
       AND (e.i > p_each
         OR e.first_seen_at <= p_at
           AND (p_direction = 'down' OR n.renamed_at IS NULL OR NOT n.renamed_at BETWEEN e.last_seen_at AND p_at)
           AND (e.last_seen_at >= p_recent
             OR NOT EXISTS (SELECT
                              FROM job_runs r
                             WHERE r.organization_id = p_organization
                               AND r.job_id = e.job_id
                               AND r.started_at > e.last_seen_at
                               AND r.state = 'COMPLETE'
                               AND r.complete_at > e.last_seen_at + interval '30 days'
                               AND r.complete_at <= p_at
                               AND NOT r.is_test
                            OFFSET 0))
           AND NOT EXISTS (SELECT
                             FROM datasets d
                            WHERE d.organization_id = p_organization
                              AND d.id = e.far
                              AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                              AND (is_gone(p_organization, d.id, p_at)
                                OR p_direction = 'down' AND d.renamed_at BETWEEN e.last_seen_at AND p_at)
                           OFFSET 0))
  $$;

ALTER FUNCTION headgate.lineage_neighbours(p_organization uuid, p_datasets uuid[], p_direction text, p_each integer, p_at timestamp with time zone, p_recent timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.lock_runs(p_organization uuid, p_runs uuid[], OUT place text, OUT run headgate.job_runs) RETURNS SETOF record
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.lock_runs(p_organization uuid, p_runs uuid[], OUT place text, OUT run headgate.job_runs) OWNER TO headgate_owner;

CREATE FUNCTION headgate.log_merge_rows(p_organization uuid, p_merge uuid, p_table text, p_before jsonb, p_after jsonb) RETURNS void
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

ALTER FUNCTION headgate.log_merge_rows(p_organization uuid, p_merge uuid, p_table text, p_before jsonb, p_after jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.merge_datasets(p_organization uuid, p_one uuid, p_other uuid, p_reason text, p_rule_id uuid) RETURNS uuid
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET bytea_output TO 'hex'
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

ALTER FUNCTION headgate.merge_datasets(p_organization uuid, p_one uuid, p_other uuid, p_reason text, p_rule_id uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.merge_key_columns(p_table text) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    SELECT array_agg(a.attname::text ORDER BY a.attnum)
      FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
     WHERE i.indrelid = p_table::regclass AND i.indisprimary AND a.attname <> 'organization_id'
  $$;

ALTER FUNCTION headgate.merge_key_columns(p_table text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.merge_lock(p_organization uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT hashtextextended('headgate.merge.' || p_organization::text, 0) $$;

ALTER FUNCTION headgate.merge_lock(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.merge_row_key(p_columns text[], p_row jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT jsonb_agg(p_row -> c.name ORDER BY c.i) FROM unnest(p_columns) WITH ORDINALITY AS c (name, i) $$;

ALTER FUNCTION headgate.merge_row_key(p_columns text[], p_row jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.merged_family(p_organization uuid, p_dataset uuid) RETURNS SETOF uuid
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

ALTER FUNCTION headgate.merged_family(p_organization uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.move_judged_rows(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_same text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
BEGIN
  EXECUTE format($sql$
    WITH removed AS (
      DELETE FROM %1$I g
       WHERE g.organization_id = $1 AND g.dataset_id = $4
         AND EXISTS (SELECT FROM %1$I k WHERE k.organization_id = $1 AND k.dataset_id = $3 AND %2$s)
      RETURNING g.*
    )
    INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
    SELECT $1, $2, %1$L, to_jsonb(r), NULL FROM removed r
    $sql$, p_table, p_same) USING p_organization, p_merge, p_kept, p_gone;
  EXECUTE format($sql$
    WITH moved AS (
      UPDATE %1$I t
         SET dataset_id = $3
       WHERE t.organization_id = $1 AND t.dataset_id = $4
      RETURNING t.*
    )
    INSERT INTO dataset_merge_rows (organization_id, merge_id, table_name, original, result)
    SELECT $1, $2, %1$L, to_jsonb(m) || jsonb_build_object('dataset_id', $4), to_jsonb(m) FROM moved m
    $sql$, p_table) USING p_organization, p_merge, p_kept, p_gone;
END
$_$;

ALTER FUNCTION headgate.move_judged_rows(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_same text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.move_merged_facts(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;

ALTER FUNCTION headgate.move_merged_facts(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.move_merged_rows(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_combine text, p_which text DEFAULT 'true'::text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;

ALTER FUNCTION headgate.move_merged_rows(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_combine text, p_which text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.move_merged_runs(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
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

ALTER FUNCTION headgate.move_merged_runs(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) OWNER TO headgate_owner;

CREATE TABLE headgate.datasets (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    display_name text NOT NULL,
    type text,
    location text,
    schema_hash bytea,
    schema_at timestamp with time zone,
    schema_by text,
    dropped_at timestamp with time zone,
    merged_into uuid,
    first_seen_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    bare_name text COLLATE pg_catalog."C",
    renamed_at timestamp with time zone,
    CONSTRAINT datasets_schema_by_check CHECK ((schema_by = ANY (ARRAY['input'::text, 'output'::text, 'dataset'::text])))
)
WITH (fillfactor='85');

ALTER TABLE ONLY headgate.datasets FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.datasets OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.datasets.dropped_at IS 'The latest DROP. The dataset is gone unless job_datasets shows that it was written later';

COMMENT ON COLUMN headgate.datasets.renamed_at IS 'When it was last renamed away, or just before another was renamed to its name: nothing written by then is left';

CREATE FUNCTION headgate.move_merged_schemas(p_organization uuid, p_merge uuid, p_kept headgate.datasets, p_gone headgate.datasets, OUT schema_hash bytea, OUT schema_at timestamp with time zone, OUT schema_by text) RETURNS record
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

ALTER FUNCTION headgate.move_merged_schemas(p_organization uuid, p_merge uuid, p_kept headgate.datasets, p_gone headgate.datasets, OUT schema_hash bytea, OUT schema_at timestamp with time zone, OUT schema_by text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.move_merged_tests(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) RETURNS void
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

ALTER FUNCTION headgate.move_merged_tests(p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.namespace_kind(scheme text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN CASE WHEN (scheme = ANY (ARRAY['s3'::text, 'gs'::text, 'abfss'::text, 'wasbs'::text, 'oss'::text, 'cos'::text, 'cosn'::text, 'obs'::text, 'oci'::text, 'r2'::text, 'lakefs'::text])) THEN 'object_store'::text WHEN (scheme = ANY (ARRAY['file'::text, 'hdfs'::text, 'dbfs'::text, 'webhdfs'::text, 'swebhdfs'::text, 'viewfs'::text, 'gvfs'::text, 'maprfs'::text, 'alluxio'::text, 'adl'::text, 'ofs'::text, 'o3fs'::text, 'nfs'::text, 'sftp'::text, 'ftp'::text])) THEN 'file_system'::text WHEN (scheme = ANY (ARRAY['duckdb'::text, 'sqlite'::text])) THEN 'file_database'::text ELSE 'service'::text END;

ALTER FUNCTION headgate.namespace_kind(scheme text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.note_around_datasets(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  v_around uuid[] := ARRAY(SELECT u.id
                             FROM unnest(p_datasets) AS u (id)
                            UNION
                           SELECT e.target_id
                             FROM unnest(p_datasets) AS u (id)
                             JOIN lineage_edges e ON e.organization_id = p_organization AND e.source_id = u.id
                            UNION
                           SELECT e.source_id
                             FROM unnest(p_datasets) AS u (id)
                             JOIN lineage_edges e ON e.organization_id = p_organization AND e.target_id = u.id);
BEGIN
  PERFORM note_dataset_stats(p_organization, 'neighbours', v_around);
END
$$;

ALTER FUNCTION headgate.note_around_datasets(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.note_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO dataset_stats_notes (organization_id, payload)
    VALUES (p_organization, jsonb_build_object(p_part, p_datasets))
  $$;

ALTER FUNCTION headgate.note_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.note_incident_datasets(p_organization uuid, p_incident uuid) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_datasets uuid[] := ARRAY(SELECT DISTINCT s.dataset_id
                               FROM incident_symptoms s
                              WHERE s.organization_id = p_organization AND s.incident_id = p_incident
                                AND s.dataset_id IS NOT NULL);
BEGIN
  IF v_datasets <> '{}' THEN
    PERFORM note_dataset_stats(p_organization, 'tests', v_datasets);
  END IF;
END
$$;

ALTER FUNCTION headgate.note_incident_datasets(p_organization uuid, p_incident uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.note_returned_datasets(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  v_left uuid[] := ARRAY(SELECT d.id
                           FROM unnest(p_datasets) AS u (id)
                          CROSS JOIN LATERAL (SELECT x.id
                                                FROM datasets x
                                               WHERE x.organization_id = p_organization
                                                 AND x.id = u.id
                                                 AND (x.dropped_at IS NOT NULL OR x.renamed_at IS NOT NULL
                                                   OR x.merged_into IS NOT NULL)
                                              OFFSET 0) d);
BEGIN
  IF v_left <> '{}' THEN
    PERFORM note_around_datasets(p_organization, v_left);
  END IF;
END
$$;

ALTER FUNCTION headgate.note_returned_datasets(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.note_writes(p_organization uuid, w_dataset uuid[], w_at timestamp with time zone[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  v_row record;
BEGIN
  FOR v_row IN
    SELECT u.dataset, max(written_at(u.at, now())) AS at
      FROM unnest(w_dataset, w_at) AS u (dataset, at)
     GROUP BY u.dataset
     ORDER BY u.dataset
  LOOP
    -- A row that is due some time is left alone: a run must not wait for it.
    IF NOT EXISTS (SELECT
                     FROM watched_datasets w
                    WHERE w.organization_id = p_organization
                      AND w.dataset_id = v_row.dataset
                      AND w.due_at < 'infinity') THEN
      PERFORM watch_dataset(p_organization, v_row.dataset);
    END IF;
    UPDATE freshness_sla f
       SET last_updated_at = greatest(f.last_updated_at, v_row.at),
           is_stale = coalesce(extract(epoch FROM now() - greatest(f.last_updated_at, v_row.at))
                                 > f.sla_hours * 3600, false)
     WHERE f.organization_id = p_organization
       AND f.dataset_id = v_row.dataset
       AND f.last_updated_at IS DISTINCT FROM greatest(f.last_updated_at, v_row.at);
  END LOOP;
END
$$;

ALTER FUNCTION headgate.note_writes(p_organization uuid, w_dataset uuid[], w_at timestamp with time zone[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.open_merge(p_organization uuid, p_kept uuid, p_gone uuid) RETURNS uuid
    LANGUAGE sql STABLE
    AS $$
    SELECT m.id
      FROM dataset_merges m
     WHERE m.organization_id = p_organization AND m.survivor_id = p_kept AND m.merged_id = p_gone
       AND m.undone_at IS NULL
     ORDER BY m.place DESC
     LIMIT 1
  $$;

ALTER FUNCTION headgate.open_merge(p_organization uuid, p_kept uuid, p_gone uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.open_task_kinds() RETURNS TABLE(organization_id uuid, task_type text, priority integer, model_fingerprint text, is_alone boolean)
    LANGUAGE sql STABLE
    AS $$
    WITH RECURSIVE kinds AS (
      (SELECT t.organization_id, t.task_type, t.priority, t.model_fingerprint, t.is_alone
         FROM async_task t
        WHERE t.status IN ('PENDING', 'FAILED')
        ORDER BY t.organization_id, t.task_type, t.priority, t.model_fingerprint, t.is_alone
        LIMIT 1)
      UNION ALL
      SELECT n.organization_id, n.task_type, n.priority, n.model_fingerprint, n.is_alone
        FROM kinds k
       CROSS JOIN LATERAL (SELECT t.organization_id, t.task_type, t.priority, t.model_fingerprint, t.is_alone
                             FROM async_task t
                            WHERE t.status IN ('PENDING', 'FAILED')
                              AND (t.organization_id, t.task_type, t.priority, t.model_fingerprint, t.is_alone)
                                    > (k.organization_id, k.task_type, k.priority, k.model_fingerprint, k.is_alone)
                            ORDER BY t.organization_id, t.task_type, t.priority, t.model_fingerprint, t.is_alone
                            LIMIT 1) n)
    SELECT k.organization_id, k.task_type, k.priority, k.model_fingerprint, k.is_alone
      FROM kinds k
  $$;

ALTER FUNCTION headgate.open_task_kinds() OWNER TO headgate_owner;

CREATE FUNCTION headgate.page_of_alerts(p_organization uuid, p_rule uuid, p_incident uuid, p_dataset uuid, p_anomaly uuid, p_status text, p_channel text, p_type text, p_since timestamp with time zone, p_at timestamp with time zone, p_id uuid, p_limit integer) RETURNS TABLE(id uuid, source text, alert_rule_id uuid, rule_name text, anomaly_id uuid, incident_id uuid, symptom_id uuid, dataset_id uuid, run_id uuid, type text, severity text, title text, channel_type text, channel_context jsonb, response_payload jsonb, status text, reason text, held_back integer, attempts integer, sent_at timestamp with time zone, error_message text)
    LANGUAGE plpgsql STABLE
    AS $_$
DECLARE
  v_by_rule text := concat_ws(' AND ',
    CASE WHEN p_rule IS NOT NULL THEN 'h.alert_rule_id = $2' END,
    CASE WHEN p_incident IS NOT NULL THEN 'h.incident_id = $3' END,
    CASE WHEN p_dataset IS NOT NULL THEN 'h.dataset_id = $4' END,
    CASE WHEN p_anomaly IS NOT NULL THEN 'h.anomaly_id = $5' END);
  v_common text := concat_ws(' AND ', 'true',
    CASE WHEN p_status IS NOT NULL THEN 'h.status = $6' END,
    CASE WHEN p_channel IS NOT NULL THEN 'h.channel_type = $7' END,
    CASE WHEN p_type IS NOT NULL THEN 'h.type = $8' END,
    CASE WHEN p_since IS NOT NULL THEN 'h.sent_at >= $9' END,
    CASE WHEN p_at IS NOT NULL THEN '(h.sent_at, h.id) < ($10, $11)' END,
    CASE WHEN p_at IS NOT NULL THEN 'h.sent_at <= $10' END);
  v_query text := format($sql$
    (SELECT h.id, 'rule', h.alert_rule_id, h.rule_name, h.anomaly_id, h.incident_id, h.symptom_id, h.dataset_id,
            h.run_id, h.type, h.severity, h.title, h.channel_type, h.channel_context, h.response_payload, h.status,
            h.reason, h.held_back, h.attempts, h.sent_at, h.error_message
       FROM alert_history h
      WHERE h.organization_id = $1 AND %s
      ORDER BY h.sent_at DESC, h.id DESC
      LIMIT $12)
    $sql$, concat_ws(' AND ', v_common, nullif(v_by_rule, '')));
BEGIN
  IF v_by_rule = '' THEN
    v_query := format($sql$
      SELECT * FROM (
        %s
        UNION ALL
        (SELECT h.id, 'pipeline', NULL, NULL, NULL, NULL, NULL, NULL, h.run_id, h.type, h.severity, h.title,
                h.channel_type, jsonb_build_object('channel', h.channel), NULL, h.status, h.reason, 0, 1, h.sent_at,
                h.error_message
           FROM (SELECT md5(a.run_id::text || encode(a.alert_key, 'hex'))::uuid AS id, a.run_id, a.event AS type,
                        CASE WHEN a.event IN ('on_start', 'on_success') THEN 'INFO'
                             WHEN a.event IN ('on_failure', 'on_gate_block') THEN 'CRITICAL'
                             ELSE 'WARNING' END AS severity,
                        coalesce(a.message, a.event) AS title, upper(split_part(a.channel, ' ', 1)) AS channel_type,
                        a.channel, a.sent_at,
                        CASE a.outcome WHEN 'sent' THEN 'SENT' WHEN 'throttled' THEN 'DEDUPLICATED'
                                       ELSE 'FAILED' END AS status,
                        CASE a.outcome WHEN 'throttled' THEN 'throttled' WHEN 'failed' THEN 'gave_up' END AS reason,
                        CASE WHEN a.outcome = 'failed' THEN a.reason END AS error_message
                   FROM pipeline_alerts a
                  WHERE a.organization_id = $1) h
          WHERE %s
          ORDER BY h.sent_at DESC, h.id DESC
          LIMIT $12)) h
       ORDER BY h.sent_at DESC, h.id DESC
       LIMIT $12
      $sql$, v_query, v_common);
  END IF;
  RETURN QUERY EXECUTE v_query
    USING p_organization, p_rule, p_incident, p_dataset, p_anomaly, p_status, p_channel, p_type, p_since, p_at, p_id,
          p_limit;
END
$_$;

ALTER FUNCTION headgate.page_of_alerts(p_organization uuid, p_rule uuid, p_incident uuid, p_dataset uuid, p_anomaly uuid, p_status text, p_channel text, p_type text, p_since timestamp with time zone, p_at timestamp with time zone, p_id uuid, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.page_of_anomalies(p_organization uuid, p_dataset uuid, p_types text[], p_severities text[], p_statuses text[], p_run uuid, p_incident uuid, p_job uuid, p_column text, p_source text, p_from timestamp with time zone, p_to timestamp with time zone, p_before timestamp with time zone, p_before_id uuid, p_limit integer) RETURNS SETOF headgate.anomalies
    LANGUAGE plpgsql STABLE ROWS 100
    AS $_$
BEGIN
  RETURN QUERY EXECUTE concat_ws(' AND ',
    'SELECT a.* FROM anomalies a WHERE a.organization_id = $1',
    CASE WHEN p_dataset IS NOT NULL THEN 'a.dataset_id = $2' END,
    -- One of them is in the order of an index; several are not.
    CASE cardinality(p_types) WHEN 0 THEN NULL WHEN 1 THEN 'plain_word(a.anomaly_type) = plain_word(($3)[1])'
      ELSE 'plain_word(a.anomaly_type) = ANY (ARRAY(SELECT plain_word(w) FROM unnest($3) w))' END,
    CASE WHEN cardinality(p_severities) > 0 THEN 'a.severity = ANY ($4)' END,
    CASE cardinality(p_statuses) WHEN 0 THEN NULL WHEN 1 THEN 'a.status = ($5)[1]' ELSE 'a.status = ANY ($5)' END,
    CASE WHEN p_run IS NOT NULL THEN 'a.run_id = $6' END,
    CASE WHEN p_incident IS NOT NULL THEN 'a.incident_id = $7' END,
    CASE WHEN p_job IS NOT NULL THEN 'a.job_uuid = $8' END,
    CASE WHEN p_column IS NOT NULL THEN 'a.column_name = $9' END,
    CASE WHEN p_source IS NOT NULL THEN 'a.source = $10' END,
    CASE WHEN p_from IS NOT NULL THEN 'a.detected_at >= $11' END,
    CASE WHEN p_to IS NOT NULL THEN 'a.detected_at < $12' END,
    CASE WHEN p_before IS NOT NULL THEN '(a.detected_at, a.id) < ($13, $14)' END)
    || ' ORDER BY a.detected_at DESC, a.id DESC LIMIT $15'
    USING p_organization, p_dataset, p_types, p_severities, p_statuses, p_run, p_incident, p_job, p_column, p_source,
          p_from, p_to, p_before, p_before_id, p_limit;
END
$_$;

ALTER FUNCTION headgate.page_of_anomalies(p_organization uuid, p_dataset uuid, p_types text[], p_severities text[], p_statuses text[], p_run uuid, p_incident uuid, p_job uuid, p_column text, p_source text, p_from timestamp with time zone, p_to timestamp with time zone, p_before timestamp with time zone, p_before_id uuid, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.page_of_datasets(p_organization uuid, p_sort text, p_descends boolean, p_after text, p_after_id uuid, p_limit integer, p_namespace text, p_type text, p_tag text, p_text text, p_fails boolean, p_dropped boolean) RETURNS TABLE(dataset_id uuid, place text)
    LANGUAGE plpgsql ROWS 100
    AS $_$
DECLARE
  -- What is unknown comes last, whichever way.
  v_column CONSTANT text :=
    CASE p_sort WHEN 'freshness' THEN CASE WHEN p_descends THEN 's.last_written_at' ELSE 's.oldest_first' END
                WHEN 'rows' THEN CASE WHEN p_descends THEN 's.row_count' ELSE 's.fewest_first' END
                WHEN 'downstream' THEN 's.downstream_count' ELSE 'd.name COLLATE "C"' END;
  v_type   CONSTANT text := CASE p_sort WHEN 'freshness' THEN 'timestamptz' WHEN 'rows' THEN 'bigint'
                                        WHEN 'downstream' THEN 'integer' ELSE 'text' END;
  v_id     CONSTANT text := CASE WHEN v_type = 'text' THEN 'd.id' ELSE 's.dataset_id' END;
  v_from   CONSTANT text :=
    CASE WHEN v_type = 'text' AND p_fails IS NULL THEN 'datasets d'
         -- Nothing to begin with but the order itself; where nothing is known of the tables, that has to be said.
         WHEN coalesce(p_namespace, p_type, p_tag, p_text, p_fails::text) IS NULL
         THEN 'dataset_stats s CROSS JOIN LATERAL (SELECT x.*
                                                     FROM datasets x
                                                    WHERE x.organization_id = $1 AND x.id = s.dataset_id
                                                   OFFSET 0) d'
         ELSE 'datasets d JOIN dataset_stats s ON s.organization_id = $1 AND s.dataset_id = d.id' END;
BEGIN
  PERFORM settle_dataset_stats(p_organization);
  RETURN QUERY EXECUTE concat_ws(' AND ',
    format('SELECT d.id, (%s)::text FROM %s WHERE d.organization_id = $1 AND d.merged_into IS NULL', v_column, v_from),
    CASE WHEN v_from <> 'datasets d' THEN 's.organization_id = $1' END,
    CASE WHEN p_after_id IS NOT NULL
         THEN format('(%s, %s) %s ($2::%s, $3)', v_column, v_id, CASE WHEN p_descends THEN '<' ELSE '>' END, v_type)
    END,
    CASE WHEN p_namespace IS NOT NULL THEN 'd.namespace = $5' END,
    CASE WHEN p_type IS NOT NULL THEN 'd.type = $6 AND octet_length(d.type) <= 200' END,
    CASE WHEN p_tag IS NOT NULL
         THEN 'EXISTS (SELECT FROM dataset_tags t
                        WHERE t.organization_id = $1 AND t.dataset_id = d.id AND t.tag = $7)' END,
    CASE WHEN p_text IS NOT NULL
         THEN '(strpos(lower(d.namespace || ''/'' || d.name), lower($8)) > 0
                OR strpos(lower(d.display_name), lower($8)) > 0)' END,
    CASE WHEN p_fails THEN '(s.failing_tests > 0 OR s.open_incidents > 0)'
         WHEN NOT p_fails THEN 's.failing_tests = 0 AND s.open_incidents = 0' END,
    CASE WHEN NOT p_dropped
         THEN '(d.dropped_at IS NULL OR NOT is_gone($1, d.id, ''infinity''))' END)
    || format(' ORDER BY %s %s, %s %2$s LIMIT $4', v_column, CASE WHEN p_descends THEN 'DESC' ELSE 'ASC' END, v_id)
    USING p_organization, p_after, p_after_id, p_limit, p_namespace, p_type, p_tag, p_text;
END
$_$;

ALTER FUNCTION headgate.page_of_datasets(p_organization uuid, p_sort text, p_descends boolean, p_after text, p_after_id uuid, p_limit integer, p_namespace text, p_type text, p_tag text, p_text text, p_fails boolean, p_dropped boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.page_of_incidents(p_organization uuid, p_status text[], p_severity text, p_kind text, p_dataset uuid, p_job uuid, p_assignee text, p_hours integer, p_is_orphan boolean, p_after timestamp with time zone, p_after_id uuid, p_limit integer) RETURNS TABLE(id uuid, opened_at timestamp with time zone)
    LANGUAGE plpgsql ROWS 100
    AS $_$
#variable_conflict use_column
DECLARE
  v_few      CONSTANT integer := 5000;
  v_of_kind  CONSTANT bigint := (SELECT count(*)
                                   FROM (SELECT
                                           FROM incident_symptoms s
                                          WHERE s.organization_id = p_organization AND s.type = p_kind
                                          LIMIT v_few) x);
  v_of_job   CONSTANT bigint := (SELECT count(*)
                                   FROM (SELECT
                                           FROM incident_symptoms s
                                          WHERE s.organization_id = p_organization AND s.job_id = p_job
                                          LIMIT v_few) x);
  v_caused   CONSTANT bigint := (SELECT count(*)
                                   FROM (SELECT
                                           FROM incidents i
                                          WHERE i.organization_id = p_organization AND i.cause_job_id = p_job
                                          LIMIT v_few) x);
BEGIN
  RETURN QUERY EXECUTE concat_ws(' AND ',
    'SELECT i.id, i.opened_at FROM incidents i WHERE i.organization_id = $1',
    CASE WHEN p_status IS NOT NULL THEN 'i.status = ANY ($2)' END,
    CASE WHEN p_severity IS NOT NULL THEN 'i.severity = $3' END,
    CASE WHEN v_of_kind < v_few AND p_kind IS NOT NULL
         THEN 'i.id = ANY (ARRAY(SELECT s.incident_id FROM incident_symptoms s
                                  WHERE s.organization_id = $1 AND s.type = $4
                                  UNION
                                 SELECT m.id FROM incidents m
                                  WHERE m.organization_id = $1 AND m.kind = $4 AND m.merged_into IS NOT NULL))'
         WHEN p_kind IS NOT NULL
         THEN '(i.kind = $4 OR (SELECT true FROM incident_symptoms s
                                 WHERE s.organization_id = $1 AND s.incident_id = i.id AND s.type = $4 LIMIT 1))' END,
    CASE WHEN p_dataset IS NOT NULL
         THEN 'i.id IN (SELECT s.incident_id FROM incident_symptoms s
                         WHERE s.organization_id = $1 AND s.dataset_id = $5)' END,
    CASE WHEN v_of_job < v_few AND v_caused < v_few AND p_job IS NOT NULL
         THEN 'i.id = ANY (ARRAY(SELECT s.incident_id FROM incident_symptoms s
                                  WHERE s.organization_id = $1 AND s.job_id = $6
                                  UNION
                                 SELECT c.id FROM incidents c WHERE c.organization_id = $1 AND c.cause_job_id = $6))'
         WHEN p_job IS NOT NULL
         THEN '(i.cause_job_id = $6
                OR (SELECT true FROM incident_symptoms s
                     WHERE s.organization_id = $1 AND s.incident_id = i.id AND s.job_id = $6 LIMIT 1))' END,
    CASE WHEN p_assignee IS NOT NULL THEN 'i.assignee = $7' END,
    CASE WHEN p_hours IS NOT NULL THEN 'i.last_seen_at > now() - make_interval(hours => $8)' END,
    CASE WHEN p_is_orphan IS NOT NULL
         THEN '$9 = (i.is_orphan AND NOT EXISTS (SELECT FROM job_datasets h
                                                  WHERE h.organization_id = $1 AND h.dataset_id = i.dataset_id
                                                    AND h.role = ''output''))' END,
    CASE WHEN p_after IS NOT NULL THEN '(i.opened_at, i.id) < ($10, $11)' END)
    || ' ORDER BY i.opened_at DESC, i.id DESC LIMIT $12'
    USING p_organization, p_status, p_severity, p_kind, p_dataset, p_job, p_assignee, p_hours, p_is_orphan, p_after,
          p_after_id, p_limit;
END
$_$;

ALTER FUNCTION headgate.page_of_incidents(p_organization uuid, p_status text[], p_severity text, p_kind text, p_dataset uuid, p_job uuid, p_assignee text, p_hours integer, p_is_orphan boolean, p_after timestamp with time zone, p_after_id uuid, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.part_touched_rows(p_organization uuid, p_merge uuid, p_table text, p_more text DEFAULT ''::text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;

ALTER FUNCTION headgate.part_touched_rows(p_organization uuid, p_merge uuid, p_table text, p_more text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.parted_ids(p_current uuid[], p_result jsonb, p_original jsonb) RETURNS uuid[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT ARRAY(SELECT o.id::uuid FROM jsonb_array_elements_text(p_original) WITH ORDINALITY AS o (id, i) ORDER BY o.i)
           || ARRAY(SELECT c.id
                      FROM unnest(p_current) WITH ORDINALITY AS c (id, i)
                     WHERE NOT p_result ? c.id::text AND NOT p_original ? c.id::text
                     ORDER BY c.i)
  $$;

ALTER FUNCTION headgate.parted_ids(p_current uuid[], p_result jsonb, p_original jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.plain_word(p_word text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT lower(translate(p_word, ' _-.:/', '')) $$;

ALTER FUNCTION headgate.plain_word(p_word text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.producer_name(p_url text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT coalesce((SELECT u.part
                       FROM unnest(string_to_array(split_part(split_part(p_url, '#', 1), '?', 1), '/'))
                            WITH ORDINALITY AS u (part, i)
                      WHERE u.part <> ''
                        AND u.part !~ '^v?\d+(\.\d+)*([-+.].*)?$'
                      ORDER BY u.i DESC
                      LIMIT 1), p_url)
  $_$;

ALTER FUNCTION headgate.producer_name(p_url text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.producing_run(p_organization uuid, p_dataset uuid, p_at timestamp with time zone, p_observer uuid) RETURNS TABLE(run_id uuid, job_id uuid, state text, started_at timestamp with time zone, ended_at timestamp with time zone, producer text)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT r.run_id, r.job_id, r.state, r.started_at, r.ended_at, r.producer
      FROM job_runs o
     CROSS JOIN LATERAL (SELECT x.*
                           FROM job_runs x
                          WHERE x.organization_id = p_organization
                            AND x.run_id = ANY (ARRAY[o.run_id, o.parent_run_id])
                            AND NOT x.is_test
                            AND p_dataset = ANY (x.output_ids)
                            AND (x.run_id = o.run_id
                                 OR had_written(x.ended_at, x.processing_type, x.is_test, x.output_ids, p_dataset, p_at)
                                 OR EXISTS (SELECT
                                              FROM node_runs n
                                             WHERE n.organization_id = p_organization AND n.run_id = x.run_id))
                          ORDER BY x.run_id = o.run_id DESC
                          LIMIT 1) r
     WHERE o.organization_id = p_organization
       AND o.run_id = p_observer;
  IF NOT FOUND THEN
    RETURN QUERY
      SELECT b.run_id, b.job_id, b.state, b.started_at, b.ended_at, b.producer
        FROM runs_behind(p_organization, ARRAY[p_dataset], ARRAY[p_at], 1) b
       LIMIT 1;
  END IF;
END
$$;

ALTER FUNCTION headgate.producing_run(p_organization uuid, p_dataset uuid, p_at timestamp with time zone, p_observer uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.queue_alias_for_search() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO search_pending (organization_id, kind, id)
    SELECT OLD.organization_id, 'dataset', OLD.dataset_id
     WHERE OLD.organization_id = current_organization();
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO search_pending (organization_id, kind, id)
    SELECT NEW.organization_id, 'dataset', NEW.dataset_id
     WHERE NEW.organization_id = current_organization();
  END IF;
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.queue_alias_for_search() OWNER TO headgate_owner;

CREATE FUNCTION headgate.queue_changed_for_search() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
  changed record;
BEGIN
  IF TG_OP = 'DELETE' THEN
    changed := OLD;
  ELSE
    changed := NEW;
  END IF;
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT changed.organization_id, TG_ARGV[0], changed.id
   WHERE changed.organization_id = current_organization();
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.queue_changed_for_search() OWNER TO headgate_owner;

CREATE FUNCTION headgate.queue_new_for_search() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT n.organization_id, TG_ARGV[0], n.id
    FROM added n
   WHERE n.organization_id = current_organization();
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.queue_new_for_search() OWNER TO headgate_owner;

CREATE FUNCTION headgate.queue_schemas_for_search() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT DISTINCT n.organization_id, 'dataset', n.dataset_id
    FROM added n
   WHERE n.organization_id = current_organization();
  RETURN NULL;
END
$$;

ALTER FUNCTION headgate.queue_schemas_for_search() OWNER TO headgate_owner;

CREATE FUNCTION headgate.quoted_columns(p_names text[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT string_agg('''' || n.name || '''', ', ' ORDER BY n.i) FILTER (WHERE n.i <= 20)
           || CASE WHEN cardinality(p_names) > 20 THEN format(' and %s more', cardinality(p_names) - 20) ELSE '' END
      FROM unnest(p_names) WITH ORDINALITY AS n (name, i)
  $$;

ALTER FUNCTION headgate.quoted_columns(p_names text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.rebuild_schema_history(p_organization uuid, p_dataset uuid, p_readers boolean, OUT schema_hash bytea, OUT schema_at timestamp with time zone) RETURNS record
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

ALTER FUNCTION headgate.rebuild_schema_history(p_organization uuid, p_dataset uuid, p_readers boolean, OUT schema_hash bytea, OUT schema_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.refresh_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  v_held uuid[] := ARRAY(SELECT h.dataset_id
                           FROM (SELECT DISTINCT u.id FROM unnest(p_datasets) AS u (id) ORDER BY u.id) w
                          CROSS JOIN LATERAL (SELECT s.dataset_id
                                                FROM dataset_stats s
                                               WHERE s.organization_id = p_organization AND s.dataset_id = w.id
                                                 FOR NO KEY UPDATE) h);
BEGIN
  IF p_part IN ('writes', 'all') THEN
    PERFORM set_dataset_writes(p_organization, v_held, p_part = 'all');
  END IF;
  IF p_part IN ('neighbours', 'all') THEN
    PERFORM set_dataset_neighbours(p_organization, v_held);
  END IF;
  IF p_part IN ('tests', 'all') THEN
    PERFORM set_dataset_tests(p_organization, v_held);
    PERFORM set_dataset_incidents(p_organization, v_held);
  END IF;
END
$$;

ALTER FUNCTION headgate.refresh_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.release_tasks(p_organization uuid, p_token uuid, p_reason text) RETURNS SETOF bigint
    LANGUAGE sql
    SET enable_seqscan TO 'off'
    AS $$
    WITH freed AS (
      UPDATE async_task t
         SET status = CASE WHEN t.retry_count > 0 THEN 'FAILED' ELSE 'PENDING' END,
             claim_token = NULL,
             claim_until = NULL,
             updated_at = clock_timestamp()
       WHERE t.organization_id = p_organization AND t.claim_token = p_token AND t.status = 'RUNNING'
      RETURNING t.id, t.attempts, t.worker_id, t.claimed_at, t.batch_no),
    noted AS (
      INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at, status,
                                      batch_no, input_size, latency_ms, error_type, error_message)
      SELECT p_organization, f.id, f.attempts, f.worker_id, f.claimed_at, clock_timestamp(), 'CANCELED', f.batch_no,
             count(*) OVER (), extract(epoch FROM clock_timestamp() - f.claimed_at) * 1000, 'GivenBack', p_reason
        FROM freed f)
    SELECT f.id FROM freed f
  $$;

ALTER FUNCTION headgate.release_tasks(p_organization uuid, p_token uuid, p_reason text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.rename_dataset(p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_primary boolean, p_rule_id uuid) RETURNS uuid
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET bytea_output TO 'hex'
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

ALTER FUNCTION headgate.rename_dataset(p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_primary boolean, p_rule_id uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.restore_merged_names(p_organization uuid, p_merge uuid) RETURNS void
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

ALTER FUNCTION headgate.restore_merged_names(p_organization uuid, p_merge uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.restore_merged_rows(p_organization uuid, p_merge uuid, p_table text, p_by_column boolean DEFAULT false, p_missing boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
  -- A column that was added to the table since has no say, nor has a verdict. JSON null in a column that cannot be
  -- NULL is a value.
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FILTER (WHERE a.is_set),
         string_agg(a.original, ', ' ORDER BY a.attnum) FILTER (WHERE a.is_set),
         string_agg(CASE WHEN p_by_column
                         THEN format('%1$I = CASE WHEN t.%1$I IS NOT DISTINCT FROM n.%1$I THEN %2$s ELSE t.%1$I END',
                                     a.attname, a.original)
                         ELSE format('%I = %s', a.attname, a.original) END, ', ' ORDER BY a.attnum)
           FILTER (WHERE a.is_set AND NOT a.attname = ANY (v_keys)),
         coalesce(array_agg(a.attname::text) FILTER (WHERE NOT a.is_known OR a.is_judgement), '{}'),
         string_agg(format('t.%1$I = n.%1$I', a.attname), ' AND ')
           FILTER (WHERE a.attname = ANY (v_keys))
    INTO v_columns, v_values, v_sets, v_later, v_on_key
    FROM (SELECT c.attname, c.attnum, c.attname = ANY (v_known) AS is_known,
                 p_table = 'dataset_metrics' AND c.attname IN ('verdicts', 'anomalous') AS is_judgement,
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
        AND r.original IS NULL AND t.organization_id = $1 AND %3$s AND to_jsonb(t) - $3 = r.result - $3',
    p_table, v_from, v_on_key)
    USING p_organization, p_merge, v_later;
  EXECUTE format(
    'UPDATE %1$I t SET %4$s FROM %2$s
        AND r.original IS NOT NULL AND t.organization_id = $1 AND %3$s AND ($4 OR to_jsonb(t) - $3 = r.result - $3)',
    p_table, v_from, v_on_key, v_sets)
    USING p_organization, p_merge, v_later, p_by_column;
  EXECUTE format(
    'INSERT INTO %1$I (%3$s) SELECT %4$s FROM %2$s
        AND r.original IS NOT NULL AND (r.result IS NULL OR $3) ON CONFLICT DO NOTHING',
    p_table, v_from, v_columns, v_values)
    USING p_organization, p_merge, p_missing;
END
$_$;

ALTER FUNCTION headgate.restore_merged_rows(p_organization uuid, p_merge uuid, p_table text, p_by_column boolean, p_missing boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.restore_merged_runs(p_organization uuid, p_merge uuid) RETURNS void
    LANGUAGE sql
    AS $$
    UPDATE job_runs t
       SET input_ids = parted_ids(t.input_ids, r.result -> 'input_ids', r.original -> 'input_ids'),
           output_ids = parted_ids(t.output_ids, r.result -> 'output_ids', r.original -> 'output_ids')
      FROM dataset_merge_rows r
     WHERE r.organization_id = p_organization AND r.merge_id = p_merge AND r.table_name = 'job_runs'
       AND t.organization_id = p_organization AND t.run_id = (r.original ->> 'run_id')::uuid
  $$;

ALTER FUNCTION headgate.restore_merged_runs(p_organization uuid, p_merge uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.restore_merged_schemas(p_organization uuid, p_merge uuid, p_kept uuid) RETURNS void
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

ALTER FUNCTION headgate.restore_merged_schemas(p_organization uuid, p_merge uuid, p_kept uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.run_fits(p_state text, p_is_test boolean, p_context jsonb, p_job_ids uuid[], p_application text, p_parent uuid, p_states text[], p_tests boolean, p_contexts jsonb, p_jobs uuid[], p_applications text, p_parents uuid) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (p_states IS NULL OR p_state = ANY (p_states))
       AND (p_tests IS NULL OR p_is_test = p_tests)
       AND (p_contexts IS NULL OR p_context @> p_contexts)
       AND (p_jobs IS NULL OR p_job_ids && p_jobs)
       AND (p_applications IS NULL OR p_application = p_applications)
       AND (p_parents IS NULL OR p_parent = p_parents)
  $$;

ALTER FUNCTION headgate.run_fits(p_state text, p_is_test boolean, p_context jsonb, p_job_ids uuid[], p_application text, p_parent uuid, p_states text[], p_tests boolean, p_contexts jsonb, p_jobs uuid[], p_applications text, p_parents uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.run_verdict(p_state text, p_verdicts jsonb, p_metric text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN p_metric IS NULL THEN CASE WHEN p_state = 'COMPLETE' THEN 'normal' END
                WHEN p_verdicts -> p_metric ->> 'state' IN ('normal', 'expected', 'new_level')
                THEN p_verdicts -> p_metric ->> 'state' END
  $$;

ALTER FUNCTION headgate.run_verdict(p_state text, p_verdicts jsonb, p_metric text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.runs_behind(p_organization uuid, p_datasets uuid[], p_ats timestamp with time zone[], p_jobs integer DEFAULT 5, p_looks integer DEFAULT 1000, p_open integer DEFAULT 10, p_silent boolean DEFAULT false) RETURNS TABLE(place bigint, dataset_id uuid, run_id uuid, job_id uuid, state text, started_at timestamp with time zone, ended_at timestamp with time zone, producer text)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT n.place, n.dataset_id, r.run_id, r.job_id, r.state, r.started_at, r.ended_at, r.producer
      FROM (SELECT u.place, u.dataset_id, u.at, l.job_id, l.run_id, l.state,
                   row_number() OVER (PARTITION BY u.place ORDER BY least(l.ended_at, u.at) DESC, l.job_id) AS i
              FROM unnest(p_datasets, p_ats) WITH ORDINALITY AS u (dataset_id, at, place)
             CROSS JOIN LATERAL (SELECT x.job_id
                                   FROM job_datasets x
                                  WHERE x.organization_id = p_organization
                                    AND x.dataset_id = u.dataset_id
                                    AND x.role = 'output'
                                  LIMIT 200) h
             CROSS JOIN LATERAL (SELECT z.job_id, z.run_id, z.state, z.ended_at
                                   FROM ((SELECT y.job_id, y.run_id, y.state, y.started_at, y.ended_at
                                            FROM (SELECT x.*
                                                    FROM job_runs x
                                                   WHERE x.organization_id = p_organization
                                                     AND x.job_id = h.job_id
                                                     AND x.ended_at <= u.at
                                                     AND x.started_at <= u.at
                                                   ORDER BY x.ended_at DESC, x.started_at DESC
                                                   LIMIT p_looks) y
                                           WHERE had_written(y.ended_at, y.processing_type, y.is_test, y.output_ids,
                                                             u.dataset_id, u.at)
                                              OR (p_silent AND y.state IN ('FAIL', 'ABORT')
                                                  AND NOT y.is_test AND cardinality(y.output_ids) = 0)
                                           ORDER BY y.ended_at DESC, y.started_at DESC
                                           LIMIT 1)
                                         UNION ALL
                                         (SELECT y.job_id, y.run_id, y.state, y.started_at, y.ended_at
                                            FROM (SELECT x.*
                                                    FROM job_runs x
                                                   WHERE x.organization_id = p_organization
                                                     AND x.job_id = h.job_id
                                                     AND x.started_at <= u.at
                                                   ORDER BY x.started_at DESC
                                                   LIMIT p_open) y
                                           WHERE coalesce(y.ended_at > u.at, true)
                                             AND had_written(y.ended_at, y.processing_type, y.is_test, y.output_ids,
                                                             u.dataset_id, u.at)
                                           ORDER BY y.started_at DESC
                                           LIMIT 1)) z
                                  ORDER BY least(z.ended_at, u.at) DESC, z.started_at DESC
                                  LIMIT 1) l) n
     CROSS JOIN LATERAL ((SELECT x.run_id, x.job_id, x.state, x.started_at, x.ended_at, x.producer
                            FROM job_runs x
                           WHERE x.organization_id = p_organization
                             AND x.run_id = n.run_id)
                         UNION
                         (SELECT y.run_id, y.job_id, y.state, y.started_at, y.ended_at, y.producer
                            FROM (SELECT x.*
                                    FROM job_runs x
                                   WHERE x.organization_id = p_organization
                                     AND x.job_id = n.job_id
                                     AND x.ended_at <= n.at
                                     AND x.started_at <= n.at
                                     AND n.state IS DISTINCT FROM 'COMPLETE'
                                   ORDER BY x.ended_at DESC, x.started_at DESC
                                   LIMIT p_looks) y
                           WHERE y.state = 'COMPLETE'
                             AND NOT y.is_test
                             AND n.dataset_id = ANY (y.output_ids)
                           ORDER BY y.ended_at DESC, y.started_at DESC
                           LIMIT 1)) r
     WHERE n.i <= p_jobs
     ORDER BY n.place, least(r.ended_at, n.at) DESC, r.started_at DESC, r.run_id;
END
$$;

ALTER FUNCTION headgate.runs_behind(p_organization uuid, p_datasets uuid[], p_ats timestamp with time zone[], p_jobs integer, p_looks integer, p_open integer, p_silent boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.schedule_recurring(p_types text[], p_every_s integer[]) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'headgate', 'pg_temp'
    AS $$
    WITH made AS (
      INSERT INTO async_task AS t (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id,
                                   content_hash, repeat_s, priority)
      SELECT o.id, u.type, o.tenant_id, o.tenant_code, 'ORGANIZATION', o.id::text, content_hash('recurring'),
             u.every_s, 200
        FROM organizations o
       CROSS JOIN unnest(p_types, p_every_s) AS u (type, every_s)
       WHERE NOT EXISTS (SELECT
                           FROM async_task x
                          WHERE x.tenant_id = o.tenant_id AND x.task_type = u.type
                            AND x.resource_type = 'ORGANIZATION' AND x.resource_id = o.id::text
                            AND x.model_fingerprint = '' AND x.content_hash = content_hash('recurring')
                            AND x.repeat_s = u.every_s AND x.status <> 'DEAD')
      ON CONFLICT ON CONSTRAINT async_task_key DO UPDATE
         SET repeat_s = EXCLUDED.repeat_s,
             status = CASE WHEN t.status = 'DEAD' THEN 'FAILED' ELSE t.status END
      RETURNING 1)
    SELECT count(*) FROM made
  $$;

ALTER FUNCTION headgate.schedule_recurring(p_types text[], p_every_s integer[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.schema_change(p_old jsonb, p_new jsonb, OUT added text[], OUT removed text[], OUT type_changed text[], OUT change_type text, OUT description text, OUT breaking boolean) RETURNS record
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
DECLARE
  retyped   text[];
  tightened text[];
  loosened  text[];
  reordered boolean;
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
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE NOT b.nullable AND a.nullable), '{}'),
         array_agg(a.name ORDER BY a.place) FILTER (WHERE a.name = b.name)
           IS DISTINCT FROM array_agg(a.name ORDER BY b.place) FILTER (WHERE a.name = b.name)
    INTO added, removed, type_changed, retyped, tightened, loosened, reordered
    FROM schema_columns(p_old) b
    FULL JOIN schema_columns(p_new) a ON a.name = b.name;
  kinds := array_remove(ARRAY[
    CASE WHEN added <> '{}' THEN 'ADDED_COLUMN' END,
    CASE WHEN removed <> '{}' THEN 'DROPPED_COLUMN' END,
    CASE WHEN type_changed <> '{}' THEN 'TYPE_CHANGE' END,
    CASE WHEN tightened <> '{}' OR loosened <> '{}' THEN 'NULLABILITY' END,
    CASE WHEN reordered THEN 'REORDERED' END], NULL);
  change_type := CASE cardinality(kinds) WHEN 0 THEN 'REORDERED' WHEN 1 THEN kinds[1] ELSE 'MIXED' END;
  breaking := removed <> '{}' OR type_changed <> '{}' OR tightened <> '{}';
  description := coalesce(NULLIF(concat_ws('; ',
    'added ' || quoted_columns(added),
    'removed ' || quoted_columns(removed),
    NULLIF(array_to_string(retyped[1:20], '; '), ''),
    'no longer nullable: ' || quoted_columns(tightened),
    'now nullable: ' || quoted_columns(loosened),
    CASE WHEN reordered THEN 'columns in another order' END), ''), 'nothing changed');
END
$$;

ALTER FUNCTION headgate.schema_change(p_old jsonb, p_new jsonb, OUT added text[], OUT removed text[], OUT type_changed text[], OUT change_type text, OUT description text, OUT breaking boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.schema_columns(p_fields jsonb) RETURNS TABLE(name text, type text, nullable boolean, place bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT f.body ->> 'name',
           (array_agg(f.body ->> 'type' ORDER BY f.i DESC))[1],
           (array_agg(coalesce((f.body ->> 'nullable')::boolean, true) ORDER BY f.i DESC))[1],
           min(f.i)
      FROM jsonb_array_elements(p_fields) WITH ORDINALITY AS f (body, i)
     GROUP BY 1
  $$;

ALTER FUNCTION headgate.schema_columns(p_fields jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.schema_history_rows(p_organization uuid, p_datasets uuid[]) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT jsonb_agg(to_jsonb(v))
      FROM schema_versions v
     WHERE v.organization_id = p_organization AND v.dataset_id = ANY (p_datasets)
  $$;

ALTER FUNCTION headgate.schema_history_rows(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.search_lock(p_organization uuid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT hashtextextended('headgate.search.' || p_organization::text, 0) $$;

ALTER FUNCTION headgate.search_lock(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.sends_columns(p_organization uuid, p_job uuid, p_dataset uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = p_organization
                      AND h.job_id = p_job
                      AND h.dataset_id = p_dataset
                      AND h.role = 'output'
                      AND h.columns_seen_at >= h.last_seen_at - interval '30 days')
        OR EXISTS (SELECT
                     FROM column_lineage_edges e
                    WHERE e.organization_id = p_organization
                      AND e.job_id = p_job
                      AND e.target_id = p_dataset
                      AND e.is_current
                      AND NOT has_stopped(p_organization, p_job, e.last_seen_at))
  $$;

ALTER FUNCTION headgate.sends_columns(p_organization uuid, p_job uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_bare_name() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  NEW.bare_name := bare_name(NEW.name);
  RETURN NEW;
END
$$;

ALTER FUNCTION headgate.set_bare_name() OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_column_count() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  NEW.column_count := CASE WHEN jsonb_typeof(NEW.fields) = 'array' THEN jsonb_array_length(NEW.fields) END;
  RETURN NEW;
END
$$;

ALTER FUNCTION headgate.set_column_count() OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_dataset_incidents(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
  INSERT INTO dataset_stats AS s (organization_id, dataset_id, open_incidents)
  SELECT p_organization, u.id, f.incidents
    FROM unnest(p_datasets) AS u (id)
   CROSS JOIN LATERAL (SELECT count(DISTINCT x.incident_id) AS incidents
                         FROM incident_symptoms x
                         JOIN incidents i ON i.organization_id = p_organization AND i.id = x.incident_id
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = u.id
                          AND x.cleared_at IS NULL
                          AND i.status IN ('open', 'acknowledged')) f
  ON CONFLICT (organization_id, dataset_id) DO UPDATE
     SET open_incidents = EXCLUDED.open_incidents
   WHERE s.open_incidents <> EXCLUDED.open_incidents;
END
$$;

ALTER FUNCTION headgate.set_dataset_incidents(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_dataset_neighbours(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  v_recent CONSTANT timestamptz := now() - interval '30 days';
BEGIN
  INSERT INTO dataset_stats AS s (organization_id, dataset_id, upstream_count, downstream_count)
  SELECT p_organization, u.id,
         (SELECT count(DISTINCT n.neighbour_id)
            FROM lineage_neighbours(p_organization, ARRAY[u.id], 'up', NULL, 'infinity', v_recent) n
           WHERE n.neighbour_id <> u.id),
         (SELECT count(DISTINCT n.neighbour_id)
            FROM lineage_neighbours(p_organization, ARRAY[u.id], 'down', NULL, 'infinity', v_recent) n
           WHERE n.neighbour_id <> u.id)
    FROM unnest(p_datasets) AS u (id)
  ON CONFLICT (organization_id, dataset_id) DO UPDATE
     SET upstream_count = EXCLUDED.upstream_count,
         downstream_count = EXCLUDED.downstream_count
   WHERE (s.upstream_count, s.downstream_count)
         IS DISTINCT FROM (EXCLUDED.upstream_count, EXCLUDED.downstream_count);
END
$$;

ALTER FUNCTION headgate.set_dataset_neighbours(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_dataset_sizes(p_organization uuid, p_datasets uuid[], p_anew boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  no_run CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
  INSERT INTO dataset_stats AS s (organization_id, dataset_id, row_count, byte_size, measured_at, measured_by)
  SELECT p_organization, u.id, coalesce(t.rows, -1), t.bytes, m.measured_at, m.direction
    FROM unnest(p_datasets) AS u (id)
   CROSS JOIN LATERAL (SELECT x.measured_at, x.measured_by
                         FROM dataset_stats x
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = u.id
                       OFFSET 0) k
    LEFT JOIN LATERAL (SELECT x.measured_at, x.run_id, x.direction
                         FROM (SELECT y.measured_at, y.run_id, y.direction
                                 FROM dataset_metrics y
                                WHERE y.organization_id = p_organization
                                  AND y.dataset_id = u.id
                                  AND y.measured_at >= CASE WHEN p_anew THEN '-infinity'
                                                            ELSE coalesce(k.measured_at, '-infinity') END
                                ORDER BY y.measured_at DESC
                                -- What is read often and never measured by a writer has measurements without end.
                                LIMIT CASE WHEN NOT p_anew THEN 1000 END) x
                        WHERE x.direction = 'output'
                           OR (x.direction = 'profile' AND (p_anew OR k.measured_by IS DISTINCT FROM 'output'))
                        ORDER BY x.direction, x.measured_at DESC
                        LIMIT 1) m ON true
    LEFT JOIN LATERAL (SELECT least(x.started_at, x.running_at, x.other_at, x.ended_at) AS began_at
                         FROM job_runs x
                        WHERE x.organization_id = p_organization
                          AND x.run_id = m.run_id
                       OFFSET 0) r ON true
    LEFT JOIN LATERAL (SELECT total_of(sum(x.row_count)) AS rows, total_of(sum(x.byte_size)) AS bytes
                         FROM dataset_metrics x
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = u.id
                          AND x.measured_at BETWEEN CASE WHEN m.run_id = no_run THEN m.measured_at
                                                         ELSE least(r.began_at, m.measured_at) END
                                                AND m.measured_at
                          AND x.run_id = m.run_id
                          AND x.direction = m.direction) t ON m.run_id IS NOT NULL
   WHERE p_anew OR m.run_id IS NOT NULL
  ON CONFLICT (organization_id, dataset_id) DO UPDATE
     SET row_count = EXCLUDED.row_count,
         byte_size = EXCLUDED.byte_size,
         measured_at = EXCLUDED.measured_at,
         measured_by = EXCLUDED.measured_by
   WHERE (s.row_count, s.byte_size, s.measured_at, s.measured_by) IS DISTINCT FROM
         (EXCLUDED.row_count, EXCLUDED.byte_size, EXCLUDED.measured_at, EXCLUDED.measured_by);
END
$$;

ALTER FUNCTION headgate.set_dataset_sizes(p_organization uuid, p_datasets uuid[], p_anew boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_dataset_tests(p_organization uuid, p_datasets uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
BEGIN
  INSERT INTO dataset_stats AS s (organization_id, dataset_id, failing_tests)
  SELECT p_organization, u.id, f.failing
    FROM unnest(p_datasets) AS u (id)
   CROSS JOIN LATERAL (
     WITH RECURSIVE latest AS (
       (SELECT r.test_key, r.status, r.severity
          FROM test_results r
         WHERE r.organization_id = p_organization AND r.dataset_id = u.id
         ORDER BY r.test_key, r.observed_at DESC
         LIMIT 1)
       UNION ALL
       SELECT n.test_key, n.status, n.severity
         FROM latest l
        CROSS JOIN LATERAL (SELECT r.test_key, r.status, r.severity
                              FROM test_results r
                             WHERE r.organization_id = p_organization AND r.dataset_id = u.id
                               AND r.test_key > l.test_key
                             ORDER BY r.test_key, r.observed_at DESC
                             LIMIT 1) n
     )
     SELECT count(*) AS failing
       FROM latest l
      WHERE l.status IN ('failed', 'error') AND l.severity = 'error') f
  ON CONFLICT (organization_id, dataset_id) DO UPDATE
     SET failing_tests = EXCLUDED.failing_tests
   WHERE s.failing_tests <> EXCLUDED.failing_tests;
END
$$;

ALTER FUNCTION headgate.set_dataset_tests(p_organization uuid, p_datasets uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_dataset_writes(p_organization uuid, p_datasets uuid[], p_anew boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
  v_unmeasured uuid[];
BEGIN
  WITH found AS (
    SELECT u.id, w.written_at, w.producers, m.rows, m.bytes,
           m.run = m.other_run AND r.goes_on IS NOT TRUE AS is_measured
      FROM unnest(p_datasets) AS u (id)
     CROSS JOIN LATERAL (SELECT coalesce(max(h.last_completed_at), '-infinity') AS written_at, count(*) AS producers
                           FROM job_datasets h
                          WHERE h.organization_id = p_organization
                            AND h.dataset_id = u.id
                            AND h.role = 'output') w
     CROSS JOIN LATERAL (SELECT min(x.run_id::text) AS run, max(x.run_id::text) AS other_run,
                                total_of(sum(x.row_count)) AS rows, total_of(sum(x.byte_size)) AS bytes
                           FROM dataset_metrics x
                          WHERE x.organization_id = p_organization
                            AND x.dataset_id = u.id
                            AND x.measured_at = w.written_at
                            AND x.direction = 'output') m
      LEFT JOIN LATERAL (SELECT x.running_at IS NOT NULL OR x.other_at IS NOT NULL AS goes_on
                           FROM job_runs x
                          WHERE x.organization_id = p_organization
                            AND x.run_id = m.run::uuid
                         OFFSET 0) r ON true
  ),
  written AS (
    INSERT INTO dataset_stats AS s (organization_id, dataset_id, last_written_at, producer_count, row_count, byte_size,
                                    measured_at, measured_by)
    SELECT p_organization, f.id, f.written_at, f.producers, coalesce(f.rows, -1), f.bytes,
           CASE WHEN f.is_measured THEN f.written_at END, CASE WHEN f.is_measured THEN 'output' END
      FROM found f
    ON CONFLICT (organization_id, dataset_id) DO UPDATE
       SET last_written_at = EXCLUDED.last_written_at,
           producer_count = EXCLUDED.producer_count,
           row_count = CASE WHEN EXCLUDED.measured_by IS NULL THEN s.row_count ELSE EXCLUDED.row_count END,
           byte_size = CASE WHEN EXCLUDED.measured_by IS NULL THEN s.byte_size ELSE EXCLUDED.byte_size END,
           measured_at = coalesce(EXCLUDED.measured_at, s.measured_at),
           measured_by = coalesce(EXCLUDED.measured_by, s.measured_by)
     WHERE (s.last_written_at, s.producer_count) IS DISTINCT FROM (EXCLUDED.last_written_at, EXCLUDED.producer_count)
        OR (EXCLUDED.measured_by IS NOT NULL
            AND (s.row_count, s.byte_size, s.measured_at, s.measured_by) IS DISTINCT FROM
                (EXCLUDED.row_count, EXCLUDED.byte_size, EXCLUDED.measured_at, EXCLUDED.measured_by))
  )
  SELECT array_agg(f.id) INTO v_unmeasured FROM found f WHERE f.is_measured IS NOT TRUE;
  IF v_unmeasured IS NOT NULL THEN
    PERFORM set_dataset_sizes(p_organization, v_unmeasured, p_anew);
  END IF;
END
$$;

ALTER FUNCTION headgate.set_dataset_writes(p_organization uuid, p_datasets uuid[], p_anew boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.set_facet_tags(p_organization uuid, p_dataset uuid, p_body jsonb, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  DELETE FROM dataset_tags t
   WHERE t.organization_id = p_organization AND t.dataset_id = p_dataset AND t.source = 'facet'
     AND NOT EXISTS (SELECT FROM facet_tags(p_body) f WHERE f.column_name = t.column_name AND f.tag = t.tag);
  INSERT INTO dataset_tags AS t (organization_id, dataset_id, column_name, tag, source, created_at)
  SELECT p_organization, p_dataset, f.column_name, f.tag, 'facet', p_at
    FROM facet_tags(p_body) f
  ON CONFLICT (organization_id, dataset_id, column_name, tag, source) DO UPDATE
     SET created_at = EXCLUDED.created_at
   WHERE t.created_at <> EXCLUDED.created_at;
END
$$;

ALTER FUNCTION headgate.set_facet_tags(p_organization uuid, p_dataset uuid, p_body jsonb, p_at timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.settle_dataset_stats(p_organization uuid, p_most integer DEFAULT 2000) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_notes    bigint[];
  v_part     text;
  v_datasets uuid[];
  v_is_left  boolean := false;
BEGIN
  IF NOT EXISTS (SELECT FROM dataset_stats_notes o WHERE o.organization_id = p_organization) THEN
    RETURN false;
  END IF;
  -- A crash may take this back: the notes return with it.
  PERFORM set_config('synchronous_commit', 'off', true);
  IF NOT take_dataset_stats(p_organization) THEN
    RETURN true;
  END IF;
  v_notes := ARRAY(SELECT o.id FROM dataset_stats_notes o WHERE o.organization_id = p_organization);
  FOR v_part, v_datasets IN
    SELECT n.part, array_agg(DISTINCT d.id::uuid)
      FROM dataset_stats_notes o
     CROSS JOIN LATERAL jsonb_each(o.payload) AS n (part, datasets)
     CROSS JOIN LATERAL jsonb_array_elements_text(n.datasets) AS d (id)
     WHERE o.organization_id = p_organization AND o.id = ANY (v_notes)
     GROUP BY n.part
     ORDER BY n.part
  LOOP
    PERFORM refresh_dataset_stats(p_organization, v_part, v_datasets[:p_most]);
    IF cardinality(v_datasets) > p_most THEN
      PERFORM note_dataset_stats(p_organization, v_part, v_datasets[p_most + 1:]);
      v_is_left := true;
    END IF;
  END LOOP;
  DELETE FROM dataset_stats_notes o
   WHERE o.organization_id = p_organization
     AND o.id IN (SELECT x.id
                    FROM dataset_stats_notes x
                   WHERE x.organization_id = p_organization AND x.id = ANY (v_notes)
                     FOR UPDATE SKIP LOCKED);
  RETURN v_is_left;
END
$$;

ALTER FUNCTION headgate.settle_dataset_stats(p_organization uuid, p_most integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.split_uri(raw text, OUT scheme text, OUT authority text, OUT path text) RETURNS record
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
DECLARE
  parts text[] := regexp_match(raw, '^(?:[Jj][Dd][Bb][Cc]:)?([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)$');
  dialect text;
  rest text;
  cut int;
BEGIN
  IF parts IS NULL THEN
    RETURN;
  END IF;
  scheme := lower(parts[1] COLLATE "C");
  rest := parts[3];
  dialect := split_part(scheme, '+', 1);
  dialect := CASE dialect WHEN 'postgresql' THEN 'postgres' ELSE dialect END;
  scheme := CASE
    WHEN default_port(dialect) IS NOT NULL THEN dialect
    WHEN scheme IN ('s3a', 's3n') THEN 's3'
    WHEN scheme = 'gcs' THEN 'gs'
    WHEN scheme = 'abfs' THEN 'abfss'
    WHEN scheme = 'wasb' THEN 'wasbs'
    ELSE scheme
  END;
  IF parts[2] IS NOT NULL THEN
    cut := strpos(rest, '/');
    authority := CASE WHEN cut = 0 THEN rest ELSE left(rest, cut - 1) END;
    path := CASE WHEN cut = 0 THEN '' ELSE substr(rest, cut) END;
    RETURN;
  END IF;
  rest := ltrim(rest, E' \t\n\r\f\x0b');
  IF namespace_kind(scheme) = 'file_system' AND left(rest, 1) IN ('', '/') THEN
    authority := '';
    path := rest;
  ELSE
    scheme := NULL;
  END IF;
END
$_$;

ALTER FUNCTION headgate.split_uri(raw text, OUT scheme text, OUT authority text, OUT path text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.store_client_anomalies(p_organization uuid, c_dataset uuid[], c_job uuid[], c_run uuid[], c_type text[], c_severity text[], c_detected_at timestamp with time zone[], c_observed_at timestamp with time zone[], c_expected text[], c_actual text[], c_job_id text[], c_job_name text[], c_description text[], c_metadata text[], c_occasion text[]) RETURNS SETOF uuid
    LANGUAGE sql
    AS $$
    INSERT INTO anomalies (organization_id, dataset_id, job_uuid, run_id, anomaly_type, severity, detected_at,
                           observed_at, expected_value, actual_value, job_id, job_name, description, metadata, occasion,
                           source)
    SELECT p_organization, u.dataset, u.job, u.run, u.type, u.severity, u.detected_at, u.observed_at,
           u.expected::jsonb, u.actual::jsonb, u.job_id, u.job_name, u.description, u.metadata::jsonb, u.occasion,
           'client'
      FROM unnest(c_dataset, c_job, c_run, c_type, c_severity, c_detected_at, c_observed_at, c_expected, c_actual,
                  c_job_id, c_job_name, c_description, c_metadata, c_occasion)
           AS u (dataset, job, run, type, severity, detected_at, observed_at, expected, actual, job_id, job_name,
                 description, metadata, occasion)
    ON CONFLICT DO NOTHING
    RETURNING id
  $$;

ALTER FUNCTION headgate.store_client_anomalies(p_organization uuid, c_dataset uuid[], c_job uuid[], c_run uuid[], c_type text[], c_severity text[], c_detected_at timestamp with time zone[], c_observed_at timestamp with time zone[], c_expected text[], c_actual text[], c_job_id text[], c_job_name text[], c_description text[], c_metadata text[], c_occasion text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.store_column_lineage(p_organization uuid, p_job uuid, p_target uuid, p_at timestamp with time zone, p_hash bigint, p_sources uuid[], p_source_columns text[], p_target_columns text[], p_kinds text[], p_expressions text[]) RETURNS boolean
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

ALTER FUNCTION headgate.store_column_lineage(p_organization uuid, p_job uuid, p_target uuid, p_at timestamp with time zone, p_hash bigint, p_sources uuid[], p_source_columns text[], p_target_columns text[], p_kinds text[], p_expressions text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.store_events(p_organization uuid, p_tenant_code text, e_kind text[], e_type text[], e_time timestamp with time zone[], e_run uuid[], e_job uuid[], e_producer text[], e_extra text[], e_raw bytea[], r_run uuid[], r_place text[], r_has_ended boolean[], r_job uuid[], r_state text[], r_started_at timestamp with time zone[], r_last_event_at timestamp with time zone[], r_activity_at timestamp with time zone[], r_start_at timestamp with time zone[], r_complete_at timestamp with time zone[], r_parent uuid[], r_root uuid[], r_processing text[], r_inputs text[], r_outputs text[], r_producer text[], r_extra text[], h_job uuid[], h_dataset uuid[], h_role text[], h_first_at timestamp with time zone[], h_last_at timestamp with time zone[], h_completed_at timestamp with time zone[], h_start_hash bigint[], h_facets_hash bigint[], h_columns_hash bigint[], h_columns_at timestamp with time zone[], h_schema bytea[], h_schema_at timestamp with time zone[], s_source uuid[], s_target uuid[], s_job uuid[], s_first_at timestamp with time zone[], s_last_at timestamp with time zone[], s_completed_at timestamp with time zone[], s_run uuid[], m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_job uuid[], m_rows bigint[], m_bytes bigint[], m_partition_key text[], m_extra text[], r_parent_job text[] DEFAULT '{}'::text[], r_root_job text[] DEFAULT '{}'::text[], r_application text[] DEFAULT '{}'::text[], r_hash text[] DEFAULT NULL::text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  held uuid[];
  written integer;
  rewritten integer;
  v_tenant bigint := (SELECT o.tenant_id FROM organizations o WHERE o.id = p_organization);
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
  -- Most runs are new and ordinary. What a run of one event does not spell out is as of that event. That another
  -- writer has made one of them meanwhile, the primary key tells; the caller starts over.
  INSERT INTO job_runs (
    organization_id, run_id, job_id, job_ids, state, started_at, last_event_at, last_activity_at, start_at, complete_at,
    parent_run_id, root_run_id, parent_job, root_job, processing_type, application_id, input_ids, output_ids, producer)
  SELECT p_organization, u.run, u.job, ARRAY[u.job], u.state, coalesce(u.started_at, u.last_event_at), u.last_event_at,
         coalesce(u.activity_at, CASE u.state WHEN 'START' THEN u.last_event_at END),
         coalesce(u.start_at, CASE u.state WHEN 'START' THEN u.last_event_at END),
         coalesce(u.complete_at, CASE u.state WHEN 'COMPLETE' THEN u.last_event_at END),
         u.parent, u.root, u.parent_job::jsonb, u.root_job::jsonb, u.processing, u.application, u.inputs::uuid[],
         u.outputs::uuid[], u.producer
    FROM unnest(r_run, r_place, r_job, r_state, r_started_at, r_last_event_at, r_activity_at, r_start_at,
                r_complete_at, r_parent, r_root, r_processing, r_inputs, r_outputs, r_producer, r_extra, r_parent_job,
                r_root_job, r_application)
         AS u (run, place, job, state, started_at, last_event_at, activity_at, start_at, complete_at, parent, root,
               processing, inputs, outputs, producer, extra, parent_job, root_job, application)
   WHERE u.place IS NULL AND u.extra IS NULL;
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written < cardinality(r_run) THEN
    -- One statement for unusual and for known runs. An UPDATE that joins them cannot find them by ctid, which row-level
    -- security forbids, and on a table that was never analysed reads every run of the organisation instead.
    INSERT INTO job_runs AS r (
      organization_id, run_id, job_id, job_ids, state, started_at, last_event_at, last_activity_at, start_at,
      running_at, complete_at, fail_at, abort_at, other_at, parent_run_id, root_run_id, parent_job, root_job, is_test,
      processing_type, application_id, partition_context, error, error_at, input_ids, output_ids,
      producer)
    SELECT p_organization, u.run, u.job, coalesce((x.v).job_ids, ARRAY[u.job]), u.state, u.started_at,
           u.last_event_at, u.activity_at, u.start_at, (x.v).running_at, u.complete_at, (x.v).fail_at,
           (x.v).abort_at, (x.v).other_at, u.parent, u.root, coalesce(u.parent_job::jsonb, (x.v).parent_job),
           coalesce(u.root_job::jsonb, (x.v).root_job), coalesce((x.v).is_test, false), u.processing,
           coalesce(u.application, (x.v).application_id), (x.v).partition_context, (x.v).error, (x.v).error_at,
           u.inputs::uuid[], u.outputs::uuid[], u.producer
      FROM unnest(r_run, r_place, r_job, r_state, r_started_at, r_last_event_at, r_activity_at, r_start_at,
                  r_complete_at, r_parent, r_root, r_processing, r_inputs, r_outputs, r_producer, r_extra,
                  r_parent_job, r_root_job, r_application)
           AS u (run, place, job, state, started_at, last_event_at, activity_at, start_at, complete_at, parent, root,
                 processing, inputs, outputs, producer, extra, parent_job, root_job, application)
     CROSS JOIN LATERAL (SELECT CASE WHEN u.extra IS NOT NULL
                                     THEN jsonb_populate_record(NULL::job_runs, u.extra::jsonb) END AS v OFFSET 0) x
     WHERE u.place IS NOT NULL OR u.extra IS NOT NULL
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
    GET DIAGNOSTICS rewritten = ROW_COUNT;
    IF written + rewritten <> cardinality(r_run) THEN
      -- Another writer made a run between the caller's look and this insert. The caller starts over.
      RAISE EXCEPTION 'a run was made by another writer' USING ERRCODE = 'HG002';
    END IF;
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

  -- Follow-ups: runs that ended or brought measurements are judged, those that failed are looked into. A run is judged
  -- again when an event says more of it, also one that comes late: the hash is that event's. A server that gives none
  -- has its runs judged by how they ended.
  INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id, content_hash,
                          priority)
  SELECT p_organization, 'DETECT', v_tenant, p_tenant_code, 'RUN', u.run::text,
         coalesce(u.hash, content_hash(u.run::text, u.state, u.last_event_at::text)), 50
    FROM unnest(r_run, r_hash, r_has_ended, r_state, r_last_event_at) AS u (run, hash, has_ended, state, last_event_at)
   WHERE u.hash IS NOT NULL OR (r_hash IS NULL AND u.has_ended)
  ON CONFLICT ON CONSTRAINT async_task_key DO NOTHING;

  IF r_state && ARRAY['FAIL', 'ABORT'] THEN
    -- What is unusual is evidence, so it is known before causes are looked for.
    INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id,
                            content_hash, payload, priority)
    SELECT p_organization, 'CORRELATE', v_tenant, p_tenant_code, 'RUN', u.run::text,
           content_hash(u.run::text, u.state), jsonb_build_object('kind', 'run_failed'), 60
      FROM unnest(r_run, r_has_ended, r_state) AS u (run, has_ended, state)
     WHERE u.has_ended AND u.state IN ('FAIL', 'ABORT')
    ON CONFLICT ON CONSTRAINT async_task_key DO NOTHING;
  END IF;
END
$$;

ALTER FUNCTION headgate.store_events(p_organization uuid, p_tenant_code text, e_kind text[], e_type text[], e_time timestamp with time zone[], e_run uuid[], e_job uuid[], e_producer text[], e_extra text[], e_raw bytea[], r_run uuid[], r_place text[], r_has_ended boolean[], r_job uuid[], r_state text[], r_started_at timestamp with time zone[], r_last_event_at timestamp with time zone[], r_activity_at timestamp with time zone[], r_start_at timestamp with time zone[], r_complete_at timestamp with time zone[], r_parent uuid[], r_root uuid[], r_processing text[], r_inputs text[], r_outputs text[], r_producer text[], r_extra text[], h_job uuid[], h_dataset uuid[], h_role text[], h_first_at timestamp with time zone[], h_last_at timestamp with time zone[], h_completed_at timestamp with time zone[], h_start_hash bigint[], h_facets_hash bigint[], h_columns_hash bigint[], h_columns_at timestamp with time zone[], h_schema bytea[], h_schema_at timestamp with time zone[], s_source uuid[], s_target uuid[], s_job uuid[], s_first_at timestamp with time zone[], s_last_at timestamp with time zone[], s_completed_at timestamp with time zone[], s_run uuid[], m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_job uuid[], m_rows bigint[], m_bytes bigint[], m_partition_key text[], m_extra text[], r_parent_job text[], r_root_job text[], r_application text[], r_hash text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.store_stage_metrics(p_organization uuid, p_rows jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;

ALTER FUNCTION headgate.store_stage_metrics(p_organization uuid, p_rows jsonb) OWNER TO headgate_owner;

CREATE FUNCTION headgate.store_verdicts(p_organization uuid, m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_partition_key text[], m_verdicts text[], m_anomalous text[], r_run uuid[], r_verdicts text[], r_anomalous text[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  v_row record;
BEGIN
  FOR v_row IN
    SELECT u.run, u.verdicts, u.anomalous
      FROM unnest(r_run, r_verdicts, r_anomalous) AS u (run, verdicts, anomalous)
     ORDER BY u.run
  LOOP
    UPDATE job_runs r
       SET verdicts = v_row.verdicts::jsonb, anomalous = texts_of(v_row.anomalous)
     WHERE r.organization_id = p_organization AND r.run_id = v_row.run;
  END LOOP;
  FOR v_row IN
    SELECT u.dataset, u.at, u.run, u.direction, u.partition_key, u.verdicts, u.anomalous
      FROM unnest(m_dataset, m_at, m_run, m_direction, m_partition_key, m_verdicts, m_anomalous)
           AS u (dataset, at, run, direction, partition_key, verdicts, anomalous)
     ORDER BY u.dataset, u.at, u.run
  LOOP
    UPDATE dataset_metrics m
       SET verdicts = v_row.verdicts::jsonb, anomalous = texts_of(v_row.anomalous)
     WHERE m.organization_id = p_organization
       AND m.dataset_id = v_row.dataset
       AND m.measured_at = v_row.at
       AND m.run_id = v_row.run
       AND m.direction = v_row.direction
       AND m.partition_key = v_row.partition_key;
  END LOOP;
END
$$;

ALTER FUNCTION headgate.store_verdicts(p_organization uuid, m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_partition_key text[], m_verdicts text[], m_anomalous text[], r_run uuid[], r_verdicts text[], r_anomalous text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.supersede_metrics(p_organization uuid, m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_from timestamp with time zone[], m_until timestamp with time zone[], m_rows bigint[], m_bytes bigint[], m_partition_key text[], m_extra text[]) RETURNS integer[]
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.supersede_metrics(p_organization uuid, m_dataset uuid[], m_at timestamp with time zone[], m_run uuid[], m_direction text[], m_from timestamp with time zone[], m_until timestamp with time zone[], m_rows bigint[], m_bytes bigint[], m_partition_key text[], m_extra text[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.surviving_dataset(p_organization uuid, p_dataset uuid) RETURNS uuid
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

ALTER FUNCTION headgate.surviving_dataset(p_organization uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE TABLE headgate.incident_symptoms (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    incident_id uuid NOT NULL,
    type text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    dataset_id uuid,
    column_name text,
    job_id uuid,
    run_id uuid,
    producing_run_id uuid,
    anomaly_id uuid,
    test_key text,
    test_name text,
    test_status text,
    severity text NOT NULL,
    sentence text NOT NULL,
    root_cause text,
    confidence real DEFAULT 0 NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    last_observed_at timestamp with time zone NOT NULL,
    count integer DEFAULT 1 NOT NULL,
    cleared_at timestamp with time zone,
    is_news boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT incident_symptoms_severity_check CHECK ((severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text])))
)
WITH (fillfactor='80');

ALTER TABLE ONLY headgate.incident_symptoms FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_symptoms OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.incident_symptoms.key IS 'What is wrong, however often it is seen';

COMMENT ON COLUMN headgate.incident_symptoms.job_id IS 'Of the producing run, or of the run that failed';

COMMENT ON COLUMN headgate.incident_symptoms.root_cause IS 'What caused this one, in a sentence';

COMMENT ON COLUMN headgate.incident_symptoms.confidence IS 'How sure that is';

COMMENT ON COLUMN headgate.incident_symptoms.count IS 'How often it was seen on what the same run had produced';

COMMENT ON COLUMN headgate.incident_symptoms.cleared_at IS 'When it was seen to be well again, or somebody said so';

COMMENT ON COLUMN headgate.incident_symptoms.is_news IS 'Whether alerts were let know of it';

COMMENT ON COLUMN headgate.incident_symptoms.created_at IS 'By the clock: those of one transaction are told in this order';

CREATE FUNCTION headgate.symptom_end(p_organization uuid, p_symptom headgate.incident_symptoms, p_after timestamp with time zone, OUT at timestamp with time zone, OUT reason text) RETURNS record
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_anomaly  anomalies;
  v_name     text;
  v_is_ahead boolean;
BEGIN
  IF p_symptom.anomaly_id IS NOT NULL THEN
    SELECT a.* INTO v_anomaly
      FROM anomalies a
     WHERE a.organization_id = p_organization AND a.id = p_symptom.anomaly_id;
    IF v_anomaly.status IN ('RESOLVED', 'FALSE_POSITIVE') THEN
      at := greatest(v_anomaly.resolved_at, p_symptom.last_observed_at);
      reason := CASE v_anomaly.status WHEN 'RESOLVED' THEN 'the anomaly was resolved'
                                      ELSE 'the anomaly was a false alarm' END;
      RETURN;
    END IF;
    v_name := concat_ws(':', v_anomaly.metric, NULLIF(v_anomaly.column_name, ''));
  END IF;

  IF p_symptom.type = 'TestFailed' AND p_symptom.dataset_id IS NOT NULL THEN
    SELECT t.observed_at, 'the test passes again'
      INTO at, reason
      FROM test_results t
      LEFT JOIN job_runs r ON r.organization_id = p_organization AND r.run_id = t.run_id
     WHERE t.organization_id = p_organization AND t.dataset_id = p_symptom.dataset_id
       AND t.test_key = p_symptom.test_key AND t.observed_at > p_after
       AND t.status = 'passed'
       AND (r.run_id IS NULL OR r.ended_at IS NOT NULL)
       -- A pass that a clock ahead of ours has told of before is none of this failure.
       AND (NOT is_ahead(t.observed_at) OR t.created_at > p_symptom.created_at)
     ORDER BY t.observed_at
     LIMIT 1;
    -- A failure that such a clock has told of: what came in after it counts.
    IF at IS NULL AND is_ahead(p_after) THEN
      SELECT t.observed_at, 'the test passes again'
        INTO at, reason
        FROM (SELECT x.status, x.observed_at, x.created_at
                FROM test_results x
               WHERE x.organization_id = p_organization AND x.dataset_id = p_symptom.dataset_id
                 AND x.test_key = p_symptom.test_key
               ORDER BY x.created_at DESC
               LIMIT 1) t
        JOIN incidents i ON i.organization_id = p_organization AND i.id = p_symptom.incident_id
       WHERE t.status = 'passed'
         AND t.created_at > greatest(p_symptom.created_at, i.reopened_at);
    END IF;
  ELSIF p_symptom.type = 'TestFailed' THEN
    SELECT t.observed_at, 'the test passes again'
      INTO at, reason
      FROM test_results t
     WHERE t.organization_id = p_organization AND t.dataset_id IS NULL
       AND t.test_key = p_symptom.test_key AND t.observed_at > p_after AND t.job_id = p_symptom.job_id
       AND t.status = 'passed'
     ORDER BY t.observed_at
     LIMIT 1;
  ELSIF p_symptom.type = 'GateBlocked' THEN
    SELECT n.ended_at, 'the node was published again'
      INTO at, reason
      FROM node_runs s
     CROSS JOIN LATERAL (SELECT x.ended_at
                           FROM node_runs x
                          WHERE x.organization_id = p_organization AND x.project = s.project
                            AND x.pipeline = s.pipeline AND x.node = s.node AND x.status = 'published'
                            AND NOT x.handles_batch AND x.ended_at > p_after
                            AND NOT EXISTS (SELECT
                                              FROM job_runs r
                                             WHERE r.organization_id = p_organization AND r.run_id = x.run_id
                                               AND written_at(x.ended_at, r.updated_at) < x.ended_at
                                               AND r.created_at <= p_symptom.created_at)
                          ORDER BY x.ended_at
                          LIMIT 1) n
     WHERE s.organization_id = p_organization AND s.run_id = p_symptom.run_id;
  ELSIF p_symptom.type = 'FreshnessMissed' THEN
    -- By the runs: when a use was last seen is written a little later.
    SELECT max(w.at) FILTER (WHERE w.at > p_after), 'the dataset was written', bool_or(b.ended_at > w.at)
      INTO at, reason, v_is_ahead
      FROM runs_behind(p_organization, ARRAY[p_symptom.dataset_id], ARRAY['infinity'::timestamptz]) b
      JOIN job_runs r ON r.organization_id = p_organization AND r.run_id = b.run_id
     CROSS JOIN LATERAL (SELECT written_at(r.ended_at, r.updated_at) AS at) w
     WHERE b.state = 'COMPLETE';
    -- A run with a time ahead of ours hides those of its job that came after it.
    IF at IS NULL AND v_is_ahead THEN
      SELECT max(w.at)
        INTO at
        FROM unnest(latest_writes(p_organization, p_symptom.dataset_id)) AS w (at)
       WHERE w.at > p_after;
    END IF;
    -- A write that nobody knew of when one was missing: it had ended in time, and its event was late. What was observed
    -- was not so even then; whatever is missing since is another lapse.
    IF at IS NULL AND v_anomaly.source = 'detector' THEN
      SELECT p_after,
             format('the write was heard of late: it had ended at %s UTC, before it was due',
                    to_char(b.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'))
        INTO at, reason
        FROM runs_behind(p_organization, ARRAY[p_symptom.dataset_id], ARRAY[v_anomaly.observed_at]) b
        JOIN job_runs r ON r.organization_id = p_organization AND r.run_id = b.run_id
       WHERE b.state = 'COMPLETE'
         AND b.ended_at > coalesce((v_anomaly.actual_value ->> 'last_write_at')::timestamptz, '-infinity')
         AND r.updated_at > p_after
       ORDER BY b.ended_at DESC
       LIMIT 1;
    END IF;
  ELSIF p_symptom.type IN ('RunFailed', 'StuckRun') THEN
    SELECT r.ended_at, CASE WHEN r.run_id = p_symptom.run_id THEN 'the run has ended' ELSE 'the job completed' END
      INTO at, reason
      FROM job_runs r
     WHERE r.organization_id = p_organization AND r.run_id = p_symptom.run_id
       AND (r.state = 'COMPLETE' OR p_symptom.type = 'StuckRun' AND r.ended_at IS NOT NULL);
    IF at IS NULL THEN
      SELECT r.at, 'the job completed'
        INTO at, reason
        FROM first_good_run(p_organization, p_symptom.job_id, p_after, p_symptom.created_at, NULL) r
       WHERE r.at IS NOT NULL;
    END IF;
    -- What came in after a failure by a clock ahead of ours counts, be it by such a clock or by one that is right.
    IF at IS NULL AND is_ahead(p_after) THEN
      SELECT r.ended_at, 'the job completed'
        INTO at, reason
        FROM unnest(ARRAY[p_after, now() + interval '5 minutes']) AS u (at)
       CROSS JOIN LATERAL (SELECT x.state, x.ended_at, x.created_at
                             FROM job_runs x
                            WHERE x.organization_id = p_organization AND x.job_id = p_symptom.job_id
                              AND x.ended_at <= u.at
                            ORDER BY x.ended_at DESC
                            LIMIT 200) r
        JOIN incidents i ON i.organization_id = p_organization AND i.id = p_symptom.incident_id
       WHERE r.state = 'COMPLETE'
         AND r.created_at > greatest(p_symptom.created_at, i.reopened_at)
       ORDER BY r.created_at
       LIMIT 1;
    END IF;
  ELSIF v_anomaly.metric IN ('duration_ms', 'rows_quarantined') THEN
    SELECT r.at, end_of_metric(r.verdict)
      INTO at, reason
      FROM first_good_run(p_organization, p_symptom.job_id, p_after, p_symptom.created_at, v_name) r
     WHERE r.at IS NOT NULL;
  ELSIF v_anomaly.metric IS NOT NULL THEN
    SELECT m.measured_at, end_of_metric(m.state)
      INTO at, reason
      FROM (SELECT y.measured_at, y.verdicts -> v_name ->> 'state' AS state
              FROM (SELECT x.measured_at, x.verdicts, x.partition_key, x.created_at
                      FROM dataset_metrics x
                     WHERE x.organization_id = p_organization AND x.dataset_id = p_symptom.dataset_id
                       AND x.measured_at > p_after
                     ORDER BY x.measured_at
                     LIMIT 1000) y
             WHERE y.verdicts ? v_name
               AND y.partition_key = v_anomaly.partition_key
               AND (NOT is_ahead(y.measured_at) OR y.created_at > p_symptom.created_at)) m
     WHERE m.state IN ('normal', 'expected', 'new_level')
     ORDER BY m.measured_at
     LIMIT 1;
  END IF;
  -- A schema stays as it became, and of what a client calls by a name of its own nothing is known.
  IF at IS NULL AND (p_symptom.type = 'SchemaChange' OR v_anomaly.source = 'client')
     AND p_symptom.created_at < now() - interval '7 days' THEN
    at := now();
    reason := 'nothing was heard of it for seven days';
  END IF;
  at := CASE WHEN at > now() THEN now() ELSE at END;
END
$$;

ALTER FUNCTION headgate.symptom_end(p_organization uuid, p_symptom headgate.incident_symptoms, p_after timestamp with time zone, OUT at timestamp with time zone, OUT reason text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.take_dataset_name(p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_holder uuid) RETURNS void
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

ALTER FUNCTION headgate.take_dataset_name(p_organization uuid, p_dataset uuid, p_namespace text, p_name text, p_display text, p_holder uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.take_dataset_stats(p_organization uuid) RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '200ms'
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('headgate.dataset_stats.' || p_organization::text, 0));
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END
$$;

ALTER FUNCTION headgate.take_dataset_stats(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.task_backoff(p_failures integer) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT make_interval(secs => (ARRAY[60, 300, 900, 3600, 21600])[least(greatest(p_failures, 1), 5)])
  $$;

ALTER FUNCTION headgate.task_backoff(p_failures integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.task_kinds(p_organization uuid) RETURNS TABLE(status text, task_type text)
    LANGUAGE sql STABLE
    AS $$
    WITH RECURSIVE kinds AS (
      (SELECT t.status, t.task_type
         FROM async_task t
        WHERE t.organization_id = p_organization
        ORDER BY t.status, t.task_type
        LIMIT 1)
      UNION ALL
      SELECT n.status, n.task_type
        FROM kinds k
       CROSS JOIN LATERAL (SELECT t.status, t.task_type
                             FROM async_task t
                            WHERE t.organization_id = p_organization
                              AND (t.status, t.task_type) > (k.status, k.task_type)
                            ORDER BY t.status, t.task_type
                            LIMIT 1) n)
    SELECT k.status, k.task_type FROM kinds k
  $$;

ALTER FUNCTION headgate.task_kinds(p_organization uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.texts_of(p_array text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT ARRAY(SELECT jsonb_array_elements_text(p_array::jsonb)) $$;

ALTER FUNCTION headgate.texts_of(p_array text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.total_of(p_sum numeric) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT least(greatest(p_sum, -9223372036854775808), 9223372036854775807)::bigint $$;

ALTER FUNCTION headgate.total_of(p_sum numeric) OWNER TO headgate_owner;

CREATE FUNCTION headgate.touch_lineage(p_organization uuid, h_job uuid[], h_dataset uuid[], h_role text[], h_first_at timestamp with time zone[], h_last_at timestamp with time zone[], h_completed_at timestamp with time zone[], h_columns_at timestamp with time zone[], h_schema_at timestamp with time zone[], s_source uuid[], s_target uuid[], s_job uuid[], s_first_at timestamp with time zone[], s_last_at timestamp with time zone[], s_completed_at timestamp with time zone[], s_run uuid[]) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
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

ALTER FUNCTION headgate.touch_lineage(p_organization uuid, h_job uuid[], h_dataset uuid[], h_role text[], h_first_at timestamp with time zone[], h_last_at timestamp with time zone[], h_completed_at timestamp with time zone[], h_columns_at timestamp with time zone[], h_schema_at timestamp with time zone[], s_source uuid[], s_target uuid[], s_job uuid[], s_first_at timestamp with time zone[], s_last_at timestamp with time zone[], s_completed_at timestamp with time zone[], s_run uuid[]) OWNER TO headgate_owner;

CREATE FUNCTION headgate.undo_dataset_merge(p_organization uuid, p_merge uuid) RETURNS void
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET bytea_output TO 'hex'
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

ALTER FUNCTION headgate.undo_dataset_merge(p_organization uuid, p_merge uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.walk_change(p_organization uuid, p_dataset uuid, p_columns text[], p_depth integer, p_limit integer) RETURNS TABLE(dataset_id uuid, column_name text, depth integer, hidden integer)
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
DECLARE
  v_names  text[] := coalesce(p_columns, ARRAY[NULL::text]);
  v_ids    uuid[] := array_fill(p_dataset, ARRAY[cardinality(v_names)]);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_names)]);
  f_ids    uuid[] := v_ids;
  f_names  text[] := v_names;
  n_ids    uuid[];
  n_names  text[];
  v_each   integer;
  v_more   integer;
  v_room   integer;
  v_hidden integer := 0;
BEGIN
  FOR v_level IN 0 .. p_depth LOOP
    EXIT WHEN cardinality(f_ids) = 0;
    v_each := greatest(100, 20 * greatest(p_limit, 1000) / cardinality(f_ids));
    WITH met AS MATERIALIZED (
      SELECT e.target_id AS id, e.target_column AS name, e.place > v_each AS is_more
        FROM unnest(f_ids, f_names) AS f (id, name)
       CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS place
                             FROM ((SELECT t.target_id, t.target_column
                                      FROM current_column_edges(p_organization) t
                                     WHERE t.source_id = f.id
                                       AND t.source_column = f.name
                                       AND f.name <> ''
                                     LIMIT v_each + 1)
                                   UNION ALL
                                   (SELECT t.target_id, t.target_column
                                      FROM current_column_edges(p_organization) t
                                     WHERE t.source_id = f.id
                                       AND f.name IS NULL
                                     LIMIT v_each + 1)) x) e
       UNION ALL
      SELECT e.neighbour_id, NULL, e.is_more
        FROM lineage_neighbours(p_organization, ARRAY(SELECT DISTINCT u.id FROM unnest(f_ids) AS u (id)), 'down',
                                v_each, 'infinity', now() - interval '30 days') e
       WHERE e.is_more
          OR NOT sends_columns(p_organization, e.job_id, e.neighbour_id)
    )
    SELECT coalesce(array_agg(n.id ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.name ORDER BY n.id, n.name), '{}'),
           (SELECT count(*) FROM met m WHERE m.is_more)
      INTO n_ids, n_names, v_more
      FROM (SELECT m.id, m.name FROM met m WHERE NOT m.is_more
            EXCEPT
            SELECT s.id, s.name FROM unnest(v_ids, v_names) AS s (id, name)) n;
    v_room := CASE WHEN v_level = p_depth THEN 0 ELSE p_limit - cardinality(v_ids) END;
    v_hidden := v_hidden + v_more + greatest(0, cardinality(n_ids) - v_room);
    EXIT WHEN v_room = 0;
    f_ids := n_ids[:v_room];
    f_names := n_names[:v_room];
    v_ids := v_ids || f_ids;
    v_names := v_names || f_names;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(f_ids)]);
  END LOOP;
  RETURN QUERY
    SELECT s.id, s.name, s.depth, v_hidden
      FROM unnest(v_ids, v_names, v_depths) AS s (id, name, depth)
     ORDER BY s.depth, s.id, s.name;
END
$$;

ALTER FUNCTION headgate.walk_change(p_organization uuid, p_dataset uuid, p_columns text[], p_depth integer, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.walk_columns(p_organization uuid, p_dataset uuid, p_columns text[], p_direction text, p_depth integer, p_limit integer) RETURNS TABLE(dataset_id uuid, column_name text, depth integer, hidden integer)
    LANGUAGE plpgsql STABLE
    AS $$
#variable_conflict use_column
DECLARE
  v_names  text[] := ARRAY(SELECT DISTINCT u.name FROM unnest(p_columns) AS u (name) ORDER BY u.name LIMIT p_limit);
  v_ids    uuid[] := array_fill(p_dataset, ARRAY[cardinality(v_names)]);
  v_ends   boolean[] := array_fill(false, ARRAY[cardinality(v_names)]);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_names)]);
  f_ids    uuid[] := v_ids;
  f_names  text[] := v_names;
  n_ids    uuid[];
  n_names  text[];
  n_ends   boolean[];
  v_each   integer;
  v_more   integer;
  v_room   integer;
  v_hidden integer := 0;
BEGIN
  FOR v_level IN 0 .. p_depth LOOP
    EXIT WHEN cardinality(f_ids) = 0;
    v_each := greatest(100, 20 * greatest(p_limit, 1000) / cardinality(f_ids));
    WITH met AS MATERIALIZED (
      SELECT e.id, e.name, e.is_end, e.place > v_each AS is_more
        FROM unnest(f_ids, f_names) AS f (id, name)
       CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS place
                             FROM ((SELECT t.target_id AS id, t.target_column AS name, t.target_column = '' AS is_end
                                      FROM current_column_edges(p_organization) t
                                     WHERE p_direction = 'down'
                                       AND t.source_id = f.id
                                       AND t.source_column = f.name
                                     LIMIT v_each + 1)
                                   UNION ALL
                                   (SELECT t.source_id, t.source_column, t.target_column = ''
                                      FROM current_column_edges(p_organization) t
                                     WHERE p_direction = 'up'
                                       AND t.target_id = f.id
                                       AND t.target_column = ANY (ARRAY[f.name, ''])
                                     LIMIT v_each + 1)) x) e
    )
    SELECT coalesce(array_agg(n.id ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.name ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.is_end ORDER BY n.id, n.name), '{}'),
           (SELECT count(*) FROM met m WHERE m.is_more)
      INTO n_ids, n_names, n_ends, v_more
      FROM (SELECT m.id, m.name, m.is_end FROM met m WHERE NOT m.is_more
            EXCEPT
            SELECT s.id, s.name, s.is_end FROM unnest(v_ids, v_names, v_ends) AS s (id, name, is_end)) n;
    v_room := CASE WHEN v_level = p_depth THEN 0 ELSE p_limit - cardinality(v_ids) END;
    v_hidden := v_hidden + v_more + greatest(0, cardinality(n_ids) - v_room);
    EXIT WHEN v_room = 0;
    n_ids := n_ids[:v_room];
    n_names := n_names[:v_room];
    n_ends := n_ends[:v_room];
    v_ids := v_ids || n_ids;
    v_names := v_names || n_names;
    v_ends := v_ends || n_ends;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(n_ids)]);
    SELECT coalesce(array_agg(n.id), '{}'), coalesce(array_agg(n.name), '{}')
      INTO f_ids, f_names
      FROM unnest(n_ids, n_names, n_ends) AS n (id, name, is_end)
     WHERE NOT n.is_end;
  END LOOP;
  RETURN QUERY
    SELECT s.id, s.name, min(s.depth), v_hidden
      FROM (SELECT v.id, v.name, v.depth
              FROM unnest(v_ids, v_names, v_depths) AS v (id, name, depth)
             UNION ALL
            -- The whole of a dataset that was passed on the way up, where something influences it.
            SELECT v.id, '', v.depth
              FROM unnest(v_ids, v_ends, v_depths) AS v (id, is_end, depth)
             WHERE p_direction = 'up'
               AND NOT v.is_end
               AND v.depth < p_depth
               AND EXISTS (SELECT
                             FROM current_column_edges(p_organization) x
                            WHERE x.target_id = v.id
                              AND x.target_column = ''
                           OFFSET 0)) s
     GROUP BY s.id, s.name
     ORDER BY 3, s.id, s.name;
END
$$;

ALTER FUNCTION headgate.walk_columns(p_organization uuid, p_dataset uuid, p_columns text[], p_direction text, p_depth integer, p_limit integer) OWNER TO headgate_owner;

CREATE FUNCTION headgate.walk_lineage(p_organization uuid, p_roots uuid[], p_direction text, p_depth integer, p_limit integer, p_as_of timestamp with time zone, p_count boolean DEFAULT false) RETURNS TABLE(dataset_id uuid, depth integer, hidden integer)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
  v_seen   uuid[] := ARRAY(SELECT DISTINCT u.id FROM unnest(p_roots) AS u (id) ORDER BY u.id LIMIT p_limit);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_seen)]);
  v_level  integer := 0;
  v_next   integer := 1;
  v_end    integer := cardinality(v_seen);
  v_room   integer;
  v_chunk  uuid[];
  v_near   bigint[];
  v_far    uuid[];
  v_fresh  uuid[];
  v_hubs   uuid[];
BEGIN
  WHILE v_next <= v_end AND v_level < p_depth LOOP
    v_room := p_limit - cardinality(v_seen);
    EXIT WHEN v_room = 0;
    -- Part of a level may fill the room that is left.
    v_chunk := v_seen[v_next : least(v_end, v_next + 31 + v_room / 4)];
    SELECT array_agg(h.place), array_agg(h.neighbour_id), array_agg(h.dataset_id) FILTER (WHERE h.is_more)
      INTO v_near, v_far, v_hubs
      FROM lineage_neighbours(p_organization, v_chunk, p_direction, CASE WHEN p_limit IS NOT NULL THEN 100 END, v_at,
                              v_recent) h;
    IF cardinality(v_hubs) > 0 THEN
      SELECT v_near || array_agg(array_position(v_chunk, h.dataset_id)), v_far || array_agg(h.neighbour_id)
        INTO v_near, v_far
        FROM lineage_neighbours(p_organization, v_hubs, p_direction, edges_of_hub(cardinality(v_hubs)), v_at,
                                v_recent) h;
    END IF;
    -- NOT IN is looked up in a hash, whatever the planner thinks of the sizes.
    v_fresh := ARRAY(SELECT u.far
                       FROM unnest(v_near, v_far) AS u (near, far)
                      WHERE u.far NOT IN (SELECT s.id FROM unnest(v_seen) AS s (id))
                      GROUP BY u.far
                      ORDER BY min(u.near), u.far
                      LIMIT v_room);
    v_seen := v_seen || v_fresh;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(v_fresh)]);
    v_next := v_next + cardinality(v_chunk);
    IF v_next > v_end THEN
      v_level := v_level + 1;
      v_end := cardinality(v_seen);
    END IF;
  END LOOP;
  IF p_count THEN
    RETURN QUERY
      SELECT a.id, a.depth, coalesce(c.hidden, 0)
        FROM unnest(v_seen, v_depths) WITH ORDINALITY AS a (id, depth, place)
        LEFT JOIN count_hidden(p_organization, v_seen, p_direction, p_as_of) c ON c.dataset_id = a.id
       ORDER BY a.place;
  ELSE
    RETURN QUERY SELECT a.id, a.depth, NULL::integer FROM unnest(v_seen, v_depths) AS a (id, depth);
  END IF;
END
$$;

ALTER FUNCTION headgate.walk_lineage(p_organization uuid, p_roots uuid[], p_direction text, p_depth integer, p_limit integer, p_as_of timestamp with time zone, p_count boolean) OWNER TO headgate_owner;

CREATE FUNCTION headgate.was_written(p_organization uuid, p_dataset uuid, p_after timestamp with time zone, p_until timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = p_organization
                      AND h.dataset_id = p_dataset
                      AND h.role = 'output'
                      AND h.last_seen_at > p_after
                      AND (h.last_seen_at <= p_until
                        OR h.first_seen_at > p_after AND h.first_seen_at <= p_until
                        OR h.first_seen_at <= p_until
                           AND EXISTS (SELECT
                                         FROM job_runs r
                                        WHERE r.organization_id = p_organization
                                          AND r.job_id = h.job_id
                                          AND r.started_at <= p_until
                                          AND r.last_event_at > p_after
                                          AND p_dataset = ANY (r.output_ids))))
  $$;

ALTER FUNCTION headgate.was_written(p_organization uuid, p_dataset uuid, p_after timestamp with time zone, p_until timestamp with time zone) OWNER TO headgate_owner;

CREATE FUNCTION headgate.watch_dataset(p_organization uuid, p_dataset uuid) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO watched_datasets AS w (organization_id, dataset_id)
    SELECT p_organization, d.id
      FROM datasets d
     WHERE d.organization_id = p_organization AND d.id = p_dataset
    ON CONFLICT (organization_id, dataset_id) DO UPDATE
       SET due_at = now()
  $$;

ALTER FUNCTION headgate.watch_dataset(p_organization uuid, p_dataset uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.were_parted(p_organization uuid, p_one uuid, p_other uuid) RETURNS boolean
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

ALTER FUNCTION headgate.were_parted(p_organization uuid, p_one uuid, p_other uuid) OWNER TO headgate_owner;

CREATE FUNCTION headgate.with_change(p_changes jsonb, p_by text, p_from text, p_to text, p_notes text) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT coalesce(jsonb_agg(e.change ORDER BY e.i), '[]')
           || jsonb_build_object('at', now(), 'by', p_by, 'from', p_from, 'to', p_to, 'notes', p_notes)
      FROM jsonb_array_elements(p_changes) WITH ORDINALITY AS e (change, i)
     WHERE e.i > jsonb_array_length(p_changes) - 99
  $$;

ALTER FUNCTION headgate.with_change(p_changes jsonb, p_by text, p_from text, p_to text, p_notes text) OWNER TO headgate_owner;

CREATE FUNCTION headgate.withdrawn_note() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT 'the run was measured again, and the value is not out of the ordinary' $$;

ALTER FUNCTION headgate.withdrawn_note() OWNER TO headgate_owner;

CREATE FUNCTION headgate.written_at(p_ended_at timestamp with time zone, p_received_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN p_ended_at > p_received_at + interval '5 minutes' THEN p_received_at ELSE p_ended_at END
  $$;

ALTER FUNCTION headgate.written_at(p_ended_at timestamp with time zone, p_received_at timestamp with time zone) OWNER TO headgate_owner;

CREATE TABLE headgate.alert_history (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    alert_rule_id uuid,
    rule_name text,
    task_id bigint,
    anomaly_id uuid,
    incident_id uuid,
    symptom_id uuid,
    dataset_id uuid,
    run_id uuid,
    subject text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    severity text NOT NULL,
    title text NOT NULL,
    channel_type text NOT NULL,
    channel_context jsonb NOT NULL,
    response_payload jsonb,
    status text NOT NULL,
    reason text,
    held_by uuid,
    held_back integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    sent_at timestamp with time zone NOT NULL,
    error_message text,
    CONSTRAINT alert_history_channel_type_check CHECK ((channel_type = ANY (ARRAY['EMAIL'::text, 'SLACK'::text, 'TEAMS'::text, 'WEBHOOK'::text]))),
    CONSTRAINT alert_history_reason_check CHECK ((reason = ANY (ARRAY['window'::text, 'grouped'::text, 'throttled'::text, 'quiet_hours'::text, 'muted'::text, 'sending'::text, 'retrying'::text, 'refused'::text, 'gave_up'::text]))),
    CONSTRAINT alert_history_severity_check CHECK ((severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text]))),
    CONSTRAINT alert_history_status_check CHECK ((status = ANY (ARRAY['SENT'::text, 'FAILED'::text, 'DEDUPLICATED'::text])))
)
WITH (fillfactor='80');

ALTER TABLE ONLY headgate.alert_history FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.alert_history OWNER TO headgate_owner;

COMMENT ON TABLE headgate.alert_history IS 'One row a rule and task; its id goes with each try, so that a receiver sees that they are one';

COMMENT ON COLUMN headgate.alert_history.alert_rule_id IS 'As rule_name, of the time when it was sent: what was sent outlives its rule';

COMMENT ON COLUMN headgate.alert_history.subject IS 'What the same type is not told of again within the window: dataset, job or pipeline';

COMMENT ON COLUMN headgate.alert_history.reason IS 'Why it was held back, or how far a failed one is: `sending` while nobody knows, `retrying` while it is tried again';

COMMENT ON COLUMN headgate.alert_history.held_by IS 'The alert of the same rule that it was grouped with, or that said the same';

COMMENT ON COLUMN headgate.alert_history.held_back IS 'How many alerts before it, which the limits of the rule held back, the message tells of';

COMMENT ON COLUMN headgate.alert_history.sent_at IS 'Of the latest try, or of the decision to hold it back';

CREATE TABLE headgate.alert_rules (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    description text,
    dataset_name text,
    anomaly_type text,
    severity text,
    owner text,
    tag text,
    channel_type text NOT NULL,
    channel_config jsonb NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    deduplication_minutes integer DEFAULT 60 NOT NULL,
    max_per_minute integer,
    max_per_hour integer,
    quiet_hours jsonb,
    created_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT alert_rules_channel_type_check CHECK ((channel_type = ANY (ARRAY['EMAIL'::text, 'SLACK'::text, 'TEAMS'::text, 'WEBHOOK'::text]))),
    CONSTRAINT alert_rules_deduplication_minutes_check CHECK (((deduplication_minutes >= 0) AND (deduplication_minutes <= 43200))),
    CONSTRAINT alert_rules_max_per_hour_check CHECK ((max_per_hour >= 1)),
    CONSTRAINT alert_rules_max_per_minute_check CHECK ((max_per_minute >= 1)),
    CONSTRAINT alert_rules_severity_check CHECK ((severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text])))
);

ALTER TABLE ONLY headgate.alert_rules FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.alert_rules OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.alert_rules.dataset_name IS 'A name, the beginning of names followed by *, or NULL for all';

COMMENT ON COLUMN headgate.alert_rules.anomaly_type IS 'An anomaly, another symptom or an event, as above; NULL for all symptoms';

COMMENT ON COLUMN headgate.alert_rules.channel_config IS 'Secrets in it are objects with what is encrypted and what may be shown';

CREATE TABLE headgate.alias_rules (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    "position" integer NOT NULL,
    pattern text NOT NULL,
    canonical text NOT NULL,
    created_by uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY headgate.alias_rules FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.alias_rules OWNER TO headgate_owner;

CREATE TABLE headgate.api_keys (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    organization_id uuid NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    key_hash bytea NOT NULL,
    scopes text[] NOT NULL,
    created_by uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    CONSTRAINT api_keys_scopes_check CHECK ((scopes <@ ARRAY['read'::text, 'write'::text, 'ingest'::text, 'admin'::text]))
);

ALTER TABLE ONLY headgate.api_keys FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.api_keys OWNER TO headgate_owner;

CREATE TABLE headgate.async_batch (
    id bigint NOT NULL,
    organization_id uuid NOT NULL,
    batch_no text NOT NULL,
    task_type text NOT NULL,
    tenant_id bigint NOT NULL,
    model_fingerprint text NOT NULL,
    worker_id text NOT NULL,
    planned_size integer NOT NULL,
    success_count integer DEFAULT 0 NOT NULL,
    failed_count integer DEFAULT 0 NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    status text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT async_batch_status_check CHECK ((status = ANY (ARRAY['RUNNING'::text, 'SUCCEEDED'::text, 'FAILED'::text])))
);

ALTER TABLE ONLY headgate.async_batch FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_batch OWNER TO headgate_owner;

ALTER TABLE headgate.async_batch ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.async_batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.async_task_attempt (
    id bigint NOT NULL,
    organization_id uuid NOT NULL,
    task_id bigint NOT NULL,
    attempt_no integer NOT NULL,
    worker_id text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    status text NOT NULL,
    batch_no text,
    input_size integer,
    latency_ms bigint,
    error_type text,
    error_message text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT async_task_attempt_status_check CHECK ((status = ANY (ARRAY['RUNNING'::text, 'SUCCEEDED'::text, 'FAILED'::text, 'CANCELED'::text])))
);

ALTER TABLE ONLY headgate.async_task_attempt FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_task_attempt OWNER TO headgate_owner;

COMMENT ON TABLE headgate.async_task_attempt IS 'Attempts that are over; the one that goes on is in async_task';

ALTER TABLE headgate.async_task_attempt ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.async_task_attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE headgate.async_task ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.async_task_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.column_lineage_edges (
    organization_id uuid NOT NULL,
    target_id uuid NOT NULL,
    target_column text NOT NULL,
    source_id uuid NOT NULL,
    source_column text NOT NULL,
    job_id uuid NOT NULL,
    kinds jsonb NOT NULL,
    expression text,
    is_current boolean NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.column_lineage_edges FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.column_lineage_edges OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.column_lineage_edges.target_column IS 'Empty when the source column influences the whole target';

COMMENT ON COLUMN headgate.column_lineage_edges.is_current IS 'True while the job still sends this edge; it was then last seen at job_datasets.columns_seen_at';

CREATE TABLE headgate.job_datasets (
    organization_id uuid NOT NULL,
    job_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    role text NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    last_completed_at timestamp with time zone,
    start_hash bigint,
    facets_hash bigint,
    columns_hash bigint,
    columns_seen_at timestamp with time zone,
    columns_before_at timestamp with time zone,
    schema_seen_at timestamp with time zone,
    CONSTRAINT job_datasets_role_check CHECK ((role = ANY (ARRAY['input'::text, 'output'::text])))
)
WITH (fillfactor='75');

ALTER TABLE ONLY headgate.job_datasets FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_datasets OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.job_datasets.columns_before_at IS 'When the column lineage before the current one was last seen';

CREATE VIEW headgate.column_lineage AS
 SELECT e.organization_id,
    e.source_id,
    ((s.namespace || '/'::text) || s.name) AS source_urn,
    e.source_column,
    e.target_id,
    ((t.namespace || '/'::text) || t.name) AS target_urn,
    NULLIF(e.target_column, ''::text) AS target_column,
    e.kinds,
    e.expression,
    e.job_id,
    e.first_seen_at,
        CASE
            WHEN e.is_current THEN GREATEST(e.last_seen_at, h.columns_seen_at)
            ELSE e.last_seen_at
        END AS last_seen_at
   FROM (((headgate.column_lineage_edges e
     JOIN headgate.datasets s ON (((s.organization_id = e.organization_id) AND (s.id = e.source_id))))
     JOIN headgate.datasets t ON (((t.organization_id = e.organization_id) AND (t.id = e.target_id))))
     LEFT JOIN headgate.job_datasets h ON (((h.organization_id = e.organization_id) AND (h.job_id = e.job_id) AND (h.dataset_id = e.target_id) AND (h.role = 'output'::text))));

ALTER VIEW headgate.column_lineage OWNER TO headgate_owner;

CREATE TABLE headgate.content_epochs (
    organization_id uuid NOT NULL,
    epoch bigint NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY headgate.content_epochs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.content_epochs OWNER TO headgate_owner;

CREATE TABLE headgate.schema_versions (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    version integer NOT NULL,
    schema_hash bytea NOT NULL,
    fields jsonb NOT NULL,
    run_id uuid,
    job_id uuid,
    columns_added text[] NOT NULL,
    columns_removed text[] NOT NULL,
    columns_type_changed text[] NOT NULL,
    change_type text NOT NULL,
    description text NOT NULL,
    breaking boolean NOT NULL,
    client_hash text,
    valid_from timestamp with time zone NOT NULL,
    valid_to timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    column_count integer,
    CONSTRAINT schema_versions_change_type_check CHECK ((change_type = ANY (ARRAY['INITIAL'::text, 'ADDED_COLUMN'::text, 'DROPPED_COLUMN'::text, 'TYPE_CHANGE'::text, 'NULLABILITY'::text, 'REORDERED'::text, 'MIXED'::text])))
);

ALTER TABLE ONLY headgate.schema_versions FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.schema_versions OWNER TO headgate_owner;

CREATE VIEW headgate.current_schemas AS
 SELECT d.organization_id,
    d.id AS dataset_id,
    d.namespace,
    d.name,
    v.version,
    v.fields,
    v.valid_from
   FROM (headgate.datasets d
     JOIN headgate.schema_versions v ON (((v.organization_id = d.organization_id) AND (v.dataset_id = d.id))))
  WHERE ((v.valid_to IS NULL) AND (d.merged_into IS NULL));

ALTER VIEW headgate.current_schemas OWNER TO headgate_owner;

CREATE TABLE headgate.dataset_aliases (
    organization_id uuid NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    dataset_id uuid NOT NULL,
    source text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dataset_aliases_source_check CHECK ((source = ANY (ARRAY['primary'::text, 'symlink'::text, 'rule'::text, 'merge'::text])))
);

ALTER TABLE ONLY headgate.dataset_aliases FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_aliases OWNER TO headgate_owner;

CREATE TABLE headgate.dataset_facets (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    name text NOT NULL,
    body jsonb NOT NULL,
    event_time timestamp with time zone NOT NULL,
    job_id uuid,
    role text,
    facets_hash bigint
);

ALTER TABLE ONLY headgate.dataset_facets FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_facets OWNER TO headgate_owner;

CREATE TABLE headgate.dataset_merge_rows (
    organization_id uuid NOT NULL,
    merge_id uuid NOT NULL,
    id bigint NOT NULL,
    table_name text NOT NULL,
    original jsonb,
    result jsonb,
    CONSTRAINT dataset_merge_rows_check CHECK (((original IS NOT NULL) OR (result IS NOT NULL)))
);

ALTER TABLE ONLY headgate.dataset_merge_rows FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_merge_rows OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.dataset_merge_rows.result IS 'The row as the merge left it; NULL if it removed it';

ALTER TABLE headgate.dataset_merge_rows ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.dataset_merge_rows_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE headgate.dataset_merges ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.dataset_merges_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.dataset_metrics (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    measured_at timestamp with time zone NOT NULL,
    run_id uuid NOT NULL,
    direction text NOT NULL,
    job_id uuid,
    row_count bigint,
    byte_size bigint,
    file_count bigint,
    partition_count bigint,
    partition_key text DEFAULT ''::text NOT NULL,
    columns jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    verdicts jsonb,
    anomalous text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT dataset_metrics_direction_check CHECK ((direction = ANY (ARRAY['input'::text, 'output'::text, 'profile'::text])))
)
PARTITION BY RANGE (measured_at);

ALTER TABLE ONLY headgate.dataset_metrics FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_metrics OWNER TO headgate_owner;

COMMENT ON TABLE headgate.dataset_metrics IS 'The metrics of a run lie between its first and last event. No foreign key, for the same reason as in job_runs';

COMMENT ON COLUMN headgate.dataset_metrics.partition_key IS 'The path with its time-like parts open, so that two countries are judged apart; empty for what has no partitions';

COMMENT ON COLUMN headgate.dataset_metrics.verdicts IS 'By metric, or metric:column: the band that was expected, and what was made of the value; NULL before it is judged';

COMMENT ON COLUMN headgate.dataset_metrics.anomalous IS 'Metrics that are no part of what is usual; `run` if the run did not complete, which keeps all of them out';

CREATE TABLE headgate.dataset_metrics_default (
    organization_id uuid CONSTRAINT dataset_metrics_organization_id_not_null NOT NULL,
    dataset_id uuid CONSTRAINT dataset_metrics_dataset_id_not_null NOT NULL,
    measured_at timestamp with time zone CONSTRAINT dataset_metrics_measured_at_not_null NOT NULL,
    run_id uuid CONSTRAINT dataset_metrics_run_id_not_null NOT NULL,
    direction text CONSTRAINT dataset_metrics_direction_not_null NOT NULL,
    job_id uuid,
    row_count bigint,
    byte_size bigint,
    file_count bigint,
    partition_count bigint,
    partition_key text DEFAULT ''::text CONSTRAINT dataset_metrics_partition_key_not_null NOT NULL,
    columns jsonb,
    created_at timestamp with time zone DEFAULT now() CONSTRAINT dataset_metrics_created_at_not_null NOT NULL,
    verdicts jsonb,
    anomalous text[] DEFAULT '{}'::text[] CONSTRAINT dataset_metrics_anomalous_not_null NOT NULL,
    CONSTRAINT dataset_metrics_direction_check CHECK ((direction = ANY (ARRAY['input'::text, 'output'::text, 'profile'::text])))
);

ALTER TABLE ONLY headgate.dataset_metrics_default FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_metrics_default OWNER TO headgate_owner;

CREATE TABLE headgate.dataset_notes (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    column_name text DEFAULT ''::text NOT NULL,
    description text,
    owners text[],
    updated_by uuid,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY headgate.dataset_notes FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_notes OWNER TO headgate_owner;

COMMENT ON TABLE headgate.dataset_notes IS 'What people wrote; each part that is not NULL is shown in place of the facet''s';

CREATE TABLE headgate.dataset_stats (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    last_written_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    row_count bigint DEFAULT '-1'::integer NOT NULL,
    byte_size bigint,
    measured_at timestamp with time zone,
    measured_by text,
    producer_count integer DEFAULT 0 NOT NULL,
    upstream_count integer DEFAULT 0 NOT NULL,
    downstream_count integer DEFAULT 0 NOT NULL,
    failing_tests integer DEFAULT 0 NOT NULL,
    oldest_first timestamp with time zone GENERATED ALWAYS AS (
CASE
    WHEN (last_written_at = '-infinity'::timestamp with time zone) THEN 'infinity'::timestamp with time zone
    ELSE last_written_at
END) STORED,
    fewest_first bigint GENERATED ALWAYS AS (
CASE
    WHEN (row_count < 0) THEN '9223372036854775807'::bigint
    ELSE row_count
END) STORED,
    open_incidents integer DEFAULT 0 NOT NULL,
    CONSTRAINT dataset_stats_measured_by_check CHECK ((measured_by = ANY (ARRAY['output'::text, 'profile'::text])))
)
WITH (fillfactor='75');

ALTER TABLE ONLY headgate.dataset_stats FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_stats OWNER TO headgate_owner;

COMMENT ON TABLE headgate.dataset_stats IS 'One row a dataset that is not merged away. Call settle_dataset_stats before reading it';

COMMENT ON COLUMN headgate.dataset_stats.last_written_at IS 'When a run that wrote it last completed; -infinity if none has';

COMMENT ON COLUMN headgate.dataset_stats.row_count IS 'Of the run that measured it last, over all partitions; -1 if unknown';

COMMENT ON COLUMN headgate.dataset_stats.measured_by IS 'What a writer says comes before what a profile says, however new';

COMMENT ON COLUMN headgate.dataset_stats.upstream_count IS 'Datasets it is made of directly, as lineage shows them';

COMMENT ON COLUMN headgate.dataset_stats.failing_tests IS 'Tests of severity error whose latest result is failed or error';

COMMENT ON COLUMN headgate.dataset_stats.oldest_first IS 'As last_written_at, but unknown last; as fewest_first is row_count';

COMMENT ON COLUMN headgate.dataset_stats.open_incidents IS 'Incidents with an open symptom on it that nobody has muted';

CREATE TABLE headgate.dataset_stats_notes (
    id bigint NOT NULL,
    organization_id uuid NOT NULL,
    payload jsonb NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY headgate.dataset_stats_notes FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_stats_notes OWNER TO headgate_owner;

ALTER TABLE headgate.dataset_stats_notes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.dataset_stats_notes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.dataset_tags (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    column_name text DEFAULT ''::text NOT NULL,
    tag text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL,
    created_by uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT dataset_tags_source_check CHECK ((source = ANY (ARRAY['user'::text, 'facet'::text])))
);

ALTER TABLE ONLY headgate.dataset_tags FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_tags OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.dataset_tags.column_name IS 'Empty for a tag of the dataset itself';

COMMENT ON COLUMN headgate.dataset_tags.source IS 'Those of the facet come and go with it; people''s stay';

COMMENT ON COLUMN headgate.dataset_tags.created_at IS 'For a tag of the facet the time of the event that the facet is from';

CREATE TABLE headgate.detection_policies (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    dataset_id uuid,
    pattern text COLLATE pg_catalog."C",
    metric text DEFAULT ''::text NOT NULL,
    description text,
    enabled boolean NOT NULL,
    method text NOT NULL,
    sigma double precision NOT NULL,
    min_points integer NOT NULL,
    window_days integer NOT NULL,
    drop_share double precision,
    floor_share double precision,
    seasonality text NOT NULL,
    small_sample boolean NOT NULL,
    spike_severity text,
    drop_severity text,
    created_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT detection_policies_check CHECK (((dataset_id IS NULL) <> (pattern IS NULL))),
    CONSTRAINT detection_policies_drop_severity_check CHECK ((drop_severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text]))),
    CONSTRAINT detection_policies_drop_share_check CHECK (((drop_share > (0)::double precision) AND (drop_share <= (1)::double precision))),
    CONSTRAINT detection_policies_floor_share_check CHECK ((floor_share >= (0)::double precision)),
    CONSTRAINT detection_policies_method_check CHECK ((method = ANY (ARRAY['sigma'::text, 'percentile'::text]))),
    CONSTRAINT detection_policies_min_points_check CHECK ((min_points >= 2)),
    CONSTRAINT detection_policies_seasonality_check CHECK ((seasonality = ANY (ARRAY['auto'::text, 'off'::text]))),
    CONSTRAINT detection_policies_sigma_check CHECK ((sigma > (0)::double precision)),
    CONSTRAINT detection_policies_spike_severity_check CHECK ((spike_severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text]))),
    CONSTRAINT detection_policies_window_days_check CHECK (((window_days >= 1) AND (window_days <= 365)))
);

ALTER TABLE ONLY headgate.detection_policies FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.detection_policies OWNER TO headgate_owner;

COMMENT ON TABLE headgate.detection_policies IS 'How series are judged. Of several that fit, that of the dataset counts, else the longest pattern, then the metric';

COMMENT ON COLUMN headgate.detection_policies.pattern IS 'The beginning of names, followed by *; or * alone for all';

COMMENT ON COLUMN headgate.detection_policies.metric IS 'Empty for all metrics';

COMMENT ON COLUMN headgate.detection_policies.drop_share IS 'NULL for a half with exceptions; what is set has none';

CREATE TABLE headgate.earlier_anomalies (
    organization_id uuid NOT NULL,
    read_until bigint DEFAULT 0 NOT NULL,
    last_id bigint NOT NULL
);

ALTER TABLE ONLY headgate.earlier_anomalies FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.earlier_anomalies OWNER TO headgate_owner;

COMMENT ON TABLE headgate.earlier_anomalies IS 'Events of the log that may tell of anomalies and came before anybody read those';

CREATE TABLE headgate.email_settings (
    organization_id uuid NOT NULL,
    backend text NOT NULL,
    host text,
    port integer,
    tls text NOT NULL,
    username text,
    password jsonb,
    sender text,
    email_to text[] DEFAULT '{}'::text[] NOT NULL,
    email_cc text[] DEFAULT '{}'::text[] NOT NULL,
    subject_template text,
    updated_by text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT email_settings_backend_check CHECK ((backend = ANY (ARRAY['console'::text, 'smtp'::text, 'gmail'::text]))),
    CONSTRAINT email_settings_port_check CHECK (((port >= 1) AND (port <= 65535))),
    CONSTRAINT email_settings_tls_check CHECK ((tls = ANY (ARRAY['none'::text, 'starttls'::text, 'tls'::text])))
);

ALTER TABLE ONLY headgate.email_settings FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.email_settings OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.email_settings.password IS 'As secrets in alert_rules.channel_config';

COMMENT ON COLUMN headgate.email_settings.email_to IS 'For rules that name nobody; as the columns after it';

CREATE TABLE headgate.ended_sessions (
    organization_id uuid NOT NULL,
    session_id uuid NOT NULL,
    expires_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.ended_sessions FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.ended_sessions OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.ended_sessions.expires_at IS 'When the token expires by itself and this row may go';

CREATE TABLE headgate.expected_marks (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    dataset_id uuid NOT NULL,
    metric text,
    column_name text,
    partition_key text,
    kind text NOT NULL,
    at timestamp with time zone,
    weekday smallint,
    until timestamp with time zone,
    side text,
    note text,
    anomaly_id uuid,
    created_by text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT expected_marks_check CHECK (
CASE kind
    WHEN 'once'::text THEN (at IS NOT NULL)
    WHEN 'weekday'::text THEN (weekday IS NOT NULL)
    ELSE (until IS NOT NULL)
END),
    CONSTRAINT expected_marks_kind_check CHECK ((kind = ANY (ARRAY['once'::text, 'weekday'::text, 'until'::text]))),
    CONSTRAINT expected_marks_side_check CHECK ((side = ANY (ARRAY['spike'::text, 'drop'::text]))),
    CONSTRAINT expected_marks_weekday_check CHECK (((weekday >= 0) AND (weekday <= 6)))
);

ALTER TABLE ONLY headgate.expected_marks FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.expected_marks OWNER TO headgate_owner;

COMMENT ON TABLE headgate.expected_marks IS 'What a person said to expect; what is NULL of metric, column, partition and side is any';

COMMENT ON COLUMN headgate.expected_marks.weekday IS '0 is Monday, in UTC';

CREATE TABLE headgate.freshness_sla (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    sla_hours numeric NOT NULL,
    last_updated_at timestamp with time zone,
    is_stale boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    source text DEFAULT 'user'::text NOT NULL,
    told_at timestamp with time zone,
    CONSTRAINT freshness_sla_sla_hours_check CHECK ((sla_hours > (0)::numeric)),
    CONSTRAINT freshness_sla_source_check CHECK ((source = ANY (ARRAY['user'::text, 'pipeline'::text])))
);

ALTER TABLE ONLY headgate.freshness_sla FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.freshness_sla OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.freshness_sla.told_at IS 'End of the run that said so; NULL where a person did';

CREATE TABLE headgate.idempotency_keys (
    organization_id uuid NOT NULL,
    key bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY headgate.idempotency_keys FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.idempotency_keys OWNER TO headgate_owner;

CREATE TABLE headgate.incidents (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    number bigint NOT NULL,
    title text NOT NULL,
    status text DEFAULT 'open'::text NOT NULL,
    severity text NOT NULL,
    kind text NOT NULL,
    dataset_id uuid,
    column_name text,
    job_id uuid,
    run_id uuid,
    opened_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    acknowledged_at timestamp with time zone,
    acknowledged_by text,
    resolved_at timestamp with time zone,
    resolved_by text,
    resolution text,
    muted_until timestamp with time zone,
    reopened_at timestamp with time zone,
    assignee text,
    root_cause text,
    cause jsonb DEFAULT '{}'::jsonb NOT NULL,
    confidence real DEFAULT 0 NOT NULL,
    cause_run_id uuid,
    cause_job_id uuid,
    cause_dataset_id uuid,
    root_by text DEFAULT 'headgate'::text NOT NULL,
    root_is_manual boolean DEFAULT false NOT NULL,
    is_orphan boolean DEFAULT false NOT NULL,
    merged_into uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT incidents_severity_check CHECK ((severity = ANY (ARRAY['INFO'::text, 'WARNING'::text, 'CRITICAL'::text]))),
    CONSTRAINT incidents_status_check CHECK ((status = ANY (ARRAY['open'::text, 'acknowledged'::text, 'resolved'::text, 'muted'::text])))
)
WITH (fillfactor='80');

ALTER TABLE ONLY headgate.incidents FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.incidents OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.incidents.kind IS 'The type of the symptom that it is told by; as are dataset, column, job and run';

COMMENT ON COLUMN headgate.incidents.run_id IS 'The run that had produced the data by then, or the run that failed';

COMMENT ON COLUMN headgate.incidents.opened_at IS 'When the first symptom was observed, by the clock of whoever observed it';

COMMENT ON COLUMN headgate.incidents.reopened_at IS 'Only what was observed later may resolve it by itself';

COMMENT ON COLUMN headgate.incidents.root_by IS 'Who chose the cause';

COMMENT ON COLUMN headgate.incidents.root_is_manual IS 'Somebody chose the cause; then it stays';

COMMENT ON COLUMN headgate.incidents.is_orphan IS 'Its dataset has no known producer';

CREATE TABLE headgate.jobs (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    job_type text,
    processing_type text,
    integration text,
    facets jsonb DEFAULT '{}'::jsonb NOT NULL,
    facets_hash bigint,
    facets_at timestamp with time zone,
    first_seen_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.jobs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.jobs OWNER TO headgate_owner;

COMMENT ON TABLE headgate.jobs IS 'Changes only when what a job says of itself does; when it last ran is read from job_runs, so a busy job is no busy row';

CREATE TABLE headgate.test_results (
    organization_id uuid NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    run_id uuid NOT NULL,
    job_id uuid,
    dataset_id uuid,
    test_key text NOT NULL,
    name text NOT NULL,
    assertion text,
    column_name text,
    status text NOT NULL,
    severity text NOT NULL,
    expected text,
    actual text,
    description text,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    sent_urn text,
    CONSTRAINT test_results_severity_check CHECK ((severity = ANY (ARRAY['warn'::text, 'error'::text]))),
    CONSTRAINT test_results_status_check CHECK ((status = ANY (ARRAY['passed'::text, 'failed'::text, 'error'::text, 'skipped'::text])))
);

ALTER TABLE ONLY headgate.test_results FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.test_results OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.test_results.sent_urn IS 'The dataset as whoever tested it spells it, where that is not its canonical urn';

CREATE VIEW headgate.incident_correlation_view AS
 SELECT t.organization_id,
    t.id AS test_result_id,
    t.name AS test_name,
    t.status AS test_status,
    t.severity,
    t.column_name,
    t.observed_at AS test_executed_at,
    t.dataset_id,
    COALESCE(t.sent_urn, ((d.namespace || '/'::text) || d.name)) AS dataset_urn,
    ((d.namespace || '/'::text) || d.name) AS canonical_urn,
    p.run_id,
    p.state AS job_status,
    p.started_at AS job_started_at,
    p.ended_at AS job_completed_at,
    j.namespace AS job_namespace,
    j.name AS job_name,
    headgate.producer_name(p.producer) AS producer_name,
    s.incident_id,
    COALESCE(
        CASE
            WHEN s.root_is_manual THEN s.incident_cause
            ELSE NULL::text
        END, s.root_cause,
        CASE
            WHEN (p.run_id IS NULL) THEN format('No known job produces dataset ''%s'', which failed test ''%s'''::text, d.name, t.name)
            ELSE format('Job ''%s'' produced dataset ''%s'' which failed test ''%s'''::text, j.name, d.name, t.name)
        END) AS root_cause
   FROM ((((headgate.test_results t
     JOIN headgate.datasets d ON (((d.organization_id = t.organization_id) AND (d.id = t.dataset_id))))
     LEFT JOIN LATERAL headgate.producing_run(t.organization_id, t.dataset_id, t.observed_at, t.run_id) p(run_id, job_id, state, started_at, ended_at, producer) ON (true))
     LEFT JOIN headgate.jobs j ON (((j.organization_id = t.organization_id) AND (j.id = p.job_id))))
     LEFT JOIN LATERAL ( SELECT x.incident_id,
            x.root_cause,
            i.root_is_manual,
            i.root_cause AS incident_cause
           FROM (headgate.incident_symptoms x
             JOIN headgate.incidents i ON (((i.organization_id = t.organization_id) AND (i.id = x.incident_id))))
          WHERE ((x.organization_id = t.organization_id) AND (x.key = concat('test:', t.dataset_id, ':', t.test_key)) AND (x.observed_at <= t.observed_at) AND (x.last_observed_at >= t.observed_at))
          ORDER BY x.observed_at DESC
         LIMIT 1) s ON (true))
  WHERE (t.status = ANY (ARRAY['failed'::text, 'error'::text]));

ALTER VIEW headgate.incident_correlation_view OWNER TO headgate_owner;

CREATE TABLE headgate.incident_events (
    organization_id uuid NOT NULL,
    id bigint NOT NULL,
    incident_id uuid NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    kind text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY headgate.incident_events FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_events OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.incident_events.actor IS 'A person, a key, or headgate itself';

ALTER TABLE headgate.incident_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.incident_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.incident_paths (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    incident_id uuid NOT NULL,
    role text NOT NULL,
    CONSTRAINT incident_paths_role_check CHECK ((role = ANY (ARRAY['own'::text, 'above'::text, 'upstream'::text])))
);

ALTER TABLE ONLY headgate.incident_paths FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_paths OWNER TO headgate_owner;

CREATE TABLE headgate.ingest_hours (
    organization_id uuid NOT NULL,
    hour timestamp with time zone NOT NULL,
    producer text NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    backend integer NOT NULL,
    events bigint NOT NULL,
    first_id bigint,
    last_id bigint,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    ahead bigint NOT NULL,
    max_ahead interval NOT NULL,
    late bigint NOT NULL,
    max_late interval NOT NULL,
    CONSTRAINT ingest_hours_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'refused'::text])))
)
WITH (fillfactor='50');

ALTER TABLE ONLY headgate.ingest_hours FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.ingest_hours OWNER TO headgate_owner;

COMMENT ON TABLE headgate.ingest_hours IS 'Events by the hour in which they were received, those that were refused included';

COMMENT ON COLUMN headgate.ingest_hours.producer IS 'Its first 500 characters; empty where a refused body names none';

COMMENT ON COLUMN headgate.ingest_hours.reason IS 'Empty for accepted events';

COMMENT ON COLUMN headgate.ingest_hours.backend IS 'Process id of the connection that counted';

COMMENT ON COLUMN headgate.ingest_hours.first_id IS 'Lowest id in lineage_events; NULL for what never became a row of it';

COMMENT ON COLUMN headgate.ingest_hours.ahead IS 'Events that were received more than 5 seconds before their own time';

COMMENT ON COLUMN headgate.ingest_hours.late IS 'Events that were received more than an hour after their own time';

CREATE TABLE headgate.ingest_marks (
    organization_id uuid NOT NULL,
    hour timestamp with time zone NOT NULL,
    producer text NOT NULL,
    mark text NOT NULL,
    backend integer NOT NULL,
    events bigint NOT NULL,
    last_id bigint NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE ONLY headgate.ingest_marks FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.ingest_marks OWNER TO headgate_owner;

COMMENT ON TABLE headgate.ingest_marks IS 'Accepted events by what the log notes of them, counted as in ingest_hours';

CREATE TABLE headgate.invites (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    organization_id uuid NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    token_hash bytea NOT NULL,
    created_by uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    accepted_at timestamp with time zone,
    CONSTRAINT invites_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'editor'::text, 'viewer'::text])))
);

ALTER TABLE ONLY headgate.invites FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.invites OWNER TO headgate_owner;

CREATE TABLE headgate.job_versions (
    organization_id uuid NOT NULL,
    job_id uuid NOT NULL,
    version integer NOT NULL,
    code_hash text NOT NULL,
    changed text[] NOT NULL,
    code_version text,
    seen_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.job_versions FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_versions OWNER TO headgate_owner;

COMMENT ON TABLE headgate.job_versions IS 'When the SQL or the code of a job was first seen as it then was';

COMMENT ON COLUMN headgate.job_versions.changed IS 'What is other than before; empty for the first one';

CREATE VIEW headgate.latest_test_results AS
 SELECT DISTINCT ON (r.organization_id, r.dataset_id, r.test_key) r.organization_id,
    r.dataset_id,
    ((d.namespace || '/'::text) || d.name) AS dataset_urn,
    r.name,
    r.assertion,
    r.column_name,
    r.status,
    r.severity,
    r.run_id,
    r.observed_at
   FROM (headgate.test_results r
     LEFT JOIN headgate.datasets d ON (((d.organization_id = r.organization_id) AND (d.id = r.dataset_id))))
  ORDER BY r.organization_id, r.dataset_id, r.test_key, r.observed_at DESC;

ALTER VIEW headgate.latest_test_results OWNER TO headgate_owner;

CREATE TABLE headgate.lineage_edges (
    organization_id uuid NOT NULL,
    source_id uuid NOT NULL,
    target_id uuid NOT NULL,
    job_id uuid NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    last_completed_at timestamp with time zone,
    last_run_id uuid
)
WITH (fillfactor='75');

ALTER TABLE ONLY headgate.lineage_edges FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_edges OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.lineage_edges.last_completed_at IS 'NULL while only failed or unfinished runs have shown this edge';

CREATE SEQUENCE headgate.lineage_event_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE headgate.lineage_event_id OWNER TO headgate_owner;

CREATE TABLE headgate.lineage_events (
    organization_id uuid NOT NULL,
    id bigint DEFAULT nextval('headgate.lineage_event_id'::regclass) NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    kind text NOT NULL,
    event_type text,
    event_time timestamp with time zone NOT NULL,
    run_id uuid,
    job_id uuid,
    producer text NOT NULL,
    tenant_code text NOT NULL,
    outcome text NOT NULL,
    reason text,
    marks text[] DEFAULT '{}'::text[] NOT NULL,
    raw bytea NOT NULL,
    CONSTRAINT lineage_events_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'dataset'::text, 'job'::text]))),
    CONSTRAINT lineage_events_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'refused'::text])))
)
PARTITION BY RANGE (received_at);

ALTER TABLE ONLY headgate.lineage_events FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_events OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.lineage_events.raw IS 'The event exactly as it came, zstd-compressed';

CREATE TABLE headgate.lineage_events_default (
    organization_id uuid CONSTRAINT lineage_events_organization_id_not_null NOT NULL,
    id bigint DEFAULT nextval('headgate.lineage_event_id'::regclass) CONSTRAINT lineage_events_id_not_null NOT NULL,
    received_at timestamp with time zone DEFAULT now() CONSTRAINT lineage_events_received_at_not_null NOT NULL,
    kind text CONSTRAINT lineage_events_kind_not_null NOT NULL,
    event_type text,
    event_time timestamp with time zone CONSTRAINT lineage_events_event_time_not_null NOT NULL,
    run_id uuid,
    job_id uuid,
    producer text CONSTRAINT lineage_events_producer_not_null NOT NULL,
    tenant_code text CONSTRAINT lineage_events_tenant_code_not_null NOT NULL,
    outcome text CONSTRAINT lineage_events_outcome_not_null NOT NULL,
    reason text,
    marks text[] DEFAULT '{}'::text[] CONSTRAINT lineage_events_marks_not_null NOT NULL,
    raw bytea CONSTRAINT lineage_events_raw_not_null NOT NULL,
    CONSTRAINT lineage_events_kind_check CHECK ((kind = ANY (ARRAY['run'::text, 'dataset'::text, 'job'::text]))),
    CONSTRAINT lineage_events_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'refused'::text])))
);

ALTER TABLE ONLY headgate.lineage_events_default FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_events_default OWNER TO headgate_owner;

CREATE VIEW headgate.lineage_graph AS
 SELECT e.organization_id,
    e.source_id,
    ((s.namespace || '/'::text) || s.name) AS source_urn,
    e.target_id,
    ((t.namespace || '/'::text) || t.name) AS target_urn,
    j.namespace AS job_namespace,
    j.name AS job_name,
    e.first_seen_at,
    e.last_seen_at,
    e.last_completed_at
   FROM (((headgate.lineage_edges e
     JOIN headgate.datasets s ON (((s.organization_id = e.organization_id) AND (s.id = e.source_id))))
     JOIN headgate.datasets t ON (((t.organization_id = e.organization_id) AND (t.id = e.target_id))))
     JOIN headgate.jobs j ON (((j.organization_id = e.organization_id) AND (j.id = e.job_id))));

ALTER VIEW headgate.lineage_graph OWNER TO headgate_owner;

CREATE VIEW headgate.lineage_impact_analysis AS
 SELECT d.organization_id,
    d.id AS dataset_id,
    ((d.namespace || '/'::text) || d.name) AS dataset_urn,
    i.dataset_id AS impacted_id,
    ((t.namespace || '/'::text) || t.name) AS impacted_urn,
    i.depth
   FROM ((headgate.datasets d
     CROSS JOIN LATERAL headgate.downstream_of(d.id) i(dataset_id, depth))
     JOIN headgate.datasets t ON (((t.organization_id = d.organization_id) AND (t.id = i.dataset_id))))
  WHERE (d.merged_into IS NULL);

ALTER VIEW headgate.lineage_impact_analysis OWNER TO headgate_owner;

CREATE TABLE headgate.name_patterns (
    organization_id uuid NOT NULL,
    name text NOT NULL,
    regex text NOT NULL,
    kind text NOT NULL,
    enabled boolean NOT NULL,
    CONSTRAINT name_patterns_kind_check CHECK ((kind = ANY (ARRAY['time'::text, 'geo'::text, 'region'::text, 'environment'::text, 'key_value'::text])))
);

ALTER TABLE ONLY headgate.name_patterns FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.name_patterns OWNER TO headgate_owner;

CREATE TABLE headgate.node_runs (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    pipeline_run_id uuid,
    project text NOT NULL COLLATE pg_catalog."C",
    pipeline text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    attempt integer DEFAULT 1 NOT NULL,
    status text DEFAULT 'running'::text NOT NULL,
    rows_in bigint DEFAULT 0 NOT NULL,
    rows_valid bigint DEFAULT 0 NOT NULL,
    rows_quarantined bigint DEFAULT 0 NOT NULL,
    rows_published bigint DEFAULT 0 NOT NULL,
    gate jsonb,
    tests integer DEFAULT 0 NOT NULL,
    passed_tests integer DEFAULT 0 NOT NULL,
    failed_tests integer DEFAULT 0 NOT NULL,
    output_urn text,
    output_label text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    handles_batch boolean DEFAULT false NOT NULL,
    told_at timestamp with time zone,
    told_rank smallint,
    record jsonb NOT NULL,
    CONSTRAINT node_runs_status_check CHECK ((status = ANY (ARRAY['running'::text, 'published'::text, 'stopped'::text, 'failed'::text, 'skipped'::text])))
);

ALTER TABLE ONLY headgate.node_runs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.node_runs OWNER TO headgate_owner;

COMMENT ON TABLE headgate.node_runs IS 'One row an attempt of a node';

COMMENT ON COLUMN headgate.node_runs.handles_batch IS 'Whether it dealt with a quarantine batch of an earlier run: it is no part of the node''s history';

COMMENT ON COLUMN headgate.node_runs.told_at IS 'As in pipeline_runs';

COMMENT ON COLUMN headgate.node_runs.record IS 'The facet of the event that ended it or, before that, of the first';

CREATE SEQUENCE headgate.organization_tenant_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE headgate.organization_tenant_id OWNER TO headgate_owner;

CREATE TABLE headgate.organizations (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    slug text NOT NULL,
    tenant_id bigint DEFAULT nextval('headgate.organization_tenant_id'::regclass) NOT NULL,
    tenant_code text NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY headgate.organizations FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.organizations OWNER TO headgate_owner;

CREATE TABLE headgate.pipeline_alerts (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    alert_key bytea NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    pipeline text NOT NULL COLLATE pg_catalog."C",
    node text,
    event text NOT NULL,
    channel text NOT NULL,
    outcome text NOT NULL,
    reason text,
    message text,
    sent_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.pipeline_alerts FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_alerts OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.pipeline_alerts.alert_key IS 'Hash of all it says: every event of a run may tell of it again';

CREATE TABLE headgate.pipeline_runs (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    pipeline text NOT NULL COLLATE pg_catalog."C",
    environment text,
    file text,
    status text DEFAULT 'running'::text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    published_nodes integer DEFAULT 0 NOT NULL,
    stopped_nodes integer DEFAULT 0 NOT NULL,
    failed_nodes integer DEFAULT 0 NOT NULL,
    skipped_nodes integer DEFAULT 0 NOT NULL,
    running_nodes integer DEFAULT 0 NOT NULL,
    rows_in bigint DEFAULT 0 NOT NULL,
    rows_quarantined bigint DEFAULT 0 NOT NULL,
    rows_published bigint DEFAULT 0 NOT NULL,
    told_at timestamp with time zone,
    told_rank smallint,
    record jsonb,
    CONSTRAINT pipeline_runs_status_check CHECK ((status = ANY (ARRAY['running'::text, 'published'::text, 'stopped'::text, 'failed'::text, 'skipped'::text])))
);

ALTER TABLE ONLY headgate.pipeline_runs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_runs OWNER TO headgate_owner;

COMMENT ON TABLE headgate.pipeline_runs IS 'One row a run of a pipeline; made by the first event of it or of one of its nodes';

COMMENT ON COLUMN headgate.pipeline_runs.published_nodes IS 'Nodes by how their latest attempt ended; as the columns after it';

COMMENT ON COLUMN headgate.pipeline_runs.rows_in IS 'Over the latest attempts of all nodes; as the columns after it';

COMMENT ON COLUMN headgate.pipeline_runs.told_at IS 'Time of the event that ended it: of several the earliest counts';

COMMENT ON COLUMN headgate.pipeline_runs.told_rank IS 'Of events of the same time FAIL (0), ABORT (1), COMPLETE (2)';

COMMENT ON COLUMN headgate.pipeline_runs.record IS 'The facet of that event; NULL while only nodes were heard of';

CREATE TABLE headgate.pipeline_watermarks (
    organization_id uuid NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    pipeline text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    column_name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL,
    run_id uuid NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.pipeline_watermarks FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_watermarks OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.pipeline_watermarks.updated_at IS 'End of the published run that it is from, the latest there is';

CREATE TABLE headgate.quarantine_batches (
    organization_id uuid NOT NULL,
    project text NOT NULL COLLATE pg_catalog."C",
    pipeline text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    batch_id text NOT NULL COLLATE pg_catalog."C",
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    run_id uuid NOT NULL,
    location text NOT NULL,
    dataset_urn text NOT NULL,
    rows bigint NOT NULL,
    failed_tests jsonb NOT NULL,
    rejected_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    made_at timestamp with time zone,
    state text NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by uuid NOT NULL,
    CONSTRAINT quarantine_batches_state_check CHECK ((state = ANY (ARRAY['open'::text, 'replayed'::text, 'discarded'::text, 'expired'::text, 'gate_aborted'::text])))
);

ALTER TABLE ONLY headgate.quarantine_batches FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.quarantine_batches OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.quarantine_batches.id IS 'For cursors only';

COMMENT ON COLUMN headgate.quarantine_batches.made_at IS 'End of the run that wrote it, the last of them if it was written again; NULL while only a change was heard of';

COMMENT ON COLUMN headgate.quarantine_batches.changed_at IS 'End of the run that the state is from: of several the latest counts';

CREATE VIEW headgate.recent_anomalies AS
 SELECT d.name AS dataset_name,
    a.anomaly_type,
    a.severity,
    a.detected_at,
    a.status,
    a.description,
    a.organization_id
   FROM (headgate.anomalies a
     JOIN headgate.datasets d ON (((d.organization_id = a.organization_id) AND (d.id = a.dataset_id))))
  WHERE (a.detected_at > (now() - '7 days'::interval))
  ORDER BY a.detected_at DESC;

ALTER VIEW headgate.recent_anomalies OWNER TO headgate_owner;

CREATE VIEW headgate.recent_incidents_summary AS
 SELECT s.organization_id,
    s.dataset_id,
    ((d.namespace || '/'::text) || d.name) AS dataset_urn,
    count(DISTINCT i.id) AS incidents,
    count(DISTINCT i.id) FILTER (WHERE (i.status <> 'resolved'::text)) AS open_incidents,
    count(DISTINCT s.key) FILTER (WHERE (s.type = 'TestFailed'::text)) AS failed_tests,
    COALESCE(sum(s.count) FILTER (WHERE (s.type = 'TestFailed'::text)), (0)::bigint) AS failures,
    LEAST(min(s.observed_at), now()) AS first_failed_at,
    LEAST(max(s.last_observed_at), now()) AS last_failed_at
   FROM ((headgate.incident_symptoms s
     JOIN headgate.incidents i ON (((i.organization_id = s.organization_id) AND (i.id = s.incident_id))))
     JOIN headgate.datasets d ON (((d.organization_id = s.organization_id) AND (d.id = s.dataset_id))))
  WHERE ((i.last_seen_at > (now() - '7 days'::interval)) AND (s.last_observed_at > (now() - '7 days'::interval)))
  GROUP BY s.organization_id, s.dataset_id, d.namespace, d.name;

ALTER VIEW headgate.recent_incidents_summary OWNER TO headgate_owner;

CREATE TABLE headgate.refused_events (
    id bigint NOT NULL,
    organization_id uuid NOT NULL,
    received_at timestamp with time zone DEFAULT now() NOT NULL,
    route text NOT NULL,
    code text NOT NULL,
    reason text NOT NULL,
    producer text,
    errors jsonb DEFAULT '[]'::jsonb NOT NULL,
    body bytea NOT NULL,
    body_size bigint NOT NULL,
    correlation_id text NOT NULL
);

ALTER TABLE ONLY headgate.refused_events FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.refused_events OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.refused_events.body IS 'First 64 KB of what was refused, as it came';

ALTER TABLE headgate.refused_events ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.refused_events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE headgate.schema_migrations OWNER TO headgate_owner;

CREATE TABLE headgate.search_columns (
    organization_id uuid NOT NULL,
    column_id uuid NOT NULL,
    dataset_id uuid NOT NULL
);

ALTER TABLE ONLY headgate.search_columns FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_columns OWNER TO headgate_owner;

CREATE TABLE headgate.search_entries (
    organization_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    body text NOT NULL,
    keys text[] NOT NULL,
    columns text[] NOT NULL,
    CONSTRAINT search_entries_kind_check CHECK ((kind = ANY (ARRAY['dataset'::text, 'column'::text, 'job'::text, 'pipeline'::text])))
);

ALTER TABLE ONLY headgate.search_entries FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_entries OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.search_entries.id IS 'Of columns and pipelines, a digest of the name: the same name is one entry';

COMMENT ON COLUMN headgate.search_entries.body IS 'All words of all its names';

COMMENT ON COLUMN headgate.search_entries.keys IS 'Its rows in search_tails, each as rank and tail, by which they are found again';

CREATE TABLE headgate.search_pending (
    organization_id uuid NOT NULL,
    place bigint NOT NULL,
    kind text NOT NULL,
    id uuid NOT NULL,
    CONSTRAINT search_pending_kind_check CHECK ((kind = ANY (ARRAY['dataset'::text, 'job'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE ONLY headgate.search_pending FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_pending OWNER TO headgate_owner;

ALTER TABLE headgate.search_pending ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME headgate.search_pending_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE headgate.search_suffixes (
    organization_id uuid NOT NULL,
    suffix text NOT NULL COLLATE pg_catalog."C",
    word text NOT NULL COLLATE pg_catalog."C"
);

ALTER TABLE ONLY headgate.search_suffixes FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_suffixes OWNER TO headgate_owner;

CREATE TABLE headgate.search_tails (
    organization_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    rank smallint NOT NULL,
    tail text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    size smallint NOT NULL
);

ALTER TABLE ONLY headgate.search_tails FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_tails OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.search_tails.rank IS '0 where the last part of a name begins, 1 inside a name, 2 in a namespace';

COMMENT ON COLUMN headgate.search_tails.size IS 'Characters of the name: of two that fit, the shorter one fits better';

CREATE TABLE headgate.server_secrets (
    name text NOT NULL,
    value bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE headgate.server_secrets OWNER TO headgate_owner;

CREATE TABLE headgate.stage_metrics (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    stage_id integer NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    name text,
    application_id text,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    duration_ms bigint,
    num_tasks bigint,
    failed_tasks bigint,
    input_bytes bigint,
    input_records bigint,
    output_bytes bigint,
    output_records bigint,
    shuffle_read_bytes bigint,
    shuffle_read_records bigint,
    shuffle_remote_bytes_read bigint,
    shuffle_local_bytes_read bigint,
    shuffle_remote_bytes_read_to_disk bigint,
    shuffle_fetch_wait_time_ms bigint,
    shuffle_remote_blocks_fetched bigint,
    shuffle_local_blocks_fetched bigint,
    shuffle_write_bytes bigint,
    shuffle_write_records bigint,
    shuffle_write_time_ns bigint,
    executor_run_time_ms bigint,
    executor_cpu_time_ns bigint,
    jvm_gc_time_ms bigint,
    executor_deserialize_time_ms bigint,
    executor_deserialize_cpu_time_ns bigint,
    result_serialization_time_ms bigint,
    result_size_bytes bigint,
    memory_bytes_spilled bigint,
    disk_bytes_spilled bigint,
    peak_execution_memory bigint,
    process_local_tasks bigint,
    node_local_tasks bigint,
    rack_local_tasks bigint,
    any_locality_tasks bigint,
    extra jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY headgate.stage_metrics FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.stage_metrics OWNER TO headgate_owner;

COMMENT ON TABLE headgate.stage_metrics IS 'Cost of each Spark stage attempt; stage -1 is the sum over the whole run';

CREATE TABLE headgate.users (
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    organization_id uuid NOT NULL,
    email text NOT NULL,
    password_hash text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    last_login_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT users_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'editor'::text, 'viewer'::text])))
);

ALTER TABLE ONLY headgate.users FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.users OWNER TO headgate_owner;

CREATE TABLE headgate.watch_progress (
    organization_id uuid NOT NULL,
    runs_seen_until timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.watch_progress FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.watch_progress OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.watch_progress.runs_seen_until IS 'Runs that came in before are watched, or have ended';

CREATE TABLE headgate.watched_datasets (
    organization_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY headgate.watched_datasets FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.watched_datasets OWNER TO headgate_owner;

COMMENT ON COLUMN headgate.watched_datasets.due_at IS 'When to look whether a write is missing; infinity while nothing but a write would change the answer';

COMMENT ON COLUMN headgate.watched_datasets.since IS 'Of a lapse by rhythm that is older nobody is told';

CREATE TABLE headgate.watched_runs (
    organization_id uuid NOT NULL,
    run_id uuid NOT NULL,
    due_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY headgate.watched_runs FORCE ROW LEVEL SECURITY;

ALTER TABLE headgate.watched_runs OWNER TO headgate_owner;

ALTER TABLE ONLY headgate.dataset_metrics ATTACH PARTITION headgate.dataset_metrics_default DEFAULT;

ALTER TABLE ONLY headgate.lineage_events ATTACH PARTITION headgate.lineage_events_default DEFAULT;

ALTER TABLE ONLY headgate.alert_history
    ADD CONSTRAINT alert_history_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.alert_rules
    ADD CONSTRAINT alert_rules_organization_id_name_key UNIQUE (organization_id, name);

ALTER TABLE ONLY headgate.alert_rules
    ADD CONSTRAINT alert_rules_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.alias_rules
    ADD CONSTRAINT alias_rules_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.anomalies
    ADD CONSTRAINT anomalies_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.api_keys
    ADD CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash);

ALTER TABLE ONLY headgate.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.async_batch
    ADD CONSTRAINT async_batch_batch_no_key UNIQUE (batch_no);

ALTER TABLE ONLY headgate.async_batch
    ADD CONSTRAINT async_batch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.async_task_attempt
    ADD CONSTRAINT async_task_attempt_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.async_task
    ADD CONSTRAINT async_task_key UNIQUE (tenant_id, resource_id, resource_type, task_type, model_fingerprint, content_hash);

ALTER TABLE ONLY headgate.async_task
    ADD CONSTRAINT async_task_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.column_lineage_edges
    ADD CONSTRAINT column_lineage_edges_pkey PRIMARY KEY (organization_id, target_id, target_column, source_id, source_column, job_id);

ALTER TABLE ONLY headgate.content_epochs
    ADD CONSTRAINT content_epochs_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY headgate.dataset_aliases
    ADD CONSTRAINT dataset_aliases_pkey PRIMARY KEY (organization_id, namespace, name);

ALTER TABLE ONLY headgate.dataset_facets
    ADD CONSTRAINT dataset_facets_pkey PRIMARY KEY (organization_id, dataset_id, name);

ALTER TABLE ONLY headgate.dataset_merge_rows
    ADD CONSTRAINT dataset_merge_rows_pkey PRIMARY KEY (organization_id, merge_id, id);

ALTER TABLE ONLY headgate.dataset_merges
    ADD CONSTRAINT dataset_merges_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.dataset_metrics
    ADD CONSTRAINT dataset_metrics_pkey PRIMARY KEY (organization_id, dataset_id, measured_at, run_id, direction, partition_key);

ALTER TABLE ONLY headgate.dataset_metrics_default
    ADD CONSTRAINT dataset_metrics_default_pkey PRIMARY KEY (organization_id, dataset_id, measured_at, run_id, direction, partition_key);

ALTER TABLE ONLY headgate.dataset_notes
    ADD CONSTRAINT dataset_notes_pkey PRIMARY KEY (organization_id, dataset_id, column_name);

ALTER TABLE ONLY headgate.dataset_stats_notes
    ADD CONSTRAINT dataset_stats_notes_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.dataset_stats
    ADD CONSTRAINT dataset_stats_pkey PRIMARY KEY (organization_id, dataset_id);

ALTER TABLE ONLY headgate.dataset_tags
    ADD CONSTRAINT dataset_tags_pkey PRIMARY KEY (organization_id, dataset_id, column_name, tag, source);

ALTER TABLE ONLY headgate.datasets
    ADD CONSTRAINT datasets_organization_id_namespace_name_key UNIQUE (organization_id, namespace, name);

ALTER TABLE ONLY headgate.datasets
    ADD CONSTRAINT datasets_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.detection_policies
    ADD CONSTRAINT detection_policies_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.earlier_anomalies
    ADD CONSTRAINT earlier_anomalies_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY headgate.email_settings
    ADD CONSTRAINT email_settings_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY headgate.ended_sessions
    ADD CONSTRAINT ended_sessions_pkey PRIMARY KEY (organization_id, session_id);

ALTER TABLE ONLY headgate.expected_marks
    ADD CONSTRAINT expected_marks_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.freshness_sla
    ADD CONSTRAINT freshness_sla_pkey PRIMARY KEY (organization_id, dataset_id);

ALTER TABLE ONLY headgate.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (organization_id, key);

ALTER TABLE ONLY headgate.incident_events
    ADD CONSTRAINT incident_events_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.incident_paths
    ADD CONSTRAINT incident_paths_pkey PRIMARY KEY (organization_id, run_id, incident_id);

ALTER TABLE ONLY headgate.incident_symptoms
    ADD CONSTRAINT incident_symptoms_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.incidents
    ADD CONSTRAINT incidents_organization_id_number_key UNIQUE (organization_id, number);

ALTER TABLE ONLY headgate.incidents
    ADD CONSTRAINT incidents_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.ingest_hours
    ADD CONSTRAINT ingest_hours_pkey PRIMARY KEY (organization_id, hour, producer, outcome, reason, backend);

ALTER TABLE ONLY headgate.ingest_marks
    ADD CONSTRAINT ingest_marks_pkey PRIMARY KEY (organization_id, hour, producer, mark, backend);

ALTER TABLE ONLY headgate.invites
    ADD CONSTRAINT invites_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.invites
    ADD CONSTRAINT invites_token_hash_key UNIQUE (token_hash);

ALTER TABLE ONLY headgate.job_datasets
    ADD CONSTRAINT job_datasets_pkey PRIMARY KEY (organization_id, job_id, dataset_id, role);

ALTER TABLE ONLY headgate.job_runs
    ADD CONSTRAINT job_runs_pkey PRIMARY KEY (organization_id, run_id);

ALTER TABLE ONLY headgate.job_versions
    ADD CONSTRAINT job_versions_pkey PRIMARY KEY (organization_id, job_id, version);

ALTER TABLE ONLY headgate.jobs
    ADD CONSTRAINT jobs_organization_id_namespace_name_key UNIQUE (organization_id, namespace, name);

ALTER TABLE ONLY headgate.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.lineage_edges
    ADD CONSTRAINT lineage_edges_pkey PRIMARY KEY (organization_id, source_id, target_id, job_id);

ALTER TABLE ONLY headgate.lineage_events
    ADD CONSTRAINT lineage_events_pkey PRIMARY KEY (organization_id, id, received_at);

ALTER TABLE ONLY headgate.lineage_events_default
    ADD CONSTRAINT lineage_events_default_pkey PRIMARY KEY (organization_id, id, received_at);

ALTER TABLE ONLY headgate.name_patterns
    ADD CONSTRAINT name_patterns_pkey PRIMARY KEY (organization_id, name);

ALTER TABLE ONLY headgate.node_runs
    ADD CONSTRAINT node_runs_pkey PRIMARY KEY (organization_id, run_id);

ALTER TABLE ONLY headgate.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.organizations
    ADD CONSTRAINT organizations_slug_key UNIQUE (slug);

ALTER TABLE ONLY headgate.organizations
    ADD CONSTRAINT organizations_tenant_code_key UNIQUE (tenant_code);

ALTER TABLE ONLY headgate.organizations
    ADD CONSTRAINT organizations_tenant_id_key UNIQUE (tenant_id);

ALTER TABLE ONLY headgate.pipeline_alerts
    ADD CONSTRAINT pipeline_alerts_pkey PRIMARY KEY (organization_id, run_id, alert_key);

ALTER TABLE ONLY headgate.pipeline_runs
    ADD CONSTRAINT pipeline_runs_pkey PRIMARY KEY (organization_id, run_id);

ALTER TABLE ONLY headgate.pipeline_watermarks
    ADD CONSTRAINT pipeline_watermarks_pkey PRIMARY KEY (organization_id, project, pipeline, node, column_name);

ALTER TABLE ONLY headgate.quarantine_batches
    ADD CONSTRAINT quarantine_batches_pkey PRIMARY KEY (organization_id, project, pipeline, node, batch_id);

ALTER TABLE ONLY headgate.refused_events
    ADD CONSTRAINT refused_events_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY headgate.schema_versions
    ADD CONSTRAINT schema_versions_pkey PRIMARY KEY (organization_id, dataset_id, id);

ALTER TABLE ONLY headgate.search_columns
    ADD CONSTRAINT search_columns_pkey PRIMARY KEY (organization_id, column_id, dataset_id);

ALTER TABLE ONLY headgate.search_entries
    ADD CONSTRAINT search_entries_pkey PRIMARY KEY (organization_id, kind, id);

ALTER TABLE ONLY headgate.search_pending
    ADD CONSTRAINT search_pending_pkey PRIMARY KEY (organization_id, place);

ALTER TABLE ONLY headgate.search_suffixes
    ADD CONSTRAINT search_suffixes_pkey PRIMARY KEY (organization_id, suffix, word);

ALTER TABLE ONLY headgate.search_tails
    ADD CONSTRAINT search_tails_pkey PRIMARY KEY (organization_id, kind, rank, tail, id) INCLUDE (size);

ALTER TABLE ONLY headgate.server_secrets
    ADD CONSTRAINT server_secrets_pkey PRIMARY KEY (name);

ALTER TABLE ONLY headgate.stage_metrics
    ADD CONSTRAINT stage_metrics_pkey PRIMARY KEY (organization_id, run_id, stage_id, attempt);

ALTER TABLE ONLY headgate.test_results
    ADD CONSTRAINT test_results_pkey PRIMARY KEY (organization_id, id);

ALTER TABLE ONLY headgate.users
    ADD CONSTRAINT users_organization_id_id_key UNIQUE (organization_id, id);

ALTER TABLE ONLY headgate.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);

ALTER TABLE ONLY headgate.watch_progress
    ADD CONSTRAINT watch_progress_pkey PRIMARY KEY (organization_id);

ALTER TABLE ONLY headgate.watched_datasets
    ADD CONSTRAINT watched_datasets_pkey PRIMARY KEY (organization_id, dataset_id);

ALTER TABLE ONLY headgate.watched_runs
    ADD CONSTRAINT watched_runs_pkey PRIMARY KEY (organization_id, run_id);

CREATE INDEX alert_history_anomaly ON headgate.alert_history USING btree (organization_id, anomaly_id) WHERE (anomaly_id IS NOT NULL);

CREATE INDEX alert_history_counted ON headgate.alert_history USING btree (organization_id, alert_rule_id, sent_at DESC) WHERE ((status = 'SENT'::text) OR (reason = 'sending'::text));

CREATE INDEX alert_history_dataset ON headgate.alert_history USING btree (organization_id, dataset_id, sent_at DESC, id DESC) WHERE (dataset_id IS NOT NULL);

CREATE INDEX alert_history_held ON headgate.alert_history USING btree (organization_id, held_by, sent_at) WHERE (held_by IS NOT NULL);

CREATE INDEX alert_history_incident ON headgate.alert_history USING btree (organization_id, incident_id, alert_rule_id, sent_at DESC) WHERE (incident_id IS NOT NULL);

CREATE INDEX alert_history_open ON headgate.alert_history USING btree (organization_id, sent_at) WHERE (reason = ANY (ARRAY['sending'::text, 'retrying'::text]));

CREATE INDEX alert_history_rule ON headgate.alert_history USING btree (organization_id, alert_rule_id, sent_at DESC, id DESC);

CREATE INDEX alert_history_sent ON headgate.alert_history USING btree (organization_id, sent_at DESC, id DESC);

CREATE INDEX alert_history_status ON headgate.alert_history USING btree (organization_id, status, sent_at DESC, id DESC);

CREATE UNIQUE INDEX alert_history_task ON headgate.alert_history USING btree (organization_id, task_id, alert_rule_id) WHERE (task_id IS NOT NULL);

CREATE INDEX alert_history_throttled ON headgate.alert_history USING btree (organization_id, alert_rule_id, sent_at) WHERE (reason = 'throttled'::text);

CREATE INDEX alert_history_told ON headgate.alert_history USING btree (organization_id, alert_rule_id, subject, type, sent_at DESC) WHERE ((status = 'SENT'::text) OR (reason = 'sending'::text));

CREATE INDEX alert_history_type ON headgate.alert_history USING btree (organization_id, type, sent_at DESC, id DESC);

CREATE INDEX alert_rules_enabled ON headgate.alert_rules USING btree (organization_id, id) WHERE enabled;

CREATE INDEX alert_rules_listed ON headgate.alert_rules USING btree (organization_id, created_at DESC, id DESC);

CREATE INDEX anomalies_dataset ON headgate.anomalies USING btree (organization_id, dataset_id, detected_at DESC, id DESC);

CREATE INDEX anomalies_detected ON headgate.anomalies USING btree (organization_id, detected_at DESC, id DESC);

CREATE UNIQUE INDEX anomalies_identity ON headgate.anomalies USING btree (organization_id, COALESCE(dataset_id, '00000000-0000-0000-0000-000000000000'::uuid), COALESCE(run_id, '00000000-0000-0000-0000-000000000000'::uuid), anomaly_type, COALESCE(column_name, ''::text), md5(partition_key), occasion);

CREATE INDEX anomalies_incident ON headgate.anomalies USING btree (organization_id, incident_id, detected_at DESC, id DESC) WHERE (incident_id IS NOT NULL);

CREATE INDEX anomalies_job ON headgate.anomalies USING btree (organization_id, job_uuid, detected_at DESC, id DESC) WHERE (job_uuid IS NOT NULL);

CREATE INDEX anomalies_missed_write ON headgate.anomalies USING btree (organization_id, dataset_id) WHERE ((anomaly_type = 'FreshnessMissed'::text) AND (status = ANY (ARRAY['OPEN'::text, 'ACKNOWLEDGED'::text, 'ALERTED'::text])));

CREATE INDEX anomalies_run ON headgate.anomalies USING btree (organization_id, run_id) WHERE (run_id IS NOT NULL);

CREATE INDEX anomalies_status ON headgate.anomalies USING btree (organization_id, status, detected_at DESC, id DESC);

CREATE INDEX anomalies_type ON headgate.anomalies USING btree (organization_id, headgate.plain_word(anomaly_type), detected_at DESC, id DESC);

CREATE INDEX api_keys_organization ON headgate.api_keys USING btree (organization_id, created_at DESC);

CREATE INDEX async_batch_listed ON headgate.async_batch USING btree (organization_id, id);

CREATE INDEX async_batch_of_type ON headgate.async_batch USING btree (organization_id, task_type, id);

CREATE INDEX async_batch_running ON headgate.async_batch USING btree (organization_id, id) WHERE (status = 'RUNNING'::text);

CREATE INDEX async_task_attempt_batch ON headgate.async_task_attempt USING btree (batch_no);

CREATE INDEX async_task_attempt_task ON headgate.async_task_attempt USING btree (organization_id, task_id, attempt_no);

CREATE INDEX async_task_listed ON headgate.async_task USING btree (organization_id, status, task_type, id);

CREATE INDEX async_task_open ON headgate.async_task USING btree (organization_id, task_type, priority, model_fingerprint, is_alone, next_run_at, id) WHERE (status = ANY (ARRAY['PENDING'::text, 'FAILED'::text]));

CREATE INDEX async_task_running ON headgate.async_task USING btree (claim_until) WHERE (status = 'RUNNING'::text);

CREATE INDEX column_lineage_edges_job ON headgate.column_lineage_edges USING btree (organization_id, job_id, target_id);

CREATE INDEX column_lineage_edges_source ON headgate.column_lineage_edges USING btree (organization_id, source_id, source_column);

CREATE INDEX dataset_aliases_dataset ON headgate.dataset_aliases USING btree (organization_id, dataset_id);

CREATE INDEX dataset_aliases_name ON headgate.dataset_aliases USING btree (organization_id, name);

CREATE INDEX dataset_merge_rows_names ON headgate.dataset_merge_rows USING btree (organization_id, merge_id) WHERE (table_name = 'datasets'::text);

CREATE INDEX dataset_merges_merged ON headgate.dataset_merges USING btree (organization_id, merged_id);

CREATE INDEX dataset_merges_rule ON headgate.dataset_merges USING btree (organization_id, rule_id) WHERE (rule_id IS NOT NULL);

CREATE INDEX dataset_merges_survivor ON headgate.dataset_merges USING btree (organization_id, survivor_id);

CREATE INDEX dataset_merges_time ON headgate.dataset_merges USING btree (organization_id, merged_at DESC, id DESC);

CREATE INDEX dataset_metrics_partition ON ONLY headgate.dataset_metrics USING btree (organization_id, dataset_id, partition_key, direction, measured_at DESC) WHERE (partition_key <> ''::text);

CREATE INDEX dataset_metrics_default_organization_id_dataset_id_partitio_idx ON headgate.dataset_metrics_default USING btree (organization_id, dataset_id, partition_key, direction, measured_at DESC) WHERE (partition_key <> ''::text);

CREATE INDEX dataset_stats_downstream ON headgate.dataset_stats USING btree (organization_id, downstream_count, dataset_id);

CREATE INDEX dataset_stats_failing ON headgate.dataset_stats USING btree (organization_id, dataset_id) WHERE ((failing_tests > 0) OR (open_incidents > 0));

CREATE INDEX dataset_stats_fewest ON headgate.dataset_stats USING btree (organization_id, fewest_first, dataset_id);

CREATE INDEX dataset_stats_notes_organization ON headgate.dataset_stats_notes USING btree (organization_id, id);

CREATE INDEX dataset_stats_oldest ON headgate.dataset_stats USING btree (organization_id, oldest_first, dataset_id);

CREATE INDEX dataset_stats_rows ON headgate.dataset_stats USING btree (organization_id, row_count, dataset_id);

CREATE INDEX dataset_stats_written ON headgate.dataset_stats USING btree (organization_id, last_written_at, dataset_id);

CREATE INDEX dataset_tags_tag ON headgate.dataset_tags USING btree (organization_id, tag, dataset_id);

CREATE INDEX datasets_bare_name ON headgate.datasets USING btree (organization_id, bare_name) WHERE (merged_into IS NULL);

CREATE INDEX datasets_display_name ON headgate.datasets USING btree (organization_id, display_name) WHERE (merged_into IS NULL);

CREATE INDEX datasets_folded_name ON headgate.datasets USING btree (organization_id, lower(bare_name)) WHERE (merged_into IS NULL);

CREATE INDEX datasets_left ON headgate.datasets USING btree (organization_id, id) WHERE ((dropped_at IS NOT NULL) OR (renamed_at IS NOT NULL) OR (merged_into IS NOT NULL));

CREATE INDEX datasets_listed ON headgate.datasets USING btree (organization_id, name COLLATE "C", id) WHERE (merged_into IS NULL);

CREATE INDEX datasets_listed_namespace ON headgate.datasets USING btree (organization_id, namespace, name COLLATE "C", id) WHERE (merged_into IS NULL);

CREATE INDEX datasets_listed_type ON headgate.datasets USING btree (organization_id, type, name COLLATE "C", id) WHERE ((merged_into IS NULL) AND (octet_length(type) <= 200));

CREATE INDEX datasets_merged ON headgate.datasets USING btree (organization_id, merged_into) WHERE (merged_into IS NOT NULL);

CREATE UNIQUE INDEX detection_policies_dataset ON headgate.detection_policies USING btree (organization_id, dataset_id, metric) WHERE (dataset_id IS NOT NULL);

CREATE INDEX detection_policies_listed ON headgate.detection_policies USING btree (organization_id, created_at DESC, id DESC);

CREATE UNIQUE INDEX detection_policies_pattern ON headgate.detection_policies USING btree (organization_id, lower(pattern), metric) WHERE (pattern IS NOT NULL);

CREATE INDEX expected_marks_dataset ON headgate.expected_marks USING btree (organization_id, dataset_id, created_at DESC, id DESC);

CREATE INDEX idempotency_keys_created ON headgate.idempotency_keys USING brin (created_at);

CREATE INDEX incident_events_counted ON headgate.incident_events USING btree (organization_id, incident_id, kind, ((detail ->> 'key'::text))) WHERE ((detail ->> 'key'::text) IS NOT NULL);

CREATE INDEX incident_events_listed ON headgate.incident_events USING btree (organization_id, incident_id, id);

CREATE INDEX incident_events_repeated ON headgate.incident_events USING btree (organization_id, at) WHERE (kind = 'symptom_repeated'::text);

CREATE INDEX incident_events_told ON headgate.incident_events USING btree (organization_id, at) WHERE (kind = ANY (ARRAY['resolved'::text, 'reopened'::text]));

CREATE INDEX incident_paths_incident ON headgate.incident_paths USING btree (organization_id, incident_id);

CREATE INDEX incident_symptoms_dataset ON headgate.incident_symptoms USING btree (organization_id, dataset_id) WHERE (cleared_at IS NULL);

CREATE UNIQUE INDEX incident_symptoms_identity ON headgate.incident_symptoms USING btree (organization_id, incident_id, key, COALESCE(producing_run_id, run_id, '00000000-0000-0000-0000-000000000000'::uuid));

CREATE INDEX incident_symptoms_job ON headgate.incident_symptoms USING btree (organization_id, job_id) WHERE (cleared_at IS NULL);

CREATE INDEX incident_symptoms_key ON headgate.incident_symptoms USING btree (organization_id, key, observed_at DESC);

CREATE INDEX incident_symptoms_listed ON headgate.incident_symptoms USING btree (organization_id, incident_id, observed_at);

CREATE INDEX incident_symptoms_made ON headgate.incident_symptoms USING btree (organization_id, created_at DESC);

CREATE INDEX incident_symptoms_of_dataset ON headgate.incident_symptoms USING btree (organization_id, dataset_id);

CREATE INDEX incident_symptoms_of_job ON headgate.incident_symptoms USING btree (organization_id, job_id);

CREATE INDEX incident_symptoms_open ON headgate.incident_symptoms USING btree (organization_id, created_at) WHERE (cleared_at IS NULL);

CREATE INDEX incident_symptoms_seen ON headgate.incident_symptoms USING btree (organization_id, observed_at) WHERE (cleared_at IS NULL);

CREATE INDEX incident_symptoms_type ON headgate.incident_symptoms USING btree (organization_id, type, incident_id);

CREATE INDEX incidents_cause ON headgate.incidents USING btree (organization_id, cause_run_id) WHERE (status <> 'resolved'::text);

CREATE INDEX incidents_cause_job ON headgate.incidents USING btree (organization_id, cause_job_id) WHERE (status <> 'resolved'::text);

CREATE INDEX incidents_caused_by ON headgate.incidents USING btree (organization_id, cause_job_id);

CREATE INDEX incidents_dataset ON headgate.incidents USING btree (organization_id, dataset_id, opened_at DESC);

CREATE INDEX incidents_ended ON headgate.incidents USING btree (organization_id, updated_at) WHERE (status = 'resolved'::text);

CREATE INDEX incidents_listed ON headgate.incidents USING btree (organization_id, opened_at DESC, id DESC);

CREATE INDEX incidents_merged ON headgate.incidents USING btree (organization_id, kind) WHERE (merged_into IS NOT NULL);

CREATE INDEX incidents_muted ON headgate.incidents USING btree (organization_id, muted_until) WHERE (status = 'muted'::text);

CREATE INDEX incidents_open ON headgate.incidents USING btree (organization_id, opened_at DESC, id DESC) WHERE (status <> 'resolved'::text);

CREATE INDEX incidents_seen ON headgate.incidents USING btree (organization_id, last_seen_at DESC);

CREATE INDEX invites_organization ON headgate.invites USING btree (organization_id, created_at DESC);

CREATE INDEX job_datasets_dataset ON headgate.job_datasets USING btree (organization_id, dataset_id, role);

CREATE INDEX job_runs_application ON headgate.job_runs USING btree (organization_id, application_id, started_at DESC) WHERE (application_id IS NOT NULL);

CREATE INDEX job_runs_created ON headgate.job_runs USING brin (created_at);

CREATE INDEX job_runs_ended ON headgate.job_runs USING btree (organization_id, job_id, ended_at DESC, started_at DESC) WHERE (ended_at IS NOT NULL);

CREATE INDEX job_runs_job ON headgate.job_runs USING btree (organization_id, job_id, started_at DESC);

CREATE INDEX job_runs_parent ON headgate.job_runs USING btree (organization_id, parent_run_id, started_at DESC, run_id DESC) WHERE (parent_run_id IS NOT NULL);

CREATE INDEX job_runs_shared ON headgate.job_runs USING btree (organization_id, started_at DESC, run_id DESC) WHERE (cardinality(job_ids) > 1);

CREATE INDEX job_runs_started ON headgate.job_runs USING btree (organization_id, started_at DESC, run_id DESC);

CREATE INDEX job_runs_tests ON headgate.job_runs USING btree (organization_id) WHERE is_test;

CREATE INDEX job_versions_seen ON headgate.job_versions USING btree (organization_id, job_id, seen_at DESC);

CREATE INDEX jobs_name ON headgate.jobs USING btree (organization_id, name COLLATE "C", id);

CREATE INDEX jobs_namespace_name ON headgate.jobs USING btree (organization_id, namespace, name COLLATE "C", id);

CREATE INDEX lineage_edges_job ON headgate.lineage_edges USING btree (organization_id, job_id);

CREATE INDEX lineage_edges_target ON headgate.lineage_edges USING btree (organization_id, target_id, source_id);

CREATE INDEX lineage_events_run ON ONLY headgate.lineage_events USING btree (organization_id, run_id, event_time) WHERE (run_id IS NOT NULL);

CREATE INDEX lineage_events_default_organization_id_run_id_event_time_idx ON headgate.lineage_events_default USING btree (organization_id, run_id, event_time) WHERE (run_id IS NOT NULL);

CREATE INDEX node_runs_attempts ON headgate.node_runs USING btree (organization_id, pipeline_run_id, node, attempt DESC, started_at DESC) WHERE (pipeline_run_id IS NOT NULL);

CREATE INDEX node_runs_ended ON headgate.node_runs USING btree (organization_id, ended_at) WHERE (NOT handles_batch);

CREATE INDEX node_runs_latest ON headgate.node_runs USING btree (organization_id, project, pipeline, node, started_at DESC, run_id DESC) WHERE (NOT handles_batch);

CREATE INDEX node_runs_published ON headgate.node_runs USING btree (organization_id, project, pipeline, node, ended_at DESC, run_id DESC) WHERE ((status = 'published'::text) AND (NOT handles_batch));

CREATE INDEX pipeline_alerts_listed ON headgate.pipeline_alerts USING btree (organization_id, sent_at DESC);

CREATE INDEX pipeline_alerts_sent ON headgate.pipeline_alerts USING btree (organization_id, project, pipeline, sent_at DESC);

CREATE INDEX pipeline_runs_listed ON headgate.pipeline_runs USING btree (organization_id, project, pipeline, started_at DESC, run_id DESC);

CREATE INDEX pipeline_runs_started ON headgate.pipeline_runs USING btree (organization_id, started_at);

CREATE INDEX quarantine_batches_listed ON headgate.quarantine_batches USING btree (organization_id, rejected_at DESC, id DESC);

CREATE INDEX quarantine_batches_node ON headgate.quarantine_batches USING btree (organization_id, project, pipeline, node, rejected_at DESC, id DESC);

CREATE INDEX quarantine_batches_state ON headgate.quarantine_batches USING btree (organization_id, state, rejected_at DESC, id DESC);

CREATE INDEX refused_events_organization ON headgate.refused_events USING btree (organization_id, received_at DESC);

CREATE UNIQUE INDEX schema_versions_current ON headgate.schema_versions USING btree (organization_id, dataset_id) WHERE (valid_to IS NULL);

CREATE INDEX schema_versions_time ON headgate.schema_versions USING btree (organization_id, dataset_id, valid_from DESC);

CREATE INDEX test_results_dataset ON headgate.test_results USING btree (organization_id, dataset_id, observed_at DESC);

CREATE UNIQUE INDEX test_results_identity ON headgate.test_results USING btree (organization_id, run_id, COALESCE(dataset_id, '00000000-0000-0000-0000-000000000000'::uuid), test_key);

CREATE INDEX test_results_latest ON headgate.test_results USING btree (organization_id, dataset_id, test_key, observed_at DESC);

CREATE UNIQUE INDEX users_email_key ON headgate.users USING btree (lower(email));

CREATE INDEX watched_datasets_due ON headgate.watched_datasets USING btree (organization_id, due_at);

CREATE INDEX watched_runs_due ON headgate.watched_runs USING btree (organization_id, due_at);

ALTER INDEX headgate.dataset_metrics_partition ATTACH PARTITION headgate.dataset_metrics_default_organization_id_dataset_id_partitio_idx;

ALTER INDEX headgate.dataset_metrics_pkey ATTACH PARTITION headgate.dataset_metrics_default_pkey;

ALTER INDEX headgate.lineage_events_run ATTACH PARTITION headgate.lineage_events_default_organization_id_run_id_event_time_idx;

ALTER INDEX headgate.lineage_events_pkey ATTACH PARTITION headgate.lineage_events_default_pkey;

CREATE TRIGGER dataset_aliases_search_changed AFTER UPDATE OF dataset_id ON headgate.dataset_aliases FOR EACH ROW WHEN ((old.dataset_id <> new.dataset_id)) EXECUTE FUNCTION headgate.queue_alias_for_search();

CREATE TRIGGER dataset_aliases_search_gone AFTER DELETE ON headgate.dataset_aliases FOR EACH ROW EXECUTE FUNCTION headgate.queue_alias_for_search();

CREATE TRIGGER dataset_aliases_search_new AFTER INSERT ON headgate.dataset_aliases FOR EACH ROW WHEN ((new.source <> 'primary'::text)) EXECUTE FUNCTION headgate.queue_alias_for_search();

CREATE TRIGGER dataset_facets_tags AFTER INSERT OR UPDATE ON headgate.dataset_facets FOR EACH ROW WHEN ((new.name = 'tags'::text)) EXECUTE FUNCTION headgate.follow_tags_facet();

CREATE TRIGGER dataset_facets_tags_gone AFTER DELETE ON headgate.dataset_facets FOR EACH ROW WHEN ((old.name = 'tags'::text)) EXECUTE FUNCTION headgate.follow_tags_facet();

CREATE TRIGGER dataset_merges_undone AFTER UPDATE OF undone_at ON headgate.dataset_merges FOR EACH ROW WHEN (((old.undone_at IS NULL) AND (new.undone_at IS NOT NULL))) EXECUTE FUNCTION headgate.follow_dataset_parting();

CREATE TRIGGER dataset_metrics_stats AFTER INSERT ON headgate.dataset_metrics REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_dataset_metrics();

CREATE TRIGGER datasets_bare_name BEFORE INSERT OR UPDATE OF name ON headgate.datasets FOR EACH ROW EXECUTE FUNCTION headgate.set_bare_name();

CREATE TRIGGER datasets_merged AFTER UPDATE OF merged_into ON headgate.datasets FOR EACH ROW WHEN ((old.merged_into IS DISTINCT FROM new.merged_into)) EXECUTE FUNCTION headgate.follow_dataset_merge();

CREATE TRIGGER datasets_merged_alerts AFTER UPDATE OF merged_into ON headgate.datasets FOR EACH ROW WHEN ((old.merged_into IS DISTINCT FROM new.merged_into)) EXECUTE FUNCTION headgate.follow_alerted_datasets();

CREATE TRIGGER datasets_merged_incidents AFTER UPDATE OF merged_into ON headgate.datasets FOR EACH ROW WHEN ((old.merged_into IS DISTINCT FROM new.merged_into)) EXECUTE FUNCTION headgate.follow_incident_datasets();

CREATE TRIGGER datasets_merged_judgement AFTER UPDATE OF merged_into ON headgate.datasets FOR EACH ROW WHEN ((old.merged_into IS DISTINCT FROM new.merged_into)) EXECUTE FUNCTION headgate.follow_judged_merge();

CREATE TRIGGER datasets_search_changed AFTER UPDATE OF namespace, name, display_name, merged_into ON headgate.datasets FOR EACH ROW WHEN (((((old.namespace IS DISTINCT FROM new.namespace) OR (old.name IS DISTINCT FROM new.name)) OR (old.display_name IS DISTINCT FROM new.display_name)) OR (old.merged_into IS DISTINCT FROM new.merged_into))) EXECUTE FUNCTION headgate.queue_changed_for_search('dataset');

CREATE TRIGGER datasets_search_gone AFTER DELETE ON headgate.datasets FOR EACH ROW EXECUTE FUNCTION headgate.queue_changed_for_search('dataset');

CREATE TRIGGER datasets_search_new AFTER INSERT ON headgate.datasets REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION headgate.queue_new_for_search('dataset');

CREATE TRIGGER datasets_stats AFTER INSERT ON headgate.datasets REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_new_datasets();

CREATE TRIGGER datasets_stats_left AFTER UPDATE OF dropped_at, renamed_at ON headgate.datasets FOR EACH ROW WHEN (((old.dropped_at IS DISTINCT FROM new.dropped_at) OR (old.renamed_at IS DISTINCT FROM new.renamed_at))) EXECUTE FUNCTION headgate.follow_left_datasets();

CREATE TRIGGER freshness_sla_changed AFTER UPDATE OF sla_hours ON headgate.freshness_sla FOR EACH ROW WHEN ((old.sla_hours IS DISTINCT FROM new.sla_hours)) EXECUTE FUNCTION headgate.follow_freshness_sla();

CREATE TRIGGER freshness_sla_watched AFTER INSERT ON headgate.freshness_sla FOR EACH ROW EXECUTE FUNCTION headgate.follow_freshness_sla();

CREATE TRIGGER incident_symptoms_stats_changed AFTER UPDATE OF cleared_at, dataset_id, incident_id ON headgate.incident_symptoms FOR EACH ROW WHEN (((new.dataset_id IS NOT NULL) AND (((old.cleared_at IS DISTINCT FROM new.cleared_at) OR (old.dataset_id IS DISTINCT FROM new.dataset_id)) OR (old.incident_id IS DISTINCT FROM new.incident_id)))) EXECUTE FUNCTION headgate.follow_symptoms();

CREATE TRIGGER incident_symptoms_stats_new AFTER INSERT ON headgate.incident_symptoms FOR EACH ROW WHEN ((new.dataset_id IS NOT NULL)) EXECUTE FUNCTION headgate.follow_symptoms();

CREATE TRIGGER incidents_stats AFTER UPDATE OF status ON headgate.incidents FOR EACH ROW WHEN ((old.status <> new.status)) EXECUTE FUNCTION headgate.follow_incident_status();

CREATE TRIGGER job_datasets_stats_gone AFTER DELETE ON headgate.job_datasets REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_dataset_uses();

CREATE TRIGGER job_datasets_stats_new AFTER INSERT ON headgate.job_datasets REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_dataset_uses();

CREATE TRIGGER job_datasets_stats_touched AFTER UPDATE ON headgate.job_datasets REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_touched_uses();

CREATE TRIGGER job_runs_terminal_state BEFORE UPDATE OF state ON headgate.job_runs FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION headgate.guard_terminal_state();

CREATE TRIGGER jobs_code_changed AFTER UPDATE OF facets_hash ON headgate.jobs FOR EACH ROW WHEN ((old.facets_hash IS DISTINCT FROM new.facets_hash)) EXECUTE FUNCTION headgate.follow_job_code();

CREATE TRIGGER jobs_code_new AFTER INSERT ON headgate.jobs FOR EACH ROW WHEN ((new.facets_hash IS NOT NULL)) EXECUTE FUNCTION headgate.follow_job_code();

CREATE TRIGGER jobs_search_changed AFTER UPDATE OF namespace, name, job_type ON headgate.jobs FOR EACH ROW WHEN ((((old.namespace IS DISTINCT FROM new.namespace) OR (old.name IS DISTINCT FROM new.name)) OR (old.job_type IS DISTINCT FROM new.job_type))) EXECUTE FUNCTION headgate.queue_changed_for_search('job');

CREATE TRIGGER jobs_search_gone AFTER DELETE ON headgate.jobs FOR EACH ROW EXECUTE FUNCTION headgate.queue_changed_for_search('job');

CREATE TRIGGER jobs_search_new AFTER INSERT ON headgate.jobs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION headgate.queue_new_for_search('job');

CREATE TRIGGER lineage_edges_stats_gone AFTER DELETE ON headgate.lineage_edges REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_lineage_edges();

CREATE TRIGGER lineage_edges_stats_new AFTER INSERT ON headgate.lineage_edges REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_lineage_edges();

CREATE TRIGGER lineage_events_count AFTER INSERT ON headgate.lineage_events REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION headgate.count_logged_events();

CREATE TRIGGER refused_events_count AFTER INSERT ON headgate.refused_events REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION headgate.count_refused_events();

CREATE TRIGGER schema_versions_column_count BEFORE INSERT OR UPDATE OF fields ON headgate.schema_versions FOR EACH ROW EXECUTE FUNCTION headgate.set_column_count();

CREATE TRIGGER schema_versions_search_new AFTER INSERT ON headgate.schema_versions REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION headgate.queue_schemas_for_search();

CREATE TRIGGER test_results_stats_changed AFTER UPDATE ON headgate.test_results REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_test_results();

CREATE TRIGGER test_results_stats_gone AFTER DELETE ON headgate.test_results REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_test_results();

CREATE TRIGGER test_results_stats_new AFTER INSERT ON headgate.test_results REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION headgate.follow_test_results();

ALTER TABLE ONLY headgate.alert_history
    ADD CONSTRAINT alert_history_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.alert_rules
    ADD CONSTRAINT alert_rules_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.alias_rules
    ADD CONSTRAINT alias_rules_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.anomalies
    ADD CONSTRAINT anomalies_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.anomalies
    ADD CONSTRAINT anomalies_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.async_task_attempt
    ADD CONSTRAINT async_task_attempt_organization_id_task_id_fkey FOREIGN KEY (organization_id, task_id) REFERENCES headgate.async_task(organization_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY headgate.column_lineage_edges
    ADD CONSTRAINT column_lineage_edges_organization_id_job_id_fkey FOREIGN KEY (organization_id, job_id) REFERENCES headgate.jobs(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.column_lineage_edges
    ADD CONSTRAINT column_lineage_edges_organization_id_source_id_fkey FOREIGN KEY (organization_id, source_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.column_lineage_edges
    ADD CONSTRAINT column_lineage_edges_organization_id_target_id_fkey FOREIGN KEY (organization_id, target_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.content_epochs
    ADD CONSTRAINT content_epochs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_aliases
    ADD CONSTRAINT dataset_aliases_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_facets
    ADD CONSTRAINT dataset_facets_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_merge_rows
    ADD CONSTRAINT dataset_merge_rows_organization_id_merge_id_fkey FOREIGN KEY (organization_id, merge_id) REFERENCES headgate.dataset_merges(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_merges
    ADD CONSTRAINT dataset_merges_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_notes
    ADD CONSTRAINT dataset_notes_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_stats
    ADD CONSTRAINT dataset_stats_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.dataset_tags
    ADD CONSTRAINT dataset_tags_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.datasets
    ADD CONSTRAINT datasets_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.detection_policies
    ADD CONSTRAINT detection_policies_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.detection_policies
    ADD CONSTRAINT detection_policies_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.earlier_anomalies
    ADD CONSTRAINT earlier_anomalies_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.email_settings
    ADD CONSTRAINT email_settings_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.ended_sessions
    ADD CONSTRAINT ended_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.expected_marks
    ADD CONSTRAINT expected_marks_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.expected_marks
    ADD CONSTRAINT expected_marks_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.freshness_sla
    ADD CONSTRAINT freshness_sla_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.incident_events
    ADD CONSTRAINT incident_events_organization_id_incident_id_fkey FOREIGN KEY (organization_id, incident_id) REFERENCES headgate.incidents(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.incident_paths
    ADD CONSTRAINT incident_paths_organization_id_incident_id_fkey FOREIGN KEY (organization_id, incident_id) REFERENCES headgate.incidents(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.incident_symptoms
    ADD CONSTRAINT incident_symptoms_organization_id_incident_id_fkey FOREIGN KEY (organization_id, incident_id) REFERENCES headgate.incidents(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.invites
    ADD CONSTRAINT invites_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.job_datasets
    ADD CONSTRAINT job_datasets_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.job_datasets
    ADD CONSTRAINT job_datasets_organization_id_job_id_fkey FOREIGN KEY (organization_id, job_id) REFERENCES headgate.jobs(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.job_versions
    ADD CONSTRAINT job_versions_organization_id_job_id_fkey FOREIGN KEY (organization_id, job_id) REFERENCES headgate.jobs(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.jobs
    ADD CONSTRAINT jobs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.lineage_edges
    ADD CONSTRAINT lineage_edges_organization_id_job_id_fkey FOREIGN KEY (organization_id, job_id) REFERENCES headgate.jobs(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.lineage_edges
    ADD CONSTRAINT lineage_edges_organization_id_source_id_fkey FOREIGN KEY (organization_id, source_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.lineage_edges
    ADD CONSTRAINT lineage_edges_organization_id_target_id_fkey FOREIGN KEY (organization_id, target_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.name_patterns
    ADD CONSTRAINT name_patterns_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.schema_versions
    ADD CONSTRAINT schema_versions_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.stage_metrics
    ADD CONSTRAINT stage_metrics_organization_id_run_id_fkey FOREIGN KEY (organization_id, run_id) REFERENCES headgate.job_runs(organization_id, run_id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.test_results
    ADD CONSTRAINT test_results_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.users
    ADD CONSTRAINT users_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.watch_progress
    ADD CONSTRAINT watch_progress_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES headgate.organizations(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY headgate.watched_datasets
    ADD CONSTRAINT watched_datasets_organization_id_dataset_id_fkey FOREIGN KEY (organization_id, dataset_id) REFERENCES headgate.datasets(organization_id, id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE headgate.alert_history ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.alert_rules ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.alias_rules ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.anomalies ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.api_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_batch ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_task ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.async_task_attempt ENABLE ROW LEVEL SECURITY;

CREATE POLICY claim ON headgate.async_batch TO headgate_owner USING (true);

CREATE POLICY claim ON headgate.async_task TO headgate_owner USING (true);

CREATE POLICY claim ON headgate.async_task_attempt TO headgate_owner USING (true);

ALTER TABLE headgate.column_lineage_edges ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.content_epochs ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_aliases ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_facets ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_merge_rows ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_merges ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_metrics ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_metrics_default ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_notes ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_stats ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_stats_notes ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.dataset_tags ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.datasets ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.detection_policies ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.earlier_anomalies ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.email_settings ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.ended_sessions ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.expected_marks ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.freshness_sla ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.idempotency_keys ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_paths ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.incident_symptoms ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.incidents ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.ingest_hours ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.ingest_marks ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.invites ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_datasets ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.job_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.jobs ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_edges ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.lineage_events_default ENABLE ROW LEVEL SECURITY;

CREATE POLICY lookup ON headgate.api_keys TO headgate_owner USING (true);

CREATE POLICY lookup ON headgate.invites TO headgate_owner USING (true);

CREATE POLICY lookup ON headgate.organizations FOR SELECT TO headgate_owner USING (true);

CREATE POLICY lookup ON headgate.users TO headgate_owner USING (true);

ALTER TABLE headgate.name_patterns ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.node_runs ENABLE ROW LEVEL SECURITY;

CREATE POLICY organization ON headgate.alert_history USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.alert_rules USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.alias_rules USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.anomalies USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.api_keys USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.async_batch USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.async_task USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.async_task_attempt USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.column_lineage_edges USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.content_epochs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_aliases USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_facets USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_merge_rows USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_merges USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_metrics USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_notes USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_stats USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_stats_notes USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.dataset_tags USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.datasets USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.detection_policies USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.earlier_anomalies USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.email_settings USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.ended_sessions USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.expected_marks USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.freshness_sla USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.idempotency_keys USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.incident_events USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.incident_paths USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.incident_symptoms USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.incidents USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.ingest_hours USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.ingest_marks USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.invites USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.job_datasets USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.job_runs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.job_versions USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.jobs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.lineage_edges USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.lineage_events USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.name_patterns USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.node_runs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.organizations USING ((id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.pipeline_alerts USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.pipeline_runs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.pipeline_watermarks USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.quarantine_batches USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.refused_events USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.schema_versions USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.search_columns USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.search_entries USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.search_pending USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.search_suffixes USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.search_tails USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.stage_metrics USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.test_results USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.users USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.watch_progress USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.watched_datasets USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

CREATE POLICY organization ON headgate.watched_runs USING ((organization_id = ( SELECT headgate.current_organization() AS current_organization)));

ALTER TABLE headgate.organizations ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_alerts ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_runs ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.pipeline_watermarks ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.quarantine_batches ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.refused_events ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.schema_versions ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_columns ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_entries ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_pending ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_suffixes ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.search_tails ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.stage_metrics ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.test_results ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.users ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.watch_progress ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.watched_datasets ENABLE ROW LEVEL SECURITY;

ALTER TABLE headgate.watched_runs ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA headgate TO headgate_app;

REVOKE ALL ON FUNCTION headgate.authenticate_key(p_key_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.authenticate_key(p_key_hash bytea) TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.job_runs TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.async_task TO headgate_app;

REVOKE ALL ON FUNCTION headgate.count_due_tasks(p_most integer, p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.count_due_tasks(p_most integer, p_limit integer) TO headgate_app;

REVOKE ALL ON FUNCTION headgate.ensure_partitions(p_months_ahead integer) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.ensure_partitions(p_months_ahead integer) TO headgate_app;

REVOKE ALL ON FUNCTION headgate.find_due_organizations(p_types text[], p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.find_due_organizations(p_types text[], p_limit integer) TO headgate_app;

REVOKE ALL ON FUNCTION headgate.find_login(p_email text, p_invite_hash bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.find_login(p_email text, p_invite_hash bytea) TO headgate_app;

GRANT ALL ON FUNCTION headgate.get_downstream_datasets(dataset_name_param character varying) TO headgate_app;

GRANT ALL ON FUNCTION headgate.get_upstream_datasets(dataset_name_param character varying) TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.anomalies TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_merges TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.datasets TO headgate_app;

REVOKE ALL ON FUNCTION headgate.open_task_kinds() FROM PUBLIC;

REVOKE ALL ON FUNCTION headgate.schedule_recurring(p_types text[], p_every_s integer[]) FROM PUBLIC;
GRANT ALL ON FUNCTION headgate.schedule_recurring(p_types text[], p_every_s integer[]) TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.incident_symptoms TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.alert_history TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.alert_rules TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.alias_rules TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.api_keys TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.async_batch TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.async_batch_id_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.async_task_attempt TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.async_task_attempt_id_seq TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.async_task_id_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.column_lineage_edges TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.job_datasets TO headgate_app;

GRANT SELECT ON TABLE headgate.column_lineage TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.content_epochs TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.schema_versions TO headgate_app;

GRANT SELECT ON TABLE headgate.current_schemas TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_aliases TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_facets TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_merge_rows TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.dataset_merge_rows_id_seq TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.dataset_merges_place_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_metrics TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_notes TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_stats TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_stats_notes TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.dataset_stats_notes_id_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.dataset_tags TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.detection_policies TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.earlier_anomalies TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.email_settings TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.ended_sessions TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.expected_marks TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.freshness_sla TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.idempotency_keys TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.incidents TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.jobs TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.test_results TO headgate_app;

GRANT SELECT ON TABLE headgate.incident_correlation_view TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.incident_events TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.incident_events_id_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.incident_paths TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.ingest_hours TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.ingest_marks TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.invites TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.job_versions TO headgate_app;

GRANT SELECT ON TABLE headgate.latest_test_results TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.lineage_edges TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.lineage_event_id TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.lineage_events TO headgate_app;

GRANT SELECT ON TABLE headgate.lineage_graph TO headgate_app;

GRANT SELECT ON TABLE headgate.lineage_impact_analysis TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.name_patterns TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.node_runs TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.organization_tenant_id TO headgate_app;

GRANT SELECT,INSERT,UPDATE ON TABLE headgate.organizations TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.pipeline_alerts TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.pipeline_runs TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.pipeline_watermarks TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.quarantine_batches TO headgate_app;

GRANT SELECT ON TABLE headgate.recent_anomalies TO headgate_app;

GRANT SELECT ON TABLE headgate.recent_incidents_summary TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.refused_events TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.refused_events_id_seq TO headgate_app;

GRANT SELECT ON TABLE headgate.schema_migrations TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.search_columns TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.search_entries TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.search_pending TO headgate_app;

GRANT USAGE ON SEQUENCE headgate.search_pending_place_seq TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.search_suffixes TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.search_tails TO headgate_app;

GRANT SELECT,INSERT ON TABLE headgate.server_secrets TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.stage_metrics TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.users TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.watch_progress TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.watched_datasets TO headgate_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE headgate.watched_runs TO headgate_app;
