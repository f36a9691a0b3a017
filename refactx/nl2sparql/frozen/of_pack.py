"""The frozen data of a pack: of its examples and of its cases."""

import json
from collections.abc import Mapping
from hashlib import sha256

from refactx.nl2sparql.frozen.cache import cached
from refactx.nl2sparql.frozen.freezing import Frozen, freeze
from refactx.nl2sparql.pack import Pack
from refactx.nl2sparql.rule_checks import Place
from refactx.paths import refactx_home
from refactx.sparql.engines import SparqlEngine

MADE = 2
"""To be raised when the same queries are frozen in another way."""


def gold_queries(pack: Pack) -> dict[str, str]:
    """Return the gold queries of a pack: `example-ID` for those of its examples, `case-ID` for those of its cases."""
    queries = {f"example-{one.id}": one.sparql for one in pack.examples}
    path = None if pack.folder is None else pack.folder / "cases.jsonl"
    if path is not None and path.is_file():
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        queries |= {f"case-{one['id']}": one["sparql"] for one in cases if one.get("sparql")}
    return queries


def frozen_pack(pack: Pack) -> Frozen:
    """Return the data frozen from the gold queries of a pack.

    It is kept in `frozen/` of `refactx_home()`, and made again when the queries or the rules on graphs are other ones.
    """
    queries, graphs, homes = gold_queries(pack), sorted(pack.graphs.values()), homes_of(pack)
    digest = sha256(json.dumps([MADE, queries, graphs, homes], sort_keys=True).encode()).hexdigest()[:16]
    path = refactx_home() / "frozen" / f"{pack.name}-{digest}.json"
    return cached(path, lambda: freeze(queries, graphs=graphs, homes=homes))


def homes_of(pack: Pack) -> Mapping[str, str]:
    """Return the graph of each property and class, by IRI, that the rules of a pack have in one graph alone."""
    places = [check for rule in pack.rules for check in rule.checks if isinstance(check, Place)]
    return {
        name[1:-1]: next(iter(place.graphs))[1:-1]
        for place in places
        if len(place.graphs) == 1 and not place.never
        for name in place.wanted.names
    }


def frozen_engine(pack: Pack) -> SparqlEngine:
    """Return an engine on the frozen data of a pack, which need not be online for it.

    frozen_engine(load_pack("liita")).run("ASK { ?entry elita:HasEmotion ?emotion }")
    """
    return frozen_pack(pack).engine()
