"""From a pipeline file to its project: includes, environments, variables, then the models' own rules.

Everything that is wrong is told at once, each with file:line:column and the way out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines import source
from headgate.pipelines.config import ProjectConfig
from headgate.pipelines.config.wording import findings, nearest
from headgate.pipelines.source import Document, Loc

_REFERENCE = re.compile(r"\$(\$?)\{([^{}\n]*)(\}?)")
_VARIABLE = re.compile(r"\s*(?:(env|vars)[:.])?\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
# What an included file may bring, and what an environment may change.
INCLUDED: dict[str, type] = {"connections": dict, "vars": dict, "pipelines": list, "alerts": list, "include": list}
OVERLAID = {"connections", "vars", "spark", "server", "alerts", "retry", "on_error"}
_KINDS: dict[type, str] = {dict: "a block of keys", list: "a list"}


@dataclass(frozen=True)
class Loaded:
    """A project as it will run, and where each part of it was said."""

    project: ProjectConfig
    document: Document = field(repr=False)
    file: Path
    environment: str | None

    @property
    def folder(self) -> Path:
        """Where the paths of the project's own file start."""
        return self.file.parent

    def folder_of(self, *loc: str | int) -> Path:
        """Where a relative path starts that was said at this location: at its own file."""
        return self.document.place(loc).file.parent

    def place(self, *loc: str | int) -> str:
        return str(self.document.place(loc))


def load(file: Path, *, environment: str | None = None, variables: Mapping[str, str] | None = None) -> Loaded:
    """The project of a file. `variables` win over its own vars; the process's environment comes last."""
    file = file.resolve()
    document = source.read(file)
    _take_includes(document, file, (), set())
    problems = list(_overlaid(document, environment))
    _set_variables(document, variables or {})
    filled = _Variables(document)
    filled.fill_all()
    problems += filled.problems
    project = None
    try:
        project = ProjectConfig.model_validate(document.value)
    except ValidationError as error:
        for loc, problem in findings(error, ProjectConfig, document):
            # What a value without its variable would have been is not known.
            if not any(loc[: len(unset)] == unset for unset in filled.unset):
                problems.append(problem)
    if problems or project is None:
        raise InvalidPipeline(sorted(problems, key=_by_place))
    return Loaded(project, document, file, environment)


def _by_place(problem: PipelineProblem) -> tuple[str, int, int]:
    file, line, column = problem.place.rsplit(":", 2)
    return file, int(line), int(column)


def _take_includes(document: Document, file: Path, above: tuple[Path, ...], taken: set[Path]) -> None:
    """Take in what the file includes, each file once however many ask for it."""
    if not isinstance(document.value, dict):
        raise _refused(document, (), "the file has to be a block of keys", "it begins with `project: NAME`")
    includes = document.value.get("include") or []
    for index, pattern in enumerate(includes if isinstance(includes, list) else [includes]):
        loc: Loc = ("include", index) if isinstance(includes, list) else ("include",)
        for other in _matching(document, loc, str(pattern), file.parent):
            if other in (*above, file):
                message = f"{str(pattern)!r} takes in {other.name}, which is including it already"
                raise _refused(document, loc, message, "take one of the two out")
            if other not in taken:
                taken.add(other)
                included = source.read(other)
                _take_includes(included, other, (*above, file), taken)
                _take_in(document, included)


def _matching(document: Document, loc: Loc, pattern: str, folder: Path) -> list[Path]:
    path = Path(pattern)
    start, below = (Path(path.anchor), str(path.relative_to(path.anchor))) if path.is_absolute() else (folder, pattern)
    found = sorted(each.resolve() for each in start.glob(below) if each.is_file()) if below.strip() else []
    if not found:
        hint = "variables are not known here" if "${" in pattern else f"paths start at {folder}"
        raise _refused(document, loc, f"{pattern!r} matches no file", hint)
    return found


def _take_in(document: Document, other: Document) -> None:
    for key, value in other.value.items():
        if key not in INCLUDED:
            hint = nearest(key, INCLUDED) or f"an included file may have {', '.join(sorted(INCLUDED))}"
            raise _refused(other, (key,), f"{key!r} cannot be in an included file", hint, is_key=True)
        if key == "include" or value is None:
            continue
        kind = INCLUDED[key]
        into = _room_for(document, other, key, kind)
        if not isinstance(value, kind):
            raise _refused(other, (key,), f"{key} has to be {_KINDS[kind]}", "see the project's own file")
        (_join_blocks if kind is dict else _join_lists)(document, other, key, into)


def _room_for(document: Document, other: Document, key: str, kind: type) -> Any:
    """The block that takes the included one; one that is not there begins where the other does."""
    if document.value.get(key) is None:
        document.value[key] = kind()
        document.values[(key,)] = other.place((key,))
    if not isinstance(document.value[key], kind):
        raise _refused(document, (key,), f"{key} has to be {_KINDS[kind]}", "an included file adds to it")
    return document.value[key]


def _join_lists(document: Document, other: Document, key: str, into: list[Any]) -> None:
    for index, item in enumerate(other.value[key]):
        _graft(document, other, (key, index), (key, len(into)))
        into.append(item)


def _join_blocks(document: Document, other: Document, key: str, into: dict[str, Any]) -> None:
    for name, item in other.value[key].items():
        if name in into:
            first = document.key_place((key, name))
            raise _refused(other, (key, name), f"{name!r} is there twice", f"the first is at {first}", is_key=True)
        _graft(document, other, (key, name), (key, name))
        into[name] = item


