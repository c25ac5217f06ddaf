"""Measurements read back: as a series, as figures that agree with plain arithmetic, and thinned out."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from headgate.domain.metric import mean, percentile, sample_stddev
from headgate.server.metrics.schemas import MetricPage, StatsOut
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event
from tests.support.ingest import an_observed_server
from tests.support.server import Server, Tenant
from tests.support.stored import Stored

CLEANUP = "/api/v1/admin/metrics/cleanup"


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture
async def tenant(observed: tuple[Server, Stored]) -> Tenant:
    """An organisation of the test's own."""
    return await observed[0].add_tenant(f"Org {a_run_id()}")


@pytest.fixture
async def stored(observed: tuple[Server, Stored], tenant: Tenant) -> Stored:
    return Stored(observed[1].db, tenant.organization_id)


def ago(hours: float = 0, seconds: float = 0) -> str:
    at = datetime.now(UTC) - timedelta(hours=hours, seconds=seconds)
    return at.isoformat().replace("+00:00", "Z")


def written(rows: int | None, time: str, run: str | None = None, name: str = "t", **statistics: Any) -> Json:
    given = {"rowCount": rows} if rows is not None else {}
    facet = {"outputStatistics": a_facet(**given, **statistics)}
    namespace = "s3://lake" if "/" in name else "postgres://db"
    return an_event(run=run, job="load", time=time, outputs=[a_dataset(name, namespace, outputFacets=facet)])


async def ask(tenant: Tenant, rest: str = "", dataset: str = "t", **query: Any) -> httpx.Response:
    names = {"from_": "from"}
    params = {names.get(name, name): value for name, value in query.items() if value is not None}
    return await tenant.client.get(f"/api/v1/datasets/{quote(dataset, safe='')}/metrics{rest}", params=params)


async def series(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, **query)
    assert response.status_code == 200, response.text
    MetricPage.model_validate(response.json())
    return dict(response.json())


async def stats(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, "/stats", **query)
    assert response.status_code == 200, response.text
    StatsOut.model_validate(response.json())
    return dict(response.json())


async def row_counts(tenant: Tenant, **query: Any) -> list[int]:
    return [item["row_count"] for item in (await series(tenant, **query))["items"]]


async def test_a_measurement_is_told_with_all_that_is_known_of_it(tenant: Tenant) -> None:
    run, time = a_run_id(), ago(1)
    await tenant.send_ok(written(5, time, run, size=50, fileCount=2))
    found = await series(tenant)
    (item,) = found["items"]
    assert (item["row_count"], item["byte_size"], item["file_count"], item["partition_count"]) == (5, 50, 2, None)
    assert (item["measured_at"], item["run_id"], item["direction"]) == (time, run, "output")
    assert (item["job"]["namespace"], item["job"]["name"]) == ("tests", "load")
    assert (item["partition_key"], item["columns"]) == (None, None)
    assert (found["next_cursor"], found["latest_at"]) == (None, time)


async def test_a_profile_brings_its_columns_and_may_have_no_run(tenant: Tenant) -> None:
    columns = {"id": {"nullCount": 0, "distinctCount": 7}}
    dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=7, columnMetrics=columns)})
    await tenant.send_ok({"eventTime": ago(1), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset})
    (item,) = (await series(tenant))["items"]
    assert (item["direction"], item["columns"], item["run_id"], item["job"]) == ("profile", columns, None, None)


async def test_the_series_is_newest_first_whatever_arrives_when(tenant: Tenant) -> None:
    times = [ago(hours) for hours in (4, 2, 3, 1)]
    await tenant.send_ok(*(written(rows, time) for rows, time in zip((1, 3, 2, 4), times, strict=True)))
    assert await row_counts(tenant) == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("hours", "rows"), [(None, [1, 2]), (1, [1]), (720, [1, 2]), (2160, [1, 2, 3]), (8760, [1, 2, 3, 4])]
)
async def test_the_window_counts_back_from_now(tenant: Tenant, hours: int | None, rows: list[int]) -> None:
    times = [ago(0.5), ago(719), ago(2159), ago(8759), ago(8761)]
    await tenant.send_ok(*(written(count, time) for count, time in enumerate(times, start=1)))
    assert await row_counts(tenant, hours=hours) == rows


