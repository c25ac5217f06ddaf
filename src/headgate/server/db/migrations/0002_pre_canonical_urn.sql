-- Identity rules for people who query directly. They mirror headgate/domain/names.py with its default
-- partition patterns; an integration test holds the two together.
SET LOCAL lock_timeout = '5s';

-- Scheme (folded), authority and path of a URI; scheme IS NULL for text that is none.
CREATE FUNCTION split_uri(raw text, OUT scheme text, OUT authority text, OUT path text)
LANGUAGE plpgsql
IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
  parts text[] := regexp_match(raw, '^(?:[Jj][Dd][Bb][Cc]:)?([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)$');
  dialect text;
  rest text;
  cut int;
BEGIN
  IF parts IS NULL THEN
    RETURN;
  END IF;
  scheme := lower(parts[1] COLLATE "C");
  rest := parts[3];
  dialect := split_part(scheme, '+', 1);
  dialect := CASE dialect WHEN 'postgresql' THEN 'postgres' ELSE dialect END;
  scheme := CASE
    WHEN default_port(dialect) IS NOT NULL THEN dialect
    WHEN scheme IN ('s3a', 's3n') THEN 's3'
    WHEN scheme = 'gcs' THEN 'gs'
    WHEN scheme = 'abfs' THEN 'abfss'
    WHEN scheme = 'wasb' THEN 'wasbs'
    ELSE scheme
  END;
  IF parts[2] IS NOT NULL THEN
    cut := strpos(rest, '/');
    authority := CASE WHEN cut = 0 THEN rest ELSE left(rest, cut - 1) END;
    path := CASE WHEN cut = 0 THEN '' ELSE substr(rest, cut) END;
    RETURN;
  END IF;
  rest := ltrim(rest, E' \t\n\r\f\x0b');
  IF namespace_kind(scheme) = 'file_system' AND left(rest, 1) IN ('', '/') THEN
    authority := '';
    path := rest;
  ELSE
    scheme := NULL;
  END IF;
END
$$;

-- The port that a service's own clients take when none is given.
CREATE FUNCTION default_port(scheme text) RETURNS text
LANGUAGE sql
IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE scheme
  WHEN 'amqp' THEN '5672'
  WHEN 'cassandra' THEN '9042'
  WHEN 'clickhouse' THEN '9000'
  WHEN 'cockroachdb' THEN '26257'
  WHEN 'databricks' THEN '443'
  WHEN 'db2' THEN '50000'
  WHEN 'doris' THEN '9030'
  WHEN 'elasticsearch' THEN '9200'
  WHEN 'fabric-warehouse' THEN '1433'
  WHEN 'ftp' THEN '21'
  WHEN 'hdfs' THEN '8020'
  WHEN 'hive' THEN '10000'
  WHEN 'http' THEN '80'
  WHEN 'https' THEN '443'
  WHEN 'impala' THEN '21050'
  WHEN 'kafka' THEN '9092'
  WHEN 'mariadb' THEN '3306'
  WHEN 'milvus' THEN '19530'
  WHEN 'mongodb' THEN '27017'
  WHEN 'mssql' THEN '1433'
  WHEN 'mysql' THEN '3306'
  WHEN 'oceanbase' THEN '2881'
  WHEN 'oracle' THEN '1521'
  WHEN 'postgres' THEN '5432'
  WHEN 'presto' THEN '8080'
  WHEN 'pulsar' THEN '6650'
  WHEN 'redis' THEN '6379'
  WHEN 'redshift' THEN '5439'
  WHEN 'sftp' THEN '22'
  WHEN 'snowflake' THEN '443'
  WHEN 'spark' THEN '10000'
  WHEN 'sqlserver' THEN '1433'
  WHEN 'starrocks' THEN '9030'
  WHEN 'teradata' THEN '1025'
  WHEN 'thrift' THEN '9083'
  WHEN 'trino' THEN '8080'
  WHEN 'vertica' THEN '5433'
END;

-- What a scheme's names are: keys in a bucket, paths of a file system, tables of a file, or anything else.
CREATE FUNCTION namespace_kind(scheme text) RETURNS text
LANGUAGE sql
IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE
  WHEN scheme IN ('s3', 'gs', 'abfss', 'wasbs', 'oss', 'cos', 'cosn', 'obs', 'oci', 'r2', 'lakefs')
    THEN 'object_store'
  WHEN scheme IN ('file', 'hdfs', 'dbfs', 'webhdfs', 'swebhdfs', 'viewfs', 'gvfs', 'maprfs', 'alluxio', 'adl',
                  'ofs', 'o3fs', 'nfs', 'sftp', 'ftp')
    THEN 'file_system'
  WHEN scheme IN ('duckdb', 'sqlite')
    THEN 'file_database'
  ELSE 'service'
END;

