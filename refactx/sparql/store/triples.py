"""The triples of facts: each fact gives one, or none if it is an inverse fact, and names give labels.

A fact alone, with the ids and kinds of names, decides its triple. So the triples of a store are the union of those of
the index's facts, in any order, and of the labels of names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from pyoxigraph import Literal, NamedNode, Quad

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact
from refactx.index import Named
from refactx.query.values import bare_name
from refactx.sparql.store.terms import (
    ALT_LABEL,
    DATE_TIME,
    DESCRIPTION,
    LABEL,
    entity,
    is_compared,
    literal,
    name_of_own,
    own,
    property_,
    value_literal,
)

FindNames = Callable[[set[str]], Mapping[str, Named]]
"""A lookup of names, without those that have no id."""


class Triples:
    """The triples of facts and of names. `find` looks names up.

    `language`: the tag of labels, descriptions and aliases. `described`: whether the facts have descriptions.
    `odd_dates`: for the IRIs of predicates whose triples have dates that engines do not compare, one of them.
    """

    def __init__(self, find: FindNames, language: str = "en", described: bool = True) -> None:
        self._find, self._language, self._described = find, language, described
        self.odd_dates: dict[str, str] = {}

    def of(self, facts: Sequence[Fact]) -> list[Quad | None]:
        """Return the triple of each fact; None for an inverse fact. `find` is called twice, for any number of facts."""
        named = self._find({name for fact in facts for name in (fact.subject, fact.predicate)})
        objects = self._find({fact.object for fact in facts if _may_name(fact, named.get(fact.predicate))})
        return [self._triple(fact, named, objects) for fact in facts]

    def label(self, name: str, named: Named | None, descriptions: Iterable[str] = ()) -> Quad:
        """Return the triple of a name's label, given its entity (None: it has no id) and the entity's descriptions."""
        iri = own(name) if named is None else entity(named.id)
        text = name if named is None else label_of(name, named.id, descriptions, described=self._described)
        return Quad(iri, LABEL, self._text(text))

    def _triple(self, fact: Fact, named: Mapping[str, Named], objects: Mapping[str, Named]) -> Quad | None:
        predicate = named.get(fact.predicate)
        if predicate is None and fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS):
            return Quad(_node(fact.object, objects), ALT_LABEL, self._text(fact.subject.removesuffix(ALIAS)))
        subject = _node(fact.subject, named)
        if predicate is None:
            if fact.predicate in DESCRIPTIONS:
                return Quad(subject, DESCRIPTION, self._text(fact.object))
            value = value_literal(fact.object, None)
            return self._valued(subject, own(fact.predicate), fact.object, value or _node(fact.object, objects))
        kind = predicate.object_kind
        if kind == "inverse":
            return None
        if kind in ("entity", "mixed") and (kind == "entity" or fact.object in objects):
            return Quad(subject, property_(predicate.id), _node(fact.object, objects))
        return self._valued(subject, property_(predicate.id), fact.object, literal(fact.object, kind))

    def _valued(self, subject: NamedNode, predicate: NamedNode, text: str, value: Literal | NamedNode) -> Quad:
        if isinstance(value, Literal) and value.datatype == DATE_TIME and not is_compared(text):
            self.odd_dates.setdefault(predicate.value, text)
        return Quad(subject, predicate, value)

    def _text(self, text: str) -> Literal:
        return Literal(text, language=self._language)


def label_of(name: str, id_: str, descriptions: Iterable[str] = (), *, described: bool = True) -> str:
    """Return the label of an entity, given its name: without its id and description in parentheses.

    `described`: whether descriptions are known at all; if not, what is in the first parentheses counts as one.

    >>> label_of("Paris (Q90)", "Q90"), label_of("Up (film of 2009)", "Q174811", ["film of 2009"])
    ('Paris', 'Up')
    >>> label_of("Up (song)", "Q1", ["song of 2010"]), label_of("Up (film of 2009)", "Q1", described=False)
    ('Up (song)', 'Up')
    """
    name = name.removesuffix(f" ({id_})")
    if not described:
        return bare_name(name)
    return next((name.removesuffix(f" ({d})") for d in descriptions if name.endswith(f" ({d})")), name)


def _may_name(fact: Fact, predicate: Named | None) -> bool:
    """Return whether the object of a fact may be a name."""
    if predicate is None:
        return fact.predicate not in DESCRIPTIONS
    return predicate.object_kind in ("entity", "mixed")


def _node(name: str, named: Mapping[str, Named]) -> NamedNode:
    found = named.get(name)
    return own(name) if found is None else entity(found.id)


def own_names(triple: Quad) -> list[str]:
    """Return the names without ids that a triple is about: they have labels of their own."""
    nodes = (node for node in (triple.subject, triple.predicate, triple.object) if isinstance(node, NamedNode))
    return [name for node in nodes if (name := name_of_own(node.value)) is not None]
