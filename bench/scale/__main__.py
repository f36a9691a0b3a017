"""`python -m bench.scale SMALL LARGE`: two files of facts ingested one after the other, and walks in both in turn."""

from pathlib import Path
from statistics import median

import click

from bench.__main__ import show
from bench.ingest import run_ingest
from bench.walks import Walks, measure
from refactx.index.open import database
from refactx.models import demo_model_folder

ROUNDS = 3


@click.command()
@click.argument("small", type=click.Path(exists=True, path_type=Path))
@click.argument("large", type=click.Path(exists=True, path_type=Path))
@click.option("--tokenizer", type=click.Path(exists=True, path_type=Path), help="Default: that of the demo model.")
@click.option("--processes/--no-processes", help="Also cut the small one in one process.")
@click.option("--memory", default="1GB", help="As of refactx ingest.")
def main(small: Path, large: Path, tokenizer: Path | None, processes: bool, memory: str) -> None:
    """Print the figures of both indexes, and their ratios. The indexes stay: scale-small and scale-large."""
    limit = ("--memory", memory)
    tokenizer = tokenizer or demo_model_folder()
    rates, walked = list[float](), dict[str, list[Walks]]({"scale-small": [], "scale-large": []})
    with database() as opened:
        if processes:
            alone = run_ingest(small, tokenizer, "scale-small", opened.url, *limit, "--workers", "1")[2][
                "seconds_by_step"
            ]["load"]
        for path, name in zip((small, large), walked, strict=True):
            seconds, peak, report = run_ingest(path, tokenizer, name, opened.url, *limit)
            rates.append(seconds / report["facts"] * 1e6)
            click.echo(f"{path.name}: {report['facts']:,} facts")
            show("bytes a fact", report["bytes_per_fact"])
            show("ingest, µs a fact", rates[-1])
            show("peak memory, GB", peak / 1e9)
            for step, step_seconds in report["seconds_by_step"].items():
                show(f"{step}, s", step_seconds)
            if processes and path == small:
                show("load step, over one process", report["seconds_by_step"]["load"] / alone)
        for _ in range(ROUNDS):
            for name, found in walked.items():
                found.append(measure(opened, name))
    few, many = ([one.cold for one in found] for found in walked.values())
    show("cold walk, small, µs", median(few))
    show("cold walk, large, over small", median(two / one for one, two in zip(few, many, strict=True)))
    show("ingest, µs a fact, large over small", rates[1] / rates[0])
    for name, found in walked.items():
        click.echo(f"{name}: round trips of a cold walk {found[-1].trips_mean:.2f}, at most {found[-1].trips_max}")


if __name__ == "__main__":
    main()
