"""A small readable graph as an index in memory, and the parts of a choice of queries on it with a fake score."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from refactx.decoding.machine import Machine
from refactx.engines.engine import IdPath, Steps, TreeReading
from refactx.entity_ids import other_number
from refactx.fact import ALIAS
from refactx.index.names import Named
from refactx.linking.names import unaccented
from refactx.selection.mentions import FoldedTokens, Mentions, QueryWords, find_mentions, named_spans
from refactx.selection.query_lines import LineScores
from refactx.selection.scores import RACED, QuestionScore
from refactx.tokenizer import FactTokenizer
from refactx.walks.facts import TreeFacts
from refactx.walks.language import ValueKind
from support.query.memory_index import RowsIndex
from support.query.twin import Fact, Graph

T = TypeVar("T")
Properties = dict[str, tuple[str, ValueKind, str]]
"""By name: the id, the kind of the objects, and the name that reads it backwards, which may be empty."""


class WorldIndex(RowsIndex):
    """Claims with their inverse facts. Of an object with more than `limit` subjects by a property, a hub, the inverse
    facts are counted only."""

    def __init__(
        self,
        claims: Iterable[Fact],
        properties: Properties,
        limit: float = math.inf,
        tokenizer: FactTokenizer | None = None,
    ) -> None:
        self.properties, self.back, kept = properties, dict[tuple[str, str], list[str]](), set(claims)
        for subject, name, value in sorted(kept):
            _, kind, inverse = properties.get(name, ("", "text", ""))
            if inverse and (kind == "entity" or value[:1].isalpha()):
                self.back.setdefault((value, inverse), []).append(subject)
        few = {(s, p, o) for (s, p), objects in self.back.items() if len(objects) <= limit for o in objects}
        self.limit, self.graph = limit, frozenset(kept | few)
        self.whole: Graph = frozenset(kept | {(s, p, o) for (s, p), objects in self.back.items() for o in objects})
        self.entities = {subject for subject, _, _ in self.whole if not subject.endswith(ALIAS)} - properties.keys()
        super().__init__([(1, self.graph)], tokenizer)

    def ids_of(self, names: Iterable[str]) -> dict[str, Named]:
        found = {name: _named(id_, kind) for name, (id_, kind, _) in self.properties.items()}
        found |= {name: Named(f"Q{n}", None) for n, name in enumerate(sorted(self.entities)) if name not in found}
        found |= {inverse: _named(id_, "inverse") for id_, _, inverse in self.properties.values() if inverse}
        return {name: found[name] for name in names if name in found}

    def names_of(self, ids: Iterable[str], *, inverse: bool = False) -> dict[str, str]:
        named = {
            id_: backwards if inverse else name
            for name, (id_, _, backwards) in self.properties.items()
            if backwards or not inverse
        }
        return {id_: named[id_] for id_ in ids if id_ in named}

    def property_names(self) -> list[str]:
        return [*self.properties, *(inverse for _, _, inverse in self.properties.values() if inverse)]

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for (name, inverse), subjects in self.back.items():
            if len(subjects) > self.limit and name in set(objects):
                found.setdefault(name, {})[inverse] = len(subjects)
        return found

    @cached_property
    def facts(self) -> TreeFacts:
        return TreeFacts(cast(Any, self))

    @cached_property
    def machine(self) -> Machine:
        return Machine(self)

    @cached_property
    def folded(self) -> FoldedTokens:
        return FoldedTokens(self.tokenizer.token_bytes)

    def mentions(self, question: str, words: QueryWords) -> Mentions:
        spans = named_spans(self.machine, self.folded, words, question, self.facts)
        return find_mentions(self.machine, self.facts, question, spans)

    def run(self, steps: Steps[T]) -> T:
        """The result of steps that ask nothing of a model."""
        try:
            asked = next(steps)
        except StopIteration as done:
            found: T = done.value
            return found
        raise AssertionError(f"a model was asked for {asked}")

    def scores(self, score: "FakeScore") -> LineScores:
        return LineScores(self.tokenizer, score, TreeReading.ROWS, "Query:")


def _named(id_: str, kind: str) -> Named:
    return Named(id_, kind, other_number(id_) + 1) if ":" in id_ else Named(id_, kind)


class FakeScore(QuestionScore):
    """Likelihoods by a function of a line, its text after `Query:`. `asked`: all lines that were scored."""

    def __init__(self, tokenizer: FactTokenizer, of_line: Callable[[str], float]) -> None:
        super().__init__(question=(), lead=0)
        self._tokenizer, self._of_line, self.asked = tokenizer, of_line, list[str]()

    def likelihoods(
        self,
        texts: Sequence[IdPath],
        trees: TreeReading,
        priors: NDArray[np.float64] | None = None,
        drop_below: float = math.inf,
        least: float = -math.inf,
    ) -> Steps[NDArray[np.float64]]:
        yield from ()
        lines = [self._tokenizer.decode(list(text)).strip().removeprefix("Query:").strip() for text in texts]
        self.asked += lines
        scores = np.array([self._of_line(line) for line in lines], np.float64)
        before = scores + (0 if priors is None else priors)
        if len(texts) >= RACED:
            scores[before < before.max() - drop_below] = -math.inf
        scores[before <= least] = -math.inf
        return scores


def overlap(question: str) -> Callable[[str], float]:
    """A score of lines: two nats for each word that a line has in common with a question, less a little for others."""
    asked = set(_words(question))

    def of_line(line: str) -> float:
        words = _words(line)
        return -20.0 + 2 * len(asked & set(words)) - 0.1 * sum(word not in asked for word in words)

    return of_line


def _words(text: str) -> list[str]:
    return [word.removesuffix("s") for word in re.findall(r"[^\W_]+", unaccented(text))]


def result_of(steps: Steps[T]) -> T:
    """The result of steps that ask for nothing."""
    try:
        next(steps)
    except StopIteration as done:
        found: T = done.value
        return found
    raise AssertionError("the steps ask for something")
