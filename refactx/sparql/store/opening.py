"""Opening the store of an index for queries, if it has just what the index has."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pyoxigraph import QueryBoolean, QuerySolutions, QueryTriples, Store

from refactx.index import Index
from refactx.query.sparql import PREFIXES
from refactx.sparql.store.errors import READ_ERRORS, StoreError
from refactx.sparql.store.folder import StoreFolder, Version, folder_of
from refactx.sparql.store.mark import FORMAT, StoreMark, read_store_mark


class FactStore:
    """The store of an index, open for reading. Close it, or use it in a `with` block.

    `oxigraph`: the database of triples, read-only; it does not change while it is open. `mark`: what it was derived
    from. Queries see the default graph: `wd:` and `wdt:` triples, `rdfs:label`, `schema:description`, `skos:altLabel`.
    """

    def __init__(self, oxigraph: Store, mark: StoreMark, version: Version) -> None:
        self.oxigraph, self.mark = oxigraph, mark
        self._version: Version | None = version

    @property
    def path(self) -> Path:
        """The folder of the database. Raises ValueError if the store is closed."""
        if self._version is None:
            raise ValueError("the store is closed")
        return self._version.path

    def query(self, text: str, prefixes: Mapping[str, str] = PREFIXES) -> QuerySolutions | QueryBoolean | QueryTriples:
        """Run a SPARQL query and return what `pyoxigraph.Store.query` returns.

        Raises SyntaxError if it is no SPARQL, OSError or RuntimeError if the database is damaged.
        """
        return self.oxigraph.query(text, prefixes=dict(prefixes))

    def close(self) -> None:
        """Release the files. Results of queries that are still being read keep theirs."""
        version, self._version = self._version, None
        if version is not None:
            del self.oxigraph
            version.release()

    def __enter__(self) -> "FactStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(index: Index) -> FactStore:
    """Open the store of an index.

    If the store is not that of the index as it was opened, the index is refreshed, since both may have changed.

        with refactx.open_index("demo") as index, open_store(index) as store:
            for (name,) in store.query('SELECT ?name WHERE { wd:Q797 rdfs:label ?name }'):
                print(name.value)  # Alaska

    Raises StoreError, which says what to run, if there is no store, or if it does not have just what the index has;
    and as `Index.refresh` does.
    """
    folder = folder_of(index)
    while True:
        store = open_latest(folder, index.name)
        if store.mark.index == index.snapshot.mark:
            return store
        store.close()
        if not index.refresh():
            raise StoreError(difference(store.mark, index))


def open_latest(folder: StoreFolder, name: str) -> FactStore:
    """Open the store in a folder, whatever it was derived from; `name` is that of its index.

    Raises StoreError if there is none, if it is damaged, or if another version of refactx wrote it.
    """
    command = f"`refactx store build {shlex.quote(name)}`"
    try:
        version = folder.use()
    except OSError as error:
        raise StoreError(
            f"cannot read the store of index {name!r} in {folder.path} ({error.strerror}): get the rights to read it"
        ) from None
    if version is None:
        if folder.is_being_written():
            raise StoreError(f"the store of index {name!r} is still being built: wait until that has ended")
        if folder.was_stopped():
            raise StoreError(f"the store of index {name!r} is not complete, since its build was stopped: run {command}")
        raise StoreError(f"index {name!r} has no store: run {command}")
    try:
        mark = read_store_mark(version.path)
        opened = Store.read_only(str(version.path))
    except READ_ERRORS as error:
        version.release()
        reason = " ".join(str(error).split())
        raise StoreError(f"the store of index {name!r} is damaged ({reason}): run {command}") from None
    if mark is None:
        version.release()
        raise StoreError(
            f"the store of index {name!r} is damaged (it has no mark, as one of an earlier refactx): run {command}"
        )
    if mark.format != FORMAT:
        version.release()
        raise StoreError(
            f"the store of index {name!r} was built by another refactx (format {mark.format}, expected {FORMAT}): "
            f"run {command}"
        )
    return FactStore(opened, mark, version)


def difference(mark: StoreMark, index: Index) -> str:
    """Return what is to be said of a store whose mark is not that of its index."""
    name = shlex.quote(index.name)
    if mark.index.index != index.snapshot.mark.index:
        made = mark.index.index[1][:19].replace("T", " ")
        return (
            f"the store of index {index.name!r} is that of another index of this name (of {made} UTC): "
            f"run `refactx store build {name}`"
        )
    behind = f"the store of index {index.name!r} is behind the index"
    if folder_of(index).is_being_written():
        return f"{behind}, and another process is writing it: wait until that has ended"
    return f"{behind}: run `refactx store update {name}`"


def describe_store(index: Index) -> dict[str, Any]:
    """Return the figures of an index's store, and whether it has just what the index has, as a JSON document.

    Raises StoreError if there is none that can be opened.
    """
    folder = folder_of(index)
    with open_latest(folder, index.name) as store:
        is_current = store.mark.index == index.snapshot.mark
        return {
            "index": index.name,
            "current": is_current,
            "problem": None if is_current else difference(store.mark, index),
            "triples": len(store.oxigraph),
            "facts": store.mark.facts,
            "bytes": folder.bytes(store.path),
            "updated": store.mark.updated,
            "folder": str(folder.path),
        }
