"""E-mail settings: what fits together, and what of it is shown."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from headgate.errors import FieldError, InvalidFields
from headgate.messages.email import DEFAULT_SUBJECT
from headgate.server.alerts.channels.configs import HIDDEN, check_host, is_address, sealed
from headgate.server.alerts.channels.mail import GMAIL_HOST, GMAIL_PORT
from headgate.server.alerts.schemas import Backend, EmailSettingsIn, EmailSettingsOut, Tls
from headgate.server.alerts.sending import Channels
from headgate.server.alerts.store import as_json, decoded
from headgate.server.db.pool import Record


def answer_settings(row: Record | None) -> EmailSettingsOut:
    """The settings as everybody may see them."""
    if row is None:
        nothing = dict.fromkeys(("host", "port", "username", "password", "from", "updated_by", "updated_at"))
        texts = {"email_to": [], "email_cc": [], "subject_template": DEFAULT_SUBJECT}
        return EmailSettingsOut.model_validate(nothing | texts | {"backend": Backend.console, "tls": Tls.starttls})
    shown = dict(row) | {
        "from": row["sender"],
        "password": None if row["password"] is None else HIDDEN,
        "subject_template": row["subject_template"] or DEFAULT_SUBJECT,
    }
    return EmailSettingsOut.model_validate(shown)


async def row_of_settings(
    body: EmailSettingsIn, before: Record | None, ways: Channels, organization_id: UUID
) -> list[Any]:
    """The settings as they are stored; InvalidFields if they do not fit together."""
    host, port, tls = _target(body)
    _check_sender(body)
    if host is not None:
        check_host("host", host, ways.guard)
    password = await _password(body, before, (host, port, tls, body.username), ways, organization_id)
    if password is not None and tls is Tls.none:
        raise InvalidFields(
            [FieldError("tls", "is none, and a password is not sent over a connection that others can read", "none")],
            hint="use starttls or tls, or leave username and password out",
        )
    texts = (body.from_, body.email_to, body.email_cc, body.subject_template)
    return [body.backend, host, port, tls, body.username, as_json(password), *texts]


def _target(body: EmailSettingsIn) -> tuple[str | None, int | None, Tls]:
    if body.backend is Backend.gmail:
        if not body.username:
            raise InvalidFields(
                [FieldError("username", "is needed for gmail")],
                hint="give the address of the account and an app password",
            )
        return GMAIL_HOST, GMAIL_PORT, Tls.starttls
    if body.backend is Backend.smtp and not body.host:
        raise InvalidFields([FieldError("host", "is needed for smtp")], hint="give the name of the mail server")
    return body.host, body.port, body.tls


def _check_sender(body: EmailSettingsIn) -> None:
    """Mails are from `from`, else from the user, who then has to be an address."""
    if body.backend is Backend.console or body.from_ is not None or is_address(body.username or ""):
        return
    raise InvalidFields(
        [FieldError("from", f"is needed for {body.backend}, as the user is no e-mail address", body.username)],
        hint="give the address that mails are from, as name@example.org",
    )


async def _password(
    body: EmailSettingsIn, before: Record | None, target: tuple[Any, ...], ways: Channels, organization_id: UUID
) -> dict[str, str] | None:
    """The password, the stored one if it was not given and goes to the same server for the same user."""
    if body.username is None:
        if body.password not in (None, HIDDEN):
            raise InvalidFields([FieldError("username", "is missing for the password")], hint="give both or none")
        return None
    if body.password not in (None, HIDDEN):
        return await sealed(ways.vault, organization_id, body.password or "", lambda _: HIDDEN)
    kept: dict[str, str] | None = None if before is None else decoded(before["password"])
    if kept is None or before is None:
        raise InvalidFields([FieldError("password", "is missing for the user")], hint="give both or none")
    if (before["host"], before["port"], Tls(before["tls"]), before["username"]) != target:
        raise InvalidFields(
            [FieldError("password", "has to be given again, as it goes to another server or user")],
            hint="a secret is not sent to another place than the one it was given for",
        )
    return kept
