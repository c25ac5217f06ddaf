-- What finds a dataset by a part of its name.
SET LOCAL lock_timeout = '5s';

-- The table of a schema, the folder of a path: what people call a dataset among themselves.
CREATE FUNCTION bare_name(p_name text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$
    SELECT coalesce(nullif(CASE WHEN strpos(p_name, '/') > 0 THEN regexp_replace(rtrim(p_name, '/'), '^.*/', '')
                                ELSE regexp_replace(p_name, '^.*\.', '') END, ''), p_name)
  $$;

-- A column that a trigger fills, and no index on the expression: under row-level security only operators on
-- plain columns may use an index.
-- Generated first, which fills it for the rows that are there; row-level security hides them from an UPDATE.
ALTER TABLE datasets ADD COLUMN bare_name text COLLATE "C" GENERATED ALWAYS AS (bare_name(name)) STORED;
ALTER TABLE datasets ALTER COLUMN bare_name DROP EXPRESSION;

CREATE FUNCTION set_bare_name() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  NEW.bare_name := bare_name(NEW.name);
  RETURN NEW;
END
$$;
CREATE TRIGGER datasets_bare_name
  BEFORE INSERT OR UPDATE OF name ON datasets
  FOR EACH ROW
  EXECUTE FUNCTION set_bare_name();

CREATE INDEX datasets_bare_name ON datasets (organization_id, bare_name) WHERE merged_into IS NULL;
CREATE INDEX datasets_display_name ON datasets (organization_id, display_name) WHERE merged_into IS NULL;
CREATE INDEX dataset_aliases_name ON dataset_aliases (organization_id, name);
