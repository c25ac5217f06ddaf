"""Nothing that a client sends makes the server fail: broken bodies, wrong types, and bodies found by property tests."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support import broken
from tests.support.broken import (
    ARRAYS,
    BATCH,
    EVENTS,
    METADATA,
    ROUTES,
    SCHEMA,
    SINGLE,
    SINK,
    Broken,
    Path,
    Variant,
)
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event
from tests.support.full_event import (
    a_full_dataset_event,
    a_full_event,
    a_full_job_event,
    a_full_metadata,
    a_full_schema,
)
from tests.support.server import Server, running_server

by_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.rpartition("/")[2])
by_case = pytest.mark.parametrize("case", [*broken.unparsable(), *broken.badly_packed()], ids=lambda case: case.id)
bounded = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
async def server(cluster: Cluster) -> AsyncIterator[Server]:
    """One server for all of these: it has to survive every one of them."""
    name = await cluster.create()
    database = Database(cluster.app_dsn(name), max_size=8)
    unlimited = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    async with running_server(unlimited, database) as server:
        yield server
    await database.close()
    await cluster.drop(name)


@pytest.fixture(autouse=True)
async def _stays_well(server: Server, caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """After each test the server takes a valid event, and has logged nothing that somebody would have to look at."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert (await server.tenant.send(an_event())).status_code == 201