def _graft(document: Document, other: Document, start: Loc, to: Loc) -> None:
    for places, into in ((other.values, document.values), (other.keys, document.keys)):
        for loc, place in list(places.items()):
            if loc[: len(start)] == start:
                into[to + loc[len(start) :]] = place


def _overlaid(document: Document, environment: str | None) -> list[PipelineProblem]:
    """Put the environment over the file; what none of them may say is told, chosen or not."""
    environments = document.value.get("environments")
    environments = environments if isinstance(environments, dict) else {}
    problems = []
    for name, block in environments.items():
        for key in block if isinstance(block, dict) else ():
            if key not in OVERLAID:
                place = document.key_place(("environments", name, key))
                hint = nearest(key, OVERLAID) or f"it may change {', '.join(sorted(OVERLAID))}"
                problems.append(PipelineProblem(str(place), f"an environment cannot change {key!r}", hint))
    if environment is not None and environment not in environments:
        hint = nearest(environment, environments) or f"known environments: {', '.join(environments) or 'none'}"
        place = document.place(("environments",))
        problems.append(PipelineProblem(str(place), f"there is no environment {environment!r}", hint))
    elif environment is not None and isinstance(environments[environment], dict):
        _put_over(document, environment, environments[environment])
    return problems


def _put_over(document: Document, environment: str, block: dict[str, Any]) -> None:
    for key, value in block.items():
        if key in OVERLAID:
            merge = _merged_connections if key == "connections" else _merged
            document.value[key] = merge(document.value.get(key), value)
            _graft(document, document, ("environments", environment, key), (key,))


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}


def _merged_connections(below: Any, above: Any) -> Any:
    """A connection of another type has nothing in common with the one it stands for."""
    merged = _merged(below, above)
    for name, said in above.items() if isinstance(above, dict) and isinstance(below, dict) else ():
        before = below.get(name)
        if isinstance(said, dict) and isinstance(before, dict) and said.get("type") not in (None, before.get("type")):
            merged[name] = said
    return merged


def _set_variables(document: Document, variables: Mapping[str, str]) -> None:
    below = document.value.get("vars")
    if variables and (below is None or isinstance(below, dict)):
        document.value["vars"] = (below or {}) | dict(variables)


class _Variables:
    """Fills in `${NAME}`: from vars, which may use each other, then from the process's environment."""

    def __init__(self, document: Document) -> None:
        self._document = document
        found = document.value.get("vars")
        self._said: dict[str, Any] = found if isinstance(found, dict) else {}
        self._known: dict[str, Any] = {}
        self._open: list[str] = []
        self.problems: list[PipelineProblem] = []
        self.unset: set[Loc] = set()

    def fill_all(self) -> None:
        value = self._document.value
        for name in self._said:
            self._variable(name)
        if self._said:
            value["vars"] = self._known
        for key in list(value):
            if key not in ("vars", "environments", "include"):
                value[key] = self._filled(value[key], (key,))

    def _variable(self, name: str) -> Any:
        if name not in self._known:
            self._open.append(name)
            self._known[name] = self._filled(self._said[name], ("vars", name))
            self._open.pop()
        return self._known[name]

    def _filled(self, value: Any, loc: Loc) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(item, (*loc, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._filled(item, (*loc, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        whole = _REFERENCE.fullmatch(value)
        # A value that is nothing but a variable keeps the variable's type.
        return self._found(whole, loc) if whole else _REFERENCE.sub(lambda each: self._text(each, loc), value)

    def _text(self, reference: re.Match[str], loc: Loc) -> str:
        value = self._found(reference, loc)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        kind = "empty" if value is None else _KINDS[type(value)]
        return str(
            self._refuse(loc, f"{reference[0]} is {kind}, and cannot be a part of text", "use it as a whole value")
        )

    def _found(self, reference: re.Match[str], loc: Loc) -> Any:
        escape, inner, end = reference.groups()
        if escape:
            return reference[0][1:]
        named = _VARIABLE.fullmatch(inner) if end else None
        if named is None:
            hint = "write ${NAME} or ${env:NAME}; a plain ${ is written $${"
            return self._refuse(loc, f"{reference[0]!r} is no variable", hint)
        scope, name = named.groups()
        if scope != "env" and name in self._said and name not in self._open:
            return self._used(name, loc)
        if scope != "vars" and name in os.environ and name not in self._open[:-1]:
            return os.environ[name]
        return self._unset(scope, name, loc)

    def _used(self, name: str, loc: Loc) -> Any:
        value = self._variable(name)
        if any(unset[:2] == ("vars", name) for unset in self.unset):
            self.unset.add(loc)
        return value

    def _unset(self, scope: str | None, name: str, loc: Loc) -> str:
        if name in self._open and scope != "env":
            circle = " -> ".join([*self._open[self._open.index(name) :], name])
            return self._refuse(loc, f"${{{name}}} is made of itself: {circle}", "give one of them a value")
        where = {"env": "the environment has no", "vars": "vars has no", None: "neither vars nor the environment has"}
        near = None if scope == "env" else nearest(name, self._said)
        ways = f"set {name} in the environment" if scope == "env" else f"set it under vars or with --var {name}=VALUE"
        ways += ", or in the environment" if scope is None else ""
        return self._refuse(loc, f"${{{name}}} is not set: {where[scope]} {name}", near or ways)

    def _refuse(self, loc: Loc, message: str, hint: str) -> str:
        self.unset.add(loc)
        self.problems.append(PipelineProblem(str(self._document.place(loc)), message, hint))
        return ""


def _refused(document: Document, loc: Loc, message: str, hint: str, *, is_key: bool = False) -> InvalidPipeline:
    place = document.key_place(loc) if is_key else document.place(loc)
    return InvalidPipeline([PipelineProblem(str(place), message, hint)])
