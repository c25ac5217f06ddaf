"""The part of the demo that runs pipelines: days of taxi trips, and most of them are bad ones.

Each day is a `headgate run` of its own. What it finds has to be what the generator says that there is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from headgate.errors import HeadgateError
from headgate.local.credentials import Credentials

TAXI = Path(__file__).parent / "taxi"
TRIPS = 20_000
DAY_S = 600
WIDTH, INDENT = 80, 12
Json = dict[str, Any]
Questions = tuple[tuple[str, str, str], ...]
STOPPED = {"2026-01-08", "2026-01-10"}
# A usual day, and the bad ones; the generator has some more.
DAYS = ("2026-01-05", "2026-01-07", "2026-01-08", "2026-01-09", "2026-01-10")
# A run is over before a better compiler would have paid.
JAVA = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class Days:
    """A copy of the example in the demo's own folder, and the server that hears of its runs."""

    known: Credentials
    data_dir: Path

    @property
    def folder(self) -> Path:
        return self.data_dir / "taxi"

    @property
    def log(self) -> Path:
        return self.data_dir / "taxi.log"

    def environment(self) -> dict[str, str]:
        server = {"HEADGATE_URL": self.known.url, "HEADGATE_API_KEY": self.known.api_key}
        return os.environ | server | {"JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {JAVA}".strip()}


def questions(data_dir: Path) -> Questions:
    """What to ask after the days, and what the answers have to hold."""
    file = data_dir / "taxi" / "taxi.yaml"
    file = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    return (
        ("Which trips were set apart?", f"quarantine list {file} --node trips", "gate_aborted"),
        ("Which problems did the days leave?", "incidents list --all --kind GateBlocked", "ingest.trips"),
        ("How did the columns of the trips change?", "schema history silver/trips", "-store_and_fwd_flag"),
        ("Where does the revenue of a day come from?", "lineage upstream gold/daily_revenue", "bronze/trips"),
        ("What would a change of the trips hit?", "lineage impact silver/trips", "gold/tips"),
    )


def shortened(answer: str, data_dir: Path) -> str:
    """With paths that start at the lake, as the pipelines have them."""
    return answer.replace(f"file/{(data_dir / 'taxi' / 'data').resolve()}/", "")


def run(known: Credentials, data_dir: Path) -> None:
    """Run the days, and say of each what became of it."""
    days = Days(known, data_dir)
    typer.echo("Making days of taxi trips, with defects of known count …")
    _prepare(days)
    typer.echo("Running two pipelines over them, bronze to silver to gold, day by day:\n")
    for day in DAYS:
        typer.echo(f"{day}  {_generator().DAYS[day].title}")
        _show(days, day, _run(days, day))
    typer.echo(f"\nThe stories of these runs are in {_stories(days)}")


def _generator() -> Any:
    # pyspark is slow to load, and not needed where there is no Java.
    from taxi import generate

    return generate


def _prepare(days: Days) -> None:
    shutil.copytree(TAXI, days.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    bronze = days.folder / "data" / "bronze"
    with days.log.open("wb") as log:
        command = [sys.executable, str(TAXI / "generate.py"), str(bronze), "--trips", str(TRIPS)]
        command += [f"--day={day}" for day in DAYS]
        done = subprocess.run(command, stdout=log, stderr=log, env=days.environment(), timeout=DAY_S, check=False)
    if done.returncode:
        raise HeadgateError(f"the trips were not made: exit code {done.returncode}", hint=f"see {days.log}")


def _run(days: Days, day: str) -> Json:
    """The record of a run; 3 is the exit code of one that a gate has stopped."""
    command = [sys.executable, "-m", "headgate.cli.main", "run", "taxi.yaml", "--var", f"DAY={day}", "--json"]
    with days.log.open("ab") as log:
        done = subprocess.run(
            command,
            cwd=days.folder,
            stdout=subprocess.PIPE,
            stderr=log,
            env=days.environment(),
            timeout=DAY_S,
            check=False,
        )
    if done.returncode not in (0, 3):
        raise HeadgateError(f"the run of {day} ended with {done.returncode}", hint=f"see {days.log}")
    record: Json = json.loads(done.stdout.splitlines()[-1])
    return record


def _show(days: Days, day: str, record: Json) -> None:
    trips = next(node for node in record["nodes"] if node["name"] == "trips")
    for line in _told(trips):
        _echo(line)
    _check(day, trips)
    if record["story"]:
        _stories(days).mkdir(exist_ok=True)
        shutil.copy(record["story"], _stories(days) / f"{day}.html")


def _told(trips: Json) -> list[str]:
    gate, drift = trips["gate"], trips["drift"]
    rate = f"{int(gate['pass_rate'] * 1000) / 10:g} % pass"
    apart = f"{trips['rows_quarantined']:,} of {trips['rows_in']:,} trips set apart"
    lines = [f"{trips['status']}: {apart}, {rate}"]
    lines += [f"the gate says: {reason}" for reason in gate["reasons"]]
    lines += [f"columns are gone: {', '.join(drift['removed'])}"] if drift and drift["removed"] else []
    lines += [f"columns are new: {', '.join(drift['added'])}"] if drift and drift["added"] else []
    return lines


def _check(day: str, trips: Json) -> None:
    """The demo is right only if the tests have found what was put in."""
    special = _generator().DAYS[day]
    found = {test["name"]: test["failed"] for test in trips["tests"]}
    for test, wanted in special.expected(TRIPS).items():
        if found[test] != wanted:
            raise HeadgateError(f"{test!r} found {found[test]:,} trips of {day}, and there are {wanted:,}")
    if trips["rows_quarantined"] != special.set_apart(TRIPS):
        raise HeadgateError(
            f"{trips['rows_quarantined']:,} trips of {day} were set apart: {special.set_apart(TRIPS):,}"
        )
    if (trips["status"] == "stopped") != (day in STOPPED):
        raise HeadgateError(f"{day} was {trips['status']}")


def _stories(days: Days) -> Path:
    return days.data_dir / "stories"


def _echo(text: str) -> None:
    typer.echo(textwrap.fill(text, WIDTH, initial_indent=" " * INDENT, subsequent_indent=" " * (INDENT + 2)))
