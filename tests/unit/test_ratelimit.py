from __future__ import annotations

from uuid import uuid4

import pytest

from headgate.errors import RateLimited
from headgate.server.auth import Principal, Scope
from headgate.server.ratelimit import Buckets, Limits
from headgate.settings import Rate, Settings

OFF = {"rate_global": None, "rate_organization": None, "rate_key": None, "rate_anonymous": None}


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_principal(**changes: object) -> Principal:
    fields: dict[str, object] = {
        "organization_id": uuid4(),
        "organization_name": "Acme",
        "tenant_id": 1,
        "tenant_code": "acme",
        "kind": "key",
        "subject_id": uuid4(),
        "name": "ci",
        "scopes": frozenset({Scope.ingest}),
    }
    return Principal(**{**fields, **changes})  # type: ignore[arg-type]  # a builder of known fields


def limits(clock: FakeClock | None = None, **rates: Rate) -> Limits:
    return Limits(Settings(**{**OFF, **rates}), clock=clock or FakeClock())  # type: ignore[arg-type]  # rates only


def allowed(check: object, *args: object, tries: int) -> int:
    passed = 0
    for _ in range(tries):
        try:
            check(*args)  # type: ignore[operator]  # a bound method of Limits
        except RateLimited:
            continue
        passed += 1
    return passed


def test_a_burst_passes_and_the_next_request_waits_for_one_token() -> None:
    buckets = Buckets(Rate(per_second=2, burst=3), clock=FakeClock())

    waits = [buckets.take("a") for _ in range(4)]

    assert waits == [0, 0, 0, pytest.approx(0.5)]


def test_tokens_come_back_at_the_rate_and_never_above_the_burst() -> None:
    clock = FakeClock()
    buckets = Buckets(Rate(per_second=2, burst=3), clock=clock)
    for _ in range(3):
        buckets.take("a")

    clock.now += 0.5
    assert [bool(buckets.take("a")) for _ in range(2)] == [False, True]
    clock.now += 3600
    assert [bool(buckets.take("a")) for _ in range(4)] == [False, False, False, True]


def test_refused_requests_do_not_push_the_wait_further_away() -> None:
    clock = FakeClock()
    buckets = Buckets(Rate(per_second=1, burst=1), clock=clock)
    buckets.take("a")

    assert [buckets.take("a") for _ in range(50)] == [pytest.approx(1.0)] * 50
    clock.now += 1
    assert buckets.take("a") == 0


def test_keys_do_not_share_a_bucket() -> None:
    buckets = Buckets(Rate(per_second=1, burst=1), clock=FakeClock())

    assert buckets.take("a") == 0
    assert buckets.take("b") == 0


def test_the_number_of_buckets_is_bounded_and_the_busy_one_is_kept() -> None:
    clock = FakeClock()
    buckets = Buckets(Rate(per_second=1, burst=2), clock=clock, max_buckets=100)
    for index in range(10_000):
        clock.now += 0.1
        buckets.take(index)
        buckets.take("busy")

    assert len(buckets) <= 100
    assert buckets.take("busy") > 0


def test_full_buckets_are_dropped_before_used_ones() -> None:
    clock = FakeClock()
    buckets = Buckets(Rate(per_second=1, burst=1), clock=clock, max_buckets=4)
    for name in "abcd":
        buckets.take(name)
    clock.now += 2
    buckets.take("new")

    assert len(buckets) == 1


def test_each_anonymous_address_has_its_own_limit() -> None:
    some = limits(rate_anonymous=Rate(per_second=1, burst=2))

    assert allowed(some.check, None, "192.0.2.1", tries=5) == 2
    assert allowed(some.check, None, "192.0.2.2", tries=5) == 2


def test_addresses_of_one_ipv6_network_share_a_limit() -> None:
    some = limits(rate_anonymous=Rate(per_second=1, burst=2))

    passed = sum(allowed(some.check, None, f"2001:db8::{index}", tries=1) for index in range(1, 9))

    assert passed == 2
    assert allowed(some.check, None, "2001:db8:1::1", tries=1) == 1


def test_ipv4_addresses_written_as_ipv6_do_not_share_a_limit() -> None:
    some = limits(rate_anonymous=Rate(per_second=1, burst=1))

    assert allowed(some.check, None, "::ffff:192.0.2.1", tries=2) == 1
    assert allowed(some.check, None, "::ffff:192.0.2.2", tries=2) == 1


def test_two_keys_of_an_organisation_share_its_limit_and_not_their_own() -> None:
    some = limits(rate_key=Rate(per_second=1, burst=3), rate_organization=Rate(per_second=1, burst=4))
    first = a_principal()
    second = a_principal(organization_id=first.organization_id)

    assert allowed(some.check, first, "", tries=9) == 3
    assert allowed(some.check, second, "", tries=9) == 1
    assert allowed(some.check, a_principal(), "", tries=9) == 3


def test_a_caller_over_its_own_limit_takes_nothing_from_the_global_one() -> None:
    some = limits(rate_key=Rate(per_second=1, burst=1), rate_global=Rate(per_second=1, burst=2))

    assert allowed(some.check, a_principal(), "", tries=50) == 1
    assert allowed(some.check, a_principal(), "", tries=50) == 1
    assert allowed(some.check, a_principal(), "", tries=50) == 0


def test_ingest_is_free_unless_its_tier_is_set() -> None:
    principal = a_principal()

    assert allowed(limits().check_ingest, principal, tries=500) == 500
    assert allowed(limits(rate_ingest=Rate(per_second=1, burst=7)).check_ingest, principal, tries=500) == 7


def test_the_refusal_says_how_long_to_wait() -> None:
    some = limits(rate_global=Rate(per_second=0.1, burst=1))
    some.check(None, "192.0.2.1")

    with pytest.raises(RateLimited) as caught:
        some.check(None, "192.0.2.1")

    assert caught.value.retry_after_s == pytest.approx(10)
