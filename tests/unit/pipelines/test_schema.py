"""The schema for editors: current, and of one mind with the models about what a file may say."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from headgate.errors import InvalidPipeline
from headgate.pipelines import schema
from headgate.pipelines.load import load
from headgate.pipelines.source import parse
from tests.unit.pipelines.samples import HEAD, dedent, saved, with_nodes, with_test
from tests.unit.pipelines.test_pipeline_file import ALERTS, GATE, NODE, QUARANTINE
from tests.unit.pipelines.test_test_types import SMALLEST

FILE = Path(__file__).parents[3] / schema.FILE
READ = "read: {connection: bronze, path: a}"


@cache
def validator(part: str = "") -> Draft202012Validator:
    found = schema.json_schema()
    return Draft202012Validator({**found, "$ref": f"#/$defs/{part}"} if part else found)


def editor_accepts(text: str) -> bool:
    return bool(validator().is_valid(parse(text, Path("p.yaml")).value))


def models_accept(text: str, folder: Path) -> bool:
    try:
        load(saved(folder, text))
    except InvalidPipeline:
        return False
    return True


def with_node(words: str) -> str:
    return with_nodes(f"- {{name: a, {words}}}")


def test_the_published_file_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == schema.text(), "run `python -m headgate.pipelines.schema`"


def test_it_is_a_schema_without_a_host() -> None:
    found = schema.json_schema()

    Draft202012Validator.check_schema(found)
    assert found["$id"] == "urn:headgate:pipeline:1"
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_writing_it_gives_the_same_file(tmp_path: Path) -> None:
    schema.main([str(tmp_path / "x.json")])

    assert (tmp_path / "x.json").read_text(encoding="utf-8") == schema.text()


def test_every_block_has_a_title_and_says_what_it_is() -> None:
    without = {
        name
        for name, block in schema.json_schema()["$defs"].items()
        if not block.get("description") or not (block.get("title") or name == "Variable")
    }
    assert without == set()


def test_every_reference_leads_somewhere() -> None:
    found = schema.json_schema()

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*(references(each) for each in value.values()))
        return set().union(*(references(each) for each in value)) if isinstance(value, list) else set()

    assert {each.removeprefix("#/$defs/") for each in references(found)} <= set(found["$defs"])


@pytest.mark.parametrize("kind", SMALLEST)
def test_every_test_is_told_by_its_type(tmp_path: Path, kind: str) -> None:
    right = with_test(f"type: {kind}, {SMALLEST[kind]}, severity: warn")

    assert editor_accepts(right)
    assert models_accept(right, tmp_path)
    for wrong in (f"type: {kind}x, {SMALLEST[kind]}", f"type: {kind}, {SMALLEST[kind]}, wher: x", f"{SMALLEST[kind]}"):
        assert not editor_accepts(with_test(wrong))
        assert not models_accept(with_test(wrong), tmp_path)


def test_a_missing_column_is_said_of_the_test_itself() -> None:
    value = parse(with_test("type: range, min: 1"), Path("p.yaml")).value

    error = best_match(validator().iter_errors(value))
    assert error is not None
    assert error.message == "'column' is a required property"


ACCEPTED = [
    with_nodes(QUARANTINE),
    with_nodes(GATE),
    with_nodes(
        NODE,
        head=HEAD
        + dedent(ALERTS).replace("${SLACK_WEBHOOK_URL}", "https://x").replace("${TEAMS_WEBHOOK_URL}", "https://y"),
    ),
    with_node(f"{READ}, retry: {{attempts: 3, delay: 10s, backoff: 2}}, freshness: {{max_age: 3600}}"),
    with_node(f"{READ}, transform: {{steps: [SELECT 1, {{sql: SELECT 2}}, {{function: 'a:b', params: {{x: 1}}}}]}}"),
    with_node(f"{READ}, write: {{connection: silver, path: a, mode: upsert, merge_keys: id}}"),
    with_node(f"{READ}, write: {{connection: silver, path: a, mode: scd2, keys: [id], history: {{track: [x]}}}}"),
    with_node(f"{READ}, validation: {{profile: true}}"),
    with_node(f"{READ}, validation: {{profile: {{columns: [a]}}}}"),
    with_node(
        f"{READ}, validation: {{quarantine: {{connection: silver, table: q, add_columns: {{original_node: true}}}}}}"
    ),
    with_nodes("- {name: b, read: {connection: bronze, path: a}}\n- {name: a, depends_on: b}"),
    with_test("type: not_null, column: a, on_fail: quarantine, max_failures: 3, max_failure_rate: 0.1"),
    with_test("type: outlier, column: a, z_score: 3"),
    with_test("type: range, column: a, min: 2024-01-01, max: 2025-01-01"),
    with_nodes(
        NODE,
        head=HEAD.replace("data/silver", "'${root}/silver'") + "vars: {root: x, n: 3}\nretry: {attempts: '${n}'}\n",
    ),
    with_nodes(NODE, head=HEAD + "environments: {prod: {vars: {a: 1}, connections: {bronze: {base_path: x}}}}\n"),
    with_nodes(
        NODE, head="project: a\nconnections: {bronze: {type: jdbc, url: 'jdbc:mysql://h/d', options: {fetchsize: 5}}}\n"
    ),
]
REFUSED = [
    "project: shop\n",
    "pipelines: []\nproject: shop\n",
    HEAD + "pipelines: [{pipeline: a, nodes: []}]\n",
    with_nodes(NODE, head=HEAD.replace("shop", "my shop")),
    with_nodes(NODE, head=HEAD + "version: 2\n"),
    with_nodes(NODE, head=HEAD + "on_error: stop\n"),
    with_nodes(NODE, head=HEAD + "conections: {}\n"),
    with_nodes(NODE, head=HEAD + "alerts: [{type: slack}]\n"),
    with_nodes(NODE, head=HEAD + "alerts: [{type: slack, url: 'https://x', on_events: [on_monday]}]\n"),
    with_nodes(NODE, head=HEAD + "environments: {prod: {pipelines: []}}\n"),
    with_nodes(NODE, head=HEAD + "environments: {my prod: {}}\n"),
    with_nodes(NODE, head="project: a\nconnections: {bronze: {type: local, base_pth: x}}\n"),
    with_nodes(NODE, head="project: a\nconnections: {bronze: {type: ftp, base_path: x}}\n"),
    with_nodes("- {name: a}"),
    with_node("read: {connection: bronze}"),
    with_node("read: {connection: bronze, path: a, table: b}"),
    with_node(f"{READ}, write: {{connection: silver}}"),
    with_node(f"{READ}, write: {{connection: silver, path: a, mode: replace}}"),
    with_node(f"{READ}, write: {{connection: silver, path: a, mode: upsert, keys: [a], merge_keys: [b]}}"),
    with_node(f"{READ}, write: {{connection: silver, path: a, mode: overwrite_partitions}}"),
    with_node(f"{READ}, gate: {{require_pass_rate: 95}}"),
    with_node(f"{READ}, gate: {{thresholds: [{{test: a}}]}}"),
    with_node(f"{READ}, validation: {{quarantine: {{connection: silver}}}}"),
    with_node(f"{READ}, transform: {{steps: [{{}}]}}"),
    with_node(f"{READ}, transform: {{steps: []}}"),
    with_node(f"{READ}, retry: {{attempts: 0}}"),
    with_node(f"{READ}, tags: [1]"),
    with_test("type: not_null"),
    with_test("type: not_null, columns: []"),
    with_test("type: not_null, columns: [a], column: b"),
    with_test("type: email, column: a, on_fail: warn, severity: warn"),
    with_test("type: email, column: a, severity: error"),
    with_test("type: email, column: a, max_failure_rate: 2"),
    with_test("type: range, column: a"),
    with_test("type: custom_query, query: SELECT 1, operator: '>'"),
    with_test("type: foreign_key, column: a, reference: {}"),
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_editor_and_models_accept(tmp_path: Path, text: str) -> None:
    assert models_accept(text, tmp_path)
    assert [each.message for each in validator().iter_errors(parse(text, Path("p.yaml")).value)] == []


@pytest.mark.parametrize("text", REFUSED)
def test_editor_and_models_refuse(tmp_path: Path, text: str) -> None:
    assert not models_accept(text, tmp_path)
    assert not editor_accepts(text)


def test_a_project_may_have_all_its_pipelines_in_other_files() -> None:
    assert editor_accepts("project: shop\ninclude: pipelines/*.yaml\n")


def test_an_included_file_has_a_schema_of_its_own() -> None:
    part = validator("IncludedFile")

    assert part.schema["$defs"]["IncludedFile"]["properties"].keys() == {
        "connections",
        "vars",
        "pipelines",
        "alerts",
        "include",
    }
    inner = Draft202012Validator({"$defs": part.schema["$defs"], "$ref": "#/$defs/IncludedFile"})
    value = parse(with_nodes(NODE, head=HEAD.replace("project: shop\n", "")), Path("p.yaml")).value
    assert inner.is_valid(value)
    assert not inner.is_valid({"project": "shop"})


def test_what_is_no_text_may_be_a_variable() -> None:
    text = with_node(
        "enabled: '${ON}', read: {connection: '${WHERE}', path: a}, tags: '${TAGS}', gate: {require_pass_rate: '${R}'}"
    )

    assert editor_accepts(text)
    assert not editor_accepts(text.replace("${R}", "much"))
