"""`headgate alerts` and the client against a real server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import typer

from headgate.cli import alerts
from headgate.client import HeadgateClient
from tests.conftest import Cluster
from tests.support.asking import Ask, Output, asking_server
from tests.support.live import Live, live_server

SECRET = "T0SECRET0/B0SECRET0/s3cr3tt0k3n"


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture
def ask(live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking_server(live, monkeypatch, capsys, "alerts")


def test_a_rule_is_made_listed_tried_and_switched(ask: Ask) -> None:
    url = f"https://hooks.example/services/{SECRET}"
    made = ask("create", "team", "--channel", "slack", "--to", url, "--dataset", "sales_*", "--severity", "critical")
    rule = made.out.strip()
    assert made.code == 0
    assert "'team' tells SLACK https://hooks.example/… of CRITICAL all of sales_*" in made.err

    listed = ask("rules")
    assert rule in listed.out
    tried = ask("test", rule)
    assert tried.out.startswith("FAILED by SLACK")
    assert "hooks.example" in tried.out
    assert "0 messages of 0 in 7 days" in ask("preview", rule, "--days", "7").out
    assert ask("disable", rule).out == "'team' is off\n"
    assert ask("enable", rule).out == "'team' is on\n"
    history = ask("history", "--rule", rule)
    assert "FAILED" in history.out
    shown = "".join(f"{each.out}{each.err}" for each in (made, listed, tried, history))
    assert not any(part in shown for part in SECRET.split("/"))


def test_a_rule_is_changed_and_deleted(ask: Ask) -> None:
    made = ask("create", "short-lived", "--channel", "email", "--to", "a@example.org", "--severity", "critical")
    rule = made.out.strip()
    changed = ask("change", rule, "--name", "renamed", "--dataset", "sales_*", "--severity", "any", "--per-hour", "5")
    assert changed.out == "'renamed' tells EMAIL a@example.org of all of sales_*\n"
    assert json.loads(ask("change", rule, "--per-hour", "0", "--json").out)["max_per_hour"] is None
    nothing = ask("change", rule)
    assert (nothing.code, "nothing is to be changed" in nothing.err) == (2, True)
    ask("test", rule)
    assert "is gone" in ask("delete", rule).out
    assert rule not in ask("rules").out
    assert "SENT" in ask("history", "--rule", rule).out
    again = ask("delete", rule)
    assert (again.code, "there is no alert rule" in again.err) == (2, True)


def test_a_rule_is_called_by_its_name(ask: Ask) -> None:
    ask("create", "cli one / two", "--channel", "email", "--to", "a@example.org")
    assert ask("test", "cli one / two").out.startswith("SENT by EMAIL")
    assert "0 messages" in ask("preview", "cli one / two").out
    assert ask("disable", "cli one / two").out == "'cli one / two' is off\n"
    assert ask("enable", "cli one / two").out == "'cli one / two' is on\n"
    assert "of CRITICAL all" in ask("change", "cli one / two", "--severity", "critical").out
    history = ask("history", "--rule", "cli one / two")
    assert "cli one / two" in history.out
    assert history.out.count("SENT") == 1
    assert "is gone" in ask("delete", "cli one / two").out


@pytest.mark.parametrize("command", [["test"], ["preview"], ["enable"], ["delete"], ["history", "--rule"]])
def test_a_rule_that_there_is_not_is_a_user_error(ask: Ask, command: list[str]) -> None:
    failed = ask(*command, "nobody")
    assert failed.code == 2
    assert "there is no alert rule 'nobody'" in failed.err
    assert "headgate alerts rules" in failed.err


def test_the_history_says_which_rule_failed_to_tell_what(ask: Ask) -> None:
    ask("create", "broken", "--channel", "slack", "--to", "https://hooks.invalid/x")
    ask("test", "broken")
    shown = " ".join(ask("history", "--rule", "broken").out.split())
    assert "broken" in shown
    assert "TestAlert" in shown
    assert "hooks.invalid" in shown


def test_the_history_says_what_a_sample_without_a_rule_is(live: Live, ask: Ask) -> None:
    with HeadgateClient(live.url, live.api_key) as client:
        client.send_test_alert(channel_type="EMAIL", channel_config={"email_to": ["a@example.org"]})
    [newest] = [line for line in ask("history", "--limit", "1").out.splitlines() if "EMAIL" in line]
    assert newest.split()[2] == "sample"


def rule_of(output: Output) -> dict[str, Any]:
    assert output.code == 0, output.err
    found: dict[str, Any] = json.loads(output.out)
    return found


def test_everything_of_a_rule_can_be_set_and_changed(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_ALERT_SECRET", "signing-s3cret")
    options = ["--description", "why", "--window", "5", "--per-minute", "2", "--quiet", "22:00-07:00"]
    options += ["--timezone", "Europe/Berlin", "--no-critical-passes", "--sign"]
    made = rule_of(ask("create", "all", "--channel", "webhook", "--to", "https://a.example/x", *options, "--json"))
    assert (made["description"], made["deduplication_minutes"], made["max_per_minute"]) == ("why", 5, 2)
    hours = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "critical_passes": False}
    assert made["quiet_hours"] == hours
    assert made["channel_config"]["secret"] == "********"
    changed = rule_of(ask("change", made["id"], "--quiet", "none", "--no-sign", "--per-minute", "0", "--json"))
    assert (changed["quiet_hours"], changed["channel_config"]["secret"]) == (None, None)
    assert (changed["max_per_minute"], changed["channel_config"]["webhook_url"]) == (None, "https://a.example/…")


def test_copies_and_subject_of_mails_are_changed_and_the_rest_stays(ask: Ask) -> None:
    made = ask("create", "copies", "--channel", "email", "--to", "a@example.org", "--cc", "b@example.org", "--json")
    rule = rule_of(made)
    changed = rule_of(ask("change", rule["id"], "--subject", "{title}", "--json"))["channel_config"]
    assert changed == {"email_to": ["a@example.org"], "email_cc": ["b@example.org"], "subject_template": "{title}"}
    cleared = rule_of(ask("change", rule["id"], "--cc", "none", "--subject", "none", "--json"))["channel_config"]
    assert cleared == {"email_to": ["a@example.org"], "email_cc": [], "subject_template": None}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "https://a.example/x", "--to", "https://b.example/x"], "make a rule for each"),
        (["--to", "https://a.example/x", "--quiet", "at night"], "write it as 22:00-07:00"),
        (["--to", "https://a.example/x", "--timezone", "Europe/Berlin"], "goes with --quiet"),
    ],
    ids=["two places", "no span of time", "a zone of no hours"],
)
def test_what_cannot_be_meant_is_a_user_error(ask: Ask, options: list[str], said: str) -> None:
    failed = ask("create", "x", "--channel", "slack", *options)
    assert failed.code == 2
    assert said in " ".join(failed.err.replace("│", " ").split())


def test_mails_are_set_up_and_shown_without_the_password(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "backend: console" in ask("email").out
    monkeypatch.setenv("HEADGATE_SMTP_PASSWORD", "sm7ps3cret")
    smtp = ["--backend", "smtp", "--host", "mail.example.org", "--username", "me@example.org"]
    made = ask("email", *smtp, "--to", "team@example.org")
    assert made.code == 0, made.err
    monkeypatch.delenv("HEADGATE_SMTP_PASSWORD")
    kept = ask("email", *smtp, "--keep-password", "--subject", "{title}")
    assert kept.code == 0, kept.err
    shown = ask("email")
    assert "password: ********" in shown.out
    assert "subject_template: {title}" in shown.out
    assert "sm7ps3cret" not in "".join(f"{each.out}{each.err}" for each in (made, kept, shown))
    refused = ask("email", "--host", "x.example")
    assert (refused.code, "--backend" in refused.err) == (2, True)
    assert ask("email", "--backend", "console").out.startswith("backend: console")


def test_a_rule_for_mails_takes_addresses(ask: Ask) -> None:
    made = ask("create", "mails", "--channel", "email", "--to", "a@example.org", "--to", "b@example.org", "--json")
    assert json.loads(made.out)["channel_config"]["email_to"] == ["a@example.org", "b@example.org"]


def test_a_private_target_is_a_user_error_that_says_what_to_do(ask: Ask) -> None:
    failed = ask("create", "x", "--channel", "webhook", "--to", "http://169.254.169.254/latest")
    assert failed.code == 2
    assert "which is not a public address" in failed.err


@pytest.mark.parametrize("command", ["rules", "history"])
def test_lists_are_there_for_machines(ask: Ask, command: str) -> None:
    assert set(json.loads(ask(command, "--json").out)) == {"items", "next_cursor"}


def test_the_client_has_every_call(live: Live) -> None:
    with HeadgateClient(live.url, live.api_key) as client:
        config = {"email_to": ["a@example.org"]}
        rule = client.add_alert_rule("by client", "EMAIL", config, anomaly_type="on_failure")
        changed = {"name": "renamed", "channel_type": "EMAIL", "channel_config": config}
        assert client.change_alert_rule(rule["id"], changed)["anomaly_type"] is None
        assert client.switch_alert_rule(rule["id"], False)["enabled"] is False
        assert client.alert_rule(rule["id"])["name"] == "renamed"
        assert rule["id"] in [each["id"] for each in client.alert_rules().items]
        assert client.send_test_alert(rule["id"])["status"] == "SENT"
        assert client.preview_alert_rule(rule["id"])["matched"] == 0
        assert [each["status"] for each in client.alert_history(rule_id=rule["id"]).items] == ["SENT"]
        assert client.set_email_settings("console", email_to=["b@example.org"])["email_to"] == ["b@example.org"]
        assert client.email_settings()["backend"] == "console"
        client.remove_alert_rule(rule["id"])
        assert rule["id"] not in [each["id"] for each in client.alert_rules().items]


def options_of(command: str) -> dict[str, tuple[object, ...]]:
    """The options of a command by name, as its help shows them."""
    found = typer.main.get_group(alerts.app).commands[command].params
    return {each.name or "": (each.opts, each.secondary_opts, getattr(each, "help", None)) for each in found}


def test_what_can_be_said_of_a_rule_that_is_made_can_be_said_later_in_the_same_words() -> None:
    made, changed = options_of("create"), options_of("change")
    own = {"channel", "to", "rule", "name"}

    assert {name: made[name] for name in made if name not in own} == {
        name: changed[name] for name in changed if name not in own
    }
    assert {"dataset", "quiet", "sign"} < set(made)
