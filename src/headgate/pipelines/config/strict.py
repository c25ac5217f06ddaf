"""What all blocks share: unknown keys are refused, values do not change, and spans of time are written as people do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(
    r"(\d+(?:\.\d+)?)\s*(s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?|w|weeks?)(?![a-z])", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class Strict(BaseModel):
    """A block of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


def parse_span(value: object) -> object:
    """Read `90m`, `24 hours` or `1d 12h`; numbers are seconds. What is none of these is left to pydantic."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a span of time: write it like 90m, 24h or 7d")
    if not isinstance(value, str):
        return value
    text = value.strip()
    parts = list(_SPAN.finditer(text))
    if not parts or _SPAN.sub("", text).strip():
        raise ValueError(f"{value!r} is not a span of time: write it like 90m, 24h or 7d")
    try:
        return timedelta(seconds=sum(float(part[1]) * _UNITS_S[part[2][0].lower()] for part in parts))
    except OverflowError:
        raise ValueError(f"{value!r} is longer than time can be counted") from None


def span_text(span: timedelta) -> str:
    """The span as a file would have it, in the largest unit that divides it.

    >>> span_text(timedelta(hours=36)), span_text(timedelta(days=2))
    ('36h', '2d')
    """
    seconds = span.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS_S[unit] == 0:
            return f"{int(seconds // _UNITS_S[unit])}{unit}"
    return f"{seconds:g}s"


def _named(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: letters, digits, _ and - only, and a letter or _ first")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError(f"{span_text(value)} is no time at all: it has to be longer than nothing")
    return value


def one_or_more(value: object) -> object:
    """A single value stands for a list of one."""
    return value if isinstance(value, list) or value is None else [value]


class OneOrMore:
    """Marks a list that may be written as a single value, here and in the schema for editors."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(one_or_more, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}


def _as_text(value: object) -> object:
    """As Spark and Hadoop read their settings."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Name = Annotated[
    str,
    AfterValidator(_named),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$"}),
]
Text = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Column = Annotated[str, Field(min_length=1)]
Rate = Annotated[float, Field(ge=0, le=1)]
Span = Annotated[
    timedelta,
    BeforeValidator(parse_span),
    AfterValidator(_positive),
    PlainSerializer(span_text, return_type=str),
    WithJsonSchema({"type": ["string", "number"], "description": "A span of time: 90m, 24h, 7d; a number is seconds."}),
]
