"""The grammar of lines of SPARQL in llguidance's dialect of Lark, with placeholders for names and variables.

It is the part of SPARQL 1.1 that asks questions: SELECT and ASK with patterns, property paths, FILTER, OPTIONAL, UNION,
MINUS, VALUES, BIND, sub-selects, aggregates and modifiers. Each repetition and each nesting has a bound, so that any text
that is held to it ends.

White space is a part of what follows it. In front of a word it is needed, since a variable may come before. Names come
with the space before them, as in facts. The rules of SPARQL about variables are not context-free: they are those of
`refactx.sparql.decoding.scope`.
"""

import re

from refactx.sparql.decoding.placeholder import Placeholder

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


def grammar(first: int) -> str:
    """Return the grammar. `first`: the id of the first placeholder's token."""
    text = _QUERIES + _COMMON
    for level in range(DEPTH):
        opens = "/ ?SELECT/" if not level else "OPENS"
        text += _SELECT.format(n=level, opens=opens)
        text += (_NESTED if level < DEPTH - 1 else _INNERMOST).format(n=level, m=level + 1)
    for placeholder in Placeholder:
        text = re.sub(rf"\b{placeholder.name}\b", f"<[{first + placeholder}]>", text)
    return text
