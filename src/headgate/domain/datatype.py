"""Types of columns as engines spell them: which spellings mean the same, and which changes readers survive.

For comparing only: what is shown is what was sent. A type is a tuple of its name and what it is made of; a spelling
that nobody knows is a name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

Type = tuple[Any, ...]

# Longer ones are compared as they are but for case and blanks: structures of thousands of fields are not worth a parse.
_MAX_TEXT: Final = 20_000
_MAX_DEPTH: Final = 32
_REMEMBERED: Final = 200

# int8 is PostgreSQL's, which has eight bytes, and float Spark's, which has four.
_SPELLINGS: Final[Mapping[str, str]] = {
    "boolean": "bool boolean booltype",
    "tinyint": "tinyint byte",
    "smallint": "smallint short int2 int16 smallserial",
    "int": "int integer int4 int32 serial serial4 signed",
    "bigint": "bigint long int8 int64 bigserial serial8",
    "float": "float real float4 float32",
    "double": "double float8 float64 double_precision",
    "decimal": "decimal numeric number dec decimal128 decimal256",
    "string": "string varchar text character_varying char_varying nvarchar nvarchar2 varchar2 utf8 large_utf8 "
    "large_string clob national_character_varying",
    "char": "char character bpchar nchar",
    "binary": "binary bytea varbinary bytes blob large_binary binary_varying",
    "date": "date date32",
    "time": "time time_without_time_zone time64",
    "timestamp": "timestamp timestamp_without_time_zone timestamp_ntz timestampntz datetime datetime2",
    "timestamptz": "timestamptz timestamp_with_time_zone timestamp_ltz timestamp_tz timestampltz "
    "timestamp_with_local_time_zone datetimeoffset",
    "array": "array list large_list",
    "map": "map",
    "struct": "struct row record",
}
_NAMES: Final = {word: name for name, words in _SPELLINGS.items() for word in words.split()}
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
# Spark's own names, as in IntegerType or StringType().
_CLASS = re.compile(r"([a-z]+)type")
_BRACKETS: Final = {"<": ">", "(": ")", "[": "]"}
_BRACKET_OR_COMMA = re.compile(r"[<>()\[\],]")
_FIRST_BRACKET = re.compile(r"[<(\[]")
_FIELD = re.compile(r'\s*(`[^`]*`|"[^"]*"|[^\s:,<>()]+)\s*(?::|\s)\s*(.+)', re.DOTALL)
_ELEMENT = re.compile(r"\s*(?:item|element)\s*:\s*", re.IGNORECASE)
_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)
_ARRAY = re.compile(r"\s*(?:\[\s*\d*\s*\]|\s+array)\s*$", re.IGNORECASE)
_DIGITS = re.compile("[0-9]{1,9}")
_MOMENTS: Final = frozenset({"timestamp", "timestamptz", "time"})
# More than these, and float(53) of databases is a double.
_FLOAT_BITS: Final = 24
_SECONDS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# As many digits of a second as engines have by themselves; more are the same moment.
_USUAL_DIGITS: Final = 6
# What Snowflake calls a text without a limit.
_UNLIMITED: Final = frozenset({"16777216", "134217728", "max"})


class _Unreadable(Exception):
    """A text that is no type as we know them."""


def canonical(text: str) -> Type:
    """What a spelling means.

    >>> canonical("DOUBLE PRECISION"), canonical("array<STRUCT<a: Int4>>")
    (('double',), ('array', ('struct', ('a', ('int',)))))
    """
    return _remembered(text) if len(text) <= _REMEMBERED else _read(text)


def is_same(one: str, other: str) -> bool:
    """Whether two spellings mean the same type."""
    return one == other or canonical(one) == canonical(other)


def is_alike(one: str, other: str) -> bool:
    """Whether two spellings of the same type differ in case and blanks at most."""
    return one == other or ("".join(one.lower().split()) == "".join(other.lower().split()) and is_same(one, other))


def widens(old: str, new: str) -> bool:
    """Whether the new type holds every value of the old one, in a way that its readers understand."""
    return _widens(canonical(old), canonical(new))


@lru_cache(maxsize=4096)
def _remembered(text: str) -> Type:
    return _read(text)


def _read(text: str) -> Type:
    text = " ".join(text.split())
    if len(text) <= _MAX_TEXT:
        try:
            return _parse(text, _MAX_DEPTH)
        except _Unreadable:
            pass
    return (text.lower().replace(" ", ""),)


def _parse(text: str, depth: int) -> Type:
    if depth == 0:
        raise _Unreadable
    text = text.strip()
    if found := _NOT_NULL.search(text):
        return ("not null", _parse(text[: found.start()], depth - 1))
    if (found := _ARRAY.search(text)) and found.start() > 0:
        return ("array", _parse(text[: found.start()], depth - 1))
    opened = _FIRST_BRACKET.search(text)
    if opened is None:
        return _named(text, [])
    at = opened.start()
    parts, end = _parts(text, at)
    head, tail = text[:at], text[end:]
    name = _name(head)
    if name in _NESTED and not tail.strip():
        return (name, *_NESTED[name](parts, depth - 1))
    return _named(f"{head} {tail}", [part.strip() for part in parts])


def _parts(text: str, at: int) -> tuple[list[str], int]:
    """What stands between the bracket at a place and its counterpart, cut at the commas; and where it ends."""
    open_: list[str] = []
    parts, begin = [], at + 1
    for found in _BRACKET_OR_COMMA.finditer(text, at):
        mark = found.group()
        if mark in _BRACKETS:
            open_.append(_BRACKETS[mark])
        elif mark == ",":
            if len(open_) == 1:
                parts.append(text[begin : found.start()])
                begin = found.end()
        elif open_.pop() != mark:
            raise _Unreadable
        if not open_:
            last = text[begin : found.start()]
            return [*parts, last] if parts or last.strip() else [], found.end()
    raise _Unreadable


def _name(text: str) -> str:
    """The name of a type without what it is made of: ours for what is known, else the word itself."""
    word = "_".join(text.lower().split())
    if (found := _CLASS.fullmatch(word)) and found[1] in _NAMES:
        word = found[1]
    return _NAMES.get(word, word)


def _named(text: str, arguments: list[str]) -> Type:
    name = _name(text)
    if name not in _SPELLINGS:
        return (name, *arguments)
    arguments = [each.lower() for each in arguments]
    if name in _MOMENTS:
        return _moment(name, arguments)
    if name in _WHOLE or name in ("boolean", "date", "double"):
        # int(11) of MySQL is how wide it is shown, date32[day] what a date always is.
        return (name,)
    if name == "float":
        return ("double",) if arguments and (_number(arguments[0]) or 0) > _FLOAT_BITS else (name,)
    if name == "decimal":
        return (name, *arguments, "0") if len(arguments) == 1 else (name, *arguments)
    if name == "string" and arguments and arguments[0] in _UNLIMITED:
        return (name,)
    return (name, *arguments)


def _moment(name: str, arguments: list[str]) -> Type:
    """timestamp(3) of databases and timestamp[ms, tz=UTC] of Arrow."""
    told = (_SECONDS.get(each, _number(each)) for each in arguments)
    digits = next((each for each in told if each is not None), _USUAL_DIGITS)
    if name == "timestamp" and any(each.startswith("tz") for each in arguments):
        name = "timestamptz"
    return (name, str(digits)) if digits < _USUAL_DIGITS else (name,)


def _array_parts(parts: list[str], depth: int) -> Iterator[Type]:
    # ArrayType(IntegerType, true) says whether elements may be null, too.
    if not parts:
        raise _Unreadable
    yield _parse(_ELEMENT.sub("", parts[0], count=1), depth)


def _map_parts(parts: list[str], depth: int) -> Iterator[Type]:
    if len(parts) < 2:
        raise _Unreadable
    yield from (_parse(part, depth) for part in parts[:2])


def _struct_parts(parts: list[str], depth: int) -> Iterator[Type]:
    for part in parts:
        found = _FIELD.fullmatch(part)
        if found is None:
            raise _Unreadable
        yield found[1].strip('`"'), _parse(found[2], depth)


_NESTED: Final[Mapping[str, Callable[[list[str], int], Iterator[Type]]]] = {
    "array": _array_parts,
    "map": _map_parts,
    "struct": _struct_parts,
}


def _widens(old: Type, new: Type) -> bool:
    if old == new:
        return True
    if old[0] == "not null":
        return _widens(old[1], new[1] if new[0] == "not null" else new)
    if (old[0], new[0]) in (("float", "double"), ("string", "string"), ("binary", "binary")):
        return old[0] == "float" or _is_longer(old[1:], new[1:])
    if old[0] in _WHOLE and new[0] in _WHOLE:
        return _WHOLE.index(old[0]) < _WHOLE.index(new[0])
    if old[0] != new[0] or len(old) == 1:
        return False
    if old[0] == "decimal":
        return len(old) == len(new) == 3 and old[2] == new[2] and _is_longer(old[1:2], new[1:2])
    if old[0] in _MOMENTS:
        return _is_longer(old[1:], new[1:])
    if old[0] == "struct":
        fields = dict(new[1:])
        return all(name in fields and _widens(type_, fields[name]) for name, type_ in old[1:])
    return old[0] in _NESTED and len(old) == len(new) and all(map(_widens, old[1:], new[1:]))


def _is_longer(old: Type, new: Type) -> bool:
    """Whether a limit is wider, or gone."""
    if not new:
        return True
    before, after = (_number(each[0]) if each else None for each in (old, new))
    return before is not None and after is not None and before <= after


def _number(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None
