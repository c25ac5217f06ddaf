"""Identity of datasets: which spellings of a namespace and a name mean one and the same dataset.

Pure text rules. This module does not know which datasets exist, who asks, or how they are stored; the SQL
functions canonical_namespace and canonical_urn give the same answers for the default patterns.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from headgate.domain.namespaces import (
    AZURE,
    BLANK,
    BLANK_OR_SLASH,
    CONNECTION_OPTIONS,
    DEFAULT_PORTS,
    FILE_DATABASES,
    FILE_SYSTEMS,
    OBJECT_STORES,
    PATH_SCHEMES,
    canonical_namespace,
    split_uri,
)
from headgate.domain.partitions import (
    DEFAULT_PATTERNS,
    Pattern,
    Patterns,
    context_of,
    cut_partitions,
    generalised,
    geo_key,
    is_staging_segment,
)
from headgate.errors import ConfigError

__all__ = [
    "DEFAULT_PATTERNS",
    "MAX_NAME_BYTES",
    "AliasRule",
    "DatasetName",
    "Pattern",
    "Patterns",
    "apply_rules",
    "canonical_dataset",
    "canonical_namespace",
    "canonical_urn",
    "compile_rules",
    "geo_key",
    "infer_type",
    "is_self_read",
    "is_staging",
    "partition_context",
    "simple_dataset",
    "split_location",
    "split_urn",
    "stronger_type",
]

MAX_NAME_BYTES: Final = 2000


class DatasetName(NamedTuple):
    """A dataset's identity, and what follows from how it was spelled."""

    namespace: str
    name: str
    partition_key: str | None
    display_name: str

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Root(NamedTuple):
    """Where paths of a namespace start, and the folder that the namespace itself already names."""

    namespace: str
    scheme: str
    authority: str
    folder: str


@lru_cache(maxsize=4096)
def _path_root(namespace: str) -> _Root | None:
    canonical = canonical_namespace(namespace)
    scheme, separator, rest = canonical.partition("://")
    if separator:
        authority, _, folder = rest.partition("/")
        root = f"{scheme}://{authority}"
        return _Root(root, scheme, authority, folder) if scheme in PATH_SCHEMES else None
    scheme, separator, folder = canonical.partition(":/")
    return _Root(scheme, scheme, "", folder) if scheme in FILE_SYSTEMS else None


def canonical_dataset(namespace: str, name: str, patterns: Patterns = DEFAULT_PATTERNS) -> DatasetName:
    """The identity of a dataset. Never raises, and gives the same answer for its own answer."""
    root = _path_root(namespace)
    text = name.strip(BLANK)
    if root is None:
        text = text or name
        return DatasetName(canonical_namespace(namespace), text, None, text)
    root, text = _resolve(root, text)
    segments = [part for part in text.split("/") if part.strip(BLANK)]
    # Blanks around a segment are no reason to keep it, and none to rewrite a path that is kept.
    bare = [part.strip(BLANK) for part in segments]
    kept, shown = cut_partitions(bare, patterns)
    path = "/".join(segments[:kept]).rstrip(BLANK)
    lead = "" if root.scheme in OBJECT_STORES or _is_relative(root, text) else "/"
    return DatasetName(
        root.namespace,
        lead + path or "/",
        _partition_key(root, lead, generalised(bare[:shown], patterns)),
        _display_name(root, path.rpartition("/")[2]),
    )


def _resolve(root: _Root, text: str) -> tuple[_Root, str]:
    """Join the namespace's folder and the name; a name that is a full location of its own wins over both."""
    inner = _inner_location(text)
    if inner is None and root.folder:
        lead = "" if root.scheme in OBJECT_STORES else "/"
        text = f"{lead}{root.folder}/{text}"
    while True:
        if root.scheme in OBJECT_STORES:
            text = text.lstrip(BLANK_OR_SLASH)
        inner = _inner_location(text)
        if inner is None:
            return root, text
        root, text = inner


def _inner_location(text: str) -> tuple[_Root, str] | None:
    uri = split_uri(text) if ":/" in text else None
    if uri is None or uri[0] not in PATH_SCHEMES:
        return None
    scheme, authority, path = uri
    root = _path_root(f"{scheme}://{authority}")
    return (root, path or "/") if root else None


def _is_relative(root: _Root, text: str) -> bool:
    return root.namespace == "file" and bool(text) and text[0] != "/"


