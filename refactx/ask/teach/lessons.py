"""Lessons: for a question with a known answer, the text that `refactx ask` should write, and which of its ids a model decides.

A text is the conversation by the model's own chat template with the prompt of the index, then the facts that prove the
answer, and the answer. Questions for numbers, for yes or no and for the highest have a query in place of facts if the prompt
has queries, and long lists have one after their first fact: as in `refactx.selection.query_answers`. What no fact answers
has the prompt's words for that.

The state machine of facts runs over each text, so a text is one that decoding can write, and the ids that it allows at each
place are known: those with one allowed id are not the model's to decide.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from refactx.ask.channels import facts_of
from refactx.ask.prompt import Prompt
from refactx.ask.teach.choices import ChoiceMaker, TextChoice
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource, Free, InQuery
from refactx.errors import InputError
from refactx.fact import counted, written_fact
from refactx.options import check_options, option
from refactx.progress import progress_bar
from refactx.selection.query_answers import TRIGGER, try_answer
from refactx.selection.weights import Weights
from refactx.tree.tree import Tokens
from refactx.walks.answered import AnsweredQuery
from refactx.walks.decoding import QueryGrammar
from refactx.walks.language import TERMINATOR, Query, QueryError, read_line

_Question = TypeVar("_Question")
DEVICES = ("auto", "cpu", "cuda", "mps")
TRAIN = "train"
"""The part of questions to learn from; others are kept aside."""
SHARE = 0.05
"""The share of questions that is kept aside of a file without parts."""
MOST_ASIDE = 50
"""The most questions kept aside that are used: each evaluation reads all of them."""
SHOWN = 10
"""How many lines that were left out for a reason a report names."""
NOT_THERE = "its facts are not in the index, or its query has no answer there"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """Options of training an adapter. Raises InputError for values out of range."""

    epochs: int = option(3, "Read all questions N times at most.", least=1)
    learning_rate: float = option(0.0002, "Learning rate, which falls to 0.", above=0, metavar="X")
    rank: int = option(16, "Rank of the adapter; 0: none, all weights are trained.", least=0)
    batch_size: int = option(8, "Questions for each step.", least=1)
    seed: int = option(0, "Another seed, another order and beginning.", least=0)
    limit: int | None = option(None, "Learn from N questions, chosen by the seed.", least=1)
    max_length: int = option(2048, "Leave out texts of more than N tokens.", least=1)
    candidates: int = option(9, "Texts among which a question's is chosen; 0: no choices.", least=0)
    device: str = option("auto", "auto, cpu, cuda or mps.", choices=DEVICES, metavar="DEVICE")

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """A question with what is known of its answer, from `line` of a file.

    `answers`: names; `facts`: texts of facts that prove them; `walk`: the query whose result they are, empty if not known;
    `is_unanswerable`: whether no fact answers it. `part`: `train`, another one, or empty.
    """

    line: int
    question: str
    answers: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    walk: str = ""
    is_unanswerable: bool = False
    part: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The `ids` of a conversation with its answer, int32[length]; `places`: which of them the model decides, int32[n];
    `allowed`: for each of these, the ids that may stand there, int32[m], or None: any. `choices`: those of the channel."""

    ids: Tokens
    places: Tokens
    allowed: Sequence[Tokens | None]
    choices: Sequence[TextChoice] = ()


