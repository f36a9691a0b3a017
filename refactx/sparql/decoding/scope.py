"""The variables of a line of SPARQL, and which may stand in a place: rules of SPARQL that are not context-free.

* A value that gets a name, of an aggregate or of BIND, gets one that no pattern has used.
* The name of an aggregate is not used within the patterns that it is computed from.
* With GROUP BY, it has all variables of SELECT, and only these and names of aggregates can be sorted by.

The rules of SPARQL are a little wider: a name may be used again in another branch of a UNION.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from refactx.sparql.decoding.placeholder import Placeholder


class Choice(NamedTuple):
    """The variables that may be written: those `among` some, or if that is None all that are not in `without`."""

    without: Collection[str] = ()
    among: Collection[str] | None = None

    def has(self, name: str) -> bool:
        """Return whether a variable may be written, given its name without `?`."""
        return name not in self.without and (self.among is None or name in self.among)


@dataclass(frozen=True, slots=True)
class Frame:
    """The variables of a SELECT whose end is not written: `projected`; `named`, the values of aggregates; `counted`, those
    that these are computed from; `grouped`, by GROUP BY."""

    projected: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()

    @property
    def ungrouped(self) -> tuple[str, ...]:
        """The variables that GROUP BY has yet to get."""
        return tuple(name for name in self.projected if name not in self.grouped)


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables so far, without `?`. `frames`: of the SELECTs that are open; `used`: by patterns and expressions;
    `subject`: the name of the last subject that was written."""

    frames: tuple[Frame, ...] = (Frame(),)
    used: frozenset[str] = frozenset()
    subject: str | None = None

    def choice(self, placeholder: Placeholder) -> Choice:
        """Return the variables that may stand in place of a placeholder.

        >>> scope = Scope().after(Placeholder.PROJECTED, "x").after(Placeholder.NAMED, "n")
        >>> scope.choice(Placeholder.VARIABLE).has("n"), scope.choice(Placeholder.GROUPED).among
        (False, ('x',))
        """
        frame, names = self.frames[-1], frozenset(name for frame in self.frames for name in frame.named)
        match placeholder:
            case Placeholder.PROJECTED:
                return Choice({*names, *frame.projected})
            case Placeholder.NAMED:
                return Choice({*self.used, *frame.projected, *frame.counted})
            case Placeholder.ASSIGNED:
                return Choice(self.used)
            case Placeholder.GROUPED if frame.ungrouped:
                return Choice(among=frame.ungrouped)
            case Placeholder.GROUPED:
                return Choice({*names, *frame.grouped})
            case Placeholder.ORDERED:
                return Choice(among=(*frame.projected, *frame.named))
        return Choice(names)

    def after(self, placeholder: Placeholder, text: str) -> "Scope":
        """Return the scope after the text of a placeholder, a name or a variable without `?`."""
        *outer, frame = self.frames
        match placeholder:
            case Placeholder.SUBJECT:
                return replace(self, subject=text)
            case Placeholder.PROJECTED:
                frame = replace(frame, projected=(*frame.projected, text))
            case Placeholder.NAMED:
                frame = replace(frame, named=(*frame.named, text))
                return replace(self, frames=(*outer, frame), used=self.used | {text})
            case Placeholder.COUNTED:
                frame = replace(frame, counted=(*frame.counted, text))
            case Placeholder.GROUPED:
                frame = replace(frame, grouped=(*frame.grouped, text))
            case Placeholder.VARIABLE | Placeholder.ASSIGNED:
                return replace(self, used=self.used | {text})
            case Placeholder.OPENS:
                return replace(self, frames=(*self.frames, Frame()))
            case Placeholder.CLOSES:
                return replace(self, frames=tuple(outer), used=self.used.union(frame.projected, frame.counted))
            case _:
                return self
        return replace(self, frames=(*outer, frame))
