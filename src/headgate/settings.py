"""Server settings, read once from the environment and passed down; nothing else reads `os.environ`."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, TypeAlias

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1024 * 1024

Network: TypeAlias = IPv4Network | IPv6Network
# What an office or a cluster calls its own. Link-local addresses are not here: cloud metadata is among them.
PRIVATE_NETWORKS: tuple[Network, ...] = tuple(
    ip_network(each)
    for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "::1/128", "fc00::/7")
)


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


def parse_networks(value: object) -> object:
    """Read `true`, `false` or networks separated by commas; anything else is left to pydantic to refuse."""
    if isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if text in {"", "false", "0", "no", "off", "none"}:
        return ()
    if text in {"true", "1", "yes", "on"}:
        return PRIVATE_NETWORKS
    try:
        return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"{value!r} names no networks: write `true`, `false` or `10.0.0.0/8, fd00::/8`") from error


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
    # Encrypts secrets of channels; of several, separated by commas, the first does and the others only decrypt.
    secret_key: SecretStr | None = None
    # Networks that alerts may be sent to although they are not public: `true` for the usual private ones, or a list.
    alert_allow_private: Annotated[tuple[Network, ...], NoDecode] = ()
    # How long it can be seen what became of alerts; longer than the longest window, which looks back at it.
    alert_history_days: int = Field(default=365, ge=31, le=36_500)
    # How long anomalies can be seen after they were closed.
    anomaly_days: int = Field(default=365, ge=31, le=36_500)
    # How long incidents can be seen after they ended.
    incident_days: int = Field(default=365, ge=31, le=36_500)
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

    # Tasks a second that a worker does of one tenant; and how many of a tenant may wait before more are refused.
    tasks_rate_tenant: OptionalRate = None
    tasks_max_backlog: int = Field(default=100_000, gt=0, le=10_000_000)
    # Beyond so many events that wait to be written, workers of all processes hold back.
    tasks_yield_events: int = Field(default=256, gt=0)
    tasks_dead_days: int = Field(default=90, ge=1, le=36_500)

    @field_validator(
        *("rate_global", "rate_organization", "rate_key", "rate_anonymous", "rate_ingest", "tasks_rate_tenant"),
        mode="before",
    )
    @classmethod
    def _read_rate(cls, value: object) -> object:
        return parse_rate(value)

    @field_validator("alert_allow_private", mode="before")
    @classmethod
    def _read_networks(cls, value: object) -> object:
        return parse_networks(value)

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _read_origins(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
