"""What Spark says about an error, in one line."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# Spark 3.5 hands some errors over as they are in Java.
SPARK_ERRORS = (PySparkException, Py4JError)
_CLASS = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )?\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+;?")


def said(error: Exception) -> str:
    """The first line, without classes and codes.

    >>> said(ValueError("[PARSE_SYNTAX_ERROR] Syntax error at or near '<'. SQLSTATE: 42601 (line 1, pos 2)"))
    "Syntax error at or near '<' (line 1, pos 2)"
    """
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java)
    line = next((each for each in text.strip().splitlines() if each.strip()), type(error).__name__)
    plain = _STATE.sub("", _CLASS.sub("", line)).strip()
    return re.sub(r"\.(?= \(line)|[.;]+$", "", plain)


def first_line(error: Exception) -> str:
    """As it is, for what is not Spark's own too."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
