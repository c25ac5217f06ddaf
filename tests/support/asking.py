"""The command line, asked as from a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from headgate.cli.main import run

if TYPE_CHECKING:
    from tests.support.live import Live


class Output(NamedTuple):
    code: int
    out: str
    err: str


Ask = Callable[..., Output]


def asking(capsys: pytest.CaptureFixture[str], *group: str) -> Ask:
    """Asks commands, or those of one group."""

    def asked(*arguments: object) -> Output:
        code = run([*group, *map(str, arguments)])
        return Output(code, *capsys.readouterr())

    return asked


def asking_server(live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *group: str) -> Ask:
    """The same of a server."""
    monkeypatch.setenv("HEADGATE_URL", live.url)
    monkeypatch.setenv("HEADGATE_API_KEY", live.api_key)
    monkeypatch.setenv("COLUMNS", "80")
    return asking(capsys, *group)
