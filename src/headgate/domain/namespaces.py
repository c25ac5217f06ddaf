"""Namespaces: one spelling for each, and what their scheme says about the names in them.

Follows OpenLineage's naming table. It looks at text only and resolves no host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

# Spelled out, because str.strip() and PostgreSQL's btrim() do not agree on what a blank is.
BLANK: Final = " \t\n\r\f\v"
BLANK_OR_SLASH: Final = BLANK + "/"

# The same storage behind another connector (s3a, s3n), another driver name, or with TLS spelled out.
SCHEME_ALIASES: Final[Mapping[str, str]] = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfs": "abfss",
    "wasb": "wasbs",
    "postgresql": "postgres",
}

# One port per service: the one that its own clients take when none is given. Any other port is kept, since
# db:5432 and db:5433 are two servers. CrateDB and Unity Catalog have no single default and are left out.
DEFAULT_PORTS: Final[Mapping[str, str]] = {
    "amqp": "5672",
    "cassandra": "9042",
    "clickhouse": "9000",
    "cockroachdb": "26257",
    "databricks": "443",
    "db2": "50000",
    "doris": "9030",
    "elasticsearch": "9200",
    "fabric-warehouse": "1433",
    "ftp": "21",
    "hdfs": "8020",
    "hive": "10000",
    "http": "80",
    "https": "443",
    "impala": "21050",
    "kafka": "9092",
    "mariadb": "3306",
    "milvus": "19530",
    "mongodb": "27017",
    "mssql": "1433",
    "mysql": "3306",
    "oceanbase": "2881",
    "oracle": "1521",
    "postgres": "5432",
    "presto": "8080",
    "pulsar": "6650",
    "redis": "6379",
    "redshift": "5439",
    "sftp": "22",
    "snowflake": "443",
    "spark": "10000",
    "sqlserver": "1433",
    "starrocks": "9030",
    "teradata": "1025",
    "thrift": "9083",
    "trino": "8080",
    "vertica": "5433",
}

# Stores whose authority is a bucket. Old S3 buckets may differ in case alone, so a bucket is kept as written.
OBJECT_STORES: Final = frozenset({"s3", "gs", "abfss", "wasbs", "oss", "cos", "cosn", "obs", "oci", "r2", "lakefs"})
# Azure writes container@account-host: what stands before the @ is no credential, what follows is a host.
AZURE: Final = frozenset({"abfss", "wasbs"})
# File systems: their names are absolute paths, and their namespace may lack a host (`file`, `dbfs`).
FILE_SYSTEMS: Final = frozenset(
    {"file", "hdfs", "dbfs", "webhdfs", "swebhdfs", "viewfs", "gvfs", "maprfs", "alluxio", "adl"}
    | {"ofs", "o3fs", "nfs", "sftp", "ftp"}
)
PATH_SCHEMES: Final = OBJECT_STORES | FILE_SYSTEMS
# Databases in a file: the authority is part of a path, so neither its case nor an @ in it may be touched.
FILE_DATABASES: Final = frozenset({"duckdb", "sqlite"})

_URI = re.compile(r"(?:[Jj][Dd][Bb][Cc]:)?([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)", re.DOTALL)
CONNECTION_OPTIONS = re.compile(r"[?;#].*", re.DOTALL)
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def split_uri(text: str) -> tuple[str, str, str] | None:
    """Scheme (folded), authority and path; None for text that is no URI we can take apart."""
    match = _URI.fullmatch(text)
    if match is None:
        return None
    scheme, slashes, rest = match.groups()
    scheme = _canonical_scheme(scheme.lower())
    if slashes:
        authority, slash, path = rest.partition("/")
        return scheme, authority, slash + path
    rest = rest.lstrip(BLANK)
    return (scheme, "", rest) if scheme in FILE_SYSTEMS and rest[:1] in ("", "/") else None


def _canonical_scheme(scheme: str) -> str:
    dialect = scheme.partition("+")[0]  # postgresql+psycopg2, as SQLAlchemy writes it
    dialect = SCHEME_ALIASES.get(dialect, dialect)
    return dialect if dialect in DEFAULT_PORTS else SCHEME_ALIASES.get(scheme, scheme)


def _canonical_host(text: str, default_port: str | None) -> str:
    host, colon, port = text.strip(BLANK).rpartition(":")
    is_port = colon and (":" not in host or host.endswith("]"))  # else a bare IPv6 address
    if not is_port or port not in ("", default_port):
        host += colon + port
    return host.rstrip(BLANK).translate(_ASCII_LOWER)


def _canonical_authority(scheme: str, authority: str) -> str:
    if scheme in FILE_DATABASES:
        return authority.strip(BLANK)
    if scheme in AZURE:
        container, at, account = authority.rpartition("@")
        return container.strip(BLANK) + at + _canonical_host(account, None)
    port = DEFAULT_PORTS.get(scheme)
    if port is not None:
        authority = CONNECTION_OPTIONS.sub("", authority)
    host = authority.rpartition("@")[2]
    if scheme in OBJECT_STORES:
        return host.strip(BLANK)
    if port is None or "," not in host:
        host = _canonical_host(host, port)
    else:
        # Any broker of a list may be reported first; the smallest is the same for every order.
        hosts = (_canonical_host(part, port) for part in host.split(","))
        host = min(filter(None, hosts), default="")
    return "" if scheme == "file" and host == "localhost" else host


@lru_cache(maxsize=4096)
def canonical_namespace(namespace: str) -> str:
    """The one spelling of a namespace; text without a scheme only loses blanks and slashes at its ends."""
    text = namespace.strip(BLANK)
    uri = split_uri(text)
    if uri is None:
        return text.rstrip(BLANK_OR_SLASH) or text
    scheme, authority, path = uri
    authority = _canonical_authority(scheme, authority)
    if scheme in DEFAULT_PORTS and scheme not in PATH_SCHEMES:
        path = CONNECTION_OPTIONS.sub("", path)
    path = path.rstrip(BLANK_OR_SLASH)
    if authority or scheme not in FILE_SYSTEMS:
        return f"{scheme}://{authority}{path}"
    return f"{scheme}:/{path.lstrip('/')}" if path else scheme
