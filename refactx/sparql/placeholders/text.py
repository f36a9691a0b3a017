"""PGMR text: SPARQL with placeholders for URIs, and a mapping of these to mentions; written and read back.

What stands for a URI is a kind, a label and a description. The mapping block, `entity1 = [ENT] Label [/ENT] Description`,
has an entry a line or all on one. The protocols `MentionNames` and `Resolver` name URIs, and find them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from refactx.index.names import Named
from refactx.iris import DIRECT, ENTITY, ID, NAMESPACES, entity_term
from refactx.sparql.syntax.parser import read_sparql
from refactx.sparql.syntax.prologue import Prologue, Uri
from refactx.sparql.syntax.tokens import Token, inline_parts, joined, tokens_of
from refactx.sparql.syntax.tree import predicates_of
from refactx.walks.language import QueryError

Kind = Literal["entity", "relation"]
"""A relation is a property, whatever stands before its id in SPARQL; an entity is anything else."""

EXPECTED = "expected entityX = [ENT] Label [/ENT] Description, or relationY = [REL] Label [/REL] Description"
_HEAD = re.compile(r"(?<!\S)((?:entity|relation)\w+)\s*=\s*(?=\[(?!/))", re.IGNORECASE)
_ENTRY = re.compile(r"\[(ENT|REL)\](.*?)\[/(ENT|REL)\](.*)", re.IGNORECASE | re.DOTALL)
_MARK = re.compile(rf"\[/?(?:ENT|REL)\]|\b(?:start|end)uri\b|{_HEAD.pattern}", re.IGNORECASE)
_KINDS: Mapping[str, Kind] = {"ENT": "entity", "REL": "relation"}
PLACEHOLDER = re.compile(r"(?:entity|relation)\w+", re.IGNORECASE)
_EXPECTED_INLINE = "expected starturi Label enduri"
_ANY = "urn:pgmr:"
Dialect = Literal["block", "inline"]
"""`block`: placeholders, and a mapping block after the query; `inline`: labels in the query, `starturi Label enduri`."""
LINE_END = "\n"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A URI in words. `description`: empty if it has none, None if the text does not say (the inline dialect).

    >>> str(Placeholder("relation", "nickname", "informal name"))
    '[REL] nickname [/REL] informal name'
    """

    kind: Kind
    label: str
    description: str | None = None

    def __str__(self) -> str:
        mark = "ENT" if self.kind == "entity" else "REL"
        return f"[{mark}] {self.label} [/{mark}] {self.description or ''}".rstrip()


class MentionNames(Protocol):
    """What entities and properties are called."""

    def mentions(self, ids: Sequence[str]) -> Mapping[str, Placeholder]:
        """Return the mentions of ids (`Q42`, `P31`, an IRI), without ids that have no name."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a mention has no id, as a part of a sentence: `no entity of the index is called <Louisianna>`."""

    reason: str


class Resolver(Protocol):
    """What finds the ids of mentions."""

    def resolve(self, mentions: Sequence[Placeholder]) -> Sequence[str | Refusal]:
        """Return the id of each mention (`Q42`; `P31` for a relation), or why it has none."""
        ...


class MentionsRefusedError(QueryError):
    """A query that was refused, since some of its mentions have no id. `refusals`: why, by placeholder."""

    def __init__(self, mentions: Mapping[str, Placeholder], refusals: Mapping[str, Refusal]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(f"{name} = {mentions[name]}: {why.reason}" for name, why in refusals.items()))


def kind_of(named: Named) -> Kind:
    """Return the kind of what an index names.

    >>> kind_of(Named("Q42", None)), kind_of(Named("P31", "entity"))
    ('entity', 'relation')
    """
    return "relation" if named.is_property else "entity"


def write_mapping(mentions: Mapping[str, Placeholder], *, lower: bool = False, one_line: bool = False) -> str:
    """Return the mapping block of mentions by placeholder: entities first.

    >>> ann = Placeholder("entity", "Ann", "a girl")
    >>> print(write_mapping({"relation1": Placeholder("relation", "spouse"), "entity1": ann}))
    entity1 = [ENT] Ann [/ENT] a girl
    relation1 = [REL] spouse [/REL]
    """
    ordered = sorted(mentions.items(), key=lambda item: item[1].kind != "entity")
    text = (" " if one_line else "\n").join(f"{name} = {mention}" for name, mention in ordered)
    return text.lower() if lower else text


