-- name: walk
-- Datasets up- or downstream of one, nearest first, itself included.
SELECT w.dataset_id, w.depth
  FROM walk_lineage($1, ARRAY[$2::uuid], $3, $4, $5, $6, false) w;

-- name: list_edges
-- Edges between datasets, a row a job.
SELECT e.source_id, e.target_id, e.job_id, e.last_seen_at, e.is_completed
  FROM lineage_between($1, $2, $3) e
 ORDER BY e.source_id, e.target_id, e.job_id;

-- name: count_hidden
-- How many neighbours each of some datasets has that are not among them.
SELECT h.dataset_id, h.hidden
  FROM count_hidden($1, $2, $3, $4) h;

-- name: count_beyond
-- How many datasets there are next to some that are not shown, until there are enough.
SELECT lineage_beyond($1, $2, $3, $4, $5, $6);

-- name: list_nodes
-- Datasets in the order of their ids. Unless something is known to lead into one, it is looked up who writes it.
SELECT d.id, d.namespace, d.name, d.display_name, d.type,
       NOT u.is_fed AND NOT EXISTS (SELECT
                                      FROM job_datasets h
                                     WHERE h.organization_id = $1
                                       AND h.dataset_id = u.id
                                       AND h.role = 'output'
                                       AND ($4::timestamptz IS NULL OR h.first_seen_at <= $4)
                                    OFFSET 0) AS external
  FROM unnest($2::uuid[], $3::boolean[]) WITH ORDINALITY AS u (id, is_fed, i)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
 ORDER BY u.i;

-- name: list_jobs
-- Names of jobs.
SELECT j.id, j.namespace, j.name
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j;

-- name: list_columns
-- Column edges behind some edges between datasets, at most so many; each with the place of its edge.
SELECT u.i::integer AS place, c.source_column, NULLIF(c.target_column, '') AS target_column, c.kinds, c.expression
  FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) WITH ORDINALITY AS u (source_id, target_id, job_id, i)
 CROSS JOIN LATERAL (SELECT x.source_column, x.target_column, x.kinds, x.expression
                       FROM column_lineage_edges x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.job_id
                        AND x.target_id = u.target_id
                        AND x.source_id = u.source_id
                        AND x.first_seen_at <= coalesce($5::timestamptz, 'infinity')
                        AND (x.is_current OR x.last_seen_at >= $5)
                        AND NOT EXISTS (SELECT
                                          FROM datasets d
                                          LEFT JOIN job_datasets h ON h.organization_id = $1 AND h.job_id = x.job_id
                                                                  AND h.dataset_id = d.id AND h.role = 'output'
                                         WHERE d.organization_id = $1
                                           AND d.id = x.target_id
                                           AND d.renamed_at <= coalesce($5, 'infinity')
                                           AND d.renamed_at >= greatest(x.last_seen_at, h.columns_seen_at)
                                        OFFSET 0)
                     OFFSET 0) c
 ORDER BY u.i, c.target_column, c.source_column
 LIMIT $6;

-- name: settle_stats
-- Brings up to date what the stats of datasets say.
SELECT settle_dataset_stats($1);

-- name: count_map
-- How many datasets there are that are not gone.
SELECT count(*)
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.merged_into IS NULL
   AND (d.dropped_at IS NULL OR NOT is_gone($1, d.id, 'infinity'));

-- name: list_map
-- The first datasets by name, and how each is.
SELECT d.id, d.namespace, d.type,
       CASE WHEN s.failing_tests > 0 OR (w.is_open AND r.state IN ('FAIL', 'ABORT')) THEN 'failing'
            WHEN extract(epoch FROM now() - coalesce(NULLIF(s.last_written_at, '-infinity'), d.first_seen_at))
                   > f.sla_hours * 3600 THEN 'stale'
            WHEN w.job_id IS NOT NULL OR t.is_tested THEN 'ok'
            ELSE 'unknown' END AS status
  FROM datasets d
  LEFT JOIN LATERAL (SELECT x.failing_tests, x.last_written_at
                       FROM dataset_stats x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                     OFFSET 0) s ON true
  LEFT JOIN LATERAL (SELECT x.sla_hours
                       FROM freshness_sla x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                     OFFSET 0) f ON true
  LEFT JOIN LATERAL (SELECT x.job_id, x.last_seen_at,
                            coalesce(x.last_seen_at > x.last_completed_at, true) AS is_open
                       FROM job_datasets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                        AND x.role = 'output'
                      ORDER BY x.last_seen_at DESC
                      LIMIT 1) w ON true
  LEFT JOIN LATERAL (SELECT x.state
                       FROM job_runs x
                      WHERE w.is_open
                        AND x.organization_id = $1
                        AND x.job_id = w.job_id
                        AND x.started_at <= w.last_seen_at
                        AND d.id = ANY (x.output_ids)
                        AND NOT x.is_test
                      ORDER BY x.started_at DESC
                      LIMIT 1) r ON true
 CROSS JOIN LATERAL (SELECT w.job_id IS NULL
                            AND EXISTS (SELECT
                                          FROM test_results x
                                         WHERE x.organization_id = $1
                                           AND x.dataset_id = d.id) AS is_tested
                     OFFSET 0) t
 WHERE d.organization_id = $1
   AND d.merged_into IS NULL
   AND (d.dropped_at IS NULL OR NOT is_gone($1, d.id, 'infinity'))
 ORDER BY d.namespace, d.name
 LIMIT $2;

-- name: list_map_names
-- Names of the same datasets, in the same order.
SELECT d.name
  FROM datasets d
 WHERE d.organization_id = $1
   AND d.merged_into IS NULL
   AND (d.dropped_at IS NULL OR NOT is_gone($1, d.id, 'infinity'))
 ORDER BY d.namespace, d.name
 LIMIT $2;

-- name: list_map_edges
-- Edges between the same datasets, each once, as places in that order; many in a row, as bytes of 32-bit numbers.
WITH shown AS MATERIALIZED (
  SELECT d.id, d.renamed_at, (row_number() OVER (ORDER BY d.namespace, d.name) - 1)::integer AS place
    FROM datasets d
   WHERE d.organization_id = $1
     AND d.merged_into IS NULL
     AND (d.dropped_at IS NULL OR NOT is_gone($1, d.id, 'infinity'))
   ORDER BY d.namespace, d.name
   LIMIT $2
)
SELECT string_agg(int4send(p.source), ''::bytea) AS sources, string_agg(int4send(p.target), ''::bytea) AS targets
  FROM (SELECT DISTINCT s.place AS source, t.place AS target
          FROM lineage_edges e
          JOIN shown s ON s.id = e.source_id
          JOIN shown t ON t.id = e.target_id
         WHERE e.organization_id = $1
           AND (t.renamed_at IS NULL OR t.renamed_at < e.last_seen_at)
           AND (e.last_seen_at >= now() - interval '30 days'
             OR NOT EXISTS (SELECT
                              FROM job_runs r
                             WHERE r.organization_id = $1
                               AND r.job_id = e.job_id
                               AND r.started_at > e.last_seen_at
                               AND r.state = 'COMPLETE'
                               AND r.complete_at > e.last_seen_at + interval '30 days'
                               AND NOT r.is_test
                            OFFSET 0))) p
 GROUP BY p.source / 256;
