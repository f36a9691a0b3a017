"""Frozen data in a file, since it takes seconds to make."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, RdfFormat, Store, parse

from refactx.nl2sparql.frozen.freezing import Frozen, Planned
from refactx.nl2sparql.frozen.realising import term_of


def cached(path: Path, make: Callable[[], Frozen]) -> Frozen:
    """Return the data of a file; if there is none that can be read, that which `make` returns, and keep it there.

    A file that cannot be written is done without.
    """
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, SyntaxError):
        frozen = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(_written(frozen), ensure_ascii=False), encoding="utf-8")
        new.replace(path)
    except OSError:
        pass
    return frozen


def _written(frozen: Frozen) -> dict[str, Any]:
    quads = sorted(f"{one.subject} {one.predicate} {one.object} {_graph(one.graph_name)}." for one in frozen.store)
    return {
        "quads": quads,
        "services": sorted(frozen.services),
        "planned": {
            key: [list(one.variables), [[str(term) for term in row] for row in one.rows]]
            for key, one in frozen.planned.items()
        },
        "failures": dict(frozen.failures),
    }


def _graph(name: object) -> str:
    return "" if isinstance(name, DefaultGraph) else f"{name} " if isinstance(name, NamedNode) else ""


def _read(document: dict[str, Any]) -> Frozen:
    store = Store()
    store.extend(parse("\n".join(document["quads"]), format=RdfFormat.N_QUADS))
    planned = {
        key: Planned(tuple(variables), tuple(tuple(map(term_of, row)) for row in rows))
        for key, (variables, rows) in document["planned"].items()
    }
    return Frozen(store=store, services=frozenset(document["services"]), planned=planned, failures=document["failures"])