def clean_mention(mention: Placeholder, id_: str) -> Placeholder:
    """Return a mention with one space for each white space.

    Raises QueryError, which names the id, if it has no label or contains a mark, so that it could not be read again.
    """
    label, description = " ".join(mention.label.split()), " ".join((mention.description or "").split())
    if not label:
        raise QueryError(f"{id_} has an empty label: give it a name")
    if (found := _MARK.search(f"{label} {description}")) is not None:
        raise QueryError(f"the name of {id_} contains {found[0]}, which is a mark of PGMR: {label} ({description})")
    return Placeholder(mention.kind, label, description)


def read_mapping(text: str) -> dict[str, Placeholder]:
    """Return the mentions of a mapping block by placeholder, in lower case. Raises QueryError if one is broken.

    >>> read_mapping("entity1 = [ENT] Ann [/ENT] a girl relation1 = [REL] spouse [/REL]")  # doctest: +NORMALIZE_WHITESPACE
    {'entity1': Placeholder(kind='entity', label='Ann', description='a girl'),
     'relation1': Placeholder(kind='relation', label='spouse', description='')}
    """
    heads = list(_HEAD.finditer(text))
    before = text[: heads[0].start()] if heads else text
    if before.strip():
        raise QueryError(f"{_shown(before)} is no mapping: {EXPECTED}")
    found = dict[str, Placeholder]()
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):  # without heads there is an end
        name = head[1].lower()
        if name in found:
            raise QueryError(f"{name} has two mappings: give each placeholder one")
        found[name] = _read_entry(name, text[head.end() : end])
    return found


def _read_entry(name: str, text: str) -> Placeholder:
    match = _ENTRY.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"the marks of {name} are not closed at {_shown(text)}: {EXPECTED}")
    opened, label, closed, description = match[1].upper(), *match.groups()[1:]
    kind = _KINDS[opened]
    if opened != closed.upper():
        raise QueryError(f"the mapping of {name} begins with [{opened}] and ends with [/{closed}]: {EXPECTED}")
    if not name.startswith(kind):
        raise QueryError(f"{name} is mapped by [{opened}], as {kind}: {EXPECTED}")
    if (line := description.partition("\n")[2].strip()) != "":
        raise QueryError(f"{_shown(line)} is no mapping: {EXPECTED}")
    if (mark := _MARK.search(f"{label} {description}")) is not None:
        raise QueryError(f"the mapping of {name} has a second {mark[0]}: {EXPECTED}")
    if not label.strip():
        raise QueryError(f"the mapping of {name} has no label: {EXPECTED}")
    return Placeholder(kind, " ".join(label.split()), " ".join(description.split()))


