"""The documentation against the code: what a page names exists, and what exists is named."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import CollectorRegistry

from headgate import errors
from headgate.cli import alerts
from headgate.cli.main import app
from headgate.domain.names import DEFAULT_PATTERNS, MAX_NAME_BYTES, canonical_dataset
from headgate.openlineage import facets, simple_events
from headgate.openlineage.project import MAX_DATASETS
from headgate.server.app import create_app
from headgate.server.db.migrate import migrations
from headgate.server.db.pool import Database
from headgate.server.ingest.edges import MAX_EDGES
from headgate.server.kinds import kinds_of
from headgate.server.names.store import MAX_CHANGES, MAX_PATTERNS, MAX_RULES
from headgate.server.problems import STATUS
from headgate.server.telemetry import Telemetry
from headgate.settings import Rate, Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        ROOT / ".github" / "pull_request_template.md",
    ]
)
FOLDERS = "src|tests|docs|examples|scripts|requirements|benchmarks"
PREFIX = Settings.model_config["env_prefix"]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows_of(name: str) -> Iterator[list[str]]:
    """The rows of every table of a page, without the marks around code."""
    for line in text_of(name).splitlines():
        if line.startswith("|"):
            yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def fences(page: Path, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [block for spoken, block in found if spoken == language]


def unnamed(names: Iterable[str], *pages: str) -> list[str]:
    """Those that no page has between the marks of code."""
    written = "\n".join(map(text_of, pages))
    return [name for name in names if not re.search(rf"`[^`\n]*(?<![\w-]){re.escape(name)}(?![\w-])", written)]


def test_readme_names_the_two_commands() -> None:
    assert {"make demo", "make test"} <= {line.strip() for line in text_of("README.md").splitlines()}


def test_every_page_is_found() -> None:
    assert {page.name for page in PAGES} >= {"README.md", "CONTRIBUTING.md", "SECURITY.md", "api.md", "operations.md"}


def shown(value: object, *, is_rate: bool) -> str:
    if value is None or value == ():
        return "off" if is_rate else "unset"
    if isinstance(value, Rate):
        return f"{value.per_second:g}/{value.burst}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_settings_table_has_every_setting_with_its_default() -> None:
    documented = {row[0]: row[1] for row in rows_of("docs/operations.md") if row[0].startswith(PREFIX)}
    assert documented == {
        f"{PREFIX}{name.upper()}": shown(field.default, is_rate="rate_" in name)
        for name, field in Settings.model_fields.items()
    }


@each_page
def test_no_page_names_a_variable_that_nothing_reads(page: Path) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    known |= variables_of_commands() | variables_of_scripts()
    assert set(re.findall(rf"{PREFIX}[A-Z_]+", page.read_text(encoding="utf-8"))) <= known


def variables_of_commands() -> set[str]:
    options = (option for _, command in commands() for option in command.params)
    # Secrets that no option takes: they are read from the environment, or asked for.
    return {name for option in options if isinstance(name := option.envvar, str)} | {alerts.SECRET, alerts.PASSWORD}


def variables_of_scripts() -> set[str]:
    scripts = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")]
    return {name for script in scripts for name in re.findall(rf'"({PREFIX}[A-Z_]+)"', script.read_text("utf-8"))}


def test_operations_names_the_variables_of_the_commands() -> None:
    assert variables_of_commands() - set(re.findall(rf"{PREFIX}[A-Z_]+", text_of("docs/operations.md"))) == set()


def commands(group: Any = None, path: str = "headgate") -> Iterator[tuple[str, Any]]:
    """Every command of the command line that does something, as it is typed."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_every_command_is_named_in_the_readme() -> None:
    assert unnamed((path for path, _ in commands()), "README.md") == []


@each_page
def test_pages_name_commands_that_exist(page: Path) -> None:
    known = {path for path, _ in commands()} | {"headgate keys"}
    typed = re.findall(r"(?:`|\.venv/bin/|^)(headgate(?: [a-z]+)?)", page.read_text(encoding="utf-8"), re.MULTILINE)
    groups = {path.rsplit(" ", 1)[0] for path in known}
    assert {command for command in typed if " " in command} <= known | groups


