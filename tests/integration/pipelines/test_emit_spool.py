"""Servers that are gone, late or of another opinion, full disks and killed runs: no event is lost, none is twice."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headgate.cli.main import run as run_command
from headgate.client.events import events
from headgate.pipelines.emit import Outbox
from headgate.pipelines.plan import Plan
from headgate.pipelines.record import NodeRecord, Status
from headgate.pipelines.spool import SpoolFile
from tests.conftest import Cluster
from tests.support.absent import lacking
from tests.support.bad_servers import (
    Asked,
    BadServer,
    Behaviour,
    answering,
    bad_server,
    breaking_off,
    closing,
    dead_url,
    dripping,
    garbage,
    gate_to,
    hanging,
)
from tests.support.disks import tiny_disk
from tests.support.live import Live, live_server
from tests.support.pipeline_runs import a_plan, a_run, an_emitter, in_short, kept_in, stored_by
from tests.support.up import Up, an_event, environment, wait_until

WHOLE_RUN = [
    ("daily", "START"),
    ("daily.orders", "START"),
    ("daily.orders.tests", "START"),
    ("daily.orders.tests", "COMPLETE"),
    ("daily.orders", "COMPLETE"),
    ("daily.totals", "START"),
    ("daily.totals", "COMPLETE"),
    ("daily", "COMPLETE"),
]
SHORT_S = 0.5


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return a_plan(tmp_path)


def refusing(status: int, code: str, detail: str) -> Behaviour:
    body = json.dumps({"title": "Refused", "status": status, "code": code, "detail": detail})
    return answering(status, body, Content_Type="application/problem+json")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_run_without_a_server_goes_on_and_keeps_what_it_has_to_tell(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    emitter = an_emitter(plan, dead_url())

    run = a_run(plan, [emitter])

    assert run.status is Status.published
    assert [in_short(event) for event in kept_in(tmp_path)] == WHOLE_RUN
    assert (emitter.standing.kept, emitter.standing.sent, emitter.standing.lost) == (8, 0, 0)
    (told,) = warnings(caplog)
    assert "cannot reach" in told
    assert str(tmp_path / ".headgate" / "spool") in told


async def test_the_next_run_sends_first_what_the_last_one_kept(live: Live, plan: Plan, tmp_path: Path) -> None:
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, dead_url())])
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, dead_url())])
    waiting = kept_in(tmp_path)
    emitter = an_emitter(plan, live.url, live.api_key)

    await asyncio.to_thread(a_run, plan, [emitter])

    stored = [json.loads(event) for event in await stored_by(live)]
    assert stored[:16] == waiting
    assert [in_short(event) for event in stored[16:]] == WHOLE_RUN
    assert kept_in(tmp_path) == []
    assert list((tmp_path / ".headgate" / "spool").iterdir()) == []
    assert (emitter.standing.earlier, emitter.standing.sent, emitter.standing.kept) == (16, 8, 0)


async def test_what_was_kept_can_be_replayed(live: Live, plan: Plan, tmp_path: Path) -> None:
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, dead_url())])
    target = ["--url", live.url, "--api-key", live.api_key, "--state", str(tmp_path / "state.json")]

    code = await asyncio.to_thread(run_command, ["replay", str(tmp_path / ".headgate" / "spool"), *target])

    assert code == 0
    assert [in_short(json.loads(event)) for event in await stored_by(live)] == WHOLE_RUN


async def test_a_server_that_goes_and_comes_back_has_every_event_once(live: Live, plan: Plan, tmp_path: Path) -> None:
    with gate_to(live.url) as gate:
        emitter = an_emitter(plan, gate.url, live.api_key)

        def shut(record: NodeRecord) -> None:
            gate.shut()

        def back(record: NodeRecord) -> None:
            gate.open()

        await asyncio.to_thread(a_run, plan, [emitter], {"orders": shut, "totals": back})

    stored = await stored_by(live)
    assert Counter(in_short(json.loads(event)) for event in stored) == Counter(WHOLE_RUN)
    assert kept_in(tmp_path) == []
    assert (emitter.standing.sent, emitter.standing.kept) == (8, 0)
    # The first failure is the last try until the end.
    assert gate.turned_away == 1


@pytest.mark.parametrize(
    "behaviour",
    [
        answering(500, "oops"),
        answering(502),
        refusing(503, "unavailable", "the queue is full"),
        refusing(429, "rate.limited", "too many"),
        refusing(401, "auth.unauthenticated", "no such key"),
        refusing(403, "auth.forbidden", "this key may not send"),
        answering(404, "<html>"),
        answering(302, Location="http://elsewhere"),
        closing,
        breaking_off,
        garbage,
    ],
    ids=["500", "502", "503", "429", "401", "403", "404", "302", "closing", "breaking-off", "garbage"],
)
def test_what_a_server_cannot_take_now_is_kept(
    plan: Plan, tmp_path: Path, behaviour: Behaviour, caplog: pytest.LogCaptureFixture
) -> None:
    with bad_server(behaviour) as server:
        emitter = an_emitter(plan, server.url)
        run = a_run(plan, [emitter])

    assert run.status is Status.published
    assert [in_short(event) for event in kept_in(tmp_path)] == WHOLE_RUN
    assert (emitter.standing.kept, emitter.standing.refused) == (8, 0)
    posted = [asked for asked in server.asked if asked.path == "/api/v1/lineage"]
    # After the first failure, at the end, only to find out whether a failure inside the server is about one event.
    assert len(posted) <= 1 + 3
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("behaviour", [hanging, dripping], ids=["hanging", "dripping"])
def test_a_server_that_does_not_answer_costs_a_run_one_wait(plan: Plan, tmp_path: Path, behaviour: Behaviour) -> None:
    with bad_server(behaviour) as server:
        began = time.monotonic()
        run = a_run(plan, [an_emitter(plan, server.url, read_s=SHORT_S, batch_s=SHORT_S)])
        took_s = time.monotonic() - began

    assert run.status is Status.published
    assert len(kept_in(tmp_path)) == 8
    assert len(server.asked) == 2
    assert took_s < 2 * (SHORT_S + 3) + 2


def test_a_refused_event_is_kept_aside_with_the_reason_and_the_others_go_on(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def choosy(server: BadServer, connection: object, asked: Asked) -> bool:
        is_test = b".tests" in asked.body
        answer = refusing(422, "fields.invalid", "job.name: is odd") if is_test else answering(201, "{}")
        return answer(server, connection, asked)  # type: ignore[arg-type]

    with bad_server(choosy) as server:
        emitter = an_emitter(plan, server.url)
        run = a_run(plan, [emitter])

    assert (emitter.standing.sent, emitter.standing.refused, emitter.standing.kept) == (6, 2, 0)
    assert kept_in(tmp_path) == []
    lines = (tmp_path / ".headgate" / "refused" / f"{run.run_id}.ndjson").read_bytes().splitlines()
    refused = [json.loads(line) for line in lines]
    assert [in_short(each["event"]) for each in refused] == WHOLE_RUN[2:4]
    assert "job.name: is odd" in refused[0]["reason"]
    (told,) = warnings(caplog)
    assert "job.name: is odd" in told


async def test_of_what_was_kept_only_refused_events_stay_behind(live: Live, plan: Plan, tmp_path: Path) -> None:
    good = json.dumps(an_event()).encode()
    bad = json.dumps(an_event() | {"eventTime": "yesterday"}).encode()
    spool = tmp_path / ".headgate" / "spool"
    spool.mkdir(parents=True)
    (spool / "0.ndjson").write_bytes(good + b"\n" + bad + b"\n" + good[:40])

    emitter = an_emitter(plan, live.url, live.api_key)
    run = await asyncio.to_thread(a_run, plan, [emitter])

    assert list(spool.iterdir()) == []
    assert emitter.standing.earlier == 1
    lines = (tmp_path / ".headgate" / "refused" / f"{run.run_id}.ndjson").read_bytes().splitlines()
    refused = [json.loads(line) for line in lines]
    assert refused[0]["event"] == good[:40].decode()
    assert refused[1]["event"]["eventTime"] == "yesterday"
    assert "eventTime" in refused[1]["reason"]


def test_an_event_that_the_server_breaks_on_does_not_hold_up_the_others(plan: Plan, tmp_path: Path) -> None:
    def brittle(server: BadServer, connection: object, asked: Asked) -> bool:
        is_broken = asked.path.endswith("/batch") or (b".tests" in asked.body and b"COMPLETE" in asked.body)
        answer = answering(500, "oops") if is_broken else answering(201, "{}")
        return answer(server, connection, asked)  # type: ignore[arg-type]

    a_run(plan, [an_emitter(plan, dead_url())])
    with bad_server(brittle) as server:
        emitter = an_emitter(plan, server.url)
        run = a_run(plan, [emitter])

    assert (emitter.standing.earlier, emitter.standing.sent, emitter.standing.refused) == (7, 7, 2)
    assert kept_in(tmp_path) == []
    assert len((tmp_path / ".headgate" / "refused" / f"{run.run_id}.ndjson").read_bytes().splitlines()) == 2


async def test_what_a_run_at_work_has_kept_is_left_to_it(live: Live, plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / ".headgate" / "spool" / "0-other.ndjson"
    other = SpoolFile(path)
    other.append(json.dumps(an_event()).encode())

    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])
    assert path.exists()
    assert len(await stored_by(live)) == 8

    other.close(delete=False)
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])
    assert not path.exists()
    assert len(await stored_by(live)) == 17


def test_a_full_disk_is_told_and_the_run_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tiny_disk(tmp_path / "small", 64) as folder:
        if folder is None:
            lacking("a file system can be mounted only as root")
        plan = a_plan(folder)
        emitter = an_emitter(plan, dead_url())
        room = os.statvfs(folder)
        (folder / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_frsize - 8192))

        run = a_run(plan, [emitter])

        kept = [json.loads(line) for file in folder.rglob("*.ndjson") for line in file.read_bytes().splitlines()]
    assert run.status is Status.published
    assert 0 < len(kept) < 8
    assert (emitter.standing.kept, emitter.standing.lost) == (len(kept), 8 - len(kept))
    assert any("No space left" in text or "disk is full" in text for text in warnings(caplog))
    assert len(warnings(caplog)) == 2


async def test_a_disk_that_takes_nothing_does_not_keep_events_from_the_server(
    live: Live, plan: Plan, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    outbox = Outbox(live.url, live.api_key, tmp_path / "file" / "spool", tmp_path / "file" / "refused")

    outbox.begin("run")
    outbox.send(json.dumps(an_event()).encode())
    outbox.finish()

    assert (outbox.standing.sent, outbox.standing.lost) == (1, 0)
    assert len(await stored_by(live)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.support.pipeline_runs import a_plan, a_run, an_emitter

plan = a_plan(Path(sys.argv[1]))
kill = lambda record: os.kill(os.getpid(), signal.SIGKILL)
a_run(plan, [an_emitter(plan, sys.argv[2], sys.argv[3], read_s=60)], {"totals": kill})
"""


