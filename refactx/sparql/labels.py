"""Names and ids in queries: labels in angle brackets as IRIs, the ids that a query has, and those that do not exist.

As a predicate a label means a property of the index; one that reads a property backwards (`director of`) becomes an
inverse path, `^wdt:P57`. With a prefix before it, `p:<head of government>`, it is that use of the property. Elsewhere it
means an entity: the one with this name, label or alias. Of several, those with facts of the predicate beside it are meant,
and of these the one with most facts. `completions` are the names that may follow an opened bracket of a query that is
typed.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

from refactx.errors import InputError
from refactx.fact import ALIAS_OF, DESCRIPTIONS, written_part
from refactx.iris import (
    ENTITY,
    ID,
    NAMESPACES,
    PREFIXES,
    entity_term,
    id_of_entity,
    id_of_property,
    ids_written_as,
    may_be_written,
    property_term,
)
from refactx.linking.linker import AmbiguousNameError, LinkedName, Suggestion, did_you_mean
from refactx.sparql.engines.checking import check_query, read_query
from refactx.sparql.engines.engine import SparqlSyntaxError
from refactx.sparql.store.triples import own
from refactx.sparql.syntax.parser import ParseError, cursor_of, parse, read_sparql
from refactx.sparql.syntax.prologue import Prologue
from refactx.sparql.syntax.tokens import Span, Token, line_and_column, text_of, tokens_of
from refactx.sparql.syntax.tree import Path, QueryTree, Term, TriplePattern, Values, nodes, predicates_of, triples_of
from refactx.walks.facts import TreeFacts
from refactx.walks.language import QueryError


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids in a query: those of entities (`Q42`, `L7`) and of properties (`P31`), whatever their prefixes. An id of
    another graph is a property's if it stands as a predicate."""

    entities: frozenset[str]
    properties: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """All of them."""
        return self.entities | self.properties


def ids_of(text: str) -> Ids:
    """Return the ids in a query: all URIs but those of common vocabularies. The text need not be right SPARQL, and ids of
    Wikidata may be in lower case, as models write them.

    >>> found = ids_of("select ?x { wd:q42 wdt:P31/wdt:P279* <http://www.wikidata.org/entity/Q5> ; rdfs:label 'wd:Q7'")
    >>> sorted(found.entities), sorted(found.properties)
    (['Q42', 'Q5'], ['P279', 'P31'])
    """
    uris = list(Prologue(tokens_of(text)).uris())
    found = frozenset(term.name.upper() for term in uris if term.namespace and ID.fullmatch(term.name.upper()))
    properties = frozenset(name for name in found if name.startswith("P"))
    others = frozenset(id_of_entity(term.name) for term in uris if not term.namespace and not term.is_vocabulary)
    if others:
        with suppress(QueryError):
            properties |= others & {id_of_entity(iri) for iri in predicates_of(read_sparql(text).query)}
    return Ids((found | others) - properties, properties)


def unknown_ids(texts: Iterable[str], known: Callable[[Sequence[str]], Collection[str]]) -> list[frozenset[str]]:
    """Return the ids in each query that a knowledge base does not have: URIs that were made up.

    `known` returns those of some ids that it has, such as `index.names_of`.

    >>> unknown_ids(["ASK { wd:Q1 wdt:P2 ?x }", "ASK {}"], lambda ids: {"Q1"})
    [frozenset({'P2'}), frozenset()]
    """
    found = [ids_of(text).all for text in texts]
    wanted = sorted(frozenset().union(*found))
    existing = set(known(wanted)) if wanted else set()
    return [ids - existing for ids in found]


_BESIDES = dict.fromkeys(DESCRIPTIONS, ("schema:description", False)) | {ALIAS_OF: ("skos:altLabel", True)}
"""Predicates of facts that are no property: what RDF has for them, and whether they read it backwards."""
_USE = re.compile(rf"({'|'.join(prefix for prefix, iri in PREFIXES.items() if iri in NAMESPACES - {ENTITY})}):(<?)")
"""A prefix of a use of properties, before the bracket or the name within it."""


class LabelError(InputError):
    """A label that nothing of the index has, or several."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A query with labels, as it was written and with IRIs.

    `tokens`: of the text; `texts`: what stands in place of a token, by its number; `resolved`: labels that were taken
    as another name.
    """

    tokens: tuple[Token, ...]
    texts: Mapping[int, str]
    resolved: tuple[LinkedName, ...] = ()

    @property
    def sparql(self) -> str:
        """The query with IRIs."""
        return self.of((0, len(self.tokens)))

    def of(self, span: Span) -> str:
        """Return the text of some tokens, with IRIs."""
        return text_of(self.tokens, span, self.texts)


