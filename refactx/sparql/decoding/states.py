"""The states of a line of SPARQL: the ways to read its ids. Nearly always there is one.

Two ways arise where one token may begin a name as well as the text of another part. A way is at a `Point` between two
parts of the grammar's, or within the text of a placeholder after such a point.
"""

from dataclasses import dataclass, field

from refactx.query.decoding.slots import Begun
from refactx.sparql.decoding.matching import Matcher
from refactx.sparql.decoding.placeholder import Placeholder
from refactx.sparql.decoding.scope import Scope
from refactx.tree.tree import NO_TOKENS, Path, Tokens


@dataclass(frozen=True, slots=True)
class Point:
    """What is written and whole. `parts`: the tokens with text, and placeholders as negative numbers; `end`: the last
    byte; `matcher`: the grammar there, a function of the parts."""

    parts: Path
    scope: Scope
    end: bytes
    matcher: Matcher = field(compare=False, repr=False)

    @property
    def tokens(self) -> Tokens:
        """The tokens with text that may follow, int32[n], ascending."""
        return NO_TOKENS if self._must_group else self.matcher.allowed.tokens

    @property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The placeholders that may follow."""
        return (Placeholder.GROUPED,) if self._must_group else self.matcher.allowed.placeholders

    @property
    def _must_group(self) -> bool:
        allowed = Placeholder.GROUPED in self.matcher.allowed.placeholders
        return allowed and bool(self.scope.frames[-1].ungrouped)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read a line: the `ids` after a point, of the text of a `placeholder`; None at a point.

    `begun`: what continues that text; `whole`: the point after it, if it is whole.
    """

    point: Point
    placeholder: Placeholder | None = None
    ids: Path = ()
    begun: Begun | None = field(default=None, compare=False, repr=False)
    whole: Point | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparqlState:
    """In a line of SPARQL. `ways`: those to read it, none after its end.

    `following`: the ids that may come next, a function of the other fields.
    """

    ways: tuple[Way, ...] = ()
    following: Tokens = field(default_factory=lambda: NO_TOKENS, compare=False, repr=False)
