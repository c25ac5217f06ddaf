"""Names of what is read and written, what is no input, and what a schema holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.support.watching import Watched


@pytest.fixture
def orders(watched: Watched) -> DataFrame:
    watched.spark.range(4).selectExpr("id", "id * 2 AS amount").write.parquet(watched.path("orders"))
    return watched.spark.read.parquet(watched.path("orders"))


def test_a_file_is_named_by_its_path(watched: Watched, orders: DataFrame) -> None:
    seen = watched.one(lambda: orders.count())
    (source,) = seen.events[-1]["inputs"]

    assert (source["namespace"], source["name"]) == ("file", watched.path("orders"))
    assert source["facets"]["dataSource"]["uri"] == f"file:{watched.path('orders')}"


def test_nested_fields_and_comments_are_in_the_schema(watched: Watched) -> None:
    seen = watched.one(
        lambda: watched.spark.sql(
            f"CREATE TABLE {watched.table('nested')} (id INT NOT NULL, who STRUCT<name: STRING COMMENT 'full', "
            "tags: ARRAY<STRUCT<key: INT>>>, code VARCHAR(3)) USING parquet"
        )
    )
    fields = seen.dataset("nested")["facets"]["schema"]["fields"]

    assert [field["name"] for field in fields] == ["id", "who", "code"]
    assert fields[2]["type"] == "varchar(3)"
    name, tags = fields[1]["fields"]
    assert (name["name"], name["type"], name["description"]) == ("name", "string", "full")
    assert [part["name"] for part in tags["fields"]] == ["_element"]
    assert tags["fields"][0]["fields"][0]["name"] == "key"


def test_what_a_write_replaces_is_no_input_of_it(watched: Watched, orders: DataFrame) -> None:
    orders.write.saveAsTable(watched.table("kept"))
    kept = watched.spark.table(watched.table("kept"))
    seen = watched.one(
        lambda: kept.join(orders, "id").select(kept.id, orders.amount).write.insertInto(watched.table("kept"))
    )

    assert seen.edges == {("orders", "kept")}
    assert "kept.amount <- orders.amount IDENTITY" in seen.columns
    assert not any("<- kept." in column for column in seen.columns)


@pytest.mark.parametrize(
    ("read", "written", "inputs"),
    [
        ("table/id=1", "table", []),
        ("table", "table/id=9", []),
        ("table/id=1", "table/id=9", ["table/id=1"]),
        ("table", "table/archive", ["table"]),
    ],
)
def test_a_table_and_its_partitions_are_one_when_rows_are_written_back(
    watched: Watched, orders: DataFrame, read: str, written: str, inputs: list[str]
) -> None:
    orders.write.partitionBy("id").parquet(watched.path("table"))
    rows = watched.spark.read.parquet(watched.path(read)).select("amount")
    seen = watched.one(lambda: rows.write.mode("append").parquet(watched.path(written)))

    # The server takes a partition for its table, so that only the event itself can tell.
    event = seen.events[-1]

    assert [one["name"] for one in event["inputs"]] == [watched.path(name) for name in inputs]
    assert ("columnLineage" in event["outputs"][0]["facets"]) == bool(inputs)


@pytest.mark.parametrize("inner", ["_temporary/0", ".spark-staging-1/part", "_spark_metadata", "_checkpoint"])
def test_a_staging_folder_is_no_input(watched: Watched, orders: DataFrame, inner: str) -> None:
    folder = watched.path(f"target/{inner}")
    orders.write.json(folder)
    files = [str(path) for path in Path(folder).glob("part-*")]
    seen = watched.one(lambda: watched.spark.read.schema("id INT").json(files).count())

    assert seen.inputs == set()


def test_a_partition_read_below_its_base_is_the_base(watched: Watched, orders: DataFrame) -> None:
    orders.write.partitionBy("id").parquet(watched.path("parts"))
    read = watched.spark.read.option("basePath", watched.path("parts")).parquet(watched.path("parts/id=1"))
    seen = watched.one(lambda: read.write.parquet(watched.path("copy")))

    assert seen.edges == {("parts", "copy")}


def test_several_paths_are_several_inputs_and_their_columns_are_said_to_be_unsure(
    watched: Watched, orders: DataFrame
) -> None:
    orders.write.parquet(watched.path("more"))
    both = watched.spark.read.parquet(watched.path("orders"), watched.path("more"))
    seen = watched.one(lambda: both.write.parquet(watched.path("copy")))

    assert seen.edges == {("orders", "copy"), ("more", "copy")}
    assert seen.lost == ["several paths were read at once: their columns are given to the first path"]


def test_a_column_of_local_rows_is_no_loss(watched: Watched) -> None:
    seen = watched.one(
        lambda: watched.spark.sql("SELECT * FROM VALUES (1), (2) AS t(id)").write.json(watched.path("two"))
    )

    assert (seen.inputs, seen.outputs, seen.lost) == (set(), {"two"}, [])


def test_files_read_and_written_the_v2_way(watched: Watched, orders: DataFrame) -> None:
    before = watched.spark.conf.get("spark.sql.sources.useV1SourceList")
    watched.spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        read = watched.spark.read.parquet(watched.path("orders"))
        seen = watched.one(lambda: read.write.mode("overwrite").json(watched.path("copy")))
    finally:
        watched.spark.conf.set("spark.sql.sources.useV1SourceList", before)

    assert seen.edges == {("orders", "copy")}
    assert seen.input_rows == {"orders": 4}


def test_a_thousand_inputs_are_read_out_in_seconds(watched: Watched) -> None:
    schema = "a INT, b INT, c INT"
    for number in range(1000):
        Path(watched.path(f"in{number}")).mkdir()
    frames = [watched.spark.read.schema(schema).json(watched.path(f"in{number}")) for number in range(1000)]
    while len(frames) > 1:
        pairs = zip(frames[::2], frames[1::2], strict=False)
        frames = [one.union(other) for one, other in pairs] + frames[len(frames) // 2 * 2 :]
    seen = watched.do(lambda: frames[0].write.json(watched.path("all")))[-1]

    assert len(seen.events[-1]["inputs"]) == 1000
    assert seen.run["facets"]["headgate_extraction"]["micros"] < 10_000_000


def test_inputs_beyond_the_limits_are_left_out_and_said_to_be(watched: Watched) -> None:
    paths = [watched.path(f"in{number}") for number in range(5001)]
    for path in paths:
        Path(path).mkdir()
    schema = ", ".join(f"column_{number} INT" for number in range(100))
    rows = watched.spark.read.schema(schema).json(paths)
    seen = watched.one(lambda: rows.select("column_0").write.json(watched.path("all")))
    inputs = seen.events[-1]["inputs"]

    assert len(inputs) == 5000
    assert len([one for one in inputs if "schema" in one["facets"]]) == 500
    assert seen.outputs == {"all"}
    assert "there are more than 5000 inputs, of which the rest was left out" in seen.lost
    assert "the inputs have more than 50000 columns together: some were sent without a schema" in seen.lost


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        (
            "jdbc:postgresql://u:secret@db:6432/shop?user=u&password=secret",
            "orders",
            "postgres://db:6432",
            "shop.public.orders",
        ),
        ("jdbc:postgresql://a,b:1/shop?currentSchema=sales", '"Orders"', "postgres://a:5432", "shop.sales.Orders"),
        ("jdbc:mysql://h/shop?password=secret", "orders", "mysql://h:3306", "shop.orders"),
        ("jdbc:mariadb:replication://h1:3307,h2/shop", "other.orders", "mysql://h1:3307", "other.orders"),
        (
            "jdbc:sqlserver://h;databaseName=shop;user=u;password=secret",
            "[dbo].[orders]",
            "mssql://h:1433",
            "shop.dbo.orders",
        ),
        ("jdbc:oracle:thin:u/secret@//h:1521/svc", "sales.orders", "oracle://h:1521", "svc.sales.orders"),
        ("jdbc:oracle:thin:@h:1522:sid", "sales.orders", "oracle://h:1522", "sid.sales.orders"),
        (
            "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=h)(PORT=1521))(CONNECT_DATA=(SERVICE_NAME=svc)))",
            "s.t",
            "oracle://h:1521",
            "svc.s.t",
        ),
        ("jdbc:db2://h:50001/shop:user=u;password=secret;", "s.orders", "db2://h:50001", "shop.s.orders"),
        (
            "jdbc:redshift://c1.abc.eu-west-1.redshift.amazonaws.com:5439/dev",
            "orders",
            "redshift://c1.eu-west-1:5439",
            "dev.public.orders",
        ),
        (
            "jdbc:snowflake://org-acc.snowflakecomputing.com/?db=D&schema=S&password=secret",
            "T",
            "snowflake://org-acc",
            "D.S.T",
        ),
        ("jdbc:teradata://h/DATABASE=shop,DBS_PORT=1026,PASSWORD=secret", "orders", "teradata://h:1026", "shop.orders"),
        ("jdbc:trino://h:8080/hive/sales", "orders", "trino://h:8080", "hive.sales.orders"),
        ("jdbc:hive2://h:10000/shop;auth=none", "orders", "hive://h:10000", "shop.orders"),
        ("jdbc:clickhouse://h:8123/shop?password=secret", "orders", "clickhouse://h:8123", "shop.orders"),
        ("jdbc:sqlite:/data/shop.db", "orders", "sqlite:///data/shop.db", "orders"),
        ("jdbc:unheardof://u:secret@h:7/shop;pw=secret", "orders", "unheardof://h:7", "shop.orders"),
    ],
)
def test_databases_are_named_without_credentials(
    watched: Watched, url: str, table: str, namespace: str, name: str
) -> None:
    assert watched.spark._jvm is not None
    # Options as a connector gets them; nothing connects.
    options = watched.spark._jvm.PythonUtils.toScalaMap({"url": url, "dbtable": table, "password": "secret"})
    (found,) = _each(watched.spark._jvm.headgate.spark.plan.Jdbc.of(options))

    assert (found.id().namespace(), found.id().name()) == (namespace, name)
    assert "secret" not in found.toString()


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("(SELECT id, total FROM sales.orders) t", ["shop.sales.orders"]),
        ("SELECT a.* FROM orders a JOIN sales.lines b ON a.id = b.id", ["shop.public.orders", "shop.sales.lines"]),
        ("WITH x AS (SELECT * FROM orders) SELECT * FROM x -- FROM nothing", ["shop.public.orders"]),
        ("SELECT * FROM orders WHERE note = 'from here'", ["shop.public.orders"]),
    ],
)
def test_a_query_names_the_tables_after_from_and_join(watched: Watched, query: str, tables: list[str]) -> None:
    assert watched.spark._jvm is not None
    options = watched.spark._jvm.PythonUtils.toScalaMap({"url": "jdbc:postgresql://db/shop", "query": query})
    found = _each(watched.spark._jvm.headgate.spark.plan.Jdbc.of(options))

    assert [each.id().name() for each in found] == tables


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("s3a://bucket/a/b/", "s3://bucket", "a/b"),
        ("gs://bucket/a", "gs://bucket", "a"),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020", "/a/b"),
        ("abfss://box@acc.dfs.core.windows.net/a", "abfss://box@acc.dfs.core.windows.net", "/a"),
        ("file:///a/b", "file", "/a/b"),
        ("dbfs:/mnt/a", "dbfs", "/mnt/a"),
    ],
)
def test_paths_of_every_store(watched: Watched, path: str, namespace: str, name: str) -> None:
    assert watched.spark._jvm is not None
    none = watched.spark._jvm.scala.Option.empty()
    found = watched.spark._jvm.headgate.spark.plan.Locations.of(path, none).get()

    assert (found.namespace(), found.name()) == (namespace, name)


def _each(sequence: object) -> list[object]:
    return [sequence.apply(at) for at in range(sequence.size())]  # type: ignore[attr-defined]  # a Scala Seq, over Py4J
