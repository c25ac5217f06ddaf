-- name: list_stages
-- Stages of a run after one of them, each as its latest attempt.
SELECT DISTINCT ON (s.stage_id) s.*, count(*) OVER (PARTITION BY s.stage_id) AS attempt_count
  FROM stage_metrics s
 WHERE s.organization_id = $1
   AND s.run_id = $2
   AND s.stage_id > $3
 ORDER BY s.stage_id, s.attempt DESC
 LIMIT $4;

-- name: list_attempts
-- Attempts of one stage of a run, the latest first.
SELECT s.*, count(*) OVER () AS attempt_count
  FROM stage_metrics s
 WHERE s.organization_id = $1
   AND s.run_id = $2
   AND s.stage_id = $3
 ORDER BY s.attempt DESC
 LIMIT $4;

-- name: list_stage_ids
-- Which stages a run has.
SELECT DISTINCT s.stage_id
  FROM stage_metrics s
 WHERE s.organization_id = $1
   AND s.run_id = $2
   AND s.stage_id >= 0
 ORDER BY s.stage_id
 LIMIT $3;

-- name: list_costs
-- Latest attempts of all stages of a run; stage -1 is the whole run.
SELECT DISTINCT ON (s.stage_id) s.*
  FROM stage_metrics s
 WHERE s.organization_id = $1
   AND s.run_id = $2
 ORDER BY s.stage_id, s.attempt DESC
 LIMIT $3;
