"""Alerts on their way: posted beside the run, so that a dead channel costs it nothing.

The URL of a channel and the headers of a webhook are secrets: no log, no error and no result says them.
"""

from __future__ import annotations

import itertools
import logging
import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import httpx
from msgspec import Struct

from headgate.messages import slack, teams
from headgate.messages.failures import in_words
from headgate.messages.silence import unlogged
from headgate.messages.text import masked
from headgate.pipelines.alerts.channels import key_of, label_of
from headgate.pipelines.alerts.events import Alert
from headgate.pipelines.alerts.payloads import VERSION, encoded, payload_of
from headgate.pipelines.alerts.throttle import Limits, Throttle, subject_of
from headgate.pipelines.config.alerts import AlertConfig

TIMEOUT_S = 5.0
CAPACITY = 100
_PAUSE_S = 0.5
_MAX_ANSWER = 4096
_MAX_QUOTED = 200

# It never arrived, or the connection broke: unlike a late answer, not a message that may have been taken.
_BROKEN = (httpx.NetworkError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.RemoteProtocolError, httpx.ProxyError)

_log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """What became of an alert in a channel."""

    sent = "sent"
    throttled = "throttled"
    failed = "failed"


class Sent(Struct, frozen=True):
    """What became of one alert in one channel, and why."""

    alert: Alert
    channel_type: str
    channel: str
    outcome: Outcome
    at: datetime
    reason: str | None = None
    status_code: int | None = None


class Answer(NamedTuple):
    """What a channel said. Without a reason, it took the message."""

    reason: str | None = None
    status_code: int | None = None
    may_repeat: bool = False
    pause_s: float = _PAUSE_S


def post(
    alert: Alert,
    channel: AlertConfig,
    *,
    timeout_s: float = TIMEOUT_S,
    sleep: Callable[[float], object] = time.sleep,
) -> Answer:
    """Post the alert, once more if the channel was not there or not well; never raises."""
    try:
        content = encoded(payload_of(alert, channel))
        with unlogged(), httpx.Client(timeout=timeout_s, follow_redirects=False, verify=_tls()) as client:
            answer = _post_once(client, channel, content)
            if answer.may_repeat:
                sleep(answer.pause_s)
                answer = _post_once(client, channel, content)
    except Exception as error:  # whatever breaks an alert must not break the run; errors quote URLs and headers
        return Answer(f"the message could not be posted ({type(error).__name__})")
    return answer


@cache
def _tls() -> ssl.SSLContext:
    """Reading the certificates takes longer than a message."""
    return httpx.create_ssl_context()


def _post_once(client: httpx.Client, channel: AlertConfig, content: bytes) -> Answer:
    try:
        url = httpx.URL(channel.url.get_secret_value())
    except httpx.InvalidURL:
        return Answer("the url of the channel is no valid URL")
    try:
        return _exchange(client, channel, url, content)
    except httpx.TimeoutException as error:
        seconds = client.timeout.read or TIMEOUT_S
        return Answer(f"no answer within {seconds:g} s", may_repeat=isinstance(error, _BROKEN))
    except httpx.TransportError as error:
        return Answer(in_words(error), may_repeat=isinstance(error, _BROKEN))


def _exchange(client: httpx.Client, channel: AlertConfig, url: httpx.URL, content: bytes) -> Answer:
    request = client.build_request("POST", url, content=content, headers=_headers(channel))
    response = client.send(request, stream=True)
    try:
        body = _beginning(response, client.timeout.read or TIMEOUT_S)
    finally:
        response.close()
    return _judged(channel, response, body)


def _headers(channel: AlertConfig) -> dict[str, str]:
    own = channel.metadata.headers if channel.type == "webhook" else {}
    # Teams makes the message twice as large if the encoding is not said.
    return {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"headgate/{VERSION}",
        **{name: value.get_secret_value() for name, value in own.items()},
    }


def _beginning(response: httpx.Response, patience_s: float) -> str:
    """The beginning of the answer; one that comes in drops is not waited for."""
    deadline = time.monotonic() + patience_s
    found = b""
    for part in response.iter_bytes():
        found += part
        if len(found) >= _MAX_ANSWER or time.monotonic() > deadline:
            break
    return found[:_MAX_ANSWER].decode("utf-8", "replace")


def _judged(channel: AlertConfig, response: httpx.Response, body: str) -> Answer:
    code = response.status_code
    if response.is_redirect:
        return Answer(f"answered {code}: redirects are not followed, use the URL that it leads to", code)
    if not response.is_success:
        again = code >= 500 or code == 429
        return Answer(f"answered {code}{_quoted(channel, body)}", code, may_repeat=again, pause_s=_pause_s(response))
    if not _TAKES[channel.type](body):
        return Answer(f"answered {code}, but did not take the message{_quoted(channel, body)}", code)
    return Answer(status_code=code)


_TAKES: dict[str, Callable[[str], bool]] = {
    "slack": slack.is_taken,
    "teams": teams.is_taken,
    "webhook": lambda body: True,
}


def _pause_s(response: httpx.Response) -> float:
    wished = response.headers.get("Retry-After", "")
    return min(float(wished), TIMEOUT_S) if wished.isdigit() else _PAUSE_S


