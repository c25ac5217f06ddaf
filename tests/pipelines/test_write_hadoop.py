"""File systems by Hadoop's interface do what this machine's own disks do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.files import Files, LocalFiles
from headgate.pipelines.spark.hadoop import HadoopFiles, files_for
from tests.pipelines.writing import Target, rejected


@pytest.fixture(params=["local", "hadoop"])
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> tuple[Files, str]:
    return (LocalFiles(), str(tmp_path)) if request.param == "local" else (HadoopFiles(spark), f"file://{tmp_path}")


def test_texts_are_written_over(place: tuple[Files, str]) -> None:
    files, base = place
    files.write_text(f"{base}/new/entry.json", "one")
    files.write_text(f"{base}/new/entry.json", "zwei: ü")

    assert files.read_text(f"{base}/new/entry.json") == "zwei: ü"
    assert files.size(f"{base}/new/entry.json") == 8
    assert [path.rpartition("/")[2] for path in files.files_in(f"{base}/new") if "/.entry" not in path] == [
        "entry.json"
    ]


def test_files_and_folders_are_told_apart(place: tuple[Files, str]) -> None:
    files, base = place
    files.write_text(f"{base}/in/b", "")
    files.make_folder(f"{base}/in/day=2026-01-01 10%3A00/deep")

    assert [path.rpartition("/")[2] for path in files.folders_in(f"{base}/in")] == ["day=2026-01-01 10%3A00"]
    assert [path.rpartition("/")[2] for path in files.files_in(f"{base}/in")][-1] == "b"
    assert files.files_in(f"{base}/absent") == files.folders_in(f"{base}/absent") == []


def test_a_rename_makes_the_folder_around_and_never_goes_over_or_into_what_is_there(place: tuple[Files, str]) -> None:
    files, base = place
    files.write_text(f"{base}/one/a", "a")
    files.write_text(f"{base}/two/b", "b")
    with pytest.raises(FileExistsError):
        files.rename(f"{base}/one", f"{base}/two")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{base}/absent", f"{base}/three")
    files.rename(f"{base}/one", f"{base}/far/away")

    assert files.read_text(f"{base}/far/away/a") == "a"
    assert not files.exists(f"{base}/one")
    assert files.read_text(f"{base}/two/b") == "b"


def test_deleting_takes_files_folders_and_nothing(place: tuple[Files, str]) -> None:
    files, base = place
    files.write_text(f"{base}/one/a", "a")
    files.write_text(f"{base}/two", "b")
    for name in ("one", "two", "absent"):
        files.delete(f"{base}/{name}")
        assert not files.exists(f"{base}/{name}")


def test_a_path_is_on_the_file_system_that_spark_finds_it_on(spark: SparkSession, tmp_path: Path) -> None:
    assert isinstance(files_for(spark, str(tmp_path)), LocalFiles)
    assert isinstance(files_for(spark, f"file://{tmp_path}"), HadoopFiles)


@pytest.mark.parametrize("block", ["mode: append, partition_by: day", "mode: upsert, keys: id"])
def test_folders_are_published_through_hadoop(spark: SparkSession, tmp_path: Path, block: str) -> None:
    head = f"  far: {{type: hadoop, base_path: 'file://{tmp_path}/far'}}\n"
    target = Target(spark, tmp_path, f"connection: far, path: orders, {block}", head=head, files=HadoopFiles(spark))
    schema = "id INT, day STRING"
    target.write(spark.createDataFrame([(1, "a"), (2, "b")], schema))
    done = target.write(spark.createDataFrame([(3, "b"), (4, "c")], schema))

    found = spark.read.parquet(f"{tmp_path}/far/orders").select("id", "day").collect()
    assert sorted(map(tuple, found)) == [(1, "a"), (2, "b"), (3, "b"), (4, "c")]
    assert done.files
    assert done.bytes
    assert not list((tmp_path / "far/.headgate/journal").glob("[!.]*"))


def test_a_quarantine_elsewhere_is_published_before_the_target(spark: SparkSession, tmp_path: Path) -> None:
    head = f"  far: {{type: hadoop, base_path: 'file://{tmp_path}/far'}}\n"
    target = Target(spark, tmp_path, "connection: far, path: orders", head=head, files=HadoopFiles(spark))
    rows = spark.createDataFrame([(1, "a")], "id INT, day STRING")
    target.write(rows, "one", rejected(target, rows, "one"))

    assert spark.read.parquet(f"{tmp_path}/far/orders").count() == 1
    assert (tmp_path / "data/bad_orders/_source_batch_id=one").is_dir()