def _partition_key(root: _Root, lead: str, segments: Sequence[str]) -> str:
    path = "/".join(segments)
    if "://" in root.namespace:
        return f"{root.namespace}/{path}" if path else root.namespace
    return f"{root.namespace}:{lead}{path}"


def _display_name(root: _Root, last: str) -> str:
    if root.scheme == "file" or not root.authority:
        return last or "/"
    host = root.authority.partition("@")[0] if root.scheme in AZURE else root.authority
    if root.scheme in FILE_SYSTEMS and not host.endswith("]"):
        host = host.rpartition(":")[0] or host
    return f"{host}:{last}" if last else host


def canonical_urn(urn: str, patterns: Patterns = DEFAULT_PATTERNS) -> str:
    """The urn that any spelling of it resolves to; text that holds no name is read as a namespace."""
    cut = _cut_urn(urn.strip(BLANK))
    return canonical_dataset(*cut, patterns).urn if cut else canonical_namespace(urn)


def _cut_urn(text: str) -> tuple[str, str] | None:
    """Namespace and name, cut where the kind of namespace says; None if there is no name."""
    uri = split_uri(text)
    if uri is None:
        namespace, slash, name = text.partition("/")
        return (namespace, name) if slash else None
    scheme, authority, path = uri
    if scheme in FILE_SYSTEMS:
        return f"{scheme}://{authority}", path
    if scheme in OBJECT_STORES:
        return f"{scheme}://{authority}", path[1:]
    if not path:
        return None
    at = _namespace_end(scheme, path)
    return f"{scheme}://{authority}{path[:at]}", path[at + 1 :]


def _namespace_end(scheme: str, path: str) -> int:
    """Where the namespace ends: a database file's path and Cosmos' /dbs/{db} belong to it."""
    if scheme in FILE_DATABASES:
        return path.rfind("/")
    parts = path.split("/", 3)
    return len(path) - len(parts[3]) - 1 if scheme == "azurecosmos" and len(parts) > 3 else 0


def split_urn(urn: str) -> list[tuple[str, str]]:
    """Every way to read a urn as namespace and name, the longest namespace first; paths have one way."""
    text = urn.strip(BLANK)
    cut = _cut_urn(text)
    if cut and _path_root(cut[0]):
        return [cut] if cut[1] else []
    start = text.index("://") + 3 if split_uri(text) else 0
    cuts = [at for at in range(start, len(text) - 1) if text[at] == "/"]
    return [(text[:at], text[at + 1 :]) for at in reversed(cuts) if at]


def split_location(location: str) -> tuple[str, str] | None:
    """Canonical namespace and path of a URI or absolute path, partitions kept; None for anything else.

    For a database URL the second part is the database, which may be empty.
    """
    text = location.strip(BLANK)
    if text.startswith("/"):
        return "file", text
    if _DRIVE.match(text):
        return "file", "/" + text.replace("\\", "/")
    uri = split_uri(text)
    if uri is None:
        return None
    scheme, authority, path = uri
    namespace = canonical_namespace(f"{scheme}://{authority}")
    if scheme in FILE_SYSTEMS:
        return namespace, path or "/"
    if scheme in OBJECT_STORES:
        return namespace, path.lstrip("/") or "/"
    if scheme in DEFAULT_PORTS:
        path = CONNECTION_OPTIONS.sub("", path)
    return namespace, path.strip("/")


def simple_dataset(
    name: str,
    *,
    location: str | None = None,
    database: str | None = None,
    catalog: str | None = None,
    default_namespace: str,
) -> tuple[str, str]:
    """Namespace and name for a dataset of the simple JSON form, as an OpenLineage event would give them.

    A location is the identity, whatever the name says, and its partitions are kept for the partition key.
    Otherwise the catalog is the namespace, else the database; the name is then `database.table`, with or
    without a catalog, so that adding one to a job later changes the namespace alone.
    """
    name = name.strip(BLANK)
    place = split_location(location or "")
    if place is not None and _is_database(place[0]):
        return place[0], _qualified(name, place[1].replace("/", "."))
    place = place or split_location(name)
    if place is not None and place[1]:
        return place
    catalog = (catalog or "").strip(BLANK)
    database = (database or "").strip(BLANK)
    server = split_location(database)
    if server is not None:
        return catalog or server[0], _qualified(name, server[1].replace("/", "."))
    if catalog and name.startswith(f"{catalog}."):
        name = name.removeprefix(f"{catalog}.")
    return catalog or database or default_namespace, _qualified(name, database)


