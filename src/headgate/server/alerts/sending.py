"""From an occasion to its channels: opens the secrets, sends, and says how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from headgate.errors import ConfigError
from headgate.server.alerts.channels import configs
from headgate.server.alerts.channels.mail import Mailer, MailSettings, context_of
from headgate.server.alerts.channels.posting import Undelivered, post
from headgate.server.alerts.store import AlertStore, decoded
from headgate.server.alerts.wording import Letter
from headgate.server.db.pool import Database, Record
from headgate.server.outbound import Guard, Outbound
from headgate.server.secrets import Vault
from headgate.settings import Settings


class Outcome(NamedTuple):
    """What became of one try. Without an error it was taken."""

    response: Mapping[str, Any] | None = None
    error: str | None = None
    may_repeat: bool = False
    retry_after_s: float = 0


class Channel(NamedTuple):
    """Where to: the settings of a channel as they are stored."""

    organization_id: UUID
    type: str
    stored: Mapping[str, Any]


class Channels:
    """Sends alerts by any channel of an organisation."""

    def __init__(self, vault: Vault, outbound: Outbound, mailer: Mailer) -> None:
        self.vault = vault
        self.guard = outbound.guard
        self._outbound = outbound
        self._mailer = mailer

    @classmethod
    def of(cls, database: Database, settings: Settings) -> Channels:
        guard = Guard(settings.alert_allow_private)
        return cls(Vault(database, settings), Outbound(guard), Mailer(guard))

    async def send(self, to: Channel, letter: Letter, delivery_id: UUID, *, mail: Record | None) -> Outcome:
        """One try; never raises because of the channel. `mail` is how the organisation sends mails."""
        try:
            if to.type == "EMAIL":
                settings = await self.mail_settings(to.organization_id, mail)
                return Outcome(await self._mailer.send(settings, to.stored, letter, delivery_id))
            config = await configs.opened(to.stored, self.vault, to.organization_id)
            return Outcome(await post(self._outbound, to.type, config, letter, delivery_id))
        except Undelivered as error:
            return Outcome(error.response, str(error)[:1000], error.may_repeat, error.retry_after_s)
        except ConfigError as error:
            return Outcome(None, f"{error.message}; {error.hint}")

    async def mail_settings(self, organization_id: UUID, row: Record | None) -> MailSettings:
        if row is None:
            return MailSettings()
        password = decoded(row["password"])
        names = ("backend", "host", "port", "tls", "username", "sender", "email_to", "email_cc", "subject_template")
        secret = None if password is None else await self.vault.open(organization_id, password["sealed"])
        return MailSettings(**{name: row[name] for name in names}, password=secret)


async def context_for(store: AlertStore, channel_type: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The channel as the history keeps it: all but its secrets."""
    if channel_type != "EMAIL":
        return configs.shown(stored)
    row = await store.email_settings()
    names = ("backend", "host", "port", "tls", "email_to", "email_cc", "subject_template")
    settings = MailSettings() if row is None else MailSettings(**{name: row[name] for name in names})
    return context_of(settings, stored)
