"""What every test may say besides what it tests."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, Field, model_validator

from headgate.domain.gate import OnFail
from headgate.pipelines.config.strict import Column, OneOrMore, Rate, Strict


class TestConfig(Strict):
    """The common fields. A NULL passes a value test unless `allow_null` is false."""

    # pytest collects by this name otherwise.
    __test__: ClassVar[bool] = False
    is_row_level: ClassVar[bool] = True

    name: str | None = Field(default=None, min_length=1, description="How it is told; unique in its node.")
    description: str | None = None
    where: str | None = Field(
        default=None, description="SQL condition: rows for which it does not hold are not tested."
    )
    allow_null: bool = Field(default=True, description="Whether a NULL passes.")
    on_fail: OnFail = Field(
        default=OnFail.fail,
        validation_alias=AliasChoices("on_fail", "severity"),
        description="warn, fail or quarantine; `severity` says the same.",
    )
    max_failures: int | None = Field(
        default=None, ge=0, description="Up to so many failing rows the test still passes."
    )
    max_failure_rate: Rate | None = Field(default=None, description="Up to this share of failing rows it still passes.")

    @model_validator(mode="before")
    @classmethod
    def _said_once(cls, value: object) -> object:
        if isinstance(value, dict) and {"on_fail", "severity"} <= value.keys():
            raise ValueError("on_fail and severity say the same: keep one")
        return value

    @property
    def kind(self) -> str:
        return str(getattr(self, "type"))  # noqa: B009 - each test declares its own literal

    @property
    def tested_columns(self) -> tuple[str, ...]:
        """The columns whose values are tested."""
        one = getattr(self, "column", None)
        return (one,) if one else tuple(getattr(self, "columns", None) or ())


class DatasetTestConfig(TestConfig):
    """A test of the batch as a whole: it cannot say which rows are wrong, so it quarantines none."""

    is_row_level: ClassVar[bool] = False

    @model_validator(mode="after")
    def _quarantines_nothing(self) -> DatasetTestConfig:
        if self.on_fail is OnFail.quarantine:
            raise ValueError(f"{self.kind} tests the whole batch and can set no rows apart: use warn or fail")
        if self.max_failures is not None or self.max_failure_rate is not None:
            raise ValueError(f"{self.kind} tests the whole batch: max_failures and max_failure_rate count rows")
        return self


Columns = Annotated[list[Column], OneOrMore(), Field(min_length=1)]
Scalar = bool | int | float | str
Operator = Literal["<", "<=", "=", "==", "!=", "<>", ">=", ">"]
