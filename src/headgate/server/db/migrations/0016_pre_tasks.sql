-- Background work: tasks that outlive the process that made them, each with its attempts and its batch. They take the
-- place of the outbox, whose rows move here.
SET LOCAL lock_timeout = '5s';

CREATE TABLE async_task (
  id                 bigint GENERATED ALWAYS AS IDENTITY,
  organization_id    uuid NOT NULL,
  task_type          text COLLATE "C" NOT NULL,
  tenant_id          bigint NOT NULL,
  tenant_code        text NOT NULL,
  resource_type      text COLLATE "C" NOT NULL,
  resource_id        text COLLATE "C" NOT NULL,
  content_hash       text COLLATE "C" NOT NULL,
  model_fingerprint  text COLLATE "C" NOT NULL DEFAULT '',
  status             text NOT NULL DEFAULT 'PENDING'
                     CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'DEAD', 'CANCELED')),
  priority           integer NOT NULL DEFAULT 100,
  retry_count        integer NOT NULL DEFAULT 0,
  max_retry          integer NOT NULL DEFAULT 5,
  next_run_at        timestamptz NOT NULL DEFAULT now(),
  claim_token        uuid,
  claim_until        timestamptz,
  claimed_at         timestamptz,
  worker_id          text,
  batch_no           text,
  attempts           integer NOT NULL DEFAULT 0,
  is_alone           boolean NOT NULL DEFAULT false,
  last_error         text,
  payload            jsonb NOT NULL DEFAULT '{}',
  repeat_s           integer,
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, id),
  -- The six parts that make a task what it is, in the order in which the tasks of a resource can be found.
  CONSTRAINT async_task_key
    UNIQUE (tenant_id, resource_id, resource_type, task_type, model_fingerprint, content_hash)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
COMMENT ON COLUMN async_task.priority IS 'The smaller, the sooner';
COMMENT ON COLUMN async_task.repeat_s IS 'Set for recurring work: it is due again so many seconds after it was done';
COMMENT ON COLUMN async_task.attempts IS 'How often it was claimed; the number of its latest attempt';
COMMENT ON COLUMN async_task.is_alone IS 'Its worker did not come back once: from then on it has a batch of its own';
-- Where claims look: what may share a batch, then by when it is due.
CREATE INDEX async_task_open
  ON async_task (organization_id, task_type, priority, model_fingerprint, is_alone, next_run_at, id)
  WHERE status IN ('PENDING', 'FAILED');
CREATE INDEX async_task_running ON async_task (claim_until) WHERE status = 'RUNNING';
CREATE INDEX async_task_listed ON async_task (organization_id, status, task_type, id);

CREATE TABLE async_task_attempt (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id  uuid NOT NULL,
  task_id          bigint NOT NULL,
  attempt_no       integer NOT NULL,
  worker_id        text NOT NULL,
  started_at       timestamptz NOT NULL,
  finished_at      timestamptz,
  status           text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
  batch_no         text,
  input_size       integer,
  latency_ms       bigint,
  error_type       text,
  error_message    text,
  created_at       timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (organization_id, task_id) REFERENCES async_task ON DELETE CASCADE
);
CREATE INDEX async_task_attempt_task ON async_task_attempt (organization_id, task_id, attempt_no);
CREATE INDEX async_task_attempt_batch ON async_task_attempt (batch_no);
COMMENT ON TABLE async_task_attempt IS 'Attempts that are over; the one that goes on is in async_task';

