"""The triples of facts: each fact gives one, or none if it is an inverse fact or has qualifiers
(`refactx.sparql.store.statements`), and names give labels.

A fact alone, with the ids and kinds of names, decides its triple. So the triples of a store are the union of those of
the index's facts, in any order, of the labels of names, and of those of properties (`wd:P57 wikibase:directClaim wdt:P57`).

Items are `wd:Q42`, properties `wd:P57`, as predicates `wdt:P57`; other ids are IRIs themselves, or
`urn:refactx:id:` and the key. A name without an id, as all names of ready-made facts
and tables are, is `urn:refactx:` and the name, percent-encoded.

Literals are those that the dump had, as far as a fact tells (docs/reference/names-and-values.md):

| value | literal |
|---|---|
| `1956-10-20` | `"1956-10-20T00:00:00Z"^^xsd:dateTime` |
| `1956-10`, `1956` | `"1956-10-00T00:00:00Z"^^xsd:dateTime`, `"1956-00-00T00:00:00Z"^^xsd:dateTime` |
| `200 BCE` | `"-0199-01-01T00:00:00Z"^^xsd:dateTime` |
| `4478 metre`, of a property that has amounts alone | `"4478"^^xsd:decimal` |
| `-0.440`, `6.02e+23` | `"-0.440"^^xsd:decimal`, `"6.02e+23"^^xsd:double`, as an ingest writes the numbers of a graph |
| `52.51°N, 13.38°E` | `"Point(13.38 52.51)"^^geo:wktLiteral` |
| `true`, of a property that has not texts alone | `"true"^^xsd:boolean` |
| any other | `"any other"` |
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast
from urllib.parse import quote, unquote

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, Fact
from refactx.index import Named
from refactx.iris import PREFIXES, entity_iri, property_iri
from refactx.linking.names import bare_name
from refactx.walks.values import parse_amount, parse_coordinates, parse_time

LABEL = NamedNode(PREFIXES["rdfs"] + "label")
DESCRIPTION = NamedNode(PREFIXES["schema"] + "description")
ALT_LABEL = NamedNode(PREFIXES["skos"] + "altLabel")
OWN = "urn:refactx:"
"""The beginning of the IRIs of names that have no id."""

_WD = PREFIXES["wd"]
DATE_TIME, _BOOLEAN, DECIMAL, DOUBLE = (
    NamedNode(PREFIXES["xsd"] + name) for name in ("dateTime", "boolean", "decimal", "double")
)
WKT = NamedNode(PREFIXES["geo"] + "wktLiteral")
TYPE = NamedNode(PREFIXES["rdf"] + "type")
_PROPERTY_CLASS, _DIRECT_CLAIM = (NamedNode(PREFIXES["wikibase"] + name) for name in ("Property", "directClaim"))
_PROPERTY = re.compile(r"P[1-9]\d*", re.ASCII)
_TIME = re.compile(r"(\d+)(?:-(\d\d)(?:-(\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?)?)?( BCE)?", re.ASCII)
_LEXICAL = re.compile(r"(-?\d+)((?:-\d\d){2})(T.*)", re.ASCII)
_GLOBE = re.compile(r"\(([^()]+)\)")
_GLOBES = {"Mercury": "Q308", "Venus": "Q313", "Moon": "Q405", "Mars": "Q111"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?", re.ASCII)
_POWER = re.compile(r"-?\d(?:\.\d+)?e[+-]\d+", re.ASCII)
"""Other numbers are texts: a code (`12E4`, `007`, `+43`) would be another one as a number. Numbers that are longer than those
of an engine (pyoxigraph has 38 digits, 18 of them after the point) it shows as they are, and does not compare."""
FindNames = Callable[[set[str]], Mapping[str, Named]]
"""A lookup of names, without those that have no id."""


def entity(id_: str) -> NamedNode:
    """Return the IRI of an item or property.

    >>> entity("Q42").value
    'http://www.wikidata.org/entity/Q42'
    """
    return named_node(entity_iri(id_))


def property_(id_: str) -> NamedNode:
    """Return the IRI of a property as the predicate of triples.

    >>> property_("P57").value
    'http://www.wikidata.org/prop/direct/P57'
    """
    return named_node(property_iri(id_))


def named_node(iri: str) -> NamedNode:
    """Return an IRI of an index as a node, though RFC 3987 may forbid it, as it does `%` that is no escape: dumps have such.

    >>> named_node("http://e.org/100%").value
    'http://e.org/100%'
    """
    try:
        return NamedNode(iri)
    except ValueError:
        (quad,) = parse(f"<{iri}> <urn:x> <urn:x> .", format=RdfFormat.N_TRIPLES, lenient=True)
        return cast(NamedNode, quad.subject)


def own(name: str) -> NamedNode:
    """Return the IRI of a name that has no id.

    >>> own("Danny Boyle").value
    'urn:refactx:Danny%20Boyle'
    """
    return NamedNode(OWN + quote(name, safe=""))


def name_of_own(iri: str) -> str | None:
    """Return the name whose IRI this is; None for the IRI of anything else.

    >>> [name_of_own(iri) for iri in ("urn:refactx:Danny%20Boyle", "urn:refactx:id:NOR", "http://e.org/a")]
    ['Danny Boyle', None, None]
    """
    is_own = iri.startswith(OWN) and ":" not in iri[len(OWN) :]
    return unquote(iri[len(OWN) :]) if is_own else None


def literal(text: str, kind: str | None) -> Literal:
    """Return the literal of a value, given the kind of the property's objects (`refactx.Index.ids_of`).

    If the kind is not known, `1956` is a number and `1956-10` a time.

    >>> literal("44-03-15 BCE", "time").value, literal("1956", "text").value
    ('-0043-03-15T00:00:00Z', '1956')
    >>> texts = ("1956", "1956-10", "0°S, 1.5°E", "true", "b")
    >>> [literal(text, "literal").datatype.value.rpartition("#")[2] for text in texts]
    ['decimal', 'dateTime', 'wktLiteral', 'boolean', 'string']
    """
    if kind == "text":
        return Literal(text)
    if text in ("true", "false") and kind in ("literal", "mixed"):
        return Literal(text, datatype=_BOOLEAN)
    found = value_literal(text, kind)
    return Literal(text) if found is None else found


def value_literal(text: str, kind: str | None) -> Literal | None:
    """Return the literal of a number, a time or a place; None if the text is none that objects of the kind can be."""
    is_open = kind not in ("time", "quantity", "coordinates")
    found = None
    if is_open or kind == "quantity":
        found = _quantity(text.partition(" ")[0] if kind == "quantity" and parse_amount(text) else text)
    if found is None and (is_open or kind == "time"):
        found = _time(text)
    if found is None and (is_open or kind == "coordinates"):
        found = _point(text)
    return found


def is_compared(text: str) -> bool:
    """Return whether a time of a fact is a day of the calendar: engines compare no others, and no years or months alone.

    >>> [is_compared(text) for text in ("1944-02-29", "1942-02-29", "1944-02", "44 BCE")]
    [True, False, False, True]
    """
    match = _TIME.fullmatch(text)
    if match is None or match[2] is None or match[3] is None:
        return match is not None and match[2] is None and match[5] is not None
    year = 1 - int(match[1]) if match[5] else int(match[1])
    return 1 <= int(match[2]) <= 12 and 1 <= int(match[3]) <= monthrange(2000 + year % 400, int(match[2]))[1]


def odd_date(times: Iterable[NamedNode | BlankNode | Literal | Triple]) -> str | None:
    """Return a time of some terms that is not compared, as facts write it; None if all are.

    >>> odd_date([Literal(f"1956-10-{day}T00:00:00Z", datatype=DATE_TIME) for day in ("20", "00")])
    '1956-10'
    """
    for time in times:
        match = _LEXICAL.fullmatch(time.value) if isinstance(time, Literal) and time.datatype == DATE_TIME else None
        if match is not None:
            year, rest = int(match[1]), match[2].replace("-00", "") + match[3].replace("T00:00:00Z", "")
            text = f"{year}{rest}" if year > 0 else f"{1 - year}{rest} BCE"
            if not is_compared(text):
                return text
    return None


def not_compared(name: str, text: str) -> str:
    """Return the note that dates of a predicate, such as one, were left out of a comparison."""
    return f"dates of {name} such as {text} are no xsd:dateTime (no day of the calendar): they are not compared"


def _time(text: str) -> Literal | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    digits, month, day, clock, before = match.groups()
    if parse_time(text.replace(clock, "") if clock else text) is None:
        return None
    if month is None and digits != str(int(digits)):  # a code
        return None
    year = 1 - int(digits) if before else int(digits)
    if before and month is None:  # the dump's 1 January is what made it a year
        month = day = "01"
    lexical = f"{'-' if year < 0 else ''}{abs(year):04}-{month or '00'}-{day or '00'}{clock or 'T00:00:00Z'}"
    return Literal(lexical, datatype=DATE_TIME)


def _quantity(text: str) -> Literal | None:
    if text in ("INF", "-INF", "NaN"):
        return Literal(text, datatype=DOUBLE)
    if _NUMBER.fullmatch(text) and text.strip("-0.") + text[:1] != "-":
        return Literal(text, datatype=DECIMAL)
    return Literal(text, datatype=DOUBLE) if _POWER.fullmatch(text) and repr(float(text)) == text else None


def _point(text: str) -> Literal | None:
    place = parse_coordinates(text)
    if place is None:
        return None
    globe = _GLOBE.search(text)
    name = "" if globe is None else _GLOBES.get(globe[1], globe[1])
    if name and not re.fullmatch(r"Q\d+", name):
        return None
    body = f"<{_WD}{name}> " if name else ""
    return Literal(f"{body}Point({place.east:f} {place.north:f})", datatype=WKT)


class Triples:
    """The triples of facts and of names. `find` looks names up.

    `language`: the tag of labels, descriptions and aliases. `described`: whether the facts have descriptions.
    `odd_dates`: for the IRIs of predicates whose triples have dates that engines do not compare, one of them.
    """

    def __init__(self, find: FindNames, language: str = "en", described: bool = True) -> None:
        self.find, self._language, self._described = find, language, described
        self.odd_dates: dict[str, str] = {}

    def of(self, facts: Sequence[Fact]) -> list[Quad | None]:
        """Return the triple of each fact; None for an inverse fact, and for one with qualifiers, beside its plain fact.

        `find` is called twice, for any number of facts.
        """
        named = self.find({name for fact in facts for name in (fact.subject, fact.predicate)})
        objects = self.find(
            {
                fact.object
                for fact in facts
                if fact.predicate not in DESCRIPTIONS and may_name(named.get(fact.predicate))
            }
        )
        return [self._triple(fact, named, objects) for fact in facts]

    def label(self, name: str, named: Named | None, descriptions: Iterable[str] = ()) -> Quad:
        """Return the triple of a name's label, given its entity (None: it has no id) and the entity's descriptions."""
        iri = own(name) if named is None else entity(named.id)
        text = name if named is None else label_of(name, named.id, descriptions, described=self._described)
        return Quad(iri, LABEL, self._text(text))

    @staticmethod
    def of_property(named: Named) -> list[Quad]:
        """Return the triples that lead from a property of Wikidata to its IRI as a predicate; none for anything else."""
        if _PROPERTY.fullmatch(named.id) is None:
            return []
        iri = entity(named.id)
        return [Quad(iri, TYPE, _PROPERTY_CLASS), Quad(iri, _DIRECT_CLAIM, property_(named.id))]

    def _triple(self, fact: Fact, named: Mapping[str, Named], objects: Mapping[str, Named]) -> Quad | None:
        predicate = named.get(fact.predicate)
        if fact.qualifiers:
            return None
        if predicate is None and fact.predicate == ALIAS_OF and fact.subject.endswith(ALIAS):
            return Quad(node(fact.object, objects), ALT_LABEL, self._text(fact.subject.removesuffix(ALIAS)))
        subject = node(fact.subject, named)
        if predicate is None:
            if fact.predicate in DESCRIPTIONS:
                return Quad(subject, DESCRIPTION, self._text(fact.object))
        elif predicate.object_kind == "inverse":
            return None
        iri = own(fact.predicate) if predicate is None else property_(predicate.id)
        return self._valued(subject, iri, fact.object, value_of(fact.object, predicate, objects))

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


def may_name(predicate: Named | None) -> bool:
    """Return whether a value of a predicate (None: it has no id) may be a name."""
    return predicate is None or predicate.object_kind in ("entity", "mixed")


def value_of(text: str, predicate: Named | None, objects: Mapping[str, Named]) -> Literal | NamedNode:
    """Return the term of a value of a predicate (None: it has no id), given the names among such values that have ids."""
    if predicate is None:
        return value_literal(text, None) or node(text, objects)
    kind = predicate.object_kind
    if kind == "entity" or (kind == "mixed" and text in objects):
        return node(text, objects)
    return literal(text, kind)


def node(name: str, named: Mapping[str, Named]) -> NamedNode:
    """Return the IRI of a name, given those that have ids."""
    found = named.get(name)
    return own(name) if found is None else entity(found.id)


def own_names(triple: Quad) -> list[str]:
    """Return the names without ids that a triple is about: they have labels of their own."""
    terms = (term for term in (triple.subject, triple.predicate, triple.object) if isinstance(term, NamedNode))
    return [name for term in terms if (name := name_of_own(term.value)) is not None]
