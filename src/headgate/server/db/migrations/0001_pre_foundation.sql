-- Accounts, log, runs and model tables, with row-level security on each of them.
SET LOCAL lock_timeout = '5s';

CREATE FUNCTION current_organization() RETURNS uuid
  LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT NULLIF(current_setting('headgate.organization_id', true), '')::uuid $$;

-- Accounts ---------------------------------------------------------------------------------------

CREATE SEQUENCE organization_tenant_id;

CREATE TABLE organizations (
  id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  name         text NOT NULL,
  slug         text NOT NULL UNIQUE,
  tenant_id    bigint NOT NULL UNIQUE DEFAULT nextval('organization_tenant_id'),
  tenant_code  text NOT NULL UNIQUE,
  settings     jsonb NOT NULL DEFAULT '{}',
  created_at   timestamptz NOT NULL DEFAULT now(),
  updated_at   timestamptz NOT NULL DEFAULT now()
);

-- Rises with every change that makes something wrong that a server may remember of an organisation: content of
-- facets, schemas, column lineage, names. A server that sees a new number forgets.
CREATE TABLE content_epochs (
  organization_id  uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  epoch            bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE users (
  id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  email            text NOT NULL,
  password_hash    text NOT NULL,
  name             text NOT NULL,
  role             text NOT NULL CHECK (role IN ('admin', 'editor', 'viewer')),
  last_login_at    timestamptz,
  created_at       timestamptz NOT NULL DEFAULT now(),
  UNIQUE (organization_id, id)
);
CREATE UNIQUE INDEX users_email_key ON users (lower(email));

CREATE TABLE invites (
  id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  email            text NOT NULL,
  role             text NOT NULL CHECK (role IN ('admin', 'editor', 'viewer')),
  token_hash       bytea NOT NULL UNIQUE,
  created_by       uuid,
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz NOT NULL,
  accepted_at      timestamptz
);
CREATE INDEX invites_organization ON invites (organization_id, created_at DESC);

CREATE TABLE api_keys (
  id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name             text NOT NULL,
  prefix           text NOT NULL,
  key_hash         bytea NOT NULL UNIQUE,
  scopes           text[] NOT NULL CHECK (scopes <@ ARRAY['read', 'write', 'ingest', 'admin']),
  created_by       uuid,
  created_at       timestamptz NOT NULL DEFAULT now(),
  expires_at       timestamptz,
  revoked_at       timestamptz,
  last_used_at     timestamptz
);
CREATE INDEX api_keys_organization ON api_keys (organization_id, created_at DESC);

-- Secrets of the installation (the token signing key). One row per name, readable by the application only.
CREATE TABLE server_secrets (
  name        text PRIMARY KEY,
  value       bytea NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now()
);

-- Log --------------------------------------------------------------------------------------------

CREATE SEQUENCE lineage_event_id;

CREATE TABLE lineage_events (
  organization_id  uuid NOT NULL,
  id               bigint NOT NULL DEFAULT nextval('lineage_event_id'),
  received_at      timestamptz NOT NULL DEFAULT now(),
  kind             text NOT NULL CHECK (kind IN ('run', 'dataset', 'job')),
  event_type       text,
  event_time       timestamptz NOT NULL,
  run_id           uuid,
  job_id           uuid,
  producer         text NOT NULL,
  tenant_code      text NOT NULL,
  outcome          text NOT NULL CHECK (outcome IN ('accepted', 'refused')),
  reason           text,
  marks            text[] NOT NULL DEFAULT '{}',
  raw              bytea NOT NULL,
  PRIMARY KEY (organization_id, id, received_at)
) PARTITION BY RANGE (received_at);
CREATE INDEX lineage_events_run ON lineage_events (organization_id, run_id, event_time) WHERE run_id IS NOT NULL;
COMMENT ON COLUMN lineage_events.raw IS 'The event exactly as it came, zstd-compressed';
CREATE TABLE lineage_events_default PARTITION OF lineage_events DEFAULT;

CREATE TABLE idempotency_keys (
  organization_id  uuid NOT NULL,
  key              bytea NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
-- The cleanup walks this in time order; BRIN keeps it almost free on the write path.
CREATE INDEX idempotency_keys_created ON idempotency_keys USING brin (created_at);

CREATE TABLE refused_events (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id  uuid NOT NULL,
  received_at      timestamptz NOT NULL DEFAULT now(),
  route            text NOT NULL,
  code             text NOT NULL,
  reason           text NOT NULL,
  producer         text,
  errors           jsonb NOT NULL DEFAULT '[]',
  body             bytea NOT NULL,
  body_size        bigint NOT NULL,
  correlation_id   text NOT NULL
);
CREATE INDEX refused_events_organization ON refused_events (organization_id, received_at DESC);
COMMENT ON COLUMN refused_events.body IS 'First 64 KB of what was refused, as it came';

-- Runs -------------------------------------------------------------------------------------------

CREATE TABLE jobs (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  namespace        text NOT NULL,
  name             text NOT NULL,
  job_type         text,
  processing_type  text,
  integration      text,
  facets           jsonb NOT NULL DEFAULT '{}',
  facets_hash      bigint,
  facets_at        timestamptz,
  first_seen_at    timestamptz NOT NULL,
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, namespace, name)
);
COMMENT ON TABLE jobs IS
  'Changes only when what a job says of itself does; when it last ran is read from job_runs, so a busy job is no busy row';

CREATE TABLE job_runs (
  organization_id    uuid NOT NULL,
  run_id             uuid NOT NULL,
  job_id             uuid NOT NULL,
  job_ids            uuid[] NOT NULL,
  state              text NOT NULL CHECK (state IN ('START', 'RUNNING', 'COMPLETE', 'FAIL', 'ABORT', 'OTHER')),
  started_at         timestamptz NOT NULL,
  ended_at           timestamptz GENERATED ALWAYS AS (least(complete_at, fail_at, abort_at)) STORED,
  last_event_at      timestamptz NOT NULL,
  last_activity_at   timestamptz,
  start_at           timestamptz,
  running_at         timestamptz,
  complete_at        timestamptz,
  fail_at            timestamptz,
  abort_at           timestamptz,
  other_at           timestamptz,
  parent_run_id      uuid,
  root_run_id        uuid,
  parent_job         jsonb,
  root_job           jsonb,
  is_test            boolean NOT NULL DEFAULT false,
  processing_type    text,
  application_id     text,
  partition_context  jsonb,
  error              text,
  error_at           timestamptz,
  input_ids          uuid[] NOT NULL DEFAULT '{}',
  output_ids         uuid[] NOT NULL DEFAULT '{}',
  producer           text NOT NULL,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, run_id)
) WITH (fillfactor = 75);
COMMENT ON TABLE job_runs IS
  'No foreign key to jobs: it would lock the job''s row for each of its runs. Jobs are never deleted alone';
