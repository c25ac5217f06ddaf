-- name: claim_outbox
-- Due follow-ups of any organisation, for this worker alone until the claim runs out.
SELECT id, organization_id, kind, run_id, dataset_id, payload, attempts, claim_token
  FROM claim_outbox($1, $2);

-- name: complete_follow_ups
-- Takes finished follow-ups off; a claim that somebody else has taken over is left alone.
DELETE FROM outbox o
 USING unnest($2::bigint[], $3::uuid[]) AS u (id, claim_token)
 WHERE o.organization_id = $1
   AND o.id = u.id
   AND o.claim_token = u.claim_token
   AND o.repeat_s IS NULL;

-- name: reschedule_recurring
-- Recurring work is due again after its interval.
UPDATE outbox o
   SET due_at = now() + make_interval(secs => o.repeat_s),
       claim_token = NULL,
       claimed_until = NULL,
       attempts = 0,
       last_error = NULL
  FROM unnest($2::bigint[], $3::uuid[]) AS u (id, claim_token)
 WHERE o.organization_id = $1
   AND o.id = u.id
   AND o.claim_token = u.claim_token
   AND o.repeat_s IS NOT NULL;

-- name: fail_follow_up
-- Puts one back with its error, later each time.
UPDATE outbox
   SET claim_token = NULL,
       claimed_until = NULL,
       last_error = $4,
       due_at = now() + make_interval(secs => least(3600, 5 * power(2, least(attempts, 12)))::integer)
 WHERE organization_id = $1
   AND id = $2
   AND claim_token = $3;

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
