-- Walks over column lineage.
SET LOCAL lock_timeout = '5s';

-- Whether a job has stopped doing what it was last seen to do: it has completed more than 30 days later without.
CREATE FUNCTION has_stopped(p_organization uuid, p_job uuid, p_last_seen_at timestamptz) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$
    SELECT EXISTS (SELECT
                     FROM job_runs r
                    WHERE r.organization_id = p_organization
                      AND r.job_id = p_job
                      AND r.started_at > p_last_seen_at
                      AND r.state = 'COMPLETE'
                      AND r.complete_at > p_last_seen_at + interval '30 days'
                      AND NOT r.is_test)
  $$;

-- Whether a job tells which columns it makes a dataset of: of late, or in edges that were carried over by a rename.
CREATE FUNCTION sends_columns(p_organization uuid, p_job uuid, p_dataset uuid) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$
    SELECT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = p_organization
                      AND h.job_id = p_job
                      AND h.dataset_id = p_dataset
                      AND h.role = 'output'
                      AND h.columns_seen_at >= h.last_seen_at - interval '30 days')
        OR EXISTS (SELECT
                     FROM column_lineage_edges e
                    WHERE e.organization_id = p_organization
                      AND e.job_id = p_job
                      AND e.target_id = p_dataset
                      AND e.is_current
                      AND NOT has_stopped(p_organization, p_job, e.last_seen_at))
  $$;

-- Edges between columns that count now: their job still sends them, and neither end is gone, nor is the target renamed
-- since. To be read with a source or a target; inlined into what calls it, and planned there.
CREATE FUNCTION current_column_edges(p_organization uuid)
  RETURNS TABLE (source_id uuid, source_column text, target_id uuid, target_column text, job_id uuid, kinds jsonb,
                 expression text, last_seen_at timestamptz)
  LANGUAGE sql STABLE
  AS $$
    SELECT e.source_id, e.source_column, e.target_id, e.target_column, e.job_id, e.kinds, e.expression, s.at
      FROM column_lineage_edges e
     CROSS JOIN LATERAL (SELECT greatest(e.last_seen_at,
                                         (SELECT h.columns_seen_at
                                            FROM job_datasets h
                                           WHERE h.organization_id = p_organization
                                             AND h.job_id = e.job_id
                                             AND h.dataset_id = e.target_id
                                             AND h.role = 'output')) AS at
                         OFFSET 0) s
     WHERE e.organization_id = p_organization
       AND e.is_current
       AND (s.at >= now() - interval '30 days' OR NOT has_stopped(p_organization, e.job_id, s.at))
       AND NOT EXISTS (SELECT
                         FROM datasets d
                        WHERE d.organization_id = p_organization
                          AND d.id = ANY (ARRAY[e.source_id, e.target_id])
                          AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                          AND (is_gone(p_organization, d.id, 'infinity')
                            OR d.id = e.target_id AND d.renamed_at >= s.at)
                       OFFSET 0)
  $$;

-- Columns up- or downstream of some of a dataset, nearest first, the roots included: level by level, each once at its
-- least depth, at most p_limit of them. An empty name is a dataset as a whole, which columns may influence; such an
-- influence is shown and not followed.
--
-- `hidden`, the same in every row, says how many more were met and left out. Of a column with very many edges not all
-- are read; what is left unread counts one.
CREATE FUNCTION walk_columns(
  p_organization uuid, p_dataset uuid, p_columns text[], p_direction text, p_depth integer, p_limit integer)
  RETURNS TABLE (dataset_id uuid, column_name text, depth integer, hidden integer)
  LANGUAGE plpgsql STABLE
  AS $$
#variable_conflict use_column
DECLARE
  v_names  text[] := ARRAY(SELECT DISTINCT u.name FROM unnest(p_columns) AS u (name) ORDER BY u.name LIMIT p_limit);
  v_ids    uuid[] := array_fill(p_dataset, ARRAY[cardinality(v_names)]);
  v_ends   boolean[] := array_fill(false, ARRAY[cardinality(v_names)]);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_names)]);
  f_ids    uuid[] := v_ids;
  f_names  text[] := v_names;
  n_ids    uuid[];
  n_names  text[];
  n_ends   boolean[];
  v_each   integer;
  v_more   integer;
  v_room   integer;
  v_hidden integer := 0;
