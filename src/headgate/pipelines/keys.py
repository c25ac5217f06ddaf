"""What the models know of a location in a file: its keys, whether it holds a secret, and which parts are the file's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, SecretStr

from headgate.pipelines.source import Loc


@dataclass(frozen=True)
class Spot:
    """A location of a validation error: as the file has it, and what the models expect there."""

    loc: Loc
    expected: tuple[Any, ...]

    @property
    def keys(self) -> set[str]:
        return {key for each in self.expected if _is_model(each) for key in _keys(each)}

    @property
    def types(self) -> list[str]:
        """The values that `type` may have."""
        return [str(tag) for each in self.expected for tag in _tags(each)]

    @property
    def is_secret(self) -> bool:
        return SecretStr in self.expected


def spot(model: type[BaseModel], loc: Sequence[str | int]) -> Spot:
    """Where in the file an error is. Pydantic names the branch of a union that it took, which no file does."""
    kept: Loc = ()
    found: list[Any] = [model]
    for part in loc:
        if len(found) > 1:
            found = [each for each in found if part in _labels(each)] or found
            continue
        kept = (*kept, part)
        found = [each for inner in _inside(found[0], part) for each in _members(inner)] if found else []
    return Spot(kept, tuple(found))


def quoted(text: str) -> list[str]:
    """The words in pydantic's list of what it expects: `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']+)'", text)


def _inside(annotation: Any, part: str | int) -> Iterator[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list and isinstance(part, int):
        yield arguments[0]
    elif origin is dict:
        yield arguments[1]
    elif _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias, *_choices(field.validation_alias)):
                yield field.annotation


def _members(annotation: Any) -> Iterator[Any]:
    """The branches of a union, one in another; anything else is its only one."""
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _members(each)
    elif annotation is not type(None):
        yield annotation


def _labels(annotation: Any) -> tuple[Any, ...]:
    return _tags(annotation) or (getattr(annotation, "__name__", None),)


def _tags(annotation: Any) -> tuple[Any, ...]:
    if not _is_model(annotation) or "type" not in annotation.model_fields:
        return ()
    kind = annotation.model_fields["type"].annotation
    return get_args(kind) if get_origin(kind) is Literal else ()


def _keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        choices = _choices(field.validation_alias)
        yield from choices or (field.alias or name,)


def _choices(alias: Any) -> tuple[str, ...]:
    return tuple(each for each in alias.choices if isinstance(each, str)) if isinstance(alias, AliasChoices) else ()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
