"""The demo: starts a server, sends it a shop's events, runs a Spark job and days of pipelines, and shows what to ask.

With CI=true it runs the commands that it printed, checks their answers, and stops.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import httpx
import taxi_days
import typer

from headgate.cli import console
from headgate.cli.main import run as headgate
from headgate.client import HeadgateClient
from headgate.errors import HeadgateError, Unavailable
from headgate.local import claim, credentials
from headgate.local.credentials import Credentials

HOST, PORT = "127.0.0.1", 8642
EVENTS = Path(__file__).parent / "shop" / "events.ndjson"
JOB = Path(__file__).parent / "spark" / "revenue.py"
READY_S, STOP_S, JOB_S, JUDGED_S = 60, 25, 300, 60
Json = dict[str, Any]
Questions = tuple[tuple[str, str, str], ...]
# Commands to try, and what their answer has to hold for the demo to be right.
QUESTIONS = (
    ("Where does the revenue come from?", "lineage upstream shop.marts.daily_revenue --depth 5", "[external] orders"),
    ("What would a change of the orders hit?", "lineage impact s3://shop-lake/silver/orders", "3 downstream tables"),
    ("How did their schema change?", "schema history shop.staging.orders", "+currency"),
    ("What went wrong?", "runs list --state FAIL", "shop_daily"),
    ("What was that, and is it over?", "incidents list --all --kind RunFailed", "schema mismatch"),
    ("What was its name again?", "search revenu", "shop.marts.daily_revenue"),
)
# What the PySpark job's own lineage answers, when there is a Java to run it.
SPARK_QUESTIONS = (
    ("What did the PySpark job compute?", "lineage upstream revenue_by_country --columns", "amount → revenue"),
    ("What did it do, step by step?", "jobs list --limit 20", "revenue.write."),
)


@dataclass(frozen=True)
class Step:
    """Something to try: a request, and what its answer has to be for the demo to be right."""

    title: str
    path: str
    is_right: Callable[[Json], bool]
    event: Json | None = None

    @property
    def command(self) -> str:
        lines = ['curl -sS -H "Authorization: Bearer $HEADGATE_API_KEY" \\', f'  "$HEADGATE_URL{self.path}"']
        if self.event:
            lines[-1] += " \\"
            lines += ["  -H 'Content-Type: application/json' \\", f"  -d '{_wrapped(self.event)}'"]
        return "\n".join(lines)


def main() -> None:
    data_dir = Path(os.environ.get("HEADGATE_DEMO_DIR") or credentials.DEFAULT_DATA_DIR / "demo")
    try:
        port = _port()
        with _server(data_dir, port) as server:
            known = _await_ready(server, data_dir, url=f"http://{HOST}:{port}")
            _replay(known, data_dir)
            questions = QUESTIONS + _ask_why(known) + _run_spark(known, data_dir)
            steps = _steps()
            _announce(known, data_dir, steps, questions)
            if os.environ.get("CI") == "true":
                _check(known, steps, questions)
            elif server.wait():
                raise _failed("the server has ended", data_dir)
    except HeadgateError as error:
        console.show_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        pass
    typer.echo("\nThe demo has stopped.")


@contextmanager
def _server(data_dir: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`headgate up` as a process of its own, stopped at the end whatever happens."""
    signal.signal(signal.SIGTERM, _interrupt)
    data_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headgate.cli.main", "up", "--host", HOST, "--port", str(port)]
    own_database = {"HEADGATE_DATABASE_URL", "HEADGATE_MIGRATION_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in own_database}
    with (data_dir / "demo.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--data-dir", str(data_dir)], stdout=subprocess.DEVNULL, stderr=log, env=environment
        )
    try:
        yield server
    finally:
        _stop(server)


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _port() -> int:
    if claim.is_free(HOST, PORT):
        return PORT
    typer.echo(f"Port {PORT} is taken, so the demo uses a free one.")
    with claim.port(HOST, 0) as free:
        return int(free.getsockname()[1])


