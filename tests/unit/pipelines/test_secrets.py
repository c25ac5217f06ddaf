"""Passwords, keys and the addresses of channels: in no text that is made of a file, right or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import InvalidPipeline
from headgate.pipelines.plan import make_plan
from tests.unit.pipelines.samples import loaded

SECRET = "s3cr3t-value"
TEXT = f"""\
project: shop
vars: {{token: {SECRET}}}
server: {{url: "http://headgate", api_key: {SECRET}}}
spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}}}
environments: {{prod: {{vars: {{token: {SECRET}}}}}}}
connections:
  lake: {{type: s3, base_path: "s3a://lake", options: {{fs.s3a.secret.key: {SECRET}}}}}
  db: {{type: jdbc, url: "jdbc:postgresql://db/shop", user: me, password: {SECRET}, options: {{sslpassword: {SECRET}}}}}
  bus: {{type: kafka, bootstrap_servers: "k:9092", options: {{kafka.sasl.jaas.config: {SECRET}}}}}
alerts:
  - type: webhook
    url: https://hooks.example/{SECRET}
    metadata: {{headers: {{Authorization: {SECRET}}}, extra: {{key: {SECRET}}}}}
pipelines:
  - pipeline: daily
    nodes:
      - name: orders
        read: {{connection: db, table: orders, options: {{password: {SECRET}}}}}
        transform: {{steps: [{{function: "a:b", params: {{token: {SECRET}}}}}]}}
        write: {{connection: lake, path: orders, options: {{token: {SECRET}}}}}
"""


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    found = loaded(tmp_path, TEXT)

    assert SECRET not in repr(found)
    assert SECRET not in repr(found.project)
    assert SECRET not in str(found.project)
    assert SECRET not in repr(found.document)
    assert SECRET not in repr(make_plan(found))


def test_secrets_are_known_to_whom_they_are_for(tmp_path: Path) -> None:
    project = loaded(tmp_path, TEXT).project

    assert project.alerts[0].url.get_secret_value() == f"https://hooks.example/{SECRET}"
    assert project.connections["db"].password.get_secret_value() == SECRET  # type: ignore[union-attr]
    assert project.server.api_key.get_secret_value() == SECRET  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (f"password: {SECRET}", "password: 73738"),
        (f"password: {SECRET}", "password: [73738]"),
        (f"api_key: {SECRET}", "api_key: 73738"),
        (f"Authorization: {SECRET}", "Authorization: 73738"),
        (f"https://hooks.example/{SECRET}", "ftp://hooks.example/73738"),
        (f"https://hooks.example/{SECRET}", "73738"),
        ("jdbc:postgresql://db/shop", "jdbc:postgresql://me:73738@db/shop"),
        ("jdbc:postgresql://db/shop", "jdbc:postgresql://me:7?73738@db/shop"),
        ("jdbc:postgresql://db/shop", "jdbc:postgresql://db/shop?password=73738"),
        ("jdbc:postgresql://db/shop", "jdbc:postgresql://db/shop?ssl=true&user=73738"),
        ("jdbc:postgresql://db/shop", "jdbc:sqlserver://db;databaseName=shop;user=me;pwd=73738"),
        ("jdbc:postgresql://db/shop", "jdbc:sqlserver://db;databaseName=shop; Password = 73738"),
        ("jdbc:postgresql://db/shop", "jdbc:databricks://db:443;AuthMech=3;UID=token;PWD=73738"),
        ("jdbc:postgresql://db/shop", "jdbc:mysql://(host=db,user=73738)/shop"),
        ("jdbc:postgresql://db/shop", "jdbc:oracle:thin:scott/73738@db:1521/shop"),
        ("jdbc:postgresql://db/shop", "jdbc:oracle:thin:scott/73738@//db:1521/shop"),
        ("jdbc:postgresql://db/shop", "jdbc:oracle:oci:scott/7?73738@db"),
        ("jdbc:postgresql://db/shop", "oracle:thin:scott/73738@db:1521/shop"),
        ("jdbc:postgresql://db/shop", "sqlserver://db;databaseName=shop;pwd=73738"),
        ("jdbc:postgresql://db/shop", "postgresql://me:73738@db/shop"),
        ("jdbc:postgresql://db/shop", "postgresql://db/shop?user=me&password=73738"),
    ],
)
def test_secrets_are_in_no_error(tmp_path: Path, right: str, wrong: str) -> None:
    with pytest.raises(InvalidPipeline) as caught:
        loaded(tmp_path, TEXT.replace(right, wrong))

    told = f"{caught.value} {caught.value.hint} {caught.value.problems!r} {caught.value.__cause__!r}"
    assert "73738" not in told
    assert SECRET not in told


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:oracle:thin:@//db:1521/shop",
        "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(HOST=db)(PORT=1521))(CONNECT_DATA=(SERVICE_NAME=shop)))",
        "jdbc:oracle:thin:/@shop",
        "jdbc:sqlserver://db:1433;databaseName=users;encrypt=true",
        "jdbc:postgresql://db/shop?ApplicationName=a@b&currentSchema=user",
    ],
)
def test_urls_without_secrets_are_taken(tmp_path: Path, url: str) -> None:
    project = loaded(tmp_path, TEXT.replace("jdbc:postgresql://db/shop", url)).project

    assert project.connections["db"].url == url  # type: ignore[union-attr]
