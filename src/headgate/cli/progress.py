"""How far a run is: a live line for each node at work on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.cli import console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from headgate.pipelines.plan import Node
    from headgate.pipelines.record import NodeRecord, RunRecord

LINE_EVERY_S = 15.0
# A node's record says how long each phase took when the phase is over: the first that it does not know is under way.
_PHASES = {"plan": "reading the plan", "pass": "testing rows", "decide": "deciding", "publish": "publishing"}
_COLORS = {"published": "green", "stopped": "yellow", "failed": "red", "skipped": "dim"}


def phase_of(record: NodeRecord) -> str:
    """What a node is about, in words."""
    return next((said for name, said in _PHASES.items() if name not in record.timings_s), "finishing")


def span(seconds: float) -> str:
    """A time that took so long, in as few words as will do."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def ended(record: NodeRecord) -> str:
    """How a node ended, in one line."""
    said = [str(record.status)]
    if record.rows_in:
        said.append(f"{record.rows_in:,} rows")
    if record.rows_quarantined:
        said.append(f"{record.rows_quarantined:,} quarantined")
    if "total" in record.timings_s:
        said.append(span(record.timings_s["total"]))
    why = record.reasons or tuple(_first_lines(record.error)) or record.notes[-1:]
    reason = f": {why[0]}" if why and record.status != "published" else ""
    return f"{_name(record)}: {', '.join(said)}{reason}"


def _first_lines(error: str | None) -> list[str]:
    """The line that says most: the last of a trace, else the first."""
    lines = (error or "").strip().splitlines()
    return lines[-1:] if lines and lines[0].startswith(("Traceback", 'File "')) else lines[:1]


def _name(record: NodeRecord) -> str:
    return f"{record.pipeline}.{record.name}"


class Lines:
    """Plain lines: for logs, pipes and CI. Says every now and then what is still at work."""

    def __init__(self, say: Callable[[str], None] = console.note, every_s: float = LINE_EVERY_S) -> None:
        self._say = say
        self._every_s = every_s
        self._running: dict[str, tuple[NodeRecord, float]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._remind, name="progress", daemon=True).start()

    def preparing(self, what: str) -> None:
        self._say(f"{what} …")

    def run_started(self, run: RunRecord) -> None:
        self._say(f"run {run.run_id}")

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        with self._lock:
            self._running[_name(record)] = (record, time.monotonic())
        again = f" (attempt {record.attempt})" if record.attempt > 1 else ""
        self._began(f"{_name(record)}: started{again}")

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        with self._lock:
            self._running.pop(_name(record), None)
        self._ended(record)

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None:
        with self._lock:
            self._running.pop(_name(record), None)
        why = "".join(f": {line}" for line in _first_lines(record.error))
        self._say(f"{_name(record)}: failed, trying again in {span(delay_s)}{why}")

    def run_ended(self, run: RunRecord) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back."""
        self._closed.set()

    def at_work(self) -> list[str]:
        """The nodes under way: what each is about and for how long."""
        with self._lock:
            running = list(self._running.values())
        now = time.monotonic()
        return [f"{_name(record)}: {phase_of(record)}, {span(now - began)}" for record, began in running]

    def _began(self, line: str) -> None:
        self._say(line)

    def _ended(self, record: NodeRecord) -> None:
        self._say(ended(record))

    def _remind(self) -> None:
        while not self._closed.wait(self._every_s):
            for line in self.at_work():
                self._say(line)


class Live(Lines):
    """A line for each node at work that is redrawn, and one above for each that has ended: for people."""

    def __init__(self, to: Console | None = None) -> None:
        from rich.live import Live as Drawn

        self._console = to or console.err()
        self._preparing: str | None = None
        super().__init__(self._print)
        self._drawn = Drawn(console=self._console, get_renderable=self._render, refresh_per_second=4, transient=True)
        self._drawn.start()

    def preparing(self, what: str) -> None:
        self._preparing = what

    def run_started(self, run: RunRecord) -> None:
        self._preparing = None
        super().run_started(run)

    def close(self) -> None:
        super().close()
        self._drawn.stop()

    def _began(self, line: str) -> None:
        """The live line says it."""

    def _ended(self, record: NodeRecord) -> None:
        self._console.print(console.printable(ended(record)), style=_COLORS[record.status], markup=False)

    def _print(self, line: str) -> None:
        self._console.print(console.printable(line), markup=False)

    def _remind(self) -> None:
        """What is live needs no reminder."""

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines = [f"{self._preparing} …"] if self._preparing else self.at_work()
        return Group(*(Text(f"  {console.printable(line)}", no_wrap=True, overflow="ellipsis") for line in lines))


@contextmanager
def shown() -> Iterator[Lines]:
    """The display that fits where stderr goes."""
    display = Live() if sys.stderr.isatty() else Lines()
    try:
        yield display
    finally:
        display.close()