-- A host folded and without its default port.
CREATE FUNCTION canonical_host(raw text, port text) RETURNS text
LANGUAGE plpgsql
IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  host text := btrim(raw, blank);
  parts text[] := regexp_match(host, '^(.*):([^:]*)$');
BEGIN
  -- More colons without brackets are an IPv6 address, not a port.
  IF parts IS NOT NULL
     AND (strpos(parts[1], ':') = 0 OR right(parts[1], 1) = ']')
     AND (parts[2] = '' OR parts[2] = port) THEN
    host := parts[1];
  END IF;
  RETURN lower(rtrim(host, blank) COLLATE "C");
END
$$;

-- The one spelling of a namespace, as headgate.domain.names.canonical_namespace gives it.
CREATE FUNCTION canonical_namespace(namespace text) RETURNS text
LANGUAGE plpgsql
IMMUTABLE STRICT PARALLEL SAFE
SET search_path FROM CURRENT
AS $$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  raw text := btrim(namespace, blank);
  uri record := split_uri(raw);
  kind text := namespace_kind(uri.scheme);
  port text := default_port(uri.scheme);
  host text := uri.authority;
  path text := uri.path;
BEGIN
  IF uri.scheme IS NULL THEN
    RETURN coalesce(nullif(rtrim(raw, blank || '/'), ''), raw);
  END IF;
  IF kind = 'file_database' THEN
    host := btrim(host, blank);
  ELSIF uri.scheme IN ('abfss', 'wasbs') THEN
    host := CASE
      WHEN strpos(host, '@') = 0 THEN canonical_host(host, NULL)
      ELSE btrim(regexp_replace(host, '@[^@]*$', ''), blank) || '@'
        || canonical_host(regexp_replace(host, '^.*@', ''), NULL)
    END;
  ELSE
    host := CASE WHEN port IS NULL THEN host ELSE regexp_replace(host, '[?;#].*$', '') END;
    host := regexp_replace(host, '^.*@', '');
    host := CASE
      WHEN kind = 'object_store' THEN btrim(host, blank)
      WHEN port IS NULL OR strpos(host, ',') = 0 THEN canonical_host(host, port)
      ELSE coalesce((SELECT min(h COLLATE "C")
                       FROM (SELECT canonical_host(part, port) AS h
                               FROM unnest(string_to_array(host, ',')) AS part) AS hosts
                      WHERE h <> ''), '')
    END;
    host := CASE WHEN uri.scheme = 'file' AND host = 'localhost' THEN '' ELSE host END;
  END IF;
  IF port IS NOT NULL AND kind = 'service' THEN
    path := regexp_replace(path, '[?;#].*$', '');
  END IF;
  path := rtrim(path, blank || '/');
  IF host <> '' OR kind <> 'file_system' THEN
    RETURN uri.scheme || '://' || host || path;
  END IF;
  RETURN uri.scheme || CASE WHEN path = '' THEN '' ELSE ':/' || ltrim(path, '/') END;
END
$$;

-- Length of a yyyy/mm, yyyy/mm/dd or yyyy/mm/dd/hh run that ends the first `size` segments, else 0.
CREATE FUNCTION date_run(segments text[], size int) RETURNS int
LANGUAGE sql
IMMUTABLE STRICT PARALLEL SAFE
RETURN length(regexp_replace(
  substring(
    array_to_string(segments[greatest(size - 3, 1):size], '/') COLLATE "C"
    FROM '(?:^|/)((?:19|20)[0-9]{2}(?:/(?:0?[1-9]|1[0-2])(?:/(?:0?[1-9]|[12][0-9]|3[01])(?:/(?:[01]?[0-9]|2[0-3]))?)?))$'
  ), '[^/]', '', 'g')) + 1;

-- Whether a trailing segment names a slice of the dataset above it.
CREATE FUNCTION is_partition_segment(segment text) RETURNS boolean
LANGUAGE sql
IMMUTABLE STRICT PARALLEL SAFE
RETURN length(segment) <= 256 AND (
  segment COLLATE "C" ~ '^(?:[^=]+=.*|[A-Z]{2}|[*]{1,2}(?:[.][A-Za-z0-9.]+)?|[0-2][0-9]:[0-5][0-9](?::[0-5][0-9])?)$'
  OR segment COLLATE "C" ~ (
    '^(?:19|20)[0-9]{2}(?:-?(?:0[1-9]|1[0-2]))?$'
    || '|^(?:19|20)[0-9]{2}[-_](?:0[1-9]|1[0-2])[-_](?:0[1-9]|[12][0-9]|3[01])'
    || '(?:(?:_|--|:|_to_)(?:19|20)[0-9]{2}[-_](?:0[1-9]|1[0-2])[-_](?:0[1-9]|[12][0-9]|3[01]))?$'
    || '|^(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])'
    || '(?:[-_](?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))?$'
    || '|^(?:19|20)[0-9]{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12][0-9]|3[01])'
    || '[T _-]?[0-9]{2}(?:[:_-]?[0-9]{2}){0,2}Z?$'));

