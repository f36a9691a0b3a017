"""`python -m bench.sparql QUESTIONS CLAIMS`: the time of `refactx sparql`'s engine on a store, over pyoxigraph alone.

QUESTIONS has lines of JSON with `sparql`; CLAIMS are N-Triples. Both run on the same store in memory, in turn, within one
process, and read all terms of all rows.
"""

import json
from collections import defaultdict
from pathlib import Path

import click

from bench.gold_walks.answers import load
from bench.sparql.ratio import measure, summary


@click.command()
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.argument("claims", type=click.Path(exists=True, path_type=Path))
@click.option("--every", default=1, type=click.IntRange(1), metavar="N", help="Run each Nth query.")
def main(questions: Path, claims: Path, every: int) -> None:
    """Print ratios, of all queries and of those that take a millisecond and more, ten, and so on."""
    asked = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()][::every]
    store = load(claims)
    print(f"{len(store):,} triples")
    times = measure([one["sparql"] for one in asked], store)
    groups = defaultdict(list)
    for one in times:
        groups["all"].append(one)
        groups[next(name for name, least in CLASSES if one.alone >= least)].append(one)
    for name, some in groups.items():
        print(f"{name:<16}" + "  ".join(f"{key}: {value:,.3f}" for key, value in summary(some).items()))


CLASSES = (("100 ms and more", 0.1), ("10 to 100 ms", 0.01), ("1 to 10 ms", 0.001), ("less than 1 ms", 0.0))

if __name__ == "__main__":
    main()
