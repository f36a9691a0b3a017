"""The update of a store: what was appended to its index and forgotten since, as triples to add and to remove.

Where the index was compacted, the store moves to the new tables by the note of the compaction
(`refactx.postgres.marks.after_compactions`). A store that cannot follow is built anew: if it belongs to an earlier
index of the name or is damaged, if too much has changed, or in rare cases in which facts that have not changed would
become other triples (`refactx.sparql.store.delta`).
"""

import time
from pathlib import Path
from shutil import rmtree

from pyoxigraph import Store

from refactx.errors import IndexNotFoundError
from refactx.index import Index
from refactx.postgres.catalogue import find_index
from refactx.postgres.marks import IndexMark, after_compactions
from refactx.sparql.store.building import Advance, StoreReport, build_at, finish
from refactx.sparql.store.delta import CannotFollowError, Delta, delta_since
from refactx.sparql.store.errors import READ_ERRORS, StoreError
from refactx.sparql.store.folder import StoreFolder, folder_of
from refactx.sparql.store.opening import FactStore, open_latest


def update_store(index: Index, *, advance: Advance = lambda done: None) -> StoreReport:
    """Bring the store of an index to what the index has now. Build it if there is none, or if it cannot follow.

    The index is refreshed first. Readers keep the store as it was. `advance` is called as facts are done.

    Raises as `refactx.sparql.store.build_store` does.
    """
    folder = folder_of(index)
    with folder.writing() as path:
        try:
            store = open_latest(folder, index.name)
        except StoreError as error:
            what, _, _ = str(error).rpartition(": ")
            return build_at(path, folder, index, advance, what if folder.exists() else "")
        with store:
            try:
                return _update_at(path, folder, store, index)
            except CannotFollowError as error:
                reason = str(error)
            except READ_ERRORS as error:  # of the store as it is, or of the next one: then the build raises it again
                reason = f"it was damaged ({' '.join(str(error).split())})"
        rmtree(path, ignore_errors=True)
        return build_at(path, folder, index, advance, reason)


def _update_at(path: Path, folder: StoreFolder, store: FactStore, index: Index) -> StoreReport:
    begun = time.monotonic()
    while True:
        before = _moved(store.mark.index, index)
        snapshot = index.snapshot
        try:
            delta = Delta() if before == snapshot.mark else delta_since(before, index, store.oxigraph)
        except IndexNotFoundError:  # the index was compacted while it was read, or another server answers
            if index.snapshot is snapshot and not index.refresh() and index.snapshot is snapshot:
                raise
            continue
        if index.snapshot.mark == snapshot.mark:
            break
    change, count = "unchanged", len(store.oxigraph)
    if store.mark.index != snapshot.mark:
        change, count = "updated", _write(path, store, snapshot.mark, index, delta)
    return StoreReport(
        index=index.name,
        change=change,
        facts=index.facts,
        triples=count,
        size=folder.bytes(path if path.exists() else store.path),
        seconds=time.monotonic() - begun,
        folder=str(folder.path),
        added=len(delta.added),
        removed=len(delta.removed),
        odd_dates=delta.odd_dates,
    )


def _moved(mark: IndexMark, index: Index) -> IndexMark:
    """Refresh an index, and return a store's mark as it would be if the store had followed all compactions.

    Raises CannotFollowError if the store is of another index or has tables that the index does not have any more.
    """
    while True:  # the account of changes and the tables are of one moment
        index.refresh()
        entry = find_index(index.database, index.name)
        if not index.refresh():
            break
    now = index.snapshot.mark
    if mark.index != now.index:
        raise CannotFollowError("it was that of another index of this name")
    mark = after_compactions(mark, entry.report.get("changes", ()))
    if not (set(mark.segments) <= set(now.segments) and set(mark.names) <= set(now.names)):
        raise CannotFollowError("the index was compacted after changes that the store does not have")
    return mark


def _write(path: Path, store: FactStore, mark: IndexMark, index: Index, delta: Delta) -> int:
    """Write the next version of a store. Return the number of its triples."""
    if path.exists():
        rmtree(path)
    store.oxigraph.backup(str(path))  # hard links to files that do not change
    opened = Store(str(path))
    for triple in delta.removed:
        opened.remove(triple)
    opened.extend(delta.added)
    finish(opened, path, mark, index, {**delta.odd_dates, **store.mark.odd_dates})
    return len(opened)
