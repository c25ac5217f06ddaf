"""Tables of Hive, Delta and Iceberg, each in a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.client import HeadgateClient
from tests.spark.watched_jobs import verbs, watch_job, writing
from tests.support import maven
from tests.support.live import Live


@pytest.fixture
def client(watching_server: Live) -> Iterator[HeadgateClient]:
    with HeadgateClient(watching_server.url, watching_server.api_key) as client:
        yield client


SOURCE = """
rows = spark.range(3).selectExpr("cast(id AS int) AS id", "concat('n', id) AS name", "id * 2.0D AS amount")
rows.write.parquet({path!r})
spark.read.parquet({path!r}).createOrReplaceTempView("incoming")
"""
MERGE = (
    "MERGE INTO {table} t USING incoming s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.amount = t.amount + s.amount "
    "WHEN NOT MATCHED THEN INSERT (id, name, amount) VALUES (s.id, s.name, s.amount)"
)


def test_delta_tables(watching_server: Live, client: HeadgateClient, tmp_path: Path) -> None:
    seen = watch_job(
        SOURCE.format(path=str(tmp_path / "incoming"))
        + f"""
        incoming = spark.table("incoming")
        incoming.write.format("delta").save({str(tmp_path / "by_path")!r})
        spark.read.format("delta").load({str(tmp_path / "by_path")!r}).write.parquet({str(tmp_path / "out_of_delta")!r})
        spark.sql("CREATE TABLE kept USING delta AS SELECT * FROM incoming")
        spark.sql("INSERT INTO kept SELECT * FROM incoming")
        spark.sql({MERGE.format(table="kept")!r})
        spark.sql("UPDATE kept SET amount = amount * 2 WHERE id = 1")
        spark.sql("DELETE FROM kept WHERE id = 0")
        """.replace("\n        ", "\n"),
        watching_server,
        client,
        jars=maven.jars(maven.delta()),
        conf={
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        },
    )

    (by_path,) = writing(seen, "by_path")
    assert by_path.edges == {("incoming", "by_path")}
    assert by_path.dataset("by_path")["facets"]["storage"]["storageLayer"] == "delta"
    assert by_path.lost == []
    (out,) = writing(seen, "out_of_delta")
    assert "out_of_delta.id <- by_path.id IDENTITY" in out.columns
    kept = writing(seen, "kept")
    assert verbs(kept) == ["create_table", "insert", "merge", "update", "delete"]
    assert [each.inputs for each in kept] == [{"incoming"}, {"incoming"}, {"incoming"}, set(), set()]
    assert [each.outputs for each in kept] == [{"kept"}] * 5
    assert kept[0].dataset("kept")["facets"]["symlinks"]["identifiers"][0]["name"] == "default.kept"
    assert kept[0].dataset("kept")["name"] == str(tmp_path / "warehouse/kept")
    assert "kept.amount <- incoming.amount TRANSFORMATION" in kept[2].columns
    assert "kept <- incoming.id JOIN" in kept[2].columns


def test_iceberg_tables(watching_server: Live, client: HeadgateClient, tmp_path: Path) -> None:
    spark = maven.iceberg_spark()
    seen = watch_job(
        SOURCE.format(path=str(tmp_path / "incoming"))
        + f"""
        spark.sql("CREATE TABLE lake.db.kept USING iceberg AS SELECT * FROM incoming")
        spark.table("incoming").writeTo("lake.db.kept").append()
        spark.sql({MERGE.format(table="lake.db.kept")!r})
        spark.sql("UPDATE lake.db.kept SET amount = amount * 2 WHERE id = 1")
        spark.sql("DELETE FROM lake.db.kept WHERE id + 1 = 1")
        spark.table("lake.db.kept").write.parquet({str(tmp_path / "out_of_iceberg")!r})
        spark.sql("SELECT * FROM lake.db.kept.snapshots").collect()
        """.replace("\n        ", "\n"),
        watching_server,
        client,
        jars=maven.jars(maven.iceberg(spark), spark=spark),
        conf={
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
        },
        spark=spark,
    )

    kept = writing(seen, "kept")
    assert verbs(kept) == ["create_table", "insert", "merge", "update", "delete"]
    assert [each.inputs for each in kept] == [{"incoming"}, {"incoming"}, {"incoming"}, set(), set()]
    table = kept[0].dataset("kept")
    assert (table["namespace"], table["name"]) == ("file", str(tmp_path / "lake/db/kept"))
    assert table["facets"]["symlinks"]["identifiers"][0]["name"] == "db.kept"
    assert table["facets"]["storage"]["storageLayer"] == "iceberg"
    assert table["facets"]["catalog"]["framework"] == "iceberg"
    assert (table["facets"]["catalog"]["type"], table["facets"]["catalog"]["name"]) == ("hadoop", "lake")
    assert "kept.amount <- incoming.amount TRANSFORMATION" in kept[2].columns
    (out,) = writing(seen, "out_of_iceberg")
    assert out.edges == {("kept", "out_of_iceberg")}
    assert seen[-1].inputs == set()


def test_hive_tables(watching_server: Live, client: HeadgateClient, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("1\n2\n")
    seen = watch_job(
        SOURCE.format(path=str(tmp_path / "incoming"))
        + f"""
        spark.sql("CREATE TABLE texts STORED AS TEXTFILE AS SELECT * FROM incoming")
        spark.sql("INSERT INTO texts SELECT * FROM incoming")
        spark.sql("SELECT id FROM texts").write.parquet({str(tmp_path / "out_of_hive")!r})
        spark.sql("CREATE TABLE days (id INT) PARTITIONED BY (day STRING) STORED AS TEXTFILE")
        spark.sql("INSERT OVERWRITE TABLE days PARTITION (day = 'x') SELECT id FROM texts")
        spark.sql("LOAD DATA LOCAL INPATH '{lines}' INTO TABLE days PARTITION (day = 'y')")
        """.replace("\n        ", "\n"),
        watching_server,
        client,
        conf={
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true",
        },
    )

    texts = writing(seen, "texts")
    assert verbs(texts) == ["create_table", "insert"]
    assert [each.edges for each in texts] == [{("incoming", "texts")}] * 2
    assert texts[0].dataset("texts")["facets"]["storage"] | {"_producer": "", "_schemaURL": ""} == {
        "_producer": "",
        "_schemaURL": "",
        "storageLayer": "hive",
        "fileFormat": "text",
    }
    assert texts[0].dataset("texts")["facets"]["catalog"]["type"] == "hive"
    (out,) = writing(seen, "out_of_hive")
    assert out.columns == {"out_of_hive.id <- texts.id IDENTITY"}
    days = writing(seen, "days")
    assert verbs(days) == ["create_table", "insert", "load"]
    assert days[1].inputs == {"texts"}
    assert days[2].inputs == {"lines.txt"}
