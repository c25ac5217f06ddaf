"""How a dataset is, in one word. Pure: what is known of it comes in, the word comes out."""

from __future__ import annotations

from headgate.server.catalog.schemas import State

_FAILED = frozenset({"FAIL", "ABORT"})


def state_of(
    *, is_dropped: bool, failing_tests: int, last_run: str | None, is_stale: bool, is_written: bool, is_tested: bool
) -> State:
    """The worst that holds. Of what is gone, or was never written, tested or waited for, nothing is known."""
    if is_dropped:
        return State.unknown
    if failing_tests or last_run in _FAILED:
        return State.failing
    if is_stale:
        return State.stale
    return State.ok if is_written or is_tested else State.unknown
