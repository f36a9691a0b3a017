"""Queries with labels in them, the inline dialect, as queries with placeholders."""

from collections.abc import Iterable, Iterator

from refactx.query.language import QueryError
from refactx.query.pgmr.inline import label_of, parts_around
from refactx.query.pgmr.mentions import Kind, Mention
from refactx.query.pgmr.prologue import Prologue
from refactx.query.pgmr.query import PgmrQuery
from refactx.query.pgmr.uris import DIRECT, ENTITY, NAMESPACES, PLACEHOLDER
from refactx.query.sparql.tokens import Token, joined

_EXPECTED = "expected starturi Label enduri"
_ANY = "urn:pgmr:"


def has_labels(tokens: Iterable[Token]) -> bool:
    """Return whether some tokens have labels. Raises QueryError if one of them has not both marks."""
    found = False
    for token in tokens:
        words = label_of(token).split() if token.kind == "extra" else []
        if token.kind in ("word", "name", "iri"):
            words = [token.text.rpartition(":")[2]]
        for mark in ("starturi", "enduri"):
            if mark in words:
                raise QueryError(f"{mark} has no partner at {token.text!r}: {_EXPECTED}")
        found = found or token.kind == "extra"
    return found


def read_inline(prologue: Prologue) -> PgmrQuery:
    """Return a query with labels as one with placeholders. Raises QueryError if it has placeholders too."""
    for name in _names(prologue):
        if PLACEHOLDER.fullmatch(name):
            raise QueryError(
                f"the text has both starturi and {name}: {_EXPECTED}, or placeholders with a mapping block"
            )
    texts, placeholders = dict[int, str](), dict[Mention, str]()
    for token, namespace in _namespaces(prologue).items():
        kind: Kind = "entity" if namespace == ENTITY else "relation"
        mention = Mention(kind, label_of(token))
        name = placeholders.setdefault(mention, f"{kind}{sum(one.kind == kind for one in placeholders) + 1}")
        before, after = parts_around(token)
        texts[token.start] = f"{before}{name}{after}" if before else prologue.qualified(namespace, name)
    return PgmrQuery(joined(prologue.tokens, texts), {name: mention for mention, name in placeholders.items()})


def _names(prologue: Prologue) -> Iterator[str]:
    yield from (term.name for term in prologue.terms())
    yield from (token.text for token in prologue.body if token.kind == "word")


def _namespaces(prologue: Prologue) -> dict[Token, str]:
    """Return the namespace of each label. One without a prefix is a relation where a predicate stands, else an entity."""
    labels = [token for token in prologue.tokens if token.kind == "extra"]
    found = {token: _namespace(token, prologue) for token in labels}
    if None in found.values():
        from refactx.query.pgmr.syntax import predicates_of

        uris = {token.start: f"{_ANY}{token.start}" for token in labels}
        predicates = predicates_of(joined(prologue.tokens, {start: f"<{uri}>" for start, uri in uris.items()}))
        usual = {token: DIRECT if uris[token.start] in predicates else ENTITY for token in labels}
    return {token: namespace or usual[token] for token, namespace in found.items()}


def _namespace(token: Token, prologue: Prologue) -> str | None:
    """Return the namespace before a label; None if there is none."""
    before, _ = parts_around(token)
    if not before:
        return None
    namespace = prologue.absolute(before[1:]) if before[0] == "<" else prologue.prefixes.get(before[:-1], "")
    if namespace not in NAMESPACES:
        raise QueryError(
            f"{before} before {label_of(token)!r} is no namespace of ids: expected one such as wd: or wdt:"
        )
    return namespace
