"""The claims of a text that an index can judge: those that its facts say, and those of which they say otherwise.

A claim is a sentence that names a subject of the index, says a predicate of it by its meaning, and has a value. The model
chooses among the facts that exist, by the noisy channel, as it does for a question (`refactx.selection.channel`): of the
properties of what the sentence names, it is that after which the sentence is likeliest,

    log p(sentence | examples, subject and property)  +  weights * (nearness in meaning, whether a value is named)

The claim **holds** if the sentence names an object of that property, and **differs** if it has another value that could be
one: an entity that other facts have in that place or of the class of the objects, a time, a number. All else is **not in the
index**, which is never called wrong. A sentence that names nothing makes no claim.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Literal

from refactx.ask.browse import fact_of
from refactx.ask.writer import TREE_IDS, SharedEngine
from refactx.decoding.machine import Machine
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.engines.scheduler import Job, run_jobs
from refactx.errors import InputError
from refactx.fact import ALIAS_OF, DESCRIPTIONS, Fact, unit
from refactx.linking.names import bare_name
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import Mention, ValueSpans, class_predicates, numbers_of, words_of
from refactx.selection.query_answers import QueryAnswers
from refactx.selection.scores import DESCRIBED, QuestionScore, no_fact
from refactx.selection.statements import Span, spans_of
from refactx.walks.values import number_of_amount, parse_quantity, parse_time

Verdict = Literal["holds", "differs", "not in the index"]
Judged = tuple[Verdict, Fact | None, Fact | None, float | None]
"""A verdict, the fact that says the same, that which stands instead, and the confidence in its property."""

ASKS = " Sentence:"
EXAMPLES = """\
Each fact with a sentence that says it.
Fact: <Japan> <currency> Sentence: In Japan people pay with the yen.
Fact: <Danny Boyle> <date of birth> Sentence: Danny Boyle was born on 20 October 1956.
Fact: <Finland> <official language> Sentence: Swedish is an official language of Finland.
Fact: <Brad Pitt> <cast member of> Sentence: He starred in Fight Club.
Fact: <Sweden> <shares border with> Sentence: Sweden shares a border with Norway.
Fact: <Winston Churchill> <educated at> Sentence: Churchill went to Harrow School.
Fact: <Dracula> <author> Sentence: Dracula's author is Bram Stoker.
Fact: <Lake Tahoe> <area> Sentence: 490 is the area of Lake Tahoe.
"""
"""Facts up to their property, each with a sentence: what is read before a sentence that is checked."""
SUBJECTS, NEAREST, COMPARED = 6, 4, 6
"""The most subjects of a sentence; of each, the properties nearest in meaning; of all these, those that the model compares."""
LOOKED_AT, OBJECTS = 40, 500
"""The most properties of a subject whose objects the sentence may name, the nearest in meaning, and the most objects."""
LEAST_OF_NAMED, LEAST_OF_OTHERS = 2.0, 7.0
"""The least confidence, in nats, in a property of which the sentence names an object, and in one of which it has another."""
AT_ONCE = 8
"""Sentences that the model reads together."""
LONGEST, SCORED = 500, 64
"""The most characters of a sentence that is checked, and the most ids of it (its last ones) that are scored."""
EARLIER = 3
"""How many sentences before one its pronouns may stand for something in."""

_END = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9À-Þ])|\n\s*(?:\n\s*|(?=[-*#>|]|\d+[.)]\s))|(?<=[。！？])"
)
_NO_END = re.compile(
    r"(?:\b(?:[A-Z]|[Dd]r|[Mm]rs?|Ms|St|Jr|Sr|[Pp]rof|Inc|Ltd|Co|Corp|vs|No|ca?|etc|e\.g|i\.e|[A-Z]\.[A-Z])\.|\.\.\.)\s*$"
)
_TITLE = re.compile(r"(?<![\w’'])[A-ZÀ-Þ][^\W_]+")
_MARKS = re.compile(r"^(?:[-*+>#|]+|\d+[.)])\s+|[*_`]{1,2}(?=\S)|(?<=\S)[*_`]{1,2}")
"""Marks of Markdown: of headings, lists and emphasis."""
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_HIDDEN = frozenset((*DESCRIPTIONS, ALIAS_OF))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of a text, from `start` to `stop` in it, in code points.

    `fact`: the fact that says the same; `instead`: if the claim differs, the fact that stands in its place; `confidence`: how
    much likelier that fact's property makes the sentence than none, in nats, None if no property was compared.
    """

    text: str
    start: int
    stop: int
    verdict: Verdict
    fact: Fact | None = None
    instead: Fact | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClaims:
    """The claims of a text. `sentences`: how many it has; `without_claim`: how many of these make none."""

    claims: tuple[Claim, ...]
    sentences: int
    without_claim: int


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of the sentences of a text, without the space around them.

    >>> text = "J. Doe met Dr. Lee. He left!\\n\\n* Ann stayed"
    >>> [text[start:stop] for start, stop in sentences_of(text)]
    ['J. Doe met Dr. Lee.', 'He left!', '* Ann stayed']
    """
    start = 0
    for end in [*(one.span() for one in _END.finditer(text)), (len(text), len(text))]:
        if end[0] < len(text) and "\n" not in text[slice(*end)] and _NO_END.search(text, start, end[0]):
            continue
        piece = text[start : end[0]]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
        start = end[1]


@dataclass(frozen=True, slots=True)
class _Property:
    """A property of what a sentence names. `near`: how near it is in meaning, in nats; `objects`: some of its objects;
    `named`: those of them that the sentence names."""

    subject: Mention
    name: str
    near: float
    objects: Sequence[str]
    named: Sequence[str]


class _Sentence:
    """One sentence, whose claim is judged. `channel`: of its text."""

    def __init__(self, machine: Machine, channel: Channel, sources: QuerySources) -> None:
        self._machine, self._channel, self._text, self._facts = machine, channel, channel.text, sources.facts
        self._mentions = QueryAnswers(machine, channel, sources).mentions.entities
        self._words, self._spans = sources.words, ValueSpans(replace(sources.words, operators={}), channel.text)

    def judge(self, score: QuestionScore, trees: TreeReading) -> Steps[Judged | None]:
        """Return the verdict, the fact that says it, that which stands instead, and the confidence; None without a claim."""
        compared = self._compared()
        if not compared:
            return ("not in the index", None, None, None) if self._unknown_names("") else None
        texts = [self._ids(one.subject.name, one.name) for one in compared]
        alone = [self._ids(one.subject.name) for one in compared]
        distinct = list(dict.fromkeys([*texts, *alone]))
        found = yield from score.likelihoods(distinct, trees)
        yield from score.close()
        likely, weights = dict(zip(distinct, found.tolist(), strict=True)), self._channel.weights
        totals = [
            likely[text] + one.near + weights.named_value_gain * bool(one.named)
            for text, one in zip(texts, compared, strict=True)
        ]
        best = max(range(len(totals)), key=totals.__getitem__)
        one, confidence = compared[best], likely[texts[best]] - likely[alone[best]] + compared[best].near
        if one.named and confidence >= LEAST_OF_NAMED:
            return "holds", fact_of(one.subject.name, one.name, one.named[0]), None, confidence
        if confidence >= LEAST_OF_OTHERS and not one.named and self._has_other_value(one):
            return "differs", None, fact_of(one.subject.name, one.name, one.objects[0]), confidence
        return "not in the index", None, None, confidence

    def _compared(self) -> list[_Property]:
        """Return the properties of what the sentence names that it may be about, the nearest in meaning first."""
        found, bonus, names = list[_Property](), self._channel.weights.named_value_gain, set[str]()
        for mention in sorted(self._mentions, key=lambda one: -one.share):
            if mention.name in names or len(names) == SUBJECTS:
                continue
            names.add(mention.name)
            predicates = [name for name in self._facts.predicates(mention.name) if name not in _HIDDEN]
            called = [self._text[mention.start : mention.stop]] if mention.is_named else []
            near = self._channel.meanings(predicates, called).tolist()
            order = sorted(range(len(predicates)), key=lambda n: -near[n])
            for place, n in enumerate(order[:LOOKED_AT]):
                objects = [value for _, value in islice(self._facts.objects([mention.name], predicates[n]), OBJECTS)]
                named = [value for value in objects if self._names(value, mention)]
                if objects and (place < NEAREST or named):
                    found.append(_Property(mention, predicates[n], near[n], objects, named))
        return sorted(found, key=lambda one: -(one.near + bonus * bool(one.named)))[:COMPARED]

    def _ids(self, subject: str, *predicate: str) -> IdPath:
        """Return the ids of a fact up to its subject or predicate, with its trigger; a description is cut short."""
        name, bracket, description = subject.partition(" (")
        words = description.removesuffix(")").split()[:DESCRIBED]
        text = "".join(map(unit, (f"{name} ({' '.join(words)})" if bracket else name, *predicate)))
        return (
            *no_fact(self._machine),
            *self._machine.source.tokenizer.encode_after(self._machine.source.trigger, text),
        )

    def _names(self, value: str, subject: Mention) -> bool:
        """Return whether the sentence names a value apart from its subject: an entity, a time within one that it says, the same
        number, or the same words."""
        if any(one.name == value and one.is_apart(subject) for one in self._mentions):
            return True
        if (time := parse_time(value)) is not None and any(
            one.first <= time.first and time.end <= one.end for one in self._times
        ):
            return True
        if (number := parse_quantity(number_of_amount(value))) is not None:
            return any(
                one == number for start, stop, one in self._numbers if stop <= subject.start or subject.stop <= start
            )
        place = self._spans.find(bare_name(value))
        return place is not None and (place[1] <= subject.start or subject.stop <= place[0])

    def _has_other_value(self, one: _Property) -> bool:
        """Return whether the sentence has a value of the kind of a property's objects, and all its names are known."""
        if self._unknown_names(one.name):
            return False
        objects = one.objects
        if all(parse_time(value) is not None for value in objects) and self._times:
            return all(
                time.first >= said.end or time.end <= said.first
                for value in objects
                for said in self._times
                if (time := parse_time(value)) is not None
            )
        if all(parse_quantity(number_of_amount(value)) is not None for value in objects):
            apart = [
                number
                for start, stop, number in self._numbers
                if stop <= one.subject.start or one.subject.stop <= start
            ]
            return bool(apart)
        inverse, class_of = self._facts.inverse_of(one.name), class_predicates(self._facts, self._words)[0]
        classes = {class_ for _, class_ in self._facts.objects(list(objects[:SUBJECTS]), class_of or "")}
        for mention in self._mentions:
            if mention.name == one.subject.name or not mention.is_apart(one.subject):
                continue
            if inverse is not None and inverse in self._facts.predicates(mention.name):
                return True
            if classes and any(class_ in classes for _, class_ in self._facts.objects([mention.name], class_of or "")):
                return True
        return False

    @cached_property
    def _times(self) -> list[Span]:
        return spans_of(self._text, replace(self._words.statements, patterns={}))

    @cached_property
    def _numbers(self) -> list[tuple[int, int, Decimal]]:
        text = _DATE.sub(lambda date: " " * len(date[0]), self._text)
        found = ((start, stop, parse_quantity(number)) for start, stop, number in numbers_of(text))
        return [(start, stop, number) for start, stop, number in found if number is not None]

    def _unknown_names(self, predicate: str) -> bool:
        """Return whether a word is spelt as a name, but is in no name that the sentence names, nor in a predicate."""
        known = {word for text in (predicate, *(one.name for one in self._mentions)) for word in words_of(text)}
        return any(
            not self._words.is_function(one[0]) and known.isdisjoint(words_of(one[0]))
            for one in _TITLE.finditer(self._text)
            if not any(mention.start <= one.start() and one.end() <= mention.stop for mention in self._mentions)
        )


