"""What a user can set for the agent: where it is looked up, what is refused, and that nothing secret is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.agent_jvm import AgentJvm, agent_jvm

RUN = "0194b8c2-0000-7000-8000-000000000001"
ROOT_RUN = "0194b8c2-0000-7000-8000-000000000002"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentJvm]:
    with agent_jvm(tmp_path_factory.mktemp("config")) as agent:
        yield agent


def read(agent: AgentJvm, conf: dict[str, str] | None = None, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The configuration as plain values."""
    config = agent.config(conf, env)
    plain = {name: getattr(config, name)() for name in ("enabled", "namespace", "maskLiterals", "isActive")}
    plain |= {f"{name}Ms": getattr(config, f"{name}Ms")() for name in ("connectTimeout", "readTimeout", "flushTimeout")}
    plain |= {name: _some(getattr(config, name)()) for name in ("url", "apiKey", "spoolDir")}
    plain |= {name: _parent(getattr(config, name)()) for name in ("parent", "rootParent")}
    warnings = config.warnings()
    told = [warnings.apply(index) for index in range(warnings.size())]
    return plain | {"queueSize": config.queueSize(), "warnings": told, "text": config.toString()}


def _some(option: Any) -> Any:
    return option.get() if option.isDefined() else None


def _parent(option: Any) -> tuple[str, str, str] | None:
    parent = _some(option)
    return (parent.namespace(), parent.name(), parent.runId()) if parent else None


def test_without_settings_the_agent_is_inactive_and_has_its_defaults(agent: AgentJvm) -> None:
    config = read(agent)
    assert config.pop("text")
    assert config == {
        "enabled": True,
        "namespace": "default",
        "maskLiterals": False,
        "isActive": False,
        "connectTimeoutMs": 5000,
        "readTimeoutMs": 10000,
        "flushTimeoutMs": 30000,
        "queueSize": 10000,
        "url": None,
        "apiKey": None,
        "spoolDir": None,
        "parent": None,
        "rootParent": None,
        "warnings": [],
    }


def test_every_setting_can_come_from_spark_or_from_the_environment(agent: AgentJvm) -> None:
    conf = {
        "url": "https://lineage.example.org",
        "apiKey": "hg_live_1",
        "enabled": "false",
        "namespace": "shop",
        "connectTimeoutMs": "1",
        "readTimeoutMs": "2",
        "flushTimeoutMs": "0",
        "queueSize": "4",
        "spoolDir": "/var/spool/headgate",
        "maskLiterals": "TRUE",
        "parent": f"scheduler/shop.load/{RUN}",
        "rootParent": f"scheduler/shop/{ROOT_RUN}",
    }
    from_spark = read(agent, {f"spark.headgate.{name}": value for name, value in conf.items()})
    from_environment = read(
        agent,
        env={
            "HEADGATE_URL": conf["url"],
            "HEADGATE_API_KEY": conf["apiKey"],
            "HEADGATE_ENABLED": "off",
            "HEADGATE_NAMESPACE": conf["namespace"],
            "HEADGATE_CONNECT_TIMEOUT_MS": "1",
            "HEADGATE_READ_TIMEOUT_MS": "2",
            "HEADGATE_FLUSH_TIMEOUT_MS": "0",
            "HEADGATE_QUEUE_SIZE": "4",
            "HEADGATE_SPOOL_DIR": conf["spoolDir"],
            "HEADGATE_MASK_LITERALS": "1",
            "HEADGATE_PARENT": conf["parent"],
            "HEADGATE_ROOT_PARENT": conf["rootParent"],
        },
    )
    assert from_spark == from_environment
    assert from_spark["warnings"] == []
    assert not from_spark["isActive"]
    assert [from_spark[name] for name in ("url", "apiKey", "namespace", "spoolDir", "maskLiterals", "enabled")] == [
        "https://lineage.example.org",
        "hg_live_1",
        "shop",
        "/var/spool/headgate",
        True,
        False,
    ]
    assert [from_spark[f"{name}Ms"] for name in ("connectTimeout", "readTimeout", "flushTimeout")] == [1, 2, 0]
    assert from_spark["queueSize"] == 4
    assert from_spark["parent"] == ("scheduler", "shop.load", RUN)
    assert from_spark["rootParent"] == ("scheduler", "shop", ROOT_RUN)


