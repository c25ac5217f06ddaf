-- What is out of the ordinary: verdicts on measurements, anomalies, how series are judged, what people expect, and
-- what is watched for a write or an end that does not come.
SET LOCAL lock_timeout = '5s';

ALTER TABLE dataset_metrics
  ADD COLUMN verdicts jsonb,
  ADD COLUMN anomalous text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN dataset_metrics.verdicts IS
  'By metric, or metric:column: the band that was expected, and what was made of the value; NULL before it is judged';
COMMENT ON COLUMN dataset_metrics.anomalous IS
  'Metrics that are no part of what is usual; `run` if the run did not complete, which keeps all of them out';
-- What a partition is compared with, however many others its dataset has. What has no partitions does not pay for it.
CREATE INDEX dataset_metrics_partition ON dataset_metrics
  (organization_id, dataset_id, partition_key, direction, measured_at DESC) WHERE partition_key <> '';
ALTER TABLE job_runs
  ADD COLUMN verdicts jsonb,
  ADD COLUMN anomalous text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN job_runs.verdicts IS 'As in dataset_metrics: of duration_ms and rows_quarantined';

-- A word however it is spelled: in any case, with any separators.
CREATE FUNCTION plain_word(p_word text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT lower(translate(p_word, ' _-.:/', '')) $$;

-- The history of an anomaly with one more change of status; of very many the latest stay.
CREATE FUNCTION with_change(p_changes jsonb, p_by text, p_from text, p_to text, p_notes text) RETURNS jsonb
  LANGUAGE sql STABLE PARALLEL SAFE
  AS $$
    SELECT coalesce(jsonb_agg(e.change ORDER BY e.i), '[]')
           || jsonb_build_object('at', now(), 'by', p_by, 'from', p_from, 'to', p_to, 'notes', p_notes)
      FROM jsonb_array_elements(p_changes) WITH ORDINALITY AS e (change, i)
     WHERE e.i > jsonb_array_length(p_changes) - 99
  $$;

CREATE TABLE anomalies (
  organization_id   uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  dataset_id        uuid,
  job_uuid          uuid,
  run_id            uuid,
  anomaly_type      text NOT NULL,
  severity          text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
  metric            text,
  column_name       text,
  partition_key     text NOT NULL DEFAULT '',
  detected_at       timestamptz NOT NULL DEFAULT now(),
  observed_at       timestamptz NOT NULL,
  expected_value    jsonb,
  actual_value      jsonb,
  deviation_score   numeric(14, 4),
  job_id            text,
  job_name          text,
  description       text NOT NULL,
  metadata          jsonb NOT NULL DEFAULT '{}',
  status            text NOT NULL DEFAULT 'OPEN'
                    CHECK (status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED', 'RESOLVED', 'FALSE_POSITIVE')),
  resolved_at       timestamptz,
  resolved_by       text,
  resolution_notes  text,
  changes           jsonb NOT NULL DEFAULT '[]',
  updated_at        timestamptz NOT NULL DEFAULT now(),
  source            text NOT NULL CHECK (source IN ('detector', 'client')),
  incident_id       uuid,
  occasion          text NOT NULL DEFAULT '',
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON COLUMN anomalies.dataset_id IS 'Of a slow or stuck run the first that it writes, or NULL if it writes none';
COMMENT ON COLUMN anomalies.anomaly_type IS 'One of the vocabulary or, from a client, a word of its own';
COMMENT ON COLUMN anomalies.observed_at IS 'When the value was measured, or what should have come was due';
COMMENT ON COLUMN anomalies.job_id IS 'As a client calls the job, else the id of the job';
COMMENT ON COLUMN anomalies.changes IS 'Changes of status, oldest first: at, by, from, to, notes';
COMMENT ON COLUMN anomalies.occasion IS
  'Tells apart what one run, or none, may have several of: the version of a schema, the last write before a lapse';
CREATE UNIQUE INDEX anomalies_identity ON anomalies
  (organization_id, coalesce(dataset_id, '00000000-0000-0000-0000-000000000000'),
   coalesce(run_id, '00000000-0000-0000-0000-000000000000'), anomaly_type, coalesce(column_name, ''),
   md5(partition_key), occasion);
CREATE INDEX anomalies_detected ON anomalies (organization_id, detected_at DESC, id DESC);
CREATE INDEX anomalies_dataset ON anomalies (organization_id, dataset_id, detected_at DESC, id DESC);
CREATE INDEX anomalies_status ON anomalies (organization_id, status, detected_at DESC, id DESC);
CREATE INDEX anomalies_type ON anomalies (organization_id, plain_word(anomaly_type), detected_at DESC, id DESC);
CREATE INDEX anomalies_missed_write ON anomalies (organization_id, dataset_id)
  WHERE anomaly_type = 'FreshnessMissed' AND status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED');
CREATE INDEX anomalies_run ON anomalies (organization_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX anomalies_job ON anomalies (organization_id, job_uuid, detected_at DESC, id DESC)
  WHERE job_uuid IS NOT NULL;
CREATE INDEX anomalies_incident ON anomalies (organization_id, incident_id, detected_at DESC, id DESC)
  WHERE incident_id IS NOT NULL;

-- Why an anomaly is closed that was told of a value which turned out to be another.
CREATE FUNCTION withdrawn_note() RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT 'the run was measured again, and the value is not out of the ordinary' $$;

-- Whether an anomaly is closed because of that, and nobody has said anything of it since.
CREATE FUNCTION is_withdrawn(p_anomaly anomalies) RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT p_anomaly.status = 'RESOLVED'
           AND (p_anomaly.resolved_by, p_anomaly.resolution_notes) IS NOT DISTINCT FROM ('headgate', withdrawn_note())
  $$;

CREATE TABLE detection_policies (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  dataset_id       uuid,
  pattern          text COLLATE "C",
  metric           text NOT NULL DEFAULT '',
  description      text,
  enabled          boolean NOT NULL,
  method           text NOT NULL CHECK (method IN ('sigma', 'percentile')),
  sigma            double precision NOT NULL CHECK (sigma > 0),
  min_points       integer NOT NULL CHECK (min_points >= 2),
  window_days      integer NOT NULL CHECK (window_days BETWEEN 1 AND 365),
  drop_share       double precision CHECK (drop_share > 0 AND drop_share <= 1),
  floor_share      double precision CHECK (floor_share >= 0),
  seasonality      text NOT NULL CHECK (seasonality IN ('auto', 'off')),
  small_sample     boolean NOT NULL,
  spike_severity   text CHECK (spike_severity IN ('INFO', 'WARNING', 'CRITICAL')),
  drop_severity    text CHECK (drop_severity IN ('INFO', 'WARNING', 'CRITICAL')),
  created_by       text,
  created_at       timestamptz NOT NULL DEFAULT now(),
  updated_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  CHECK ((dataset_id IS NULL) <> (pattern IS NULL))
);
COMMENT ON TABLE detection_policies IS
  'How series are judged. Of several that fit, that of the dataset counts, else the longest pattern, then the metric';
COMMENT ON COLUMN detection_policies.pattern IS 'The beginning of names, followed by *; or * alone for all';
COMMENT ON COLUMN detection_policies.metric IS 'Empty for all metrics';
COMMENT ON COLUMN detection_policies.drop_share IS 'NULL for a half with exceptions; what is set has none';
CREATE UNIQUE INDEX detection_policies_dataset ON detection_policies (organization_id, dataset_id, metric)
  WHERE dataset_id IS NOT NULL;
CREATE UNIQUE INDEX detection_policies_pattern ON detection_policies (organization_id, lower(pattern), metric)
  WHERE pattern IS NOT NULL;
CREATE INDEX detection_policies_listed ON detection_policies (organization_id, created_at DESC, id DESC);

CREATE TABLE expected_marks (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  dataset_id       uuid NOT NULL,
  metric           text,
  column_name      text,
  partition_key    text,
  kind             text NOT NULL CHECK (kind IN ('once', 'weekday', 'until')),
  at               timestamptz,
  weekday          smallint CHECK (weekday BETWEEN 0 AND 6),
  until            timestamptz,
  side             text CHECK (side IN ('spike', 'drop')),
  note             text,
  anomaly_id       uuid,
  created_by       text,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  CHECK (CASE kind WHEN 'once' THEN at IS NOT NULL WHEN 'weekday' THEN weekday IS NOT NULL
                   ELSE until IS NOT NULL END)
);
COMMENT ON TABLE expected_marks IS
  'What a person said to expect; what is NULL of metric, column, partition and side is any';
COMMENT ON COLUMN expected_marks.weekday IS '0 is Monday, in UTC';
CREATE INDEX expected_marks_dataset ON expected_marks (organization_id, dataset_id, created_at DESC, id DESC);

-- Runs that go on are looked at when they may be overdue, and not before: few are alive then.
CREATE TABLE watched_runs (
  organization_id  uuid NOT NULL,
  run_id           uuid NOT NULL,
  due_at           timestamptz NOT NULL,
  PRIMARY KEY (organization_id, run_id)
);
CREATE INDEX watched_runs_due ON watched_runs (organization_id, due_at);

CREATE TABLE watched_datasets (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  due_at           timestamptz NOT NULL DEFAULT now(),
  since            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON COLUMN watched_datasets.due_at IS
  'When to look whether a write is missing; infinity while nothing but a write would change the answer';
COMMENT ON COLUMN watched_datasets.since IS 'Of a lapse by rhythm that is older nobody is told';
CREATE INDEX watched_datasets_due ON watched_datasets (organization_id, due_at);

CREATE TABLE watch_progress (
  organization_id  uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  runs_seen_until  timestamptz NOT NULL
);
COMMENT ON COLUMN watch_progress.runs_seen_until IS 'Runs that came in before are watched, or have ended';

CREATE TABLE earlier_anomalies (
  organization_id  uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  read_until       bigint NOT NULL DEFAULT 0,
  last_id          bigint NOT NULL
);
COMMENT ON TABLE earlier_anomalies IS 'Events of the log that may tell of anomalies and came before anybody read those';

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'anomalies', 'detection_policies', 'expected_marks', 'watched_runs', 'watched_datasets', 'watch_progress',
    'earlier_anomalies'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

CREATE VIEW recent_anomalies AS
SELECT d.name AS dataset_name,
       a.anomaly_type,
       a.severity,
       a.detected_at,
       a.status,
       a.description,
       a.organization_id
  FROM anomalies a
  JOIN datasets d ON d.organization_id = a.organization_id AND d.id = a.dataset_id
 WHERE a.detected_at > now() - interval '7 days'
 ORDER BY a.detected_at DESC;
GRANT SELECT ON recent_anomalies TO headgate_app;

CREATE FUNCTION texts_of(p_array text) RETURNS text[]
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS $$ SELECT ARRAY(SELECT jsonb_array_elements_text(p_array::jsonb)) $$;

-- Writes verdicts on measurements (m) and runs (r), row by row in the order of ingest's locks: joined with a table that
-- was never analysed, the measurements of the whole organisation may be read.
CREATE FUNCTION store_verdicts(
  p_organization uuid, m_dataset uuid[], m_at timestamptz[], m_run uuid[], m_direction text[], m_partition_key text[],
  m_verdicts text[], m_anomalous text[], r_run uuid[], r_verdicts text[], r_anomalous text[])
  RETURNS void
  LANGUAGE plpgsql
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

-- Has a dataset looked at in the next round.
CREATE FUNCTION watch_dataset(p_organization uuid, p_dataset uuid) RETURNS void
  LANGUAGE sql
  AS $$
    INSERT INTO watched_datasets AS w (organization_id, dataset_id)
    SELECT p_organization, d.id
      FROM datasets d
     WHERE d.organization_id = p_organization AND d.id = p_dataset
    ON CONFLICT (organization_id, dataset_id) DO UPDATE
       SET due_at = now()
  $$;

-- When a run that ended at a time, and was heard of at another, had written: a clock may be a little ahead, but nothing is
-- written in the future.
CREATE FUNCTION written_at(p_ended_at timestamptz, p_received_at timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT CASE WHEN p_ended_at > p_received_at + interval '5 minutes' THEN p_received_at ELSE p_ended_at END
  $$;

-- What a run that completed has written: the datasets are watched for the next write, and no longer stale.
CREATE FUNCTION note_writes(p_organization uuid, w_dataset uuid[], w_at timestamptz[]) RETURNS void
  LANGUAGE plpgsql
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

-- When a job last wrote a dataset, by its latest runs. Of very many writes in some weeks, which a rhythm takes, the last
-- of each hour is enough. Where the latest runs do not reach so far, one is looked for in each hour before.
CREATE FUNCTION latest_writes_of(p_organization uuid, p_job uuid, p_dataset uuid) RETURNS SETOF timestamptz
  LANGUAGE plpgsql STABLE
  SET jit = off
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

-- When a dataset was last written, oldest first, by the jobs that wrote it last.
CREATE FUNCTION latest_writes(p_organization uuid, p_dataset uuid) RETURNS timestamptz[]
  LANGUAGE plpgsql STABLE
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

-- Whoever says how old a dataset may become wants to know soon whether it is older.
CREATE FUNCTION follow_freshness_sla() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM watch_dataset(NEW.organization_id, NEW.dataset_id);
  RETURN NULL;
END
$$;
CREATE TRIGGER freshness_sla_watched AFTER INSERT ON freshness_sla
  FOR EACH ROW EXECUTE FUNCTION follow_freshness_sla();
CREATE TRIGGER freshness_sla_changed AFTER UPDATE OF sla_hours ON freshness_sla
  FOR EACH ROW WHEN (OLD.sla_hours IS DISTINCT FROM NEW.sla_hours) EXECUTE FUNCTION follow_freshness_sla();

-- Anomalies that clients send with their runs; gives the ids of those that are new.
CREATE FUNCTION store_client_anomalies(
  p_organization uuid, c_dataset uuid[], c_job uuid[], c_run uuid[], c_type text[], c_severity text[],
  c_detected_at timestamptz[], c_observed_at timestamptz[], c_expected text[], c_actual text[], c_job_id text[],
  c_job_name text[], c_description text[], c_metadata text[], c_occasion text[])
  RETURNS SETOF uuid
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

-- A page of a list of anomalies. The statement has only the conditions that are asked for, so that each list is planned
-- for what it is.
CREATE FUNCTION page_of_anomalies(
  p_organization uuid, p_dataset uuid, p_types text[], p_severities text[], p_statuses text[], p_run uuid,
  p_incident uuid, p_job uuid, p_column text, p_source text, p_from timestamptz, p_to timestamptz,
  p_before timestamptz, p_before_id uuid, p_limit integer)
  RETURNS SETOF anomalies
  LANGUAGE plpgsql STABLE ROWS 100
  AS $$
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
$$;

-- Re-points what was judged of a dataset. What is said of the survivor, too (p_same, of g and k), stays the survivor's.
CREATE FUNCTION move_judged_rows(
  p_organization uuid, p_merge uuid, p_kept uuid, p_gone uuid, p_table text, p_same text)
  RETURNS void
  LANGUAGE plpgsql
  AS $$
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
$$;

-- The merge by which a dataset became another one, if it has not been undone.
CREATE FUNCTION open_merge(p_organization uuid, p_kept uuid, p_gone uuid) RETURNS uuid
  LANGUAGE sql STABLE
  AS $$
    SELECT m.id
      FROM dataset_merges m
     WHERE m.organization_id = p_organization AND m.survivor_id = p_kept AND m.merged_id = p_gone
       AND m.undone_at IS NULL
     ORDER BY m.place DESC
     LIMIT 1
  $$;

CREATE FUNCTION carry_judgement(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
  LANGUAGE plpgsql
  AS $$
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
$$;

CREATE FUNCTION follow_judged_merge() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM carry_judgement(NEW.organization_id, coalesce(NEW.merged_into, OLD.merged_into), NEW.id,
                          NEW.merged_into IS NULL);
  RETURN NULL;
END
$$;
CREATE TRIGGER datasets_merged_judgement AFTER UPDATE OF merged_into ON datasets
  FOR EACH ROW WHEN (OLD.merged_into IS DISTINCT FROM NEW.merged_into) EXECUTE FUNCTION follow_judged_merge();

-- As in migration 0006, but for one thing: a measurement that was judged since the merge has not moved on.
CREATE OR REPLACE FUNCTION restore_merged_rows(
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
       AND p.proname IN ('store_verdicts', 'note_writes', 'latest_writes', 'latest_writes_of')
  LOOP
    FOREACH setting IN ARRAY ARRAY['seqscan', 'hashjoin', 'mergejoin', 'bitmapscan'] LOOP
      EXECUTE format('ALTER FUNCTION %s SET enable_%s = off', signature, setting);
    END LOOP;
    EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', signature);
  END LOOP;
END
$$;

-- Datasets that are written already, spread over some hours, and the log as it is. Row-level security shows the owner
-- one organisation at a time.
DO $$
DECLARE
  v_organization uuid;
BEGIN
  FOR v_organization IN SELECT o.id FROM organizations o LOOP
    PERFORM set_config('headgate.organization_id', v_organization::text, true);
    INSERT INTO watched_datasets (organization_id, dataset_id, due_at)
    SELECT v_organization, d.id, now() + random() * interval '6 hours'
      FROM datasets d
     WHERE d.organization_id = v_organization AND d.merged_into IS NULL
       AND (EXISTS (SELECT
                      FROM job_datasets h
                     WHERE h.organization_id = v_organization AND h.dataset_id = d.id AND h.role = 'output')
            OR EXISTS (SELECT
                         FROM freshness_sla f
                        WHERE f.organization_id = v_organization AND f.dataset_id = d.id));
    INSERT INTO earlier_anomalies (organization_id, last_id)
    SELECT v_organization, e.id
      FROM lineage_events e
     WHERE e.organization_id = v_organization
     ORDER BY e.id DESC
     LIMIT 1;
  END LOOP;
  PERFORM set_config('headgate.organization_id', '', true);
END
$$;
