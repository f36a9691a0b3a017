"""The account of the sources of an ingest: what became of every line that was read."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tqdm import tqdm

from refactx.progress import progress_bar

REPORTED_FAULTS = 10
"""How many malformed lines a report quotes; further ones are only counted."""
MOST_PROPERTY_ALIASES = 100_000
"""The most other names of predicates that are kept, in the order of these: 3,860 properties of Wikidata have 8,085."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The account of the sources of an ingest or a change.

    `facts = claims + descriptions + derived + statements` counts distinct facts; `derived` are inverse facts, `statements`
    those with qualifiers, and `aliases` of the claims come from other names of entities (`refactx.ingest.knowledge.names`).

    `lines_read = kept + sum(dropped.values())`. `dropped` maps a reason to how many lines were left out for it, sorted
    by reason, without zeros. `malformed` has the first malformed lines as `file:line: what`. `cut` counts the names,
    literals and descriptions that were longer than `refactx.fact.MAX_PART_CHARACTERS`. `notes` are further remarks on a
    source, such as which columns of a table were ignored.

    `entities` counts the items and properties that occur in facts; `names` maps a rule of naming to how many names it
    made, those of inverse properties included (docs/reference/names-and-values.md); `collisions` counts the names that
    had to get an id.

    `not_inverted` maps a reason to how many claims about entities have no inverse fact for it, if inverse facts were
    asked for; these and `derived` add up to all such claims. `inverse_properties` maps a property to the one that its
    inverse facts belong to (`P25`: `P40`); later changes of the index follow it. `ready_inverses` maps a
    predicate of ready-made facts to the name of its inverse that the rules gave, "" for none; changes follow it too.
    `names_by_language` counts the labels and other names in each language by which something is known: that are its
    name, or lead to it. `property_aliases` maps the name of a predicate to its other names, if aliases were asked for.
    `units` maps the label of each unit of an amount to its id, without units of one label.
    `hubs` counts the pairs of an object and a predicate in the table `refactx.hubs`; None if the index was ingested
    before there was one. `selection` is `Selection.to_json()`. `prompt`: examples of the index's own for its
    prompt (`refactx.ask.examples`). `texts_checked`: facts whose text the tokenizer changes
    were left out, as older releases did not.
    """

    facts: int
    claims: int
    descriptions: int
    derived: int
    lines_read: int
    kept: int
    aliases: int = 0
    statements: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    malformed: tuple[str, ...] = ()
    entities: int = 0
    names: dict[str, int] = field(default_factory=dict)
    names_by_language: dict[str, int] = field(default_factory=dict)
    collisions: int = 0
    not_inverted: dict[str, int] = field(default_factory=dict)
    selection: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inverse_properties: dict[str, str] = field(default_factory=dict)
    ready_inverses: dict[str, str] = field(default_factory=dict)
    property_aliases: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    prompt: dict[str, Any] = field(default_factory=dict)
    hubs: int | None = None
    texts_checked: bool = True

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Report":
        """Return the report whose `dataclasses.asdict` went through JSON.

        >>> from dataclasses import asdict
        >>> report = Report(facts=1, claims=1, descriptions=0, derived=0, lines_read=1, kept=1)
        >>> Report.from_json(asdict(report)) == report
        True
        """
        return cls(**{**document, "malformed": tuple(document["malformed"]), "notes": tuple(document["notes"])})

    def without_changed(self, facts: int) -> "Report":
        """Return the account after encoding, which leaves out facts whose text the tokenizer changes.

        `facts`: how many are left.
        """
        changed = self.facts - facts
        if not changed:
            return self
        claims = max(0, self.claims - changed)
        return replace(
            self,
            facts=facts,
            claims=claims,
            descriptions=facts - self.derived - self.statements - claims,
            kept=self.kept - changed,
            dropped=dict(sorted({**self.dropped, "text changed by the tokenizer": changed}.items())),
        )


Advance = Callable[[str, int, int], object]
"""Called with a step's name, how much of it was done since the last call, and how much there is in total."""


class Clock:
    """The durations of steps, in seconds; those of a step that is done in parts are added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def timings(seconds: dict[str, float]) -> dict[str, Any]:
    """Return seconds by step as the commands print them.

    >>> timings({"read": 1.0, "join": 0.25})
    {'seconds': 1.25, 'seconds_by_step': {'read': 1.0, 'join': 0.25}}
    """
    return {
        "seconds": round(sum(seconds.values()), 3),
        "seconds_by_step": {step: round(each, 3) for step, each in seconds.items()},
    }


class ProgressBars:
    """Progress bars (`progress_bar`), one for each step, if `shown`."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._bars: dict[str, tqdm[Any]] = {}

    def advance(self, step: str, done: int, total: int) -> None:
        """Move the bar of a step by `done` of `total`; an `Advance`."""
        if step not in self._bars:
            self._bars[step] = progress_bar(step, total, shown=self._shown, unit=" facts", unit_scale=True)
        self._bars[step].update(done)

    def __enter__(self) -> "ProgressBars":
        return self

    def __exit__(self, *exception: object) -> None:
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()
