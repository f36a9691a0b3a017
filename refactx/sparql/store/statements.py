"""The statement nodes of an index whose facts have qualifiers, in Wikidata's RDF: `p:`, `ps:`, `pq:`, `psv:`, `pqv:`, ranks.

All facts of a subject with a predicate together say what its statements are. Each fact with qualifiers is one, and so is a
plain fact that no other begins with. One whose object stands in a plain fact is of the best rank; then `wdt:` has it too.

| of a statement | rank |
|---|---|
| not of the best rank | `wikibase:NormalRank`: only a preferred one can be better, and an index has no deprecated ones |
| of the best rank, beside such a one | `wikibase:PreferredRank` |
| all others | `wikibase:NormalRank`, although Wikidata may prefer it to statements that the index does not have |

Times are those of the dumps: what is less precise than a day begins with 01, and the value node has the precision. The
nodes have IRIs of our own, since an index does not keep Wikidata's: `urn:refactx:statement:` and a digest of the fact,
`urn:refactx:value:` and the value. So have the predicates of what is no property of Wikidata: `urn:refactx:pq:start`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import islice
from typing import Any
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, Quad, Store

from refactx.fact import ALIAS_OF, DESCRIPTIONS, Fact, Qualifiers, verbalise
from refactx.index import Named
from refactx.iris import PREFIXES
from refactx.sparql.store.triples import (
    DATE_TIME,
    DECIMAL,
    DOUBLE,
    OWN,
    TYPE,
    WKT,
    FindNames,
    entity,
    may_name,
    node,
    odd_date,
    own,
    value_of,
)
from refactx.walks.values import parse_amount, parse_coordinates

_PROPERTY = re.compile(r"P[1-9]\d*", re.ASCII)
_COARSE = re.compile(r"(-?\d+)((?:-\d\d){2})(T.*)", re.ASCII)
_YEAR_BEFORE = re.compile(r"\d+ BCE", re.ASCII)
_PRECISIONS = {0: 11, 1: 10, 2: 9}
"""Wikibase's numbers for days, months and years, by how many of day and month are unknown."""
_STATEMENT, _VALUE = f"{OWN}statement:", f"{OWN}value:"
_NO_UNIT, _EARTH = "Q199", "Q2"
_INTEGER = NamedNode(PREFIXES["xsd"] + "integer")
_GLOBE = re.compile(r"<([^<>]+)>")
RANK, _BEST, _NORMAL, _PREFERRED = (
    NamedNode(PREFIXES["wikibase"] + name) for name in ("rank", "BestRank", "NormalRank", "PreferredRank")
)
_LINKS = {"claim": "p", "statementProperty": "ps", "statementValue": "psv", "qualifier": "pq", "qualifierValue": "pqv"}
"""What leads from a property to each of its predicates."""


@cache
def _term(name: str) -> NamedNode:
    prefix, _, local = name.partition(":")
    return NamedNode(PREFIXES[prefix] + local)


class StatementTriples:
    """The triples of statements. `find` looks names up; `units`: the ids of units by their labels; `odd_dates`: as
    `Triples` has them."""

    def __init__(self, find: FindNames, units: Mapping[str, str], odd_dates: dict[str, str]) -> None:
        self._find, self._units, self._odd_dates = find, units, odd_dates

    def of(self, facts: Iterable[Fact]) -> list[Quad]:
        """Return the triples of the statements that all facts of some subjects with some predicates are.

        `find` is called twice, for any number of facts. Descriptions, aliases and inverse facts are no statements.
        """
        stated: dict[tuple[str, str], dict[str, list[Qualifiers]]] = {}
        for fact in facts:
            stated.setdefault((fact.subject, fact.predicate), {}).setdefault(fact.object, []).append(fact.qualifiers)
        pairs = [pair for some in stated.values() for many in some.values() for one in many for pair in one]
        named = self._find({*(name for pair in stated for name in pair), *(name for name, _ in pairs)})
        stated = {pair: some for pair, some in stated.items() if _is_stated(pair[1], named)}
        objects = [(predicate, value) for (_, predicate), some in stated.items() for value in some]
        others = self._find({text for name, text in (*objects, *pairs) if may_name(named.get(name))})
        return [quad for about, some in stated.items() for quad in self._group(about, some, named, others)]

    def _group(
        self,
        about: tuple[str, str],
        stated: Mapping[str, Sequence[Qualifiers]],
        named: Mapping[str, Named],
        others: Mapping[str, Named],
    ) -> Iterator[Quad]:
        """Yield the triples of all statements of a subject with a property."""
        subject = node(about[0], named)
        has_other = any(() not in some for some in stated.values())
        for object_, some in stated.items():
            is_best = () in some
            rank = _PREFERRED if is_best and has_other else _NORMAL
            for qualifiers in [one for one in some if one] or [()]:
                text = verbalise(*about, object_, qualifiers)
                statement = NamedNode(_STATEMENT + sha256(text.encode()).hexdigest()[:24])
                yield Quad(subject, predicate_of("p", about[1], named), statement)
                yield Quad(statement, RANK, rank)
                if is_best:
                    yield Quad(statement, TYPE, _BEST)
                for use, name, value in [("ps", about[1], object_), *(("pq", *pair) for pair in qualifiers)]:
                    uses = [predicate_of(one, name, named) for one in (use, f"{use}v")]
                    yield from self._value(statement, uses, value_of(value, named.get(name), others), value)

    def _value(
        self, statement: NamedNode, uses: Sequence[NamedNode], value: Literal | NamedNode, text: str
    ) -> Iterator[Quad]:
        """Yield the triples of a value of a statement, and those of its node if it is a time, an amount or a place. `uses`:
        what leads to these."""
        if not isinstance(value, Literal):
            yield Quad(statement, uses[0], value)
            return
        parts: dict[str, Literal | NamedNode] = {}
        if value.datatype == DATE_TIME:
            value, precision = dated(value, text)
            if (odd := odd_date([value])) is not None:
                self._odd_dates.setdefault(uses[0].value, odd)
            parts = {"timeValue": value, "timePrecision": Literal(str(precision), datatype=_INTEGER)}
        elif value.datatype in (DECIMAL, DOUBLE):
            parts = {"quantityAmount": value, "quantityUnit": self._unit(text)}
        elif value.datatype == WKT and (place := parse_coordinates(text)) is not None:
            globe = _GLOBE.match(value.value)
            parts = {
                "geoLatitude": Literal(f"{place.north:f}", datatype=DOUBLE),
                "geoLongitude": Literal(f"{place.east:f}", datatype=DOUBLE),
                "geoGlobe": entity(_EARTH) if globe is None else NamedNode(globe[1]),
            }
        yield Quad(statement, uses[0], value)
        if parts:
            value_node = NamedNode(f"{_VALUE}{next(iter(parts))}:{quote(text, safe='')}")
            yield Quad(statement, uses[1], value_node)
            yield from (Quad(value_node, _term(f"wikibase:{name}"), part) for name, part in parts.items())

    def _unit(self, text: str) -> NamedNode:
        label = (parse_amount(text) or (0, ""))[1]
        if not label:
            return entity(_NO_UNIT)
        return entity(self._units[label]) if label in self._units else own(label)


