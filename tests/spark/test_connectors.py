"""What is read and written through connectors: JDBC against a database, Avro's jar, the others by their options."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.client import HeadgateClient
from tests.conftest import Cluster
from tests.spark.watched_jobs import watch_job, writing
from tests.support import maven
from tests.support.live import Live
from tests.support.ports import port_of
from tests.support.spark_jobs import ROOT, jars_folder


@pytest.fixture
def client(watching_server: Live) -> Iterator[HeadgateClient]:
    with HeadgateClient(watching_server.url, watching_server.api_key) as client:
        yield client


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """Connectors with the class names of Snowflake's, BigQuery's and Redshift's."""
    jar = tmp_path / "stubs.jar"
    source = ROOT / "tests" / "support" / "stubs" / "Stubs.scala"
    compiler = ["java", "-cp", f"{jars_folder()}/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    subprocess.run([*compiler, "-d", str(jar), str(source)], check=True, timeout=240)
    return jar


def test_warehouses_are_known_by_class_and_options(
    watching_server: Live, client: HeadgateClient, tmp_path: Path, stubs: Path
) -> None:
    seen = watch_job(
        f"""
        snowflake = dict(sfURL="org-acc.snowflakecomputing.com", sfDatabase="SHOP", sfSchema="SALES")
        snowflake["sfPassword"] = "secret"
        redshift = dict(url="jdbc:redshift://c1.abc.eu-west-1.redshift.amazonaws.com:5439/dev?user=u&password=secret")

        def read(name, **options):
            return spark.read.format(name).options(**options).load()

        orders = read("net.snowflake.spark.snowflake", dbtable="ORDERS", **snowflake)
        lines = read("io.github.spark_redshift_community.spark.redshift", dbtable="lines", **redshift)
        rates = read("com.google.cloud.spark.bigquery.BigQueryRelationProvider", table="project.set.rates")
        lost = read("broken")
        joined = orders.join(lines, "id").join(rates, "id").join(lost, "id").select("id", rates.name)
        joined.write.parquet({str(tmp_path / "joined")!r})
        kept = spark.read.parquet({str(tmp_path / "joined")!r})
        kept.write.format("net.snowflake.spark.snowflake").options(dbtable="KEPT", **snowflake).mode("append").save()
        kept.write.format("com.google.cloud.spark.bigquery.BigQueryRelationProvider").option(
            "table", "project:set.kept_there").mode("append").save()
        """,
        watching_server,
        client,
        jars=[stubs],
    )

    (joined,) = writing(seen, "joined")
    read = {(each["namespace"], each["name"]) for each in joined.events[-1]["inputs"]}
    assert read == {
        ("snowflake://org-acc", "SHOP.SALES.ORDERS"),
        ("redshift://c1.eu-west-1:5439", "dev.public.lines"),
        ("bigquery", "project.set.rates"),
    }
    assert "joined.name <- rates.name IDENTITY" in joined.columns
    assert [sentence for sentence in joined.lost if "it is not known what" in sentence]
    (kept,) = writing(seen, "KEPT")
    assert kept.edges == {("joined", "KEPT")}
    (there,) = writing(seen, "kept_there")
    assert there.events[-1]["outputs"][0]["name"] == "project.set.kept_there"
    assert "secret" not in json.dumps([each.events for each in seen])


@pytest.fixture
def database_port(cluster: Cluster) -> Iterator[int]:
    with port_of(cluster.postgres) as found:
        yield found


def test_jdbc_tables(watching_server: Live, client: HeadgateClient, database_port: int, tmp_path: Path) -> None:
    seen = watch_job(
        f"""
        url = "jdbc:postgresql://127.0.0.1:{database_port}/postgres?password=secret"
        properties = {{"user": "postgres", "password": "secret", "driver": "org.postgresql.Driver"}}
        spark.range(3).selectExpr("id", "id * 2 AS amount").write.parquet({str(tmp_path / "source")!r})
        source = spark.read.parquet({str(tmp_path / "source")!r})
        source.write.mode("overwrite").jdbc(url, "public.spark_orders", properties=properties)
        table = spark.read.jdbc(url, "spark_orders", properties=properties)
        table.where("id > 0").write.parquet({str(tmp_path / "out_of_table")!r})
        sums = "SELECT id, sum(amount) AS total FROM spark_orders GROUP BY id"
        query = spark.read.format("jdbc").options(url=url, query=sums, **properties)
        query.load().write.parquet({str(tmp_path / "out_of_query")!r})
        spark._jvm.java.sql.DriverManager.getConnection(
            url, properties["user"], properties["password"]).createStatement().execute("DROP TABLE spark_orders")
        """,
        watching_server,
        client,
        jars=maven.jars(maven.POSTGRESQL),
    )

    (into,) = writing(seen, "spark_orders")
    target = into.events[-1]["outputs"][0]
    assert target["namespace"] == f"postgres://127.0.0.1:{database_port}"
    assert target["name"] == "postgres.public.spark_orders"
    assert into.edges == {("source", "spark_orders")}
    assert into.output_rows == {"spark_orders": 3}
    (table,) = writing(seen, "out_of_table")
    assert table.edges == {("spark_orders", "out_of_table")}
    assert "out_of_table <- spark_orders.id FILTER" in table.columns
    (query,) = writing(seen, "out_of_query")
    assert query.edges == {("spark_orders", "out_of_query")}
    assert query.columns == set()
    assert query.lost == ["a query was sent to a database: its columns are not followed to its tables"]


def test_avro_files(watching_server: Live, client: HeadgateClient, tmp_path: Path) -> None:
    seen = watch_job(
        f"""
        spark.range(3).write.format("avro").save({str(tmp_path / "numbers")!r})
        spark.read.format("avro").load({str(tmp_path / "numbers")!r}).write.parquet({str(tmp_path / "copy")!r})
        """,
        watching_server,
        client,
        jars=maven.jars(maven.avro()),
    )

    (copy,) = writing(seen, "copy")
    assert copy.edges == {("numbers", "copy")}
    assert copy.dataset("numbers")["facets"]["storage"]["fileFormat"] == "avro"


def test_kafka_topics_by_their_options(watching_server: Live, client: HeadgateClient, tmp_path: Path) -> None:
    seen = watch_job(
        f"""
        # Nothing answers there: no row is asked for, and what is sent fails.
        servers = {{"kafka.bootstrap.servers": "127.0.0.1:2,127.0.0.1:1"}}

        def attempt(act):
            try:
                act()
            except Exception as error:
                print(type(error).__name__)

        def read(name, **options):
            frame = spark.read.format("kafka").options(**servers, **options).load()
            texts = frame.where("false").selectExpr("cast(value AS string) AS text")
            texts.write.parquet({str(tmp_path)!r} + "/" + name)

        read("subscribed", subscribe="orders")
        read("assigned", assign='{{"lines": [0, 1]}}')
        rows = spark.range(1).selectExpr("cast(id AS string) AS value")
        sender = rows.write.format("kafka").options(**servers, topic="sent").option("kafka.max.block.ms", "500")
        attempt(sender.save)
        """,
        watching_server,
        client,
        jars=maven.kafka_jars(),
    )

    (subscribed,) = writing(seen, "subscribed")
    assert [(each["namespace"], each["name"]) for each in subscribed.events[-1]["inputs"]] == [
        ("kafka://127.0.0.1:1", "orders")
    ]
    assert subscribed.dataset("orders")["facets"]["datasetType"]["datasetType"] == "TOPIC"
    (assigned,) = writing(seen, "assigned")
    assert assigned.inputs == {"lines"}
    (sent,) = writing(seen, "sent")
    assert sent.outputs == {"sent"}
