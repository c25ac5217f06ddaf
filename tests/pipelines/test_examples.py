"""The examples: generators that know their defects, and projects whose runs find each of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml

from headgate.cli.main import run as headgate
from headgate.pipelines.assemble import Assembly, Wishes, new_run
from headgate.pipelines.load import load
from headgate.pipelines.plan import make_plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.watchers import Watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRIPS, LINES = 2_000, 2_000
# What is wrong with a row, told without the project: by test.
WRONG_TRIPS = {
    "ends_after_it_begins": "tpep_dropoff_datetime < tpep_pickup_datetime",
    "times_are_known": "tpep_pickup_datetime IS NULL OR tpep_dropoff_datetime IS NULL",
    "fare_is_paid": "fare_amount NOT BETWEEN 0 AND 1000",
    "is_of_the_day": "to_date(tpep_pickup_datetime) <> DATE '{day}'",
    "total_is_the_sum": "abs(total_amount - (fare_amount + extra + mta_tax + tip_amount + tolls_amount"
    " + improvement_surcharge + congestion_surcharge + airport_fee)) >= 0.005",
    "passengers_are_counted": "passenger_count IS NULL",
    "pickup_is_known": "PULocationID NOT BETWEEN 1 AND 263",
    "dropoff_is_known": "DOLocationID NOT BETWEEN 1 AND 263",
    "somebody_rides": "passenger_count NOT BETWEEN 1 AND 9",
    "rate_is_known": "RatecodeID NOT BETWEEN 1 AND 6",
    "distance_has_a_fare": "trip_distance = 0 AND fare_amount <> 0",
}
WRONG_LINES = {
    "sign_fits_the_kind": "(InvoiceNo LIKE 'C%') <> (Quantity < 0)",
    "customer_is_known": "CustomerID NOT BETWEEN 12346 AND 12346 + 519",
    "product_is_known": "length(StockCode) <> 5",
    "price_is_paid": "UnitPrice < 0",
    "has_a_customer": "CustomerID IS NULL",
    "is_described": "Description = ''",
}


class Silent(Watched):
    """Nobody looks."""

    def preparing(self, what: str) -> None: ...


@dataclass
class Project:
    """A copy of an example, its generator, and the runs of its days, which are remembered as a user's would be."""

    name: str
    folder: Path
    generate: ModuleType
    runs: dict[str, RunRecord] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / f"{self.name}.yaml"

    def run(self, day: str) -> RunRecord:
        plan = make_plan(load(self.file, variables={"DAY": day}))
        self.runs[day] = Assembly(plan, new_run(plan), Wishes(has_server=False), Silent()).run()
        return self.runs[day]

    def node(self, day: str, name: str) -> NodeRecord:
        return next(node for node in self.runs[day].nodes if node.name == name)

    def failed(self, day: str, name: str) -> dict[str, int]:
        """How many rows failed each test that the generator knows of."""
        known = self.generate.TESTS
        return {test.name: test.failed for test in self.node(day, name).tests if test.name in known}

    def read(self, spark: SparkSession, path: str) -> DataFrame:
        return spark.read.parquet(str(self.folder / "data" / path))


def example(name: str) -> Path:
    return ROOT / "examples" / name / f"{name}.yaml"


def generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", example(name).with_name("generate.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Data classes look their own module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def project(name: str, folder: Path) -> Project:
    return Project(name, Path(shutil.copytree(example(name).parent, folder / name)), generator(name))


@pytest.fixture(scope="module")
def taxi(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The taxi project after all of its days."""
    made = project("taxi", tmp_path_factory.mktemp("examples"))
    made.generate.write_zones(made.folder / "data" / "bronze")
    for day in made.generate.DAYS:
        made.generate.write_day(spark, made.folder / "data" / "bronze", day, TRIPS)
        made.run(day)
    return made


@pytest.fixture(scope="module")
def retail(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The shop after all of its days."""
    made = project("retail", tmp_path_factory.mktemp("examples"))
    for day in made.generate.DAYS:
        made.generate.write_day(spark, made.folder / "data" / "bronze", day, LINES)
        made.run(day)
    return made


@pytest.fixture(autouse=True)
def _modules_of_its_own() -> Iterator[None]:
    """Both projects may have a module of the same name."""
    yield
    sys.modules.pop("cleaning", None)


def counted(rows: DataFrame, wrong: dict[str, str], keys: list[str], **words: str) -> dict[str, int]:
    """How many rows are wrong in each way, and how many are there a second time."""
    sums = [f"count_if({condition.format(**words)}) AS {test}" for test, condition in wrong.items()]
    found = rows.selectExpr(*sums).first()
    assert found is not None
    return found.asDict() | {"is_sent_once": rows.count() - rows.dropDuplicates(keys).count()}


def content(rows: DataFrame) -> list[Any]:
    """What tells two frames apart, whatever the order of their rows."""
    return list(rows.selectExpr("count(*)", "bit_xor(xxhash64(*))", "sum(xxhash64(*) % 1000000)").collect())


@pytest.mark.parametrize("name", ["taxi", "retail"])
def test_the_file_is_valid_by_the_published_schema(name: str) -> None:
    schema = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text(encoding="utf-8"))

    jsonschema.validate(yaml.safe_load(example(name).read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize("name", ["taxi", "retail"])
def test_the_file_is_valid_by_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate(["validate", str(example(name))]) == 0
    assert "is valid" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "node"), [("taxi", "trips"), ("retail", "lines")])
