-- What lists of datasets sort and filter by; tags and notes.
--
-- dataset_stats follows from other tables. Whoever writes those only leaves a note, in the outbox, of which datasets
-- have to be looked at: that costs little, and waits for nobody. Whoever reads carries out the notes that were left,
-- and so does the worker.
SET LOCAL lock_timeout = '5s';

CREATE TABLE dataset_stats (
  organization_id   uuid NOT NULL,
  dataset_id        uuid NOT NULL,
  last_written_at   timestamptz NOT NULL DEFAULT '-infinity',
  row_count         bigint NOT NULL DEFAULT -1,
  byte_size         bigint,
  measured_at       timestamptz,
  measured_by       text CHECK (measured_by IN ('output', 'profile')),
  producer_count    integer NOT NULL DEFAULT 0,
  upstream_count    integer NOT NULL DEFAULT 0,
  downstream_count  integer NOT NULL DEFAULT 0,
  failing_tests     integer NOT NULL DEFAULT 0,
  oldest_first      timestamptz GENERATED ALWAYS AS (CASE WHEN last_written_at = '-infinity' THEN 'infinity'
                                                          ELSE last_written_at END) STORED,
  fewest_first      bigint GENERATED ALWAYS AS (CASE WHEN row_count < 0 THEN 9223372036854775807
                                                     ELSE row_count END) STORED,
  PRIMARY KEY (organization_id, dataset_id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) WITH (fillfactor = 75);
COMMENT ON TABLE dataset_stats IS
  'One row a dataset that is not merged away. Call settle_dataset_stats before reading it';
COMMENT ON COLUMN dataset_stats.last_written_at IS 'When a run that wrote it last completed; -infinity if none has';
COMMENT ON COLUMN dataset_stats.row_count IS 'Of the run that measured it last, over all partitions; -1 if unknown';
COMMENT ON COLUMN dataset_stats.measured_by IS 'What a writer says comes before what a profile says, however new';
COMMENT ON COLUMN dataset_stats.upstream_count IS 'Datasets it is made of directly, as lineage shows them';
COMMENT ON COLUMN dataset_stats.failing_tests IS 'Tests of severity error whose latest result is failed or error';
COMMENT ON COLUMN dataset_stats.oldest_first IS 'As last_written_at, but unknown last; as fewest_first is row_count';
CREATE INDEX dataset_stats_written ON dataset_stats (organization_id, last_written_at, dataset_id);
CREATE INDEX dataset_stats_oldest ON dataset_stats (organization_id, oldest_first, dataset_id);
CREATE INDEX dataset_stats_rows ON dataset_stats (organization_id, row_count, dataset_id);
CREATE INDEX dataset_stats_fewest ON dataset_stats (organization_id, fewest_first, dataset_id);
CREATE INDEX dataset_stats_downstream ON dataset_stats (organization_id, downstream_count, dataset_id);
CREATE INDEX dataset_stats_failing ON dataset_stats (organization_id, dataset_id) WHERE failing_tests > 0;

-- The order of names must not depend on where the database was made.
CREATE INDEX datasets_listed ON datasets (organization_id, name COLLATE "C", id) WHERE merged_into IS NULL;
CREATE INDEX datasets_listed_namespace ON datasets (organization_id, namespace, name COLLATE "C", id)
  WHERE merged_into IS NULL;
-- Producers may call a type what they like, at any length.
CREATE INDEX datasets_listed_type ON datasets (organization_id, type, name COLLATE "C", id)
  WHERE merged_into IS NULL AND octet_length(type) <= 200;

-- The latest result of each test is one look-up away.
CREATE INDEX test_results_latest ON test_results (organization_id, dataset_id, test_key, observed_at DESC);
CREATE INDEX outbox_dataset_stats ON outbox (organization_id, id) WHERE kind = 'dataset_stats';

-- Generated first, which counts for the rows that are there; see set_bare_name.
ALTER TABLE schema_versions ADD COLUMN column_count integer
  GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(fields) = 'array' THEN jsonb_array_length(fields) END) STORED;
ALTER TABLE schema_versions ALTER COLUMN column_count DROP EXPRESSION;

CREATE FUNCTION set_column_count() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  NEW.column_count := CASE WHEN jsonb_typeof(NEW.fields) = 'array' THEN jsonb_array_length(NEW.fields) END;
  RETURN NEW;
END
$$;
CREATE TRIGGER schema_versions_column_count
  BEFORE INSERT OR UPDATE OF fields ON schema_versions
  FOR EACH ROW
  EXECUTE FUNCTION set_column_count();

