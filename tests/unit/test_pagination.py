from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import InvalidFields
from headgate.server.pagination import NumberedPage, Page, decode, decode_number, encode, encode_number

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ZERO = UUID(int=0)


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))])), st.uuids())
def test_cursor_leads_back_to_the_same_time_and_id(at: datetime, row_id: UUID) -> None:
    assert decode(encode(at, row_id)) == (at, row_id)


@given(st.integers(-(2**63), 2**63 - 1), st.uuids())
def test_cursor_leads_back_to_the_same_number_and_id(number: int, row_id: UUID) -> None:
    assert decode_number(encode_number(number, row_id)) == (number, row_id)


@given(st.text(max_size=64))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (decode, decode_number):
        with suppress(InvalidFields):
            read(text)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "AAAA", "ünicode", encode(NOON, ZERO)[:-4], encode(NOON, ZERO) + "AAAA", encode_number(2**62, ZERO)],
    ids=["empty", "no base64", "too short", "no ascii", "cut off", "too long", "no such time"],
)
def test_cursor_that_is_not_ours_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidFields) as refusal:
        decode(cursor)
    assert refusal.value.hint is not None


def test_page_keeps_the_extra_row_back_and_points_to_the_last_one_shown() -> None:
    rows = [{"id": UUID(int=number), "created_at": NOON - timedelta(hours=number)} for number in range(3)]

    shown, cursor = Page(2, None, None).cut(rows)

    assert shown == rows[:2]
    assert cursor is not None
    assert decode(cursor) == (rows[1]["created_at"], rows[1]["id"])


def test_last_page_has_no_cursor() -> None:
    rows = [{"id": ZERO, "position": 1}, {"id": ZERO, "position": 2}]

    assert NumberedPage(2, None, None).cut(rows) == (rows, None)


def test_numbered_page_points_to_the_last_number_shown() -> None:
    rows = [{"id": UUID(int=number), "position": number} for number in range(3)]

    _, cursor = NumberedPage(2, None, None).cut(rows)

    assert cursor is not None
    assert decode_number(cursor) == (1, UUID(int=1))
