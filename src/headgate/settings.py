"""Server settings, read once from the environment and passed down; nothing else reads `os.environ`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1024 * 1024


class Rate(BaseModel, frozen=True):
    """A token bucket: sustained requests per second, and how many may come at once."""

    per_second: float = Field(gt=0)
    burst: int = Field(gt=0)


def parse_rate(value: object) -> object:
    """Read `rate/burst` or `off`; anything else is left to pydantic to refuse."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text in {"off", "none", ""}:
        return None
    per_second, slash, burst = text.partition("/")
    try:
        rate = float(per_second)
        return Rate(per_second=rate, burst=int(burst) if slash else max(1, int(rate * 2)))
    except ValueError as error:
        raise ValueError(f"{value!r} is not a rate: write `requests-per-second/burst` or `off`") from error


OptionalRate = Annotated[Rate | None, NoDecode]


class Settings(BaseSettings):
    """Everything an operator can set, as `HEADGATE_*` environment variables."""

    model_config = SettingsConfigDict(env_prefix="HEADGATE_", extra="ignore", frozen=True)

    database_url: SecretStr | None = None
    migration_url: SecretStr | None = None
    database_pool_size: int = Field(default=16, ge=2, le=200)
    database_timeout_s: float = Field(default=10.0, gt=0)

    host: str = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65535)
    public_url: str | None = None
    cors_origins: Annotated[tuple[str, ...], NoDecode] = ()
    jwt_secret: SecretStr | None = None
    session_hours: float = Field(default=24, gt=0)
    allow_registration: bool = True
    log_level: str = "info"
    log_format: str = Field(default="text", pattern="^(text|json)$")

    max_body_bytes: int = Field(default=32 * MIB, gt=0)
    max_unpacked_bytes: int = Field(default=64 * MIB, gt=0)
    max_depth: int = Field(default=64, ge=8, le=400)
    max_queue_events: int = Field(default=10_000, gt=0)
    max_queue_bytes: int = Field(default=256 * MIB, gt=0)
    group_size: int = Field(default=256, ge=1, le=2000)
    group_writers: int = Field(default=2, ge=1, le=16)

    rate_global: OptionalRate = Rate(per_second=100, burst=200)
    rate_organization: OptionalRate = None
    rate_key: OptionalRate = Rate(per_second=50, burst=100)
    rate_anonymous: OptionalRate = Rate(per_second=10, burst=20)
    rate_ingest: OptionalRate = None

    @field_validator("rate_global", "rate_organization", "rate_key", "rate_anonymous", "rate_ingest", mode="before")
    @classmethod
    def _read_rate(cls, value: object) -> object:
        return parse_rate(value)

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _read_origins(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