CREATE TABLE dataset_tags (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  column_name      text NOT NULL DEFAULT '',
  tag              text COLLATE "C" NOT NULL,
  source           text NOT NULL CHECK (source IN ('user', 'facet')),
  created_by       uuid,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id, column_name, tag, source),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON COLUMN dataset_tags.column_name IS 'Empty for a tag of the dataset itself';
COMMENT ON COLUMN dataset_tags.source IS 'Those of the facet come and go with it; people''s stay';
COMMENT ON COLUMN dataset_tags.created_at IS 'For a tag of the facet the time of the event that the facet is from';
CREATE INDEX dataset_tags_tag ON dataset_tags (organization_id, tag, dataset_id);

CREATE TABLE dataset_notes (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  column_name      text NOT NULL DEFAULT '',
  description      text,
  owners           text[],
  updated_by       uuid,
  updated_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id, column_name),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON TABLE dataset_notes IS 'What people wrote; each part that is not NULL is shown in place of the facet''s';

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['dataset_stats', 'dataset_tags', 'dataset_notes'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

-- Rows are written with ON CONFLICT, and never joined: of a table that was never analysed, a join may read everything.
CREATE FUNCTION add_dataset_stats(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE sql
  AS $$
    INSERT INTO dataset_stats (organization_id, dataset_id)
    SELECT p_organization, u.id
      FROM unnest(p_datasets) AS u (id)
     ORDER BY u.id
    ON CONFLICT (organization_id, dataset_id) DO NOTHING
  $$;

-- When a dataset was last written, and how large it then was: what the run that completed last has measured is one
-- look-up away if its last event told all of it.
CREATE FUNCTION set_dataset_writes(p_organization uuid, p_datasets uuid[], p_anew boolean) RETURNS void
  LANGUAGE plpgsql
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

-- A sum that fits its column: what producers send may be anything.
CREATE FUNCTION total_of(p_sum numeric) RETURNS bigint
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT least(greatest(p_sum, -9223372036854775808), 9223372036854775807)::bigint $$;

-- How large datasets are by the newest measurement, over all that its run measured: of those since the one that is
-- known or, if p_anew, of all. What a writer says comes before what a profile says.
CREATE FUNCTION set_dataset_sizes(p_organization uuid, p_datasets uuid[], p_anew boolean) RETURNS void
  LANGUAGE plpgsql
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

-- How many datasets are directly before and behind each of these, as lineage shows them now.
CREATE FUNCTION set_dataset_neighbours(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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

-- How many tests fail now: from test to test, the latest result of each, however many there were.
CREATE FUNCTION set_dataset_tests(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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

-- Works out some of the stats of these datasets: 'writes', 'neighbours', 'tests' or, from nothing, 'all'. Rows are
-- locked first, so that none is made for a dataset that is being merged away.
CREATE FUNCTION refresh_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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
  END IF;
END
$$;

-- Leaves a note of what has to be worked out anew once this transaction has committed.
CREATE FUNCTION note_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
  LANGUAGE sql
  AS $$
    INSERT INTO outbox (organization_id, kind, payload)
    VALUES (p_organization, 'dataset_stats', jsonb_build_object(p_part, p_datasets))
  $$;

-- Datasets that went or came back: they and those next to them have other neighbours than before.
CREATE FUNCTION note_around_datasets(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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

-- Who may carry out the notes of an organisation: one at a time, until its transaction ends. Others wait for a moment,
-- which is enough for it to work out a few, and get false if it takes longer.
CREATE FUNCTION take_dataset_stats(p_organization uuid) RETURNS boolean
  LANGUAGE plpgsql
  SET lock_timeout = '200ms'
  AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('headgate.dataset_stats.' || p_organization::text, 0));
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END
$$;

-- Carries out the notes that were left, each part of them for at most so many datasets: after a flood, nobody who reads
-- has to wait for all of it. True if something is left, be it because another transaction is at it and has not
-- finished: whoever reads then reads the stats as they were.
CREATE FUNCTION settle_dataset_stats(p_organization uuid, p_most integer DEFAULT 2000) RETURNS boolean
  LANGUAGE plpgsql
  AS $$
DECLARE
  v_notes    bigint[];
  v_part     text;
  v_datasets uuid[];
  v_is_left  boolean := false;
BEGIN
  IF NOT EXISTS (SELECT FROM outbox o WHERE o.organization_id = p_organization AND o.kind = 'dataset_stats') THEN
    RETURN false;
  END IF;
  -- A crash may take this back: the notes return with it.
  PERFORM set_config('synchronous_commit', 'off', true);
  IF NOT take_dataset_stats(p_organization) THEN
    RETURN true;
  END IF;
  v_notes := ARRAY(SELECT o.id FROM outbox o WHERE o.organization_id = p_organization AND o.kind = 'dataset_stats');
  FOR v_part, v_datasets IN
    SELECT n.part, array_agg(DISTINCT d.id::uuid)
      FROM outbox o
     CROSS JOIN LATERAL jsonb_each(o.payload) AS n (part, datasets)
     CROSS JOIN LATERAL jsonb_array_elements_text(n.datasets) AS d (id)
     WHERE o.organization_id = p_organization AND o.kind = 'dataset_stats' AND o.id = ANY (v_notes)
     GROUP BY n.part
     ORDER BY n.part
  LOOP
    PERFORM refresh_dataset_stats(p_organization, v_part, v_datasets[:p_most]);
    IF cardinality(v_datasets) > p_most THEN
      PERFORM note_dataset_stats(p_organization, v_part, v_datasets[p_most + 1:]);
      v_is_left := true;
    END IF;
  END LOOP;
  -- One that the worker is just taking is left to it.
  DELETE FROM outbox o
   WHERE o.organization_id = p_organization
     AND o.id IN (SELECT x.id
                    FROM outbox x
                   WHERE x.organization_id = p_organization AND x.kind = 'dataset_stats' AND x.id = ANY (v_notes)
                     FOR UPDATE SKIP LOCKED);
  RETURN v_is_left;
END
$$;

CREATE FUNCTION follow_new_datasets() RETURNS trigger
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

-- Of datasets that were written, those that had been dropped or renamed may be back.
CREATE FUNCTION note_returned_datasets(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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

CREATE FUNCTION follow_dataset_uses() RETURNS trigger
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

-- Uses that were seen again; a use that an event is sent of once more says nothing new.
CREATE FUNCTION follow_touched_uses() RETURNS trigger
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

CREATE FUNCTION follow_left_datasets() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM note_around_datasets(NEW.organization_id, ARRAY[NEW.id]);
  RETURN NULL;
END
$$;

CREATE FUNCTION follow_dataset_metrics() RETURNS trigger
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

CREATE FUNCTION follow_lineage_edges() RETURNS trigger
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

CREATE FUNCTION follow_test_results() RETURNS trigger
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

-- Keys of uses and edges never change in place: a merge takes rows away and puts others there.
CREATE TRIGGER datasets_stats AFTER INSERT ON datasets
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_new_datasets();
CREATE TRIGGER datasets_stats_left AFTER UPDATE OF dropped_at, renamed_at ON datasets
  FOR EACH ROW WHEN (OLD.dropped_at IS DISTINCT FROM NEW.dropped_at OR OLD.renamed_at IS DISTINCT FROM NEW.renamed_at)
  EXECUTE FUNCTION follow_left_datasets();
CREATE TRIGGER job_datasets_stats_new AFTER INSERT ON job_datasets
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_dataset_uses();
CREATE TRIGGER job_datasets_stats_touched AFTER UPDATE ON job_datasets
  REFERENCING NEW TABLE AS changed OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION follow_touched_uses();
CREATE TRIGGER job_datasets_stats_gone AFTER DELETE ON job_datasets
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_dataset_uses();
CREATE TRIGGER dataset_metrics_stats AFTER INSERT ON dataset_metrics
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_dataset_metrics();
CREATE TRIGGER lineage_edges_stats_new AFTER INSERT ON lineage_edges
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_lineage_edges();
CREATE TRIGGER lineage_edges_stats_gone AFTER DELETE ON lineage_edges
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_lineage_edges();
CREATE TRIGGER test_results_stats_new AFTER INSERT ON test_results
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_test_results();
CREATE TRIGGER test_results_stats_changed AFTER UPDATE ON test_results
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_test_results();
CREATE TRIGGER test_results_stats_gone AFTER DELETE ON test_results
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION follow_test_results();

-- Tags as text, `key` or `key:value`; what does not look like one, or is too long to be looked up, is left out.
CREATE FUNCTION facet_tags(p_body jsonb) RETURNS TABLE (column_name text, tag text)
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

CREATE FUNCTION set_facet_tags(p_organization uuid, p_dataset uuid, p_body jsonb, p_at timestamptz) RETURNS void
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

CREATE FUNCTION follow_tags_facet() RETURNS trigger
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
CREATE TRIGGER dataset_facets_tags AFTER INSERT OR UPDATE ON dataset_facets
  FOR EACH ROW WHEN (NEW.name = 'tags') EXECUTE FUNCTION follow_tags_facet();
CREATE TRIGGER dataset_facets_tags_gone AFTER DELETE ON dataset_facets
  FOR EACH ROW WHEN (OLD.name = 'tags') EXECUTE FUNCTION follow_tags_facet();

-- A merge sets merged_into when everything else has moved, and undo clears it before anything moves back.
CREATE FUNCTION carry_dataset_notes(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
  LANGUAGE plpgsql
  AS $$
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
$$;

CREATE FUNCTION carry_dataset_stats(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
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

CREATE FUNCTION follow_dataset_merge() RETURNS trigger
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
CREATE TRIGGER datasets_merged AFTER UPDATE OF merged_into ON datasets
  FOR EACH ROW WHEN (OLD.merged_into IS DISTINCT FROM NEW.merged_into) EXECUTE FUNCTION follow_dataset_merge();

-- The last thing that undo does.
CREATE FUNCTION follow_dataset_parting() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM note_dataset_stats(NEW.organization_id, 'all', ARRAY[NEW.survivor_id, NEW.merged_id]);
  RETURN NULL;
END
$$;
CREATE TRIGGER dataset_merges_undone AFTER UPDATE OF undone_at ON dataset_merges
  FOR EACH ROW WHEN (OLD.undone_at IS NULL AND NEW.undone_at IS NOT NULL) EXECUTE FUNCTION follow_dataset_parting();

-- A page of a list of datasets: ids in order, each with its place, which is where the next page begins. The statement
-- has only the conditions that are asked for, so that each list is planned for what it is.
CREATE FUNCTION page_of_datasets(
  p_organization uuid, p_sort text, p_descends boolean, p_after text, p_after_id uuid, p_limit integer,
  p_namespace text, p_type text, p_tag text, p_text text, p_fails boolean, p_dropped boolean)
  RETURNS TABLE (dataset_id uuid, place text)
  LANGUAGE plpgsql ROWS 100
  AS $$
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
    CASE WHEN p_fails THEN 's.failing_tests > 0' WHEN NOT p_fails THEN 's.failing_tests = 0' END,
    CASE WHEN NOT p_dropped
         THEN '(d.dropped_at IS NULL OR NOT is_gone($1, d.id, ''infinity''))' END)
    || format(' ORDER BY %s %s, %s %2$s LIMIT $4', v_column, CASE WHEN p_descends THEN 'DESC' ELSE 'ASC' END, v_id)
    USING p_organization, p_after, p_after_id, p_limit, p_namespace, p_type, p_tag, p_text;
END
$$;

-- Look-ups by key, on tables of any size, whatever the statistics say; see migration 0004.
DO $$
DECLARE
  signature regprocedure;
  setting text;
BEGIN
  FOR signature IN
    SELECT p.oid::regprocedure
      FROM pg_proc p
     WHERE p.pronamespace = 'headgate'::regnamespace
       AND p.proname IN ('set_dataset_writes', 'set_dataset_sizes', 'set_dataset_neighbours', 'set_dataset_tests',
                         'refresh_dataset_stats', 'note_around_datasets', 'note_returned_datasets')
  LOOP
    FOREACH setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan'] LOOP
      EXECUTE format('ALTER FUNCTION %s SET enable_%s = off', signature, setting);
    END LOOP;
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_custom_plan', signature);
  END LOOP;
END
$$;

-- What is there already. Row-level security shows the owner one organisation at a time.
DO $$
DECLARE
  v_organization uuid;
  v_datasets     uuid[];
BEGIN
  FOR v_organization IN SELECT o.id FROM organizations o LOOP
    PERFORM set_config('headgate.organization_id', v_organization::text, true);
    v_datasets := ARRAY(SELECT d.id
                          FROM datasets d
                         WHERE d.organization_id = v_organization AND d.merged_into IS NULL
                         ORDER BY d.id);
    PERFORM add_dataset_stats(v_organization, v_datasets);
    PERFORM refresh_dataset_stats(v_organization, 'all', v_datasets);
    PERFORM set_facet_tags(f.organization_id, f.dataset_id, f.body, f.event_time)
       FROM dataset_facets f
      WHERE f.organization_id = v_organization AND f.name = 'tags';
  END LOOP;
  PERFORM set_config('headgate.organization_id', '', true);
END
$$;
