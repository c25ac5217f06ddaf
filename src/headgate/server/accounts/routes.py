"""Routes for people, invites, keys and the organisation they belong to."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from headgate.errors import Conflict, EmailTaken, Forbidden, NotFound, Unauthenticated
from headgate.server.accounts import schemas
from headgate.server.accounts.passwords import Passwords
from headgate.server.accounts.store import AccountStore, create_organization, find_invite, find_login
from headgate.server.auth import COOKIE
from headgate.server.db.pool import Record
from headgate.server.deps import Admin, Auth, Caller, Db, Reader
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.routing import RawRoute
from headgate.server.tokens import new_invite_token, new_key
from headgate.settings import Settings

_REFUSALS = problems(Unauthenticated, Forbidden)
auth_router = APIRouter(prefix="/api/v1/auth", tags=["accounts"], route_class=RawRoute)
organization_router = APIRouter(
    prefix="/api/v1/organization", tags=["accounts"], route_class=RawRoute, responses=_REFUSALS
)


async def _passwords(request: Request) -> Passwords:
    passwords: Passwords = request.app.state.passwords
    return passwords


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


Hasher = Annotated[Passwords, Depends(_passwords)]
Config = Annotated[Settings, Depends(_settings)]


class Door:
    """Lets a user in: issues the session and sets its cookie."""

    def __init__(self, response: Response, auth: Auth, settings: Config) -> None:
        self._response = response
        self._auth = auth
        self._is_secure = (settings.public_url or "").startswith("https://")

    async def open(self, user: Record, organization: Record) -> schemas.SessionOut:
        issued = await self._auth.sessions.issue(
            user_id=user["id"], organization_id=organization["id"], email=user["email"], role=user["role"]
        )
        self._response.set_cookie(
            COOKIE,
            issued.token,
            max_age=self._auth.sessions.lifetime_s,
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )
        _never_store(self._response)
        return schemas.SessionOut(
            token=issued.token,
            token_type="bearer",
            expires_at=issued.expires_at,
            user=_user(user),
            organization=_organization(organization),
        )

    def close(self) -> None:
        self._response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=self._is_secure)


SessionDoor = Annotated[Door, Depends()]


@auth_router.post("/register", status_code=201, responses=problems(Forbidden, EmailTaken))
async def register(
    body: schemas.RegisterIn, database: Db, hasher: Hasher, settings: Config, door: SessionDoor
) -> schemas.SessionOut:
    """A new organisation with its first admin, who is logged in."""
    if not settings.allow_registration:
        raise Forbidden("registration is switched off on this server", hint="ask an admin for an invite")
    password_hash = await hasher.hash(body.password.get_secret_value())
    async with database.transaction() as conn:
        organization = await create_organization(conn, body.organization_name or f"{body.name}'s organisation")
        store = AccountStore(conn, organization["id"])
        user = await store.create_user(email=body.email, password_hash=password_hash, name=body.name, role="admin")
    return await door.open(user, organization)


@auth_router.post("/login", responses=problems(Unauthenticated))
async def login(body: schemas.LoginIn, database: Db, hasher: Hasher, door: SessionDoor) -> schemas.SessionOut:
    """A session for an e-mail and its password, as a cookie and as a token."""
    async with database.connection() as conn:
        found = await find_login(conn, body.email)
    is_right = await hasher.verify(found.password_hash if found else None, body.password.get_secret_value())
    if found is None or not is_right:
        raise _wrong_login()
    async with database.tenant(found.organization_id) as conn:
        store = AccountStore(conn, found.organization_id)
        user = await store.record_login(found.user_id)
        organization = await store.organization()
    if user is None:
        raise _wrong_login()
    return await door.open(user, organization)


@auth_router.post("/logout", status_code=204, responses=problems(Unauthenticated))
async def logout(request: Request, database: Db, auth: Auth, door: SessionDoor) -> None:
    """Ends the session, for every copy of its token, and removes the cookie."""
    principal = request.scope["state"]["principal"]
    door.close()
    if principal is None or principal.kind == "key":
        return
    bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
    session = await auth.sessions.read(bearer or request.cookies[COOKIE])
    async with database.tenant(session.organization_id) as conn:
        await AccountStore(conn, session.organization_id).end_session(session)
    auth.forget(session.user_id)


@auth_router.get("/me", responses=_REFUSALS)
async def me(caller: Caller, database: Db) -> schemas.MeOut:
    """Who is calling, and with which scopes."""
    async with database.tenant(caller.organization_id) as conn:
        store = AccountStore(conn, caller.organization_id)
        organization = await store.organization()
        user = await store.user(caller.subject_id) if caller.kind == "user" else None
    return schemas.MeOut(
        kind=caller.kind,
        id=caller.subject_id,
        name=caller.name,
        email=user["email"] if user else None,
        role=user["role"] if user else None,
        scopes=sorted(caller.scopes),
        organization=_organization(organization),
    )


@auth_router.post("/invites", status_code=201, responses={**_REFUSALS, **problems(Conflict)})
async def create_invite(
    body: schemas.InviteIn, caller: Admin, database: Db, response: Response
) -> schemas.InviteCreatedOut:
    """An invite into this organisation. Its token is shown this once."""
    token = new_invite_token()
    async with database.tenant(caller.organization_id) as conn:
        row = await AccountStore(conn, caller.organization_id).create_invite(
            email=body.email,
            role=body.role,
            token=token,
            created_by=caller.subject_id if caller.kind == "user" else None,
            expires_in_hours=body.expires_in_hours,
        )
    _never_store(response)
    return schemas.InviteCreatedOut(**_invite(row).model_dump(), token=token)


@auth_router.get("/invites", responses=_REFUSALS)
async def list_invites(caller: Admin, database: Db, page: Paged) -> schemas.InvitesOut:
    """Invites of this organisation, newest first."""
    async with database.tenant(caller.organization_id) as conn:
        rows, cursor = page.cut(await AccountStore(conn, caller.organization_id).invites(page))
    return schemas.InvitesOut(items=[_invite(row) for row in rows], next_cursor=cursor)


@auth_router.post("/invites/accept", status_code=201, responses=problems(NotFound, Conflict, EmailTaken))
async def accept_invite(body: schemas.AcceptIn, database: Db, hasher: Hasher, door: SessionDoor) -> schemas.SessionOut:
    """A new user of the organisation that sent the invite, who is logged in. Works once."""
    async with database.connection() as conn:
        invite = await find_invite(conn, body.token.get_secret_value())
    password_hash = await hasher.hash(body.password.get_secret_value())
    async with database.tenant(invite.organization_id) as conn:
        store = AccountStore(conn, invite.organization_id)
        user = await store.accept_invite(invite.id, name=body.name, password_hash=password_hash)
        organization = await store.organization()
    return await door.open(user, organization)


@auth_router.delete("/invites/{invite_id}", status_code=204, responses={**_REFUSALS, **problems(NotFound)})
async def delete_invite(invite_id: UUID, caller: Admin, database: Db) -> None:
    """Withdraws an invite that nobody has accepted yet."""
    async with database.tenant(caller.organization_id) as conn:
        await AccountStore(conn, caller.organization_id).delete_invite(invite_id)


@auth_router.get("/users", responses=_REFUSALS)
async def list_users(caller: Admin, database: Db, page: Paged) -> schemas.UsersOut:
    """Users of this organisation, newest first."""
    async with database.tenant(caller.organization_id) as conn:
        rows, cursor = page.cut(await AccountStore(conn, caller.organization_id).users(page))
    return schemas.UsersOut(items=[_user(row) for row in rows], next_cursor=cursor)


@auth_router.patch("/users/{user_id}", responses={**_REFUSALS, **problems(NotFound, Conflict)})
async def update_user(user_id: UUID, body: schemas.RoleIn, caller: Admin, database: Db, auth: Auth) -> schemas.UserOut:
    """Changes a user's role, also for sessions that are open. The last admin stays one."""
    async with database.tenant(caller.organization_id) as conn:
        user = await AccountStore(conn, caller.organization_id).set_role(user_id, body.role)
    auth.forget(user_id)
    return _user(user)


