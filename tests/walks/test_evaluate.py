"""Queries mean on a set of facts what they mean by brute force, within limits; what cannot be answered is an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.query.check import check
from support.query.memory_index import RowsIndex
from support.query.twin import ASKED, Graph, SetFacts, members, with_inverse

from refactx.walks.evaluate import Result, WalkLimits, evaluate_walk
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet, Query, QueryError, read_line
from refactx.walks.sets import Budget


@pytest.mark.long
@settings(max_examples=600)
@given(ASKED)
def test_any_query_has_the_answer_of_brute_force(asked: tuple[Graph, Query]) -> None:
    claims, query = asked
    check(query, SetFacts(claims), claims)


@pytest.mark.long
@settings(max_examples=400)
@given(ASKED, st.integers(0, 4), st.booleans())
def test_hubs_are_counted_read_from_the_other_side_or_refused(
    asked: tuple[Graph, Query], limit: int, other_side: bool
) -> None:
    claims, query = asked
    with pytest.MonkeyPatch.context() as patch:
        if other_side:  # however few members there are
            patch.setattr("refactx.walks.sets.FEW", -1)
            patch.setattr("refactx.walks.sets.FEWER", 0)
        check(query, SetFacts(claims, limit), claims, has_hubs=True)


@settings(max_examples=400)
@given(ASKED, st.integers(0, 4), st.booleans())
def test_hubs_are_found_by_a_scan_of_all_facts(asked: tuple[Graph, Query], limit: int, other_side: bool) -> None:
    claims, query = asked
    with pytest.MonkeyPatch.context() as patch:
        if other_side:
            patch.setattr("refactx.walks.sets.FEW", -1)
            patch.setattr("refactx.walks.sets.FEWER", 0)
        facts = SetFacts(claims, limit, size=len(claims))
        check(query, facts, claims, has_hubs=True, scanned=facts.facts)


@settings(max_examples=400)
@given(ASKED, st.integers(1, 3), st.integers(0, 12))
def test_a_limit_gives_a_part_of_the_answer_or_an_error(asked: tuple[Graph, Query], most: int, reads: int) -> None:
    claims, query = asked
    try:
        result = evaluate_walk(query, SetFacts(claims), WalkLimits(members=most, reads=reads, facts=2))
    except QueryError:
        return
    expected = members(with_inverse(claims), query)
    assert len(result.facts) <= 2
    assert result.is_complete == (not result.reason)
    if query.by is not None:
        assert result.is_complete
    elif result.is_complete:
        assert result.count in (None, len(expected))
        assert result.truth in (None, bool(expected))
    else:
        assert set(result.values) <= expected
        assert (result.count or 0) <= len(expected)
        assert not result.truth


PEOPLE: Graph = frozenset(
    {
        ("A", "p", "B"),
        ("B", "p", "A"),
        ("B", "q", "C"),
        ("A", "t", "1990"),
        ("B", "t", "1995-12-31"),
        ("B", "n", "7"),
        ("A", "x", "ea (e)"),
        ("C", "m", "30"),
        ("A", "m", "D"),
    }
)


def answer(line: str, facts: FactSet | None = None, limits: WalkLimits | None = None) -> Result:
    return evaluate_walk(read_line(line), facts or SetFacts(PEOPLE), limits or WalkLimits())


def test_facts_lead_from_the_start_to_each_member_and_from_there_to_the_value() -> None:
    found = answer("list <A> <p> <p>* which <q> <C>")
    assert (found.values, found.count, found.kind, found.is_complete) == (("B",), 1, "entity", True)
    assert found.facts == (("A", "p", "B"), ("B", "q", "C"))
    assert answer("most <A> <p>+ by <t>").sorted_by == ("1995-12-31",)
    assert answer("most <A> <p>+ by <t>").facts == (("A", "p", "B"), ("B", "t", "1995-12-31"))
    assert answer("least 2 <A> <p>* by count <m>").sorted_by == ("1",)


PRICES = {"lamp": (("12 EUR", "12"), ("9 EUR", "9")), "desk": (("80 EUR", "80"),), "free": (), "rug": (("old", ""),)}
PRICED = frozenset(
    fact
    for thing, prices in PRICES.items()
    for price, amount in prices
    for fact in ((thing, "price", price), (price, "amount", amount), (thing, "of", "shop"), ("shop", "sells", thing))
    if fact[2]
)


def test_what_a_member_leads_to_may_have_the_value() -> None:
    facts = SetFacts(PRICED)
    best = answer("most 2 <shop> <sells> by <price>/<amount>", facts)
    assert (best.values, best.sorted_by) == (("desk", "lamp"), ("80", "12"))
    assert best.facts[:3] == (("shop", "sells", "desk"), ("desk", "price", "80 EUR"), ("80 EUR", "amount", "80"))
    assert answer("least <shop> <sells> by <price>/<amount>", facts).sorted_by == ("9",)
    assert answer("sum <shop> <sells> by <price>/<amount>", facts).values == ("101",)
    assert answer("most <shop> <sells> by count <price>/<amount>", facts).values == ("lamp",)
    table = answer("list <shop> <sells> show <price>/<amount>", facts)
    assert dict(zip(table.values, table.cells, strict=True)) == {
        "desk": (("80",),),
        "lamp": (("12", "9"),),
        "rug": ((),),
    }
    assert table.columns == ("price/amount",)
    with pytest.raises(QueryError, match="<amont> is no predicate of <80 EUR> and the 3 others: did you mean <amount>"):
        answer("most <shop> <sells> by <price>/<amont>", facts)
    with pytest.raises(QueryError, match="<p> cannot be followed from literals"):
        answer("most <A> <p> by <t>/<p>")


@pytest.mark.parametrize("values", [("-1.5", "7", "30"), ("44-03-15 BCE", "1990-05", "1991")])
def test_text_is_compared_as_what_all_of_its_values_are(values: tuple[str, ...]) -> None:
    """A graph may have numbers and dates without a datatype."""
    named = dict(zip("BCD", values, strict=True))
    facts = SetFacts(frozenset({*(("A", "p", one) for one in named), *((one, "x", of) for one, of in named.items())}))
    assert answer("most 3 <A> <p> by <x>", facts).values == ("D", "C", "B")
    assert answer("least <A> <p> by <x>", facts).sorted_by == values[:1]
    assert answer(f"list <A> <p> which <x> over <{values[1]}>", facts).values == ("D",)
    assert answer(f"list <A> <p> which <x> under <{values[1]}>", facts).values == ("B",)


def test_one_hop_is_counted_without_reading_it() -> None:
    class Counted(SetFacts):
        def objects(self, subjects, predicate):  # type: ignore[no-untyped-def]
            raise AssertionError("objects are read")

    assert answer("count <A> <p>", Counted(PEOPLE), WalkLimits(facts=0)).count == 1
    assert answer("ask <A> <p>", Counted(PEOPLE), WalkLimits(facts=0)).truth is True


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("list <Zed> <p>", "no fact begins with <Zed>"),
        ("list <A> <pp>", "<pp> is no predicate of <A>: did you mean <p>"),
        ("ask <A> <pp> <B>", "<pp> is no predicate of <A>"),
        ("list <A> <q>", "no fact of <A> has the predicate <q>"),
        ("list <A> <p> <q> <q>", "no fact of <C> has the predicate <q>"),
        ("list <A> <p>* which <q of> <C>", "no fact of <A> and the 1 others has the predicate <q of>"),
        ("most <A> <p> by <m>", "no fact of <B> has the predicate <m>"),
        ("most <A> <p>* by <m>", "<D> is neither a time nor a quantity"),
        ("most <A> <p>* by <x>", "> is neither a time nor a quantity"),
        ("list <A> <p>* which <x> over <3>", ">: <3> cannot be compared with them"),
        ("list <A> <p>* which <x> over <c>", "the values of <x> are literals: <c> cannot be compared"),
        ("list <A> <p> which <t> over <soon>", "are times: <soon> cannot be compared"),
        ("list <A> <p>* which <m> over <3>", "the values of <m> are such as <D>"),
        ("list <A> <t> <p>", "<p> cannot be followed from literals"),
        ("list <A> <t>+", "<t> cannot be followed again from literals"),
        ("list <A> <p> which <t> <p> <B>", "<p> cannot be followed from literals"),
    ],
)
def test_what_cannot_be_answered_is_an_error_in_one_line(line: str, complaint: str) -> None:
    with pytest.raises(QueryError) as error:
        answer(line)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("line", ["ask <A> <q> <B>", "ask <A> <p> which <m> <D>", "ask <C> <q>"])
def test_no_fact_is_a_no(line: str) -> None:
    assert answer(line).truth is False


@pytest.mark.parametrize("line", ["count <A> <q>", "count <A> <p> <q> <q>", "count <A> <p> which <m> <D>"])
def test_no_facts_are_counted_as_none(line: str) -> None:
    assert answer(line).count == 0


def test_too_many_members_to_compare_are_an_error() -> None:
    with pytest.raises(QueryError, match="most needs all members of a set, but a set has more than 1 members"):
        answer("most <A> <p>* by <t>", limits=WalkLimits(members=1))
    with pytest.raises(QueryError, match="more than 0 facts have to be read"):
        answer("most <A> <p>* by <t>", limits=WalkLimits(reads=0))


def test_a_time_limit_ends_an_answer() -> None:
    found = answer("list <A> <p>*", limits=WalkLimits(seconds=0))
    assert (found.is_complete, found.reason) == (False, "it takes more than 0 seconds")


def test_unknown_names_come_with_those_of_the_index_that_are_near() -> None:
    claims = frozenset({("Danny Boyle (director)", "p", "B"), ("Danny (alias)", "alias of", "Dan"), ("Dan", "p", "B")})
    facts = TreeFacts(RowsIndex([(1, claims)]))
    with pytest.raises(QueryError, match=r"with <Danny Boile>: did you mean <Danny Boyle \(director\)>"):
        answer("list <Danny Boile> <p>", facts)
    with pytest.raises(QueryError, match=r"with <Danny>: did you mean <Danny> \(alias of <Dan>\)"):
        answer("list <Danny> <p>", facts)
    for name in ("Boyle, Danny", "danny", "Danni Boyle", "boyle the director", "Banny Boyle"):
        assert facts.linker.suggestions(name)[0].name in ("Danny Boyle (director)", "Dan"), name
    for name in ("dancer", "Dandelion Boil", "the", "?", "x" * 300):
        assert facts.linker.suggestions(name) == [], name
    with pytest.raises(QueryError, match="no inverse facts"):
        answer("list <Dan> <starred in by>", facts)


def test_a_hub_is_read_from_the_other_side_unless_that_is_a_literal_or_a_hub_itself() -> None:
    subjects = ("B", "C", "D")
    claims = frozenset({*((name, "p", "A") for name in subjects), ("B", "m", "7"), ("B", "q", "D"), ("C", "q", "D")})
    two, one = SetFacts(claims, 2), SetFacts(claims, 1)
    assert answer("count <A> <p of>", one).count == 3
    assert answer("list <A> <p of> which <q> <D>", two).values == ("B", "C")
    assert ("B", "p", "A") in answer("list <A> <p of> which <q> <D>", two).facts
    assert answer("ask <A> <p of> <C>", one).truth is True
    for line in ("list <A> <p of>", "list <A> <p of> which <q> <D>", "list <A> <p of> which <m> <7>"):
        with pytest.raises(QueryError, match="<A> has 3 facts with <p of>: they are counted, but not in the index"):
            answer(line, one)


def test_all_hubs_of_a_hop_take_one_scan_if_the_index_is_small_enough() -> None:
    claims = frozenset((name, "p", hub) for hub in ("A", "B") for name in ("C", "D")) | {("A", "q", "B")}

    facts = SetFacts(claims, 1, size=5)
    found = answer("list <A> <q>* <p of> which <p> <B>", facts, WalkLimits(scanned=5))
    assert (found.values, found.is_complete) == (("C", "D"), True)
    assert found.facts[:2] == (("C", "p", "A"), ("C", "p", "B"))
    assert facts.scans == [((("p", "A"), ("p", "B")), None)]
    with pytest.raises(QueryError, match=r"is to scan 5 facts\. Narrow the set .* --inverse-limit"):
        answer("list <A> <q>* <p of>", facts, WalkLimits(scanned=4))
    late = answer("list <A> <p of>", facts, WalkLimits(seconds=0))
    assert (late.values, late.is_complete) == ((), False)


def test_what_a_scan_finds_in_time_is_a_part_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(Budget):
        def spend(self, reads: int = 0) -> bool:
            return super().spend(1)

    monkeypatch.setattr(Budget, "scan", lambda budget: Short(WalkLimits(reads=3)))
    facts = SetFacts(frozenset((name, "p", "A") for name in "ABCDE"), 1, size=5)
    for line in ("list <A> <p of>", "count <A> <p of> which <p>* is <A>"):
        part = answer(line, facts)
        assert (part.count, part.is_complete) == (3, False)
        assert part.reason == "all facts cannot be scanned in 10 seconds"
    with pytest.raises(
        QueryError, match="most needs all members of a set, but all facts cannot be scanned in 10 seconds"
    ):
        answer("most <A> <p of> by count <p>", facts)