def _is_database(namespace: str) -> bool:
    scheme = namespace.partition(":")[0]
    return scheme in DEFAULT_PORTS and scheme not in PATH_SCHEMES and scheme not in _NAMED_BY_PATH


def _qualified(name: str, database: str) -> str:
    has_it = not database or name == database or name.startswith(f"{database}.")
    return name if has_it else f"{database}.{name}"


# Servers whose URL names the very thing: a page, a topic, a queue.
_NAMED_BY_PATH = frozenset({"http", "https", "kafka", "pulsar", "amqp"})
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_DATA_SUFFIX = re.compile(
    r".*\.(?:parquet|orc|avro|csv|tsv|json|jsonl|ndjson|txt|xml|xlsx?|gz|zst|arrow)", re.IGNORECASE
)
_FORMAT_WORD = re.compile(r"(?:^|[^A-Za-z0-9])(iceberg|delta)(?:$|[^A-Za-z0-9])", re.IGNORECASE)
_TYPES_BY_SCHEME: Final[Mapping[str, str]] = {
    "s3": "s3",
    "gs": "gcs",
    "abfss": "azure",
    "wasbs": "azure",
    "adl": "azure",
    "hdfs": "hdfs",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "viewfs": "hdfs",
    "dbfs": "dbfs",
    "kafka": "stream",
    "pulsar": "stream",
}


def infer_type(name: str, location: str | None = None, declared: str | None = None) -> str:
    """What a dataset is. A declared type stands, but `File` only says that the location decides."""
    stated = (declared or "").strip(BLANK).lower()
    if stated and stated != "file":
        return stated
    place = split_location(location or "") or split_location(name)
    if place is not None:
        scheme = place[0].partition(":")[0]
        fallback = "file" if scheme in PATH_SCHEMES else "table"
        return _TYPES_BY_SCHEME.get(scheme, stated or fallback)
    if stated or _DATA_SUFFIX.fullmatch(name):
        return "file"
    word = _FORMAT_WORD.search(name)
    return word[1].lower() if word else "table"


def stronger_type(known: str | None, new: str) -> str:
    """The type to keep: `table` and `file` are what we say for want of anything better."""
    return known if known and new in ("table", "file") and known != new else new


def partition_context(path: str, patterns: Patterns = DEFAULT_PATTERNS) -> dict[str, str]:
    """Country, region, date and other values that the segments of a location carry."""
    place = split_location(path)
    return context_of([part for part in (place[1] if place else path).split("/") if part], patterns)


def is_staging(path: str) -> bool:
    """Whether a path lies in a folder that a writer uses only for itself."""
    return any(is_staging_segment(part) for part in path.split("/"))


def is_self_read(
    namespace: str,
    name: str,
    outputs: Collection[tuple[str, str]],
    patterns: Patterns = DEFAULT_PATTERNS,
) -> bool:
    """Whether a job only reads back what it writes: its output's dataset, or its scratch files."""
    if is_staging(name):
        return True
    read = canonical_dataset(namespace, name, patterns)[:2]
    return any(canonical_dataset(*output, patterns)[:2] == read for output in outputs)


_VARIABLE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(\*?)\}")


class _Template(NamedTuple):
    """Text with variables, matched in time linear in its length.

    Names come from clients, and a regular expression of three variables can take seconds on a hostile one.
    """

    head: str
    parts: tuple[tuple[str, str, str], ...]  # name, "*" if it may hold slashes, the text that follows

    @classmethod
    def parse(cls, pattern: str) -> _Template:
        pieces = _VARIABLE.split(pattern)
        return cls(pieces[0], tuple(zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)))

    def values(self, text: str) -> dict[str, str] | None:
        """What each variable stands for, the earlier the longer; None if the text does not fit."""
        if not self.parts or not text.startswith(self.head):
            return {} if text == self.head else None
        stages = [[len(self.head)]]  # where each variable may begin
        for index, (_, star, literal) in enumerate(self.parts, start=1):
            last = index == len(self.parts)
            stages.append(_ends(text, stages[-1], star, literal, last=last))
        if not stages.pop():
            return None
        found: dict[str, str] = {}
        end = len(text)
        for (name, _, literal), starts in zip(reversed(self.parts), reversed(stages), strict=True):
            stop = end - len(literal)
            end = starts[bisect_left(starts, stop) - 1]
            found[name] = text[end:stop]
        return found


