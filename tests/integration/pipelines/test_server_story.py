"""The story of a run as the server tells it: one page, with what came before and what lies around."""

from __future__ import annotations

import pytest

from headgate.pipelines.record import Status
from tests.integration.pipelines.test_server_runs import ask
from tests.support.events import Json, a_dataset, a_run_id, an_event, at
from tests.support.pipeline_events import SOURCE, TARGET, a_full_record, a_node_end, a_pipeline_event, a_run
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def story(tenant: Tenant, run: str) -> str:
    response = await ask(tenant, f"pipeline-runs/{run}/story")
    assert response.status_code == 200, response.text
    # Places where a long name may be broken.
    return response.text.replace("<wbr>", "").replace("\u200b", "")


def flowing(events: list[Json]) -> list[Json]:
    """The events, with the datasets that the node reads and writes."""
    events[1]["inputs"] = [a_dataset(SOURCE.name, SOURCE.namespace)]
    events[1]["outputs"] = [a_dataset(TARGET.name, TARGET.namespace)]
    return events


async def test_a_story_is_a_page_that_may_load_nothing(tenant: Tenant) -> None:
    run, events = a_run(**a_full_record())
    await tenant.send_ok(*events)

    response = await ask(tenant, f"pipeline-runs/{run}/story")

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.text.lstrip().lower().startswith("<!doctype html>")
    told = await story(tenant, run)
    assert "sales.orders" in told
    assert "batch-1" in told


async def test_a_story_compares_with_the_last_published_run(tenant: Tenant) -> None:
    published, first = a_run(seconds=60, rows_in=4321)
    failed, second = a_run(seconds=300, rows_in=8765, status=Status.failed)
    run, third = a_run(seconds=600, rows_in=100)
    await tenant.send_ok(*first, *second, *third)

    told = await story(tenant, run)

    assert published in told
    assert failed not in told
    assert "4,221" in told
    assert "4,321" in await story(tenant, published)


async def test_a_story_shows_what_lies_around_the_run(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(
            job="load", inputs=[a_dataset("erp.orders")], outputs=[a_dataset("bronze/orders", "s3://lake")], time=at(0)
        ),
        an_event(
            job="report", inputs=[a_dataset("silver/orders", "s3://lake")], outputs=[a_dataset("mart.kpi")], time=at(9)
        ),
    )
    run, events = a_run(inputs=(SOURCE,))
    await tenant.send_ok(*flowing(events))

    told = await story(tenant, run)

    for name in ("erp.orders", "load", "bronze/orders", "silver/orders", "report", "mart.kpi"):
        assert name in told


async def test_other_pipelines_around_the_run_are_named(tenant: Tenant) -> None:
    _, events = a_run(pipeline="landing", output=SOURCE)
    events[1]["outputs"] = [a_dataset(SOURCE.name, SOURCE.namespace)]
    await tenant.send_ok(*events)
    run, later = a_run(inputs=(SOURCE,), seconds=300)
    await tenant.send_ok(*flowing(later))
    events[1]["inputs"] = [a_dataset("erp.orders")]
    events[1]["eventTime"] = at(400)
    events[1]["run"] |= {"runId": a_run_id()}
    await tenant.send_ok(events[1])

    told = await story(tenant, run)

    assert "landing" in told
    assert "erp.orders" in told


async def test_a_run_that_goes_on_is_told_as_far_as_it_has_come(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(a_pipeline_event(run), a_node_end(a_run_id(), run, **a_full_record()))

    assert "sales.orders" in await story(tenant, run)


async def test_a_run_without_nodes_has_a_story(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(a_pipeline_event(run, "skipped", seconds=1))

    assert "sales" in await story(tenant, run)


async def test_a_story_shows_text_as_text(tenant: Tenant) -> None:
    run, events = a_run(status=Status.failed, error="<script>alert(1)</script>")
    await tenant.send_ok(*events)

    assert "<script" not in await story(tenant, run)
