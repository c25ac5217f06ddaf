"""The slow side of validation: walks a refused body and names everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from headgate.domain.names import MAX_NAME_BYTES
from headgate.errors import FieldError, Unparsable
from headgate.openlineage.facets import is_uri

EVENT_TYPES = ("START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER")
# Far enough from the calendar's ends that no time zone can push the instant over them.
FIRST, LAST = datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 29, tzinfo=UTC)


class Rules(NamedTuple):
    """How strict an organisation is."""

    lenient: bool = False
    require_event_type: bool = False
    max_depth: int = 64


def read_document(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except msgspec.ValidationError:
        # A number too large for any type: read numbers as text, they are not what is being checked.
        return msgspec.json.decode(_big_numbers_as_text(body))
    except (msgspec.DecodeError, RecursionError) as error:
        raise unparsable(error) from None


_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+\-]*', re.DOTALL)


def _big_numbers_as_text(body: bytes) -> bytes:
    def quote(match: re.Match[bytes]) -> bytes:
        token = match.group()
        return (
            token if token.startswith(b'"') or (len(token) < 15 and b"e" not in token.lower()) else b'"' + token + b'"'
        )

    return _NUMBER.sub(quote, body)


def unparsable(error: Exception) -> Unparsable:
    text = str(error)
    if "truncated" in text:
        text = "it ends too early or holds a lone surrogate"
    return Unparsable(f"the body is not JSON: {text}", hint="send one JSON document in UTF-8")


def field_errors(document: object, rules: Rules) -> Iterator[FieldError]:
    if not isinstance(document, dict):
        yield FieldError("$", f"must be an object, is {kind_of(document)}", shown(document))
        return
    yield from _base_errors(document, rules)
    if isinstance(document.get("run"), dict):
        yield from _run_errors(document, rules)
        yield from _job_errors(document.get("job"), rules)
    elif _has_lost_its_run(document, rules):
        yield wrong("run", "an object", document["run"])
        yield from _job_errors(document["job"], rules)
    elif isinstance(document.get("dataset"), dict):
        yield from _dataset_errors(document["dataset"], "dataset", rules)
        return
    elif isinstance(document.get("job"), dict):
        yield from _job_errors(document["job"], rules)
    else:
        for name in ("run", "dataset", "job"):
            if name in document:
                yield wrong(name, "an object", document[name])
        yield FieldError("$", "needs a run and a job, or a dataset, or a job")
        return
    for side in ("inputs", "outputs"):
        yield from _side_errors(document.get(side), side, rules)


def _has_lost_its_run(document: dict[str, Any], rules: Rules) -> bool:
    """Whether there is a run that cannot be read: such an event is no job event, however whole its job is."""
    has_job = isinstance(document.get("job"), dict)
    return has_job and "run" in document and not (rules.lenient and document["run"] is None)


def _base_errors(document: dict[str, Any], rules: Rules) -> Iterator[FieldError]:
    yield from _time_errors(document, rules)
    for name in ("producer", "schemaURL"):
        if name not in document:
            if not (rules.lenient and name == "schemaURL"):
                yield FieldError(name, "is required")
        elif not is_uri(document[name]):
            yield wrong(name, "an absolute URI", document[name])
    event_type = document.get("eventType", UNSET)
    if event_type is UNSET or (event_type is None and rules.lenient):
        if rules.require_event_type and isinstance(document.get("run"), dict):
            yield FieldError("eventType", "is required by this organisation's settings")
    elif event_type not in EVENT_TYPES:
        yield wrong("eventType", f"one of {', '.join(EVENT_TYPES)}", event_type)


def _time_errors(document: dict[str, Any], rules: Rules) -> Iterator[FieldError]:
    if "eventTime" not in document:
        yield FieldError("eventTime", "is required")
        return
    value = document["eventTime"]
    parsed = _parse_time(value)
    if parsed is None:
        yield wrong("eventTime", "a date-time such as 2026-01-31T12:00:00.000Z", value)
    elif parsed.tzinfo is None and not rules.lenient:
        yield FieldError("eventTime", "needs a time zone, such as a trailing Z", shown(value))
    elif not FIRST <= (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) <= LAST:
        yield FieldError("eventTime", "is out of range", shown(value))


def _parse_time(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None


def _run_errors(document: dict[str, Any], rules: Rules) -> Iterator[FieldError]:
    run = document["run"]
    if "runId" not in run:
        yield FieldError("run.runId", "is required")
    else:
        try:
            msgspec.convert(run["runId"], UUID)
        except msgspec.ValidationError:
            yield wrong("run.runId", "a UUID", run["runId"])
    yield from _facet_errors(run, "run", ("facets",), rules)
    if "job" not in document:
        yield FieldError("job", "is required")
    elif not isinstance(document["job"], dict):
        yield wrong("job", "an object", document["job"])


def _job_errors(job: object, rules: Rules) -> Iterator[FieldError]:
    if isinstance(job, dict):
        yield from _name_errors(job, "job")
        yield from _facet_errors(job, "job", ("facets",), rules)


def _dataset_errors(dataset: object, path: str, rules: Rules) -> Iterator[FieldError]:
    if not isinstance(dataset, dict):
        yield wrong(path, "an object", dataset)
        return
    yield from _name_errors(dataset, path)
    yield from _facet_errors(dataset, path, ("facets", "inputFacets", "outputFacets"), rules)


def _side_errors(datasets: object, side: str, rules: Rules) -> Iterator[FieldError]:
    if datasets is None:
        return
    if not isinstance(datasets, list):
        yield wrong(side, "an array", datasets)
        return
    for place, dataset in enumerate(datasets):
        yield from _dataset_errors(dataset, f"{side}[{place}]", rules)


def _name_errors(named: dict[str, Any], path: str) -> Iterator[FieldError]:
    whole = True
    for part in ("namespace", "name"):
        value = named.get(part, UNSET)
        if value is UNSET:
            yield FieldError(f"{path}.{part}", "is required")
        elif not isinstance(value, str):
            yield wrong(f"{path}.{part}", "a string", value)
        elif not value.strip():
            yield FieldError(f"{path}.{part}", "must not be empty", shown(value))
        else:
            continue
        whole = False
    if whole and (size := name_bytes(named["namespace"], named["name"])) > MAX_NAME_BYTES:
        yield FieldError(
            f"{path}.name", f"namespace and name take {size} bytes, over the limit of {MAX_NAME_BYTES}", None
        )


def _facet_errors(owner: dict[str, Any], path: str, groups: tuple[str, ...], rules: Rules) -> Iterator[FieldError]:
    for group in groups:
        if group not in owner or (owner[group] is None and rules.lenient):
            continue
        facets = owner[group]
        if not isinstance(facets, dict):
            yield wrong(f"{path}.{group}", "an object", facets)
            continue
        for name, body in facets.items():
            yield from _base_facet_errors(body, f"{path}.{group}.{name}", rules)


def _base_facet_errors(body: object, path: str, rules: Rules) -> Iterator[FieldError]:
    if not isinstance(body, dict):
        if not (body is None and rules.lenient):
            yield wrong(path, "an object", body)
        return
    if rules.lenient:
        return
    for name in ("_producer", "_schemaURL"):
        if name not in body:
            yield FieldError(f"{path}.{name}", "is required on every facet")
        elif not is_uri(body[name]):
            yield wrong(f"{path}.{name}", "an absolute URI", body[name])
    if not isinstance(body.get("_deleted", False), bool):
        yield wrong(f"{path}._deleted", "true or false", body["_deleted"])


def name_bytes(namespace: str, name: str) -> int:
    return len(namespace.encode()) + len(name.encode())


def mend(document: dict[str, Any]) -> dict[str, Any]:
    """The parts that count for this kind of event, with nulls that leniency allows left out."""
    parts: tuple[str, ...]
    if isinstance(document.get("run"), dict):
        parts = ("run", "job", "inputs", "outputs")
    elif isinstance(document.get("dataset"), dict):
        parts = ("dataset",)
    else:
        parts = ("job", "inputs", "outputs")
    kept = ("eventTime", "producer", "schemaURL", "eventType", *parts)
    return {name: _without_nulls(document[name]) for name in kept if document.get(name) is not None}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    groups = ("facets", "inputFacets", "outputFacets")
    return {
        name: {k: v for k, v in part.items() if v is not None} if name in groups and isinstance(part, dict) else part
        for name, part in value.items()
        if not (name in groups and part is None)
    }


def nul_paths(value: object, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if "\x00" in value:
            yield path or "$"
    elif isinstance(value, dict):
        for name, part in value.items():
            spelled = name.replace("\x00", "\\u0000")
            if "\x00" in name:
                yield f"{path}.{spelled}".lstrip(".")
            yield from nul_paths(part, f"{path}.{spelled}".lstrip("."))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from nul_paths(part, f"{path}[{place}]")


def wrong(path: str, wanted: str, value: object) -> FieldError:
    """The error of a field that is something else than it must be."""
    return FieldError(path, f"must be {wanted}, is {kind_of(value)}", shown(value))


def kind_of(value: object) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def shown(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else text[:117] + "..."