def has_labels(text: str) -> bool:
    """Return whether a query has labels in angle brackets, or IRIs that may be such.

    >>> [has_labels(f"ASK {{ {name} ?p '<Ann Lee>' }}") for name in ("<Ann Lee>", "<http://a>", "<wd:Q1>")]
    [True, False, True]
    """
    return any(token.kind == "label" or _may_be_label(token) for token in tokens_of(text))


def _may_be_label(token: Token) -> bool:
    """Return whether a token has the form of an IRI, but may be a name: `<UTC+01:00>`, `<wd:Q42>`."""
    return token.kind == "iri" and ":" in token.label and may_be_written(token.label)


def with_iris(text: str, facts: TreeFacts, *, clearly: bool = False) -> Labelled:
    """Return a query with IRIs in place of labels. `clearly`: a label of several entities has to mean one that has twice as
    many facts as the next.

        with_iris("SELECT ?x { <Louisiana> <nickname> ?x }", TreeFacts(index)).sparql
        # "SELECT ?x { wd:Q1588 wdt:P1449 ?x }"

    Raises LabelError, with line, column and the nearest names, if a label has no meaning, or no clear one; SparqlSyntaxError or
    QueryRefusedError if the text is no query; and as `Index.children` does.
    """
    text = read_query(text)
    tokens = tokens_of(text)
    if any(one.kind == "name" and two.kind in ("label", "iri") for one, two in pairwise(tokens)):
        text = _with_uses_in_brackets(tokens)
        tokens = tokens_of(text)
    for at, token in enumerate(tokens):
        label = token.label
        if _may_be_label(token) and (
            _use_of(label)[0]
            or len(ids_written_as(label)) > 1
            or facts.linker.entity(label)
            or facts.linker.predicate(label)
        ):
            before = next((one for one in reversed(tokens[:at]) if not one.is_space), None)
            if before is None or not before.text.endswith(":"):  # which is declared
                tokens[at] = token._replace(kind="label")
    if not any(token.kind == "label" for token in tokens):
        return Labelled(tuple(tokens), {})
    check_query(text)
    try:
        parsed = parse(tokens)
    except ParseError as error:
        line, column = line_and_column(text, tokens[error.at].start if error.at < len(tokens) else len(text))
        raise SparqlSyntaxError(
            f"names in angle brackets are read in SPARQL 1.1 alone: line {line}, column {column} is beyond it"
        ) from None
    return _LabelReader(text, tokens, parsed.query, parsed.prologue, facts, clearly=clearly).labelled()


def _with_uses_in_brackets(tokens: Sequence[Token]) -> str:
    """Return a query with each prefix of a use of properties within the bracket that follows it: `<p:head of government>`."""
    texts, prologue = [token.text for token in tokens], Prologue(tokens)
    for at, (one, two) in enumerate(pairwise(tokens)):
        is_name = one.kind == "name" and two.kind in ("label", "iri") and at >= prologue.body
        if is_name and _USE.fullmatch(one.text) and prologue.iri(one) in NAMESPACES:
            texts[at], texts[at + 1] = "", f"<{one.text}{two.label}>"
    return "".join(texts)


def _use_of(label: str) -> tuple[str, str]:
    """Return the prefix of a label, if that says how a property is used, and the name after it."""
    match = _USE.match(label)
    return (match[1], label[match.end() :]) if match is not None else ("", label)


class _Property(NamedTuple):
    """A predicate: its name in the index (None: it has none), its IRI, and whether it reads that backwards."""

    name: str | None
    iri: str
    inverse: bool