@auth_router.delete("/users/{user_id}", status_code=204, responses={**_REFUSALS, **problems(NotFound, Conflict)})
async def delete_user(user_id: UUID, caller: Admin, database: Db, auth: Auth) -> None:
    """Removes a user and ends their sessions. The last admin stays."""
    async with database.tenant(caller.organization_id) as conn:
        await AccountStore(conn, caller.organization_id).delete_user(user_id)
    auth.forget(user_id)


@auth_router.post("/api-keys", status_code=201, responses=_REFUSALS)
async def create_key(body: schemas.KeyIn, caller: Admin, database: Db, response: Response) -> schemas.KeyCreatedOut:
    """An API key. It is shown this once; afterwards only its first characters are known."""
    if caller.kind == "key":
        raise Forbidden("an API key cannot create API keys", hint="log in as an admin to create one")
    key = new_key()
    async with database.tenant(caller.organization_id) as conn:
        row = await AccountStore(conn, caller.organization_id).create_key(
            key=key,
            name=body.name,
            scopes=body.scopes,
            created_by=caller.subject_id,
            expires_in_days=body.expires_in_days,
        )
    _never_store(response)
    return schemas.KeyCreatedOut(**dict(row or {}), key=key)


@auth_router.get("/api-keys", responses=_REFUSALS)
async def list_keys(caller: Admin, database: Db, page: Paged) -> schemas.KeysOut:
    """API keys of this organisation, newest first, revoked ones too."""
    async with database.tenant(caller.organization_id) as conn:
        rows, cursor = page.cut(await AccountStore(conn, caller.organization_id).keys(page))
    return schemas.KeysOut(items=[schemas.KeyOut(**dict(row)) for row in rows], next_cursor=cursor)


