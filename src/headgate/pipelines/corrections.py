"""Corrected rows from a person's file: CSV, JSON, or one JSON object a line. Values are text until they are typed."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headgate.errors import ConfigError
from headgate.pipelines.config.wording import nearest

ROW_ID = "_row_id"
FORMATS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Correction:
    """A row of the file: which row of the batch it is, and what that should say. `line` is counted from 1."""

    line: int
    row_id: str
    values: Mapping[str, str | None]


def read_corrections(path: Path, columns: Collection[str], ignored: Collection[str]) -> list[Correction]:
    """The rows of a file; `columns` are those that rows have, `ignored` those that were written beside them."""
    check_format(path)
    try:
        records = list(_records(path))
    except (OSError, UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error}", hint="export it again and correct that") from None
    return corrections(records, columns, ignored)


def corrections(
    records: list[Mapping[str, str | None]], columns: Collection[str], ignored: Collection[str]
) -> list[Correction]:
    """The same of rows that were read already."""
    for record in records:
        _check_columns(record, columns, ignored)
    found = [
        Correction(line, _row_id(line, record), {name: record[name] for name in record if name in columns})
        for line, record in enumerate(records, 1)
    ]
    seen: dict[str, int] = {}
    for each in found:
        if seen.setdefault(each.row_id, each.line) != each.line:
            raise ConfigError(
                f"rows {seen[each.row_id]} and {each.line} of the file have the same {ROW_ID} {each.row_id!r}",
                hint="leave one of them out: a row of the batch becomes one row",
            )
    return found


def resolved(given: list[Correction], moved: Mapping[str, str]) -> list[Correction]:
    """By the ids that rows have now, where an earlier correction that did not do has changed them."""
    taken = {each.row_id for each in given if each.row_id not in moved}
    found = []
    for each in given:
        row_id = first = _now(each.row_id, moved)
        number = 2
        # Two rows may have been corrected to the same: they are told apart by a number.
        while each.row_id in moved and row_id in taken:
            row_id, number = f"{first}-{number}", number + 1
        taken.add(row_id)
        found.append(replace(each, row_id=row_id))
    return found


def _now(row_id: str, moved: Mapping[str, str]) -> str:
    seen = {row_id}
    while row_id in moved and moved[row_id] not in seen:
        row_id = moved[row_id]
        seen.add(row_id)
    return row_id


def check_format(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{str(path)!r} is none of the formats {', '.join(FORMATS)}", hint="name it by its format")


def _records(path: Path) -> Iterator[Mapping[str, str | None]]:
    if path.suffix.lower() == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                if None in row or None in row.values():
                    raise csv.Error(f"a row has more or fewer fields than the head: {row}")
                yield {name: value or None for name, value in row.items()}
        return
    text = path.read_text(encoding="utf-8-sig")
    whole = text.lstrip().startswith("[")
    # Numbers stay as they are written: as floats they would change.
    parsed = [_json(text)] if whole else [_json(line) for line in text.splitlines() if line.strip()]
    for record in parsed[0] if whole else parsed:
        if not isinstance(record, dict):
            raise csv.Error(f"{json.dumps(record)[:60]} is no object")
        yield {name: _text(value) for name, value in record.items()}


class _Number(str):
    """A number as it is written."""


def _json(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return _dumped(value)


def _dumped(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{json.dumps(key)}:{_dumped(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_dumped, value))}]"
    return json.dumps(value)


def _check_columns(record: Mapping[str, str | None], columns: Collection[str], ignored: Collection[str]) -> None:
    for name in record:
        if name not in columns and name not in ignored and name != ROW_ID:
            raise ConfigError(
                f"the rows have no column {name!r}",
                hint=nearest(name, columns) or f"their columns: {', '.join(columns)}",
            )


def _row_id(line: int, record: Mapping[str, str | None]) -> str:
    found = (record.get(ROW_ID) or "").strip()
    if not found:
        raise ConfigError(
            f"row {line} of the file has no {ROW_ID}",
            hint="`headgate quarantine show --output rows.csv` writes rows with theirs; keep that column",
        )
    return found
