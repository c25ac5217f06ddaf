"""Organisations, users, invites and keys in the database. Knows hashes of secrets, never the secrets."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

import asyncpg

from headgate.errors import Conflict, EmailTaken, NotFound
from headgate.server.accounts.passwords import Passwords
from headgate.server.auth import NOTICES, Scope
from headgate.server.db.pool import Connection, Database, Record, set_organization
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page
from headgate.server.tokens import SHOWN_CHARS, Session, digest

ORGANIZATION_NOTICES = "headgate_organization"

_MAX_SLUG = 40
_sql = Queries("headgate.server.accounts")


class Login(NamedTuple):
    """A user as found by e-mail, before any organisation is known."""

    user_id: UUID
    organization_id: UUID
    password_hash: str


class Invite(NamedTuple):
    """An invite as found by its token, before any organisation is known."""

    id: UUID
    organization_id: UUID


class AccountStore:
    """The accounts of one organisation, on a connection that has it set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def organization(self) -> Record:
        return await self._conn.fetchrow(_sql.get_organization, self._organization_id)

    async def update_organization(self, *, name: str | None, settings: str) -> Record:
        row = await self._conn.fetchrow(_sql.update_organization, self._organization_id, name, settings)
        await self._conn.execute(_sql.notify, ORGANIZATION_NOTICES, str(self._organization_id))
        return row

    async def create_user(self, *, email: str, password_hash: str, name: str, role: str) -> Record:
        try:
            return await self._conn.fetchrow(_sql.create_user, self._organization_id, email, password_hash, name, role)
        except asyncpg.UniqueViolationError:
            raise EmailTaken(
                f"there is already an account for {email!r}", hint="log in, or use another e-mail address"
            ) from None

    async def record_login(self, user_id: UUID) -> Record | None:
        return await self._conn.fetchrow(_sql.record_login, self._organization_id, user_id)

    async def user(self, user_id: UUID) -> Record | None:
        return await self._conn.fetchrow(_sql.get_user, self._organization_id, user_id)

    async def users(self, page: Page) -> Sequence[Record]:
        return await self._list(_sql.list_users, page)

    async def set_role(self, user_id: UUID, role: str) -> Record:
        await self._keep_an_admin(user_id, stays=role == "admin")
        row = await self._conn.fetchrow(_sql.update_user_role, self._organization_id, user_id, role)
        await self._announce(_found(row, "user", user_id))
        return row

    async def delete_user(self, user_id: UUID) -> None:
        await self._keep_an_admin(user_id, stays=False)
        row = await self._conn.fetchrow(_sql.delete_user, self._organization_id, user_id)
        await self._announce(_found(row, "user", user_id))

    async def end_session(self, session: Session) -> None:
        expires_at = datetime.fromtimestamp(session.expires_at, UTC)
        await self._conn.execute(_sql.delete_expired_sessions, self._organization_id)
        await self._conn.execute(_sql.end_session, self._organization_id, session.session_id, expires_at)
        await self._announce(session.user_id)

    async def create_invite(
        self, *, email: str, role: str, token: str, created_by: UUID | None, expires_in_hours: int
    ) -> Record:
        if await find_login(self._conn, email) is not None:
            raise Conflict(f"there is already an account for {email!r}", hint="invite another e-mail address")
        return await self._conn.fetchrow(
            _sql.create_invite,
            self._organization_id,
            email,
            role,
            digest(token),
            created_by,
            expires_in_hours,
        )

    async def invites(self, page: Page) -> Sequence[Record]:
        return await self._list(_sql.list_invites, page)

    async def delete_invite(self, invite_id: UUID) -> None:
        _found(
            await self._conn.fetchrow(_sql.delete_invite, self._organization_id, invite_id),
            "open invite",
            invite_id,
        )

    async def accept_invite(self, invite_id: UUID, *, name: str, password_hash: str) -> Record:
        """The new user. Of several at once, one gets the invite and the others a conflict."""
        invite = await self._conn.fetchrow(_sql.accept_invite, self._organization_id, invite_id)
        if invite is None:
            raise used_up()
        return await self.create_user(
            email=invite["email"], password_hash=password_hash, name=name, role=invite["role"]
        )

    async def create_key(
        self,
        *,
        key: str,
        name: str,
        scopes: Sequence[Scope],
        created_by: UUID | None = None,
        expires_in_days: int | None = None,
    ) -> Record | None:
        """The stored key, or None when this very key is already there."""
        return await self._conn.fetchrow(
            _sql.create_key,
            self._organization_id,
            name,
            key[:SHOWN_CHARS],
            digest(key),
            [scope.value for scope in scopes],
            created_by,
            expires_in_days,
        )

    async def keys(self, page: Page) -> Sequence[Record]:
        return await self._list(_sql.list_keys, page)

    async def set_password(self, user_id: UUID, password_hash: str) -> None:
        await self._conn.execute(_sql.set_password, self._organization_id, user_id, password_hash)
        await self._announce(user_id)

    async def revoke_key(self, key_id: UUID) -> None:
        row = await self._conn.fetchrow(_sql.revoke_key, self._organization_id, key_id)
        await self._announce(_found(row, "API key", key_id))

    async def _list(self, query: str, page: Page) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, page.at, page.id, page.limit + 1)
        return rows

    async def _announce(self, subject_id: UUID) -> None:
        await self._conn.execute(_sql.notify, NOTICES, str(subject_id))

    async def _keep_an_admin(self, user_id: UUID, *, stays: bool) -> None:
        admins = {row["id"] for row in await self._conn.fetch(_sql.lock_admins, self._organization_id)}
        if admins == {user_id} and not stays:
            raise Conflict(
                f"user '{user_id}' is the last admin of the organisation",
                hint="make another user an admin first",
            )


