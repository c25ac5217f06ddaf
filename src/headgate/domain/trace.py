"""What an error says in one line, of all the lines that come with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headgate.domain.masking import without_credentials

# More of a line than anybody is shown.
_LONGEST: Final = 4000
_TRACEBACK: Final = re.compile(r"\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME: Final = re.compile(r"\s+(?:at |\.\.\. \d+ (?:more|common))")
_CAUSE: Final = "Caused by: "
# What wraps an error and says nothing of it: a title without a text, the name of a class, and what Spark and py4j
# say of every error.
_EMPTY: Final = re.compile(
    r".*:"
    r"|(?:Exception in thread \"[^\"]*\" )?[\w.$]+(?:Exception|Error)"
    r"|.*(?:An error occurred while calling .*"
    r"|Exception thrown in awaitResult.*"
    r"|(?:Writing )?[Jj]ob aborted\.?"
    r"|Task failed while writing rows\.?"
    r"|InvocationTargetException(?:: null)?)",
)


def telling_line(error: str | None) -> str:
    """The line that says what went wrong, without credentials; empty if there is none.

    Of a Python traceback that is the exception, of one that led to another the last. Where the first line says
    nothing, it is the deepest cause, as Java tells them.

    >>> telling_line("Traceback (most recent call last):\\n  File 'a.py', line 1\\nValueError: bad date")
    'ValueError: bad date'
    """
    lines = _from_exception((error or "").strip().splitlines())
    if not lines:
        return ""
    told = lines[0] if not _is_empty(lines[0]) else _cause(lines) or lines[0]
    return without_credentials(told.strip()[:_LONGEST])


def _from_exception(lines: Sequence[str]) -> Sequence[str]:
    """From the line on that tells the exception of the last Python traceback; all, if there is none."""
    last = max((at for at, line in enumerate(lines) if _TRACEBACK.match(line)), default=None)
    if last is None:
        return lines
    begin = next((at for at, line in enumerate(lines) if at > last and _is_told(line)), None)
    if begin is not None:
        return lines[begin:]
    # It was cut off before the exception, or is one of several at once.
    before = [line for line in lines[:last] if _is_told(line) and not _TRACEBACK.match(line)]
    return before[:1] or [line.strip(" |+") for line in lines[-1:]]


def _is_told(line: str) -> bool:
    return bool(line) and not line[0].isspace()


def _cause(lines: Sequence[str]) -> str | None:
    """The deepest cause that says something, else the first line that does."""
    causes = [line.strip().removeprefix(_CAUSE) for line in lines if line.strip().startswith(_CAUSE)]
    others = [line.strip().removeprefix(": ") for line in lines[1:] if line.strip() and not _FRAME.match(line)]
    return next((each for each in (*reversed(causes), *others) if not _is_empty(each)), None)


def _is_empty(line: str) -> bool:
    return _EMPTY.fullmatch(line.strip()[:_LONGEST]) is not None
