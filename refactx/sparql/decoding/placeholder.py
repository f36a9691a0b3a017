"""Placeholders: the parts of a line of SPARQL that its grammar leaves open, since an index or the line decides them.

In the grammar (`refactx.sparql.decoding.lark`) each is one token, which no tokenizer has. A line has a text in its place.
"""

from enum import IntEnum


class Placeholder(IntEnum):
    """A part that is left open. The value is the number of its token, counted from the end of the vocabulary."""

    SUBJECT = 0
    """The name of a subject of the index, as the subject of a triple."""
    ENTITY = 1
    """The name of a subject of the index, elsewhere."""
    OWN_PROPERTY = 2
    """The name of a property that the last SUBJECT has."""
    PROPERTY = 3
    """The name of a property of the index."""
    PROJECTED = 4
    """A variable of SELECT."""
    VARIABLE = 5
    """A variable of a pattern or an expression."""
    NAMED = 6
    """A new variable, for the value of an aggregate of SELECT."""
    ASSIGNED = 7
    """A new variable, of BIND."""
    COUNTED = 8
    """A variable that an aggregate is computed from."""
    GROUPED = 9
    """A variable of GROUP BY."""
    ORDERED = 10
    """A variable of HAVING, or of ORDER BY after GROUP BY."""
    OPENS = 11
    """The word SELECT at the beginning of a sub-select."""
    CLOSES = 12
    """The bracket at the end of a sub-select."""
