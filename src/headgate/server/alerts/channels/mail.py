"""Mail: to the console, or by SMTP to a server that the guard lets us speak to."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, NamedTuple
from uuid import UUID

from headgate.messages.email import DEFAULT_SUBJECT, Envelope, email, text_of
from headgate.messages.failures import in_words
from headgate.messages.text import masked
from headgate.server.alerts.channels.posting import Undelivered
from headgate.server.alerts.wording import Letter
from headgate.server.outbound import TIMEOUT_S, Guard, Refused, Unreachable

GMAIL_HOST, GMAIL_PORT = "smtp.gmail.com", 587
# A mail takes several answers, each of which may take the usual time.
PATIENCE = 3

console = logging.getLogger("headgate.alerts.console")
# Whoever has mails written to the log wants to see them, however little else is logged.
console.setLevel(logging.INFO)


@dataclass(frozen=True)
class MailSettings:
    """How an organisation sends mails, with the password in the clear: to be used and forgotten."""

    backend: str = "console"
    host: str | None = None
    port: int | None = None
    tls: str = "starttls"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str | None = None
    email_to: Sequence[str] = ()
    email_cc: Sequence[str] = ()
    subject_template: str | None = None

    @property
    def target(self) -> tuple[str, int]:
        if self.backend == "gmail":
            return GMAIL_HOST, GMAIL_PORT
        return self.host or "", self.port or (465 if self.tls == "tls" else 587)


def context_of(settings: MailSettings, config: Mapping[str, Any]) -> dict[str, Any]:
    """To whom and by what, for the history; no secret is in it."""
    envelope = _recipients(settings, config)
    host = settings.target[0] if settings.backend != "console" else None
    subject = config.get("subject_template") or settings.subject_template or DEFAULT_SUBJECT
    return {
        "email_to": list(envelope[0]),
        "email_cc": list(envelope[1]),
        "subject_template": subject,
        "backend": settings.backend,
        "host": host,
    }


def _recipients(settings: MailSettings, config: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]]:
    return config.get("email_to") or settings.email_to, config.get("email_cc") or settings.email_cc


class _Parcel(NamedTuple):
    """A mail that is ready to be handed over."""

    sender: str
    recipients: Sequence[str]
    content: bytes
    message_id: str


class Mailer:
    """Sends mails. `verify` is for servers whose certificates only we know."""

    def __init__(self, guard: Guard, *, timeout_s: float = TIMEOUT_S, verify: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._timeout_s = timeout_s
        self._verify = verify

    async def send(
        self, settings: MailSettings, config: Mapping[str, Any], letter: Letter, delivery_id: UUID
    ) -> dict[str, Any]:
        """Send the alert; what the server answered, or Undelivered."""
        to, cc = _recipients(settings, config)
        if not to:
            raise Undelivered("nobody to send it to: set email_to in the rule or in the e-mail settings")
        subject = config.get("subject_template") or settings.subject_template or DEFAULT_SUBJECT
        envelope = Envelope(settings.sender or settings.username or "", to, cc, str(delivery_id), datetime.now(UTC))
        try:
            mail = letter.mail(subject)
            if settings.backend == "console":
                console.info("mail to %s: %s\n%s", ", ".join([*to, *cc]), mail.subject, text_of(mail))
                return {"backend": "console", "message_id": str(delivery_id)}
            parcel = _packed(email(mail, envelope), [*to, *cc])
        except Exception as error:  # whatever a mail cannot be made of cannot be the next time either
            raise Undelivered(
                f"the mail could not be written ({type(error).__name__}): check addresses and subject_template in the"
                " e-mail settings and in the rule"
            ) from error
        return await self._deliver(settings, parcel)

    async def _deliver(self, settings: MailSettings, parcel: _Parcel) -> dict[str, Any]:
        host, port = settings.target
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._guard.addresses(host, port)
        except Refused as error:
            raise Undelivered(f"{error}; {error.hint}") from None
        except (Unreachable, TimeoutError) as error:
            raise Undelivered(str(error) or f"the name {host!r} was not found in time", may_repeat=True) from None
        talk = _Talk(settings, addresses, self._timeout_s, self._verify or ssl.create_default_context())
        try:
            async with asyncio.timeout(self._timeout_s * PATIENCE):
                return await asyncio.to_thread(talk.deliver, parcel)
        except TimeoutError:
            talk.hang_up()
            raise Undelivered(f"no answer within {self._timeout_s * PATIENCE:g} s", may_repeat=True) from None


def _packed(made: EmailMessage, recipients: Sequence[str]) -> _Parcel:
    return _Parcel(made["From"].addresses[0].addr_spec, recipients, made.as_bytes(), made["Message-ID"])


class _Pinned(smtplib.SMTP):
    """Connects to an address that was checked; the name stays the one that the certificate is for."""

    def __init__(self, host: str, addresses: Sequence[str], timeout_s: float) -> None:
        super().__init__(local_hostname=socket.gethostname() or "localhost", timeout=timeout_s)
        self._host = host
        self._addresses = addresses

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        for address in self._addresses[:-1]:
            with suppress(OSError):
                return socket.create_connection((address, port), timeout)
        return socket.create_connection((self._addresses[-1], port), timeout)


class _PinnedTls(smtplib.SMTP_SSL, _Pinned):
    """The same over TLS from the first byte on."""

    def __init__(self, host: str, addresses: Sequence[str], timeout_s: float, context: ssl.SSLContext) -> None:
        _Pinned.__init__(self, host, addresses, timeout_s)
        self.context = context


class _Talk:
    """One conversation with a mail server, in a thread of its own."""

    def __init__(
        self, settings: MailSettings, addresses: Sequence[str], timeout_s: float, context: ssl.SSLContext
    ) -> None:
        self._settings = settings
        self._context = context
        host = settings.target[0]
        is_tls = settings.backend != "gmail" and settings.tls == "tls"
        self._smtp: smtplib.SMTP = (
            _PinnedTls(host, addresses, timeout_s, context) if is_tls else _Pinned(host, addresses, timeout_s)
        )

    def hang_up(self) -> None:
        """End it from outside: a thread cannot be stopped, but its connection can."""
        with suppress(OSError, AttributeError):
            assert self._smtp.sock is not None
            self._smtp.sock.shutdown(socket.SHUT_RDWR)

    def deliver(self, parcel: _Parcel) -> dict[str, Any]:
        try:
            return self._deliver(parcel)
        except smtplib.SMTPResponseException as error:
            raise self._refusal(error.smtp_code, error.smtp_error) from None
        except smtplib.SMTPServerDisconnected:
            raise Undelivered("the mail server hung up", may_repeat=True) from None
        except smtplib.SMTPNotSupportedError as error:
            raise Undelivered(f"the mail server cannot do it: {str(error)[:200]}") from None
        except smtplib.SMTPException as error:
            raise Undelivered(f"the mail could not be sent ({type(error).__name__})") from None
        except TimeoutError:
            raise Undelivered("the mail server gave no answer in time", may_repeat=True) from None
        except ssl.SSLCertVerificationError as error:
            raise Undelivered(in_words(error)) from None
        except OSError as error:
            raise Undelivered(in_words(error), may_repeat=True) from None
        except UnicodeError:
            raise Undelivered("user and password have to be ASCII for this mail server") from None
        finally:
            self._smtp.close()

    def _deliver(self, parcel: _Parcel) -> dict[str, Any]:
        smtp, settings = self._smtp, self._settings
        host, port = settings.target
        self._expect(smtp.connect(host, port), 220)
        smtp.ehlo_or_helo_if_needed()
        if settings.backend == "gmail" or settings.tls == "starttls":
            smtp.starttls(context=self._context)
            smtp.ehlo_or_helo_if_needed()
        if settings.username and settings.password is not None:
            smtp.login(settings.username, settings.password)
        self._expect(smtp.mail(parcel.sender), 250)
        refused = self._offer(parcel.recipients)
        code, text = smtp.data(parcel.content)
        self._expect((code, text), 250)
        with suppress(smtplib.SMTPException, OSError):
            smtp.quit()
        return {"code": code, "message": self._said(text), "message_id": parcel.message_id, "refused": refused}

    def _offer(self, recipients: Sequence[str]) -> dict[str, str]:
        """Name the recipients; who was refused. All of them refused is a failure."""
        refused: dict[str, tuple[int, bytes]] = {}
        for each in recipients:
            code, text = self._smtp.rcpt(each)
            if code not in (250, 251):
                refused[each] = (code, text)
        if len(refused) == len(recipients):
            raise self._refusal(*next(iter(refused.values())))
        return {each: f"{code} {self._said(text)}" for each, (code, text) in refused.items()}

    def _expect(self, answer: tuple[int, bytes], code: int) -> None:
        if answer[0] != code:
            raise self._refusal(*answer)

    def _refusal(self, code: int, text: bytes | str) -> Undelivered:
        said = self._said(text)
        return Undelivered(
            f"the mail server answered {code}: {said}",
            may_repeat=400 <= code < 500,
            response={"code": code, "message": said},
        )

    def _said(self, text: bytes | str) -> str:
        told = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        return masked(" ".join(told.replace("\0", " ").split()), [self._settings.password or ""])[:500]