@each_page
def test_pages_name_make_targets_that_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    named = re.findall(r"(?:`|^)make ([a-z][a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


def error_classes(base: type[errors.HeadgateError] = errors.HeadgateError) -> Iterator[type[errors.HeadgateError]]:
    yield base
    for cls in base.__subclasses__():
        if cls.__module__ == errors.__name__:
            yield from error_classes(cls)


def test_error_table_has_every_code_with_its_status() -> None:
    # A class without a code of its own is answered as the one above it.
    own = [cls for cls in error_classes() if "code" in vars(cls)]
    expected = {cls.code: str(STATUS.get(cls, "none")) for cls in own} | {"internal": "500"}
    rows = [row for row in rows_of("docs/api.md") if len(row) == 3 and "/" not in row[0]]
    assert {row[0]: row[1] for row in rows if re.fullmatch(r"\d{3}|none", row[1])} == expected


@cache
def openapi() -> dict[str, Any]:
    server = create_app(Settings(database_url=None), Database("postgresql://nowhere/nothing"), telemetry=Telemetry())
    document: dict[str, Any] = server.api.openapi()  # type: ignore[attr-defined]  # the FastAPI application
    return document


def generalised(route: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", route.partition("?")[0])


def test_every_route_is_named_in_the_api_pages_and_the_other_way_round() -> None:
    served = {
        f"{method.upper()} {generalised(path)}"
        for path, methods in openapi()["paths"].items()
        for method in methods
        if path.startswith(("/api/", "/marquez/"))
    }
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("api*/**/*.md"))
    named = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /(?:api|marquez)/[^`\s]*)`", text_of("docs/api.md") + pages)
    assert {generalised(route) for route in named} == served


def test_every_metric_is_in_the_operations_page_and_the_other_way_round() -> None:
    telemetry = Telemetry()
    create_app(Settings(database_url=None), Database("postgresql://nowhere/nothing"), telemetry=telemetry)
    documented = {row[0] for row in rows_of("docs/operations.md") if row[0].startswith("headgate_") and len(row) == 3}
    assert documented - {"headgate_owner", "headgate_app"} == set(metric_names(telemetry.registry))


def metric_names(registry: CollectorRegistry) -> Iterator[str]:
    suffixes = {"counter": "_total", "info": "_info"}
    for metric in registry.collect():
        if metric.name.startswith("headgate_"):
            yield metric.name + suffixes.get(metric.type, "")


def test_every_view_and_recurring_task_is_in_the_operations_page() -> None:
    views = {name for each in migrations() for name in re.findall(r"CREATE (?:OR REPLACE )?VIEW (\w+)", each.sql)}
    kinds = {kind.task_type for kind in kinds_of(Settings(_env_file=None))}
    assert unnamed(views | kinds, "docs/operations.md") == []


def test_every_facet_that_is_understood_or_made_is_in_the_openlineage_page() -> None:
    own = {name for name in simple_events._FACETS if name.startswith("headgate_")}
    assert unnamed(own | set(facets._STRUCTS), "docs/openlineage.md") == []


def test_every_default_name_pattern_is_in_the_openlineage_page_as_it_is() -> None:
    rows = [row for row in rows_of("docs/openlineage.md") if len(row) == 4 and row[3] in {"yes", "no"}]
    documented = {name: (row[2], row[3] == "yes") for row in rows for name in re.findall(r"\w+", row[0])}
    assert documented == {pattern.name: (pattern.kind, pattern.enabled) for pattern in DEFAULT_PATTERNS.items}


def test_names_in_the_openlineage_page_are_what_the_rules_make_of_them() -> None:
    rows = [row for row in rows_of("docs/openlineage.md") if len(row) == 3 and row[0] in NAME_RULES]
    assert len(rows) == len(NAME_RULES)
    for _, sent, known in rows:
        spelled, expected = re.findall(r"[^\s,`]+(?:,[^\s`]+)?", sent), re.findall(r"[^\s,`]+", known)
        targets = expected if len(expected) > 1 else expected * len(spelled)
        for text, result in zip(spelled, targets, strict=True):
            found = canonical_dataset(text, "t") if "://" in text else canonical_dataset("s3://lake", text)
            assert (found.namespace if "://" in text else found.name) == result


NAME_RULES = (
    "one scheme a storage",
    "default ports go, others stay",
    "hosts are lower case, buckets stay",
    "credentials and options go",
    "the first broker in the alphabet",
    "trailing partitions go",
    "files of tasks go",
)


@pytest.mark.parametrize("limit", [MAX_NAME_BYTES, MAX_DATASETS, MAX_EDGES, MAX_RULES, MAX_PATTERNS, MAX_CHANGES])
def test_fixed_limits_are_in_the_api_page(limit: int) -> None:
    assert re.search(rf"(?<![\d,]){limit:,}(?![\d,])", text_of("docs/api.md"))


@each_page
def test_pages_name_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w", text))
    named |= set(re.findall(r"`((?:headgate|domain|openlineage|server|cli)/[\w./-]+\.\w+)`", text))
    roots = (ROOT, ROOT / "src", ROOT / "src" / "headgate")
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" not in link and not (target.exists() and (not anchor or anchor in anchors(target))):
            broken.append(link)
    assert broken == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_no_page_names_a_place_on_somebodys_machine(page: Path) -> None:
    places = r"(?<![\w.])(?:/(?:work|home|root|tmp|Users|private)/|[A-Za-z]:\\)\S*"
    assert re.findall(places, page.read_text(encoding="utf-8")) == []


@each_page
def test_json_blocks_parse(page: Path) -> None:
    for block in fences(page, "json"):
        json.loads(block)


@each_page
def test_json_in_commands_parses(page: Path) -> None:
    for block in fences(page, ""):
        for body in re.findall(r"-d '(\{.*?\})'", block, re.DOTALL):
            json.loads(body)


def test_index_of_decisions_lists_every_page() -> None:
    pages = {page.name for page in (ROOT / "docs" / "adr").glob("0*.md")}
    assert set(re.findall(r"\]\((0[^)]+)\)", text_of("docs/adr/README.md"))) == pages


def test_every_runtime_dependency_has_its_reason() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    names = {re.match(r"[\w.-]+", dependency)[0] for dependency in project["dependencies"]}  # type: ignore[index]
    rows = [row for row in rows_of("docs/adr/0004-dependencies.md") if len(row) == 3]
    assert {row[0] for row in rows[2:]} == names
