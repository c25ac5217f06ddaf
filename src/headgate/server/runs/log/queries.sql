-- name: list_run_events
-- Events of a run in the order in which they came, after one of them, without their bodies.
SELECT e.id, e.received_at, e.event_time, e.event_type, e.outcome, e.reason, e.producer, e.marks, e.size
  FROM (SELECT x.id, x.received_at, x.event_time, x.event_type, x.outcome, x.reason, x.producer, x.marks,
               octet_length(x.raw) AS size
          FROM lineage_events x
         WHERE x.organization_id = $1
           AND x.run_id = $2
        OFFSET 0) e
 WHERE e.id > $3
 ORDER BY e.id
 LIMIT $4;

-- name: list_latest_events
-- Accepted events of a run, the latest first, and its very first ones if there are more than $3 of them.
SELECT e.id, e.received_at, e.size, e.job_id
  FROM ((SELECT x.id, x.received_at, x.event_time, x.event_type, octet_length(x.raw) AS size, x.job_id
           FROM lineage_events x
          WHERE x.organization_id = $1
            AND x.run_id = $2
            AND x.outcome = 'accepted'
            AND x.kind = 'run'
          ORDER BY x.event_time DESC, x.event_type IN ('COMPLETE', 'FAIL', 'ABORT') DESC, x.id DESC
          LIMIT $3)
        UNION
        (SELECT x.id, x.received_at, x.event_time, x.event_type, octet_length(x.raw), x.job_id
           FROM lineage_events x
          WHERE x.organization_id = $1
            AND x.run_id = $2
            AND x.outcome = 'accepted'
            AND x.kind = 'run'
          ORDER BY x.event_time, x.id
          LIMIT $4)) e
 ORDER BY e.event_time DESC, e.event_type IN ('COMPLETE', 'FAIL', 'ABORT') DESC, e.id DESC;

-- name: read_events
-- Bodies of these events, packed, in the order given.
SELECT u.place, e.raw
  FROM unnest($2::bigint[], $3::timestamptz[]) WITH ORDINALITY AS u (id, received_at, place)
 CROSS JOIN LATERAL (SELECT x.raw
                       FROM lineage_events x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                        AND x.received_at = u.received_at
                     OFFSET 0) e
 ORDER BY u.place;
