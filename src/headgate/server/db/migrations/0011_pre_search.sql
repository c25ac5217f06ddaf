-- Words that lead to datasets, columns, jobs and pipelines: plain btrees over text in the order of its bytes. Under
-- row-level security nothing else can use an index, and extensions may be missing.
SET LOCAL lock_timeout = '5s';

-- What has to be indexed anew. Written in the transaction that changes a name; without a unique key, so that no
-- writer of events ever waits for another here.
CREATE TABLE search_pending (
  organization_id  uuid NOT NULL,
  place            bigint GENERATED ALWAYS AS IDENTITY,
  kind             text NOT NULL CHECK (kind IN ('dataset', 'job')),
  id               uuid NOT NULL,
  PRIMARY KEY (organization_id, place)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- What can be found, as it was when it was indexed.
CREATE TABLE search_entries (
  organization_id  uuid NOT NULL,
  kind             text COLLATE "C" NOT NULL CHECK (kind IN ('dataset', 'column', 'job', 'pipeline')),
  id               uuid NOT NULL,
  namespace        text NOT NULL,
  name             text NOT NULL,
  body             text NOT NULL,
  keys             text[] NOT NULL,
  columns          text[] NOT NULL,
  PRIMARY KEY (organization_id, kind, id)
);
COMMENT ON COLUMN search_entries.id IS 'Of columns and pipelines, a digest of the name: the same name is one entry';
COMMENT ON COLUMN search_entries.body IS 'All words of all its names';
COMMENT ON COLUMN search_entries.keys IS 'Its rows in search_tails, each as rank and tail, by which they are found again';

-- The words of each name, from each word on. A search is a range of these.
CREATE TABLE search_tails (
  organization_id  uuid NOT NULL,
  kind             text COLLATE "C" NOT NULL,
  rank             smallint NOT NULL,
  tail             text COLLATE "C" NOT NULL,
  id               uuid NOT NULL,
  size             smallint NOT NULL,
  PRIMARY KEY (organization_id, kind, rank, tail, id) INCLUDE (size)
);
COMMENT ON COLUMN search_tails.rank IS '0 where the last part of a name begins, 1 inside a name, 2 in a namespace';
COMMENT ON COLUMN search_tails.size IS 'Characters of the name: of two that fit, the shorter one fits better';

-- Each word once, under each of its ends: text from the inside of a word is the beginning of an end.
CREATE TABLE search_suffixes (
  organization_id  uuid NOT NULL,
  suffix           text COLLATE "C" NOT NULL,
  word             text COLLATE "C" NOT NULL,
  PRIMARY KEY (organization_id, suffix, word)
);

-- Which datasets have a column of this name now.
CREATE TABLE search_columns (
  organization_id  uuid NOT NULL,
  column_id        uuid NOT NULL,
  dataset_id       uuid NOT NULL,
  PRIMARY KEY (organization_id, column_id, dataset_id)
);

DO $$
DECLARE
  tenant_table text;
BEGIN
  FOREACH tenant_table IN ARRAY ARRAY[
    'search_pending', 'search_entries', 'search_tails', 'search_suffixes', 'search_columns'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
    EXECUTE format('CREATE POLICY organization ON %I USING (organization_id = (SELECT current_organization()))',
                   tenant_table);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO headgate_app', tenant_table);
  END LOOP;
END
$$;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA headgate TO headgate_app;

-- One indexer an organisation at a time.
CREATE FUNCTION search_lock(p_organization uuid) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT hashtextextended('headgate.search.' || p_organization::text, 0) $$;

-- Statements that make many rows: one row each in the queue, all at once. The argument is the kind.
CREATE FUNCTION queue_new_for_search() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT n.organization_id, TG_ARGV[0], n.id
    FROM added n
   WHERE n.organization_id = current_organization();
  RETURN NULL;
END
$$;
CREATE TRIGGER datasets_search_new
  AFTER INSERT ON datasets
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT
  EXECUTE FUNCTION queue_new_for_search('dataset');
CREATE TRIGGER jobs_search_new
  AFTER INSERT ON jobs
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT
  EXECUTE FUNCTION queue_new_for_search('job');

CREATE FUNCTION queue_schemas_for_search() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT DISTINCT n.organization_id, 'dataset', n.dataset_id
    FROM added n
   WHERE n.organization_id = current_organization();
  RETURN NULL;
END
$$;
CREATE TRIGGER schema_versions_search_new
  AFTER INSERT ON schema_versions
  REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT
  EXECUTE FUNCTION queue_schemas_for_search();

-- What changes seldom: names, merges, further names.
CREATE FUNCTION queue_changed_for_search() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
DECLARE
  changed record;
BEGIN
  IF TG_OP = 'DELETE' THEN
    changed := OLD;
  ELSE
    changed := NEW;
  END IF;
  INSERT INTO search_pending (organization_id, kind, id)
  SELECT changed.organization_id, TG_ARGV[0], changed.id
   WHERE changed.organization_id = current_organization();
  RETURN NULL;
END
$$;
CREATE TRIGGER datasets_search_changed
  AFTER UPDATE OF namespace, name, display_name, merged_into ON datasets
  FOR EACH ROW
  WHEN ((OLD.namespace, OLD.name, OLD.display_name, OLD.merged_into)
          IS DISTINCT FROM (NEW.namespace, NEW.name, NEW.display_name, NEW.merged_into))
  EXECUTE FUNCTION queue_changed_for_search('dataset');
CREATE TRIGGER datasets_search_gone
  AFTER DELETE ON datasets
  FOR EACH ROW
  EXECUTE FUNCTION queue_changed_for_search('dataset');
CREATE TRIGGER jobs_search_changed
  AFTER UPDATE OF namespace, name, job_type ON jobs
  FOR EACH ROW
  WHEN ((OLD.namespace, OLD.name, OLD.job_type) IS DISTINCT FROM (NEW.namespace, NEW.name, NEW.job_type))
  EXECUTE FUNCTION queue_changed_for_search('job');
CREATE TRIGGER jobs_search_gone
  AFTER DELETE ON jobs
  FOR EACH ROW
  EXECUTE FUNCTION queue_changed_for_search('job');

CREATE FUNCTION queue_alias_for_search() RETURNS trigger
  LANGUAGE plpgsql
  AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    INSERT INTO search_pending (organization_id, kind, id)
    SELECT OLD.organization_id, 'dataset', OLD.dataset_id
     WHERE OLD.organization_id = current_organization();
  END IF;
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO search_pending (organization_id, kind, id)
    SELECT NEW.organization_id, 'dataset', NEW.dataset_id
     WHERE NEW.organization_id = current_organization();
  END IF;
  RETURN NULL;
END
$$;
-- A dataset's own name comes with the dataset.
CREATE TRIGGER dataset_aliases_search_new
  AFTER INSERT ON dataset_aliases
  FOR EACH ROW
  WHEN (NEW.source <> 'primary')
  EXECUTE FUNCTION queue_alias_for_search();
CREATE TRIGGER dataset_aliases_search_changed
  AFTER UPDATE OF dataset_id ON dataset_aliases
  FOR EACH ROW
  WHEN (OLD.dataset_id <> NEW.dataset_id)
  EXECUTE FUNCTION queue_alias_for_search();
CREATE TRIGGER dataset_aliases_search_gone
  AFTER DELETE ON dataset_aliases
  FOR EACH ROW
  EXECUTE FUNCTION queue_alias_for_search();

-- What is there already. The owner may look at all organisations for this one statement.
ALTER TABLE datasets NO FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE search_pending NO FORCE ROW LEVEL SECURITY;
INSERT INTO search_pending (organization_id, kind, id)
SELECT d.organization_id, 'dataset', d.id
  FROM datasets d
UNION ALL
SELECT j.organization_id, 'job', j.id
  FROM jobs j;
ALTER TABLE datasets FORCE ROW LEVEL SECURITY;
ALTER TABLE jobs FORCE ROW LEVEL SECURITY;
ALTER TABLE search_pending FORCE ROW LEVEL SECURITY;

-- The worker keeps the queue short, so that a search seldom has to.
INSERT INTO outbox (organization_id, kind, repeat_s)
SELECT o.id, 'index_search', 60
  FROM organizations o
ON CONFLICT DO NOTHING;
