-- name: find_id_range
-- Between which ids the events of a period lie, of an outcome and of producers if given, below an id.
SELECT min(first_id) AS first_id, max(last_id) AS last_id
  FROM ingest_hours
 WHERE organization_id = $1
   AND first_id IS NOT NULL
   AND ($2::timestamptz IS NULL OR hour > $2::timestamptz - interval '1 hour')
   AND ($3::timestamptz IS NULL OR hour < $3::timestamptz)
   AND ($4::text IS NULL OR outcome = $4::text)
   AND ($5::text[] IS NULL OR producer = ANY ($5::text[]))
   AND ($6::bigint IS NULL OR first_id < $6::bigint);

-- name: list_producers
-- Every producer that was ever heard of, as it is counted.
SELECT DISTINCT producer
  FROM ingest_hours
 WHERE organization_id = $1;

-- name: list_events
-- A page of the log, newest first, from ids of a range and times of a period; no more than $12 rows are looked at.
SELECT e.id, e.received_at, e.event_time, e.kind, e.event_type, e.run_id, e.producer, e.outcome, e.reason, e.marks,
       octet_length(e.raw) AS packed_size, substring(e.raw FOR 18) AS frame,
       j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT w.*
          FROM (SELECT x.*
                  FROM lineage_events x
                 WHERE x.organization_id = $1
                   AND x.id BETWEEN $2::bigint AND $3::bigint
                   AND x.received_at >= $4::timestamptz
                   AND x.received_at < $5::timestamptz
                 ORDER BY x.id DESC
                 LIMIT $12::integer) w
         WHERE ($6::text[] IS NULL OR left(w.producer, 500) = ANY ($6::text[]))
           AND ($7::text IS NULL OR w.outcome = $7::text)
           AND ($8::text IS NULL OR w.kind = $8::text)
           AND ($9::text IS NULL OR w.event_type = $9::text)
           AND ($10::uuid[] IS NULL OR w.job_id = ANY ($10::uuid[]))
         ORDER BY w.id DESC
         LIMIT $11::integer) e
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = e.job_id
                     OFFSET 0) j ON true
 ORDER BY e.id DESC;

-- name: find_last_looked_at
-- The id at which a page stopped looking, if it had to.
SELECT CASE WHEN count(*) = $6::integer THEN min(w.id) END
  FROM (SELECT x.id
          FROM lineage_events x
         WHERE x.organization_id = $1
           AND x.id BETWEEN $2::bigint AND $3::bigint
           AND x.received_at >= $4::timestamptz
           AND x.received_at < $5::timestamptz
         ORDER BY x.id DESC
         LIMIT $6::integer) w;

-- name: list_run_events
-- The same page of the log for one run, found by the run.
SELECT e.id, e.received_at, e.event_time, e.kind, e.event_type, e.run_id, e.producer, e.outcome, e.reason, e.marks,
       octet_length(e.raw) AS packed_size, substring(e.raw FOR 18) AS frame,
       j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT w.*
          FROM (SELECT x.*
                  FROM lineage_events x
                 WHERE x.organization_id = $1
                   AND x.run_id = $12::uuid
                OFFSET 0) w
         WHERE w.id BETWEEN $2::bigint AND $3::bigint
           AND w.received_at >= $4::timestamptz
           AND w.received_at < $5::timestamptz
           AND ($6::text[] IS NULL OR left(w.producer, 500) = ANY ($6::text[]))
           AND ($7::text IS NULL OR w.outcome = $7::text)
           AND ($8::text IS NULL OR w.kind = $8::text)
           AND ($9::text IS NULL OR w.event_type = $9::text)
           AND ($10::uuid[] IS NULL OR w.job_id = ANY ($10::uuid[]))
         ORDER BY w.id DESC
         LIMIT $11::integer) e
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = e.job_id
                     OFFSET 0) j ON true
 ORDER BY e.id DESC;

-- name: get_event
-- One event of the log.
SELECT e.id, e.received_at, e.event_time, e.kind, e.event_type, e.run_id, e.producer, e.outcome, e.reason, e.marks,
       octet_length(e.raw) AS packed_size, substring(e.raw FOR 18) AS frame,
       j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM lineage_events e
  LEFT JOIN jobs j ON j.organization_id = e.organization_id AND j.id = e.job_id
 WHERE e.organization_id = $1
   AND e.id = $2;