def dated(value: Literal, text: str = "") -> tuple[Literal, int]:
    """Return a time as the dumps have it, a day, and Wikibase's number of its precision; another literal as it is. `text`: as
    facts have it.

    >>> dated(Literal("1956-10-00T00:00:00Z", datatype=DATE_TIME))[0].value
    '1956-10-01T00:00:00Z'
    """
    match = _COARSE.fullmatch(value.value) if value.datatype == DATE_TIME else None
    if match is None:
        return value, _PRECISIONS[0]
    if _YEAR_BEFORE.fullmatch(text):  # its literal has a month and a day
        return value, _PRECISIONS[2]
    day = f"{match[1]}{match[2].replace('-00', '-01')}{match[3]}"
    return Literal(day, datatype=DATE_TIME), _PRECISIONS[match[2].count("-00")]


def predicate_of(use: str, name: str, named: Mapping[str, Named]) -> NamedNode:
    """Return the IRI of a predicate in a use (`p`, `ps`, `psv`, `pq`, `pqv`), given the names that have ids.

    >>> predicate_of("pq", "start", {}).value
    'urn:refactx:pq:start'
    """
    id_ = named[name].id if name in named else name
    return _term(f"{use}:{id_}") if _PROPERTY.fullmatch(id_) else NamedNode(f"{OWN}{use}:{quote(id_, safe='')}")


def _is_stated(predicate: str, named: Mapping[str, Named]) -> bool:
    if predicate in named:
        return named[predicate].object_kind != "inverse"
    return predicate not in (*DESCRIPTIONS, ALIAS_OF)


def links_of_property(named: Named) -> list[Quad]:
    """Return the triples that lead from a property to its predicates of statements; none for anything else."""
    if _PROPERTY.fullmatch(named.id) is None:
        return []
    return [
        Quad(entity(named.id), _term(f"wikibase:{link}"), _term(f"{use}:{named.id}")) for link, use in _LINKS.items()
    ]


def has_statements(store: Store) -> bool:
    """Return whether a store has statements, of an index or of a graph as it was published."""
    return next(store.quads_for_pattern(None, RANK, None), None) is not None


def has_own_statements(store: Store) -> bool:
    """Return whether a store has statements, and they are of an index."""
    return any(is_own(quad.subject) for quad in islice(store.quads_for_pattern(None, RANK, None), 1))


def is_own(term: Any) -> bool:
    """Return whether a term is the node of a statement of an index, or of a value of one."""
    return isinstance(term, NamedNode) and term.value.startswith((_STATEMENT, _VALUE))


def statements_in_store(store: Store, subject: NamedNode, predicate: NamedNode) -> set[Quad]:
    """Return the triples of the statements to which a predicate leads from a subject, and of the nodes of their values."""
    claims = list(store.quads_for_pattern(subject, predicate, None))
    nodes = [quad.object for quad in claims if isinstance(quad.object, NamedNode)]
    said = [quad for statement in nodes for quad in store.quads_for_pattern(statement, None, None)]
    values = {quad.object for quad in said if isinstance(quad.object, NamedNode) and is_own(quad.object)}
    return {*claims, *said, *(quad for value in values for quad in store.quads_for_pattern(value, None, None))}
