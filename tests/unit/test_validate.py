"""Layer 1: what a strict and a lenient organisation accept, and every reason for a refusal at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import InvalidFields, Unparsable
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.project import Projector
from headgate.openlineage.validate import STRICT, Checked, Rules, check_event, check_text
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.full_event import a_full_dataset_event, a_full_event, a_full_job_event

LENIENT = Rules(lenient=True)


def check(event: Any, rules: Rules = STRICT) -> Checked:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    check_text(body, rules.max_depth)
    return check_event(body, rules, FacetReader())


def errors_of(event: Any, rules: Rules = STRICT) -> dict[str, str]:
    with pytest.raises(InvalidFields) as refused:
        check(event, rules)
    found = refused.value.errors
    assert len({error.path for error in found}) == len(found)
    return {error.path: error.message for error in found}


def without(event: Json, path: str) -> Json:
    copy, owner, last = opened(event, path)
    del owner[last]
    return copy


def changed(event: Json, path: str, value: Any) -> Json:
    copy, owner, last = opened(event, path)
    owner[last] = value
    return copy


def opened(event: Json, path: str) -> tuple[Json, Any, str | int]:
    """A copy, the part of it that holds the last step of the path, and that step."""
    copy: Json = json.loads(json.dumps(event))
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    owner: Any = copy
    for step in parents:
        owner = owner[step]
    return copy, owner, last


def an_io_event() -> Json:
    return an_event(inputs=[a_dataset("a", facets={"x": a_facet()})], outputs=[a_dataset("b")])


@pytest.mark.parametrize(
    ("event", "kind"),
    [(a_full_event(), "run"), (a_full_dataset_event(), "dataset"), (a_full_job_event(), "job")],
    ids=["run", "dataset", "job"],
)
def test_every_kind_of_event_is_accepted(event: Json, kind: str) -> None:
    checked = check(event)
    assert (checked.kind, checked.lenient) == (kind, False)


@pytest.mark.parametrize("parts", [("run", "dataset", "job"), ("dataset", "job"), ("job",)], ids=" ".join)
def test_a_kind_is_told_by_run_then_dataset_then_job(parts: tuple[str, ...]) -> None:
    whole = an_event() | {"dataset": a_dataset("d")}
    event = {name: value for name, value in whole.items() if name not in {"run", "dataset", "job"} - set(parts)}
    assert check(event).kind == parts[0]


@pytest.mark.parametrize(
    "url",
    ["https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetEvent", "https://example.org/any.json", "urn:x"],
    ids=["another kind's", "any address", "any URI"],
)
def test_the_schema_url_does_not_decide_anything(url: str) -> None:
    assert check(an_event() | {"schemaURL": url}).kind == "run"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("eventTime", "yesterday", "must be a date-time"),
        ("eventTime", 1_700_000_000, "must be a date-time"),
        ("eventTime", "2026-03-01T10:00:00", "needs a time zone"),
        ("eventTime", "0001-01-01T00:00:00Z", "is out of range"),
        ("eventTime", None, "must be a date-time such as .*, is null"),
        ("producer", "not a uri", "must be an absolute URI"),
        ("producer", "", "must be an absolute URI"),
        ("producer", 5, "must be an absolute URI, is a number"),
        ("producer", "https://example.org\n", "must be an absolute URI"),
        ("schemaURL", "spec.json", "must be an absolute URI"),
        ("eventType", "DONE", "must be one of START, RUNNING, COMPLETE, FAIL, ABORT, OTHER"),
        ("eventType", "start", "must be one of"),
        ("eventType", None, "must be one of .*, is null"),
        ("eventType", ["START"], "must be one of .*, is an array"),
        ("run.runId", "not-a-uuid", "must be a UUID"),
        ("run.runId", 7, "must be a UUID, is a number"),
        ("run.facets", [], "must be an object, is an array"),
        ("run.facets", None, "must be an object, is null"),
        ("job", "orders", "must be an object, is a string"),
        ("job.namespace", "", "must not be empty"),
        ("job.name", "  ", "must not be empty"),
        ("job.name", 5, "must be a string, is a number"),
        ("job.facets", "x", "must be an object"),
        ("inputs", {}, "must be an array, is an object"),
        ("outputs", "b", "must be an array, is a string"),
        ("inputs.0", None, "must be an object, is null"),
        ("inputs.0.name", None, "must be a string, is null"),
        ("outputs.0.namespace", "", "must not be empty"),
        ("inputs.0.facets.x", True, "must be an object, is a boolean"),
        ("inputs.0.facets.x", None, "must be an object, is null"),
        ("inputs.0.facets.x._producer", "no uri", "must be an absolute URI"),
        ("inputs.0.facets.x._deleted", "yes", "must be true or false"),
        ("inputs.0.inputFacets", 1, "must be an object, is a number"),
        ("outputs.0.outputFacets", 1, "must be an object, is a number"),
    ],
)
def test_a_wrong_value_is_named_with_its_path(path: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidFields, match=message) as refused:
        check(changed(an_io_event(), path, value))
    assert [error.path for error in refused.value.errors] == [path.replace(".0", "[0]")]


@pytest.mark.parametrize(
    "path",
    ["eventTime", "producer", "schemaURL", "run.runId", "job", "job.namespace", "job.name", "inputs[0].name",
     "inputs[0].namespace", "outputs[0].name", "inputs[0].facets.x._producer", "inputs[0].facets.x._schemaURL"],
)  # fmt: skip
def test_a_missing_field_is_named_with_its_path(path: str) -> None:
    message = errors_of(without(an_io_event(), path.replace("[", ".").replace("]", "")))
    assert list(message) == [path]
    assert message[path].startswith("is required")


def test_all_wrong_fields_are_listed_at_once() -> None:
    event = {
        "eventTime": "soon",
        "eventType": "DONE",
        "schemaURL": "x",
        "run": {"runId": "1", "facets": {"parent": 1}},
        "job": {"namespace": "", "facets": {"sql": {}}},
        "inputs": [{}, {"namespace": "n", "name": 1, "inputFacets": []}],
        "outputs": 5,
    }
    assert set(errors_of(event)) == {
        "eventTime",
        "producer",
        "schemaURL",
        "eventType",
        "run.runId",
        "run.facets.parent",
        "job.namespace",
        "job.name",
        "job.facets.sql._producer",
        "job.facets.sql._schemaURL",
        "inputs[0].namespace",
        "inputs[0].name",
        "inputs[1].name",
        "inputs[1].inputFacets",
        "outputs",
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [(b"[]", "$"), (b"5", "$"), (b'"text"', "$"), (b"null", "$"), (b"{}", "eventTime")],
    ids=["array", "number", "text", "null", "empty"],
)
def test_what_is_no_event_at_all_is_told_so(body: bytes, path: str) -> None:
    assert path in errors_of(body)


@pytest.mark.parametrize("parts", [{}, {"run": 5}, {"job": None}, {"dataset": []}], ids=str)
def test_an_event_needs_a_run_a_dataset_or_a_job(parts: Json) -> None:
    base = {"eventTime": at(), "producer": PRODUCER, "schemaURL": SCHEMA_URL}
    found = errors_of(base | parts)
    assert set(found) == {"$", *parts}


@pytest.mark.parametrize(
    "spelled",
    ["2026-03-01T10:00:00Z", "2026-03-01T10:00:00.1Z", "2026-03-01T10:00:00.123456789Z",
     "2026-03-01T10:00:00.000000000001Z", "2026-03-01T12:00:00+02:00", "2026-03-01T04:30:00-05:30",
     "2026-03-01t10:00:00z", "2026-03-01T10:00:00+00:00"],
)  # fmt: skip
def test_a_zoned_time_may_have_any_fraction(spelled: str) -> None:
    found = check(an_event(time=spelled)).event_time
    assert abs(found - datetime(2026, 3, 1, 10, tzinfo=UTC)) < timedelta(seconds=1)


@pytest.mark.parametrize("name", ["inputs", "outputs"])
@pytest.mark.parametrize("rules", [STRICT, LENIENT], ids=["strict", "lenient"])
def test_null_or_absent_datasets_are_none(name: str, rules: Rules) -> None:
    for event in (changed(an_event(), name, None), without(an_event(), name)):
        checked = check(event, rules)
        assert not getattr(checked.event, name)
        assert checked.lenient is False


def test_an_absent_event_type_is_other() -> None:
    checked = check(an_event(None))
    assert Projector().facts(checked, b"").event_type == "OTHER"


def test_an_organisation_may_require_the_event_type_of_runs_only() -> None:
    rules = Rules(require_event_type=True)
    assert list(errors_of(an_event(None), rules)) == ["eventType"]
    assert check(an_event("START"), rules).kind == "run"
    assert check(a_full_dataset_event(), rules).kind == "dataset"
    assert check(a_full_job_event(), rules).kind == "job"


@pytest.mark.parametrize(
    "run_id",
    [
        "3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "3FA85F64-5717-4562-B3FC-2C963F66AFA6",
        "3fa85f6457174562b3fc2c963f66afa6",
    ],
    ids=["plain", "upper case", "without dashes"],
)
def test_a_run_id_is_any_spelling_of_a_uuid(run_id: str) -> None:
    assert str(Projector().facts(check(an_event(run=run_id)), b"").run_id) == "3fa85f64-5717-4562-b3fc-2c963f66afa6"


def lenient_events() -> list[Any]:
    bare = {"x": {"anything": 1}}
    return [
        pytest.param(without(an_event(), "schemaURL"), id="no schemaURL"),
        pytest.param(an_event(time="2026-03-01T10:00:00.5"), id="no zone"),
        pytest.param(an_event(run_facets=bare), id="bare run facet"),
        pytest.param(an_event(job_facets=bare), id="bare job facet"),
        pytest.param(an_event(inputs=[a_dataset("a", facets=bare)]), id="bare dataset facet"),
        pytest.param(an_event(inputs=[a_dataset("a", inputFacets=bare)]), id="bare input facet"),
        pytest.param(an_event(outputs=[a_dataset("a", outputFacets=bare)]), id="bare output facet"),
        pytest.param(an_event(run_facets={"x": {"_producer": "no uri", "_schemaURL": 5}}), id="wrong base"),
        pytest.param(changed(an_event(), "eventType", None), id="null type"),
        pytest.param(changed(an_event(), "run.facets", None), id="null facets"),
        pytest.param(changed(an_event(), "job.facets", {"x": None}), id="null facet"),
    ]


@pytest.mark.parametrize("event", lenient_events())
def test_leniency_accepts_and_marks_what_strictness_refuses(event: Json) -> None:
    assert errors_of(event)
    assert check(event, LENIENT).lenient is True


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (without(an_event(), "producer"), "producer"),
        (changed(an_event(), "schemaURL", "nothing"), "schemaURL"),
        (changed(an_event(), "eventType", "DONE"), "eventType"),
        (changed(an_event(), "run.runId", "7"), "run.runId"),
        (changed(an_event(), "job.name", ""), "job.name"),
        (changed(an_event(), "run.facets", []), "run.facets"),
        (changed(an_event(), "run.facets", {"x": 5}), "run.facets.x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_leniency_still_wants_the_core(event: Json, path: str) -> None:
    assert list(errors_of(event, LENIENT)) == [path]


def test_a_time_without_zone_is_read_as_utc_by_leniency() -> None:
    assert check(an_event(time="2026-03-01T10:00:00"), LENIENT).event_time == datetime(2026, 3, 1, 10, tzinfo=UTC)


def test_an_event_in_order_is_not_marked_by_leniency() -> None:
    assert check(a_full_event(), LENIENT).lenient is False


def test_unknown_facets_and_fields_are_kept_as_they_came() -> None:
    strange = a_facet(deep={"list": [1, 2.5, None, {"x": "ü"}]})
    event = an_event(outputs=[a_dataset("a", facets={"strange": strange})]) | {"vendor": {"x": 1}}
    facts = Projector().facts(check(event), b"")
    assert facts.invalid_facets == []
    assert json.loads(facts.uses[0].facets["strange"] or b"") == strange


WRONG_BODIES: list[tuple[str, str, Json]] = [
    ("run", "parent", {"run": {"runId": "no"}}),
    ("run", "parent", {"job": {}}),
    ("run", "errorMessage", {"message": 5}),
    ("run", "test", {"tests": {}}),
    ("run", "headgate_stages", {"stages": [{"stage_id": "first"}]}),
    ("job", "jobType", {"processingType": 1}),
    ("job", "lineage", {"entries": "all"}),
    ("facets", "schema", {"fields": {"id": "int"}}),
    ("facets", "schema", {"fields": [{"type": "int"}]}),
    ("facets", "columnLineage", {"fields": []}),
    ("facets", "symlinks", {"identifiers": [{"name": "x"}]}),
    ("facets", "datasetType", {}),
    ("facets", "lifecycleStateChange", {"lifecycleStateChange": None}),
    ("facets", "dataQualityAssertions", {"assertions": [{"assertion": "not_null"}]}),
    ("facets", "dataQualityMetrics", {"rowCount": "many"}),
    ("outputFacets", "outputStatistics", {"rowCount": 9_223_372_036_854_775_808}),
    ("outputFacets", "outputStatistics", {"rowCount": 10**400}),
    ("outputFacets", "outputStatistics", {"size": -1}),
    ("outputFacets", "outputStatistics", {"rowCount": 1.5}),
]


@pytest.mark.parametrize(
    ("place", "name", "body"), WRONG_BODIES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_known_facet_with_a_wrong_body_is_counted_once_and_not_projected(place: str, name: str, body: Json) -> None:
    facets = {name: a_facet(**body), "other": a_facet()}
    if place in ("run", "job"):
        event = an_event(**{f"{place}_facets": facets}, outputs=[a_dataset("a")])
    else:
        event = an_event(outputs=[a_dataset("a", **{place: facets})])
    facts = Projector().facts(check(event), b"")

    assert facts.invalid_facets == [name]
    assert (facts.metrics, facts.tests, facts.stages, facts.parent_run, facts.error) == ([], [], [], None, None)
    (use,) = facts.uses
    assert (use.schema, use.columns, use.symlinks, use.lifecycle) == (None, None, (), None)


def test_a_wrong_facet_is_counted_each_time_it_comes() -> None:
    reader, projector = FacetReader(), Projector()
    event = an_event(outputs=[a_dataset("a", facets={"schema": a_facet(fields=5)})])
    body = json.dumps(event).encode()
    for _ in range(3):
        assert projector.facts(check_event(body, STRICT, reader), body).invalid_facets == ["schema"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("job.name", "job.name"),
        ("inputs.0.facets.x.note", "inputs[0].facets.x.note"),
        ("run.facets", "run.facets.x.deep[1].text"),
    ],
    ids=["name", "facet", "deep"],
)
def test_the_character_nul_is_refused_wherever_it_stands(path: str, place: str) -> None:
    value: Any = {"x": a_facet(deep=[1, {"text": "a\x00b"}])} if path == "run.facets" else "a\x00b"
    assert errors_of(changed(an_io_event(), path, value)) == {place: "holds the character U+0000"}


def test_a_nul_in_a_key_is_refused() -> None:
    event = an_event(run_facets={"x": a_facet(**{"a\x00b": 1})})
    assert list(errors_of(event)) == ["run.facets.x.a\\u0000b"]


def test_the_spelled_out_escape_of_nul_is_harmless_text() -> None:
    event = an_event(run_facets={"x": a_facet(pattern="\\u0000 and \\\\u0000")})
    assert check(event).kind == "run"


def nested(depth: int) -> bytes:
    """An event that nests this deep, in the deepest of its values."""
    inner: Any = "x"
    for level in range(depth - 4):
        inner = [inner] if level % 2 else {"k": inner}
    return json.dumps(an_event(run_facets={"deep": a_facet(value=inner)})).encode()


def test_an_event_may_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    assert check(nested(64)).kind == "run"
    with pytest.raises(Unparsable, match="nests deeper than 64 levels"):
        check(nested(65))


def test_brackets_inside_text_do_not_hide_depth() -> None:
    inner: Any = "x"
    for _ in range(80):
        inner = {"}": inner, "{": 1}
    with pytest.raises(Unparsable, match="nests deeper"):
        check(an_event(run_facets={"deep": a_facet(value=inner)}))


def test_brackets_inside_text_do_not_nest() -> None:
    event = an_event(run_facets={"plan": a_facet(text='[{"' * 500)})
    assert check(event).kind == "run"


def test_wide_events_are_not_deep() -> None:
    event = an_event(inputs=[a_dataset(f"t{n}", facets={"x": a_facet()}) for n in range(500)])
    assert check(event).kind == "run"


values = st.recursive(
    st.text('ab"{[]}\\', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"{]\\', max_size=3), inner, max_size=3),
    max_leaves=30,
)


@given(values, st.integers(1, 8))
def test_depth_is_measured_exactly(value: Any, limit: int) -> None:
    too_deep = depth_of(value) > limit
    body = json.dumps(value, ensure_ascii=False).encode()
    try:
        check_text(body, limit)
        assert not too_deep
    except Unparsable:
        assert too_deep


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((depth_of(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((depth_of(item) for item in value), default=0)
    return 0


@pytest.mark.parametrize("owner", ["job", "inputs.0", "outputs.0"])
def test_a_namespace_and_name_may_take_2000_bytes_together(owner: str) -> None:
    event = an_io_event()
    fits = changed(event, f"{owner}.namespace", "n" * 1000)
    assert check(changed(fits, f"{owner}.name", "ü" * 500)).kind == "run"
    shown = owner.replace(".0", "[0]")
    found = errors_of(changed(fits, f"{owner}.name", "ü" * 500 + "x"))
    assert list(found) == [f"{shown}.name"]
    assert "2001 bytes" in found[f"{shown}.name"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"a": }',
        b"{} {}",
        b"nope",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"{'a': 1}",
        b'"\\ud800"',
        b"\xff\xfe{}",
    ],
    ids=["empty", "cut off", "no value", "two", "word", "NaN", "Infinity", "quotes", "surrogate", "UTF-16"],
)
def test_what_is_not_json_is_unparsable(body: bytes) -> None:
    with pytest.raises(Unparsable):
        check(body)


def test_numbers_beyond_any_type_do_not_hide_the_other_errors() -> None:
    body = json.dumps(changed(an_event(run=a_run_id()), "run.facets", {"x": a_facet(n="@")})).encode()
    body = body.replace(b'"@"', b"1" + b"0" * 400).replace(b'"eventType": "COMPLETE"', b'"eventType": "DONE"')
    assert list(errors_of(body)) == ["eventType"]