def test_the_generator_expects_what_the_file_tests(name: str, node: str) -> None:
    tests = next(each.tests for each in make_plan(load(example(name))).nodes if each.config.name == node)

    assert {test.name for test in tests if test.config.is_row_level} == set(generator(name).TESTS)


@pytest.mark.parametrize("day", generator("taxi").DAYS)
def test_trips_have_exactly_the_defects_that_are_told(spark: SparkSession, day: str) -> None:
    made = generator("taxi")
    rows = made.trips_of(spark, day, TRIPS)
    keys = ["VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "PULocationID", "DOLocationID"]

    assert counted(rows, WRONG_TRIPS, keys, day=day) == made.expected(day, TRIPS)
    assert rows.count() == made.DAYS[day].rows(TRIPS)
    assert set(made.COLUMNS) - set(rows.columns) == set(made.DAYS[day].without)
    assert len(made.COLUMNS) == 19


@pytest.mark.parametrize("day", generator("retail").DAYS)
def test_lines_have_exactly_the_defects_that_are_told(spark: SparkSession, day: str) -> None:
    made = generator("retail")
    rows = made.lines_of(spark, day, LINES)

    assert counted(rows, WRONG_LINES, ["InvoiceNo", "StockCode"]) == made.expected(day, LINES)
    assert rows.count() == made.DAYS[day].rows(LINES)


@pytest.mark.parametrize("name", ["taxi", "retail"])
def test_the_same_rows_come_out_on_any_number_of_partitions(spark: SparkSession, name: str) -> None:
    made = generator(name)
    rows_of = made.trips_of if name == "taxi" else made.lines_of
    day = list(made.DAYS)[1]
    contents = []
    for partitions in (1, 5):
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", partitions)
        contents.append(content(rows_of(spark, day, 1_000)))
    spark.conf.unset("spark.sql.leafNodeDefaultParallelism")

    assert contents[0] == contents[1]


def test_there_are_the_zones_of_the_city() -> None:
    found = list(generator("taxi").zones())

    assert [number for number, *_ in found] == list(range(1, 266))
    assert sum(borough == "Manhattan" for _, borough, *_ in found) == 69


def test_every_defect_of_every_day_is_found_by_its_test(taxi: Project) -> None:
    assert {day: taxi.failed(day, "trips") for day in taxi.runs} == {
        day: taxi.generate.expected(day, TRIPS) for day in taxi.generate.DAYS
    }


def test_bad_trips_are_set_apart_and_the_rest_is_published(taxi: Project, spark: SparkSession) -> None:
    day, special = "2026-01-07", taxi.generate.DAYS["2026-01-07"]
    trips = taxi.node(day, "trips")

    assert trips.status is Status.published
    assert trips.rows_in == special.rows(TRIPS)
    assert trips.rows_quarantined == special.set_apart(TRIPS)
    assert trips.rows_published == special.rows(TRIPS) - special.set_apart(TRIPS)
    apart = taxi.read(spark, "silver/trips_quarantine").where(f"_source_batch_id = '{taxi.runs[day].run_id}'")
    assert apart.count() == special.set_apart(TRIPS)
    twice = apart.where("size(_failed_tests) > 1")
    assert twice.count() == special.counts(TRIPS)["backwards refund"] > 0


def test_a_broken_meter_is_stopped_by_the_gate(taxi: Project) -> None:
    day = "2026-01-08"
    trips = taxi.node(day, "trips")

    assert taxi.runs[day].status is Status.stopped
    assert trips.status is Status.stopped
    assert trips.gate is not None
    assert not trips.gate.passed
    assert "total_is_the_sum" in " ".join(trips.gate.reasons)
    assert trips.quarantine is not None
    assert trips.quarantine.state == "gate_aborted"
    assert {taxi.node(day, name).status for name in ("revenue", "tips")} == {Status.skipped}


def test_a_dropped_column_is_told_and_published(taxi: Project) -> None:
    trips = taxi.node("2026-01-09", "trips")

    assert trips.status is Status.published
    assert trips.drift is not None
    assert [each.split()[0] for each in trips.drift.removed] == ["store_and_fwd_flag"]
    assert trips.drift.policy == "warn"


def test_a_cut_off_file_is_stopped_by_its_row_count(taxi: Project) -> None:
    trips = taxi.node("2026-01-10", "trips")

    assert trips.status is Status.stopped
    assert trips.gate is not None
    assert trips.gate.row_count.previous == taxi.generate.DAYS["2026-01-09"].rows(TRIPS)
    assert "the row count changed by" in " ".join(trips.gate.reasons)


def test_good_days_are_published_with_their_reports(taxi: Project, spark: SparkSession) -> None:
    published = [day for day, run in taxi.runs.items() if run.status is Status.published]
    assert published == ["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-09", "2026-01-11"]
    for table in ("silver/trips", "gold/daily_revenue", "gold/tips"):
        days = taxi.read(spark, table).selectExpr("CAST(pickup_date AS STRING) AS day").distinct().collect()
        assert sorted(row.day for row in days) == published
    trips = taxi.read(spark, "silver/trips").count()
    for report in ("gold/daily_revenue", "gold/tips"):
        assert taxi.read(spark, report).selectExpr("sum(trips)").collect() == [(trips,)]


def test_a_day_that_is_run_again_replaces_itself(taxi: Project, spark: SparkSession) -> None:
    before = content(taxi.read(spark, "silver/trips"))

    again = taxi.run("2026-01-11")

    assert again.status is Status.published
    assert content(taxi.read(spark, "silver/trips")) == before


def test_places_that_nobody_knows_are_set_apart(taxi: Project) -> None:
    zones = taxi.node("2026-01-05", "zones")

    assert (zones.rows_in, zones.rows_quarantined, zones.rows_published) == (265, 2, 263)


def test_every_defect_of_the_shop_is_found_by_its_test(retail: Project) -> None:
    assert {day: retail.failed(day, "lines") for day in retail.runs} == {
        day: retail.generate.expected(day, LINES) for day in retail.generate.DAYS
    }


def test_lines_are_published_once_however_often_they_are_sent(retail: Project, spark: SparkSession) -> None:
    special = retail.generate.DAYS
    published = {day: retail.node(day, "lines").rows_published for day in retail.runs}

    assert published == {day: special[day].published(LINES) for day in special}
    assert special["2026-03-03"].again(LINES) > 0
    lines = retail.read(spark, "silver/lines")
    assert lines.count() == sum(published.values())
    # Two of a key are set apart also where one of them is wrong in other ways.
    assert lines.count() == lines.dropDuplicates(["InvoiceNo", "StockCode"]).count()


def test_a_day_that_is_too_bad_is_published_without_its_bad_rows(retail: Project) -> None:
    day, special = "2026-03-04", retail.generate.DAYS["2026-03-04"]
    lines = retail.node(day, "lines")

    assert lines.status is Status.published
    assert lines.gate is not None
    assert (lines.gate.passed, lines.gate.action) == (False, "write_valid_only")
    assert lines.rows_quarantined == special.set_apart(LINES)
    usual = retail.node("2026-03-03", "lines")
    assert usual.gate is not None
    assert usual.gate.passed
    assert usual.rows_quarantined == retail.generate.DAYS["2026-03-03"].set_apart(LINES)


def test_customers_keep_their_past(retail: Project, spark: SparkSession) -> None:
    made = retail.generate
    customers = retail.read(spark, "silver/customers")
    days = len(made.DAYS) - 1

    assert customers.count() == made.CUSTOMERS + days * (made.MOVED + made.NEW_CUSTOMERS)
    assert customers.where("is_current").count() == made.CUSTOMERS + days * made.NEW_CUSTOMERS
    assert customers.where("NOT is_current AND valid_to IS NULL").count() == 0


def test_products_are_as_they_are_now(retail: Project, spark: SparkSession) -> None:
    made = retail.generate
    days = len(made.DAYS) - 1

    products = retail.read(spark, "silver/products")

    assert products.count() == made.PRODUCTS + days * made.NEW_PRODUCTS
    repriced = "CAST(StockCode AS INT) < 10200 AND round(list_price * 100) <> 25 + 7 * (CAST(StockCode AS INT) - 10000)"
    assert products.where(repriced).count() == days * made.REPRICED


def test_sales_agree_with_the_lines_that_they_are_made_of(retail: Project, spark: SparkSession) -> None:
    sales = retail.node("2026-03-04", "sales")

    assert {test.name: test.status for test in sales.tests} == {"nothing_is_lost": "passed"}
    assert sales.rows_published == retail.read(spark, "silver/lines").count()
    assert retail.node("2026-03-04", "countries").rows_published == 4
