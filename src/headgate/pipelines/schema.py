"""The JSON Schema of pipeline files, for editors: what the models accept, in the words of draft 2020-12.

`python -m headgate.pipelines.schema` writes it to docs/pipeline.schema.json, or to the path that it is given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from headgate.pipelines.config import ProjectConfig
from headgate.pipelines.config.strict import Strict
from headgate.pipelines.load import INCLUDED, OVERLAID

ID = "urn:headgate:pipeline:1"
FILE = Path("docs") / "pipeline.schema.json"
Schema = dict[str, Any]
_VARIABLE: Schema = {"$ref": "#/$defs/Variable"}


def _one_of(*keys: str) -> Schema:
    return {"oneOf": [{"required": [key]} for key in keys]}


def _any_of(*keys: str) -> Schema:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _mode(mode: str, key: str) -> Schema:
    is_mode = {"properties": {"mode": {"const": mode}}, "required": ["mode"]}
    return {"if": is_mode, "then": {"required": [key]}}


_BOUNDED = ("RangeTest", "LengthTest", "RowCountTest", "AggregateTest", "QuantileTest", "DistinctCountTest")
# What the models ask for across several keys.
_ALSO: dict[str, list[Schema]] = {
    "ReadConfig": [_one_of("path", "table", "query", "topic")],
    "WriteConfig": [_one_of("path", "table", "topic"), _mode("overwrite_partitions", "partition_by")],
    "QuarantineConfig": [_one_of("path", "table")],
    "ReferenceConfig": [_one_of("node", "connection")],
    "NodeConfig": [_any_of("read", "depends_on")],
    "CustomQueryTest": [{"dependentRequired": {"operator": ["value"], "value": ["operator"]}}],
    **{name: [_any_of("min", "max")] for name in _BOUNDED},
}


def json_schema() -> Schema:
    """The schema of a project's own file; `$defs/IncludedFile` is that of the files it includes."""
    root = ProjectConfig.model_json_schema()
    definitions: dict[str, Schema] = root.pop("$defs")
    for model in _models(Strict):
        block = root if model is ProjectConfig else definitions.get(model.__name__)
        if block is not None:
            _add_spellings(model, block)
            block.setdefault("allOf", []).extend(_ALSO.get(model.__name__, []))
            _tidy(block)
    _take_plain_sql(definitions)
    for block in (root, *definitions.values()):
        _refine(block, definitions)
    definitions["Variable"] = {
        "type": "string",
        "pattern": r"\$\{[^{}]+\}",
        "description": "A value of vars or of the environment: ${NAME}, ${env:NAME}.",
    }
    definitions["IncludedFile"] = _included(root)
    _open_root(root)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, "title": "Headgate pipeline file"}
    return {**root, **head, "$defs": dict(sorted(definitions.items()))}


def text() -> str:
    """The schema as its file has it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _models(above: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in above.__subclasses__():
        yield model
        yield from _models(model)


def _add_spellings(model: type[BaseModel], block: Schema) -> None:
    """Keys that have two names: either will do, and only one of them."""
    properties, required = block.get("properties", {}), block.get("required", [])
    for name, field in model.model_fields.items():
        first, *others = _spellings(name, field)
        for other in others:
            properties[other] = {**properties[first], "description": f"Another word for {first}."}
        if others and first in required:
            required.remove(first)
            block.setdefault("allOf", []).append(_one_of(first, *others))
        elif others:
            alone = [{"not": {"required": [first, other]}} for other in others]
            block.setdefault("allOf", []).extend(alone)


def _spellings(name: str, field: FieldInfo) -> list[str]:
    if isinstance(field.validation_alias, AliasChoices):
        return [str(each) for each in field.validation_alias.choices]
    return [field.alias, name] if field.alias is not None and field.alias != name else [name]


def _tidy(block: Schema) -> None:
    for each in block.get("properties", {}).values():
        if each.get("default", ...) is None:
            del each["default"]
    for key in ("allOf", "required"):
        if key in block and not block[key]:
            del block[key]


def _take_plain_sql(definitions: dict[str, Schema]) -> None:
    step = definitions["StepConfig"]
    step["allOf"] = [_one_of("sql", "sql_file", "function")]
    definitions["StepConfig"] = {
        "title": "StepConfig",
        "description": step.pop("description"),
        "anyOf": [{"type": "string", "minLength": 1, "description": "SQL."}, step],
    }


def _refine(schema: Schema, definitions: dict[str, Schema]) -> None:
    """Unions are told apart by their type, and what is no text may be a variable."""
    for each in _inner(schema):
        _refine(each, definitions)
    if "discriminator" in schema:
        _tell_apart(schema)
    if "patternProperties" in schema:
        schema["additionalProperties"] = False
    for name, value in schema.get("properties", {}).items():
        if name != "type":
            schema["properties"][name] = _or_variable(value, definitions)


def _inner(schema: Schema) -> Iterator[Schema]:
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in ("properties", "patternProperties"):
        yield from schema.get(key, {}).values()
    for key in ("anyOf", "oneOf"):
        yield from schema.get(key, [])


def _tell_apart(schema: Schema) -> None:
    mapping: dict[str, str] = schema.pop("discriminator")["mapping"]
    del schema["oneOf"]
    schema["type"] = "object"
    schema["properties"] = {"type": {"enum": sorted(mapping)}}
    schema["required"] = ["type"]
    schema["allOf"] = [
        {"if": _is_type(tag for tag in sorted(mapping) if mapping[tag] == target), "then": {"$ref": target}}
        for target in dict.fromkeys(mapping[tag] for tag in sorted(mapping))
    ]


def _is_type(tags: Iterable[str]) -> Schema:
    return {"properties": {"type": {"enum": list(tags)}}, "required": ["type"]}


def _or_variable(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if not _is_bare(schema, definitions):
        return schema
    words = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in words}
    branches = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
    return {**words, "anyOf": [*branches, _VARIABLE]}


def _is_bare(schema: Schema, definitions: dict[str, Schema]) -> bool:
    """Whether it takes values, but no free text and no blocks, which could not be completed then."""
    if "$ref" in schema:
        return "enum" in definitions.get(schema["$ref"].rpartition("/")[2], {})
    if "anyOf" in schema:
        return any(_is_bare(each, definitions) for each in schema["anyOf"]) and not any(
            _is_text(each) for each in schema["anyOf"]
        )
    return schema.get("type") in ("integer", "number", "boolean", "array") or "enum" in schema or "pattern" in schema


def _is_text(schema: Schema) -> bool:
    return "string" in str(schema.get("type")) and "enum" not in schema and "pattern" not in schema


def _included(root: Schema) -> Schema:
    return {
        "type": "object",
        "title": "Included file",
        "description": "A file that a project's own file includes.",
        "properties": {key: root["properties"][key] for key in sorted(INCLUDED)},
        "additionalProperties": False,
    }


def _open_root(root: Schema) -> None:
    """Pipelines may all be in included files, and an environment says only what differs."""
    root["required"].remove("pipelines")
    root.setdefault("allOf", []).append(_any_of("pipelines", "include"))
    for environment in root["properties"]["environments"]["patternProperties"].values():
        environment["propertyNames"] = {"enum": sorted(OVERLAID)}


def main(arguments: list[str]) -> None:
    file = Path(arguments[0]) if arguments else FILE
    file.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