def _quoted(channel: AlertConfig, body: str) -> str:
    """What the channel said, without what it repeats of our secrets."""
    line = masked(" ".join(body.split()), _secrets(channel))
    short = line if len(line) <= _MAX_QUOTED else line[: _MAX_QUOTED - 1] + "…"
    return f": {short}" if short else ""


def _secrets(channel: AlertConfig) -> Iterator[str]:
    url = httpx.URL(channel.url.get_secret_value())
    values = [header.get_secret_value() for header in channel.metadata.headers.values()]
    parts = [*url.raw_path.decode().replace("?", "/").replace("&", "/").replace("=", "/").split("/")]
    found = [str(url), channel.url.get_secret_value(), url.raw_path.decode(), url.password, *values, *parts]
    found += [word for value in values for word in value.split()]
    return iter(found)


class _Job(NamedTuple):
    number: int
    alert: Alert
    channel: AlertConfig


class _Lane(NamedTuple):
    """The way to one channel: its own thread, so that a channel that hangs holds up no other."""

    thread: threading.Thread
    waiting: queue.Queue[_Job | None]


class Dispatcher:
    """Takes alerts without delay and sends them in the background; says at the end what became of each."""

    def __init__(
        self,
        throttle: Throttle,
        *,
        capacity: int = CAPACITY,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._throttle = throttle
        self._capacity = capacity
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._lanes: dict[str, _Lane] = {}
        self._pending: dict[int, _Job] = {}
        self._sent: list[Sent] = []
        self._is_closed = False
        self._given_up = threading.Event()

    def tell(self, alert: Alert, channels: Sequence[AlertConfig]) -> None:
        """Send the alert to the channels, later; never waits and never raises."""
        for channel in channels:
            job = _Job(next(self._numbers), alert, channel)
            if (reason := self._enqueue(job)) is not None:
                self._settle(job, Outcome.failed, reason)

    def close(self, timeout_s: float) -> list[Sent]:
        """Wait so long for what is under way; what became of every alert, those that did not make it included."""
        with self._lock:
            self._is_closed = True
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.waiting.put(None)
        deadline = time.monotonic() + timeout_s
        for lane in lanes:
            lane.thread.join(max(0.0, deadline - time.monotonic()))
        self._given_up.set()
        with self._lock:
            left = list(self._pending.values())
        for job in left:
            self._settle(job, Outcome.failed, f"not sent within {timeout_s:g} s of the end of the run")
        with self._lock:
            return list(self._sent)

    def _enqueue(self, job: _Job) -> str | None:
        with self._lock:
            self._pending[job.number] = job
            if self._is_closed:
                return "the run has ended"
            lane = self._lane(job.channel)
            if lane.waiting.qsize() >= self._capacity:
                return f"{self._capacity} alerts are waiting for this channel already"
            lane.waiting.put(job)
        return None

    def _lane(self, channel: AlertConfig) -> _Lane:
        key = key_of(channel)
        if key not in self._lanes:
            waiting: queue.Queue[_Job | None] = queue.Queue()
            thread = threading.Thread(target=self._work, args=(waiting,), name=f"alerts-{channel.type}", daemon=True)
            self._lanes[key] = _Lane(thread, waiting)
            thread.start()
        return self._lanes[key]

    def _work(self, waiting: queue.Queue[_Job | None]) -> None:
        while (job := waiting.get()) is not None and not self._given_up.is_set():
            try:
                self._deal(job)
            except Exception as error:  # the next alert must find this thread alive
                self._settle(job, Outcome.failed, f"the message could not be sent ({type(error).__name__})")

    def _deal(self, job: _Job) -> None:
        subject = subject_of(job.alert, job.channel)
        reason = self._throttle.admit(subject, Limits.of(job.channel))
        if reason is not None:
            self._settle(job, Outcome.throttled, reason)
            return
        answer = post(job.alert, job.channel, timeout_s=self._timeout_s, sleep=self._given_up.wait)
        if answer.reason is not None:
            self._throttle.release(subject)
        outcome = Outcome.sent if answer.reason is None else Outcome.failed
        self._settle(job, outcome, answer.reason, answer.status_code)

    def _settle(self, job: _Job, outcome: Outcome, reason: str | None, status_code: int | None = None) -> None:
        """The first word on a job counts: it may be given up while its answer is on the way."""
        with self._lock:
            if self._pending.pop(job.number, None) is None:
                return
            sent = Sent(job.alert, job.channel.type, label_of(job.channel), outcome, self._clock(), reason, status_code)
            self._sent.append(sent)
        _report(sent)


def _report(sent: Sent) -> None:
    facts: tuple[Any, ...] = (sent.alert.event, sent.alert.pipeline, sent.channel)
    if sent.outcome is Outcome.failed:
        _log.warning("alert %s of %s did not reach %s: %s", *facts, sent.reason)
    elif sent.outcome is Outcome.throttled:
        _log.info("alert %s of %s is not repeated in %s: %s", *facts, sent.reason)
    else:
        _log.info("alert %s of %s was sent to %s", *facts)
