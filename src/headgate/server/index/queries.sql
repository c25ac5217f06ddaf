-- name: open_index
-- Looks rows up by key whatever the statistics say, planned once: planning took longer; and whether anything waits.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       EXISTS (SELECT
                 FROM search_pending
                WHERE organization_id = $1) AS is_behind;

-- name: set_up_indexing
-- Waits at most this long for other indexers, and looks rows up by key whatever the statistics say.
SELECT set_config('lock_timeout', $1, true),
       set_config('plan_cache_mode', 'force_custom_plan', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('enable_material', 'off', true);

-- name: lock_index
-- One indexer an organisation at a time.
SELECT pg_advisory_xact_lock(search_lock($1));

-- name: take_pending
-- The oldest of what waits, taken off. What a slow writer adds before their place meanwhile is taken or waits.
DELETE FROM search_pending
 WHERE organization_id = $1
   AND place <= (SELECT max(o.place)
                   FROM (SELECT p.place
                           FROM search_pending p
                          WHERE p.organization_id = $1
                          ORDER BY p.place
                          LIMIT $2) o)
RETURNING kind, id;

-- name: read_datasets
-- Names and current columns of those of these datasets that were not merged away.
SELECT d.id, d.namespace, d.name, d.display_name, a.namespaces, a.names, c.columns
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.display_name, x.merged_into
                       FROM datasets x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) d
 CROSS JOIN LATERAL (SELECT coalesce(array_agg(n.namespace), '{}') AS namespaces,
                            coalesce(array_agg(n.name), '{}') AS names
                       FROM (SELECT x.namespace, x.name
                               FROM dataset_aliases x
                              WHERE x.organization_id = $1
                                AND x.dataset_id = u.id
                                AND x.source <> 'primary'
                              ORDER BY x.created_at DESC, x.namespace, x.name
                              LIMIT $3) n) a
 CROSS JOIN LATERAL (SELECT ARRAY(SELECT DISTINCT f.field ->> 'name'
                                    FROM schema_versions v
                                   CROSS JOIN jsonb_array_elements(v.fields) AS f (field)
                                   WHERE v.organization_id = $1
                                     AND v.dataset_id = u.id
                                     AND v.valid_to IS NULL
                                   LIMIT $4) AS columns) c
 WHERE d.merged_into IS NULL;

-- name: read_jobs
-- These jobs, and what their latest runs are part of.
SELECT j.id, j.namespace, j.name, j.job_type, r.parent_job, r.root_job
  FROM unnest($2::uuid[]) AS u (id)
 CROSS JOIN LATERAL (SELECT x.id, x.namespace, x.name, x.job_type
                       FROM jobs x
                      WHERE x.organization_id = $1
                        AND x.id = u.id
                     OFFSET 0) j
  LEFT JOIN LATERAL (SELECT x.parent_job, x.root_job
                       FROM job_runs x
                      WHERE x.organization_id = $1
                        AND x.job_id = u.id
                      ORDER BY x.started_at DESC
                      LIMIT 1) r ON true;

-- name: read_entries
-- These entries as they are in the index.
SELECT e.kind, e.id, e.namespace, e.name, e.body, e.keys, e.columns
  FROM unnest($2::text[], $3::uuid[]) AS u (kind, id)
 CROSS JOIN LATERAL (SELECT x.kind, x.id, x.namespace, x.name, x.body, x.keys, x.columns
                       FROM search_entries x
                      WHERE x.organization_id = $1
                        AND x.kind = u.kind
                        AND x.id = u.id
                     OFFSET 0) e;

