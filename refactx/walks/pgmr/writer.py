"""SPARQL as PGMR text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from refactx.walks.language import QueryError
from refactx.walks.pgmr.mentions import Kind, Names, Placeholder, clean_mention, write_mapping
from refactx.walks.pgmr.reader import PLACEHOLDER
from refactx.walks.sparql.parser import read_sparql
from refactx.walks.sparql.prologue import DIRECT, ENTITY, Prologue, Uri
from refactx.walks.sparql.tokens import joined, tokens_of

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

    Only ids are replaced: those of Wikidata, and other URIs that have names. The rest, and strings that contain ids, stay.
    Raises QueryError if the text is not SPARQL, if an id of Wikidata has no name, or if a name contains marks of PGMR;
    and as `names` does.
    """
    prologue = Prologue(tokens_of(sparql, inline=True))
    read_sparql(sparql)  # raises QueryError with line and column
    uris = list(prologue.uris())
    mentions = _mentions(uris, names)
    terms = [(term, id_) for term in uris if (id_ := term.id) is not None and id_ in mentions]
    placeholders = _placeholders(mentions)
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


def _mentions(terms: Sequence[Uri], names: Names) -> dict[str, Placeholder]:
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


def _placeholders(mentions: Mapping[str, Placeholder]) -> dict[str, str]:
    """Return the placeholders of ids, numbered by kind."""
    found, numbers = dict[str, str](), {"entity": 0, "relation": 0}
    for id_, mention in mentions.items():
        numbers[mention.kind] += 1
        found[id_] = f"{mention.kind}{numbers[mention.kind]}"
    return found


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