BEGIN
  FOR v_level IN 0 .. p_depth LOOP
    EXIT WHEN cardinality(f_ids) = 0;
    v_each := greatest(100, 20 * greatest(p_limit, 1000) / cardinality(f_ids));
    WITH met AS MATERIALIZED (
      SELECT e.id, e.name, e.is_end, e.place > v_each AS is_more
        FROM unnest(f_ids, f_names) AS f (id, name)
       CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS place
                             FROM ((SELECT t.target_id AS id, t.target_column AS name, t.target_column = '' AS is_end
                                      FROM current_column_edges(p_organization) t
                                     WHERE p_direction = 'down'
                                       AND t.source_id = f.id
                                       AND t.source_column = f.name
                                     LIMIT v_each + 1)
                                   UNION ALL
                                   (SELECT t.source_id, t.source_column, t.target_column = ''
                                      FROM current_column_edges(p_organization) t
                                     WHERE p_direction = 'up'
                                       AND t.target_id = f.id
                                       AND t.target_column = ANY (ARRAY[f.name, ''])
                                     LIMIT v_each + 1)) x) e
    )
    SELECT coalesce(array_agg(n.id ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.name ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.is_end ORDER BY n.id, n.name), '{}'),
           (SELECT count(*) FROM met m WHERE m.is_more)
      INTO n_ids, n_names, n_ends, v_more
      FROM (SELECT m.id, m.name, m.is_end FROM met m WHERE NOT m.is_more
            EXCEPT
            SELECT s.id, s.name, s.is_end FROM unnest(v_ids, v_names, v_ends) AS s (id, name, is_end)) n;
    v_room := CASE WHEN v_level = p_depth THEN 0 ELSE p_limit - cardinality(v_ids) END;
    v_hidden := v_hidden + v_more + greatest(0, cardinality(n_ids) - v_room);
    EXIT WHEN v_room = 0;
    n_ids := n_ids[:v_room];
    n_names := n_names[:v_room];
    n_ends := n_ends[:v_room];
    v_ids := v_ids || n_ids;
    v_names := v_names || n_names;
    v_ends := v_ends || n_ends;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(n_ids)]);
    SELECT coalesce(array_agg(n.id), '{}'), coalesce(array_agg(n.name), '{}')
      INTO f_ids, f_names
      FROM unnest(n_ids, n_names, n_ends) AS n (id, name, is_end)
     WHERE NOT n.is_end;
  END LOOP;
  RETURN QUERY
    SELECT s.id, s.name, min(s.depth), v_hidden
      FROM (SELECT v.id, v.name, v.depth
              FROM unnest(v_ids, v_names, v_depths) AS v (id, name, depth)
             UNION ALL
            -- The whole of a dataset that was passed on the way up, where something influences it.
            SELECT v.id, '', v.depth
              FROM unnest(v_ids, v_ends, v_depths) AS v (id, is_end, depth)
             WHERE p_direction = 'up'
               AND NOT v.is_end
               AND v.depth < p_depth
               AND EXISTS (SELECT
                             FROM current_column_edges(p_organization) x
                            WHERE x.target_id = v.id
                              AND x.target_column = ''
                           OFFSET 0)) s
     GROUP BY s.id, s.name
     ORDER BY 3, s.id, s.name;
END
$$;

-- What a change of some columns of a dataset (NULL: of any) may reach, as walk_columns tells it. Where a job sends
-- column lineage, only what its columns come from counts; where it does not, all that it writes does, under the name
-- NULL: whichever column.
CREATE FUNCTION walk_change(
  p_organization uuid, p_dataset uuid, p_columns text[], p_depth integer, p_limit integer)
  RETURNS TABLE (dataset_id uuid, column_name text, depth integer, hidden integer)
  LANGUAGE plpgsql STABLE
  AS $$
#variable_conflict use_column
DECLARE
  v_names  text[] := coalesce(p_columns, ARRAY[NULL::text]);
  v_ids    uuid[] := array_fill(p_dataset, ARRAY[cardinality(v_names)]);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_names)]);
  f_ids    uuid[] := v_ids;
  f_names  text[] := v_names;
  n_ids    uuid[];
  n_names  text[];
  v_each   integer;
  v_more   integer;
  v_room   integer;
  v_hidden integer := 0;
