"""Queries on an index: questions about sets of facts, such as `count <Louisiana> <nickname> .`

`TreeFacts` are the facts of an open index, `QueryGrammar` holds a model to queries that they answer. Both are imported
when they are first used: `TreeFacts` needs psycopg.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports
from refactx.query.answered import AnsweredQuery, answer_query
from refactx.query.evaluate import Result, denote
from refactx.query.language import By, Hop, Query, QueryError, Which, read_line, write_line
from refactx.query.resolve import Resolved, find_entity, resolve
from refactx.query.sets import Limits
from refactx.query.sparql import from_sparql, to_sparql

if TYPE_CHECKING:
    from refactx.query.decoding import QueryGrammar
    from refactx.query.facts import TreeFacts

__all__ = ["AnsweredQuery", "By", "Hop", "Limits", "Query", "QueryError", "QueryGrammar", "Resolved", "Result"]
__all__ += ["TreeFacts", "Which", "answer_query", "denote", "from_sparql", "read_line", "resolve", "to_sparql"]
__all__ += ["find_entity", "write_line"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(__name__, {"decoding": "QueryGrammar", "facts": "TreeFacts"})
