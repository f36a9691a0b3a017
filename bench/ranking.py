"""`python -m bench.ranking QUESTIONS --index dev`: the right predicate among all of the right subject, by meaning alone.

Questions are those of a file's half `tune` whose SPARQL is one step from a thing, or back to one, and which the index can
answer. Printed: the share of them whose predicate is the nearest, and among the eight nearest, also of forward and inverse
ones alone; and the milliseconds of a question once the embeddings of names are there.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from refactx.ask.channels import Channels
from refactx.ask.examples import prompt_for
from refactx.eval.questions import choose_questions, read_questions
from refactx.fact import ALIAS_OF, DESCRIPTIONS
from refactx.index.open import open_index
from refactx.linking.names import bare_name
from refactx.ranking.ranker import Ranker
from refactx.walks.facts import TreeFacts

_FORWARD = re.compile(r"\{\s*wd:(Q\d+)\s+wdt:(P\d+)\s+\?\w+\s*\.?\s*\}")
_INVERSE = re.compile(r"\{\s*\?\w+\s+wdt:(P\d+)\s+wd:(Q\d+)\s*[.;]")


@dataclass(frozen=True, slots=True)
class Step:
    """A question of one step. `text`: without its subject's name; `predicates`: all of the subject's, `right` among them."""

    text: str
    right: str
    predicates: Sequence[str]
    inverse: bool


def steps_of(questions: Path, facts: TreeFacts) -> Iterator[Step]:
    """Yield the questions of one step that the facts can answer."""
    for one in choose_questions(read_questions(questions), "tune", (), None):
        forward, inverse = _FORWARD.search(one.sparql or ""), _INVERSE.search(one.sparql or "")
        if not (forward or inverse):
            continue
        subject, property_ = (forward[1], forward[2]) if forward else (inverse[2], inverse[1])  # type: ignore[index]
        names = facts.names([subject, property_])
        right = names.get(property_) if forward else facts.inverse_of(names.get(property_, ""))
        predicates = [
            name for name in facts.predicates(names.get(subject, "")) if name not in (*DESCRIPTIONS, ALIAS_OF)
        ]
        if right in predicates:
            called = re.escape(bare_name(names[subject]))
            text = re.sub(rf"\b{called}(?:['’]s)?(?!\w)", " ", one.text, flags=re.IGNORECASE)
            yield Step(text, right, predicates, not forward)


def places(steps: Sequence[Step], ranker: Ranker) -> list[float]:
    """Return the place of each step's right predicate, from 0; in the middle of those that are as near."""
    found = list[float]()
    for one in steps:
        near = ranker.nearness(one.text, [bare_name(name) for name in one.predicates])
        right = near[list(one.predicates).index(one.right)]
        found.append((near > right).sum() + ((near == right).sum() - 1) / 2)
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("questions", type=click.Path(path_type=Path, exists=True))
@click.option("--index", default="dev", show_default=True, help="The index that can answer them.")
@click.option("--ranker", "rankers", multiple=True, default=("static", "words"), show_default=True, help="Encoders.")
def main(questions: Path, index: str, rankers: tuple[str, ...]) -> None:
    """Print a table of rankers."""
    with open_index(index) as opened:
        steps = list(steps_of(questions, TreeFacts(opened)))
        click.echo(f"{len(steps)} questions, {sum(one.inverse for one in steps)} inverse")
        for name in rankers:
            ranker = Channels(opened, prompt_for(None, opened).weighted(None, name), ()).ranker
            places(steps, ranker)  # learns the names
            begun = time.perf_counter()
            found = np.array(places(steps, ranker))
            seconds = time.perf_counter() - begun
            back = np.array([one.inverse for one in steps])
            shares = [f"{(found[which] < most).mean():.2f}" for which in (back >= 0, ~back, back) for most in (1, 8)]
            click.echo(f"{name}: first, among 8: {', '.join(shares)}; {1000 * seconds / len(steps):.2f} ms a question")


if __name__ == "__main__":
    main()
