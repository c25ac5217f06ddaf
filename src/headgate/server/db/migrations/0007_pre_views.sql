-- Views over lineage and test results for people who query directly. Bounded by datasets, never by runs.
SET LOCAL lock_timeout = '5s';

-- Datasets downstream of one, nearest first: level by level, each once, so cycles end and cost follows what is reached.
CREATE FUNCTION downstream_of(p_dataset uuid, p_max_depth integer DEFAULT 10)
  RETURNS TABLE (dataset_id uuid, depth integer)
  LANGUAGE plpgsql STABLE
  AS $$
DECLARE
  frontier uuid[] := ARRAY[p_dataset];
  seen uuid[] := ARRAY[p_dataset];
BEGIN
  FOR level IN 1 .. p_max_depth LOOP
    frontier := ARRAY(SELECT DISTINCT e.target_id
                        FROM lineage_edges e
                       WHERE e.organization_id = current_organization()
                         AND e.source_id = ANY (frontier)
                         AND NOT e.target_id = ANY (seen));
    EXIT WHEN cardinality(frontier) = 0;
    seen := seen || frontier;
    RETURN QUERY SELECT f.id, level FROM unnest(frontier) AS f (id);
  END LOOP;
END
$$;

-- What each dataset reaches. Ask with a dataset_id: the walk is then made for that dataset alone.
CREATE VIEW lineage_impact_analysis AS
SELECT d.organization_id,
       d.id AS dataset_id,
       d.namespace || '/' || d.name AS dataset_urn,
       i.dataset_id AS impacted_id,
       t.namespace || '/' || t.name AS impacted_urn,
       i.depth
  FROM datasets d
 CROSS JOIN LATERAL downstream_of(d.id) i
  JOIN datasets t ON t.organization_id = d.organization_id AND t.id = i.dataset_id
 WHERE d.merged_into IS NULL;

-- Failed tests with the run that had produced the data by then: the latest producing run of the dataset that ended at
-- or before the failure, never a later one.
CREATE VIEW incident_correlation_view AS
SELECT t.organization_id,
       t.id AS test_result_id,
       t.name AS test_name,
       t.status AS test_status,
       t.severity,
       t.column_name,
       t.observed_at AS test_executed_at,
       t.dataset_id,
       d.namespace || '/' || d.name AS dataset_urn,
       p.run_id,
       p.state AS job_status,
       p.started_at AS job_started_at,
       p.ended_at AS job_completed_at,
       j.namespace AS job_namespace,
       j.name AS job_name
  FROM test_results t
  JOIN datasets d ON d.organization_id = t.organization_id AND d.id = t.dataset_id
  LEFT JOIN LATERAL (SELECT r.run_id, r.job_id, r.state, r.started_at, r.ended_at
                       FROM job_datasets h
                      CROSS JOIN LATERAL (SELECT x.run_id, x.job_id, x.state, x.started_at, x.ended_at
                                            FROM job_runs x
                                           WHERE x.organization_id = h.organization_id
                                             AND x.job_id = h.job_id
                                             AND x.ended_at <= t.observed_at
                                             AND NOT x.is_test
                                             AND h.dataset_id = ANY (x.output_ids)
                                           ORDER BY x.started_at DESC
                                           LIMIT 1) r
                      WHERE h.organization_id = t.organization_id
                        AND h.dataset_id = t.dataset_id
                        AND h.role = 'output'
                      ORDER BY r.ended_at DESC
                      LIMIT 1) p ON true
  LEFT JOIN jobs j ON j.organization_id = t.organization_id AND j.id = p.job_id
 WHERE t.status IN ('failed', 'error');

-- The last seven days of failed tests, one row a dataset.
CREATE VIEW recent_incidents_summary AS
SELECT t.organization_id,
       t.dataset_id,
       d.namespace || '/' || d.name AS dataset_urn,
       count(DISTINCT t.test_key) AS failed_tests,
       count(*) AS failures,
       min(t.observed_at) AS first_failed_at,
       max(t.observed_at) AS last_failed_at
  FROM test_results t
  JOIN datasets d ON d.organization_id = t.organization_id AND d.id = t.dataset_id
 WHERE t.status IN ('failed', 'error')
   AND t.observed_at > now() - interval '7 days'
 GROUP BY t.organization_id, t.dataset_id, d.namespace, d.name;

GRANT SELECT ON lineage_impact_analysis, incident_correlation_view, recent_incidents_summary TO headgate_app;
