"""What the cost of a run gives away, at and around each threshold."""

from __future__ import annotations

import pytest

from headgate.domain.signals import Severity, run_totals, signals

MS, NS = "executor_run_time_ms", "executor_cpu_time_ns"
INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


def gc(ms: int, of: int = 1000) -> dict[str, int | None]:
    return {"jvm_gc_time_ms": ms, MS: of}


def cpu(ms: float, of: int = 1000) -> dict[str, int | None]:
    return {NS: int(ms * 1_000_000), MS: of}


def far(tasks: int, of: int = 1000) -> dict[str, int | None]:
    rest = of - tasks
    return {"any_locality_tasks": tasks, "process_local_tasks": rest - 2, "node_local_tasks": 1, "rack_local_tasks": 1}


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ({}, []),
        ({"disk_bytes_spilled": 0}, []),
        ({"disk_bytes_spilled": None}, []),
        ({"disk_bytes_spilled": 1}, [("disk_spill", CRITICAL, 1, 0)]),
        ({"memory_bytes_spilled": 0}, []),
        ({"memory_bytes_spilled": 1}, [("memory_spill", WARNING, 1, 0)]),
        (gc(0), []),
        (gc(100), []),
        (gc(101), [("gc_time", WARNING, 0.101, 0.1)]),
        (gc(250), [("gc_time", WARNING, 0.25, 0.1)]),
        (gc(251), [("gc_time", CRITICAL, 0.251, 0.25)]),
        (gc(3, of=30), []),
        (gc(5, of=0), []),
        ({"jvm_gc_time_ms": 5}, []),
        ({"jvm_gc_time_ms": 300, "duration_ms": 1000}, [("gc_time", CRITICAL, 0.3, 0.25)]),
        ({**gc(100), "duration_ms": 100}, []),
        (cpu(1000), []),
        (cpu(500), []),
        (cpu(499), [("cpu_use", INFO, 0.499, 0.5)]),
        (cpu(250), [("cpu_use", INFO, 0.25, 0.5)]),
        (cpu(249), [("cpu_use", WARNING, 0.249, 0.25)]),
        (cpu(0), [("cpu_use", WARNING, 0, 0.25)]),
        (cpu(0, of=0), []),
        ({MS: 1000}, []),
        (far(100), []),
        (far(101), [("locality", WARNING, 0.101, 0.1)]),
        (far(300), [("locality", WARNING, 0.3, 0.1)]),
        (far(301), [("locality", CRITICAL, 0.301, 0.3)]),
        ({"any_locality_tasks": 90, "num_tasks": 200}, [("locality", CRITICAL, 0.45, 0.3)]),
        ({**far(301), "num_tasks": 10}, [("locality", CRITICAL, 0.301, 0.3)]),
        ({"any_locality_tasks": 0}, []),
        ({"any_locality_tasks": 4}, [("locality", CRITICAL, 1, 0.3)]),
        ({"failed_tasks": 0}, []),
        ({"failed_tasks": 1}, [("failed_tasks", CRITICAL, 1, 0)]),
    ],
    ids=str,
)
def test_a_signal_is_given_beyond_its_threshold(
    totals: dict[str, int | None], expected: list[tuple[str, Severity, float, float]]
) -> None:
    assert [(s.code, s.severity, s.value, s.threshold) for s in signals(totals)] == expected


def test_every_signal_says_what_is_wrong_in_words() -> None:
    totals = {
        "disk_bytes_spilled": 5,
        "memory_bytes_spilled": 6,
        "failed_tasks": 2,
        "any_locality_tasks": 1,
        **gc(300),
        **cpu(100),
    }

    assert [signal.message for signal in signals(totals)] == [
        "5 bytes were spilled to disk",
        "6 bytes in memory were spilled",
        "garbage collection took 30% of the executors' time",
        "executors computed 10% of their time",
        "100% of the tasks ran far from their data",
        "2 tasks failed",
    ]


def test_totals_are_those_reported_and_else_the_sum_over_stages() -> None:
    stages = [
        {"num_tasks": 2, "failed_tasks": 1, "peak_execution_memory": 5, "input_bytes": None},
        {"num_tasks": 3, "failed_tasks": None, "peak_execution_memory": 9},
    ]
    names = ("num_tasks", "failed_tasks", "peak_execution_memory", "input_bytes")

    assert run_totals({"num_tasks": 7}, stages, names) == {
        "num_tasks": 7,
        "failed_tasks": 1,
        "peak_execution_memory": 9,
        "input_bytes": None,
    }
    assert run_totals(None, stages, names)["num_tasks"] == 5
    assert run_totals(None, [], names) == dict.fromkeys(names)
