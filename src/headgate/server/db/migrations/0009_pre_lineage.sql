-- Walks over the lineage graph.
SET LOCAL lock_timeout = '5s';

ALTER TABLE datasets ADD COLUMN renamed_at timestamptz;
COMMENT ON COLUMN datasets.renamed_at IS
  'When it was last renamed away, or just before another was renamed to its name: nothing written by then is left';

-- Few datasets are ever dropped, renamed or merged, so asking whether one was costs next to nothing.
CREATE INDEX datasets_left ON datasets (organization_id, id)
  WHERE dropped_at IS NOT NULL OR renamed_at IS NOT NULL OR merged_into IS NOT NULL;

-- Whether a job wrote the dataset after one moment and no later than another.
CREATE FUNCTION was_written(p_organization uuid, p_dataset uuid, p_after timestamptz, p_until timestamptz)
  RETURNS boolean
  LANGUAGE sql STABLE
  AS $$
    SELECT EXISTS (SELECT
                     FROM job_datasets h
                    WHERE h.organization_id = p_organization
                      AND h.dataset_id = p_dataset
                      AND h.role = 'output'
                      AND h.last_seen_at > p_after
                      AND (h.last_seen_at <= p_until
                        OR h.first_seen_at > p_after AND h.first_seen_at <= p_until
                        OR h.first_seen_at <= p_until
                           AND EXISTS (SELECT
                                         FROM job_runs r
                                        WHERE r.organization_id = p_organization
                                          AND r.job_id = h.job_id
                                          AND r.started_at <= p_until
                                          AND r.last_event_at > p_after
                                          AND p_dataset = ANY (r.output_ids))))
  $$;

-- Whether there was no such dataset at a moment ('infinity': now): merged away, or dropped or renamed and not written
-- since. Only the latest drop is known, so between two drops a dataset counts as there.
CREATE FUNCTION is_gone(p_organization uuid, p_dataset uuid, p_at timestamptz) RETURNS boolean
  LANGUAGE sql STABLE
  AS $$
    SELECT EXISTS (SELECT
                     FROM datasets d
                    WHERE d.organization_id = p_organization
                      AND d.id = p_dataset
                      AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                      AND (d.merged_into IS NOT NULL
                        OR d.dropped_at <= p_at AND NOT was_written(p_organization, d.id, d.dropped_at, p_at)))
  $$;

