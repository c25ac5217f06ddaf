"""Rules over HTTP: made, changed, refused; and secrets that nobody is shown."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest

from headgate.errors import ConfigError
from headgate.server.secrets import Vault
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.alerts import (
    EMAIL,
    HISTORY,
    RULES,
    SECRET,
    TEST,
    Telling,
    a_channel,
    a_telling,
    another,
    every_page,
)
from tests.support.bad_servers import Asked, BadServer, answering

URL = f"https://hooks.example/services/{SECRET}"
SECRETS = (*SECRET.split("/"), "signing-s3cret", "h3ad3rs3cr3t", "sm7ps3cret")
SLACK = {"name": "slack", "channel_type": "SLACK", "channel_config": {"webhook_url": URL}}
HOOK = {
    "webhook_url": URL,
    "secret": "signing-s3cret",
    "headers": {"Authorization": "Bearer h3ad3rs3cr3t"},
    "extra": {"team": "a"},
}
SMTP: dict[str, Any] = {
    "backend": "smtp",
    "host": "mail.example.org",
    "username": "me@example.org",
    "password": "sm7ps3cret",
    "email_to": ["team@example.org"],
}


@pytest.fixture
async def logged() -> AsyncIterator[StringIO]:
    """Whatever a test here does, nothing logs a secret, at any level."""
    text = StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    assert not any(secret in text.getvalue() for secret in SECRETS)


async def test_a_rule_has_defaults_and_is_shown_with_all_its_fields(telling: Telling) -> None:
    made = await telling.post(RULES, SLACK)
    assert {**made, "id": 0, "created_at": 0, "updated_at": 0, "created_by": 0} == {
        "id": 0,
        "name": "slack",
        "description": None,
        "dataset_name": None,
        "anomaly_type": None,
        "severity": None,
        "owner": None,
        "tag": None,
        "channel_type": "SLACK",
        "channel_config": {"webhook_url": "https://hooks.example/…", "channel": None, "mention": None},
        "enabled": True,
        "deduplication_minutes": 60,
        "max_per_minute": None,
        "max_per_hour": None,
        "quiet_hours": None,
        "created_by": 0,
        "created_at": 0,
        "updated_at": 0,
    }
    assert made["created_by"]
    assert await telling.get(f"{RULES}/{made['id']}") == made
    assert (await telling.get(RULES))["items"] == [made]


async def test_rules_are_changed_switched_and_removed(telling: Telling) -> None:
    made = await telling.post(RULES, SLACK)
    path = f"{RULES}/{made['id']}"
    hours = {"from": "22:00", "to": "06:30", "timezone": "Europe/Berlin", "critical_passes": True}
    body = SLACK | {"name": "other", "anomaly_type": "testfailed", "quiet_hours": hours, "max_per_hour": 5}
    changed = (await telling.tenant.client.put(path, json=body)).json()
    assert (changed["name"], changed["anomaly_type"], changed["quiet_hours"]) == ("other", "TestFailed", hours)
    assert (changed["created_at"], changed["updated_at"] > made["updated_at"]) == (made["created_at"], True)
    off = (await telling.tenant.client.patch(path, json={"enabled": False})).json()
    assert off == {**changed, "enabled": False, "updated_at": off["updated_at"]}
    assert (await telling.tenant.client.delete(path)).status_code == 204
    for method in ("GET", "DELETE"):
        assert (await telling.tenant.client.request(method, path)).status_code == 404
    assert (await telling.refused("PUT", path, body, 404))["hint"] == "see GET /api/v1/alert-rules"


async def test_rules_come_in_pages_newest_first(telling: Telling) -> None:
    for number in range(5):
        await telling.post(RULES, SLACK | {"name": f"rule {number}"})
    names = [each["name"] for each in await every_page(telling.tenant.client, RULES, 2)]
    assert names == [f"rule {number}" for number in (4, 3, 2, 1, 0)]


async def test_two_rules_cannot_have_one_name(telling: Telling) -> None:
    await telling.post(RULES, SLACK)
    problem = await telling.refused("POST", RULES, SLACK, 409)
    assert "'slack'" in problem["detail"]
    assert problem["hint"]


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ""}, "name", "at least 1 character"),
    ({"name": " \t "}, "name", "is blank"),
    (
        {"anomaly_type": "RowCuntDrop"},
        "anomaly_type",
        "is no type that there is, nor the beginning of one: use one of TestFailed",
    ),
    ({"anomaly_type": "Row*Drop"}, "anomaly_type", "star that is not at its end"),
    ({"anomaly_type": "Zzz*"}, "anomaly_type", "use one of TestFailed, RunFailed"),
    ({"dataset_name": "*_daily"}, "dataset_name", "star that is not at its end"),
    ({"severity": "HIGH"}, "severity", "'INFO', 'WARNING' or 'CRITICAL'"),
    ({"channel_type": "PAGER"}, "channel_type", "'EMAIL', 'SLACK', 'TEAMS' or 'WEBHOOK'"),
    ({"deduplication_minutes": -1}, "deduplication_minutes", "greater than or equal to 0"),
    ({"max_per_hour": 0}, "max_per_hour", "greater than or equal to 1"),
    ({"quiet_hours": {"from": "25:00", "to": "07:00"}}, "quiet_hours", "`from` is no time of day"),
    (
        {"quiet_hours": {"from": "22:00", "to": "07:00", "timezone": "Mars"}},
        "quiet_hours",
        "`timezone` is no time zone",
    ),
    (
        {"quiet_hours": {"from": "22:00", "to": "22:00"}},
        "quiet_hours",
        "`to` is the same as `from`: leave quiet_hours out",
    ),
    (
        {"channel_config": {"webhook_url": "https://hooks.example/…"}},
        "channel_config.webhook_url",
        "only what is shown",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "secret": "********"}},
        "channel_config.secret",
        "only what is shown",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "headers": {"X-A": "********"}}},
        "channel_config.headers",
        "only what is shown",
    ),
    (
        {"channel_type": "EMAIL", "channel_config": {"subject_template": "{title}\r\nBcc: evil@example.org"}},
        "channel_config.subject_template",
        "has to be one line of text",
    ),
    *(
        ({"channel_type": "EMAIL", "channel_config": {"email_to": [address]}}, "channel_config.email_to[0]", "is no")
        for address in ("a..b@x.org", ".a@x.org", "a.@x.org", "a@x..y", "a@-x.org", "a@x.org\n", f"{'a' * 65}@x.org")
    ),
    ({"shape": "round"}, "shape", "not permitted"),
    ({"channel_config": {}}, "channel_config.webhook_url", "required"),
    ({"channel_config": {"webhook_url": "hooks.example/x"}}, "channel_config.webhook_url", "is no URL"),
    ({"channel_config": {"webhook_url": "ftp://a/s3cr3tt0k3n"}}, "channel_config.webhook_url", "is no URL"),
    ({"channel_config": {"webhook_url": URL, "color": "red"}}, "channel_config.color", "not permitted"),
    (
        {"channel_type": "EMAIL", "channel_config": {"email_to": ["a@b.example", "nobody"]}},
        "channel_config.email_to[1]",
        "is no e-mail address",
    ),
    (
        {"channel_type": "EMAIL", "channel_config": {"email_to": ["a@b.example\r\nBcc: c@d.example"]}},
        "channel_config.email_to[0]",
        "is no e-mail address",
    ),
    (
        {"channel_type": "EMAIL", "channel_config": {"subject_template": "{severity.__class__}"}},
        "channel_config.subject_template",
        "names the field 'severity.__class__'",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "headers": {"Host": "x"}}},
        "channel_config.headers",
        "'Host' cannot be set",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "headers": {"X-A": "h3ad3rs3cr3t\r\nB: c"}}},
        "channel_config.headers",
        "is not one line of ASCII",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "secret": "short"}},
        "channel_config.secret",
        "has to have 8 to 500 characters",
    ),
    ({"channel_config": {"webhook_url": f"{URL}/{'x' * 4000}"}}, "channel_config.webhook_url", "4000 characters"),
    ({"channel_type": "EMAIL", "channel_config": {}}, "channel_config.email_to", "neither do the e-mail settings"),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "extra": nested(500)}},
        "channel_config.extra",
        "more than 20 deep",
    ),
    (
        {"channel_type": "WEBHOOK", "channel_config": {"webhook_url": URL, "extra": {"a": "x" * 10_000}}},
        "channel_config.extra",
        "longer than 10000",
    ),
    ({"channel_config": {"webhook_url": "https://a.example/\u0000"}}, "channel_config.webhook_url", "NUL"),
]


@pytest.mark.parametrize(
    ("change", "path", "message"), BAD, ids=[f"{path}-{at}" for at, (_, path, _) in enumerate(BAD)]
)
async def test_bad_input_is_refused_with_its_field_and_the_way_out(
    telling: Telling, logged: StringIO, change: dict[str, Any], path: str, message: str
) -> None:
    problem = await telling.refused("POST", RULES, SLACK | change)
    [error] = [each for each in problem["errors"] if each["path"] == path]
    assert message in error["message"]
    assert problem["hint"]
    assert not any(secret in json.dumps(problem) for secret in SECRETS)
    assert (await telling.get(RULES))["items"] == []


@pytest.mark.parametrize("host", ["[fe80::1%25eth0]", "[fe80::1%eth0]", "[2606:4700::1111%250]", "hooks%2eexample"])
async def test_a_host_that_nothing_can_be_sent_to_is_refused_when_the_rule_is_made(telling: Telling, host: str) -> None:
    body = SLACK | {"channel_config": {"webhook_url": f"https://{host}/{SECRET}"}}
    problem = await telling.refused("POST", RULES, body)
    assert problem["errors"][0]["path"] == "channel_config.webhook_url"
    assert "has a % in it" in problem["detail"]
    assert "without a zone" in problem["hint"]


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "0x0a000001", "192.168.1.1", "[fd00::1]", "0.0.0.0"],
)
async def test_a_private_address_is_refused_when_the_rule_is_made(telling: Telling, host: str) -> None:
    problem = await telling.refused(
        "POST", RULES, SLACK | {"channel_config": {"webhook_url": f"https://{host}/{SECRET}"}}
    )
    assert problem["errors"][0]["path"] == "channel_config.webhook_url"
    assert "which is not a public address" in problem["detail"]
    assert "HEADGATE_ALERT_ALLOW_PRIVATE" in problem["hint"]


@pytest.mark.parametrize("host", ["localhost", "localhost.", "api.localhost", "127.0.0.1", "127.1", "2130706433"])
async def test_this_machine_is_refused_unless_it_is_allowed(cluster: Cluster, telling: Telling, host: str) -> None:
    body = SLACK | {"channel_config": {"webhook_url": f"http://{host}/x"}}
    await telling.post(RULES, body)
    async with a_telling(cluster, alert_allow_private="10.0.0.0/8") as strict:
        await strict.refused("POST", RULES, body)


async def test_secrets_are_encrypted_in_the_table_and_masked_everywhere_else(
    telling: Telling, logged: StringIO
) -> None:
    made = await telling.post(RULES, {"name": "hook", "channel_type": "WEBHOOK", "channel_config": HOOK})
    assert made["channel_config"] == {
        "webhook_url": "https://hooks.example/…",
        "secret": "********",
        "headers": {"Authorization": "********"},
        "extra": {"team": "a"},
    }
    await telling.tenant.client.put(EMAIL, json=SMTP)
    await telling.post(TEST, {"rule_id": made["id"]})
    await telling.tell_of(await telling.a_dataset())
    shown = await telling.everything()
    assert not any(secret in shown for secret in SECRETS)
    stored = json.loads(await telling.db.fetchval("SELECT channel_config FROM alert_rules WHERE id = $1", made["id"]))
    assert stored["webhook_url"]["sealed"].startswith("hg1.")
    assert stored["secret"]["sealed"].startswith("hg1.")


async def test_a_provider_that_repeats_what_it_was_sent_gives_no_secret_away(
    telling: Telling, logged: StringIO
) -> None:
    def echo(server: BadServer, connection: Any, asked: Asked) -> bool:
        return answering(403, f"cannot post to {asked.path} with {asked.headers}")(server, connection, asked)

    with a_channel(echo) as hook:
        config = HOOK | {"webhook_url": f"{hook.url}/services/{SECRET}?sig=signing-s3cret"}
        rule = await telling.a_rule(channel_type="WEBHOOK", channel_config=config)
        answer = await telling.post(TEST, {"rule_id": rule["id"]})
        await telling.tell_of(await telling.a_dataset())
    assert "cannot post to" in answer["error_message"]
    shown = f"{answer}{await telling.everything()}"
    assert not any(secret in shown for secret in SECRETS)


async def test_what_was_masked_can_be_sent_back_and_stays(telling: Telling) -> None:
    with a_channel(answering(200)) as hook:
        config = HOOK | {"webhook_url": f"{hook.url}/services/{SECRET}"}
        rule = await telling.a_rule(channel_type="WEBHOOK", channel_config=config)
        body = {"name": "renamed", "channel_type": "WEBHOOK", "channel_config": rule["channel_config"]}
        changed = await telling.tenant.client.put(f"{RULES}/{rule['id']}", json=body)
        assert changed.status_code == 200, changed.text
        await telling.post(TEST, {"rule_id": rule["id"]})
    [asked] = hook.asked
    assert asked.path == f"/services/{SECRET}"
    assert asked.headers["authorization"] == "Bearer h3ad3rs3cr3t"
    assert "x-headgate-signature" in asked.headers


async def test_what_is_left_out_of_the_channel_stays_with_its_url(telling: Telling) -> None:
    with a_channel(answering(200)) as hook:
        config = HOOK | {"webhook_url": f"{hook.url}/services/{SECRET}"}
        rule = await telling.a_rule(channel_type="WEBHOOK", channel_config=config)
        path, body = f"{RULES}/{rule['id']}", {"name": "x", "channel_type": "WEBHOOK"}
        shown = rule["channel_config"]["webhook_url"]

        async def changed(given: dict[str, Any]) -> dict[str, Any]:
            response = await telling.tenant.client.put(path, json=body | {"channel_config": given})
            assert response.status_code == 200, response.text
            found: dict[str, Any] = response.json()["channel_config"]
            return found

        problem = await telling.refused("PUT", path, body | {"channel_config": {}})
        assert [each["path"] for each in problem["errors"]] == ["channel_config.webhook_url"]
        kept = await changed({"webhook_url": shown})
        assert (kept["secret"], kept["headers"]) == ("********", {"Authorization": "********"})
        await telling.post(TEST, {"rule_id": rule["id"]})
        assert (await changed({"webhook_url": shown, "secret": None, "headers": {}}))["secret"] is None
        await telling.post(TEST, {"rule_id": rule["id"]})
    signed, plain = (asked.headers for asked in hook.asked)
    assert (signed["authorization"], "x-headgate-signature" in signed) == ("Bearer h3ad3rs3cr3t", True)
    assert ("authorization" in plain, "x-headgate-signature" in plain) == (False, False)


async def test_secrets_that_are_left_out_do_not_go_to_another_url(telling: Telling) -> None:
    rule = await telling.a_rule(channel_type="WEBHOOK", channel_config=HOOK)
    body = {"name": "x", "channel_type": "WEBHOOK", "channel_config": {"webhook_url": "https://other.example/x"}}
    changed = (await telling.tenant.client.put(f"{RULES}/{rule['id']}", json=body)).json()
    assert (changed["channel_config"]["secret"], changed["channel_config"]["headers"]) == (None, {})


@pytest.mark.parametrize("kind", ["WEBHOOK", "EMAIL"])
async def test_a_rule_can_be_sent_back_as_it_was_answered(telling: Telling, kind: str) -> None:
    config = HOOK if kind == "WEBHOOK" else {"email_to": ["a@example.org"]}
    hours = {"from": "22:00", "to": "07:00", "timezone": "UTC", "critical_passes": True}
    rule = await telling.a_rule(channel_type=kind, channel_config=config, quiet_hours=hours, max_per_hour=3)
    path = f"{RULES}/{rule['id']}"
    changed = await telling.tenant.client.put(path, json=await telling.get(path))
    assert changed.status_code == 200, changed.text
    assert changed.json() == rule | {"updated_at": changed.json()["updated_at"]}


async def test_a_rule_does_not_lose_the_last_who_gets_its_mails(telling: Telling) -> None:
    rule = await telling.a_rule(channel_type="EMAIL", channel_config={"email_to": ["a@example.org"]})
    path, nobody = f"{RULES}/{rule['id']}", {"email_to": []}
    for method, body in (
        ("PATCH", {"channel_config": nobody}),
        ("PUT", {"name": "x", "channel_type": "EMAIL", "channel_config": nobody}),
    ):
        problem = await telling.refused(method, path, body)
        assert [each["path"] for each in problem["errors"]] == ["channel_config.email_to"]
        assert "email-settings" in problem["hint"]
    assert (await telling.get(path))["channel_config"]["email_to"] == ["a@example.org"]


async def test_settings_keep_a_recipient_while_rules_have_no_other(telling: Telling) -> None:
    settings = {"backend": "console", "email_to": ["all@example.org"]}
    assert (await telling.tenant.client.put(EMAIL, json=settings)).status_code == 200
    rule = await telling.a_rule(name="depends", channel_type="EMAIL", channel_config={})
    problem = await telling.refused("PUT", EMAIL, {"backend": "console"}, 409)
    assert "'depends'" in problem["detail"]
    assert (await telling.get(EMAIL))["email_to"] == ["all@example.org"]
    await telling.tenant.client.patch(
        f"{RULES}/{rule['id']}", json={"channel_config": {"email_to": ["own@example.org"]}}
    )
    assert (await telling.tenant.client.put(EMAIL, json={"backend": "console"})).status_code == 200


async def test_secrets_do_not_follow_to_another_url(telling: Telling) -> None:
    rule = await telling.a_rule(channel_type="WEBHOOK", channel_config=HOOK)
    config = rule["channel_config"] | {"webhook_url": "https://attacker.example/"}
    body = {"name": "x", "channel_type": "WEBHOOK", "channel_config": config}
    problem = await telling.refused("PUT", f"{RULES}/{rule['id']}", body)
    assert {each["path"] for each in problem["errors"]} == {
        "channel_config.headers.Authorization",
        "channel_config.secret",
    }
    assert "another place" in problem["hint"]


async def test_a_test_alert_says_what_the_provider_answered(telling: Telling) -> None:
    with a_channel() as good, a_channel(answering(404, "no_team")) as bad:
        sent = await telling.post(TEST, {"channel_type": "SLACK", "channel_config": {"webhook_url": f"{good.url}/x"}})
        rule = await telling.a_rule(bad.url)
        failed = await telling.post(TEST, {"rule_id": rule["id"]})
    assert (sent["status"], sent["response_payload"], sent["error_message"]) == (
        "SENT",
        {"status_code": 200, "body": "ok"},
        None,
    )
    assert (failed["status"], failed["error_message"]) == ("FAILED", "answered 404: no_team")
    assert "Nothing is wrong" in good.asked[0].body.decode()
    kept = await telling.history(type="TestAlert")
    assert [each["id"] for each in kept] == [sent["id"], failed["id"]]


async def test_a_sample_names_no_job_that_there_is_not(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.post(TEST, {"channel_type": "SLACK", "channel_config": {"webhook_url": f"{slack.url}/x"}})
    assert "*Job:*" not in slack.asked[0].body.decode()


async def test_a_test_alert_counts_for_no_limit_and_no_window(telling: Telling) -> None:
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, max_per_hour=1)
        await telling.post(TEST, {"rule_id": rule["id"]})
        await telling.tell_of(await telling.a_dataset())
    assert len(slack.asked) == 2


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channel_type": "SLACK"},
        {"channel_config": {}},
        {"rule_id": str(uuid4()), "channel_type": "SLACK", "channel_config": {"webhook_url": URL}},
    ],
    ids=["nothing", "no config", "no type", "both"],
)
async def test_a_test_alert_needs_a_rule_or_a_channel(telling: Telling, body: dict[str, Any]) -> None:
    problem = await telling.refused("POST", TEST, body)
    assert problem["errors"][0]["path"] == "rule_id"
    assert '{"rule_id"' in problem["hint"]


async def test_another_organisation_sees_and_changes_nothing(telling: Telling) -> None:
    other = await another(telling)
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        await telling.tenant.client.put(EMAIL, json=SMTP)
        path = f"{RULES}/{rule['id']}"
        assert (await other.get(RULES))["items"] == []
        assert await other.history() == []
        assert (await other.get(EMAIL))["backend"] == "console"
        for method, body in (("GET", None), ("PUT", SLACK), ("PATCH", {"enabled": False}), ("DELETE", None)):
            assert (await other.tenant.client.request(method, path, json=body)).status_code == 404
        assert (await other.tenant.client.get(f"{path}/preview")).status_code == 404
        assert (await other.tenant.client.post(TEST, json={"rule_id": rule["id"]})).status_code == 404
        # Their symptom is heard by their rules alone.
        await other.tell_of(await other.a_dataset())
    assert len(slack.asked) == 1
    assert await telling.get(path) == rule


async def test_a_secret_of_one_organisation_cannot_be_opened_by_another(telling: Telling) -> None:
    vault = Vault(telling.database, telling.settings)
    sealed = await vault.seal(telling.org, "signing-s3cret")
    assert await vault.open(telling.org, sealed) == "signing-s3cret"
    with pytest.raises(ConfigError, match="another organisation's"):
        await vault.open(uuid4(), sealed)


async def test_keys_can_be_changed(telling: Telling) -> None:
    def vault(key: str | None) -> Vault:
        return Vault(telling.database, Settings(secret_key=key, _env_file=None))

    old, new = "o" * 40, "n" * 40
    by_store, by_old = await vault(None).seal(telling.org, "a"), await vault(old).seal(telling.org, "b")
    both = vault(f"{new}, {old}")
    assert [await both.open(telling.org, each) for each in (by_store, by_old)] == ["a", "b"]
    by_new = await both.seal(telling.org, "c")
    assert await vault(new).open(telling.org, by_new) == "c"
    with pytest.raises(ConfigError, match="which this server does not have") as caught:
        await vault(new).open(telling.org, by_old)
    assert "HEADGATE_SECRET_KEY" in str(caught.value.hint)
    assert old not in repr(both)
    assert by_new != await both.seal(telling.org, "c")


async def test_a_lost_key_fails_the_alert_and_says_so(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.db.execute(
            "UPDATE alert_rules SET channel_config = jsonb_set(channel_config, '{webhook_url,sealed}',"
            " '\"hg1.00000000.AAAA\"') WHERE organization_id = $1",
            telling.org,
        )
        await telling.tell_of(await telling.a_dataset())
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert "'00000000', which this server does not have" in kept["error_message"]


async def test_the_history_is_filtered_and_paged(telling: Telling) -> None:
    one, other = await telling.a_dataset("one"), await telling.a_dataset("other")
    with a_channel() as slack, a_channel(answering(400)) as hook:
        first = await telling.a_rule(slack.url)
        second = await telling.a_rule(hook.url, channel_type="WEBHOOK")
        await telling.tell_of(one)
        telling.clock.turn(minutes=1)
        await telling.tell_of(other)
        telling.clock.turn(minutes=1)
        await telling.tell_of(one)

    async def count(**params: Any) -> int:
        return len(await telling.history(**params))

    assert await count() == 6
    assert await count(rule_id=first["id"]) == 3
    assert await count(rule_id=second["id"], status="FAILED") == 3
    assert await count(status="DEDUPLICATED") == 1
    assert await count(channel_type="WEBHOOK") == 3
    assert await count(dataset="one") == 4
    assert await count(dataset=str(other), channel_type="SLACK") == 1
    assert await count(type="RowCountDrop") == 6
    assert await count(type="TestFailed") == 0
    assert await count(since="2026-03-02T12:00:30Z") == 4
    assert await count(hours=1) == 0
    assert await count(hours=87_600) == 6
    paged = await every_page(telling.tenant.client, HISTORY, 2)
    assert [each["id"] for each in paged] == [each["id"] for each in reversed(await telling.history())]


async def test_a_time_and_hours_do_not_go_together(telling: Telling) -> None:
    response = await telling.tenant.client.get(HISTORY, params={"since": "2026-03-02T12:00:30Z", "hours": 3})
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.hours"
    assert response.json()["hint"] == "give either `since` or `hours`"


async def test_an_unknown_dataset_in_a_filter_is_not_found(telling: Telling) -> None:
    response = await telling.tenant.client.get(HISTORY, params={"dataset": "nowhere"})
    assert response.status_code == 404


async def test_email_settings_begin_with_the_console_and_keep_the_password(telling: Telling) -> None:
    assert (await telling.get(EMAIL))["backend"] == "console"
    put = telling.tenant.client.put
    made = (await put(EMAIL, json=SMTP)).json()
    assert (made["password"], made["tls"], made["host"]) == ("********", "starttls", "mail.example.org")
    assert (await put(EMAIL, json=made)).json() | {"updated_at": 0} == made | {"updated_at": 0}
    body = SMTP | {"password": "********", "email_cc": ["b@example.org"]}
    assert (await put(EMAIL, json=body)).json()["email_cc"] == ["b@example.org"]
    stored = await telling.db.fetchval("SELECT password FROM email_settings WHERE organization_id = $1", telling.org)
    vault = Vault(telling.database, telling.settings)
    assert await vault.open(telling.org, json.loads(stored)["sealed"]) == "sm7ps3cret"
    assert (await put(EMAIL, json={"backend": "console"})).json()["password"] is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"host": None}, "host"),
        ({"host": "10.0.0.1"}, "host"),
        ({"tls": "none"}, "tls"),
        ({"username": None, "from": "a@b.example"}, "username"),
        ({"password": None}, "password"),
        ({"username": "me", "from": None}, "from"),
        ({"backend": "gmail", "username": None}, "username"),
        ({"backend": "gmail", "username": "nobody"}, "from"),
        ({"username": "@x"}, "from"),
        ({"username": "a b@x"}, "from"),
        ({"from": "a..b@x.org"}, "from"),
        ({"from": ".a@x.org"}, "from"),
        ({"from": "a@x..y"}, "from"),
        ({"subject_template": "a\r\nb"}, "subject_template"),
        ({"backend": "carrier pigeon"}, "backend"),
        ({"email_to": ["x"]}, "email_to[0]"),
        ({"subject_template": "{nope}"}, "subject_template"),
        ({"port": 0}, "port"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
async def test_email_settings_that_do_not_fit_are_refused(
    telling: Telling, logged: StringIO, change: dict[str, Any], path: str
) -> None:
    problem = await telling.refused("PUT", EMAIL, SMTP | change)
    assert path in [each["path"] for each in problem["errors"]]
    assert problem["hint"]
    assert "sm7ps3cret" not in json.dumps(problem)


async def test_the_password_does_not_follow_to_another_server(telling: Telling) -> None:
    await telling.tenant.client.put(EMAIL, json=SMTP)
    problem = await telling.refused("PUT", EMAIL, SMTP | {"password": None, "host": "attacker.example"})
    assert problem["errors"][0]["path"] == "password"


async def test_readers_may_look_and_not_change(telling: Telling) -> None:
    async with telling.server.anonymous() as client:
        session = (
            await client.post(
                "/api/v1/auth/login", json={"email": telling.tenant.email, "password": telling.tenant.password}
            )
        ).json()
        key = (
            await client.post(
                "/api/v1/auth/api-keys",
                json={"name": "reader", "scopes": ["read"]},
                headers={"authorization": f"Bearer {session['token']}"},
            )
        ).json()
        headers = {"authorization": f"Bearer {key['key']}"}
        assert (await client.get(RULES, headers=headers)).status_code == 200
        assert (await client.get(HISTORY, headers=headers)).status_code == 200
        for path, body in ((RULES, SLACK), (TEST, {"rule_id": str(uuid4())})):
            assert (await client.post(path, json=body, headers=headers)).status_code == 403
        assert (await client.put(EMAIL, json=SMTP, headers=headers)).status_code == 403
        assert (await client.get(RULES)).status_code == 401