-- name: upsert_entries
-- Entries as they are now.
INSERT INTO search_entries (organization_id, kind, id, namespace, name, body, keys, columns)
SELECT $1, u.kind, u.id, u.namespace, u.name, u.body, string_to_array(u.keys, E'\n'),
       ARRAY(SELECT jsonb_array_elements_text(u.columns::jsonb))
  FROM unnest($2::text[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
       AS u (kind, id, namespace, name, body, keys, columns)
ON CONFLICT (organization_id, kind, id) DO UPDATE
   SET namespace = EXCLUDED.namespace,
       name = EXCLUDED.name,
       body = EXCLUDED.body,
       keys = EXCLUDED.keys,
       columns = EXCLUDED.columns;

-- name: delete_entries
-- Entries of what is not there any more.
DELETE FROM search_entries e
 USING unnest($2::text[], $3::uuid[]) AS u (kind, id)
 WHERE e.organization_id = $1
   AND e.kind = u.kind
   AND e.id = u.id;

-- name: insert_tails
-- Where searches for these entries may begin.
INSERT INTO search_tails (organization_id, kind, rank, tail, id, size)
SELECT $1, u.kind, u.rank, u.tail, u.id, u.size
  FROM unnest($2::text[], $3::smallint[], $4::text[], $5::uuid[], $6::smallint[]) AS u (kind, rank, tail, id, size)
ON CONFLICT DO NOTHING;

-- name: delete_tails
-- Where searches for these entries no longer begin.
DELETE FROM search_tails t
 USING unnest($2::text[], $3::smallint[], $4::text[], $5::uuid[]) AS u (kind, rank, tail, id)
 WHERE t.organization_id = $1
   AND t.kind = u.kind
   AND t.rank = u.rank
   AND t.tail = u.tail
   AND t.id = u.id;

-- name: find_unknown_words
-- Those of these words that no entry had before.
SELECT u.word
  FROM unnest($2::text[]) AS u (word)
 WHERE NOT EXISTS (SELECT
                     FROM search_suffixes s
                    WHERE s.organization_id = $1
                      AND s.suffix = u.word
                      AND s.word = u.word);

-- name: insert_suffixes
-- Ends of words that are new.
INSERT INTO search_suffixes (organization_id, suffix, word)
SELECT $1, u.suffix, u.word
  FROM unnest($2::text[], $3::text[]) AS u (suffix, word)
ON CONFLICT DO NOTHING;

-- name: insert_columns
-- Columns that datasets have now.
INSERT INTO search_columns (organization_id, column_id, dataset_id)
SELECT $1, u.column_id, u.dataset_id
  FROM unnest($2::uuid[], $3::uuid[]) AS u (column_id, dataset_id)
ON CONFLICT DO NOTHING;

-- name: delete_columns
-- Columns that datasets had.
DELETE FROM search_columns c
 USING unnest($2::uuid[], $3::uuid[]) AS u (column_id, dataset_id)
 WHERE c.organization_id = $1
   AND c.column_id = u.column_id
   AND c.dataset_id = u.dataset_id;

-- name: find_unused_columns
-- Those of these columns that no dataset has any more.
SELECT u.column_id
  FROM unnest($2::uuid[]) AS u (column_id)
 WHERE NOT EXISTS (SELECT
                     FROM search_columns c
                    WHERE c.organization_id = $1
                      AND c.column_id = u.column_id);

-- name: find_tails
-- What begins in these ranges: of each kind and rank the first few.
SELECT k.kind, t.rank, t.tail, t.id, t.size
  FROM unnest($3::text[], $4::text[]) AS u (low, high)
 CROSS JOIN unnest($2::text[]) AS k (kind)
 CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS r (rank)
 CROSS JOIN LATERAL (SELECT x.rank, x.tail, x.id, x.size
                       FROM search_tails x
                      WHERE x.organization_id = $1
                        AND x.kind = k.kind
                        AND x.rank = r.rank
                        AND x.tail >= u.low
                        AND x.tail < u.high
                      ORDER BY x.tail, x.id
                      LIMIT $5) t;

-- name: find_inner_words
-- Words that have text from these ranges inside, but not at their beginning.
SELECT s.word
  FROM unnest($2::text[], $3::text[]) AS u (low, high)
 CROSS JOIN LATERAL (SELECT x.word
                       FROM search_suffixes x
                      WHERE x.organization_id = $1
                        AND x.suffix >= u.low
                        AND x.suffix < u.high
                        AND x.suffix <> x.word
                      ORDER BY x.suffix, x.word
                      LIMIT $4) s;

-- name: find_similar_words
-- Words that have one of these pieces, for each token, and are about as long.
SELECT DISTINCT u.token, s.word
  FROM unnest($2::text[], $3::text[], $4::text[]) AS u (token, low, high)
 CROSS JOIN LATERAL (SELECT x.word
                       FROM search_suffixes x
                      WHERE x.organization_id = $1
                        AND x.suffix >= u.low
                        AND x.suffix < u.high
                      ORDER BY x.suffix, x.word
                      LIMIT $5) s
 WHERE length(s.word) BETWEEN length(u.token) - 2 AND length(u.token) + 4;

-- name: find_all_words
-- Entries that have all of these tokens somewhere, found by the token that the fewest begin with, or several such.
WITH counted AS MATERIALIZED (
  SELECT u.low, u.high, h.hits
    FROM unnest($3::text[], $4::text[]) AS u (low, high)
   CROSS JOIN LATERAL (SELECT count(*) AS hits
                         FROM (SELECT
                                 FROM unnest($2::text[]) AS k (kind)
                                CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS r (rank)
                                CROSS JOIN LATERAL (SELECT
                                                      FROM search_tails x
                                                     WHERE x.organization_id = $1
                                                       AND x.kind = k.kind
                                                       AND x.rank = r.rank
                                                       AND x.tail >= u.low
                                                       AND x.tail < u.high
                                                    OFFSET 0) t
                                LIMIT $5) o) h
   WHERE h.hits > 0
),
candidates AS MATERIALIZED (
  SELECT DISTINCT t.kind, t.id, t.size
    FROM (SELECT o.low, o.high
            FROM counted o
           WHERE o.hits = (SELECT min(m.hits) FROM counted m)
           LIMIT 3) c
   CROSS JOIN LATERAL (SELECT k.kind, x.id, x.size
                         FROM unnest($2::text[]) AS k (kind)
                        CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS r (rank)
                        CROSS JOIN LATERAL (SELECT y.id, y.size
                                              FROM search_tails y
                                             WHERE y.organization_id = $1
                                               AND y.kind = k.kind
                                               AND y.rank = r.rank
                                               AND y.tail >= c.low
                                               AND y.tail < c.high
                                             ORDER BY y.tail, y.id
                                             LIMIT $5) x
                        LIMIT $5) t
)
SELECT c.kind, c.id, c.size, e.body, (SELECT min(m.hits) FROM counted m) >= $5 AS is_cut
  FROM candidates c
 CROSS JOIN LATERAL (SELECT x.body
                       FROM search_entries x
                      WHERE x.organization_id = $1
                        AND x.kind = c.kind
                        AND x.id = c.id
                     OFFSET 0) e
 WHERE NOT EXISTS (SELECT FROM unnest($3::text[]) AS w (token) WHERE strpos(e.body, w.token) = 0)
 ORDER BY c.size, c.id
 LIMIT $6;
