"""The SQL identity functions give the answers of domain/names.py."""

from __future__ import annotations

from itertools import product

import asyncpg
import pytest

from headgate.domain.names import canonical_namespace, canonical_urn
from headgate.domain.namespaces import DEFAULT_PORTS, FILE_SYSTEMS, OBJECT_STORES, SCHEME_ALIASES

NAMESPACES = [
    "s3://lake",
    "S3A://Lake/",
    "s3n://key:secret@lake",
    "gcs://lake",
    "abfs://Raw@ACCT.dfs.core.windows.net",
    "wasbs://c@acct.blob.core.windows.net/",
    "abfss://no-account",
    "oss://bucket",
    "s3://",
    "s3",
    "hdfs://NN:8020",
    "hdfs://nn:9000/",
    "hdfs://",
    "webhdfs://user@nn",
    "dbfs:",
    "dbfs://workspace",
    "file",
    "file:",
    "file://",
    "file:///",
    "file://localhost",
    "file://NAS",
    "file: ",
    "postgresql://User:p@ss@DB:5432",
    "postgresql+asyncpg://db",
    "postgres://db:5433",
    "postgres://[::1]:5432",
    "postgres://::1",
    "postgres://h :5432",
    "postgres://",
    "postgres://db?sslmode=require",
    "jdbc:sqlserver://DB:1433;databaseName=x",
    "JDBC:mysql://db:3306",
    "jdbc:oracle:thin:@",
    "kafka://b2:9092,B1:9092, b3",
    "kafka://,",
    "snowflake://ORG-Account",
    "spanner://Project:instance",
    "trino://h:8080",
    "inmemory://",
    "duckdb://Shop.duckdb",
    "sqlite:///Data/x.db",
    "azurecosmos://H.azure.com/dbs/Shop",
    "arn:aws:glue:eu-west-1:123456789012",
    "bigquery",
    "Airflow-Prod",
    " my namespace ",
    "ÅNGSTRÖM://ÉCOLE",
    "x://ÉCOLE",
    "",
]
NAMES = [
    "shop.public.Orders",
    "orders",
    "/data/orders/",
    "//data///orders",
    "orders/dt=2024-01-01",
    "orders/country=US/date=2024-01-01/hour=05/",
    "orders/US/202601",
    "orders/us/prod",
    "orders/2024-01-01",
    "orders/2024_01_01",
    "orders/2024-13-01",
    "orders/20240101",
    "orders/20241301",
    "orders/2024-05",
    "orders/2024",
    "orders/1799",
    "orders/2024/01/31",
    "orders/2024/1/1/23",
    "orders/2024/13",
    "orders/2024/12/32",
    "orders/1/2024/05",
    "2024/01/01",
    "01/01",
    "orders/20240101-20240131",
    "orders/2024-01-01_to_2024-01-31",
    "orders/2024-01-01--2024-01-31",
    "orders/2024-01-01T10:30:00Z",
    "orders/20240101T1030",
    "orders/2024010105",
    "orders/10:30:00",
    "orders/*/202601",
    "orders/*.snappy.parquet",
    "orders/year=2024/month=01/part-0000.parquet",
    "orders/part-r-00000",
    "orders/000000_0",
    "orders/000000_0.gz",
    "orders/_SUCCESS",
    "orders/dt=1/file.csv",
    "orders/dt=1/folder",
    "orders/dt=1/v1.2",
    "orders/US/a.snappy.parquet",
    "orders/2024/01/a.gz.orc",
    "exports/orders.snappy.parquet",
    "orders/=x",
    "orders/k=",
    f"orders/k={'v' * 300}",
    f"orders/k={'v' * 254}",
    "orders /dt=1",
    "orders/ /dt=1",
    " / orders",
    "s3a://Other/orders/dt=1",
    "/s3://other/orders",
    "file:/tmp/orders/dt=1",
    "file: /tmp/orders",
    "hdfs://nn:8020",
    "s3://a/s3://b/s3://c/orders",
    "http://h/orders/dt=1",
    "C:/data/orders",
    "données/日本/dt=1",
    "two\nlines/dt=1",
    "",
    "/",
    " ",
]
URNS = [f"{namespace}/{name}" for namespace, name in product(NAMESPACES, NAMES)] + NAMES


async def answers(db: asyncpg.Connection, function: str, texts: list[str]) -> list[str]:
    rows = await db.fetch(
        f"SELECT {function}(t) AS answer FROM unnest($1::text[]) WITH ORDINALITY AS c (t, n) ORDER BY n",
        texts,
    )
    return [row["answer"] for row in rows]


def differences(texts: list[str], sql: list[str], python: list[str]) -> list[tuple[str, str, str]]:
    return [row for row in zip(texts, sql, python, strict=True) if row[1] != row[2]]


async def test_sql_and_python_agree_on_every_urn(db: asyncpg.Connection) -> None:
    found = await answers(db, "canonical_urn", URNS)
    assert differences(URNS, found, [canonical_urn(urn) for urn in URNS]) == []


async def test_sql_and_python_agree_on_every_namespace(db: asyncpg.Connection) -> None:
    schemes = sorted({*DEFAULT_PORTS, *OBJECT_STORES, *FILE_SYSTEMS, *SCHEME_ALIASES, "duckdb", "sqlite", "other"})
    ports = sorted({*DEFAULT_PORTS.values(), "1"})
    texts = NAMESPACES + [f"{scheme}://u@Host:{port}/P/" for scheme, port in product(schemes, ports)]
    texts += [f"{scheme}{rest}" for scheme, rest in product(schemes, ["", ":", ":/P", ":///P/", "://a,B:1?x=1"])]
    found = await answers(db, "canonical_namespace", texts)
    assert differences(texts, found, [canonical_namespace(text) for text in texts]) == []


async def test_canonical_urn_in_sql_is_its_own_answer(db: asyncpg.Connection) -> None:
    known = [canonical_urn(f"{namespace}/orders/dt=1") for namespace in NAMESPACES]
    assert await answers(db, "canonical_urn", known) == known


@pytest.mark.parametrize("function", ["canonical_urn", "canonical_namespace"])
async def test_sql_function_can_be_indexed_and_run_in_parallel(db: asyncpg.Connection, function: str) -> None:
    row = await db.fetchrow(
        "SELECT provolatile, proparallel, proisstrict FROM pg_proc WHERE oid = $1::text::regproc", function
    )
    assert tuple(row) == (b"i", b"s", True)


async def test_sql_functions_do_not_depend_on_the_search_path_of_the_caller(db: asyncpg.Connection) -> None:
    schema = await db.fetchval("SELECT pronamespace::regnamespace::text FROM pg_proc WHERE proname = 'canonical_urn'")
    async with db.transaction():
        await db.execute("SET LOCAL search_path = pg_catalog")
        answer = await db.fetchval(f"SELECT {schema}.canonical_urn('s3a://b/x/dt=1')")
    assert answer == "s3://b/x"
