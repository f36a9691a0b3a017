"""A SPARQL query as rules look at it: its triple patterns with where they stand, its conditions and its names.

It needs rdflib: `pip install 'refactx[sparql]'`.
"""

from refactx.nl2sparql.parsed.query import Call, Condition, Data, Expression, Group, ParsedQuery, Pattern
from refactx.nl2sparql.parsed.reading import parse
from refactx.nl2sparql.parsed.terms import iri_of, is_blank, is_literal, is_variable, text_of_literal

__all__ = ["Call", "Condition", "Data", "Expression", "Group", "ParsedQuery", "Pattern", "iri_of", "is_blank"]
__all__ += ["is_literal", "is_variable", "parse", "text_of_literal"]
