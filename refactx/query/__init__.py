"""Queries on an index: questions about sets of facts, such as `count <Louisiana> <nickname> .`"""

from refactx.query.answered import AnsweredQuery, answer_query
from refactx.query.budget import Limits
from refactx.query.denote import Result, denote
from refactx.query.line import read_line, write_line
from refactx.query.walk import By, Hop, Query, QueryError, Which

__all__ = ["AnsweredQuery", "By", "Hop", "Limits", "Query", "QueryError", "Result", "Which"]
__all__ += ["answer_query", "denote", "read_line", "write_line"]
