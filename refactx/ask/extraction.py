"""The facts that a text states, by names and predicates of an index, or by those of a schema.

Each sentence names things, times and numbers. A pair of them may be a fact: its predicate is the one after which the words of
the sentence between them are likeliest, by the noisy channel, as claims are judged (`refactx.ask.claims`),

    log p("Alaska is governed from Juneau" | examples, <Alaska> <capital>)
        + weights * (nearness of "is governed from" and `capital` in meaning,
                     how usual `capital` is for things of the classes of both)

So a fact has names of the index alone, or new ones that the sentence has in capital letters, if they are allowed. Whether the
index has the fact is not asked for to find it. Beside a name, at most one fact has it as the later one of its pair; predicates
that read a property backwards make facts whose subject comes later.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Literal, cast, get_args

from refactx.ask.browse import fact_of
from refactx.ask.claims import ASKS, EXAMPLES
from refactx.ask.schema import FactSchema, PredicateRule
from refactx.ask.sentences import (
    SCORED,
    Place,
    SentenceParts,
    meet,
    names_unit,
    places_of,
    plain_sentence,
    read_sentences,
)
from refactx.ask.writer import SharedEngine
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource
from refactx.engines.engine import Steps, TreeReading
from refactx.errors import InputError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact, written_part
from refactx.linking.names import bare_name
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import LONGEST_VALUE, Mention, class_predicates
from refactx.selection.scores import QuestionScore
from refactx.walks.checks import LinkedFactSet
from refactx.walks.facts import drawn_subjects
from refactx.walks.language import FactSet, ValueKind
from refactx.walks.statements import Span
from refactx.walks.values import parse_amount, parse_time

NewNames = Literal["none", "typed", "any"]
"""Which names that the index does not have may be in facts: none; those of a class that the schema gives; any."""

DRAWN = 1000
"""Facts that are drawn by chance, whose subjects show which predicates are usual for things of a class."""
USUAL, BACKWARDS = 0.4, 1.0
"""What the logarithm of that share counts, and the nats that a predicate which reads a property backwards is less likely."""
COMPARED, MOST_ITEMS = 4, 24
"""The most predicates of a pair that the model compares, and names and values of a sentence that are looked at."""
LEAST_CONFIDENCE = 1.0
"""In nats, of a fact: how much likelier its predicate makes the words than none, with what its meaning counts for."""
EXAMPLES_OF_UNITS = 8
"""The most things of which the amounts of a predicate tell its units."""
WIDER = 40
"""The most wider classes of a thing that are looked at for a schema."""
_HIDDEN = frozenset((*DESCRIPTIONS, ALIAS_OF))
_JOINS = re.compile(r"[,;:()–—]|\b(?:and|but)\b")
_RELATIVE = re.compile(r"\W*(?:who|whom|whose|which|that|where)\b")
_NAME = re.compile(r"(?<![\w’'])[A-ZÀ-Þ][^\W_]*(?:(?:[ -]|['’])(?:of |de |van |von )?[A-ZÀ-Þ][^\W_]*)*")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»<>]{2,60})[\"”“»]")
_WORDS_AFTER = re.compile(r"\s+[^\W\d_]+(?:\s+[^\W\d_]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    """A fact that a text states in its sentence from `start` to `stop`, in code points.

    `confidence`: how much likelier its predicate makes the sentence than none, in nats; `is_known`: whether the index has it;
    `new_names`: those in it that the index does not have.
    """

    fact: Fact
    text: str
    start: int
    stop: int
    confidence: float
    is_known: bool
    new_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFacts:
    """The facts that a text states, in its order, each once. `sentences`: how many it has; `without_fact`: how many of these
    state none that was found; `doubted`: how many facts were left out by the second look."""

    facts: tuple[ExtractedFact, ...]
    sentences: int
    without_fact: int
    doubted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionOptions:
    """What is read out of texts. `schema`: None for all predicates of the index; `new_names`: as `NewNames` says; `verify`:
    whether each fact is looked at again, beside the other predicates and the whole sentence; `min_confidence`: in nats.

    Raises InputError for typed new names without a schema, which gives the types.
    """

    schema: FactSchema | None = None
    new_names: NewNames = "none"
    verify: bool = False
    min_confidence: float = LEAST_CONFIDENCE

    def __post_init__(self) -> None:
        if self.new_names not in get_args(NewNames):
            raise InputError(f"new names are {self.new_names!r}: give none, typed or any")
        if self.new_names == "typed" and self.schema is None:
            raise InputError("typed new names have the classes of a schema: give one, or `any`")


class UsualPredicates:
    """Which predicates are usual for things of a class, by the things of an index that are drawn by chance."""

    def __init__(self, source: FactSource, facts: FactSet, class_of: str | None) -> None:
        self._facts, self._class_of = facts, class_of
        self._things, self._having, self.all = Counter[str](), defaultdict[str, Counter[str]](Counter), Counter[str]()
        self._examples = defaultdict[str, list[str]](list)
        names = [one for one in dict.fromkeys(drawn_subjects(source, DRAWN, "usual")) if not one.endswith(ALIAS)]
        for name in names:
            predicates = facts.predicates(name).keys()
            self.all.update(predicates)
            for one in predicates:
                self._examples[one] += [name] * (len(self._examples[one]) < EXAMPLES_OF_UNITS)
            for class_ in self.classes(name):
                self._things[class_] += 1
                self._having[class_].update(predicates)
        self._drawn = len(names)
        self.classes = lru_cache(4096)(self.classes)  # type: ignore[method-assign]
        self.units = lru_cache(4096)(self.units)  # type: ignore[method-assign]

    def classes(self, name: str) -> tuple[str, ...]:
        """Return the classes of a thing."""
        if self._class_of is None:
            return ()
        return tuple(class_ for _, class_ in islice(self._facts.objects([name], self._class_of), MOST_ITEMS))

    def units(self, predicate: str) -> tuple[str, ...]:
        """Return the units of a predicate's amounts, the shortest first."""
        found = (value for _, value in islice(self._facts.objects(self._examples[predicate], predicate), MOST_ITEMS))
        return tuple(sorted({amount[1] for amount in map(parse_amount, found) if amount and amount[1]}, key=len))

    def log_share(self, classes: Sequence[str], predicate: str) -> float:
        """Return the logarithm of the share of things of some classes that have a predicate, smoothed by that of all."""
        overall = (self.all[predicate] + 0.1) / (self._drawn + 1)
        things, having = sum(self._things[one] for one in classes), sum(self._having[one][predicate] for one in classes)
        return math.log((having + overall) / (things + 1))


