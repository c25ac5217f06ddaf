-- name: create_organization
-- A new organisation, or no row when its slug or tenant code is taken.
INSERT INTO organizations (id, name, slug, tenant_code)
VALUES ($1, $2, $3, $3)
ON CONFLICT DO NOTHING
RETURNING id, name, slug, tenant_id, tenant_code, settings, created_at, updated_at;

-- name: get_organization
-- One organisation.
SELECT id, name, slug, tenant_id, tenant_code, settings, created_at, updated_at
  FROM organizations
 WHERE id = $1;

-- name: update_organization
-- New name when given, and settings laid over those that are there.
UPDATE organizations
   SET name = coalesce($2, name),
       settings = settings || $3::jsonb,
       updated_at = now()
 WHERE id = $1
RETURNING id, name, slug, tenant_id, tenant_code, settings, created_at, updated_at;

-- name: find_login
-- The user with this e-mail, and the invite with this token hash, in whatever organisation.
SELECT user_id, organization_id, email, password_hash, name, role, invite_id, invite_expires_at, invite_accepted_at
  FROM find_login($1, $2);

-- name: create_user
-- A new user; the e-mail is unique over all organisations.
INSERT INTO users (organization_id, email, password_hash, name, role)
VALUES ($1, $2, $3, $4, $5)
RETURNING id, email, name, role, created_at, last_login_at;

-- name: record_login
-- Notes that a user logged in.
UPDATE users
   SET last_login_at = now()
 WHERE organization_id = $1
   AND id = $2
RETURNING id, email, name, role, created_at, last_login_at;

-- name: get_user
-- One user.
SELECT id, email, name, role, created_at, last_login_at
  FROM users
 WHERE organization_id = $1
   AND id = $2;

-- name: list_users
-- Users, newest first, after a cursor.
SELECT id, email, name, role, created_at, last_login_at
  FROM users
 WHERE organization_id = $1
   AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3::uuid))
 ORDER BY created_at DESC, id DESC
 LIMIT $4;

-- name: lock_admins
-- The admins, held until the end of the transaction, so that two of them cannot remove each other.
SELECT id
  FROM users
 WHERE organization_id = $1
   AND role = 'admin'
 ORDER BY id
   FOR UPDATE;

-- name: update_user_role
-- A user with a new role.
UPDATE users
   SET role = $3
 WHERE organization_id = $1
   AND id = $2
RETURNING id, email, name, role, created_at, last_login_at;

-- name: set_password
-- Gives a user another password.
UPDATE users
   SET password_hash = $3
 WHERE organization_id = $1
   AND id = $2;

-- name: delete_user
-- Removes a user.
DELETE FROM users
 WHERE organization_id = $1
   AND id = $2
RETURNING id;

-- name: end_session
-- Remembers that a session was ended before its token expired.
INSERT INTO ended_sessions (organization_id, session_id, expires_at)
VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING;

-- name: delete_expired_sessions
-- Ended sessions whose token has expired by itself.
DELETE FROM ended_sessions
 WHERE organization_id = $1
   AND expires_at < now();

-- name: create_invite
-- An invite; only the hash of its token is kept.
INSERT INTO invites (organization_id, email, role, token_hash, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, now() + make_interval(hours => $6))
RETURNING id, email, role, created_by, created_at, expires_at, accepted_at;

-- name: list_invites
-- Invites, newest first, after a cursor.
SELECT id, email, role, created_by, created_at, expires_at, accepted_at
  FROM invites
 WHERE organization_id = $1
   AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3::uuid))
 ORDER BY created_at DESC, id DESC
 LIMIT $4;

-- name: delete_invite
-- Withdraws an invite that nobody has accepted.
DELETE FROM invites
 WHERE organization_id = $1
   AND id = $2
   AND accepted_at IS NULL
RETURNING id;

-- name: accept_invite
-- Uses an invite up; no row when it was used, withdrawn or expired in the meantime.
UPDATE invites
   SET accepted_at = now()
 WHERE organization_id = $1
   AND id = $2
   AND accepted_at IS NULL
   AND expires_at > now()
RETURNING email, role;

-- name: create_key
-- An API key, of which only the hash and the first characters are kept; no row when it is already there.
INSERT INTO api_keys (organization_id, name, prefix, key_hash, scopes, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(days => $7::int))
ON CONFLICT (key_hash) DO NOTHING
RETURNING id, name, prefix, scopes, created_by, created_at, expires_at, revoked_at, last_used_at;

-- name: list_keys
-- API keys, newest first, after a cursor.
SELECT id, name, prefix, scopes, created_by, created_at, expires_at, revoked_at, last_used_at
  FROM api_keys
 WHERE organization_id = $1
   AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3::uuid))
 ORDER BY created_at DESC, id DESC
 LIMIT $4;

-- name: revoke_key
-- Revokes a key; a key that is already revoked keeps its time.
UPDATE api_keys
   SET revoked_at = coalesce(revoked_at, now())
 WHERE organization_id = $1
   AND id = $2
RETURNING id;

-- name: notify
-- Tells every process, when this transaction commits.
SELECT pg_notify($1, $2);

-- name: lock_bootstrap
-- Lets only one process at a time make the first organisation.
SELECT pg_advisory_xact_lock(hashtext('headgate.bootstrap'));

-- name: find_key
-- Whether a key with this hash exists, in whatever organisation.
SELECT organization_id
  FROM authenticate_key($1);
