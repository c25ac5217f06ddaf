-- name: find_id
-- The dataset with this id, or the one that it was merged into.
WITH RECURSIVE found AS (
  SELECT d.id, d.merged_into
    FROM datasets d
   WHERE d.organization_id = $1
     AND d.id = $2
  UNION ALL
  SELECT d.id, d.merged_into
    FROM found f
    JOIN datasets d ON d.organization_id = $1 AND d.id = f.merged_into
)
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM found f
  JOIN datasets d ON d.organization_id = $1 AND d.id = f.id
 WHERE f.merged_into IS NULL;

-- name: get_naming
-- Name patterns and alias rules of the organisation.
SELECT (SELECT coalesce(jsonb_agg(jsonb_build_array(p.name, p.regex, p.kind, p.enabled) ORDER BY p.name), '[]')
          FROM name_patterns p
         WHERE p.organization_id = $1)::text AS patterns,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(r.pattern, r.canonical) ORDER BY r.position, r.id), '[]')
          FROM alias_rules r
         WHERE r.organization_id = $1)::text AS rules;

-- name: find_names
-- The datasets that these names lead to, in the order of the names.
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (namespace, name, place)
 CROSS JOIN LATERAL (SELECT x.dataset_id
                       FROM dataset_aliases x
                      WHERE x.organization_id = $1
                        AND x.namespace = u.namespace
                        AND x.name = u.name
                     OFFSET 0) a
  JOIN datasets d ON d.organization_id = $1 AND d.id = a.dataset_id
 ORDER BY u.place;

-- name: find_bare_name
-- Datasets that any of their names, in any namespace, calls exactly this.
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM (SELECT DISTINCT a.dataset_id
          FROM dataset_aliases a
         WHERE a.organization_id = $1
           AND a.name = $2
         LIMIT 100) u
  JOIN datasets d ON d.organization_id = $1 AND d.id = u.dataset_id
 ORDER BY d.namespace, d.name;

-- name: find_shown_name
-- Datasets that are shown under this name.
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.display_name = $2
   AND d.merged_into IS NULL
 ORDER BY d.namespace, d.name
 LIMIT 100;

-- name: find_last_part
-- Datasets whose name ends in this part: the table of a schema, the folder of a path.
SELECT d.id, d.namespace, d.name, d.display_name, d.type
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.bare_name = $2
   AND d.merged_into IS NULL
 ORDER BY d.namespace, d.name
 LIMIT 100;

-- name: list_candidates
-- Names that begin alike, to look for the nearest among.
SELECT d.namespace, d.name
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.bare_name >= $2
   AND d.bare_name < $3
   AND d.merged_into IS NULL
 LIMIT 500;

-- name: list_indexed_names
-- Names of these entries of the index.
SELECT e.namespace, e.name
  FROM unnest($3::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.namespace, x.name
                       FROM search_entries x
                      WHERE x.organization_id = $1
                        AND x.kind = $2
                        AND x.id = u.id
                     OFFSET 0) e;

-- name: find_job_id
-- The job with this id.
SELECT j.id, j.namespace, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.id = $2;

-- name: find_run_job
-- The job of this run.
SELECT j.id, j.namespace, j.name, r.run_id
  FROM job_runs r
  JOIN jobs j ON j.organization_id = $1 AND j.id = r.job_id
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: find_job_names
-- The jobs of these names, in the order of the names.
SELECT j.id, j.namespace, j.name
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (namespace, name, place)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.namespace = u.namespace
                        AND x.name = u.name
                     OFFSET 0) j
 ORDER BY u.place;

-- name: find_jobs_named
-- Jobs of this name, in any namespace.
SELECT j.id, j.namespace, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.name COLLATE "C" = $2
 ORDER BY j.namespace
 LIMIT 100;

-- name: find_application_job
-- The job of the latest run of this application.
SELECT j.id, j.namespace, j.name, r.run_id
  FROM job_runs r
  JOIN jobs j ON j.organization_id = $1 AND j.id = r.job_id
 WHERE r.organization_id = $1
   AND r.application_id = $2
 ORDER BY r.started_at DESC
 LIMIT 1;

-- name: list_job_candidates
-- Names that begin alike, to look for the nearest among.
SELECT j.namespace, j.name
  FROM jobs j
 WHERE j.organization_id = $1
   AND j.name COLLATE "C" >= $2
   AND j.name COLLATE "C" < $3
 LIMIT 500;
