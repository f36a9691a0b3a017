"""Invented data: triples made of the gold queries of a pack, in which each of them has rows, and wrong queries have others.

It comes with the pack, as `invented.nq.gz` (`bench/packs/inventing.py` makes it): N-Quads in which a SERVICE is a graph that no
other GRAPH sees.
"""

import gzip
import zlib
from collections.abc import Callable, Collection

from pyoxigraph import NamedNode, RdfFormat, Store, parse

from refactx.errors import InputError
from refactx.index import Index
from refactx.sparql.engines import (
    EngineError,
    QueryRefusedError,
    Result,
    SparqlEngine,
    SparqlSyntaxError,
    StoreEngine,
    engine_at,
)
from refactx.sparql.packs.pack import Pack
from refactx.sparql.syntax.parser import ParseError
from refactx.sparql.syntax.parser import parse as parse_sparql
from refactx.sparql.syntax.tokens import text_of, tokens_of
from refactx.sparql.syntax.tree import Nested, nodes

INVENTED_DATA = "invented.nq.gz"
"""The file of a pack that has its invented data."""
_OLD = "frozen.nq.gz"
"""What it was called before."""
SERVICE = "urn:refactx:service:"
"""What the name of a graph begins with that stands for a service."""
_NOWHERE = "<urn:refactx:nowhere>"


def invented_engine(pack: Pack) -> SparqlEngine:
    """Return an engine on the invented data of a pack, which need not be online for it.

    invented_engine(load_pack("liita")).run("ASK { ?entry elita:HasEmotion ?emotion }")

    Raises InputError if the pack has none.
    """
    folder = pack.folder
    path = (
        None
        if folder is None
        else next((folder / name for name in (INVENTED_DATA, _OLD) if (folder / name).is_file()), None)
    )
    if path is None:
        raise InputError(
            f"the pack {pack.name} has no invented data ({INVENTED_DATA}): give --run-on with a URL, a file of RDF or "
            "an index"
        )
    store = Store()
    try:
        store.extend(parse(gzip.decompress(path.read_bytes()), format=RdfFormat.N_QUADS))
    except (OSError, EOFError, SyntaxError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}): expected N-Quads, compressed by gzip") from error
    graphs = (graph.value for graph in store.named_graphs() if isinstance(graph, NamedNode))
    return InventedEngine(store, [name.removeprefix(SERVICE) for name in graphs if name.startswith(SERVICE)])


def engine_for(pack: Pack, where: str | None, index: Callable[[str | None], Index]) -> SparqlEngine | None:
    """Open the engine that a user names for a pack: as `engine_at`, or `invented`, or `pack` and None, the pack's own.

    Returns None for None if the pack has no endpoint, file or index of its own; raises InputError for `pack`.
    """
    if where in ("invented", "frozen"):  # its old name
        return invented_engine(pack)
    if where in ("pack", "endpoint") and pack.place is None:
        raise InputError(
            f"the pack {pack.name} has no endpoint, file or index: name the URL of one, a file of RDF, an index or invented"
        )
    where = pack.place if where in (None, "pack", "endpoint") else where
    return None if where is None else engine_at(where, index)


class InventedEngine:
    """A `SparqlEngine` on a store in which services are graphs. Several threads may use it, as with `StoreEngine`.

    The LIMIT of a query is left out, which leaves to chance which rows there are: so rows of two queries can be compared.
    """

    name = "invented"

    def __init__(self, store: Store, services: Collection[str] = ()) -> None:
        """`services`: the IRIs of those that the store has."""
        self._engine, self._services = StoreEngine(store), frozenset(services)

    def run(self, query: str, *, limit: int | None = None, seconds: float | None = None) -> Result:
        """Run a SELECT or ASK, as `refactx.sparql.engines.SparqlEngine` says; SERVICE too, for services of the store."""
        return self._engine.run(without_limit(rewritten(query, self._services)), limit=limit, seconds=seconds)

    def close(self) -> None:
        """Release the store."""
        self._engine.close()


def graph_of_service(iri: str) -> str:
    """Return the IRI of the graph that stands for a service."""
    return SERVICE + iri


def rewritten(sparql: str, services: Collection[str]) -> str:
    """Return a query whose SERVICE blocks are GRAPH blocks, and whose GRAPH variables are no services.

    >>> rewritten("ASK { SERVICE SILENT <http://s> { ?x ?y ?z } }", {"http://s"})
    'ASK { GRAPH  <urn:refactx:service:http://s> { ?x ?y ?z } }'

    Raises EngineError for a service that is not there, as an endpoint does that cannot reach it, and QueryRefusedError
    for one whose IRI is a variable.
    """
    tokens = tokens_of(sparql)
    if not any(token.upper in ("SERVICE", "GRAPH") for token in tokens):
        return sparql
    try:
        blocks = [
            node for node in nodes(parse_sparql(tokens).query) if isinstance(node, Nested) and node.name is not None
        ]
    except ParseError:
        raise SparqlSyntaxError("this query is not SPARQL 1.1") from None
    texts, inside = dict[int, str](), list[range]()
    for block in blocks:
        start, name, last = block.span[0], block.name, block.span[1] - 1
        if name is None:
            continue
        if block.kind == "service":
            texts |= {at: "" for at in range(start, name.span[0]) if tokens[at].upper == "SILENT"}
            texts |= {start: "GRAPH", name.span[0]: _service(block, tokens[name.span[0]].text, services)}
            inside.append(range(*block.span))
        elif any(start in span for span in inside):
            texts[name.span[0]] = _NOWHERE
        elif name.kind == "variable":
            texts[start] = f"{{ {tokens[start].text}"
            texts[last] = f'}} FILTER(!STRSTARTS(STR(?{name.value}), "{SERVICE}")) }}'
    return text_of(tokens, (0, len(tokens)), texts)


def _service(block: Nested, written: str, services: Collection[str]) -> str:
    if block.name is None or block.name.kind == "variable":
        raise QueryRefusedError(f"SERVICE {written} has no IRI: write SERVICE <...>")
    iri = block.name.value
    if iri not in services and not block.silent:
        there = ", ".join(f"<{one}>" for one in sorted(services)) or "none"
        raise EngineError(f"SERVICE <{iri}> cannot be reached: the invented data has {there}")
    return f"<{graph_of_service(iri)}>"


def without_limit(sparql: str) -> str:
    """Return a query without its LIMIT and OFFSET, which leave to chance which rows there are.

    >>> without_limit("SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 5 OFFSET 2")
    'SELECT ?x { ?x ?y ?z } ORDER BY ?x'
    """
    tokens = tokens_of(sparql)
    try:
        query = parse_sparql(tokens).query
    except ParseError:
        return sparql
    counts = [one.span[0] for one in (query.limit, query.offset) if one is not None]
    words = [max(at for at in range(count) if not tokens[at].is_space) for count in counts]
    return "".join(token.text for at, token in enumerate(tokens) if at not in (*counts, *words)).rstrip()
