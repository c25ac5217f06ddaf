"""How often is too often: the same event of a pipeline in a channel, not again for a while, and so many in an hour.

What was told outlives the process, in one small file. A file that cannot be read or written never keeps an alert back.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headgate.pipelines.alerts.channels import key_of
from headgate.pipelines.alerts.events import Alert
from headgate.pipelines.config.alerts import AlertConfig

HOUR = timedelta(hours=1)
_PATIENCE_S = 2.0

_log = logging.getLogger(__name__)

Times = dict[str, list[datetime]]


@dataclass(frozen=True)
class Limits:
    """How often a channel wants to hear the same."""

    quiet: timedelta = timedelta(minutes=15)
    max_per_hour: int = 10

    @classmethod
    def of(cls, channel: AlertConfig) -> Limits:
        return cls(timedelta(minutes=channel.metadata.throttle_minutes), channel.metadata.max_per_hour)


def subject_of(alert: Alert, channel: AlertConfig) -> str:
    """What is told at most so often."""
    return "|".join((alert.project, alert.pipeline, alert.event, key_of(channel)))


def refusal(told: Sequence[datetime], now: datetime, limits: Limits) -> str | None:
    """Why it is too early to tell it again, or None. Times to come are those of a wrong clock and do not count."""
    past = [each for each in told if each <= now]
    if past and now - max(past) < limits.quiet:
        return f"told {_minutes(now - max(past))} ago, at most every {_minutes(limits.quiet)}"
    in_the_hour = sum(1 for each in past if now - each < HOUR)
    if in_the_hour >= limits.max_per_hour:
        return f"told {in_the_hour} times in the last hour, at most {limits.max_per_hour}"
    return None


def remembered(told: Sequence[datetime], now: datetime) -> list[datetime]:
    """What is still of use: the last hour, and the last time of all."""
    past = sorted(each for each in told if each <= now)
    return [each for each in past[:-1] if now - each < HOUR] + past[-1:]


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:.3g} min"


class Throttle:
    """Decides under a lock, so that runs side by side count together."""

    def __init__(self, path: Path | None, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._own: Times = {}
        self._is_behind = False
        self._complained = False

    def admit(self, subject: str, limits: Limits) -> str | None:
        """Why it is not told now; None counts it as told."""
        now = self._clock()
        with self._shared() as times:
            told = times.get(subject, [])
            reason = refusal(told, now, limits)
            if reason is None:
                times[subject] = [*remembered(told, now), now]
        return reason

    def release(self, subject: str) -> None:
        """Take the last time back: it was not told after all, so the next try must not wait."""
        with self._shared() as times:
            if told := times.get(subject):
                times[subject] = sorted(told)[:-1]

    @contextmanager
    def _shared(self) -> Iterator[Times]:
        """The times of all processes, kept when the block ends; without a usable file, those of this one."""
        with self._lock, self._locked() as is_locked:
            if is_locked:
                self._refresh()
            before = {subject: list(told) for subject, told in self._own.items()}
            yield self._own
            if is_locked and self._own != before:
                self._write()

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        handle = self._open_lock()
        try:
            yield handle is not None
        finally:
            if handle is not None:
                os.close(handle)

    def _open_lock(self) -> int | None:
        if self._path is None:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            self._complain("cannot be locked", error)
            return None
        if _wait_for(handle):
            return handle
        os.close(handle)
        self._complain("is locked by another process", None)
        return None

    def _refresh(self) -> None:
        """The file is the truth, unless it lacks what could not be written."""
        found = self._read()
        if found is not None:
            self._own = _merged(self._own, found) if self._is_behind else found

    def _read(self) -> Times | None:
        assert self._path is not None
        try:
            return _decoded(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            self._complain("cannot be read and is begun anew", error)
            return None

    def _write(self) -> None:
        assert self._path is not None
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            fresh.write_text(_encoded(self._own), encoding="utf-8")
            fresh.replace(self._path)
            self._is_behind = False
        except OSError as error:
            self._is_behind = True
            self._complain("cannot be written", error)

    def _complain(self, what: str, error: Exception | None) -> None:
        if self._complained:
            return
        self._complained = True
        why = f": {error}" if error else ""
        _log.warning("the file of told alerts %s %s%s; alerts may be told twice", self._path, what, why)


def _wait_for(handle: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _merged(own: Times, shared: Times) -> Times:
    return {
        subject: sorted({*own.get(subject, ()), *shared.get(subject, ())}) for subject in own.keys() | shared.keys()
    }


def _encoded(times: Times) -> str:
    told = {subject: [each.isoformat() for each in moments] for subject, moments in sorted(times.items()) if moments}
    return json.dumps({"version": 1, "told": told}, indent=1)


def _decoded(text: str) -> Times:
    told = json.loads(text)["told"]
    return {subject: [_aware(each) for each in moments] for subject, moments in told.items()}


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment
