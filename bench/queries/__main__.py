"""`python -m bench.queries INDEX`: what counts, lists and memberships on an index cost, as JSON.

Subjects are those of random facts. Warm times are of what was asked for before, in microseconds, medians if they do not
say otherwise. Cold round trips are all queries to PostgreSQL in an index that was opened this moment, with its statement
prepared. `select`: one bare SELECT by primary key on the same server, for comparison.
"""

import json
import sys
from collections.abc import Callable
from statistics import median

import psycopg

from bench.queries import counts
from bench.walks import choose_keys, microseconds, random_facts, select_row
from refactx.fact import split_fact
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.index.open import connect
from refactx.postgres.catalogue import find_index
from refactx.walks.facts import TreeFacts
from refactx.walks.sets import Triple

ONE_BY_ONE = 200
MANY = 1000


def main() -> None:
    """Print the figures of the index whose name is the first argument."""
    opened, close = connect()
    database = counts.CountedDatabase(opened.url)
    try:
        entry = find_index(database, sys.argv[1])

        def fresh() -> Index:
            index = Index(DatabaseSource(database, entry), tokenizer=warm.tokenizer)
            index.rows[0].fetch(b"none")  # prepares the statement
            return index

        warm = Index(DatabaseSource(database, entry))
        facts = [parsed(warm, tokens) for tokens in random_facts(warm, MANY)]
        with psycopg.connect(database.url, autocommit=True) as connection:
            keys = choose_keys(connection, entry.id)
            select = median(microseconds(lambda: select_row(connection, keys, n)) for n in range(ONE_BY_ONE))  # noqa: B023
        print(
            json.dumps(
                {
                    "select": round(select),
                    **counts.figures(database, fresh, facts),
                    **one_by_one(warm, facts),
                    **together(database, fresh, facts),
                },
                indent=1,
                ensure_ascii=False,
            )
        )
    finally:
        database.close()
        opened.close()
        close()


def parsed(index: Index, tokens: tuple[int, ...]) -> Triple:
    """Return the parts of a fact."""
    parts = split_fact(index.tokenizer.decode(tokens))
    assert parts is not None
    return parts


def one_by_one(index: Index, facts: list[Triple]) -> dict[str, float]:
    """Return the time of a list, a membership, and the predicates of one subject, warm."""
    read = TreeFacts(index)
    actions: dict[str, Callable[[Triple], object]] = {
        "list": lambda fact: list(read.objects([fact[0]], fact[1])),
        "hold": lambda fact: read.hold([fact]),
        "predicates": lambda fact: read.predicates(fact[0]),
    }
    figures: dict[str, float] = {}
    for name, action in actions.items():
        for fact in facts[:ONE_BY_ONE]:
            action(fact)
        times = [microseconds(lambda: action(fact)) for fact in facts[:ONE_BY_ONE]]  # noqa: B023  # called at once
        figures[f"{name}, one, warm, µs"] = round(median(times))
    return figures


def together(database: counts.CountedDatabase, fresh: Callable[[], Index], facts: list[Triple]) -> dict[str, float]:
    """Return the cold round trips, and the cold and warm times a member, of counts and memberships of many."""
    subjects = [subject for subject, _, _ in facts]
    actions: dict[str, Callable[[TreeFacts], object]] = {
        "counts": lambda read: read.counts(subjects, "instance of"),
        "objects": lambda read: list(read.objects(subjects, "instance of")),
        "hold": lambda read: read.hold(facts),
    }
    figures: dict[str, float] = {}
    for name, action in actions.items():
        read = TreeFacts(fresh())
        before = database.lookups
        cold = microseconds(lambda: action(read))  # noqa: B023
        figures[f"{name}, {len(facts)}, cold, round trips"] = database.lookups - before
        figures[f"{name}, {len(facts)}, cold, µs each"] = round(cold / len(facts))
        figures[f"{name}, {len(facts)}, warm, µs each"] = round(microseconds(lambda: action(read)) / len(facts), 1)  # noqa: B023
    return figures


if __name__ == "__main__":
    main()
