"""What is told of an incident's history, in words."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.incidents import _show_why
from headgate.server.incidents.answers import correlation_out, event_sentence

SENTENCES: list[tuple[str, dict[str, Any], str]] = [
    ("opened", {"symptom": "a run of load failed"}, "opened: a run of load failed"),
    ("symptom_joined", {"symptom": "a test failed", "how": "downstream of it"}, "a test failed (downstream of it)"),
    ("symptom_repeated", {}, "the same was seen once more"),
    ("symptom_repeated", {"count": 1200}, "the same was seen 1,200 times more"),
    (
        "symptom_joined",
        {"symptom": "a test failed", "how": "the same again", "count": 3},
        "a test failed (the same again, 3 times)",
    ),
    ("symptoms_left_out", {"left_out": 1500, "dataset": "x.t"}, "1,500 more tests failed on x.t, and are not listed"),
    ("symptoms_left_out", {"left_out": 2, "dataset": None}, "2 more tests failed, and are not listed"),
    (
        "symptom_moved",
        {"reason": "the run was heard of later"},
        "a symptom is of another run: the run was heard of later",
    ),
    ("symptom_cleared", {"reason": "the test passes again"}, "well again: the test passes again"),
    (
        "symptom_cleared",
        {"symptom": "test 'unique' failed on t", "reason": "the test passes again"},
        "well again: test 'unique' failed on t (the test passes again)",
    ),
    ("symptom_repeated", {"symptom": "job 'j' failed"}, "the same was seen once more: job 'j' failed"),
    ("root_changed", {"cause": "Job 'a' failed."}, "ann found another cause: Job 'a' failed."),
    ("assigned", {"assignee": None}, "ann assigned it to nobody"),
    ("note", {"text": "look here"}, "ann noted: look here"),
    ("muted", {"until": "2026-04-01T00:00:00Z", "reason": "known"}, "ann muted it until 2026-04-01T00:00:00Z: known"),
    ("root_forgotten", {"reason": "a guess"}, "ann left the cause to headgate: a guess"),
    ("merged_into", {"number": 7, "reason": None}, "ann made it part of #7"),
    ("merged_from", {"number": 8, "reason": "one outage"}, "ann made #8 part of it: one outage"),
    ("split_into", {"number": 9}, "ann made #9 of some of its symptoms"),
    ("split_from", {"number": 7}, "ann made it of symptoms of #7"),
    # One that is gone has none any more.
    ("split_from", {}, "ann made it of symptoms of another"),
    ("acknowledged", {"reason": "on it"}, "ann acknowledged it: on it"),
    ("resolved", {"reason": None}, "ann resolved it"),
    ("unmuted", {}, "ann unmuted it"),
]


@pytest.mark.parametrize(("kind", "detail", "sentence"), SENTENCES, ids=[sentence for _, _, sentence in SENTENCES])
def test_every_event_is_a_sentence(kind: str, detail: dict[str, Any], sentence: str) -> None:
    assert event_sentence(kind, "ann", detail) == sentence


@pytest.mark.parametrize(
    ("failed", "correlated", "rate"), [(0, 0, 1.0), (4, 3, 0.75), (3, 0, 0.0)], ids=["none", "some", "all orphans"]
)
def test_the_correlation_rate_is_the_share_with_a_producer(failed: int, correlated: int, rate: float) -> None:
    found = correlation_out(failed, correlated, 24)

    assert (found.correlation_rate, found.orphan_datasets) == (rate, failed - correlated)


def test_what_a_cause_explains_is_printed_with_whose_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fact = {
        "sentence": "dropped the column 'mail'",
        "dataset": {"id": "1", "urn": "postgres://db/stg.orders"},
        "job": None,
    }
    found = {"root_cause": "Job 'a' failed.", "confidence": 0.9, "evidence": [], "explains": [fact], "rejected": []}
    _show_why(found | {"namesakes": []})

    assert "  > stg.orders: dropped the column 'mail'\n" in capsys.readouterr().out


def test_of_an_orphan_it_is_said_what_it_may_be_and_not_how_sure_that_nothing_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {"root_cause": "No run is known that wrote 'a'.", "confidence": 0.0, "evidence": [], "explains": []}
    _show_why(found | {"rejected": [], "namesakes": [{"urn": "postgres://db/core.users"}]})

    assert capsys.readouterr().out == (
        "No run is known that wrote 'a'.\n"
        "It may be 'postgres://db/core.users' by another name;\n"
        "  `headgate aliases suggest` tells the rule that would say so\n"
    )
