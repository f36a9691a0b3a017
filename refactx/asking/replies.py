"""Replies to walk lines and to questions in words, on one index."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refactx.errors import InputError
from refactx.index.index import Index
from refactx.query import (
    AnsweredQuery,
    Query,
    QueryError,
    Resolved,
    answer_query,
    read_line,
    resolve,
    to_sparql,
    write_line,
)
from refactx.query.denote import DEFAULT_LIMITS
from refactx.query.line import is_line
from refactx.query.tree_facts import TreeFacts
from refactx.query.unknown import check_start

if TYPE_CHECKING:
    from refactx.asking.queries import QueryChoice

EXAMPLE = "count <Louisiana> <nickname>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The query of a text, with its answer unless it was not to be run.

    `choice`, `told`: the choice of it and the confidence in it, if a model chose it; `resolved`: the labels and aliases
    that were replaced.
    """

    question: str
    query: Query
    sparql: str | None
    answered: AnsweredQuery | None
    choice: "QueryChoice | None" = None
    told: float | None = None
    resolved: tuple[Resolved, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        """What the user should know besides."""
        for one in self.resolved:
            of = f", of {one.among} with this name" if one.among > 1 else ""
            yield f"<{one.label}> is taken as <{one.name}>{of}"
        if self.choice is not None and self.told is not None and self.told < self.choice.tells:
            yield f"the query makes the question only {self.told:.1f} nats likelier than none does: it may be wrong"
        if self.sparql is None:
            yield "the query has no SPARQL, since not all of its names have ids, or it compares text as numbers or dates"

    @property
    def line(self) -> str:
        """The text of the query."""
        return write_line(self.query)

    def to_json(self, limit: int | None, *, explains: bool) -> dict[str, Any]:
        """Return the reply as `refactx query --json` prints it, with at most `limit` rows and facts (None: all)."""
        told = None if self.told is None else round(self.told, 3)
        document: dict[str, Any] = {"query": self.line, "sparql": self.sparql, "head": self.query.head, "told": told}
        if self.answered is not None:
            document = self.answered.to_json()
            for name in ("rows", "sorted_by", "facts"):
                document[name] = document[name][:limit]
        document["resolved"] = [{"label": one.label, "name": one.name, "among": one.among} for one in self.resolved]
        if explains:
            document |= (
                {"heads": None, "names": None, "candidates": None} if self.choice is None else self.choice.to_json()
            )
        return {"question": self.question, **document}


def check_text(text: str, has_model: bool) -> None:
    """Raise InputError for a text without visible characters, and for a question in words if there is no model."""
    if not text.strip():
        raise InputError(f"the question is empty: give one in words, or a query such as `{EXAMPLE}`")
    if not has_model and not is_line(text):
        raise InputError(
            f"{text.strip()!r} is a question in words, which needs a model: give --model MODEL, or write a query such "
            f"as `{EXAMPLE}`"
        )


class Replies:
    """Replies on one index.

    `choose`: returns the choice of a query for a question in words; None: there is no model. `runs`: whether queries are
    answered; `facts`: how many facts are to be shown, None: as many as usual.
    """

    def __init__(
        self, index: Index, choose: "Callable[[str], QueryChoice] | None", *, runs: bool, facts: int | None
    ) -> None:
        self._facts, self._choose, self._runs = TreeFacts(index), choose, runs
        self._limits = replace(DEFAULT_LIMITS, facts=max(DEFAULT_LIMITS.facts, facts or 0))

    def to(self, text: str) -> Reply:
        """Return the reply to a text. Raises InputError if there is none."""
        check_text(text, self._choose is not None)
        if self._choose is None or is_line(text):
            query, replaced = resolve(read_line(text), self._facts)
            answered = answer_query(query, self._facts, self._limits) if self._runs else None
            return self._reply(text, query, answered, resolved=replaced)
        choice = self._choose(text)
        if not choice.candidates:
            raise InputError(
                f"{text.strip()!r} names no entity of the index that a query can start from: use names that it has (see "
                f"`refactx facts`), or write a query such as `{EXAMPLE}`"
            )
        best = choice.candidates[0]
        if not self._runs:
            return self._reply(text, best.query, None, choice=choice, told=choice.told(best))
        answered = choice.answer(self._limits)
        if answered is None:
            raise InputError(
                f"no query that {text.strip()!r} may ask has an answer; the likeliest is `{write_line(best.query)}` (see "
                "--explain --no-run)"
            )
        return self._reply(text, answered.query, answered, choice=choice, told=answered.told)

    def _reply(self, text: str, query: Query, answered: AnsweredQuery | None, **more: Any) -> Reply:
        sparql = self._sparql(query) if answered is None else answered.sparql
        return Reply(question=text.strip(), query=query, sparql=sparql, answered=answered, **more)

    def _sparql(self, query: Query) -> str | None:
        """Return a query that is not answered as SPARQL; None if a name of it has no id."""
        check_start(self._facts, query.start)
        try:
            return to_sparql(query, self._facts)
        except QueryError:
            return None
