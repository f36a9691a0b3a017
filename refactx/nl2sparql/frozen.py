"""Frozen data: triples made of the gold queries of a pack, in which each of them has rows, and wrong queries have others.

It comes with the pack, as `frozen.nq.gz` (`bench/packs/freezing.py` makes it): N-Quads in which a SERVICE is a graph that no
other GRAPH sees.
"""

import gzip
import zlib
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

from pyoxigraph import NamedNode, RdfFormat, Store, parse

from refactx.errors import InputError
from refactx.index import Index
from refactx.nl2sparql.pack import Pack
from refactx.sparql.engines import EngineError, QueryRefusedError, Result, SparqlEngine, StoreEngine, engine_at
from refactx.sparql.syntax import ShapeError, Token, shape_of, tokens_of

FROZEN_DATA = "frozen.nq.gz"
"""The file of a pack that has its frozen data."""
SERVICE = "urn:refactx:service:"
"""What the name of a graph begins with that stands for a service."""
_NOWHERE = "<urn:refactx:nowhere>"


def frozen_engine(pack: Pack) -> SparqlEngine:
    """Return an engine on the frozen data of a pack, which need not be online for it.

    frozen_engine(load_pack("liita")).run("ASK { ?entry elita:HasEmotion ?emotion }")

    Raises InputError if the pack has none.
    """
    path = None if pack.folder is None else pack.folder / FROZEN_DATA
    if path is None or not path.is_file():
        raise InputError(
            f"the pack {pack.name} has no frozen data ({FROZEN_DATA}): give --run-on with a URL, a file of RDF, store or tree"
        )
    store = Store()
    try:
        store.extend(parse(gzip.decompress(path.read_bytes()), format=RdfFormat.N_QUADS))
    except (OSError, EOFError, SyntaxError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}): expected N-Quads, compressed by gzip") from error
    graphs = (graph.value for graph in store.named_graphs() if isinstance(graph, NamedNode))
    return FrozenEngine(store, [name.removeprefix(SERVICE) for name in graphs if name.startswith(SERVICE)])


def engine_for(pack: Pack, where: str | None, index: Callable[[], Index]) -> SparqlEngine | None:
    """Open the engine that a user names for a pack: as `engine_at`, or `frozen`, or `endpoint` and None, the pack's own.

    Returns None if that is the pack's endpoint, and it has none.
    """
    if where == "frozen":
        return frozen_engine(pack)
    where = pack.endpoint if where in (None, "endpoint") else where
    return None if where is None else engine_at(where, index)


class FrozenEngine:
    """A `SparqlEngine` on a store in which services are graphs. Several threads may use it, as with `StoreEngine`.

    The LIMIT of a query is left out, which leaves to chance which rows there are: so rows of two queries can be compared.
    """

    name = "frozen"

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
    return "".join(_Rewriter(tokens, services).texts())


class _Rewriter:
    def __init__(self, tokens: list[Token], services: Collection[str]) -> None:
        self._tokens, self._services = tokens, services
        self._prefixes = _prefixes(tokens)

    def texts(self) -> Iterator[str]:
        opened, word, silent = list[str](), "", False  # for each open bracket, what it is the block of
        name = ""
        for token in self._tokens:
            if token.is_space:
                yield token.text
            elif token.upper == "SERVICE":
                word = "SERVICE"
                yield "GRAPH"
            elif token.upper == "GRAPH":
                word = "GRAPH"
            elif token.upper == "SILENT" and word == "SERVICE":
                silent = True
            elif word == "SERVICE" and token.text != "{":
                yield self._service(token, silent)
            elif word == "GRAPH" and token.text != "{":
                name = token.text
                is_inside = "SERVICE" in opened
                is_free = token.kind == "variable" and not is_inside
                word = "FREE" if is_free else word
                yield f"{'{ ' if is_free else ''}GRAPH {_NOWHERE if is_inside else name}"
            elif token.text == "{" and token.kind == "other":
                opened.append(f"FREE {name}" if word == "FREE" else word)
                word, silent = "", False
                yield token.text
            elif token.text == "}" and token.kind == "other" and opened:
                last = opened.pop()
                yield token.text
                if last.startswith("FREE "):
                    yield f' FILTER(!STRSTARTS(STR({last[5:]}), "{SERVICE}")) }}'
            else:
                yield token.text

    def _service(self, token: Token, silent: bool) -> str:
        if token.kind == "variable":
            raise QueryRefusedError(f"SERVICE {token.text} has no IRI: write SERVICE <...>")
        prefix, _, local = token.text.partition(":")
        iri = token.text[1:-1] if token.text.startswith("<") else self._prefixes.get(prefix, "") + local
        if iri not in self._services and not silent:
            there = ", ".join(f"<{one}>" for one in sorted(self._services)) or "none"
            raise EngineError(f"SERVICE <{iri}> cannot be reached: the frozen data has {there}")
        return f"<{graph_of_service(iri)}>"


def _prefixes(tokens: list[Token]) -> dict[str, str]:
    written = [token for token in tokens if not token.is_space]
    return {
        name.text.rstrip(":"): iri.text[1:-1]
        for (word, name), iri in zip(pairwise(written), written[2:], strict=False)
        if word.upper == "PREFIX"
    }


def without_limit(sparql: str) -> str:
    """Return a query without its LIMIT and OFFSET, which leave to chance which rows there are.

    >>> without_limit("SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 5 OFFSET 2")
    'SELECT ?x { ?x ?y ?z } ORDER BY ?x'
    """
    tokens = tokens_of(sparql)
    try:
        start, end = shape_of(tokens).modifiers
    except ShapeError:
        return sparql
    written = [at for at in range(start, end) if not tokens[at].is_space]
    counts = [at for one, two in pairwise(written) if tokens[one].upper in ("LIMIT", "OFFSET") for at in (one, two)]
    return "".join(token.text for at, token in enumerate(tokens) if at not in counts).rstrip()
