"""A real mail server on this machine, and what came in."""

from __future__ import annotations

import asyncio
import email
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "me@example.org", "sm7ps3cret"


@dataclass
class Mailbox:
    """What a server took. `says` are its answers to DATA, one after the other; the last one stays."""

    port: int = 0
    says: list[str] = field(default_factory=lambda: ["250 queued as 42"])
    refuses: dict[str, str] = field(default_factory=dict)
    envelopes: list[Envelope] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)

    @property
    def mails(self) -> list[EmailMessage]:
        found: list[EmailMessage] = []
        for each in self.envelopes:
            content = each.content or b""
            raw = content if isinstance(content, bytes) else content.encode()
            found.append(email.message_from_bytes(raw, policy=default))  # type: ignore[arg-type]
        return found

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        answer = self.says[min(len(self.envelopes), len(self.says) - 1)]
        self.envelopes.append(envelope)
        self.was_encrypted.append(session.ssl is not None)
        return answer

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        is_good = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=is_good, handled=is_good)


@asynccontextmanager
async def a_mailbox(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, **fields: Any
) -> AsyncIterator[Mailbox]:
    """A mail server that wants a login once the connection is encrypted."""
    box = Mailbox(**fields)
    options: dict[str, Any] = {"hostname": "mail.test"}
    if starttls is not None:
        options |= {"tls_context": starttls, "require_starttls": True, "auth_required": True}
    if starttls is not None or tls is not None:
        options |= {"authenticator": box.authenticate, "auth_require_tls": starttls is not None}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(box, loop=loop, **options), "127.0.0.1", 0, ssl=tls)
    box.port = server.sockets[0].getsockname()[1]
    try:
        yield box
    finally:
        server.close()
