"""Transforms: SQL over `df` and the nodes that were named, and functions of the project's own modules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import ConfigError
from headgate.pipelines.config.transform import StepConfig, TransformConfig
from headgate.pipelines.spark.checks.said import first_line
from headgate.pipelines.spark.session import is_connect


def transform(
    spark: SparkSession,
    frame: DataFrame | None,
    config: TransformConfig | None,
    others: Mapping[str, DataFrame],
    folder: Path,
) -> DataFrame:
    """The rows after all steps. Analysed step by step, so that an error names the step it is in."""
    for name, other in others.items():
        # Names of nodes may have a dash in them.
        other.createOrReplaceTempView(f"`{name}`")
    if config is None:
        assert frame is not None
        return frame
    if frame is not None:
        frame.createOrReplaceTempView("df")
        frame.createOrReplaceTempView("source")
    for number, step in enumerate(config.steps, 1):
        frame = _settled(spark, _stepped(spark, frame, step, number, folder), number)
        frame.createOrReplaceTempView("df")
    assert frame is not None
    return frame


def _settled(spark: SparkSession, frame: DataFrame, number: int) -> DataFrame:
    """Spark Connect looks `df` up whenever it is asked; under a name of its own a step stays what it was."""
    if not is_connect(spark):
        return frame
    name = f"_headgate_step_{number}"
    frame.createOrReplaceTempView(name)
    return spark.table(name)


def _stepped(spark: SparkSession, frame: DataFrame | None, step: StepConfig, number: int, folder: Path) -> DataFrame:
    try:
        if step.function is None:
            return _checked(spark.sql(_text(step, folder)))
        if frame is None:
            raise ConfigError(f"step {number} is a function, and there is no df yet", hint="begin with sql")
        result = find_function(step.function, folder)(frame, **step.params)
    except PySparkException as error:
        raise ConfigError(f"step {number} of transform: {first_line(error)}") from error
    if not isinstance(result, DataFrame):
        raise ConfigError(f"{step.function} gave {type(result).__name__} and not a DataFrame", hint="return the frame")
    return result


def _checked(frame: DataFrame) -> DataFrame:
    # Spark Connect analyses only when it is asked.
    _ = frame.schema
    return frame


def _text(step: StepConfig, folder: Path) -> str:
    if step.sql is not None:
        return step.sql
    path = folder / str(step.sql_file)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def find_function(name: str, folder: Path) -> Callable[..., Any]:
    """`module:function`, from the folder of the pipeline file first."""
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise ConfigError(f"there is no module {module_name!r}", hint=f"put {module_name}.py into {folder}") from None
    found: Callable[..., Any] | None = getattr(module, function_name, None)
    if found is None or not callable(found):
        known = [each for each in dir(module) if callable(getattr(module, each)) and not each.startswith("_")]
        raise ConfigError(
            f"{module_name} has no function {function_name!r}", hint=f"it has {', '.join(known) or 'none'}"
        )
    return found
