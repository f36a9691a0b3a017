"""The answer of a model to a question, its form as JSON, and the line with which a text without one continues.

Free text that would end without an answer continues with the line of the answer. Text with facts does so by its channel;
without that, the model without the constraint would be compared by unfinished texts.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from refactx.ask.evidence import SEPARATOR, Evidence, evidence_of
from refactx.fact import Fact, Link, LinkedFact
from refactx.walks.answered import AnsweredQuery

TIMES = 3
"""This many times in a row is a repetition. (Of 200 answers of a 0.5B model, three had a name twice and continued.)"""
LONGEST = 5
"""The most names that are repeated together."""
SHORTEST = 8
"""Characters of the shortest passage that is a repetition, of at least two words: a name may be "Duran Duran"."""
_BETWEEN = re.compile(r";|,(?=\s|$)")  # no comma of 1,000,000
NOT_FOUND = "(not found)"
"""What follows a fact, in the text of a model that only chats, that the index does not have."""
_UNFINISHED = r"\s*(?:<[^<>]*>\s*){0,2}<[^<>]*>?\s*\Z"
MARKUP = " \t*_#>-"
"""What may stand before a marker in its line: chat models write `**Answer:**`, `# Answer:` and `- Answer:`."""


def once(line: str) -> str:
    """Return a list without the repetition at its end; any other line as it is.

    >>> once("Rome, Oslo, Bern, Oslo, Bern, Oslo, Bern,")
    'Rome, Oslo, Bern'
    >>> once("Rome; Oslo; Oslo;")
    'Rome; Oslo; Oslo;'
    """
    ends = [found.start() for found in _BETWEEN.finditer(line)]
    names = [name.strip(" \t*") for name in _BETWEEN.split(line)]
    if not names[-1]:
        names.pop()
    for size in range(1, min(LONGEST, len(names) // TIMES) + 1):
        last = names[-size:]
        if any(last) and names[-TIMES * size :] == last * TIMES:
            return line[: ends[len(names) - (TIMES - 1) * size - 1]]
    return line


def loops(text: str) -> bool:
    """Return whether a text ends in `TIMES` copies of one passage, of any length: of a line, or of several in turn.

    >>> loops("So:\\n" + "Bonn is a city.\\nIt is old.\\n" * 3), loops("Bonn is a city.\\nIt is old.\\n" * 2)
    (True, False)
    """
    tail = text[-SHORTEST:]
    at = text.rfind(tail, 0, -SHORTEST)  # a passage is as long as its end is away from the same end before
    while at >= 0 and TIMES * (size := len(text) - SHORTEST - at) <= len(text):
        passage = text[-size:]
        if text.endswith(passage * TIMES) and len(set(re.findall(r"\w+", passage))) > 1:
            return True
        at = text.rfind(tail, 0, at + SHORTEST - 1)
    return False


FinishReason = Literal["stop", "length", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question.

    `text`: all that the model wrote after its thought, without special tokens; `thought`: what it wrote before, empty
    if it did not think, of `thought_tokens` ids; facts may be in both. `answer`: its final answer, empty if there is none (see
    `final_answer`). `facts`: the facts that it wrote, in order; their `token_span`s count from the start of the prompt.
    `links`: the same facts with their ids. `tokens`: how many ids were generated, the end of sequence included;
    `forward_passes`: how many passes of the model read ids for this answer; `seconds`: from the beginning of the text to
    its end. (Passes may read for several answers at once, whose seconds then overlap. Under beams over the whole text,
    the passes are those of a batch together, and its seconds are divided evenly.) `finish_reason`: the text ended by
    itself (`stop`), was cut off (`length`), or was `interrupted`. `turns_left_out`: how many earlier turns of a
    conversation the model had no room for; `queries`: the queries that the text has, with their answers. `confidence`: the
    confidence in the answer: how much likelier its query, or else its best fact, makes the question than none does, in
    nats; None if nothing was chosen by the question. `forced_tokens`: how many ids had no alternative. `unknown`: whether
    the answer is that the facts do not tell. `named`: the answer by the names of the index, if it is in another language, else
    empty. `evidence`: what of the facts proves the answer.
    """

    question: str
    answer: str
    text: str
    facts: tuple[Fact, ...]
    links: tuple[LinkedFact, ...]
    tokens: int
    forward_passes: int
    seconds: float
    finish_reason: FinishReason = "stop"
    turns_left_out: int = 0
    queries: tuple[AnsweredQuery, ...] = ()
    confidence: float | None = None
    forced_tokens: int = 0
    thought: str = ""
    thought_tokens: int = 0
    unknown: bool = False
    named: str = ""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The facts of the text and of its query, each once: those that prove the answer first."""
        return evidence_of(self.named or self.answer, self.links, self.queries, unknown=self.unknown)


def statement_url(fact: LinkedFact) -> str | None:
    """Return the page that says a fact, which is that of its object if it is an inverse one: the place of its statement on
    Wikidata or a site of its kind, of another graph the page of the subject; None if that has none.

    >>> statement_url(LinkedFact(Link("Alaska", "Q797"), Link("capital", "P36"), Link("Juneau", "Q29445")))
    'https://www.wikidata.org/wiki/Q797#P36'
    >>> statement_url(LinkedFact(Link("Ann", "http://e.org/a#Ann"), Link("knows", "http://e.org/knows"), Link("Bo")))
    'http://e.org/a#Ann'
    """
    page = fact.object if fact.inverse else fact.subject
    if not isinstance(page, Link) or page.url is None:
        return None
    has_place = re.fullmatch(r"[PQL]\d+", page.id or "") and re.fullmatch(r"P\d+", fact.predicate.id or "")
    return f"{page.url}#{fact.predicate.id}" if has_place else page.url


def final_answer(text: str, marker: str, facts: Sequence[Fact] = (), trigger: str = "") -> str:
    """Return the text after the last `marker`, up to the end of the line; empty if there is none.

    A marker counts at the beginning of a line, after the last of `facts`, and not inside a fact that is not finished, in
    which a text with a `trigger` may end. Asterisks around the marker and the answer are removed, since chat models write
    them, and so are repetitions in a list.

    >>> final_answer("Answer: no\\n**Answer:** Bern. Answer: x\\nThe Answer: no", "Answer:")
    'Bern. Answer: x'
    >>> final_answer("Answer: Rome; Oslo; Oslo;", "Answer:")
    'Rome; Oslo'
    >>> final_answer("Answer: Rome, Oslo, Oslo, Oslo,", "Answer:")
    'Rome, Oslo'
    """
    end = 0
    for fact in facts:
        start = text.find(fact.text, end)
        end = end if start < 0 else start + len(fact.text)
    unfinished = re.compile(re.escape(trigger) + _UNFINISHED).search(text, end) if trigger else None
    at = marker_start(text, marker, end, unfinished.start() if unfinished else len(text))
    if at is None:
        return ""
    line = once(text[at + len(marker) :].lstrip(" \t*").partition("\n")[0].strip().rstrip("*").rstrip())
    named = [name.strip() for name in line.split(SEPARATOR)]
    return (
        line if len(set(named)) == len(named) else f"{SEPARATOR} ".join(name for name in dict.fromkeys(named) if name)
    )


def untranslated(answer: str, translated: Mapping[str, str]) -> str:
    """Return an answer by the names of the index, "" if it has no others. `translated`: these names, by what it has for them.

    >>> untranslated("Rom; Oslo", {"Rom": "Rome"}), untranslated("Oslo", {"Rom": "Rome"})
    ('Rome; Oslo', '')
    """
    texts = [one.strip() for one in answer.split(SEPARATOR)]
    named = translated.get(answer, f"{SEPARATOR} ".join(translated.get(one, one) for one in texts))
    return "" if answer in ("", named) or not translated else named


def marker_start(text: str, marker: str, begin: int = 0, end: int | None = None) -> int | None:
    """Return where the last `marker` is in `text[begin:end]` that begins a line, apart from `MARKUP`; None if none does.

    >>> marker_start("Answer: a\\n**Answer:** b", "Answer:"), marker_start("so Answer: a", "Answer:")
    (12, None)
    """
    at = text.rfind(marker, begin, end)
    while at >= 0:
        if not text[text.rfind("\n", 0, at) + 1 : at].strip(MARKUP):
            return at
        at = text.rfind(marker, begin, at + len(marker) - 1)
    return None


def unlinked(fact: Fact) -> LinkedFact:
    """Return a fact as a linked one without ids, for which the database would be needed.

    >>> unlinked(Fact("a", "b", "c", "<a> <b> <c> .", (0, 4))).subject
    Link(label='a', id=None, page=None)
    """
    return LinkedFact(Link(fact.subject), Link(fact.predicate), Link(fact.object))


class RepeatedAnswer:
    """A detector of texts that end in a repetition: of a passage, or of names in the answer after `marker`."""

    def __init__(self, tokenizer: Any, marker: str) -> None:
        self._tokenizer, self._marker = tokenizer, marker
        self._separators: dict[int, bool] = {}  # whether an id has a separator, for ids that were written

    def is_end(self, ids: Sequence[int] | NDArray[np.int64]) -> bool:
        """Return whether a text has just repeated itself; `ids`: those after the prompt."""
        last = int(ids[-1]) if len(ids) else -1
        if last not in self._separators:
            self._separators[last] = last >= 0 and not set(";,.\n").isdisjoint(self._tokenizer.decode([last]))
        if not self._separators[last]:
            return False
        text: str = self._tokenizer.decode(list(map(int, ids)), skip_special_tokens=True)
        if loops(text):
            return True
        line = text.rpartition("\n")[2].lstrip(MARKUP)
        if not line.startswith(self._marker):  # the separator may be in a fact
            return False
        listed = line[len(self._marker) :]
        return once(listed) != listed


class AnswerLine:
    """The line of an answer, for a text without one whose likeliest next id would end it.

    `ends`: the ids that end a sequence.
    """

    def __init__(self, tokenizer: Any, marker: str, ends: Collection[int]) -> None:
        self._tokenizer, self._marker, self._ends = tokenizer, marker, frozenset(ends)

    def after(self, ids: Sequence[int], likeliest: int) -> list[int]:
        """Return the ids with which a text continues; empty if the model is to choose the next id.

        `ids`: those after the prompt; `likeliest`: the likeliest next id.
        """
        if likeliest not in self._ends or self._ends & set(ids):
            return []
        text = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        if marker_start(text, self._marker) is not None:
            return []
        at_line = not text or text.endswith("\n")
        line: list[int] = self._tokenizer.encode(
            self._marker if at_line else f"\n{self._marker}", add_special_tokens=False
        )
        return line
