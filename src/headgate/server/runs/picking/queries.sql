-- name: pick_runs
-- Runs that fit, latest start first, among the $5 that follow a place; $12 is a part of the job's name.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_id, x.job_ids, x.state, x.is_test, x.partition_context,
               x.application_id, x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND (x.started_at, x.run_id) < ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at DESC, x.run_id DESC
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
   AND ($12::text IS NULL
        OR EXISTS (SELECT
                     FROM jobs j
                    WHERE j.organization_id = $1
                      AND j.id = r.job_id
                      AND strpos(lower(j.name), lower($12)) > 0))
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $13;

-- name: pick_runs_rising
-- Runs that fit, earliest start first, among the $5 that follow a place; $12 is a part of the job's name.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_id, x.job_ids, x.state, x.is_test, x.partition_context,
               x.application_id, x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND (x.started_at, x.run_id) > ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at, x.run_id
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
   AND ($12::text IS NULL
        OR EXISTS (SELECT
                     FROM jobs j
                    WHERE j.organization_id = $1
                      AND j.id = r.job_id
                      AND strpos(lower(j.name), lower($12)) > 0))
 ORDER BY r.started_at, r.run_id
 LIMIT $13;

-- name: find_place
-- The last of the $5 runs that follow a place; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND (r.started_at, r.run_id) < ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at DESC, r.run_id DESC
OFFSET $5 - 1
 LIMIT 1;

-- name: find_place_rising
-- The last of the $5 runs that follow a place when the earliest comes first; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND (r.started_at, r.run_id) > ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at, r.run_id
OFFSET $5 - 1
 LIMIT 1;

-- name: pick_job_runs
-- Runs of a few jobs that fit, latest start first, among the $5 of each that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT own.run_id, own.started_at
          FROM unnest($9::uuid[]) AS j (id)
         CROSS JOIN LATERAL (SELECT y.run_id, y.started_at
                               FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test,
                                            x.partition_context, x.application_id, x.parent_run_id
                                       FROM job_runs x
                                      WHERE x.organization_id = $1
                                        AND x.job_id = j.id
                                        AND (x.started_at, x.run_id) < ($2, $3)
                                        AND x.started_at >= $4
                                      ORDER BY x.started_at DESC, x.run_id DESC
                                      LIMIT $5) y
                              WHERE run_fits(y.state, y.is_test, y.partition_context, y.job_ids, y.application_id,
                                             y.parent_run_id, $6, $7, $8, $9, $10, $11)
                              LIMIT $12) own
        UNION
        (SELECT y.run_id, y.started_at
           FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context,
                        x.application_id, x.parent_run_id
                   FROM job_runs x
                  WHERE x.organization_id = $1
                    AND cardinality(x.job_ids) > 1
                    AND (x.started_at, x.run_id) < ($2, $3)
                    AND x.started_at >= $4
                  ORDER BY x.started_at DESC, x.run_id DESC
                  LIMIT $5) y
          WHERE run_fits(y.state, y.is_test, y.partition_context, y.job_ids, y.application_id, y.parent_run_id,
                         $6, $7, $8, $9, $10, $11)
          LIMIT $12)) r
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $12;

-- name: pick_job_runs_rising
-- Runs of a few jobs that fit, earliest start first, among the $5 of each that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT own.run_id, own.started_at
          FROM unnest($9::uuid[]) AS j (id)
         CROSS JOIN LATERAL (SELECT y.run_id, y.started_at
                               FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test,
                                            x.partition_context, x.application_id, x.parent_run_id
                                       FROM job_runs x
                                      WHERE x.organization_id = $1
                                        AND x.job_id = j.id
                                        AND (x.started_at, x.run_id) > ($2, $3)
                                        AND x.started_at >= $4
                                      ORDER BY x.started_at, x.run_id
                                      LIMIT $5) y
                              WHERE run_fits(y.state, y.is_test, y.partition_context, y.job_ids, y.application_id,
                                             y.parent_run_id, $6, $7, $8, $9, $10, $11)
                              LIMIT $12) own
        UNION
        (SELECT y.run_id, y.started_at
           FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context,
                        x.application_id, x.parent_run_id
                   FROM job_runs x
                  WHERE x.organization_id = $1
                    AND cardinality(x.job_ids) > 1
                    AND (x.started_at, x.run_id) > ($2, $3)
                    AND x.started_at >= $4
                  ORDER BY x.started_at, x.run_id
                  LIMIT $5) y
          WHERE run_fits(y.state, y.is_test, y.partition_context, y.job_ids, y.application_id, y.parent_run_id,
                         $6, $7, $8, $9, $10, $11)
          LIMIT $12)) r
 ORDER BY r.started_at, r.run_id
 LIMIT $12;

