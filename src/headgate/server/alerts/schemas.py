"""Shapes of alert rules, their history and e-mail settings. Every field of an answer is always there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field, model_validator

from headgate.domain.anomaly import Severity
from headgate.server.alerts.channels.configs import Address, Addresses, Subject
from headgate.server.alerts.rules import TYPES, Reason, problem_of_hours, read_rule_type
from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut

MAX_MINUTES = 43_200


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("is blank: write what to call it")
    return value


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_not_blank)]


class ChannelType(StrEnum):
    EMAIL = "EMAIL"
    SLACK = "SLACK"
    TEAMS = "TEAMS"
    WEBHOOK = "WEBHOOK"


class AlertStatus(StrEnum):
    """What became of an alert; the reason says more."""

    SENT = "SENT"
    FAILED = "FAILED"
    DEDUPLICATED = "DEDUPLICATED"


def _dataset_pattern(value: str) -> str:
    if "*" in value[:-1]:
        raise ValueError("has a star that is not at its end: write a name, `prefix_*` or `*`")
    return value


def _type_pattern(value: str) -> str:
    if "*" in value[:-1]:
        raise ValueError("has a star that is not at its end: write a type, `on_*` or `*`")
    known = read_rule_type(value)
    if known is None:
        raise ValueError(
            f"is no type that there is, nor the beginning of one: use one of {', '.join(TYPES)}, or leave it out;"
            " words that only a client uses are told to rules without a type"
        )
    return known


DatasetPattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_dataset_pattern)]
TypePattern = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_type_pattern)]


class QuietHoursIn(Body):
    """When it is silent, by the clock of a place. What comes then is told when they are over, if it still matters."""

    from_: Annotated[str, Field(alias="from", max_length=5, examples=["22:00"])]
    to: Annotated[str, Field(max_length=5, examples=["07:00"])]
    timezone: Annotated[str, Field(max_length=64, examples=["Europe/Berlin"])] = "UTC"
    critical_passes: bool = Field(default=True, description="Whether CRITICAL is told all the same")

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        problem = problem_of_hours(self.from_, self.to, self.timezone)
        if problem is not None:
            raise ValueError(f"`{problem[0]}` {problem[1]}")
        return self


def _without(value: Any, names: frozenset[str]) -> Any:
    """What an answer says of itself is no part of what is sent back."""
    return {name: each for name, each in value.items() if name not in names} if isinstance(value, dict) else value


class RuleIn(Body):
    """Whom to tell of what. What is left out of the first six does not matter.

    A rule can be sent back as it was answered: its `id`, `created_by`, `created_at` and `updated_at` are ignored.
    """

    name: Name
    description: Annotated[str, Field(max_length=10_000)] | None = None
    dataset_name: DatasetPattern | None = Field(
        default=None, description="A name, `prefix_*`, or `*` for all", examples=["sales_*"]
    )
    anomaly_type: TypePattern | None = Field(
        default=None,
        description="An anomaly, another symptom, an event of incidents or pipelines, or the beginning of one with `*`;"
        " left out or `*`: all symptoms",
        examples=["RowCountDrop"],
    )
    severity: Severity | None = None
    owner: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    tag: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    channel_type: ChannelType
    channel_config: Annotated[dict[str, Any], Field(max_length=20)] = Field(
        description="EMAIL: `email_to`, `email_cc`, `subject_template`. SLACK: `webhook_url`, `channel`, `mention`."
        " TEAMS: `webhook_url`, `mention`. WEBHOOK: `webhook_url`, `secret`, `headers`, `extra`",
        examples=[{"webhook_url": "https://hooks.slack.com/services/T0/B0/x", "channel": "#data-alerts"}],
    )
    enabled: bool = True
    deduplication_minutes: Annotated[int, Field(ge=0, le=MAX_MINUTES)] = 60
    max_per_minute: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_per_hour: Annotated[int, Field(ge=1, le=10_000)] | None = None
    quiet_hours: QuietHoursIn | None = None

    @model_validator(mode="before")
    @classmethod
    def _ignores_what_is_answered(cls, value: Any) -> Any:
        return _without(value, frozenset({"id", "created_by", "created_at", "updated_at"}))


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class RuleChangeIn(Body):
    """What is to be changed of a rule; what is left out stays, of `channel_config` too."""

    # What is left out stays, so that no default is one.
    name: Name = Field(default="", json_schema_extra=_no_default)
    description: Annotated[str, Field(max_length=10_000)] | None = None
    dataset_name: DatasetPattern | None = None
    anomaly_type: TypePattern | None = None
    severity: Severity | None = None
    owner: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    tag: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    channel_config: Annotated[dict[str, Any], Field(max_length=20)] = Field(
        default={}, json_schema_extra=_no_default, description="Such as `email_cc`; the rest of the channel stays"
    )
    enabled: bool = Field(default=True, json_schema_extra=_no_default)
    deduplication_minutes: Annotated[int, Field(ge=0, le=MAX_MINUTES)] = Field(
        default=60, json_schema_extra=_no_default
    )
    max_per_minute: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_per_hour: Annotated[int, Field(ge=1, le=10_000)] | None = None
    quiet_hours: QuietHoursIn | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("nothing is to be changed: name a field, such as `enabled`")
        return self

    @property
    def given(self) -> dict[str, Any]:
        """As it is stored, but for the channel."""
        found = {name: getattr(self, name) for name in self.model_fields_set - {"channel_config"}}
        if (hours := found.get("quiet_hours")) is not None:
            found["quiet_hours"] = hours.model_dump(by_alias=True)
        return found


class QuietHoursOut(BaseModel):
    from_: str = Field(serialization_alias="from", validation_alias="from")
    to: str
    timezone: str
    critical_passes: bool


class RuleOut(BaseModel):
    """A rule. Secrets in `channel_config` are masked; sent back as they are, they stay."""

    id: UUID
    name: str
    description: str | None
    dataset_name: str | None
    anomaly_type: str | None
    severity: Severity | None
    owner: str | None
    tag: str | None
    channel_type: ChannelType
    channel_config: dict[str, Any]
    enabled: bool
    deduplication_minutes: int
    max_per_minute: int | None
    max_per_hour: int | None
    quiet_hours: QuietHoursOut | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class RulePage(BaseModel):
    items: list[RuleOut]
    next_cursor: str | None


class PreviewItem(BaseModel):
    """One alert that the rule would have dealt with."""

    at: datetime
    type: str
    severity: Severity
    message: str
    dataset: DatasetRefOut | None
    incident_id: UUID | None
    incident_number: int | None
    status: AlertStatus
    reason: Reason | None


class PreviewOut(BaseModel):
    """What a rule would have sent, newest first; `truncated` if there was too much to look at or to show."""

    rule_id: UUID
    days: int
    matched: int
    would_send: int
    held_back: dict[str, int]
    truncated: bool
    items: list[PreviewItem]


class AlertOut(BaseModel):
    """What became of one alert. `source` is `pipeline` for those that a run sent by its own file."""

    id: UUID
    source: Literal["rule", "pipeline"]
    alert_rule_id: UUID | None = Field(description="The rule, which may be gone")
    rule_name: str | None = Field(description="What the rule was called then")
    anomaly_id: UUID | None
    incident_id: UUID | None
    symptom_id: UUID | None
    dataset_id: UUID | None
    run_id: UUID | None
    type: str
    severity: Severity
    title: str
    channel_type: str
    channel_context: dict[str, Any]
    response_payload: dict[str, Any] | None
    status: AlertStatus
    reason: Reason | None
    held_back: int = Field(
        description="Alerts before it, held back by the limits of the rule, that the message tells of"
    )
    attempts: int
    sent_at: datetime
    error_message: str | None


class AlertPage(BaseModel):
    items: list[AlertOut]
    next_cursor: str | None


class TestIn(Body):
    """Either a rule, or a channel that may become one."""

    rule_id: Annotated[str, Field(min_length=1, max_length=200, description="The id or the name of a rule")] | None = (
        None
    )
    channel_type: ChannelType | None = None
    channel_config: Annotated[dict[str, Any], Field(max_length=20)] | None = None


class TestOut(BaseModel):
    """How sending a sample went, in the provider's words."""

    id: UUID
    status: AlertStatus
    channel_type: ChannelType
    channel_context: dict[str, Any]
    response_payload: dict[str, Any] | None
    error_message: str | None