CREATE TABLE async_batch (
  id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id    uuid NOT NULL,
  batch_no           text NOT NULL UNIQUE,
  task_type          text NOT NULL,
  tenant_id          bigint NOT NULL,
  model_fingerprint  text NOT NULL,
  worker_id          text NOT NULL,
  planned_size       integer NOT NULL,
  success_count      integer NOT NULL DEFAULT 0,
  failed_count       integer NOT NULL DEFAULT 0,
  started_at         timestamptz NOT NULL,
  finished_at        timestamptz,
  status             text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED')),
  created_at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX async_batch_listed ON async_batch (organization_id, id);
CREATE INDEX async_batch_of_type ON async_batch (organization_id, task_type, id);
CREATE INDEX async_batch_running ON async_batch (organization_id, id) WHERE status = 'RUNNING';

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY['async_task', 'async_task_attempt', 'async_batch'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('CREATE POLICY claim ON %I TO headgate_owner USING (true)', tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA headgate TO headgate_app;

-- How long after its n-th failure a task is tried again: 1 and 5 and 15 minutes, 1 and 6 hours.
CREATE FUNCTION task_backoff(p_failures integer) RETURNS interval
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT make_interval(secs => (ARRAY[60, 300, 900, 3600, 21600])[least(greatest(p_failures, 1), 5)])
  $$;

CREATE FUNCTION content_hash(VARIADIC p_parts text[]) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT encode(sha256(convert_to(array_to_string(p_parts, E'\x1f', ''), 'UTF8')), 'hex')
  $$;

-- Makes tasks in the caller's transaction; one that is there already, in whatever state, is not made again.
CREATE FUNCTION enqueue_tasks(
  p_organization uuid, t_type text[], t_resource_type text[], t_resource_id text[], t_hash text[], t_model text[],
  t_payload text[], t_priority integer[], t_delay_s double precision[])
  RETURNS bigint
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

-- One batch of an organisation: due tasks of one type and one model, the most urgent kind first. Each fourth turn begins
-- with one of the other kinds: what is urgent does not hold up the rest for ever. The token is the claimer's: it knows
-- what to give back even if it never hears the answer.
CREATE FUNCTION claim_tasks(
  p_organization uuid, p_types text[], p_sizes integer[], p_claims_s integer[], p_worker text, p_turn integer,
  p_token uuid)
  RETURNS SETOF async_task
  LANGUAGE plpgsql
  SET plan_cache_mode = force_generic_plan
  SET enable_seqscan = off
  SET enable_bitmapscan = off
  -- The index has the order; whatever else the planner may think of reads all that is waiting. What it must sort all
  -- the same then looks so dear to it that it would be compiled first.
  SET enable_sort = off
  SET jit = off
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

-- Ends tasks of a batch well: those that the claim still holds. Recurring ones are due again later.
CREATE FUNCTION finish_tasks(p_organization uuid, p_ids bigint[], p_token uuid) RETURNS SETOF bigint
  LANGUAGE sql
  SET enable_seqscan = off
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

-- Ends tasks of a batch with their errors: they are due again after a while, or dead.
CREATE FUNCTION fail_tasks(
  p_organization uuid, p_ids bigint[], p_token uuid, p_types text[], p_messages text[], p_delays_s double precision[])
  RETURNS TABLE (id bigint, status text)
  LANGUAGE sql
  SET enable_seqscan = off
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

-- Gives back what a claim still holds, through no fault of the tasks: they are due as they were.
CREATE FUNCTION release_tasks(p_organization uuid, p_token uuid, p_reason text) RETURNS SETOF bigint
  LANGUAGE sql
  SET enable_seqscan = off
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

-- Ends a batch with its counts.
CREATE FUNCTION close_batch(p_organization uuid, p_batch text, p_succeeded integer, p_failed integer) RETURNS void
  LANGUAGE sql
  AS $$
    UPDATE async_batch b
       SET success_count = p_succeeded,
           failed_count = p_failed,
           finished_at = clock_timestamp(),
           status = CASE WHEN p_failed > 0 THEN 'FAILED' ELSE 'SUCCEEDED' END
     WHERE b.organization_id = p_organization AND b.batch_no = p_batch AND b.status = 'RUNNING'
  $$;

-- In which states an organisation has tasks of which types: from one to the next by the index.
CREATE FUNCTION task_kinds(p_organization uuid) RETURNS TABLE (status text, task_type text)
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

-- The kinds of tasks that wait, of all organisations: from organisation to organisation, and in each from kind to kind,
-- by the index. What is waiting is not read, if the caller has the planner go by it. Of use to the functions below only.
CREATE FUNCTION open_task_kinds()
  RETURNS TABLE (organization_id uuid, task_type text, priority integer, model_fingerprint text, is_alone boolean)
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

-- Which organisations have work that is due. Claims that ran out are taken back first: their workers are gone, or
-- hang. Rows with a number say how many of which kind that were, and what they are now. As one of the tasks may be why, each is done alone from then on, and the one that takes its worker down each
-- time is dead in the end, like any other that fails.
CREATE FUNCTION find_due_organizations(p_types text[], p_limit integer)
  RETURNS TABLE (organization_id uuid, tenant_code text, task_type text, status text, number bigint)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = headgate, pg_temp
  SET enable_seqscan = off
  SET enable_bitmapscan = off
  SET enable_sort = off
  SET jit = off
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

-- How much is due, by tenant and type, the most first, for whoever watches the installation. Counts up to a bound.
CREATE FUNCTION count_due_tasks(p_most integer, p_limit integer)
  RETURNS TABLE (tenant_code text, task_type text, number bigint, oldest_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = headgate, pg_temp
  SET enable_seqscan = off
  SET enable_bitmapscan = off
  SET enable_sort = off
  SET jit = off
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

-- Gives every organisation the recurring work of these types that it does not have yet; how much that was.
CREATE FUNCTION schedule_recurring(p_types text[], p_every_s integer[]) RETURNS bigint
  LANGUAGE sql SECURITY DEFINER SET search_path = headgate, pg_temp
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

REVOKE ALL ON FUNCTION open_task_kinds() FROM PUBLIC;
REVOKE ALL ON FUNCTION find_due_organizations(text[], integer), schedule_recurring(text[], integer[]),
                       count_due_tasks(integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_due_organizations(text[], integer), schedule_recurring(text[], integer[]),
                          count_due_tasks(integer, integer)
   TO headgate_app;

-- Stats of datasets have a pad of their own: whoever reads carries the notes out, so they are no tasks.
CREATE TABLE dataset_stats_notes (
  id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  organization_id  uuid NOT NULL,
  payload          jsonb NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX dataset_stats_notes_organization ON dataset_stats_notes (organization_id, id);

-- Owner and policies see all organisations' rows of the outbox, so they can move.
INSERT INTO dataset_stats_notes (organization_id, payload)
SELECT o.organization_id, o.payload
  FROM outbox o
 WHERE o.kind = 'dataset_stats'
 ORDER BY o.id;
ALTER TABLE dataset_stats_notes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY organization ON dataset_stats_notes USING (organization_id = (SELECT current_organization()));
GRANT SELECT, INSERT, UPDATE, DELETE ON dataset_stats_notes TO headgate_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA headgate TO headgate_app;

CREATE OR REPLACE FUNCTION note_dataset_stats(p_organization uuid, p_part text, p_datasets uuid[]) RETURNS void
  LANGUAGE sql
  AS $$
    INSERT INTO dataset_stats_notes (organization_id, payload)
    VALUES (p_organization, jsonb_build_object(p_part, p_datasets))
  $$;

CREATE OR REPLACE FUNCTION settle_dataset_stats(p_organization uuid, p_most integer DEFAULT 2000) RETURNS boolean
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

-- What ingest has left for a worker. Recurring work is scheduled anew, by the worker.
INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id, content_hash,
                        payload, priority, next_run_at, created_at)
SELECT g.id, f.type, g.tenant_id, g.tenant_code, f.resource_type, f.resource_id, f.hash, f.payload,
       CASE f.type WHEN 'DETECT' THEN 50 ELSE 60 END, o.due_at, o.created_at
  FROM outbox o
  JOIN organizations g ON g.id = o.organization_id
 CROSS JOIN LATERAL (SELECT CASE WHEN o.kind = 'run_finished' AND o.payload ->> 'state' <> 'COMPLETE' THEN 'CORRELATE'
                                 WHEN o.kind = 'test_failed' THEN 'CORRELATE'
                                 ELSE 'DETECT' END AS type,
                            CASE WHEN o.kind = 'test_failed' THEN 'TEST'
                                 WHEN coalesce(o.run_id, '00000000-0000-0000-0000-000000000000')
                                        = '00000000-0000-0000-0000-000000000000' THEN 'DATASET'
                                 ELSE 'RUN' END AS resource_type,
                            CASE WHEN o.kind = 'test_failed'
                                      OR coalesce(o.run_id, '00000000-0000-0000-0000-000000000000')
                                           <> '00000000-0000-0000-0000-000000000000' THEN o.run_id::text
                                 ELSE o.dataset_id::text END AS resource_id,
                            CASE WHEN o.kind = 'schema_changed' THEN content_hash('schema', o.payload ->> 'version_id')
                                 ELSE content_hash('outbox', o.run_id::text) END AS hash,
                            CASE WHEN o.kind = 'test_failed' THEN jsonb '{"kind": "tests"}'
                                 WHEN o.kind = 'run_finished' AND o.payload ->> 'state' <> 'COMPLETE'
                                 THEN jsonb '{"kind": "run_failed"}'
                                 WHEN o.kind = 'schema_changed'
                                 THEN jsonb_build_object('schema_version', o.payload ->> 'version_id',
                                                         'dataset_id', o.dataset_id)
                                 ELSE jsonb '{}' END AS payload
                      UNION ALL
                     -- What a run measured that did not end well is no part of what is usual.
                     SELECT 'DETECT', 'RUN', o.run_id::text, content_hash('outbox', o.run_id::text), jsonb '{}'
                      WHERE o.kind = 'run_finished' AND o.payload ->> 'state' <> 'COMPLETE') f
 WHERE o.kind IN ('run_finished', 'metrics_recorded', 'test_failed', 'schema_changed')
   AND f.resource_id IS NOT NULL
ON CONFLICT ON CONSTRAINT async_task_key DO NOTHING;
DROP FUNCTION claim_outbox(integer, integer);
DROP TABLE outbox;

-- Makes the transaction the organisation's, takes the keys of new events, and locks and gives those of their runs that
-- exist.
DROP FUNCTION claim_events(uuid, bytea[]);
CREATE FUNCTION claim_events(
  p_organization uuid, p_keys bytea[], p_runs uuid[] DEFAULT '{}',
  OUT fresh bytea[], OUT epoch bigint, OUT held job_runs[])
  LANGUAGE plpgsql
  SET enable_seqscan = off
  SET enable_hashjoin = off
  SET enable_mergejoin = off
  SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan
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

-- Writes the rows of a group. The last arguments have defaults for servers that do not know them yet.
DROP FUNCTION store_events(
  uuid, text, text[], text[], timestamptz[], uuid[], uuid[], text[], text[], bytea[], uuid[], text[], boolean[], uuid[],
  text[], timestamptz[], timestamptz[], timestamptz[], timestamptz[], timestamptz[], uuid[], uuid[], text[], text[],
  text[], text[], text[], uuid[], uuid[], text[], timestamptz[], timestamptz[], timestamptz[], bigint[], bigint[],
  bigint[], timestamptz[], bytea[], timestamptz[], uuid[], uuid[], uuid[], timestamptz[], timestamptz[], timestamptz[],
  uuid[], uuid[], timestamptz[], uuid[], text[], uuid[], bigint[], bigint[], text[], text[]);
CREATE FUNCTION store_events(
  p_organization    uuid,
  p_tenant_code     text,
  e_kind            text[],
  e_type            text[],
  e_time            timestamptz[],
  e_run             uuid[],
  e_job             uuid[],
  e_producer        text[],
  e_extra           text[],
  e_raw             bytea[],
  r_run             uuid[],
  r_place           text[],
  r_has_ended       boolean[],
  r_job             uuid[],
  r_state           text[],
  r_started_at      timestamptz[],
  r_last_event_at   timestamptz[],
  r_activity_at     timestamptz[],
  r_start_at        timestamptz[],
  r_complete_at     timestamptz[],
  r_parent          uuid[],
  r_root            uuid[],
  r_processing      text[],
  r_inputs          text[],
  r_outputs         text[],
  r_producer        text[],
  r_extra           text[],
  h_job             uuid[],
  h_dataset         uuid[],
  h_role            text[],
  h_first_at        timestamptz[],
  h_last_at         timestamptz[],
  h_completed_at    timestamptz[],
  h_start_hash      bigint[],
  h_facets_hash     bigint[],
  h_columns_hash    bigint[],
  h_columns_at      timestamptz[],
  h_schema          bytea[],
  h_schema_at       timestamptz[],
  s_source          uuid[],
  s_target          uuid[],
  s_job             uuid[],
  s_first_at        timestamptz[],
  s_last_at         timestamptz[],
  s_completed_at    timestamptz[],
  s_run             uuid[],
  m_dataset         uuid[],
  m_at              timestamptz[],
  m_run             uuid[],
  m_direction       text[],
  m_job             uuid[],
  m_rows            bigint[],
  m_bytes           bigint[],
  m_partition_key   text[],
  m_extra           text[],
  r_parent_job      text[] DEFAULT '{}',
  r_root_job        text[] DEFAULT '{}',
  r_application     text[] DEFAULT '{}',
  r_hash            text[] DEFAULT NULL
)
  RETURNS void
  LANGUAGE plpgsql
  SET enable_seqscan = off
  SET enable_hashjoin = off
  SET enable_mergejoin = off
  SET enable_bitmapscan = off
  SET plan_cache_mode = force_generic_plan
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
