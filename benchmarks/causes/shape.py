"""What a simulated platform is built of: layers of datasets, the job that writes each, columns made of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import NamedTuple

WORDS = ("orders", "customers", "items", "payments", "stock", "visits", "prices", "refunds", "carts", "shipments")
FIELDS = ("id", "email", "amount", "country", "status", "created", "sku", "segment", "channel", "score", "owner")
TYPES = ("string", "bigint", "double", "timestamp")
LAYERS = ("raw", "staging", "core", "join", "mart", "report")
HOUR = timedelta(hours=1)


class Source(NamedTuple):
    """A column of an input, by the place of the dataset and of the column in it."""

    dataset: int
    column: int


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nulls: float
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Test:
    """A promise that is checked: `kind` is what is measured, `name` is what people call it."""

    kind: str
    name: str
    column: int | None = None


@dataclass
class Dataset:
    """A dataset and the job that writes it. The first input drives: its rows become rows here; others are joined."""

    index: int
    name: str
    layer: int
    columns: list[Column]
    inputs: list[int]
    period_h: int
    job: str
    rows: float
    selectivity: float = 1.0
    is_incremental: bool = False
    is_strict: bool = False
    filters_on: int | None = None
    weekend: float = 1.0
    duration_s: float = 300.0
    offset_s: float = 0.0
    tells_rows: bool = True
    tells_columns: bool = True
    tells_column_lineage: bool = True
    tests: list[Test] = field(default_factory=list)
    tested_daily: bool = False
    readers: list[int] = field(default_factory=list)

    @property
    def is_source(self) -> bool:
        return not self.inputs

    @property
    def driver(self) -> int:
        return self.inputs[0]


def build(rng: Random, count: int) -> list[Dataset]:
    """A layered graph: the deeper, the fewer datasets; each reads one to four of the layers before it."""
    depth = 4 if count <= 20 else 5 if count <= 200 else len(LAYERS)
    datasets: list[Dataset] = []
    for index in range(count):
        layer = min(depth - 1, int(depth * (index / count) ** 1.15))
        datasets.append(_dataset(rng, index, layer, datasets))
    for dataset in datasets:
        for place in dataset.inputs:
            datasets[place].readers.append(dataset.index)
        dataset.tests = _tests(rng, dataset, depth)
    return datasets


def upstream(datasets: list[Dataset], index: int) -> set[int]:
    found, open_ = set(), [index]
    while open_:
        for place in datasets[open_.pop()].inputs:
            if place not in found:
                found.add(place)
                open_.append(place)
    return found


def downstream(datasets: list[Dataset], index: int) -> set[int]:
    found, open_ = set(), [index]
    while open_:
        for place in datasets[open_.pop()].readers:
            if place not in found:
                found.add(place)
                open_.append(place)
    return found


def _dataset(rng: Random, index: int, layer: int, before: list[Dataset]) -> Dataset:
    inputs = _inputs(rng, layer, before)
    name = f"{LAYERS[layer]}.{rng.choice(WORDS)}_{index}"
    period = max([before[place].period_h for place in inputs[:1]] + [6 if rng.random() < 0.5 else 12])
    selectivity = rng.uniform(0.4, 1.0)
    columns = _columns(rng, inputs, before)
    return Dataset(
        index=index,
        name=name,
        layer=layer,
        columns=columns,
        inputs=inputs,
        period_h=period,
        job=f"{'ingest' if not inputs else 'build'}.{name}",
        rows=10 ** rng.uniform(3, 6) if not inputs else 0.0,
        selectivity=selectivity,
        is_incremental=not inputs or rng.random() < 0.5,
        is_strict=rng.random() < 0.5,
        filters_on=rng.randrange(len(columns)) if inputs and rng.random() < 0.2 else None,
        weekend=rng.uniform(0.6, 0.85) if rng.random() < 0.5 else 1.0,
        duration_s=10 ** rng.uniform(2.0, 2.85),
        offset_s=layer * 1500 + rng.uniform(0, 400),
        tells_rows=rng.random() < 0.97,
        tells_columns=rng.random() < 0.9,
        tells_column_lineage=rng.random() < 0.8,
        tested_daily=rng.random() < 0.2,
    )


def _inputs(rng: Random, layer: int, before: list[Dataset]) -> list[int]:
    if layer == 0:
        return []
    near = [each.index for each in before if each.layer == layer - 1]
    far = [each.index for each in before if each.layer < layer - 1]
    count = min(len(near), rng.choices((1, 2, 3, 4), (4, 4, 2, 1))[0])
    # Neighbours in a layer belong together, so most inputs are near each other: not everything hangs on everything.
    first = rng.randrange(len(near))
    chosen = [near[(first + step) % len(near)] for step in range(count)]
    if far and rng.random() < 0.25:
        chosen.append(rng.choice(far))
    return chosen


def _columns(rng: Random, inputs: list[int], before: list[Dataset]) -> list[Column]:
    count = rng.randint(4, 9)
    if not inputs:
        names = ["id", *rng.sample(FIELDS[1:], count - 1)]
        return [Column(name, _type(name), 0.0 if name == "id" else _nulls(rng)) for name in names]
    columns = [Column("id", "bigint", 0.0, (Source(inputs[0], 0),))]
    while len(columns) < count:
        place = rng.choice(inputs)
        source = rng.randrange(len(before[place].columns))
        sources = [Source(place, source)]
        if rng.random() < 0.2:
            other = rng.choice(inputs)
            sources.append(Source(other, rng.randrange(len(before[other].columns))))
        columns.append(_derived(rng, columns, before[place].columns[source], tuple(sources)))
    return columns


def _derived(rng: Random, taken: list[Column], source: Column, sources: tuple[Source, ...]) -> Column:
    name = source.name if rng.random() < 0.75 else f"{source.name}_{rng.choice(('x', 'key', 'norm'))}"
    names = {column.name for column in taken}
    while name in names:
        name = f"{name}_{rng.randrange(9)}"
    return Column(name, source.type, 0.0, sources)


def _tests(rng: Random, dataset: Dataset, depth: int) -> list[Test]:
    """Who is near to people is tested most; sources are hardly tested at all."""
    if rng.random() > 0.15 + 0.7 * dataset.layer / (depth - 1):
        return []
    kinds: list[tuple[str, int | None]] = [
        ("not_null", place) for place in rng.sample(range(1, len(dataset.columns)), 3)
    ]
    kinds += [(kind, None) for kind in ("unique", "row_count", "freshness") if rng.random() < 0.75]
    return [_test(rng, dataset, kind, column) for kind, column in kinds]


def _test(rng: Random, dataset: Dataset, kind: str, column: int | None) -> Test:
    table = dataset.name.partition(".")[2]
    place = 0 if kind == "unique" else column
    spelled = {
        "not_null": f"not_null_{table}_{dataset.columns[place or 0].name}",
        "unique": f"unique_{table}_id",
        "row_count": f"row_count_between_{table}",
        "freshness": f"dbt_utils_recency_{table}",
    }
    # Some names say nothing of what is tested.
    return Test(kind, f"check_{rng.randrange(1000)}" if rng.random() < 0.15 else spelled[kind], place)


def _type(name: str) -> str:
    return "bigint" if name == "id" else TYPES[sum(name.encode()) % len(TYPES)]


def _nulls(rng: Random) -> float:
    return rng.choice((0.0, 0.0, 0.002, 0.01, 0.03, 0.08))
