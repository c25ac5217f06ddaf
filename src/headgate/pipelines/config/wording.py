"""What pydantic finds wrong, in words that name the field, the value and the way out. Secrets are never shown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from headgate.errors import PipelineProblem
from headgate.pipelines.keys import Spot, quoted, spot
from headgate.pipelines.source import Document, Loc

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "time_delta_type": "a span of time, as 90m, 24h or 7d",
    "time_delta_parsing": "a span of time, as 90m, 24h or 7d",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class Finding(NamedTuple):
    """A problem, and the location that it is about."""

    loc: Loc
    problem: PipelineProblem


class _Error(NamedTuple):
    facts: Any
    spot: Spot


def findings(error: ValidationError, model: type[BaseModel], document: Document) -> Iterator[Finding]:
    """All that is wrong, each once."""
    errors = [_Error(each, spot(model, each["loc"])) for each in error.errors(include_url=False)]
    seen = set()
    for each in errors:
        if _is_explained_below(each, errors):
            continue
        expected = dict.fromkeys(
            _EXPECTED[other.facts["type"]]
            for other in errors
            if other.spot.loc == each.spot.loc and other.facts["type"] in _EXPECTED
        )
        found = _finding(each, list(expected), model, document)
        if found not in seen:
            seen.add(found)
            yield found


def nearest(name: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else None


def _is_explained_below(each: _Error, errors: list[_Error]) -> bool:
    """Whether it only says that the value is none of the other things that it could have been."""
    loc = each.spot.loc
    return each.facts["type"] in _EXPECTED and any(
        other.spot.loc[: len(loc)] == loc and len(other.spot.loc) > len(loc) for other in errors
    )


def _finding(each: _Error, expected: list[str], model: type[BaseModel], document: Document) -> Finding:
    facts, at = each
    if facts["type"] == "extra_forbidden":
        words: tuple[str, str | None] = _unknown_key(str(facts["loc"][-1]), spot(model, facts["loc"][:-1]))
        return Finding(at.loc, PipelineProblem(str(document.key_place(at.loc)), *words))
    words = _worded(facts, at, expected, document)
    return Finding(at.loc, PipelineProblem(str(document.place(at.loc)), *words))


def _unknown_key(key: str, around: Spot) -> tuple[str, str]:
    if key in around.keys:
        return f"{key!r} says what another key of this block says already", "keep one of them"
    hint = nearest(key, around.keys) or f"known keys: {', '.join(sorted(around.keys))}"
    return f"unknown key {key!r}", hint


def _worded(facts: Any, at: Spot, expected: list[str], document: Document) -> tuple[str, str | None]:
    kind, context = facts["type"], facts.get("ctx") or {}
    name, value = _name(at.loc), facts["input"]
    shown = "" if at.is_secret else _shown(value)
    if kind == "missing":
        return f"{str(facts['loc'][-1])!r} is missing in {_name(at.loc[:-1])}", None
    if kind.startswith("union_tag"):
        return _worded_type(context.get("tag"), name, at.types)
    if kind in ("enum", "literal_error"):
        known = quoted(str(context["expected"])) or [str(context["expected"])]
        return f"{name} has to be one of {', '.join(known)}{shown}", nearest(str(value), known)
    if kind == "value_error":
        is_of_field = at.loc in document.keys
        return f"{name}: {context['error']}" if is_of_field else str(context["error"]), None
    if kind in ("too_short", "string_too_short"):
        there = context.get("actual_length", 0)
        found = f"{name} has {there}, at least {context['min_length']} are needed" if there else f"{name} is empty"
        return found, f"give it at least {context['min_length']}, or leave it out"
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return f"{name} has to be {words} {context[key]:g}{shown}", None
    if kind in _EXPECTED:
        return f"{name} has to be {_listed(expected)}{shown}", _type_hint(expected, value, at)
    return f"{name}: {facts['msg'][:1].lower()}{facts['msg'][1:]}{shown}", None


def _worded_type(tag: object, name: str, known: list[str]) -> tuple[str, str]:
    listed = f"known types: {', '.join(sorted(known))}"
    if tag is None:
        return f"'type' is missing in {name}", listed
    return f"unknown type {str(tag)!r} in {name}", nearest(str(tag), known) or listed


def _type_hint(expected: list[str], value: object, at: Spot) -> str | None:
    if value is None:
        return "give it a value, or leave it out"
    if expected == ["text"] and isinstance(value, int | float):
        return "put it in quotes"
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if expected == ["a number"] and percent:
        return f"write it as a share: {float(percent[1]) / 100:g}"
    if expected == ["a list"]:
        return "write [a, b], or one a line with a dash before each"
    if expected == ["a block of keys"] and value in at.types:
        return f"write it as `type: {value}`"
    return None


def _name(loc: Loc) -> str:
    if not loc:
        return "the file"
    if isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {_name(loc[:-1])}"
    return "the name" if loc[-1] == "[key]" else str(loc[-1])


def _shown(value: object) -> str:
    if value is None:
        return ", and is empty"
    if isinstance(value, bool):
        return f", not {str(value).lower()}"
    if isinstance(value, str | int | float):
        return f", not {value!r}"
    return ", not a list" if isinstance(value, list) else ", not a block of keys"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
