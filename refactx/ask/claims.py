"""The claims of a text that an index can judge: those that its facts say, and those of which they say otherwise.

A claim is a sentence that names a subject of the index, says a predicate of it by its meaning, and has a value. The model
chooses among the facts that exist, by the noisy channel, as it does for a question (`refactx.selection.channel`): of the
properties of what the sentence names, it is that after which the sentence is likeliest,

    log p(sentence | examples, subject and property)  +  weights * (nearness in meaning, whether a value is named)

The claim **holds** if the sentence names an object of that property, and **differs** if it has another value that could be
one: an entity that other facts have in that place or of the class of the objects, a time, a number. It differs too if it says
the fact the wrong way round ("Alaska is the capital of Juneau"), by its words, or if these do not tell, if it is much likelier
with its two names exchanged. All else is **not in the index**, which is never called wrong. Each further value of the sentence
may make a claim of its own, of the likeliest property that has not been claimed: no pass of the model is made for it. A
sentence that names nothing, has no value, or denies what it says makes no claim.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refactx.ask.browse import fact_of
from refactx.ask.sentences import SCORED, Place, SentenceParts, meet, places_of, plain_sentence, read_sentences
from refactx.ask.writer import SharedEngine
from refactx.decoding.machine import Machine
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.english import holder_of
from refactx.fact import ALIAS_OF, DESCRIPTIONS, Fact
from refactx.linking.names import bare_name
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import Mention, class_predicates
from refactx.selection.scores import QuestionScore
from refactx.walks.values import parse_amount, parse_time

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


@dataclass(frozen=True, slots=True)
class _NamedProperty:
    """A property of what a sentence names. `near`: how near it is in meaning, in nats; `objects`: some of its objects;
    `named`: those of them that the sentence names, with their places."""

    subject: Mention
    name: str
    near: float
    objects: Sequence[str]
    named: Mapping[str, Place]


class _Sentence(SentenceParts):
    """One sentence, whose claims are judged."""

    def judge(self, score_of: Callable[[str], QuestionScore], trees: TreeReading) -> Steps[list[Judged]]:
        """Return the verdicts, each with the fact that says it, that which stands instead, and the confidence. `score_of`:
        makes the score of a sentence."""
        compared = self._compared()
        if not compared:
            return [NOT_THERE] if self.has_unknown_names("") else []
        texts = [self.fact_ids(one.subject.name, one.name) for one in compared]
        alone = [self.fact_ids(one.subject.name) for one in compared]
        distinct = list(dict.fromkeys([*texts, *alone]))
        score = score_of(self.text)
        found = yield from _likelihoods(score, distinct, trees)
        likely, gain = dict(zip(distinct, found.tolist(), strict=True)), self.channel.weights.named_value_gain
        scores = [likely[text] + one.near + gain * bool(one.named) for text, one in zip(texts, compared, strict=True)]
        gains = [likely[text] - likely[own] + one.near for text, own, one in zip(texts, alone, compared, strict=True)]
        best, *others = sorted(range(len(compared)), key=lambda n: -scores[n])
        used = list[tuple[Place, Place]]()
        judged = list(self._claims(compared[best], gains[best], used))
        if not judged:
            return [(*NOT_THERE[:3], gains[best])] if self._has_value(compared[best].subject) else []
        if (exchanged := self._exchanged(compared[best])) is not None:
            told = self._told(compared[best], compared)
            if told is None:
                both = self._both_ways(compared[best])
                there = yield from _likelihoods(score, both, trees)
                other = yield from _likelihoods(score_of(exchanged), both, trees)
                told = bool((other - there).min() <= EXCHANGED_GAIN)
            if not told:
                judged = [("differs", None, fact, gain) for _, fact, _, gain in judged]
        return judged + [claim for n in others for claim in self._claims(compared[n], gains[n], used)]

    def _exchanged(self, one: _NamedProperty) -> str | None:
        """Return the sentence with the subject and the only named object of a property in each other's place, unless that
        object is a value, or a fact says the same of both."""
        (value, place), *more = one.named.items() or [("", (0, 0))]
        ends, text = sorted([(one.subject.start, one.subject.stop), place]), self.text
        if not value or more or not one.subject.is_named or value not in {mention.name for mention in self.mentions}:
            return None
        if any(self.facts.hold([(value, one.name, one.subject.name)])):
            return None
        (start, stop), (low, high) = ends
        return text[:start] + text[low:high] + text[stop:low] + text[start:stop] + text[high:]

    def _told(self, best: _NamedProperty, compared: Sequence[_NamedProperty]) -> bool | None:
        """Return whether the words of the sentence say a property of the same two names, or its inverse, of the one that has it
        ("the capital of Alaska"), or (False) of the other one; None if they do not tell."""
        names = {best.subject.name, *best.named}
        for one in compared:
            if len(one.named) != 1 or {one.subject.name, *one.named} != names:
                continue
            [value], subject = one.named.values(), (one.subject.start, one.subject.stop)
            for name, own in ((one.name, 0), (self.facts.inverse_of(one.name), 1)):
                if name is None or name.endswith("(inverse)"):  # which no sentence says
                    continue
                holder = holder_of(self.text, bare_name(name), (subject, value))
                if holder is not None and self._exchanged(one) is not None:
                    return holder == own
        return None

    def _both_ways(self, one: _NamedProperty) -> list[IdPath]:
        """Return the ids of a property of a subject, and of its inverse of the only named object."""
        inverse = self.facts.inverse_of(one.name)
        backwards = [] if inverse is None else [self.fact_ids(value, inverse) for value in one.named]
        return [self.fact_ids(one.subject.name, one.name), *backwards]

    def _claims(self, one: _NamedProperty, confidence: float, used: list[tuple[Place, Place]]) -> Iterator[Judged]:
        """Yield the claims of a property. `used`: the places of subjects and values that likelier properties have taken, to
        which it adds its own."""
        subject = one.subject.start, one.subject.stop

        def take(value: Place) -> bool:
            if any(meet(value, other) or (meet(value, own) and meet(subject, other)) for own, other in used):
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
        found, bonus, names = list[_NamedProperty](), self.channel.weights.named_value_gain, set[str]()
        for mention in sorted(self.mentions, key=lambda one: -one.share):
            if mention.name in names or len(names) == SUBJECTS:
                continue
            names.add(mention.name)
            predicates = [name for name in self.facts.predicates(mention.name) if name not in _HIDDEN]
            called = [self.text[mention.start : mention.stop]] if mention.is_named else []
            near = self.channel.meanings(predicates, called).tolist()
            order = sorted(range(len(predicates)), key=lambda n: -near[n])
            for place, n in enumerate(order[:LOOKED_AT]):
                objects = [value for _, value in islice(self.facts.objects([mention.name], predicates[n]), OBJECTS)]
                named = {value: at for value in objects if (at := self._place(value, mention)) is not None}
                if objects and (place < NEAREST or named):
                    found.append(_NamedProperty(mention, predicates[n], near[n], objects, named))
        return sorted(found, key=lambda one: -(one.near + bonus * bool(one.named)))[:COMPARED]

    def _place(self, value: str, subject: Mention) -> Place | None:
        """Return where the sentence names a value apart from its subject: an entity, a time within one that it says, the same
        number, or the same words; None if it does not."""
        own = subject.start, subject.stop
        if (time := parse_time(value)) is not None:
            said = (place for place, one in self.times if one.first <= time.first and time.end <= one.end)
            if (found := next((place for place in said if not meet(place, own)), None)) is not None:
                return found
        if parse_amount(value) is not None:
            places = (one.place for one in self.numbers if one.says(value))
            return next((place for place in places if not meet(place, own)), None)
        named = ((one.start, one.stop) for one in self.mentions if one.name == value and one.is_apart(subject))
        found = next(named, None) or self.spans.find(bare_name(value))
        return None if found is None or meet(found, own) else found

    def _other_values(self, one: _NamedProperty) -> Iterator[Place]:
        """Yield where the sentence has a value of the kind of a property's objects that is none of them, if it is known that
        there are no more, and all names of the sentence are known."""
        objects, own = one.objects, (one.subject.start, one.subject.stop)
        if len(objects) == OBJECTS or self.has_unknown_names(one.name):
            return
        periods = [parse_time(value) for value in objects]
        if self.times and None not in periods:
            known = [period for period in periods if period is not None]
            for place, said in self.times:
                if all(time.first >= said.end or time.end <= said.first for time in known):
                    yield place
            return
        if all(parse_amount(value) is not None for value in objects):
            years = [place for place, _ in self.times]
            for number in self.numbers:
                is_other = number.place not in years and not meet(number.place, own)
                if is_other and all(number.says(value) is False for value in objects):
                    yield number.place
            return
        inverse, class_of = self.facts.inverse_of(one.name), class_predicates(self.facts, self.words)[0] or ""
        classes = {class_ for _, class_ in self.facts.objects(list(objects[:SUBJECTS]), class_of)}
        for mention in self.mentions:
            if mention.name == one.subject.name or not mention.is_apart(one.subject):
                continue
            has_inverse = inverse is not None and inverse in self.facts.predicates(mention.name)
            own_classes = (class_ for _, class_ in self.facts.objects([mention.name], class_of))
            if has_inverse or (classes and any(class_ in classes for class_ in own_classes)):
                yield mention.start, mention.stop

    def _has_value(self, subject: Mention) -> bool:
        """Return whether the sentence has a name, time or number beside a subject: else it says nothing of it."""
        places = [(one.start, one.stop) for one in self.mentions], [place for place, _ in self.times]
        numbers, own = [one.place for one in self.numbers], (subject.start, subject.stop)
        return self.has_unknown_names("") or any(not meet(one, own) for some in (*places, numbers) for one in some)


def _likelihoods(score: QuestionScore, texts: list[IdPath], trees: TreeReading) -> Steps[NDArray[np.float64]]:
    found = yield from score.likelihoods(texts, trees)
    yield from score.close()
    return found


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
    places, judged = places_of(text), dict[int, list[Judged]]()
    encode, trees = machine.source.tokenizer.encode, shared.scheduler.engine.trees
    lead, texts = encode(ASKS), [plain_sentence(text[start:stop]) for start, stop in places]

    def judge(number: int, channel: Channel, sources: QuerySources) -> Steps[None]:
        judged[number] = yield from _Sentence(machine, channel, sources).judge(score_of, trees)

    def score_of(sentence: str) -> QuestionScore:
        return QuestionScore(question=[*lead, *encode(f" {sentence}")[-SCORED:]], lead=len(lead))

    read_sentences(texts, judge, channel_of, shared, encode(EXAMPLES), cancelled=cancelled)
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
