"""Shapes of the accounts API. What comes in is checked here; what goes out is complete."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StrictBool,
    StringConstraints,
    field_validator,
)

from headgate.server.accounts.passwords import MAX_BYTES, MIN_CHARS
from headgate.server.auth import Scope
from headgate.server.bodies import Body

_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
_EMAIL = re.compile(r"[^\s@\x00-\x1f\x7f]{1,64}@[^\s@\x00-\x1f\x7f]{1,253}")


def _email(value: str) -> str:
    # Loose on purpose: private domains such as user@localhost are common, and only mail proves an address.
    value = value.strip().lower()
    if len(value) > 254 or not _EMAIL.fullmatch(value):
        raise ValueError("is not an e-mail address")
    return value


def _password(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if len(text) < MIN_CHARS:
        raise ValueError(f"must have at least {MIN_CHARS} characters")
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"must have at most {MAX_BYTES} bytes")
    return value


def _one_line(value: str) -> str:
    if not re.fullmatch(_ONE_LINE, value):
        raise ValueError("contains a control character")
    return value


def _no_text(value: object) -> object:
    # Pydantic would read "72" and true as numbers; JSON has numbers of its own.
    if isinstance(value, str | bool):
        raise ValueError("must be a whole number")
    return value


Email = Annotated[str, Field(max_length=254, json_schema_extra={"format": "email"}), AfterValidator(_email)]
NewPassword = Annotated[
    SecretStr,
    Field(json_schema_extra={"minLength": MIN_CHARS, "maxLength": MAX_BYTES}),
    AfterValidator(_password),
]
Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    Field(json_schema_extra={"pattern": _ONE_LINE}),
    AfterValidator(_one_line),
]
Whole = Annotated[int, BeforeValidator(_no_text)]
Role = Literal["admin", "editor", "viewer"]


class RegisterIn(Body):
    email: Email
    password: NewPassword
    name: Name
    organization_name: Name | None = None


class LoginIn(Body):
    email: Annotated[str, Field(max_length=254)]
    password: SecretStr


class InviteIn(Body):
    email: Email
    role: Role = "viewer"
    expires_in_hours: Annotated[Whole, Field(ge=1, le=24 * 30)] = 72


class AcceptIn(Body):
    token: SecretStr
    name: Name
    password: NewPassword


class RoleIn(Body):
    role: Role


class KeyIn(Body):
    name: Name
    scopes: list[Scope] = Field(default=[Scope.ingest], min_length=1, max_length=len(Scope))
    expires_in_days: Annotated[Whole, Field(ge=1, le=3650)] | None = None

    @field_validator("scopes")
    @classmethod
    def _once_each(cls, scopes: list[Scope]) -> list[Scope]:
        return sorted(set(scopes))


class SettingsIn(Body):
    """Settings of an organisation to change; those left out stay."""

    validation: Literal["strict", "lenient"] = "strict"
    require_event_type: StrictBool = False
    default_namespace: Name = "default"

    def changed(self) -> str:
        return json.dumps(self.model_dump(exclude_unset=True))


class OrganizationIn(Body):
    name: Name | None = None
    settings: SettingsIn = Field(default_factory=SettingsIn)


class SettingsOut(BaseModel):
    """Settings of an organisation as they apply, whether set or not."""

    validation: Literal["strict", "lenient"]
    require_event_type: bool
    default_namespace: str


class OrganizationOut(BaseModel):
    id: UUID
    name: str
    slug: str
    tenant_id: int
    tenant_code: str
    settings: SettingsOut
    created_at: datetime
    updated_at: datetime

    @field_validator("settings", mode="before")
    @classmethod
    def _with_defaults(cls, stored: Any) -> Any:
        return {**SettingsIn().model_dump(), **json.loads(stored)} if isinstance(stored, str) else stored


class UserOut(BaseModel):
    id: UUID
    email: str
    name: str
    role: Role
    created_at: datetime
    last_login_at: datetime | None


class SessionOut(BaseModel):
    token: str
    token_type: Literal["bearer"]
    expires_at: datetime
    user: UserOut
    organization: OrganizationOut


class MeOut(BaseModel):
    kind: Literal["key", "user"]
    id: UUID
    name: str
    email: str | None
    role: Role | None
    scopes: list[Scope]
    organization: OrganizationOut


class InviteOut(BaseModel):
    id: UUID
    email: str
    role: Role
    status: Literal["open", "accepted", "expired"]
    created_by: UUID | None
    created_at: datetime
    expires_at: datetime
    accepted_at: datetime | None


class InviteCreatedOut(InviteOut):
    token: str


class KeyOut(BaseModel):
    id: UUID
    name: str
    prefix: str
    scopes: list[Scope]
    created_by: UUID | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class KeyCreatedOut(KeyOut):
    key: str


class UsersOut(BaseModel):
    items: list[UserOut]
    next_cursor: str | None


class InvitesOut(BaseModel):
    items: list[InviteOut]
    next_cursor: str | None


class KeysOut(BaseModel):
    items: list[KeyOut]
    next_cursor: str | None


def invite_status(expires_at: datetime, accepted_at: datetime | None) -> Literal["open", "accepted", "expired"]:
    if accepted_at is not None:
        return "accepted"
    return "expired" if expires_at <= datetime.now(UTC) else "open"
