"""What a pipeline file may say: the blocks that people know from elsewhere, word for word, and what each key means."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from headgate.domain.gate import Action, OnFail
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.config.node import NodeConfig, OnError
from tests.unit.pipelines.samples import HEAD, dedent, loaded, place_of, problem, problems, with_nodes

QUARANTINE = r"""
- name: process_customers
  read:
    connection: bronze
    path: customers_raw

  validation:
    tests:
      - type: not_null
        columns: [customer_id, email]
        on_fail: quarantine  # routed to the quarantine
      - type: regex_match
        column: email
        pattern: "^[^@]+@[^@]+\\.[^@]+$"
        on_fail: quarantine

    quarantine:
      connection: silver
      path: customers_quarantine  # or table: customers_quarantine
      add_columns:
        _rejection_reason: true    # which tests failed
        _rejected_at: true         # when
        _source_batch_id: true     # in which run
        _failed_tests: true        # their names
"""

GATE = """
- name: load_silver_customers
  read:
    connection: bronze
    path: customers

  validation:
    tests:
      - type: not_null
        columns: [customer_id]
      - type: unique
        columns: [customer_id]

  gate:
    require_pass_rate: 0.95  # 95%
    on_fail: abort  # abort | warn_and_write | write_valid_only
    thresholds:
      - test: not_null
        min_pass_rate: 0.99
      - test: unique
        min_pass_rate: 1.0
    row_count:
      min: 100
      max: 1000000
      change_threshold: 0.5
"""

ALERTS = """
alerts:
  - type: slack
    url: "${SLACK_WEBHOOK_URL}"
    on_events:
      - on_failure
      - on_gate_block
      - on_quarantine
    metadata:
      throttle_minutes: 15  # not again within 15 minutes
      channel: "#data-alerts"

  - type: teams
    url: "${TEAMS_WEBHOOK_URL}"
    on_events:
      - on_failure
      - on_gate_block
      - on_threshold_breach
    metadata:
      throttle_minutes: 30
