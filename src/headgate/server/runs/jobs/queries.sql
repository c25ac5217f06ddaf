-- name: pick_jobs
-- Jobs that fit, by name, among the $4 that follow a place.
SELECT j.id, j.name
  FROM (SELECT x.id, x.namespace, x.name, x.job_type, x.integration
          FROM jobs x
         WHERE x.organization_id = $1
           AND (x.name COLLATE "C", x.id) > ($2, $3)
         ORDER BY x.name COLLATE "C", x.id
         LIMIT $4) j
 WHERE ($5::text IS NULL OR strpos(lower(j.namespace || '/' || j.name), lower($5)) > 0)
   AND ($6::text IS NULL OR lower(j.job_type) = lower($6))
   AND ($7::text IS NULL OR lower(j.integration) = lower($7))
   AND ($8::text[] IS NULL OR (SELECT r.state
                                 FROM job_runs r
                                WHERE r.organization_id = $1
                                  AND r.job_id = j.id
                                ORDER BY r.started_at DESC
                                LIMIT 1) = ANY ($8))
 ORDER BY j.name COLLATE "C", j.id
 LIMIT $9;

-- name: pick_jobs_falling
-- Jobs that fit, by name from the last, among the $4 that follow a place.
SELECT j.id, j.name
  FROM (SELECT x.id, x.namespace, x.name, x.job_type, x.integration
          FROM jobs x
         WHERE x.organization_id = $1
           AND (x.name COLLATE "C", x.id) < ($2, $3)
         ORDER BY x.name COLLATE "C" DESC, x.id DESC
         LIMIT $4) j
 WHERE ($5::text IS NULL OR strpos(lower(j.namespace || '/' || j.name), lower($5)) > 0)
   AND ($6::text IS NULL OR lower(j.job_type) = lower($6))
   AND ($7::text IS NULL OR lower(j.integration) = lower($7))
   AND ($8::text[] IS NULL OR (SELECT r.state
                                 FROM job_runs r
                                WHERE r.organization_id = $1
                                  AND r.job_id = j.id
                                ORDER BY r.started_at DESC
                                LIMIT 1) = ANY ($8))
 ORDER BY j.name COLLATE "C" DESC, j.id DESC
 LIMIT $9;

-- name: find_place
-- The last of the $4 jobs that follow a place; none if there are fewer.
SELECT j.id, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND (j.name COLLATE "C", j.id) > ($2, $3)
 ORDER BY j.name COLLATE "C", j.id
OFFSET $4 - 1
 LIMIT 1;

-- name: find_place_falling
-- The last of the $4 jobs that follow a place when the last name comes first; none if there are fewer.
SELECT j.id, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND (j.name COLLATE "C", j.id) < ($2, $3)
 ORDER BY j.name COLLATE "C" DESC, j.id DESC
OFFSET $4 - 1
 LIMIT 1;

-- name: pick_namespace_jobs
-- Jobs of a namespace that fit, by name, among the $4 that follow a place.
SELECT j.id, j.name
  FROM (SELECT x.id, x.namespace, x.name, x.job_type, x.integration
          FROM jobs x
         WHERE x.organization_id = $1
           AND x.namespace = $10
           AND (x.name COLLATE "C", x.id) > ($2, $3)
         ORDER BY x.name COLLATE "C", x.id
         LIMIT $4) j
 WHERE ($5::text IS NULL OR strpos(lower(j.namespace || '/' || j.name), lower($5)) > 0)
   AND ($6::text IS NULL OR lower(j.job_type) = lower($6))
   AND ($7::text IS NULL OR lower(j.integration) = lower($7))
   AND ($8::text[] IS NULL OR (SELECT r.state
                                 FROM job_runs r
                                WHERE r.organization_id = $1
                                  AND r.job_id = j.id
                                ORDER BY r.started_at DESC
                                LIMIT 1) = ANY ($8))
 ORDER BY j.name COLLATE "C", j.id
 LIMIT $9;

-- name: pick_namespace_jobs_falling
-- Jobs of a namespace that fit, by name from the last, among the $4 that follow a place.
SELECT j.id, j.name
  FROM (SELECT x.id, x.namespace, x.name, x.job_type, x.integration
          FROM jobs x
         WHERE x.organization_id = $1
           AND x.namespace = $10
           AND (x.name COLLATE "C", x.id) < ($2, $3)
         ORDER BY x.name COLLATE "C" DESC, x.id DESC
         LIMIT $4) j
 WHERE ($5::text IS NULL OR strpos(lower(j.namespace || '/' || j.name), lower($5)) > 0)
   AND ($6::text IS NULL OR lower(j.job_type) = lower($6))
   AND ($7::text IS NULL OR lower(j.integration) = lower($7))
   AND ($8::text[] IS NULL OR (SELECT r.state
                                 FROM job_runs r
                                WHERE r.organization_id = $1
                                  AND r.job_id = j.id
                                ORDER BY r.started_at DESC
                                LIMIT 1) = ANY ($8))
 ORDER BY j.name COLLATE "C" DESC, j.id DESC
 LIMIT $9;

