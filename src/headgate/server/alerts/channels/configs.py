"""Settings of channels: what each kind takes, which parts are secret, and how those are kept.

A secret is stored as an object of what is encrypted and what may be shown. Only the latter is ever answered, and a
caller who sends it back unchanged, or leaves it out, keeps what is stored, as long as it still goes to the same place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from headgate.errors import FieldError, InvalidFields
from headgate.messages.email import problem_of_subject
from headgate.server.bodies import unstorable
from headgate.server.outbound import Guard, Refused
from headgate.server.secrets import Vault

HIDDEN = "********"
MAX_ADDRESSES = 50
MAX_EXTRA = 10_000
MAX_DEPTH = 20
MAX_URL = 4000
MIN_SECRET, MAX_SECRET = 8, 500
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")
MAX_ADDRESS = 254
_HEADER = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
# What a request is made of; another value would make it another request.
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "x-headgate-signature"}
    | {"x-headgate-delivery"}
)

Stored = dict[str, Any]


def is_address(text: str) -> bool:
    """Whether it is one plain address, which every mail server takes and every header can hold.

    >>> is_address("ann@example.org"), is_address("a..b@x.org"), is_address("@x"), is_address("a b@x")
    (True, False, False, False)
    """
    return len(text) <= MAX_ADDRESS and _ADDRESS.fullmatch(text) is not None


def _address(value: str) -> str:
    if not is_address(value):
        raise ValueError("is no e-mail address: write it as name@example.org")
    return value


def _subject(value: str) -> str:
    if (problem := problem_of_subject(value)) is not None:
        raise ValueError(problem)
    return value


def _url(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if len(text) > MAX_URL:
        raise ValueError(f"is longer than {MAX_URL} characters; it is not shown, being a secret")
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good or any(mark.isspace() or not mark.isprintable() for mark in text):
        raise ValueError("is no URL: write it as https://host/path; it is not shown, being a secret")
    if text == shown_url(text):
        raise ValueError("is only what is shown of a URL: write all of it")
    return value


def _signing(value: SecretStr) -> SecretStr:
    if not MIN_SECRET <= len(value.get_secret_value()) <= MAX_SECRET:
        raise ValueError(f"has to have {MIN_SECRET} to {MAX_SECRET} characters; it is not shown, being a secret")
    return _secret(value)


def _secret(value: SecretStr) -> SecretStr:
    if value.get_secret_value() == HIDDEN:
        raise ValueError("is only what is shown of a secret: write the secret itself")
    return value


def _headers(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, secret in value.items():
        if not _HEADER.match(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(f"the header {name[:50]!r} cannot be set")
        _secret(secret)
        text = secret.get_secret_value()
        if not text.isascii() or not text.isprintable() or len(text) > 4000:
            raise ValueError(f"the value of {name!r} is not one line of ASCII; it is not shown, being a secret")
    return value


def _extra(value: dict[str, Any]) -> dict[str, Any]:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
    if level:
        raise ValueError(f"is nested more than {MAX_DEPTH} deep")
    try:
        is_long = len(json.dumps(value, allow_nan=False)) > MAX_EXTRA
    except ValueError:
        raise ValueError("holds a number that JSON does not know") from None
    if is_long:
        raise ValueError(f"is longer than {MAX_EXTRA} characters")
    return value


def _children(value: object) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


Address = Annotated[str, Field(max_length=MAX_ADDRESS), AfterValidator(_address)]
Addresses = Annotated[list[Address], Field(max_length=MAX_ADDRESSES)]
Subject = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_subject)]
Url = Annotated[SecretStr, AfterValidator(_url)]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class EmailConfig(_Config):
    """To whom; what is left out is taken from the e-mail settings."""

    email_to: Addresses = []
    email_cc: Addresses = []
    subject_template: Subject | None = None


class SlackConfig(_Config):
    webhook_url: Url
    channel: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    mention: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class TeamsConfig(_Config):
    webhook_url: Url
    mention: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class WebhookConfig(_Config):
    webhook_url: Url
    secret: Annotated[SecretStr, AfterValidator(_signing)] | None = None
    headers: Annotated[dict[str, SecretStr], Field(max_length=20), AfterValidator(_headers)] = {}
    extra: Annotated[dict[str, Any], AfterValidator(_extra)] = {}


CONFIGS: Mapping[str, type[_Config]] = {
    "EMAIL": EmailConfig,
    "SLACK": SlackConfig,
    "TEAMS": TeamsConfig,
    "WEBHOOK": WebhookConfig,
}
_SECRETS = ("webhook_url", "secret", "headers")


def read_config(channel_type: str, given: Mapping[str, Any], guard: Guard) -> _Config:
    """The settings as given, all that is wrong with them listed. No error repeats a secret."""
    errors = [FieldError(f"channel_config.{each.path}", each.message) for each in unstorable(dict(given))]
    if errors:
        raise InvalidFields(errors, hint="remove these characters")
    try:
        config = CONFIGS[channel_type].model_validate(dict(given))
    except ValidationError as error:
        raise InvalidFields(_errors(error), hint=_HINTS[channel_type]) from None
    url = getattr(config, "webhook_url", None)
    if url is not None:
        check_host("channel_config.webhook_url", urlsplit(url.get_secret_value()).hostname or "", guard)
    return config


_HINTS = {
    "EMAIL": 'send {"email_to": ["team@example.org"], "subject_template": "[{severity}] {dataset_name}"}',
    "SLACK": 'send {"webhook_url": "https://hooks.slack.com/services/…", "channel": "#data-alerts"}',
    "TEAMS": 'send {"webhook_url": "https://….logic.azure.com/workflows/…"}',
    "WEBHOOK": 'send {"webhook_url": "https://…", "secret": "…", "headers": {}, "extra": {}}',
}


def check_host(path: str, host: str, guard: Guard) -> None:
    """Refuse at once what can never be sent to; names are looked up when something is sent."""
    try:
        guard.check_literal(host)
    except Refused as error:
        raise InvalidFields([FieldError(path, str(error))], hint=error.hint) from None


def _errors(error: ValidationError) -> list[FieldError]:
    return [_error(item) for item in error.errors(include_input=True, include_url=False)]


def _error(item: Mapping[str, Any]) -> FieldError:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"])
    message = str(item["msg"]).removeprefix("Value error, ")
    is_shown = item["loc"][0] not in _SECRETS and isinstance(item["input"], str) and item["type"] != "extra_forbidden"
    value = item["input"][:120] if is_shown else None
    return FieldError(f"channel_config{place}", message[:1].lower() + message[1:], value)


async def seal(config: _Config, vault: Vault, organization_id: UUID) -> Stored:
    """As it is stored."""
    stored: Stored = config.model_dump(mode="python")
    for name, value in list(stored.items()):
        if isinstance(value, SecretStr):
            stored[name] = await sealed(vault, organization_id, value.get_secret_value(), shown_url)
        elif name == "headers":
            stored[name] = {
                each: await sealed(vault, organization_id, secret.get_secret_value(), _hidden)
                for each, secret in value.items()
            }
    if (secret := stored.get("secret")) is not None:
        secret["shown"] = HIDDEN
    return stored


async def sealed(vault: Vault, organization_id: UUID, secret: str, shown: Callable[[str], str]) -> dict[str, str]:
    return {"sealed": await vault.seal(organization_id, secret), "shown": shown(secret)}


def shown_url(url: str) -> str:
    """The host of a URL, and nothing that lets anybody post to it.

    >>> shown_url("https://me:pw@hooks.slack.com/services/T0/B0/x"), shown_url("http://[2001:db8::1]:8080/x")
    ('https://hooks.slack.com/…', 'http://[2001:db8::1]:8080/…')
    """
    parts = urlsplit(url)
    if not parts.hostname:
        return HIDDEN
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/…"


def _hidden(_: str) -> str:
    return HIDDEN


def shown(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as everybody may see them."""
    return {name: _masked(name, value) for name, value in stored.items()}


