"""The check of a pack for a person who writes one: its examples, and whether its words find their patterns."""

from collections.abc import Iterator
from dataclasses import dataclass

from refactx.nl2sparql.pack import Example, Pack
from refactx.nl2sparql.patterns import PatternDetector
from refactx.nl2sparql.validation import validate
from refactx.sparql.engines import SparqlEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCheck:
    """What is wrong with a pack. `problems`: what has to be repaired; `notes`: what may be as it should; one line each.
    `ran`: how many examples were run, and had rows."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    ran: int


def check_pack(pack: Pack, engine: SparqlEngine | None = None, *, seconds: float = 20.0) -> PackCheck:
    """Return what is wrong with a pack: examples that validation refuses, or, with an engine, that fail or have no rows;
    patterns that no example has; examples in whose question no word of their patterns is found.

    >>> from refactx.nl2sparql.pack import load_pack
    >>> check_pack(load_pack("wikidata")).problems
    ()
    """
    problems, ran = list[str](), 0
    for example in pack.examples:
        report = validate(example.sparql, pack, engine, rows=1, seconds=seconds)
        problems += [f"example {example.id}: {one.text}: {one.hint}" for one in report.problems]
        if engine is not None and report.ok:
            ran += bool(report.count)
            if not report.count:
                problems.append(f"example {example.id}: its query has no rows at {engine.name}")
    used = {name for example in pack.examples for name in example.patterns}
    notes = [f"no example has the pattern {name}" for name in pack.patterns if name not in used]
    detector = PatternDetector(pack)
    notes += [line for example in pack.examples for line in _undetected(example, detector)]
    if not pack.examples:
        problems.append("there are no examples: write some into examples.jsonl, each with a question and its query")
    return PackCheck(problems=tuple(problems), notes=tuple(notes), ran=ran)


def _undetected(example: Example, detector: PatternDetector) -> Iterator[str]:
    """Yield a note if none of an example's patterns is found in its question."""
    strong = {name for name, weight in example.patterns.items() if weight >= 0.5}
    if strong and not strong & detector.detect(example.question).keys():
        yield f"example {example.id}: none of its patterns ({', '.join(sorted(strong))}) is found in its question"
