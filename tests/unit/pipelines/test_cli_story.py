"""`headgate story` from the records beside a pipeline file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.cli.main import run
from headgate.pipelines.home import Home
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from tests.unit.pipelines.samples import loaded, with_nodes

T0 = datetime(2026, 1, 5, 6, tzinfo=UTC)
ONE_NODE = with_nodes("- {name: orders, read: {connection: bronze, path: x}}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADGATE_URL", raising=False)
    return Home.of(loaded(tmp_path, ONE_NODE))


def kept(home: Home, run_id: str, rows: int, *, hour: int = 0, file: str = "pipeline.yaml") -> RunRecord:
    node = NodeRecord("daily", "orders", f"node-{run_id}", Status.published, rows_in=rows, rows_published=rows)
    record = RunRecord(
        run_id,
        "shop",
        ("daily",),
        Status.published,
        file=str(home.folder.parent.resolve() / file),
        started_at=T0 + timedelta(hours=hour),
        ended_at=T0 + timedelta(hours=hour, minutes=1),
        nodes=[node],
    )
    home.save_record(record)
    return record


def test_the_story_of_a_file_is_that_of_its_latest_run(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    kept(home, "new", 4321, hour=2)
    kept(home, "old", 1234)
    kept(home, "of-another", 99, hour=3, file="other.yaml")

    assert run(["story", "pipeline.yaml"]) == 0

    path = Path(capsys.readouterr().out.strip())
    text = path.read_text(encoding="utf-8")
    assert path.name == "new.html"
    assert "4,321" in text
    assert "3,087" in text, "it is compared with the run before"


def test_the_story_of_a_run_may_be_written_elsewhere(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    kept(home, "old", 1234)

    assert run(["story", "old", "--output", "told/here.html", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == {"story": "told/here.html"}
    assert "1,234" in Path("told/here.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["pipeline.yaml"], "no run of 'pipeline.yaml' is recorded", id="never run"),
        pytest.param(["nowhere.yaml"], "'nowhere.yaml' does not exist", id="no file"),
        pytest.param(["abc"], "there is no run 'abc'", id="no run"),
        pytest.param(["../../etc/passwd"], "there is no run '../../etc/passwd'", id="a way out"),
    ],
)
def test_a_story_that_cannot_be_told_says_why(
    home: Home, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert run(["story", *arguments]) == 2
    assert f"error[not_found]: {expected}" in capsys.readouterr().err


def test_a_story_that_cannot_be_written_names_the_file(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    kept(home, "old", 1)

    assert run(["story", "old", "--output", "pipeline.yaml/x.html"]) == 2
    assert "'pipeline.yaml/x.html' cannot be written" in capsys.readouterr().err
