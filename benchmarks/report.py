"""What a benchmark found: figures and ratios as they come in, and all of them on one last line."""

from __future__ import annotations

import json
import os
import platform
from typing import Any

import psutil


class Report:
    """Figures and ratios as they come in."""

    def __init__(self) -> None:
        self._figures: dict[str, Any] = {}
        self._ratios: dict[str, float] = {}

    def add(self, figures: dict[str, Any], ratios: dict[str, float] | None = None) -> None:
        for name, value in {**figures, **(ratios or {})}.items():
            print(f"{name:36} {_shown(value)}", flush=True)
        self._figures |= figures
        self._ratios |= ratios or {}

    def line(self) -> str:
        return json.dumps({"figures": _rounded(self._figures), "ratios": _rounded(self._ratios)})


def machine() -> dict[str, Any]:
    """The machine, at the beginning."""
    return {
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "memory_gib": psutil.virtual_memory().total / 2**30,
        "python": platform.python_version(),
    }


def _shown(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}
