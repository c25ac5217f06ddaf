"""Spark configuration as text: for a command line, a properties file, a notebook or a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from headgate.spark.compose import JARS_KEY


def written(conf: Mapping[str, str], form: str) -> str:
    """The configuration in one of the forms `submit`, `defaults`, `python` and `json`."""
    return {"submit": _submit, "defaults": _defaults, "python": _python, "json": _json}[form](conf)


def _submit(conf: Mapping[str, str]) -> str:
    options = [("--jars" if key == JARS_KEY else "--conf", key, value) for key, value in conf.items()]
    words = [f"{name} {shlex.quote(value if key == JARS_KEY else f'{key}={value}')}" for name, key, value in options]
    return " \\\n  ".join(words)


def _defaults(conf: Mapping[str, str]) -> str:
    width = max(map(len, conf))
    return "\n".join(f"{key:<{width}}  {_escaped(value)}" for key, value in conf.items())


def _python(conf: Mapping[str, str]) -> str:
    return "\n".join(f".config({json.dumps(key)}, {json.dumps(value)})" for key, value in conf.items())


def _json(conf: Mapping[str, str]) -> str:
    return json.dumps(conf, indent=2, ensure_ascii=False)


def _escaped(value: str) -> str:
    """A backslash starts an escape in a properties file."""
    return value.replace("\\", "\\\\")
