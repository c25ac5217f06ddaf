-- Sessions that were ended by logging out before their token expired.
SET LOCAL lock_timeout = '5s';

CREATE TABLE ended_sessions (
  organization_id  uuid NOT NULL REFERENCES organizations ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
  session_id       uuid NOT NULL,
  expires_at       timestamptz NOT NULL,
  PRIMARY KEY (organization_id, session_id)
);
COMMENT ON COLUMN ended_sessions.expires_at IS 'When the token expires by itself and this row may go';

ALTER TABLE ended_sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE ended_sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY organization ON ended_sessions USING (organization_id = (SELECT current_organization()));
GRANT SELECT, INSERT, UPDATE, DELETE ON ended_sessions TO headgate_app;