def check_claims(
    text: str,
    channel_of: Callable[[str, Sequence[str]], Channel | None],
    machine: Machine,
    shared: SharedEngine,
    cancelled: Callable[[], bool] | None = None,
) -> TextClaims:
    """Return the claims of a text. `channel_of`: returns the channel of a sentence, given those before it; `cancelled`: asked
    before each pass of the model, ends the check once it returns True.

    Raises InputError if the channel has no queries, for a check that was cancelled, and as `refactx.Index.children` does.
    """
    encode, engine = machine.source.tokenizer.encode, shared.scheduler.engine
    examples, lead = tuple(encode(EXAMPLES)), encode(ASKS)
    places = list(sentences_of(text))
    verdicts: dict[int, Judged | None] = {}

    def judge(number: int) -> Steps[None]:
        start, stop = places[number]
        sentence = _MARKS.sub("", text[start:stop])[:LONGEST]
        earlier = [text[slice(*place)] for place in places[max(0, number - EARLIER) : number]]
        channel = channel_of(sentence, earlier)
        if channel is None or channel.queries is None:
            raise InputError(
                "claims are checked with an index in PostgreSQL, and a prompt with `channel`, `queries` and [words]: leave out "
                "--prompt, or add them to its file"
            )
        score = QuestionScore(question=[*lead, *encode(f" {channel.text}")[-SCORED:]], lead=len(lead))
        verdicts[number] = yield from _Sentence(machine, channel, channel.queries).judge(score, engine.trees)

    def job_of(number: int) -> Job:
        def begin() -> int:
            job.examples = shared.continued(job, [examples])
            shared.make_room()
            return engine.prefill(())

        job = Job(steps=judge(number), begin=begin, room=TREE_IDS)
        job.cancelled = cancelled or job.cancelled
        return job

    asked = [n for n, place in enumerate(places) if _is_statement(text[slice(*place)])]
    for low in range(0, len(asked), AT_ONCE):
        run_jobs(shared.scheduler, [job_of(number) for number in asked[low : low + AT_ONCE]])
    if len(verdicts) < len(asked):
        raise InputError("the check of a text was cancelled")
    claims = tuple(
        Claim(
            text=text[slice(*places[number])],
            start=places[number][0],
            stop=places[number][1],
            verdict=found[0],
            fact=found[1],
            instead=found[2],
            confidence=found[3],
        )
        for number, found in sorted(verdicts.items())
        if found is not None
    )
    return TextClaims(claims=claims, sentences=len(places), without_claim=len(places) - len(claims))


def _is_statement(sentence: str) -> bool:
    """Return whether a sentence may make a claim: not a question, nor a line that is written as a fact."""
    return (
        not sentence.rstrip("\"'”’)").endswith("?")
        and "<" not in sentence
        and bool(re.search(r"[^\W\d_]{2}", sentence))
    )
