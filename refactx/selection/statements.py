"""The choice among the statements of one subject and property: which of them a question means, and what it asks of them.

A statement says of a fact when, as what or for what it holds, with qualifiers (`refactx.fact`). A question may name the
object ("since when was Ann mayor of Springfield"), a time ("who was mayor in 1990"), a place in their order ("the third", "the
latest"), or the value of a qualifier ("nominated for A Beautiful Mind"). What it names narrows the statements; what is left
to ask for is the answer: objects, a time, the value of another qualifier, a number of statements, or yes or no.

`refactx.walks.statements` says when one holds. A bound ("before 1998", "from 1984 to 1988") is about its beginning.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from refactx.fact import UNKNOWN_END
from refactx.linking.names import bare_name
from refactx.walks.language import Statement
from refactx.walks.statements import EARLIEST, LATEST, Span, TimeNames
from refactx.walks.values import Day, parse_quantity, parse_time

Pattern = Literal[
    "when",
    "ends",
    "now",
    "first",
    "last",
    "after",
    "before",
    "between",
    "earlier",
    "later",
    "grows",
    "falls",
    "times",
    "different",
]
"""What words of a question say of statements (`StatementWords.patterns`)."""


@dataclass(frozen=True, kw_only=True)
class StatementWords:
    """The words of a language that ask for statements.

    `patterns`: regular expressions by what they say; `ordinals`: those of the second, the third and so on; `nth`:
    one whose group is a number in digits (`16th`); `months`: the twelve months' names.
    """

    patterns: Mapping[Pattern, Sequence[str]] = field(default_factory=dict)
    ordinals: Sequence[str] = ()
    nth: str = ""
    months: Sequence[str] = ()

    @classmethod
    def of(cls, table: Any) -> "StatementWords":
        """Return the words of a table. Raise ValueError if it is not valid."""
        kinds = {"patterns": dict, "ordinals": list, "nth": str, "months": list}
        if not isinstance(table, dict) or any(not isinstance(table[name], kinds.get(name, ())) for name in table):
            raise ValueError(f"its [words.statements] is no table of {', '.join(kinds)}")
        words = cls(**table)
        if wrong := words.patterns.keys() - set(get_args(Pattern)):
            raise ValueError(
                f"its [words.statements.patterns] has {', '.join(sorted(wrong))}: use {', '.join(get_args(Pattern))}"
            )
        for one in [*(one for some in words.patterns.values() for one in some), *words.ordinals, words.nth]:
            re.compile(one)
        return words

    def has(self, what: Pattern, question: str) -> bool:
        return any(re.search(rf"\b(?:{one})", question, re.IGNORECASE) for one in self.patterns.get(what, ()))

    def ordinal(self, question: str) -> int | None:
        """Return the place that a question names: 1 is the first, -1 the last; None if it names none."""
        if self.nth and (found := re.search(self.nth, question, re.IGNORECASE)):
            return int(found[1])
        for place, one in enumerate(self.ordinals, 2):
            if re.search(rf"\b(?:{one})\b", question, re.IGNORECASE):
                return place
        return 1 if self.has("first", question) else -1 if self.has("last", question) else None


def spans_of(question: str, words: StatementWords) -> list[Span]:
    """Return the times that a question names: days, months and years; one span of both for `from 1984 to 1988`.

    >>> spans_of("Who was mayor in 1990?", StatementWords())
    [Span(first=(1990, 1, 1), end=(1991, 0, 0), is_bound=False)]
    """
    found = [span for *_, span in placed_spans(question, words)]
    if len(found) > 1 and words.has("between", question):
        return [Span(found[0].first, found[1].end, True)]
    if len(found) == 1:
        if words.has("before", question):
            return [Span(EARLIEST, found[0].first, True)]
        if words.has("after", question):
            return [Span(found[0].first, LATEST, True)]
    return found


def placed_spans(text: str, words: StatementWords) -> list[tuple[int, int, Span]]:
    """Return the times that a text names, each with the half-open range of its characters."""
    months = {name.lower(): number for number, name in enumerate(words.months, 1)}
    names = "|".join(map(re.escape, months)) or "(?!)"
    with_month = rf"(?:(?P<d>\d\d?)\.? )?\b(?P<m>{names})\b\.?(?: (?P<d2>\d\d?)(?:st|nd|rd|th)?,)? (?P<my>\d{{3,4}})"
    written = rf"(?P<iso>\d{{4}}-\d\d(?:-\d\d)?)|{with_month}|(?P<y>1\d{{3}}|20\d\d)"
    found = list[tuple[int, int, Span]]()
    for one in re.finditer(rf"(?<![\w.,-])(?:{written})(?![\w-]|[.,]\d)", text, re.IGNORECASE):
        day = int(one["d"] or one["d2"] or 0)
        month = months.get((one["m"] or "").lower(), 0)
        said = one["iso"] or one["y"] or f"{one['my'].zfill(4)}-{month:02}" + (f"-{day:02}" if day else "")
        if (period := parse_time(said)) is not None:
            found.append((*one.span(), Span(period.first, period.end)))
    return found


@dataclass(frozen=True, slots=True)
class StatementAnswer:
    """What statements answer: `values`, and the `statements` that prove them. `asks`: for what."""

    asks: Literal["objects", "qualifier", "count", "truth"]
    values: tuple[str, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, kw_only=True)
class StatementChoice:
    """The choice of one question.

    `named`: the entities and values that the question names, but not its subject; `called`: what it calls all of them;
    `heads`: as in `QueryWords.heads_of`; `nearness`: returns how near names are to the question in meaning.
    """

    question: str
    words: StatementWords
    names: TimeNames
    named: frozenset[str]
    called: Collection[str] = ()
    heads: Collection[str]
    nearness: Callable[[Sequence[str]], Sequence[float]]
    yes: str = "yes"
    no: str = "no"

    @cached_property
    def spans(self) -> list[Span]:
        """The times that the question names."""
        return spans_of(self._text, self.words)

    @cached_property
    def _text(self) -> str:
        """The question without the names in it, which may have words and numbers of their own."""
        text = self.question
        for name in sorted(self.called, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " ", text, flags=re.IGNORECASE)
        return text

    @property
    def place(self) -> tuple[str, str]:
        """What a query says of the time, or of the place in their order, at which the question asks for statements, "" without
        one, and the ordinal that they then have, "" for any."""
        for start, stop, _ in placed_spans(self._text, self.words):
            return f"at <{self._text[start:stop]}>", ""
        place, name = self.words.ordinal(self._text), min(self.names.ordinals, default="ordinal")
        said = {None: "", 1: "earliest", -1: "latest"}.get(place, f"with <{name}> <{place}>")
        return said, str(place) if place is not None and place > 0 else ""

    @cached_property
    def asks_when(self) -> bool:
        return self.words.has("when", self._text)

    def answer(self, statements: Sequence[Statement]) -> StatementAnswer | None:
        """Return what statements of the question's subject and property answer; None if the question asks for no statement:
        its facts answer it as others do. With no values if none holds at the time that it names."""
        objects = {one.object for one in statements} & self.named
        if (compared := self._compared(statements, objects)) is not None:
            return compared
        some = [one for one in statements if one.object in objects] if objects else list(statements)
        by_value = [one for one in some if self._value_named(one, objects)]
        some = by_value or some
        timed = [one for one in some if self.names.span(one) is not None]
        if self.spans and timed:
            some = [one for one in timed if self.spans[0].has(self.names.span(one))]
        is_placed = bool(self.spans and timed)
        is_when = self.asks_when and self.words.ordinal(self._text) in (None, 1, -1)  # of when it was first, all count
        if not is_placed and not is_when and not objects:
            placed = self._placed(some)
            is_placed, some = placed is not None, placed if placed is not None else some
        if (
            "count" in self.heads
            and (some or self.spans)
            and (is_placed or objects or by_value)
            and not _are_numbers(some)
        ):
            return self._count(some)
        if "ask" in self.heads and is_placed and objects:
            return StatementAnswer("truth", (self.yes if some else self.no,), tuple(some or timed))
        if is_placed and not some:
            return StatementAnswer("objects", (), ())
        if self.asks_when and (found := self._when(some)) is not None:
            return found
        if objects and (found := self._qualifier(some)) is not None:
            return found
        if not objects and (is_placed or by_value):
            return StatementAnswer("objects", tuple(dict.fromkeys(one.object for one in some)), tuple(some))
        return None

    def _value_named(self, one: Statement, objects: Collection[str]) -> bool:
        return any(value in self.named and value not in objects for _, value in one.qualifiers)

    def _placed(self, some: Sequence[Statement]) -> list[Statement] | None:
        """Return the statements at the place in their order that the question names; None if it names none."""
        if self.words.has("now", self._text):
            lasting = [one for one in some if (span := self.names.span(one)) is not None and span.end == LATEST]
            return lasting or self.names.begun(some, -1) or None
        place = self.words.ordinal(self._text)
        if place is None:
            return None
        numbered = [one for one in some if str(place) in one.values(self.names.ordinals)]
        if numbered or (place > 0 and self._are_numbered(some)):  # of mayors 14 to 16 none is the second
            return numbered
        return self.names.begun(some, place) or None

    def _are_numbered(self, some: Sequence[Statement]) -> bool:
        """Return whether all statements have numbers that rise with their beginnings, as the numbers of shirts do not."""
        numbers = [
            (span.first, int(number))
            for one in some
            if (span := self.names.span(one)) is not None
            for number in one.values(self.names.ordinals)[:1]
            if number.isdecimal()
        ]
        return len(numbers) == len(some) and sorted(numbers) == sorted(numbers, key=lambda one: one[1])

    def _when(self, some: Sequence[Statement]) -> StatementAnswer | None:
        ends = self.words.has("ends", self._text)
        for names in [self.names.ends] if ends else [self.names.starts, self.names.points]:
            having = [one for one in some if one.values(names)]
            if having:
                values = dict.fromkeys(value for one in having for value in one.values(names) if value != UNKNOWN_END)
                return StatementAnswer("qualifier", tuple(values), tuple(having))
        return None

    def _qualifier(self, some: Sequence[Statement]) -> StatementAnswer | None:
        """Return the values of the qualifier that is nearest to the question in meaning, of those that it does not name."""
        names = list(
            dict.fromkeys(
                name
                for one in some
                for name, value in one.qualifiers
                if name not in self.names.all and value not in self.named
            )
        )
        if not names or self.heads == ["ask"]:
            return None
        near = list(self.nearness(names))
        name = names[near.index(max(near))]
        having = [one for one in some if one.values([name])]
        return StatementAnswer(
            "qualifier", tuple(dict.fromkeys(value for one in having for value in one.values([name]))), tuple(having)
        )

    def _count(self, some: Sequence[Statement]) -> StatementAnswer:
        different = self.words.has("different", self._text) and not self.words.has("times", self._text)
        number = len({one.object for one in some}) if different else len(some)
        return StatementAnswer("count", (str(number),), tuple(some))

    def _compared(self, statements: Sequence[Statement], objects: Collection[str]) -> StatementAnswer | None:
        """Return the answer to a comparison of two statements: by their times, or of their numbers at two times."""
        grows, falls = (self.words.has(what, self._text) for what in ("grows", "falls"))
        two = spans_of(self._text, replace(self.words, patterns={}))
        if (grows or falls) and len(two) == 2:
            at = [next((one for one in statements if span.has(self.names.span(one))), None) for span in two]
            numbers = [parse_quantity(one.object.split(" ")[0]) if one is not None else None for one in at]
            old, new = numbers
            if old is None or new is None:
                return None
            truth = new > old if grows else new < old
            return StatementAnswer(
                "truth", (self.yes if truth else self.no,), tuple(one for one in at if one is not None)
            )
        if len(objects) != 2:
            return None
        begins = dict[str, tuple[Day, Statement]]()
        for one in statements:
            if one.object in objects and (span := self.names.span(one)) is not None and span.first != EARLIEST:
                begins[one.object] = min(
                    begins.get(one.object, (span.first, one)), (span.first, one), key=lambda x: x[0]
                )
        if len(begins) != 2:
            return None
        place = {name: self.question.lower().find(bare_name(name).lower()) for name in begins}
        first, second = sorted(begins, key=lambda name: place[name])
        proof = begins[first][1], begins[second][1]
        if "ask" in self.heads and (self.words.has("before", self._text) or self.words.has("after", self._text)):
            before = begins[first][0] < begins[second][0]
            truth = before if self.words.has("before", self._text) else begins[first][0] > begins[second][0]
            return StatementAnswer("truth", (self.yes if truth else self.no,), proof)
        earlier, later = (self.words.has(what, self._text) for what in ("earlier", "later"))
        if not (earlier or later):
            return None
        best = (min if earlier else max)(begins, key=lambda name: begins[name][0])
        return StatementAnswer("objects", (best,), proof)


def _are_numbers(statements: Sequence[Statement]) -> bool:
    """Return whether objects are quantities, which a question asks for by "how many" too."""
    return bool(statements) and all(parse_quantity(one.object.partition(" ")[0]) is not None for one in statements)
