"""Keys that refer to another dataset: a node's rows, a path, a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.domain.gate import Lot
from headgate.pipelines.config.connection import CatalogConnection, FolderConnection
from headgate.pipelines.places import address
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark import fused
from headgate.pipelines.spark.references import References, references
from tests.pipelines.testing import batch, config, frame_of, jobs_of, named


def foreign_key(**fields: Any) -> NamedTest:
    [test] = named(config("foreign_key", **{"column": "customer_id", "reference": {"node": "customers"}, **fields}))
    return test


def opened(spark: SparkSession, test: NamedTest, orders: Any, customers: Any = None) -> References:
    nodes = {"customers": customers} if customers is not None else {}
    return references(spark, [test], frame_of(orders), nodes, {})


def failing(spark: SparkSession, test: NamedTest, orders: Any, customers: Any, folder: Path) -> fused.Staged:
    found = opened(spark, test, orders, customers)
    assert not found.problems
    return fused.sort_rows(spark, orders, fused.Tests(references=found.keys), str(folder))


@pytest.mark.parametrize(
    ("more", "failures"), [({}, 1), ({"allow_null": False}, 2), ({"where": "id < 3"}, 0), ({"where": "id = 3"}, 1)]
)
def test_keys_that_are_not_there_fail(spark: SparkSession, tmp_path: Path, more: dict[str, Any], failures: int) -> None:
    orders = batch(spark, "id int, customer_id int", [(1, 10), (2, 10), (3, 99), (4, None)])
    # Keys that are there twice make no row appear twice.
    customers = batch(spark, "id bigint", [10, 10, None])

    staged = failing(spark, foreign_key(reference_columns=["id"], **more), orders, customers, tmp_path)

    assert staged.failures.get("foreign_key1", 0) == failures
    assert staged.lots.get(Lot.failed, 0) == failures
    assert staged.total == 4


def test_keys_of_several_columns_refer_together(spark: SparkSession, tmp_path: Path) -> None:
    orders = batch(spark, "id int, country string, `shop no` int", [(1, "DE", 1), (2, "DE", 2), (3, None, 2)])
    shops = batch(spark, "no int, land string", [(1, "DE"), (2, "US")])
    test = foreign_key(column=["country", "shop no"], reference_columns=["LAND", "no"])

    staged = failing(spark, test, orders, shops, tmp_path)

    assert staged.failures == {"foreign_key1": 1}


def test_the_other_side_may_be_a_path(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("customer_id;name\n10;Ada\n")
    connection = FolderConnection(type="local", base_path=str(tmp_path))
    block = {"connection": "lake", "path": "customers.csv", "format": "csv", "options": {"sep": ";"}}
    test = replace(foreign_key(reference=block), reference=address("lake", connection, tmp_path, path="customers.csv"))
    orders = batch(spark, "customer_id int", [10, 11])

    found = references(spark, [test], frame_of(orders), {}, {"lake": connection})
    staged = fused.sort_rows(spark, orders, fused.Tests(references=found.keys), str(tmp_path / "staged"))

    assert staged.failures == {"foreign_key1": 1}


def test_the_other_side_may_be_a_table(spark: SparkSession, tmp_path: Path) -> None:
    batch(spark, "customer_id int", [10]).createOrReplaceTempView("known_customers")
    connection = CatalogConnection(type="catalog")
    block = {"connection": "lake", "table": "known_customers"}
    test = replace(
        foreign_key(reference=block), reference=address("lake", connection, tmp_path, table="known_customers")
    )
    orders = batch(spark, "customer_id int", [10, 11])

    found = references(spark, [test], frame_of(orders), {}, {"lake": connection})
    staged = fused.sort_rows(spark, orders, fused.Tests(references=found.keys), str(tmp_path / "staged"))

    assert staged.failures == {"foreign_key1": 1}


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"reference_columns": ["idd"]}, "there is no column 'idd' in customers", "did you mean 'id'?"),
        ({}, "there is no column 'customer_id' in customers", "its columns: id, name"),
        (
            {"reference_columns": ["name"]},
            "'customer_id' is int and 'name' of customers is string: they cannot be compared",
            "cast one of them in transform",
        ),
        (
            {"column": "customer", "reference_columns": ["id"]},
            "there is no column 'customer'",
            "did you mean 'customer_id'?",
        ),
        (
            {"column": "at.home", "reference_columns": ["name"]},
            "foreign_key needs columns, and 'at.home' is a field of 'at'",
            "at.home AS at_home",
        ),
    ],
)
def test_keys_that_cannot_refer_are_refused_before_any_job(
    spark: SparkSession, fields: dict[str, Any], message: str, hint: str
) -> None:
    orders = batch(spark, "customer_id int, at struct<home:string>", [])
    customers = batch(spark, "id int, name string", [])

    found, jobs = jobs_of(spark, lambda: opened(spark, foreign_key(**fields), orders, customers))

    [problem] = found.problems
    assert problem.message == f"test 'foreign_key1': {message}"
    assert hint in str(problem.hint)
    assert jobs == 0


def test_a_path_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    connection = FolderConnection(type="local", base_path=str(tmp_path))
    block = {"connection": "lake", "path": "nope"}
    test = replace(foreign_key(reference=block), reference=address("lake", connection, tmp_path, path="nope"))
    orders = batch(spark, "customer_id int", [])

    [problem] = references(spark, [test], frame_of(orders), {}, {"lake": connection}).problems

    assert problem.message.startswith("test 'foreign_key1': lake/nope cannot be read: Path does not exist")
    assert "path" in str(problem.hint)


def test_a_dataset_to_agree_with_has_to_have_the_columns(spark: SparkSession) -> None:
    rows, other = batch(spark, "region string, price int", []), batch(spark, "region int, price string", [])
    tests = named(
        config("reconcile", reference={"node": "other"}, sums=["price"]),
        config("reconcile", reference={"node": "other"}, group_by=["region"]),
        config("reconcile", reference={"node": "other"}),
    )

    found = references(spark, tests, frame_of(rows), {"other": other}, {})

    assert [problem.message for problem in found.problems] == [
        "test 'reconcile1': reconcile tests numbers, and 'price' is string",
        "test 'reconcile2': 'region' is string here and int there: they cannot be compared",
    ]
    assert found.datasets is not None
    assert "reconcile3" in found.datasets
