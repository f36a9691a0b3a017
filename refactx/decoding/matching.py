"""The grammar of lines of SPARQL, and its matcher: llguidance, over the tokens of an index's tokenizer and placeholders.

A placeholder is a part that the grammar leaves open, since an index or the line decides it: a token that no tokenizer has,
in whose place a line has a text.

The grammar is the part of SPARQL 1.1 that asks questions: SELECT and ASK with patterns, property paths, FILTER, OPTIONAL,
UNION, MINUS, VALUES, BIND, sub-selects, aggregates and modifiers. Each repetition and each nesting has a bound, so that any
text that it constrains ends.

White space is a part of what follows it. In front of a word it is needed, since a variable may come before. Names come
with the space before them, as in facts. The rules of SPARQL about variables are not context-free: they are those of
`refactx.sparql.constrained.variables`.

llguidance's vocabulary is made of the bytes of each token, so that any tokenizer of an index will do, and no token that
was added to it can be text.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from refactx.errors import ModelError
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import Tokens

DEPTH = 3
"""The most groups within each other, the outermost included."""

_QUERIES = r"""
%llguidance {"no_forcing": true}
start: (ask | select0) END
END: / ?\n[\n\r\t ]*/
ask: / ?ASK/ where0
"""

_SELECT = r"""
select{n}: {opens} (plain{n} | star{n} | whole{n} | grouped{n})
plain{n}: distinct? PROJECTED{{1,4}} where{n} (order slice? | slice)?
star{n}: distinct? " *" where{n} (order slice? | slice)?
whole{n}: aggregate{{1,3}} where{n}
grouped{n}: distinct? (PROJECTED | aggregate){{1,4}} where{n} " GROUP BY" GROUPED{{1,4}} having? (sorting slice? | slice)?
where{n}: " WHERE"? group{n}
"""

_INNERMOST = r"""
group{n}: OPEN elements{n} CLOSE
elements{n}: triples other{n}{{0,5}} | other{n}{{1,5}}
other{n}: (filter | values | bind) (DOT? triples | DOT)?
"""

_NESTED = r"""
group{n}: OPEN (elements{n} CLOSE | select{m} CLOSES)
elements{n}: triples other{n}{{0,5}} | other{n}{{1,5}}
other{n}: part{n} (DOT? triples | DOT)?
part{n}: filter | " FILTER" (" NOT EXISTS" | " EXISTS") group{m} | values | bind
    | " OPTIONAL" group{m} | " MINUS" group{m} | group{m} (" UNION" group{m}){{0,3}}
