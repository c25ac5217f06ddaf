"""YAML as plain values, with the place in the file where each came from.

Knows YAML 1.2's core schema (so that NO is a country and not false); knows nothing of what the values mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its types are a package of their own

from headgate.errors import InvalidPipeline, PipelineProblem

Loc = tuple[str | int, ...]
_INT = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {"": None, "~": None} | {
    spelling: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
# Longer ones are none that anybody means, and Python does not read them.
_LONGEST_NUMBER = 300
_STANDARD_TAG = "tag:yaml.org,2002:"
# Aliases of aliases make a small file endless.
_MAX_VALUES = 200_000


@dataclass(frozen=True)
class Place:
    """Where something stands, counted from 1 as editors do."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass
class Document:
    """The values of one or more files, and the places of keys and of values. Values may be secrets."""

    value: Any = field(repr=False)
    values: dict[Loc, Place] = field(default_factory=dict, repr=False)
    keys: dict[Loc, Place] = field(default_factory=dict, repr=False)

    def place(self, loc: Loc) -> Place:
        """The place of a value, or of the nearest block around it that is in a file."""
        for end in range(len(loc), -1, -1):
            if loc[:end] in self.values:
                return self.values[loc[:end]]
        raise KeyError(loc)

    def key_place(self, loc: Loc) -> Place:
        return self.keys.get(loc) or self.place(loc)


def read(file: Path) -> Document:
    """The file's values. What is no YAML, or has a key twice, is refused with its place."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _refused(file, "no such file", "give the path of a pipeline file, or run `headgate init`") from None
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text ({error.reason} at byte {error.start})"
        raise _refused(file, message, "save the file as UTF-8") from None
    except OSError as error:
        raise _refused(file, f"cannot be read: {error.strerror}") from None
    return parse(text, file)


def parse(text: str, file: Path) -> Document:
    """As `read`, from text that is at hand."""
    root = _composed(text, file)
    if root is None:
        raise _refused(file, "the file is empty", "`headgate init` writes one to begin with")
    document = Document(None)
    builder = _Builder(file, document)
    try:
        document.value = builder.build(root, ())
    except RecursionError:
        raise _refused(file, "the blocks are nested too deeply") from None
    if builder.problems:
        raise InvalidPipeline(builder.problems)
    return document


def _composed(text: str, file: Path) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Place(file, mark.line + 1, mark.column + 1) if mark else file
        raise _refused(at, f"not YAML: {error.problem or error.context}", _yaml_hint(text, error)) from None
    except yaml.YAMLError as error:
        raise _refused(file, f"not YAML: {' '.join(str(error).split())}") from None


def _yaml_hint(text: str, error: yaml.MarkedYAMLError) -> str | None:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "indent with spaces: YAML takes no tabs"
    if "mapping values are not allowed" in str(error.problem):
        return "text with `: ` in it has to be quoted"
    if "start any token" in str(error.problem):
        return "text that begins with @, ` or % has to be quoted"
    if "single document" in f"{error.context}":
        return "put what is behind `---` into a file of its own, and include it"
    return None


def _refused(at: Place | Path, message: str, hint: str | None = None) -> InvalidPipeline:
    return InvalidPipeline([PipelineProblem(str(at), message, hint)])


class _Builder:
    def __init__(self, file: Path, document: Document) -> None:
        self._file = file
        self._document = document
        self._open: set[int] = set()
        self._built = 0
        self.problems: list[PipelineProblem] = []

    def build(self, node: yaml.Node, loc: Loc) -> Any:
        self._document.values[loc] = self._place(node)
        self._count(node)
        if not node.tag.startswith(_STANDARD_TAG):
            self._refuse(node, f"the tag {node.tag} is not known here", "leave it out")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if id(node) in self._open:
            return self._refuse(node, "the block holds itself by an alias", "take the alias out")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*loc, index)) for index, item in enumerate(node.value)]
            return dict(self._pairs(node, loc))
        finally:
            self._open.discard(id(node))

    def _pairs(self, node: yaml.Node, loc: Loc) -> Iterator[tuple[str, Any]]:
        seen: dict[str, Place] = {}
        for key_node, value_node in self._merged(node, ()):
            place = self._place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, "a key has to be a word", "quote it if it holds brackets or braces")
                continue
            key = str(key_node.value)
            if key in seen:
                self._refuse(key_node, f"{key!r} is there twice", f"the first is at line {seen[key].line}")
                continue
            seen[key] = self._document.keys[(*loc, key)] = place
            yield key, self.build(value_node, (*loc, key))

    def _merged(self, node: yaml.Node, above: tuple[int, ...]) -> list[tuple[yaml.Node, yaml.Node]]:
        """The pairs of a block, with those that `<<: *anchor` brings in; its own win."""
        own: list[tuple[yaml.Node, yaml.Node]] = []
        brought: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == "<<" and _is_plain(key):
                brought += self._brought(key, value, (*above, id(node)))
            else:
                own.append((key, value))
        names = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
        for key, value in brought:
            if isinstance(key, yaml.ScalarNode) and key.value not in names:
                names.add(key.value)
                own.append((key, value))
        return own

    def _brought(
        self, key: yaml.Node, value: yaml.Node, above: tuple[int, ...]
    ) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if id(each) in above:
                self._refuse(key, "the block holds itself by an alias", "take the alias out")
            elif isinstance(each, yaml.MappingNode):
                yield from self._merged(each, above)
            else:
                self._refuse(key, "<< takes a block by its alias", "write it as `<<: *name`")

    def _count(self, node: yaml.Node) -> None:
        self._built += 1
        if self._built > _MAX_VALUES:
            raise _refused(self._place(node), f"the file has more than {_MAX_VALUES:,} values, aliases counted")

    def _refuse(self, node: yaml.Node, message: str, hint: str) -> None:
        self.problems.append(PipelineProblem(str(self._place(node)), message, hint))

    def _place(self, node: yaml.Node) -> Place:
        return Place(self._file, node.start_mark.line + 1, node.start_mark.column + 1)


def _is_plain(node: yaml.ScalarNode) -> bool:
    """Without quotes: libyaml says so by an empty style, Python's own parser by none."""
    return not node.style


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    if not _is_plain(node) or len(text) > _LONGEST_NUMBER:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
    return float(text.replace(".", "", 1) if text[-1] in "fFnN" else text) if _FLOAT.fullmatch(text) else text
