-- What finds runs and jobs.
SET LOCAL lock_timeout = '5s';

-- Few runs have an application or several jobs, so most pay for neither index.
CREATE INDEX job_runs_application ON job_runs (organization_id, application_id, started_at DESC)
  WHERE application_id IS NOT NULL;
DROP INDEX job_runs_shared;
CREATE INDEX job_runs_shared ON job_runs (organization_id, started_at DESC, run_id DESC)
  WHERE cardinality(job_ids) > 1;
-- In the order in which the children of a run are listed.
DROP INDEX job_runs_parent;
CREATE INDEX job_runs_parent ON job_runs (organization_id, parent_run_id, started_at DESC, run_id DESC)
  WHERE parent_run_id IS NOT NULL;

-- "C", so that a range of names is the names that begin alike.
CREATE INDEX jobs_name ON jobs (organization_id, name COLLATE "C", id);
CREATE INDEX jobs_namespace_name ON jobs (organization_id, namespace, name COLLATE "C", id);

-- Whether a run is among those asked for; what is NULL is not asked for.
CREATE FUNCTION run_fits(
  p_state text, p_is_test boolean, p_context jsonb, p_job_ids uuid[], p_application text, p_parent uuid,
  p_states text[], p_tests boolean, p_contexts jsonb, p_jobs uuid[], p_applications text, p_parents uuid)
  RETURNS boolean
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT (p_states IS NULL OR p_state = ANY (p_states))
       AND (p_tests IS NULL OR p_is_test = p_tests)
       AND (p_contexts IS NULL OR p_context @> p_contexts)
       AND (p_jobs IS NULL OR p_job_ids && p_jobs)
       AND (p_applications IS NULL OR p_application = p_applications)
       AND (p_parents IS NULL OR p_parent = p_parents)
  $$;
