-- name: claim_tasks
-- One batch of due tasks of an organisation, for this worker alone until the claim runs out.
SELECT id, organization_id, task_type, tenant_code, resource_type, resource_id, model_fingerprint, payload, attempts,
       retry_count, max_retry, claim_token, created_at
  FROM claim_tasks($1, $2::text[], $3::integer[], $4::integer[], $5, $6, $7);

-- name: finish_tasks
-- Ends tasks well, as far as the claim still holds; their ids.
SELECT finish_tasks($1, $2::bigint[], $3);

-- name: fail_tasks
-- Puts tasks back with their errors, or gives them up; the state that each is in now.
SELECT t.id, t.status
  FROM fail_tasks($1, $2::bigint[], $3, $4::text[], $5::text[], $6::double precision[]) AS t (id, status);

-- name: release_tasks
-- Gives back what a claim still holds; the ids.
SELECT release_tasks($1, $2, $3);

-- name: renew_claim
-- More time for tasks that are still being done. Those that are being ended at this moment are let be.
UPDATE async_task t
   SET claim_until = clock_timestamp() + make_interval(secs => $4::integer)
 WHERE t.organization_id = $1
   AND t.id = ANY (ARRAY(SELECT x.id
                           FROM async_task x
                          WHERE x.organization_id = $1
                            AND x.id = ANY ($2::bigint[])
                            AND x.claim_token = $3
                            AND x.status = 'RUNNING'
                            FOR NO KEY UPDATE SKIP LOCKED));

-- name: close_batch
-- Ends a batch with its counts.
SELECT close_batch($1, $2, $3, $4);

-- name: find_due_organizations
-- Takes back the claims that ran out and tells how many tasks of which kinds that were; then who has work that is due.
SELECT f.organization_id, f.tenant_code, f.task_type, f.status, f.number
  FROM find_due_organizations($1::text[], $2) AS f (organization_id, tenant_code, task_type, status, number);

-- name: schedule_recurring
-- Recurring work for organisations that do not have it yet.
SELECT schedule_recurring($1::text[], $2::integer[]);

-- name: delete_old_tasks
-- One batch of tasks that were over so many hours ago, or dead for so many days, with their attempts; oldest first.
DELETE FROM async_task t
 WHERE t.organization_id = $1
   AND t.id = ANY (ARRAY(SELECT x.id
                           FROM task_kinds($1) k
                          CROSS JOIN LATERAL (SELECT t.id, t.updated_at
                                                FROM async_task t
                                               WHERE t.organization_id = $1
                                                 AND t.status = k.status
                                                 AND t.task_type = k.task_type
                                               ORDER BY t.id
                                               LIMIT $2) x
                          WHERE k.status IN ('SUCCEEDED', 'CANCELED', 'DEAD')
                            AND x.updated_at < now() - CASE WHEN k.status = 'DEAD'
                                                            THEN make_interval(days => $4::integer)
                                                            ELSE make_interval(hours => $3::integer) END
                          LIMIT $2));

-- name: delete_old_batches
-- One batch of batches that began so many hours ago; those of workers that are gone have no end.
DELETE FROM async_batch b
 WHERE b.organization_id = $1
   AND b.id = ANY (ARRAY(SELECT x.id
                           FROM (SELECT o.id, o.started_at
                                   FROM async_batch o
                                  WHERE o.organization_id = $1
                                  ORDER BY o.id
                                  LIMIT $2) x
                          WHERE x.started_at < now() - make_interval(hours => $3::integer)));

-- name: close_left_batches
-- Ends batches whose tasks are all over while they are not: their workers died between the two.
UPDATE async_batch b
   SET status = 'FAILED', finished_at = now()
 WHERE b.organization_id = $1
   AND b.status = 'RUNNING'
   AND b.id = ANY (ARRAY(SELECT x.id
                           FROM async_batch x
                          WHERE x.organization_id = $1
                            AND x.status = 'RUNNING'
                            AND x.started_at < now() - interval '10 minutes'
                            AND NOT EXISTS (SELECT
                                              FROM async_task t
                                             WHERE t.organization_id = $1
                                               AND t.status = 'RUNNING'
                                               AND t.batch_no = x.batch_no)
                          ORDER BY x.id
                          LIMIT $2));

