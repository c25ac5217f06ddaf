"""Worked cases of the one spelling of a namespace."""

from __future__ import annotations

import pytest

from headgate.domain.namespaces import DEFAULT_PORTS, canonical_namespace

NAMESPACES = [
    pytest.param("s3a://lake", "s3://lake", id="s3a-is-s3"),
    pytest.param("S3N://lake/", "s3://lake", id="s3n-upper-case-trailing-slash"),
    pytest.param("s3://Old-Bucket", "s3://Old-Bucket", id="bucket-keeps-its-case"),
    pytest.param("s3://AKIA:secret@lake", "s3://lake", id="bucket-without-credentials"),
    pytest.param("gcs://lake", "gs://lake", id="gcs-is-gs"),
    pytest.param(
        "abfs://Raw@ACCT.dfs.core.windows.net",
        "abfss://Raw@acct.dfs.core.windows.net",
        id="azure-container-is-no-credential",
    ),
    pytest.param("postgresql://DB.Example.COM:5432", "postgres://db.example.com", id="postgresql-is-postgres"),
    pytest.param("postgresql+psycopg2://db:5432", "postgres://db", id="driver-suffix"),
    pytest.param("postgres://db:5433", "postgres://db:5433", id="other-port-stays"),
    pytest.param("postgres://app:p@ss@db:5432/", "postgres://db", id="credentials-dropped"),
    pytest.param("postgres://db:", "postgres://db", id="empty-port"),
    pytest.param("postgres://[2001:DB8::1]:5432", "postgres://[2001:db8::1]", id="ipv6-default-port"),
    pytest.param("postgres://[::1]:5433", "postgres://[::1]:5433", id="ipv6-other-port"),
    pytest.param("postgres://::1", "postgres://::1", id="ipv6-without-brackets"),
    pytest.param("jdbc:postgresql://db:5432/shop?user=a&password=b", "postgres://db/shop", id="jdbc-options"),
    pytest.param("jdbc:sqlserver://db:1433;databaseName=x", "sqlserver://db", id="jdbc-semicolon-options"),
    pytest.param("hdfs://NameNode:8020", "hdfs://namenode", id="hdfs-default-port"),
    pytest.param("hdfs://nn:9000", "hdfs://nn:9000", id="hdfs-other-port"),
    pytest.param("snowflake://ORG-Account", "snowflake://org-account", id="snowflake-account-folds"),
    pytest.param("kafka://b2:9092,B1:9092", "kafka://b1", id="broker-list"),
    pytest.param("kafka://b1:9092, b2:9092", "kafka://b1", id="broker-list-other-order"),
    pytest.param("kafka://b1:9093,b2:9092", "kafka://b1:9093", id="broker-list-mixed-ports"),
    pytest.param("file", "file", id="file-bare"),
    pytest.param("file://", "file", id="file-two-slashes"),
    pytest.param("file:///", "file", id="file-three-slashes"),
    pytest.param("file://localhost", "file", id="file-localhost"),
    pytest.param("file://NAS-1/", "file://nas-1", id="file-on-a-host"),
    pytest.param("file:/tmp/warehouse/", "file:/tmp/warehouse", id="file-folder"),
    pytest.param("file:////tmp/warehouse", "file:/tmp/warehouse", id="file-folder-many-slashes"),
    pytest.param("dbfs:/", "dbfs", id="dbfs-root"),
    pytest.param("inmemory://", "inmemory://", id="in-memory"),
    pytest.param("spanner://Project:instance", "spanner://project:instance", id="colon-that-is-no-port"),
    pytest.param("duckdb://Shop.duckdb", "duckdb://Shop.duckdb", id="database-file-keeps-its-case"),
    pytest.param("sqlite:///Data/x@1.db", "sqlite:///Data/x@1.db", id="database-path-untouched"),
    pytest.param("azurecosmos://H.azure.com/dbs/Shop/", "azurecosmos://h.azure.com/dbs/Shop", id="path-keeps-its-case"),
    pytest.param("arn:aws:glue:eu-west-1:123456789012", "arn:aws:glue:eu-west-1:123456789012", id="arn"),
    pytest.param(" bigquery\n", "bigquery", id="bare-is-stripped"),
    pytest.param("Airflow-Prod", "Airflow-Prod", id="bare-keeps-its-case"),
    pytest.param("s3", "s3", id="bare-word-that-is-a-scheme"),
    pytest.param("jdbc:oracle:thin:@//db:1521/x", "jdbc:oracle:thin:@//db:1521/x", id="no-uri-we-know"),
    pytest.param("://", ":", id="odd-colons"),
    pytest.param("", "", id="empty"),
]


@pytest.mark.parametrize(("namespace", "expected"), NAMESPACES)
def test_namespace_has_one_spelling(namespace: str, expected: str) -> None:
    assert canonical_namespace(namespace) == expected


@pytest.mark.parametrize("scheme", sorted(DEFAULT_PORTS))
def test_default_port_is_dropped_and_any_other_is_kept(scheme: str) -> None:
    port = DEFAULT_PORTS[scheme]
    assert canonical_namespace(f"{scheme}://h:{port}") == canonical_namespace(f"{scheme}://h")
    assert canonical_namespace(f"{scheme}://h:{port}1") == f"{scheme}://h:{port}1"
