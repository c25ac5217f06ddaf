"""Variables, environments and includes: what a file becomes before the models see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines.load import load
from tests.unit.pipelines.samples import dedent, indent, loaded, problem, problems, relative, saved

BODY = """\
connections:
  lake: {type: local, base_path: data}
pipelines:
  - pipeline: daily
    nodes:
      - {name: orders, read: {connection: lake, path: orders}}
"""


def variables(folder: Path, text: str, **options: Any) -> dict[str, Any]:
    return loaded(folder, f"project: shop\nvars:\n{indent(text, 2)}\n{BODY}", **options).project.vars


def described(folder: Path, description: str, head: str = "", **options: Any) -> str | None:
    return loaded(folder, f"project: shop\ndescription: {description}\n{head}{BODY}", **options).project.description


def test_a_variable_is_looked_up_in_vars_then_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGION", "from the environment")
    monkeypatch.setenv("OTHER", "from the environment")

    assert described(tmp_path, "${REGION}", "vars: {REGION: from vars}\n") == "from vars"
    assert described(tmp_path, "${OTHER}", "vars: {REGION: from vars}\n") == "from the environment"
    assert described(tmp_path, "${env:REGION}", "vars: {REGION: from vars}\n") == "from the environment"
    assert described(tmp_path, "${vars.REGION}", "vars: {REGION: from vars}\n") == "from vars"


def test_given_variables_win_over_those_of_the_file(tmp_path: Path) -> None:
    assert described(tmp_path, "${A}", "vars: {A: file}\n", variables={"A": "given"}) == "given"
    assert described(tmp_path, "${A}", variables={"A": "given"}) == "given"


def test_two_dollars_are_a_plain_one(tmp_path: Path) -> None:
    assert described(tmp_path, "'$${x} costs $5 and $${not a name} $${'") == "${x} costs $5 and ${not a name} ${"
    assert described(tmp_path, "'$${x}'") == "${x}"


def test_variables_may_use_each_other_in_any_order(tmp_path: Path) -> None:
    found = variables(tmp_path, "path: ${root}/orders\nroot: ${base}/v1\nbase: /lake")

    assert found == {"path": "/lake/v1/orders", "root": "/lake/v1", "base": "/lake"}


def test_a_whole_value_keeps_the_type_of_its_variable(tmp_path: Path) -> None:
    text = """
        project: shop
        vars: {tries: 3, is_on: true, columns: [id, email], name: "5"}
        connections:
          lake: {type: local, base_path: data}
        pipelines:
          - pipeline: daily
            retry: {attempts: "${tries}"}
            description: try ${tries}, ${is_on}
            nodes:
              - name: orders
                enabled: ${is_on}
                description: ${name}
                read: {connection: lake, path: orders}
                validation: {tests: [{type: not_null, columns: "${columns}"}]}
    """
    (pipeline,) = loaded(tmp_path, text).project.pipelines

    assert pipeline.retry is not None
    assert pipeline.retry.attempts == 3
    assert pipeline.description == "try 3, true"
    assert pipeline.nodes[0].enabled is True
    assert pipeline.nodes[0].description == "5"
    assert pipeline.nodes[0].validation.tests[0].tested_columns == ("id", "email")


def test_a_variable_of_its_own_name_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3a://lake")

    assert variables(tmp_path, "LAKE: ${LAKE}/raw") == {"LAKE": "s3a://lake/raw"}


@pytest.mark.parametrize(
    ("head", "description", "message", "hint"),
    [
        (
            "",
            "${NO_SUCH}",
            "${NO_SUCH} is not set: neither vars nor the environment has NO_SUCH",
            "set it under vars or with --var NO_SUCH=VALUE, or in the environment",
        ),
        (
            "vars: {REGION: x}\n",
            "${REGIN}",
            "${REGIN} is not set: neither vars nor the environment has REGIN",
            "did you mean 'REGION'?",
        ),
        (
            "",
            "${env:NO_SUCH}",
            "${NO_SUCH} is not set: the environment has no NO_SUCH",
            "set NO_SUCH in the environment",
        ),
        (
            "",
            "${vars.NO_SUCH}",
            "${NO_SUCH} is not set: vars has no NO_SUCH",
            "set it under vars or with --var NO_SUCH=VALUE",
        ),
        ("", "${my-var}", "'${my-var}' is no variable", "write ${NAME} or ${env:NAME}; a plain ${ is written $${"),
        ("", "${A:-b}", "'${A:-b}' is no variable", "write ${NAME} or ${env:NAME}; a plain ${ is written $${"),
        ("", "'${A'", "'${A' is no variable", "write ${NAME} or ${env:NAME}; a plain ${ is written $${"),
        ("vars: {A: [1]}\n", "x${A}", "${A} is a list, and cannot be a part of text", "use it as a whole value"),
        ("vars: {A: }\n", "x${A}", "${A} is empty, and cannot be a part of text", "use it as a whole value"),
    ],
)
def test_what_cannot_be_filled_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, description: str, message: str, hint: str
) -> None:
    for name in ("NO_SUCH", "A", "REGIN"):
        monkeypatch.delenv(name, raising=False)

    found = problem(tmp_path, f"project: shop\ndescription: {description}\n{head}{BODY}")

    assert found == ("pipeline.yaml:2:14", message, hint)


def test_variables_that_are_made_of_each_other_are_refused(tmp_path: Path) -> None:
    found = problems(tmp_path, f"project: shop\nvars:\n  one: ${{two}}\n  two: ${{one}}\n{BODY}")

    assert found[0].message == "${one} is made of itself: one -> two -> one"
    assert found[0].place == "pipeline.yaml:4:8"


def test_one_unset_variable_is_one_problem_wherever_it_would_have_led(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIES", raising=False)

    found = problems(tmp_path, f"project: shop\nvars: {{n: '${{TRIES}}'}}\nretry: {{attempts: '${{n}}'}}\n{BODY}")

    assert [each.message for each in found] == [
        "${TRIES} is not set: neither vars nor the environment has TRIES",
    ]


def test_keys_and_text_without_braces_are_left_alone(tmp_path: Path) -> None:
    assert described(tmp_path, "$HOME {x} 5$") == "$HOME {x} 5$"


ENVIRONMENTS = """\
environments:
  prod:
    vars: {region: eu}
    connections:
      lake: {base_path: /prod/lake}
      db: {type: jdbc, url: "jdbc:postgresql://db/shop"}
    on_error: fail_later