"""
NODE = "- {name: orders, read: {connection: bronze, path: orders}}"


def only_node(folder: Path, nodes: str) -> NodeConfig:
    return loaded(folder, with_nodes(nodes)).project.pipelines[0].nodes[0]


def test_a_quarantine_block_is_taken_word_for_word(tmp_path: Path) -> None:
    node = only_node(tmp_path, QUARANTINE)

    assert (node.name, node.read.connection, node.read.path) == ("process_customers", "bronze", "customers_raw")  # type: ignore[union-attr]
    nulls, pattern = node.validation.tests
    assert (nulls.kind, nulls.tested_columns, nulls.on_fail) == (
        "not_null",
        ("customer_id", "email"),
        OnFail.quarantine,
    )
    assert (pattern.kind, pattern.pattern) == ("regex_match", r"^[^@]+@[^@]+\.[^@]+$")  # type: ignore[union-attr]
    quarantine = node.validation.quarantine
    assert quarantine is not None
    assert (quarantine.connection, quarantine.path, quarantine.table) == ("silver", "customers_quarantine", None)
    assert quarantine.add_columns.model_dump() == {
        "_rejection_reason": True,
        "_rejected_at": True,
        "_source_batch_id": True,
        "_failed_tests": True,
        "_original_node": False,
    }
    assert (quarantine.retention_days, quarantine.format) == (90, "parquet")


def test_a_quarantine_may_be_a_table(tmp_path: Path) -> None:
    node = only_node(tmp_path, QUARANTINE.replace("path: customers_quarantine", "table: customers_quarantine"))

    assert node.validation.quarantine is not None
    assert (node.validation.quarantine.path, node.validation.quarantine.table) == (None, "customers_quarantine")


def test_a_gate_block_is_taken_word_for_word(tmp_path: Path) -> None:
    node = only_node(tmp_path, GATE)

    assert [test.on_fail for test in node.validation.tests] == [OnFail.fail, OnFail.fail]
    gate = node.gate
    assert gate is not None
    assert (gate.require_pass_rate, gate.on_fail) == (0.95, Action.abort)
    assert [(each.test, each.min_pass_rate) for each in gate.thresholds] == [("not_null", 0.99), ("unique", 1.0)]
    assert gate.row_count is not None
    assert (gate.row_count.min, gate.row_count.max, gate.row_count.change_threshold) == (100, 1_000_000, 0.5)
    assert gate.row_count.on_missing_history == "pass"


@pytest.mark.parametrize("action", list(Action))
def test_a_gate_knows_three_actions(tmp_path: Path, action: Action) -> None:
    node = only_node(tmp_path, GATE.replace("on_fail: abort", f"on_fail: {action}"))

    assert node.gate is not None
    assert node.gate.on_fail is action


def test_alerts_are_taken_word_for_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_WEBHOOK_URL", "https://hooks.example/slack")
    monkeypatch.setenv("TEAMS_WEBHOOK_URL", "https://hooks.example/teams")
    slack, teams = loaded(tmp_path, with_nodes(NODE, head=HEAD + dedent(ALERTS))).project.alerts

    assert (slack.type, slack.url.get_secret_value()) == ("slack", "https://hooks.example/slack")
    assert slack.on_events == [AlertEvent.on_failure, AlertEvent.on_gate_block, AlertEvent.on_quarantine]
    assert (slack.metadata.throttle_minutes, slack.metadata.channel) == (15, "#data-alerts")
    assert (teams.type, teams.url.get_secret_value()) == ("teams", "https://hooks.example/teams")
    assert teams.on_events == [AlertEvent.on_failure, AlertEvent.on_gate_block, AlertEvent.on_threshold_breach]
    assert (teams.metadata.throttle_minutes, teams.metadata.max_per_hour) == (30, 10)


def test_every_event_can_be_asked_for(tmp_path: Path) -> None:
    events = ", ".join(AlertEvent)
    head = HEAD + f"alerts: [{{type: webhook, url: 'http://localhost/x', on_events: [{events}]}}]\n"

    (alert,) = loaded(tmp_path, with_nodes(NODE, head=head)).project.alerts

    assert {str(event) for event in alert.on_events} == {
        "on_start",
        "on_success",
        "on_failure",
        "on_validation_fail",
        "on_gate_block",
        "on_quarantine",
        "on_threshold_breach",
        "on_schema_drift",
        "on_freshness_fail",
    }


def test_what_is_not_said_has_the_documented_defaults(tmp_path: Path) -> None:
    text = with_nodes("- {name: orders, read: {connection: bronze, path: orders}, gate: {}}")
    project = loaded(tmp_path, text).project
    gate = project.pipelines[0].nodes[0].gate

    assert gate is not None
    assert (gate.require_pass_rate, gate.on_fail, gate.row_count) == (0.95, Action.abort, None)
    assert (project.on_error, project.retry.attempts) == (OnError.fail_fast, 1)
    assert project.retry.delay == timedelta(seconds=10)


def test_a_single_value_stands_for_a_list(tmp_path: Path) -> None:
    nodes = """
        - {name: a, read: {connection: bronze, path: a}}
        - {name: b, depends_on: a, write: {connection: silver, path: b, mode: upsert, merge_keys: id, partition_by: d}}
    """
    _, node = loaded(tmp_path, with_nodes(nodes)).project.pipelines[0].nodes

    assert node.depends_on == ["a"]
    assert node.write is not None
    assert (node.write.keys, node.write.partition_by) == (["id"], ["d"])


def test_numbers_and_booleans_are_text_in_the_options_of_a_connection(tmp_path: Path) -> None:
    head = """\
project: shop
connections:
  bronze: {type: s3, base_path: "s3a://lake", options: {fs.s3a.path.style.access: true, fs.s3a.attempts: 3}}