async def test_an_empty_window_says_when_there_was_something(tenant: Tenant) -> None:
    await tenant.send_ok(written(1, "2019-05-01T10:00:00Z"), written(2, "1999-05-01T10:00:00Z"))
    assert await series(tenant) == {"items": [], "next_cursor": None, "latest_at": "2019-05-01T10:00:00Z"}
    old = await series(tenant, from_="1999-01-01T00:00:00Z", to="2000-01-01T00:00:00Z")
    assert [item["row_count"] for item in old["items"]] == [2]
    assert await row_counts(tenant, from_="1999-01-01T00:00:00Z") == [1, 2]
    assert await row_counts(tenant, to="1999-05-02T00:00:00Z", hours=24) == [2]


async def test_a_window_holds_its_beginning_and_not_its_end(tenant: Tenant) -> None:
    first, second = "2019-05-01T10:00:00Z", "2019-05-01T11:00:00Z"
    await tenant.send_ok(written(1, first), written(2, second))
    assert await row_counts(tenant, from_=first, to=second) == [1]
    assert await row_counts(tenant, from_=second) == [2]


async def test_what_is_dated_ahead_is_in_the_window(tenant: Tenant) -> None:
    await tenant.send_ok(written(1, ago(-1)), written(2, ago(1)))
    assert await row_counts(tenant, hours=2) == [1, 2]


async def test_a_dataset_that_nobody_measured_has_an_empty_series(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    assert await series(tenant) == {"items": [], "next_cursor": None, "latest_at": None}


async def test_two_partitions_are_told_apart(tenant: Tenant) -> None:
    for country, rows in (("DE", 10), ("FR", 20), ("DE", 30)):
        run, name = a_run_id(), f"orders/country={country}/dt=2026-03-01"
        await tenant.send_ok(
            an_event("START", run=run, job="load", time=ago(seconds=200)),
            written(rows, ago(seconds=100 - rows), run, name),
        )
    german = "s3://lake/orders/country=DE/dt=*"
    assert await row_counts(tenant, dataset="s3://lake/orders") == [30, 20, 10]
    assert await row_counts(tenant, dataset="s3://lake/orders", partition_key=german) == [30, 10]
    assert await row_counts(tenant, dataset="s3://lake/orders", partition_key="") == []
    found = await series(tenant, dataset="s3://lake/orders", partition_key="s3://lake/orders/country=IT/dt=*")
    assert (found["items"], found["latest_at"]) == ([], None)
    figures = await stats(tenant, dataset="s3://lake/orders", partition_key=german)
    assert (figures["row_count"]["count"], figures["row_count"]["mean"]) == (2, 20)
    assert (figures["partition_key"], figures["duration_ms"]["count"]) == (german, 2)


async def test_directions_are_told_apart(tenant: Tenant) -> None:
    read = {"inputStatistics": a_facet(rowCount=3), "dataQualityMetrics": a_facet(rowCount=7)}
    await tenant.send_ok(written(5, ago(2)), an_event(time=ago(1), inputs=[a_dataset("t", inputFacets=read)]))
    assert sorted(await row_counts(tenant)) == [3, 5, 7]
    assert await row_counts(tenant, direction="input") == [3]
    assert await row_counts(tenant, direction="output") == [5]
    assert await row_counts(tenant, direction="profile") == [7]


@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
async def test_pages_lose_and_repeat_nothing_even_within_one_run(tenant: Tenant, limit: int) -> None:
    run, time = a_run_id(), ago(1)
    lake = [
        a_dataset(f"o/country={code}", "s3://lake", outputFacets={"outputStatistics": a_facet(rowCount=rows)})
        for rows, code in enumerate(["DE", "FR", "IT", "ES", "PL"])
    ]
    await tenant.send_ok(an_event(run=run, time=time, outputs=lake), written(9, time, name="o/country=DE"))
    found: list[int] = []
    cursor = None
    while True:
        page = await series(tenant, dataset="s3://lake/o", limit=limit, cursor=cursor)
        assert len(page["items"]) <= limit
        found += [item["row_count"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(found) == [0, 1, 2, 3, 4, 9]


async def test_a_cursor_holds_the_longest_partition(tenant: Tenant, stored: Stored) -> None:
    name = "o/country=DE/" + "ы" * 950 + "/x=1"
    await tenant.send_ok(written(1, ago(2), name=name), written(2, ago(1), name=name))
    dataset = str((await stored.metrics())[0]["dataset_id"])
    first = await series(tenant, dataset=dataset, limit=1)
    assert await row_counts(tenant, dataset=dataset, limit=1, cursor=first["next_cursor"]) == [1]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"hours": 0}, "hours"),
        ({"hours": 8761}, "hours"),
        ({"hours": "many"}, "hours"),
        ({"direction": "sideways"}, "direction"),
        ({"limit": 1001}, "limit"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "WyJtZWFzdXJlZF9hdCIsICJ4IiwgIjAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMCJd"}, "cursor"),
        ({"from_": "2026-03-01"}, "from"),
        ({"to": "tomorrow"}, "to"),
        ({"from_": "2026-03-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}, "from"),
        ({"partition_key": "x" * 10_000}, "partition_key"),
    ],
    ids=str,
)
async def test_wrong_questions_are_refused_by_name(tenant: Tenant, query: Json, path: str) -> None:
    await tenant.send_ok(written(1, ago(1)))
    response = await ask(tenant, **query)
    assert response.status_code == 422, response.text
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{path}"]


