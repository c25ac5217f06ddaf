"""A part that this machine lacks: a skip with its reason here, and a failure in CI, where every part must be."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (nothing is skipped in CI)")
    pytest.skip(reason)
