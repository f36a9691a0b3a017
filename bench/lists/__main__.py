"""`python -m bench.lists INDEX OUT`: questions for lists of 25 to 1,000 values, and the recall of their walks.

OUT has lines of JSON as `refactx eval` reads them, with all values as gold answers, and beside them the walk (`walk`). The
walk is evaluated, and its answer scored as text too, as `refactx eval` scores that of a model: names with commas and `and`
must not be cut.
"""

import json
import time
from pathlib import Path
from statistics import median

import click

import refactx
from bench.lists.questions import ListQuestion, draw_questions, record_of
from refactx.eval.answers import Gold, score
from refactx.walks.answered import answer_query
from refactx.walks.facts import TreeFacts
from refactx.walks.language import FactSet, read_line


@click.command()
@click.argument("index")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--db", metavar="URL", help="PostgreSQL; default: $REFACTX_DB or embedded.")
@click.option("--seed", default=0, show_default=True, help="Another seed draws other questions.")
@click.option("--count", default=50, show_default=True, type=click.IntRange(1), help="How many questions.")
def main(index: str, out: Path, db: str | None, seed: int, count: int) -> None:
    """Write the questions, and print how much of the lists their walks find."""
    with refactx.open_index(index, db) as opened:
        facts = TreeFacts(opened)
        questions = draw_questions(opened, facts, count, seed)
        records = [record_of(question, facts) for question in questions]
        out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records), encoding="utf-8")
        click.echo(f"{len(questions)} questions in {out}")
        if questions:
            report(questions, [record["walk"] for record in records], facts)


def report(questions: list[ListQuestion], walks: list[str], facts: FactSet) -> None:
    """Print the recall of the walks, that of the texts of their answers, and the time they take."""
    recalls, precisions, texts, seconds = [], [], [], []
    for question, walk in zip(questions, walks, strict=True):
        start = time.perf_counter()
        found = answer_query(read_line(walk), facts)
        seconds.append(time.perf_counter() - start)
        gold, values = set(question.values), set(found.result.values)
        recalls.append(len(gold & values) / len(gold))
        precisions.append(len(gold & values) / len(values) if values else 0.0)
        golds = [Gold(value) for value in question.values]
        texts.append(score(found.answer, golds, found.result.values).f1)
    sizes = [len(question.values) for question in questions]
    click.echo(f"values: {min(sizes)} to {max(sizes)}, median {median(sizes):g}")
    for name, figures in (("recall of the walk", recalls), ("precision", precisions), ("F1 of the text", texts)):
        click.echo(f"{name}: mean {sum(figures) / len(figures):.4f}, least {min(figures):.4f}")
    click.echo(f"seconds a walk: median {median(seconds):.4f}, most {max(seconds):.4f}")


if __name__ == "__main__":
    main()
