"""The syntax of SPARQL queries with labels in angle brackets: tokens, the shape of a query, and what is wrong with it."""

from refactx.sparql.syntax.check import Checked, check_query, read_query
from refactx.sparql.syntax.reader import ShapeReader, shape_of
from refactx.sparql.syntax.shape import Cursor, Element, Group, Shape, ShapeError, Triple, Values
from refactx.sparql.syntax.tokens import Span, Token, line_and_column, text_of, tokens_of

__all__ = ["Checked", "Cursor", "Element", "Group", "Shape", "ShapeError", "ShapeReader", "Span", "Token", "Triple"]
__all__ += ["Values", "check_query", "line_and_column", "read_query", "shape_of", "text_of", "tokens_of"]