def test_spark_wins_over_the_environment_and_ours_over_the_aliases(agent: AgentJvm) -> None:
    alias = {
        "spark.observability.api.url": "http://alias:1",
        "spark.observability.api.key": "from-alias",
        "spark.observability.api.enabled": "false",
        "spark.observability.api.connectTimeoutMs": "11",
        "spark.observability.api.readTimeoutMs": "12",
    }
    aliased = read(agent, alias)
    assert (aliased["url"], aliased["apiKey"], aliased["enabled"]) == ("http://alias:1", "from-alias", False)
    assert (aliased["connectTimeoutMs"], aliased["readTimeoutMs"]) == (11, 12)

    env = {"HEADGATE_URL": "http://environment:1", "HEADGATE_ENABLED": "true"}
    assert read(agent, alias, env)["url"] == "http://environment:1"
    ours = read(agent, alias | {"spark.headgate.url": "http://spark:1", "spark.headgate.apiKey": "mine"}, env)
    assert (ours["url"], ours["apiKey"], ours["enabled"]) == ("http://spark:1", "mine", True)


def test_blank_means_unset(agent: AgentJvm) -> None:
    names = ("url", "apiKey", "enabled", "namespace", "readTimeoutMs", "queueSize", "spoolDir", "parent")
    blank = read(agent, {f"spark.headgate.{name}": "  " for name in names}, {"HEADGATE_URL": "http://set:1"})
    assert blank == read(agent, env={"HEADGATE_URL": "http://set:1"})
    assert blank["url"] == "http://set:1"


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://host:8080", "http://host:8080"),
        (" https://host/ ", "https://host"),
        ("http://host/api/v1", "http://host"),
        ("http://host/api/v1/lineage", "http://host"),
        ("http://host/api/v1/lineage/batch/", "http://host"),
        ("https://host/behind/proxy/api/v1/lineage/", "https://host/behind/proxy"),
        ("http://a_container:4000", "http://a_container:4000"),
        ("HTTP://host", "http://host"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_an_address_may_name_the_server_or_its_api(agent: AgentJvm, given: str, base: str) -> None:
    config = read(agent, {"spark.headgate.url": given})
    assert (config["url"], config["warnings"]) == (base, [])
    assert config["isActive"]


@pytest.mark.parametrize(
    "given",
    [
        "lineage.example.org",
        "localhost:8080",
        "ftp://host",
        "http://",
        "http:///api",
        "http://host:99999",
        "http://host:port",
        "http://two hosts",
        "http://user:sesame@host",
        "user:sesame@host",
        "http://host/?key=sesame",
        "http://host/#sesame",
        "https://user:ses@me-sesame@host:1",
    ],
)
def test_an_address_that_is_none_turns_sending_off_and_shows_no_password(agent: AgentJvm, given: str) -> None:
    config = read(agent, {"spark.headgate.url": given})
    assert config["url"] is None
    assert not config["isActive"]
    [warning] = config["warnings"]
    assert warning.startswith("spark.headgate.url '")
    assert warning.endswith("nothing is sent")
    assert "sesame" not in warning + config["text"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("readTimeoutMs", "10s", "'10s' is not a whole number from 1 to 600000; 10000 is used"),
        ("readTimeoutMs", "0", "'0' is not a whole number from 1 to 600000; 10000 is used"),
        ("connectTimeoutMs", "-1", "'-1' is not a whole number from 1 to 600000; 5000 is used"),
        ("flushTimeoutMs", "1e3", "'1e3' is not a whole number from 0 to 600000; 30000 is used"),
        ("queueSize", "99999999999", "'99999999999' is not a whole number from 1 to 1000000; 10000 is used"),
        ("enabled", "flase", "'flase' is not true or false; true is used"),
        ("maskLiterals", "2", "'2' is not true or false; false is used"),
        (
            "spoolDir",
            "s3://bucket/spool",
            "'s3://bucket/spool' is not a folder of this machine; nothing is written there",
        ),
        ("parent", "a/b/c", "'a/b/c' is not namespace/name/runId with a UUID at the end; it is ignored"),
        ("rootParent", RUN, f"'{RUN}' is not namespace/name/runId with a UUID at the end; it is ignored"),
    ],
)
def test_a_malformed_value_is_told_and_its_default_used(agent: AgentJvm, name: str, value: str, told: str) -> None:
    config = read(agent, {f"spark.headgate.{name}": value})
    assert config["warnings"] == [f"spark.headgate.{name} {told}"]
    assert {key: each for key, each in config.items() if key != "warnings"} == {
        key: each for key, each in read(agent).items() if key != "warnings"
    }


