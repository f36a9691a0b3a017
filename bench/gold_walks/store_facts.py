"""A set of facts on a SPARQL store: names, and facts both ways, as an index of the same claims has them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pyoxigraph import Literal, NamedNode, Quad, Store

from refactx.english import inverse_of
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Link, Qualifiers, clean_part
from refactx.ingest.parsers.values import DATES, DECIMALS, format_literal
from refactx.iris import OWN_PREFIXES as PREFIXES
from refactx.walks.language import Predicate, ValueKind

LABEL, ALT_LABEL = NamedNode(PREFIXES["rdfs"] + "label"), NamedNode(PREFIXES["skos"] + "altLabel")
DESCRIPTION = NamedNode(PREFIXES["schema"] + "description")
_INVERSE_PROPERTY = NamedNode(PREFIXES["wdt"] + "P1696")


class StoreFacts:
    """The facts of a store of Wikidata's claims (`refactx.walks.language.FactSet`), with inverse facts and aliases.

    `hub`: an object with more subjects by one property has no inverse facts by it.
    """

    def __init__(self, store: Store, hub: int = 1000) -> None:
        self._store, self._hub = store, hub
        labels, descriptions = self._texts(LABEL), self._texts(DESCRIPTION)
        self._names = _unique_names(labels, descriptions)
        self._ids = {name: id_ for id_, name in self._names.items()}
        kinds: dict[str, set[ValueKind]] = defaultdict(set)
        for quad in store:
            if quad.predicate.value.startswith(PREFIXES["wdt"]):
                kinds[_id(quad.predicate)].add(_kind(quad.object))
        self._predicates = {DESCRIPTIONS[0]: Predicate(DESCRIPTIONS[0], None, False, "text")}
        self._predicates[ALIAS_OF] = Predicate(ALIAS_OF, None, False, "entity")
        self._inverse: dict[str, str] = {}
        for id_, found in kinds.items():
            if id_ in self._names:
                self._predicates[self._names[id_]] = Predicate(self._names[id_], id_, False, _common(found))
                if "entity" in found:
                    self._inverse[self._names[id_]] = self._inverse_name(id_)
        for name, inverse in list(self._inverse.items()):
            if inverse not in self._predicates:
                self._predicates[inverse] = Predicate(inverse, self._predicates[name].id, True, "entity")
                self._inverse[inverse] = name

    def predicates(self, subject: str) -> Mapping[str, int]:
        alias = self.counts([subject], ALIAS_OF)[0]
        if subject not in self._ids:
            return {ALIAS_OF: alias} if alias else {}
        node = self._node(subject)
        ids = {_id(quad.predicate) for quad in self._store.quads_for_pattern(node, None, None)}
        ids |= {_id(quad.predicate) for quad in self._store.quads_for_pattern(None, None, node)}
        names = [name for id_ in ids if (name := self._names.get(id_)) in self._predicates and name]
        names += [self._inverse[name] for name in names if name in self._inverse]
        return {name: n for name in {*names, DESCRIPTIONS[0]} if (n := self.counts([subject], name)[0])}

    def describe(self, predicates: Sequence[str]) -> Mapping[str, Predicate]:
        return {name: self._predicates[name] for name in predicates if name in self._predicates}

    def link(self, name: str, id_: str | None) -> Link:
        return Link(name, id_)

    def inverse_of(self, predicate: str) -> str | None:
        return self._inverse.get(predicate)

    def counts(self, subjects: Sequence[str], predicate: str) -> Sequence[int]:
        return [len(set(self._terms(subject, predicate))) for subject in subjects]

    def is_hub(self, subject: str, predicate: str) -> bool:
        found = self._predicates.get(predicate)
        return found is not None and found.inverse and self.counts([subject], predicate)[0] > self._hub

    def objects(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str]]:
        for subject in subjects:
            yield from ((subject, object_) for object_ in self._objects(subject, predicate))

    has_statements = False

    def statements(self, subjects: Sequence[str], predicate: str) -> Iterator[tuple[str, str, Qualifiers]]:
        yield from ((subject, value, ()) for subject, value in self.objects(subjects, predicate))

    def hold(self, facts: Sequence[tuple[str, str, str]]) -> Sequence[bool]:
        return [object_ in self._objects(subject, name) for subject, name, object_ in facts]

    def ids(self, names: Sequence[str]) -> Mapping[str, str]:
        return {name: self._ids[name] for name in names if name in self._ids}

    def names(self, ids: Sequence[str], *, inverse: bool = False) -> Mapping[str, str]:
        found = {id_: self._names[id_] for id_ in ids if id_ in self._names}
        return {id_: self._inverse[one] for id_, one in found.items() if one in self._inverse} if inverse else found

    def _objects(self, subject: str, predicate: str) -> Sequence[str]:
        if self.is_hub(subject, predicate):
            return []
        return sorted({name for term in self._terms(subject, predicate) if (name := self.text(term))})

    def _terms(self, subject: str, predicate: str) -> Iterator[object]:
        """Yield the objects of the facts of a subject with a predicate, those of hubs too."""
        found = self._predicates.get(predicate)
        if predicate == ALIAS_OF:
            alias = Literal(subject.removesuffix(ALIAS), language="en")
            quads = self._store.quads_for_pattern(None, ALT_LABEL, alias) if subject.endswith(ALIAS) else ()
            yield from (quad.subject for quad in quads)
        elif subject in self._ids and predicate == DESCRIPTIONS[0]:
            yield from (q.object for q in self._store.quads_for_pattern(self._node(subject), DESCRIPTION, None))
        elif subject in self._ids and found is not None:
            node, other = self._node(subject), self._predicates.get(self._inverse.get(predicate, ""))
            if not found.inverse:
                yield from (quad.object for quad in self._claims(node, found, None))
                found = other if other is not None and not other.inverse else None  # the other's facts, read backwards
            if found is not None:
                yield from (quad.subject for quad in self._claims(None, found, node))

    def text(self, term: object) -> str | None:
        """Return a term of the store as facts have it; None if it is in no fact."""
        if isinstance(term, NamedNode):
            return self._names.get(_id(term))
        if not isinstance(term, Literal):
            return None
        return clean_part(term.value if term.language else format_literal(term.value, term.datatype.value) or "")

    def _claims(self, subject: NamedNode | None, predicate: Predicate, object_: NamedNode | None) -> Iterator[Quad]:
        return self._store.quads_for_pattern(subject, NamedNode(f"{PREFIXES['wdt']}{predicate.id}"), object_)

    def _node(self, name: str) -> NamedNode:
        return NamedNode(PREFIXES["wd"] + self._ids[name])

    def _texts(self, predicate: NamedNode) -> dict[str, str]:
        quads = self._store.quads_for_pattern(None, predicate, None)
        return {_id(quad.subject): clean_part(quad.object.value) for quad in quads if quad.object.language == "en"}

    def _inverse_name(self, id_: str) -> str:
        """Return the inverse property, if there is one, or else a name by the rules for labels."""
        node = NamedNode(PREFIXES["wd"] + id_)
        others = {_id(quad.object) for quad in self._store.quads_for_pattern(node, _INVERSE_PROPERTY, None)}
        others |= {_id(quad.subject) for quad in self._store.quads_for_pattern(None, _INVERSE_PROPERTY, node)}
        if len(others) == 1 and (name := self._names.get(next(iter(others)))) is not None:
            return name
        name = inverse_of(self._names[id_])
        return name if name not in self._ids else f"{name} ({id_})"


def _unique_names(labels: Mapping[str, str], descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return names by id: labels of properties; labels of items with descriptions; with ids where these are equal."""
    names = {id_: label for id_, label in labels.items() if label and id_[0] == "P"}
    for id_, label in labels.items():
        if label and id_[0] == "Q":
            names[id_] = f"{label} ({descriptions[id_]})" if id_ in descriptions else label
    taken = Counter(names.values())
    properties = Counter(name for id_, name in names.items() if id_[0] == "P")
    return {
        id_: f"{labels[id_]} ({id_})" if taken[name] > 1 and (id_[0] == "Q" or properties[name] > 1) else name
        for id_, name in names.items()
    }


def _id(node: NamedNode) -> str:
    return node.value.rpartition("/")[2]


def _kind(term: object) -> ValueKind:
    if not isinstance(term, Literal):
        return "entity"
    if term.datatype.value in DATES:
        return "time"
    if term.datatype.value in DECIMALS:
        return "quantity"
    return "coordinates" if term.datatype.value.endswith("wktLiteral") else "text"


def _common(kinds: set[ValueKind]) -> ValueKind:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "mixed" if "entity" in kinds else "literal"