-- The neighbours of some datasets up- or downstream at a moment ('infinity': now), a row for each job between two, in
-- the order of the datasets given and of the neighbours' ids. At most p_each of a dataset (NULL: all); if there are
-- more, its last row says so and names none.
--
-- An edge counts from its first sighting until it is retired: until its job has completed more than 30 days after it
-- last showed the edge, in whatever run. A failed run that shows it is a sighting too: the job still means to do so.
-- Seen after p_recent, 30 days before the moment, it cannot be retired, and nobody has to ask about its job. An edge
-- into a dataset that was renamed away counts only if it was seen after that. Datasets that are gone have none.
--
-- Inlined into what calls it, and planned there.
CREATE FUNCTION lineage_neighbours(
  p_organization uuid, p_datasets uuid[], p_direction text, p_each integer, p_at timestamptz, p_recent timestamptz)
  RETURNS TABLE (place bigint, dataset_id uuid, neighbour_id uuid, job_id uuid, last_seen_at timestamptz,
                 is_completed boolean, is_more boolean)
  LANGUAGE sql STABLE
  AS $$
    SELECT f.place, f.id, CASE WHEN e.i > p_each THEN NULL ELSE e.far END, e.job_id, e.last_seen_at,
           e.last_completed_at IS NOT NULL, coalesce(e.i > p_each, false)
      FROM unnest(p_datasets) WITH ORDINALITY AS f (id, place)
      LEFT JOIN LATERAL (SELECT d.renamed_at, is_gone(p_organization, d.id, p_at) AS is_gone
                           FROM datasets d
                          WHERE d.organization_id = p_organization
                            AND d.id = f.id
                            AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                         OFFSET 0) n ON true
     CROSS JOIN LATERAL (SELECT x.*, row_number() OVER () AS i
                           FROM ((SELECT t.target_id AS far, t.job_id, t.first_seen_at, t.last_seen_at,
                                         t.last_completed_at
                                    FROM lineage_edges t
                                   WHERE p_direction = 'down'
                                     AND t.organization_id = p_organization
                                     AND t.source_id = f.id
                                   ORDER BY t.target_id
                                   LIMIT p_each + 1)
                                 UNION ALL
                                 (SELECT t.source_id, t.job_id, t.first_seen_at, t.last_seen_at, t.last_completed_at
                                    FROM lineage_edges t
                                   WHERE p_direction = 'up'
                                     AND t.organization_id = p_organization
                                     AND t.target_id = f.id
                                   ORDER BY t.source_id
                                   LIMIT p_each + 1)) x) e
     WHERE n.is_gone IS NOT TRUE
       -- What says that there is more says so whether or not its own edge counts.
       AND (e.i > p_each
         OR e.first_seen_at <= p_at
           AND (p_direction = 'down' OR n.renamed_at IS NULL OR NOT n.renamed_at BETWEEN e.last_seen_at AND p_at)
           AND (e.last_seen_at >= p_recent
             OR NOT EXISTS (SELECT
                              FROM job_runs r
                             WHERE r.organization_id = p_organization
                               AND r.job_id = e.job_id
                               AND r.started_at > e.last_seen_at
                               AND r.state = 'COMPLETE'
                               AND r.complete_at > e.last_seen_at + interval '30 days'
                               AND r.complete_at <= p_at
                               AND NOT r.is_test
                            OFFSET 0))
           AND NOT EXISTS (SELECT
                             FROM datasets d
                            WHERE d.organization_id = p_organization
                              AND d.id = e.far
                              AND (d.dropped_at IS NOT NULL OR d.renamed_at IS NOT NULL OR d.merged_into IS NOT NULL)
                              AND (is_gone(p_organization, d.id, p_at)
                                OR p_direction = 'down' AND d.renamed_at BETWEEN e.last_seen_at AND p_at)
                           OFFSET 0))
  $$;

-- How many edges to read of each of some datasets that have more than a hundred.
CREATE FUNCTION edges_of_hub(p_hubs integer) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT greatest(100, 20000 / greatest(p_hubs, 1)) $$;

-- The edges between some datasets, a row a job. Read from their targets, whose edges lie together: one run tells them.
CREATE FUNCTION lineage_between(p_organization uuid, p_datasets uuid[], p_as_of timestamptz)
  RETURNS TABLE (source_id uuid, target_id uuid, job_id uuid, last_seen_at timestamptz, is_completed boolean)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
  AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
BEGIN
  RETURN QUERY
    WITH looked AS MATERIALIZED (
      SELECT n.neighbour_id, n.dataset_id, n.job_id, n.last_seen_at, n.is_completed, n.is_more
        FROM lineage_neighbours(p_organization, p_datasets, 'up', 100, v_at, v_recent) n
       WHERE n.is_more
          OR n.neighbour_id IN (SELECT s.id FROM unnest(p_datasets) AS s (id))
    ),
    hubs AS (
      SELECT coalesce(array_agg(l.dataset_id), '{}') AS ids
        FROM looked l
       WHERE l.is_more
    )
    SELECT l.neighbour_id, l.dataset_id, l.job_id, l.last_seen_at, l.is_completed
      FROM looked l
     WHERE l.dataset_id NOT IN (SELECT k.dataset_id FROM looked k WHERE k.is_more)
     UNION ALL
    SELECT n.neighbour_id, n.dataset_id, n.job_id, n.last_seen_at, n.is_completed
      FROM hubs h
     CROSS JOIN LATERAL lineage_neighbours(p_organization, h.ids, 'up', edges_of_hub(cardinality(h.ids)), v_at,
                                           v_recent) n
     -- IS TRUE, or it would become a join, which compares each with each.
     WHERE (n.neighbour_id IN (SELECT s.id FROM unnest(p_datasets) AS s (id))) IS TRUE;
