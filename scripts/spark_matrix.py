"""Runs tests/spark on the Sparks that the environment does not have: one line for each, and a failure if any fails."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from build_agent import ROOT, CannotBuild, install_spark

SPARKS = ("3.5", "4.0", "4.3")
DEFAULTS = ["tests/spark", "--numprocesses", "2", "--dist", "loadfile"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", choices=SPARKS, action="append", help="only this one; may be given again")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    outcomes = {minor: outcome(minor, given.pytest) for minor in given.spark or SPARKS}
    for minor, text in outcomes.items():
        sys.stdout.write(f"Spark {minor}: {text}\n")
    return 0 if all(text.startswith("passed") for text in outcomes.values()) else 1


def outcome(minor: str, arguments: list[str]) -> str:
    """How the tests went on one Spark, which is put in front of the environment's own."""
    started = time.monotonic()
    try:
        folder = install_spark(minor)
    except CannotBuild as error:
        return f"failed: {error}"
    path = os.pathsep.join(part for part in (str(folder), os.environ.get("PYTHONPATH")) if part)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(arguments or DEFAULTS)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False)
    verdict = "passed" if done.returncode == 0 else f"failed (pytest ended with {done.returncode})"
    return f"{verdict} in {time.monotonic() - started:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
