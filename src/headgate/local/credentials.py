"""The credentials file of a data directory, and which server and key a command talks with.

Never prints; whoever shows a secret does so on purpose.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from headgate.durable import write_whole
from headgate.errors import ConfigError

FILE = "credentials.json"
DEFAULT_DATA_DIR = Path(".headgate")
ORGANIZATION = "Default organisation"
EMAIL = "admin@localhost.localdomain"
KEY_PREFIX = "hg_live_"


@dataclass(frozen=True)
class Credentials:
    """What the first start made: an organisation, its admin, and a key with every scope."""

    url: str
    organization: str
    email: str
    password: str = field(repr=False)
    api_key: str = field(repr=False)

    @classmethod
    def fresh(cls, url: str) -> Credentials:
        return cls(
            url=url,
            organization=ORGANIZATION,
            email=EMAIL,
            password=secrets.token_urlsafe(18),
            api_key=f"{KEY_PREFIX}{secrets.token_urlsafe(32)}",
        )


@dataclass(frozen=True)
class Target:
    """The server a command talks to, and the key it may use there."""

    url: str
    api_key: str | None = field(repr=False)


def read(data_dir: Path) -> Credentials | None:
    """The credentials of a data directory, or None before its first start."""
    path = data_dir / FILE
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise ConfigError(
            f"{str(path)!r} may not be read by this user",
            hint="run the command as the user who started headgate",
        ) from error
    except ValueError as error:
        raise _unreadable(path, "it is not JSON") from error
    wanted = [f.name for f in fields(Credentials)]
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in wanted):
        raise _unreadable(path, f"it does not hold {', '.join(wanted)}")
    return Credentials(**{name: found[name] for name in wanted})


def ensure(data_dir: Path, url: str) -> Credentials:
    """The credentials of a data directory, made if there are none, with `url` brought up to date."""
    known = read(data_dir)
    current = replace(known, url=url) if known else Credentials.fresh(url)
    if current != known:
        write(data_dir, current)
    (data_dir / FILE).chmod(0o600)
    return current


def write(data_dir: Path, credentials: Credentials) -> None:
    """Replace the file whole: nobody else can read it at any moment, and no crash leaves half of it."""
    for leftover in data_dir.glob(f".{FILE}-*"):
        leftover.unlink(missing_ok=True)
    text = json.dumps(asdict(credentials), indent=2, ensure_ascii=False)
    write_whole(data_dir / FILE, f"{text}\n".encode())


def target(url: str | None, api_key: str | None, data_dir: Path) -> Target:
    """Where to send: what was given, else the credentials file.

    The key in the file goes to the server in the file and to no other.
    """
    known = read(data_dir)
    if url is None and known is None:
        raise ConfigError(
            f"no server is named, and {str(data_dir / FILE)!r} does not exist",
            hint="start one with `headgate up`, or give --url and --api-key (HEADGATE_URL, HEADGATE_API_KEY)",
        )
    chosen = url or (known.url if known else "")
    if api_key is None and known is not None and chosen.rstrip("/") == known.url:
        api_key = known.api_key
    return Target(chosen, api_key)


def _unreadable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{str(path)!r} cannot be used: {why}",
        hint="restore it from a backup; if there is none, move the whole data directory away to begin anew",
    )