-- name: find_namespace_place
-- The last of the $4 jobs of a namespace that follow a place; none if there are fewer.
SELECT j.id, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.namespace = $5
   AND (j.name COLLATE "C", j.id) > ($2, $3)
 ORDER BY j.name COLLATE "C", j.id
OFFSET $4 - 1
 LIMIT 1;

-- name: find_namespace_place_falling
-- The last of the $4 jobs of a namespace that follow a place when the last name comes first; none if there are fewer.
SELECT j.id, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.namespace = $5
   AND (j.name COLLATE "C", j.id) < ($2, $3)
 ORDER BY j.name COLLATE "C" DESC, j.id DESC
OFFSET $4 - 1
 LIMIT 1;

-- name: list_jobs
-- These jobs, in the order given, each with its latest run; of runs that jobs share, only among the newest 1000.
SELECT j.id, j.namespace, j.name, j.job_type, j.processing_type, j.integration, j.first_seen_at,
       j.facets #>> '{documentation,description}' AS description,
       ARRAY(SELECT o.name #>> '{}'
               FROM jsonb_path_query(j.facets, 'lax $.ownership.owners[*].name ? (@.type() == "string")')
                    AS o (name)) AS owners,
       ARRAY(SELECT concat_ws(':', t.tag ->> 'key', NULLIF(NULLIF(t.tag ->> 'value', 'true'), ''))
               FROM jsonb_path_query(j.facets, 'lax $.tags.tags[*] ? (@.key.type() == "string")')
                    AS t (tag)) AS tags,
       coalesce(r.root_job ->> 'name', r.parent_job ->> 'name', p.name) AS pipeline,
       r.run_id, r.state, r.start_at, r.started_at, r.ended_at
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, place)
 CROSS JOIN LATERAL (SELECT x.*
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j
  LEFT JOIN LATERAL (SELECT x.run_id
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC
                      LIMIT 1) own ON true
  LEFT JOIN LATERAL (SELECT y.run_id
                       FROM (SELECT x.run_id, x.job_ids
                               FROM job_runs x
                              WHERE own.run_id IS NULL
                                AND x.organization_id = $1
                                AND cardinality(x.job_ids) > 1
                              ORDER BY x.started_at DESC, x.run_id DESC
                              LIMIT 1000) y
                      WHERE u.id = ANY (y.job_ids)
                      LIMIT 1) shared ON true
 CROSS JOIN LATERAL (SELECT coalesce(own.run_id, shared.run_id) AS run_id OFFSET 0) latest
  LEFT JOIN LATERAL (SELECT x.run_id, x.state, x.start_at, x.started_at, x.ended_at, x.parent_run_id, x.parent_job,
                            x.root_job
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = latest.run_id
                     OFFSET 0) r ON true
  LEFT JOIN LATERAL (SELECT y.name
                       FROM job_runs x
                       JOIN jobs y ON y.organization_id = $1 AND y.id = x.job_id
                      WHERE coalesce(r.root_job, r.parent_job) IS NULL
                        AND x.organization_id = $1
                        AND x.run_id = r.parent_run_id
                     OFFSET 0) p ON true
 ORDER BY u.place;

-- name: get_facets
-- What a job says of itself, as JSON.
SELECT j.facets::text
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.id = $2;

-- name: list_datasets
-- What a job reads and writes, lately used first, up to $3 of each.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, h.role, h.first_seen_at, h.last_seen_at, h.last_completed_at
  FROM (SELECT x.dataset_id, x.role, x.first_seen_at, x.last_seen_at, x.last_completed_at,
               row_number() OVER (PARTITION BY x.role ORDER BY x.last_seen_at DESC, x.dataset_id) AS place
          FROM job_datasets x
         WHERE x.organization_id = $1
           AND x.job_id = $2) h
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = h.dataset_id
                     OFFSET 0) d
 WHERE h.place <= $3
 ORDER BY h.place;

-- name: count_datasets
-- How many datasets a job reads and writes.
SELECT h.role, count(*) AS datasets
  FROM job_datasets h
 WHERE h.organization_id = $1
   AND h.job_id = $2
 GROUP BY h.role;

