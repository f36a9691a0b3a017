"""The protocol of engines that run SPARQL, and their results.

The terms of results are pyoxigraph's: `NamedNode`, `BlankNode`, `Literal` (with `datatype` and `language`) and, in
RDF 1.2, `Triple`. They compare as RDF terms do and can be used as keys; `str` writes one as N-Triples does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from refactx.errors import InputError, RefactxError

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a SELECT.

    `variables`: the names of the columns, without `?`; `rows`: a term for each column, None for a variable without a
    value, in the order of the engine, with duplicates; `truncated`: whether there are more rows, which the limit left
    out. An engine may also be unable to tell that all were found: then `reason` says why, and `truncated` is true.
    `note`: what else is to be known of them.
    """

    variables: tuple[str, ...]
    rows: Sequence[tuple[Term | None, ...]]
    truncated: bool = False
    reason: str = ""
    note: str = ""


Result: TypeAlias = Rows | bool
"""The result of a query: the rows of a SELECT, or the truth of an ASK."""


class SparqlEngine(Protocol):
    """What runs queries. `name`: what messages call it: `tree`, `store`, or an endpoint's URL without its password."""

    @property
    def name(self) -> str: ...

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK with IRIs (`wd:Q42`, not names) and return its result.

        The usual prefixes of Wikidata need no declaration. `limit`: the most rows, None for all; `seconds`: the most
        time, None for the engine's default.

        Raises SparqlSyntaxError if the query is not SPARQL; QueryRefusedError if it is neither SELECT nor ASK, or more
        than this engine can answer; EngineTimeoutError after `seconds`; EngineError if the engine fails otherwise.
        """
        ...

    def close(self) -> None:
        """Release connections and files. The engine cannot be used afterwards."""
        ...


class SparqlSyntaxError(InputError):
    """A query that is not SPARQL. The message has the line and the column of the error."""


class QueryRefusedError(InputError):
    """A query that is SPARQL, but not for this engine: an update, or a part that it cannot answer."""


class UnknownFunctionError(QueryRefusedError):
    """A query with a function that is not one of SPARQL 1.1."""


class EngineError(RefactxError):
    """An engine that cannot answer now: an endpoint that is down or refuses, a store that is damaged."""


class UnreachableError(EngineError):
    """An endpoint to which no connection can be made."""


class EngineTimeoutError(EngineError):
    """A query that takes longer than it may."""
