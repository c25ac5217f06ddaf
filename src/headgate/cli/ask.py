"""Commands that ask a server: whom they ask, and the answer as text or JSON. Each command is one question."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

from headgate.cli import console
from headgate.errors import FieldError, HeadgateError, InvalidFields
from headgate.local import credentials

if TYPE_CHECKING:
    from headgate.client import Call

    Question: TypeAlias = Call[Any]
else:
    # The client is loaded when a question is asked, so that `headgate version` answers at once.
    Question = object

Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]
Url = Annotated[str | None, typer.Option(envvar="HEADGATE_URL", help="Server to ask.", show_default=False)]
ApiKey = Annotated[
    str | None, typer.Option(envvar="HEADGATE_API_KEY", help="Key with the scope it takes.", show_default=False)
]
DataDir = Annotated[
    Path, typer.Option(envvar="HEADGATE_DATA_DIR", help="Where `headgate up` left its credentials.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's answer as JSON.")]
_LISTS = {
    **{name: f"{name} list" for name in ("datasets", "jobs", "runs", "aliases", "tasks", "incidents", "anomalies")},
    "alert-rules": "alerts rules",
}
_ASKING: dict[str, tuple[Any, Any]] = {
    "url": (Url, None),
    "api_key": (ApiKey, None),
    "data_dir": (DataDir, credentials.DEFAULT_DATA_DIR),
    "as_json": (AsJson, False),
}


def group(help_: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=help_, no_args_is_help=True, rich_markup_mode="markdown")


def question(
    app: typer.Typer, name: str | None = None, *, show: Callable[..., None]
) -> Callable[[Callable[..., Question]], Callable[..., Question]]:
    """Make a command of a function that words a question; `show` prints the answer, given the arguments it names."""

    def register(word: Callable[..., Question]) -> Callable[..., Question]:
        def command(url: str | None, api_key: str | None, data_dir: Path, as_json: bool, **given: Any) -> None:
            asked = word(**given)
            with server(url, api_key, data_dir) as to:
                answer = _ask(to, asked.raw() if as_json else asked)
            if as_json:
                show_json(answer)
            else:
                show(answer, **_wanted_by(show, given))

        _take_on(command, word)
        app.command(name)(command)
        return word

    return register


@contextmanager
def server(url: str | None, api_key: str | None, data_dir: Path) -> Iterator[credentials.Target]:
    """Whom to ask: who was named, else `headgate up`, else the store that runs of pipelines keep in this folder."""
    is_own = url is None and not (data_dir / credentials.FILE).exists()
    if not is_own or not (data_dir / "store" / credentials.FILE).exists():
        yield credentials.target(url, api_key, data_dir)
        return
    from headgate.pipelines.home import Home, embedded

    console.note(f"asking the store of the pipelines here ({data_dir / 'store'})")
    with embedded(Home(data_dir)) as found:
        yield credentials.Target(str(found.url), found.api_key)


def show_json(answer: object) -> None:
    """The answer for scripts: JSON on stdout and nothing else."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def show_page(
    columns: tuple[str, ...],
    row: Callable[[Any], tuple[str, ...]],
    empty: str,
    *,
    whole: tuple[str, ...] = (),
) -> Callable[[Any], None]:
    """Shows a page of a list as a table."""

    def show(page: Any) -> None:
        if not page.items:
            console.note(empty)
            return
        console.table(columns, [row(item) for item in page.items], whole=whole)
        if page.next_cursor:
            console.note(f"the first {len(page.items)} are shown; --limit shows more")

    return show


def label(dataset: Any) -> str:
    """What to call a dataset so that it can be typed back: a table's name, a path in full."""
    of = dataset.get if isinstance(dataset, dict) else partial(getattr, dataset)
    return str(of("name") if of("name") == of("display_name") else of("urn"))


def moment(value: object) -> str:
    """A time, to the second and in UTC, as the server gave it."""
    return str(value)[:19].replace("T", " ") if value else ""


def minute(value: object) -> str:
    """The same to the minute, for lists."""
    return moment(value)[:16]


def count(number: int, thing: str, things: str | None = None) -> str:
    """How many, in words that fit the number."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def _ask(to: credentials.Target, asked: Call[Any]) -> Any:
    from headgate.client import HeadgateClient

    with HeadgateClient(to.url, to.api_key, timeout_s=60, attempts=2) as client:
        try:
            return client.call(asked)
        except HeadgateError as error:
            raise for_terminals(error) from error


def for_terminals(error: HeadgateError) -> HeadgateError:
    """The same error in the words of the command line: options for parameters, commands for routes."""
    if isinstance(error, InvalidFields):
        fields = [FieldError(_option(item.path), item.message, item.value) for item in error.errors]
        error = InvalidFields(fields, hint="`--help` shows what the command takes")
    elif error.hint and "/api/v1/" in error.hint:
        command = next((command for name, command in _LISTS.items() if f"/api/v1/{name}" in error.hint), None)
        error.hint = f"`headgate {command}` lists them" if command else None
    return error


def _option(path: str) -> str:
    place, _, name = re.sub(r"\[\d+\]", "", path).partition(".")
    return f"--{name.replace('_', '-')}" if place == "query" else name.upper() if place == "path" else path


def _wanted_by(show: Callable[..., None], given: dict[str, Any]) -> dict[str, Any]:
    names = list(inspect.signature(show).parameters)[1:]
    return {name: given[name] for name in names if name in given}


def _parameters(part: inspect.Parameter, hint: Any) -> list[inspect.Parameter]:
    """A parameter of a question; `**options: Unpack[...]` are all those of a TypedDict, which several commands take."""
    if part.kind is not inspect.Parameter.VAR_KEYWORD:
        return [part.replace(annotation=hint)]
    (options,) = get_args(hint)
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=each)
        for name, each in get_type_hints(options, include_extras=True).items()
    ]


def _take_on(command: Callable[..., None], word: Callable[..., Question]) -> None:
    """Give a command the name, help and options of its question, and those of asking."""
    hints = get_type_hints(word, include_extras=True)
    own = [each for part in inspect.signature(word).parameters.values() for each in _parameters(part, hints[part.name])]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, (hint, default) in _ASKING.items()
    ]
    parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own] + common
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer looks at
    command.__annotations__ = {part.name: part.annotation for part in parameters}
    command.__name__, command.__doc__ = word.__name__, word.__doc__