async def post(server: Server, route: str, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
    # As bytes: what is tested here cannot always be text.
    sent = {"content-type": "application/json", **(headers or {})}
    raw = {name.encode(): value.encode("latin-1") for name, value in sent.items()}
    return await server.client.post(route, content=body, headers=raw)


def assert_refused(response: httpx.Response, *statuses: int) -> None:
    """A refusal that says why, in the shape of its route."""
    assert response.status_code in statuses, (response.status_code, response.text[:500])
    answer = response.json()
    if response.headers["content-type"] == "application/json":
        assert_array_shape(answer)
        return
    assert response.headers["content-type"] == "application/problem+json"
    assert answer["status"] == response.status_code
    assert answer["correlation_id"] == response.headers["x-correlation-id"]
    assert answer["detail"]
    assert answer["code"] != "internal"


def assert_array_shape(answer: Json) -> None:
    if "summary" in answer:
        summary = answer["summary"]
        assert summary["received"] == summary["successful"] + summary["failed"]
        assert summary["failed"] == len(answer["failed_events"]) == summary["retriable"] + summary["non_retriable"]
        assert all(failed["reason"] for failed in answer["failed_events"])
    else:
        assert len(answer["results"]) == answer["stored"] + answer["duplicates"] + answer["failed"]
        assert [result["index"] for result in answer["results"]] == list(range(len(answer["results"])))
        assert not [result for result in answer["results"] if result["status"] >= 500]


@by_route
@by_case
async def test_a_broken_body_is_refused_with_a_reason(server: Server, route: str, case: Broken) -> None:
    is_packed = case.headers or case.id.startswith("gzip") or len(case.body) > broken.MIB
    body = case.body if is_packed else broken.body_for(route, case.body)
    if route in ARRAYS and case.id in {"empty", "whitespace"}:
        body = case.body

    began = time.monotonic()
    response = await post(server, route, body, case.headers)

    assert_refused(response, case.status)
    assert time.monotonic() - began < 5


FULL_EVENTS: dict[str, Callable[[], Json]] = {
    "run": a_full_event,
    "dataset": a_full_dataset_event,
    "job": a_full_job_event,
}


@pytest.mark.parametrize("kind", FULL_EVENTS)
async def test_a_field_of_any_type_is_accepted_or_explained(server: Server, kind: str) -> None:
    """Inside a facet anything goes; the envelope and the facets' base fields have to be right."""
    found = await _statuses(server.client, list(broken.replacements(FULL_EVENTS[kind]())))

    assert [place for place, status in found.items() if (status == 200) != _is_acceptable(*place)] == []


@pytest.mark.parametrize("kind", FULL_EVENTS)
async def test_a_lenient_organisation_takes_what_a_strict_one_takes_and_more(server: Server, kind: str) -> None:
    lenient = await server.add_tenant(f"Lenient {kind}")
    settings_ = {"settings": {"validation": "lenient"}}
    assert (await lenient.client.patch("/api/v1/organization", json=settings_)).status_code == 200

    variants = [variant for variant in broken.replacements(FULL_EVENTS[kind]()) if _is_outside_facets(variant[0])]
    found = await _statuses(lenient.client, variants)

    taken = {place for place, status in found.items() if status == 200}
    assert taken > {place for place in found if _is_acceptable(*place)}
    assert ("schemaURL",) in {path for path, name in taken if name == "absent"}


def _is_outside_facets(path: Path) -> bool:
    """Whether a strict and a lenient organisation may differ there: the envelope and the facets' first members."""
    facet = _place_in_facets(path)
    return facet is None or len(path) <= facet + 2


async def _statuses(client: httpx.AsyncClient, variants: Sequence[Variant]) -> dict[tuple[Path, str], int]:
    """What becomes of each variant, sent two hundred at a time."""
    found = {}
    for at in range(0, len(variants), 200):
        chunk = variants[at : at + 200]
        response = await client.post(EVENTS, content=_encoded([_of_new_run(body) for _, _, body in chunk]))
        assert response.status_code in {200, 207, 422}, response.text
        assert_array_shape(response.json())
        for (path, name, _), result in zip(chunk, response.json()["results"], strict=True):
            found[path, name] = result["status"]
    assert set(found.values()) == {200, 422}
    return found


def _is_acceptable(path: Path, value: str) -> bool:
    """Whether a full event stays valid when the field at `path` becomes `value` of `broken.REPLACEMENTS`."""
    facet = _place_in_facets(path)
    if facet is not None:
        inside = path[facet:]
        if inside == ():
            return value in {"empty_object", "absent"}
        return value == "absent" if len(inside) == 1 else inside[1] not in {"_producer", "_schemaURL"}
    if path[-1] in {"inputs", "outputs"}:
        return value in {"null", "empty_array", "absent"}
    if path[-1] in {"namespace", "name"}:
        return value == "text"
    # Without its run an event is one of the job.
    return value == "absent" and path in {("eventType",), ("run",)}


def _place_in_facets(path: Path) -> int | None:
    """Where the names of facets stand in `path`, or None outside of facets."""
    groups = {"facets", "inputFacets", "outputFacets"}
    return next((place + 1 for place, key in enumerate(path) if key in groups), None)


def _of_new_run(body: Any) -> Any:
    """The same with a run of its own where it has one: a run may end only once."""
    run = body.get("run")
    if isinstance(run, dict) and isinstance(run.get("runId"), str) and len(run["runId"]) == 36:
        run["runId"] = a_run_id()
    return body


def _encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize("route", ARRAYS, ids=lambda route: route.rpartition("/")[2])
async def test_wrong_elements_of_an_array_do_not_touch_the_others(server: Server, route: str) -> None:
    good = [an_event() for _ in range(3)]
    wrong = [body for _, _, body in broken.replacements(an_event())]
    mixed = [good[0], *(_of_new_run(body) for body in wrong), good[1], *broken.REPLACEMENTS.values(), good[2]]

    response = await post(server, route, _encoded(mixed))

    assert response.status_code == 207
    answer = response.json()
    assert_array_shape(answer)
    refused = {failed["index"] for failed in answer.get("failed_events", ())}
    refused |= {result["index"] for result in answer.get("results", ()) if "error" in result}
    assert len(broken.REPLACEMENTS) < len(refused) < len(mixed) - len(good)
    for event in good:
        assert mixed.index(event) not in refused
        assert (await server.tenant.run(event["run"]["runId"]))["state"] == "COMPLETE"


@pytest.mark.parametrize(("route", "body"), [(METADATA, a_full_metadata()), (SCHEMA, a_full_schema())])
async def test_a_field_of_a_simple_form_of_any_type_is_accepted_or_explained(
    server: Server, route: str, body: Json
) -> None:
    variants = [(path, name, _encoded(changed)) for path, name, changed in broken.replacements(body)]
    for at in range(0, len(variants), 50):
        sent = variants[at : at + 50]
        responses = await asyncio.gather(*(post(server, route, raw) for _, _, raw in sent))
        for (path, name, _), response in zip(sent, responses, strict=True):
            if response.status_code != 202:
                assert_refused(response, 422)
                assert response.json()["errors"], (path, name)


@by_route
@pytest.mark.parametrize("value", broken.REPLACEMENTS.values(), ids=broken.REPLACEMENTS)
async def test_a_body_that_is_one_bare_value_is_refused(server: Server, route: str, value: Any) -> None:
    response = await post(server, route, _encoded(value))

    if route in ARRAYS and value == []:
        assert response.status_code == 200
    else:
        assert_refused(response, 400 if route == SINK else 422)


HUGE = {
    "beyond_bigint": b"9223372036854775808",
    "below_bigint": b"-9223372036854775809",
    "400_digits": b"1" + b"0" * 400,
    "20000_digits": b"9" * 20_000,
    "beyond_double": b"1e999",
    "beyond_any_exponent": b"-1e99999999999999999999",
    "below_any_exponent": b"1e-99999999999999999999",
    "many_decimals": b"0." + b"3" * 20_000,
}
by_number = pytest.mark.parametrize("number", HUGE.values(), ids=HUGE)


@by_number
@pytest.mark.parametrize("place", ["run", "job", "input", "output"])
async def test_a_huge_number_in_a_facet_costs_the_facet_and_not_the_event(
    server: Server, place: str, number: bytes
) -> None:
    numbers = a_facet(rowCount="@@@", size="@@@", stages=[{"stageId": "@@@"}], message="@@@", anything=["@@@"])
    facets = dict.fromkeys(("outputStatistics", "inputStatistics", "headgate_stages", "schema", "own"), numbers)
    dataset = a_dataset("numbers", facets=facets, inputFacets=facets, outputFacets=facets)
    event = an_event(
        run_facets=facets if place == "run" else None,
        job_facets=facets if place == "job" else None,
        inputs=[dataset] if place == "input" else None,
        outputs=[dataset] if place == "output" else None,
    )
    raw = _encoded(event).replace(b'"@@@"', number)

    response = await post(server, SINGLE, raw)

    assert response.status_code == 201, response.text
    assert (await server.tenant.run(event["run"]["runId"]))["state"] == "COMPLETE"


@by_number
@pytest.mark.parametrize("field", ["eventType", "eventTime", "producer", "schemaURL", "job"])
async def test_a_huge_number_in_a_typed_field_is_refused(server: Server, field: str, number: bytes) -> None:
    response = await post(server, SINGLE, _encoded(an_event() | {field: "@@@"}).replace(b'"@@@"', number))

    assert_refused(response, 422)
    assert field in {error["path"] for error in response.json()["errors"]}


@by_number
@pytest.mark.parametrize(
    "body",
    [
        a_full_metadata() | {"executor_cores": "@@@"},
        a_full_metadata() | {"execution_metrics": {"cpu": "@@@"}},
        a_full_metadata() | {"metrics": {"daily": {"row_count": "@@@"}}},
    ],
    ids=["typed", "free", "count"],
)
async def test_a_huge_number_in_a_simple_form_is_accepted_or_refused(server: Server, body: Json, number: bytes) -> None:
    response = await post(server, METADATA, _encoded(body).replace(b'"@@@"', number))

    if response.status_code != 202:
        assert_refused(response, 400, 422)


NUL_PLACES: dict[str, Callable[[str], Json]] = {
    "job_name": lambda nul: an_event(job=nul),
    "dataset_name": lambda nul: an_event(inputs=[a_dataset(nul)]),
    "producer": lambda nul: an_event() | {"producer": f"https://x.org/{nul}"},
    "facet_name": lambda nul: an_event(run_facets={nul: a_facet()}),
    "facet_member": lambda nul: an_event(job_facets={"own": a_facet(**{nul: 1})}),
    "facet_value": lambda nul: an_event(job_facets={"own": a_facet(deep=[{"x": nul}])}),
    "error_message": lambda nul: an_event("FAIL", run_facets={"errorMessage": a_facet(message=nul)}),
    "unknown_field": lambda nul: an_event() | {"extra": nul},
}


@pytest.mark.parametrize("place", NUL_PLACES)
async def test_an_escaped_nul_is_refused_and_its_look_alike_is_not(server: Server, place: str) -> None:
    assert_refused(await post(server, SINGLE, _encoded(NUL_PLACES[place]("a\0b"))), 422)
    # A backslash, then u0000 as plain text.
    assert (await post(server, SINGLE, _encoded(NUL_PLACES[place]("a\\u0000b")))).status_code == 201


@by_route
async def test_an_escaped_nul_is_refused_on_every_route(server: Server, route: str) -> None:
    body = a_full_metadata() if route == METADATA else a_full_schema() if route == SCHEMA else an_event()
    key = "job_id" if route in (METADATA, SCHEMA) else "producer"
    raw = broken.body_for(route, _encoded(body | {key: "x:\0"}))

    assert_refused(await post(server, route, raw), 400 if route == SINK else 422)


async def test_of_a_key_that_comes_twice_the_last_one_counts(server: Server) -> None:
    first, last = a_run_id(), a_run_id()
    raw = _encoded(an_event(run=last))
    raw = raw[:-1] + b', "job": {"namespace": "n", "name": "twice"}, "producer": "https://example.org/x"}'
    raw = raw.replace(b'"runId": ', b'"runId": "%s", "runId": ' % first.encode())

    assert (await post(server, SINGLE, raw)).status_code == 201

    assert (await server.tenant.run(last))["job"]["name"] == "twice"
    assert (await server.client.get(f"/api/v1/runs/{first}")).status_code == 404


async def test_a_name_of_10_mb_is_refused_without_being_repeated(server: Server) -> None:
    name = "x" * 10 * broken.MIB

    for event in (an_event(job=name), an_event(inputs=[a_dataset(name)]), an_event() | {"producer": name}):
        response = await post(server, SINGLE, _encoded(event))
        assert_refused(response, 422)
        assert len(response.content) < 2000


@pytest.mark.parametrize("values", [20_000, 100_001, 5_000_000])
async def test_an_array_of_many_empty_values_is_refused(server: Server, values: int) -> None:
    response = await post(server, BATCH, b"[" + b"1," * (values - 1) + b"1]")

    assert_refused(response, 422 if values <= 100_000 else 413)


async def test_what_is_refused_is_kept_also_where_it_cannot_be_text(server: Server) -> None:
    nul = _encoded(an_event(run_facets={"a\0b": a_facet()}))

    for route, body in ((SINGLE, nul), (BATCH, b"[" + nul + b"]"), (BATCH, b"[\xff"), (METADATA, b"\xff")):
        response = await post(server, route, body)
        kept = await _kept(server, response.headers["x-correlation-id"])
        assert [row["body"] for row in kept] == [nul if nul in body else body]


async def _kept(server: Server, correlation_id: str) -> list[Any]:
    async with server.database.tenant(server.tenant.organization_id) as conn:
        found: list[Any] = await conn.fetch("SELECT * FROM refused_events WHERE correlation_id = $1", correlation_id)
    return found


# Surrogates, NUL, NaN and whole numbers of any size: everything that json.dumps can write.
any_text = st.text(st.characters(), max_size=20)
any_leaf = st.none() | st.booleans() | st.integers() | st.integers(2**62, 2**200) | st.floats() | any_text
any_json = st.recursive(
    any_leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4), max_leaves=12
)
plain_text = st.text(max_size=20).filter(lambda text: "\0" not in text)
plain_leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | plain_text
plain_json = st.recursive(
    plain_leaf,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_text, inner, max_size=4),
    max_leaves=12,
)
# Made once: what hypothesis draws may not depend on ids that are new each time.
EVENT = a_full_event()
TEMPLATES = {METADATA: a_full_metadata(), SCHEMA: a_full_schema()}