def killed(folder: Path, url: str, api_key: str = "none") -> None:
    """A run in a process of its own that is killed while its second node is at work."""
    command = [sys.executable, "-c", KILLED, str(folder), url, api_key]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


async def test_a_killed_run_has_lost_nothing_of_what_it_had_to_tell(live: Live, plan: Plan, tmp_path: Path) -> None:
    await asyncio.to_thread(killed, tmp_path, dead_url())
    assert [in_short(event) for event in kept_in(tmp_path)] == WHOLE_RUN[:6]

    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])

    stored = [in_short(json.loads(event)) for event in await stored_by(live)]
    assert stored == WHOLE_RUN[:6] + WHOLE_RUN


async def test_a_killed_run_is_not_told_twice(live: Live, plan: Plan, tmp_path: Path) -> None:
    await asyncio.to_thread(killed, tmp_path, live.url, live.api_key)
    assert len(await stored_by(live)) == 6

    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])

    stored = [in_short(json.loads(event)) for event in await stored_by(live)]
    assert stored == WHOLE_RUN[:6] + WHOLE_RUN
    assert kept_in(tmp_path) == []


def test_a_run_that_is_killed_while_it_waits_for_the_server_has_kept_the_event(tmp_path: Path) -> None:
    with bad_server(hanging) as server:
        command = [sys.executable, "-c", KILLED, str(tmp_path), server.url, "none"]
        process = subprocess.Popen(command, env=environment())
        wait_until(lambda: server.asked, 30, "a request")
        process.kill()
        process.wait()

    assert [in_short(event) for event in kept_in(tmp_path)] == [("daily", "START")]


@pytest.fixture
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    # The database of root runs as somebody else.
    for each in (folder, *folder.parents[:2]):
        each.chmod(0o755)
    up = Up(folder)
    yield up
    up.remove()


@pytest.mark.slow
def test_a_server_that_is_killed_and_started_again_in_the_middle_of_a_run_has_every_event_once(
    up: Up, plan: Plan, tmp_path: Path
) -> None:
    up.start().await_ready()
    port, known = up.port(), up.credentials()
    emitter = an_emitter(plan, known["url"], known["api_key"])

    def kill(record: NodeRecord) -> None:
        up.signal_group(signal.SIGKILL)
        up.process.wait()

    def start(record: NodeRecord) -> None:
        up.start(port=port).await_ready()

    a_run(plan, [emitter], {"orders": kill, "totals": start})

    with up.client() as client:
        stored = list(client.each(events(outcome="accepted")))
        assert len(client.pipeline_runs("shop", "daily").items) == 1
    assert Counter((each["job"]["name"], each["event_type"]) for each in stored) == Counter(WHOLE_RUN)
    assert (emitter.standing.sent, emitter.standing.kept, emitter.standing.lost) == (8, 0, 0)
    assert kept_in(tmp_path) == []
