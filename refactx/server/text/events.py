"""What happens while a text is written, and what it was when it has ended."""

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from refactx.asking.answer import fact_json, statement_url
from refactx.fact import Fact, LinkedFact
from refactx.query import AnsweredQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedFact:
    """A fact in a text: `fact`, with its ids as `linked`.

    `start`, `stop`: where it stands in the text, in code points: from the trigger before it to the end of its terminator.
    """

    fact: Fact
    linked: LinkedFact
    start: int
    stop: int

    @property
    def title(self) -> str:
        """The fact in words.

        >>> from refactx.fact import Link
        >>> parts = Link("Alaska", "Q797"), Link("capital", "P36"), Link("Juneau", "Q29445")
        >>> fact = Fact("Alaska", "capital", "Juneau", "<Alaska> <capital> <Juneau> .", (0, 9))
        >>> CitedFact(fact=fact, linked=LinkedFact(*parts), start=0, stop=29).title
        'Alaska: capital: Juneau'
        """
        return ": ".join((self.fact.subject, self.fact.predicate, self.fact.object))

    @property
    def url(self) -> str | None:
        """The statement on the page of its subject on Wikidata; None without ids.

        >>> from refactx.fact import Link
        >>> parts = Link("Alaska", "Q797"), Link("capital", "P36"), Link("Juneau", "Q29445")
        >>> fact = Fact("Alaska", "capital", "Juneau", "<Alaska> <capital> <Juneau> .", (0, 9))
        >>> CitedFact(fact=fact, linked=LinkedFact(*parts), start=0, stop=29).url
        'https://www.wikidata.org/wiki/Q797#P36'
        """
        return statement_url(self.linked)

    def to_json(self) -> dict[str, Any]:
        """Return the fact as `refactx ask --json` prints it, with `span` and `statement_url`."""
        return {**fact_json(self.fact, self.linked), "span": [self.start, self.stop], "statement_url": self.url}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The next piece of a text. `in_fact`: it is part of a fact; `fact`: the one that ends with it; `is_reasoning`: it
    stands before the answer, and is no part of the content."""

    text: str
    in_fact: bool = False
    fact: CitedFact | None = None
    is_reasoning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A text that has ended.

    `text`: all of it; `answer`: its final answer, empty if there is none; `answer_start`: where the marker before it
    begins; `facts`: those in it; `queries`: those in it with their answers; `unknown`: whether the
    answer is that the facts do not tell; `told`: as in `refactx.Answer`.
    """

    text: str
    answer: str
    answer_start: int
    facts: tuple[CitedFact, ...]
    queries: tuple[AnsweredQuery, ...]
    unknown: bool
    told: float | None
    reason: Literal["stop", "length"]
    prompt_tokens: int
    tokens: int
    forced_tokens: int
    forward_passes: int
    turns_left_out: int

    def to_json(self) -> dict[str, Any]:
        """Return the field `refactx` of a response."""
        return {
            "answer": self.answer,
            "unknown": self.unknown,
            "told": None if self.told is None else round(self.told, 3),
            "facts": [fact.to_json() for fact in self.facts],
            "queries": [query.to_json() for query in self.queries],
            "forward_passes": self.forward_passes,
            "turns_left_out": self.turns_left_out,
        }


@dataclass(slots=True, kw_only=True)
class Record:
    """What logs and metrics have of a text. `seconds`: when its first piece came and when it ended, from its beginning."""

    started: float = field(default_factory=time.monotonic)
    first: float | None = None
    finished: Finished | None = None


Event = Delta | Finished