"""

_COMMON = r"""
distinct: " DISTINCT"
OPEN: / ?\{/
CLOSE: / ?\}/
DOT: " ."
LP: / ?\(/
RP: / ?\)/
COMMA: / ?,/
triples: triple (DOT triple){0,7} DOT?
triple: SUBJECT own_verb objects (SEMI own_verb objects){0,5} | VARIABLE verb objects (SEMI verb objects){0,5}
SEMI: / ?;/
objects: object (COMMA object){0,5}
object: ENTITY | VARIABLE | literal
own_verb: own_path | VARIABLE | text_property
verb: path | VARIABLE | text_property
text_property: " rdfs:label" | " skos:altLabel" | " schema:description"
path: steps (BAR steps){0,3}
steps: step (SLASH step){0,3}
step: PROPERTY SIGN? | REVERSED PROPERTY SIGN? | LP_SPACED inner_path RP SIGN?
own_path: own_steps (BAR own_steps){0,3}
own_steps: own_step (SLASH step){0,3}
own_step: OWN_PROPERTY SIGN? | REVERSED PROPERTY SIGN? | LP_SPACED own_inner_path RP SIGN?
inner_path: inner_steps (BAR inner_steps){0,3}
inner_steps: inner_step (SLASH inner_step){0,3}
inner_step: REVERSED? PROPERTY SIGN?
own_inner_path: own_inner_steps (BAR own_inner_steps){0,3}
own_inner_steps: (OWN_PROPERTY SIGN? | REVERSED PROPERTY SIGN?) (SLASH inner_step){0,3}
SIGN: / ?[+*]/
SLASH: / ?\//
BAR: / ?\|/
REVERSED: / ?\^/
LP_SPACED: " ("
literal: tagged | NUMBER_AFTER_SPACE | " true" | " false"
STRING_AFTER_SPACE: / "[^"\\\n\r]{0,60}"/
STRING: / ?"[^"\\\n\r]{0,60}"/
NUMBER_AFTER_SPACE: / -?[0-9]{1,12}(\.[0-9]{1,9})?/
NUMBER: / ?-?[0-9]{1,12}(\.[0-9]{1,9})?/
COUNT: / [1-9][0-9]{0,4}/
LANGUAGE: /@[a-z]{2,3}/
DATATYPE: /\^\^xsd:(date|dateTime|decimal|integer|gYear)/
values: " VALUES" VARIABLE OPEN (ENTITY{1,10} | tagged{1,10} | NUMBER_AFTER_SPACE{1,10}) CLOSE
tagged: STRING_AFTER_SPACE (LANGUAGE | DATATYPE)?
bind: " BIND" LP (function | operand ARITHMETIC later | later_free) " AS" ASSIGNED RP
later_free: VARIABLE | NUMBER | STRING
filter: " FILTER" (LP condition RP | later_test)
condition: alternative (" ||" alternative){0,3}
alternative: one (" &&" one){0,3}
one: comparison | test | NOT test | LP inner_condition RP | NOT LP inner_condition RP
inner_condition: inner_alternative (" ||" inner_alternative){0,3}
inner_alternative: (comparison | test | NOT test) (" &&" (comparison | test | NOT test)){0,3}
NOT: / ?!/
comparison: operand (ARITHMETIC later)? COMPARES later_value
    | VARIABLE EQUALS ENTITY
    | VARIABLE AMONG LP (ENTITY (COMMA ENTITY){0,7} | listed (COMMA listed){0,7}) RP