-- name: delete_expired_keys
-- One batch of idempotency keys past their day; the count says whether there is more.
WITH expired AS (
  SELECT key
    FROM idempotency_keys
   WHERE organization_id = $1
     AND created_at < now() - interval '24 hours'
   LIMIT $2
)
DELETE FROM idempotency_keys k
 USING expired e
 WHERE k.organization_id = $1
   AND k.key = e.key
   AND k.created_at < now() - interval '24 hours';

-- name: delete_old_refused
-- One batch of refused events past their week.
DELETE FROM refused_events r
 WHERE r.organization_id = $1
   AND r.id IN (SELECT o.id
                  FROM refused_events o
                 WHERE o.organization_id = $1
                   AND o.received_at < now() - interval '7 days'
                 LIMIT $2);

-- name: ensure_partitions
-- Partitions of the months to come.
SELECT ensure_partitions();

-- name: settle_stats
-- Brings the stats of so many of the organisation's datasets up to date; whether some are left.
SELECT settle_dataset_stats($1, $2);

-- name: list_tasks
-- Tasks of an organisation, newest first.
SELECT t.*
  FROM async_task t
 WHERE t.organization_id = $1
   AND t.id < $2
 ORDER BY t.id DESC
 LIMIT $3;

-- name: list_tasks_by_kind
-- Tasks in some state or of some type, newest first. Goes from kind to kind by the index and takes a page of each.
SELECT t.*
  FROM task_kinds($1) k
 CROSS JOIN LATERAL (SELECT x.*
                       FROM async_task x
                      WHERE x.organization_id = $1
                        AND x.status = k.status
                        AND x.task_type = k.task_type
                        AND x.id < $2
                      ORDER BY x.id DESC
                      LIMIT $3) t
 WHERE ($4::text IS NULL OR k.task_type = $4)
   AND ($5::text[] IS NULL OR k.status = ANY ($5))
 ORDER BY t.id DESC
 LIMIT $3;

-- name: list_tasks_of_resource
-- Tasks that are about one resource, newest first.
SELECT t.*
  FROM async_task t
 WHERE t.organization_id = $1
   AND t.tenant_id = (SELECT o.tenant_id FROM organizations o WHERE o.id = $1)
   AND t.resource_id = $6
   AND ($7::text IS NULL OR t.resource_type = $7)
   AND ($4::text IS NULL OR t.task_type = $4)
   AND ($5::text[] IS NULL OR t.status = ANY ($5))
   AND t.id < $2
 ORDER BY t.id DESC
 LIMIT $3;

-- name: find_task
-- One task.
SELECT t.*
  FROM async_task t
 WHERE t.organization_id = $1
   AND t.id = $2;

-- name: list_attempts
-- The latest attempts of a task that are over, the first of them first.
SELECT a.*
  FROM (SELECT x.*
          FROM async_task_attempt x
         WHERE x.organization_id = $1
           AND x.task_id = $2
         ORDER BY x.attempt_no DESC
         LIMIT $3) a
 ORDER BY a.attempt_no;

-- name: retry_task
-- Makes a task due now, as if it were new, if it is not waiting or at work anyway; its attempts are kept.
UPDATE async_task t
   SET status = 'PENDING',
       retry_count = 0,
       is_alone = false,
       last_error = NULL,
       next_run_at = now(),
       updated_at = now()
 WHERE t.organization_id = $1
   AND t.id = $2
   AND t.status IN ('DEAD', 'FAILED', 'CANCELED')
RETURNING t.*;

-- name: retry_tasks
-- The same for one batch of tasks in a state, of one type or of all; those that somebody works on are left out.
UPDATE async_task t
   SET status = 'PENDING',
       retry_count = 0,
       is_alone = false,
       last_error = NULL,
       next_run_at = now(),
       updated_at = now()
 WHERE t.organization_id = $1
   AND t.id = ANY (ARRAY(SELECT x.id
                           FROM async_task x
                          WHERE x.organization_id = $1
                            AND x.status = $2
                            AND ($3::text IS NULL OR x.task_type = $3)
                          ORDER BY x.task_type, x.id
                          LIMIT $4
                            FOR UPDATE SKIP LOCKED));