async def create_organization(conn: Connection, name: str) -> Record:
    """A new organisation, for which the transaction then acts. Names may repeat; slugs do not."""
    organization_id = uuid4()
    await set_organization(conn, organization_id)
    base = slug_of(name)
    slug, row = base, None
    while row is None:
        row = await conn.fetchrow(_sql.create_organization, organization_id, name, slug)
        slug = f"{base}-{secrets.token_hex(3)}"
    return row


async def find_login(conn: Connection, email: str) -> Login | None:
    row = await conn.fetchrow(_sql.find_login, email.strip().lower(), None)
    return Login(row["user_id"], row["organization_id"], row["password_hash"]) if row else None


async def find_invite(conn: Connection, token: str) -> Invite:
    """The invite of a token that can still be accepted."""
    row = await conn.fetchrow(_sql.find_login, None, digest(token))
    if row is None:
        raise NotFound("no invite has this token", hint="check that it was copied whole, or ask for a new one")
    if row["invite_accepted_at"] is not None:
        raise used_up()
    if row["invite_expires_at"] <= datetime.now(UTC):
        raise Conflict(
            f"the invite expired at {row['invite_expires_at']:%Y-%m-%d %H:%M} UTC",
            hint="ask an admin of the organisation for a new one",
        )
    return Invite(row["invite_id"], row["organization_id"])


async def bootstrap(database: Database, *, organization: str, email: str, password: str, api_key: str) -> None:
    """The first organisation, with an admin and a key of all scopes that have these secrets.

    Does what is missing and nothing else, so it may run at every start, also after one that was interrupted. A key
    that is not known means that the credentials file was lost and made anew: the admin gets the new password too.
    """
    async with database.transaction() as conn:
        await conn.execute(_sql.lock_bootstrap)
        if await conn.fetchrow(_sql.find_key, digest(api_key)) is not None:
            return
        login = await find_login(conn, email)
        if login is not None:
            await set_organization(conn, login.organization_id)
            store = AccountStore(conn, login.organization_id)
            await store.set_password(login.user_id, await Passwords().hash(password))
            await _bootstrap_key(store, api_key)
            return
        row = await create_organization(conn, organization)
        store = AccountStore(conn, row["id"])
        password_hash = await Passwords().hash(password)
        await store.create_user(
            email=email.strip().lower(),
            password_hash=password_hash,
            name=email.partition("@")[0],
            role="admin",
        )
        await _bootstrap_key(store, api_key)


async def _bootstrap_key(store: AccountStore, api_key: str) -> None:
    await store.create_key(key=api_key, name="first key", scopes=list(Scope))


def used_up() -> Conflict:
    return Conflict("the invite was already used or withdrawn", hint="log in, or ask for a new invite")


def slug_of(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = "-".join(re.findall(r"[a-z0-9]+", plain))[:_MAX_SLUG].strip("-")
    return slug or "organization"


def _found(row: Record | None, what: str, row_id: UUID) -> UUID:
    if row is None:
        raise NotFound(f"there is no {what} '{row_id}' in this organisation")
    found: UUID = row["id"]
    return found
