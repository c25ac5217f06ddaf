-- Incidents: what is wrong, which symptoms belong together, what is likely to have caused them, and who did what.
SET LOCAL lock_timeout = '5s';

CREATE TABLE incidents (
  organization_id   uuid NOT NULL,
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  number            bigint NOT NULL,
  title             text NOT NULL,
  status            text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'acknowledged', 'resolved', 'muted')),
  severity          text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
  kind              text NOT NULL,
  dataset_id        uuid,
  column_name       text,
  job_id            uuid,
  run_id            uuid,
  opened_at         timestamptz NOT NULL,
  last_seen_at      timestamptz NOT NULL,
  acknowledged_at   timestamptz,
  acknowledged_by   text,
  resolved_at       timestamptz,
  resolved_by       text,
  resolution        text,
  muted_until       timestamptz,
  reopened_at       timestamptz,
  assignee          text,
  root_cause        text,
  cause             jsonb NOT NULL DEFAULT '{}',
  confidence        real NOT NULL DEFAULT 0,
  cause_run_id      uuid,
  cause_job_id      uuid,
  cause_dataset_id  uuid,
  root_by           text NOT NULL DEFAULT 'headgate',
  root_is_manual    boolean NOT NULL DEFAULT false,
  is_orphan         boolean NOT NULL DEFAULT false,
  merged_into       uuid,
  created_at        timestamptz NOT NULL DEFAULT now(),
  updated_at        timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, number)
) WITH (fillfactor = 80);
COMMENT ON COLUMN incidents.kind IS 'The type of the symptom that it is told by; as are dataset, column, job and run';
COMMENT ON COLUMN incidents.run_id IS 'The run that had produced the data by then, or the run that failed';
COMMENT ON COLUMN incidents.opened_at IS 'When the first symptom was observed, by the clock of whoever observed it';
COMMENT ON COLUMN incidents.reopened_at IS 'Only what was observed later may resolve it by itself';
COMMENT ON COLUMN incidents.root_by IS 'Who chose the cause';
COMMENT ON COLUMN incidents.root_is_manual IS 'Somebody chose the cause; then it stays';
COMMENT ON COLUMN incidents.is_orphan IS 'Its dataset has no known producer';
CREATE INDEX incidents_listed ON incidents (organization_id, opened_at DESC, id DESC);
CREATE INDEX incidents_open ON incidents (organization_id, opened_at DESC, id DESC) WHERE status <> 'resolved';
CREATE INDEX incidents_dataset ON incidents (organization_id, dataset_id, opened_at DESC);
CREATE INDEX incidents_cause ON incidents (organization_id, cause_run_id) WHERE status <> 'resolved';
CREATE INDEX incidents_cause_job ON incidents (organization_id, cause_job_id) WHERE status <> 'resolved';
CREATE INDEX incidents_caused_by ON incidents (organization_id, cause_job_id);
CREATE INDEX incidents_merged ON incidents (organization_id, kind) WHERE merged_into IS NOT NULL;
CREATE INDEX incidents_ended ON incidents (organization_id, updated_at) WHERE status = 'resolved';
CREATE INDEX incidents_seen ON incidents (organization_id, last_seen_at DESC);
CREATE INDEX incidents_muted ON incidents (organization_id, muted_until) WHERE status = 'muted';

CREATE TABLE incident_symptoms (
  organization_id   uuid NOT NULL,
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  incident_id       uuid NOT NULL,
  type              text NOT NULL,
  key               text COLLATE "C" NOT NULL,
  dataset_id        uuid,
  column_name       text,
  job_id            uuid,
  run_id            uuid,
  producing_run_id  uuid,
  anomaly_id        uuid,
  test_key          text,
  test_name         text,
  test_status       text,
  severity          text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
  sentence          text NOT NULL,
  root_cause        text,
  confidence        real NOT NULL DEFAULT 0,
  observed_at       timestamptz NOT NULL,
  last_observed_at  timestamptz NOT NULL,
  count             integer NOT NULL DEFAULT 1,
  cleared_at        timestamptz,
  is_news           boolean NOT NULL DEFAULT true,
  created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, incident_id) REFERENCES incidents ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) WITH (fillfactor = 80);
