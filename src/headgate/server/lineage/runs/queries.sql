-- name: get_run
-- A run, and how much it read and wrote.
SELECT r.run_id, r.state, r.started_at, r.ended_at, r.is_test, cardinality(r.input_ids) AS input_count,
       cardinality(r.output_ids) AS output_count, j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM job_runs r
  JOIN jobs j ON j.organization_id = $1 AND j.id = r.job_id
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_datasets
-- What a run read and wrote, up to $3 of each, with the row counts it reported, over all partitions.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, u.role, m.row_count
  FROM job_runs r
 CROSS JOIN LATERAL (SELECT i.id, 'input' AS role FROM unnest(r.input_ids[1:$3]) AS i (id)
                     UNION ALL
                     SELECT o.id, 'output' FROM unnest(r.output_ids[1:$3]) AS o (id)) u
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT total_of(sum(x.row_count)) AS row_count
                       FROM dataset_metrics x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                        AND x.measured_at BETWEEN least(r.started_at, r.running_at, r.other_at, r.ended_at)
                                              AND r.last_event_at
                        AND x.run_id = r.run_id
                        AND x.direction = u.role) m ON true
 WHERE r.organization_id = $1
   AND r.run_id = $2
 ORDER BY u.role, d.namespace, d.name;

-- name: list_inputs
-- What these runs read, up to $3 datasets each, and when they began.
SELECT r.run_id, r.started_at, d.id, d.namespace, d.name, d.display_name, d.type
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (run_id, place)
 CROSS JOIN LATERAL (SELECT x.run_id, x.started_at, x.input_ids[1:$3] AS input_ids
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = u.run_id
                     OFFSET 0) r
 CROSS JOIN LATERAL unnest(r.input_ids) AS i (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = i.id
                     OFFSET 0) d
 ORDER BY u.place, d.namespace, d.name;

-- name: find_producers
-- Of each dataset the run that had written it by a moment: the last to end by then, but not the run that asks.
SELECT u.place, p.run_id, p.state, p.started_at, p.ended_at, p.is_test, j.id AS job_id, j.namespace AS job_namespace,
       j.name AS job_name
  FROM unnest($2::uuid[], $3::timestamptz[], $4::uuid[]) WITH ORDINALITY AS u (dataset_id, at, run_id, place)
 CROSS JOIN LATERAL (SELECT c.*
                       FROM (SELECT r.*
                               FROM (SELECT x.job_id, x.last_seen_at
                                       FROM job_datasets x
                                      WHERE x.organization_id = $1
                                        AND x.dataset_id = u.dataset_id
                                        AND x.role = 'output'
                                        AND x.first_seen_at <= u.at
                                      ORDER BY x.last_seen_at DESC, x.job_id
                                      LIMIT 500) h
                              CROSS JOIN LATERAL (SELECT y.run_id, y.job_id, y.state, y.started_at, y.ended_at,
                                                         y.is_test
                                                    FROM (SELECT x.*
                                                            FROM job_runs x
                                                           WHERE x.organization_id = $1
                                                             AND x.job_id = h.job_id
                                                             AND x.started_at <= least(u.at, h.last_seen_at)
                                                           ORDER BY x.started_at DESC
                                                           LIMIT 5000) y
                                                   WHERE y.ended_at <= u.at
                                                     AND NOT y.is_test
                                                     AND y.run_id <> u.run_id
                                                     AND u.dataset_id = ANY (y.output_ids)
                                                   LIMIT 20) r
                             UNION ALL
                             (SELECT y.run_id, y.job_id, y.state, y.started_at, y.ended_at, y.is_test
                                FROM (SELECT x.*
                                        FROM job_runs x
                                       WHERE x.organization_id = $1
                                         AND cardinality(x.job_ids) > 1
                                         AND x.started_at <= u.at
                                       ORDER BY x.started_at DESC, x.run_id DESC
                                       LIMIT 1000) y
                               WHERE y.ended_at <= u.at
                                 AND NOT y.is_test
                                 AND y.run_id <> u.run_id
                                 AND u.dataset_id = ANY (y.output_ids)
                               LIMIT 20)) c
                      ORDER BY c.ended_at DESC, c.started_at DESC, c.run_id
                      LIMIT 1) p
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = p.job_id
                     OFFSET 0) j;

-- name: find_next_ends
-- When each dataset was next written by another run that ended after a moment.
SELECT u.dataset_id, min(r.ended_at) AS next_end
  FROM unnest($2::uuid[]) AS u (dataset_id)
 CROSS JOIN LATERAL (SELECT x.job_id
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.dataset_id
                        AND x.role = 'output'
                        AND x.last_seen_at >= $3
                      ORDER BY greatest(x.first_seen_at, $3), x.last_seen_at DESC, x.job_id
                      LIMIT 500) h
 CROSS JOIN LATERAL ((SELECT y.ended_at
                        FROM (SELECT x.*
                                FROM job_runs x
                               WHERE x.organization_id = $1
                                 AND x.job_id = h.job_id
                                 AND x.started_at >= $3
                               ORDER BY x.started_at
                               LIMIT 5000) y
                       WHERE y.ended_at > $3
                         AND NOT y.is_test
                         AND y.run_id <> $4
                         AND u.dataset_id = ANY (y.output_ids)
                       LIMIT 20)
                     UNION ALL
                     (SELECT y.ended_at
                        FROM (SELECT x.*
                                FROM job_runs x
                               WHERE x.organization_id = $1
                                 AND x.job_id = h.job_id
                                 AND x.started_at < $3
                               ORDER BY x.started_at DESC
                               LIMIT 200) y
                       WHERE y.ended_at > $3
                         AND NOT y.is_test
                         AND y.run_id <> $4
                         AND u.dataset_id = ANY (y.output_ids))) r
 GROUP BY u.dataset_id;

-- name: list_consumers
-- Runs that began to read each dataset from a moment until another, by start, up to $5 of each.
SELECT u.dataset_id, c.run_id, c.state, c.started_at, c.ended_at, c.is_test, j.id AS job_id,
       j.namespace AS job_namespace, j.name AS job_name
  FROM unnest($2::uuid[], $3::timestamptz[]) AS u (dataset_id, until)
 CROSS JOIN LATERAL (SELECT r.*
                       FROM (SELECT x.job_id
                               FROM job_datasets x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.dataset_id
                                AND x.role = 'input'
                                AND x.last_seen_at >= $4
                              ORDER BY x.last_seen_at DESC
                              LIMIT 500) h
                      CROSS JOIN LATERAL (SELECT y.run_id, y.job_id, y.state, y.started_at, y.ended_at, y.is_test
                                            FROM (SELECT x.*
                                                    FROM job_runs x
                                                   WHERE x.organization_id = $1
                                                     AND x.job_id = h.job_id
                                                     AND x.started_at >= $4
                                                     AND x.started_at < u.until
                                                   ORDER BY x.started_at
                                                   LIMIT 5000) y
                                           WHERE u.dataset_id = ANY (y.input_ids)
                                             AND y.run_id <> $6
                                           LIMIT $5) r
                      ORDER BY r.started_at, r.run_id
                      LIMIT $5) c
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = c.job_id
                     OFFSET 0) j
 ORDER BY u.dataset_id, c.started_at, c.run_id;
