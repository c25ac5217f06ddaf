"""Test results: what identifies a test, and one vocabulary for outcomes and severities."""

from __future__ import annotations

import hashlib

_STATUS = {
    "pass": "passed",
    "passed": "passed",
    "success": "passed",
    "ok": "passed",
    "fail": "failed",
    "failed": "failed",
    "failure": "failed",
    "warn": "failed",
    "skip": "skipped",
    "skipped": "skipped",
    "error": "error",
}


def status_of(text: str) -> str:
    """passed, failed, error or skipped; a word nobody knows is an error, never a pass."""
    return _STATUS.get(text.strip().lower(), "error")


def severity_of(text: str | None) -> str:
    """warn or error; without a word, error."""
    return "warn" if text is not None and text.strip().lower() in {"warn", "warning", "info"} else "error"


def test_key(name: str, column: str | None) -> str:
    """Identity of a test on its dataset: the same check on two columns is two tests.

    >>> test_key("not_null", "email") == test_key("not_null", "customer_id")
    False
    """
    return hashlib.blake2b(f"{name}\x1f{column or ''}".encode(), digest_size=16).hexdigest()
