-- What pipelines did: their runs, nodes, quarantine, watermarks and alerts, as their events tell it.
SET LOCAL lock_timeout = '5s';

-- Names are compared byte by byte, so that lists do not depend on where the database was made.
CREATE TABLE pipeline_runs (
  organization_id   uuid NOT NULL,
  run_id            uuid NOT NULL,
  project           text COLLATE "C" NOT NULL,
  pipeline          text COLLATE "C" NOT NULL,
  environment       text,
  file              text,
  status            text NOT NULL DEFAULT 'running'
                    CHECK (status IN ('running', 'published', 'stopped', 'failed', 'skipped')),
  started_at        timestamptz NOT NULL,
  ended_at          timestamptz,
  published_nodes   integer NOT NULL DEFAULT 0,
  stopped_nodes     integer NOT NULL DEFAULT 0,
  failed_nodes      integer NOT NULL DEFAULT 0,
  skipped_nodes     integer NOT NULL DEFAULT 0,
  running_nodes     integer NOT NULL DEFAULT 0,
  rows_in           bigint NOT NULL DEFAULT 0,
  rows_quarantined  bigint NOT NULL DEFAULT 0,
  rows_published    bigint NOT NULL DEFAULT 0,
  told_at           timestamptz,
  told_rank         smallint,
  record            jsonb,
  PRIMARY KEY (organization_id, run_id)
);
COMMENT ON TABLE pipeline_runs IS 'One row a run of a pipeline; made by the first event of it or of one of its nodes';
COMMENT ON COLUMN pipeline_runs.published_nodes IS 'Nodes by how their latest attempt ended; as the columns after it';
COMMENT ON COLUMN pipeline_runs.rows_in IS 'Over the latest attempts of all nodes; as the columns after it';
COMMENT ON COLUMN pipeline_runs.told_at IS 'Time of the event that ended it: of several the earliest counts';
COMMENT ON COLUMN pipeline_runs.told_rank IS 'Of events of the same time FAIL (0), ABORT (1), COMPLETE (2)';
COMMENT ON COLUMN pipeline_runs.record IS 'The facet of that event; NULL while only nodes were heard of';
CREATE INDEX pipeline_runs_listed ON pipeline_runs (organization_id, project, pipeline, started_at DESC, run_id DESC);

CREATE TABLE node_runs (
  organization_id   uuid NOT NULL,
  run_id            uuid NOT NULL,
  pipeline_run_id   uuid,
  project           text COLLATE "C" NOT NULL,
  pipeline          text COLLATE "C" NOT NULL,
  node              text COLLATE "C" NOT NULL,
  attempt           integer NOT NULL DEFAULT 1,
  status            text NOT NULL DEFAULT 'running'
                    CHECK (status IN ('running', 'published', 'stopped', 'failed', 'skipped')),
  rows_in           bigint NOT NULL DEFAULT 0,
  rows_valid        bigint NOT NULL DEFAULT 0,
  rows_quarantined  bigint NOT NULL DEFAULT 0,
  rows_published    bigint NOT NULL DEFAULT 0,
  gate              jsonb,
  tests             integer NOT NULL DEFAULT 0,
  passed_tests      integer NOT NULL DEFAULT 0,
  failed_tests      integer NOT NULL DEFAULT 0,
  output_urn        text,
  output_label      text,
  started_at        timestamptz NOT NULL,
  ended_at          timestamptz,
  handles_batch     boolean NOT NULL DEFAULT false,
  told_at           timestamptz,
  told_rank         smallint,
  record            jsonb NOT NULL,
  PRIMARY KEY (organization_id, run_id)
);
COMMENT ON TABLE node_runs IS 'One row an attempt of a node';
COMMENT ON COLUMN node_runs.handles_batch IS
  'Whether it dealt with a quarantine batch of an earlier run: it is no part of the node''s history';
COMMENT ON COLUMN node_runs.told_at IS 'As in pipeline_runs';
COMMENT ON COLUMN node_runs.record IS 'The facet of the event that ended it or, before that, of the first';
CREATE INDEX node_runs_attempts ON node_runs (organization_id, pipeline_run_id, node, attempt DESC, started_at DESC)
  WHERE pipeline_run_id IS NOT NULL;
