"""The labelled series on which detection is measured, and how it is scored."""

from __future__ import annotations

import pytest
from benchmarks.detection.__main__ import AS_WIDE, REASONS, measure
from benchmarks.detection.families import FAMILIES, FIRST, Series, drawn
from benchmarks.detection.public import Source, read
from benchmarks.detection.scores import Score
from benchmarks.detection.sides import SIDES, ours, plain


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_gives_the_same_series_again_and_another_seed_another(family: str) -> None:
    first, again, other = (next(iter(drawn(family, range(seed, seed + 1)))) for seed in (7, 7, 8))
    assert first == again
    assert first.values != other.values


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_anomalies_and_nothing_impossible(family: str) -> None:
    found = list(drawn(family, range(10)))
    assert sum(len(series.wrong) for series in found) >= 5
    for series in found:
        assert series.times == sorted(series.times)
        assert all(value >= 0 for value in series.values)
        assert all(place < len(series.values) for place in series.wrong)
        assert not series.wrong & set(range(FIRST // 2))


@pytest.mark.parametrize("side", SIDES)
def test_every_side_judges_every_point(side: str) -> None:
    series = next(iter(drawn("noise", range(1))))
    assert len(list(SIDES[side](series))) == len(series.values)


def test_ours_finds_what_five_points_hide_from_the_plain_rule() -> None:
    times = next(iter(drawn("noise", range(1)))).times[:6]
    series = Series("five and a spike", times=times, values=[100.0] * 5 + [1000.0], wrong={5})
    assert list(ours(series))[-1]
    assert not list(plain(series))[-1]


def test_points_that_are_not_counted_count_neither_way() -> None:
    score = Score()
    score.count(Series("any", wrong={0, 1}, uncounted={2, 3}), [True, False, True, False, True, False])
    assert score == Score(found=1, missed=1, false=1, quiet=1)
    assert (score.precision, score.recall, score.f1, score.false_per_1000) == (0.5, 0.5, 0.5, 500)


def test_a_score_of_nothing_is_nothing() -> None:
    assert (Score().precision, Score().recall, Score().f1, Score().false_per_1000) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("package", "told"),
    [("no_such_package", "no_such_package is not installed"), ("json", "json has no data.csv")],
    ids=["not installed", "without the file"],
)
def test_a_public_series_that_is_not_there_is_left_out_with_the_reason(package: str, told: str) -> None:
    found = read(Source(package, "data.csv", "value"))
    assert isinstance(found, str)
    assert found.startswith(told)


@pytest.mark.parametrize("family", REASONS)
def test_with_a_band_as_wide_as_that_of_the_plain_rule_ours_alarms_no_more_often_and_finds_more(family: str) -> None:
    wide, plainly = Score(), Score()
    for series in drawn(family, range(200, 240)):
        wide.count(series, ours(series, AS_WIDE))
        plainly.count(series, plain(series))
    assert wide.recall > plainly.recall
    assert wide.false <= plainly.false + 2


def test_more_false_alarms_than_those_of_the_plain_rule_have_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    figures, _ = measure(range(2))
    shown = capsys.readouterr().out
    for family in FAMILIES:
        key = family.replace(" ", "_")
        more = figures[f"{key}_ours"]["false_per_1000"] > figures[f"{key}_plain"]["false_per_1000"]
        assert more == (f"{key}_ours_as_wide" in figures) == (f"\n{family}: " in shown)


def test_a_series_that_scatters_by_factors_has_few_false_alarms() -> None:
    score = Score()
    for series in drawn("skewed", range(200, 230)):
        score.count(series, ours(series))
    assert score.false_per_1000 < 15
    assert score.recall > 0.95