-- name: find_job_place
-- The latest among the last of the $5 runs of each job that follow a place; none if each has fewer.
SELECT r.run_id, r.started_at
  FROM (SELECT own.run_id, own.started_at
          FROM unnest($6::uuid[]) AS j (id)
         CROSS JOIN LATERAL (SELECT x.run_id, x.started_at
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = j.id
                                AND (x.started_at, x.run_id) < ($2, $3)
                                AND x.started_at >= $4
                              ORDER BY x.started_at DESC, x.run_id DESC
                             OFFSET $5 - 1
                              LIMIT 1) own
        UNION ALL
        (SELECT x.run_id, x.started_at
           FROM job_runs x
          WHERE x.organization_id = $1
            AND cardinality(x.job_ids) > 1
            AND (x.started_at, x.run_id) < ($2, $3)
            AND x.started_at >= $4
          ORDER BY x.started_at DESC, x.run_id DESC
         OFFSET $5 - 1
          LIMIT 1)) r
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT 1;

-- name: find_job_place_rising
-- The earliest among the last of the $5 runs of each job that follow a place; none if each has fewer.
SELECT r.run_id, r.started_at
  FROM (SELECT own.run_id, own.started_at
          FROM unnest($6::uuid[]) AS j (id)
         CROSS JOIN LATERAL (SELECT x.run_id, x.started_at
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = j.id
                                AND (x.started_at, x.run_id) > ($2, $3)
                                AND x.started_at >= $4
                              ORDER BY x.started_at, x.run_id
                             OFFSET $5 - 1
                              LIMIT 1) own
        UNION ALL
        (SELECT x.run_id, x.started_at
           FROM job_runs x
          WHERE x.organization_id = $1
            AND cardinality(x.job_ids) > 1
            AND (x.started_at, x.run_id) > ($2, $3)
            AND x.started_at >= $4
          ORDER BY x.started_at, x.run_id
         OFFSET $5 - 1
          LIMIT 1)) r
 ORDER BY r.started_at, r.run_id
 LIMIT 1;

-- name: pick_application_runs
-- Runs of an application that fit, latest start first, among the $5 that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context, x.application_id,
               x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.application_id = $10
           AND (x.started_at, x.run_id) < ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at DESC, x.run_id DESC
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $12;

-- name: pick_application_runs_rising
-- Runs of an application that fit, earliest start first, among the $5 that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context, x.application_id,
               x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.application_id = $10
           AND (x.started_at, x.run_id) > ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at, x.run_id
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
 ORDER BY r.started_at, r.run_id
 LIMIT $12;

-- name: find_application_place
-- The last of the $5 runs of an application that follow a place; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.application_id = $6
   AND (r.started_at, r.run_id) < ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at DESC, r.run_id DESC
OFFSET $5 - 1
 LIMIT 1;

-- name: find_application_place_rising
-- The last of the $5 runs of an application that follow a place when the earliest comes first; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.application_id = $6
   AND (r.started_at, r.run_id) > ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at, r.run_id
OFFSET $5 - 1
 LIMIT 1;

-- name: pick_child_runs
-- Runs under a parent that fit, latest start first, among the $5 that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context, x.application_id,
               x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.parent_run_id = $11
           AND (x.started_at, x.run_id) < ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at DESC, x.run_id DESC
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $12;

-- name: pick_child_runs_rising
-- Runs under a parent that fit, earliest start first, among the $5 that follow a place.
SELECT r.run_id, r.started_at
  FROM (SELECT x.run_id, x.started_at, x.job_ids, x.state, x.is_test, x.partition_context, x.application_id,
               x.parent_run_id
          FROM job_runs x
         WHERE x.organization_id = $1
           AND x.parent_run_id = $11
           AND (x.started_at, x.run_id) > ($2, $3)
           AND x.started_at >= $4
         ORDER BY x.started_at, x.run_id
         LIMIT $5) r
 WHERE run_fits(r.state, r.is_test, r.partition_context, r.job_ids, r.application_id, r.parent_run_id,
                $6, $7, $8, $9, $10, $11)
 ORDER BY r.started_at, r.run_id
 LIMIT $12;

