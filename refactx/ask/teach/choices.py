"""Choices to learn: of some texts, the one after which a question is likeliest, as the channel compares them.

The channel (`refactx.selection.channel`) compares by log p(question | examples, text). A question with a known fact gives the
texts of that fact's property, of those of the same subject that are nearest to the question in meaning, which asking compares
too, and of no fact; one whose words ask for a query, the lines of the right query, of others that the search finds, and of
none. The loss is the cross-entropy of the first of them.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refactx.ask.channels import Channels, scored_question
from refactx.ask.prompt import Prompt
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource, InFact
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.engines.writer import common_length
from refactx.selection.answer_lines import AnswerLines
from refactx.selection.candidates import SubjectCandidate
from refactx.selection.chooser import FactChoice
from refactx.selection.query_answers import TRIGGER, QueryAnswers
from refactx.selection.query_lines import Candidate, line_of
from refactx.selection.scores import QuestionScore, fact_so_far, no_fact
from refactx.walks.language import Query


@dataclass(frozen=True, slots=True)
class TextChoice:
    """Texts before a question, the right one first.

    `examples`: the ids before each; `question`: those after each, of which all but the first `lead` are scored.
    """

    examples: IdPath
    texts: Sequence[IdPath]
    question: IdPath
    lead: int


class ChoiceMaker:
    """Makes the choices of questions to an index, as its channel compares them with a prompt: of at most `most` texts."""

    def __init__(self, index: FactSource, prompt: Prompt, machine: Machine, most: int) -> None:
        self._channels, self._tokenizer, self._prompt = Channels(index, prompt, ()), index.tokenizer, prompt
        self._machine, self._most = machine, most

    def of(
        self, question: str, fact: Sequence[int], query: Query | None, chance: random.Random
    ) -> Iterator[TextChoice]:
        """Yield the choices of a question, given the ids of its first fact after the trigger (or none), and the query whose
        result is its answer."""
        channel = self._channels.of(question)
        if channel is None or self._most < 3:
            return
        queries, right = None, "" if query is None or query.head == "list" else line_of(replace(query, limit=1))
        if channel.queries is not None:
            guide = _Likeness(tuple(self._tokenizer.encode(f"{TRIGGER} {right}".rstrip())))
            queries = QueryAnswers(self._machine, channel, channel.queries, guide)
        made = [
            self._properties(fact, FactChoice(self._machine, channel, AnswerLines(self._machine, channel), queries))
        ]
        if queries is not None:
            made.append(self._queries(queries, right, chance))
        ids, lead = scored_question(self._tokenizer, self._prompt, question)
        for examples, texts in zip(channel.examples, made, strict=False):
            if len(texts) > 1:
                yield TextChoice(examples, texts, tuple(ids), lead)

    def _properties(self, fact: Sequence[int], choice: FactChoice) -> list[IdPath]:
        machine, begun = self._machine, self._subject_of(fact)
        if begun is None:
            return []
        subject, right = begun
        nearest = choice.nearest(choice.meanings(SubjectCandidate(ids=(), state=subject), {}))
        others, begin = [path for path in nearest if path != right], fact_so_far(machine, subject)
        return [*((*begin, *path) for path in (right, *others[: self._most - 2])), no_fact(machine)]

    def _subject_of(self, fact: Sequence[int]) -> tuple[InFact, IdPath] | None:
        """Return the state after a fact's subject, and the ids of its property; None if an id has the ends of both."""
        state, subject, begin = self._machine.begin(0), None, 0
        for end, token in enumerate(fact, 1):
            after = self._machine.advance(state, token, 0)
            if not isinstance(after, InFact):
                break
            state, brackets = after, self._machine.text_of(after.prefix).count(b">")
            if brackets == 1 and subject is None:
                subject, begin = state, end
            elif brackets > 1:
                return None if subject is None else (subject, tuple(fact[begin:end]))
        return None

    def _queries(self, queries: QueryAnswers, line: str, chance: random.Random) -> list[IdPath]:
        search = queries.search(TreeReading.NONE)
        heads = [head for head in search.heads if head != "list"]
        if not heads:
            return []
        found = [one for head in heads for one in _result(search.candidates(head))]
        spelt = [one.line for one in found if line_of(one.query) == line]
        others = list(dict.fromkeys(one.line for one in found if line_of(one.query) != line))  # namesakes have one line
        some = self._most - 1 - bool(line)
        near, rest = others[: some // 2], others[some // 2 :]
        lines = [spelt[0] if spelt else line, *near, *chance.sample(rest, min(len(rest), some - len(near)))]
        if line:
            lines.append("")
        return [tuple(self._tokenizer.encode(f"{TRIGGER} {one}".rstrip())) for one in lines]


class _Likeness(QuestionScore):
    """Scores of texts by how many ids they have in common with the right one: so a search follows its parts."""

    def __init__(self, right: IdPath) -> None:
        super().__init__(question=(), lead=0)
        self._right = right

    def likelihoods(
        self,
        texts: Sequence[IdPath],
        trees: TreeReading,
        priors: NDArray[np.float64] | None = None,
        drop_below: float = math.inf,
        least: float = -math.inf,
    ) -> Steps[NDArray[np.float64]]:
        """Return the scores of texts; a model has no part in them."""
        return np.array([common_length(text, self._right) for text in texts], np.float64)
        yield


def _result(steps: Steps[list[Candidate]]) -> list[Candidate]:
    """Return the result of steps that need no model."""
    try:
        next(steps)
    except StopIteration as done:
        found: list[Candidate] = done.value
        return found
    raise AssertionError("a step needs a model")