def test_a_warning_names_the_variable_that_was_set(agent: AgentJvm) -> None:
    assert read(agent, env={"HEADGATE_QUEUE_SIZE": "many"})["warnings"] == [
        "HEADGATE_QUEUE_SIZE 'many' is not a whole number from 1 to 1000000; 10000 is used"
    ]


def test_a_very_long_value_is_shortened_in_its_warning(agent: AgentJvm) -> None:
    [warning] = read(agent, {"spark.headgate.queueSize": "9" * 5000})["warnings"]
    assert len(warning) < 250


def test_a_key_that_no_header_can_hold_is_ignored_and_never_shown(agent: AgentJvm) -> None:
    config = read(agent, {"spark.headgate.url": "http://host", "spark.headgate.apiKey": "sesame\r\nX-Evil: 1"})
    assert config["apiKey"] is None
    assert config["isActive"]
    assert len(config["warnings"]) == 1
    assert "sesame" not in str(config["warnings"])


def test_the_key_is_not_in_the_text_of_the_configuration(agent: AgentJvm) -> None:
    config = read(agent, {"spark.headgate.url": "http://host", "spark.headgate.apiKey": "sesame"})
    assert config["apiKey"] == "sesame"
    assert "sesame" not in config["text"]


def test_a_spool_folder_alone_makes_it_active(agent: AgentJvm) -> None:
    config = read(agent, {"spark.headgate.spoolDir": "file:///var/spool/headgate"})
    assert config["isActive"]
    assert config["spoolDir"] == "/var/spool/headgate"


def test_a_scheduler_that_speaks_openlineage_names_the_parents(agent: AgentJvm) -> None:
    injected = {
        "spark.openlineage.parentJobNamespace": "s3://airflow/x",
        "spark.openlineage.parentJobName": "shop.load",
        "spark.openlineage.parentRunId": RUN.upper(),
        "spark.openlineage.rootParentJobNamespace": "airflow",
        "spark.openlineage.rootParentJobName": "shop",
        "spark.openlineage.rootParentRunId": ROOT_RUN,
    }
    variables = {
        "OPENLINEAGE_PARENT_ID": f"http://airflow:8080/dag/task/{ROOT_RUN}",
        "OPENLINEAGE_ROOT_PARENT_ID": f"environment/dag/{RUN}",
    }
    both = read(agent, injected, variables)
    assert both["parent"] == ("s3://airflow/x", "shop.load", RUN)
    assert both["rootParent"] == ("airflow", "shop", ROOT_RUN)
    from_environment = read(agent, env=variables)
    assert from_environment["parent"] == ("http://airflow:8080", "dag/task", ROOT_RUN)
    assert from_environment["rootParent"] == ("environment", "dag", RUN)
    own = read(agent, injected | {"spark.headgate.parent": f"mine/job/{RUN}"}, variables)
    assert own["parent"] == ("mine", "job", RUN)


def test_half_a_parent_is_told_and_ignored(agent: AgentJvm) -> None:
    config = read(agent, {"spark.openlineage.parentRunId": RUN, "spark.openlineage.parentJobName": "load"})
    assert config["parent"] is None
    assert config["warnings"] == [
        "spark.openlineage.parentRunId needs a UUID, spark.openlineage.parentJobNamespace and "
        "spark.openlineage.parentJobName; it is ignored"
    ]