def _shown(text: str) -> str:
    """Return the first line of a text, cut to 40 characters, in quotes."""
    first = text.strip().partition("\n")[0]
    return repr(first if len(first) <= 40 else f"{first[:39]}…")


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
            raise MentionsRefusedError(self.mentions, refusals)
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
        texts = dict[int, str]()
        for term in [term for term in prologue.uris() if term.name in self.mentions]:
            id_ = ids[term.name]
            if not ID.fullmatch(id_) and term.namespace not in (ENTITY, DIRECT):
                raise QueryError(
                    f"{term.text} is a part of a statement, which only Wikidata has: write wdt:{term.name}"
                )
            texts[term.start] = term.renamed(id_) if ID.fullmatch(id_) else entity_term(id_)
        return joined(prologue.tokens, texts)


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
    for term in prologue.uris():
        if term.namespace and (term.id is not None or term.is_misspelt()):
            raise QueryError(f"{term.text} is an id, for which PGMR has a placeholder: expected one such as wd:entity1")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How PGMR text is written.

    `lower`: keywords, labels and descriptions in lower case; `one_line`: no line ends, and no comments; `prefixes`:
    keep declarations of prefixes that Wikidata's query service knows.
    """

    dialect: Dialect = "block"
    lower: bool = False
    one_line: bool = False
    prefixes: bool = True


DEFAULT_STYLE = Style()


def to_pgmr(sparql: str, names: MentionNames, style: Style = DEFAULT_STYLE) -> str:
    """Return a SPARQL query as PGMR text: with placeholders for its entities and properties, and what these are called.

        >>> print(to_pgmr("SELECT ?x { wd:Q1588 wdt:P1449 ?x }", IndexNames(index)))  # doctest: +SKIP
        SELECT ?x { wd:entity1 wdt:relation1 ?x }
        entity1 = [ENT] Louisiana [/ENT] state of the United States of America
        relation1 = [REL] nickname [/REL] informal name (for a pseudonym use P742)

    Only ids are replaced: those of Wikidata, and other URIs that have names. The rest, and strings that contain ids, stay.
    Raises QueryError if the text is not SPARQL, if an id of Wikidata has no name, or if a name contains marks of PGMR;
    and as `names` does.
    """
    prologue = Prologue(tokens_of(sparql, inline=True))
    read_sparql(sparql)  # raises QueryError with line and column
    uris = list(prologue.uris())
    mentions = _mentions(uris, names)
    terms = [(term, id_) for term in uris if (id_ := term.id) is not None and id_ in mentions]
    placeholders, numbers = dict[str, str](), {"entity": 0, "relation": 0}
    for id_, mention in mentions.items():
        numbers[mention.kind] += 1
        placeholders[id_] = f"{mention.kind}{numbers[mention.kind]}"
    query = prologue.tokens if style.prefixes else prologue.without_known()
    inline = style.dialect == "inline"
    names_of = _labels(terms, mentions, style) if inline else placeholders
    texts = {
        term.start: term.renamed(names_of[id_])
        if term.namespace
        else prologue.qualified(ENTITY if mentions[id_].kind == "entity" else DIRECT, names_of[id_])
        for term, id_ in terms
    }
    block = joined(query, texts, lower=style.lower, one_line=style.one_line)
    if inline:
        return block
    by_placeholder = {placeholders[id_]: mention for id_, mention in mentions.items()}
    mapping = write_mapping(by_placeholder, lower=style.lower, one_line=style.one_line)
    return f"{block}{' ' if style.one_line else LINE_END}{mapping}" if mapping else block


def _mentions(terms: Sequence[Uri], names: MentionNames) -> dict[str, Placeholder]:
    """Return the mentions of those URIs that have names, by their ids, in the order of the query.

    Raises QueryError for a placeholder, and for an id of Wikidata without a name, in lower case, or with the prefix of
    another kind: no engine would find it.
    """
    wanted = dict.fromkeys(term.id for term in terms if term.id is not None)
    found = names.mentions(list(wanted)) if wanted else {}
    for term in terms:
        if term.is_misspelt():
            raise QueryError(
                f"{term.text} is no id of Wikidata: write it in upper case, {term.renamed(term.name.upper())}"
            )
        if term.namespace and term.id is None and PLACEHOLDER.fullmatch(term.name):
            raise QueryError(f"{term.text} is a placeholder already: expected SPARQL with ids, such as wd:Q42")
        mention = found.get(term.id or "")
        if term.namespace not in ("", ENTITY) and mention is not None and mention.kind == "entity":
            raise QueryError(f"{term.text} is no property: write wd:{term.id}, or the id of a property, such as P31")
    of_wikidata = dict.fromkeys(term.id for term in terms if term.namespace and term.id is not None)
    if missing := [id_ for id_ in of_wikidata if id_ not in found]:
        raise QueryError(f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no name")
    return {id_: clean_mention(found[id_], id_) for id_ in wanted if id_ in found}


def _labels(terms: Iterable[tuple[Uri, str]], mentions: Mapping[str, Placeholder], style: Style) -> dict[str, str]:
    """Return ids as labels of the inline dialect. None may be that of another id of the kind in the query."""
    labels = {id_: one.label.lower() if style.lower else one.label for id_, one in mentions.items()}
    ids = dict[tuple[Kind, str], str]()
    for id_, label in labels.items():
        other = ids.setdefault((mentions[id_].kind, label), id_)
        if other != id_:
            raise QueryError(f"{other} and {id_} are both called {label}: the inline dialect does not tell them apart")
    for term, id_ in terms:
        if term.namespace and (term.namespace == ENTITY) != (mentions[id_].kind == "entity"):
            raise QueryError(
                f"{term.text} is a property that stands for an entity, for which the inline dialect has no mark"
            )
    return {id_: f"starturi {label} enduri" for id_, label in labels.items()}
