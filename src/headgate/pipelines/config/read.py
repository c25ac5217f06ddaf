"""Where a node's rows come from."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from headgate.pipelines.config.strict import Column, Name, Span, Strict

Format = Literal["parquet", "delta", "iceberg", "csv", "json", "orc", "avro", "text"]


class IncrementalConfig(Strict):
    """Only what is newer than the last published run has seen; where that was is kept in the server."""

    column: Column
    initial: str | int | float | None = Field(
        default=None, description="Where the first run begins; all rows without it."
    )
    lag: Span | None = Field(default=None, description="Read this much again, for rows that come late.")


class ReadConfig(Strict):
    """One source: a path or table of a connection, or a query that a database answers."""

    connection: Name
    path: str | None = None
    table: str | None = None
    query: str | None = Field(default=None, description="SQL that a JDBC connection runs.")
    topic: str | None = Field(default=None, description="Topic of a Kafka connection.")
    format: Format | None = Field(default=None, description="parquet unless said otherwise; tables know theirs.")
    columns: str | None = Field(
        default=None, description="The schema as DDL, for csv and json: `id BIGINT, name STRING`."
    )
    options: dict[str, bool | int | float | str] = Field(
        default_factory=dict, repr=False, description="Spark's options for the format."
    )
    incremental: IncrementalConfig | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [name for name in ("path", "table", "query", "topic") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(
                f"say one of path, table, query and topic; {said} {'are' if len(given) > 1 else 'is'} there"
            )
        return self
