-- name: create_secret
-- A secret of the installation, unless another server has just made it.
INSERT INTO server_secrets (name, value)
VALUES ($1, $2)
ON CONFLICT (name) DO NOTHING;

-- name: find_secret
-- The value of one secret of the installation.
SELECT value
  FROM server_secrets
 WHERE name = $1;

-- name: authenticate_key
-- The key with this hash, with its organisation; touches when it was last used.
SELECT key_id, organization_id, name, scopes, expires_at, revoked_at, tenant_id, tenant_code, organization_name
  FROM authenticate_key($1);

-- name: authenticate_user
-- The user of a session, unless the user is gone or the session was ended.
SELECT u.id, u.name, u.role, o.name AS organization_name, o.tenant_id, o.tenant_code
  FROM users u
  JOIN organizations o ON o.id = u.organization_id
 WHERE u.organization_id = $1
   AND u.id = $2
   AND NOT EXISTS (SELECT FROM ended_sessions e
                    WHERE e.organization_id = $1
                      AND e.session_id = $3);

-- name: enqueue_tasks
-- Makes tasks; how many were not there yet.
SELECT enqueue_tasks($1, $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::integer[],
                     $9::double precision[]);

-- name: notify_workers
-- Wakes the workers that listen, once for each organisation with something to do.
SELECT pg_notify($1, u.organization_id) FROM unnest($2::text[]) AS u (organization_id);