class _LeftOutError(Exception):
    """Why a question has no lesson."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """Lessons to learn from, those kept `aside`, and the lines of the questions that were `left_out`, by reason."""

    train: list[Lesson]
    aside: list[Lesson]
    left_out: dict[str, list[int]] = field(default_factory=dict)

    def left_out_json(self) -> dict[str, Any]:
        """Return what was left out, as a report has it."""
        return {reason: {"count": len(at), "lines": at[:SHOWN]} for reason, at in self.left_out.items()}


def parts_of(
    questions: Sequence[_Question], parts: Sequence[str], options: TrainingOptions
) -> tuple[list[_Question], ...]:
    """Return the questions to learn from, and those kept aside, each in an order by chance.

    `parts`: of the questions, `train` or others; if none is `train`, a few of all are kept aside.
    """
    chance, has_parts = random.Random(options.seed), TRAIN in parts  # noqa: S311 - not for secrets
    train = [one for one, part in zip(questions, parts, strict=True) if not has_parts or part in (TRAIN, "")]
    aside = [one for one, part in zip(questions, parts, strict=True) if has_parts and part not in (TRAIN, "")]
    chance.shuffle(train)
    if not aside:
        few = max(1, round(SHARE * len(train))) if len(train) > 1 else 0
        aside, train = train[:few], train[few:]
    chance.shuffle(aside)
    return train[: options.limit], aside[:MOST_ASIDE]


def made_lessons(train: list[Lesson], aside: list[Lesson], left_out: Mapping[str, Sequence[int]]) -> Lessons:
    """Return lessons. Raises InputError if there are none to learn from, or none to keep aside."""
    if not train or not aside:
        asked = len(train) + len(aside) + sum(map(len, left_out.values()))
        reasons = "; ".join(f"{len(at):,}: {reason}" for reason, at in left_out.items())
        raise InputError(
            f"of {counted(asked, 'question')}, {len(train)} are left to learn from and {len(aside)} to keep aside "
            f"({reasons or 'there are too few'}): both are needed"
        )
    return Lessons(train, aside, {reason: sorted(at) for reason, at in left_out.items()})


class Teacher:
    """Makes lessons out of one index, with one prompt, for the ids of one tokenizer (of Transformers).

    `end`: the id after an answer; `asked`: the prompt whose channel's choices are lessons too, if it has one. Raises
    TokenizerMismatchError, and as `Machine` does.
    """

    def __init__(
        self,
        index: FactSource,
        prompt: Prompt,
        tokenizer: Any,
        *,
        end: int,
        options: TrainingOptions,
        asked: Prompt | None = None,
    ) -> None:
        from refactx.engines.transformers.processor import check_tokenizer  # seconds

        check_tokenizer(index, tokenizer)
        self._index, self._prompt, self._tokenizer, self._end = index, prompt, tokenizer, end
        self._options = options
        self._facts, grammar = facts_of(index), None
        if self._facts is not None and prompt.has_queries:
            grammar = QueryGrammar(self._facts, index)
        self._writes_queries = grammar is not None
        # A model without a channel ends lists too early, and a query gives them whole.
        self._most_facts = Weights().facts_of_property if prompt.channel.strip() or grammar is None else 1
        self._machine = Machine(index, grammar)
        self._choices: ChoiceMaker | None = None
        if asked is not None and asked.channel.strip() and options.candidates:
            self._choices = ChoiceMaker(index, asked, Machine(index), options.candidates)
        self._kept: dict[bytes, Tokens] = {}

    def lessons(self, questions: Sequence[Taught]) -> Lessons:
        """Return the lessons of questions: those of part `train` (all but a few, if there are no parts) to learn from.

        Raises InputError if no question is left, or if most of them are about another index.
        """
        left_out: dict[str, list[int]] = defaultdict(list)
        chosen = parts_of(questions, [one.part for one in questions], self._options)
        made = [list(self._made(some, left_out)) for some in chosen]
        asked, lost = sum(map(len, chosen)), len(left_out.get(NOT_THERE, ()))
        if 2 * lost > asked:
            raise InputError(
                f"the facts of {lost:,} of {counted(asked, 'question')} are not in the index: give the index that they were "
                "made of, or make questions of this one (refactx questions make)"
            )
        return made_lessons(made[0], made[1], left_out)

    def lesson(self, one: Taught) -> Lesson:
        """Return the lesson of a question. Raises _LeftOutError if it has none."""
        ids = list(self._prompt.ids(self._tokenizer, one.question))
        state, places, allowed = self._machine.start(ids), list[int](), list[Tokens | None]()
        choices: Sequence[TextChoice] = ()
        if not isinstance(state, Free):
            raise _LeftOutError("its question ends in a fact")
        facts, answered, answer = self._answer_of(one)
        parts = list(self._text(facts, answered, answer))
        for text, is_decided in parts:
            for token in text:
                may = self._machine.allowed(state)
                if may is not None and token not in may:
                    is_query = isinstance(state, InQuery)
                    raise _LeftOutError(
                        "its query compares text, which models write no queries for" if is_query else NOT_THERE
                    )
                if is_decided and (may is None or len(may) > 1):
                    places.append(len(ids))
                    allowed.append(None if may is None else self._kept.setdefault(may.tobytes(), may))
                state = self._machine.advance(state, token, len(ids))
                ids.append(token)
        if not isinstance(state, Free) or len(state.facts) != len(facts):
            raise _LeftOutError("its text has other facts than its own")
        longest = self._options.max_length
        if len(ids) > longest:
            raise _LeftOutError(f"its text has more than {longest} tokens")
        if self._choices is not None:
            chance = random.Random(one.line)  # noqa: S311 - not for secrets
            fact = parts[1][0] if facts else ()
            choices = tuple(self._choices.of(one.question, fact, self._query_of(one), chance))
        return Lesson(np.array(ids, np.int32), np.array(places, np.int32), allowed, choices)

    def _made(self, questions: Sequence[Taught], left_out: dict[str, list[int]]) -> Iterator[Lesson]:
        for one in progress_bar("texts", len(questions), iterable=questions, unit=" questions"):
            try:
                yield self.lesson(one)
            except _LeftOutError as reason:
                left_out[str(reason)].append(one.line)

    def _answer_of(self, one: Taught) -> tuple[Collection[str], AnsweredQuery | None, str]:
        """Return the facts to write for a question, the query after them, and the answer."""
        query = self._query_of(one)
        facts, answer = tuple(dict.fromkeys(one.facts)), "; ".join(one.answers)
        is_list, many = query is None or query.head == "list", self._most_facts
        if query is not None and self._facts is not None and (not is_list or not facts or len(facts) > many):
            answered = try_answer(query, self._facts)
            if answered is None:
                raise _LeftOutError(NOT_THERE)
            proof = answered.result.texts
            if self._writes_queries and (not is_list or len(facts or proof) > many):
                return (facts or proof)[: int(is_list)], answered, answered.answer
            facts, answer = facts or proof, answered.answer
        if one.is_unanswerable:
            return (), None, self._prompt.unknown
        if not facts or not answer:
            raise _LeftOutError(
                "it has no facts that prove an answer, nor a query that is a chain of facts of the index"
            )
        return facts, None, answer

    def _query_of(self, one: Taught) -> Query | None:
        """Return the query whose result is the answer to a question; None if it is not known."""
        if self._facts is None:
            return None
        try:
            return read_line(one.walk) if one.walk else None
        except QueryError as error:
            raise _LeftOutError("its query cannot be read") from error

    def _text(
        self, facts: Collection[str], answered: AnsweredQuery | None, answer: str
    ) -> Iterator[tuple[Sequence[int], bool]]:
        """Yield the ids of a text in parts, each with whether the model decides it: what follows a query is its result."""
        encode, index, marker = self._index.tokenizer.encode, self._index, self._prompt.marker
        for fact in facts:
            written = written_fact(fact)
            if written is None:
                raise _LeftOutError("one of its facts is not written as <subject> <predicate> <object>")
            yield encode(index.trigger), True
            yield index.tokenizer.encode_after(index.trigger, written), True
            yield encode(f"{index.terminator}\n"), True
        if answered is None:
            yield [*encode(f"{marker} {answer}"), self._end], True
            return
        line = f"{TRIGGER} {answered.line}{TERMINATOR}"
        whole, size = encode(f"{line}\n{marker} {answer}"), 0
        while size < len(whole) and len(index.tokenizer.decode_bytes(whole[:size])) < len(line.encode()):
            size += 1
        yield whole[:size], True
        yield [*whole[size:], self._end], False