-- How many leading segments name the dataset; at least one does.
CREATE FUNCTION dataset_depth(segments text[]) RETURNS int
LANGUAGE plpgsql
IMMUTABLE STRICT PARALLEL SAFE
AS $$
DECLARE
  kept int := cardinality(segments);
  tail text;
  before text;
  run int;
BEGIN
  WHILE kept > 1 LOOP
    tail := segments[kept];
    before := segments[kept - 1];
    run := coalesce(date_run(segments, kept), 0);
    IF tail ~ '^(?:part-[0-9rm].*|[0-9]{6}_[0-9]+(?:[._].*)?|_SUCCESS|_committed_.*|_started_.*)$' THEN
      kept := kept - 1;
    ELSIF strpos(before, '=') > 0
          AND tail ~ '[.][A-Za-z][A-Za-z0-9]{0,9}$'
          AND is_partition_segment(before) THEN
      kept := kept - 1;
    ELSIF strpos(before, '=') = 0
          AND tail ~ '[.](?:snappy|gz|gzip|zstd|lz4|lzo|zlib|brotli)[.](?:parquet|orc|avro)$'
          AND (is_partition_segment(before) OR date_run(segments, kept - 1) > 0) THEN
      kept := kept - 1;
    ELSIF is_partition_segment(tail) THEN
      kept := kept - 1;
    ELSIF run > 0 THEN
      kept := greatest(kept - run, 1);
    ELSE
      EXIT;
    END IF;
  END LOOP;
  RETURN kept;
END
$$;

-- The urn that any spelling of it resolves to, as headgate.domain.names.canonical_urn gives it.
CREATE FUNCTION canonical_urn(urn text) RETURNS text
LANGUAGE plpgsql
IMMUTABLE STRICT PARALLEL SAFE
SET search_path FROM CURRENT
AS $$
DECLARE
  blank CONSTANT text := E' \t\n\r\f\x0b';
  raw text := btrim(urn, blank);
  uri record := split_uri(raw);
  kind text := namespace_kind(uri.scheme);
  base text;
  name text;
  cut int;
  segments text[];
BEGIN
  IF uri.scheme IS NULL THEN
    cut := strpos(raw, '/');
    IF cut = 0 THEN
      RETURN canonical_namespace(raw);
    END IF;
    base := left(raw, cut - 1);
    name := substr(raw, cut + 1);
  ELSIF kind IN ('file_system', 'object_store') THEN
    base := uri.scheme || '://' || uri.authority;
    name := CASE WHEN kind = 'file_system' THEN uri.path ELSE substr(uri.path, 2) END;
  ELSIF uri.path = '' THEN
    RETURN canonical_namespace(raw);
  ELSE
    cut := CASE
      WHEN kind = 'file_database' THEN length(regexp_replace(uri.path, '[^/]*$', ''))
      WHEN uri.scheme = 'azurecosmos' THEN coalesce(length(substring(uri.path FROM '^/[^/]*/[^/]*/')), 1)
      ELSE 1
    END;
    base := uri.scheme || '://' || uri.authority || left(uri.path, cut - 1);
    name := substr(uri.path, cut + 1);
  END IF;

  base := canonical_namespace(base);
  -- A bare namespace such as `file` or `dbfs` is a file system too.
  kind := namespace_kind(split_part(base, '://', 1));
  IF kind IN ('service', 'file_database') OR (kind = 'object_store' AND strpos(base, '://') = 0) THEN
    RETURN base || '/' || coalesce(nullif(btrim(name, blank), ''), name);
  END IF;

  name := btrim(name, blank);
  LOOP
    name := CASE WHEN kind = 'object_store' THEN ltrim(name, blank || '/') ELSE name END;
    EXIT WHEN strpos(name, ':/') = 0;
    uri := split_uri(name);
    EXIT WHEN uri.scheme IS NULL OR namespace_kind(uri.scheme) NOT IN ('object_store', 'file_system');
    kind := namespace_kind(uri.scheme);
    base := canonical_namespace(uri.scheme || '://' || uri.authority);
    name := coalesce(nullif(uri.path, ''), '/');
  END LOOP;

  segments := ARRAY(SELECT part
                      FROM unnest(string_to_array(name, '/')) WITH ORDINALITY AS p (part, place)
                     WHERE btrim(part, blank) <> ''
                     ORDER BY place);
  cut := dataset_depth(ARRAY(SELECT btrim(part, blank)
                               FROM unnest(segments) WITH ORDINALITY AS p (part, place)
                              ORDER BY place));
  raw := rtrim(array_to_string(segments[1:cut], '/'), blank);
  IF kind = 'file_system' AND NOT (base = 'file' AND left(name, 1) NOT IN ('', '/')) THEN
    raw := '/' || raw;
  END IF;
  RETURN base || '/' || coalesce(nullif(raw, ''), '/');
END
$$;