-- name: find_child_place
-- The last of the $5 runs under a parent that follow a place; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.parent_run_id = $6
   AND (r.started_at, r.run_id) < ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at DESC, r.run_id DESC
OFFSET $5 - 1
 LIMIT 1;

-- name: find_child_place_rising
-- The last of the $5 runs under a parent that follow a place when the earliest comes first; none if there are fewer.
SELECT r.run_id, r.started_at
  FROM job_runs r
 WHERE r.organization_id = $1
   AND r.parent_run_id = $6
   AND (r.started_at, r.run_id) > ($2, $3)
   AND r.started_at >= $4
 ORDER BY r.started_at, r.run_id
OFFSET $5 - 1
 LIMIT 1;

-- name: count_dataset_jobs
-- How many jobs use a dataset.
SELECT count(DISTINCT u.job_id)
  FROM job_datasets u
 WHERE u.organization_id = $1
   AND u.dataset_id = $2
   AND u.role = ANY ($3::text[]);

-- name: pick_dataset_runs
-- Runs that read or wrote a dataset, latest start first, after a place, among $7 of each job that uses it.
SELECT r.run_id, r.started_at
  FROM (SELECT u.job_id, bool_or(u.role = 'input') AS reads, bool_or(u.role = 'output') AS writes,
               max(u.last_seen_at) AS last_seen_at
          FROM job_datasets u
         WHERE u.organization_id = $1
           AND u.dataset_id = $5
           AND u.role = ANY ($6::text[])
         GROUP BY u.job_id) j
 CROSS JOIN LATERAL (SELECT y.run_id, y.started_at
                       FROM (SELECT x.run_id, x.started_at, x.input_ids, x.output_ids
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = j.job_id
                                AND x.started_at <= least($2, j.last_seen_at)
                                AND (x.started_at, x.run_id) < ($2, $3)
                                AND x.started_at >= $4
                              ORDER BY x.started_at DESC, x.run_id DESC
                              LIMIT $7) y
                      WHERE (j.reads AND $5 = ANY (y.input_ids)) OR (j.writes AND $5 = ANY (y.output_ids))
                      LIMIT $8) r
UNION
(SELECT y.run_id, y.started_at
   FROM (SELECT x.run_id, x.started_at, x.input_ids, x.output_ids
           FROM job_runs x
          WHERE x.organization_id = $1
            AND cardinality(x.job_ids) > 1
            AND (x.started_at, x.run_id) < ($2, $3)
            AND x.started_at >= $4
          ORDER BY x.started_at DESC, x.run_id DESC
          LIMIT $7) y
  WHERE ('input' = ANY ($6) AND $5 = ANY (y.input_ids)) OR ('output' = ANY ($6) AND $5 = ANY (y.output_ids))
  LIMIT $8)
 ORDER BY 2 DESC, 1 DESC
 LIMIT $8;

-- name: find_dataset_place
-- The latest among the last of the $7 runs of each job that uses a dataset; none if each has fewer.
SELECT r.run_id, r.started_at
  FROM (SELECT own.run_id, own.started_at
          FROM (SELECT u.job_id, max(u.last_seen_at) AS last_seen_at
                  FROM job_datasets u
                 WHERE u.organization_id = $1
                   AND u.dataset_id = $5
                   AND u.role = ANY ($6::text[])
                 GROUP BY u.job_id) j
         CROSS JOIN LATERAL (SELECT x.run_id, x.started_at
                               FROM job_runs x
                              WHERE x.organization_id = $1
                                AND x.job_id = j.job_id
                                AND x.started_at <= least($2, j.last_seen_at)
                                AND (x.started_at, x.run_id) < ($2, $3)
                                AND x.started_at >= $4
                              ORDER BY x.started_at DESC, x.run_id DESC
                             OFFSET $7 - 1
                              LIMIT 1) own
        UNION ALL
        (SELECT x.run_id, x.started_at
           FROM job_runs x
          WHERE x.organization_id = $1
            AND cardinality(x.job_ids) > 1
            AND (x.started_at, x.run_id) < ($2, $3)
            AND x.started_at >= $4
          ORDER BY x.started_at DESC, x.run_id DESC
         OFFSET $7 - 1
          LIMIT 1)) r
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT 1;
