"""Names, options and schemas as Spark wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - as everybody calls it


def spark_options(options: Mapping[str, Any]) -> dict[str, str]:
    """As Spark wants them: text, and true instead of True."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def nullable(schema: T.StructType) -> T.StructType:
    return T.StructType([T.StructField(each.name, each.dataType, True, each.metadata) for each in schema.fields])