@dataclass(frozen=True, slots=True)
class _Item:
    """A name or value of a sentence: its `place`, what a fact has for it, and its kind. `called`: as the sentence has it;
    `bounds`: whether what is said of another item ends here; `is_new`: whether the index does not have it; `unit`: the word
    after a number that may be its unit."""

    place: Place
    name: str
    kind: ValueKind
    called: str
    bounds: bool = True
    is_new: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A pair of items that may be a fact. `said`: its words as a sentence of their own; `words`: those between; `names`: the
    predicates that are compared, with what each has without the model."""

    subject: _Item
    item: _Item
    said: str
    names: Mapping[str, float]


class FactReader:
    """What reads the facts of sentences by one index. Threads may share it. `facts`: of the index."""

    def __init__(self, machine: Machine, sources: QuerySources) -> None:
        self.machine, self.facts = machine, sources.facts
        class_of, self._wider, _ = class_predicates(sources.facts, sources.words)
        self.usual = UsualPredicates(machine.source, sources.facts, class_of)

    @cached_property
    def kinds(self) -> Mapping[str, tuple[ValueKind, bool]]:
        """The predicates of the index, each with the kind of its objects, and whether it reads a property backwards."""
        named = self.facts.linker.predicates_beginning("") if isinstance(self.facts, LinkedFactSet) else ()
        names = [one for one in (*named, *self.usual.all) if one not in _HIDDEN]
        known = self.facts.describe(names)
        found = {name: (one.kind, one.inverse) for name, one in known.items()}
        return found | {name: ("mixed", False) for name in self.usual.all if name not in known and name not in _HIDDEN}

    def wide_classes(self, name: str) -> set[str]:
        """Return the classes of a thing, and wider ones."""
        found, waiting = set[str](), list(self.usual.classes(name))
        while waiting and len(found) < WIDER:
            found.add(one := waiting.pop(0))
            more = self.facts.objects([one], self._wider) if self._wider else ()
            waiting += [wide for _, wide in islice(more, WIDER) if wide not in found]
        return found

    def forwards(self, subject: str, predicate: str, object_: str) -> tuple[str, str, str]:
        """Return a fact by the property that its predicate reads backwards, if it does."""
        inverse = self.facts.inverse_of(predicate) if self.kinds.get(predicate, ("mixed", False))[1] else None
        return (subject, predicate, object_) if inverse is None else (object_, inverse, subject)


class _StatedSentence(SentenceParts):
    """One sentence, whose facts are read."""

    def __init__(self, reader: FactReader, options: ExtractionOptions, channel: Channel, sources: QuerySources) -> None:
        super().__init__(reader.machine, channel, sources)
        self._reader, self._options = reader, options

    def read(self, trees: TreeReading) -> Steps[tuple[list[tuple[Fact, float, tuple[str, ...]]], int]]:
        """Return the facts, each with its confidence and its new names, and how many were doubted."""
        facts, doubted = list[tuple[Fact, float, tuple[str, ...]]](), 0
        for pair in self._pairs():
            score = self._score(pair.said)
            texts = [self.fact_ids(pair.subject.name, name) for name in pair.names]
            alone, *found = (yield from score.likelihoods([self.fact_ids(pair.subject.name), *texts], trees)).tolist()
            yield from score.close()
            best, name = max(zip(found, pair.names, strict=True), key=lambda one: one[0] + pair.names[one[1]])
            confidence, object_ = best - alone + pair.names[name], self._in_unit(pair.item, name)
            if confidence < self._options.min_confidence or object_ is None:
                continue
            if self._options.verify and not (yield from self._is_stated(pair, name, trees)):
                doubted += 1
                continue
            triple = self._reader.forwards(pair.subject.name, name, object_)
            new = tuple(one.name for one in (pair.subject, pair.item) if one.is_new)
            new += (name,) if name not in self._reader.kinds else ()
            facts.append((fact_of(*triple), confidence, new))
        return facts, doubted

    def _in_unit(self, item: _Item, predicate: str) -> str | None:
        """Return what a fact with a predicate has for an item: a number with the unit that it has there, if the predicate's
        have one; None if it is said in no such unit."""
        units = self._reader.usual.units(predicate) if item.kind == "quantity" else ()
        found = next((f"{item.name} {one}" for one in units if item.unit and names_unit(item.unit, one)), None)
        return found if units else item.name

    def _score(self, said: str) -> QuestionScore:
        encode = self.machine.source.tokenizer.encode
        lead = encode(ASKS)
        return QuestionScore(question=[*lead, *encode(f" {said}")[-SCORED:]], lead=len(lead))

    def _is_stated(self, pair: _Pair, name: str, trees: TreeReading) -> Steps[bool]:
        """Return whether the whole sentence is likelier after the fact than after its subject alone, and after the subject
        with any other predicate that was compared."""
        score = self._score(self.text)
        others = [(one, pair.item.name) for one in pair.names if one != name]
        texts = [self.fact_ids(pair.subject.name, *one) for one in ((name, pair.item.name), (), *others)]
        own, *rest = (yield from score.likelihoods(texts, trees)).tolist()
        yield from score.close()
        return bool(own > max(rest))

    # --- What the sentence names

    @cached_property
    def _items(self) -> list[_Item]:
        """The names and values of the sentence, in its order, none within another."""
        found, pronoun = dict[Place, Mention](), list[Mention]()
        for one in sorted(self.mentions, key=lambda one: (one.called != bare_name(one.name), -one.share)):
            if one.is_named:
                found.setdefault((one.start, one.stop), one)
            else:
                pronoun.append(one)
        new, items = self._new_names(found), list[_Item]()
        values = [*self._values(), *self._quoted()]
        taken, counted = [one.place for one in (*new, *values)], {one.place[1] + 1 for one in values}
        for place, one in sorted(found.items(), key=lambda entry: entry[0][0] - entry[0][1]):
            if any(meet(place, other) for other in taken):
                continue
            taken.append(place)
            is_title = self.text[place[0]].isupper() or place[0] == 0 or self.text[place[0]].isdigit()
            if is_title or (self._ends_phrase(place[1]) and place[0] not in counted):
                called = self.text[slice(*place)]
                items.append(_Item(place, self._meant(called, one), "entity", called, bounds=is_title))
        items += [one for one in (*new, *values) if not any(meet(one.place, other.place) for other in items)]
        first = [_Item((0, 0), one.name, "entity", bare_name(one.name)) for one in pronoun[:1]]
        return first + sorted(items, key=lambda one: one.place)[:MOST_ITEMS]

    def _meant(self, called: str, mention: Mention) -> str:
        """Return the thing that a name means: as everywhere else, if it has that name."""
        linked = self.facts.linker.entity(called) if isinstance(self.facts, LinkedFactSet) else None
        return mention.name if linked is None or bare_name(linked.name) != called else linked.name

    def _ends_phrase(self, stop: int) -> bool:
        """Return whether no word follows that belongs to what is named in small letters: no `film` of `a film by Ann`."""
        after = self.text[stop:].lstrip()
        return not after[:1].isalnum() or bool(_JOINS.match(after))

    def _new_names(self, known: Mapping[Place, Mention]) -> list[_Item]:
        """Return the names in capital letters that the index does not have: what is said of them is said of nothing else."""
        found = list[_Item]()
        for one in _NAME.finditer(self.text):
            words = one[0].split()
            while words and self.words.is_function(words[0]):
                del words[0]
            name = written_part(" ".join(words))
            start = one.end() - len(" ".join(words))
            inner = [place for place in known if meet(place, (start, one.end()))]
            is_part = len(words) > 1 and all(" " not in self.text[slice(*place)] for place in inner)
            is_time = any(meet((start, one.end()), place) for place, _ in self.times)
            if name and not is_time and (not inner or (is_part and all(p != (start, one.end()) for p in inner))):
                found.append(_Item((start, one.end()), name, "entity", name, is_new=True))
        return found

    def _values(self) -> Iterator[_Item]:
        """Yield the times and numbers."""
        numbers = {one.place: one for one in self.numbers}
        for place, span in self.times:
            if not (place in numbers and numbers[place].unit) and (text := _time_text(span)):
                yield _Item(place, text, "time", self.text[slice(*place)])
        times = [place for place, _ in self.times]
        for place, one in numbers.items():
            if place not in times or one.unit:
                whole = one.value.to_integral_value()
                text = f"{whole:f}" if whole == one.value else f"{one.value.normalize():f}"
                yield _Item(place, text, "quantity", self.text[slice(*place)], unit=one.unit)

    def _quoted(self) -> Iterator[_Item]:
        for one in _QUOTED.finditer(self.text):
            if (text := written_part(one[1])) and len(text) <= LONGEST_VALUE:
                yield _Item(one.span(), text, "text", text)

    # --- What may be a fact

    def _pairs(self) -> Iterator[_Pair]:
        """Yield the pairs of items that may be facts, with the predicates that are compared."""
        items, words = self._items, cast("tuple[str, str] | None", None)
        for at, item in enumerate(items):
            before = [one for one in items[:at] if one.kind == "entity" and one.bounds]
            if not before and (item.kind == "entity" or at + 1 == len(items)):
                continue
            begin = max((one.place[1] for one in items[:at] if one.bounds), default=0)
            between = self.text[begin : item.place[0]]
            words = self._words_of(items, item, before, between) or words
            subject = self._subject(items, at, between)
            if words is None or subject is None or subject.name == item.name:
                continue
            if self._options.new_names == "none" and (subject.is_new or item.is_new):
                continue
            if names := self._compared(subject, item, " ".join(words)):
                said = f"{words[0]} {subject.called} {words[1]} {item.called}{self._after(item)}.".lstrip()
                yield _Pair(subject, item, said, names)

    def _subject(self, items: Sequence[_Item], at: int, between: str) -> _Item | None:
        """Return what something is said of before an item: the name before a relative pronoun, or else the last one that begins
        a clause; without a name before it, the one after it."""
        before = [one for one in items[:at] if one.kind == "entity" and one.bounds]
        if not before:
            return next((one for one in items[at:] if one.kind == "entity"), None)
        if _RELATIVE.match(between):
            return before[-1]
        return next((one for one in reversed(before) if self._begins_clause(one)), before[0])

    def _begins_clause(self, item: _Item) -> bool:
        """Return whether a name has only function words before it in its clause, and more of the clause after it."""
        start, stop = item.place
        clause = _JOINS.split(self.text[:start])[-1]
        after = self.text[stop:].lstrip()
        is_first = all(self.words.is_function(one) for one in re.findall(r"\w+", clause))
        return is_first and bool(re.match(r"[\w'’]", after)) and not _JOINS.match(after)

    def _words_of(
        self, items: Sequence[_Item], item: _Item, before: Sequence[_Item], between: str
    ) -> tuple[str, str] | None:
        """Return what the sentence says before a subject, if it begins so, and between this and an item; None in a list, whose
        items have the same."""
        if not before:  # a time before what it is said of
            entity = next((one for one in items if one.kind == "entity"), None)
            return None if entity is None else ("", self.text[entity.place[1] :].strip(" .,")[:LONGEST_VALUE])
        said = next((part.strip() for part in reversed(_JOINS.split(between)) if part.strip()), "")
        start = self.text[: before[0].place[0]].strip() if len(before) == 1 else ""
        start = "" if _JOINS.search(start) else start
        said = said.removeprefix("'s ").removeprefix("’s ")
        return (start, said) if said or start else None

    def _after(self, item: _Item) -> str:
        """Return the words after a number, which say what it counts."""
        found = _WORDS_AFTER.match(self.text, item.place[1]) if item.kind == "quantity" else None
        return "" if found is None else re.split(r"\s+and\b", found[0])[0]

    def _compared(self, subject: _Item, item: _Item, words: str) -> dict[str, float]:
        """Return the predicates of a pair that are compared, the best first, with their meaning and usualness, in nats."""
        names, schema = self._fitting(subject, item), self._options.schema
        near = replace(self.channel, text=f"{words}{self._after(item)}").meanings(names).tolist()
        if schema is None:
            near = [one + self._usualness(subject, item, name) for one, name in zip(near, names, strict=True)]
        order = sorted(range(len(names)), key=lambda n: -near[n])[:COMPARED]
        return {names[n]: near[n] for n in order}

    def _usualness(self, subject: _Item, item: _Item, predicate: str) -> float:
        usual, facts = self._reader.usual, self._reader.facts
        found = usual.log_share(() if subject.is_new else usual.classes(subject.name), predicate)
        inverse = facts.inverse_of(predicate) if item.kind == "entity" else None
        found += usual.log_share(usual.classes(item.name), inverse) if inverse and not item.is_new else found
        return USUAL * found - BACKWARDS * self._reader.kinds[predicate][1]

    def _fitting(self, subject: _Item, item: _Item) -> list[str]:
        """Return the predicates that a pair may have, by the kind of the item and the schema."""
        kinds, schema = self._reader.kinds, self._options.schema
        if schema is None:
            return [name for name, (kind, _) in kinds.items() if kind in (item.kind, "mixed", "literal")]
        return [
            name
            for name, rule in schema.predicates.items()
            if rule.kind == item.kind
            and self._allows(subject, rule.domain)
            and (rule.kind != "entity" or self._allows(item, rule.range))
        ]

    def _allows(self, item: _Item, classes: Sequence[str]) -> bool:
        """Return whether an item may have a place of these classes in a fact."""
        if item.is_new:
            return bool(classes) or self._options.new_names == "any"
        if not classes:
            return True
        own = self._reader.wide_classes(item.name)
        return any(one in classes or bare_name(one) in classes for one in own)


def _time_text(span: Span) -> str:
    """Return a year, month or day as facts have it; empty for another span.

    >>> from refactx.walks.statements import span_of
    >>> [_time_text(span_of(text, text)) for text in ("1990", "1990-05", "1990-05-07")]
    ['1990', '1990-05', '1990-05-07']
    """
    year, month, day = (*span.first, 0, 0)[:3]
    texts = (f"{year:04}-{month or 1:02}-{day or 1:02}", f"{year:04}-{month or 1:02}", f"{year:04}")
    for text in texts:
        time = parse_time(text)
        if time is not None and (time.first, time.end) == (span.first, span.end):
            return text
    return ""


def extract_facts(
    text: str,
    channel_of: Callable[[str, Sequence[str]], Channel | None],
    reader_of: Callable[[QuerySources], FactReader],
    machine: Machine,
    shared: SharedEngine,
    *,
    options: ExtractionOptions,
    cancelled: Callable[[], bool] | None = None,
) -> ExtractedFacts:
    """Return the facts that a text states. `channel_of`: as in `refactx.ask.sentences.read_sentences`; `reader_of`: returns
    what reads them, given what names are looked up in.

    Raises as that function does, and InputError for a text that is empty or too long.
    """
    places, trees = places_of(text), shared.scheduler.engine.trees
    texts = [plain_sentence(text[start:stop]) for start, stop in places]
    read, readers = dict[int, tuple[list[tuple[Fact, float, tuple[str, ...]]], int]](), list[FactReader]()

    def judge(number: int, channel: Channel, sources: QuerySources) -> Steps[None]:
        readers[:] = [reader_of(sources)]
        read[number] = yield from _StatedSentence(readers[0], options, channel, sources).read(trees)

    read_sentences(texts, judge, channel_of, shared, machine.source.tokenizer.encode(EXAMPLES), cancelled=cancelled)
    found = dict[str, ExtractedFact]()
    for number in sorted(read):
        start, stop = places[number]
        for fact, confidence, new in read[number][0]:
            one = ExtractedFact(
                fact=fact,
                text=text[start:stop],
                start=start,
                stop=stop,
                confidence=confidence,
                is_known=False,
                new_names=new,
            )
            found.setdefault(fact.text, one)
    facts = _at_most(list(found.values()), options.schema)
    triples = [(one.fact.subject, one.fact.predicate, one.fact.object) for one in facts]
    known = readers[0].facts.hold(triples) if facts else ()
    return ExtractedFacts(
        facts=tuple(replace(one, is_known=held) for one, held in zip(facts, known, strict=True)),
        sentences=len(places),
        without_fact=len(places) - len({one.start for one in facts}),
        doubted=sum(doubted for _, doubted in read.values()),
    )


def _at_most(facts: Sequence[ExtractedFact], schema: FactSchema | None) -> list[ExtractedFact]:
    """Return facts without those beyond the most of their subject and predicate, the surest stay."""
    if schema is None:
        return list(facts)
    kept, counts = set[str](), Counter[tuple[str, str]]()
    for one in sorted(facts, key=lambda one: -one.confidence):
        key = one.fact.subject, one.fact.predicate
        rule = schema.predicates.get(one.fact.predicate, PredicateRule())
        if rule.most is None or counts[key] < rule.most:
            counts[key] += 1
            kept.add(one.fact.text)
    return [one for one in facts if one.fact.text in kept]