@pytest.mark.parametrize("days", [0, 366, "x"])
async def test_stats_over_a_wrong_number_of_days_are_refused(tenant: Tenant, days: object) -> None:
    response = await ask(tenant, "/stats", days=days)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == ["query.days"]


async def test_stats_of_nothing_are_counts_of_nothing(tenant: Tenant) -> None:
    await tenant.send_ok(an_event("START", outputs=[a_dataset("t")]))
    found = await stats(tenant)
    nothing = {"count": 0} | dict.fromkeys(["mean", "stddev", "min", "max", "p5", "p95", "latest"])
    assert [found[name] for name in ("row_count", "byte_size", "file_count", "duration_ms")] == [nothing] * 4
    assert (found["direction"], found["latest_at"]) == (None, None)


async def test_one_point_has_no_spread(tenant: Tenant) -> None:
    await tenant.send_ok(written(5, ago(1)))
    figure = (await stats(tenant))["row_count"]
    assert figure == {"count": 1, "mean": 5, "stddev": None, "min": 5, "max": 5, "p5": 5, "p95": 5, "latest": 5}


async def test_fifteen_usual_days_and_a_spike(tenant: Tenant) -> None:
    await tenant.send_ok(*(written(100, ago(16 - n)) for n in range(15)), written(1000, ago(0.5)))
    figure = (await stats(tenant))["row_count"]
    assert (figure["count"], figure["mean"], figure["stddev"], figure["latest"]) == (16, 156.25, 225.0, 1000)