BEGIN
  FOR v_level IN 0 .. p_depth LOOP
    EXIT WHEN cardinality(f_ids) = 0;
    v_each := greatest(100, 20 * greatest(p_limit, 1000) / cardinality(f_ids));
    WITH met AS MATERIALIZED (
      SELECT e.target_id AS id, e.target_column AS name, e.place > v_each AS is_more
        FROM unnest(f_ids, f_names) AS f (id, name)
       CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS place
                             FROM ((SELECT t.target_id, t.target_column
                                      FROM current_column_edges(p_organization) t
                                     WHERE t.source_id = f.id
                                       AND t.source_column = f.name
                                       AND f.name <> ''
                                     LIMIT v_each + 1)
                                   UNION ALL
                                   (SELECT t.target_id, t.target_column
                                      FROM current_column_edges(p_organization) t
                                     WHERE t.source_id = f.id
                                       AND f.name IS NULL
                                     LIMIT v_each + 1)) x) e
       UNION ALL
      SELECT e.neighbour_id, NULL, e.is_more
        FROM lineage_neighbours(p_organization, ARRAY(SELECT DISTINCT u.id FROM unnest(f_ids) AS u (id)), 'down',
                                v_each, 'infinity', now() - interval '30 days') e
       WHERE e.is_more
          OR NOT sends_columns(p_organization, e.job_id, e.neighbour_id)
    )
    SELECT coalesce(array_agg(n.id ORDER BY n.id, n.name), '{}'),
           coalesce(array_agg(n.name ORDER BY n.id, n.name), '{}'),
           (SELECT count(*) FROM met m WHERE m.is_more)
      INTO n_ids, n_names, v_more
      FROM (SELECT m.id, m.name FROM met m WHERE NOT m.is_more
            EXCEPT
            SELECT s.id, s.name FROM unnest(v_ids, v_names) AS s (id, name)) n;
    v_room := CASE WHEN v_level = p_depth THEN 0 ELSE p_limit - cardinality(v_ids) END;
    v_hidden := v_hidden + v_more + greatest(0, cardinality(n_ids) - v_room);
    EXIT WHEN v_room = 0;
    f_ids := n_ids[:v_room];
    f_names := n_names[:v_room];
    v_ids := v_ids || f_ids;
    v_names := v_names || f_names;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(f_ids)]);
  END LOOP;
  RETURN QUERY
    SELECT s.id, s.name, s.depth, v_hidden
      FROM unnest(v_ids, v_names, v_depths) AS s (id, name, depth)
     ORDER BY s.depth, s.id, s.name;
END
$$;

-- What happened to turn one schema into another, a change of order next to other changes included. Columns that were
-- put in or taken out do not change the order of the others. Mirrors diff() of headgate/domain/schema.py; an
-- integration test holds the two together.
CREATE OR REPLACE FUNCTION schema_change(
  p_old jsonb, p_new jsonb,
  OUT added text[], OUT removed text[], OUT type_changed text[], OUT change_type text, OUT description text,
  OUT breaking boolean)
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
  AS $$
DECLARE
  retyped   text[];
  tightened text[];
  loosened  text[];
  reordered boolean;
  kinds     text[];
BEGIN
  IF p_old IS NULL THEN
    SELECT '{}', '{}', '{}', 'INITIAL', 'first schema seen', false
      INTO added, removed, type_changed, change_type, description, breaking;
    RETURN;
  END IF;
  SELECT coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.name IS NULL), '{}'),
         coalesce(array_agg(b.name ORDER BY b.place) FILTER (WHERE a.name IS NULL), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.type <> a.type), '{}'),
         coalesce(array_agg(format('''%s'' changed from %s to %s', a.name, b.type, a.type) ORDER BY a.place)
                    FILTER (WHERE b.type <> a.type), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE b.nullable AND NOT a.nullable), '{}'),
         coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE NOT b.nullable AND a.nullable), '{}'),
         array_agg(a.name ORDER BY a.place) FILTER (WHERE a.name = b.name)
           IS DISTINCT FROM array_agg(a.name ORDER BY b.place) FILTER (WHERE a.name = b.name)
    INTO added, removed, type_changed, retyped, tightened, loosened, reordered
    FROM schema_columns(p_old) b
    FULL JOIN schema_columns(p_new) a ON a.name = b.name;
  kinds := array_remove(ARRAY[
    CASE WHEN added <> '{}' THEN 'ADDED_COLUMN' END,
    CASE WHEN removed <> '{}' THEN 'DROPPED_COLUMN' END,
    CASE WHEN type_changed <> '{}' THEN 'TYPE_CHANGE' END,
    CASE WHEN tightened <> '{}' OR loosened <> '{}' THEN 'NULLABILITY' END,
    CASE WHEN reordered THEN 'REORDERED' END], NULL);
  change_type := CASE cardinality(kinds) WHEN 0 THEN 'REORDERED' WHEN 1 THEN kinds[1] ELSE 'MIXED' END;
  breaking := removed <> '{}' OR type_changed <> '{}' OR tightened <> '{}';
  description := coalesce(NULLIF(concat_ws('; ',
    'added ' || quoted_columns(added),
    'removed ' || quoted_columns(removed),
    NULLIF(array_to_string(retyped[1:20], '; '), ''),
    'no longer nullable: ' || quoted_columns(tightened),
    'now nullable: ' || quoted_columns(loosened),
    CASE WHEN reordered THEN 'columns in another order' END), ''), 'nothing changed');
END
$$;
