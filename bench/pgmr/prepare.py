"""Examples as lines of training data: with PGMR text, or left out for a reason that is counted."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bench.pgmr.examples import Example
from refactx.sparql.placeholders.text import MentionNames, Style, to_pgmr
from refactx.walks.language import QueryError

REASONS = {
    "has no name": "an id has no name in the index",
    "have no name": "an id has no name in the index",
    "this is not SPARQL": "the query is not SPARQL",
    "is no id of Wikidata": "an id is misspelt",
    "contains": "a name contains a mark of PGMR",
}
"""What errors say, and how they are counted."""


def prepared(
    examples: Iterable[Example], names: MentionNames, style: Style, left_out: Counter[str]
) -> list[dict[str, Any]]:
    """Return documents with `id`, `question`, `sparql` and `pgmr`. `left_out` gets the number of others by reason."""
    documents = list[dict[str, Any]]()
    for example in examples:
        if not example.question or not example.sparql:
            left_out["there is no question" if example.sparql else "there is no query"] += 1
            continue
        try:
            pgmr = to_pgmr(example.sparql, names, style)
        except QueryError as error:
            reasons = [reason for part, reason in REASONS.items() if part in str(error)]
            left_out[reasons[0] if reasons else str(error)] += 1
            continue
        row = {"id": example.id, "question": example.question, "sparql": example.sparql, "pgmr": pgmr}
        documents.append(row)
    return documents
