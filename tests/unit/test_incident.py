"""Incidents: what can be wrong, which causes are two problems, where an incident may go, what is the same again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.domain import incident
from headgate.domain.anomaly import AnomalyType
from headgate.domain.incident import SYMPTOMS, Blamed, Ended, Status
from headgate.errors import Conflict


def test_every_type_of_anomaly_is_a_symptom_too() -> None:
    assert {each.value for each in AnomalyType} < set(SYMPTOMS)
    assert set(SYMPTOMS) - {each.value for each in AnomalyType} == {"TestFailed", "RunFailed", "GateBlocked"}
    assert len(set(SYMPTOMS)) == len(SYMPTOMS)


# --- two problems ---


NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SURE_OF_A, SURE_OF_B = Blamed("a", "a1", 0.9), Blamed("b", "b1", 0.9)
UNSURE, NOTHING = Blamed("a", "a1", 0.5), Blamed(None, None, 0.0)
LATER = Blamed("a", "a2", 0.9, NOON + HOUR)


@pytest.mark.parametrize(
    ("known", "new", "is_other", "is_unrelated"),
    [
        (SURE_OF_A, SURE_OF_A, False, False),
        (SURE_OF_A, SURE_OF_B, True, True),
        (SURE_OF_A, Blamed("a", "a2", 0.9), False, True),
        (SURE_OF_A, Blamed("a", "a2", 0.9, what="run_failed"), True, True),
        (SURE_OF_A, LATER, False, True),
        (SURE_OF_A, Blamed("b", "b1", 0.5), False, False),
        (UNSURE, SURE_OF_B, False, True),
        (NOTHING, SURE_OF_B, False, True),
        (NOTHING, LATER, True, True),
        (SURE_OF_A, Blamed(None, None, 0.9), False, False),
    ],
    ids=[
        "same", "another", "another_run", "for_another_reason", "as_bad_again", "not_sure_now", "not_sure_before",
        "nothing_known", "nothing_known_and_it_came_later", "nothing_found",
    ],
)  # fmt: skip
def test_causes_that_are_sure_tell_problems_apart(
    known: Blamed, new: Blamed, is_other: bool, is_unrelated: bool
) -> None:
    assert incident.is_other_problem(known, new, NOON) is is_other
    assert incident.is_unrelated(known, new) is is_unrelated


def test_what_was_well_in_between_is_another_problem_if_its_cause_came_later() -> None:
    assert incident.is_other_problem(SURE_OF_A, LATER, NOON, well_at=NOON)
    assert not incident.is_other_problem(SURE_OF_A, LATER, NOON, well_at=NOON + 2 * HOUR)
    assert not incident.is_other_problem(SURE_OF_A, LATER._replace(confidence=0.5), NOON, well_at=NOON)


FAILED, FAILED_AGAIN = (Blamed("a", run, 0.9, what="run_failed") for run in ("a1", "a2"))


@pytest.mark.parametrize(
    ("known", "new", "is_part", "expected"),
    [
        (FAILED, FAILED_AGAIN, False, False),
        (FAILED, FAILED_AGAIN._replace(what="code_changed"), False, True),
        (FAILED, FAILED_AGAIN._replace(what="code_changed"), True, False),
        (FAILED, FAILED_AGAIN._replace(who="b"), True, True),
        (FAILED, FAILED_AGAIN._replace(what=None), False, True),
    ],
    ids=["as_bad_again", "for_another_reason", "its_run_is_part_of_it", "another_job", "no_reason_known"],
)
def test_the_same_job_again_is_related_if_it_is_as_bad_or_part_of_it(
    known: Blamed, new: Blamed, is_part: bool, expected: bool
) -> None:
    assert incident.is_unrelated(known, new, is_part=is_part) is expected


SAYS_WHY, SILENT = Ended(True, NOON), Ended(False, NOON)


@pytest.mark.parametrize(
    ("child", "parent", "by_parent", "by_child"),
    [
        (SAYS_WHY, SILENT, False, True),
        (SAYS_WHY, SAYS_WHY, False, True),
        (SILENT, SILENT, False, True),
        (SILENT, SAYS_WHY, True, False),
        (SAYS_WHY._replace(at=NOON + HOUR), SAYS_WHY, False, False),
        (SAYS_WHY._replace(at=None), SAYS_WHY, False, False),
        (SAYS_WHY, SILENT._replace(at=None), False, True),
    ],
    ids=["child", "both", "neither", "parent", "child_ended_later", "child_goes_on", "parent_goes_on"],
)
def test_of_a_run_and_what_started_it_the_nearer_one_that_says_why_tells_it(
    child: Ended, parent: Ended, by_parent: bool, by_child: bool
) -> None:
    assert incident.is_told_by_parent(child, parent) is by_parent
    assert incident.is_told_by_child(child, parent) is by_child


@pytest.mark.parametrize(
    ("of", "new_of", "expected"),
    [
        ("VolumeDrop", "RowCountDrop", True),
        ("RowCountDrop", "VolumeDrop", False),
        ("TestFailed", "RowCountDrop", False),
        ("VolumeDrop", "TestFailed", False),
    ],
    ids=["rows_after_bytes", "bytes_after_rows", "rows_after_a_test", "a_test_after_bytes"],
)
def test_rows_say_plainer_than_bytes_what_is_wrong(of: str, new_of: str, expected: bool) -> None:
    assert incident.is_plainer(of, new_of) is expected


@pytest.mark.parametrize(
    ("known", "of", "new", "new_of", "expected"),
    [
        (SURE_OF_A, "NullShareSpike", SURE_OF_B, "TestFailed", True),
        (SURE_OF_A, "SchemaChange", SURE_OF_B, "RunFailed", True),
        (SURE_OF_A, "NullShareSpike", UNSURE, "TestFailed", False),
        (SURE_OF_A, "TestFailed", SURE_OF_B, "TestFailed", False),
        (SURE_OF_A, "TestFailed", SURE_OF_B, "NullShareSpike", False),
        (UNSURE, "TestFailed", SURE_OF_B, "NullShareSpike", True),
        (UNSURE, "TestFailed", UNSURE, "TestFailed", False),
        (UNSURE, "NullShareSpike", LATER, "TestFailed", False),
        (UNSURE, "TestFailed", NOTHING, "TestFailed", False),
    ],
    ids=[
        "a_test_after_a_figure", "a_run_after_a_schema", "an_unsure_test", "a_second_test", "a_figure_after_a_test",
        "the_first_sure_one", "no_surer", "what_came_later", "nothing_found",
    ],
)  # fmt: skip
def test_of_one_run_what_failed_outright_tells_more_than_odd_figures(
    known: Blamed, of: str, new: Blamed, new_of: str, expected: bool
) -> None:
    assert incident.tells_more(known, of, NOON, new, new_of) is expected


# --- life ---


ALLOWED = {
    (Status.open, Status.acknowledged),
    (Status.open, Status.resolved),
    (Status.open, Status.muted),
    (Status.acknowledged, Status.open),
    (Status.acknowledged, Status.resolved),
    (Status.acknowledged, Status.muted),
    (Status.resolved, Status.open),
    (Status.resolved, Status.muted),
    (Status.muted, Status.open),
    (Status.muted, Status.acknowledged),
    (Status.muted, Status.resolved),
}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("to", Status)
def test_an_incident_moves_only_where_it_may(status: Status, to: Status) -> None:
    if (status, to) in ALLOWED or status is to:
        incident.check_move(status, to)
    else:
        with pytest.raises(Conflict, match=f"that is {status} cannot become {to}") as caught:
            incident.check_move(status, to)
        assert "open" in str(caught.value.hint)


# --- keys ---


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (incident.key_of_test("d", "k"), "test:d:k"),
        (incident.key_of_anomaly("d", "row_count"), "anomaly:d:row_count::"),
        (incident.key_of_anomaly("d", "null_share", "email", "dt=*"), "anomaly:d:null_share:email:dt=*"),
        (incident.key_of_run("j"), "run:j"),
        (incident.key_of_gate("p", "q", "n"), "gate:p/q/n"),
        (incident.key_of_freshness("d"), "fresh:d"),
        (incident.key_of_schema("d", "v"), "schema:d:v"),
        (incident.key_of_stuck("j"), "stuck:j"),
    ],
    ids=lambda value: str(value).partition(":")[0],
)
def test_keys_are_as_they_are_stored(key: str, expected: str) -> None:
    assert key == expected


def test_a_colon_in_a_column_makes_no_other_key() -> None:
    assert incident.key_of_anomaly("d", "null_share", "a:b", "c") != incident.key_of_anomaly(
        "d", "null_share", "a", "b:c"
    )
    assert incident.key_of_gate("a/b", "c", "d") != incident.key_of_gate("a", "b/c", "d")
    assert incident.key_of_anomaly("d", "m", "a%3Ab") != incident.key_of_anomaly("d", "m", "a:b")