def _masked(name: str, value: Any) -> Any:
    if name == "headers" and isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    return value["shown"] if name in _SECRETS and isinstance(value, dict) else value


async def opened(stored: Mapping[str, Any], vault: Vault, organization_id: UUID) -> dict[str, Any]:
    """The settings with their secrets, to be used and forgotten."""
    plain = dict(stored)
    for name in ("webhook_url", "secret"):
        if isinstance(plain.get(name), dict):
            plain[name] = await vault.open(organization_id, plain[name]["sealed"])
    if isinstance(plain.get("headers"), dict):
        plain["headers"] = {
            name: await vault.open(organization_id, value["sealed"]) for name, value in plain["headers"].items()
        }
    return plain


async def completed(
    given: Mapping[str, Any], stored: Mapping[str, Any] | None, vault: Vault, organization_id: UUID
) -> dict[str, Any]:
    """What was given, with the stored secrets where it repeats what was shown of them or, but for the URL, is silent.

    Other secrets than the URL are kept only if the URL is: whoever may change where an alert goes must not be able to
    have the secrets of others sent there.
    """
    if stored is None:
        return dict(given)
    plain = await opened(stored, vault, organization_id)
    masks = shown(stored)
    filled = dict(given)
    if "webhook_url" in plain and filled.get("webhook_url") == masks["webhook_url"]:
        filled["webhook_url"] = plain["webhook_url"]
    if filled.get("webhook_url") != plain.get("webhook_url"):
        _refuse_kept(filled)
        return filled
    for name in ("secret", "headers"):
        if name in plain and filled.get(name, HIDDEN) == HIDDEN:
            filled[name] = plain[name]
    if isinstance(filled.get("headers"), dict):
        own = plain.get("headers", {})
        filled["headers"] = {
            name: own[name] if value == HIDDEN and name in own else value for name, value in filled["headers"].items()
        }
    return filled


def _refuse_kept(filled: Mapping[str, Any]) -> None:
    headers = filled.get("headers")
    kept = (
        [f"channel_config.headers.{name}" for name, value in headers.items() if value == HIDDEN]
        if isinstance(headers, dict)
        else []
    )
    if filled.get("secret") == HIDDEN:
        kept.append("channel_config.secret")
    if kept:
        raise InvalidFields(
            [FieldError(path, "has to be given again, as the URL is another one") for path in kept],
            hint="a secret is not sent to another place than the one it was given for",
        )


def parts_of(config: Mapping[str, Any]) -> Iterator[str]:
    """Every piece of its secrets that an answer might repeat."""
    url = config.get("webhook_url")
    if isinstance(url, str):
        split = urlsplit(url)
        rest = url.partition("://")[2].partition("/")[2]
        yield from (url, rest, f"/{rest}", split.password or "")
        yield from re.split(r"[/?&=#]", rest)
    secrets = [config.get("secret"), *(config.get("headers") or {}).values()]
    for secret in filter(None, secrets):
        yield secret
        yield from secret.split()
