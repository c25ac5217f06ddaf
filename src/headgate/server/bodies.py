"""What JSON bodies of the management API have in common: no unknown fields, no text that cannot be stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from headgate.errors import FieldError, InvalidFields


class Body(BaseModel):
    """Base of every request body. PostgreSQL takes neither NUL nor half a surrogate pair; nor do we."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _only_storable_text(cls, value: Any) -> Any:
        errors = list(unstorable(value))
        if errors:
            raise InvalidFields(errors, hint="remove these characters")
        return value


def unstorable(value: object) -> Iterator[FieldError]:
    """Every text inside a JSON value that the database could not store, with its path."""
    # A stack of our own: a body may nest as deep as the JSON parser can, which leaves recursion no room.
    pending: list[tuple[str, object]] = [("", value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, str):
            yield from _text_errors(path or "body", item)
        elif isinstance(item, list):
            pending += [(f"{path}[{index}]", child) for index, child in enumerate(item)]
        elif isinstance(item, dict):
            for key, child in item.items():
                yield from _text_errors(path or "body", str(key))
                pending.append((f"{path}.{key}" if path else str(key), child))


def _text_errors(path: str, text: str) -> Iterator[FieldError]:
    if "\0" in text:
        yield FieldError(path, "contains a NUL character")
    elif not _is_encodable(text):
        yield FieldError(path, "contains half of a surrogate pair")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