@pytest.mark.parametrize("seed", range(5))
async def test_stats_agree_with_plain_arithmetic(tenant: Tenant, stored: Stored, seed: int) -> None:
    rng = random.Random(seed)
    await tenant.send_ok(written(1, ago(24 * 200)))
    dataset = await stored.dataset("t")
    scale = 10 ** rng.randint(0, 15)
    points = [
        (rng.randrange(10 * scale), None if rng.random() < 0.3 else rng.randrange(scale), rng.random() * 29)
        for _ in range(rng.randint(2, 60))
    ]
    now = datetime.now(UTC)
    await stored.db.executemany(
        """INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, row_count,
                                        byte_size)
           VALUES ($1, $2, $3, $4, 'output', $5, $6)""",
        [
            (stored.organization_id, dataset["id"], now - timedelta(days=days), uuid4(), rows, size)
            for rows, size, days in points
        ],
    )
    found = await stats(tenant)
    newest_first = sorted(points, key=lambda point: point[2])
    for name, values in (
        ("row_count", [rows for rows, _, _ in newest_first]),
        ("byte_size", [size for _, size, _ in newest_first if size is not None]),
    ):
        assert found[name]["count"] == len(values)
        assert found[name]["mean"] == pytest.approx(mean(values))
        assert found[name]["stddev"] == pytest.approx(sample_stddev(values))
        assert found[name]["p5"] == pytest.approx(percentile(values, 0.05))
        assert found[name]["p95"] == pytest.approx(percentile(values, 0.95))
        extremes = (found[name]["min"], found[name]["max"], found[name]["latest"])
        assert extremes == (min(values, default=None), max(values, default=None), next(iter(values), None))
    assert found["file_count"]["count"] == 0


async def test_stats_keep_to_their_window(tenant: Tenant) -> None:
    await tenant.send_ok(written(1, ago(23)), written(100, ago(24 * 29)), written(10_000, ago(24 * 364)))
    assert (await stats(tenant, days=1))["row_count"]["mean"] == 1
    assert (await stats(tenant))["row_count"]["count"] == 2
    assert (await stats(tenant, days=365))["row_count"]["max"] == 10_000
    older = await stats(tenant, from_=ago(24 * 365), to=ago(24 * 20))
    assert (older["row_count"]["count"], older["row_count"]["latest"]) == (2, 100)


async def test_stats_look_at_what_was_written_before_what_was_read(tenant: Tenant) -> None:
    time = ago(2)
    read = {"inputStatistics": a_facet(rowCount=3)}
    await tenant.send_ok(written(5, time), an_event(time=ago(1), inputs=[a_dataset("t", inputFacets=read)]))
    found = await stats(tenant)
    assert (found["direction"], found["latest_at"], found["row_count"]["mean"]) == ("output", time, 5)
    assert (await stats(tenant, direction="input"))["row_count"]["mean"] == 3


async def test_stats_of_what_is_only_read_are_those_of_its_readers(tenant: Tenant) -> None:
    read = {"inputStatistics": a_facet(rowCount=8)}
    await tenant.send_ok(an_event(time=ago(1), inputs=[a_dataset("t", inputFacets=read)]))
    found = await stats(tenant)
    assert (found["direction"], found["row_count"]["mean"]) == ("input", 8)


async def test_durations_are_those_of_completed_runs_that_wrote_it(tenant: Tenant) -> None:
    def run(seconds: float, end: str = "COMPLETE", job: str = "load", **facets: Any) -> list[Json]:
        run_id, outputs = a_run_id(), [a_dataset("t")]
        begin = an_event("START", run=run_id, job=job, time=ago(1, seconds), outputs=outputs, **facets)
        return [begin, an_event(end, run=run_id, job=job, time=ago(1), outputs=outputs, **facets)]

    test = {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}
    await tenant.send_ok(*run(10), *run(30, job="other"), *run(500, "FAIL"), *run(900, job="check", job_facets=test))
    await tenant.send_ok(written(1, ago(1)))  # whoever tells of the end only does not say how long it took
    figure = (await stats(tenant))["duration_ms"]
    assert figure["count"] == 2
    assert figure["mean"] == pytest.approx(20_000, abs=500)
    assert (figure["min"], figure["max"]) == (pytest.approx(10_000, abs=500), pytest.approx(30_000, abs=500))


