"""`python -m bench.weights GGUF INDEX QUESTIONS`: the weights of the channel's terms, fitted to what it compared.

The questions are those of a file's half `tune` that need facts. For each one the first choice of a property is logged (all
candidates with their terms, `refactx.selection.channel.ComparedProperty`); a candidate is right if its objects are mostly
the answers. A logit over the candidates of each question (McFadden 1973) is fitted so that the right ones are likeliest:

    p(candidate)  ~  exp(b0 likelihood + b1 meaning + b2 log p(property) + b3 score of the subject)

Weights are b1, b2, b3 over b0, times what the terms have as their weights today. Printed are these, and what
is right with them; a fit on one half is tried on the other.
"""

import json
import math
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from refactx.ask.asker import Asker
from refactx.ask.channels import Channels
from refactx.engines.language_models import load_language_model
from refactx.eval.answers import score
from refactx.eval.questions import choose_questions, read_questions
from refactx.index.open import open_index
from refactx.models.options import EngineOptions
from refactx.selection.channel import Channel
from refactx.selection.weights import Weights
from refactx.walks.facts import TreeFacts

MOST_OBJECTS = 60
"""As many objects of a candidate are compared with the answers."""

TERMS = ("likelihood", "meaning", "own", "subject_score")
PRIOR = 0.01
"""The strength of the prior of the fit (a normal distribution about today's weights), in questions."""

Floats = NDArray[np.float64]
Choices = list[tuple[Floats, NDArray[np.bool_]]]


def log_choices(gguf: str, index: str, questions: Path, limit: int, log: Path) -> None:
    """Ask the questions, and write the candidates of each to a line of JSON."""
    channels, of = list[Channel](), Channels.of

    def logged(*args: Any, **options: Any) -> Channel | None:
        channel = of(*args, **options)
        channels.extend([channel] if channel is not None else [])
        return channel

    Channels.of = logged  # type: ignore[method-assign]
    with open_index(index) as opened, log.open("w", encoding="utf-8") as out:
        facts = TreeFacts(opened)
        model = load_language_model(gguf, opened, EngineOptions(engine="llamacpp"))
        asker = Asker(model, model.tokenizer, opened)
        for one in choose_questions(read_questions(questions), "tune", ("single", "multi"), limit):
            channels.clear()
            asker.ask(one.text)
            first = channels[0].compared[0] if channels and channels[0].compared else ()
            rows = list[dict[str, Any]]()
            for each in first:
                objects = [value for _, value in islice(facts.objects([each.subject], each.name), MOST_OBJECTS)]
                rows.append({**asdict(each), "right": score("; ".join(objects), one.answers).f1 > 0.5})
            out.write(json.dumps({"question": one.text, "candidates": rows}) + "\n")


def candidates_of(log: Path) -> Choices:
    """Return the terms, float64[n, 4], and what is right, bool[n], of the candidates of each question, without dropped ones."""
    found: Choices = []
    for line in log.read_text(encoding="utf-8").splitlines():
        rows = [row for row in json.loads(line)["candidates"] if math.isfinite(row["likelihood"])]
        if rows:
            terms = np.array([[row[term] for term in TERMS] for row in rows], float)
            found.append((terms, np.array([row["right"] for row in rows])))
    return found


def fit(questions: Choices, start: Floats) -> Floats:
    """Return the weights of the terms, float64[4], by Newton's method from `start`."""
    weights = start.copy()
    for _ in range(50):
        slope, curve = PRIOR * (start - weights), PRIOR * np.eye(len(start))
        for terms, right in questions:
            if right.any() and not right.all():
                mean, spread = _moments(terms, weights)
                mean_right, spread_right = _moments(terms[right], weights)
                slope += mean_right - mean
                curve += spread - spread_right
        step = np.linalg.lstsq(curve, slope, rcond=None)[0]
        weights += step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-6:
            break
    return weights


def _moments(terms: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean of candidates' terms, float64[4], and their covariance, float64[4, 4], by their probabilities."""
    scores = terms @ weights
    share = np.exp(scores - scores.max())
    share /= share.sum()
    mean = share @ terms
    return mean, (terms - mean).T @ ((terms - mean) * share[:, None])


def right_with(questions: Choices, weights: Floats) -> float:
    """Return the share of questions whose best candidate is right."""
    return float(np.mean([right[(terms @ weights).argmax()] for terms, right in questions]))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("gguf", type=click.Path(exists=True, dir_okay=False))
@click.argument("index")
@click.argument("questions", type=click.Path(path_type=Path, exists=True))
@click.option("--limit", default=200, show_default=True, help="Questions to ask.")
@click.option(
    "--log", default=Path("weights.jsonl"), type=click.Path(path_type=Path), help="Kept; read if it is there."
)
def main(gguf: str, index: str, questions: Path, limit: int, log: Path) -> None:
    """Print the fit."""
    if not log.exists():
        log_choices(gguf, index, questions, limit, log)
    known, today = candidates_of(log), Weights()
    start = np.array([1.0, 1.0, today.property_weight, 1.0])
    click.echo(f"{len(known)} questions, {sum(right.any() for _, right in known)} with a right candidate")
    fitted = fit(known, start)
    for name, weights in (("today's", start), ("fitted", fitted / fitted[0])):
        click.echo(
            f"{name}: meaning {today.meaning * weights[1]:.2f}, property_weight {weights[2]:.2f}, the subject's score times "
            f"{weights[3]:.2f}: {right_with(known, weights):.3f} right"
        )
    halves = [known[::2], known[1::2]]
    apart = [right_with(other, fit(half, start)) for half, other in (halves, halves[::-1])]
    click.echo(f"fitted to one half, on the other: {np.mean(apart):.3f} right")


if __name__ == "__main__":
    main()
