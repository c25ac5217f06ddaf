-- Who is told what: rules, what became of each alert, and how mails are sent.
SET LOCAL lock_timeout = '5s';

CREATE TABLE alert_rules (
  organization_id        uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id                     uuid NOT NULL DEFAULT gen_random_uuid(),
  name                   text NOT NULL,
  description            text,
  dataset_name           text,
  anomaly_type           text,
  severity               text CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
  owner                  text,
  tag                    text,
  channel_type           text NOT NULL CHECK (channel_type IN ('EMAIL', 'SLACK', 'TEAMS', 'WEBHOOK')),
  channel_config         jsonb NOT NULL,
  enabled                boolean NOT NULL DEFAULT true,
  deduplication_minutes  integer NOT NULL DEFAULT 60 CHECK (deduplication_minutes BETWEEN 0 AND 43200),
  max_per_minute         integer CHECK (max_per_minute >= 1),
  max_per_hour           integer CHECK (max_per_hour >= 1),
  quiet_hours            jsonb,
  created_by             text,
  created_at             timestamptz NOT NULL DEFAULT now(),
  updated_at             timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, name)
);
COMMENT ON COLUMN alert_rules.dataset_name IS 'A name, the beginning of names followed by *, or NULL for all';
COMMENT ON COLUMN alert_rules.anomaly_type IS 'An anomaly, another symptom or an event, as above; NULL for all symptoms';
COMMENT ON COLUMN alert_rules.channel_config IS 'Secrets in it are objects with what is encrypted and what may be shown';
CREATE INDEX alert_rules_listed ON alert_rules (organization_id, created_at DESC, id DESC);
CREATE INDEX alert_rules_enabled ON alert_rules (organization_id, id) WHERE enabled;

CREATE TABLE alert_history (
  organization_id   uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id                uuid NOT NULL DEFAULT gen_random_uuid(),
  alert_rule_id     uuid,
  rule_name         text,
  task_id           bigint,
  anomaly_id        uuid,
  incident_id       uuid,
  symptom_id        uuid,
  dataset_id        uuid,
  run_id            uuid,
  subject           text COLLATE "C" NOT NULL,
  type              text COLLATE "C" NOT NULL,
  severity          text NOT NULL CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
  title             text NOT NULL,
  channel_type      text NOT NULL CHECK (channel_type IN ('EMAIL', 'SLACK', 'TEAMS', 'WEBHOOK')),
  channel_context   jsonb NOT NULL,
  response_payload  jsonb,
  status            text NOT NULL CHECK (status IN ('SENT', 'FAILED', 'DEDUPLICATED')),
  reason            text CHECK (reason IN ('window', 'grouped', 'throttled', 'quiet_hours', 'muted', 'sending',
                                           'retrying', 'refused', 'gave_up')),
  held_by           uuid,
  held_back         integer NOT NULL DEFAULT 0,
  attempts          integer NOT NULL DEFAULT 0,
  sent_at           timestamptz NOT NULL,
  error_message     text,
  PRIMARY KEY (organization_id, id)
) WITH (fillfactor = 80);
COMMENT ON TABLE alert_history IS 'One row a rule and task; its id goes with each try, so that a receiver sees that they are one';
COMMENT ON COLUMN alert_history.alert_rule_id IS 'As rule_name, of the time when it was sent: what was sent outlives its rule';
COMMENT ON COLUMN alert_history.held_back IS 'How many alerts before it, which the limits of the rule held back, the message tells of';
COMMENT ON COLUMN alert_history.held_by IS 'The alert of the same rule that it was grouped with, or that said the same';
COMMENT ON COLUMN alert_history.subject IS 'What the same type is not told of again within the window: dataset, job or pipeline';
COMMENT ON COLUMN alert_history.reason IS
  'Why it was held back, or how far a failed one is: `sending` while nobody knows, `retrying` while it is tried again';
COMMENT ON COLUMN alert_history.sent_at IS 'Of the latest try, or of the decision to hold it back';
CREATE UNIQUE INDEX alert_history_task ON alert_history (organization_id, task_id, alert_rule_id)
  WHERE task_id IS NOT NULL;
CREATE INDEX alert_history_sent ON alert_history (organization_id, sent_at DESC, id DESC);
CREATE INDEX alert_history_rule ON alert_history (organization_id, alert_rule_id, sent_at DESC, id DESC);
CREATE INDEX alert_history_told ON alert_history (organization_id, alert_rule_id, subject, type, sent_at DESC)
  WHERE status = 'SENT' OR reason = 'sending';
