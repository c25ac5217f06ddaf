"""What counts as an id where a name may be meant, and where it may not."""

from __future__ import annotations

from uuid import UUID

import pytest

from headgate.server.references.ids import as_any_id, as_id

ID = UUID("66ea8898-86cc-5d6d-b488-cb2a8abbeab4")


@pytest.mark.parametrize("text", [str(ID), str(ID).upper()])
def test_an_id_with_its_hyphens_is_one_everywhere(text: str) -> None:
    assert (as_id(text), as_any_id(text)) == (ID, ID)


@pytest.mark.parametrize("text", [ID.hex, f"{{{ID}}}", ID.urn])
def test_another_spelling_of_an_id_may_be_a_name(text: str) -> None:
    assert (as_id(text), as_any_id(text)) == (None, ID)


@pytest.mark.parametrize("text", ["", "orders", "x" * 36, str(ID)[:-1]])
def test_what_is_no_id_is_none(text: str) -> None:
    assert (as_id(text), as_any_id(text)) == (None, None)
