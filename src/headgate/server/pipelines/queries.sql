-- name: list_pipelines
-- Pipelines by name after one of them, each with its latest run. Goes from name to name, not through the runs.
WITH RECURSIVE names AS (
  (SELECT r.project, r.pipeline
     FROM pipeline_runs r
    WHERE r.organization_id = $1
      AND (r.project, r.pipeline) > ($2, $3)
    ORDER BY r.project, r.pipeline
    LIMIT 1)
  UNION ALL
  SELECT n.project, n.pipeline
    FROM names l
   CROSS JOIN LATERAL (SELECT r.project, r.pipeline
                         FROM pipeline_runs r
                        WHERE r.organization_id = $1
                          AND (r.project, r.pipeline) > (l.project, l.pipeline)
                        ORDER BY r.project, r.pipeline
                        LIMIT 1) n
),
page AS (
  SELECT n.project, n.pipeline
    FROM names n
   LIMIT $4
)
SELECT r.*, c.run_count
  FROM page p
 CROSS JOIN LATERAL (SELECT x.*
                       FROM pipeline_runs x
                      WHERE x.organization_id = $1
                        AND x.project = p.project
                        AND x.pipeline = p.pipeline
                      ORDER BY x.started_at DESC, x.run_id DESC
                      LIMIT 1) r
 CROSS JOIN LATERAL (SELECT count(*) AS run_count
                       FROM pipeline_runs x
                      WHERE x.organization_id = $1
                        AND x.project = p.project
                        AND x.pipeline = p.pipeline) c
 ORDER BY r.project, r.pipeline;

-- name: list_names
-- Names of pipelines, to look for the nearest among.
WITH RECURSIVE names AS (
  (SELECT r.project, r.pipeline
     FROM pipeline_runs r
    WHERE r.organization_id = $1
    ORDER BY r.project, r.pipeline
    LIMIT 1)
  UNION ALL
  SELECT n.project, n.pipeline
    FROM names l
   CROSS JOIN LATERAL (SELECT r.project, r.pipeline
                         FROM pipeline_runs r
                        WHERE r.organization_id = $1
                          AND (r.project, r.pipeline) > (l.project, l.pipeline)
                        ORDER BY r.project, r.pipeline
                        LIMIT 1) n
)
SELECT n.project, n.pipeline
  FROM names n
 LIMIT $2;

-- name: get_pipeline
-- The latest run of a pipeline, and how many there are.
SELECT r.*, c.run_count
  FROM (SELECT x.*
          FROM pipeline_runs x
         WHERE x.organization_id = $1
           AND x.project = $2
           AND x.pipeline = $3
         ORDER BY x.started_at DESC, x.run_id DESC
         LIMIT 1) r
 CROSS JOIN LATERAL (SELECT count(*) AS run_count
                       FROM pipeline_runs x
                      WHERE x.organization_id = $1
                        AND x.project = $2
                        AND x.pipeline = $3) c;

-- name: list_runs
-- Runs of a pipeline, the latest first.
SELECT r.*, r.run_id AS id
  FROM pipeline_runs r
 WHERE r.organization_id = $1
   AND r.project = $2
   AND r.pipeline = $3
   AND ($4::timestamptz IS NULL OR (r.started_at, r.run_id) < ($4, $5::uuid))
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $6;

-- name: get_run
-- One run of a pipeline.
SELECT r.*
  FROM pipeline_runs r
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: get_previous_run
-- The last run of a pipeline before one that published.
SELECT r.*
  FROM pipeline_runs r
 WHERE r.organization_id = $1
   AND r.project = $2
   AND r.pipeline = $3
   AND (r.started_at, r.run_id) < ($4, $5)
   AND r.status = 'published'
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT 1;

-- name: list_run_nodes
-- Nodes of a run, each as its latest attempt, in the order in which they began.
SELECT l.*
  FROM (SELECT DISTINCT ON (n.node) n.*
          FROM node_runs n
         WHERE n.organization_id = $1
           AND n.pipeline_run_id = $2
         ORDER BY n.node, n.attempt DESC, n.started_at DESC, n.run_id) l
 ORDER BY l.started_at, l.node;

-- name: list_alerts
-- Alerts that a run has sent.
SELECT a.event, a.node, a.channel, a.outcome, a.reason, a.message, a.sent_at AS at
  FROM pipeline_alerts a
 WHERE a.organization_id = $1
   AND a.run_id = $2
 ORDER BY a.sent_at, a.alert_key;

