"""Options declared once: a field of a dataclass has its help, limits and group, for commands, requests and settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from refactx.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is known of an option beside its name, type and default.

    `least`, `most`: the smallest and the largest value; `above`: a value that it has to exceed; `words`: names of values,
    which may stand for them; `kinds`: what may have one each, as `KIND=X,...`; `choices`: all of its values; `old`: what
    names of earlier releases mean, which a command still takes; `former`: the option's own name then, likewise. `group`: the
    heading of the help text that it is under; `metavar`: what stands for its value there; `flag`: its name in a command.
    """

    help: str
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    above: int | None = None
    words: Mapping[str, int] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    old: Mapping[str, str] = field(default_factory=dict)
    former: str = ""
    group: str = ""
    flag: str = ""

    def has(self, value: Any) -> bool:
        """Return whether a value is within the limits; None is."""
        if value is None or isinstance(value, bool):
            return True
        if isinstance(value, str):
            return not (self.choices or self.words) or value in self.choices
        low, high = -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most
        return not math.isnan(value) and low <= value <= high and (self.above is None or value > self.above)

    @property
    def limits(self) -> str:
        """The limits in words."""
        named = (("at least", self.least), ("more than", self.above), ("at most", self.most))
        words = " and ".join(f"{word} {limit}" for word, limit in named if limit is not None)
        return ", ".join([*self.words, words]) if self.words else words or ", ".join(self.choices) or "a number"


def option(default: Any, help: str, **known: Any) -> Any:
    """Return a field of a dataclass that is an option; `known`: the other fields of `Option`."""
    return field(default=default, metadata={"option": Option(help=help, **known)})


def options_of(declared: Any) -> dict[str, Option]:
    """Return the options of a dataclass, or of one of its objects, by name.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Cut:
    ...     depth: int = option(3, "Levels that are shown.", least=1)
    >>> options_of(Cut)["depth"].limits
    'at least 1'
    """
    return {each.name: each.metadata["option"] for each in fields(declared) if "option" in each.metadata}


def check_options(given: Any) -> None:
    """Raise InputError for the first option of an object, a dataclass, that is not within its limits."""
    for name, known in options_of(given).items():
        if not known.has(value := getattr(given, name)):
            raise InputError(f"{name} is {value}: give {known.limits}")
