-- name: list_page
-- Ids of a page of datasets in the order asked for, each with its place in that order.
SELECT dataset_id AS id, place
  FROM page_of_datasets($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: settle_stats
-- Brings the stats of the organisation's datasets up to date.
SELECT settle_dataset_stats($1);

-- name: describe_datasets
-- What a list shows of these datasets, in their order. People's notes come before facets.
SELECT d.id, d.namespace, d.name, d.namespace || '/' || d.name AS urn, d.display_name, d.type, d.location,
       coalesce(n.description, c.body ->> 'description') AS description,
       coalesce(n.owners, o.names, '{}') AS owners,
       t.tags,
       NULLIF(s.last_written_at, '-infinity') AS last_updated,
       CASE WHEN s.row_count >= 0 THEN s.row_count END AS row_count,
       s.byte_size,
       coalesce(s.upstream_count, 0) AS upstream_count,
       coalesce(s.downstream_count, 0) AS downstream_count,
       v.column_count, v.version AS schema_version,
       coalesce(s.failing_tests, 0) AS failing_tests,
       coalesce(s.failing_tests > 0 OR s.open_incidents > 0, false) AS has_incident,
       CASE WHEN f.sla_hours IS NOT NULL
            THEN extract(epoch FROM now() - coalesce(NULLIF(s.last_written_at, '-infinity'), d.first_seen_at))
                   > f.sla_hours * 3600
            ELSE EXISTS (SELECT
                           FROM anomalies x
                          WHERE x.organization_id = $1
                            AND x.dataset_id = d.id
                            AND x.anomaly_type = 'FreshnessMissed'
                            AND x.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')
                            AND x.metadata ->> 'by' IS DISTINCT FROM 'sla'
                            AND coalesce((x.actual_value ->> 'last_write_at')::timestamptz, x.observed_at)
                                >= coalesce(s.last_written_at, '-infinity')) END AS is_stale,
       CASE WHEN f.sla_hours IS NOT NULL THEN least(f.sla_hours, 1e9)::float8 END AS sla_hours,
       coalesce(s.producer_count, 0) = 0 AS external,
       d.dropped_at IS NOT NULL AND is_gone($1, d.id, 'infinity') AS dropped,
       d.first_seen_at
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, i)
 CROSS JOIN LATERAL (SELECT *
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT *
                       FROM dataset_stats x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                     OFFSET 0) s ON true
  LEFT JOIN LATERAL (SELECT x.description, x.owners
                       FROM dataset_notes x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.column_name = ''
                     OFFSET 0) n ON true
  LEFT JOIN LATERAL (SELECT x.body
                       FROM dataset_facets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.name = 'documentation'
                     OFFSET 0) c ON true
  LEFT JOIN LATERAL (SELECT ARRAY(SELECT e.body ->> 'name'
                                    FROM jsonb_array_elements(CASE WHEN jsonb_typeof(x.body -> 'owners') = 'array'
                                                                   THEN x.body -> 'owners' ELSE '[]' END)
                                         WITH ORDINALITY AS e (body, i)
                                   WHERE e.body ->> 'name' <> ''
                                   ORDER BY e.i) AS names
                       FROM dataset_facets x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.name = 'ownership'
                     OFFSET 0) o ON true
 CROSS JOIN LATERAL (SELECT ARRAY(SELECT DISTINCT x.tag
                                    FROM dataset_tags x
                                   WHERE x.organization_id = $1
                                     AND x.dataset_id = u.id
                                     AND x.column_name = ''
                                   ORDER BY x.tag) AS tags
                     OFFSET 0) t
  LEFT JOIN LATERAL (SELECT x.column_count, x.version
                       FROM schema_versions x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                        AND x.valid_to IS NULL
                     OFFSET 0) v ON true
  LEFT JOIN LATERAL (SELECT x.sla_hours
                       FROM freshness_sla x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = u.id
                     OFFSET 0) f ON true
 ORDER BY u.i;

-- name: list_aliases
-- Every other name that leads to the dataset.
SELECT a.namespace, a.name, a.namespace || '/' || a.name AS urn, a.source
  FROM dataset_aliases a
 WHERE a.organization_id = $1
   AND a.dataset_id = $2
   AND a.source <> 'primary'
 ORDER BY a.namespace, a.name;

-- name: list_facets
-- The latest body of each facet, and the job that sent it.
SELECT f.name, f.body, f.event_time, j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM dataset_facets f
  LEFT JOIN jobs j ON j.organization_id = $1 AND j.id = f.job_id
 WHERE f.organization_id = $1
   AND f.dataset_id = $2
 ORDER BY f.name;

