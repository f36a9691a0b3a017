"""SPARQL as PGMR text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from refactx.query.language import QueryError
from refactx.query.pgmr.mentions import Kind, Names, Placeholder, clean_mention, kind_of, write_mapping
from refactx.query.pgmr.reader import PLACEHOLDER
from refactx.query.sparql.parser import read_sparql
from refactx.query.sparql.prologue import ENTITY, NAMESPACES, Prologue, Uri, split_uri
from refactx.query.sparql.tokens import joined, tokens_of
from refactx.query.sparql.tree import shape_of

Dialect = Literal["block", "inline"]
"""`block`: placeholders, and a mapping block after the query; `inline`: labels in the query, `starturi Label enduri`."""


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
LINE_END = "\n"


def to_pgmr(sparql: str, names: Names, style: Style = DEFAULT_STYLE) -> str:
    """Return a SPARQL query as PGMR text: with placeholders for its entities and properties, and what these are called.

        >>> print(to_pgmr("SELECT ?x { wd:Q1588 wdt:P1449 ?x }", IndexNames(index)))  # doctest: +SKIP
        SELECT ?x { wd:entity1 wdt:relation1 ?x }
        entity1 = [ENT] Louisiana [/ENT] state of the United States of America
        relation1 = [REL] nickname [/REL] informal name (for a pseudonym use P742)

    Only ids are replaced. Other URIs, and strings that contain ids, stay. Raises QueryError if the text is not SPARQL,
    if an id has no name, or if a name contains marks of PGMR; and as `names` does.
    """
    prologue = Prologue(tokens_of(sparql, inline=True))
    terms = list(prologue.uris())
    placeholders = _placeholders(terms)
    shape = shape_of(read_sparql(sparql).query, lambda uri: _renamed(uri, placeholders))
    _check_ids(terms)
    mentions = _mentions(placeholders, names)
    query = prologue.tokens if style.prefixes else prologue.without_known()
    texts = {term.start: term.renamed(placeholders[term.id]) for term in terms if term.id is not None}
    block = joined(query, texts, lower=style.lower, one_line=style.one_line)
    if shape_of(read_sparql(block).query) != shape:
        raise QueryError(f"not all URIs of this query can be told apart: write them with prefixes: {sparql!r}")
    if style.dialect == "inline":
        labels = _labels(mentions, style)
        texts = {term.start: _inline(term, labels) for term in terms if term.id is not None}
        return joined(query, texts, lower=style.lower, one_line=style.one_line)
    by_placeholder = {placeholders[id_]: mention for id_, mention in mentions.items()}
    mapping = write_mapping(by_placeholder, lower=style.lower, one_line=style.one_line)
    return f"{block}{' ' if style.one_line else LINE_END}{mapping}" if mapping else block


def _check_ids(terms: Iterable[Uri]) -> None:
    """Raise QueryError if a URI is an id in lower case or with the prefix of another kind: no engine would find it."""
    for term in terms:
        if term.is_misspelt():
            raise QueryError(
                f"{term.text} is no id of Wikidata: write it in upper case, {term.renamed(term.name.upper())}"
            )
        if term.id is not None and term.namespace != ENTITY and not term.id.startswith("P"):
            raise QueryError(f"{term.text} is no property of Wikidata: write wd:{term.id}, or an id such as P31")


def _placeholders(terms: Sequence[Uri]) -> dict[str, str]:
    """Return the placeholders of ids, numbered by kind in their order in the query."""
    found, numbers = dict[str, str](), {"entity": 0, "relation": 0}
    for term in terms:
        if term.id is not None and term.id not in found:
            kind = kind_of(term.id)
            numbers[kind] += 1
            found[term.id] = f"{kind}{numbers[kind]}"
        elif term.id is None and PLACEHOLDER.fullmatch(term.name):
            raise QueryError(f"{term.text} is a placeholder already: expected SPARQL with ids, such as wd:Q42")
    return found


def _renamed(uri: str, placeholders: Mapping[str, str]) -> str:
    namespace, name = split_uri(uri)
    return f"{namespace}{placeholders.get(name, name)}" if namespace in NAMESPACES else uri


def _mentions(ids: Iterable[str], names: Names) -> dict[str, Placeholder]:
    wanted = list(ids)
    found = names.mentions(wanted) if wanted else {}
    if missing := [id_ for id_ in wanted if id_ not in found]:
        raise QueryError(f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no name")
    return {id_: clean_mention(found[id_], id_) for id_ in wanted}


def _labels(mentions: Mapping[str, Placeholder], style: Style) -> dict[str, str]:
    """Return the labels of ids, which are not those of others of the kind in the query."""
    labels = {id_: mention.label.lower() if style.lower else mention.label for id_, mention in mentions.items()}
    ids = dict[tuple[Kind, str], str]()
    for id_, label in labels.items():
        other = ids.setdefault((kind_of(id_), label), id_)
        if other != id_:
            raise QueryError(f"{other} and {id_} are both called {label}: the inline dialect does not tell them apart")
    return labels


def _inline(term: Uri, labels: Mapping[str, str]) -> str:
    id_ = term.id or ""
    if (term.namespace == ENTITY) != (kind_of(id_) == "entity"):
        raise QueryError(
            f"{term.text} is a property that stands for an entity, for which the inline dialect has no mark"
        )
    return term.renamed(f"starturi {labels[id_]} enduri")
