"""Files of corrected rows: what is read of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import ConfigError
from headgate.pipelines.corrections import Correction, read_corrections, resolved

COLUMNS, ADDED = ["id", "amount", "items"], ["_failed_tests"]


def read(folder: Path, text: str, name: str = "rows.csv") -> list[Correction]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_corrections(path, COLUMNS, ADDED)


def test_what_was_written_beside_the_rows_is_passed_over(tmp_path: Path) -> None:
    text = '\ufeff_row_id,id,items,_failed_tests\nx,1,"[1, 2]","[""a""]"\ny,,,\n'

    assert read(tmp_path, text) == [
        Correction(1, "x", {"id": "1", "items": "[1, 2]"}),
        Correction(2, "y", {"id": None, "items": None}),
    ]


@pytest.mark.parametrize("form", ["[{}]", "{}\n", "\n{}\n\n"])
def test_json_is_a_list_or_a_line_for_each(tmp_path: Path, form: str) -> None:
    text = '{"_row_id": "x", "id": 1.10, "amount": "", "items": [{"a": 1e3, "b": null, "c": "d"}]}'

    (found,) = read(tmp_path, form.replace("{}", text), "rows.json")

    assert found.values == {"id": "1.10", "amount": "", "items": '[{"a":1e3,"b":null,"c":"d"}]'}


@pytest.mark.parametrize(
    ("name", "text", "said", "hint"),
    [
        ("rows.csv", "_row_id,amuont\nx,1\n", "the rows have no column 'amuont'", "did you mean 'amount'?"),
        ("rows.csv", "_row_id,id\nx,1\n,2\n", "row 2 of the file has no _row_id", "show --output"),
        ("rows.csv", "_row_id,id\nx,1\nx,2\n", "rows 1 and 2 of the file have the same", "leave one"),
        ("rows.csv", "_row_id,id\nx,1,2\n", "a row has more or fewer fields than the head", "export it"),
        ("rows.json", "{", "cannot be read", "export it"),
        ("rows.json", "[true]", "true is no object", "export it"),
        ("rows.xls", "", "is none of the formats", "name it"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_way_out(
    tmp_path: Path, name: str, text: str, said: str, hint: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read(tmp_path, text, name)
    assert hint in str(caught.value.hint)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rows\.csv' cannot be read"):
        read_corrections(tmp_path / "rows.csv", COLUMNS, ADDED)


def test_ids_lead_to_the_rows_that_corrections_have_made(tmp_path: Path) -> None:
    given = [Correction(1, "a", {}), Correction(2, "b", {}), Correction(3, "c", {}), Correction(4, "d", {})]

    found = resolved(given, {"a": "e", "e": "f", "b": "c", "x": "y"})

    assert [each.row_id for each in found] == ["f", "c-2", "c", "d"]