listed: STRING (LANGUAGE | DATATYPE)? | NUMBER
AMONG: " IN" | " NOT IN"
COMPARES: / (=|!=|<|<=|>|>=)/
EQUALS: / !?=/
ARITHMETIC: / [-+*\/]/
operand: VARIABLE | function
later: VARIABLE | / [0-9]{1,12}(\.[0-9]{1,9})?/ | later_function
later_value: VARIABLE | literal | later_function
function: / ?(LCASE|UCASE|STR|STRLEN|LANG|YEAR|MONTH|DAY|ABS)\(/ argument RP
later_function: / (LCASE|UCASE|STR|STRLEN|LANG|YEAR|MONTH|DAY|ABS)\(/ argument RP
argument: VARIABLE | / ?(STR|LCASE|UCASE)\(/ VARIABLE RP
test: / ?(STRSTARTS|STRENDS|CONTAINS)\(/ text COMMA text RP
    | / ?REGEX\(/ text COMMA STRING (COMMA FLAG)? RP
    | / ?LANGMATCHES\(/ / ?LANG\(/ VARIABLE RP COMMA STRING RP
    | / ?BOUND\(/ VARIABLE RP
later_test: / (STRSTARTS|STRENDS|CONTAINS)\(/ text COMMA text RP
    | / REGEX\(/ text COMMA STRING (COMMA FLAG)? RP
    | / LANGMATCHES\(/ / ?LANG\(/ VARIABLE RP COMMA STRING RP
    | / BOUND\(/ VARIABLE RP
FLAG: / ?"i"/
text: VARIABLE | STRING | / ?(LCASE|UCASE|STR)\(/ argument RP
aggregate: LP_SPACED call " AS" NAMED RP
call: / ?(COUNT|SUM|MIN|MAX|AVG|SAMPLE)\(/ DISTINCT? COUNTED RP | / ?COUNT\(\*\)/
DISTINCT: / ?DISTINCT/
having: " HAVING" LP (call | ORDERED) COMPARES (NUMBER_AFTER_SPACE | later_call) RP
later_call: / (COUNT|SUM|MIN|MAX|AVG|SAMPLE)\(/ DISTINCT? COUNTED RP
order: " ORDER BY" key{1,2}
key: VARIABLE | / (ASC|DESC)/ LP (VARIABLE | function) RP
sorting: " ORDER BY" sorting_key{1,2}
sorting_key: ORDERED | / (ASC|DESC)/ LP (ORDERED | call) RP
slice: limit offset? | offset limit?
limit: " LIMIT" COUNT
offset: " OFFSET" COUNT
"""

_SPECIAL = b"\xff"
"""What llguidance takes for the first byte of a special token: it is in no UTF-8 text."""

EXACT = 1 << 53
"""The largest integer up to which all are exact as floating-point numbers, which llguidance reads schemas with."""

_CONTROL = re.compile(r"\\u00[01]")
"""A character that JSON can write only by its number."""


class OpenPart(IntEnum):
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


def grammar(first: int) -> str:
    """Return the grammar. `first`: the id of the first placeholder's token."""
    text = _QUERIES + _COMMON
    for level in range(DEPTH):
        opens = "/ ?SELECT/" if not level else "OPENS"
        text += _SELECT.format(n=level, opens=opens)
        text += (_NESTED if level < DEPTH - 1 else _INNERMOST).format(n=level, m=level + 1)
    for placeholder in OpenPart:
        text = re.sub(rf"\b{placeholder.name}\b", f"<[{first + placeholder}]>", text)
    return text


class Allowed(NamedTuple):
    """What the grammar allows next: `tokens` with text, int32[n], ascending, and `placeholders`."""

    tokens: Tokens
    placeholders: tuple[OpenPart, ...]


class Matcher:
    """The grammar after some tokens and placeholders. It never changes, so threads may share it.

    `size`: that of the vocabulary, whose last tokens, `hidden` ones, are not among those that it allows, but can be taken.
    """

    def __init__(self, matcher: Any, size: int, hidden: int = 0) -> None:
        self._matcher, self._size, self._hidden = matcher, size, hidden
        bits = np.frombuffer(matcher.compute_bitmask(), np.uint8)
        found = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int32)
        tokens, above = found[found < size - hidden], (found[found >= size] - size).tolist()
        self.allowed = Allowed(tokens, tuple(OpenPart(one) for one in above if one < len(OpenPart)))
        self.can_end = len(OpenPart) in above
        """Whether the text may end here."""

    def after(self, token: int) -> "Matcher | None":
        """Return the matcher after one more token; None if the grammar does not allow it."""
        longer = self._matcher.deep_copy()
        if longer.try_consume_tokens([token]) != 1:
            return None
        return Matcher(longer, self._size, self._hidden)

    def after_placeholder(self, placeholder: OpenPart) -> "Matcher | None":
        """Return the matcher after a placeholder; None if the grammar does not allow it."""
        return self.after(self._size + placeholder)


@lru_cache(maxsize=4)
def matcher_of(tokenizer: FactTokenizer) -> Matcher:
    """Return the matcher of a line of which nothing is written. It takes a second for 150,000 tokens.

    Raises ModelError if llguidance refuses the tokenizer.
    """
    added, table = tokenizer.added_tokens, tokenizer.token_bytes
    return new_matcher([b"" if number in added else text for number, text in enumerate(table)], grammar(len(table)))


def new_matcher(table: list[bytes], text: str) -> Matcher:
    """Return the matcher of a grammar. `table`: the bytes of each token, empty for those that are not text.

    Raises ModelError if llguidance refuses them.
    """
    try:
        return Vocabulary(table).matcher(text)
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"this tokenizer cannot write SPARQL, since llguidance refuses it: {error}") from error


class Vocabulary:
    """The tokens of a model for matchers of several grammars. `table`: as in `new_matcher`. It takes a second for 150,000.

    `encode`: the ids of a text, in which what a grammar forces is written; by default, one for each byte. `hidden`: texts of
    tokens after those of the table, as `Matcher` has them.
    Raises ValueError or RuntimeError if llguidance refuses them.
    """

    def __init__(
        self, table: list[bytes], encode: Callable[[str], list[int]] | None = None, hidden: Sequence[bytes] = ()
    ) -> None:
        whole = [*table, *hidden]
        self._tokenizer = LLTokenizer(TokenizerWrapper(_Tokens(whole, encode)), slices=[])
        self._size, self._hidden = len(whole), len(hidden)

    def matcher(self, grammar: str) -> Matcher:
        """Return the matcher of a grammar. Raise ValueError if llguidance refuses it."""
        found = LLMatcher(self._tokenizer, grammar, log_level=0)
        if found.is_error():
            raise ValueError(found.get_error())
        return Matcher(found, self._size, self._hidden)


def json_grammar(schema: str) -> str:
    """Return the grammar of texts of JSON by a JSON schema, without white space that may be left out, but for a space after
    commas and colons. Raise ValueError for what is no schema, or has numbers that llguidance would round.

    Characters are not written by their numbers, unless the schema has some that cannot be written otherwise: llguidance takes
    a name such as `\\u0061` for another than `a`.
    """
    json.loads(schema, parse_int=_exact)
    return LLMatcher.grammar_from_json_schema(
        schema,
        overrides={
            "whitespace_flexible": False,
            "item_separator": ", ",
            "key_separator": ": ",
            "lenient": False,
            "json_allowed_escapes": '"\\bfnrtu' if _CONTROL.search(schema) else '"\\bfnrt',
        },
    )


@lru_cache(maxsize=1)
def _bytes() -> LLTokenizer:
    return LLTokenizer("byte")


@lru_cache(maxsize=256)
def _json_matcher(schema: str) -> LLMatcher:
    return LLMatcher(_bytes(), json_grammar(schema), log_level=0)


def json_problem(schema: str) -> str:
    """Return why llguidance refuses a JSON schema; empty if it does not."""
    matcher = _json_matcher(schema)
    return str(matcher.get_error()).partition("<state>")[0].strip() if matcher.is_error() else ""


def json_takes(schema: str, text: str, *, begun: bool = False) -> bool:
    """Return whether a text of JSON is by a schema that llguidance takes. `begun`: or is the beginning of one."""
    matcher, encoded = _json_matcher(schema).deep_copy(), list(text.encode("utf-8", "surrogatepass"))
    return matcher.try_consume_tokens(encoded) == len(encoded) and (begun or matcher.is_accepting())


def _exact(digits: str) -> int:
    if abs(number := int(digits)) > EXACT:
        raise ValueError(f"{digits} is beyond 2^53, where numbers are not exact: use a string")
    return number


class _Tokens:
    """The tokens as `TokenizerWrapper` takes them. The placeholders and an end of sequence follow those of the table."""

    bos_token_id = None

    def __init__(self, table: list[bytes], encode: Callable[[str], list[int]] | None) -> None:
        size = len(table)
        self._table, self._encode = table, encode
        special = [text or b"%b<|%d|>" % (_SPECIAL, number) for number, text in enumerate(table)]
        self.tokens = [*special, *(b"%b<|%d|>" % (_SPECIAL, size + n) for n in range(len(OpenPart) + 1))]
        self.eos_token_id = len(self.tokens) - 1
        self.special_token_ids = [number for number, text in enumerate(self.tokens) if text[:1] == _SPECIAL]
        self._bytes = {text: number for number, text in enumerate(table) if len(text) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Return ids of a text. llguidance asks for them to find forced tokens, which the grammar of SPARQL turns off."""
        with suppress(UnicodeDecodeError):
            ids = [] if self._encode is None else self._encode(text.decode())
            texts = [self._table[one] for one in ids]
            if texts and all(texts) and b"".join(texts) == text:
                return ids
        return [self._bytes[text[at : at + 1]] for at in range(len(text)) if text[at : at + 1] in self._bytes]
