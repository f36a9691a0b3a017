"""Queries on an index: questions about sets of facts, such as `count <Louisiana> <nickname> .`"""

from refactx.query.line import read_line, write_line
from refactx.query.walk import By, Hop, Query, QueryError, Which

__all__ = ["By", "Hop", "Query", "QueryError", "Which", "read_line", "write_line"]
