"""The pages about pipelines against the code: examples load, and what can be said in a file or a call is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import typer
from pydantic import BaseModel, TypeAdapter

from headgate.cli.main import app
from headgate.domain.gate import Action, OnFail
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.config.node import NodeConfig, OnError
from headgate.pipelines.config.project import ProjectConfig
from headgate.pipelines.config.strict import Strict
from headgate.pipelines.config.tests import AnyTest, DatasetTestConfig, TestConfig
from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.load import load
from headgate.pipelines.plan import make_plan
from headgate.pipelines.record import NodeRecord, RunRecord
from headgate.pipelines.source import parse
from headgate.server.pipelines import schemas

DOCS = Path(__file__).parents[3] / "docs"
GUIDE, TESTS, CONNECTIONS = (DOCS / name for name in ("pipelines.md", "pipelines/tests.md", "pipelines/connections.md"))
PAGES = (GUIDE, TESTS, CONNECTIONS)
COMMANDS = ("init", "validate", "plan", "graph", "run", "story", "quarantine")
# What examples take from the environment.
SECRETS = ("SHOP_PASSWORD", "SLACK_WEBHOOK_URL", "ALERT_WEBHOOK_URL", "ALERT_TOKEN")
VARIABLES = dict.fromkeys(SECRETS, "https://example.com/hook")


def blocks() -> Iterator[tuple[str, str]]:
    """The YAML of the pages, each by its page and line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield f"{page.stem}:{text.count(chr(10), 0, found.start()) + 1}", found[1]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(text, id=place) for place, text in blocks() if kind_of(text) == kind]


def kind_of(text: str) -> str:
    value = parse(text, Path("example.yaml")).value
    if isinstance(value, list):
        return "tests"
    return "project" if "project" in value else "part"


def check(path: Path, text: str) -> None:
    """As `headgate validate` does, in each of the environments."""
    path.write_text(text, encoding="utf-8")
    plain = load(path, variables=VARIABLES)
    for environment in (None, *plain.project.environments):
        assert make_plan(load(path, environment=environment, variables=VARIABLES)).nodes


@pytest.mark.parametrize("text", of_kind("project"))
def test_whole_projects_are_valid(text: str, tmp_path: Path) -> None:
    check(tmp_path / "pipeline.yaml", text)


@pytest.mark.parametrize("text", of_kind("part"))
def test_parts_of_a_file_fit_into_a_project(text: str, tmp_path: Path) -> None:
    part = parse(text, tmp_path / "part.yaml").value
    lake = {name: {"type": "local", "base_path": name} for name in ("landing", "lake")}
    shop = {"type": "jdbc", "url": "jdbc:postgresql://db/shop"}
    node: dict[str, Any] = {"name": "it", "read": {"connection": "landing", "path": "it"}}
    project: dict[str, Any] = {"project": "example", "connections": {**lake, "shop": shop}}
    if part.keys() <= NodeConfig.model_fields.keys():
        node |= part
    else:
        project |= part
    # The tests that a gate's thresholds are about are somewhere else on the page.
    for number, threshold in enumerate(node.get("gate", {}).get("thresholds", ())):
        tests = node.setdefault("validation", {}).setdefault("tests", [])
        tests.append({"name": threshold["test"], "type": "not_null", "column": f"c{number}"})
    project["pipelines"] = [{"pipeline": "daily", "nodes": [node]}]
    check(tmp_path / "pipeline.yaml", json.dumps(project))


@pytest.mark.parametrize("text", of_kind("tests"))
def test_examples_of_tests_are_valid(text: str) -> None:
    TypeAdapter(list[AnyTest]).validate_python(parse(text, TESTS).value)


def models(of: type[BaseModel] = Strict) -> Iterator[type[BaseModel]]:
    for model in of.__subclasses__():
        yield model
        yield from models(model)


def kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["type"].annotation)


TYPES = {kind: model for model in models(TestConfig) if "type" in model.model_fields for kind in kinds_of(model)}


def sections() -> dict[str, str]:
    """What the page of tests says of each type."""
    parts = re.split(r"^#{2,3} (.+)\n", TESTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {kind: body for title, body in zip(parts[1::2], parts[2::2], strict=True) for kind in title.split(", ")}


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_test_has_a_section_with_its_fields_and_an_example(kind: str) -> None:
    body = sections()[kind]
    common = DatasetTestConfig.model_fields.keys() | {"type"}
    fields = [name for name in TYPES[kind].model_fields if name not in common]
    assert [name for name in fields if f"`{name}`" not in body] == []
    assert re.search(rf"type: ({'|'.join(kinds_of(TYPES[kind]))})\b", body)


def test_the_page_of_tests_lists_every_type_at_its_top() -> None:
    top = TESTS.read_text(encoding="utf-8").partition("## Fields of every test")[0]
    assert [kind for kind in TYPES if f"`{kind}`" not in top] == []


def test_common_fields_of_tests_have_a_row_each() -> None:
    text = TESTS.read_text(encoding="utf-8").partition("## Presence and keys")[0]
    assert [name for name in TestConfig.model_fields if f"| `{name}` |" not in text] == []


def written() -> str:
    """All that the pages have as code."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    fenced = re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return "\n".join([*fenced, *re.findall(r"`([^`\n]+)`", text)])


def unnamed(names: Iterator[str]) -> list[str]:
    code = written()
    return sorted({name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code)})


def test_every_key_of_a_file_is_named() -> None:
    found = set(models())
    assert ProjectConfig in found
    keys = (field.alias or name for model in found for name, field in model.model_fields.items())
    assert unnamed(keys) == []


def test_every_choice_is_named() -> None:
    assert unnamed(str(each) for kind in (WriteMode, OnFail, Action, OnError, AlertEvent) for each in kind) == []


def test_every_field_of_a_run_is_named() -> None:
    assert unnamed(name for record in (RunRecord, NodeRecord) for name in record.__struct_fields__) == []


def json_of(page: Path) -> list[dict[str, Any]]:
    text = page.read_text(encoding="utf-8")
    return [json.loads(found) for found in re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def test_the_run_in_the_guide_is_one_that_can_be() -> None:
    (shown,) = json_of(GUIDE)
    assert shown.keys() - {"story"} <= set(RunRecord.__struct_fields__)
    assert all(node.keys() <= set(NodeRecord.__struct_fields__) for node in shown["nodes"])
    assert msgspec.convert(shown, RunRecord).status == "stopped"


def test_answers_in_the_api_page_have_the_fields_of_answers() -> None:
    shapes: list[type[BaseModel]] = [schemas.PipelineRunOut, schemas.AlertOut, schemas.LastPublishedOut]
    shapes.append(schemas.BatchOut)
    for shown, shape in zip(json_of(DOCS / "api" / "pipelines.md"), shapes, strict=True):
        assert shown.keys() == shape.model_fields.keys()
        shape.model_validate(shown)


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def own_commands() -> list[tuple[str, Any]]:
    every = commands(typer.main.get_command(app), "headgate")
    return [(path, command) for path, command in every if path.split()[1] in COMMANDS]


def test_every_command_and_option_of_pipelines_is_in_the_guide() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    found = own_commands()
    assert {path.split()[1] for path, _ in found} == set(COMMANDS)
    assert [path for path, _ in found if f"`{path}" not in guide] == []
    options = {name for _, command in found for each in command.params for name in each.opts if name.startswith("--")}
    assert sorted(name for name in options - {"--help"} if not re.search(rf"`[^`\n]*{name}(?![\w-])", guide)) == []