CREATE INDEX node_runs_latest ON node_runs (organization_id, project, pipeline, node, started_at DESC, run_id DESC)
  WHERE NOT handles_batch;
CREATE INDEX node_runs_published ON node_runs (organization_id, project, pipeline, node, ended_at DESC, run_id DESC)
  WHERE status = 'published' AND NOT handles_batch;

CREATE TABLE quarantine_batches (
  organization_id  uuid NOT NULL,
  project          text COLLATE "C" NOT NULL,
  pipeline         text COLLATE "C" NOT NULL,
  node             text COLLATE "C" NOT NULL,
  batch_id         text COLLATE "C" NOT NULL,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  run_id           uuid NOT NULL,
  location         text NOT NULL,
  dataset_urn      text NOT NULL,
  rows             bigint NOT NULL,
  failed_tests     jsonb NOT NULL,
  rejected_at      timestamptz NOT NULL,
  expires_at       timestamptz,
  made_at          timestamptz,
  state            text NOT NULL CHECK (state IN ('open', 'replayed', 'discarded', 'expired', 'gate_aborted')),
  changed_at       timestamptz NOT NULL,
  changed_by       uuid NOT NULL,
  PRIMARY KEY (organization_id, project, pipeline, node, batch_id)
);
COMMENT ON COLUMN quarantine_batches.id IS 'For cursors only';
COMMENT ON COLUMN quarantine_batches.made_at IS
  'End of the run that wrote it, the last of them if it was written again; NULL while only a change was heard of';
COMMENT ON COLUMN quarantine_batches.changed_at IS 'End of the run that the state is from: of several the latest counts';
CREATE INDEX quarantine_batches_listed ON quarantine_batches (organization_id, rejected_at DESC, id DESC);
CREATE INDEX quarantine_batches_node
  ON quarantine_batches (organization_id, project, pipeline, node, rejected_at DESC, id DESC);
CREATE INDEX quarantine_batches_state ON quarantine_batches (organization_id, state, rejected_at DESC, id DESC);

CREATE TABLE pipeline_watermarks (
  organization_id  uuid NOT NULL,
  project          text COLLATE "C" NOT NULL,
  pipeline         text COLLATE "C" NOT NULL,
  node             text COLLATE "C" NOT NULL,
  column_name      text COLLATE "C" NOT NULL,
  value            text NOT NULL,
  run_id           uuid NOT NULL,
  updated_at       timestamptz NOT NULL,
  PRIMARY KEY (organization_id, project, pipeline, node, column_name)
);
COMMENT ON COLUMN pipeline_watermarks.updated_at IS 'End of the published run that it is from, the latest there is';

CREATE TABLE pipeline_alerts (
  organization_id  uuid NOT NULL,
  run_id           uuid NOT NULL,
  alert_key        bytea NOT NULL,
  project          text COLLATE "C" NOT NULL,
  pipeline         text COLLATE "C" NOT NULL,
  node             text,
  event            text NOT NULL,
  channel          text NOT NULL,
  outcome          text NOT NULL,
  reason           text,
  message          text,
  sent_at          timestamptz NOT NULL,
  PRIMARY KEY (organization_id, run_id, alert_key)
);
COMMENT ON COLUMN pipeline_alerts.alert_key IS 'Hash of all it says: every event of a run may tell of it again';
CREATE INDEX pipeline_alerts_sent ON pipeline_alerts (organization_id, project, pipeline, sent_at DESC);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'pipeline_runs', 'node_runs', 'quarantine_batches', 'pipeline_watermarks', 'pipeline_alerts'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

-- A pipeline file may say how old a dataset may become; what a person has set stays.
ALTER TABLE freshness_sla
  ADD COLUMN source text NOT NULL DEFAULT 'user' CHECK (source IN ('user', 'pipeline')),
  ADD COLUMN told_at timestamptz;
COMMENT ON COLUMN freshness_sla.told_at IS 'End of the run that said so; NULL where a person did';
