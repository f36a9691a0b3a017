"""The claims of a text that an index can judge: those that its facts say, and those of which they say otherwise.

A claim is a sentence that names a subject of the index, says a predicate of it by its meaning, and has a value. The model
chooses among the facts that exist, by the noisy channel, as it does for a question (`refactx.selection.channel`): of the
properties of what the sentence names, it is that after which the sentence is likeliest,

    log p(sentence | examples, subject and property)  +  weights * (nearness in meaning, whether a value is named)

The claim **holds** if the sentence names an object of that property, and **differs** if it has another value that could be
one: an entity that other facts have in that place or of the class of the objects, a time, a number. It differs too if the
sentence is much likelier with its two names exchanged ("Alaska is the capital of Juneau"). All else is **not in the
index**, which is never called wrong. Each further value of the sentence may make a claim of its own, of the likeliest property
that has not been claimed: no pass of the model is made for it. A sentence that names nothing, has no value, or denies
what it says makes no claim.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refactx.ask.browse import fact_of
from refactx.ask.writer import TREE_IDS, SharedEngine
from refactx.decoding.machine import Machine
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.engines.scheduler import Job, run_jobs
from refactx.english import open_pronoun
from refactx.errors import InputError
from refactx.fact import ALIAS_OF, DESCRIPTIONS, Fact, unit
from refactx.linking.names import bare_name
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import Mention, ValueSpans, class_predicates, numbers_of, words_of
from refactx.selection.query_answers import QueryAnswers
from refactx.selection.scores import DESCRIBED, QuestionScore, no_fact
from refactx.selection.statements import placed_spans
from refactx.walks.statements import Span
from refactx.walks.values import parse_amount, parse_quantity, parse_time

Verdict = Literal["holds", "differs", "not in the index"]
Judged = tuple[Verdict, Fact | None, Fact | None, float | None]
"""A verdict, the fact that says the same, that which stands instead, and the confidence in its property."""
NOT_THERE: Judged = ("not in the index", None, None, None)

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
EXCHANGED_GAIN = 2.0
"""How much likelier, in nats, a sentence with its two names exchanged has to be for it to say a fact the wrong way round, after
the fact's property and after its inverse."""
AT_ONCE = 8
"""Sentences that the model reads together."""
LONGEST, SCORED = 500, 64
"""The most characters of a sentence that is checked, and the most ids of it (its last ones) that are scored."""
MOST_CHARACTERS, MOST_SENTENCES = 50_000, 500
"""Of a text that is checked at once."""
EARLIER, LOOKED_BACK = 3, 20
"""How many sentences before one its pronouns may stand for something in, and how many are looked at for these: those that begin
with a pronoun are about what is named before."""

