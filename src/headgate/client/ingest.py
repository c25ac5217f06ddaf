"""Calls that send events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx
import msgspec

from headgate.client.http import Call, decoded

_BATCH_STATUSES = frozenset({200, 207, 422})


class Receipt(NamedTuple):
    """The answer to one event: 201 for a stored one, 200 for one that the server already had."""

    status: int
    duplicate: bool


class BatchSummary(msgspec.Struct, frozen=True):
    """How many events of a batch went where; duplicates are among the successful ones."""

    received: int
    successful: int
    failed: int
    retriable: int = 0
    non_retriable: int = 0
    duplicates: int = 0


class FailedEvent(msgspec.Struct, frozen=True):
    """One event of a batch that was not stored; `index` is its place in the batch."""

    index: int
    reason: str
    retriable: bool = False


class BatchReceipt(msgspec.Struct, frozen=True):
    """The answer to a batch, refused events included."""

    status: str
    summary: BatchSummary
    failed_events: list[FailedEvent] = []
    correlation_id: str | None = None
    timestamp: str | None = None


def send(event: bytes | Mapping[str, Any]) -> Call[Receipt]:
    """Send one event. Bytes go out exactly as they are, so the same bytes are always a duplicate."""
    body = event if isinstance(event, bytes) else msgspec.json.encode(event)
    return Call("POST", "/api/v1/lineage", _receipt, body=body, repeatable=True)


def send_batch(events: Sequence[bytes]) -> Call[BatchReceipt]:
    """Send events in one request. Refused events are in the receipt; only a refused request raises."""
    body = b"[" + b",".join(events) + b"]"
    return Call("POST", "/api/v1/lineage/batch", _batch_receipt, body=body, accept=_BATCH_STATUSES, repeatable=True)


def _receipt(response: httpx.Response) -> Receipt:
    return Receipt(response.status_code, duplicate=response.status_code == 200)


def _batch_receipt(response: httpx.Response) -> BatchReceipt:
    return decoded(response, BatchReceipt)
