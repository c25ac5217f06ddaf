"""Events that real producers sent, byte for byte, in the order they sent them."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
PRODUCERS = ("airflow", "client-python", "dbt")


def golden(producer: str) -> list[bytes]:
    found = [path.read_bytes() for path in sorted((GOLDEN / producer).glob("*.json"))]
    assert found, f"no golden events of {producer!r}"
    return found
