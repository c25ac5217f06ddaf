"""What the catalogue decides without a database: the state of a dataset, tags, and places in a list."""

from __future__ import annotations

from uuid import UUID

import pytest

from headgate.errors import InvalidFields
from headgate.server.catalog.routes import dataset_filters, dataset_page, wanted_ids
from headgate.server.catalog.schemas import MAX_IDS, Sort, State
from headgate.server.catalog.status import state_of
from headgate.server.pagination import encode_sorted

AN_ID = "0190d0a0-0000-7000-8000-000000000001"


def a_state(
    failing_tests: int = 0,
    last_run: str | None = "COMPLETE",
    is_stale: bool = False,
    is_written: bool = True,
    is_tested: bool = False,
    is_dropped: bool = False,
) -> State:
    return state_of(
        failing_tests=failing_tests,
        last_run=last_run,
        is_stale=is_stale,
        is_written=is_written,
        is_tested=is_tested,
        is_dropped=is_dropped,
    )


def test_the_worst_decides() -> None:
    assert a_state(failing_tests=1, is_stale=True) is State.failing
    assert a_state(last_run="FAIL", is_stale=True) is State.failing
    assert a_state(last_run="ABORT") is State.failing
    assert a_state(is_stale=True) is State.stale
    assert a_state() is State.ok


def test_a_run_that_goes_on_is_no_failure() -> None:
    assert [a_state(last_run=state) for state in ("START", "RUNNING", "OTHER")] == [State.ok] * 3


def test_what_was_neither_written_nor_tested_is_unknown() -> None:
    assert a_state(last_run=None, is_written=False) is State.unknown
    assert a_state(last_run="START", is_written=False) is State.unknown
    assert a_state(last_run=None, is_written=False, is_tested=True) is State.ok
    assert a_state(last_run=None, is_written=False, is_stale=True) is State.stale


def test_whatever_was_known_of_what_is_gone_it_is_unknown() -> None:
    assert a_state(is_dropped=True) is State.unknown
    assert a_state(is_dropped=True, failing_tests=1, is_stale=True) is State.unknown


def test_a_place_comes_back_from_its_cursor() -> None:
    places = [
        (Sort.name, "shop.Größe"),
        (Sort.rows_down, "-1"),
        (Sort.downstream, "12"),
        (Sort.freshness, "infinity"),
        (Sort.freshness_down, "-infinity"),
        (Sort.freshness_down, "2026-03-01T10:00:00.000001+00:00"),
    ]
    for sort, place in places:
        page = dataset_page(sort, 10, encode_sorted(sort, place, UUID(AN_ID)))
        assert (page.sort, page.value, str(page.id), page.limit) == (sort, place, AN_ID, 10)


def test_a_time_of_any_zone_is_a_place() -> None:
    cursor = encode_sorted(Sort.freshness, "2026-03-01 12:00:00+02", UUID(AN_ID))

    assert dataset_page(Sort.freshness, 10, cursor).value == "2026-03-01T10:00:00+00:00"


def test_the_first_page_has_no_place() -> None:
    page = dataset_page(Sort.name, 10, None)

    assert (page.value, page.id, page.is_first) == (None, None, True)


def test_filters_are_read_as_names_are() -> None:
    found = dataset_filters(namespace="S3A://Lake", type_=None, dataset_type="VIEW", tag="", text="")

    assert (found.namespace, found.type, found.tag, found.text) == ("s3://Lake", "view", None, None)


def test_type_comes_before_its_other_name() -> None:
    assert dataset_filters(type_="table", dataset_type="view").type == "table"


def test_ids_may_be_given_in_any_way_and_count_once() -> None:
    other = AN_ID.replace("1", "2")

    assert [str(id_) for id_ in wanted_ids([f"{AN_ID}, {other}", AN_ID.upper(), ","])] == [AN_ID, other]


def test_too_many_ids_are_counted_in_the_answer() -> None:
    with pytest.raises(InvalidFields, match=f"has {MAX_IDS + 1} ids, more than {MAX_IDS}"):
        wanted_ids([AN_ID] * (MAX_IDS + 1))