class _LabelReader:
    """The labels of a query with what they mean."""

    def __init__(
        self, text: str, tokens: list[Token], query: QueryTree, prologue: Prologue, facts: TreeFacts, *, clearly: bool
    ) -> None:
        self._text, self._tokens, self._clearly = text, tokens, clearly
        self._facts, self._linker = facts, facts.linker
        self._triples = list(triples_of(query))
        self._values = [node for node in nodes(query) if isinstance(node, Values)]
        self._resolved: dict[str, LinkedName] = {}
        self._redeclared = prologue.declared.keys() & PREFIXES.keys()

    def labelled(self) -> Labelled:
        texts = dict[int, str]()
        in_paths = {at for triple in self._triples for at in range(*triple.path.span)}
        for values in self._values:
            for number, variable in enumerate(values.variables):
                if any(triple.path == variable for triple in self._triples):
                    column = [cell.span[0] for row in values.rows if (cell := row[number]) is not None]
                    texts |= {at: self._constant(at) for at in column if self._tokens[at].kind == "label"}
        for at, token in enumerate(self._tokens):
            if token.kind == "label" and at not in texts:
                texts[at] = self._path(at) if at in in_paths else self._entity(at)
        return Labelled(tuple(self._tokens), texts, tuple(self._resolved.values()))

    # --- Predicates

    def _path(self, at: int) -> str:
        """Return a predicate as an element of a path."""
        found = self._property(at)
        if not found.inverse:
            return found.iri
        before, after = self._beside(at, -1), self._beside(at, 1)
        is_joined = before in ("^", "!") or after in ("*", "+", "?")
        return f"(^{found.iri})" if is_joined else f"^{found.iri}"

    def _constant(self, at: int) -> str:
        """Return a predicate as a value of a variable."""
        found = self._property(at)
        if found.inverse:
            raise self._error(
                at, "reads a property backwards, and cannot be a value: write ^ and the property in a path"
            )
        return found.iri

    def _property(self, at: int) -> _Property:
        use, label = _use_of(self._tokens[at].label)
        label = written_part(label)
        if label in _BESIDES and not use:
            term, inverse = _BESIDES[label]
            return _Property(label, self._declared(term), inverse)
        found = self._linker.predicate(label) or self._linker.predicate(label, self._subjects_of(at))
        if found is not None:
            if found.name != label:
                self._resolved.setdefault(found.name, found)
            known = self._known(found.name)
            return known if not use else self._used(at, use, known)
        if self._linker.has_no_properties:
            return self._known(label)
        raise self._error(at, "is no property of the index", self._linker.near_predicates(label))

    def _used(self, at: int, use: str, known: _Property) -> _Property:
        """Return a property of Wikidata in another use: `p:P39`."""
        id_ = known.iri.removeprefix("wdt:")
        if known.inverse or ID.fullmatch(id_) is None:
            what = "reads a property backwards" if known.inverse else "has no id of Wikidata"
            raise self._error(at, f"{what}: {use}: stands before the name of a property that has one")
        return known._replace(iri=self._declared(f"{use}:{id_}"))

    def _subjects_of(self, at: int) -> list[str]:
        """Return the entities that the subject before a predicate may mean."""
        subjects = [
            written_part(self._tokens[triple.subject.span[0]].label)
            for triple in self._triples
            if triple.path.span[0] <= at < triple.path.span[1] and self._tokens[triple.subject.span[0]].kind == "label"
        ]
        return [name for subject in subjects for name in (subject, *self._linker.namesakes(subject))]

    def _known(self, name: str) -> _Property:
        described = self._facts.describe([name]).get(name)
        if described is None or described.id is None:
            return _Property(name, f"<{own(name).value}>", False)
        return _Property(name, self._declared(property_term(described.id)), described.inverse)

    # --- Entities

    def _entity(self, at: int) -> str:
        label = written_part(self._tokens[at].label)
        beside = dict.fromkeys(self._beside_path(triple, at) for triple in self._triples)
        try:
            found = self._linker.entity(label, list(filter(None, beside)), clearly=self._clearly, of_alias=True)
        except AmbiguousNameError as error:
            raise LabelError(f"{self._place(at)}: {error}") from None
        if found is None:
            raise self._error(at, "is the name of nothing in the index", self._linker.suggestions(label))
        if not found.is_as_written:
            self._resolved.setdefault(found.name, found)
        id_ = self._facts.ids([found.name]).get(found.name)
        return f"<{own(found.name).value}>" if id_ is None else self._declared(entity_term(id_))

    def _beside_path(self, triple: TriplePattern, at: int) -> str | None:
        """Return the predicate that a triple says of its subject or object, if this is the token; for an object, the
        one that has the same facts the other way."""
        path = [number for number in range(*triple.path.span) if not self._tokens[number].is_space]
        is_subject = triple.subject.span == (at, at + 1)
        if triple.is_listed or (not is_subject and triple.object.span != (at, at + 1)):
            return None
        signs = [self._tokens[number].text for number in path if self._tokens[number].kind == "other"]
        if any(sign not in ("+", "/", "^") for sign in signs):  # `*` leads to the entity itself
            return None
        ends = [path[0]] if is_subject else [number for number in path if self._tokens[number].kind != "other"][-1:]
        if is_subject and self._tokens[path[0]].text == "^":
            ends = path[1:2]
        if not ends:
            return None
        found = self._named_property(ends[0])
        if found is None or found.name is None:
            return None
        backwards = self._beside(ends[0], -1) == "^"
        return found.name if backwards != is_subject else self._facts.inverse_of(found.name)

    def _named_property(self, at: int) -> _Property | None:
        token = self._tokens[at]
        if token.kind == "label":
            return self._property(at)
        prefix, _, id_ = token.text.partition(":")
        if token.kind == "iri":
            id_ = id_of_property(token.text[1:-1])
        elif token.kind != "name" or prefix != "wdt" or "wdt" in self._redeclared:
            return None
        name = self._facts.names([id_]).get(id_)
        return _Property(name, token.text, False)

    # --- Texts

    def _beside(self, at: int, step: int) -> str:
        """Return the text of the next token that is no space, or of the one before; empty if there is none."""
        at += step
        while 0 <= at < len(self._tokens) and self._tokens[at].is_space:
            at += step
        return self._tokens[at].text if 0 <= at < len(self._tokens) else ""

    def _declared(self, term: str) -> str:
        """Return a term with a usual prefix, or its whole IRI where the query declares that as another one."""
        prefix, _, local = term.partition(":")
        return f"<{PREFIXES[prefix]}{local}>" if prefix in self._redeclared else term

    def _place(self, at: int) -> str:
        line, column = line_and_column(self._text, self._tokens[at].start)
        return f"line {line}, column {column}"

    def _error(self, at: int, what: str, near: Sequence[Suggestion] = ()) -> LabelError:
        return LabelError(f"{self._place(at)}: {self._tokens[at].text} {what}{did_you_mean(near)}")


