-- name: list_runs
-- Runs of the organisation, latest start first, after the given place.
SELECT r.run_id, r.state, r.started_at, r.ended_at, r.last_event_at, r.parent_run_id, r.root_run_id, r.application_id,
       r.partition_context, r.processing_type, r.is_test, r.error, r.producer,
       (SELECT count(*)
          FROM lineage_events e
         WHERE e.organization_id = r.organization_id
           AND e.run_id = r.run_id
           AND e.outcome = 'accepted') AS event_count,
       j.id AS job_id, j.namespace AS job_namespace, j.name AS job_name
  FROM job_runs r
  JOIN jobs j ON j.organization_id = r.organization_id AND j.id = r.job_id
 WHERE r.organization_id = $1
   AND ($2::timestamptz IS NULL OR (r.started_at, r.run_id) < ($2, $3::uuid))
   AND ($4::text IS NULL OR r.state = $4)
 ORDER BY r.started_at DESC, r.run_id DESC
 LIMIT $5;

-- name: get_run
-- One run with everything stored of it.
SELECT r.*,
       (SELECT count(*)
          FROM lineage_events e
         WHERE e.organization_id = r.organization_id
           AND e.run_id = r.run_id
           AND e.outcome = 'accepted') AS event_count,
       j.namespace AS job_namespace, j.name AS job_name,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'namespace', o.namespace, 'name', o.name)
                                  ORDER BY o.namespace, o.name), '[]')
          FROM jobs o
         WHERE o.organization_id = r.organization_id
           AND o.id = ANY (r.job_ids)
           AND o.id <> r.job_id) AS other_jobs
  FROM job_runs r
  JOIN jobs j ON j.organization_id = r.organization_id AND j.id = r.job_id
 WHERE r.organization_id = $1
   AND r.run_id = $2;

-- name: list_run_datasets
-- What the run read and wrote, with the row counts it reported, over all partitions.
SELECT d.id, d.namespace, d.name, d.display_name, d.type, u.role, m.row_count, m.byte_size, m.file_count
  FROM job_runs r
 CROSS JOIN LATERAL (SELECT i.id, 'input' AS role FROM unnest(r.input_ids) AS i (id)
                     UNION ALL
                     SELECT o.id, 'output' FROM unnest(r.output_ids) AS o (id)) u
  JOIN datasets d ON d.organization_id = r.organization_id AND d.id = u.id
  LEFT JOIN LATERAL (SELECT sum(x.row_count)::bigint AS row_count, sum(x.byte_size)::bigint AS byte_size,
                            sum(x.file_count)::bigint AS file_count
                       FROM dataset_metrics x
                      WHERE x.organization_id = r.organization_id
                        AND x.dataset_id = d.id
                        AND x.measured_at BETWEEN least(r.started_at, r.running_at, r.other_at, r.ended_at)
                                              AND r.last_event_at
                        AND x.run_id = r.run_id
                        AND x.direction = u.role) m ON true
 WHERE r.organization_id = $1
   AND r.run_id = $2
 ORDER BY u.role, d.namespace, d.name;
