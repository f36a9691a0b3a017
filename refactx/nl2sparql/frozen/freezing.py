"""Gold queries frozen: a store in which each has known rows."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pyoxigraph import Quad, Store

from refactx.nl2sparql.frozen.engine import FrozenEngine
from refactx.nl2sparql.frozen.plan import CannotFreezeError, Plan
from refactx.nl2sparql.frozen.profile import Profile, profile_of
from refactx.nl2sparql.frozen.realising import Change, constants_of, has_optional, quads_of, term_of
from refactx.nl2sparql.parsed import ParsedQuery, iri_of, parse
from refactx.sparql.engines import Rows, SparqlEngine, Term

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
class Frozen:
    """Frozen data. `store`: the triples, in the default graph and in named ones, services as graphs; `services`: their IRIs;
    `planned`: what the rows of each query have, by the query's key; `failures`: why a query has none, by key."""

    store: Store
    services: frozenset[str] = frozenset()
    planned: Mapping[str, Planned] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def engine(self) -> SparqlEngine:
        """Return an engine on the data, for queries as they are."""
        return FrozenEngine(self.store, self.services)


def freeze(queries: Mapping[str, str], *, graphs: Iterable[str] = (), homes: Mapping[str, str] | None = None) -> Frozen:
    """Return data in which each query has known rows, and near misses: other constants, the same in another graph, a
    relation the other way round, without what is optional, other texts. The same queries give the same data.

    `queries`: by key; `graphs`: IRIs of graphs beside those of the queries; `homes`: the graph in which a property or class
    is, by IRI, for patterns without GRAPH: the default graph has all graphs, but no service and no near miss of a graph.

    >>> frozen = freeze({"q": 'SELECT ?y { ?x <http://e.org/name> ?y FILTER REGEX(?y, "^z") }'})
    >>> frozen.planned["q"].is_in(frozen.engine().run('SELECT ?y { ?x <http://e.org/name> ?y }'))
    True

    Raises SparqlSyntaxError for what is no query.
    """
    parsed = {key: parse(sparql) for key, sparql in queries.items()}
    named = {f"<{name}>": f"<{graph}>" for name, graph in (homes or {}).items()}
    profile = profile_of(parsed.values(), graphs, named)
    services = {iri for query in parsed.values() for one in query.groups if (iri := iri_of(one.service or ""))}
    store, planned, failures = Store(), dict[str, Planned](), dict[str, str]()
    for key, query in parsed.items():
        try:
            found, quads = _answers(key, query, queries[key], profile, services)
            planned[key] = found
            store.extend([*quads, *_near_misses(key, query, profile)])
        except CannotFreezeError as error:
            failures[key] = str(error)
    return Frozen(store=store, services=frozenset(services), planned=planned, failures=failures)


def _answers(
    key: str, query: ParsedQuery, sparql: str, profile: Profile, services: Collection[str]
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
    result = FrozenEngine(store, services).run(sparql)
    for planned in _planned(query, rows):
        if planned.is_in(result):
            return planned, quads
    raise CannotFreezeError("it does not return the rows that were made for it")


def _planned(query: ParsedQuery, rows: list[dict[str, str]]) -> Iterator[Planned]:
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


def _near_misses(key: str, query: ParsedQuery, profile: Profile) -> Iterator[Quad]:
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
