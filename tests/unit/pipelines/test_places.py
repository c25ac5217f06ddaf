"""One address for engine, lineage and people, whatever the connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.places import Kind, address

ADAPTER: TypeAdapter[Any] = TypeAdapter(ConnectionConfig)
FOLDER = Path("/home/me/project")


def of(connection: dict[str, Any], **what: str) -> tuple[str, str, str, str, str]:
    found = address("lake", ADAPTER.validate_python(connection), FOLDER, **what)
    return str(found.kind), found.location, found.namespace, found.name, str(found)


@pytest.mark.parametrize(
    ("kind", "base", "path", "location", "namespace", "name"),
    [
        ("local", "data", "orders", "/home/me/project/data/orders", "file", "/home/me/project/data/orders"),
        ("local", "./data/", "/a/../b/", "/b", "file", "/b"),
        ("local", "../data", "orders/", "/home/me/data/orders", "file", "/home/me/data/orders"),
        ("local", "/srv/lake", "orders", "/srv/lake/orders", "file", "/srv/lake/orders"),
        ("local", "file:///srv/lake", "orders", "/srv/lake/orders", "file", "/srv/lake/orders"),
        ("local", "/srv/lake", "", "/srv/lake", "file", "/srv/lake"),
        ("s3", "s3a://lake/raw", "orders", "s3a://lake/raw/orders", "s3://lake", "raw/orders"),
        ("gcs", "gs://lake", "raw/orders", "gs://lake/raw/orders", "gs://lake", "raw/orders"),
        (
            "azure",
            "abfss://box@acct.dfs.core.windows.net/raw",
            "orders",
            "abfss://box@acct.dfs.core.windows.net/raw/orders",
            "abfss://box@acct.dfs.core.windows.net",
            "raw/orders",
        ),
        ("hdfs", "hdfs://nn:8020/lake", "orders", "hdfs://nn:8020/lake/orders", "hdfs://nn", "/lake/orders"),
    ],
)  # fmt: skip
def test_folders(kind: str, base: str, path: str, location: str, namespace: str, name: str) -> None:
    label = f"lake/{path.strip('/')}"

    assert of({"type": kind, "base_path": base}, path=path) == (Kind.folder, location, namespace, name, label)


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("jdbc:postgresql://db:5432/shop", "orders", "postgres://db", "shop.public.orders"),
        ("jdbc:postgresql://db:6000/shop?ssl=true", "sales.orders", "postgres://db:6000", "shop.sales.orders"),
        ("jdbc:mysql://db/shop", "orders", "mysql://db", "shop.orders"),
        ("jdbc:sqlserver://db:1433;databaseName=shop;encrypt=true", "orders", "mssql://db", "shop.dbo.orders"),
        ("jdbc:oracle:thin:@//db:1521/svc", "sales.orders", "oracle://db", "svc.sales.orders"),
        ("jdbc:sqlite:/tmp/x.db", "orders", "jdbc", "orders"),
    ],
)
def test_tables_of_databases(url: str, table: str, namespace: str, name: str) -> None:
    assert of({"type": "jdbc", "url": url}, table=table) == (Kind.jdbc, table, namespace, name, f"lake.{table}")


@pytest.mark.parametrize(
    ("catalog", "database", "table", "name"),
    [
        (None, None, "orders", "orders"),
        (None, None, "sales.orders", "sales.orders"),
        (None, "sales", "orders", "sales.orders"),
        (None, "sales", "other.orders", "other.orders"),
        ("ice", "sales", "orders", "ice.sales.orders"),
        ("ice", "sales", "other.orders", "ice.other.orders"),
        ("ice", None, "sales.orders", "ice.sales.orders"),
        ("ice", "sales", "hive.other.orders", "hive.other.orders"),
    ],
)
def test_tables_of_catalogs(catalog: str | None, database: str | None, table: str, name: str) -> None:
    found = of({"type": "catalog", "catalog": catalog, "database": database}, table=table)

    assert found == (Kind.table, name, f"catalog:{catalog or 'spark_catalog'}", name, f"lake.{table}")


def test_topics_are_named_alike_whatever_the_order_of_the_brokers() -> None:
    one = of({"type": "kafka", "bootstrap_servers": "b:9092, a:9092"}, table="orders")
    two = of({"type": "kafka", "bootstrap_servers": "a:9092,b:9092"}, table="orders")

    assert one == two == (Kind.kafka, "orders", "kafka://a", "orders", "lake/orders")
