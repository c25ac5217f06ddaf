"""`headgate init`: a small project that runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from headgate.cli import ask, console
from headgate.errors import ConfigError, Conflict

# Stored under other names: as they are called in a project, tools would take them for our own.
_STORED = {"gitignore": ".gitignore"}


class Example(StrEnum):
    """What the project is about."""

    taxi = "taxi"
    retail = "retail"
    minimal = "minimal"


def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where; it is made if it is missing.")] = Path(),
    example: Annotated[Example, typer.Option(help="What it is about.")] = Example.taxi,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a small project that runs as it is: a pipeline, a step in Python, data with a few defects.

    Nothing that is there is overwritten.
    """
    wanted = dict(_files(files("headgate.pipelines").joinpath("scaffold", example), PurePosixPath()))
    _refuse_present(directory, wanted)
    try:
        for name, content in wanted.items():
            _write(directory / name, content)
    except OSError as error:
        raise ConfigError(
            f"{error.filename or str(directory)!r} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
    _show(directory, list(wanted), as_json)


def _files(folder: Traversable, within: PurePosixPath) -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda found: found.name):
        name = _STORED.get(each.name, each.name.removesuffix(".txt"))
        if each.is_dir():
            yield from _files(each, within / name)
        else:
            yield str(within / name), each.read_bytes()


def _refuse_present(directory: Path, wanted: dict[str, bytes]) -> None:
    if present := [name for name in wanted if (directory / name).exists()]:
        more = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise Conflict(
            f"{str(directory / present[0])!r}{more} exists already, and nothing is overwritten",
            hint="name an empty folder: `headgate init DIR`",
        )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Exclusively: what came to be there in the meantime is not ours either.
    with path.open("xb") as file:
        file.write(content)


def _show(directory: Path, names: list[str], as_json: bool) -> None:
    if as_json:
        ask.show_json({"directory": str(directory), "files": names})
        return
    for name in names:
        console.say(str(directory / name))
    enter = "" if directory == Path() else f"cd {directory} && "
    console.note(f"\nnow: {enter}headgate run")
