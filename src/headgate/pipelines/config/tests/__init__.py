"""The types of tests, and what each may say."""

from typing import Annotated

from pydantic import Field

from headgate.domain.gate import OnFail
from headgate.pipelines.config.tests import datasets, rows
from headgate.pipelines.config.tests.common import DatasetTestConfig, TestConfig

AnyTest = Annotated[rows.RowTest | datasets.DatasetTest, Field(discriminator="type")]

__all__ = ["AnyTest", "DatasetTestConfig", "OnFail", "TestConfig"]