def _ends(text: str, starts: Sequence[int], star: str, literal: str, *, last: bool) -> list[int]:
    """Where `literal` may end after a variable that begins at one of `starts`."""
    ends: list[int] = []
    stop = len(text) - len(literal) if last else text.find(literal)
    while stop >= 0 and text.startswith(literal, stop):
        nearest = bisect_left(starts, stop) - 1
        if nearest >= 0 and (star or text.find("/", starts[nearest], stop) < 0):
            ends.append(stop + len(literal))
        stop = -1 if last else text.find(literal, stop + 1)
    return ends


@dataclass(frozen=True)
class AliasRule:
    """Maps each urn that fits `pattern` to `canonical`; `{v}` is text without a slash, `{v*}` any text."""

    pattern: str
    canonical: str
    _spelled: _Template = field(init=False, repr=False, compare=False)
    _folded: _Template = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = _check_variables(self.pattern)
        for name in (match[1] for match in _VARIABLE.finditer(_balanced(self.canonical))):
            if name not in known:
                raise ConfigError(
                    f"alias {self.canonical!r} uses {name!r}, which pattern {self.pattern!r} does not have",
                    hint=f"use one of {', '.join(sorted(known)) or '(none)'}, or add {{{name}}} there",
                )
        if _cut_urn(self.canonical) is None:
            raise ConfigError(
                f"alias {self.canonical!r} has no name",
                hint="write namespace/name, such as postgres://db/{table}",
            )
        object.__setattr__(self, "_spelled", _Template.parse(self.pattern))
        object.__setattr__(self, "_folded", _Template.parse(_folded_head(self.pattern)))

    def target(self, raw: str, canonical: str) -> str | None:
        """The urn this rule gives for a dataset, matched as it was sent and as it is known."""
        values = self._folded.values(canonical)
        if values is None:
            values = self._spelled.values(raw)
        found = values or {}
        return None if values is None else _VARIABLE.sub(lambda variable: found[variable[1]], self.canonical)


def _balanced(text: str) -> str:
    rest = _VARIABLE.sub("", text)
    if not text.strip(BLANK) or "{" in rest or "}" in rest:
        raise ConfigError(
            f"alias text {text!r} is empty or has a brace that opens or closes nothing",
            hint="write variables as {name} or {name*}",
        )
    return text


def _check_variables(pattern: str) -> set[str]:
    names = [name for name, _ in _VARIABLE.findall(_balanced(pattern))]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"alias pattern {pattern!r} has {twice!r} twice", hint="give each variable its own name")
    if "}{" in pattern:
        raise ConfigError(
            f"alias pattern {pattern!r} has two variables side by side", hint="put text between variables"
        )
    return set(names)


def _folded_head(pattern: str) -> str:
    """The pattern with its namespace in canonical spelling, so that a rule holds for every spelling of it."""
    cut = _cut_urn(pattern.strip(BLANK))
    if cut is None or "{" in cut[0]:
        return pattern
    root = _path_root(cut[0])
    if root is None or root.scheme in OBJECT_STORES or _is_relative(root, cut[1]):
        return f"{canonical_namespace(cut[0])}/{cut[1]}"
    return f"{root.namespace}//{cut[1].lstrip('/')}"


def compile_rules(rows: Iterable[tuple[str, str]]) -> tuple[AliasRule, ...]:
    """Alias rules in the order in which they are tried; ConfigError for one that cannot work."""
    return tuple(AliasRule(pattern, canonical) for pattern, canonical in rows)


def apply_rules(
    dataset: str | tuple[str, str],
    rules: Sequence[AliasRule],
    patterns: Patterns = DEFAULT_PATTERNS,
) -> tuple[str, str] | None:
    """Namespace and name that the first fitting rule gives to a dataset; None if no rule fits."""
    if not rules:
        return None
    if isinstance(dataset, str):
        raw, canonical = dataset, canonical_urn(dataset, patterns)
    else:
        raw, canonical = "/".join(dataset), canonical_dataset(*dataset, patterns).urn
    target = next((urn for rule in rules if (urn := rule.target(raw, canonical)) is not None), None)
    cut = _cut_urn(target) if target else None
    return canonical_dataset(*cut, patterns)[:2] if cut else None