END
$$;

-- How many neighbours each of some datasets has up- or downstream that are not among them; no row for none. Where very
-- many are left unread they count as one more.
CREATE FUNCTION count_hidden(p_organization uuid, p_datasets uuid[], p_direction text, p_as_of timestamptz)
  RETURNS TABLE (dataset_id uuid, hidden integer)
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
  AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
BEGIN
  RETURN QUERY
    WITH looked AS MATERIALIZED (
      SELECT n.dataset_id, n.neighbour_id, n.is_more
        FROM lineage_neighbours(p_organization, p_datasets, p_direction, 100, v_at, v_recent) n
       WHERE n.is_more
          OR n.neighbour_id NOT IN (SELECT s.id FROM unnest(p_datasets) AS s (id))
    ),
    hubs AS (
      SELECT coalesce(array_agg(l.dataset_id), '{}') AS ids
        FROM looked l
       WHERE l.is_more
    )
    SELECT f.dataset_id, (count(DISTINCT f.neighbour_id) + count(*) FILTER (WHERE f.is_more))::integer
      FROM (SELECT l.dataset_id, l.neighbour_id, l.is_more
              FROM looked l
             WHERE l.dataset_id NOT IN (SELECT k.dataset_id FROM looked k WHERE k.is_more)
             UNION ALL
            SELECT n.dataset_id, n.neighbour_id, n.is_more
              FROM hubs h
             CROSS JOIN LATERAL lineage_neighbours(p_organization, h.ids, p_direction,
                                                   edges_of_hub(cardinality(h.ids)), v_at, v_recent) n
             WHERE n.is_more
                OR n.neighbour_id NOT IN (SELECT s.id FROM unnest(p_datasets) AS s (id))) f
     GROUP BY f.dataset_id;
END
$$;

-- How many datasets next to some, upstream of p_up and downstream of p_down, are not shown. Counting stops when there
-- are enough, and what is read of one dataset is bounded; then there may be more.
CREATE FUNCTION lineage_beyond(
  p_organization uuid, p_shown uuid[], p_up uuid[], p_down uuid[], p_as_of timestamptz, p_enough integer)
  RETURNS integer
  LANGUAGE plpgsql STABLE
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
  AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
  v_known  uuid[] := p_shown;
  v_found  integer := 0;
  v_way    text;
  v_all    uuid[];
BEGIN
  FOREACH v_way IN ARRAY ARRAY['up', 'down'] LOOP
    v_all := CASE v_way WHEN 'up' THEN p_up ELSE p_down END;
    FOR v_next IN 1 .. cardinality(v_all) BY 100 LOOP
      EXIT WHEN v_found >= p_enough;
      v_known := v_known || ARRAY(SELECT DISTINCT n.neighbour_id
                                    FROM lineage_neighbours(p_organization, v_all[v_next : v_next + 99], v_way,
                                                            p_enough + cardinality(p_shown), v_at, v_recent) n
                                   WHERE n.neighbour_id NOT IN (SELECT s.id FROM unnest(v_known) AS s (id)));
      v_found := cardinality(v_known) - cardinality(p_shown);
    END LOOP;
  END LOOP;
  RETURN v_found;
END
$$;

-- Datasets up- or downstream of some, nearest first, the roots included: level by level, each once at its least depth,
-- so cycles end and cost follows what is reached. As of a moment, or (NULL) now. At most p_limit of them (NULL: all):
-- the first that a breadth-first walk meets that takes neighbours in the order of their ids. Roots that are gone are
-- given, and lead nowhere.
--
-- With p_count, `hidden` says how many more neighbours a dataset has in that direction, which depth or limit leave out.
-- For that everything in the answer has to be looked at once more; it is NULL otherwise.
CREATE FUNCTION walk_lineage(
  p_organization uuid, p_roots uuid[], p_direction text, p_depth integer, p_limit integer, p_as_of timestamptz,
  p_count boolean DEFAULT false)
  RETURNS TABLE (dataset_id uuid, depth integer, hidden integer)
  LANGUAGE plpgsql STABLE
  -- Every look-up is by key, and the plan that knows no sizes is the right one for all of them.
  SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
  AS $$