-- name: list_raws
-- Events as they came, packed.
SELECT e.id, e.raw
  FROM unnest($2::bigint[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.raw
                       FROM lineage_events x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) e;

-- name: list_refused
-- A page of what was refused before it could become an event, newest first.
SELECT r.id, r.received_at, r.route, r.code, r.reason, r.producer, r.errors, r.body_size, r.correlation_id,
       octet_length(r.body) AS kept_size
  FROM refused_events r
 WHERE r.organization_id = $1
   AND ($2::timestamptz IS NULL OR (r.received_at, r.id) < ($2::timestamptz, $3::bigint))
   AND r.received_at >= $4::timestamptz
   AND r.received_at < $5::timestamptz
   AND ($6::text[] IS NULL OR left(coalesce(r.producer, ''), 500) = ANY ($6::text[]))
   AND ($7::text IS NULL OR r.code = $7::text)
   AND ($8::text IS NULL OR r.correlation_id = $8::text)
 ORDER BY r.received_at DESC, r.id DESC
 LIMIT $9::integer;

-- name: list_bodies
-- What was refused, as it came.
SELECT r.id, r.body
  FROM refused_events r
 WHERE r.organization_id = $1
   AND r.id = ANY ($2::bigint[]);

-- name: count_by_hour
-- Events of each hour since a moment, by outcome.
SELECT hour, outcome, sum(events)::bigint AS events
  FROM ingest_hours
 WHERE organization_id = $1
   AND hour >= $2::timestamptz
 GROUP BY hour, outcome
 ORDER BY hour;

-- name: count_by_producer
-- Producers heard of since a moment: what they sent since a later one, and when they were last heard of.
SELECT producer, max(last_at) AS last_at,
       coalesce(sum(events) FILTER (WHERE hour >= $3::timestamptz AND outcome = 'accepted'), 0)::bigint AS accepted,
       coalesce(sum(events) FILTER (WHERE hour >= $3::timestamptz AND outcome = 'refused'), 0)::bigint AS refused
  FROM ingest_hours
 WHERE organization_id = $1
   AND hour >= $2::timestamptz
 GROUP BY producer
 ORDER BY max(last_at) DESC, producer
 LIMIT $4::integer;

-- name: count_by_reason
-- What was refused since a moment, by reason.
SELECT reason, sum(events)::bigint AS events, max(last_at) AS last_at
  FROM ingest_hours
 WHERE organization_id = $1
   AND hour >= $2::timestamptz
   AND outcome = 'refused'
 GROUP BY reason
 ORDER BY 2 DESC, reason;

-- name: measure_lag
-- How long the newest accepted events since a moment took from their own time to us, in seconds.
SELECT count(*) AS events,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY w.lag_s) AS p50_s,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY w.lag_s) AS p95_s,
       max(w.lag_s) AS max_s
  FROM (SELECT extract(epoch FROM x.received_at - x.event_time)::double precision AS lag_s
          FROM lineage_events x
         WHERE x.organization_id = $1
           AND x.id >= $2::bigint
           AND x.received_at >= $3::timestamptz
         ORDER BY x.id DESC
         LIMIT $4::integer) w;

-- name: list_tallies
-- What each producer sent since a moment, by outcome and reason.
SELECT producer, outcome, reason, sum(events)::bigint AS events, min(first_at) AS first_at, max(last_at) AS last_at,
       sum(ahead)::bigint AS ahead, extract(epoch FROM max(max_ahead))::double precision AS max_ahead_s,
       sum(late)::bigint AS late, extract(epoch FROM max(max_late))::double precision AS max_late_s
  FROM ingest_hours
 WHERE organization_id = $1
   AND hour >= $2::timestamptz
 GROUP BY producer, outcome, reason
 ORDER BY sum(events) DESC, producer
 LIMIT $3::integer;

-- name: list_marks
-- What was noted of each producer's events since a moment.
SELECT producer, mark, sum(events)::bigint AS events, max(last_id) AS last_id
  FROM ingest_marks
 WHERE organization_id = $1
   AND hour >= $2::timestamptz
 GROUP BY producer, mark
 ORDER BY producer, mark
 LIMIT $3::integer;