_END = re.compile(
    r"^#{1,6}[ \t][^\n]*(\n\s*)"  # a heading
    r"|\n\s*(?:\n\s*|(?=[-+*#>|•–—]|\d{1,3}[.)]\s))"
    r"|[.!?…؟۔।][\"'”’»)\]*_]{0,9}(\s+)(?=\S)|(?<=[。！？])",
    re.MULTILINE,
)
"""What ends a sentence; what stands between it and the next is the group that matched, or else all of it."""
_NO_END = re.compile(
    r"(?:\b(?:[A-Z]|[Dd]r|[Mm]rs?|Ms|St|Jr|Sr|[Pp]rof|Inc|Ltd|Co|Corp|vs|No|Nr|ca?|etc|e\.g|i\.e|[A-Za-z]\.[A-Z])\.|\.\.\.)\s*$"
)
_ITEM = re.compile(r"\s*(?:[-+*>•–—]\s+)*\d{1,3}[.)]\s*")
_DAY, _MONTH = re.compile(r"\b\d\d?\.\s*$"), re.compile(r"[^\W\d]{3,12}\.? \d{3,4}\b")
"""A day and the month after it, as German writes them: `am 3. Oktober 1990`."""
_TAIL = 12
_TITLE = re.compile(r"(?<![\w’'])[A-ZÀ-Þ][^\W_]+")
_LINK = re.compile(
    r"\[\^?\d{1,3}\](?:\([^()\s]*\))?|!?\[([^\[\]]*)\](?:\([^()\s]*\)|\[[^\[\]]*\])|</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>"
)
_MARKS = re.compile(r"^(?:(?:[-*+>#|•–—]+|\d{1,3}[.)])\s+)+|(?<!\w)[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}(?!\w)")
"""Marks of Markdown and HTML: links, of which the text stays, tags, headings, lists and emphasis."""
_WRITTEN = re.compile(r"<[^<>]*[A-Z ][^<>]*>\s*<|<[^<>]*>\s*<[^<>]*>\s*<|```")
"""A fact that is written as one, or code."""
_NOT = re.compile(r"n['’]t\b")
_DECIMAL_COMMA = re.compile(r"\d,\d{1,2}(?!\d)|\d,\d{4}")
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_OTHER_SCALE = re.compile(r"(?:mil|mio|mrd|bil|bn|tri|taus|cent|hund)", re.IGNORECASE)
"""What begins words that may stand for a power of ten in other languages or forms: a number before one is not compared."""
_AFTER = re.compile(r"[ \u00a0-]?([^\W\d_]+|[%°$€£])")
LEAST_ROUND, MOST_DIGITS = 1000, 99
"""The least that the last digit of a whole number counts if the number may be rounded: `1,700,000` may stand for 1,717,854, not
`120` for 122; and the most digits of a number that is compared."""
_HIDDEN = frozenset((*DESCRIPTIONS, ALIAS_OF))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClaim:
    """A claim of a text, from `start` to `stop` in it, in code points: the sentence that makes it.

    `fact`: the fact that says the same; `instead`: if the claim differs, the fact that stands in its place; `confidence`: how
    much likelier that fact's property makes the sentence than none, in nats, None if no property was compared.
    """

    text: str
    start: int
    stop: int
    verdict: Verdict = "not in the index"
    fact: Fact | None = None
    instead: Fact | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClaims:
    """The claims of a text, in its order; a sentence may make several. `sentences`: how many it has; `without_claim`: how many
    of these make none."""

    claims: tuple[TextClaim, ...]
    sentences: int
    without_claim: int


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of the sentences of a text, without the space around them.

    >>> text = "J. Doe met Dr. Lee. He left!\\n\\n* Ann stayed"
    >>> [text[start:stop] for start, stop in sentences_of(text)]
    ['J. Doe met Dr. Lee.', 'He left!', '* Ann stayed']
    """
    start = 0
    for found in _END.finditer(text):
        first, last = next((found.span(n) for n in (1, 2) if found[n] is not None), found.span())
        if found[2] is not None and _continues(text, start, first, last):
            continue
        yield from _stripped(text, start, first)
        start = last
    yield from _stripped(text, start, len(text))


def _continues(text: str, start: int, end: int, after: int) -> bool:
    """Return whether a sentence goes on beyond a full stop before `end`: after an abbreviation, a number of a list or a day of
    a month, or with a small letter."""
    back = max(start, end - _TAIL)
    return "\n\n" not in text[end:after] and bool(
        text[after].islower()
        or _NO_END.search(text, back, end)
        or (end - start <= 2 * _TAIL and _ITEM.fullmatch(text, start, end))
        or (_DAY.search(text, back, end) and _MONTH.match(text, after))
    )


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    if piece.strip():
        yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


Place = tuple[int, int]
"""The half-open range of the characters of a name or value in its sentence."""


@dataclass(frozen=True, slots=True)
class _NamedProperty:
    """A property of what a sentence names. `near`: how near it is in meaning, in nats; `objects`: some of its objects;
    `named`: those of them that the sentence names, with their places."""

    subject: Mention
    name: str
    near: float
    objects: Sequence[str]
    named: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class _SaidNumber:
    """A number of a sentence. `step`: half of what its last digit counts; `may_round`: whether it may stand for others within
    that; `unit`: the word after it, empty if that is a function word."""

    place: Place
    value: Decimal
    step: Decimal
    may_round: bool
    unit: str

    def says(self, amount: str) -> bool | None:
        """Return whether it says the amount of a fact, as it is or rounded; None if that cannot be told."""
        known, unit = parse_amount(amount) or (None, "")
        unit_of = unit.lower().split()
        if known is None or abs(known.adjusted()) > MOST_DIGITS:
            return None
        if self.unit and unit_of and not any(_abbreviates(self.unit, one) for one in unit_of):
            return None
        if known == self.value or (self.may_round and abs(known - self.value) <= self.step):
            return True
        is_near = abs(known - self.value) <= max(self.step, _half_step(known))
        return None if is_near or (self.unit and not unit_of) else False


def _half_step(number: Decimal) -> Decimal:
    """Return half of what the last digit of a number that is not 0 counts.

    >>> _half_step(Decimal("1700")), _half_step(Decimal("3.1"))
    (Decimal('5E+1'), Decimal('0.05'))
    """
    _, digits, exponent = number.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0")) if exponent == 0 and number else 0
    return Decimal(5).scaleb(int(exponent) + zeros - 1)


def _abbreviates(word: str, unit_word: str) -> bool:
    """Return whether a word stands for a word of a unit: `km` and `kilometers` for `kilometre`."""
    letters = iter(unit_word)
    return words_of(word) == words_of(unit_word) or (
        word[0] == unit_word[0]
        and (len(word) <= 3 or word[:4] == unit_word[:4])
        and all(one in letters for one in word[:4])
    )


class _Sentence:
    """One sentence, whose claims are judged. `channel`: of its text."""

    def __init__(self, machine: Machine, channel: Channel, sources: QuerySources) -> None:
        self._machine, self._channel, self._text, self._facts = machine, channel, channel.text, sources.facts
        self._mentions = QueryAnswers(machine, channel, sources).mentions.entities
        self._words, self._spans = sources.words, ValueSpans(replace(sources.words, operators={}), channel.text)

    def judge(self, score_of: Callable[[str], QuestionScore], trees: TreeReading) -> Steps[list[Judged]]:
        """Return the verdicts, each with the fact that says it, that which stands instead, and the confidence. `score_of`:
        makes the score of a sentence."""
        compared = self._compared()
        if not compared:
            return [NOT_THERE] if self._unknown_names("") else []
        texts = [self._ids(one.subject.name, one.name) for one in compared]
        alone = [self._ids(one.subject.name) for one in compared]
        distinct = list(dict.fromkeys([*texts, *alone]))
        found = yield from _likelihoods(score_of(self._text), distinct, trees)
        likely, gain = dict(zip(distinct, found.tolist(), strict=True)), self._channel.weights.named_value_gain
        scores = [likely[text] + one.near + gain * bool(one.named) for text, one in zip(texts, compared, strict=True)]
        gains = [likely[text] - likely[own] + one.near for text, own, one in zip(texts, alone, compared, strict=True)]
        best, *others = sorted(range(len(compared)), key=lambda n: -scores[n])
        used = list[tuple[Place, Place]]()
        judged = list(self._claims(compared[best], gains[best], used))
        if not judged:
            return [(*NOT_THERE[:3], gains[best])] if self._has_value(compared[best].subject) else []
        if (exchanged := self._exchanged(compared[best])) is not None:
            both = self._both_ways(compared[best])
            there = yield from _likelihoods(score_of(self._text), both, trees)
            other = yield from _likelihoods(score_of(exchanged), both, trees)
            if (other - there).min() > EXCHANGED_GAIN:
                judged = [("differs", None, fact, gain) for _, fact, _, gain in judged]
        return judged + [claim for n in others for claim in self._claims(compared[n], gains[n], used)]

    def _exchanged(self, one: _NamedProperty) -> str | None:
        """Return the sentence with the subject and the only named object of a property in each other's place, unless that
        object is a value, or a fact says the same of both."""
        (value, place), *more = one.named.items() or [("", (0, 0))]
        ends, text = sorted([(one.subject.start, one.subject.stop), place]), self._text
        if not value or more or not one.subject.is_named or value not in {mention.name for mention in self._mentions}:
            return None
        if any(self._facts.hold([(value, one.name, one.subject.name)])):
            return None
        (start, stop), (low, high) = ends
        return text[:start] + text[low:high] + text[stop:low] + text[start:stop] + text[high:]

    def _both_ways(self, one: _NamedProperty) -> list[IdPath]:
        """Return the ids of a property of a subject, and of its inverse of the only named object."""
        inverse = self._facts.inverse_of(one.name)
        backwards = [] if inverse is None else [self._ids(value, inverse) for value in one.named]
        return [self._ids(one.subject.name, one.name), *backwards]

    def _claims(self, one: _NamedProperty, confidence: float, used: list[tuple[Place, Place]]) -> Iterator[Judged]:
        """Yield the claims of a property. `used`: the places of subjects and values that likelier properties have taken, to
        which it adds its own."""
        subject = one.subject.start, one.subject.stop

        def take(value: Place) -> bool:
            if any(_meet(value, other) or (_meet(value, own) and _meet(subject, other)) for own, other in used):
                return False
            used.append((subject, value))
            return True

        for value, place in one.named.items():
            if take(place) and confidence >= LEAST_OF_NAMED:
                yield "holds", fact_of(one.subject.name, one.name, value), None, confidence
        other = next((place for place in self._other_values(one) if take(place)), None) if not one.named else None
        if other is not None and confidence >= LEAST_OF_OTHERS:
            yield "differs", None, fact_of(one.subject.name, one.name, one.objects[0]), confidence

    def _compared(self) -> list[_NamedProperty]:
        """Return the properties of what the sentence names that it may be about, the nearest in meaning first."""
        found, bonus, names = list[_NamedProperty](), self._channel.weights.named_value_gain, set[str]()
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
                named = {value: at for value in objects if (at := self._place(value, mention)) is not None}
                if objects and (place < NEAREST or named):
                    found.append(_NamedProperty(mention, predicates[n], near[n], objects, named))
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

    def _place(self, value: str, subject: Mention) -> Place | None:
        """Return where the sentence names a value apart from its subject: an entity, a time within one that it says, the same
        number, or the same words; None if it does not."""
        own = subject.start, subject.stop
        if (time := parse_time(value)) is not None:
            said = (place for place, one in self._times if one.first <= time.first and time.end <= one.end)
            if (found := next((place for place in said if not _meet(place, own)), None)) is not None:
                return found
        if parse_amount(value) is not None:
            places = (one.place for one in self._numbers if one.says(value))
            return next((place for place in places if not _meet(place, own)), None)
        named = ((one.start, one.stop) for one in self._mentions if one.name == value and one.is_apart(subject))
        found = next(named, None) or self._spans.find(bare_name(value))
        return None if found is None or _meet(found, own) else found

    def _other_values(self, one: _NamedProperty) -> Iterator[Place]:
        """Yield where the sentence has a value of the kind of a property's objects that is none of them, if it is known that
        there are no more, and all names of the sentence are known."""
        objects, own = one.objects, (one.subject.start, one.subject.stop)
        if len(objects) == OBJECTS or self._unknown_names(one.name):
            return
        periods = [parse_time(value) for value in objects]
        if self._times and None not in periods:
            known = [period for period in periods if period is not None]
            for place, said in self._times:
                if all(time.first >= said.end or time.end <= said.first for time in known):
                    yield place
            return
        if all(parse_amount(value) is not None for value in objects):
            years = [place for place, _ in self._times]
            for number in self._numbers:
                is_other = number.place not in years and not _meet(number.place, own)
                if is_other and all(number.says(value) is False for value in objects):
                    yield number.place
            return
        inverse, class_of = self._facts.inverse_of(one.name), class_predicates(self._facts, self._words)[0] or ""
        classes = {class_ for _, class_ in self._facts.objects(list(objects[:SUBJECTS]), class_of)}
        for mention in self._mentions:
            if mention.name == one.subject.name or not mention.is_apart(one.subject):
                continue
            has_inverse = inverse is not None and inverse in self._facts.predicates(mention.name)
            own_classes = (class_ for _, class_ in self._facts.objects([mention.name], class_of))
            if has_inverse or (classes and any(class_ in classes for class_ in own_classes)):
                yield mention.start, mention.stop

    def _has_value(self, subject: Mention) -> bool:
        """Return whether the sentence has a name, time or number beside a subject: else it says nothing of it."""
        places = [(one.start, one.stop) for one in self._mentions], [place for place, _ in self._times]
        numbers, own = [one.place for one in self._numbers], (subject.start, subject.stop)
        return self._unknown_names("") or any(not _meet(one, own) for some in (*places, numbers) for one in some)

    @cached_property
    def _times(self) -> list[tuple[Place, Span]]:
        """The times of the sentence that are no part of a longer name, as in `2011 Tour de France`."""
        found = placed_spans(self._text, self._words.statements)
        return [((start, stop), span) for start, stop, span in found if not self._is_in_name((start, stop))]

    def _is_in_name(self, place: Place) -> bool:
        names = ((one.start, one.stop) for one in self._mentions)
        return any(_meet(place, name) and name[1] - name[0] > place[1] - place[0] for name in names)

    @cached_property
    def _numbers(self) -> list[_SaidNumber]:
        """The numbers of the sentence that are no part of a date or name, and not before a word that may be a power of ten in
        another language."""
        return list(filter(None, (self._number((start, stop), text) for start, stop, text in numbers_of(self._text))))

    def _number(self, place: Place, text: str) -> _SaidNumber | None:
        start, stop = place
        value, word = parse_quantity(text), _AFTER.match(self._text, stop)
        is_in_date = any(_meet(place, time) and time != place for time, _ in self._times)
        if value is None or abs(value.adjusted()) > MOST_DIGITS or is_in_date or self._is_in_name(place):
            return None
        if _DECIMAL_COMMA.search(self._text, max(0, start - 2), stop + 5):
            return None
        after = word[1].lower() if word else ""
        scale = _SCALES.get(after.removesuffix("s"))
        if scale is not None:
            value, word = value.scaleb(scale), _AFTER.match(self._text, stop + len(word[0]) if word else stop)
            after = word[1].lower() if word else ""
        elif _OTHER_SCALE.match(after):
            return None
        step = _half_step(value)
        has_digits = value.adjusted() > (step * 2).adjusted()
        may_round = has_digits and ("." in text or step * 2 >= LEAST_ROUND)
        return _SaidNumber(place, value, step, may_round, "" if self._words.is_function(after) else after)

    def _unknown_names(self, predicate: str) -> bool:
        """Return whether a word is spelt as a name, but is in no name that the sentence names, nor in a predicate."""
        known_places = [*((one.start, one.stop) for one in self._mentions), *(place for place, _ in self._times)]
        known = {word for text in (predicate, *(one.name for one in self._mentions)) for word in words_of(text)}
        return any(
            not self._words.is_function(one[0]) and known.isdisjoint(words_of(one[0]))
            for one in _TITLE.finditer(self._text)
            if not any(start <= one.start() and one.end() <= stop for start, stop in known_places)
        )


def _likelihoods(score: QuestionScore, texts: list[IdPath], trees: TreeReading) -> Steps[NDArray[np.float64]]:
    found = yield from score.likelihoods(texts, trees)
    yield from score.close()
    return found


def _meet(one: Place, other: Place) -> bool:
    """Return whether two places have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def check_claims(
    text: str,
    channel_of: Callable[[str, Sequence[str]], Channel | None],
    machine: Machine,
    shared: SharedEngine,
    cancelled: Callable[[], bool] | None = None,
) -> TextClaims:
    """Return the claims of a text. `channel_of`: returns the channel of a sentence, given those before it; `cancelled`: asked
    before each pass of the model, ends the check once it returns True.

    Raises InputError for a text that is empty or too long, if the channel has no queries, for a check that was cancelled, and
    as `refactx.Index.children` does.
    """
    places = places_of(text)
    encode, engine = machine.source.tokenizer.encode, shared.scheduler.engine
    examples, lead = tuple(encode(EXAMPLES)), encode(ASKS)
    texts = [plain_sentence(text[start:stop]) for start, stop in places]
    judged: dict[int, list[Judged]] = {}

    def judge(number: int) -> Steps[None]:
        topics = [text for text in texts[max(0, number - LOOKED_BACK) : number] if not _begins_with_pronoun(text)]
        channel = channel_of(texts[number], topics[-EARLIER:])
        if channel is None or channel.queries is None:
            raise InputError(
                "claims are checked with an index in PostgreSQL, and a prompt with `channel`, `queries` and [words]: leave out "
                "--prompt, or add them to its file"
            )
        sources = channel.queries
        if _denies(channel.text, sources.words.negation):
            judged[number] = []
            return
        if not _refers(channel.text, sources.words.is_function):
            channel = replace(channel, earlier=())
        judged[number] = yield from _Sentence(machine, channel, sources).judge(score_of, engine.trees)

    def score_of(sentence: str) -> QuestionScore:
        return QuestionScore(question=[*lead, *encode(f" {sentence}")[-SCORED:]], lead=len(lead))

    def job_of(number: int) -> Job:
        def begin() -> int:
            job.examples = shared.continued(job, [examples])
            shared.make_room()
            return engine.prefill(())

        job = Job(steps=judge(number), begin=begin, room=TREE_IDS)
        job.cancelled = cancelled or job.cancelled
        return job

    asked = [number for number, sentence in enumerate(texts) if _is_statement(sentence)]
    for low in range(0, len(asked), AT_ONCE):
        run_jobs(shared.scheduler, [job_of(number) for number in asked[low : low + AT_ONCE]])
    if len(judged) < len(asked):
        raise InputError("the check of a text was cancelled")
    claims = tuple(
        TextClaim(
            text=text[slice(*places[number])],
            start=places[number][0],
            stop=places[number][1],
            verdict=verdict,
            fact=fact,
            instead=instead,
            confidence=confidence,
        )
        for number in sorted(judged)
        for verdict, fact, instead, confidence in judged[number]
    )
    return TextClaims(claims=claims, sentences=len(places), without_claim=len(places) - sum(map(bool, judged.values())))


