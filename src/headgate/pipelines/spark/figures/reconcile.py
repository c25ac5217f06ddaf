"""A batch against another dataset: rows and sums, in all or by group."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.pipelines.config.tests import datasets
from headgate.pipelines.spark.checks.frame import Frame, Unfit, are_comparable
from headgate.pipelines.spark.figures.measures import looked_at, total_of

# Sums of doubles depend on the order in which they are added.
_SLACK = 1e-9


@dataclass(frozen=True)
class Agreement:
    """How many groups there are, how many differ, and some of these in words."""

    groups: int
    different: int
    examples: tuple[str, ...] = ()


def fit_reference(test: datasets.ReconcileTest, frame: Frame, reference: Frame) -> None:
    """Refuse a reference without the columns, or with other types; Spark is not asked."""
    for name in test.sums:
        reference.number(name, "reconcile")
    for name in test.group_by:
        here, there = frame.type_of(name), reference.type_of(name)
        if not are_comparable(here, there):
            raise Unfit(
                f"{name!r} is {here.simpleString()} here and {there.simpleString()} there: they cannot be compared",
                "cast it in transform",
            )


def reconciled(test: datasets.ReconcileTest, batch: DataFrame, frame: Frame, reference: DataFrame) -> Agreement:
    """One job: both sides by group, side by side."""
    here = _summed(test, batch.where(looked_at(test)), frame, "here")
    there = _summed(test, reference, Frame(reference.schema, frame.now), "there")
    groups = range(len(test.group_by))
    same = [here[f"here_g{n}"].eqNullSafe(there[f"there_g{n}"]) for n in groups]
    both = here.join(there, reduce(operator.and_, same, F.lit(True)), "full")
    differs = reduce(operator.or_, [_differs(what, test.tolerance) for what in _figures(test)])
    told = F.when(differs, _told(test))
    row = both.agg(
        F.count(F.lit(1)).alias("groups"),
        F.count(told).alias("different"),
        F.min(told).alias("first"),
        F.max(told).alias("last"),
    ).first()
    assert row is not None
    examples = dict.fromkeys(each for each in (row["first"], row["last"]) if each is not None)
    return Agreement(row["groups"], row["different"], tuple(examples))


def _figures(test: datasets.ReconcileTest) -> list[str]:
    return ["rows", *(f"s{n}" for n in range(len(test.sums)))]


def _summed(test: datasets.ReconcileTest, rows: DataFrame, frame: Frame, side: str) -> DataFrame:
    by = [frame.column(name).alias(f"{side}_g{n}") for n, name in enumerate(test.group_by)]
    sums = [total_of(frame.column(name), frame.type_of(name)).alias(f"{side}_s{n}") for n, name in enumerate(test.sums)]
    return rows.groupBy(*by).agg(F.count(F.lit(1)).cast("double").alias(f"{side}_rows"), *sums)


def _pair(what: str) -> tuple[Column, Column]:
    """A group that is on one side only has nothing on the other."""
    here, there = (F.coalesce(F.col(f"{side}_{what}"), F.lit(0.0)) for side in ("here", "there"))
    return here, there


def _differs(what: str, tolerance: float) -> Column:
    here, there = _pair(what)
    allowed = F.abs(there) * F.lit(tolerance) + F.greatest(F.abs(here), F.abs(there)) * F.lit(_SLACK)
    # NaN equals NaN, and nothing else is within any distance of it.
    return ~((here == there) | (F.abs(here - there) <= allowed))


def _told(test: datasets.ReconcileTest) -> Column:
    groups = [
        F.concat(F.lit(f"{name} "), F.coalesce(F.col(f"here_g{n}"), F.col(f"there_g{n}")).cast("string"))
        for n, name in enumerate(test.group_by)
    ]
    parts = [F.coalesce(group, F.lit(f"{name} NULL")) for group, name in zip(groups, test.group_by, strict=True)]
    for what, name in zip(_figures(test), ["rows", *(f"sum of {name}" for name in test.sums)], strict=True):
        here, there = (_plain(side) for side in _pair(what))
        words = F.concat(F.lit(f"{name} "), here, F.lit(" against "), there)
        parts.append(F.when(_differs(what, test.tolerance), words))
    return F.concat_ws(", ", *parts)


def _plain(number: Column) -> Column:
    return F.regexp_replace(number.cast("string"), r"\.0$", "")
