"""What the benchmarks' commands share: a database of their own, `--quick`, and one line of JSON at the end."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from benchmarks.report import Report
from benchmarks.stage import Stage, stage

Measure = Callable[[bool, Stage, Report], Coroutine[Any, Any, None]]


def run(module: str, description: str | None, measure: Measure) -> None:
    """Measure and report; `measure` is told whether the run is to be a short one."""
    arguments = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    arguments.add_argument("--quick", action="store_true", help="a short run that shows that everything works")
    is_quick = arguments.parse_args().quick or os.environ.get("HEADGATE_BENCH_QUICK") == "1"
    report = Report()
    with stage() as at:
        uvloop.run(measure(is_quick, at, report))
    print(report.line())
