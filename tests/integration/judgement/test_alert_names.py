"""A rule means a dataset by every name that events use: with a port, by an alias, and as it was called before."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from headgate.server.incidents.jobs import KINDS as INCIDENT_KINDS
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from tests.support.alerts import RULES, Json, Telling, a_channel, bodies
from tests.support.events import a_dataset, an_event

ALIAS = {"pattern": "hive://b/hive.shop.{t}", "canonical": "trino://a/prod.shop.{t}"}


@pytest.fixture
async def telling(telling: Telling) -> Telling:
    """Previews look back from now."""
    telling.clock.now = datetime.now(UTC)
    return telling


async def fails(telling: Telling, dataset: Json) -> None:
    """A run that writes this dataset fails, with all that follows."""
    time = datetime.now(UTC).isoformat()
    await telling.tenant.send_ok(an_event("FAIL", job=f"load {dataset['name']}", time=time, outputs=[dataset]))
    alerts = Kind("ALERT", send=telling.alerting.send, batch_size=20)
    await Worker(telling.database, [*INCIDENT_KINDS, alerts]).drain()


async def heard(telling: Telling, *rules: Json) -> list[str]:
    """The patterns of those rules that have told, each as often; a preview has to say the same."""
    found = []
    for rule in rules:
        told = await telling.history(rule_id=rule["id"])
        assert (await telling.get(f"{RULES}/{rule['id']}/preview"))["matched"] == len(told), rule["dataset_name"]
        found += [rule["dataset_name"]] * len(told)
    return found


async def rules_of(telling: Telling, url: str, *patterns: str) -> list[Json]:
    return [await telling.a_rule(url, dataset_name=each, deduplication_minutes=0) for each in patterns]


async def test_a_rule_names_a_dataset_as_events_spell_it(telling: Telling) -> None:
    fitting = (
        "postgres://db:5432/shop.orders",
        "postgresql://DB/shop.orders",
        "postgres://db/shop.orders",
        "postgres://db:5432/shop.*",
        "postgres://db:5432/*",
        "postgres://db:5432*",
        "postgresql://*",
    )
    others = ("postgres://db:5433/shop.orders", "postgres://db:5432/shop.order", "postgres://db:5432/sho/*")
    with a_channel() as slack:
        rules = await rules_of(telling, slack.url, *fitting, *others)
        await fails(telling, a_dataset("shop.orders"))
        assert await heard(telling, *rules) == list(fitting)
    assert [rule["dataset_name"] for rule in rules] == [*fitting, *others]


async def test_a_rule_names_a_path_as_events_spell_it(telling: Telling) -> None:
    fitting = ("s3a://lake/raw/orders", "s3://lake/raw/orders/dt=2026-03-01", "s3n://lake/raw/*", "lake:orders")
    with a_channel() as slack:
        rules = await rules_of(telling, slack.url, *fitting, "s3a://lake/raw/order", "s3a://lake/cooked/*", "/raw/*")
        await fails(telling, a_dataset("raw/orders/dt=2026-03-01", "s3a://lake"))
        assert await heard(telling, *rules) == list(fitting)


async def test_a_rule_goes_on_working_when_an_alias_rule_renames_the_dataset(telling: Telling) -> None:
    before = ("hive.shop.orders", "hive://b/hive.shop.orders", "hive.shop.*", "hive://b:10000/hive.shop.*", "orders")
    after = ("prod.shop.orders", "trino://a:8080/prod.*")
    with a_channel() as slack:
        rules = await rules_of(telling, slack.url, *before, *after)
        await fails(telling, a_dataset("hive.shop.orders", "hive://b"))
        assert await heard(telling, *rules) == list(before)
        await telling.post("/api/v1/aliases", ALIAS)
        await fails(telling, a_dataset("hive.shop.orders", "hive://b"))
    told = [len(await telling.history(rule_id=rule["id"])) for rule in rules]
    assert told == [2] * len(before) + [1] * len(after)


async def test_an_alias_rule_leads_to_datasets_that_came_after_it(telling: Telling) -> None:
    fitting = ("hive://b/hive.shop.orders", "hive://b/hive.shop.ord*", "hive://b:10000/hive.shop.*")
    with a_channel() as slack:
        await telling.post("/api/v1/aliases", ALIAS)
        rules = await rules_of(telling, slack.url, *fitting, "hive://b/hive.shop.items", "hive://b/hive.shop.it*")
        await fails(telling, a_dataset("hive.shop.orders", "hive://b"))
        assert await heard(telling, *rules) == list(fitting)


async def test_a_rule_goes_on_working_when_its_dataset_is_merged(telling: Telling) -> None:
    with a_channel() as slack:
        [rule] = await rules_of(telling, slack.url, "lake:orders_old")
        await telling.tenant.send_ok(an_event(outputs=[a_dataset("shop.orders"), a_dataset("orders_old", "s3://lake")]))
        await telling.post(
            "/api/v1/aliases", {"pattern": "s3://lake/orders_old", "canonical": "postgres://db/shop.orders"}
        )
        await fails(telling, a_dataset("shop.orders"))
        assert await heard(telling, rule) == ["lake:orders_old"]


async def test_a_message_names_the_dataset_as_it_is_called_now(telling: Telling) -> None:
    with a_channel() as hook:
        await fails(telling, a_dataset("hive.shop.orders", "hive://b"))
        await telling.db.execute("DELETE FROM async_task WHERE organization_id = $1", telling.org)
        await telling.post("/api/v1/aliases", ALIAS)
        await telling.a_rule(hook.url, channel_type="WEBHOOK")
        await telling.a_rule(hook.url, deduplication_minutes=0)
        symptom: UUID = await telling.db.fetchval(
            "SELECT id FROM incident_symptoms WHERE organization_id = $1", telling.org
        )
        await telling.tell(symptom)
    by_kind = {"attachments" in body: body for body in bodies(hook)}
    assert "trino://a/prod.shop.orders" in str(by_kind[True])
    told = by_kind[False]["dataset"]
    assert (told["urn"], told["display_name"]) == ("trino://a/prod.shop.orders", "prod.shop.orders")
    assert set(told) == {"id", "namespace", "name", "display_name", "urn", "type", "owners", "tags"}
