"""`python -m bench.packs.inventing PACK`: writes the invented data of a pack, `invented.nq.gz`, made of its gold queries.

Each query has at least two answers in it, and near misses beside them: other constants, the same patterns in another graph,
a relation the other way round, without what is optional, other texts. Variables become fresh resources, or texts and numbers
that all conditions keep; constants stay; a SERVICE is a graph that only SERVICE reads.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Literal as OneOf
from typing import TypeAlias

import click
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store

from bench.packs.invented_values import (
    INVENTED,
    Fresh,
    candidates,
    conjuncts,
    counted,
    parts_of_literal,
    test_of,
    used_together,
    variable_of,
)
from refactx.sparql.engines import Rows, SparqlEngine, Term
from refactx.sparql.engines.checking import view_query
from refactx.sparql.packs.invented import INVENTED_DATA, InventedEngine, graph_of_service
from refactx.sparql.packs.pack import Pack, load_pack
from refactx.sparql.packs.rules import Place
from refactx.sparql.syntax.view import (
    CallView,
    Data,
    Expression,
    PatternView,
    QueryView,
    iri_of,
    is_blank,
    is_literal,
    is_variable,
    parts,
)

# --- What queries show of their data

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
End: TypeAlias = OneOf["subject", "object"]
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
    """What a set of queries shows of the data that they are for.

    `texts`: properties whose values are literals; `constants`: the IRIs at the ends of properties, in order; `roles`: for
    each property and end, the properties and ends that the same variables have; `homes`: graphs by property or class.
    """

    texts: frozenset[str]
    constants: Mapping[tuple[str, End], tuple[str, ...]]
    roles: Mapping[tuple[str, End], frozenset[tuple[str, End]]]
    graphs: tuple[str, ...] = ()
    homes: Mapping[str, str] = field(default_factory=dict)

    def literals(self, query: QueryView) -> frozenset[str]:
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

    def home(self, query: QueryView, pattern: PatternView) -> str | None:
        """Return the graph of a pattern that names none: that of its property or class, or of its subject."""
        found = self.homes.get(_name(pattern))
        if found is not None:
            return found
        near = [one for one in query.patterns if one.service is None and pattern.subject in (one.subject, one.object)]
        near.sort(key=lambda one: one.subject != pattern.subject)
        return next((self.homes[_name(one)] for one in near if _name(one) in self.homes), None)


def profile_of(
    queries: Collection[QueryView], graphs: Iterable[str] = (), homes: Mapping[str, str] | None = None
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


def _with_equals(texts: set[str], queries: Iterable[QueryView]) -> set[str]:
    """Return properties of texts, with those whose values are compared with such texts."""
    groups = list[set[str]]()
    for query in queries:
        for condition in query.conditions:
            for part in parts(condition.expression):
                if isinstance(part, CallView) and part.name in ("=", "!="):
                    both = {name for argument in part.arguments for name in _bare(argument)}
                    groups.append({one.predicate for one in query.patterns if one.object in both})
    found, before = set(texts), 0
    while len(found) != before:
        before = len(found)
        found |= {name for group in groups if group & found for name in group}
    return found


def ends_of(pattern: PatternView) -> tuple[tuple[End, str], tuple[End, str]]:
    """Return the terms of a pattern by the ends at which they stand."""
    return ("subject", pattern.subject), ("object", pattern.object)


def _name(pattern: PatternView) -> str:
    return pattern.object if pattern.predicate == TYPE else pattern.predicate


def _compared(query: QueryView) -> frozenset[str]:
    """Return the variables that a query takes for texts or numbers."""
    found = set[str]()
    for condition in query.conditions:
        for part in parts(condition.expression):
            if not isinstance(part, CallView):
                continue
            compares = part.name in _COMPARISONS and any(map(_is_literal, part.arguments))
            if compares or part.name in _OF_TEXTS | _OF_NUMBERS or "XMLSchema#" in part.name:
                found |= {one for argument in part.arguments for one in _bare(argument)}
    return frozenset(found)


def _is_literal(argument: object) -> bool:
    return isinstance(argument, str) and is_literal(argument)


def _bare(argument: object) -> tuple[str, ...]:
    """Return the variable that an argument is, alone or within STR and casts."""
    if isinstance(argument, CallView):
        is_thin = argument.name in ("STR", "LCASE", "UCASE") or argument.name.startswith("<")
        return _bare(argument.arguments[0]) if is_thin and argument.arguments else ()
    return (argument,) if isinstance(argument, str) and is_variable(argument) else ()


# --- Values that keep all conditions

_TRIED = 400
"""The most combinations of values that are tried for conditions over several variables."""
_SOME = 40
"""The most values of one variable that are tried."""
_EMPTY = Store()


class CannotInventError(Exception):
    """A query for which no values were found. Its text says which condition they miss."""


class Plan:
    """The values of one query. `copies`: how many of them a group needs; `keys`: variables that those copies share."""

    def __init__(self, query: QueryView, profile: Profile) -> None:
        self.query, self._profile = query, profile
        self._literals = profile.literals(query)
        terms = [term for one in query.patterns for term in (*one.terms, one.graph or "", one.service or "")]
        self._names = [term for term in dict.fromkeys(terms) if is_variable(term) or is_blank(term)]
        self._conditions = [one for one in conjuncts(query) if used_together(one) <= set(self._names)]
        self._classes = self._equal()
        self.copies = counted(query)
        self.keys = self._keys()

    def values(self, suffix: str, number: int = 0, shared: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a term for each variable. `suffix`: what fresh values end with; `number`: of the copy, which chooses among
        constants; `shared`: values that are given.

        Raises CannotInventError if none are found that keep all conditions.
        """
        given = shared or {}
        choices: dict[str, list[str]] = {}
        for root, members in self._classes.items():
            have = [given[name] for name in members if name in given]
            found = have[:1] or self._choices(members, suffix)
            constants = [term for term in found if suffix not in term]
            shift = number % len(constants) if len(constants) > 1 and constants == found[: len(constants)] else 0
            choices[root] = [*found[shift:], *found[:shift]]
        for chosen in islice(product(*choices.values()), _TRIED):
            by_root = dict(zip(choices, chosen, strict=True))
            values = {name: by_root[root] for root, members in self._classes.items() for name in members}
            wrong = self._wrong(values)
            if not wrong:
                return values
            if len(choices) > 1:
                narrow = {root for root, members in self._classes.items() if used_together(wrong[0]) & set(members)}
                choices = {root: found if root in narrow else found[:1] for root, found in choices.items()}
                return self._searched(choices)
        raise CannotInventError("no values keep its conditions")

    def filtered(self) -> list[str]:
        """Return the variables that a condition compares with a constant."""
        roots = [
            members[0]
            for members in self._classes.values()
            if any(self._about(one, members) for one in self._conditions)
        ]
        return [name for name in roots if name in self._literals]

    def fresh(self, name: str, suffix: str) -> str:
        """Return a fresh value of a variable."""
        return Fresh(_word(name), name in self._literals).named(suffix)

    # --- Values

    def _searched(self, choices: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the first combination of choices that keeps all conditions."""
        wrong: list[Expression] = []
        for chosen in islice(product(*choices.values()), _TRIED):
            by_root = dict(zip(choices, chosen, strict=True))
            values = {name: by_root[root] for root, members in self._classes.items() for name in members}
            wrong = self._wrong(values)
            if not wrong:
                return values
        raise CannotInventError(f"no values keep its condition {wrong[0] if wrong else ''}")

    def _choices(self, members: Sequence[str], suffix: str) -> list[str]:
        """Return values for variables that are equal, each of which keeps the conditions on them alone."""
        name = members[0]
        about = [one for one in self._conditions if used_together(one) & set(members)]
        alone = [one for one in about if used_together(one) <= set(members)]
        fresh = Fresh(_word(name), name in self._literals)
        found = [cell for data in self.query.data for cell in self._column(data, members)]
        if alone and not found and not fresh.is_literal:
            found += self._near(members)
        if any(name in (one.graph, one.service) for one in self.query.patterns):
            found += self._profile.graphs
        found += islice(candidates(members, about, fresh, suffix), _SOME)
        kept = [term for term in dict.fromkeys(found) if _holds(alone, dict.fromkeys(members, term))]
        if not kept:
            raise CannotInventError(f"no value of {name} keeps its conditions")
        return kept

    def _near(self, members: Sequence[str]) -> list[str]:
        """Return the constants that stand where variables do."""
        places = self._profile.constants
        found = [places.get((one.predicate, "object"), ()) for one in self.query.patterns if one.object in members]
        found += [places.get((one.predicate, "subject"), ()) for one in self.query.patterns if one.subject in members]
        return [term for terms in found for term in terms]

    def _column(self, data: Data, members: Sequence[str]) -> list[str]:
        variables, rows = data.variables, data.rows
        places = [at for at, name in enumerate(variables) if name in members]
        return [term for row in rows for at in places if (term := row[at]) is not None]

    def _wrong(self, values: Mapping[str, str]) -> list[Expression]:
        return [
            one for one in self._conditions if not _holds([one], {name: values[name] for name in used_together(one)})
        ]

    # --- What hangs together

    def _equal(self) -> dict[str, list[str]]:
        """Return the variables by the first of those that a condition makes equal."""
        root = {name: name for name in self._names}
        for condition in self._conditions:
            if isinstance(condition, CallView) and condition.name == "=" and len(condition.arguments) == 2:
                one, other = (variable_of(argument) for argument in condition.arguments)
                if one in root and other in root and (one in self._literals) == (other in self._literals):
                    first, second = root[one], root[other]
                    root = {name: first if at == second else at for name, at in root.items()}
        found: dict[str, list[str]] = {}
        for name in self._names:
            found.setdefault(root[name], []).append(name)
        return found

    def _keys(self) -> list[str]:
        """Return the variables by which a query with HAVING groups, and those equal to them."""
        levels = {one.group for one in self.query.conditions if one.kind == "having"}
        keys = {
            name
            for one in self.query.conditions
            if one.kind == "group" and one.group in levels
            for name in used_together(one.expression)
        }
        return [name for members in self._classes.values() if keys & set(members) for name in members]

    def _about(self, condition: Expression, members: Sequence[str]) -> bool:
        return used_together(condition) <= set(members) and bool(used_together(condition))


def _holds(conditions: Sequence[Expression], values: dict[str, str]) -> bool:
    if not conditions:
        return True
    try:
        return bool(_EMPTY.query(test_of(conditions, values)))
    except SyntaxError:
        return False


def _word(name: str) -> str:
    return name[1:] if is_variable(name) else f"node{name[2:]}-"


# --- Triples


@dataclass(frozen=True, slots=True)
class Change:
    """What a near miss has otherwise than the data of a query. `swapped`: another term for a constant; `graph`: another
    graph for patterns in GRAPH, by its name alone; `reversed`: the pattern that is the other way round; `bare`: whether
    what is optional is left out."""

    swapped: Mapping[str, str] | None = None
    graph: str | None = None
    reversed: PatternView | None = None
    bare: bool = False


NONE = Change()


def quads_of(
    query: QueryView, profile: Profile, values: Mapping[str, str], number: int, change: Change = NONE
) -> Iterator[Quad]:
    """Yield the triples of a query's patterns, once in each graph that has them. `number`: of the copy; every second one
    has two steps where a path may have several."""
    for pattern in query.patterns:
        if not query.has_to_match(pattern.group) or (change.bare and _is_optional(query, pattern.group)):
            continue
        given = {**values, **(change.swapped or {})}
        subject, predicate, value = (given.get(term, term) for term in pattern.terms)
        if pattern is change.reversed:
            subject, value = value, subject
        if predicate.startswith("!"):
            predicate = f"<{INVENTED}other>"
        if not iri_of(subject) or not iri_of(predicate):
            continue
        steps = [(subject, value)]
        if pattern.closure in ("*", "+") and number % 2:
            middle = f"<{INVENTED}between{abs(hash_of(subject, value))}>"
            steps = [(subject, middle), (middle, value)]
        for one, other in steps:
            yield from _in_graphs(query, profile, pattern, (one, predicate, other), given, change)


def _in_graphs(
    query: QueryView,
    profile: Profile,
    pattern: PatternView,
    triple: tuple[str, str, str],
    values: Mapping[str, str],
    change: Change,
) -> Iterator[Quad]:
    subject, predicate, value = triple
    terms = (NamedNode(subject[1:-1]), NamedNode(predicate[1:-1]), term_of(value))
    service = iri_of(values.get(pattern.service or "", pattern.service or ""))
    if service is not None:
        yield Quad(*terms, NamedNode(graph_of_service(service)))
        return
    graph = values.get(pattern.graph or "", pattern.graph or "") or profile.home(query, pattern)
    if pattern.graph is not None and change.graph is not None:
        yield Quad(*terms, NamedNode(change.graph[1:-1]))
        return
    yield Quad(*terms, DefaultGraph())
    if graph is not None and iri_of(graph):
        yield Quad(*terms, NamedNode(graph[1:-1]))


def term_of(term: str) -> NamedNode | Literal:
    """Return a term as pyoxigraph's."""
    found = parts_of_literal(term)
    if found is None:
        return NamedNode(term[1:-1])
    text, language, datatype = found
    if language:
        return Literal(text, language=language)
    return Literal(text, datatype=NamedNode(datatype)) if datatype else Literal(text)


def hash_of(*terms: str) -> int:
    """Return a number for terms that is the same in every process."""
    number = 0
    for character in "".join(terms):
        number = (number * 31 + ord(character)) % 1_000_000_007
    return number


def _is_optional(query: QueryView, group: int) -> bool:
    return any(one.kind == "optional" for one in query.around(group))


def has_optional(query: QueryView) -> bool:
    """Return whether rows may lack what some patterns have."""
    return any(_is_optional(query, one.group) for one in query.patterns)


def constants_of(query: QueryView, profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield the constants of a query, each with another one that stands where it does in other queries."""
    for pattern in query.patterns:
        for end, term in ends_of(pattern):
            if not is_variable(term) and not is_blank(term) and iri_of(term):
                others = profile.constants.get((pattern.predicate, end), ())
                yield from ((term, other) for other in _after(others, term)[:1])


def _after(terms: tuple[str, ...], term: str) -> list[str]:
    """Return the terms after one, and then those before it."""
    at = terms.index(term) if term in terms else -1
    return [*terms[at + 1 :], *terms[: max(at, 0)]]


# --- Invented data

COPIES = 2
"""How many answers each query has at least."""
_SWAPPED, _REVERSED, _UNFILTERED = 3, 2, 2
"""The most near misses of each kind."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What the rows of a query have: a term for each of some variables, without `?`. For a query that only counts there are
    no variables, and its one row has a value that is not 0."""

    variables: tuple[str, ...]
    rows: tuple[tuple[Term, ...], ...]

    def is_in(self, result: Rows | bool) -> bool:
        """Return whether a result has all of these rows."""
        if isinstance(result, bool):
            return result
        if not self.variables:
            return any(term is not None and getattr(term, "value", "") != "0" for row in result.rows for term in row)
        places = [result.variables.index(name) for name in self.variables]
        found = {tuple(row[at] for at in places) for row in result.rows}
        return found.issuperset(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invented:
    """Invented data. `store`: the triples, in the default graph and in named ones, services as graphs; `services`: their IRIs;
    `planned`: what the rows of each query have, by the query's key; `failures`: why a query has none, by key."""

    store: Store
    services: frozenset[str] = frozenset()
    planned: Mapping[str, Planned] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def engine(self) -> SparqlEngine:
        """Return an engine on the data, for queries as they are."""
        return InventedEngine(self.store, self.services)


def invent(
    queries: Mapping[str, str], *, graphs: Iterable[str] = (), homes: Mapping[str, str] | None = None
) -> Invented:
    """Return data in which each query has known rows, and near misses: other constants, the same in another graph, a
    relation the other way round, without what is optional, other texts. The same queries give the same data.

    `queries`: by key; `graphs`: IRIs of graphs beside those of the queries; `homes`: the graph in which a property or class
    is, by IRI, for patterns without GRAPH: the default graph has all graphs, but no service and no near miss of a graph.

    >>> invented = invent({"q": 'SELECT ?y { ?x <http://e.org/name> ?y FILTER REGEX(?y, "^z") }'})
    >>> invented.planned["q"].is_in(invented.engine().run('SELECT ?y { ?x <http://e.org/name> ?y }'))
    True

    Raises SparqlSyntaxError for what is no query.
    """
    parsed = {key: view_query(sparql) for key, sparql in queries.items()}
    named = {f"<{name}>": f"<{graph}>" for name, graph in (homes or {}).items()}
    profile = profile_of(parsed.values(), graphs, named)
    services = {iri for query in parsed.values() for one in query.groups if (iri := iri_of(one.service or ""))}
    store, planned, failures = Store(), dict[str, Planned](), dict[str, str]()
    for key, query in parsed.items():
        try:
            found, quads = _answers(key, query, queries[key], profile, services)
            planned[key] = found
            store.extend([*quads, *_near_misses(key, query, profile)])
        except CannotInventError as error:
            failures[key] = str(error)
    return Invented(store=store, services=frozenset(services), planned=planned, failures=failures)


def _answers(
    key: str, query: QueryView, sparql: str, profile: Profile, services: Collection[str]
) -> tuple[Planned, list[Quad]]:
    """Return the rows of a query that are planned, and its triples, with which it has them."""
    plan = Plan(query, profile)
    quads, rows = list[Quad](), list[dict[str, str]]()
    for copy in range(COPIES):
        shared: dict[str, str] = {}
        for one in range(plan.copies):
            number = copy * plan.copies + one
            values = plan.values(f"-{key}-{number}", number, shared)
            shared = {name: values[name] for name in plan.keys} if plan.copies > 1 else {}
            quads += quads_of(query, profile, values, copy)
            if one == 0:
                rows.append(values)
    store = Store()
    store.extend(quads)
    result = InventedEngine(store, services).run(sparql)
    for planned in _planned(query, rows):
        if planned.is_in(result):
            return planned, quads
    raise CannotInventError("it does not return the rows that were made for it")


def _planned(query: QueryView, rows: list[dict[str, str]]) -> Iterator[Planned]:
    """Yield what may be known of the rows: first of all variables, then of those that no branch of a UNION leaves out."""
    computed = {one.variable for one in query.conditions if one.variable is not None}
    selected = [name for name in query.selected if name not in computed and name in rows[0]]
    everywhere = {
        term
        for one in query.patterns
        if not any(around.kind == "branch" for around in query.around(one.group))
        for term in (*one.terms, one.graph)
    }
    choices = [selected, [name for name in selected if name in everywhere]]
    for names in choices if selected else [[]]:
        terms = tuple(dict.fromkeys(tuple(term_of(row[name]) for name in names) for row in rows))
        yield Planned(tuple(name[1:] for name in names), terms)


def _near_misses(key: str, query: QueryView, profile: Profile) -> Iterator[Quad]:
    plan = Plan(query, profile)
    changes = [
        Change(swapped={one: other}) for one, other in islice(dict.fromkeys(constants_of(query, profile)), _SWAPPED)
    ]
    graphs = [one.graph for one in query.patterns if one.graph in profile.graphs]
    others = [graph for graph in profile.graphs if graph not in graphs]
    changes += [Change(graph=graph) for graph in others[:1] if graphs]
    turned = [one for one in query.patterns if len(one.ends) == 2 and profile.is_of_one_kind(one.predicate)]
    changes += [Change(reversed=one) for one in turned[:_REVERSED]]
    changes += [Change(bare=True)] if has_optional(query) else []
    for number, change in enumerate(changes):
        yield from quads_of(query, profile, plan.values(f"-{key}-n{number}", number), 0, change)
    for number, name in enumerate(plan.filtered()[:_UNFILTERED]):
        values = plan.values(f"-{key}-f{number}", number)
        yield from quads_of(query, profile, {**values, name: plan.fresh(name, f"-{key}-f{number}")}, 0)


def gold_queries(pack: Pack) -> dict[str, str]:
    """Return the gold queries of a pack: `example-ID` for those of its examples, `case-ID` for those of its cases."""
    queries = {f"example-{one.id}": one.sparql for one in pack.examples}
    path = None if pack.folder is None else pack.folder / "cases.jsonl"
    if path is not None and path.is_file():
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        queries |= {f"case-{one['id']}": one["sparql"] for one in cases if one.get("sparql")}
    return queries


def homes_of(pack: Pack) -> Mapping[str, str]:
    """Return the graph of each property and class, by IRI, that the rules of a pack have in one graph alone."""
    places = [check for rule in pack.rules for check in rule.checks if isinstance(check, Place)]
    return {
        name[1:-1]: next(iter(place.only.graphs))[1:-1]
        for place in places
        if place.only is not None and len(place.only.graphs) == 1
        for name in place.wanted.names
    }


def invent_pack(pack: Pack) -> Invented:
    """Return the data of the gold queries of a pack."""
    return invent(gold_queries(pack), graphs=sorted(pack.graphs.values()), homes=homes_of(pack))


def written(invented: Invented) -> bytes:
    """Return data as the file of a pack has it: N-Quads, sorted, with gzip."""
    lines = sorted(f"{one.subject} {one.predicate} {one.object} {_graph(one.graph_name)}.\n" for one in invented.store)
    return gzip.compress("".join(lines).encode(), mtime=0)


def _graph(name: object) -> str:
    return "" if isinstance(name, DefaultGraph) else f"{name} "


@click.command()
@click.argument("pack")
def main(pack: str) -> None:
    """Write the invented data of a pack into its folder."""
    loaded = load_pack(pack)
    invented = invent_pack(loaded)
    path = Path(loaded.folder or pack, INVENTED_DATA)
    path.write_bytes(written(invented))
    click.echo(f"{path}: {len(invented.store)} triples, {len(invented.planned)} queries have their rows")
    for key, reason in invented.failures.items():
        click.echo(f"{key} has no rows: {reason}")


if __name__ == "__main__":
    main()