@by_route
@bounded
@given(value=any_json)
async def test_any_json_value_is_answered(server: Server, route: str, value: Any) -> None:
    response = await post(server, route, _encoded(value))

    if response.status_code != 200 or value != []:
        assert_refused(response, 400, 422)


@by_route
@bounded
@given(data=st.data())
async def test_a_valid_body_with_some_values_replaced_is_answered(
    server: Server, route: str, data: st.DataObject
) -> None:
    body: Any = TEMPLATES.get(route, EVENT)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(broken.paths_of(body)) or [("x",)]))
        body = broken.replaced(body, path, data.draw(any_json))

    response = await post(server, route, broken.body_for(route, _encoded(body)))

    if response.status_code not in {200, 201, 202}:
        assert_refused(response, 400, 422)


@bounded
@given(data=st.data())
async def test_whatever_a_facet_holds_its_event_is_stored(server: Server, data: st.DataObject) -> None:
    event = EVENT
    inside = [path for path in broken.paths_of(event) if _is_acceptable(path, "object")]
    for path in data.draw(st.lists(st.sampled_from(inside), min_size=1, max_size=4)):
        # An earlier change may have taken this place away.
        if path in set(broken.paths_of(event)):
            event = broken.replaced(event, path, data.draw(plain_json))

    response = await post(server, SINGLE, _encoded(event))

    assert response.status_code in {200, 201}, response.text


@by_route
@bounded
@given(data=st.data(), packed=st.booleans())
async def test_a_valid_body_with_bytes_changed_is_answered(
    server: Server, route: str, data: st.DataObject, packed: bool
) -> None:
    body = broken.body_for(route, _encoded(TEMPLATES.get(route, EVENT)))
    body = gzip.compress(body, mtime=0) if packed else body
    place = data.draw(st.integers(0, len(body)))
    end = place + data.draw(st.integers(0, 20))
    body = body[:place] + data.draw(st.binary(max_size=10)) + body[end:]

    response = await post(server, route, body, broken.GZIP if packed else None)

    if response.status_code not in {200, 201, 202, 207}:
        assert_refused(response, 400, 422)