@pytest.mark.parametrize("rest", ["", "/stats"])
async def test_another_organisation_has_no_such_dataset(
    observed: tuple[Server, Stored], tenant: Tenant, stored: Stored, rest: str
) -> None:
    await tenant.send_ok(written(1, ago(1)))
    dataset_id = str((await stored.dataset("t"))["id"])
    other = await observed[0].add_tenant(f"Org {a_run_id()}")
    foreign, unknown = await ask(other, rest, dataset=dataset_id), await ask(other, rest, dataset=str(uuid4()))
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["hint"] == unknown.json()["hint"]


async def clean(tenant: Tenant, **query: Any) -> Json:
    response = await tenant.client.post(CLEANUP, params=query)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def test_cleanup_keeps_the_latest_of_each_dataset_direction_and_partition(tenant: Tenant, stored: Stored) -> None:
    for n in range(5):
        await tenant.send_ok(
            written(n, ago(n + 1)),
            written(10 + n, ago(n + 1), name="o/country=DE"),
            written(20 + n, ago(n + 1), name="o/country=FR"),
            an_event(
                time=ago(n + 1), inputs=[a_dataset("t", inputFacets={"inputStatistics": a_facet(rowCount=30 + n)})]
            ),
        )
    await tenant.send_ok(written(99, "2001-01-01T00:00:00Z", name="u"))
    assert await clean(tenant, keep=2) == {"deleted": 12, "datasets": 2, "next_cursor": None}
    left = sorted(row["row_count"] for row in await stored.metrics())
    assert left == [0, 1, 10, 11, 20, 21, 30, 31, 99]
    assert await clean(tenant, keep=2) == {"deleted": 0, "datasets": 0, "next_cursor": None}


async def test_cleanup_goes_on_where_it_stopped_and_leaves_others_alone(
    observed: tuple[Server, Stored], tenant: Tenant, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.server.metrics.routes.CLEANUP_DATASETS", 1)
    monkeypatch.setattr("headgate.server.metrics.routes.CLEANUP_S", 1e-9)
    other = await observed[0].add_tenant(f"Org {a_run_id()}")
    for each in (tenant, other):
        await each.send_ok(*(written(n, ago(n + 1), name=name) for n in range(3) for name in ("t", "u")))
    answer = await clean(tenant, keep=1)
    deleted = answer["deleted"]
    for _ in range(5):
        if answer["next_cursor"] is None:
            break
        answer = await clean(tenant, keep=1, cursor=answer["next_cursor"])
        deleted += answer["deleted"]
    assert (deleted, answer["next_cursor"]) == (4, None)
    assert [row["row_count"] for row in await stored.metrics()] == [0, 0]
    assert len(await Stored(stored.db, other.organization_id).metrics()) == 6


@pytest.mark.parametrize(
    ("query", "path"),
    [({}, "keep"), ({"keep": 0}, "keep"), ({"keep": -5}, "keep"), ({"keep": 10**7}, "keep"),
     ({"keep": 1, "cursor": "x"}, "cursor")],
    ids=str,
)  # fmt: skip
async def test_cleanup_has_to_be_told_how_much_to_keep(tenant: Tenant, query: Json, path: str) -> None:
    response = await tenant.client.post(CLEANUP, params=query)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{path}"]


async def test_cleanup_is_for_admins(observed: tuple[Server, Stored], tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(written(1, ago(2)), written(2, ago(1)))
    session = await tenant.client.post("/api/v1/auth/login", json={"email": tenant.email, "password": tenant.password})
    made = await tenant.client.post(
        "/api/v1/auth/api-keys",
        json={"name": "writer", "scopes": ["read", "write", "ingest"]},
        headers={"authorization": f"Bearer {session.json()['token']}"},
    )
    async with observed[0].anonymous() as client:
        client.headers["authorization"] = f"Bearer {made.json()['key']}"
        assert (await client.post(CLEANUP, params={"keep": 1})).status_code == 403
    assert len(await stored.metrics()) == 2
