"""Queries on an index: questions about sets of facts, such as `count <Louisiana> <nickname> .`

`TreeFacts` are the facts of an open index, `QueryGrammar` holds a model to queries that they answer. Both are imported
when they are first used: `TreeFacts` needs psycopg.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports
from refactx.walks.answered import AnsweredQuery, answer_query
from refactx.walks.evaluate import Result, evaluate_walk
from refactx.walks.language import Hop, MemberValue, Query, QueryError, WalkFilter, read_line, write_line
from refactx.walks.resolve import resolve
from refactx.walks.sets import WalkLimits
from refactx.walks.sparql_text import to_sparql

if TYPE_CHECKING:
    from refactx.walks.decoding import QueryGrammar
    from refactx.walks.facts import TreeFacts

__all__ = ["AnsweredQuery", "Hop", "MemberValue", "Query", "QueryError", "QueryGrammar", "Result", "WalkLimits"]
__all__ += ["TreeFacts", "WalkFilter", "answer_query", "evaluate_walk", "read_line", "resolve", "to_sparql"]
__all__ += ["write_line"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(__name__, {"decoding": "QueryGrammar", "facts": "TreeFacts"})
