"""`headgate keys`: make, list and revoke API keys over HTTP, as a user who may."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console
from headgate.errors import Conflict, NotFound
from headgate.local import credentials

if TYPE_CHECKING:
    from headgate.client import HeadgateClient

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True, rich_markup_mode="markdown")

Url = Annotated[str | None, typer.Option(envvar="HEADGATE_URL", help="Server to talk to.", show_default=False)]
Email = Annotated[str | None, typer.Option(envvar="HEADGATE_EMAIL", help="Who logs in.", show_default=False)]
Password = Annotated[
    str | None,
    typer.Option(envvar="HEADGATE_PASSWORD", help="Asked for if it is not given.", show_default=False),
]
DataDir = Annotated[Path, typer.Option(envvar="HEADGATE_DATA_DIR", help="Where the credentials are.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's answer as JSON.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.", show_default=False)],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, write, ingest or admin; may be repeated; ingest, if not given.", show_default=False),
    ] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1, help="Never, if not given.", show_default=False)] = None,
    url: Url = None,
    email: Email = None,
    password: Password = None,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, alone on one line; it is never shown again."""
    with _session(url, email, password, data_dir) as client:
        made = client.create_key(name, scope or ["ingest"], expires_in_days=expires_in_days)
    if as_json:
        typer.echo(json.dumps(made, indent=2, ensure_ascii=False))
        return
    console.note(f"made {made.get('name', name)!r} with {_joined(made.get('scopes'))}; keep it, it is not shown again")
    typer.echo(made["key"])


@app.command("list")
def list_keys(
    url: Url = None,
    email: Email = None,
    password: Password = None,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """List the keys of the organisation."""
    with _session(url, email, password, data_dir) as client:
        found = client.list_keys()
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console.table(("name", "prefix", "scopes", "last used", "state"), [_row(key) for key in found])


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="PREFIX_OR_ID", help="As `keys list` shows it.", show_default=False)],
    url: Url = None,
    email: Email = None,
    password: Password = None,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
) -> None:
    """Revoke a key; whoever uses it is refused from now on."""
    with _session(url, email, password, data_dir) as client:
        chosen = _chosen(client.list_keys(), key)
        client.revoke_key(str(chosen["id"]))
    typer.echo(f"revoked {chosen.get('name')!r} ({chosen.get('prefix')})")


@contextmanager
def _session(url: str | None, email: str | None, password: str | None, data_dir: Path) -> Iterator[HeadgateClient]:
    from headgate.client import HeadgateClient

    known = credentials.read(data_dir)
    to = credentials.target(url, None, data_dir)
    # Like the key, the password of the file goes to the server of the file and to no other.
    if known and known.url == to.url.rstrip("/") and email in (None, known.email):
        email, password = known.email, password or known.password
    email = email or typer.prompt("E-mail", err=True)
    password = password or typer.prompt(f"Password of {email}", hide_input=True, err=True)
    with HeadgateClient(to.url) as client:
        client.login(email, password)
        yield client


def _chosen(keys: Sequence[dict[str, Any]], wanted: str) -> dict[str, Any]:
    live = [key for key in keys if not key.get("revoked_at")]
    same = [key for key in live if wanted in (key["id"], key.get("prefix"))]
    found = same or [key for key in live if str(key.get("prefix", "")).startswith(wanted)]
    if not found:
        raise NotFound(
            f"no key that still works has the prefix or id {wanted!r}", hint="`headgate keys list` shows them"
        )
    if len(found) > 1:
        prefixes = ", ".join(str(key.get("prefix")) for key in found)
        raise Conflict(f"{wanted!r} fits {len(found)} keys: {prefixes}", hint="give the id of one of them")
    return found[0]


def _row(key: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(key.get("name") or ""),
        str(key.get("prefix") or ""),
        _joined(key.get("scopes")),
        _day(key.get("last_used_at")) or "never",
        _state(key),
    )


def _state(key: dict[str, Any]) -> str:
    if key.get("revoked_at"):
        return f"revoked {_day(key['revoked_at'])}"
    return f"until {_day(key['expires_at'])}" if key.get("expires_at") else "active"


def _joined(scopes: object) -> str:
    return ", ".join(map(str, scopes)) if isinstance(scopes, list) else ""


def _day(timestamp: object) -> str:
    return str(timestamp)[:10] if timestamp else ""