MOST = 30
"""The most completions."""
SAMPLE = 20
"""The most entities that stand for a variable."""


def completions(typed: str, facts: TreeFacts) -> list[str]:
    """Return completions of what follows the last `<` of a query, with the closing bracket.

        completions("SELECT ?x { <Louisiana> <nick", facts)  # ["nickname>"]

    A predicate is one that the subject has, or one of the index if the subject is not known. Raises as `Index.children`
    does.
    """
    before, opened, begun = typed.rpartition("<")
    if not opened or ">" in begun:
        return []
    if (use := re.search(rf"(?<![\w:]){_USE.pattern}$", before)) is not None:
        before = before[: use.start()]
    found = _FollowingNames(tokens_of(before), facts).following(begun)
    return list(dict.fromkeys(f"{name}>" for name in found if name.startswith(begun)))[:MOST]


class _FollowingNames:
    """The names that may follow the tokens of a query."""

    def __init__(self, tokens: list[Token], facts: TreeFacts) -> None:
        self._tokens, self._facts, self._linker = tokens, facts, facts.linker
        self._cursor = cursor_of(tokens)

    def following(self, begun: str) -> Iterable[str]:
        cursor = self._cursor
        if cursor.wants == "path":
            last = next((token.text for token in reversed(self._tokens) if not token.is_space), "")
            is_first = last not in ("/", "|", "^", "!", "(")
            subjects = [] if cursor.subject is None or not is_first else self._members(cursor.subject)
            if found := list(dict.fromkeys(name for one in subjects[:SAMPLE] for name in self._facts.predicates(one))):
                return found
            return self._linker.predicates_beginning(begun)
        if cursor.wants == "object" and cursor.subject is not None:
            predicate = self._label(cursor.path)
            found = self._objects(self._members(cursor.subject), predicate) if predicate else []
            if found:
                return found
        return self._linker.entities_beginning(begun, MOST)

    def _members(self, term: Term, depth: int = 4) -> Sequence[str]:
        """Return names that a term may be: of a label, or of a variable that a triple before leads to."""
        if depth == 0:
            return []
        if (label := self._label(term)) is not None:
            if self._facts.predicates(label):
                return [label]
            return self._linker.namesakes(label)[:SAMPLE]
        if term.kind == "variable":
            for triple in self._cursor.triples:
                predicate = self._label(triple.path)
                if triple.object == term and not triple.is_within and predicate is not None:
                    return self._objects(self._members(triple.subject, depth - 1), predicate)[:SAMPLE]
        return []

    def _label(self, part: Term | Path | None) -> str | None:
        token = None if part is None or part.span[1] - part.span[0] != 1 else self._tokens[part.span[0]]
        return token.label if token is not None and token.kind == "label" else None

    def _objects(self, subjects: Sequence[str], predicate: str) -> list[str]:
        pairs = islice(self._facts.objects(subjects[:SAMPLE], predicate), 10 * SAMPLE)
        return list(dict.fromkeys(object_ for _, object_ in pairs))