def _await_ready(server: subprocess.Popen[bytes], data_dir: Path, url: str) -> Credentials:
    typer.echo("Starting PostgreSQL and the server …")
    deadline = time.monotonic() + READY_S
    with HeadgateClient(url) as client:
        while time.monotonic() < deadline and server.poll() is None:
            known = credentials.read(data_dir)
            # Those of an earlier demo may name another port until this server has started.
            if known and known.url == url and client.ready():
                return known
            time.sleep(0.1)
    raise _failed("the server did not start", data_dir)


def _failed(what: str, data_dir: Path) -> Unavailable:
    log = data_dir / "demo.log"
    said = log.read_text(errors="replace").strip().splitlines()[-20:]
    return Unavailable("\n".join([f"{what}; {str(log)!r} ends with:", *said]), hint="correct it and start again")


def _replay(known: Credentials, data_dir: Path) -> None:
    typer.echo("Sending two days of a shop's events …")
    to = ["--url", known.url, "--api-key", known.api_key, "--data-dir", str(data_dir)]
    if headgate(["replay", str(EVENTS), *to, "--no-resume"]):
        raise HeadgateError(f"the events of {EVENTS.name!r} were not all stored")


def _ask_why(known: Credentials) -> Questions:
    """The incident of the run that failed, once the server has looked into it."""
    deadline = time.monotonic() + JUDGED_S
    with HeadgateClient(known.url, known.api_key) as client:
        while not (found := client.incidents(kind="RunFailed").items) and time.monotonic() < deadline:
            time.sleep(0.2)
    if not found:
        raise HeadgateError(f"no incident was opened within {JUDGED_S} seconds of the run that failed")
    command = f"incidents why {found[-1]['number']}"
    typer.echo(f"\n# Why did a run fail?\n$ headgate {command}\n{_asked(known, command).rstrip()}\n")
    return (("Why did a run fail?", command, "added the column 'currency'"),)


def _run_spark(known: Credentials, data_dir: Path) -> Questions:
    """All that needs Java, and what to ask about it."""
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        typer.echo("There is no Java here: the PySpark job and the pipelines are left out.")
        return ()
    _run_job(known, data_dir)
    taxi_days.run(known, data_dir)
    questions = taxi_days.questions(data_dir)
    for title, command, _ in questions:
        answer = taxi_days.shortened(_asked(known, command), data_dir)
        typer.echo(f"\n# {title}\n$ headgate {command}\n{answer.rstrip()}")
    return SPARK_QUESTIONS + questions