-- name: cancel_task
-- Cancels a task that is not over; whoever works on it finds the claim gone. Recurring work is not canceled.
WITH found AS (
  SELECT t.id, t.status, t.attempts, t.worker_id, t.claimed_at, t.batch_no
    FROM async_task t
   WHERE t.organization_id = $1
     AND t.id = $2
     AND t.status IN ('PENDING', 'FAILED', 'RUNNING')
     AND t.repeat_s IS NULL
     FOR UPDATE
),
noted AS (
  INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, finished_at, status,
                                  batch_no, latency_ms, error_type, error_message)
  SELECT $1, f.id, f.attempts, f.worker_id, f.claimed_at, clock_timestamp(), 'CANCELED', f.batch_no,
         extract(epoch FROM clock_timestamp() - f.claimed_at) * 1000, 'Canceled', $3
    FROM found f
   WHERE f.status = 'RUNNING'
)
UPDATE async_task t
   SET status = 'CANCELED',
       claim_token = NULL,
       claim_until = NULL,
       last_error = $3,
       updated_at = clock_timestamp()
  FROM found f
 WHERE t.organization_id = $1
   AND t.id = f.id
RETURNING t.*;

-- name: count_open
-- How many tasks are waiting, counted up to a bound.
SELECT count(*)
  FROM (SELECT
          FROM async_task t
         WHERE t.organization_id = $1
           AND t.status IN ('PENDING', 'FAILED')
         LIMIT $2) x;

-- name: count_tasks
-- How many tasks are in each state that is not a good end, by type, each counted up to a bound.
SELECT k.task_type, k.status, c.number
  FROM task_kinds($1) k
 CROSS JOIN LATERAL (SELECT count(*) AS number
                       FROM (SELECT
                               FROM async_task t
                              WHERE t.organization_id = $1
                                AND t.status = k.status
                                AND t.task_type = k.task_type
                              LIMIT $2) x) c
 WHERE k.status IN ('PENDING', 'RUNNING', 'FAILED', 'DEAD')
 ORDER BY k.task_type, k.status;

-- name: count_due
-- How many of the waiting tasks are due, by type, each kind counted up to a bound, and since when the oldest is.
WITH RECURSIVE kinds AS (
  (SELECT t.task_type, t.priority, t.model_fingerprint, t.is_alone
     FROM async_task t
    WHERE t.organization_id = $1 AND t.status IN ('PENDING', 'FAILED')
    ORDER BY t.task_type, t.priority, t.model_fingerprint, t.is_alone
    LIMIT 1)
  UNION ALL
  SELECT n.task_type, n.priority, n.model_fingerprint, n.is_alone
    FROM kinds k
   CROSS JOIN LATERAL (SELECT t.task_type, t.priority, t.model_fingerprint, t.is_alone
                         FROM async_task t
                        WHERE t.organization_id = $1 AND t.status IN ('PENDING', 'FAILED')
                          AND (t.task_type, t.priority, t.model_fingerprint, t.is_alone)
                                > (k.task_type, k.priority, k.model_fingerprint, k.is_alone)
                        ORDER BY t.task_type, t.priority, t.model_fingerprint, t.is_alone
                        LIMIT 1) n
)
SELECT k.task_type, sum(d.number)::bigint AS number, min(d.oldest_at) AS oldest_at
  FROM kinds k
 CROSS JOIN LATERAL (SELECT count(*) AS number, min(x.next_run_at) AS oldest_at
                       FROM (SELECT t.next_run_at
                               FROM async_task t
                              WHERE t.organization_id = $1 AND t.status IN ('PENDING', 'FAILED')
                                AND t.task_type = k.task_type AND t.priority = k.priority
                                AND t.model_fingerprint = k.model_fingerprint AND t.is_alone = k.is_alone
                                AND t.next_run_at <= now()
                              ORDER BY t.next_run_at, t.id
                              LIMIT $2) x) d
 WHERE d.number > 0
 GROUP BY k.task_type
 ORDER BY k.task_type;

-- name: count_due_tasks
-- How much is due in the whole installation, by tenant and type.
SELECT tenant_code, task_type, number, oldest_at
  FROM count_due_tasks($1, $2);

-- name: list_batches
-- Batches of an organisation, newest first.
SELECT b.*
  FROM async_batch b
 WHERE b.organization_id = $1
   AND b.id < $2
 ORDER BY b.id DESC
 LIMIT $3;

-- name: list_batches_of_type
-- Batches of one type, newest first.
SELECT b.*
  FROM async_batch b
 WHERE b.organization_id = $1
   AND b.task_type = $4
   AND b.id < $2
 ORDER BY b.id DESC
 LIMIT $3;
