"""Credentials in the texts of others are told to nobody."""

from __future__ import annotations

import pytest

from headgate.domain.evidence import run_failed
from headgate.domain.masking import without_credentials
from headgate.domain.trace import telling_line

KEY_ID = "AKIA" + "IOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3In0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no route to postgres://u:secretpw@h/db", "no route to postgres://u:***@h/db"),
        ("redis://:s3cr:et@cache:6379/0 refused", "redis://:***@cache:6379/0 refused"),
        ("https://ann:p@ss@host/x and https://bob:pw@host/y", "https://ann:***@host/x and https://bob:***@host/y"),
        ("jdbc:oracle:thin:scott/tiger@//db:1521/x", "jdbc:oracle:thin:scott/***@//db:1521/x"),
        ("password=hunter2 was refused", "password=*** was refused"),
        ("PASSWORD = 'hunter 2' was refused", "PASSWORD = *** was refused"),
        ("passwd=hunter2", "passwd=***"),
        ("pwd=hunter2;database=shop", "pwd=***;database=shop"),
        ("token=abcdef&user=ann", "token=***&user=ann"),
        ("client_secret=abcdef user=ann", "client_secret=*** user=ann"),
        ("api_key=abcdef", "api_key=***"),
        ("apikey=abcdef", "apikey=***"),
        ("x-api-key=abcdef", "x-api-key=***"),
        (f"the key {KEY_ID} is not valid", "the key *** is not valid"),
        ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key=***"),
        ("fs.s3a.secret.key=abc/def", "fs.s3a.secret.key=***"),
        ("fs.azure.account.key.lake.dfs.core.windows.net=abc==", "fs.azure.account.key.lake.dfs.core.windows.net=***"),
        ("AccountName=lake;AccountKey=abc==;Suffix=x", "AccountName=lake;AccountKey=***;Suffix=x"),
        ("https://lake.blob.core.windows.net/a?sv=1&sig=ab%2Fc&se=2", "https://lake.blob.core.windows.net/a?sv=1&sig=***&se=2"),
        ("Authorization: Bearer abcdef", "Authorization: Bearer ***"),
        ("Authorization: Basic YW5uOmh1bnRlcjI=", "Authorization: Basic ***"),
        ("sent with bearer 0a1b2c3d4e5f", "sent with bearer ***"),
        (f"refused {JWT}", "refused ***"),
        ("hg_live_" + "a" * 43, "***"),
        ("jdbc:sqlserver://db:1433;password=hun ter2;x=1", "jdbc:sqlserver://db:1433;password=***;x=1"),
        ("jdbc:sqlserver://db:1433;user=ann;password=hunter2", "jdbc:sqlserver://db:1433;user=ann;password=***"),
        ("jdbc:postgresql://db/shop?user=ann&password=hunter2&ssl=true", "jdbc:postgresql://db/shop?user=ann&password=***&ssl=true"),
        ('{"user": "ann", "db_password": "hunter2"}', '{"user": "ann", "db_password": ***}'),
        ("connect({'password': 'hunter2', 'host': 'db'})", "connect({'password': ***, 'host': 'db'})"),
        ('password="hunter2', "password=***"),
    ],
)  # fmt: skip
def test_what_looks_like_a_credential_is_masked(text: str, told: str) -> None:
    assert without_credentials(text) == told
    assert without_credentials(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "password authentication failed for user 'ann'",
        "unexpected token ')' at line 3: expected ';'",
        "Unexpected token: EOF",
        "max_tokens=5 is too few",
        "basic authentication is off, and bearer authentication failed",
        "the secret of orders: not found in vault",
        "cannot read s3a://lake/orders/day=2026-03-09",
        "http://host:8080/api/v1/users/ann@example.org is gone",
        "abfss://container@lake.dfs.core.windows.net/orders",
        "mail of ann@example.org at 10:00:00",
        "duplicate key value violates unique constraint 'orders_key'",
        "key=5 is not unique",
        "ValueError: bad date 2026-13-01",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert without_credentials(text) == text


def test_what_is_told_of_an_error_has_no_credentials() -> None:
    error = (
        "Traceback (most recent call last):\n  File 'x'\nOperationalError: postgres://u:secretpw@h/db password=hunter2"
    )
    assert telling_line(error) == "OperationalError: postgres://u:***@h/db password=***"
    assert "secretpw" not in run_failed("FAIL", error).sentence
