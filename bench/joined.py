"""Two indexes as one against one ingest of both: `python -m bench.joined WHOLE ONE,OTHER [--count N] [--seed N]`.

Random walks of one or two steps, or with a filter, are answered by both, with and without what they read in the cache. Printed:
how many have other answers, and the CPU of the two indexes over that of the one. Walks that need more than `LONGEST` seconds
are left out: they scan the index.
"""

import random
import time
from collections.abc import Sequence

import click

from bench.walks import random_facts
from refactx.fact import split_fact
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.walks import Hop, Query, QueryError, TreeFacts
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import WalkFilter

LONGEST = 0.2


def random_walks(index: Index, count: int, seed: int) -> list[Query]:
    """Return walks from subjects and objects of facts that are drawn by chance."""
    facts, chance, found = TreeFacts(index), random.Random(seed), list[Query]()
    for ids in random_facts(index, 3 * count, seed):
        parts = split_fact(index.tokenizer.decode(list(ids)).strip().removesuffix(" ."))
        if parts is None:
            continue
        subject, predicate, value = parts
        inverse, after, own = facts.inverse_of(predicate), *map(sorted, map(facts.predicates, (value, subject)))
        kind = chance.randrange(4)
        if kind == 0:
            found.append(Query("list", subject, (Hop(predicate),)))
        elif kind == 1 and after:
            found.append(Query(chance.choice(["list", "count"]), subject, (Hop(predicate), Hop(chance.choice(after)))))
        elif kind == 2 and inverse is not None:
            found.append(Query("list", value, (Hop(inverse), Hop(chance.choice(own)))))
        elif kind == 3 and inverse is not None:
            name = chance.choice(own)
            [_, other] = next(facts.objects([subject], name))
            found.append(Query("list", value, (Hop(inverse),), (WalkFilter((Hop(name),), "is", other),)))
    return found[:count]


def answers(index: Index, walks: Sequence[Query]) -> tuple[list[object], float]:
    """Return the answers of walks, and the seconds of CPU that they took."""
    facts, found, begun = TreeFacts(index), list[object](), time.process_time()
    for walk in walks:
        try:
            result = evaluate_walk(walk, facts)
            found.append((sorted(result.values), result.count))
        except QueryError as error:
            found.append(type(error))
    return found, time.process_time() - begun


@click.command()
@click.argument("whole")
@click.argument("parts")
@click.option("--count", default=200, show_default=True)
@click.option("--seed", default=3, show_default=True)
@click.option("--db", default=None)
def main(whole: str, parts: str, count: int, seed: int, db: str | None) -> None:
    """Print the figures of PARTS, indexes that are read as one, over those of WHOLE."""
    with open_index(whole, db) as index:
        walks = [one for one in random_walks(index, count, seed) if answers(index, [one])[1] < LONGEST]
    with open_index(whole, db) as one, open_index(parts, db) as both:
        for title in ("cold", "again"):
            (expected, single), (found, joined) = answers(one, walks), answers(both, walks)
            differ = sum(a != b for a, b in zip(expected, found, strict=True))
            click.echo(f"{title}: {len(walks)} walks, {differ} differ, {joined / single:.2f} times the CPU")


if __name__ == "__main__":
    main()
