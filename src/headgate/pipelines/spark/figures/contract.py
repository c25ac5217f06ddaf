"""The columns that a batch should have, against those it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from headgate.pipelines.config.node import ContractConfig
from headgate.pipelines.config.tests.datasets import ColumnSpec, SchemaTest
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame, Unfit


def with_contract(tests: Sequence[NamedTest], contract: ContractConfig | None) -> list[NamedTest]:
    """The tests, where a schema test without columns has those of the contract, and is as strict."""
    return [_with_contract(test, contract) for test in tests]


def _with_contract(test: NamedTest, contract: ContractConfig | None) -> NamedTest:
    config = test.config
    if contract is None or not isinstance(config, SchemaTest) or config.columns:
        return test
    strict = config.strict if "strict" in config.model_fields_set else contract.strict
    return replace(test, config=config.model_copy(update={"columns": contract.columns, "strict": strict}))


def type_named(spark: SparkSession, spec: ColumnSpec) -> str | None:
    """The type as Spark writes it; it knows several names for most. Analysed only: there is no job."""
    if spec.type is None:
        return None
    return spark.sql(f"SELECT CAST(NULL AS {spec.type}) AS t").schema["t"].dataType.simpleString()


def breaches(test: SchemaTest, frame: Frame, types: Mapping[str, str | None]) -> list[str]:
    """What is other than promised; `types` are by the names in the test."""
    found = [breach for spec in test.columns if (breach := _breach(spec, frame, types.get(spec.name)))]
    named = {_top(spec.name, frame) for spec in test.columns}
    there = [field.name for field in frame.schema.fields]
    more = [name for name in there if name not in named]
    if test.strict and more:
        found.append(f"{', '.join(map(repr, more))} {'is' if len(more) == 1 else 'are'} there and not expected")
    if test.ordered and not found:
        found += _disorder([_top(spec.name, frame) for spec in test.columns], there)
    return found


def _breach(spec: ColumnSpec, frame: Frame, wanted: str | None) -> str | None:
    try:
        there = frame.type_of(spec.name).simpleString()
    except Unfit:
        return f"{spec.name!r} is missing"
    return f"{spec.name!r} is {there} and not {wanted}" if wanted is not None and there != wanted else None


def _top(name: str, frame: Frame) -> str | None:
    try:
        return frame.top_of(name)
    except Unfit:
        return None


def _disorder(wanted: Sequence[str | None], there: Sequence[str]) -> list[str]:
    expected = list(dict.fromkeys(name for name in wanted if name is not None))
    actual = [name for name in there if name in expected]
    return [] if actual == expected else [f"the columns are in the order {', '.join(actual)}"]
