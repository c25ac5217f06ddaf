"""Named SQL: reads `-- name: verb_noun` blocks from a `.sql` file into attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources

_NAME = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\s*$", re.MULTILINE)


class Queries:
    """The queries of one slice, by name; a missing name fails when it is first asked for, with the known ones."""

    def __init__(self, package: str, file: str = "queries.sql") -> None:
        self.package = package
        self._texts = _parse(resources.files(package).joinpath(file).read_text(encoding="utf-8"))

    def __getattr__(self, name: str) -> str:
        try:
            return self._texts[name]
        except KeyError:
            raise AttributeError(f"no query {name!r} in {self.package}; known: {', '.join(self._texts)}") from None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._texts.items())


def _parse(text: str) -> dict[str, str]:
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
