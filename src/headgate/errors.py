"""Every error headgate raises on purpose, on one page.

An error knows what happened, whether retrying helps and what to do next. It does not know HTTP:
`server/problems.py` maps classes to status codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class FieldError(NamedTuple):
    """One thing wrong with one field: where it is, what is wrong, and what was there."""

    path: str
    message: str
    value: str | None = None


class HeadgateError(Exception):
    """Root of every error headgate raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context


class ConfigError(HeadgateError):
    """A setting or configuration file says something we cannot act on."""

    code = "config.invalid"


class PipelineProblem(NamedTuple):
    """One thing wrong with a pipeline file: where, what, and the way out."""

    place: str
    message: str
    hint: str | None = None


class InvalidPipeline(ConfigError):
    """A pipeline file that cannot be run; all that is wrong with it is listed."""

    def __init__(self, problems: Sequence[PipelineProblem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{first.place}: {first.message}{more}", hint=first.hint)
        self.problems = list(problems)


class Unparsable(HeadgateError):
    """The body is not what its content type says it is."""

    code = "body.unparsable"


class TooLarge(HeadgateError):
    """The body, or what it unpacks to, is over a limit."""

    code = "body.too_large"


class WrongEncoding(HeadgateError):
    """The body uses an encoding or media type we do not read."""

    code = "body.wrong_encoding"


class InvalidFields(HeadgateError):
    """The body parses, but fields are missing or wrong; all of them are listed."""

    code = "fields.invalid"

    def __init__(self, errors: Sequence[FieldError], *, hint: str | None = None) -> None:
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{first.path}: {first.message}{more}", hint=hint)
        self.errors = list(errors)


class InvalidSequence(HeadgateError):
    """The events of one run cannot follow each other in this way."""

    code = "run.sequence"


class RefusedState(HeadgateError):
    """The run already ended, and this event would change how."""

    code = "run.state"


class Unauthenticated(HeadgateError):
    """No valid credentials came with the request."""

    code = "auth.unauthenticated"


class Forbidden(HeadgateError):
    """The credentials are valid but do not allow this."""

    code = "auth.forbidden"


class NotFound(HeadgateError):
    """What was asked for does not exist in this organisation."""

    code = "not_found"


class Conflict(HeadgateError):
    """The request collides with what is already there."""

    code = "conflict"


class EmailTaken(HeadgateError):
    """There is an account for this e-mail address already."""

    code = "account.taken"


class RateLimited(HeadgateError):
    """Too many requests; `retry_after_s` says when to come back."""

    code = "rate.limited"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class Unavailable(HeadgateError):
    """The database or the queue cannot take the request now; nothing of it was stored."""

    code = "unavailable"
    retryable = True

    def __init__(self, message: str, *, retry_after_s: float = 1.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class EmbeddedPostgresError(HeadgateError):
    """The embedded PostgreSQL could not be initialised, started or stopped."""

    code = "embedded.postgres"


class MigrationError(HeadgateError):
    """The database schema cannot be brought to this version."""

    code = "migration.failed"