def _run_job(known: Credentials, data_dir: Path) -> None:
    """A PySpark job that knows nothing of Headgate; its output goes where the server's log is."""
    typer.echo("Running a PySpark job, unchanged, with the agent beside it …")
    command = [sys.executable, "-m", "headgate.cli.main", "spark", "run", str(JOB), str(data_dir / "lake")]
    environment = os.environ | {"HEADGATE_URL": known.url, "HEADGATE_API_KEY": known.api_key}
    with (data_dir / "job.log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=log, env=environment, timeout=JOB_S, check=False)
    if done.returncode:
        raise HeadgateError(f"the PySpark job ended with {done.returncode}", hint=f"see {data_dir / 'job.log'}")


def _steps() -> list[Step]:
    run_id = str(uuid4())
    return [
        Step(
            "See the latest runs:",
            "/api/v1/runs?limit=5",
            lambda answer: len(answer["items"]) == 5 and all(item["state"] for item in answer["items"]),
        ),
        Step(
            "See why a run of the second day failed:",
            f"/api/v1/runs/{_failed_run()}",
            lambda answer: answer["state"] == "FAIL" and "schema mismatch" in answer["error"],
        ),
        Step(
            "Send an event of your own, and find it in the list above:",
            "/api/v1/lineage",
            lambda answer: True,
            event={
                "eventType": "START",
                "eventTime": datetime.now(UTC).isoformat(timespec="seconds"),
                "run": {"runId": run_id},
                "job": {"namespace": "demo", "name": "my_first_job"},
                "producer": "https://example.com/me",
                "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
            },
        ),
    ]


def _failed_run() -> str:
    events = [json.loads(line) for line in EVENTS.read_text(encoding="utf-8").splitlines()]
    failed = next(event for event in events if "errorMessage" in event.get("run", {}).get("facets", {}))
    return str(failed["run"]["runId"])


def _announce(known: Credentials, data_dir: Path, steps: list[Step], questions: Questions) -> None:
    typer.echo("\nHeadgate is running.\n")
    console.pairs(
        [
            ("URL", known.url),
            ("API docs", f"{known.url}/docs"),
            ("Organisation", known.organization),
            ("E-mail", known.email),
            ("Password", known.password),
            ("API key", known.api_key),
            ("Log", str(data_dir / "demo.log")),
        ]
    )
    typer.echo("\nThings to try in another terminal, after these two lines:\n")
    typer.echo(f"  export HEADGATE_URL={known.url}\n  export HEADGATE_API_KEY={known.api_key}")
    typer.echo("\nAsk:\n")
    for title, command, _ in questions:
        typer.echo(f"  # {title}\n  .venv/bin/headgate {command}")
    typer.echo("\nOr over HTTP:")
    for number, step in enumerate(steps, start=1):
        typer.echo(f"\n{number}. {step.title}\n")
        typer.echo("\n".join(f"  {line}" for line in step.command.splitlines()))
    typer.echo("\nOr open the API docs in a browser. Ctrl-C stops everything.")


def _check(known: Credentials, steps: list[Step], questions: Questions) -> None:
    typer.echo("\nChecking that what is printed above works:")
    for step in steps:
        status, body = _answer(known, step)
        if status not in (200, 201) or not step.is_right(json.loads(body or "{}")):
            raise HeadgateError(f"{step.title!r} was answered with {status}: {body[:500]}")
        typer.echo(f"  {status}  {step.title}")
    for title, command, wanted in questions:
        if wanted not in _asked(known, command):
            raise HeadgateError(f"{command!r} does not answer {title!r} with {wanted!r}")
        typer.echo(f"   ok  {title}")
    with HeadgateClient(known.url, known.api_key) as client:
        sent = next(step.event for step in steps if step.event)
        if client.run(sent["run"]["runId"])["state"] != "START":
            raise HeadgateError("the event that was sent is not in the list of runs")
    page = httpx.get(f"{known.url}/docs", trust_env=False)
    if page.status_code != httpx.codes.OK or "swagger" not in page.text.lower():
        raise HeadgateError(f"the API docs were answered with {page.status_code}")
    typer.echo(f"  {page.status_code}  API docs")


def _asked(known: Credentials, command: str) -> str:
    """What a command prints."""
    names = {"HEADGATE_URL": known.url, "HEADGATE_API_KEY": known.api_key}
    asking = [sys.executable, "-m", "headgate.cli.main", *command.split()]
    done = subprocess.run(asking, env=os.environ | names, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout or done.stderr


def _answer(known: Credentials, step: Step) -> tuple[int, str]:
    """Status and body of the printed command, or of the same request where there is no curl."""
    if shutil.which("curl"):
        names = {"HEADGATE_URL": known.url, "HEADGATE_API_KEY": known.api_key, "no_proxy": HOST}
        shown = f"{step.command} -w '\\n%{{http_code}}'"
        done = subprocess.run(
            ["sh", "-c", shown], env=os.environ | names, capture_output=True, text=True, timeout=30, check=False
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status or 0), body or done.stderr
    headers = {"Authorization": f"Bearer {known.api_key}"}
    method = "POST" if step.event else "GET"
    answer = httpx.request(method, known.url + step.path, headers=headers, json=step.event, trust_env=False)
    return answer.status_code, answer.text


def _wrapped(event: Json) -> str:
    """JSON with one member on each line, narrow enough for a terminal."""
    members = [f'    "{name}": {json.dumps(value)}' for name, value in event.items()]
    return "{\n" + ",\n".join(members) + "\n  }"


if __name__ == "__main__":
    main()
