"""`headgate events`: watch what arrives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import ApiKey, AsJson, DataDir, Url, moment
from headgate.local import credentials

if TYPE_CHECKING:
    from headgate.client import HeadgateClient

app = ask.group("Watch the events that arrive.")

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")]
Producer = Annotated[str | None, typer.Option(help="Only of this producer.", show_default=False)]
Outcome = Annotated[str | None, typer.Option(help="accepted or refused; both, if not given.", show_default=False)]
Json = dict[str, Any]
_PAUSE_S = 1.0


@app.callback()
def _events() -> None:
    """A group, although it has one command."""


@app.command()
def tail(
    follow: Follow = False,
    producer: Producer = None,
    outcome: Outcome = None,
    limit: ask.Limit = 20,
    url: Url = None,
    api_key: ApiKey = None,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Print the latest events, oldest first; with --follow, go on with new ones. JSON is one event a line."""
    from headgate.client import HeadgateClient

    to = credentials.target(url, api_key, data_dir)
    with HeadgateClient(to.url, to.api_key) as client:
        for item in arrivals(client, limit=limit, follow=follow, producer=producer, outcome=outcome, raw=as_json):
            typer.echo(_as_json(item) if as_json else console.printable(_line(item)))


def arrivals(
    client: HeadgateClient,
    *,
    limit: int,
    follow: bool,
    producer: str | None,
    outcome: str | None,
    raw: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Json]:
    """The latest events in the order in which they came; when following, each later one once."""
    latest = client.events(limit=limit, producer=producer, outcome=outcome, raw=raw).items
    seen = 0
    while True:
        for item in reversed(latest):
            seen = max(seen, int(item["id"]))
            yield item
        if not follow:
            return
        sleep(_PAUSE_S)
        latest = _since(client, seen, producer=producer, outcome=outcome, raw=raw)


def _since(client: HeadgateClient, seen: int, **wanted: Any) -> list[Json]:
    """Events after the last one that was seen, newest first, over as many pages as they fill."""
    found: list[Json] = []
    cursor = None
    while True:
        page = client.events(limit=200, cursor=cursor, **wanted)
        found += [item for item in page.items if int(item["id"]) > seen]
        reaches_back = any(int(item["id"]) <= seen for item in page.items)
        if reaches_back or page.next_cursor is None:
            return found
        cursor = page.next_cursor


def _as_json(item: Json) -> str:
    import msgspec

    return msgspec.json.encode(item).decode()


def _line(item: Json) -> str:
    job = item["job"]["name"] if item["job"] else ""
    what = item["event_type"] or item["kind"]
    refused = "" if item["outcome"] == "accepted" else f"  refused: {item['reason']}"
    return f"{moment(item['received_at'])}  {what:<8}  {item['producer_name']:<16}  {job}{refused}"
