"""The sentences of a text, and what one of them names: things, times and numbers, each with its place.

What checks a text (`refactx.ask.claims`) and what reads facts out of it (`refactx.ask.extraction`) have the model read each
sentence by itself, several side by side.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from refactx.ask.writer import TREE_IDS, SharedEngine
from refactx.decoding.machine import Machine
from refactx.engines.engine import IdPath, Steps
from refactx.engines.scheduler import Job, run_jobs
from refactx.english import open_pronoun
from refactx.errors import InputError
from refactx.fact import unit
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import ValueSpans, numbers_of, words_of
from refactx.selection.query_answers import QueryAnswers
from refactx.selection.scores import DESCRIBED, no_fact
from refactx.selection.statements import placed_spans
from refactx.walks.statements import Span
from refactx.walks.values import parse_amount, parse_quantity

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
TITLE = re.compile(r"(?<![\w’'])[A-ZÀ-Þ][^\W_]+")
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
class SaidNumber:
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
        if known is None or abs(known.adjusted()) > MOST_DIGITS:
            return None
        if self.unit and unit and not names_unit(self.unit, unit):
            return None
        if known == self.value or (self.may_round and abs(known - self.value) <= self.step):
            return True
        is_near = abs(known - self.value) <= max(self.step, _half_step(known))
        return None if is_near or (self.unit and not unit) else False


def _half_step(number: Decimal) -> Decimal:
    """Return half of what the last digit of a number that is not 0 counts.

    >>> _half_step(Decimal("1700")), _half_step(Decimal("3.1"))
    (Decimal('5E+1'), Decimal('0.05'))
    """
    _, digits, exponent = number.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0")) if exponent == 0 and number else 0
    return Decimal(5).scaleb(int(exponent) + zeros - 1)


def names_unit(word: str, unit_of: str) -> bool:
    """Return whether a word after a number stands for a word of a unit.

    >>> names_unit("km", "kilometre"), names_unit("square", "square kilometre"), names_unit("people", "metre")
    (True, True, False)
    """
    return any(_abbreviates(word, one) for one in unit_of.lower().split())


def _abbreviates(word: str, unit_word: str) -> bool:
    letters = iter(unit_word)
    return words_of(word) == words_of(unit_word) or (
        word[0] == unit_word[0]
        and (len(word) <= 3 or word[:4] == unit_word[:4])
        and all(one in letters for one in word[:4])
    )


class SentenceParts:
    """What one sentence names: its `mentions`, `times` and `numbers`. `channel`: of its text."""

    def __init__(self, machine: Machine, channel: Channel, sources: QuerySources) -> None:
        self.machine, self.channel, self.text, self.facts = machine, channel, channel.text, sources.facts
        self.mentions = QueryAnswers(machine, channel, sources).mentions.entities
        self.words, self.spans = sources.words, ValueSpans(replace(sources.words, operators={}), channel.text)

    def fact_ids(self, subject: str, *predicate: str) -> IdPath:
        """Return the ids of a fact up to its subject or predicate, with its trigger; a description is cut short."""
        name, bracket, description = subject.partition(" (")
        words = description.removesuffix(")").split()[:DESCRIBED]
        text = "".join(map(unit, (f"{name} ({' '.join(words)})" if bracket else name, *predicate)))
        return (
            *no_fact(self.machine),
            *self.machine.source.tokenizer.encode_after(self.machine.source.trigger, text),
        )

    @cached_property
    def times(self) -> list[tuple[Place, Span]]:
        """The times of the sentence that are no part of a longer name, as in `2011 Tour de France`."""
        found = placed_spans(self.text, self.words.statements)
        return [((start, stop), span) for start, stop, span in found if not self.is_in_name((start, stop))]

    def is_in_name(self, place: Place) -> bool:
        names = ((one.start, one.stop) for one in self.mentions)
        return any(meet(place, name) and name[1] - name[0] > place[1] - place[0] for name in names)

    @cached_property
    def numbers(self) -> list[SaidNumber]:
        """The numbers of the sentence that are no part of a date or name, and not before a word that may be a power of ten in
        another language."""
        return list(filter(None, (self._number((start, stop), text) for start, stop, text in numbers_of(self.text))))

    def _number(self, place: Place, text: str) -> SaidNumber | None:
        start, stop = place
        value, word = parse_quantity(text), _AFTER.match(self.text, stop)
        is_in_date = any(meet(place, time) and time != place for time, _ in self.times)
        if value is None or abs(value.adjusted()) > MOST_DIGITS or is_in_date or self.is_in_name(place):
            return None
        if _DECIMAL_COMMA.search(self.text, max(0, start - 2), stop + 5):
            return None
        after = word[1].lower() if word else ""
        scale = _SCALES.get(after.removesuffix("s"))
        if scale is not None:
            value, word = value.scaleb(scale), _AFTER.match(self.text, stop + len(word[0]) if word else stop)
            after = word[1].lower() if word else ""
        elif _OTHER_SCALE.match(after):
            return None
        step = _half_step(value)
        has_digits = value.adjusted() > (step * 2).adjusted()
        may_round = has_digits and ("." in text or step * 2 >= LEAST_ROUND)
        return SaidNumber(place, value, step, may_round, "" if self.words.is_function(after) else after)

    def has_unknown_names(self, predicate: str) -> bool:
        """Return whether a word is spelt as a name, but is in no name that the sentence names, nor in a predicate."""
        known_places = [*((one.start, one.stop) for one in self.mentions), *(place for place, _ in self.times)]
        known = {word for text in (predicate, *(one.name for one in self.mentions)) for word in words_of(text)}
        return any(
            not self.words.is_function(one[0]) and known.isdisjoint(words_of(one[0]))
            for one in TITLE.finditer(self.text)
            if not any(start <= one.start() and one.end() <= stop for start, stop in known_places)
        )


def meet(one: Place, other: Place) -> bool:
    """Return whether two places have a character in common."""
    return one[0] < other[1] and other[0] < one[1]


def read_sentences(
    texts: Sequence[str],
    judge: Callable[[int, Channel, QuerySources], Steps[None]],
    channel_of: Callable[[str, Sequence[str]], Channel | None],
    shared: SharedEngine,
    examples: Sequence[int],
    *,
    cancelled: Callable[[], bool] | None = None,
) -> list[int]:
    """Have sentences judged, those that state something, some at a time. Return the numbers of these.

    `judge`: returns the steps of a sentence, given its number, its channel and what its names are looked up in; `channel_of`:
    returns the channel of a sentence, given those before it; `examples`: ids that the model reads before each; `cancelled`:
    asked before each pass of the model.

    Raises InputError if the channel has no queries, and if it was cancelled.
    """
    engine, done = shared.scheduler.engine, list[int]()

    def steps(number: int) -> Steps[None]:
        topics = [text for text in texts[max(0, number - LOOKED_BACK) : number] if not _begins_with_pronoun(text)]
        channel = channel_of(texts[number], topics[-EARLIER:])
        if channel is None or channel.queries is None:
            raise InputError(
                "claims are checked with an index in PostgreSQL, and a prompt with `channel`, `queries` and [words]: leave out "
                "--prompt, or add them to its file"
            )
        sources = channel.queries
        if not denies(channel.text, sources.words.negation):
            if not refers(channel.text, sources.words.is_function):
                channel = replace(channel, earlier=())
            yield from judge(number, channel, sources)
        done.append(number)

    def job_of(number: int) -> Job:
        def begin() -> int:
            job.examples = shared.continued(job, [tuple(examples)])
            shared.make_room()
            return engine.prefill(())

        job = Job(steps=steps(number), begin=begin, room=TREE_IDS)
        job.cancelled = cancelled or job.cancelled
        return job

    asked = [number for number, sentence in enumerate(texts) if is_statement(sentence)]
    for low in range(0, len(asked), AT_ONCE):
        run_jobs(shared.scheduler, [job_of(number) for number in asked[low : low + AT_ONCE]])
    if len(done) < len(asked):
        raise InputError("the reading of a text was cancelled")
    return asked


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


def is_statement(sentence: str) -> bool:
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


def refers(sentence: str, is_function: Callable[[str], bool]) -> bool:
    """Return whether a sentence has a pronoun for what one before it names: after a name, it stands for that, known or not."""
    found = open_pronoun(sentence, (), is_function)
    return found is not None and all(is_function(one[0]) for one in TITLE.finditer(sentence, 0, found[0]))


def denies(sentence: str, negation: Collection[str]) -> bool:
    return bool(_NOT.search(sentence)) or not {one.lower() for one in re.findall(r"[^\W_]+", sentence)}.isdisjoint(
        negation
    )
