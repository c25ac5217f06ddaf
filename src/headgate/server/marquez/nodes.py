"""Names of nodes as Marquez writes them, `dataset:NAMESPACE:NAME`, and the ways to read them.

A namespace holds colons of its own, so a node may be cut in several ways; what exists decides between them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.domain.names import canonical_dataset, canonical_namespace
from headgate.errors import FieldError, InvalidFields
from headgate.server.references.ids import as_id

KINDS: Final = ("dataset", "datasetField", "job", "run")
_MAX_CUTS: Final = 50
_HINT: Final = "write dataset:NAMESPACE:NAME, datasetField:NAMESPACE:NAME:FIELD, job:NAMESPACE:NAME or run:ID"

Key = tuple[str, str]


class NodeId(NamedTuple):
    kind: str
    text: str


def parse(node_id: str) -> NodeId:
    """Kind and the rest; a version at the end is refused, since only what is current can be shown."""
    kind, _, text = node_id.partition(":")
    if kind not in KINDS or not (text if kind == "run" else cuts(text)):
        raise InvalidFields([FieldError("query.nodeId", "is not the id of a node", node_id[:120])], hint=_HINT)
    if as_id(text.rpartition("#")[2]) is not None and "#" in text:
        raise InvalidFields(
            [FieldError("query.nodeId", "names a version; only the current lineage is kept here", node_id[:120])],
            hint="leave out the '#' and what follows",
        )
    return NodeId(kind, text)


def cuts(text: str) -> list[Key]:
    """Every way to read the text as namespace and name, the longest namespace first."""
    places = [at for at in range(1, len(text) - 1) if text[at] == ":"]
    return [(text[:at], text[at + 1 :]) for at in reversed(places)][:_MAX_CUTS]


def dataset_node(namespace: str, name: str) -> str:
    return f"dataset:{namespace}:{name}"


def job_node(namespace: str, name: str) -> str:
    return f"job:{namespace}:{name}"


def field_node(namespace: str, name: str, field: str) -> str:
    return f"datasetField:{namespace}:{name}:{field}"


def namespace_spellings(text: str) -> list[str]:
    """As it was asked for, and as datasets know it."""
    return list(dict.fromkeys((text, canonical_namespace(text), canonical_dataset(text, "x").namespace)))