#variable_conflict use_column
DECLARE
  v_at     CONSTANT timestamptz := coalesce(p_as_of, 'infinity');
  v_recent CONSTANT timestamptz := coalesce(p_as_of, now()) - interval '30 days';
  v_seen   uuid[] := ARRAY(SELECT DISTINCT u.id FROM unnest(p_roots) AS u (id) ORDER BY u.id LIMIT p_limit);
  v_depths integer[] := array_fill(0, ARRAY[cardinality(v_seen)]);
  v_level  integer := 0;
  v_next   integer := 1;
  v_end    integer := cardinality(v_seen);
  v_room   integer;
  v_chunk  uuid[];
  v_near   bigint[];
  v_far    uuid[];
  v_fresh  uuid[];
  v_hubs   uuid[];
BEGIN
  WHILE v_next <= v_end AND v_level < p_depth LOOP
    v_room := p_limit - cardinality(v_seen);
    EXIT WHEN v_room = 0;
    -- Part of a level may fill the room that is left.
    v_chunk := v_seen[v_next : least(v_end, v_next + 31 + v_room / 4)];
    SELECT array_agg(h.place), array_agg(h.neighbour_id), array_agg(h.dataset_id) FILTER (WHERE h.is_more)
      INTO v_near, v_far, v_hubs
      FROM lineage_neighbours(p_organization, v_chunk, p_direction, CASE WHEN p_limit IS NOT NULL THEN 100 END, v_at,
                              v_recent) h;
    IF cardinality(v_hubs) > 0 THEN
      SELECT v_near || array_agg(array_position(v_chunk, h.dataset_id)), v_far || array_agg(h.neighbour_id)
        INTO v_near, v_far
        FROM lineage_neighbours(p_organization, v_hubs, p_direction, edges_of_hub(cardinality(v_hubs)), v_at,
                                v_recent) h;
    END IF;
    -- NOT IN is looked up in a hash, whatever the planner thinks of the sizes.
    v_fresh := ARRAY(SELECT u.far
                       FROM unnest(v_near, v_far) AS u (near, far)
                      WHERE u.far NOT IN (SELECT s.id FROM unnest(v_seen) AS s (id))
                      GROUP BY u.far
                      ORDER BY min(u.near), u.far
                      LIMIT v_room);
    v_seen := v_seen || v_fresh;
    v_depths := v_depths || array_fill(v_level + 1, ARRAY[cardinality(v_fresh)]);
    v_next := v_next + cardinality(v_chunk);
    IF v_next > v_end THEN
      v_level := v_level + 1;
      v_end := cardinality(v_seen);
    END IF;
  END LOOP;
  IF p_count THEN
    RETURN QUERY
      SELECT a.id, a.depth, coalesce(c.hidden, 0)
        FROM unnest(v_seen, v_depths) WITH ORDINALITY AS a (id, depth, place)
        LEFT JOIN count_hidden(p_organization, v_seen, p_direction, p_as_of) c ON c.dataset_id = a.id
       ORDER BY a.place;
  ELSE
    RETURN QUERY SELECT a.id, a.depth, NULL::integer FROM unnest(v_seen, v_depths) AS a (id, depth);
  END IF;
END
$$;

-- The same over edges that count, for the view of what each dataset reaches.
CREATE OR REPLACE FUNCTION downstream_of(p_dataset uuid, p_max_depth integer DEFAULT 10)
  RETURNS TABLE (dataset_id uuid, depth integer)
  LANGUAGE sql STABLE
  AS $$
    SELECT w.dataset_id, w.depth
      FROM walk_lineage(current_organization(), ARRAY[p_dataset], 'down', p_max_depth, NULL, NULL) w
     WHERE w.depth > 0
  $$;

