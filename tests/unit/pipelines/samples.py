"""Pipeline files that say only what a test is about."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines.config.tests import TestConfig
from headgate.pipelines.load import Loaded, load
from headgate.pipelines.plan import Plan, make_plan

HEAD = """\
project: shop
connections:
  bronze: {type: local, base_path: data/bronze}
  silver: {type: local, base_path: data/silver}
"""


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def indent(text: str, by: int) -> str:
    return textwrap.indent(dedent(text), " " * by)


def with_nodes(nodes: str, *, head: str = HEAD) -> str:
    """A project around a list of nodes."""
    return f"{head}pipelines:\n  - pipeline: daily\n    nodes:\n{indent(nodes, 6)}"


def place_of(text: str, needle: str) -> str:
    """Where some words of a file first are, as an editor would say it."""
    line, found = next((number, each) for number, each in enumerate(text.splitlines(), 1) if needle in each)
    return f"pipeline.yaml:{line}:{found.index(needle) + 1}"


def with_test(test: str) -> str:
    """A project whose one node has one test, given as the inside of a flow mapping."""
    return with_nodes(f"""
        - name: orders
          read: {{connection: bronze, path: orders}}
          validation:
            quarantine: {{connection: silver, path: bad_orders}}
            tests:
              - {{{test}}}
    """)


def saved(folder: Path, text: str, name: str = "pipeline.yaml") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def loaded(folder: Path, text: str, **options: Any) -> Loaded:
    return load(saved(folder, dedent(text)), **options)


def plan_of(folder: Path, text: str, **options: Any) -> Plan:
    return make_plan(loaded(folder, text), **options)


def problems(folder: Path, text: str, **options: Any) -> list[PipelineProblem]:
    """What is wrong with a file, with the places without the folder."""
    with pytest.raises(InvalidPipeline) as caught:
        loaded(folder, text, **options)
    return relative(caught.value.problems, folder)


def relative(found: list[PipelineProblem], folder: Path) -> list[PipelineProblem]:
    return [each._replace(place=each.place.replace(f"{folder.resolve()}/", "")) for each in found]


def problem(folder: Path, text: str, **options: Any) -> PipelineProblem:
    (found,) = problems(folder, text, **options)
    return found


def plan_problems(folder: Path, text: str, **options: Any) -> list[PipelineProblem]:
    with pytest.raises(InvalidPipeline) as caught:
        plan_of(folder, text, **options)
    return relative(caught.value.problems, folder)


def the_test(folder: Path, test: str) -> TestConfig:
    """The one test of a file that has it."""
    return loaded(folder, with_test(test)).project.pipelines[0].nodes[0].validation.tests[0]
