"""Simple payloads that are refused: every wrong field is named, and no body can do more harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.errors import InvalidFields, Unparsable
from headgate.openlineage.simple import Translated, translate_metadata, translate_schema
from headgate.openlineage.validate import STRICT, check_text
from tests.support.simple_forms import (
    FORMS,
    RECEIVED,
    anomaly,
    as_body,
    checked,
    columns,
    events_of,
    metadata,
    refusals,
)


def test_an_unknown_status_is_refused_with_the_accepted_ones() -> None:
    (message, value) = refusals(translate_metadata, {"job_id": "j", "status": "Sideways"})["status"]

    assert value == "Sideways"
    for word in ("Success", "Failed", "Running", "Cancelled", "Killed"):
        assert word in message


BROKEN = {
    "empty": b"",
    "truncated": b'{"job_id": "x"',
    "two documents": b'{"job_id": "x"} {}',
    "not utf-8": b'{"job_id": "\xff"}',
    "lone surrogate": b'{"job_id": "\\ud800"}',
    "raw control character": b'{"job_id": "a\x00"}',
    "nan": b'{"job_id": "x", "execution_metrics": {"a": NaN}}',
    "number over any range": b'{"job_id": "x", "execution_metrics": {"a": 1e999}}',
    "endless digits": b'{"job_id": "x", "a": ' + b"9" * 5000 + b"}",
    "too deep": b'{"job_id": "x", "a": ' + b"[" * 80 + b"]" * 80 + b"}",
    "far too deep": b"[" * 100_000,
}


@FORMS
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_body_that_is_no_json_is_unparsable(translate: Callable[..., Translated], body: bytes) -> None:
    with pytest.raises(Unparsable):
        translate(body, default_namespace="house", received_at=RECEIVED)


@FORMS
@pytest.mark.parametrize("payload", [None, 1, "x", [], [{"job_id": "x"}]], ids=repr)
def test_a_body_that_is_no_object_is_refused(translate: Callable[..., Translated], payload: object) -> None:
    assert list(refusals(translate, payload)) == ["$"]


@FORMS
@pytest.mark.parametrize("job_id", [{}, {"job_id": None}, {"job_id": " "}, {"job_id": 7}], ids=repr)
def test_the_job_id_is_required(translate: Callable[..., Translated], job_id: dict[str, Any]) -> None:
    assert list(refusals(translate, {**job_id, "schemas": []})) == ["job_id"]


def test_every_wrong_field_of_a_metadata_payload_is_listed() -> None:
    found = refusals(
        translate_metadata,
        {
            "job_name": 5,
            "started_at": "yesterday",
            "ended_at": 1714521600,
            "status": "Sideways",
            "inputs": [{"name": "ok"}, {"type": "Table"}, "plain", {"name": "n", "location": ["s3://x"]}],
            "outputs": {"name": "x"},
            "lineage_edges": [{"source": "a"}],
            "column_lineage": [
                *columns("DIRECT", "DIRECT"),
                {"source_table": "s", "target_table": "t", "target_column": ""},
            ],
            "metrics": {
                "ok": {"row_count": 1},
                "a b": {"row_count": -1, "byte_size": 2**63, "file_count": 1.5, "partition_count": True},
                "": {},
                "flat": 7,
            },
            "anomalies": [anomaly(current_value="1", threshold=None), None],
            "execution_metrics": [1],
            "executor_cores": "4",
            "partition_context": "DE",
        },
    )

    assert {path: message for path, (message, _) in found.items()} == {
        "job_id": "is required",
        "job_name": "must be a string, is a number",
        "started_at": "must be a time in ISO 8601, such as 2026-01-31T12:00:00Z",
        "ended_at": "must be a time, is a number",
        "status": found["status"][0],
        "inputs[1].name": "is required",
        "inputs[2]": "must be an object, is a string",
        "inputs[3].location": "must be a string, is an array",
        "outputs": "must be an array, is an object",
        "lineage_edges[0].target": "is required",
        "column_lineage[2].source_column": "is required",
        "column_lineage[2].target_column": "must not be empty",
        'metrics["a b"].row_count': "must not be negative",
        'metrics["a b"].byte_size': "is larger than a 64-bit number",
        'metrics["a b"].file_count': "must be a whole number, is a number",
        'metrics["a b"].partition_count': "must be a whole number, is a boolean",
        'metrics[""]': "must not be empty",
        "metrics.flat": "must be an object, is a number",
        "anomalies[0].current_value": "must be a number, is a string",
        "anomalies[0].threshold": "is required",
        "anomalies[1]": "must be an object, is null",
        "execution_metrics": "must be an object, is an array",
        "executor_cores": "must be a whole number, is a string",
        "partition_context": "must be an object, is a string",
    }
    assert found["started_at"][1] == "yesterday"
    assert found['metrics["a b"].byte_size'][1] == "9223372036854775808"
    assert found["job_id"][1] is None


def test_every_wrong_field_of_a_schema_payload_is_listed() -> None:
    found = refusals(
        translate_schema,
        {
            "job_id": "j",
            "timestamp": "2026-13-01",
            "schemas": [
                {"fields": [{"name": "a", "data_type": "int", "nullable": "no"}, {"name": "b"}, 3]},
                {"dataset_name": "t", "version_hash": 4},
                None,
            ],
        },
    )

    assert set(found) == {
        "timestamp",
        "schemas[0].dataset_name",
        "schemas[0].fields[0].nullable",
        "schemas[0].fields[1].data_type",
        "schemas[0].fields[2]",
        "schemas[1].fields",
        "schemas[1].version_hash",
        "schemas[2]",
    }
    assert set(refusals(translate_schema, {"job_id": "j"})) == {"schemas"}


@pytest.mark.parametrize(
    "moment",
    [
        "",
        "25:00",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+12:00",
        "0001-06-01T00:00:00Z",
        "9999-06-01T00:00:00Z",
        "9999-12-31T23:00:00-12:00",
        {},
        False,
    ],
    ids=repr,
)
@pytest.mark.parametrize("field", ["started_at", "ended_at", "timestamp"])
def test_a_time_that_cannot_be_read_is_refused(field: str, moment: object) -> None:
    assert set(refusals(translate_metadata, {"job_id": "j", field: moment})) == {field}


def test_numbers_too_large_for_a_double_are_refused() -> None:
    sent = {"job_id": "j", "anomalies": [anomaly(current_value=10**400)]}

    assert refusals(translate_metadata, sent)["anomalies[0].current_value"][0] == "is out of range"


def test_nul_characters_are_refused_wherever_they_stand() -> None:
    sent = {"job_id": "j\0", "inputs": [{"name": "a\0b"}], "unknown": {"k\0": ["\0"]}, "status": 3}
    found = refusals(translate_metadata, sent)

    assert set(found) == {
        "status",
        "job_id",
        "inputs[0].name",
        'unknown["k\\u0000"]',
        'unknown["k\\u0000"][0]',
    }


def test_an_escaped_backslash_before_u0000_is_plain_text() -> None:
    translated = translate_metadata(rb'{"job_id": "a\\u0000"}', default_namespace="house", received_at=RECEIVED)

    assert translated.job_id == r"a\u0000"


def test_a_payload_as_deep_as_allowed_still_fits_into_an_event() -> None:
    def nested(depth: int) -> bytes:
        return b'{"job_id": "j", "a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    deep = checked(translate_metadata(nested(60), default_namespace="house", received_at=RECEIVED))
    check_text(deep.events[0], STRICT.max_depth)
    with pytest.raises(Unparsable):
        translate_metadata(nested(61), default_namespace="house", received_at=RECEIVED)


def test_names_over_the_limit_are_refused_where_they_stand() -> None:
    fits, too_long, job_name = "x" * (2000 - len("house")), "y" * (2001 - len("house")), "j" * 2000
    assert len(events_of(metadata(inputs=[{"name": fits}]))) == 1

    sent = {
        "job_id": "j",
        "job_name": job_name,
        "inputs": [{"name": fits}, {"name": too_long}],
        "metrics": {too_long: {}},
        "outputs": [{"name": "deep", "location": "s3://lake/" + "p/q" * 1000}],
    }
    found = refusals(translate_metadata, sent)
    assert set(found) == {"job_name", "inputs[1].name", f"metrics.{too_long}", "outputs[0].name"}
    schemas = [{"dataset_name": too_long, "fields": []}]
    assert set(refusals(translate_schema, {"job_id": "j", "schemas": schemas})) == {"schemas[0].dataset_name"}


TEXTS = st.sampled_from(
    [
        "a",
        "b",
        "lake:a",
        "s3://lake/a/dt=2026-05-01",
        "s3://lake/a/_temporary/0",
        "jdbc:postgresql://h/db",
        "",
        " ",
        "/",
        "s3://",
        "\x00",
        "2026-05-01T02:00:00Z",
        "Failed",
        "x" * 3000,
    ]
) | st.text(max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def records(*fields: str) -> st.SearchStrategy[Any]:
    likely = st.fixed_dictionaries({}, optional=dict.fromkeys(fields, TEXTS | LEAVES))
    return st.lists(likely, max_size=3) | VALUES


LIKELY_PAYLOADS = st.fixed_dictionaries(
    {"job_id": TEXTS | VALUES},
    optional={
        **dict.fromkeys(("job_name", "application_id", "error_message", "partition_key"), TEXTS | LEAVES),
        **dict.fromkeys(("timestamp", "started_at", "ended_at", "status"), TEXTS | st.datetimes().map(str)),
        "inputs": records("name", "type", "location", "database", "catalog"),
        "outputs": records("name", "type", "location", "database", "catalog"),
        "lineage_edges": records("source", "target", "job_id", "job_name"),
        "column_lineage": records(
            "source_table", "source_column", "target_table", "target_column", "transformation_type"
        ),
        "metrics": st.dictionaries(TEXTS, st.dictionaries(st.just("row_count"), LEAVES)) | VALUES,
        "anomalies": records("dataset_name", "anomaly_type", "current_value", "threshold", "message"),
        "execution_metrics": VALUES,
        "schemas": st.lists(
            st.fixed_dictionaries({"dataset_name": TEXTS, "fields": records("name", "data_type", "nullable")}),
            max_size=3,
        )
        | VALUES,
    },
)


@FORMS
@settings(max_examples=300, deadline=None)
@given(body=(VALUES | LIKELY_PAYLOADS).map(as_body) | st.binary(max_size=40))
def test_any_body_is_translated_or_refused_with_reasons(translate: Callable[..., Translated], body: bytes) -> None:
    try:
        translated = translate(body, default_namespace="house", received_at=RECEIVED)
    except (Unparsable, InvalidFields) as refused:
        reasons = getattr(refused, "errors", None)
    else:
        checked(translated)
        assert translate(body, default_namespace="house", received_at=RECEIVED) == translated
        return
    assert reasons is None or all(error.path and error.message for error in reasons)
