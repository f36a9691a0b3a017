"""PGMR text as a query with placeholders for its URIs, and the mentions that they stand for: the reader of both dialects."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from refactx.walks.language import QueryError
from refactx.walks.pgmr.mentions import EXPECTED, Kind, Placeholder, Refusal, RefusedError, Resolver, read_mapping
from refactx.walks.sparql.parser import read_sparql
from refactx.walks.sparql.prologue import DIRECT, ENTITY, ID, NAMESPACES, Prologue, Uri, entity_term
from refactx.walks.sparql.tokens import Token, inline_parts, joined, tokens_of
from refactx.walks.sparql.tree import predicates_of

PLACEHOLDER = re.compile(r"(?:entity|relation)\w+", re.IGNORECASE)
_EXPECTED_INLINE = "expected starturi Label enduri"
_ANY = "urn:pgmr:"


@dataclass(frozen=True, slots=True)
class PgmrQuery:
    """A query with placeholders.

    `sparql`: valid SPARQL, in which a placeholder stands for an id, with the namespace of its use before it:
    `wd:entity1`, `wdt:relation1`, `<http://www.wikidata.org/prop/relation1>`; `mentions`: by placeholder.
    """

    sparql: str
    mentions: Mapping[str, Placeholder]

    def resolved(self, resolver: Resolver) -> str:
        """Return the query as SPARQL with URIs. Raises RefusedError if a mention has no id, and as the resolver does."""
        found = dict(zip(self.mentions, resolver.resolve(list(self.mentions.values())), strict=True))
        refusals = {name: answer for name, answer in found.items() if isinstance(answer, Refusal)}
        if refusals:
            raise RefusedError(self.mentions, refusals)
        return self.with_ids({name: answer for name, answer in found.items() if isinstance(answer, str)})

    def with_ids(self, ids: Mapping[str, str]) -> str:
        """Return the query with ids in place of its placeholders.

        >>> query = PgmrQuery("ASK { ?x wdt:relation1 ?y }", {"relation1": Placeholder("relation", "nickname")})
        >>> query.with_ids({"relation1": "P1449"})
        'ASK { ?x wdt:P1449 ?y }'

        Raises QueryError if a placeholder has no id, or stands for a part of a statement, which Wikidata's ids alone have.
        """
        for name, mention in self.mentions.items():
            if not ids.get(name):
                raise QueryError(f"{name} = {mention} has no id")
        prologue = Prologue(tokens_of(self.sparql))
        terms = [term for term in prologue.uris() if term.name in self.mentions]
        return joined(prologue.tokens, {term.start: _with_id(term, ids[term.name]) for term in terms})


def _with_id(term: Uri, id_: str) -> str:
    """Return the token with an id in place of its placeholder."""
    if ID.fullmatch(id_):
        return term.renamed(id_)
    if term.namespace not in (ENTITY, DIRECT):
        raise QueryError(f"{term.text} is a part of a statement, which only Wikidata has: write wdt:{term.name}")
    return entity_term(id_)


class BatchResolver:
    """A resolver of the mentions of some queries, which another resolver has resolved in one call."""

    def __init__(self, resolver: Resolver, queries: Iterable[PgmrQuery]) -> None:
        mentions = list(dict.fromkeys(mention for query in queries for mention in query.mentions.values()))
        self._answers = dict(zip(mentions, resolver.resolve(mentions), strict=True))

    def resolve(self, mentions: Sequence[Placeholder]) -> list[str | Refusal]:
        """Return the id of each mention, or why it has none. Raises KeyError for a mention of another query."""
        return [self._answers[mention] for mention in mentions]


def from_pgmr(text: str, resolver: Resolver) -> str:
    """Return PGMR text as SPARQL with URIs. Raises as `read_pgmr`, `PgmrQuery.resolved` and the resolver do."""
    return read_pgmr(text).resolved(resolver)


def read_pgmr(text: str) -> PgmrQuery:
    """Return the query of PGMR text, in either dialect, on one line or on many.

    A placeholder without a prefix, as models write it, is `wd:entity1` or `wdt:relation1`; a label of the inline dialect
    without a prefix is that of a relation where a predicate stands, else of an entity.

        >>> query = read_pgmr("ASK { ?x wdt:relation1 entity1 } entity1 = [ENT] Ann [/ENT] relation1 = [REL] child [/REL]")
        >>> query.sparql, query.mentions["relation1"]
        ('ASK { ?x wdt:relation1 wd:entity1 }', Placeholder(kind='relation', label='child', description=''))

    Raises QueryError if a part of the text is missing or broken, or if the query has an id.
    """
    tokens = tokens_of(text, inline=True)
    start = _mapping_start(tokens)
    block, mapping = [token for token in tokens if token.start < start], text[start:]
    if all(token.is_space for token in block):
        raise QueryError(
            "there is no SPARQL before the mapping block: expected a query such as SELECT ?x { ?x wdt:relation1 ?y }"
        )
    prologue = Prologue(block)
    _check_no_ids(prologue)
    if not _has_labels(block):
        query = _read_block(prologue, read_mapping(mapping))
    elif mapping:
        raise QueryError("the text has both starturi and a mapping block: expected one of them")
    else:
        query = _read_inline(prologue)
    read_sparql(query.sparql)  # raises QueryError with line and column
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


def _read_block(prologue: Prologue, mentions: Mapping[str, Placeholder]) -> PgmrQuery:
    texts, used = dict[int, str](), dict[str, None]()
    for term in prologue.uris():
        if PLACEHOLDER.fullmatch(term.name):
            name = term.name.lower()
            if term.namespace != ENTITY and name.startswith("entity"):
                raise QueryError(f"{term.text} is an entity with the prefix of a property: expected wd:{name}")
            texts[term.start] = term.renamed(name)
            used[name] = None
    for token in prologue.tokens[prologue.body :]:
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


def _check_no_ids(prologue: Prologue) -> None:
    """Raise QueryError if a URI is an id, which no one may write in place of a name."""
    for term in prologue.uris():
        if term.namespace and (term.id is not None or term.is_misspelt()):
            raise QueryError(f"{term.text} is an id, for which PGMR has a placeholder: expected one such as wd:entity1")


def _has_labels(tokens: Iterable[Token]) -> bool:
    """Return whether some tokens have labels. Raises QueryError if one of them has not both marks."""
    found = False
    for token in tokens:
        words = inline_parts(token)[1].split() if token.kind == "inline" else []
        if token.kind in ("word", "name") or token.is_iri:
            words = [token.text.rpartition(":")[2]]
        for mark in ("starturi", "enduri"):
            if mark in words:
                raise QueryError(f"{mark} has no partner at {token.text!r}: {_EXPECTED_INLINE}")
        found = found or token.kind == "inline"
    return found


def _read_inline(prologue: Prologue) -> PgmrQuery:
    """Return a query with labels as one with placeholders. Raises QueryError if it has placeholders too."""
    for name in _names(prologue):
        if PLACEHOLDER.fullmatch(name):
            raise QueryError(
                f"the text has both starturi and {name}: {_EXPECTED_INLINE}, or placeholders with a mapping block"
            )
    texts, placeholders = dict[int, str](), dict[Placeholder, str]()
    for token, namespace in _namespaces(prologue).items():
        kind: Kind = "entity" if namespace == ENTITY else "relation"
        before, label, after = inline_parts(token)
        mention = Placeholder(kind, label)
        name = placeholders.setdefault(mention, f"{kind}{sum(one.kind == kind for one in placeholders) + 1}")
        texts[token.start] = f"{before}{name}{after}" if before else prologue.qualified(namespace, name)
    return PgmrQuery(joined(prologue.tokens, texts), {name: mention for mention, name in placeholders.items()})


def _names(prologue: Prologue) -> Iterator[str]:
    yield from (term.name for term in prologue.uris())
    yield from (token.text for token in prologue.tokens[prologue.body :] if token.kind == "word")


def _namespaces(prologue: Prologue) -> dict[Token, str]:
    """Return the namespace of each label. One without a prefix is a relation where a predicate stands, else an entity."""
    labels = [token for token in prologue.tokens if token.kind == "inline"]
    found = {token: _namespace(token, prologue) for token in labels}
    if None in found.values():
        uris = {token.start: f"{_ANY}{token.start}" for token in labels}
        predicates = predicates_of(
            read_sparql(joined(prologue.tokens, {start: f"<{uri}>" for start, uri in uris.items()})).query
        )
        usual = {token: DIRECT if uris[token.start] in predicates else ENTITY for token in labels}
    return {token: namespace or usual[token] for token, namespace in found.items()}


def _namespace(token: Token, prologue: Prologue) -> str | None:
    """Return the namespace before a label; None if there is none."""
    before, label, _ = inline_parts(token)
    if not before:
        return None
    namespace = prologue.absolute(before[1:]) if before[0] == "<" else prologue.prefixes.get(before[:-1], "")
    if namespace not in NAMESPACES:
        raise QueryError(f"{before} before {label!r} is no namespace of ids: expected one such as wd: or wdt:")
    return namespace
