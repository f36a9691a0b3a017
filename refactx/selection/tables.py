"""Candidates for questions about groups, sums, averages, differences and tables: walks over sets as other candidates have them.

The question's words say that one is asked for (`[words.tables]` of a prompt): "total", "average", "per", "with their". A group
is by a predicate that stands after such a word ("per department"), or of which the question asks which one has the most, or
more than a number ("departments with more than five employees"). All parts are found as those of other candidates are, and
the model scores whole lines.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from heapq import nlargest
from itertools import islice, permutations, product

from refactx.engines.engine import Steps
from refactx.english import plural
from refactx.linking.names import bare_name
from refactx.selection.conditions import NEVER_QUERIED, Base, predicates_of
from refactx.selection.mentions import Mention, TableWord, name_spans
from refactx.selection.queries import MAX_BETWEEN, NARROWED, QuerySearch
from refactx.selection.query_lines import Candidate, UnscoredQuery, line_of
from refactx.walks.language import BOUNDS, FactSet, Groups, Head, Hop, MemberValue, Operator, Query, QueryError, Walk
from refactx.walks.measures import difference
from refactx.walks.sets import WalkLimits
from refactx.walks.values import parse_quantity

MOST_SETS = 6
"""How many sets with filters are grouped or summed: those that leave out least of the question."""

MOST_PAIRS = 6
"""How many pairs of named things differences are of."""


class TableSearch:
    """The search for groups, sums, averages, differences and tables that one question asks for."""

    def __init__(self, search: QuerySearch, facts: FactSet, limits: WalkLimits) -> None:
        self._search, self._facts, self._limits, self._weights = search, facts, limits, search.weights

    def candidates(self) -> Steps[list[Candidate]]:
        """Return the candidates, the likeliest first; none if the question's words ask for nothing of the kind."""
        ways = dict[Query, UnscoredQuery]()
        if self._may_have_groups:
            for base, one in (yield from self._sets()):
                for way in self._of_set(base, one):
                    ways.setdefault(way.query, way)
        if "difference" in self._asked:
            ways |= {one.query: one for one in self._differences()}
        return (yield from self._search.rank(ways.values()))

    @property
    def _may_have_groups(self) -> bool:
        """Whether the words say so, before sets are read; of Wikidata, whether names stand after words such as `by`."""
        search = self._search
        if self._sums or search.conditions.reads_values:
            return bool(self._asked or self._orders or self._bounds)
        places = name_spans(search.question, search.mentions.predicates) if self._asked else []
        places += [(one.start, one.stop) for one in search.classes] if self._asked else []
        return any(self._follows(start, "per") or self._follows(start, "show") for start, _ in places)

    @cached_property
    def _asked(self) -> dict[TableWord, list[int]]:
        """What the question's words ask for, with where those words end."""
        return self._search.words.tables_of(self._search.question, self._search.name_spans)

    @cached_property
    def _sums(self) -> list[Head]:
        return [head for head in ("sum", "average") if head in self._asked]

    @cached_property
    def _orders(self) -> list[Head]:
        return [head for head in self._search.heads if head in ("most", "least")]

    @cached_property
    def _bounds(self) -> list[tuple[Operator, str]]:
        """The bounds that a number of the question, in digits or in a word, may set."""
        words, question = self._search.words, self._search.question
        numbers = [*self._search.mentions.numbers, *words.number_words_of(question)]
        operators = [one for one in words.operators_of(question) if one in BOUNDS]
        return list(product(operators, numbers))

    # --- Sets

    def _sets(self) -> Steps[list[tuple[Base, UnscoredQuery]]]:
        """Return sets that may be grouped or summed, each with its filters: of the classes that the question names, unless they
        are what it groups by, then of the largest; and those to which what it names leads."""
        search, whole, narrow = self._search, list[tuple[Base, UnscoredQuery]](), list[tuple[Base, UnscoredQuery]]()
        classes = list(search.classes)
        if all(self._is_grouped_by(one) for one in classes if one.is_named):
            classes += [one for one in search.unnamed_classes if one.name not in {other.name for other in classes}]
        bases = list(map(search.conditions.base_of, classes))
        if self._sums:
            known = {(one.start.name, one.predicate.name) for one in bases}
            more = (yield from search.bases("list"))[: self._weights.extended]
            bases += [one for one in more if (one.start.name, one.predicate.name) not in known]
        for base in bases:
            if base.predicate.kind in ("entity", "mixed") and not self._is_grouped_by(base.start):
                query = Query("list", base.start.name, (Hop(base.predicate.name),))
                whole.append((base, UnscoredQuery(query, "", search.prior(base.start))))
                narrow += [(base, way) for way in search.filtered(base, query, search.conditions.of(base))]
        best = nlargest(MOST_SETS, narrow, key=lambda one: one[1].prior - search.left_out(one[1].query))
        return whole + best

    def _is_grouped_by(self, class_: Mention) -> bool:
        return class_.is_named and self._follows(class_.start, "per")

    def _follows(self, place: int, word: TableWord) -> bool:
        """Return whether what stands at a place of the question follows a word, with function words alone between."""
        search = self._search
        return any(
            stop <= place and search.words.is_function(search.question[stop:place])
            for stop in self._asked.get(word, ())
        )

    def _of_set(self, base: Base, way: UnscoredQuery) -> Iterator[UnscoredQuery]:
        """Yield what may be asked of a set, with a prior in nats, which counts against those without the groups that the
        question has."""
        members = self._search.conditions.scanned(base, self._limits.scanned)
        if not members:
            return
        mentions = (base.start, *self._search.mentions.entities)
        per, asked = self._groups(base, members)
        groups = [*per, *(asked if base.start.is_named or self._sums else ())]
        for query, prior in self._heads(base, way.query, members, groups):
            left_out = bool(groups) and query.per is None and not query.show
            yield UnscoredQuery(
                query, line_of(query, *mentions), way.prior + prior - self._weights.left_out_penalty * left_out
            )

    def _heads(
        self, base: Base, query: Query, members: Sequence[str], groups: Sequence[Groups]
    ) -> Iterator[tuple[Query, float]]:
        """Yield the queries that a list becomes, each with what the meaning of its measure says."""
        sums = self._sums
        groups = [one for one in groups if all(which.value != one.value for which in query.which)]
        if not sums:
            counted = [one for one in groups if not one.order or self._search.counts]  # no "most expensive"
            yield from ((replace(query, head="count", per=one), 0.0) for one in counted)
        best = [one for one in groups if not (one.order or one.operator)] if not sums else []
        filtered = {which.hops[0].predicate for which in query.which if which.hops}
        for by, meaning in self._measures(base, members) if sums or (best and self._orders) else ():
            of_measure = 0.0 if by.path[0] in filtered else meaning  # which counts once
            for head, per in product(sums, [*groups, None]):
                yield replace(query, head=head, by=by, per=per), of_measure
            for head, per in product(self._orders, best):
                yield replace(query, head=head, by=by, per=per), of_measure
        if columns := self._columns(members):
            yield replace(query, show=columns), 0.0

    def _measures(self, base: Base, members: Sequence[str]) -> list[tuple[MemberValue, float]]:
        """Return the predicates with numbers of members, the nearest in meaning first: not those that a start, which is no
        class, has itself."""
        own = self._facts.predicates(base.start.name)
        found = [
            (by, of_measure)
            for by, of_measure in self._search.measures(members, base.start)
            if not by.counted
            and by.predicate not in own
            and all(parse_quantity(value) is not None for value in self._search.values(members, by.path))
        ]
        return found[:NARROWED]

    # --- Groups and columns

    def _groups(self, base: Base, members: Sequence[str]) -> tuple[list[Groups], list[Groups]]:
        """Return the groups after words such as `per`, and those of which it is asked which have the most, or more than a
        number."""
        per, asked = list[Groups](), list[Groups]()
        for predicate, start, stop in self._named_predicates(base, members):
            hops, place = (Hop(predicate),), Mention(start, stop, predicate, predicate, 1.0)
            orders = [Groups(hops, order=head, limit=1) for head in self._orders if head in ("most", "least")]
            bounds = [Groups(hops, operator, number) for operator, number in self._bounds]
            if self._follows(start, "per"):
                per += [Groups(hops), *bounds]
            elif not start or self._search.is_asked_for(place):
                asked += bounds or orders
        return per, asked

    def _named_predicates(self, base: Base, members: Sequence[str]) -> Iterator[tuple[str, int, int]]:
        """Yield predicates of members which the question names, or the class of their objects, with the place of that. "By
        area" is by the number of that name, and by no things."""
        conditions, question = self._search.conditions, self._search.question
        names = {name for one in members for name in self._facts.predicates(one)}
        described = self._facts.describe(sorted(names - NEVER_QUERIED - conditions.class_ways))
        numbers = {bare_name(name) for name, one in described.items() if one.kind in ("quantity", "time")}
        classes = [one for one in self._search.classes if one.is_named and one.is_apart(base.start)]
        classes = [one for one in classes if one.called not in numbers]
        for name, one in described.items():
            if one.kind in ("quantity", "time"):
                continue
            yield from ((name, *place) for place in name_spans(question, {bare_name(name), plural(bare_name(name))}))
            if one.kind in ("entity", "mixed") and classes:
                ends = [end for _, end in islice(self._facts.objects(members, name), MAX_BETWEEN)]
                yield from (
                    (name, class_.start, class_.stop) for class_ in classes if conditions.are_of(ends, class_.name)
                )

    def _columns(self, members: Sequence[str]) -> tuple[MemberValue, ...]:
        """Return the columns of a table: the predicates of members that the question names after the words for one."""
        begin = min(self._asked.get("show", ()), default=None)
        if begin is None:
            return ()
        names = sorted({name for one in members for name in self._facts.predicates(one)} - NEVER_QUERIED)
        places = {name: name_spans(self._search.question, [bare_name(name)]) for name in names}
        found = [(some[0][0], name) for name, some in places.items() if some and some[0][0] >= begin]
        return tuple(MemberValue(name) for _, name in sorted(found))

    # --- Differences

    def _differences(self) -> Iterator[UnscoredQuery]:
        """Yield the differences of two things that the question names, by the values that both have: of the first to the second
        where it compares them in this order ("more than"), else of the larger to the smaller one."""
        search, facts = self._search, self._facts
        pairs = [
            pair
            for pair in permutations(sorted(search.mentions.entities, key=lambda one: one.start), 2)
            if pair[0].start < pair[1].start and pair[0].is_apart(pair[1])
        ]
        for first, second in pairs[:MOST_PAIRS]:
            names = facts.predicates(second.name)
            both = [one for one in predicates_of(facts, first.name) if one.name in names]
            near = zip(both, search.meanings([one.name for one in both], first, second), strict=True)
            for one, meaning in sorted(near, key=lambda pair: -pair[1])[: self._weights.nearest_properties]:
                values = [[value for _, value in facts.objects([name], one.name)] for name in (first.name, second.name)]
                with suppress(QueryError):  # values without a difference
                    is_less = difference(values[0], values[1], one.kind, one.name).startswith("-")
                    larger = (second, first) if is_less and not self._compares else (first, second)
                    hops = (Hop(one.name),)
                    query = Query("difference", larger[0].name, hops, minus=Walk(larger[1].name, hops))
                    yield UnscoredQuery(query, line_of(query, *larger), search.prior(first, second) + meaning)

    @cached_property
    def _compares(self) -> bool:
        words = self._search.words
        return bool(words.than) and f" {words.than} " in self._search.question