-- name: list_nodes
-- Nodes of a pipeline by name, each with its latest run and its last published one. Goes from node to node.
WITH RECURSIVE latest AS (
  (SELECT n.node, n.run_id
     FROM node_runs n
    WHERE n.organization_id = $1
      AND n.project = $2
      AND n.pipeline = $3
      AND NOT n.handles_batch
    ORDER BY n.node, n.started_at DESC, n.run_id DESC
    LIMIT 1)
  UNION ALL
  SELECT f.node, f.run_id
    FROM latest l
   CROSS JOIN LATERAL (SELECT n.node, n.run_id
                         FROM node_runs n
                        WHERE n.organization_id = $1
                          AND n.project = $2
                          AND n.pipeline = $3
                          AND n.node > l.node
                          AND NOT n.handles_batch
                        ORDER BY n.node, n.started_at DESC, n.run_id DESC
                        LIMIT 1) f
),
page AS (
  SELECT l.run_id
    FROM latest l
   LIMIT $4
)
SELECT n.*, p.run_id AS published_run_id, p.ended_at AS published_at, p.rows_in AS published_rows_in,
       p.rows_published AS published_rows
  FROM page g
 CROSS JOIN LATERAL (SELECT x.*
                       FROM node_runs x
                      WHERE x.organization_id = $1
                        AND x.run_id = g.run_id
                     OFFSET 0) n
  LEFT JOIN LATERAL (SELECT x.run_id, x.ended_at, x.rows_in, x.rows_published
                       FROM node_runs x
                      WHERE x.organization_id = $1
                        AND x.project = $2
                        AND x.pipeline = $3
                        AND x.node = n.node
                        AND x.status = 'published'
                        AND NOT x.handles_batch
                      ORDER BY x.ended_at DESC, x.run_id DESC
                      LIMIT 1) p ON true
 ORDER BY n.node;

-- name: list_published
-- Published runs of a node, the latest first.
SELECT n.run_id, n.run_id AS id, n.ended_at, n.rows_in, n.rows_published
  FROM node_runs n
 WHERE n.organization_id = $1
   AND n.project = $2
   AND n.pipeline = $3
   AND n.node = $4
   AND n.status = 'published'
   AND NOT n.handles_batch
   AND ($5::timestamptz IS NULL OR (n.ended_at, n.run_id) < ($5, $6::uuid))
 ORDER BY n.ended_at DESC, n.run_id DESC
 LIMIT $7;

-- name: get_last_published
-- The last published run of a node, and how far such runs have read.
SELECT n.run_id, n.ended_at, n.rows_in, n.rows_published, n.record -> 'schema' AS fields,
       w.column_name, w.value, w.run_id AS moved_by, w.updated_at
  FROM (SELECT x.*
          FROM node_runs x
         WHERE x.organization_id = $1
           AND x.project = $2
           AND x.pipeline = $3
           AND x.node = $4
           AND x.status = 'published'
           AND NOT x.handles_batch
         ORDER BY x.ended_at DESC, x.run_id DESC
         LIMIT 1) n
  LEFT JOIN LATERAL (SELECT x.*
                       FROM pipeline_watermarks x
                      WHERE x.organization_id = $1
                        AND x.project = $2
                        AND x.pipeline = $3
                        AND x.node = $4
                      ORDER BY x.updated_at DESC, x.column_name
                      LIMIT 1) w ON true;

-- name: has_node
-- Whether anything was heard of a node.
SELECT EXISTS (SELECT
                 FROM node_runs n
                WHERE n.organization_id = $1
                  AND n.project = $2
                  AND n.pipeline = $3
                  AND n.node = $4
                  AND NOT n.handles_batch);

-- name: list_batches
-- Batches in quarantine, the latest first; what is NULL is not asked for.
SELECT b.*
  FROM quarantine_batches b
 WHERE b.organization_id = $1
   AND ($2::text IS NULL OR b.project = $2)
   AND ($3::text IS NULL OR b.pipeline = $3)
   AND ($4::text IS NULL OR b.node = $4)
   AND ($5::text IS NULL OR b.state = $5)
   AND ($6::timestamptz IS NULL OR (b.rejected_at, b.id) < ($6, $7::uuid))
 ORDER BY b.rejected_at DESC, b.id DESC
 LIMIT $8;

-- name: find_datasets
-- The datasets that these names lead to, with the place of the name.
SELECT u.place::integer AS place, a.dataset_id
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (namespace, name, place)
 CROSS JOIN LATERAL (SELECT x.dataset_id
                       FROM dataset_aliases x
                      WHERE x.organization_id = $1
                        AND x.namespace = u.namespace
                        AND x.name = u.name
                     OFFSET 0) a;

-- name: list_flows
-- Edges between datasets up- or downstream of some, with the names of both ends, of the job and of its pipeline.
SELECT e.source_id, s.namespace || '/' || s.name AS source, s.display_name AS source_label,
       e.target_id, t.namespace || '/' || t.name AS target, t.display_name AS target_label,
       j.namespace || '/' || j.name AS job, j.name AS job_label, p.pipeline
  FROM lineage_between($1, ARRAY(SELECT w.dataset_id FROM walk_lineage($1, $2, $3, $4, $5, NULL) w), NULL) e
  JOIN datasets s ON s.organization_id = $1 AND s.id = e.source_id
  JOIN datasets t ON t.organization_id = $1 AND t.id = e.target_id
  JOIN jobs j ON j.organization_id = $1 AND j.id = e.job_id
  LEFT JOIN LATERAL (SELECT x.pipeline
                       FROM pipeline_runs x
                      WHERE x.organization_id = $1
                        AND x.project = j.namespace
                        AND x.pipeline = split_part(j.name, '.', 1)
                      LIMIT 1) p ON true
 ORDER BY source, target, job;