COMMENT ON COLUMN job_runs.start_at IS
  'State history: the earliest time each state was seen, one column a state; independent of arrival order';
COMMENT ON COLUMN job_runs.last_activity_at IS
  'Latest START, RUNNING or OTHER; after ended_at when such an event came before the end was known (late)';
CREATE INDEX job_runs_started ON job_runs (organization_id, started_at DESC, run_id DESC);
CREATE INDEX job_runs_job ON job_runs (organization_id, job_id, started_at DESC);
CREATE INDEX job_runs_parent ON job_runs (organization_id, parent_run_id) WHERE parent_run_id IS NOT NULL;

-- Layer 3: a run that has ended keeps its end. The ingest function alone announces a correction, for the
-- one case in which an earlier terminal event arrives late.
CREATE FUNCTION guard_terminal_state() RETURNS trigger
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
CREATE TRIGGER job_runs_terminal_state
  BEFORE UPDATE OF state ON job_runs
  FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state)
  EXECUTE FUNCTION guard_terminal_state();

CREATE TABLE stage_metrics (
  organization_id                     uuid NOT NULL,
  run_id                              uuid NOT NULL,
  stage_id                            integer NOT NULL,
  attempt                             integer NOT NULL DEFAULT 0,
  name                                text,
  application_id                      text,
  started_at                          timestamptz,
  ended_at                            timestamptz,
  duration_ms                         bigint,
  num_tasks                           bigint,
  failed_tasks                        bigint,
  input_bytes                         bigint,
  input_records                       bigint,
  output_bytes                        bigint,
  output_records                      bigint,
  shuffle_read_bytes                  bigint,
  shuffle_read_records                bigint,
  shuffle_remote_bytes_read           bigint,
  shuffle_local_bytes_read            bigint,
  shuffle_remote_bytes_read_to_disk   bigint,
  shuffle_fetch_wait_time_ms          bigint,
  shuffle_remote_blocks_fetched       bigint,
  shuffle_local_blocks_fetched        bigint,
  shuffle_write_bytes                 bigint,
  shuffle_write_records               bigint,
  shuffle_write_time_ns               bigint,
  executor_run_time_ms                bigint,
  executor_cpu_time_ns                bigint,
  jvm_gc_time_ms                      bigint,
  executor_deserialize_time_ms        bigint,
  executor_deserialize_cpu_time_ns    bigint,
  result_serialization_time_ms        bigint,
  result_size_bytes                   bigint,
  memory_bytes_spilled                bigint,
  disk_bytes_spilled                  bigint,
  peak_execution_memory               bigint,
  process_local_tasks                 bigint,
  node_local_tasks                    bigint,
  rack_local_tasks                    bigint,
  any_locality_tasks                  bigint,
  extra                               jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (organization_id, run_id, stage_id, attempt),
  FOREIGN KEY (organization_id, run_id) REFERENCES job_runs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
COMMENT ON TABLE stage_metrics IS 'Cost of each Spark stage attempt; stage -1 is the sum over the whole run';

-- Model ------------------------------------------------------------------------------------------

CREATE TABLE datasets (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  namespace        text NOT NULL,
  name             text NOT NULL,
  display_name     text NOT NULL,
  type             text,
  location         text,
  schema_hash      bytea,
  schema_at        timestamptz,
  schema_by        text CHECK (schema_by IN ('input', 'output', 'dataset')),
  dropped_at       timestamptz,
  merged_into      uuid,
  first_seen_at    timestamptz NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  UNIQUE (organization_id, namespace, name)
) WITH (fillfactor = 85);

-- Every name that leads to a dataset, its own included: one look-up resolves any spelling.
CREATE TABLE dataset_aliases (
  organization_id  uuid NOT NULL,
  namespace        text NOT NULL,
  name             text NOT NULL,
  dataset_id       uuid NOT NULL,
  source           text NOT NULL CHECK (source IN ('primary', 'symlink', 'rule', 'merge')),
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, namespace, name),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX dataset_aliases_dataset ON dataset_aliases (organization_id, dataset_id);

CREATE TABLE alias_rules (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  position         integer NOT NULL,
  pattern          text NOT NULL,
  canonical        text NOT NULL,
  created_by       uuid,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id)
);

