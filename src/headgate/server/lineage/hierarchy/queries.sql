-- name: list_latest_runs
-- The newest $3 runs of each of these jobs.
SELECT r.run_id, r.job_id
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.run_id, x.job_id
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC
                      LIMIT $3) r;

-- name: list_child_runs
-- Runs directly under these, of each job the newest $3.
SELECT c.parent_run_id, c.run_id, c.job_id
  FROM (SELECT u.id AS parent_run_id, x.run_id, x.job_id,
               row_number() OVER (PARTITION BY x.job_id ORDER BY x.started_at DESC, x.run_id) AS place
          FROM unnest($2::uuid[]) AS u (id)
         CROSS JOIN LATERAL (SELECT y.run_id, y.job_id, y.started_at
                               FROM job_runs y
                              WHERE y.organization_id = $1
                                AND y.parent_run_id = u.id
                              LIMIT 1000) x) c
 WHERE c.place <= $3
 LIMIT $4;

-- name: list_parents
-- Of each job the one that its latest run was part of, if that is known.
SELECT u.id, coalesce(p.job_id, n.id) AS parent_id
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.parent_run_id, x.parent_job ->> 'namespace' AS namespace,
                            x.parent_job ->> 'name' AS name
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC
                      LIMIT 1) r
  LEFT JOIN LATERAL (SELECT x.job_id
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = r.parent_run_id
                     OFFSET 0) p ON true
  LEFT JOIN LATERAL (SELECT x.id
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = r.namespace
                        AND x.name = r.name
                     OFFSET 0) n ON true
 WHERE coalesce(p.job_id, n.id) <> u.id;

-- name: list_uses
-- What these jobs still read or write, lately used first, up to $4 datasets each and $5 in all.
SELECT h.job_id, h.dataset_id, h.last_seen_at
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.job_id, x.dataset_id, x.last_seen_at
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                        AND x.role = $3
                      ORDER BY x.last_seen_at DESC, x.dataset_id
                      LIMIT $4) h
 WHERE (h.last_seen_at >= now() - interval '30 days'
     OR NOT EXISTS (SELECT
                      FROM job_runs r
                     WHERE r.organization_id = $1
                       AND r.job_id = h.job_id
                       AND r.started_at > h.last_seen_at
                       AND r.state = 'COMPLETE'
                       AND r.complete_at > h.last_seen_at + interval '30 days'
                       AND NOT r.is_test))
   AND NOT EXISTS (SELECT
                     FROM datasets d
                    WHERE d.organization_id = $1
                      AND d.id = h.dataset_id
                      AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                      AND (is_gone($1, d.id, 'infinity') OR $3 = 'output' AND d.renamed_at >= h.last_seen_at))
 ORDER BY h.last_seen_at DESC, h.dataset_id, h.job_id
 LIMIT $5;

-- name: list_users
-- Jobs that still read or write these datasets, which are known to be there, lately first, up to $4 each and $5 in all.
SELECT h.job_id, h.dataset_id, h.last_seen_at
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.job_id, x.dataset_id, x.last_seen_at
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.role = $3
                      ORDER BY x.last_seen_at DESC, x.job_id
                      LIMIT $4) h
 WHERE (h.last_seen_at >= now() - interval '30 days'
     OR NOT EXISTS (SELECT
                      FROM job_runs r
                     WHERE r.organization_id = $1
                       AND r.job_id = h.job_id
                       AND r.started_at > h.last_seen_at
                       AND r.state = 'COMPLETE'
                       AND r.complete_at > h.last_seen_at + interval '30 days'
                       AND NOT r.is_test))
   AND NOT EXISTS (SELECT
                     FROM datasets d
                    WHERE d.organization_id = $1
                      AND d.id = h.dataset_id
                      AND $3 = 'output'
                      AND d.renamed_at >= h.last_seen_at)
 ORDER BY h.last_seen_at DESC, h.job_id, h.dataset_id
 LIMIT $5;

-- name: describe_jobs
-- What these jobs are called.
SELECT j.id, j.namespace, j.name, j.job_type, j.integration
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.job_type, x.integration
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j;

-- name: describe_datasets
-- What these datasets are called, and whether any job writes them.
SELECT d.id, d.namespace, d.name, d.display_name, d.type,
       NOT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = $1
                      AND h.dataset_id = d.id
                      AND h.role = 'output') AS external
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d;
