"""Writes `server/db/schema.sql`, the schema that all migrations give, for people to read and for tests to compare.

Made with the pg_dump and the server of the embedded PostgreSQL, so that it is the same on every machine.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg

from headgate.server.db.embedded import EmbeddedPostgres, wheel_binaries
from headgate.server.db.migrate import migrate
from headgate.server.db.pool import SCHEMA

TARGET = Path(__file__).parents[1] / "src" / "headgate" / "server" / "db" / "schema.sql"
HEADER = "-- What the migrations give, without the monthly partitions. Made by `make schema`; do not edit.\n"
_DATABASE = "dump"
# Versions, and a random word that newer versions guard restoring with.
_UNSTABLE = re.compile(r"^(?:--.*|\\(?:un)?restrict .*|SET .*|SELECT pg_catalog\.set_config.*)$\n", re.MULTILINE)


def dump(dsn: str) -> str:
    """The schema of a migrated database, as text that depends on nothing but the migrations."""
    command = [
        str(wheel_binaries() / "pg_dump"),
        "--schema-only",
        f"--schema={SCHEMA}",
        *(f"--exclude-table={SCHEMA}.{parent}_2*" for parent in ("lineage_events", "dataset_metrics")),
        f"--dbname={dsn}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return HEADER + re.sub(r"\n{3,}", "\n\n", _UNSTABLE.sub("", done.stdout)).rstrip() + "\n"


async def _migrated(postgres: EmbeddedPostgres) -> str:
    conn = await asyncpg.connect(postgres.dsn(user="postgres", database="postgres"))
    try:
        await conn.execute(f"CREATE DATABASE {_DATABASE}")
    finally:
        await conn.close()
    dsn = postgres.dsn(user="postgres", database=_DATABASE)
    await migrate(dsn)
    return dsn


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headgate-schema-") as directory:
        postgres = EmbeddedPostgres(Path(directory) / "postgres", settings={"fsync": "off"})
        postgres.start()
        try:
            TARGET.write_text(dump(asyncio.run(_migrated(postgres))))
        finally:
            postgres.remove()
    sys.stdout.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    main()