COMMENT ON COLUMN incident_symptoms.key IS 'What is wrong, however often it is seen';
COMMENT ON COLUMN incident_symptoms.job_id IS 'Of the producing run, or of the run that failed';
COMMENT ON COLUMN incident_symptoms.root_cause IS 'What caused this one, in a sentence';
COMMENT ON COLUMN incident_symptoms.confidence IS 'How sure that is';
COMMENT ON COLUMN incident_symptoms.count IS 'How often it was seen on what the same run had produced';
COMMENT ON COLUMN incident_symptoms.cleared_at IS 'When it was seen to be well again, or somebody said so';
COMMENT ON COLUMN incident_symptoms.is_news IS 'Whether alerts were let know of it';
COMMENT ON COLUMN incident_symptoms.created_at IS 'By the clock: those of one transaction are told in this order';
-- Seen again on what the same run has produced it is a retry; on that of another run it is another symptom.
CREATE UNIQUE INDEX incident_symptoms_identity ON incident_symptoms
  (organization_id, incident_id, key,
   coalesce(producing_run_id, run_id, '00000000-0000-0000-0000-000000000000'::uuid));
CREATE INDEX incident_symptoms_key ON incident_symptoms (organization_id, key, observed_at DESC);
CREATE INDEX incident_symptoms_listed ON incident_symptoms (organization_id, incident_id, observed_at);
CREATE INDEX incident_symptoms_dataset ON incident_symptoms (organization_id, dataset_id) WHERE cleared_at IS NULL;
CREATE INDEX incident_symptoms_job ON incident_symptoms (organization_id, job_id) WHERE cleared_at IS NULL;
CREATE INDEX incident_symptoms_of_dataset ON incident_symptoms (organization_id, dataset_id);
CREATE INDEX incident_symptoms_of_job ON incident_symptoms (organization_id, job_id);
CREATE INDEX incident_symptoms_type ON incident_symptoms (organization_id, type, incident_id);
CREATE INDEX incident_symptoms_open ON incident_symptoms (organization_id, created_at) WHERE cleared_at IS NULL;
CREATE INDEX incident_symptoms_seen ON incident_symptoms (organization_id, observed_at) WHERE cleared_at IS NULL;

CREATE TABLE incident_events (
  organization_id  uuid NOT NULL,
  id               bigint GENERATED ALWAYS AS IDENTITY,
  incident_id      uuid NOT NULL,
  at               timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor            text NOT NULL,
  kind             text NOT NULL,
  detail           jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, incident_id) REFERENCES incidents ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON COLUMN incident_events.actor IS 'A person, a key, or headgate itself';
CREATE INDEX incident_events_listed ON incident_events (organization_id, incident_id, id);
-- What happens again is counted, not kept once more.
CREATE INDEX incident_events_counted ON incident_events (organization_id, incident_id, kind, (detail ->> 'key'))
  WHERE detail ->> 'key' IS NOT NULL;

