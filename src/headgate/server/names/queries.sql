-- name: lock_names
-- Waits until no event of the organisation is being written, and holds off the next ones.
SELECT pg_advisory_xact_lock(merge_lock($1));

-- name: notify
-- Tells every process that something about the organisation changed.
SELECT pg_notify($1, $2);

-- name: list_all_rules
-- Alias rules in the order in which they are tried.
SELECT id, position, pattern, canonical
  FROM alias_rules
 WHERE organization_id = $1
 ORDER BY position, id;

-- name: list_rules
-- A page of alias rules in the order in which they are tried.
SELECT id, position, pattern, canonical, created_by, created_at
  FROM alias_rules
 WHERE organization_id = $1
   AND ($2::bigint IS NULL OR (position, id) > ($2, $3::uuid))
 ORDER BY position, id
 LIMIT $4;

-- name: make_room_for_rule
-- Moves the rules from a position on down by one.
UPDATE alias_rules
   SET position = position + 1
 WHERE organization_id = $1
   AND position >= $2;

-- name: close_gap_of_rule
-- Moves the rules after a position up by one.
UPDATE alias_rules
   SET position = position - 1
 WHERE organization_id = $1
   AND position > $2;

-- name: insert_rule
-- A new alias rule.
INSERT INTO alias_rules (organization_id, position, pattern, canonical, created_by)
VALUES ($1, $2, $3, $4, $5)
RETURNING id, position, pattern, canonical, created_by, created_at;

-- name: get_rule
-- One alias rule.
SELECT id, position, pattern, canonical, created_by, created_at
  FROM alias_rules
 WHERE organization_id = $1
   AND id = $2;

-- name: update_rule
-- Changes an alias rule.
UPDATE alias_rules
   SET position = $3,
       pattern = $4,
       canonical = $5
 WHERE organization_id = $1
   AND id = $2
RETURNING id, position, pattern, canonical, created_by, created_at;

-- name: delete_rule
-- Removes an alias rule.
DELETE FROM alias_rules
 WHERE organization_id = $1
   AND id = $2
RETURNING id;

-- name: list_names
-- Every name that leads to a dataset, but for those that a rule has left behind.
SELECT dataset_id, namespace, name, source = 'primary' AS is_primary
  FROM dataset_aliases
 WHERE organization_id = $1
   AND source <> 'rule';

-- name: find_names
-- Which datasets these names lead to.
SELECT a.namespace, a.name, a.dataset_id
  FROM unnest($2::text[], $3::text[]) AS u (namespace, name)
  JOIN dataset_aliases a ON a.organization_id = $1 AND a.namespace = u.namespace AND a.name = u.name;

-- name: list_evidence
-- Whether these datasets are written by a job, and whether they are tested.
SELECT u.id,
       EXISTS (SELECT
                 FROM job_datasets j
                WHERE j.organization_id = $1
                  AND j.dataset_id = u.id
                  AND j.role = 'output') AS is_written,
       EXISTS (SELECT
                 FROM test_results t
                WHERE t.organization_id = $1
                  AND t.dataset_id = u.id) AS is_tested
  FROM unnest($2::uuid[]) AS u (id);

-- name: list_orphans
-- Tested datasets that no job writes, the tested ones taken one by one from the index.
WITH RECURSIVE tested AS (
  (SELECT t.dataset_id
     FROM test_results t
    WHERE t.organization_id = $1
    ORDER BY t.dataset_id
    LIMIT 1)
  UNION ALL
  SELECT (SELECT t.dataset_id
            FROM test_results t
           WHERE t.organization_id = $1
             AND t.dataset_id > p.dataset_id
           ORDER BY t.dataset_id
           LIMIT 1)
    FROM tested p
   WHERE p.dataset_id IS NOT NULL
)
SELECT d.id, d.namespace, d.name, d.display_name, d.type, lower(d.bare_name) AS last_part
  FROM (SELECT t.dataset_id
          FROM tested t
         WHERE t.dataset_id IS NOT NULL
         LIMIT $2) u
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.type, x.bare_name, x.merged_into
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.dataset_id
                     OFFSET 0) d
 CROSS JOIN LATERAL (SELECT count(*) AS writers
                       FROM (SELECT
                               FROM job_datasets x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.dataset_id
                                AND x.role = 'output'
                              LIMIT 1) o) w
 WHERE d.merged_into IS NULL
   AND w.writers = 0;

