"""Where data live: folders on any Hadoop file system, catalogs, databases behind JDBC, and Kafka."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from headgate.pipelines.config.strict import Name, Strict, Text

FILE_TYPES = ("local", "hdfs", "s3", "gcs", "azure", "hadoop")
# How the paths of a type begin; Hadoop has more file systems than we know.
_SCHEMES = {
    "local": ("file",),
    "hdfs": ("hdfs", "webhdfs", "swebhdfs", "viewfs"),
    "s3": ("s3a", "s3", "s3n"),
    "gcs": ("gs",),
    "azure": ("abfss", "abfs", "wasbs", "wasb"),
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_BEFORE_HOST = re.compile(r"//(?:[^?]*|[^/@]*)@|oracle:[a-z0-9]+:(?!/?@)[^@]*@", re.IGNORECASE)
_AS_OPTION = re.compile(
    r"password\s*=|(?:^|[;?&,(:\s])(?:user(?:name|id)?|uid|[\w.]*(?:passwd|pwd))\s*=", re.IGNORECASE
)


class FolderConnection(Strict):
    """A folder: `local` on this machine, else any path that Hadoop can open (s3a, gs, abfss, hdfs, …)."""

    type: Literal["local", "hdfs", "s3", "gcs", "azure", "hadoop"]
    base_path: Annotated[str, Field(min_length=1, description="Relative paths start at the file that says them.")]
    options: dict[str, Text] = Field(
        default_factory=dict, repr=False, description="Hadoop settings, such as fs.s3a.endpoint."
    )

    @model_validator(mode="after")
    def _begins_as_its_type(self) -> Self:
        found = _SCHEME.match(self.base_path)
        scheme = found[1].lower() if found else None
        if scheme is None and self.type != "local":
            example = _SCHEMES.get(self.type, ("scheme",))[0]
            raise ValueError(f"base_path {self.base_path!r} of type {self.type} has to begin with {example}://")
        known = _SCHEMES.get(self.type)
        if scheme is not None and known is not None and scheme not in known:
            fits = next((kind for kind, schemes in _SCHEMES.items() if scheme in schemes), "hadoop")
            raise ValueError(f"base_path {self.base_path!r} is not of type {self.type}: say type: {fits}")
        return self


class CatalogConnection(Strict):
    """Tables of a Spark catalog: the session's own, Hive, Iceberg, Unity."""

    type: Literal["catalog"]
    catalog: Name | None = None
    database: Name | None = None


class JdbcConnection(Strict):
    """A database. User and password belong here and not into the URL, so that they are never shown."""

    type: Literal["jdbc"]
    url: str = Field(repr=False)
    user: str | None = None
    password: SecretStr | None = None
    driver: str | None = None
    options: dict[str, Text] = Field(default_factory=dict, repr=False, description="Spark's, such as fetchsize.")

    @field_validator("url")
    @classmethod
    def _is_jdbc(cls, value: str) -> str:
        has_secrets = _BEFORE_HOST.search(value) or _AS_OPTION.search(value)
        if not value.startswith("jdbc:"):
            # Of a URL of another kind nobody knows where its secrets are.
            shown = "this" if has_secrets or "@" in value else repr(value)
            raise ValueError(f"{shown} is no JDBC URL: it starts with jdbc:, as jdbc:postgresql://host/db")
        if has_secrets:
            raise ValueError("the URL holds a user or password: give them as `user` and `password`")
        return value


class KafkaConnection(Strict):
    """Topics, read and written by Spark's Kafka source with these options."""

    type: Literal["kafka"]
    bootstrap_servers: str = Field(min_length=1, description="host:port, several with a comma between.")
    options: dict[str, Text] = Field(
        default_factory=dict, repr=False, description="Spark's, such as kafka.sasl.jaas.config."
    )


ConnectionConfig = Annotated[
    FolderConnection | CatalogConnection | JdbcConnection | KafkaConnection, Field(discriminator="type")
]
