"""Streams: every micro-batch says where its rows come from and where they go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from tests.support.watching import Seen, Watched


@pytest.fixture
def arriving(watched: Watched) -> DataFrame:
    folder = Path(watched.path("arriving"))
    folder.mkdir()
    (folder / "first.json").write_text(json.dumps({"id": 1, "name": "a"}) + "\n" + json.dumps({"id": 2, "name": "b"}))
    return watched.spark.readStream.schema("id INT, name STRING").json(str(folder))


def batches(watched: Watched, writer: DataStreamWriter, start: Callable[[DataStreamWriter], object]) -> list[Seen]:
    def run() -> None:
        query = start(writer.option("checkpointLocation", watched.path("checkpoint")))
        query.processAllAvailable()  # type: ignore[attr-defined]  # a StreamingQuery
        query.stop()  # type: ignore[attr-defined]

    return [seen for seen in watched.do(run) if seen.outputs]


def test_a_file_stream_reads_its_folder_and_writes_its_path(watched: Watched, arriving: DataFrame) -> None:
    writer = arriving.where("id > 0").writeStream.format("parquet")
    (seen,) = batches(watched, writer, lambda w: w.start(watched.path("landed")))

    assert seen.edges == {("arriving", "landed")}
    assert seen.columns == {
        "landed.id <- arriving.id IDENTITY",
        "landed.name <- arriving.name IDENTITY",
        "landed <- arriving.id FILTER",
    }
    assert seen.run["job_facets"]["jobType"]["processingType"] == "STREAMING"


def test_a_stream_into_a_table(watched: Watched, arriving: DataFrame) -> None:
    seen = batches(watched, arriving.writeStream, lambda w: w.toTable(watched.table("landed")))[-1]

    assert seen.edges == {("arriving", "landed")}
    links = seen.dataset("landed")["facets"]["symlinks"]["identifiers"]
    assert [link["name"] for link in links] == [watched.table("landed")]


def test_what_foreach_batch_writes_comes_from_the_stream(watched: Watched, arriving: DataFrame) -> None:
    def write(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(watched.path("rows"))
        batch.groupBy("label").count().write.mode("overwrite").saveAsTable(watched.table("counts"))

    assert watched.database
    writer = arriving.selectExpr("id", "upper(name) AS label").writeStream.foreachBatch(write)
    (seen,) = batches(watched, writer, lambda w: w.start())

    assert seen.edges == {("arriving", "rows"), ("arriving", "counts")}
    assert seen.columns == {
        "rows.id <- arriving.id IDENTITY",
        "rows.label <- arriving.name TRANSFORMATION",
        "counts.label <- arriving.name TRANSFORMATION",
        "counts <- arriving.name GROUP_BY",
    }
    assert seen.output_rows == {"rows": 2, "counts": 2}
    assert seen.lost == []


def test_a_silent_action_within_a_batch_does_not_silence_the_batch(watched: Watched, arriving: DataFrame) -> None:
    def write(batch: DataFrame, _: int) -> None:
        context = batch.sparkSession.sparkContext
        batch.write.mode("append").parquet(watched.path("rows"))
        context.setLocalProperty("spark.headgate.action.silent", "true")
        try:
            batch.write.mode("append").parquet(watched.path("aside"))
        finally:
            context.setLocalProperty("spark.headgate.action.silent", None)

    (seen,) = batches(watched, arriving.writeStream.foreachBatch(write), lambda w: w.start())

    assert seen.edges == {("arriving", "rows")}


def test_files_matching_a_pattern_are_named_by_their_folder(watched: Watched, arriving: DataFrame) -> None:
    some = watched.spark.readStream.schema("id INT").json(watched.path("arriv*"))
    (seen,) = batches(watched, some.writeStream.format("json"), lambda w: w.start(watched.path("landed")))

    assert seen.edges == {("arriving", "landed")}


def test_a_stream_into_memory_has_no_output(watched: Watched, arriving: DataFrame) -> None:
    def run() -> None:
        query = arriving.writeStream.format("memory").queryName("kept").start()
        query.processAllAvailable()
        query.stop()

    read = [seen for seen in watched.do(run) if seen.inputs]

    assert [(seen.inputs, seen.outputs, seen.lost) for seen in read] == [({"arriving"}, set(), [])]


def test_a_table_that_is_read_as_a_stream(watched: Watched, arriving: DataFrame) -> None:
    watched.spark.range(3).write.saveAsTable(watched.table("grown"))
    stream = watched.spark.readStream.table(watched.table("grown"))
    (seen,) = batches(watched, stream.writeStream.format("json"), lambda w: w.start(watched.path("landed")))

    assert seen.edges == {("grown", "landed")}
