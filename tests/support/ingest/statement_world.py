"""Random statements of Wikidata, written as its JSON and as its full RDF, and the facts that they should be, by brute force.

A value is an item (`Q2`), an `Amount`, a `Moment`, or one of the words `somevalue` and `novalue`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any

from hypothesis import strategies as st

from refactx.ingest.qualifiers import BOOKKEEPING, GROUPS

WD, PROP = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/"
ONTOLOGY, XSD = "http://wikiba.se/ontology#", "http://www.w3.org/2001/XMLSchema#"
RDFS_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NAMES = {
    **{"Q1": "Springfield", "Q2": "Ann Lee", "Q3": "Bob", "Q4": "Cy", "Q9": "metre"},
    **{"P10": "mayor", "P11": "height", "P12": "founded", "P580": "start time", "P582": "end time", "P642": "of"},
    **{"P1545": "series ordinal", "P99": "alpha", "P98": "zeta", "P459": "determination method"},
}
"""Q5, the unit Q8 and the property P50 have no label."""
ITEMS, UNITS = ("Q1", "Q2", "Q3", "Q4", "Q5"), (None, "Q9", "Q8")
KINDS = {"P11": "amount", "P12": "time", "P580": "time", "P582": "time"}
SUBJECTS, PROPERTIES = ("Q1", "Q2", "Q5"), ("P10", "P11", "P12", "P50")
QUALIFIERS = ("P580", "P582", "P642", "P1545", "P99", "P98", "P459", "P50", "P11")
RANKS = ("deprecated", "normal", "preferred")
PLACES = {"P854": 0, "P248": 1, "P143": 2}
URLS = (
    "https://a.example/1",
    "http://b.example/x?y=%20#z",
    "https://a.example/é",
    "ftp://c.example/",
    "javascript:alert(1)",
)
URLS += (f"https://long.example/{'x' * 990}", "https://user@d.example/", "http://e.example/a\u202eb")


@dataclass(frozen=True)
class Amount:
    """A number as Wikidata writes it (`+4478`), with its unit."""

    number: str
    unit: str | None


@dataclass(frozen=True)
class Moment:
    """A time. The year -44 is 44 BCE."""

    year: int
    month: int
    day: int
    precision: int
    julian: bool


Snak = str | Amount | Moment


@dataclass(frozen=True)
class Statement:
    """One statement with its qualifiers; `number`: of its id. `references`: of each, its properties and values: a URL (P854) or
    an item."""

    subject: str
    property: str
    value: Snak
    rank: str
    qualifiers: tuple[tuple[str, Snak], ...]
    number: int = field(default=0)
    references: tuple[tuple[tuple[str, str], ...], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.subject}-{md5(str(self.number).encode()).hexdigest().upper()}"


def _values(property_: str) -> st.SearchStrategy[Snak]:
    amounts = st.builds(Amount, st.sampled_from(("+4478", "-0.50", "+0")), st.sampled_from(UNITS))
    years = st.sampled_from((-753, -44, 1, 476, 1582, 1700, 1899, 1990, 2001))
    precisions = st.sampled_from((7, 8, 9, 10, 11, 11))
    moments = st.builds(Moment, years, st.integers(1, 12), st.integers(1, 28), precisions, st.booleans())
    kind = {"amount": amounts, "time": moments}.get(KINDS.get(property_, ""), st.sampled_from(ITEMS))
    return st.one_of(kind, kind, kind, st.sampled_from(("somevalue", "novalue")))


def _of_property(property_: str) -> st.SearchStrategy[tuple[str, Snak]]:
    return st.tuples(st.just(property_), _values(property_))


_OF_REFERENCE = st.sampled_from(("P854", "P854", "P248", "P143", "P813")).flatmap(
    lambda one: st.tuples(st.just(one), st.sampled_from((*URLS, "somevalue") if one == "P854" else (*ITEMS, "novalue")))
)
REFERENCES = st.lists(st.lists(_OF_REFERENCE, max_size=3).map(lambda some: tuple(dict.fromkeys(some))), max_size=3)
STATEMENTS = st.lists(
    st.builds(
        lambda subject, told, rank, qualifiers, references: Statement(
            subject, *told, rank, tuple(dict.fromkeys(qualifiers)), 0, tuple(dict.fromkeys(references))
        ),
        st.sampled_from(SUBJECTS),
        st.sampled_from(PROPERTIES).flatmap(_of_property),
        st.sampled_from((*RANKS, "normal")),
        st.lists(st.sampled_from(QUALIFIERS).flatmap(_of_property), max_size=4),
        REFERENCES,
    ),
    min_size=1,
    max_size=8,
).map(lambda some: [replace(one, number=number) for number, one in enumerate(some)])


# --- What the statements mean


def gregorian(moment: Moment) -> tuple[int, int, int]:
    """Return the year (0 is 1 BCE), month and day of a moment in the Gregorian calendar, by its day number."""
    year = moment.year if moment.year > 0 else moment.year + 1
    if not moment.julian or moment.precision < 11:
        return year, moment.month, moment.day
    shift = (14 - moment.month) // 12
    y, m = year + 4800 - shift, moment.month + 12 * shift - 3
    number = moment.day + (153 * m + 2) // 5 + 365 * y + y // 4 - 32083
    a = number + 32044
    b = (4 * a + 3) // 146097
    c = a - 146097 * b // 4
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return 100 * b + d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


def written(value: Snak) -> str | None:
    """Return a value as facts have it; None if it has none."""
    if isinstance(value, Amount):
        number = value.number.removeprefix("+")
        return number if value.unit is None else f"{number} {NAMES[value.unit]}" if value.unit in NAMES else None
    if isinstance(value, str):
        return NAMES.get(value)
    year, month, day = gregorian(value)
    before = year < 1
    shown = 1 - year if before else year
    if value.precision == 7:
        n = (shown + 99) // 100
        text = f"{n}{'th' if n in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')} century"
    elif value.precision == 8:
        text = f"{shown // 10}0s"
    elif value.precision == 9:
        text = str(shown)
    else:
        begun = str(shown) if before else f"{shown:04}"
        text = f"{begun}-{month:02}" if value.precision == 10 else f"{begun}-{month:02}-{day:02}"
    return f"{text} BCE" if before else text


def is_wanted(property_: str, wanted: Sequence[str] | None) -> bool:
    """Return whether facts have a qualifier (`--qualifiers`)."""
    if wanted is None:
        return property_ not in BOOKKEEPING
    group = next((name for name, some in GROUPS.items() if property_ in some), "other")
    return "all" in wanted or property_ in wanted or (group in wanted and property_ not in BOOKKEEPING)


def expected_facts(statements: Sequence[Statement], wanted: Sequence[str] | None) -> set[tuple[str, ...]]:
    """Return the facts of statements: tuples of three parts, and of two more for each qualifier."""
    return {fact for fact, _ in facts_with_statements(statements, wanted)}


def expected_references(statements: Sequence[Statement], wanted: Sequence[str] | None) -> dict[tuple[str, ...], str]:
    """Return the addresses of the references of facts: at most three, URLs before pages of what it is stated in."""
    found = dict[tuple[str, ...], set[tuple[int, str]]]()
    for fact, one in facts_with_statements(statements, wanted):
        for reference in one.references:
            urls = [
                (PLACES[name], url) for name, value in reference if name in PLACES and (url := address_of(name, value))
            ]
            found.setdefault(fact, set()).update(pair for pair in urls if pair[0] == min(urls)[0])
    # An address that is kept twice, for different reasons, counts for the better one.
    ordered = {fact: list(dict.fromkeys(url for _, url in sorted(urls))) for fact, urls in found.items() if urls}
    return {fact: " ".join(urls[:3]) for fact, urls in ordered.items()}


def address_of(name: str, value: str) -> str | None:
    """Return the address that a value of a reference is; None if it is none."""
    if name != "P854":
        return f"https://www.wikidata.org/wiki/{value}" if value in ITEMS else None
    url = value.replace("\u202e", "%E2%80%AE")
    return url if url.startswith("http") and len(url) <= 1000 else None


def facts_with_statements(
    statements: Sequence[Statement], wanted: Sequence[str] | None
) -> Iterator[tuple[tuple[str, ...], Statement]]:
    """Yield the facts of statements, each with its statement."""
    place = {p: n for n, p in enumerate(one for group in GROUPS.values() for one in group)}
    for one in statements:
        rivals = [other for other in statements if (other.subject, other.property) == (one.subject, one.property)]
        best = max(RANKS.index(other.rank) for other in rivals)
        text = written(one.value)
        if one.rank == "deprecated" or text is None or one.subject not in NAMES or one.property not in NAMES:
            continue
        plain = (NAMES[one.subject], NAMES[one.property], text)
        if RANKS.index(one.rank) == best:
            yield plain, one
        pairs = {
            (place.get(name, len(place)), NAMES[name], found)
            for name, value in one.qualifiers
            if name in NAMES and is_wanted(name, wanted)
            if (found := "unknown" if (name, value) == ("P582", "somevalue") else written(value)) is not None
        }
        if pairs:
            yield (*plain, *(part for _, name, value in sorted(pairs) for part in (name, value))), one


# --- JSON


def _time(moment: Moment) -> str:
    month, day = (moment.month if moment.precision > 9 else 0), (moment.day if moment.precision > 10 else 0)
    return f"{'+' if moment.year > 0 else '-'}{abs(moment.year):04}-{month:02}-{day:02}T00:00:00Z"


def _snak(property_: str, value: Snak) -> dict[str, Any]:
    datatype = {"amount": "quantity", "time": "time"}.get(KINDS.get(property_, ""), "wikibase-item")
    snak: dict[str, Any] = {"snaktype": "value", "property": property_, "datatype": datatype}
    if value in ("somevalue", "novalue"):
        return {**snak, "snaktype": value}
    if isinstance(value, Amount):
        unit = "1" if value.unit is None else f"{WD}{value.unit}"
        return {**snak, "datavalue": {"type": "quantity", "value": {"amount": value.number, "unit": unit}}}
    if isinstance(value, Moment):
        calendar = f"{WD}{'Q1985786' if value.julian else 'Q1985727'}"
        time = {"time": _time(value), "precision": value.precision, "calendarmodel": calendar, "timezone": 0}
        return {**snak, "datavalue": {"type": "time", "value": time}}
    return {**snak, "datavalue": {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": value}}}


def _reference(reference: Sequence[tuple[str, str]]) -> dict[str, list[dict[str, Any]]] | list[Any]:
    snaks: dict[str, list[dict[str, Any]]] = {}
    for name, value in reference:
        snak = _snak(name, value)
        if name == "P854" and value != "somevalue":
            snak |= {"datatype": "url", "datavalue": {"type": "string", "value": value}}
        snaks.setdefault(name, []).append(snak)
    return snaks or []


def json_lines(statements: Sequence[Statement]) -> list[str]:
    """Return the lines of a dump of JSON."""
    lines = []
    for id_ in sorted({*NAMES, *SUBJECTS}):
        kind = "item" if id_[0] == "Q" else "property"
        labels = {"en": {"language": "en", "value": NAMES[id_]}} if id_ in NAMES else []
        claims: dict[str, list[dict[str, Any]]] = {}
        for one in (one for one in statements if one.subject == id_):
            qualifiers: dict[str, list[dict[str, Any]]] = {}
            for name, value in one.qualifiers:
                qualifiers.setdefault(name, []).append(_snak(name, value))
            claim = {"mainsnak": _snak(one.property, one.value), "type": "statement", "rank": one.rank, "id": one.id}
            references = [{"hash": "", "snaks": _reference(reference)} for reference in one.references]
            told = {"qualifiers": qualifiers, **({"references": references} if references else {})}
            claims.setdefault(one.property, []).append({**claim, **told})
        lines.append(json.dumps({"type": kind, "id": id_, "labels": labels, "claims": claims or []}) + ",")
    return ["[", *lines, "]"]


# --- RDF


def _node(value: Amount | Moment) -> tuple[str, list[str]]:
    """Return the node of a value, and its triples."""
    iri = f"<http://www.wikidata.org/value/{md5(repr(value).encode()).hexdigest()}>"
    if isinstance(value, Amount):
        told = {"quantityAmount": f'"{value.number}"^^<{XSD}decimal>', "quantityUnit": f"<{WD}{value.unit or 'Q199'}>"}
    else:
        told = {"timeValue": _literal(value), "timePrecision": f'"{value.precision}"^^<{XSD}integer>'}
    kind = "QuantityValue" if isinstance(value, Amount) else "TimeValue"
    lines = [f"{iri} <{ONTOLOGY}{name}> {text} ." for name, text in told.items()]
    return iri, [*lines, f"{iri} {TYPE} <{ONTOLOGY}{kind}> ."]


def _literal(value: Snak) -> str:
    if isinstance(value, Amount):
        return f'"{value.number}"^^<{XSD}decimal>'
    if not isinstance(value, Moment):
        return f"<{WD}{value}>"
    year, month, day = gregorian(value)
    month, day = (month if value.precision > 9 else 1), (day if value.precision > 10 else 1)
    year = value.year if value.precision < 9 else year
    return f'"{"-" if year < 0 else ""}{abs(year):04}-{month:02}-{day:02}T00:00:00Z"^^<{XSD}dateTime>'


def _told(node: str, where: str, property_: str, value: Snak) -> list[str]:
    if value == "novalue":
        return [f"{node} {TYPE} <{PROP}novalue/{property_}> ."]
    if value == "somevalue":
        return [f"{node} <{PROP}{where}/{property_}> _:{md5((node + where + property_).encode()).hexdigest()} ."]
    lines = [f"{node} <{PROP}{where}/{property_}> {_literal(value)} ."]
    if isinstance(value, Amount | Moment):
        iri, more = _node(value)
        lines += [f"{node} <{PROP}{where}/value/{property_}> {iri} .", *more]
    return lines


def rdf_lines(statements: Sequence[Statement]) -> list[str]:
    """Return the lines of a full dump of N-Triples."""
    lines = [f'<{WD}{id_}> {RDFS_LABEL} "{name}"@en .' for id_, name in NAMES.items()]
    for one in statements:
        node = f"<{WD}statement/{one.id}>"
        rivals = [other for other in statements if (other.subject, other.property) == (one.subject, one.property)]
        best = max(RANKS.index(other.rank) for other in rivals)
        lines += [
            f"<{WD}{one.subject}> <{PROP}{one.property}> {node} .",
            f"{node} {TYPE} <{ONTOLOGY}Statement> .",
            f"{node} <{ONTOLOGY}rank> <{ONTOLOGY}{one.rank.title()}Rank> .",
        ]
        if RANKS.index(one.rank) == best > 0:
            lines.append(f"{node} {TYPE} <{ONTOLOGY}BestRank> .")
            if one.value not in ("somevalue", "novalue"):
                lines.append(f"<{WD}{one.subject}> <{PROP}direct/{one.property}> {_literal(one.value)} .")
        lines += _told(node, "statement", one.property, one.value)
        for name, value in one.qualifiers:
            lines += _told(node, "qualifier", name, value)
        for reference in one.references:
            of_reference = f"<http://www.wikidata.org/reference/{md5(repr(reference).encode()).hexdigest()}>"
            lines.append(f"{node} <http://www.w3.org/ns/prov#wasDerivedFrom> {of_reference} .")
            lines.append(f"{of_reference} {TYPE} <{ONTOLOGY}Reference> .")
            for name, value in reference:
                if name == "P854" and value != "somevalue":
                    escaped = value.replace("\u202e", "\\u202E")
                    lines.append(f"{of_reference} <{PROP}reference/{name}> <{escaped}> .")
                else:
                    lines += _told(of_reference, "reference", name, value)
    return list(dict.fromkeys(lines))  # a dump has a value once
