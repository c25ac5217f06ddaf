"""What each kind of user action reads and writes: one test for each row of Spark's own plans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame

from tests.support.spark_jobs import spark_minor
from tests.support.watching import Seen, Watched


@pytest.fixture
def orders(watched: Watched) -> DataFrame:
    rows = watched.spark.range(4).selectExpr("id", "concat('n', id) AS name", "id * 2.5 AS amount")
    rows.write.parquet(watched.path("orders"))
    return watched.spark.read.parquet(watched.path("orders"))


def lifecycle(seen: Seen, name: str) -> str | None:
    facet = seen.dataset(name)["facets"].get("lifecycleStateChange")
    return str(facet["lifecycleStateChange"]) if facet else None


def symlinks(seen: Seen, name: str) -> list[str]:
    return [each["name"] for each in seen.dataset(name)["facets"]["symlinks"]["identifiers"]]


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "orc"])
def test_a_frame_written_to_files(watched: Watched, orders: DataFrame, form: str) -> None:
    seen = watched.one(lambda: orders.write.format(form).save(watched.path("copy")))

    assert seen.edges == {("orders", "copy")}
    assert "copy.amount <- orders.amount IDENTITY" in seen.columns
    assert seen.output_rows == {"copy": 4}
    assert seen.dataset("copy")["facets"]["storage"]["fileFormat"] == form
    assert seen.dataset("copy")["facets"]["datasetType"]["datasetType"] == "FILE"
    assert lifecycle(seen, "copy") == "CREATE"


def test_text_files_have_one_column(watched: Watched, orders: DataFrame) -> None:
    seen = watched.one(lambda: orders.select("name").write.text(watched.path("names")))

    assert seen.columns == {"names.name <- orders.name IDENTITY"}


def test_an_overwrite_is_told_apart_from_an_append(watched: Watched, orders: DataFrame) -> None:
    orders.write.parquet(watched.path("copy"))
    appended = watched.one(lambda: orders.write.mode("append").parquet(watched.path("copy")))
    replaced = watched.one(lambda: orders.write.mode("overwrite").parquet(watched.path("copy")))

    assert (lifecycle(appended, "copy"), lifecycle(replaced, "copy")) == (None, "OVERWRITE")


def test_a_write_that_leaves_alone_what_is_there_makes_nothing(watched: Watched, orders: DataFrame) -> None:
    orders.write.parquet(watched.path("copy"))
    seen = watched.one(lambda: orders.write.mode("ignore").parquet(watched.path("copy")))

    assert lifecycle(seen, "copy") is None


def test_insert_into_a_table(watched: Watched, orders: DataFrame) -> None:
    orders.write.saveAsTable(watched.table("totals"))
    seen = watched.one(lambda: orders.write.insertInto(watched.table("totals")))

    assert seen.edges == {("orders", "totals")}
    assert symlinks(seen, "totals") == [watched.table("totals")]
    assert ".insert." in seen.job


def test_insert_by_sql_keeps_the_statement(watched: Watched, orders: DataFrame) -> None:
    orders.write.saveAsTable(watched.table("source"))
    orders.write.saveAsTable(watched.table("target"))
    statement = f"INSERT INTO {watched.table('target')} SELECT * FROM {watched.table('source')}"
    seen = watched.one(lambda: watched.spark.sql(statement))

    assert seen.edges == {("source", "target")}
    assert seen.run["job_facets"]["sql"]["query"] == statement


def test_save_as_table_is_one_action_on_one_dataset(watched: Watched, orders: DataFrame) -> None:
    seen = watched.one(lambda: orders.write.saveAsTable(watched.table("totals")))

    assert seen.outputs == {"totals"}
    assert seen.edges == {("orders", "totals")}
    assert symlinks(seen, "totals") == [watched.table("totals")]
    assert seen.output_rows == {"totals": 4}
    assert lifecycle(seen, "totals") == "CREATE"
    assert seen.dataset("totals")["facets"]["datasetType"]["datasetType"] == "TABLE"
    assert seen.dataset("totals")["facets"]["catalog"]["name"] == "spark_catalog"


def test_create_table_as_select(watched: Watched, orders: DataFrame) -> None:
    orders.createOrReplaceTempView("frame")
    seen = watched.one(
        lambda: watched.spark.sql(
            f"CREATE TABLE {watched.table('sums')} USING parquet AS "
            "WITH x AS (SELECT * FROM frame) SELECT name, sum(amount) AS total FROM x GROUP BY name"
        )
    )

    assert seen.outputs == {"sums"}
    assert seen.columns == {
        "sums.name <- orders.name IDENTITY",
        "sums.total <- orders.amount AGGREGATION",
        "sums <- orders.name GROUP_BY",
    }
    assert ".create_table." in seen.job
    assert seen.run["job_facets"]["sql"]["query"].startswith("CREATE TABLE")


def test_write_to_a_new_table(watched: Watched, orders: DataFrame) -> None:
    seen = watched.one(lambda: orders.writeTo(watched.table("made")).using("parquet").create())

    assert seen.edges == {("orders", "made")}
    assert lifecycle(seen, "made") == "CREATE"


def test_insert_overwrite_directory(watched: Watched, orders: DataFrame) -> None:
    orders.createOrReplaceTempView("frame")
    seen = watched.one(
        lambda: watched.spark.sql(
            f"INSERT OVERWRITE DIRECTORY '{watched.path('folder')}' USING json SELECT id FROM frame"
        )
    )

    assert seen.columns == {"folder.id <- orders.id IDENTITY"}
    assert lifecycle(seen, "folder") == "OVERWRITE"


def test_two_inserts_in_one_statement(watched: Watched, orders: DataFrame) -> None:
    for name in ("source", "one", "two"):
        orders.select("id").write.saveAsTable(watched.table(name))
    seen = watched.do(
        lambda: watched.spark.sql(
            f"FROM {watched.table('source')} INSERT INTO {watched.table('one')} SELECT id "
            f"INSERT OVERWRITE {watched.table('two')} SELECT id"
        )
    )

    assert set().union(*(each.edges for each in seen)) == {("source", "one"), ("source", "two")}


def test_a_view_is_made_from_its_tables(watched: Watched, orders: DataFrame) -> None:
    orders.write.saveAsTable(watched.table("base"))
    seen = watched.one(
        lambda: watched.spark.sql(
            f"CREATE VIEW {watched.table('shown')} AS SELECT id, upper(name) AS label FROM {watched.table('base')}"
        )
    )

    view = f"{watched.database}.shown"
    assert seen.edges == {("base", view)}
    assert seen.columns == {f"{view}.id <- base.id IDENTITY", f"{view}.label <- base.name TRANSFORMATION"}
    assert seen.dataset("shown")["facets"]["datasetType"]["datasetType"] == "VIEW"


def test_reading_a_view_reads_its_tables_and_the_outermost_view(watched: Watched, orders: DataFrame) -> None:
    orders.write.saveAsTable(watched.table("base"))
    watched.spark.sql(f"CREATE VIEW {watched.table('inner_view')} AS SELECT * FROM {watched.table('base')}")
    watched.spark.sql(f"CREATE VIEW {watched.table('outer_view')} AS SELECT id FROM {watched.table('inner_view')}")
    seen = watched.one(lambda: watched.spark.table(watched.table("outer_view")).write.parquet(watched.path("copy")))

    assert seen.inputs == {"base", f"{watched.database}.outer_view"}
    assert seen.columns == {"copy.id <- base.id IDENTITY"}


def test_a_temporary_view_is_no_dataset(watched: Watched, orders: DataFrame) -> None:
    for seen in watched.do(lambda: orders.createOrReplaceTempView("short_lived")):
        assert (seen.inputs, seen.outputs) == (set(), set())


def test_a_cached_frame_keeps_its_lineage(watched: Watched, orders: DataFrame) -> None:
    kept = orders.where("id > 1").cache()
    kept.count()
    seen = watched.one(lambda: kept.write.parquet(watched.path("copy")))
    kept.unpersist()

    assert seen.edges == {("orders", "copy")}
    assert "copy <- orders.id FILTER" in seen.columns


@pytest.mark.parametrize(
    ("verb", "act"),
    [
        ("collect", lambda frame: frame.collect()),
        ("count", lambda frame: frame.count()),
        ("show", lambda frame: frame.show()),
    ],
    ids=["collect", "count", "show"],
)
def test_an_action_that_only_reads(
    watched: Watched, orders: DataFrame, verb: str, act: Callable[[DataFrame], object]
) -> None:
    seen = watched.one(lambda: act(orders))

    assert (seen.inputs, seen.outputs) == ({"orders"}, set())
    assert verb in seen.job


def test_writing_to_nowhere_has_no_output(watched: Watched, orders: DataFrame) -> None:
    seen = watched.one(lambda: orders.write.format("noop").mode("overwrite").save())

    assert (seen.inputs, seen.outputs, seen.lost) == ({"orders"}, set(), [])


def test_a_failure_while_running_keeps_its_lineage(watched: Watched, orders: DataFrame) -> None:
    broken = orders.selectExpr("id", "assert_true(id > 100) IS NULL AS checked")

    def write() -> None:
        with contextlib.suppress(Exception):
            broken.write.parquet(watched.path("never"))

    seen = watched.one(write)

    assert seen.state == "FAIL"
    assert (seen.inputs, seen.outputs) == ({"orders"}, {"never"})


def test_a_failed_analysis_is_no_more_than_a_failure(watched: Watched, orders: DataFrame) -> None:
    orders.createOrReplaceTempView("frame")

    def ask() -> None:
        with contextlib.suppress(Exception):
            watched.spark.sql("SELECT missing FROM frame").collect()

    told = [(seen.state, seen.inputs, seen.outputs) for seen in watched.do(ask)]

    # Before 4.0 Spark makes no execution of a query that it cannot analyse.
    assert told == ([("FAIL", set(), set())] if spark_minor() >= (4, 0) else [])


def test_rows_of_an_rdd_are_said_to_be_lost(watched: Watched, orders: DataFrame) -> None:
    again = watched.spark.createDataFrame(orders.rdd.map(tuple), orders.schema)
    seen = watched.do(lambda: again.write.parquet(watched.path("copy")))[-1]

    assert seen.inputs == set()
    assert seen.lost == ["rows came from an RDD, behind which columns cannot be followed"]


def test_tables_are_followed_through_their_definition(watched: Watched) -> None:
    first, second = watched.table("first"), watched.table("second")
    made = watched.one(lambda: watched.spark.sql(f"CREATE TABLE {first} (id INT COMMENT 'the key') USING parquet"))
    altered = watched.one(lambda: watched.spark.sql(f"ALTER TABLE {first} ADD COLUMNS (more STRING)"))
    renamed = watched.one(lambda: watched.spark.sql(f"ALTER TABLE {first} RENAME TO {second}"))
    emptied = watched.one(lambda: watched.spark.sql(f"TRUNCATE TABLE {second}"))
    dropped = watched.one(lambda: watched.spark.sql(f"DROP TABLE {second}"))

    field = made.dataset("first")["facets"]["schema"]["fields"][0]
    assert (field["name"], field["type"], field["description"]) == ("id", "int", "the key")
    assert (lifecycle(made, "first"), lifecycle(altered, "first")) == ("CREATE", "ALTER")
    assert [each["name"] for each in altered.dataset("first")["facets"]["schema"]["fields"]] == ["id", "more"]
    change = renamed.dataset("second")["facets"]["lifecycleStateChange"]
    assert (change["lifecycleStateChange"], change["previousIdentifier"]["name"]) == ("RENAME", first)
    assert (lifecycle(emptied, "second"), lifecycle(dropped, "second")) == ("TRUNCATE", "DROP")
