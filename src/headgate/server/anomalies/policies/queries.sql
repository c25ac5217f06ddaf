-- name: list_policies
-- Policies, the latest first.
SELECT p.*, d.namespace || '/' || d.name AS urn
  FROM detection_policies p
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = p.dataset_id
 WHERE p.organization_id = $1
   AND ($2::timestamptz IS NULL OR (p.created_at, p.id) < ($2, $3))
 ORDER BY p.created_at DESC, p.id DESC
 LIMIT $4;

-- name: get_policy
-- One policy.
SELECT p.*, d.namespace || '/' || d.name AS urn
  FROM detection_policies p
  LEFT JOIN datasets d ON d.organization_id = $1 AND d.id = p.dataset_id
 WHERE p.organization_id = $1
   AND p.id = $2;

-- name: add_policy
-- Adds a policy.
INSERT INTO detection_policies (organization_id, dataset_id, pattern, metric, description, enabled, method, sigma,
                                min_points, window_days, drop_share, floor_share, seasonality, small_sample,
                                spike_severity, drop_severity, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
RETURNING id;

-- name: change_policy
-- Puts a policy in the place of another.
UPDATE detection_policies
   SET dataset_id = $3, pattern = $4, metric = $5, description = $6, enabled = $7, method = $8, sigma = $9,
       min_points = $10, window_days = $11, drop_share = $12, floor_share = $13, seasonality = $14,
       small_sample = $15, spike_severity = $16, drop_severity = $17, updated_at = now()
 WHERE organization_id = $1
   AND id = $2
RETURNING id;

-- name: delete_policy
-- Removes a policy.
DELETE FROM detection_policies
 WHERE organization_id = $1
   AND id = $2
RETURNING id;

-- name: list_marks
-- What people expect of a dataset, the latest first.
SELECT m.*
  FROM expected_marks m
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND ($3::timestamptz IS NULL OR (m.created_at, m.id) < ($3, $4))
 ORDER BY m.created_at DESC, m.id DESC
 LIMIT $5;

-- name: add_mark
-- Remembers what a person expects of a dataset.
INSERT INTO expected_marks (organization_id, dataset_id, kind, at, weekday, until, metric, column_name, partition_key,
                            note, anomaly_id, created_by, side)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
RETURNING *;

-- name: delete_mark
-- Forgets what a person expected.
DELETE FROM expected_marks
 WHERE organization_id = $1
   AND dataset_id = $2
   AND id = $3
RETURNING id;