vars: {region: here, other: kept}
"""
DEV = """\
project: shop
connections:
  lake: {type: local, base_path: "data/${region}"}
  db: {type: local, base_path: data/db}
pipelines:
  - pipeline: daily
    nodes:
      - {name: orders, read: {connection: lake, path: orders}}
"""


def test_an_environment_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    here = loaded(tmp_path, DEV + ENVIRONMENTS).project
    prod = loaded(tmp_path, DEV + ENVIRONMENTS, environment="prod").project

    assert (here.connections["lake"].base_path, here.on_error) == ("data/here", "fail_fast")  # type: ignore[union-attr]
    assert (prod.connections["lake"].base_path, prod.on_error) == ("/prod/lake", "fail_later")  # type: ignore[union-attr]
    assert prod.vars == {"region": "eu", "other": "kept"}


def test_a_connection_of_another_type_is_replaced_whole(tmp_path: Path) -> None:
    prod = loaded(tmp_path, DEV + ENVIRONMENTS, environment="prod").project

    assert prod.connections["db"].type == "jdbc"


def test_a_variable_that_is_called_type_is_a_variable(tmp_path: Path) -> None:
    text = DEV + "environments: {prod: {vars: {type: b}}}\nvars: {type: a, region: here}\n"

    assert loaded(tmp_path, text, environment="prod").project.vars == {"type": "b", "region": "here"}


def test_variables_may_be_those_of_the_environment(tmp_path: Path) -> None:
    text = DEV + "environments: {prod: {vars: {region: eu}}}\nvars: {region: here}\n"

    prod = loaded(tmp_path, text, environment="prod").project
    assert prod.connections["lake"].base_path == "data/eu"  # type: ignore[union-attr]


def test_problems_of_an_environment_are_told_where_it_says_them(tmp_path: Path) -> None:
    text = f"project: shop\n{BODY}environments:\n  prod:\n    retry: {{attempts: none}}\n"

    found = problem(tmp_path, text, environment="prod")
    assert found.place == "pipeline.yaml:10:23"


@pytest.mark.parametrize(
    ("environments", "chosen", "message", "hint"),
    [
        ("{prod: {}}", "prd", "there is no environment 'prd'", "did you mean 'prod'?"),
        ("{prod: {}}", "x", "there is no environment 'x'", "known environments: prod"),
        ("{prod: {conections: {}}}", None, "an environment cannot change 'conections'", "did you mean 'connections'?"),
        ("{prod: 5}", None, "prod has to be a block of keys, not 5", None),
        ("[prod]", None, "environments has to be a block of keys, not a list", None),
    ],
)
def test_environments_that_cannot_be_are_refused(
    tmp_path: Path, environments: str, chosen: str | None, message: str, hint: str | None
) -> None:
    found = problem(tmp_path, f"project: shop\n{BODY}environments: {environments}\n", environment=chosen)

    assert (found.message, found.hint) == (message, hint)


def test_an_environment_without_any_is_refused(tmp_path: Path) -> None:
    found = problem(tmp_path, f"project: shop\n{BODY}", environment="prod")

    assert (found.message, found.hint) == ("there is no environment 'prod'", "known environments: none")


ROOT = "project: shop\ninclude: [connections.yaml, 'pipelines/*.yaml']\n"
CONNECTIONS = "connections:\n  lake: {type: local, base_path: data}\nvars: {tries: 2}\n"
PIPELINE = """\
pipelines:
  - pipeline: NAME
    nodes:
      - {name: orders, read: {connection: lake, path: orders}}