-- name: list_samples
-- Ids to look at to see what a producer sends: the newest events of all, and the last ones of each producer's hours.
SELECT e.id
  FROM (SELECT x.id
          FROM lineage_events x
         WHERE x.organization_id = $1
           AND x.id >= $3::bigint
         ORDER BY x.id DESC
         LIMIT $4::integer) e
UNION
SELECT h.last_id
  FROM (SELECT g.last_id, row_number() OVER (PARTITION BY g.producer ORDER BY g.last_id DESC) AS place
          FROM ingest_hours g
         WHERE g.organization_id = $1
           AND g.hour >= $2::timestamptz
           AND g.last_id IS NOT NULL) h
 WHERE h.place <= $5::integer
 ORDER BY 1 DESC
 LIMIT $6::integer;

-- name: tally_runs
-- Runs first heard of since a moment, by producer, and how many of them are not as they should be.
SELECT left(r.producer, 500) AS producer, count(*) AS runs,
       count(*) FILTER (WHERE r.start_at IS NULL) AS missing_start,
       count(*) FILTER (WHERE r.ended_at IS NULL
                          AND r.last_event_at < now() - interval '24 hours'
                          AND coalesce(r.processing_type, '') NOT IN ('STREAMING', 'SERVICE')) AS unfinished,
       count(*) FILTER (WHERE r.last_activity_at > r.ended_at) AS active_after_end
  FROM (SELECT x.producer, x.start_at, x.ended_at, x.last_event_at, x.last_activity_at, x.processing_type
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.created_at >= $2::timestamptz
         LIMIT $3::integer) r
 GROUP BY 1;

-- name: find_newest
-- The newest events, to begin to follow the log from.
SELECT x.id
  FROM lineage_events x
 WHERE x.organization_id = $1
 ORDER BY x.id DESC
 LIMIT $2::integer;

-- name: list_arrivals
-- Events above an id with the snapshot in which they are seen; one row without an event when there are none.
SELECT pg_snapshot_xmin(s.seen)::text::bigint AS oldest_open, pg_snapshot_xmax(s.seen)::text::bigint AS next_begin,
       e.id, e.run_id, e.kind, e.outcome, e.event_time, e.received_at
  FROM (SELECT pg_current_snapshot() AS seen) s
  LEFT JOIN LATERAL (SELECT x.id, x.run_id, x.kind, x.outcome, x.event_time, x.received_at
                       FROM lineage_events x
                      WHERE x.organization_id = $1
                        AND x.id > $2::bigint
                      ORDER BY x.id
                      LIMIT $3::integer) e ON true;

-- name: list_recent
-- Events above an id that came since a moment, the newest of them.
SELECT x.id, x.run_id, x.kind, x.outcome, x.event_time, x.received_at
  FROM lineage_events x
 WHERE x.organization_id = $1
   AND x.id > $2::bigint
   AND x.received_at >= $3::timestamptz
 ORDER BY x.id DESC
 LIMIT $4::integer;

-- name: has_older
-- Whether there are events above an id that came before a moment.
SELECT x.received_at < $3::timestamptz
  FROM lineage_events x
 WHERE x.organization_id = $1
   AND x.id > $2::bigint
 ORDER BY x.id
 LIMIT 1;

-- name: list_states
-- Where these runs stand.
SELECT r.run_id, r.state, r.started_at, r.ended_at, j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM unnest($2::uuid[]) AS u (run_id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.job_id, x.state, x.started_at, x.ended_at
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                     OFFSET 0) r
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = r.job_id
                     OFFSET 0) j;

-- name: list_failures
-- Tests that failed in these runs, as events of these times have told.
SELECT t.id, t.run_id, t.name, t.assertion, t.column_name, t.status, t.severity, t.observed_at,
       d.id AS dataset_id, d.namespace, d.name AS dataset_name, d.display_name, d.type
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (run_id, at)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM test_results x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                        AND x.observed_at = u.at
                        AND x.status IN ('failed', 'error')
                     OFFSET 0) t
  LEFT JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = t.dataset_id
                     OFFSET 0) d ON true
 LIMIT $4::integer;