CREATE INDEX alert_history_incident ON alert_history (organization_id, incident_id, alert_rule_id, sent_at DESC)
  WHERE incident_id IS NOT NULL;
CREATE INDEX alert_history_counted ON alert_history (organization_id, alert_rule_id, sent_at DESC)
  WHERE status = 'SENT' OR reason = 'sending';
CREATE INDEX alert_history_throttled ON alert_history (organization_id, alert_rule_id, sent_at)
  WHERE reason = 'throttled';
CREATE INDEX alert_history_held ON alert_history (organization_id, held_by, sent_at) WHERE held_by IS NOT NULL;
CREATE INDEX alert_history_open ON alert_history (organization_id, sent_at) WHERE reason IN ('sending', 'retrying');
CREATE INDEX alert_history_dataset ON alert_history (organization_id, dataset_id, sent_at DESC, id DESC)
  WHERE dataset_id IS NOT NULL;
CREATE INDEX alert_history_status ON alert_history (organization_id, status, sent_at DESC, id DESC);
CREATE INDEX alert_history_type ON alert_history (organization_id, type, sent_at DESC, id DESC);
CREATE INDEX alert_history_anomaly ON alert_history (organization_id, anomaly_id) WHERE anomaly_id IS NOT NULL;

CREATE TABLE email_settings (
  organization_id   uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  backend           text NOT NULL CHECK (backend IN ('console', 'smtp', 'gmail')),
  host              text,
  port              integer CHECK (port BETWEEN 1 AND 65535),
  tls               text NOT NULL CHECK (tls IN ('none', 'starttls', 'tls')),
  username          text,
  password          jsonb,
  sender            text,
  email_to          text[] NOT NULL DEFAULT '{}',
  email_cc          text[] NOT NULL DEFAULT '{}',
  subject_template  text,
  updated_by        text,
  updated_at        timestamptz NOT NULL DEFAULT now()
);
COMMENT ON COLUMN email_settings.password IS 'As secrets in alert_rules.channel_config';
COMMENT ON COLUMN email_settings.email_to IS 'For rules that name nobody; as the columns after it';

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['alert_rules', 'alert_history', 'email_settings'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

-- The history shows what runs of pipelines sent themselves, too; a preview goes through symptoms, news and runs by time.
CREATE INDEX pipeline_alerts_listed ON pipeline_alerts (organization_id, sent_at DESC);
CREATE INDEX incident_symptoms_made ON incident_symptoms (organization_id, created_at DESC);
CREATE INDEX incident_events_told ON incident_events (organization_id, at) WHERE kind IN ('resolved', 'reopened');
CREATE INDEX incident_events_repeated ON incident_events (organization_id, at) WHERE kind = 'symptom_repeated';
CREATE INDEX node_runs_ended ON node_runs (organization_id, ended_at) WHERE NOT handles_batch;
CREATE INDEX pipeline_runs_started ON pipeline_runs (organization_id, started_at);

-- A page of what was sent, newest first, with what pipelines sent themselves. Says only what the caller asked for, so
-- that each way of asking has its index.
CREATE FUNCTION page_of_alerts(
  p_organization uuid, p_rule uuid, p_incident uuid, p_dataset uuid, p_anomaly uuid, p_status text, p_channel text,
  p_type text, p_since timestamptz, p_at timestamptz, p_id uuid, p_limit integer)
  RETURNS TABLE (
    id uuid, source text, alert_rule_id uuid, rule_name text, anomaly_id uuid, incident_id uuid, symptom_id uuid,
    dataset_id uuid, run_id uuid, type text, severity text, title text, channel_type text, channel_context jsonb,
    response_payload jsonb, status text, reason text, held_back integer, attempts integer, sent_at timestamptz,
    error_message text)
  LANGUAGE plpgsql STABLE
  AS $$
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
$$;

-- What was told of a dataset was told of the one it became. A merge sets merged_into when everything else has moved,
-- and undo clears it before anything moves back.
CREATE FUNCTION carry_alerts(p_organization uuid, p_kept uuid, p_gone uuid, p_undo boolean) RETURNS void
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

CREATE FUNCTION follow_alerted_datasets() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  PERFORM carry_alerts(NEW.organization_id, coalesce(NEW.merged_into, OLD.merged_into), NEW.id,
                       NEW.merged_into IS NULL);
  RETURN NULL;
END
$$;
CREATE TRIGGER datasets_merged_alerts AFTER UPDATE OF merged_into ON datasets
  FOR EACH ROW WHEN (OLD.merged_into IS DISTINCT FROM NEW.merged_into) EXECUTE FUNCTION follow_alerted_datasets();