"""


def with_files(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        saved(folder, dedent(text), name)
    return folder / "pipeline.yaml"


def included(folder: Path, files: dict[str, str]) -> list[PipelineProblem]:
    with pytest.raises(InvalidPipeline) as caught:
        load(with_files(folder, files))
    return relative(caught.value.problems, folder)


def test_included_files_bring_connections_variables_and_pipelines(tmp_path: Path) -> None:
    files = {
        "pipeline.yaml": ROOT,
        "connections.yaml": CONNECTIONS,
        "pipelines/b.yaml": PIPELINE.replace("NAME", "b"),
        "pipelines/a.yaml": PIPELINE.replace("NAME", "a"),
        "pipelines/deep/c.yaml": PIPELINE.replace("NAME", "not_matched"),
    }
    project = load(with_files(tmp_path, files)).project

    assert [each.pipeline for each in project.pipelines] == ["a", "b"]
    assert list(project.connections) == ["lake"]
    assert project.vars == {"tries": 2}


def test_places_point_into_the_included_file(tmp_path: Path) -> None:
    files = {
        "pipeline.yaml": ROOT,
        "connections.yaml": CONNECTIONS.replace("base_path", "base_pth"),
        "pipelines/a.yaml": PIPELINE.replace("NAME", "a").replace("orders}}", "orders, pth: x}}"),
        "pipelines/b.yaml": PIPELINE.replace("NAME", "b c"),
    }
    assert [each.place for each in included(tmp_path, files)] == [
        "connections.yaml:2:9",
        "connections.yaml:2:23",
        "pipelines/a.yaml:4:63",
        "pipelines/b.yaml:2:15",
    ]


def test_a_list_that_only_an_included_file_has_is_told_there(tmp_path: Path) -> None:
    files = {"pipeline.yaml": "project: shop\ninclude: b.yaml\n", "b.yaml": "pipelines: []\n"}

    (found,) = included(tmp_path, files)
    assert (found.place, found.message) == ("b.yaml:1:12", "pipelines is empty")


def test_included_files_may_include_others_from_their_own_folder(tmp_path: Path) -> None:
    files = {
        "pipeline.yaml": "project: shop\ninclude: sub/all.yaml\n",
        "sub/all.yaml": "include: [lake.yaml]\n" + PIPELINE.replace("NAME", "a"),
        "sub/lake.yaml": CONNECTIONS,
    }
    found = load(with_files(tmp_path, files))

    assert list(found.project.connections) == ["lake"]
    assert found.folder_of("connections", "lake", "base_path") == (tmp_path / "sub").resolve()
    assert found.folder == tmp_path.resolve()


def test_a_file_that_two_ask_for_is_taken_in_once(tmp_path: Path) -> None:
    files = {
        "pipeline.yaml": "project: shop\ninclude: [a.yaml, b.yaml, '*a.yaml']\n",
        "a.yaml": "include: [lake.yaml]\n" + PIPELINE.replace("NAME", "a"),
        "b.yaml": "include: [lake.yaml]\n" + PIPELINE.replace("NAME", "b"),
        "lake.yaml": CONNECTIONS,
    }
    assert [each.pipeline for each in load(with_files(tmp_path, files)).project.pipelines] == ["a", "b"]


def test_an_absolute_pattern_is_followed(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    saved(other, CONNECTIONS + PIPELINE.replace("NAME", "a"), "one.yaml")

    file = saved(tmp_path, f"project: shop\ninclude: ['{other}/*.yaml']\n")
    assert [each.pipeline for each in load(file).project.pipelines] == ["a"]


@pytest.mark.parametrize(
    ("files", "place", "message", "hint"),
    [
        (
            {"pipeline.yaml": "project: a\ninclude: [none.yaml]\n"},
            "pipeline.yaml:2:11",
            "'none.yaml' matches no file",
            "paths start at ",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: ['${X}.yaml']\n"},
            "pipeline.yaml:2:11",
            "'${X}.yaml' matches no file",
            "variables are not known here",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: ['*.yaml']\n"},
            "pipeline.yaml:2:11",
            "'*.yaml' takes in pipeline.yaml, which is including it already",
            "take one of the two out",
        ),
        (
            {
                "pipeline.yaml": "project: a\ninclude: [b.yaml]\n",
                "b.yaml": "include: [c.yaml]\n",
                "c.yaml": "include: [b.yaml]\n",
            },
            "c.yaml:1:11",
            "'b.yaml' takes in b.yaml, which is including it already",
            "take one of the two out",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\n", "b.yaml": "project: b\n"},
            "b.yaml:1:1",
            "'project' cannot be in an included file",
            "an included file may have alerts, connections, include, pipelines, vars",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\n", "b.yaml": "pipeline: b\n"},
            "b.yaml:1:1",
            "'pipeline' cannot be in an included file",
            "did you mean 'pipelines'?",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\n", "b.yaml": "- a\n"},
            "b.yaml:1:1",
            "the file has to be a block of keys",
            "it begins with `project: NAME`",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\n", "b.yaml": "pipelines: {}\n"},
            "b.yaml:1:12",
            "pipelines has to be a list",
            "see the project's own file",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\npipelines: x\n", "b.yaml": "pipelines: []\n"},
            "pipeline.yaml:3:12",
            "pipelines has to be a list",
            "an included file adds to it",
        ),
        (
            {"pipeline.yaml": "project: a\ninclude: [b.yaml]\nvars: {x: 1}\n", "b.yaml": "vars: {x: 2}\n"},
            "b.yaml:1:8",
            "'x' is there twice",
            "the first is at ",
        ),
    ],
    ids=["none", "variable", "itself", "circle", "project", "near", "list", "kind", "own-kind", "twice"],
)
def test_includes_that_cannot_be_are_refused(
    tmp_path: Path, files: dict[str, str], place: str, message: str, hint: str
) -> None:
    (found,) = included(tmp_path, files)

    assert (found.place, found.message) == (place, message)
    assert found.hint is not None
    assert found.hint.startswith(hint)


def test_an_empty_block_in_an_included_file_brings_nothing(tmp_path: Path) -> None:
    files = {"pipeline.yaml": f"include: b.yaml\nproject: shop\n{BODY}", "b.yaml": "connections:\nvars:\n"}

    assert list(load(with_files(tmp_path, files)).project.connections) == ["lake"]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n"])
def test_a_file_that_is_no_block_is_refused(tmp_path: Path, text: str) -> None:
    found = problem(tmp_path, text)

    assert found == ("pipeline.yaml:1:1", "the file has to be a block of keys", "it begins with `project: NAME`")


def test_what_every_file_needs_is_asked_for(tmp_path: Path) -> None:
    assert [each.message for each in problems(tmp_path, "description: x\n")] == [
        "'project' is missing in the file",
        "'pipelines' is missing in the file",
    ]
