"""Requests for every operation of the OpenAPI document, with chosen values wherever an id or a text goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Document = dict[str, Any]
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")


class Operation(NamedTuple):
    method: str
    path: str
    details: Document

    @property
    def id(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def is_public(self) -> bool:
        return not self.details.get("security")

    @property
    def is_endless(self) -> bool:
        """Whether a good answer goes on until somebody hangs up."""
        return "text/event-stream" in self.details["responses"].get("200", {}).get("content", {})

    def parameters(self, place: str) -> list[Document]:
        return [item for item in self.details.get("parameters", ()) if item["in"] == place]


def operations(document: Document) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        for method, details in item.items():
            if method in METHODS:
                yield Operation(method, path, details)


class Probe(NamedTuple):
    """A request that names what belongs to somebody else."""

    method: str
    url: str
    params: dict[str, str]
    body: Any


def probes(document: Document, operation: Operation, ids: list[str], texts: list[str]) -> Iterator[Probe]:
    """The operation once for each id, and for each text where a path takes any text."""
    path_parameters = operation.parameters("path")
    wants_ids = all(parameter["schema"].get("format") == "uuid" for parameter in path_parameters)
    for value in ids if wants_ids else ids + texts:
        url = operation.path
        for parameter in path_parameters:
            url = url.replace(f"{{{parameter['name']}}}", value)
        yield Probe(operation.method, url, {}, body_of(document, operation, value))
        if not path_parameters and not _takes_body(operation):
            return


def _takes_body(operation: Operation) -> bool:
    return "requestBody" in operation.details


def body_of(document: Document, operation: Operation, value: str) -> Any:
    if not _takes_body(operation):
        return None
    schema = operation.details["requestBody"]["content"]["application/json"]["schema"]
    return example(document, schema, value)


def example(document: Document, schema: Document, value: str) -> Any:
    """A value that fits the schema, with `value` wherever an id or a free text is wanted."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return example(document, document["components"]["schemas"][name], value)
    if "enum" in schema:
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return example(document, next(choice for choice in choices if choice.get("type") != "null"), value)
    kind = schema.get("type", "object")
    kind = next(iter(kind)) if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example(document, part, value) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [example(document, schema.get("items", {}), value)]
    if kind == "string":
        return _text(schema, value)
    return {"integer": schema.get("minimum", 1), "number": 1.0, "boolean": True}.get(kind)


def _text(schema: Document, value: str) -> str:
    if "examples" in schema:
        return str(schema["examples"][0])
    formats = {"email": f"{value}@probe.example.org", "date-time": "2026-03-01T10:00:00Z", "uri": "https://x.example"}
    return formats.get(schema.get("format", ""), value)
