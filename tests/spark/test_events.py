"""What each action sends: who it belongs to, how it ended, what it cost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.watching import Watched, Watcher

# A row that takes its time; `sleep` gives no value, so there is none.
SLEEP = "coalesce(java_method('java.lang.Thread', 'sleep', 1500L), '')"


@contextlib.contextmanager
def _wish(watched: Watched, name: str, value: str) -> Iterator[None]:
    context = watched.spark.sparkContext
    context.setLocalProperty(f"spark.headgate.action.{name}", value)
    try:
        yield
    finally:
        context.setLocalProperty(f"spark.headgate.action.{name}", None)


def test_an_action_starts_and_completes_below_its_application(watched: Watched) -> None:
    seen = watched.one(lambda: watched.spark.range(10).write.parquet(watched.path("numbers")))

    assert [event["eventType"] for event in seen.events] == ["START", "COMPLETE"]
    assert seen.state == "COMPLETE"
    (parent,) = seen.run["parents"]
    assert parent["job"]["name"] == "watched"
    assert seen.run["root_run_id"] == parent["run_id"]


def test_a_job_is_named_after_its_application_command_and_target(watched: Watched) -> None:
    seen = watched.one(lambda: watched.spark.range(10).write.parquet(watched.path("numbers")))

    assert seen.job.startswith("watched.write.")
    assert seen.job.endswith("_numbers")


def test_the_same_write_is_the_same_job_again(watched: Watched) -> None:
    def write() -> None:
        watched.spark.range(10).write.mode("overwrite").parquet(watched.path("numbers"))

    assert watched.one(write).job == watched.one(write).job


def test_the_application_tells_how_it_was_started(watched: Watched, watcher: Watcher) -> None:
    seen = watched.one(lambda: watched.spark.range(1).collect())

    application = watched.client.run(seen.run["parent_run_id"])
    details = application["facets"]["spark_applicationDetails"]
    assert application["state"] == "START"
    assert details["master"] == "local[2]"
    assert details["applicationId"] == watched.spark.sparkContext.applicationId
    assert application["job_facets"]["jobType"]["jobType"] == "APPLICATION"


def test_rows_bytes_and_files_that_were_read_and_written(watched: Watched) -> None:
    watched.spark.range(0, 1000, 1, 2).write.parquet(watched.path("numbers"))

    seen = watched.one(
        lambda: watched.spark.read.parquet(watched.path("numbers")).where("id < 10").write.json(watched.path("few"))
    )

    files = list(Path(watched.path("few")).glob("part-*"))
    (few,) = seen.run["outputs"]
    assert seen.output_rows == {"few": 10}
    assert few["file_count"] == len(files)
    assert few["byte_size"] == sum(file.stat().st_size for file in files) > 0
    (numbers,) = seen.run["inputs"]
    assert numbers["file_count"] == 2
    assert numbers["byte_size"] > 0


def test_stages_say_what_they_cost(watched: Watched) -> None:
    seen = watched.one(
        lambda: (
            watched.spark.range(0, 1000, 1, 4)
            .selectExpr("id % 7 AS k")
            .groupBy("k")
            .count()
            .write.parquet(watched.path("counts"))
        )
    )

    shuffled = [stage for stage in seen.stages if stage["shuffle_write_records"]]
    assert [stage["num_tasks"] for stage in shuffled] == [4]
    assert shuffled[0]["shuffle_write_records"] == 4 * 7
    assert sum(stage["shuffle_read_records"] for stage in seen.stages) == 4 * 7
    assert sum(stage["output_records"] for stage in seen.stages) == 7
    for stage in seen.stages:
        assert stage["failed_tasks"] == 0
        assert stage["executor_cpu_time_ns"] > 0
        assert stage["disk_bytes_spilled"] == 0
        local = ("process_local_tasks", "node_local_tasks", "rack_local_tasks", "any_locality_tasks")
        assert sum(stage[name] for name in local) == stage["num_tasks"]
        assert stage["started_at"] <= stage["ended_at"]


def test_a_failed_action_tells_its_error_and_its_lineage(watched: Watched) -> None:
    watched.spark.range(10).write.parquet(watched.path("numbers"))

    def fail() -> None:
        with contextlib.suppress(Exception):
            frame = watched.spark.read.parquet(watched.path("numbers"))
            frame.selectExpr("CAST(assert_true(id < 5) AS string) AS checked", "id").write.parquet(
                watched.path("never")
            )

    seen = watched.one(fail)

    assert seen.state == "FAIL"
    assert "id" in seen.run["error_detail"]["message"]
    assert "at org.apache.spark" in seen.run["error_detail"]["stack_trace"]
    assert (seen.inputs, seen.outputs) == ({"numbers"}, {"never"})
    assert sum(stage["failed_tasks"] for stage in seen.stages) >= 1


def test_sql_is_sent_when_the_action_was_sql(watched: Watched) -> None:
    watched.spark.range(10).write.saveAsTable(watched.table("numbers"))
    query = f"CREATE TABLE {watched.table('few')} USING parquet AS SELECT id FROM {watched.table('numbers')}"

    seen = watched.one(lambda: watched.spark.sql(query))

    assert seen.run["job_facets"]["sql"]["query"] == query


def test_what_is_read_without_writing_is_told_too(watched: Watched) -> None:
    watched.spark.range(10).write.parquet(watched.path("numbers"))

    seen = watched.one(lambda: watched.spark.read.schema("id long").parquet(watched.path("numbers")).collect())

    assert (seen.inputs, seen.outputs) == ({"numbers"}, set())
    assert seen.job.startswith("watched.collect.")


def test_an_rdd_action_is_a_run_without_datasets(watched: Watched) -> None:
    seen = watched.one(lambda: watched.spark.sparkContext.parallelize(range(100), 2).map(lambda n: n + 1).sum())

    assert seen.run["job_facets"]["jobType"]["jobType"] == "RDD_JOB"
    assert (seen.inputs, seen.outputs) == (set(), set())
    assert [stage["num_tasks"] for stage in seen.stages] == [2]


def test_a_long_action_is_seen_while_it_runs(watched: Watched) -> None:
    watched.spark.range(2).write.parquet(watched.path("numbers"))
    slow = f"{SLEEP} AS slept"

    seen = watched.one(
        lambda: (
            watched.spark.read.parquet(watched.path("numbers"))
            .coalesce(1)
            .selectExpr("id", slow)
            .write.parquet(watched.path("slow"))
        )
    )

    start = seen.events[0]
    assert start["eventType"] == "START"
    assert [dataset["name"].endswith("/slow") for dataset in start["outputs"]] == [True]
    assert [dataset["name"].endswith("/numbers") for dataset in start["inputs"]] == [True]
    assert "columnLineage" not in start["outputs"][0]["facets"]


def test_a_caller_can_name_the_run_above_its_actions(watched: Watched) -> None:
    parent = str(uuid4())
    with _wish(watched, "parent", f"pipelines/shop.orders/{parent}"):
        seen = watched.one(lambda: watched.spark.range(10).write.parquet(watched.path("numbers")))

    assert seen.run["parent_run_id"] == parent
    assert seen.run["parents"][0]["job"]["name"] == "shop.orders"


def test_a_caller_can_map_staging_paths_to_their_targets(watched: Watched) -> None:
    watched.spark.range(10).write.parquet(watched.path("numbers"))
    numbers = watched.spark.read.parquet(watched.path("numbers"))

    with _wish(watched, "targets", f"{watched.path('staging')}\t{watched.path('orders')}"):
        seen = watched.one(lambda: numbers.write.parquet(watched.path("staging/run-7")))

    assert seen.outputs == {"orders"}
    assert seen.columns == {"orders.id <- numbers.id IDENTITY"}


def test_a_staging_path_can_stand_for_a_dataset_that_is_no_path(watched: Watched) -> None:
    mapping = f"{watched.path('staging')}\tpostgres://db.shop:5432\tshop.public.Orders"
    with _wish(watched, "targets", mapping):
        seen = watched.one(lambda: watched.spark.range(10).write.parquet(watched.path("staging/run-7")))

    (output,) = seen.events[-1]["outputs"]
    assert (output["namespace"], output["name"]) == ("postgres://db.shop:5432", "shop.public.Orders")


def test_of_staged_rows_only_the_origins_of_their_columns_are_told(watched: Watched) -> None:
    watched.spark.range(10).selectExpr("id", "id * 2 AS amount", "1 AS _headgate_n").write.parquet(watched.path("raw"))
    watched.spark.range(5).selectExpr("id AS known").write.parquet(watched.path("staging/keys"))
    raw = watched.spark.read.parquet(watched.path("raw")).where("amount >= 0 AND _headgate_n = 1")
    keys = watched.spark.read.parquet(watched.path("staging/keys"))
    lots = raw.join(keys, raw.id == keys.known, "left").selectExpr(
        "id", "amount + _headgate_n AS amount", "if(known IS NULL, 'clean', 'failed') AS _headgate_lot"
    )

    with _wish(watched, "targets", f"{watched.path('staging')}\t{watched.path('orders')}"):
        seen = watched.one(
            lambda: lots.write.mode("overwrite").partitionBy("_headgate_lot").parquet(watched.path("staging/pass"))
        )

    assert (seen.inputs, seen.outputs) == ({"raw"}, {"orders"})
    assert seen.columns == {
        "orders.id <- raw.id IDENTITY",
        "orders.amount <- raw.amount TRANSFORMATION",
        "orders <- raw.amount FILTER",
        "orders <- raw.id JOIN",
    }
    (output,) = seen.events[-1]["outputs"]
    assert set(output["facets"]) == {"columnLineage"}
    assert set(output["facets"]["columnLineage"]["fields"]) == {"id", "amount"}
    assert output.get("outputFacets", {}) == {}


def test_a_write_to_the_target_itself_is_told_in_full(watched: Watched) -> None:
    watched.spark.range(10).write.parquet(watched.path("staging/run-7"))

    with _wish(watched, "targets", f"{watched.path('staging')}\t{watched.path('orders')}"):
        staged = watched.spark.read.parquet(watched.path("staging/run-7"))
        seen = watched.one(lambda: staged.write.parquet(watched.path("orders")))

    assert seen.output_rows == {"orders": 10}
    assert {"schema", "lifecycleStateChange"} <= set(seen.dataset("orders")["facets"])


def test_a_caller_can_keep_its_actions_to_itself(watched: Watched) -> None:
    numbers = watched.spark.range(10)

    def act() -> None:
        numbers.write.parquet(watched.path("numbers"))
        numbers.coalesce(1).selectExpr(f"id + length({SLEEP}) AS id").limit(1).collect()
        watched.spark.sparkContext.parallelize(range(10), 2).sum()
        with contextlib.suppress(Exception):
            numbers.selectExpr("assert_true(id < 5)").collect()

    with _wish(watched, "silent", "true"):
        assert watched.do(act) == []
    assert watched.one(lambda: numbers.write.parquet(watched.path("told"))).outputs == {"told"}


def test_a_session_can_keep_what_starts_no_job_to_itself(watched: Watched) -> None:
    table = watched.table("numbers")
    watched.spark.conf.set("spark.headgate.action.silent", "true")
    try:
        assert watched.do(lambda: watched.spark.sql(f"CREATE TABLE {table} (id LONG) USING parquet")) == []
    finally:
        watched.spark.conf.unset("spark.headgate.action.silent")

    assert len(watched.do(lambda: watched.spark.sql(f"DROP TABLE {table}"))) == 1


def test_what_an_action_wishes_is_heard_however_late_its_first_job_comes(watched: Watched) -> None:
    datasource = pytest.importorskip("pyspark.sql.datasource", reason="before Spark 4 nothing is late enough")

    class Writer(datasource.DataSourceWriter):
        def write(self, iterator: object) -> object:
            return datasource.WriterCommitMessage()

    class Late(datasource.DataSource):
        def writer(self, schema: object, overwrite: bool) -> Writer:
            time.sleep(2)
            return Writer()

    watched.spark.dataSource.register(Late)
    with _wish(watched, "silent", "true"):
        assert watched.do(lambda: watched.spark.range(1).write.format("Late").mode("append").save()) == []


def test_the_agent_keeps_to_openlineage(watched: Watched) -> None:
    watched.do(lambda: watched.spark.range(10).write.saveAsTable(watched.table("numbers")))

    (agent,) = [item for item in watched.client.conformance()["items"] if item["name"] == "spark-agent"]

    assert agent["refused"] == []
    assert {finding["code"] for finding in agent["findings"]} <= {"never_ended"}


def test_looking_into_files_for_their_schema_is_no_action(watched: Watched) -> None:
    watched.spark.range(10).selectExpr("id", "'a' AS letter").write.csv(watched.path("letters"), header=True)

    assert watched.do(lambda: watched.spark.read.csv(watched.path("letters"), header=True, inferSchema=True)) == []
    assert watched.do(lambda: watched.spark.read.json(watched.path("letters"))) == []


def test_commands_without_data_are_no_runs(watched: Watched) -> None:
    assert watched.do(lambda: watched.spark.sql("SHOW TABLES")) == []
    assert watched.do(lambda: watched.spark.sql("SET spark.sql.shuffle.partitions").collect()) == []


def test_a_job_has_the_same_name_however_long_it_takes(watched: Watched) -> None:
    watched.spark.range(2).write.parquet(watched.path("numbers"))
    numbers = watched.spark.read.parquet(watched.path("numbers")).coalesce(1)

    fast = watched.one(lambda: numbers.show())
    slow = watched.one(lambda: numbers.selectExpr(f"id + length({SLEEP}) AS id").show())

    assert len(slow.events[0]["inputs"]) == 1, "its START came before its end"
    assert fast.job == slow.job
    assert fast.job.startswith("watched.show.")


def test_a_description_of_the_users_own_is_no_name(watched: Watched) -> None:
    watched.spark.range(2).write.parquet(watched.path("numbers"))
    numbers = watched.spark.read.parquet(watched.path("numbers"))
    context = watched.spark.sparkContext
    context.setJobDescription("20240101 table load at night")
    try:
        seen = watched.one(lambda: numbers.collect())
    finally:
        context.setLocalProperty("spark.job.description", None)

    assert seen.job.startswith("watched.collect.")


def test_a_job_is_not_named_after_a_day(watched: Watched) -> None:
    def write(day: str) -> str:
        return watched.one(lambda: watched.spark.range(1).write.parquet(watched.path(f"exports/orders/{day}"))).job

    assert write("2026-01-30") == write("2026-01-31")


def test_a_drop_that_fails_drops_nothing(watched: Watched) -> None:
    watched.spark.range(1).write.saveAsTable(watched.table("kept"))

    def fail() -> None:
        with contextlib.suppress(Exception):
            watched.spark.sql(f"DROP VIEW {watched.table('kept')}")

    for seen in watched.do(fail):
        assert seen.state == "FAIL"
        assert all("lifecycleStateChange" not in output["facets"] for output in seen.events[-1]["outputs"])
    kept = watched.client.datasets(text="kept", limit=10).items
    assert kept


def test_each_kind_of_edge_has_its_word(watched: Watched) -> None:
    watched.spark.sql("SELECT 1 AS id, 2 AS k, 3 AS amount, 'x' AS state").write.parquet(watched.path("orders"))
    watched.spark.sql("SELECT 2 AS k, 'n' AS name").write.parquet(watched.path("names"))
    watched.spark.read.parquet(watched.path("orders")).createOrReplaceTempView("word_orders")
    watched.spark.read.parquet(watched.path("names")).createOrReplaceTempView("word_names")
    query = """
        SELECT name, upper(name) AS loud, max(CASE WHEN state = 'x' THEN 1 END) AS any_x, sum(amount) AS total
        FROM word_orders JOIN word_names USING (k) WHERE id > 0 GROUP BY name
    """

    labels = watched.one(lambda: watched.spark.sql(query).write.parquet(watched.path("totals"))).labels

    assert labels["totals.name", "names.name"] == "DIRECT"
    assert labels["totals.loud", "names.name"] == "EXPRESSION"
    assert labels["totals.total", "orders.amount"] == "AGGREGATE"
    assert labels["totals.any_x", "orders.state"] == "CASE"
    assert labels["totals", "orders.k"] == "JOIN"
    assert labels["totals", "orders.id"] == "FILTER"
