"""The building of a store: all facts of an index become triples, in one pass."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any

from pyoxigraph import Quad, Store

from refactx.fact import DESCRIPTIONS
from refactx.index import Index, Named
from refactx.postgres.marks import IndexMark
from refactx.sparql.store.folder import StoreFolder, folder_of
from refactx.sparql.store.mark import StoreMark
from refactx.sparql.store.triples import Triples, own_names

BATCH = 8192
"""Facts that become triples together."""

Advance = Callable[[int], object]
"""Called with a number of facts that are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """A store after it was built or updated.

    `change`: `built`, `updated`, or `unchanged`; `why`: why it was built anew instead of updated, if so; `added`,
    `removed`: triples, in an update; `triples`: how many it has; `size`: its bytes on disk; `seconds`: what it took;
    `odd_dates`: by the IRI of the predicate, a date of its triples that is no xsd:dateTime.
    """

    index: str
    change: str
    facts: int
    triples: int
    size: int
    seconds: float
    folder: str
    added: int = 0
    removed: int = 0
    why: str = ""
    odd_dates: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what the commands print with `--json`."""
        document = asdict(self) | {"seconds": round(self.seconds, 3)}
        return {"bytes" if name == "size" else name: value for name, value in document.items()}


def build_store(index: Index, *, advance: Advance = lambda done: None, why: str = "") -> StoreReport:
    """Build the store of an index, in place of the one that it may have. Readers keep theirs.

    The index is refreshed first. Memory holds all its names, some 250 bytes each. `advance` is called as facts are
    done; `why`: for the report.

    Raises InputError if the folder cannot be written, OSError if the disk is full; and as `Index.children` does.
    """
    folder = folder_of(index)
    with folder.writing() as path:
        return build_at(path, folder, index, advance, why)


def build_at(path: Path, folder: StoreFolder, index: Index, advance: Advance, why: str) -> StoreReport:
    """Build a store at a path where nothing is."""
    begun = time.monotonic()
    index.refresh()
    while True:
        mark, odd_dates = index.snapshot.mark, dict[str, str]()
        store = Store(str(path))
        store.bulk_extend(all_triples(index, advance, odd_dates))
        if index.snapshot.mark == mark:
            break
        del store  # the index was compacted, and maybe changed, while it was read
        rmtree(path)
    finish(store, path, mark, index, odd_dates)
    count = len(store)
    del store  # closes it
    return StoreReport(
        index=index.name,
        change="built",
        facts=index.facts,
        triples=count,
        size=folder.bytes(path),
        seconds=time.monotonic() - begun,
        folder=str(folder.path),
        why=why,
        odd_dates=odd_dates,
    )


def finish(store: Store, path: Path, mark: IndexMark, index: Index, odd_dates: Mapping[str, str]) -> None:
    """Have a store with its mark on disk."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.flush()
    StoreMark(index.name, index.database.shown, mark, index.facts, now, odd_dates).write(path)


def triples_of(index: Index, find: Callable[[set[str]], dict[str, Named]]) -> Triples:
    """Return the maker of triples for an index, given a lookup of its names."""
    selection = index.entry.report.get("selection") or {}
    languages = selection.get("languages") or ["en"]
    return Triples(find, languages[0], described=selection.get("descriptions", True))


def all_triples(index: Index, advance: Advance, odd_dates: dict[str, str]) -> Iterator[Quad]:
    """Yield the triples of all facts of an index and of all its names; labels of names without ids are repeated.

    `odd_dates`: gets those of the triples.
    """
    named = all_names(index)
    triples = triples_of(index, lambda names: {name: named[name] for name in names if name in named})
    triples.odd_dates = odd_dates
    described: defaultdict[str, list[str]] = defaultdict(list)
    labelled: set[str] = set()
    facts = index.all_facts()
    while some := list(islice(facts, BATCH)):
        for fact in some:
            if fact.predicate in DESCRIPTIONS and f" ({fact.object})" in fact.subject:
                described[fact.subject].append(fact.object)
        for triple in triples.of(some):
            if triple is None:
                continue
            yield triple
            for name in own_names(triple):
                if name not in labelled:
                    labelled.add(name)
                    yield triples.label(name, None)
        advance(len(some))
    for name, one in named.items():
        if one.object_kind != "inverse":
            yield triples.label(name, one, described.get(name, ()))


def all_names(index: Index) -> dict[str, Named]:
    """Return all names of an index with their ids."""
    named: dict[str, Named] = {}
    for key, block in reversed(index.name_rows()):  # the latest table is the first, and it decides
        named |= index.unpack_names(key, block)
    return named
