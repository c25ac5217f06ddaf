"""Labelled series of others, read from packages where they happen to be installed; nothing of them is kept here.

None of the packages looked at on PyPI in November 2026 ships NAB, which is under AGPL (`nab` is a resolver; the wheels
of `orion-ml`, `salesforce-merlion`, `TSB-AD`, `TSB_UAD`, `timeeval`, `dtaianomaly`, `adtk` and `pysad` hold no series),
but `streamad` (Apache-2.0) and `sktime` (BSD-3) each bring one that is labelled, without saying whose it is.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from benchmarks.detection.families import Series

_BEGIN = datetime(2014, 11, 23, 7, tzinfo=UTC)


class Source(NamedTuple):
    """A file in a package: rows with a value and whether it is an anomaly; each is taken for an hour."""

    package: str
    path: str
    value: str


SOURCES = (
    Source("streamad", "util/data/uniDS.csv", "value"),
    Source("sktime", "datasets/data/yahoo/yahoo.csv", "data"),
)


def read(source: Source) -> Series | str:
    """The series, or why there is none."""
    found = find_spec(source.package)
    if found is None or not found.submodule_search_locations:
        return f"{source.package} is not installed: pip install --no-deps {source.package}"
    path = Path(found.submodule_search_locations[0]) / source.path
    if not path.is_file():
        return f"{source.package} has no {source.path}"
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return _lifted(source, [float(row[source.value]) for row in rows], [float(row["label"]) > 0 for row in rows])


def _lifted(source: Source, values: list[float], labels: list[bool]) -> Series:
    """Our metrics are never negative, these are: all of them are lifted by the same amount, for every side."""
    lift = max(values) - 2 * min(values)
    series = Series(f"{source.package}: {Path(source.path).stem}")
    series.times = [_BEGIN + timedelta(hours=hour) for hour in range(len(values))]
    series.values = [value + lift for value in values]
    series.wrong = {place for place, is_wrong in enumerate(labels) if is_wrong}
    return series