-- name: list_written_namesakes
-- Datasets that a job writes and whose names have one of these last parts in whatever case, some of each.
SELECT n.id, n.namespace, n.name, n.display_name, n.type, n.last_part
  FROM (SELECT d.id, d.namespace, d.name, d.display_name, d.type, lower(d.bare_name) AS last_part,
               row_number() OVER (PARTITION BY lower(d.bare_name) ORDER BY d.namespace, d.name) AS place
          FROM datasets d
         CROSS JOIN LATERAL (SELECT count(*) AS writers
                               FROM (SELECT
                                       FROM job_datasets x
                                      WHERE x.organization_id = $1
                                        AND x.dataset_id = d.id
                                        AND x.role = 'output'
                                      LIMIT 1) o) w
         WHERE d.organization_id = $1
           AND lower(d.bare_name) = ANY ($2::text[])
           AND d.merged_into IS NULL
           AND w.writers = 1) n
 WHERE n.place <= $3;

-- name: merge_datasets
-- Joins two datasets into the older one; returns the id of the merge, or NULL if they are one already.
SELECT merge_datasets($1, $2, $3, $4, $5);

-- name: rename_dataset
-- Lets a name lead to a dataset; returns the id under which that can be undone, or NULL if it does already.
SELECT rename_dataset($1, $2, $3, $4, $5, $6, $7);

-- name: undo_merge
-- Takes a merge back.
SELECT undo_dataset_merge($1, $2);

-- name: list_rule_merges
-- What a rule did and what still stands, last first.
SELECT id
  FROM dataset_merges
 WHERE organization_id = $1
   AND rule_id = $2
   AND undone_at IS NULL
 ORDER BY place DESC;

-- name: list_merges
-- A page of merges, or the one with an id, newest first, with the names from before where they are known.
SELECT m.id, m.reason, m.rule_id, m.survivor_id, m.merged_id, m.merged_at, m.undone_at,
       s.namespace || '/' || s.name AS survivor_urn,
       coalesce(b.urn, g.namespace || '/' || g.name) AS merged_urn
  FROM dataset_merges m
  JOIN datasets s ON s.organization_id = $1 AND s.id = m.survivor_id
  JOIN datasets g ON g.organization_id = $1 AND g.id = m.merged_id
  LEFT JOIN LATERAL (SELECT (r.original ->> 'namespace') || '/' || (r.original ->> 'name') AS urn
                       FROM dataset_merge_rows r
                      WHERE r.organization_id = $1
                        AND r.merge_id = m.id
                        AND r.table_name = 'datasets'
                        AND r.original ->> 'id' = m.merged_id::text
                      LIMIT 1) b ON true
 WHERE m.organization_id = $1
   AND ($2::timestamptz IS NULL OR (m.merged_at, m.id) < ($2, $3::uuid))
   AND ($5::uuid IS NULL OR m.id = $5)
 ORDER BY m.merged_at DESC, m.id DESC
 LIMIT $4;

-- name: count_datasets
-- How many of these datasets exist, merged ones too.
SELECT count(*)
  FROM datasets
 WHERE organization_id = $1
   AND id = ANY ($2::uuid[]);

-- name: list_patterns
-- Name patterns that the organisation has set.
SELECT name, regex, kind, enabled
  FROM name_patterns
 WHERE organization_id = $1
 ORDER BY name;

-- name: upsert_pattern
-- Sets a name pattern.
INSERT INTO name_patterns (organization_id, name, regex, kind, enabled)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organization_id, name) DO UPDATE
   SET regex = EXCLUDED.regex,
       kind = EXCLUDED.kind,
       enabled = EXCLUDED.enabled;

-- name: delete_pattern
-- Removes a name pattern of the organisation's own.
DELETE FROM name_patterns
 WHERE organization_id = $1
   AND name = $2
RETURNING name;