"""
    connection = loaded(tmp_path, with_nodes(NODE, head=head)).project.connections["bronze"]

    assert connection.options == {"fs.s3a.path.style.access": "true", "fs.s3a.attempts": "3"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("90m", timedelta(minutes=90)),
        ("24 hours", timedelta(hours=24)),
        ("1d 12h", timedelta(hours=36)),
        ("1.5h", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("30", None),
        (45, timedelta(seconds=45)),
    ],
)
def test_spans_of_time_are_written_as_people_do(tmp_path: Path, said: object, meant: timedelta | None) -> None:
    quoted = f"'{said}'" if isinstance(said, str) else said
    nodes = f"- {{name: a, read: {{connection: bronze, path: a}}, freshness: {{max_age: {quoted}}}}}"
    if meant is None:
        message = problem(tmp_path, with_nodes(nodes)).message
        assert message == "max_age: '30' is not a span of time: write it like 90m, 24h or 7d"
    else:
        freshness = only_node(tmp_path, nodes).freshness
        assert freshness is not None
        assert freshness.max_age == meant


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("5 months", "max_age: '5 months' is not a span of time: write it like 90m, 24h or 7d"),
        ("-5m", "max_age: '-5m' is not a span of time: write it like 90m, 24h or 7d"),
        ("0s", "max_age: 0s is no time at all: it has to be longer than nothing"),
        ("99999999999999w", "max_age: '99999999999999w' is longer than time can be counted"),
        ("true", "max_age: true is not a span of time: write it like 90m, 24h or 7d"),
        ("[1h]", "max_age has to be a span of time, as 90m, 24h or 7d, not a list"),
    ],
)
def test_what_is_no_span_of_time_is_refused(tmp_path: Path, said: str, message: str) -> None:
    nodes = f"- {{name: a, read: {{connection: bronze, path: a}}, freshness: {{max_age: {said}}}}}"

    assert problem(tmp_path, with_nodes(nodes)).message == message


@pytest.mark.parametrize(
    ("nodes", "key", "near"),
    [
        ("- {name: a, raed: {}}", "raed", "read"),
        ("- {name: a, read: {connection: bronze, pth: a, path: a}}", "pth", "path"),
        (
            "- {name: a, read: {connection: bronze, path: a, incremental: {colunm: x, column: x}}}",
            "colunm",
            "column",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, gate: {require_passrate: 1}}",
            "require_passrate",
            "require_pass_rate",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, gate: {thresholds: [{min_pass_rate: 1, tst: 1}]}}",
            "tst",
            "test",
        ),
        ("- {name: a, read: {connection: bronze, path: a}, gate: {row_count: {mn: 1}}}", "mn", "min"),
        ("- {name: a, read: {connection: bronze, path: a}, validation: {test: []}}", "test", "tests"),
        (
            "- {name: a, read: {connection: bronze, path: a}, validation: {profile: {column: [a]}}}",
            "column",
            "columns",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, transform: {steps: [{sqll: x, sql: y}]}}",
            "sqll",
            "sql",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, write: {connection: silver, path: a, mod: append}}",
            "mod",
            "mode",
        ),
        ("- {name: a, read: {connection: bronze, path: a}, retry: {atempts: 2}}", "atempts", "attempts"),
        (
            "- {name: a, read: {connection: bronze, path: a}, contract: {columns: [{name: x, typ: int}]}}",
            "typ",
            "type",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, alerts: [{type: slack, url: 'https://x', "
            "metadata: {chanel: x}}]}",
            "chanel",
            "channel",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, validation: {quarantine: {connection: silver, path: q, "
            "add_columns: {_rejected_on: true}}}}",
            "_rejected_on",
            "_rejected_at",
        ),
        (
            "- {name: a, read: {connection: bronze, path: a}, validation: {tests: "
            "[{type: foreign_key, column: b, reference: {connection: bronze, pat: x, path: x}}]}}",
            "pat",
            "path",
        ),
    ],
)
def test_unknown_keys_are_refused_in_every_block(tmp_path: Path, nodes: str, key: str, near: str) -> None:
    text = with_nodes(nodes)

    expected = (place_of(text, f"{key}:"), f"unknown key {key!r}", f"did you mean {near!r}?")
    assert expected in problems(tmp_path, text)


@pytest.mark.parametrize(
    ("head", "place", "hint"),
    [
        ("project: a\nconections: {}\n", "2:1", "did you mean 'connections'?"),
        ("project: a\nspark: {mastr: x}\n", "2:9", "did you mean 'master'?"),
        ("project: a\nserver: {apikey: x}\n", "2:10", "did you mean 'api_key'?"),
        ("project: a\nconnections: {x: {type: catalog, catalog: c, databse: d}}\n", "2:46", "did you mean 'database'?"),
        (
            "project: a\nconnections: {x: {type: local, base_path: c, zzz: d}}\n",
            "2:46",
            "known keys: base_path, options, type",
        ),
    ],
)
def test_unknown_keys_of_the_project_are_refused(tmp_path: Path, head: str, place: str, hint: str) -> None:
    found = [each for each in problems(tmp_path, with_nodes(NODE, head=head)) if "unknown key" in each.message]

    assert [(each.place, each.hint) for each in found] == [(f"pipeline.yaml:{place}", hint)]


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = """
        project: my shop
        connections:
          lake: {type: locl, base_path: x}
          other: {type: local, base_path: "${NOWHERE}"}
        environments: {prod: {pipelines: []}}
        pipelines:
          - pipeline: daily
            nodes:
              - name: a
                read: {connection: lake}
                gate: {require_pass_rate: 95}
              - name: b
    """
    assert [(each.place.partition(":")[2], each.message) for each in problems(tmp_path, text)] == [
        ("1:10", "project: 'my shop' is no name: letters, digits, _ and - only, and a letter or _ first"),
        ("3:9", "unknown type 'locl' in lake"),
        ("4:35", "${NOWHERE} is not set: neither vars nor the environment has NOWHERE"),
        ("5:23", "an environment cannot change 'pipelines'"),
        ("10:15", "read: say one of path, table, query and topic; none is there"),
        ("11:35", "require_pass_rate has to be at most 1, not 95"),
        ("12:9", "node 'b' has no rows: give it read or depends_on"),
    ]


@pytest.mark.parametrize(
    ("block", "message", "hint"),
    [
        ("on_error: stop", "on_error has to be one of fail_fast, fail_later, ignore, not 'stop'", None),
        (
            "on_error: fail_laten",
            "on_error has to be one of fail_fast, fail_later, ignore, not 'fail_laten'",
            "did you mean 'fail_later'?",
        ),
        ("retry: {attempts: 0}", "attempts has to be at least 1, not 0", None),
        ("retry: {attempts: many}", "attempts has to be a whole number, not 'many'", None),
        ("retry: 3", "retry has to be a block of keys, not 3", None),
        ("tags: gold", "tags has to be a list, not 'gold'", "write [a, b], or one a line with a dash before each"),
        ("tags: [1]", "item 1 of tags has to be text, not 1", "put it in quotes"),
        ("tags:", "tags has to be a list, and is empty", "give it a value, or leave it out"),
        ("enabled: maybe", "enabled has to be true or false, not 'maybe'", None),
        ("owner: 5", "owner has to be text, not 5", "put it in quotes"),
        ("transform: {steps: []}", "steps is empty", "give it at least 1, or leave it out"),
        ("transform: {steps: [{}]}", "say one of sql, sql_file and function; none is there", None),
        (
            "transform: {steps: [{sql: x, function: 'a:b'}]}",
            "say one of sql, sql_file and function; sql and function are there",
            None,
        ),
        (
            "transform: {steps: [{function: clean}]}",
            "function: 'clean' names no function: write module:function, as cleaning:trim_names",
            None,
        ),
        (
            "transform: {steps: [{sql: x, params: {a: 1}}]}",
            "params belong to a function; in SQL write ${NAME} and set vars",
            None,
        ),
        (
            "write: {connection: silver, path: a, table: b}",
            "write: say one of path, table and topic; path and table are there",
            None,
        ),
        (
            "write: {connection: silver, path: a, mode: upsert}",
            "write: mode upsert needs keys: the columns that tell rows apart",
            None,
        ),
        (
            "write: {connection: silver, path: a, keys: [id]}",
            "write: keys are for append_once, scd2, upsert; the mode is overwrite",
            None,
        ),
        ("write: {connection: silver, path: a, keys: [a], merge_keys: [b], mode: upsert}", "unknown", None),
        (
            "write: {connection: silver, topic: a, mode: overwrite}",
            "write: mode overwrite is not for topics: leave it out, they only grow",
            None,
        ),
        (
            "write: {connection: silver, path: a, mode: overwrite_partitions}",
            "write: mode overwrite_partitions needs partition_by: the columns whose values are replaced",
            None,
        ),
        (
            "write: {connection: silver, path: a, history: {}}",
            "write: history is for mode scd2; the mode is overwrite",
            None,
        ),
        ("gate: {row_count: {min: 5, max: 2}}", "row_count: min 5 is above max 2: nothing could pass", None),
        (
            "gate: {require_pass_rate: 97.5 %}",
            "require_pass_rate has to be a number, not '97.5 %'",
            "write it as a share: 0.975",
        ),
        ("depends_on: [a]", "node 'a' depends on itself: take it out of depends_on", None),
        (
            "validation: {tests: [not_null]}",
            "item 1 of tests has to be a block of keys, not 'not_null'",
            "write it as `type: not_null`",
        ),
        (
            "validation: {quarantine: {connection: silver}}",
            "quarantine: say one of path and table; none is there",
            None,
        ),
        ("validation: {profile: 3}", "profile has to be true or false or a block of keys, not 3", None),
        (
            "alerts: [{type: slack, url: hooks}]",
            "url: it has to start with https:// or http://; it is not shown, being a secret",
            None,
        ),
        (
            "alerts: [{type: slack, url: 'https://x', on_events: []}]",
            "on_events is empty",
            "give it at least 1, or leave it out",
        ),
        ("alerts: [{type: pager, url: 'https://x'}]", "type has to be one of slack, teams, webhook, not 'pager'", None),
        ("alerts: [{type: slack}]", "'url' is missing in item 1 of alerts", None),
    ],
)
def test_what_cannot_be_is_refused_in_words(tmp_path: Path, block: str, message: str, hint: str | None) -> None:
    nodes = f"- name: a\n  read: {{connection: bronze, path: a}}\n  {block}"
    found = problem(tmp_path, with_nodes(nodes))

    if message == "unknown":
        message, hint = "'merge_keys' says what another key of this block says already", "keep one of them"
    assert (found.message, found.hint) == (message, hint)


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ("{type: s3, base_path: lake/raw}", "x: base_path 'lake/raw' of type s3 has to begin with s3a://"),
        ("{type: hdfs, base_path: /lake}", "x: base_path '/lake' of type hdfs has to begin with hdfs://"),
        ("{type: local, base_path: 's3a://lake'}", "x: base_path 's3a://lake' is not of type local: say type: s3"),
        ("{type: gcs, base_path: 'oss://lake'}", "x: base_path 'oss://lake' is not of type gcs: say type: hadoop"),
        ("{type: local}", "'base_path' is missing in x"),
        ("{type: local, base_path: ''}", "base_path is empty"),
        ("{base_path: a}", "'type' is missing in x"),
        (
            "{type: jdbc, url: 'jdbc:postgresql://me:pw@host/db'}",
            "url: the URL holds a user or password: give them as `user` and `password`",
        ),
        (
            "{type: jdbc, url: 'postgresql://host/db'}",
            "url: 'postgresql://host/db' is no JDBC URL: it starts with jdbc:, as jdbc:postgresql://host/db",
        ),
        ("{type: kafka, bootstrap_servers: ''}", "bootstrap_servers is empty"),
    ],
)
def test_connections_that_lead_nowhere_are_refused(tmp_path: Path, connection: str, message: str) -> None:
    head = f"project: shop\nconnections:\n  bronze: {{type: local, base_path: a}}\n  x: {connection}\n"

    found = problem(tmp_path, with_nodes(NODE, head=head))
    assert found.message == message
    assert found.place.startswith("pipeline.yaml:4:")


def test_the_name_of_a_connection_is_a_name(tmp_path: Path) -> None:
    head = (
        "project: shop\nconnections:\n  bronze: {type: local, base_path: a}\n  my lake: {type: local, base_path: a}\n"
    )
    found = problem(tmp_path, with_nodes(NODE, head=head))

    assert "'my lake' is no name" in found.message
    assert found.place.startswith("pipeline.yaml:4:")
