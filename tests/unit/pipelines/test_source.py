"""YAML as it is read: the core schema of YAML 1.2, places, and what is refused with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines.source import parse, read

FILE = Path("p.yaml")


def value(text: str) -> Any:
    return parse(text, FILE).value


def refused(text: str) -> list[PipelineProblem]:
    with pytest.raises(InvalidPipeline) as caught:
        parse(text, FILE)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("007", 7),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", float("inf")),
        ("-.Inf", float("-inf")),
        ("2024-01-01", "2024-01-01"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("''", ""),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, expected: object) -> None:
    found = value(f"a: {text}")["a"]

    assert found == expected
    assert type(found) is type(expected)


def test_a_number_of_any_length_is_no_reason_to_break() -> None:
    assert value("a: " + "9" * 5000)["a"] == "9" * 5000


def test_values_and_keys_know_their_places() -> None:
    document = parse("a:\n  b: [x, {c: y}]\n", FILE)

    assert str(document.place(("a", "b", 1, "c"))) == "p.yaml:2:14"
    assert str(document.key_place(("a", "b", 1, "c"))) == "p.yaml:2:11"
    assert str(document.place(("a", "b", 7, "nowhere"))) == "p.yaml:2:6"


def test_anchors_and_merge_keys_bring_blocks_in_and_own_keys_win() -> None:
    text = """
base: &base {type: local, tags: [a]}
more: &more {tags: [b], owner: me}
one: {<<: *base, type: s3}
two:
  <<: [*base, *more]
again: *base
"""
    found = value(text)

    assert found["one"] == {"type": "s3", "tags": ["a"]}
    assert found["two"] == {"type": "local", "tags": ["a"], "owner": "me"}
    assert found["again"] == {"type": "local", "tags": ["a"]}


def test_what_a_merge_brings_in_keeps_the_place_where_it_was_said() -> None:
    document = parse("base: &base {type: local}\none: {<<: *base}\n", FILE)

    assert str(document.place(("one", "type"))) == "p.yaml:1:20"


def test_a_quoted_merge_key_is_a_key() -> None:
    assert value("a: {'<<': 1}") == {"a": {"<<": 1}}


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("a: 1\nb: 2\na: 3\n", "p.yaml:3:1", "'a' is there twice", "the first is at line 1"),
        (
            "a:\n\tb: 1\n",
            "p.yaml:2:1",
            "not YAML: found character that cannot start any token",
            "indent with spaces: YAML takes no tabs",
        ),
        ("", "p.yaml", "the file is empty", "`headgate init` writes one to begin with"),
        ("# nothing\n", "p.yaml", "the file is empty", "`headgate init` writes one to begin with"),
        ("a: &a\n  b: *a\n", "p.yaml:1:4", "the block holds itself by an alias", "take the alias out"),
        ("a: &a\n  <<: *a\n", "p.yaml:2:3", "the block holds itself by an alias", "take the alias out"),
        ("a:\n  <<: text\n", "p.yaml:2:3", "<< takes a block by its alias", "write it as `<<: *name`"),
        ("a: !secret x\n", "p.yaml:1:4", "the tag !secret is not known here", "leave it out"),
        ("? [a]\n: b\n", "p.yaml:1:3", "a key has to be a word", "quote it if it holds brackets or braces"),
        (
            "a: b: c\n",
            "p.yaml:1:5",
            "not YAML: mapping values are not allowed in this context",
            "text with `: ` in it has to be quoted",
        ),
        (
            "a: @x\n",
            "p.yaml:1:4",
            "not YAML: found character that cannot start any token",
            "text that begins with @, ` or % has to be quoted",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "p.yaml:2:1",
            "not YAML: but found another document",
            "put what is behind `---` into a file of its own, and include it",
        ),
    ],
    ids=[
        "twice",
        "tab",
        "empty",
        "comment",
        "alias",
        "merge",
        "merge-text",
        "tag",
        "list-key",
        "colon",
        "at",
        "documents",
    ],
)
def test_what_is_no_yaml_of_ours_is_refused_with_its_place(text: str, place: str, message: str, hint: str) -> None:
    assert refused(text) == [PipelineProblem(place, message, hint)]


def test_all_keys_that_are_there_twice_are_told() -> None:
    found = refused("a: 1\na: 2\nb: {c: 1, c: 2}\n")

    assert [each.place for each in found] == ["p.yaml:2:1", "p.yaml:3:11"]


def test_aliases_of_aliases_do_not_make_a_file_endless() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]

    (found,) = refused("\n".join(lines))
    assert "more than 200,000 values" in found.message


def test_blocks_that_are_nested_too_deeply_are_refused() -> None:
    (found,) = refused("a: " + "[" * 900 + "]" * 900)

    assert found.message == "the blocks are nested too deeply"


def test_no_file_no_text_and_a_folder_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("a: ü".encode("latin-1"))
    messages = []
    for name in ("none.yaml", "latin.yaml", "."):
        with pytest.raises(InvalidPipeline) as caught:
            read(tmp_path / name)
        messages.append(caught.value.problems[0].message)

    assert messages[0] == "no such file"
    assert messages[1].startswith("not UTF-8 text")
    assert messages[2] == "cannot be read: Is a directory"


def test_a_byte_order_mark_is_not_a_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_bytes(b"\xef\xbb\xbfproject: a\n")

    assert read(tmp_path / "p.yaml").value == {"project": "a"}


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_problem(text: str) -> None:
    problems: list[PipelineProblem] = []
    try:
        parse(text, FILE)
    except InvalidPipeline as error:
        problems = error.problems

    assert all(each.place.startswith("p.yaml") and each.message for each in problems)
