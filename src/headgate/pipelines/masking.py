"""Texts of others without our secrets: whoever was given one may repeat it in what he says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel, SecretStr

from headgate.messages.text import masked
from headgate.pipelines.config.project import ProjectConfig

__all__ = ["masked", "secrets_of"]

_SECRET_NAME = re.compile(
    r"passw|secret|token|credential|jaas|(api|access|account|private)[._-]?key|[.-]key(?![a-z])", re.IGNORECASE
)
_INNER = re.compile(r"password\s*=\s*[\"']?([^\"';\s]+)", re.IGNORECASE)
# What they gave is in the blocks that use it; there the names say what is a secret.
_UNUSED = ("vars", "environments")


def secrets_of(project: ProjectConfig) -> Iterator[str]:
    """What the file calls a secret, and options whose names do."""
    for name, value in project:
        if name not in _UNUSED:
            yield from _within(value)


def _within(value: object) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, each in value:
            yield from _within(each)
    elif isinstance(value, list):
        for each in value:
            yield from _within(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and _SECRET_NAME.search(str(name)):
                yield each
                yield from _INNER.findall(each)
            else:
                yield from _within(each)
