"""Who is told what."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from headgate.pipelines.config.strict import Strict


class AlertEvent(StrEnum):
    """What there may be to tell."""

    on_start = "on_start"
    on_success = "on_success"
    on_failure = "on_failure"
    on_validation_fail = "on_validation_fail"
    on_gate_block = "on_gate_block"
    on_quarantine = "on_quarantine"
    on_threshold_breach = "on_threshold_breach"
    on_schema_drift = "on_schema_drift"
    on_freshness_fail = "on_freshness_fail"


class AlertMetadata(Strict):
    """How often, and where in the channel."""

    throttle_minutes: float = Field(
        default=15, ge=0, description="The same event of a pipeline is not told again sooner."
    )
    max_per_hour: int = Field(default=10, ge=1, description="No more messages than that, of a pipeline and event.")
    channel: str | None = None
    mention: str | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="Sent with a webhook.")
    extra: dict[str, Any] = Field(default_factory=dict, repr=False, description="Sent along as it is.")


class AlertConfig(Strict):
    """One channel; its URL is a secret."""

    type: Literal["slack", "teams", "webhook"]
    url: SecretStr
    on_events: list[AlertEvent] = Field(default_factory=lambda: [AlertEvent.on_failure], min_length=1)
    metadata: AlertMetadata = Field(default_factory=AlertMetadata)

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("http://", "https://")):
            raise ValueError("it has to start with https:// or http://; it is not shown, being a secret")
        return value
