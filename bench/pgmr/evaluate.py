"""Scores of PGMR text that a model wrote, resolved by the names of an index."""

from collections.abc import Sequence
from typing import Any

from refactx.errors import InputError
from refactx.eval.sparql import score_queries
from refactx.index.index import Index
from refactx.sparql.placeholders.index_names import IndexResolver
from refactx.sparql.placeholders.text import MentionsRefusedError, PgmrQuery, read_pgmr


def evaluate(rows: Sequence[dict[str, Any]], index: Index, *, ignore_case: bool) -> dict[str, Any]:
    """Return the scores of rows with `sparql` (gold) and `written` (PGMR text), to which `resolved` or `error` is added.

    `is_pgmr`: the share of texts that are SPARQL with a right mapping; `refused`: of those with a name that means no
    entity or property, or several; the others are those of `score_queries`.
    """
    resolver = IndexResolver(index, ignore_case=ignore_case)
    queries = [read_or_error(row["written"]) for row in rows]
    refused = 0
    for row, query in zip(rows, queries, strict=True):
        try:
            if isinstance(query, InputError):
                raise query
            row["resolved"] = query.resolved(resolver)
        except InputError as error:
            row["error"] = str(error)
            refused += isinstance(error, MentionsRefusedError)
    scores = score_queries([row.get("resolved") for row in rows], [row["sparql"] for row in rows], index.names_of)
    read = sum(isinstance(query, PgmrQuery) for query in queries)
    return {"is_pgmr": read / len(rows), "refused": refused / len(rows), **scores.to_json()}


def read_or_error(text: str) -> PgmrQuery | InputError:
    """Return the query of PGMR text, or what is wrong with the text."""
    try:
        return read_pgmr(text)
    except InputError as error:
        return error
