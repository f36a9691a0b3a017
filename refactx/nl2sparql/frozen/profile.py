"""What a set of queries shows of the data that they are for: which properties have texts, and what stands at their ends."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from refactx.nl2sparql.parsed import Call, ParsedQuery, Pattern, is_blank, is_literal, is_variable
from refactx.nl2sparql.parsed.query import parts

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
End: TypeAlias = Literal["subject", "object"]
_RDFS, _SKOS = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2004/02/skos/core#"
_DCTERMS = "http://purl.org/dc/terms/"
_TEXTS = [f"<{_RDFS}{name}>" for name in ("label", "comment")]
_TEXTS += [f"<{_SKOS}{name}>" for name in ("definition", "example", "note", "prefLabel", "altLabel")]
_TEXTS += [f"<{_DCTERMS}{name}>" for name in ("title", "identifier", "description")]
_OF_TEXTS = frozenset({"REGEX", "STRLEN", "LANG", "LCASE", "UCASE", "CONTAINS", "STRSTARTS", "STRENDS", "SUBSTR"})
_OF_NUMBERS = frozenset({"SUM", "AVG", "MIN", "MAX"})
_COMPARISONS = frozenset({"=", "!=", "<", ">", "<=", ">=", "IN"})


@dataclass(frozen=True, slots=True)
class Profile:
    """`texts`: properties whose values are literals; `constants`: the IRIs at the ends of properties, in order; `roles`: for
    each property and end, the properties and ends that the same variables have; `homes`: graphs by property or class."""

    texts: frozenset[str]
    constants: Mapping[tuple[str, End], tuple[str, ...]]
    roles: Mapping[tuple[str, End], frozenset[tuple[str, End]]]
    graphs: tuple[str, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict)

    def literals(self, query: ParsedQuery) -> frozenset[str]:
        """Return the variables of a query that are literals: values of such properties, and nothing else."""
        values = {one.object for one in query.patterns if one.predicate in self.texts}
        others = {term for one in query.patterns for term in (one.subject, one.predicate, one.graph, one.service)}
        others |= {one.object for one in query.patterns if one.predicate not in self.texts}
        return frozenset(term for term in values - others if is_variable(term) or is_blank(term))

    def is_of_one_kind(self, name: str) -> bool:
        """Return whether both ends of a property are of one kind, so that it may be read the other way."""
        subject, value = self.roles.get((name, "subject"), frozenset()), self.roles.get((name, "object"), frozenset())
        ours = {(name, "subject"), (name, "object")}
        return bool((subject & value) - ours)

    def home(self, query: ParsedQuery, pattern: Pattern) -> str | None:
        """Return the graph of a pattern that names none: that of its property or class, or of its subject."""
        found = self.homes.get(_name(pattern))
        if found is not None:
            return found
        near = [one for one in query.patterns if one.service is None and pattern.subject in (one.subject, one.object)]
        near.sort(key=lambda one: one.subject != pattern.subject)
        return next((self.homes[_name(one)] for one in near if _name(one) in self.homes), None)


def profile_of(
    queries: Collection[ParsedQuery], graphs: Iterable[str] = (), homes: Mapping[str, str] | None = None
) -> Profile:
    """Return the profile of queries. `graphs`: IRIs of graphs that are there; `homes`: graphs by property or class, as
    terms."""
    texts, resources = set(_TEXTS), {TYPE}
    constants: defaultdict[tuple[str, End], dict[str, None]] = defaultdict(dict)
    roles: defaultdict[tuple[str, End], set[tuple[str, End]]] = defaultdict(set)
    named = {f"<{iri}>": None for iri in graphs}
    for query in queries:
        subjects = {one.subject for one in query.patterns}
        compared = _compared(query)
        at: defaultdict[str, set[tuple[str, End]]] = defaultdict(set)
        for one in query.patterns:
            if is_literal(one.object) or (one.object in compared and one.object not in subjects):
                texts.add(one.predicate)
            if one.object in subjects or one.object.startswith("<"):
                resources.add(one.predicate)
            for end, term in ends_of(one):
                at[term].add((one.predicate, end))
                if term.startswith("<"):
                    constants[one.predicate, end][term] = None
            if one.graph is not None and one.graph.startswith("<"):
                named[one.graph] = None
        for term, places in at.items():
            if not term.startswith("<"):
                for place in places:
                    roles[place] |= places
    return Profile(
        texts=frozenset(_with_equals(texts, queries) - resources),
        constants={place: tuple(terms) for place, terms in constants.items()},
        roles={place: frozenset(others) for place, others in roles.items()},
        graphs=tuple(named),
        homes=homes or {},
    )


def _with_equals(texts: set[str], queries: Iterable[ParsedQuery]) -> set[str]:
    """Return properties of texts, with those whose values are compared with such texts."""
    groups = list[set[str]]()
    for query in queries:
        for condition in query.conditions:
            for part in parts(condition.expression):
                if isinstance(part, Call) and part.name in ("=", "!="):
                    both = {name for argument in part.arguments for name in _bare(argument)}
                    groups.append({one.predicate for one in query.patterns if one.object in both})
    found, before = set(texts), 0
    while len(found) != before:
        before = len(found)
        found |= {name for group in groups if group & found for name in group}
    return found


def ends_of(pattern: Pattern) -> tuple[tuple[End, str], tuple[End, str]]:
    """Return the terms of a pattern by the ends at which they stand."""
    return ("subject", pattern.subject), ("object", pattern.object)


def _name(pattern: Pattern) -> str:
    return pattern.object if pattern.predicate == TYPE else pattern.predicate


def _compared(query: ParsedQuery) -> frozenset[str]:
    """Return the variables that a query takes for texts or numbers."""
    found = set[str]()
    for condition in query.conditions:
        for part in parts(condition.expression):
            if not isinstance(part, Call):
                continue
            compares = part.name in _COMPARISONS and any(map(_is_literal, part.arguments))
            if compares or part.name in _OF_TEXTS | _OF_NUMBERS or "XMLSchema#" in part.name:
                found |= {one for argument in part.arguments for one in _bare(argument)}
    return frozenset(found)


def _is_literal(argument: object) -> bool:
    return isinstance(argument, str) and is_literal(argument)


def _bare(argument: object) -> tuple[str, ...]:
    """Return the variable that an argument is, alone or within STR and casts."""
    if isinstance(argument, Call):
        is_thin = argument.name in ("STR", "LCASE", "UCASE") or argument.name.startswith("<")
        return _bare(argument.arguments[0]) if is_thin and argument.arguments else ()
    return (argument,) if isinstance(argument, str) and is_variable(argument) else ()
