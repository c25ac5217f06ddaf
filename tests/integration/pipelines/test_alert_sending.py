"""Alerts over real sockets: taken, refused, late, or to nobody; and never a word of the URL."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from headgate.pipelines.alerts.send import Answer, Dispatcher, Outcome, Sent, post
from headgate.pipelines.alerts.throttle import Throttle
from headgate.pipelines.config.alerts import AlertConfig, AlertEvent
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
    hanging,
)
from tests.support.channels import SECRET, a_channel, an_alert, every_alert, slack_problems, teams_problems

PATH = f"/services/{SECRET}?sig=qu3rys3cr3t"
SECRETS = (*SECRET.split("/"), "qu3rys3cr3t", "h3ad3rs3cr3t", "p4ssw0rds3cr3t")
OK = answering(200, "ok")
SHORT_S = 0.5


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other; the last one stays."""

    def answer(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
        return behaviours[min(len(server.asked), len(behaviours)) - 1](server, connection, asked)

    return answer


def echoing(status: int) -> Behaviour:
    """Repeats all that it was told, as helpful servers do."""

    def answer(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
        return answering(status, f"cannot post to {asked.path} with {asked.headers}")(server, connection, asked)

    return answer


def channel_to(server: BadServer | str, kind: str = "slack", **metadata: Any) -> AlertConfig:
    url = server if isinstance(server, str) else server.url
    return a_channel(kind, url=url + PATH, metadata={"throttle_minutes": 0, **metadata})


def posted(server: BadServer | str, kind: str = "slack", timeout_s: float = SHORT_S, **metadata: Any) -> Answer:
    return post(an_alert(), channel_to(server, kind, **metadata), timeout_s=timeout_s, sleep=lambda _: None)


@pytest.fixture(autouse=True)
def logged() -> Iterator[StringIO]:
    """Whatever a test here does, no library logs a part of a URL, at any level."""
    text = StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    assert not any(secret in text.getvalue() for secret in SECRETS)


def shows_no_secret(*things: object) -> bool:
    return not any(secret in f"{thing!r} {thing}" for thing in things for secret in SECRETS)


def test_slack_takes_a_message() -> None:
    with bad_server(OK) as server:
        assert posted(server) == Answer(status_code=200)
    [asked] = server.asked
    assert asked.path == PATH
    assert asked.headers["content-type"] == "application/json; charset=utf-8"
    assert asked.headers["user-agent"].startswith("headgate/")
    assert slack_problems(json.loads(asked.body)) == []


@pytest.mark.parametrize("event", list(AlertEvent))
@pytest.mark.parametrize("kind", ["slack", "teams", "webhook"])
def test_every_event_reaches_every_kind_of_channel(event: AlertEvent, kind: str) -> None:
    with bad_server(OK) as server:
        assert post(every_alert()[event], channel_to(server, kind)).reason is None
    body = json.loads(server.asked[0].body)
    problems = {"slack": slack_problems, "teams": teams_problems, "webhook": lambda found: []}
    assert problems[kind](body) == []
    assert str(event) in json.dumps(body)


def test_a_workflow_of_teams_answers_202_and_nothing_more() -> None:
    with bad_server(answering(202)) as server:
        assert posted(server, "teams") == Answer(status_code=202)


def test_an_error_of_teams_in_a_good_answer_is_a_failure() -> None:
    text = "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413"
    with bad_server(answering(200, text)) as server:
        assert "HTTP error 413" in str(posted(server, "teams").reason)


@pytest.mark.parametrize("body", ['{"ok": true}', " OK\n", '{"success":true}'])
def test_what_speaks_slacks_language_may_say_ok_in_its_own_way(body: str) -> None:
    with bad_server(answering(200, body)) as server:
        assert posted(server).reason is None


@pytest.mark.parametrize("body", ["", "<html>Please log in</html>", '{"ok": false, "error": "no_text"}'])
def test_a_good_status_without_an_ok_is_a_failure_in_slack(body: str) -> None:
    with bad_server(answering(200, body)) as server:
        answer = posted(server)
    assert str(answer.reason).startswith("answered 200, but did not take the message")
    assert len(server.asked) == 1


def test_a_webhook_takes_any_answer_and_gets_its_headers() -> None:
    with bad_server(answering(204)) as server:
        answer = posted(server, "webhook", headers={"Authorization": "Bearer h3ad3rs3cr3t"})
    assert answer == Answer(status_code=204)
    assert server.asked[0].headers["authorization"] == "Bearer h3ad3rs3cr3t"


def test_headers_are_for_webhooks_only() -> None:
    with bad_server(OK) as server:
        posted(server, headers={"X-Token": "h3ad3rs3cr3t"})
    assert "x-token" not in server.asked[0].headers


def test_a_channel_behind_a_proxy_is_asked_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with bad_server(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        assert posted("http://hooks.invalid").reason is None
    assert proxy.asked[0].path == "http://hooks.invalid" + PATH


def test_name_and_password_of_a_url_are_sent_and_not_said() -> None:
    with bad_server(OK) as server:
        answer = posted(server.url.replace("http://", "http://me:p4ssw0rds3cr3t@"))
    assert answer.reason is None
    assert server.asked[0].headers["authorization"].startswith("Basic ")


def test_a_channel_that_was_not_well_is_asked_once_more() -> None:
    with bad_server(in_turn(answering(500, "oops"), OK)) as server:
        assert posted(server) == Answer(status_code=200)
    assert len(server.asked) == 2
    assert server.asked[0].body == server.asked[1].body


def test_a_channel_that_stays_unwell_is_given_up_with_its_words() -> None:
    with bad_server(answering(500, "oops")) as server:
        answer = posted(server)
    assert (answer.reason, answer.status_code) == ("answered 500: oops", 500)
    assert len(server.asked) == 2


def test_a_channel_that_asks_to_wait_is_asked_again_after_that() -> None:
    waited: list[float] = []
    with bad_server(in_turn(answering(429, "slow", Retry_After="3"), OK)) as server:
        assert post(an_alert(), channel_to(server), sleep=waited.append).reason is None
    assert waited == [3.0]


def test_nobody_is_waited_for_longer_than_a_few_seconds() -> None:
    waited: list[float] = []
    with bad_server(answering(429, "slow", Retry_After="86400")) as server:
        assert post(an_alert(), channel_to(server), sleep=waited.append).status_code == 429
    assert waited == [5.0]


def test_a_refusal_is_not_repeated() -> None:
    with bad_server(answering(404, "no_service")) as server:
        answer = posted(server)
    assert (answer.reason, answer.status_code) == ("answered 404: no_service", 404)
    assert len(server.asked) == 1


def test_redirects_are_not_followed() -> None:
    with bad_server(OK) as other, bad_server(answering(302, "", Location=other.url + "/elsewhere")) as server:
        answer = posted(server)
    assert str(answer.reason).startswith("answered 302: redirects are not followed")
    assert (len(server.asked), other.asked) == (1, [])


def test_a_channel_that_hangs_is_left_in_time_and_not_asked_twice() -> None:
    """It may have taken the message: a second one could be the same again."""
    began = time.monotonic()
    with bad_server(hanging) as server:
        answer = posted(server)
    assert answer.reason == "no answer within 0.5 s"
    assert len(server.asked) == 1
    assert time.monotonic() - began < 4


def test_an_answer_that_comes_in_drops_is_not_waited_for() -> None:
    began = time.monotonic()
    with bad_server(dripping) as server:
        assert posted(server).reason is not None
    assert time.monotonic() - began < 4


def test_nobody_there_is_told_as_such() -> None:
    assert posted(dead_url()).reason == "no connection: Connection refused"


def test_a_host_without_an_address_is_told_as_such() -> None:
    assert posted("http://nowhere.invalid").reason == "the name of its host is not known"


def test_a_channel_that_does_not_speak_tls_is_told_as_such() -> None:
    with bad_server(OK) as server:
        assert "no secure connection" in str(posted(server.url.replace("http://", "https://")).reason)


@pytest.mark.parametrize("behaviour", [closing, garbage, breaking_off])
def test_a_connection_that_breaks_is_tried_again_and_then_given_up(behaviour: Behaviour) -> None:
    with bad_server(behaviour) as server:
        assert posted(server).reason is not None
    assert len(server.asked) == 2


def test_a_connection_that_breaks_once_costs_nothing() -> None:
    with bad_server(in_turn(closing, OK)) as server:
        assert posted(server).reason is None


@pytest.mark.parametrize("url", ["http://[broken", "http://", "https://exa mple", "http://a:99999"])
def test_a_url_that_is_none_is_a_failure_and_no_error(url: str) -> None:
    assert posted(url).reason is not None


def test_a_header_that_cannot_be_sent_is_a_failure_without_its_value() -> None:
    for value in ("h3ad3rs3cr3t\n", "h3ad3rs3cr3té"):
        with bad_server(OK) as server:
            answer = posted(server, "webhook", headers={"X-Token": value})
        assert answer.reason is not None
        assert shows_no_secret(answer)


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_a_channel_that_repeats_our_secrets_is_quoted_without_them(status: int) -> None:
    with bad_server(echoing(status)) as server:
        answer = posted(server, headers={"X-Token": "h3ad3rs3cr3t"})
    assert answer.reason is not None
    assert shows_no_secret(answer)


def test_a_long_answer_is_quoted_in_part() -> None:
    with bad_server(answering(404, "x" * 100_000)) as server:
        assert len(str(posted(server).reason)) < 250


def a_dispatcher(tmp_path: Path, **options: Any) -> Dispatcher:
    return Dispatcher(Throttle(tmp_path / "alerts.json"), timeout_s=SHORT_S, **options)


def test_what_became_of_each_alert_is_known_at_the_end(tmp_path: Path) -> None:
    with bad_server(OK) as good, bad_server(answering(404, "gone")) as bad:
        dispatcher = a_dispatcher(tmp_path)
        dispatcher.tell(an_alert(), [channel_to(good, channel="#ops"), channel_to(bad, "webhook")])
        found = {each.channel_type: each for each in dispatcher.close(5)}
    assert (found["slack"].outcome, found["slack"].channel, found["slack"].status_code) == ("sent", "slack #ops", 200)
    assert (found["webhook"].outcome, found["webhook"].reason) == ("failed", "answered 404: gone")
    assert found["webhook"].channel == "webhook 127.0.0.1"
    assert found["slack"].at.tzinfo is not None
    assert msgspec.to_builtins(found["slack"])["alert"]["event"] == "on_failure"
    assert shows_no_secret(*found.values(), dispatcher)


def test_telling_takes_no_time_whatever_the_channel_does(tmp_path: Path) -> None:
    with bad_server(hanging) as server:
        dispatcher = a_dispatcher(tmp_path)
        channels = [channel_to(server), channel_to(dead_url(), "teams")]
        began = time.monotonic()
        for _ in range(50):
            dispatcher.tell(an_alert(), channels)
        took_s = time.monotonic() - began
        dispatcher.close(0)
    assert took_s < 2


def test_a_channel_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    with bad_server(hanging) as stuck, bad_server(OK) as good:
        dispatcher = Dispatcher(Throttle(tmp_path / "alerts.json"), timeout_s=30)
        for number in range(5):
            dispatcher.tell(an_alert(pipeline=f"p{number}"), [channel_to(stuck), channel_to(good, "teams")])
        began = time.monotonic()
        found = dispatcher.close(3)
    assert time.monotonic() - began < 10
    outcomes = [(each.channel_type, each.outcome) for each in found]
    assert outcomes.count(("teams", Outcome.sent)) == 5
    assert outcomes.count(("slack", Outcome.failed)) == 5
    assert {each.reason for each in found if each.channel_type == "slack"} == {
        "not sent within 3 s of the end of the run"
    }


def test_alerts_of_a_channel_arrive_in_order(tmp_path: Path) -> None:
    with bad_server(OK) as server:
        dispatcher = a_dispatcher(tmp_path)
        for number in range(10):
            dispatcher.tell(an_alert(message=f"number {number}"), [channel_to(server, "webhook", max_per_hour=100)])
        dispatcher.close(10)
    assert [json.loads(asked.body)["message"] for asked in server.asked] == [f"number {each}" for each in range(10)]


def test_what_is_told_too_often_is_throttled_also_by_the_next_run(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    with bad_server(OK) as server:
        for _ in range(2):
            dispatcher = a_dispatcher(tmp_path)
            for _ in range(2):
                dispatcher.tell(an_alert(), [channel_to(server, throttle_minutes=15)])
            found = dispatcher.close(5)
            outcomes += [each.outcome for each in found]
    assert outcomes == [Outcome.sent, Outcome.throttled, Outcome.throttled, Outcome.throttled]
    assert len(server.asked) == 1
    assert "at most every 15 min" in str(found[0].reason)


def test_a_channel_that_failed_is_tried_again_with_the_next_alert(tmp_path: Path) -> None:
    with bad_server(in_turn(answering(404, "gone"), OK)) as server:
        dispatcher = a_dispatcher(tmp_path)
        for _ in range(3):
            dispatcher.tell(an_alert(), [channel_to(server, throttle_minutes=15)])
        found = dispatcher.close(5)
    assert [each.outcome for each in found] == [Outcome.failed, Outcome.sent, Outcome.throttled]


def test_a_queue_that_is_full_takes_no_more_and_says_so(tmp_path: Path) -> None:
    with bad_server(hanging) as server:
        dispatcher = Dispatcher(Throttle(tmp_path / "alerts.json"), timeout_s=30, capacity=3)
        for _ in range(10):
            dispatcher.tell(an_alert(), [channel_to(server)])
        found = dispatcher.close(0)
    full = [each for each in found if "are waiting for this channel already" in str(each.reason)]
    assert 6 <= len(full) <= 7
    assert len(found) == 10


def test_what_is_told_after_the_end_is_a_failure(tmp_path: Path) -> None:
    with bad_server(OK) as server:
        dispatcher = a_dispatcher(tmp_path)
        dispatcher.close(1)
        dispatcher.tell(an_alert(), [channel_to(server)])
        [found] = dispatcher.close(1)
    assert (found.outcome, found.reason) == (Outcome.failed, "the run has ended")
    assert server.asked == []


def test_a_late_answer_does_not_change_what_was_said_at_the_end(tmp_path: Path) -> None:
    release = threading.Event()

    def late(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
        release.wait(10)
        return OK(server, connection, asked)

    with bad_server(late) as server:
        dispatcher = Dispatcher(Throttle(tmp_path / "alerts.json"))
        dispatcher.tell(an_alert(), [channel_to(server)])
        [first] = dispatcher.close(0.1)
        release.set()
        [second] = dispatcher.close(5)
    assert first == second
    assert first.outcome is Outcome.failed


def test_nothing_is_sent_once_the_run_has_given_up(tmp_path: Path) -> None:
    release = threading.Event()

    def late(server: BadServer, connection: socket.socket, asked: Asked) -> bool:
        release.wait(10)
        return OK(server, connection, asked)

    with bad_server(late) as server:
        dispatcher = Dispatcher(Throttle(tmp_path / "alerts.json"))
        for _ in range(3):
            dispatcher.tell(an_alert(), [channel_to(server)])
        while not server.asked:
            time.sleep(0.01)
        dispatcher.close(0)
        release.set()
        dispatcher.close(5)
    assert len(server.asked) == 1


def test_a_redirect_that_repeats_the_path_is_not_logged() -> None:
    with bad_server(answering(301, "", Location="https://elsewhere.example" + PATH)) as server:
        assert shows_no_secret(posted(server))


def test_what_others_ask_meanwhile_is_logged_as_ever(logged: StringIO) -> None:
    with bad_server(OK) as server:
        posted(server)
        httpx.get(server.url + "/public")
    assert f"HTTP Request: GET {server.url}/public" in logged.getvalue()
    assert "HTTP Request: POST" not in logged.getvalue()


def test_failures_are_logged_with_the_label_only(tmp_path: Path, logged: StringIO) -> None:
    dispatcher = a_dispatcher(tmp_path)
    dispatcher.tell(an_alert(), [channel_to(dead_url())])
    [sent] = dispatcher.close(5)
    assert isinstance(sent, Sent)
    expected = "alert on_failure of silver did not reach slack 127.0.0.1: no connection: Connection refused"
    assert expected in logged.getvalue()