-- name: list_jobs
-- Jobs that read or write the dataset, those that were seen last first, and how many there are.
SELECT j.id, j.namespace, j.name, h.last_seen_at, h.last_completed_at, h.total
  FROM (SELECT x.job_id, x.last_seen_at, x.last_completed_at, count(*) OVER () AS total
          FROM job_datasets x
         WHERE x.organization_id = $1
           AND x.dataset_id = $2
           AND x.role = $3
         ORDER BY x.last_seen_at DESC, x.job_id
         LIMIT $4) h
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = h.job_id
                     OFFSET 0) j
 ORDER BY h.last_seen_at DESC, j.id;

-- name: get_fields
-- The columns of the current schema.
SELECT v.fields
  FROM schema_versions v
 WHERE v.organization_id = $1
   AND v.dataset_id = $2
   AND v.valid_to IS NULL;

-- name: list_column_tags
-- Tags of the dataset's columns.
SELECT t.column_name, array_agg(DISTINCT t.tag ORDER BY t.tag) AS tags
  FROM dataset_tags t
 WHERE t.organization_id = $1
   AND t.dataset_id = $2
   AND t.column_name <> ''
 GROUP BY t.column_name;

-- name: list_partition_keys
-- Partition keys among the latest measurements.
SELECT DISTINCT m.partition_key
  FROM (SELECT x.partition_key
          FROM dataset_metrics x
         WHERE x.organization_id = $1
           AND x.dataset_id = $2
         ORDER BY x.measured_at DESC
         LIMIT 1000) m
 WHERE m.partition_key <> ''
 ORDER BY m.partition_key
 LIMIT 100;

-- name: list_merged
-- Ids that lead to the dataset.
SELECT f.id
  FROM merged_family($1, $2) AS f (id)
 WHERE f.id <> $2
 ORDER BY f.id;

-- name: get_note
-- What people wrote about the dataset.
SELECT n.description, n.owners, n.updated_by, n.updated_at
  FROM dataset_notes n
 WHERE n.organization_id = $1
   AND n.dataset_id = $2
   AND n.column_name = '';

