"""Drafts of the rest of a list of names, from any place in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refactx.selection.answer_lines import continue_list

NAMES = st.lists(st.text("abc d", min_size=1).map(str.strip).filter(bool), max_size=5)


@given(NAMES, st.data(), st.sampled_from(["; ", ", "]))
def test_a_list_in_order_is_drafted_from_any_place_in_it(names: list[str], data: st.DataObject, separator: str) -> None:
    names = [name for n, name in enumerate(names) if not any(name in other or other in name for other in names[:n])]
    whole = " " + separator.join(names) if names else ""
    written = whole[: data.draw(st.integers(0, len(whole)))]
    usual = separator[0] in written or separator == "; "  # the one that it continues with
    assert written + continue_list(written, names) == (whole if usual else whole.replace(", ", "; "))


@given(st.text("ab ;,and"), NAMES)
def test_drafts_are_names_that_the_list_does_not_have(written: str, names: list[str]) -> None:
    more = continue_list(written, names)
    assert not more or any(name in written + more for name in names)
    assert more.count("; ") + more.count(", ") <= len(set(names))


@pytest.mark.parametrize(
    ("written", "more"),
    [
        (" Rome, and", " Oslo, Bonn"),
        (" Rome and ", "Oslo; Bonn"),
        (" Bonn; Rome", "; Oslo"),
        (" Rome; Oslo; Bonn", ""),
        (" Paris", ""),
        (" Paris;", " Rome; Oslo; Bonn"),
        (" Romeo", ""),
    ],
)
def test_a_list_that_leaves_out_or_adds_names_is_continued(written: str, more: str) -> None:
    assert continue_list(written, ["Rome", "Oslo", "Bonn", "Oslo"]) == more
    assert not continue_list(written, [])
