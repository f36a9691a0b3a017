"""PGMR text as a query with placeholders and mentions, in either dialect."""

from collections.abc import Mapping, Sequence

from refactx.lazy import require
from refactx.query.language import QueryError
from refactx.query.pgmr.inline import tokens_of
from refactx.query.pgmr.inline_reader import has_labels, read_inline
from refactx.query.pgmr.mapping import EXPECTED, read_mapping
from refactx.query.pgmr.mentions import Mention, Resolver
from refactx.query.pgmr.prologue import Prologue
from refactx.query.pgmr.query import PgmrQuery
from refactx.query.pgmr.uris import DIRECT, ENTITY, PLACEHOLDER, check_no_ids
from refactx.query.sparql.tokens import Token, joined


def from_pgmr(text: str, resolver: Resolver) -> str:
    """Return PGMR text as SPARQL with URIs. Raises as `read_pgmr`, `PgmrQuery.resolved` and the resolver do."""
    return read_pgmr(text).resolved(resolver)


def read_pgmr(text: str) -> PgmrQuery:
    """Return the query of PGMR text, in either dialect, on one line or on many.

    A placeholder without a prefix, as models write it, is `wd:entity1` or `wdt:relation1`; a label of the inline dialect
    without a prefix is that of a relation where a predicate stands, else of an entity.

        >>> query = read_pgmr("ASK { ?x wdt:relation1 entity1 } entity1 = [ENT] Ann [/ENT] relation1 = [REL] child [/REL]")
        >>> query.sparql, query.mentions["relation1"]
        ('ASK { ?x wdt:relation1 wd:entity1 }', Mention(kind='relation', label='child', description=''))

    Raises QueryError if a part of the text is missing or broken, or if the query has an id; InputError if rdflib is not
    installed.
    """
    require("rdflib", "sparql")
    tokens = tokens_of(text)
    start = _mapping_start(tokens)
    block, mapping = [token for token in tokens if token.start < start], text[start:]
    if all(token.is_space for token in block):
        raise QueryError(
            "there is no SPARQL before the mapping block: expected a query such as SELECT ?x { ?x wdt:relation1 ?y }"
        )
    prologue = Prologue(block)
    check_no_ids(prologue.terms())
    if not has_labels(block):
        query = _read_block(prologue, read_mapping(mapping))
    elif mapping:
        raise QueryError("the text has both starturi and a mapping block: expected one of them")
    else:
        query = read_inline(prologue)
    from refactx.query.pgmr.syntax import shape_of

    shape_of(query.sparql)  # raises QueryError with line and column
    return query


def _mapping_start(tokens: Sequence[Token]) -> int:
    """Return where the mapping block begins: at `entity1 =` after the query, or at `entity1 = [` wherever it stands."""
    present = [token for token in tokens if not token.is_space]
    depth = 0
    for at, token in enumerate(present):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(token.text, 0)
        if token.kind == "word" and PLACEHOLDER.fullmatch(token.text):
            after = [other.text for other in present[at + 1 : at + 3]]
            if after[:1] == ["="] and (depth <= 0 or after[1:] == ["["]):
                return token.start
    return tokens[-1].start + len(tokens[-1].text) if tokens else 0


def _read_block(prologue: Prologue, mentions: Mapping[str, Mention]) -> PgmrQuery:
    texts, used = dict[int, str](), dict[str, None]()
    for term in prologue.terms():
        if PLACEHOLDER.fullmatch(term.name):
            name = term.name.lower()
            if term.namespace != ENTITY and name.startswith("entity"):
                raise QueryError(f"{term.text} is an entity with the prefix of a property: expected wd:{name}")
            texts[term.start] = term.renamed(name)
            used[name] = None
    for token in prologue.body:
        if token.kind == "word" and PLACEHOLDER.fullmatch(token.text):
            name = token.text.lower()
            texts[token.start] = prologue.qualified(ENTITY if name.startswith("entity") else DIRECT, name)
            used[name] = None
    if used and not mentions:
        raise QueryError(f"there is no mapping block after the query, which has {', '.join(used)}: {EXPECTED}")
    if missing := [name for name in used if name not in mentions]:
        raise QueryError(
            f"{', '.join(missing)} of the query {_is_or_are(missing)} not in the mapping block: {EXPECTED}"
        )
    if unused := [name for name in mentions if name not in used]:
        raise QueryError(
            f"{', '.join(unused)} of the mapping block {_is_or_are(unused)} not in the query: leave out the mapping"
        )
    return PgmrQuery(joined(prologue.tokens, texts), mentions)


def _is_or_are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