class Backend(StrEnum):
    """Where mails go: to the server's log, to a server of yours, or to Google's."""

    console = "console"
    smtp = "smtp"
    gmail = "gmail"


class Tls(StrEnum):
    none = "none"
    starttls = "starttls"
    tls = "tls"


class EmailSettingsIn(Body):
    """How mails are sent, and to whom those of rules go that name nobody. What is answered can be sent back."""

    backend: Backend
    host: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.:_-]+$")] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    tls: Tls = Tls.starttls
    username: Annotated[str, Field(min_length=1, max_length=320)] | None = None
    password: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="Left out or as it was shown: stays, if it goes to the same place"
    )
    from_: Address | None = Field(default=None, alias="from", description="The user, if it is an address")
    email_to: Addresses = Field(default_factory=list)
    email_cc: Addresses = Field(default_factory=list)
    subject_template: Subject | None = None

    @model_validator(mode="before")
    @classmethod
    def _ignores_what_is_answered(cls, value: Any) -> Any:
        return _without(value, frozenset({"updated_by", "updated_at"}))


class EmailSettingsOut(BaseModel):
    """The password is masked, and null where there is none."""

    backend: Backend
    host: str | None
    port: int | None
    tls: Tls
    username: str | None
    password: str | None
    from_: str | None = Field(serialization_alias="from", validation_alias="from")
    email_to: list[str]
    email_cc: list[str]
    subject_template: str
    updated_by: str | None
    updated_at: datetime | None
