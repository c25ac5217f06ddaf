"""Credentials that stand in paths, JDBC URLs, statements and error messages stay in the job."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.agent_jvm import AgentJvm, agent_jvm
from tests.support.watching import Watched


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentJvm]:
    with agent_jvm(tmp_path_factory.mktemp("secrets")) as agent:
        yield agent


def plan(agent: AgentJvm) -> Any:
    return agent.jvm.headgate.spark.plan


def sql(agent: AgentJvm, statement: str) -> str:
    return str(plan(agent).Redaction.sql(statement))


def text(agent: AgentJvm, message: str, *, mask: bool = False) -> str:
    return str(plan(agent).Redaction.text(message, mask))


def place(agent: AgentJvm, url: str) -> tuple[str, str | None] | None:
    found = plan(agent).Jdbc.place(url)
    if not found.isDefined():
        return None
    database = found.get().database()
    return found.get().namespace(), database.get() if database.isDefined() else None


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("s3a://AKIA:secret@bucket/a", "s3://bucket", "a"),
        ("s3a://AKIA:se/cr+et@bucket/a", "s3://bucket", "a"),
        ("s3a://AKIA:12/34@bucket/a", "s3://bucket", "a"),
        ("ftp://user:secret@host/a", "ftp://host", "/a"),
        ("ftp://user@host:21/a", "ftp://host:21", "/a"),
        ("hdfs://nn:8020/a@b", "hdfs://nn:8020", "/a@b"),
        ("s3://bucket/a:b@c", "s3://bucket", "a:b@c"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net", "/a"),
        ("wasb://container@account.blob.core.windows.net/a", "wasbs://container@account.blob.core.windows.net", "a"),
        ("/data/a@b:c", "file", "/data/a@b:c"),
    ],
)
def test_a_path_is_named_without_its_credentials(agent: AgentJvm, path: str, namespace: str, name: str) -> None:
    found = plan(agent).Locations.of(path, agent.jvm.scala.Option.empty()).get()

    assert (found.namespace(), found.name()) == (namespace, name)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("s3a://AKIA:se/cret@bucket/a", "s3a://bucket/a"),
        ("thrift://u:secret@h:9083", "thrift://h:9083"),
        ("abfss://container@account/a", "abfss://container@account/a"),
        ("file:/data/a", "file:/data/a"),
        ("/data/a b", "/data/a b"),
    ],
)
def test_an_address_is_shown_without_its_credentials(agent: AgentJvm, address: str, shown: str) -> None:
    assert plan(agent).Locations.cleaned(address) == shown


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("jdbc:mysql://address=(host=h)(user=u)(password=secret)/db", None),
        ("jdbc:mysql://h,(host=h2,password=se/cret)/db", None),
        ("jdbc:oracle:oci:u/secret", None),
        ("jdbc:oracle:thin:u/secret", None),
        ("jdbc:oracle:thin:u/se@cret@//h/svc", ("oracle://h:1521", "svc")),
        ("jdbc:oracle:thin:@//h/svc?password=se@cret", ("oracle://h:1521", "svc")),
        ("jdbc:postgresql://u:se/cret@h/db", ("postgres://h:5432", "db")),
        ("jdbc:postgresql://u:se?cret@h/db", ("postgres://h:5432", "db")),
        ("jdbc:postgresql://h/db?user=a@b&password=secret", ("postgres://h:5432", "db")),
        ("jdbc:postgresql://u:secret/db", None),
        ("jdbc:postgresql://[::1]:5433/db", ("postgres://[::1]:5433", "db")),
        ("jdbc:sqlserver://h\\one;databaseName=db;password=secret", ("mssql://h\\one:1433", "db")),
        ("jdbc:db2://h/db:user=a@b;password=secret;", ("db2://h:50000", "db")),
        ("jdbc:derby:memory:db;password=secret", ("derby:memory:db", None)),
    ],
)
def test_a_jdbc_url_is_named_by_its_host_or_not_at_all(
    agent: AgentJvm, url: str, found: tuple[str, str | None] | None
) -> None:
    assert place(agent, url) == found


def test_a_jdbc_table_whose_url_may_hold_a_password_is_told_to_be_lost(agent: AgentJvm) -> None:
    options = agent.jvm.PythonUtils.toScalaMap({"url": "jdbc:oracle:oci:u/secret", "dbtable": "t"})

    read = plan(agent).Jdbc.read(options)

    assert read.datasets().isEmpty()
    assert read.lost().get() == "a JDBC URL is not understood"


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("jdbc:oracle:thin:u/secret@//h", "jdbc:oracle:thin:@//h"),
        ("jdbc:oracle:oci:u/secret", "jdbc:oracle:oci:"),
        ("jdbc:postgresql://u:se/cret@h/db?ssl=true", "jdbc:postgresql://h/db"),
        ("jdbc:db2://h/db:password=secret;", "jdbc:db2://h/db"),
        ("jdbc:sqlite:/data/dt=3/x.db", "jdbc:sqlite:/data/dt=3/x.db"),
        ("https://u:secret@h/iceberg?token=secret", "https://h/iceberg"),
        ("thrift://h:9083", "thrift://h:9083"),
    ],
)
def test_any_url_loses_its_credentials_and_settings(agent: AgentJvm, url: str, bare: str) -> None:
    assert plan(agent).Jdbc.withoutCredentials(url) == bare


STATEMENTS = [
    ("SELECT 'jdbc:oracle:thin:scott/KEY@//h'", "SELECT 'jdbc:oracle:thin:***@//h'"),
    ("OPTIONS (url 'jdbc:x://h;password={a KEY}')", "OPTIONS (url 'jdbc:x://h;***')"),
    ("OPTIONS (url 'jdbc:mysql://address=(host=h)(password=KEY)/d')", "OPTIONS (url 'jdbc:mysql://***')"),
    (r"OPTIONS (password 'it\'s-a-KEY', a 'b')", "OPTIONS (password '***', a 'b')"),
    ("OPTIONS (password 'it''s-KEY', a 'b')", "OPTIONS (password '***', a 'b')"),
    ("LOCATION 's3a://AKIA:se/cr+KEY@bucket'", "LOCATION 's3a://***@bucket'"),
    ("ADD JAR s3a://AKIA:KEY@bucket/x.jar", "ADD JAR s3a://***@bucket/x.jar"),
    ("OPTIONS ('fs.azure.account.key.x' 'KEY')", "OPTIONS ('fs.azure.account.key.x' '***')"),
    ("SharedAccessKey=KEY", "SharedAccessKey=***"),
    ("SELECT 'Endpoint=e;SharedAccessKey=KEY;Path=p'", "SELECT 'Endpoint=e;SharedAccessKey=***;Path=p'"),
    ("OPTIONS (`api-key` 'KEY')", "OPTIONS (`api-key` '***')"),
    ("OPTIONS (accessKey 'KEY')", "OPTIONS (accessKey '***')"),
    ("read(password => 'KEY', n => 1)", "read(password => '***', n => 1)"),
    ("SET x.secret.key = KEY", "SET x.secret.key = ***"),
    ("-- it's\nSET `x.password`=KEY with KEY;KEY", "-- it's\nSET `x.password`=***"),
    ('OPTIONS (password "KEY")', 'OPTIONS (password "***")'),
    ("OPTIONS (password='KEY')", "OPTIONS (password='***')"),
    ("OPTIONS (password = r'KEY\\', a 'b')", "OPTIONS (password = r'***', a 'b')"),
    ("OPTIONS (password /* it's */ 'KEY' 'KEY')", "OPTIONS (password /* it's */ '***' '***')"),
    (
        'OPTIONS (kafka.sasl.jaas.config \'Plain required username="u" password="KEY";\')',
        "OPTIONS (kafka.sasl.jaas.config '***')",
    ),
    ("SELECT map('password', 'KEY')", "SELECT map('password', '***')"),
    ("EXECUTE IMMEDIATE 'OPTIONS (password ''KEY'')'", "EXECUTE IMMEDIATE 'OPTIONS (password ''***'')'"),
    ('SELECT \'{"token": "KEY", "a": 1}\'', 'SELECT \'{"token": "***", "a": 1}\''),
    ("SELECT 1 -- password=KEY", "SELECT 1 -- password=***"),
    ("SELECT id WHERE secret_level = 3 AND b = 4", "SELECT id WHERE secret_level = *** AND b = 4"),
]


@pytest.mark.parametrize(("statement", "shown"), STATEMENTS)
def test_a_statement_shows_no_secret(agent: AgentJvm, statement: str, shown: str) -> None:
    assert sql(agent, statement) == shown


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT token_count, sum(x) FROM t GROUP BY token_count HAVING token_count > 3",
        "SELECT a.x FROM a JOIN b ON a.token = b.token WHERE a.name = 'it''s' AND b.n IN ('x', 'y')",
        "SELECT token, 'x' AS password, 5 FROM t -- it's\nWHERE y = \"z\"",
        "CREATE TABLE t (password STRING COMMENT 'what it is', s STRUCT<token: STRING>) LOCATION 's3://b/c'",
        "SELECT * FROM csv.`s3://bucket/secret/a@b` WHERE Kansas = 'x' AND secret = upper('x')",
        "SET spark.sql.shuffle.partitions = 3",
        "OPTIONS (url 'jdbc:postgresql://h:5432/db?ssl=true', path 'abfss://c@a/x')",
        r"SELECT 'unfinished \' -- password",
    ],
)
def test_an_ordinary_statement_stays_as_it_is(agent: AgentJvm, statement: str) -> None:
    assert sql(agent, statement) == statement


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("can't open s3a://AKIA:se/cr+KEY@bucket/a", "can't open s3a://***@bucket/a"),
        ("no driver for jdbc:oracle:thin:scott/KEY@//h:1/s", "no driver for jdbc:oracle:thin:***@//h:1/s"),
        ("at jdbc:sqlserver://h;user=u;password=KEY: refused", "at jdbc:sqlserver://h;*** refused"),
        ("Authorization: Basic KEY==", "Authorization: Basic ***"),
        ("isn't valid: fs.s3a.secret.key=KEY, other=1", "isn't valid: fs.s3a.secret.key=***, other=1"),
        ("== SQL ==\nOPTIONS (password 'it''s KEY')\n^^^", "== SQL ==\nOPTIONS (password '***')\n^^^"),
        ("Map(a.access.key -> KEY, b -> 2)", "Map(a.access.key -> ***, b -> 2)"),
        ('{"api_key": "KEY", "b": 2}', '{"api_key": "***", "b": 2}'),
        (r'"{\"api_key\": \"KEY\", \"b\": 2}"', r'"{\"api_key\": \"***\", \"b\": 2}"'),
        ("\tat x.TokenService.get(TokenService.java:12)\n", "\tat x.TokenService.get(TokenService.java:12)\n"),
        ("x.CredentialException: no provider", "x.CredentialException: no provider"),
    ],
)
def test_a_message_shows_no_secret(agent: AgentJvm, message: str, shown: str) -> None:
    assert text(agent, message) == shown


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("can't cast 'it''s bob' to \"INT\" in col1, row 17", "can't cast ? to ? in col1, row ?"),
        ("X'1F' is 2024-01-02 or 1.5e3", "X? is ? or ?"),
        ("open 'and never closed\nat a.b$1(C.scala:12)", "open ?\nat a.b$1(C.scala:12)"),
        ("password='KEY' of 7", "password=? of ?"),
    ],
)
def test_a_message_may_also_lose_its_values(agent: AgentJvm, message: str, shown: str) -> None:
    assert text(agent, message, mask=True) == shown


def test_long_text_is_gone_through_once(agent: AgentJvm) -> None:
    blob = "ab+c/" * 100_000

    assert sql(agent, f"SELECT '{blob}', {' ' * 50_000}password '{blob}'").endswith("password '***'")
    assert text(agent, f"{blob} password={blob}").endswith(" password=***")


def test_nothing_that_a_job_sends_shows_its_password(watched: Watched) -> None:
    table = watched.table("kept")

    def work() -> None:
        watched.spark.sql(
            f"CREATE TABLE {table} USING csv OPTIONS (password 'it''s-hunter2', `api-key` = 'hunter2') "
            "AS SELECT id, 'jdbc:oracle:thin:scott/hunter2@//h' AS url FROM range(3)"
        )
        with contextlib.suppress(Exception):
            watched.spark.sql(
                f"INSERT INTO {table} SELECT id, 'x' FROM {table} "
                "WHERE raise_error('no: password=hunter2 at s3a://AKIA:hunter2@bucket') IS NULL"
            )

    seen = watched.do(work)

    assert [each.state for each in seen] == ["COMPLETE", "FAIL"]
    events = [each.events for each in seen]
    assert "password '***', `api-key` = '***'" in json.dumps(events[0])
    assert "no: password=*** at s3a://***@bucket" in events[1][-1]["run"]["facets"]["errorMessage"]["message"]
    assert "hunter2" not in json.dumps(events)
