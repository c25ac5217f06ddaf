-- The two roles and the schema. Run at each migration; does only what is missing.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headgate_owner') THEN
    CREATE ROLE headgate_owner NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headgate_app') THEN
    CREATE ROLE headgate_app LOGIN;
  END IF;
  -- From PostgreSQL 16 on, whoever creates a role is a member of it and still may not act as it.
  IF NOT pg_has_role(session_user, 'headgate_owner',
                     CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    EXECUTE format('GRANT headgate_owner TO %I', session_user);
  END IF;
  IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'headgate') THEN
    CREATE SCHEMA headgate AUTHORIZATION headgate_owner;
    GRANT USAGE ON SCHEMA headgate TO headgate_app;
  END IF;
  IF to_regclass('headgate.schema_migrations') IS NULL THEN
    CREATE TABLE headgate.schema_migrations (
      version     integer PRIMARY KEY,
      name        text NOT NULL,
      checksum    text NOT NULL,
      applied_at  timestamptz NOT NULL DEFAULT now()
    );
    ALTER TABLE headgate.schema_migrations OWNER TO headgate_owner;
    GRANT SELECT ON headgate.schema_migrations TO headgate_app;
  END IF;
END
$$;
