"""Decoding of queries: after `Query:` a model writes the line of a query that the index can answer, and no other text."""

from refactx.walks.decoding.grammar import QueryGrammar, QueryState

__all__ = ["QueryGrammar", "QueryState"]
