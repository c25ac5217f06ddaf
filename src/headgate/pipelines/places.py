"""Where a block's connection and path or table lead: one address for engine, lineage and people."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from headgate.domain.names import split_location
from headgate.domain.namespaces import canonical_namespace
from headgate.pipelines.config.connection import (
    CatalogConnection,
    ConnectionConfig,
    FolderConnection,
    JdbcConnection,
    KafkaConnection,
)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_DATABASE = re.compile(
    r"jdbc:(?P<kind>[a-z0-9]+):(?:[a-z0-9]+:)?@?//(?P<host>[^/;?]*)(?:/(?P<database>[^;?]*))?"
    r"(?:.*[;?&]database(?:Name)?=(?P<option>[^;&]*))?",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"file:/+", re.IGNORECASE)
_KINDS = {"postgresql": "postgres", "sqlserver": "mssql"}


class Kind(StrEnum):
    """How an address is read and written."""

    folder = "folder"
    table = "table"
    jdbc = "jdbc"
    query = "query"
    kafka = "kafka"


@dataclass(frozen=True)
class Address:
    """A dataset: what the engine opens, what OpenLineage calls it, and how the file calls it."""

    kind: Kind
    location: str
    namespace: str
    name: str
    label: str

    def __str__(self) -> str:
        return self.label


def address(
    connection_name: str,
    connection: ConnectionConfig,
    folder: Path,
    *,
    path: str | None = None,
    table: str | None = None,
) -> Address:
    """The address of a path, table or topic of a connection; relative folders start at `folder`."""
    if isinstance(connection, FolderConnection):
        return _in_folder(connection_name, connection, folder, path or "")
    if isinstance(connection, CatalogConnection):
        return _in_catalog(connection_name, connection, table or "")
    if isinstance(connection, JdbcConnection):
        return _in_database(connection_name, connection, table or "")
    return _topic(connection_name, connection, table or "")


def _in_folder(connection_name: str, connection: FolderConnection, folder: Path, path: str) -> Address:
    location = join(connection.base_path, path)
    if connection.type == "local":
        location = posixpath.normpath(str(folder / _LOCAL.sub("/", location)))
    namespace, name = split_location(location) or ("file", location)
    return Address(Kind.folder, location, namespace, name, f"{connection_name}/{path.strip('/')}")


def has_scheme(location: str) -> bool:
    """Whether it says which file system it is of."""
    return _SCHEME.match(location) is not None


def join(base: str, path: str) -> str:
    """The path below the base; one that stands by itself is taken as it is."""
    if has_scheme(path) or path.startswith("/"):
        return path.rstrip("/") or "/"
    return f"{base.rstrip('/')}/{path.strip('/')}".rstrip("/")


def _in_catalog(connection_name: str, connection: CatalogConnection, table: str) -> Address:
    around = [connection.catalog, connection.database] if "." not in table else [connection.catalog]
    name = ".".join([*filter(None, around), table]) if table.count(".") < 2 else table
    # The namespace of a catalog is known to the session only: it is put right when there is one.
    return Address(
        Kind.table, name, f"catalog:{connection.catalog or 'spark_catalog'}", name, f"{connection_name}.{table}"
    )


def _in_database(connection_name: str, connection: JdbcConnection, table: str) -> Address:
    found = _DATABASE.match(connection.url)
    if found is None:
        return Address(Kind.jdbc, table, "jdbc", table, f"{connection_name}.{table}")
    kind = _KINDS.get(found["kind"].lower(), found["kind"].lower())
    qualified = (
        table
        if "." in table or kind not in ("postgres", "mssql")
        else f"{'dbo' if kind == 'mssql' else 'public'}.{table}"
    )
    name = ".".join(part for part in (found["database"] or found["option"], qualified) if part)
    namespace = canonical_namespace(f"{kind}://{found['host']}")
    return Address(Kind.jdbc, table, namespace, name, f"{connection_name}.{table}")


def _topic(connection_name: str, connection: KafkaConnection, topic: str) -> Address:
    namespace = canonical_namespace(f"kafka://{connection.bootstrap_servers}")
    return Address(Kind.kafka, topic, namespace, topic, f"{connection_name}/{topic}")