CREATE TABLE name_patterns (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  name             text NOT NULL,
  regex            text NOT NULL,
  kind             text NOT NULL CHECK (kind IN ('time', 'geo', 'region', 'environment', 'key_value')),
  enabled          boolean NOT NULL,
  PRIMARY KEY (organization_id, name)
);

CREATE TABLE dataset_merges (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  survivor_id      uuid NOT NULL,
  merged_id        uuid NOT NULL,
  reason           text NOT NULL,
  rule_id          uuid,
  merged_at        timestamptz NOT NULL DEFAULT now(),
  undone_at        timestamptz,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX dataset_merges_merged ON dataset_merges (organization_id, merged_id);

-- The rows a merge re-pointed, as they were: what undo puts back.
CREATE TABLE dataset_merge_rows (
  organization_id  uuid NOT NULL,
  merge_id         uuid NOT NULL,
  id               bigint GENERATED ALWAYS AS IDENTITY,
  table_name       text NOT NULL,
  original         jsonb NOT NULL,
  PRIMARY KEY (organization_id, merge_id, id),
  FOREIGN KEY (organization_id, merge_id) REFERENCES dataset_merges ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

-- What a job reads and writes, with the content last seen there. Equal hashes mean that nothing but the
-- time has to move, which is what keeps a repeated event cheap. START events often say less than later
-- ones, so they have a hash of their own.
CREATE TABLE job_datasets (
  organization_id    uuid NOT NULL,
  job_id             uuid NOT NULL,
  dataset_id         uuid NOT NULL,
  role               text NOT NULL CHECK (role IN ('input', 'output')),
  first_seen_at      timestamptz NOT NULL,
  last_seen_at       timestamptz NOT NULL,
  last_completed_at  timestamptz,
  start_hash         bigint,
  facets_hash        bigint,
  columns_hash       bigint,
  columns_seen_at    timestamptz,
  columns_before_at  timestamptz,
  schema_seen_at     timestamptz,
  PRIMARY KEY (organization_id, job_id, dataset_id, role),
  FOREIGN KEY (organization_id, job_id) REFERENCES jobs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) WITH (fillfactor = 75);
CREATE INDEX job_datasets_dataset ON job_datasets (organization_id, dataset_id, role);

CREATE TABLE dataset_facets (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  name             text NOT NULL,
  body             jsonb NOT NULL,
  event_time       timestamptz NOT NULL,
  job_id           uuid,
  role             text,
  facets_hash      bigint,
  PRIMARY KEY (organization_id, dataset_id, name),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

CREATE TABLE lineage_edges (
  organization_id    uuid NOT NULL,
  source_id          uuid NOT NULL,
  target_id          uuid NOT NULL,
  job_id             uuid NOT NULL,
  first_seen_at      timestamptz NOT NULL,
  last_seen_at       timestamptz NOT NULL,
  last_completed_at  timestamptz,
  last_run_id        uuid,
  PRIMARY KEY (organization_id, source_id, target_id, job_id),
  FOREIGN KEY (organization_id, source_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  FOREIGN KEY (organization_id, target_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  FOREIGN KEY (organization_id, job_id) REFERENCES jobs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) WITH (fillfactor = 75);
CREATE INDEX lineage_edges_target ON lineage_edges (organization_id, target_id, source_id);
CREATE INDEX lineage_edges_job ON lineage_edges (organization_id, job_id);
COMMENT ON COLUMN lineage_edges.last_completed_at IS 'NULL while only failed or unfinished runs have shown this edge';

CREATE TABLE column_lineage_edges (
  organization_id  uuid NOT NULL,
  target_id        uuid NOT NULL,
  target_column    text NOT NULL,
  source_id        uuid NOT NULL,
  source_column    text NOT NULL,
  job_id           uuid NOT NULL,
  kinds            jsonb NOT NULL,
  expression       text,
  is_current       boolean NOT NULL,
  first_seen_at    timestamptz NOT NULL,
  last_seen_at     timestamptz NOT NULL,
  PRIMARY KEY (organization_id, target_id, target_column, source_id, source_column, job_id),
  FOREIGN KEY (organization_id, source_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  FOREIGN KEY (organization_id, target_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  FOREIGN KEY (organization_id, job_id) REFERENCES jobs ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX column_lineage_edges_source ON column_lineage_edges (organization_id, source_id, source_column);
CREATE INDEX column_lineage_edges_job ON column_lineage_edges (organization_id, job_id, target_id);
COMMENT ON COLUMN job_datasets.columns_before_at IS 'When the column lineage before the current one was last seen';
COMMENT ON COLUMN column_lineage_edges.target_column IS 'Empty when the source column influences the whole target';
COMMENT ON COLUMN column_lineage_edges.is_current IS
  'True while the job still sends this edge; it was then last seen at job_datasets.columns_seen_at';

CREATE TABLE schema_versions (
  organization_id       uuid NOT NULL,
  dataset_id            uuid NOT NULL,
  id                    uuid NOT NULL DEFAULT gen_random_uuid(),
  version               integer NOT NULL,
  schema_hash           bytea NOT NULL,
  fields                jsonb NOT NULL,
  run_id                uuid,
  job_id                uuid,
  columns_added         text[] NOT NULL,
  columns_removed       text[] NOT NULL,
  columns_type_changed  text[] NOT NULL,
  change_type           text NOT NULL CHECK (change_type IN ('INITIAL', 'ADDED_COLUMN', 'DROPPED_COLUMN',
                          'TYPE_CHANGE', 'NULLABILITY', 'REORDERED', 'MIXED')),
  description           text NOT NULL,
  breaking              boolean NOT NULL,
  client_hash           text,
  valid_from            timestamptz NOT NULL,
  valid_to              timestamptz,
  created_at            timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id, id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE UNIQUE INDEX schema_versions_current ON schema_versions (organization_id, dataset_id) WHERE valid_to IS NULL;
CREATE INDEX schema_versions_time ON schema_versions (organization_id, dataset_id, valid_from DESC);

CREATE TABLE dataset_metrics (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  measured_at      timestamptz NOT NULL,
  run_id           uuid NOT NULL,
  direction        text NOT NULL CHECK (direction IN ('input', 'output', 'profile')),
  job_id           uuid,
  row_count        bigint,
  byte_size        bigint,
  file_count       bigint,
  partition_count  bigint,
  partition_key    text NOT NULL DEFAULT '',
  columns          jsonb,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id, measured_at, run_id, direction, partition_key)
) PARTITION BY RANGE (measured_at);
COMMENT ON COLUMN dataset_metrics.partition_key IS
  'The path with its time-like parts open, so that two countries are judged apart; empty for what has no partitions';
COMMENT ON COLUMN datasets.dropped_at IS
  'The latest DROP. The dataset is gone unless job_datasets shows that it was written later';
COMMENT ON TABLE dataset_metrics IS
  'The metrics of a run lie between its first and last event. No foreign key, for the same reason as in job_runs';
CREATE TABLE dataset_metrics_default PARTITION OF dataset_metrics DEFAULT;

CREATE TABLE test_results (
  organization_id  uuid NOT NULL,
  id               uuid NOT NULL DEFAULT gen_random_uuid(),
  run_id           uuid NOT NULL,
  job_id           uuid,
  dataset_id       uuid,
  test_key         text NOT NULL,
  name             text NOT NULL,
  assertion        text,
  column_name      text,
  status           text NOT NULL CHECK (status IN ('passed', 'failed', 'error', 'skipped')),
  severity         text NOT NULL CHECK (severity IN ('warn', 'error')),
  expected         text,
  actual           text,
  description      text,
  detail           jsonb NOT NULL DEFAULT '{}',
  observed_at      timestamptz NOT NULL,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);
CREATE UNIQUE INDEX test_results_identity ON test_results
  (organization_id, run_id, coalesce(dataset_id, '00000000-0000-0000-0000-000000000000'), test_key);
CREATE INDEX test_results_dataset ON test_results (organization_id, dataset_id, observed_at DESC);

CREATE TABLE freshness_sla (
  organization_id  uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  sla_hours        numeric NOT NULL CHECK (sla_hours > 0),
  last_updated_at  timestamptz,
  is_stale         boolean NOT NULL DEFAULT false,
  created_at       timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, dataset_id),
  FOREIGN KEY (organization_id, dataset_id) REFERENCES datasets ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
);

-- Work -------------------------------------------------------------------------------------------

-- A follow-up of what was ingested, written in the same transaction. `repeat_s` marks recurring work.
CREATE TABLE outbox (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id  uuid NOT NULL,
  kind             text NOT NULL,
  run_id           uuid,
  dataset_id       uuid,
  payload          jsonb NOT NULL DEFAULT '{}',
  due_at           timestamptz NOT NULL DEFAULT now(),
  repeat_s         integer,
  attempts         integer NOT NULL DEFAULT 0,
  claim_token      uuid,
  claimed_until    timestamptz,
  last_error       text,
  created_at       timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX outbox_recurring ON outbox (organization_id, kind) WHERE repeat_s IS NOT NULL;

-- Row-level security -----------------------------------------------------------------------------

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'content_epochs', 'users', 'invites', 'api_keys', 'lineage_events', 'idempotency_keys', 'refused_events', 'jobs', 'job_runs',
    'stage_metrics', 'datasets', 'dataset_aliases', 'alias_rules', 'name_patterns', 'dataset_merges',
    'dataset_merge_rows', 'job_datasets', 'dataset_facets', 'lineage_edges', 'column_lineage_edges',
    'schema_versions', 'dataset_metrics', 'test_results', 'freshness_sla', 'outbox'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    -- The sub-select is evaluated once per query, not once per row.
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;

ALTER TABLE lineage_events_default ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE dataset_metrics_default ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

ALTER TABLE organizations ENABLE ROW LEVEL SECURITY;
ALTER TABLE organizations FORCE ROW LEVEL SECURITY;
CREATE POLICY organization ON organizations USING (id = (SELECT current_organization()));
GRANT SELECT, INSERT, UPDATE ON organizations TO headgate_app;
GRANT SELECT, INSERT ON server_secrets TO headgate_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA headgate TO headgate_app;

-- The three functions below run before the organisation is known. They belong to the owner, and these
-- policies let the owner (never the application) see across organisations in just the tables they need.
CREATE POLICY lookup ON api_keys TO headgate_owner USING (true);
CREATE POLICY lookup ON users TO headgate_owner USING (true);
CREATE POLICY lookup ON invites TO headgate_owner USING (true);
CREATE POLICY lookup ON organizations FOR SELECT TO headgate_owner USING (true);
CREATE POLICY claim ON outbox TO headgate_owner USING (true);

-- Key lookup. Touches last_used_at at most once a minute, so that a busy key is not a busy row.
CREATE FUNCTION authenticate_key(p_key_hash bytea)
  RETURNS TABLE (key_id uuid, organization_id uuid, name text, scopes text[], expires_at timestamptz,
                 revoked_at timestamptz, tenant_id bigint, tenant_code text, organization_name text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = headgate, pg_temp
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

-- Login by e-mail, and by the token of an invite (which stands for an e-mail).
CREATE FUNCTION find_login(p_email text, p_invite_hash bytea)
  RETURNS TABLE (user_id uuid, organization_id uuid, email text, password_hash text, name text, role text,
                 invite_id uuid, invite_expires_at timestamptz, invite_accepted_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = headgate, pg_temp
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

-- Task claim: due rows of any organisation, locked for the caller until the claim expires.
CREATE FUNCTION claim_outbox(p_limit integer, p_claim_s integer)
  RETURNS TABLE (id bigint, organization_id uuid, kind text, run_id uuid, dataset_id uuid, payload jsonb,
                 attempts integer, claim_token uuid)
  LANGUAGE sql SECURITY DEFINER SET search_path = headgate, pg_temp
  AS $$
    UPDATE outbox o
       SET claim_token = gen_random_uuid(),
           claimed_until = now() + make_interval(secs => p_claim_s),
           attempts = o.attempts + 1
      FROM (SELECT d.id
              FROM outbox d
             WHERE d.due_at <= now()
               AND (d.claimed_until IS NULL OR d.claimed_until < now())
             ORDER BY d.id
             LIMIT p_limit
               FOR UPDATE SKIP LOCKED) due
     WHERE o.id = due.id
    RETURNING o.id, o.organization_id, o.kind, o.run_id, o.dataset_id, o.payload, o.attempts, o.claim_token
  $$;

REVOKE ALL ON FUNCTION authenticate_key(bytea), find_login(text, bytea), claim_outbox(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION authenticate_key(bytea), find_login(text, bytea), claim_outbox(integer, integer)
   TO headgate_app;

-- Partitions -------------------------------------------------------------------------------------

-- Makes the monthly partitions around now. Definer because it is DDL; it reads and writes no rows. A month
-- whose rows already sit in the default partition stays there: reads do not care, and nothing is moved.
CREATE FUNCTION ensure_partitions(p_months_ahead integer DEFAULT 3) RETURNS integer
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = headgate, pg_temp
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
REVOKE ALL ON FUNCTION ensure_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_partitions(integer) TO headgate_app;
SELECT ensure_partitions();

-- Views for people who query directly. They belong to the owner, who is subject to the policies too, so
-- they show the rows of the organisation that the session has set, and none without it.

CREATE VIEW current_schemas AS
SELECT d.organization_id,
       d.id AS dataset_id,
       d.namespace,
       d.name,
       v.version,
       v.fields,
       v.valid_from
  FROM datasets d
  JOIN schema_versions v ON v.organization_id = d.organization_id AND v.dataset_id = d.id
 WHERE v.valid_to IS NULL
   AND d.merged_into IS NULL;

CREATE VIEW lineage_graph AS
SELECT e.organization_id,
       e.source_id,
       s.namespace || '/' || s.name AS source_urn,
       e.target_id,
       t.namespace || '/' || t.name AS target_urn,
       j.namespace AS job_namespace,
       j.name AS job_name,
       e.first_seen_at,
       e.last_seen_at,
       e.last_completed_at
  FROM lineage_edges e
  JOIN datasets s ON s.organization_id = e.organization_id AND s.id = e.source_id
  JOIN datasets t ON t.organization_id = e.organization_id AND t.id = e.target_id
  JOIN jobs j ON j.organization_id = e.organization_id AND j.id = e.job_id;

CREATE VIEW column_lineage AS
SELECT e.organization_id,
       e.source_id,
       s.namespace || '/' || s.name AS source_urn,
       e.source_column,
       e.target_id,
       t.namespace || '/' || t.name AS target_urn,
       NULLIF(e.target_column, '') AS target_column,
       e.kinds,
       e.expression,
       e.job_id,
       e.first_seen_at,
       CASE WHEN e.is_current THEN greatest(e.last_seen_at, h.columns_seen_at) ELSE e.last_seen_at END AS last_seen_at
  FROM column_lineage_edges e
  JOIN datasets s ON s.organization_id = e.organization_id AND s.id = e.source_id
  JOIN datasets t ON t.organization_id = e.organization_id AND t.id = e.target_id
  LEFT JOIN job_datasets h ON h.organization_id = e.organization_id AND h.job_id = e.job_id
                          AND h.dataset_id = e.target_id AND h.role = 'output';

CREATE VIEW latest_test_results AS
SELECT DISTINCT ON (r.organization_id, r.dataset_id, r.test_key)
       r.organization_id,
       r.dataset_id,
       d.namespace || '/' || d.name AS dataset_urn,
       r.name,
       r.assertion,
       r.column_name,
       r.status,
       r.severity,
       r.run_id,
       r.observed_at
  FROM test_results r
  LEFT JOIN datasets d ON d.organization_id = r.organization_id AND d.id = r.dataset_id
 ORDER BY r.organization_id, r.dataset_id, r.test_key, r.observed_at DESC;

GRANT SELECT ON current_schemas, lineage_graph, column_lineage, latest_test_results TO headgate_app;
