"""Runs to tell stories about; each builder takes only what matters to a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.pipelines.record import (
    ColumnProfile,
    DatasetRef,
    DriftRecord,
    FieldRecord,
    GateRecord,
    NodeRecord,
    QuarantineRecord,
    RowCountRecord,
    RunRecord,
    Status,
    TestRecord,
    overall,
)
from headgate.story import Kind, Lineage, LineageEdge, LineageNode, Story

START = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)
TOLD = datetime(2026, 3, 2, 5, 0, tzinfo=UTC)
LAKE = "file"


def a_dataset(label: str) -> DatasetRef:
    return DatasetRef(LAKE, f"/data/{label}", label)


def a_node(name: str = "silver.trips", status: Status = Status.published, **facts: Any) -> NodeRecord:
    pipeline, _, node = name.partition(".")
    facts.setdefault("started_at", START)
    facts.setdefault("ended_at", START + timedelta(seconds=30))
    return NodeRecord(pipeline, node, f"run-of-{name}", status, **facts)


def a_run(*nodes: NodeRecord, **facts: Any) -> RunRecord:
    pipelines = tuple(dict.fromkeys(node.pipeline for node in nodes))
    facts.setdefault("status", overall(list(nodes)))
    facts.setdefault("started_at", START)
    facts.setdefault("ended_at", START + timedelta(minutes=4, seconds=12))
    facts.setdefault("run_id", "0195-run")
    return RunRecord(project="taxi", pipelines=pipelines, nodes=list(nodes), **facts)


def a_story(*nodes: NodeRecord, **facts: Any) -> Story:
    return Story(facts.pop("run", None) or a_run(*nodes), facts.pop("generated_at", TOLD), **facts)


def a_test(name: str = "fare_range", status: str = "passed", failed: int = 0, **facts: Any) -> TestRecord:
    return TestRecord(name, facts.pop("type", "range"), facts.pop("on_fail", "fail"), status, failed, **facts)


def a_gate(*, passed: bool = True, **facts: Any) -> GateRecord:
    given: dict[str, Any] = {
        "pass_rate": 1.0,
        "required": 0.95,
        "action": None if passed else "abort",
        "total_rows": 100,
        "passed_rows": 100,
        "failed_rows": 0,
        "per_test_rates": {},
        "reasons": (),
    }
    given["row_count"] = RowCountRecord(facts.get("total_rows", 100), None, None)
    return GateRecord(passed=passed, **{**given, **facts})


def a_quarantine(rows: int = 3, **facts: Any) -> QuarantineRecord:
    place = a_dataset("lake/quarantine/trips")
    facts.setdefault("failed_tests", {"fare_range": rows})
    return QuarantineRecord(place, "/data/quarantine/trips/_source_batch_id=0195-run", "0195-run", rows, **facts)


def fields(**types: str) -> tuple[FieldRecord, ...]:
    return tuple(FieldRecord(name, kind) for name, kind in types.items())


TRIP_FIELDS = fields(
    trip_id="bigint", vendor_id="int", pickup_at="timestamp", dropoff_at="timestamp", fare="double", zone="string"
)


def _bronze_trips() -> NodeRecord:
    return a_node(
        "bronze.trips",
        description="Yellow taxi trips as the commission publishes them.",
        inputs=(a_dataset("landing/yellow_tripdata"),),
        output=a_dataset("lake/bronze/trips"),
        mode="append",
        rows_in=3_066_766,
        rows_valid=3_066_766,
        rows_published=3_066_766,
        bytes_published=51_234_567,
        files_published=8,
        schema=TRIP_FIELDS,
        drift=DriftRecord(added=("airport_fee double",), changed=("passenger_count: int → double",)),
        timings_s={"read": 1.2, "test": 6.4, "write": 9.81, "publish": 0.4, "total": 18.4},
        tests=(a_test("not_empty", type="row_count", observed=3_066_766, limit="at least 1"),),
        watermark={"column": "pickup_at", "value": "2026-03-01T23:59:58Z"},
        owner="data-platform",
    )


def _bronze_weather() -> NodeRecord:
    return a_node(
        "bronze.weather",
        Status.failed,
        inputs=(a_dataset("landing/weather_observations_hourly_central_park"),),
        attempt=3,
        error="the file landing/weather/2026-03-01.csv cannot be read: column 'temp_c' is 'n/a' in line 18"
        "\nset read.options.nullValue to 'n/a', or mode to PERMISSIVE",
        timings_s={"read": 2.2, "total": 2.3},
        owner="weather-team",
    )


def _bronze_zones() -> NodeRecord:
    return a_node(
        "bronze.zones",
        inputs=(a_dataset("landing/taxi_zone_lookup"),),
        output=a_dataset("lake/bronze/zones"),
        mode="overwrite",
        rows_in=265,
        rows_valid=265,
        rows_published=265,
        schema=fields(location_id="int", borough="string", zone="string"),
        timings_s={"read": 0.3, "write": 0.52, "total": 0.9},
        ended_at=START + timedelta(seconds=0.9),
        owner="data-platform",
    )


SAMPLES: tuple[dict[str, Any], ...] = (
    {
        "trip_id": 88121,
        "pickup_at": "2026-02-2*",
        "fare": "-**.**",
        "zone": "J** A******",
        "_failed_tests": ["fare_range"],
    },
    {
        "trip_id": 88127,
        "pickup_at": "2026-02-2*",
        "fare": None,
        "zone": "M******",
        "_failed_tests": ["fare_range", "fare"],
    },
    {
        "trip_id": 90551,
        "pickup_at": "2009-01-0*",
        "fare": "**.**",
        "zone": "Q*****",
        "_failed_tests": ["recent_pickup"],
    },
)


def _silver_trips() -> NodeRecord:
    tests = (
        a_test("fare_range", "failed", 402_113, columns=("fare",), evaluated=3_066_766, on_fail="quarantine"),
        a_test(
            "recent_pickup",
            "failed",
            1_204,
            columns=("pickup_at",),
            evaluated=3_066_766,
            on_fail="fail",
            type="custom_sql",
            detail="pickup_at >= '2026-01-01'",
        ),
        a_test(
            "known_zone",
            "failed",
            61,
            columns=("zone",),
            evaluated=3_066_766,
            on_fail="warn",
            type="foreign_key",
            limit="at most 0.001 %",
        ),
        a_test("trip_id_unique", columns=("trip_id",), evaluated=3_066_766, type="unique"),
        a_test("ids", columns=("trip_id", "vendor_id"), evaluated=3_066_766, type="not_null"),
        a_test("mean_fare", type="mean", columns=("fare",), observed=19.3741, limit="between 10 and 40"),
    )
    return a_node(
        "silver.trips",
        Status.stopped,
        description="Trips with a plausible fare and a known zone.",
        inputs=(a_dataset("lake/bronze/trips"), a_dataset("lake/bronze/zones")),
        output=a_dataset("lake/silver/trips"),
        mode="upsert",
        rows_in=3_066_766,
        rows_valid=2_664_653,
        rows_quarantined=402_113,
        tests=tests,
        gate=a_gate(
            passed=False,
            pass_rate=2_663_449 / 3_066_766,
            total_rows=3_066_766,
            passed_rows=2_663_449,
            failed_rows=403_317,
            per_test_rates={
                "fare_range": 1 - 402_113 / 3_066_766,
                "recent_pickup": 1 - 1_204 / 3_066_766,
                "known_zone": 1 - 61 / 3_066_766,
                "trip_id_unique": 1.0,
                "ids": 1.0,
            },
            row_count=RowCountRecord(3_066_766, 3_041_990, 0.0081),
            reasons=(
                "86.8488 % of the rows pass, 95 % are required",
                "test 'fare_range' passes for 86.8881 % of the rows, 99 % are required",
            ),
        ),
        reasons=("86.8488 % of the rows pass, 95 % are required",),
        quarantine=a_quarantine(
            402_113,
            failed_tests={"fare_range": 402_113, "recent_pickup": 377, "known_zone": 12},
            state="gate_aborted",
            retention_days=90,
            samples=SAMPLES,
        ),
        schema=TRIP_FIELDS,
        profile={
            "fare": ColumnProfile(1_204, 8_121, -80.5, 980.25),
            "zone": ColumnProfile(0, 263, "Allerton/Pelham Gardens", "Yorkville West"),
        },
        timings_s={"read": 2.1, "keys": 3.3, "test": 21.7, "gate": 0.05, "quarantine": 4.8, "total": 33.4},
        ended_at=START + timedelta(seconds=33.4),
        owner="mobility",
        tags=("pii", "daily"),
        notes=("duplicate keys were few enough to broadcast",),
    )


def _others() -> list[NodeRecord]:
    zones = a_node(
        "silver.zones",
        inputs=(a_dataset("lake/bronze/zones"),),
        output=a_dataset("lake/silver/zones"),
        mode="overwrite",
        rows_in=265,
        rows_valid=263,
        rows_quarantined=2,
        rows_published=263,
        tests=(
            a_test("borough", "failed", 2, columns=("borough",), evaluated=265, on_fail="quarantine", type="not_null"),
        ),
        gate=a_gate(pass_rate=263 / 265, total_rows=265, passed_rows=263, per_test_rates={"borough": 263 / 265}),
        quarantine=a_quarantine(2, failed_tests={"borough": 2}),
        timings_s={"read": 0.2, "test": 0.9, "write": 0.7, "total": 1.9},
        owner="mobility",
    )
    skipped = {"started_at": None, "ended_at": None, "notes": ("silver.trips was stopped",)}
    daily = a_node(
        "gold.daily_revenue",
        Status.skipped,
        inputs=(a_dataset("lake/silver/trips"),),
        output=a_dataset("lake/gold/daily_revenue"),
        **skipped,
    )
    by_zone = a_node(
        "gold.revenue_by_zone_and_weather",
        Status.skipped,
        inputs=(a_dataset("lake/silver/trips"), a_dataset("lake/silver/zones")),
        output=a_dataset("lake/gold/revenue_by_zone_and_weather"),
        **skipped,
    )
    boroughs = a_node(
        "gold.boroughs",
        inputs=(a_dataset("lake/silver/zones"),),
        output=a_dataset("lake/gold/boroughs"),
        mode="overwrite",
        rows_in=7,
        rows_valid=7,
        rows_published=7,
        gate=a_gate(total_rows=7, passed_rows=7, row_count=RowCountRecord(7, 7, 0.0)),
        tests=(a_test("borough", columns=("borough",), evaluated=7, type="unique"),),
    )
    return [zones, boroughs, daily, by_zone]


def a_rich_run() -> RunRecord:
    """Three pipelines: one node stopped by its gate, one failed, two skipped, quarantine and drift."""
    nodes = [_bronze_trips(), _bronze_weather(), _bronze_zones(), _silver_trips(), *_others()]
    return a_run(
        *nodes, run_id="01957f3a-52c1-7d44-9a0e-6f1b2c3d4e5f", environment="production", file="taxi/headgate.yaml"
    )


def a_rich_previous() -> RunRecord:
    schema = fields(trip_id="bigint", vendor_id="int", pickup_at="timestamp", dropoff_at="timestamp", fare="float")
    silver = a_node(
        "silver.trips",
        rows_in=3_041_990,
        rows_valid=3_039_100,
        rows_quarantined=2_890,
        rows_published=3_039_100,
        schema=schema,
        ended_at=START + timedelta(seconds=36),
        tests=(a_test("fare_range", failed=2_890), a_test("known_zone", "failed", 40), a_test("ids", "failed", 12)),
    )
    nodes = [
        a_node(
            "bronze.trips",
            rows_in=3_041_990,
            rows_published=3_041_990,
            schema=TRIP_FIELDS,
            ended_at=START + timedelta(seconds=26),
        ),
        a_node("bronze.weather", rows_in=24, rows_published=24),
        a_node("bronze.zones", rows_in=265, rows_published=265),
        silver,
        a_node("silver.zones", rows_in=265, rows_published=265),
        a_node("gold.boroughs", rows_in=7, rows_published=7),
        a_node("gold.daily_revenue", rows_in=3_039_100, rows_published=31),
        a_node("gold.tips", rows_in=3_039_100, rows_published=31),
    ]
    return a_run(
        *nodes,
        run_id="01957a13-0000-7d44-9a0e-000000000000",
        started_at=START - timedelta(days=1),
        ended_at=START - timedelta(days=1) + timedelta(minutes=3, seconds=40),
    )


def a_rich_story() -> Story:
    up = Lineage(
        nodes=(
            LineageNode("tlc/publish.yellow", "publish.yellow", Kind.job, "tlc"),
            LineageNode(f"{LAKE}//data/landing/yellow_tripdata", "landing/yellow_tripdata", Kind.dataset, "tlc"),
        ),
        edges=(LineageEdge("tlc/publish.yellow", f"{LAKE}//data/landing/yellow_tripdata"),),
    )
    down = Lineage(
        nodes=(
            LineageNode("finance/report.month_end", "month_end", Kind.job, "finance_report"),
            LineageNode("warehouse/finance.month_end", "finance.month_end", Kind.dataset, "finance_report"),
            LineageNode("ml/churn.features", "churn.features", Kind.job, "churn"),
        ),
        edges=(
            LineageEdge(f"{LAKE}//data/lake/gold/daily_revenue", "finance/report.month_end"),
            LineageEdge("finance/report.month_end", "warehouse/finance.month_end"),
            LineageEdge(f"{LAKE}//data/lake/silver/trips", "ml/churn.features"),
        ),
    )
    return Story(a_rich_run(), TOLD, a_rich_previous(), up, down, "https://headgate.example.com")