def places_of(text: str) -> list[tuple[int, int]]:
    """Return the places of the sentences of a text that is to be checked. Raise InputError if it is empty or too long."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"the text has {len(text):,} characters: check at most {MOST_CHARACTERS:,} at once")
    places = list(sentences_of(text))
    if not places:
        raise InputError("the text is empty: give one with sentences")
    if len(places) > MOST_SENTENCES:
        raise InputError(f"the text has {len(places):,} sentences: check at most {MOST_SENTENCES:,} at once")
    return places


def plain_sentence(sentence: str) -> str:
    """Return a sentence without marks of Markdown and HTML.

    >>> plain_sentence("* **Juneau**[^1] is the <b>capital</b> of [Alaska](https://a.b/c)")
    'Juneau is the capital of Alaska'
    """
    if _WRITTEN.search(sentence):
        return sentence
    return _MARKS.sub("", _LINK.sub(lambda found: found[1] or "", sentence).strip())


def _is_statement(sentence: str) -> bool:
    """Return whether a sentence may make a claim: not a question, a line that is written as a fact, code, nor endless."""
    return (
        len(sentence) <= LONGEST
        and not sentence.rstrip("\"'”’) \n").endswith(("?", "？", "؟"))
        and not _WRITTEN.search(sentence)
        and bool(re.search(r"[^\W\d_]{2}", sentence))
    )


def _begins_with_pronoun(sentence: str) -> bool:
    """Return whether a sentence begins with a pronoun for what a sentence before it is about."""
    found = open_pronoun(sentence[:LONGEST], (), lambda _: False)
    return found is not None and found[0] == 0


def _refers(sentence: str, is_function: Callable[[str], bool]) -> bool:
    """Return whether a sentence has a pronoun for what one before it names: after a name, it stands for that, known or not."""
    found = open_pronoun(sentence, (), is_function)
    return found is not None and all(is_function(one[0]) for one in _TITLE.finditer(sentence, 0, found[0]))


def _denies(sentence: str, negation: Collection[str]) -> bool:
    return bool(_NOT.search(sentence)) or not {one.lower() for one in re.findall(r"[^\W_]+", sentence)}.isdisjoint(
        negation
    )