-- name: list_status
-- How these datasets are, in their order; ids of merged ones show what they have become.
SELECT u.id, d.id AS current_id, is_gone($1, d.id, 'infinity') AS dropped,
       NULLIF(s.last_written_at, '-infinity') AS last_updated,
       CASE WHEN s.row_count >= 0 THEN s.row_count END AS row_count,
       coalesce(s.failing_tests, 0) AS failing_tests,
       CASE WHEN f.sla_hours IS NOT NULL
            THEN extract(epoch FROM now() - coalesce(NULLIF(s.last_written_at, '-infinity'), d.first_seen_at))
                   > f.sla_hours * 3600
            ELSE EXISTS (SELECT
                           FROM anomalies x
                          WHERE x.organization_id = $1
                            AND x.dataset_id = d.id
                            AND x.anomaly_type = 'FreshnessMissed'
                            AND x.status IN ('OPEN', 'ACKNOWLEDGED', 'ALERTED')
                            AND x.metadata ->> 'by' IS DISTINCT FROM 'sla'
                            AND coalesce((x.actual_value ->> 'last_write_at')::timestamptz, x.observed_at)
                                >= coalesce(s.last_written_at, '-infinity')) END AS is_stale,
       EXISTS (SELECT
                 FROM test_results t
                WHERE t.organization_id = $1
                  AND t.dataset_id = d.id) AS is_tested,
       r.run_id, r.state, r.ended_at
  FROM unnest($2::uuid[]) WITH ORDINALITY AS u (id, i)
 CROSS JOIN LATERAL (SELECT CASE WHEN x.merged_into IS NULL THEN x.id ELSE surviving_dataset($1, x.id) END AS id,
                            x.first_seen_at
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
  LEFT JOIN LATERAL (SELECT *
                       FROM dataset_stats x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                     OFFSET 0) s ON true
  LEFT JOIN LATERAL (SELECT x.sla_hours
                       FROM freshness_sla x
                      WHERE x.organization_id = $1
                        AND x.dataset_id = d.id
                     OFFSET 0) f ON true
  LEFT JOIN LATERAL (SELECT x.run_id, x.state, x.ended_at
                       FROM (SELECT h.job_id, h.last_seen_at
                               FROM job_datasets h
                              WHERE h.organization_id = $1
                                AND h.dataset_id = d.id
                                AND h.role = 'output'
                              ORDER BY h.last_seen_at DESC
                              LIMIT 3) h
                      CROSS JOIN LATERAL (SELECT y.run_id, y.state, y.started_at, y.ended_at
                                            FROM job_runs y
                                           WHERE y.organization_id = $1
                                             AND y.job_id = h.job_id
                                             AND y.started_at <= h.last_seen_at
                                             AND d.id = ANY (y.output_ids)
                                             AND NOT y.is_test
                                           ORDER BY y.started_at DESC
                                           LIMIT 1) x
                      ORDER BY x.started_at DESC
                      LIMIT 1) r ON true
 ORDER BY u.i;

-- name: get_latest_run
-- The run that wrote the dataset last, or tried to.
SELECT r.run_id, r.state, r.started_at, r.ended_at, j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM (SELECT h.job_id, h.last_seen_at
          FROM job_datasets h
         WHERE h.organization_id = $1
           AND h.dataset_id = $2
           AND h.role = 'output'
         ORDER BY h.last_seen_at DESC
         LIMIT 3) h
 CROSS JOIN LATERAL (SELECT x.run_id, x.state, x.started_at, x.ended_at
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = h.job_id
                        AND x.started_at <= h.last_seen_at
                        AND $2 = ANY (x.output_ids)
                        AND NOT x.is_test
                      ORDER BY x.started_at DESC
                      LIMIT 1) r
  JOIN jobs j ON j.organization_id = $1 AND j.id = h.job_id
 ORDER BY r.started_at DESC
 LIMIT 1;

-- name: hold_names
-- Keeps datasets from being merged away until the transaction ends.
SELECT pg_advisory_xact_lock_shared(merge_lock($1));

-- name: set_note
-- Sets the parts of a dataset's note that are given, also to nothing.
INSERT INTO dataset_notes AS n (organization_id, dataset_id, description, owners, updated_by)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organization_id, dataset_id, column_name) DO UPDATE
   SET description = CASE WHEN $6::boolean THEN EXCLUDED.description ELSE n.description END,
       owners = CASE WHEN $7::boolean THEN EXCLUDED.owners ELSE n.owners END,
       updated_by = EXCLUDED.updated_by,
       updated_at = now();

-- name: delete_empty_note
-- A note that says nothing any more is none.
DELETE FROM dataset_notes
 WHERE organization_id = $1
   AND dataset_id = $2
   AND description IS NULL
   AND owners IS NULL;

-- name: add_tag
-- Tags a dataset, or one of its columns.
INSERT INTO dataset_tags (organization_id, dataset_id, column_name, tag, source, created_by)
VALUES ($1, $2, $3, $4, 'user', $5)
ON CONFLICT (organization_id, dataset_id, column_name, tag, source) DO NOTHING;

-- name: has_facet_tag
-- Whether the tag comes from a facet.
SELECT EXISTS (SELECT
                 FROM dataset_tags
                WHERE organization_id = $1
                  AND dataset_id = $2
                  AND column_name = $3
                  AND tag = $4
                  AND source = 'facet');

-- name: remove_tag
-- Takes a tag away that people have given.
DELETE FROM dataset_tags
 WHERE organization_id = $1
   AND dataset_id = $2
   AND column_name = $3
   AND tag = $4
   AND source = 'user';

-- name: list_tags
-- Tags in order after the given one, and how often each is used. From tag to tag, however many datasets have one.
WITH RECURSIVE tags AS (
  (SELECT t.tag, 1 AS i
     FROM dataset_tags t
    WHERE t.organization_id = $1
      AND t.tag > $2
    ORDER BY t.tag
    LIMIT 1)
  UNION ALL
  SELECT n.tag, g.i + 1
    FROM tags g
   CROSS JOIN LATERAL (SELECT t.tag
                         FROM dataset_tags t
                        WHERE t.organization_id = $1
                          AND t.tag > g.tag
                        ORDER BY t.tag
                        LIMIT 1) n
   WHERE g.i < $3
)
SELECT g.tag, c.dataset_count, c.column_count
  FROM tags g
 CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE t.column_name = '') AS dataset_count,
                            count(*) FILTER (WHERE t.column_name <> '') AS column_count
                       FROM (SELECT DISTINCT x.dataset_id, x.column_name
                               FROM dataset_tags x
                              WHERE x.organization_id = $1
                                AND x.tag = g.tag) t) c
 ORDER BY g.i;
