"""How the agent's events reach a server: batches, patience, what is kept and what is given up."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import pytest

from tests.spark.deliveries import (
    held_server,
    numbered,
    sender_cpu_ms,
    sender_threads,
    states,
    until_turned_away,
)
from tests.support.agent_jvm import AgentJvm, Counted, Sending
from tests.support.bad_servers import (
    HTML,
    Asked,
    BadServer,
    Behaviour,
    answering,
    bad_server,
    breaking_off,
    closing,
    dead_url,
    dealt,
    dripping,
    garbage,
    gate_to,
    hanging,
    taking,
)
from tests.support.events import a_run_id, an_event
from tests.support.live import Live


def broken_until_told(agent: AgentJvm, server: BadServer, **settings: object) -> Sending:
    """A transport that has given this server up for the time being."""
    sending = agent.sending(url=server.url, **settings)
    sending.send({"n": -1})
    until_turned_away(server, 3)
    return sending


def test_a_real_server_gets_packed_batches_with_the_key(agent: AgentJvm, watching_server: Live) -> None:
    runs = [a_run_id() for _ in range(30)]
    before = len(watching_server.answers)
    sending = agent.sending(url=f"{watching_server.url}/api/v1/lineage", apiKey=watching_server.api_key)
    sending.send(*(an_event(run=run) for run in runs))
    assert sending.flush()
    assert sending.close() == Counted(sent=30, retried=0, spooled=0, dropped=0)
    assert {(each.path, each.encoding, each.status) for each in watching_server.answers[before:]} == {
        ("/api/v1/lineage/batch", "gzip", 200)
    }
    assert set(states(watching_server, runs)) == {"COMPLETE"}


def test_events_that_come_together_go_together_and_in_order(agent: AgentJvm) -> None:
    with held_server(agent) as (server, sending, go_on):
        sending.send(*numbered(1199, start=1))
        go_on.set()
        assert sending.flush()
        assert server.events == numbered(1200)
        assert [len(asked.events) for asked in server.asked] == [1, 500, 500, 199]
        assert server.asked[0].headers["authorization"] == "Bearer sesame"
        assert len(server.connections) == 1


def test_a_batch_is_no_larger_than_a_mebibyte_unless_one_event_is(agent: AgentJvm) -> None:
    large, small = {"text": "x" * 1_500_000}, {"text": "y" * 300_000}
    with held_server(agent) as (server, sending, go_on):
        sending.send(*[small] * 4, large, *[small] * 2)
        go_on.set()
        assert sending.flush()
        assert [len(asked.events) for asked in server.asked] == [1, 3, 1, 1, 2]
        assert server.events == [{"n": 0}, *[small] * 4, large, *[small] * 2]


def test_flush_waits_for_what_came_before_it_and_not_for_what_follows(agent: AgentJvm) -> None:
    with held_server(agent) as (server, sending, go_on), ThreadPoolExecutor(1) as threads:
        flushed = threads.submit(sending.flush, 8000)
        time.sleep(0.5)
        assert not flushed.done()
        sending.send({"n": 1})
        server.behaviour = hanging
        began = time.monotonic()
        go_on.set()
        assert flushed.result()
        assert time.monotonic() - began < 4
        assert not sending.flush(300)
        sending.close(0)


def test_nothing_is_lost_when_the_server_comes_back(agent: AgentJvm, watching_server: Live) -> None:
    runs = [a_run_id() for _ in range(40)]
    with gate_to(watching_server.url) as gate:
        gate.shut()
        sending = agent.sending(url=gate.url, apiKey=watching_server.api_key)
        sending.send(*(an_event(run=run) for run in runs[:20]))
        assert not sending.flush(5000)
        sending.send(*(an_event(run=run) for run in runs[20:]))
        gate.open()
        assert sending.flush()
        counted = sending.close()
    assert gate.turned_away == 3
    assert counted == Counted(sent=40, retried=counted.retried, spooled=0, dropped=0)
    assert counted.retried >= 3
    assert set(states(watching_server, runs)) == {"COMPLETE"}


def test_the_oldest_are_dropped_and_counted_when_the_backlog_is_full(log: AgentJvm) -> None:
    with bad_server(closing) as server:
        sending = broken_until_told(log, server, queueSize=10)
        sending.send(*numbered(25))
        server.behaviour, asked = taking, len(server.asked)
        assert sending.flush()
        assert [event["n"] for each in server.asked[asked:] for event in each.events] == list(range(15, 25))
        assert sending.close() == Counted(sent=10, retried=3, spooled=0, dropped=16)
    told = log.new_log()
    assert [line.count("queueSize") for line in told] == [0, 1], told


def test_large_events_are_bounded_by_their_bytes(agent: AgentJvm) -> None:
    with bad_server(closing) as server:
        sending = broken_until_told(agent, server)
        event = json.dumps({"text": "x" * 4_000_000}).encode()
        for _ in range(20):
            sending.send(event)
        server.behaviour = taking
        assert sending.flush(20_000)
        counted = sending.close()
    assert counted.sent == 16  # 64 MiB hold sixteen of these
    assert counted.dropped == 5


def test_events_that_the_server_refuses_are_dropped_and_the_first_reason_is_told(
    log: AgentJvm, watching_server: Live
) -> None:
    runs = [a_run_id(), a_run_id()]
    timeless = {key: value for key, value in an_event().items() if key != "eventTime"}
    sending = log.sending(url=watching_server.url, apiKey=watching_server.api_key)
    sending.send(an_event(run=runs[0]), timeless, timeless, an_event(run=runs[1]))
    assert sending.flush()
    assert sending.close() == Counted(sent=2, retried=0, spooled=0, dropped=2)
    assert states(watching_server, runs) == ["COMPLETE", "COMPLETE"]
    [line] = log.new_log()
    assert "refused an event" in line
    assert "eventTime" in line


def test_a_batch_that_is_too_large_for_the_server_is_halved(agent: AgentJvm) -> None:
    def narrow(server: BadServer, connection: socket, asked: Asked) -> bool:
        behaviour = taking if len(asked.events) <= 30 else answering(413, HTML)
        return behaviour(server, connection, asked)

    with bad_server(narrow) as server:
        sending = agent.sending(url=server.url)
        sending.send(*numbered(100))
        assert sending.flush()
        counted = sending.close()
        taken = [event["n"] for asked in server.asked if len(asked.events) <= 30 for event in asked.events]
    assert taken == list(range(100))
    assert (counted.sent, counted.dropped) == (100, 0)


def test_an_event_that_is_too_large_for_the_server_is_dropped_and_its_size_told_once(log: AgentJvm) -> None:
    def narrow(server: BadServer, connection: socket, asked: Asked) -> bool:
        behaviour = answering(413, HTML) if any("text" in event for event in asked.events) else taking
        return behaviour(server, connection, asked)

    large = json.dumps({"text": "x" * 70_000}).encode()
    with bad_server(narrow) as server:
        sending = log.sending(url=server.url)
        sending.send({"n": 0}, large, {"n": 1}, large)
        assert sending.flush()
        counted = sending.close()
    assert (counted.sent, counted.dropped) == (2, 2)
    [line] = log.new_log()
    assert f"refused an event of {len(large)} bytes" in line


def test_one_event_that_no_server_can_read_does_not_hold_back_the_others(log: AgentJvm, watching_server: Live) -> None:
    runs = [a_run_id() for _ in range(9)]
    events = [json.dumps(an_event(run=run)).encode() for run in runs]
    sending = log.sending(url=watching_server.url, apiKey=watching_server.api_key)
    sending.send(*events[:4], b'{"half": ', *events[4:])
    assert sending.flush()
    counted = sending.close()
    assert (counted.sent, counted.dropped) == (9, 1)
    assert set(states(watching_server, runs)) == {"COMPLETE"}
    assert len(log.new_log()) == 1


def test_events_that_the_server_could_not_store_now_are_sent_again(agent: AgentJvm) -> None:
    def half(server: BadServer, connection: socket, asked: Asked) -> bool:
        failed = [{"index": 1, "reason": "busy", "retriable": True}] if len(server.asked) == 1 else []
        return answering(207 if failed else 200, dealt(len(asked.events), failed))(server, connection, asked)

    with bad_server(half) as server:
        sending = agent.sending(url=server.url)
        sending.send(*numbered(3))
        assert sending.flush()
        assert [asked.events for asked in server.asked] == [numbered(3), [{"n": 1}]]
        assert sending.close() == Counted(sent=3, retried=1, spooled=0, dropped=0)


def test_a_server_that_asks_for_time_gets_it(agent: AgentJvm) -> None:
    with bad_server(answering(429, "", Retry_After="1")) as server:
        sending = agent.sending(url=server.url)
        began = time.monotonic()
        sending.send({"n": 1})
        until_turned_away(server, 1)
        server.behaviour = taking
        assert sending.flush()
        assert time.monotonic() - began >= 1
        assert sending.close() == Counted(sent=1, retried=1, spooled=0, dropped=0)


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (answering(401), "does not know the key; set spark.headgate.apiKey or HEADGATE_API_KEY to a valid one"),
        (answering(403), "does not let this key send events; give it the scope ingest, or set another key"),
        (answering(404, HTML), "answered 404; set spark.headgate.url to the address of a Headgate server"),
        (answering(302, Location="http://127.0.0.1:1/"), "answered 302; set spark.headgate.url"),
        (answering(200, HTML), "answered 200 without saying what became of the events; set spark.headgate.url"),
        (answering(400, HTML), "answered 400 without a reason; set spark.headgate.url"),
    ],
    ids=["401", "403", "404", "redirect", "another server", "a proxy"],
)
def test_a_wrong_setting_is_told_once_with_the_way_out_and_not_tried_on_and_on(
    log: AgentJvm, behaviour: Behaviour, told: str
) -> None:
    with bad_server(behaviour) as server:
        sending = log.sending(url=server.url, apiKey="sesame")
        sending.send({"n": 1})
        until_turned_away(server, 1)
        sending.send({"n": 2})
        time.sleep(0.7)
        assert len(server.asked) == 1
        assert not sending.flush(5000)
        assert sending.close() == Counted(sent=0, retried=2, spooled=0, dropped=2)
        assert len(server.asked) == 3
    [line] = log.new_log()
    assert told in line
    assert "sesame" not in line


@pytest.mark.parametrize(
    "behaviour",
    [answering(500), answering(503, Retry_After="1"), closing, breaking_off, garbage],
    ids=["500", "503", "closing", "breaking off", "garbage"],
)
def test_a_broken_server_is_asked_three_times_and_then_left_alone(log: AgentJvm, behaviour: Behaviour) -> None:
    with bad_server(behaviour) as server:
        sending = log.sending(url=server.url)
        sending.send({"n": 1})
        until_turned_away(server, 3)
        sending.send({"n": 2})
        time.sleep(0.5)
        assert len(server.asked) == 3
        counted, seconds = sending.timed_close(30_000)
        assert counted == Counted(sent=0, retried=3, spooled=0, dropped=2)
        assert seconds < 5
        assert len(server.asked) == 4
    assert len(log.new_log()) == 1


@pytest.mark.parametrize("behaviour", [hanging, dripping])
def test_a_server_that_hangs_cannot_hold_up_flush_or_close(log: AgentJvm, behaviour: Behaviour) -> None:
    with bad_server(behaviour) as server:
        sending = log.sending(url=server.url, readTimeoutMs=60_000)
        sending.send(*numbered(3))
        until_turned_away(server, 1)
        began = time.monotonic()
        assert not sending.flush(300)
        assert 0.25 < time.monotonic() - began < 3
        sending.send({"n": 4})
        counted, seconds = sending.timed_close(1000)
        assert seconds < 3
        assert counted == Counted(sent=0, retried=0, spooled=0, dropped=4)
    assert len(log.new_log()) == 1


def test_closing_waits_no_longer_for_a_server_that_hangs_than_one_answer_may_take(agent: AgentJvm) -> None:
    with bad_server(hanging) as server:
        sending = agent.sending(url=server.url, readTimeoutMs=500)
        sending.send({"n": 1})
        counted, seconds = sending.timed_close(30_000)
    assert counted.dropped == 1
    assert seconds < 4


def test_no_thread_of_a_closed_transport_stays(agent: AgentJvm) -> None:
    before = sender_threads(agent)
    with bad_server(hanging) as server:
        sending = agent.sending(url=server.url, readTimeoutMs=60_000)
        sending.send({"n": 1})
        until_turned_away(server, 1)
        assert sender_threads(agent) == before + 1
        sending.close(200)
        deadline = time.monotonic() + 5
        while sender_threads(agent) > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sender_threads(agent) == before


def test_a_dead_server_costs_no_processor_time(agent: AgentJvm) -> None:
    sending = agent.sending(url=dead_url())
    sending.send(*numbered(2000))
    assert not sending.flush(5000)
    before = sender_cpu_ms(agent)
    for _ in range(20):
        sending.send({"n": 1})
        time.sleep(0.05)
    assert sender_cpu_ms(agent) - before < 100
    sending.close()


def test_events_after_the_end_are_counted_as_dropped(agent: AgentJvm) -> None:
    with bad_server(taking) as server:
        sending = agent.sending(url=server.url)
        sending.send({"n": 1})
        assert sending.close().sent == 1
        sending.send({"n": 2})
        assert sending.close(0) == Counted(sent=1, retried=0, spooled=0, dropped=1)
        assert server.events == [{"n": 1}]
