"""Spark's own configuration files, read as Spark reads them (Java's properties format)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headgate.errors import ConfigError

DEFAULTS = "spark-defaults.conf"
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def spark_defaults(spark_home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What spark-defaults.conf sets; nothing if there is none."""
    folder = Path(environ["SPARK_CONF_DIR"]) if environ.get("SPARK_CONF_DIR") else spark_home / "conf"
    path = folder / DEFAULTS
    return read(path) if path.is_file() else {}


def read(path: Path) -> dict[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}", hint="give a properties file in UTF-8") from error
    return parse(text)


def parse(text: str) -> dict[str, str]:
    """Keys and values; as in Spark, blanks around a value do not count."""
    return {key: value.strip() for key, value in map(_pair, _logical_lines(text))}


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, each with those that a backslash at its end joins to it."""
    pending = ""
    for line in text.splitlines():
        stripped = line.lstrip(" \t\f")
        if not pending and (not stripped or stripped[0] in "#!"):
            continue
        pending += stripped
        if _ends_open(pending):
            pending = pending[:-1]
        else:
            yield pending
            pending = ""
    if pending:
        yield pending


def _ends_open(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _pair(line: str) -> tuple[str, str]:
    found = _PAIR.fullmatch(line)
    assert found is not None  # every part of the pattern may be empty
    return _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    mark = found[1]
    return chr(int(mark[1:], 16)) if len(mark) == 5 else _CONTROLS.get(mark, mark)
