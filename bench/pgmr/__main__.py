"""`python -m bench.pgmr COMMAND`: prepare, train, merge, write, evaluate, round-trip."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from bench.pgmr.examples import read_examples
from refactx.cli.options import DB, INDEX
from refactx.errors import InputError, RefactxError
from refactx.index.open import open_index
from refactx.lazy import require

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
DEVICE = click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="Such as cpu, cuda.")
THREADS = click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads of torch.")


@click.group()
def main() -> None:
    """Fine-tune a model to write SPARQL with names in place of URIs."""


@main.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--test", "tests", multiple=True, type=FILE, help="A file of test questions; may be given again.")
@click.option("--split", type=click.Choice(["random", "unknown-uri"]), default="random", show_default=True)
@click.option(
    "--share", default=0.1, show_default=True, type=click.FloatRange(0, 1), help="Test questions, without --test."
)
@click.option("--seed", default=0, show_default=True)
@click.option("--dialect", type=click.Choice(["block", "inline"]), default="block", show_default=True)
@click.option("--lower/--no-lower", default=False, show_default=True)
@click.option("--out", type=FOLDER, required=True, help="Folder of train.jsonl and test.jsonl.")
@INDEX
@DB
def prepare(
    files: tuple[Path, ...],
    tests: tuple[Path, ...],
    split: Any,
    share: float,
    seed: int,
    dialect: Any,
    lower: bool,
    out: Path,
    index: str,
    db: str | None,
) -> None:
    """Write training and test questions with PGMR text by the names of an index."""
    from bench.pgmr.prepare import prepared
    from bench.pgmr.split import split_examples
    from refactx.sparql.placeholders.index_names import IndexNames
    from refactx.sparql.placeholders.text import Style

    training = [example for path in files for example in read_examples(path)]
    testing = [example for path in tests for example in read_examples(path)]
    if not testing:
        training, testing = split_examples(training, split, share, seed)
    style, left_out = Style(dialect=dialect, lower=lower, prefixes=False), Counter[str]()
    out.mkdir(parents=True, exist_ok=True)
    with open_index(index, db) as opened:
        names = IndexNames(opened)
        for name, examples in (("train", training), ("test", testing)):
            rows = prepared(examples, names, style, left_out)
            _write(out / f"{name}.jsonl", rows)
            click.echo(f"{name}: {len(rows)} of {len(examples)} questions in {out / name}.jsonl")
    for reason, count in left_out.most_common():
        click.echo(f"left out: {count} because {reason}")


@main.command()
@click.argument("data", type=FILE)
@click.option("--model", required=True, metavar="MODEL", help="Hugging Face id or folder.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the adapter.")
@click.option("--rank", type=click.IntRange(1))
@click.option("--alpha", type=click.IntRange(1))
@click.option("--dropout", type=click.FloatRange(0, 1))
@click.option("--learning-rate", type=click.FloatRange(0))
@click.option("--epochs", type=click.IntRange(1))
@click.option("--batch-size", type=click.IntRange(1))
@click.option("--max-length", type=click.IntRange(1), help="Longer rows, in tokens, are left out.")
@click.option("--seed", type=int)
@click.option("--minutes", type=click.FloatRange(0), help="Stop after so many minutes.")
@DEVICE
@THREADS
def train(data: Path, model: str, out: Path, device: str, threads: int | None, **given: Any) -> None:
    """Train a LoRA adapter on questions with PGMR text, with the settings of the paper unless others are given."""
    require("peft", "adapters")
    from bench.pgmr.lora import LOG, Settings, load, train

    _use_threads(threads)
    settings = Settings(
        **{field.name: given[field.name] for field in fields(Settings) if given[field.name] is not None}
    )
    rows = _read(data, "question", "pgmr")
    log = train(*load(model, device), rows, settings, out)
    part = max(1, len(log) // 10)
    first, last = (sum(step["loss"] for step in steps) / part for steps in (log[:part], log[-part:]))
    click.echo(
        f"{len(log)} steps in {log[-1]['seconds']:.0f} s; mean loss of the first {part}: {first:.3f}, of the last "
        f"{part}: {last:.3f}; adapter and {LOG} in {out}"
    )


@main.command()
@click.argument("adapter", type=FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder of the merged model.")
def merge(adapter: Path, out: Path) -> None:
    """Merge an adapter into its model."""
    require("peft", "adapters")
    from bench.pgmr.lora import merge

    merge(adapter, out)
    click.echo(f"the merged model is in {out}")


@main.command()
@click.argument("data", type=FILE)
@click.option("--model", required=True, metavar="MODEL", help="Hugging Face id or folder.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File of JSON lines.")
@click.option("--limit", type=click.IntRange(1), help="The first N questions.")
@click.option("--batch-size", default=8, show_default=True, type=click.IntRange(1))
@click.option("--max-new-tokens", default=256, show_default=True, type=click.IntRange(1))
@DEVICE
@THREADS
def write(
    data: Path,
    model: str,
    out: Path,
    limit: int | None,
    batch_size: int,
    max_new_tokens: int,
    device: str,
    threads: int | None,
) -> None:
    """Let a model write a query for each question."""
    from tqdm import tqdm

    from bench.pgmr.lora import load
    from bench.pgmr.writing import write_queries

    _use_threads(threads)
    rows = _read(data, "question", "sparql")[:limit]
    questions = [row["question"] for row in rows]
    texts = write_queries(*load(model, device), questions, batch_size=batch_size, max_new_tokens=max_new_tokens)
    shown = tqdm(texts, total=len(rows), unit=" queries", disable=None)
    _write(out, (row | {"written": text} for row, text in zip(rows, shown, strict=True)))


@main.command()
@click.argument("written", type=FILE)
@click.option("--ignore-case", is_flag=True, help="For text in lower case.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File of JSON lines with resolved queries."
)
@INDEX
@DB
def evaluate(written: Path, ignore_case: bool, out: Path | None, index: str, db: str | None) -> None:
    """Resolve what a model wrote by the names of an index, and print the scores as JSON."""
    from bench.pgmr.evaluate import evaluate

    rows = _read(written, "sparql", "written")
    with open_index(index, db) as opened:
        scores = evaluate(rows, opened, ignore_case=ignore_case)
    if out is not None:
        _write(out, rows)
    click.echo(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in scores.items()}, indent=1))


@main.command("round-trip")
@click.argument("files", nargs=-1, required=True, type=FILE)
@INDEX
@DB
def round_trip(files: tuple[Path, ...], index: str, db: str | None) -> None:
    """Print how many gold queries are the same query again after PGMR text, by dialect."""
    from bench.pgmr.round_trip import round_trip

    examples = [example for path in files for example in read_examples(path)]
    with open_index(index, db) as opened:
        for style, outcomes in round_trip(examples, opened):
            click.echo(f"{style}: {outcomes['same']} of {len(examples)} are the same query again")
            for outcome, count in outcomes.most_common():
                if outcome != "same":
                    click.echo(f"  {count}: {outcome}")


def _read(path: Path, *names: str) -> list[dict[str, Any]]:
    """Return the documents of a file of JSON lines. Raises InputError if one has not the fields."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is no file of JSON lines: {error}") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
            raise InputError(f"{path}, line {number}: expected a document with {' and '.join(names)}")
    if not rows:
        raise InputError(f"{path} has no questions")
    return rows


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _use_threads(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    try:
        main()
    except RefactxError as error:
        raise SystemExit(f"bench.pgmr: {error}") from error
