"""Queries of answers are run again on the facts, and names that are not there are counted."""

import pytest
from support.query.twin import SetFacts

from refactx.eval.names import CheckedNames, check_line

FACTS = SetFacts(frozenset({("A", "p", "B"), ("A", "p", "C"), ("B", "q", "C"), ("A", "n", "7")}))


@pytest.mark.parametrize(
    "line",
    [
        "count <A> <p> .",
        "list <A> <p> which <q> <C>",
        "ask <A> <n> over <3>",
        "most <A> <p> by count <q>",
        "ask <A> <p> <F (f)>",
    ],
)
def test_a_query_of_names_that_are_there_runs(line: str) -> None:
    assert check_line(line, FACTS) == CheckedNames()


@pytest.mark.parametrize(
    ("line", "unknown"),
    [
        ("count <Nobody> <p>", ("Nobody",)),
        ("list <A> <no such>", ("no such",)),
        ("ask <A> <p> <Nobody>", ("Nobody",)),
        ("list <A> <p> which <no such> <C>", ("no such",)),
        ("most <A> <p> by <no such>", ("no such",)),
        ("ask <A> <n> equals <8>", ()),  # a number is no name
    ],
)
def test_names_that_are_not_there(line: str, unknown: tuple[str, ...]) -> None:
    assert check_line(line, FACTS).unknown == unknown


def test_a_query_that_does_not_run_has_a_reason() -> None:
    assert "in place of one of list, count" in check_line("total <A> <p>", FACTS).error
    assert check_line("list <Nobody> <p>", FACTS).error
    assert check_line("list <A> <p> which <n> over <x>", FACTS).error
