"""The ids of entities and properties in a query: right sets of them (Qid-EM, Pid-EM), and ids that do not exist."""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from refactx.walks.language import QueryError
from refactx.walks.sparql.parser import read_sparql
from refactx.walks.sparql.prologue import ID, Prologue, id_of_entity
from refactx.walks.sparql.tokens import tokens_of
from refactx.walks.sparql.tree import predicates_of


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


def unknown_ids(texts: Iterable[str], known: Callable[[Collection[str]], Collection[str]]) -> list[frozenset[str]]:
    """Return the ids in each query that a knowledge base does not have: URIs that were made up.

    `known` returns those of some ids that it has, such as `index.names_of`.

    >>> unknown_ids(["ASK { wd:Q1 wdt:P2 ?x }", "ASK {}"], lambda ids: {"Q1"})
    [frozenset({'P2'}), frozenset()]
    """
    found = [ids_of(text).all for text in texts]
    existing = set(known(sorted(frozenset().union(*found))))
    return [ids - existing for ids in found]
