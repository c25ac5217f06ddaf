"""The one sentence of a story."""

from __future__ import annotations

import pytest

from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.story.headline import headline
from tests.unit.story.examples import a_gate, a_node, a_run

BLOCKED = a_node("silver.trips", Status.stopped, rows_in=12_345, gate=a_gate(passed=False, total_rows=12_345))
BROKEN = a_node("bronze.weather", Status.failed, error="the file is gone\nlook for it")
WAITED = a_node("gold.revenue", Status.skipped, notes=("silver.trips was stopped",))
TESTED = a_node("silver.trips", Status.stopped, reasons=("test 'ids' fails for 3 of 10 rows",))
LEAKY = a_node("silver.trips", rows_published=90, gate=a_gate(passed=False, action="write_valid_only"))


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        pytest.param(a_run(BLOCKED), "silver stopped: the gate of trips blocked 12,345 rows", id="gate"),
        pytest.param(
            a_run(BLOCKED, WAITED),
            "silver stopped: the gate of trips blocked 12,345 rows; 1 node was skipped",
            id="gate, and what waited for it",
        ),
        pytest.param(
            a_run(TESTED),
            "silver stopped: trips was not published, test 'ids' fails for 3 of 10 rows",
            id="a test without a gate",
        ),
        pytest.param(
            a_run(BLOCKED, BROKEN, WAITED, WAITED),
            "bronze failed: weather broke, the file is gone; 1 node stopped and 2 nodes were skipped",
            id="what failed goes before what stopped",
        ),
        pytest.param(
            a_run(BROKEN, a_node(status=Status.failed)),
            "bronze failed: weather broke, the file is gone; 1 more node failed",
            id="two failed",
        ),
        pytest.param(a_run(a_node(rows_published=7)), "silver.trips published 7 rows", id="one node"),
        pytest.param(
            a_run(a_node(rows_published=1_000), a_node(rows_published=1, rows_quarantined=4)),
            "All 2 nodes published 1,001 rows; 4 rows went to quarantine",
            id="all published, some rows set apart",
        ),
        pytest.param(
            a_run(LEAKY),
            "silver.trips published 90 rows; the gate of trips did not pass and let rows through",
            id="a gate that lets rows through",
        ),
        pytest.param(
            a_run(a_node(rows_published=5), BROKEN, status=Status.published),
            "1 of 2 nodes published 5 rows, but bronze.weather failed: weather broke, the file is gone",
            id="a failure that was to be ignored",
        ),
        pytest.param(a_run(WAITED), "Nothing ran: silver.trips was stopped", id="Nothing ran"),
        pytest.param(a_run(), "Nothing ran", id="no nodes"),
    ],
)
def test_the_sentence_says_what_happened(run: RunRecord, sentence: str) -> None:
    assert headline(run) == sentence


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ('File "pass.py", line 3, in run\n    raise ValueError\nValueError: no columns', "ValueError: no columns"),
        ("\n  first\nsecond", "first"),
        (None, "without saying why"),
    ],
    ids=["traceback", "first line", "silent"],
)
def test_a_failure_is_told_in_one_line(error: str | None, cause: str) -> None:
    node: NodeRecord = a_node("bronze.weather", Status.failed, error=error)

    assert headline(a_run(node)) == f"bronze failed: weather broke, {cause}"


def test_a_long_error_does_not_fill_the_page() -> None:
    assert len(headline(a_run(a_node(status=Status.failed, error="x" * 5_000)))) < 300