@auth_router.delete("/api-keys/{key_id}", status_code=204, responses={**_REFUSALS, **problems(NotFound)})
async def revoke_key(key_id: UUID, caller: Admin, database: Db, auth: Auth) -> None:
    """Revokes an API key; it is refused from now on."""
    async with database.tenant(caller.organization_id) as conn:
        await AccountStore(conn, caller.organization_id).revoke_key(key_id)
    auth.forget(key_id)


@organization_router.get("")
async def get_organization(caller: Reader, database: Db) -> schemas.OrganizationOut:
    """The caller's organisation and its settings."""
    async with database.tenant(caller.organization_id) as conn:
        return _organization(await AccountStore(conn, caller.organization_id).organization())


@organization_router.patch("")
async def update_organization(
    body: schemas.OrganizationIn, caller: Admin, database: Db, request: Request
) -> schemas.OrganizationOut:
    """Renames the organisation or changes its settings; what is left out stays as it is."""
    async with database.tenant(caller.organization_id) as conn:
        row = await AccountStore(conn, caller.organization_id).update_organization(
            name=body.name, settings=body.settings.changed()
        )
    request.app.state.organization_changed(caller.organization_id)
    return _organization(row)


def _user(row: Record) -> schemas.UserOut:
    return schemas.UserOut(**dict(row))


def _organization(row: Record) -> schemas.OrganizationOut:
    return schemas.OrganizationOut(**dict(row))


def _invite(row: Record) -> schemas.InviteOut:
    status = schemas.invite_status(row["expires_at"], row["accepted_at"])
    return schemas.InviteOut(**dict(row), status=status)


def _never_store(response: Response) -> None:
    response.headers["cache-control"] = "no-store"


def _wrong_login() -> Unauthenticated:
    return Unauthenticated("the e-mail or the password is wrong", hint="check both, or ask for an invite")
