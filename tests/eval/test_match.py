"""Many names compared at once are equal where each pair of them is."""

from hypothesis import given
from hypothesis import strategies as st

from refactx.eval.answers import match, same

NAMES = st.sampled_from(
    [
        "", "?", "Bern", "Bern (city)", "Bern (Indiana)", "the Bern", "Wake Up (song) (2005 single)", "Wake Up (song)",
        "Wake Up", "1956", "1956-01-01", "20 October 1956", "1956-10-20", "170", "170 cm", "170 kg", "3 Idiots", "44 BC",
        "March 15, 44 BC", "iPhone 5", "Serie A", "C++", "2 km (race)", "2",
    ]
)  # fmt: skip


@given(st.lists(st.lists(NAMES, max_size=3), max_size=6), st.lists(NAMES, max_size=6))
def test_many_names_are_equal_where_each_pair_is(golds: list[list[str]], said: list[str]) -> None:
    found, wanted = match(golds, said)
    assert found == [any(same(name, item) for name in names for item in said) for names in golds]
    assert wanted == [any(same(name, item) for names in golds for name in names) for item in said]