-- Datasets that were renamed at one moment, each with the one that it became. What was, goes, as if it were dropped;
-- what led into it leads into the other from then on, whose own past ends just before. All are looked at before any of
-- them moves, so two may trade names. One that is gone was renamed by an earlier event.
CREATE FUNCTION carry_lineage(p_organization uuid, p_from uuid[], p_to uuid[], p_at timestamptz) RETURNS void
  LANGUAGE plpgsql
  SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off
  AS $$
#variable_conflict use_column
DECLARE
  v_before CONSTANT timestamptz := p_at - interval '1 microsecond';
  v_from   uuid[];
  v_to     uuid[];
BEGIN
  -- Before anything is looked at: another event may be renaming one of them.
  PERFORM 1
     FROM datasets d
    WHERE d.organization_id = p_organization AND d.id = ANY (p_from || p_to)
    ORDER BY d.id
      FOR UPDATE;
  SELECT array_agg(u.old), array_agg(u.new)
    INTO v_from, v_to
    FROM unnest(p_from, p_to) AS u (old, new)
   WHERE u.old <> u.new
     AND NOT is_gone(p_organization, u.old, p_at);

  INSERT INTO lineage_edges AS t (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at,
                                  last_completed_at)
  SELECT p_organization, n.neighbour_id, v_to[n.place], n.job_id, p_at, p_at,
         CASE WHEN bool_or(n.is_completed) THEN p_at END
    FROM lineage_neighbours(p_organization, v_from, 'up', NULL, p_at, p_at - interval '30 days') n
   WHERE n.neighbour_id <> v_to[n.place]
   GROUP BY 2, 3, 4
  ON CONFLICT (organization_id, source_id, target_id, job_id) DO UPDATE
     SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
         last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);

  INSERT INTO column_lineage_edges AS t (organization_id, target_id, target_column, source_id, source_column, job_id,
                                         kinds, expression, is_current, first_seen_at, last_seen_at)
  SELECT DISTINCT ON (u.new, e.target_column, e.source_id, e.source_column, e.job_id)
         p_organization, u.new, e.target_column, e.source_id, e.source_column, e.job_id, e.kinds, e.expression,
         coalesce(o.columns_seen_at <= p_at, true), p_at, p_at
    FROM unnest(v_from, v_to) AS u (old, new)
   CROSS JOIN LATERAL (SELECT x.renamed_at
                         FROM datasets x
                        WHERE x.organization_id = p_organization
                          AND x.id = u.old
                       OFFSET 0) d
   CROSS JOIN LATERAL (SELECT x.*
                         FROM column_lineage_edges x
                        WHERE x.organization_id = p_organization
                          AND x.target_id = u.old
                       OFFSET 0) e
    LEFT JOIN LATERAL (SELECT x.columns_seen_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.job_id = e.job_id
                          AND x.dataset_id = u.old
                          AND x.role = 'output'
                       OFFSET 0) h ON true
    LEFT JOIN LATERAL (SELECT x.columns_seen_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.job_id = e.job_id
                          AND x.dataset_id = u.new
                          AND x.role = 'output'
                       OFFSET 0) o ON true
   WHERE e.source_id <> u.new
     AND e.first_seen_at <= p_at
     AND (e.is_current OR e.last_seen_at >= p_at)
     AND (d.renamed_at IS NULL OR d.renamed_at > p_at OR d.renamed_at < greatest(e.last_seen_at, h.columns_seen_at))
   ORDER BY 2, 3, 4, 5, 6
  ON CONFLICT (organization_id, target_id, target_column, source_id, source_column, job_id) DO UPDATE
     SET kinds = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.kinds ELSE t.kinds END,
         expression = CASE WHEN EXCLUDED.last_seen_at >= t.last_seen_at THEN EXCLUDED.expression ELSE t.expression END,
         is_current = t.is_current OR EXCLUDED.is_current,
         first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at);

  -- Who wrote it has written the other.
  INSERT INTO job_datasets AS t (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at,
                                 last_completed_at)
  SELECT p_organization, h.job_id, u.new, 'output', p_at, p_at, CASE WHEN bool_or(h.last_completed_at IS NOT NULL)
                                                                     THEN p_at END
    FROM unnest(v_from, v_to) AS u (old, new)
   CROSS JOIN LATERAL (SELECT x.renamed_at
                         FROM datasets x
                        WHERE x.organization_id = p_organization
                          AND x.id = u.old
                       OFFSET 0) d
   CROSS JOIN LATERAL (SELECT x.job_id, x.first_seen_at, x.last_seen_at, x.last_completed_at
                         FROM job_datasets x
                        WHERE x.organization_id = p_organization
                          AND x.dataset_id = u.old
                          AND x.role = 'output'
                       OFFSET 0) h
   WHERE h.first_seen_at <= p_at
     AND (d.renamed_at IS NULL OR d.renamed_at > p_at OR d.renamed_at < h.last_seen_at)
   GROUP BY 2, 3
  ON CONFLICT (organization_id, job_id, dataset_id, role) DO UPDATE
     SET first_seen_at = least(t.first_seen_at, EXCLUDED.first_seen_at),
         last_seen_at = greatest(t.last_seen_at, EXCLUDED.last_seen_at),
         last_completed_at = greatest(t.last_completed_at, EXCLUDED.last_completed_at);

  UPDATE datasets d
     SET dropped_at = greatest(d.dropped_at, p_at),
         renamed_at = greatest(d.renamed_at, p_at)
   WHERE d.organization_id = p_organization AND d.id = ANY (v_from);
  -- Something that takes a name in the same moment in which its holder leaves is there afterwards.
  UPDATE datasets d
     SET renamed_at = greatest(NULLIF(d.renamed_at, p_at), v_before),
         dropped_at = CASE WHEN d.dropped_at > p_at THEN d.dropped_at
                           WHEN d.dropped_at IS NOT NULL
                            AND was_written(p_organization, d.id, least(d.dropped_at, v_before), 'infinity')
                           THEN least(d.dropped_at, v_before) END
   WHERE d.organization_id = p_organization AND d.id = ANY (v_to);