-- Which runs lie on the path of an incident: the symptoms' own, what started those, and what they were made of. A
-- symptom that comes later finds its incident here.
CREATE TABLE incident_paths (
  organization_id  uuid NOT NULL,
  run_id           uuid NOT NULL,
  incident_id      uuid NOT NULL,
  role             text NOT NULL CHECK (role IN ('own', 'above', 'upstream')),
  PRIMARY KEY (organization_id, run_id, incident_id),
  FOREIGN KEY (organization_id, incident_id) REFERENCES incidents ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX incident_paths_incident ON incident_paths (organization_id, incident_id);

CREATE TABLE job_versions (
  organization_id  uuid NOT NULL,
  job_id           uuid NOT NULL,
  version          integer NOT NULL,
  code_hash        text NOT NULL,
  changed          text[] NOT NULL,
  code_version     text,
  seen_at          timestamptz NOT NULL,
  PRIMARY KEY (organization_id, job_id, version),
  FOREIGN KEY (organization_id, job_id) REFERENCES jobs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON TABLE job_versions IS 'When the SQL or the code of a job was first seen as it then was';
COMMENT ON COLUMN job_versions.changed IS 'What is other than before; empty for the first one';
CREATE INDEX job_versions_seen ON job_versions (organization_id, job_id, seen_at DESC);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'incidents', 'incident_symptoms', 'incident_events', 'incident_paths', 'job_versions'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA headgate TO headgate_app;

-- Versions of jobs --------------------------------------------------------------------------------

-- The parts of a job's facets that say what it does. Dates and long numbers in SQL are filled in for each run.
CREATE FUNCTION code_parts(
  p_facets jsonb, OUT sql_text text, OUT source_text text, OUT code_version text)
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT regexp_replace(regexp_replace(left(p_facets -> 'sql' ->> 'query', 100000),
                                         '\d{4}-\d\d-\d\d|\d{6,}|\d\d:\d\d(:\d\d)?', '#', 'g'), '\s+', ' ', 'g'),
           p_facets -> 'sourceCode' ->> 'sourceCode',
           p_facets -> 'sourceCodeLocation' ->> 'version'
  $$;

CREATE FUNCTION keep_job_version(p_organization uuid, p_job uuid, p_before jsonb, p_now jsonb, p_at timestamptz)
  RETURNS void
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

CREATE FUNCTION follow_job_code() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM keep_job_version(NEW.organization_id, NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.facets ELSE '{}' END,
                           NEW.facets, coalesce(NEW.facets_at, NEW.first_seen_at));
  RETURN NULL;
END
$$;
CREATE TRIGGER jobs_code_new AFTER INSERT ON jobs
  FOR EACH ROW WHEN (NEW.facets_hash IS NOT NULL) EXECUTE FUNCTION follow_job_code();
CREATE TRIGGER jobs_code_changed AFTER UPDATE OF facets_hash ON jobs
  FOR EACH ROW WHEN (OLD.facets_hash IS DISTINCT FROM NEW.facets_hash) EXECUTE FUNCTION follow_job_code();

-- Row-level security shows the owner one organisation at a time.
DO $$
DECLARE
  v_organization uuid;
BEGIN
  FOR v_organization IN SELECT o.id FROM organizations o LOOP
    PERFORM set_config('headgate.organization_id', v_organization::text, true);
    PERFORM keep_job_version(j.organization_id, j.id, '{}', j.facets, coalesce(j.facets_at, j.first_seen_at))
       FROM jobs j
      WHERE j.organization_id = v_organization;
  END LOOP;
  PERFORM set_config('headgate.organization_id', '', true);
END
$$;

-- Who wrote what, and when ------------------------------------------------------------------------

-- Whether what a run wrote was there at a moment: it had ended, or it is one that need not end.
CREATE FUNCTION had_written(
  p_ended_at timestamptz, p_processing_type text, p_is_test boolean, p_output_ids uuid[], p_dataset uuid,
  p_at timestamptz)
  RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT (p_ended_at <= p_at OR coalesce(upper(p_processing_type) IN ('STREAMING', 'SERVICE'), false))
       AND NOT p_is_test
       AND p_dataset = ANY (p_output_ids)
  $$;

-- Runs of a job in the order in which they ended, which is not that in which they began.
CREATE INDEX job_runs_ended ON job_runs (organization_id, job_id, ended_at DESC, started_at DESC)
  WHERE ended_at IS NOT NULL;

-- The runs that some datasets may be as they were at a moment because of: of each job that writes one, the run that
-- was the last to end by then, and the last to complete. Test runs write nothing. With p_silent, runs that failed
-- before they said what they write count for all that their jobs write. Cost does not follow the number of
-- runs: of each job the last to end are looked at until one fits, at most p_looks of them. One that need not end is
-- looked for among the p_open that began last.
CREATE FUNCTION runs_behind(
  p_organization uuid, p_datasets uuid[], p_ats timestamptz[], p_jobs integer DEFAULT 5, p_looks integer DEFAULT 1000,
  p_open integer DEFAULT 10, p_silent boolean DEFAULT false)
  RETURNS TABLE (place bigint, dataset_id uuid, run_id uuid, job_id uuid, state text, started_at timestamptz,
                 ended_at timestamptz, producer text)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
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

-- The run that had produced a dataset when a run (NULL: nobody we know) observed it: that run itself or what started
-- it, if it wrote the dataset, else the last run of a writer that had ended by then, never a later one. Of what started
-- it, only a node of a pipeline may still be at it: nodes have what they write tested before they publish it.
CREATE FUNCTION producing_run(p_organization uuid, p_dataset uuid, p_at timestamptz, p_observer uuid)
  RETURNS TABLE (run_id uuid, job_id uuid, state text, started_at timestamptz, ended_at timestamptz, producer text)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
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

-- What a producer is called, from its URL; mirrors producer_name of headgate/domain/run.py.
CREATE FUNCTION producer_name(p_url text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT coalesce((SELECT u.part
                       FROM unnest(string_to_array(split_part(split_part(p_url, '#', 1), '?', 1), '/'))
                            WITH ORDINALITY AS u (part, i)
                      WHERE u.part <> ''
                        AND u.part !~ '^v?\d+(\.\d+)*([-+.].*)?$'
                      ORDER BY u.i DESC
                      LIMIT 1), p_url)
  $$;

-- When a symptom has ended -------------------------------------------------------------------------------

CREATE FUNCTION end_of_metric(p_state text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT CASE p_state WHEN 'new_level' THEN 'the metric has a new level'
                        WHEN 'expected' THEN 'the metric is as somebody expects it'
                        ELSE 'the metric is back to normal' END
  $$;

-- How it went for a run, all in all or in one metric, if it went well.
CREATE FUNCTION run_verdict(p_state text, p_verdicts jsonb, p_metric text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT CASE WHEN p_metric IS NULL THEN CASE WHEN p_state = 'COMPLETE' THEN 'normal' END
                WHEN p_verdicts -> p_metric ->> 'state' IN ('normal', 'expected', 'new_level')
                THEN p_verdicts -> p_metric ->> 'state' END
  $$;

-- Whether somebody's clock is ahead of ours, by more than clocks are apart.
CREATE FUNCTION is_ahead(p_at timestamptz) RETURNS boolean
  LANGUAGE sql STABLE PARALLEL SAFE
  AS $$
    SELECT p_at > now() + interval '5 minutes'
  $$;

-- The first run of a job to end after a moment that went well: it completed, or its metric is as it should be. Not one
-- that a clock ahead of ours has told of before p_known_at, when what went wrong came in. Of very many runs since then
-- the first and the last p_looks to end are looked at: a job that went well in between only is not well.
CREATE FUNCTION first_good_run(
  p_organization uuid, p_job uuid, p_after timestamptz, p_known_at timestamptz, p_metric text,
  p_looks integer DEFAULT 200, OUT at timestamptz, OUT verdict text)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
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

-- Since when, after a moment, what a symptom says is no longer so, and how that is known; NULL while it is. Never later
-- than now. A few look-ups by key each.
CREATE FUNCTION symptom_end(
  p_organization uuid, p_symptom incident_symptoms, p_after timestamptz, OUT at timestamptz, OUT reason text)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
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

-- What keeps incidents and symptoms with their dataset -----------------------------------------------

-- A merge sets merged_into when everything else has moved, and undo clears it before anything moves back. Where both
-- datasets have the same symptom of one run, the key of the one that moves stays apart.
CREATE FUNCTION carry_incidents(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
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

CREATE FUNCTION follow_incident_datasets() RETURNS trigger
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
CREATE TRIGGER datasets_merged_incidents AFTER UPDATE OF merged_into ON datasets
  FOR EACH ROW WHEN (OLD.merged_into IS DISTINCT FROM NEW.merged_into) EXECUTE FUNCTION follow_incident_datasets();

-- One table is ORDERS to one tool and orders to the next: an orphan is looked for in whatever case.
CREATE INDEX datasets_folded_name ON datasets (organization_id, lower(bare_name)) WHERE merged_into IS NULL;

-- What lists of datasets show of incidents ------------------------------------------------------------

ALTER TABLE dataset_stats ADD COLUMN open_incidents integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN dataset_stats.open_incidents IS 'Incidents with an open symptom on it that nobody has muted';
DROP INDEX dataset_stats_failing;
CREATE INDEX dataset_stats_failing ON dataset_stats (organization_id, dataset_id)
  WHERE failing_tests > 0 OR open_incidents > 0;

CREATE FUNCTION set_dataset_incidents(p_organization uuid, p_datasets uuid[]) RETURNS void
  LANGUAGE plpgsql
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

-- Works out some of the stats of these datasets: 'writes', 'neighbours', 'tests' or, from nothing, 'all'. Rows are
-- locked first, so that none is made for a dataset that is being merged away.
CREATE OR REPLACE FUNCTION refresh_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
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
    PERFORM set_dataset_incidents(p_organization, v_held);
  END IF;
END
$$;

CREATE FUNCTION follow_symptoms() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM note_dataset_stats(NEW.organization_id, 'tests', ARRAY[NEW.dataset_id]);
  RETURN NULL;
END
$$;
CREATE TRIGGER incident_symptoms_stats_new AFTER INSERT ON incident_symptoms
  FOR EACH ROW WHEN (NEW.dataset_id IS NOT NULL) EXECUTE FUNCTION follow_symptoms();
CREATE TRIGGER incident_symptoms_stats_changed AFTER UPDATE OF cleared_at, dataset_id, incident_id ON incident_symptoms
  FOR EACH ROW WHEN (NEW.dataset_id IS NOT NULL
                     AND (OLD.cleared_at, OLD.dataset_id, OLD.incident_id)
                         IS DISTINCT FROM (NEW.cleared_at, NEW.dataset_id, NEW.incident_id))
  EXECUTE FUNCTION follow_symptoms();

CREATE FUNCTION note_incident_datasets(p_organization uuid, p_incident uuid) RETURNS void
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

CREATE FUNCTION follow_incident_status() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM note_incident_datasets(NEW.organization_id, NEW.id);
  RETURN NULL;
END
$$;
CREATE TRIGGER incidents_stats AFTER UPDATE OF status ON incidents
  FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION follow_incident_status();

-- A page of a list of datasets: ids in order, each with its place, which is where the next page begins. The statement
-- has only the conditions that are asked for, so that each list is planned for what it is.
CREATE OR REPLACE FUNCTION page_of_datasets(
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
    CASE WHEN p_fails THEN '(s.failing_tests > 0 OR s.open_incidents > 0)'
         WHEN NOT p_fails THEN 's.failing_tests = 0 AND s.open_incidents = 0' END,
    CASE WHEN NOT p_dropped
         THEN '(d.dropped_at IS NULL OR NOT is_gone($1, d.id, ''infinity''))' END)
    || format(' ORDER BY %s %s, %s %2$s LIMIT $4', v_column, CASE WHEN p_descends THEN 'DESC' ELSE 'ASC' END, v_id)
    USING p_organization, p_after, p_after_id, p_limit, p_namespace, p_type, p_tag, p_text;
END
$$;

-- A page of a list of incidents, the newest first; as above, with only the conditions that are asked for. Where few
-- symptoms are of a kind or a job the list begins with those, else with the newest incidents. One that was merged has no
-- symptoms left and is of the kind that it was.
CREATE FUNCTION page_of_incidents(
  p_organization uuid, p_status text[], p_severity text, p_kind text, p_dataset uuid, p_job uuid, p_assignee text,
  p_hours integer, p_is_orphan boolean, p_after timestamptz, p_after_id uuid, p_limit integer)
  RETURNS TABLE (id uuid, opened_at timestamptz)
  LANGUAGE plpgsql ROWS 100
  AS $$
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
$$;

-- As in 0010: look-ups by key, on tables of any size, whatever the statistics say.
DO $$
DECLARE
  signature regprocedure;
  setting text;
BEGIN
  FOR signature IN
    SELECT p.oid::regprocedure
      FROM pg_proc p
     WHERE p.pronamespace = 'headgate'::regnamespace
       AND p.proname IN ('set_dataset_incidents', 'refresh_dataset_stats')
  LOOP
    FOREACH setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan'] LOOP
      EXECUTE format('ALTER FUNCTION %s SET enable_%s = off', signature, setting);
    END LOOP;
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_custom_plan', signature);
  END LOOP;
END
$$;

-- Views ---------------------------------------------------------------------------------------------

ALTER TABLE test_results ADD COLUMN sent_urn text;
COMMENT ON COLUMN test_results.sent_urn IS 'The dataset as whoever tested it spells it, where that is not its canonical urn';

-- Failed tests with the run that had produced the data by then, and why they failed as far as it is known. Their
-- datasets are told as they were sent, so that whoever asks need not know how we spell them.
DROP VIEW incident_correlation_view;
CREATE VIEW incident_correlation_view AS
SELECT t.organization_id,
       t.id AS test_result_id,
       t.name AS test_name,
       t.status AS test_status,
       t.severity,
       t.column_name,
       t.observed_at AS test_executed_at,
       t.dataset_id,
       coalesce(t.sent_urn, d.namespace || '/' || d.name) AS dataset_urn,
       d.namespace || '/' || d.name AS canonical_urn,
       p.run_id,
       p.state AS job_status,
       p.started_at AS job_started_at,
       p.ended_at AS job_completed_at,
       j.namespace AS job_namespace,
       j.name AS job_name,
       producer_name(p.producer) AS producer_name,
       s.incident_id,
       coalesce(CASE WHEN s.root_is_manual THEN s.incident_cause END, s.root_cause,
                CASE WHEN p.run_id IS NULL
                     THEN format('No known job produces dataset ''%s'', which failed test ''%s''', d.name, t.name)
                     ELSE format('Job ''%s'' produced dataset ''%s'' which failed test ''%s''', j.name, d.name, t.name)
                END) AS root_cause
  FROM test_results t
  JOIN datasets d ON d.organization_id = t.organization_id AND d.id = t.dataset_id
  LEFT JOIN LATERAL producing_run(t.organization_id, t.dataset_id, t.observed_at, t.run_id) p ON true
  LEFT JOIN jobs j ON j.organization_id = t.organization_id AND j.id = p.job_id
  LEFT JOIN LATERAL (SELECT x.incident_id, x.root_cause, i.root_is_manual, i.root_cause AS incident_cause
                       FROM incident_symptoms x
                       JOIN incidents i ON i.organization_id = t.organization_id AND i.id = x.incident_id
                      WHERE x.organization_id = t.organization_id
                        AND x.key = concat('test:', t.dataset_id, ':', t.test_key)
                        AND x.observed_at <= t.observed_at
                        AND x.last_observed_at >= t.observed_at
                      ORDER BY x.observed_at DESC
                      LIMIT 1) s ON true
 WHERE t.status IN ('failed', 'error');

-- Incidents that were seen in the last seven days, one row a dataset.
DROP VIEW recent_incidents_summary;
CREATE VIEW recent_incidents_summary AS
SELECT s.organization_id,
       s.dataset_id,
       d.namespace || '/' || d.name AS dataset_urn,
       count(DISTINCT i.id) AS incidents,
       count(DISTINCT i.id) FILTER (WHERE i.status <> 'resolved') AS open_incidents,
       count(DISTINCT s.key) FILTER (WHERE s.type = 'TestFailed') AS failed_tests,
       coalesce(sum(s.count) FILTER (WHERE s.type = 'TestFailed'), 0) AS failures,
       least(min(s.observed_at), now()) AS first_failed_at,
       least(max(s.last_observed_at), now()) AS last_failed_at
  FROM incident_symptoms s
  JOIN incidents i ON i.organization_id = s.organization_id AND i.id = s.incident_id
  JOIN datasets d ON d.organization_id = s.organization_id AND d.id = s.dataset_id
 WHERE i.last_seen_at > now() - interval '7 days'
   AND s.last_observed_at > now() - interval '7 days'
 GROUP BY s.organization_id, s.dataset_id, d.namespace, d.name;

GRANT SELECT ON incident_correlation_view, recent_incidents_summary TO headgate_app;
