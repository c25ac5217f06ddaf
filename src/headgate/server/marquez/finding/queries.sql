-- name: search_datasets
-- Datasets of these namespaces whose name fits a pattern, among as many as there is time to look at.
SELECT s.id, s.namespace, s.name
  FROM (SELECT d.id, u.namespace, d.name
          FROM unnest($2::text[]) AS u (namespace)
         CROSS JOIN LATERAL (SELECT x.id, x.name
                               FROM datasets x
                              WHERE x.organization_id = $1
                                AND x.namespace = u.namespace
                                AND x.merged_into IS NULL
                             OFFSET 0) d
         LIMIT $4) s
 WHERE s.name ILIKE $3
 LIMIT $5;

-- name: search_jobs
-- Jobs of these namespaces whose name fits a pattern, among as many as there is time to look at.
SELECT s.id, s.namespace, s.name
  FROM (SELECT j.id, u.namespace, j.name
          FROM unnest($2::text[]) AS u (namespace)
         CROSS JOIN LATERAL (SELECT x.id, x.name
                               FROM jobs x
                              WHERE x.organization_id = $1
                                AND x.namespace = u.namespace
                             OFFSET 0) j
         LIMIT $4) s
 WHERE s.name ILIKE $3
 LIMIT $5;

-- name: list_newest_events
-- Accepted events of a time, and of a namespace's jobs if given, last received first; $5 of the log are looked at.
SELECT s.id, octet_length(s.raw) AS packed_size
  FROM (SELECT e.id, e.event_time, e.job_id, e.raw
          FROM lineage_events e
         WHERE e.organization_id = $1
           AND e.outcome = 'accepted'
           AND e.received_at >= $2::timestamptz - interval '1 day'
         ORDER BY e.id DESC
         LIMIT $5) s
 WHERE s.event_time >= $2
   AND s.event_time < $3
   AND ($4::text IS NULL
     OR s.job_id IN (SELECT j.id
                       FROM jobs j
                      WHERE j.organization_id = $1
                        AND j.namespace = $4::text))
 ORDER BY s.id DESC
 LIMIT $6
OFFSET $7;

-- name: list_oldest_events
-- The same, the first received first.
SELECT s.id, octet_length(s.raw) AS packed_size
  FROM (SELECT e.id, e.event_time, e.job_id, e.raw
          FROM lineage_events e
         WHERE e.organization_id = $1
           AND e.outcome = 'accepted'
           AND e.received_at >= $2::timestamptz - interval '1 day'
         ORDER BY e.id
         LIMIT $5) s
 WHERE s.event_time >= $2
   AND s.event_time < $3
   AND ($4::text IS NULL
     OR s.job_id IN (SELECT j.id
                       FROM jobs j
                      WHERE j.organization_id = $1
                        AND j.namespace = $4::text))
 ORDER BY s.id
 LIMIT $6
OFFSET $7;

-- name: list_raws
-- Events as they came, packed, in the order asked for.
SELECT e.raw
  FROM unnest($2::bigint[]) WITH ORDINALITY AS u (id, place)
 CROSS JOIN LATERAL (SELECT x.raw
                       FROM lineage_events x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) e
 ORDER BY u.place;

-- name: count_events
-- How many such events there are, as far as it is worth counting.
SELECT count(*)
  FROM (SELECT 1
          FROM (SELECT e.event_time, e.job_id
                  FROM lineage_events e
                 WHERE e.organization_id = $1
                   AND e.outcome = 'accepted'
                   AND e.received_at >= $2::timestamptz - interval '1 day'
                 ORDER BY e.id DESC
                 LIMIT $5) s
         WHERE s.event_time >= $2
           AND s.event_time < $3
           AND ($4::text IS NULL
             OR s.job_id IN (SELECT j.id
                               FROM jobs j
                              WHERE j.organization_id = $1
                                AND j.namespace = $4::text))
         LIMIT $6) c;