END
$$;

-- The names of all datasets downstream of those with a name, in any namespace, ten levels deep.
CREATE FUNCTION get_downstream_datasets(dataset_name_param varchar)
  RETURNS TABLE (dataset_name varchar, depth integer)
  LANGUAGE sql STABLE
  AS $$
    SELECT d.name, min(w.depth)
      FROM walk_lineage(current_organization(),
                        ARRAY(SELECT a.dataset_id
                                FROM dataset_aliases a
                               WHERE a.organization_id = current_organization() AND a.name = dataset_name_param),
                        'down', 10, NULL, NULL) w
      JOIN datasets d ON d.organization_id = current_organization() AND d.id = w.dataset_id
     WHERE w.depth > 0
     GROUP BY d.name
     ORDER BY 2, 1
  $$;

-- The same upstream.
CREATE FUNCTION get_upstream_datasets(dataset_name_param varchar)
  RETURNS TABLE (dataset_name varchar, depth integer)
  LANGUAGE sql STABLE
  AS $$
    SELECT d.name, min(w.depth)
      FROM walk_lineage(current_organization(),
                        ARRAY(SELECT a.dataset_id
                                FROM dataset_aliases a
                               WHERE a.organization_id = current_organization() AND a.name = dataset_name_param),
                        'up', 10, NULL, NULL) w
      JOIN datasets d ON d.organization_id = current_organization() AND d.id = w.dataset_id
     WHERE w.depth > 0
     GROUP BY d.name
     ORDER BY 2, 1
  $$;

GRANT EXECUTE ON FUNCTION get_downstream_datasets(varchar), get_upstream_datasets(varchar) TO headgate_app;
