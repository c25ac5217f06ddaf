"""Token buckets in tiers: who may send how much. Knows clocks and keys; knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from ipaddress import IPv6Address, ip_address
from itertools import islice

from headgate.errors import RateLimited
from headgate.server.auth import Principal
from headgate.settings import Rate, Settings

Clock = Callable[[], float]


class Buckets:
    """One token bucket per key, all of one rate.

    A bucket is a single number: the time at which it will be full again. Buckets are kept in order of use.
    When there are too many, the longest unused go first: they are full, and forgetting those changes nothing.
    """

    def __init__(self, rate: Rate, *, clock: Clock = time.monotonic, max_buckets: int = 10_000) -> None:
        self._interval = 1 / rate.per_second
        self._slack = (rate.burst - 1) * self._interval
        self._clock = clock
        self._max = max_buckets
        self._full_at: dict[Hashable, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take one token: 0 when there was one, otherwise the seconds until there is."""
        now = self._clock()
        full_at = max(self._full_at.pop(key, now), now)
        wait = full_at - now - self._slack
        allowed = wait <= 1e-9
        self._full_at[key] = full_at + self._interval if allowed else full_at
        if len(self._full_at) > self._max:
            self._evict(now)
        return 0.0 if allowed else wait

    def _evict(self, now: float) -> None:
        oldest = list(islice(self._full_at.items(), 8))
        del self._full_at[oldest[0][0]]
        for key, full_at in oldest[1:]:
            if full_at > now:
                break
            del self._full_at[key]


class Limits:
    """The tiers of one server."""

    def __init__(self, settings: Settings, *, clock: Clock = time.monotonic) -> None:
        def tier(rate: Rate | None) -> Buckets | None:
            return Buckets(rate, clock=clock) if rate is not None else None

        self._global = tier(settings.rate_global)
        self._organization = tier(settings.rate_organization)
        self._key = tier(settings.rate_key)
        self._anonymous = tier(settings.rate_anonymous)
        self._ingest = tier(settings.rate_ingest)

    def check_ingest(self, principal: Principal) -> None:
        """Authenticated ingest: backpressure protects it, so only its own tier applies, when there is one."""
        if self._ingest is not None:
            _take(self._ingest, principal.organization_id, "the organisation's ingest")

    def check(self, principal: Principal | None, address: str) -> None:
        """Raise `RateLimited` when a tier is exhausted.

        The narrowest tier is asked first, so that a caller over its own limit takes nothing from the others.
        """
        if principal is None:
            _take(self._anonymous, _network(address), "this address without credentials")
        else:
            _take(self._key, principal.subject_id, f"this {principal.kind}")
            _take(self._organization, principal.organization_id, "the organisation")
        _take(self._global, None, "the server")


def _take(buckets: Buckets | None, key: Hashable, whose: str) -> None:
    if buckets is None:
        return
    wait_s = buckets.take(key)
    if wait_s:
        raise RateLimited(
            f"the request limit of {whose} is used up",
            retry_after_s=wait_s,
            hint="wait as long as the Retry-After header says",
        )


def _network(address: str) -> str:
    """The address, or for IPv6 its /64: one machine has all of it, and would have as many buckets."""
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address) or parsed.ipv4_mapped:
        return address
    return str(IPv6Address(int(parsed) >> 64 << 64))
