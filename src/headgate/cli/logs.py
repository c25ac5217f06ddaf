"""How a running server logs: lines for people, or one JSON object a line for machines. Always to stderr."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime

from headgate.errors import ConfigError

_QUIET = {"uvicorn": logging.WARNING, "httpx": logging.WARNING, "asyncio": logging.WARNING, "asyncpg": logging.ERROR}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record and everything that was passed along with it, as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(level: str, style: str) -> None:
    """Send every log record of this process to stderr."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ConfigError(
            f"{level!r} is not a log level", hint="set HEADGATE_LOG_LEVEL to debug, info, warning or error"
        )
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else _text_formatter())
    handler.addFilter(_is_news)
    logging.basicConfig(level=number, handlers=[handler], force=True)
    # What these report below their level we say ourselves, once and without a stack.
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(number, least))


def _is_news(record: logging.LogRecord) -> bool:
    # A request that is cut off because we are stopping is announced in one line; its stack says nothing more.
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _text_formatter() -> logging.Formatter:
    return logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
