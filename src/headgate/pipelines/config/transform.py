"""What happens to the rows between reading and testing: SQL and named Python functions, in order."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from headgate.pipelines.config.strict import Strict

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class StepConfig(Strict):
    """One step. `df` is what the step before gave; other nodes go by their names."""

    sql: str | None = Field(default=None, min_length=1)
    sql_file: str | None = Field(default=None, description="A file with the SQL, beside the pipeline file.")
    function: str | None = Field(default=None, description="`module:function`; takes a DataFrame, gives one.")
    params: dict[str, Any] = Field(default_factory=dict, repr=False, description="Further arguments of the function.")

    @model_validator(mode="before")
    @classmethod
    def _text_is_sql(cls, value: object) -> object:
        return {"sql": value} if isinstance(value, str) else value

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, value: str | None) -> str | None:
        if value is not None and not _FUNCTION.fullmatch(value):
            raise ValueError(f"{value!r} names no function: write module:function, as cleaning:trim_names")
        return value

    @model_validator(mode="after")
    def _one_deed(self) -> Self:
        given = [name for name in ("sql", "sql_file", "function") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(f"say one of sql, sql_file and function; {said} {'are' if len(given) > 1 else 'is'} there")
        if self.params and self.function is None:
            raise ValueError("params belong to a function; in SQL write ${NAME} and set vars")
        return self


class TransformConfig(Strict):
    """The steps, in order."""

    steps: list[StepConfig] = Field(min_length=1)
