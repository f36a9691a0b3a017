"""`make bench`: build an index of each source and tokenizer, and print the figures of docs/results/benchmarks.md."""

import tempfile
from pathlib import Path

import click

from bench import data, decoding, graphs, ingest, knowledge_base, living, share, walks
from refactx.index.open import database, open_index
from refactx.models.loading import load_model

TOKENS = 400
"""The tokens of the throughput experiment; `python -m bench.decoding` takes the paper's 4,000."""


def main() -> None:
    """Print a table of figures for each source and tokenizer."""
    with tempfile.TemporaryDirectory() as work, database() as opened:
        tokenizers = data.tokenizers(Path(work))
        cold: dict[str, tuple[int, float]] = {}
        for source in data.sources():
            if ".nt" in source.suffixes:
                click.echo(f"\n{source.name}")
                for figure, value in knowledge_base.figures(source).items():
                    show(figure, value)
            for name, folder in tokenizers.items():
                measured = ingest.measure(source, folder, "bench", opened.url)
                walked = walks.measure(opened, "bench")
                click.echo(f"\n{source.name}, {name}: {measured.facts:,} facts")
                show("bytes per fact, tree (table + B-tree + TOAST)", measured.report["bytes_per_fact"])
                show("bytes per fact, names", measured.report["names_bytes"] / measured.facts)
                show("ingest facts/s over the bare tokenizer's", measured.rate_ratio)
                show("ingest facts/s", measured.facts / measured.seconds)
                steps = measured.report["seconds_by_step"]
                show("whole ingest over its index steps", sum(steps.values()) / (steps["encode"] + steps["load"]))
                show("peak memory of the ingest, GB", measured.peak / 1e9)
                for figure, value in walked.ratios().items():
                    show(figure, value)
                show("bare SELECT, µs", walked.select)
                for figure, value in share.figures("bench", opened.url, measured.seconds).items():
                    show(figure, value)
                if ".nt" in source.suffixes and (folder / "config.json").is_file():  # a model, not only a tokenizer
                    with open_index("bench") as index:
                        for figure, value in decoding.figures(*load_model(str(folder)), index, TOKENS):
                            show(figure, value)
                if folder == next(iter(tokenizers.values())):
                    for figure, value in living.figures(source, folder, opened, Path(work)):
                        show(figure, value)
                smaller = cold.get(name)
                if smaller and measured.facts > 10 * smaller[0]:
                    show(
                        f"cold walk over that at {smaller[0]:,} facts, in SELECTs",
                        walked.cold / walked.select / smaller[1],
                    )
                cold[name] = (measured.facts, walked.cold / walked.select)
        click.echo(f"\na graph of other IRIs, {graphs.TRIPLES:,} triples")
        for figure, value in graphs.figures(graphs.TRIPLES, next(iter(tokenizers.values())), opened.url, Path(work)):
            show(figure, value)


def show(figure: str, value: float) -> None:
    """Print a line of the table."""
    click.echo(f"  {figure:<52} {value:>12,.3f}")


if __name__ == "__main__":
    main()
