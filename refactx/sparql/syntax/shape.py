"""The shape of a SPARQL query: its groups of patterns, with the tokens of each part.

Parsers of SPARQL do not say where in the text a part stands. So `refactx.sparql.syntax.reader` reads the tokens of a query
again, after such a parser (`refactx.sparql.syntax.check`) has found that it is SPARQL. It does not read expressions.
"""

from dataclasses import dataclass, field
from typing import Literal

from refactx.sparql.syntax.tokens import Span, Token

ElementKind = Literal[
    "triple", "filter", "optional", "minus", "union", "bind", "values", "graph", "service", "select", "group"
]


class ShapeError(Exception):
    """A query whose shape cannot be read. `token`: the one that does not fit; None at the end."""

    def __init__(self, token: Token | None) -> None:
        super().__init__("the end" if token is None else repr(token.text))
        self.token = token


@dataclass(frozen=True, slots=True)
class Triple:
    """A triple: its terms, and the path between them. `subject`: None within square brackets."""

    subject: Span | None
    path: Span
    object: Span


@dataclass(frozen=True, slots=True)
class Element:
    """A part of a group. `groups`: those within it: the branches of a union, or what OPTIONAL and the like have."""

    kind: ElementKind
    span: Span
    triple: Triple | None = None
    groups: tuple["Group", ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A group of patterns. `span`: with its brackets."""

    span: Span
    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """A block of data: its variables, and the numbers of the tokens in their columns that are terms."""

    variables: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Shape:
    """A query. `form`: `SELECT`, `ASK`, ...; `prologue`: its declarations; `where`: its patterns; `modifiers`: the
    tokens after them. `triples`, `values`: all that it has, also within expressions and groups; `listed`: how many terms
    its collections have, which are triples too."""

    form: str = ""
    prologue: Span = (0, 0)
    where: Group | None = None
    modifiers: Span = (0, 0)
    triples: list[Triple] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)
    listed: int = 0


@dataclass(slots=True)
class Cursor:
    """Where the reading of a query is: within a triple, `subject` and `path` are those before the next term."""

    subject: Span | None = None
    path: Span | None = None
    wants: Literal["subject", "path", "object", "term"] = "term"