-- name: summarize_runs
-- How the runs of a job since $3 went, up to the newest $4; durations are of completed ones with more than an end.
SELECT count(*) AS total,
       count(*) FILTER (WHERE r.state = 'START') AS "START",
       count(*) FILTER (WHERE r.state = 'RUNNING') AS "RUNNING",
       count(*) FILTER (WHERE r.state = 'COMPLETE') AS "COMPLETE",
       count(*) FILTER (WHERE r.state = 'FAIL') AS "FAIL",
       count(*) FILTER (WHERE r.state = 'ABORT') AS "ABORT",
       count(*) FILTER (WHERE r.state = 'OTHER') AS "OTHER",
       avg(r.duration_ms) FILTER (WHERE r.state = 'COMPLETE') AS mean_ms,
       percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY r.duration_ms)
         FILTER (WHERE r.state = 'COMPLETE') AS percentiles_ms
  FROM (SELECT x.state,
               CASE WHEN x.start_at IS NOT NULL OR x.ended_at > x.started_at
                    THEN extract(epoch FROM greatest(x.ended_at - x.started_at, '0'))::float8 * 1000
               END AS duration_ms
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.job_id = $2
           AND x.started_at >= $3
         ORDER BY x.started_at DESC
         LIMIT $4) r;

-- name: list_parent_jobs
-- Jobs whose runs the last $3 runs of a job were part of.
SELECT DISTINCT coalesce(p.id, n.id) AS id, coalesce(p.namespace, r.namespace) AS namespace,
       coalesce(p.name, r.name) AS name
  FROM (SELECT x.parent_run_id, x.parent_job ->> 'namespace' AS namespace, x.parent_job ->> 'name' AS name
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.job_id = $2
         ORDER BY x.started_at DESC
         LIMIT $3) r
  LEFT JOIN LATERAL (SELECT y.id, y.namespace, y.name
                       FROM job_runs x
                       JOIN jobs y ON y.organization_id = $1 AND y.id = x.job_id
                      WHERE x.organization_id = $1
                        AND x.run_id = r.parent_run_id
                     OFFSET 0) p ON true
  LEFT JOIN LATERAL (SELECT x.id
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = r.namespace
                        AND x.name = r.name
                     OFFSET 0) n ON true
 WHERE coalesce(p.name, r.name) IS NOT NULL
 ORDER BY 2, 3
 LIMIT $4;

-- name: list_child_jobs
-- Jobs whose runs were part of the last $3 runs of a job.
SELECT DISTINCT j.id, j.namespace, j.name
  FROM (SELECT x.run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.job_id = $2
         ORDER BY x.started_at DESC
         LIMIT $3) r
 CROSS JOIN LATERAL (SELECT x.job_id
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.parent_run_id = r.run_id
                     OFFSET 0) c
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = c.job_id
                     OFFSET 0) j
 ORDER BY 2, 3
 LIMIT $4;

-- name: count_runs
-- Runs since $2 by integration and state, of the newest $3; durations are of completed ones with more than an end.
SELECT j.integration, r.state, sum(r.runs)::bigint AS runs, sum(r.timed)::bigint AS timed, sum(r.timed_ms) AS timed_ms
  FROM (SELECT y.job_id, y.state, count(*) AS runs, count(*) FILTER (WHERE y.is_timed) AS timed,
               sum(extract(epoch FROM greatest(y.ended_at - y.started_at, '0'))::float8 * 1000)
                 FILTER (WHERE y.is_timed) AS timed_ms
          FROM (SELECT x.job_id, x.state, x.started_at, x.ended_at,
                       x.state = 'COMPLETE' AND (x.start_at IS NOT NULL OR x.ended_at > x.started_at) AS is_timed
                  FROM job_runs x
                 WHERE x.organization_id = $1
                   AND x.started_at >= $2
                 ORDER BY x.started_at DESC, x.run_id DESC
                 LIMIT $3) y
         GROUP BY y.job_id, y.state) r
  JOIN jobs j ON j.organization_id = $1 AND j.id = r.job_id
 GROUP BY j.integration, r.state;

-- name: list_countries
-- Countries that the newest $2 runs were about.
SELECT DISTINCT r.partition_context ->> 'country' AS country
  FROM (SELECT x.partition_context
          FROM job_runs x
         WHERE x.organization_id = $1
         ORDER BY x.started_at DESC, x.run_id DESC
         LIMIT $2) r
 WHERE r.partition_context ->> 'country' IS NOT NULL
 ORDER BY 1
 LIMIT 1000;
