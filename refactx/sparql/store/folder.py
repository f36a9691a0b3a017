"""The folder of a store: versions of its database, of which the latest counts.

A version is a RocksDB database that never changes once it is there, in a folder whose name is its number. A writer makes
the next one in a folder of another name, and renames that when it is complete; so a process that is killed leaves the
version before it. Readers hold a lock on the version that they read, and a version that nobody reads is removed when
there is a later one.

| in the folder | |
|---|---|
| `7/` | a version |
| `7.lock` | locked: shared by the readers of version 7, exclusively while it is removed |
| `next/` | a version that is being made, or that a killed writer left |
| `lock` | locked exclusively by a writer |
"""

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any

from pyoxigraph import QueryBoolean, QuerySolutions, QueryTriples, Store

from refactx.errors import InputError, RefactxError
from refactx.index import Index
from refactx.iris import PREFIXES
from refactx.locking import lock_file
from refactx.paths import make_home, refactx_home
from refactx.postgres.entry import IndexVersion

READ_ERRORS = (OSError, RuntimeError)
"""What pyoxigraph raises if it cannot read a database: RocksDB's checksums and missing files are RuntimeErrors."""
_NEXT, _WRITER = "next", "lock"
_PAUSE = 0.02
"""The seconds between two attempts to lock a file."""
_LOCK = os.O_CREAT | os.O_RDONLY  # makes it if it is missing; if not, only the right to read is needed
FORMAT = 4
"""The version of stores: it changes when the same facts give other triples, or are stored otherwise."""
_FILE = "refactx.json"
_OF_MARK = ("format", "name", "database", "facts", "updated", "odd_dates")
"""What that file has of a mark, beside the version of the index."""


class StoreError(RefactxError):
    """A store that cannot be used: there is none, it is behind its index, belongs to another one, or is damaged.

    The message has the command that makes it right.
    """


@dataclass(frozen=True, slots=True)
class Version:
    """A version that is in use: its folder, and the file descriptor that holds the lock on it until `release`."""

    path: Path
    lock: int

    def release(self) -> None:
        """End this use."""
        os.close(self.lock)


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """The folder of the store of one index; it may not exist."""

    path: Path

    def exists(self) -> bool:
        """Return whether there is a store, or the beginning of one."""
        return bool(self._versions()) or self.was_stopped()

    def use(self) -> Version | None:
        """Return the latest version, locked against removal; None if there is none. Raises OSError if this user may not
        read it."""
        while versions := self._versions():
            path = self.path / str(versions[-1])
            try:
                lock = os.open(self._lock_of(path), _LOCK)
            except FileNotFoundError:  # the store was dropped meanwhile
                continue
            lock_file(lock, wait=True, shared=True)
            if path.is_dir():
                return Version(path, lock)
            os.close(lock)  # it was removed in between, since there is a later one
        return None

    def is_being_written(self) -> bool:
        """Return whether a process is making a version, as far as this user can see."""
        try:
            lock = os.open(self.path / _WRITER, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        try:
            lock_file(lock)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def was_stopped(self) -> bool:
        """Return whether a killed writer left a version that is not complete."""
        return (self.path / _NEXT).exists()

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """Wait until no other process writes, and return the path at which to make a version; nothing is there.

        If the block ends without an error, what is there becomes the latest version, unless nothing is. Raises
        InputError if the folder cannot be written, or for an OSError of the block.
        """
        following, lock = self.path / _NEXT, self._lock_for_writing()
        try:
            _remove(following)
            yield following
            if following.exists():
                _sync(following)
                version = self.path / str(max(self._versions(), default=0) + 1)
                os.close(os.open(self._lock_of(version), _LOCK, 0o644))  # readers may not be able to make it
                following.rename(version)
                _sync(self.path)
            self._remove_unused()
        except OSError as error:
            rmtree(following, ignore_errors=True)
            raise self._unwritable(error) from None
        except BaseException:
            rmtree(following, ignore_errors=True)
            raise
        finally:
            os.close(lock)

    def drop(self) -> bool:
        """Remove the store. Return whether there was any. Readers that have it open may fail."""
        had = self.exists()
        if self.path.exists():
            with self.writing():
                rmtree(self.path)
        return had

    def bytes(self, version: Path) -> int:
        """Return the size of a version on disk."""
        return sum(file.stat().st_size for file in version.iterdir() if file.is_file())

    def _lock_for_writing(self) -> int:
        """Return a file descriptor that holds the writer's lock until it is closed, or until this process ends."""
        path = self.path / _WRITER
        while True:
            try:
                make_home(self.path)
                lock = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
            except OSError as error:
                raise self._unwritable(error) from None
            try:
                _wait_for(lock)
            except BaseException:  # such as KeyboardInterrupt
                os.close(lock)
                raise
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(lock).st_ino:
                    return lock
            os.close(lock)  # the store was dropped meanwhile, with this file

    def _unwritable(self, error: OSError) -> InputError:
        reason = error.strerror or " ".join(str(error).split())
        return InputError(
            f"cannot write the store in {self.path} ({reason}): make room or get the rights, or set REFACTX_HOME to "
            "another folder"
        )

    def _versions(self) -> list[int]:
        try:
            return sorted(int(path.name) for path in self.path.iterdir() if path.name.isdecimal())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _remove_unused(self) -> None:
        """Remove the versions before the latest that nobody reads. The others are left to the next writer."""
        locks = [int(path.stem) for path in self.path.glob("*.lock") if path.stem.isdecimal()]  # of killed writers too
        latest = max(self._versions(), default=0)
        for number in sorted({number for number in (*self._versions(), *locks) if number < latest}):
            path = self.path / str(number)
            lock = os.open(self._lock_of(path), _LOCK, 0o644)
            try:
                lock_file(lock)
                _remove(path)
                self._lock_of(path).unlink()
            except BlockingIOError:
                continue
            finally:
                os.close(lock)

    @staticmethod
    def _lock_of(version: Path) -> Path:
        return version.with_name(f"{version.name}.lock")


def folder_of(index: Index) -> StoreFolder:
    """Return the folder of an index's store, below the folder of ReFactX's own data: one for each name in a database.

    Raises StoreError if the index is read from a file: it has no store.
    """
    try:
        database = index.database
    except InputError as error:  # it is a file
        raise StoreError(str(error)) from None
    return folder_of_name(index.name, database.address)


def folder_of_name(name: str, address: tuple[str, str, str]) -> StoreFolder:
    """Return the folder of the store of the index with a name, given the host, port and name of its database."""
    home = refactx_home()
    host, port, database = address
    if Path(host).is_relative_to(home):  # the embedded server: its home may be moved, with the stores in it
        host = str(Path(host).relative_to(home))
    digest = hashlib.sha256("\0".join((host, port, database, name)).encode()).hexdigest()[:16]
    return StoreFolder(home / "stores" / f"{re.sub(r'[^A-Za-z0-9._]+', '-', name)[:40]}-{digest}")


def _wait_for(lock: int) -> None:
    """Lock a file exclusively. Ctrl-C is heard at any moment: one that comes just before a call that blocks is not."""
    while True:
        with suppress(BlockingIOError):
            lock_file(lock)
            return
        time.sleep(_PAUSE)


def _remove(path: Path) -> None:
    if path.exists():
        rmtree(path)


def _sync(folder: Path) -> None:
    """Have a folder's entries on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class StoreMark:
    """What a store was derived from: the `name` of the index and the database it is in, for people to read; its mark;
    `facts`, the number of its facts; when the store was brought to this (`updated`, ISO 8601); and `odd_dates`, as
    `refactx.sparql.store.triples.Triples` has them."""

    name: str
    database: str
    index: IndexVersion
    facts: int
    updated: str
    odd_dates: Mapping[str, str]
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the mark into the folder of a store, which has it on disk when this returns."""
        document = {name: getattr(self, name) for name in _OF_MARK} | self.index.to_json()
        with (folder / _FILE).open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())


def read_store_mark(folder: Path) -> StoreMark | None:
    """Return the mark of the store in a folder; None if it has none that can be read. Raises OSError."""
    try:
        document: dict[str, Any] = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        fields = {name: document[name] for name in _OF_MARK} | {"odd_dates": dict(document["odd_dates"])}
        return StoreMark(index=IndexVersion.from_json(document), **fields)
    except (FileNotFoundError, KeyError, RecursionError, TypeError, ValueError):
        return None


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
    version, mark = use_store(index)
    return _opened(version, mark, index.name)


def use_store(index: Index) -> tuple[Version, StoreMark]:
    """Return the version of an index's store that has just what the index has, locked against removal, and its mark.

    Raises as `open_store` does, but for a database that is damaged.
    """
    folder = folder_of(index)
    while True:
        version, mark = _latest(folder, index.name)
        if mark.index == index.snapshot.mark:
            return version, mark
        version.release()
        if not index.refresh():
            raise StoreError(difference(mark, index))


def open_latest(folder: StoreFolder, name: str) -> FactStore:
    """Open the store in a folder, whatever it was derived from; `name` is that of its index.

    Raises StoreError if there is none, if it is damaged, or if another version of refactx wrote it.
    """
    return _opened(*_latest(folder, name), name)


def _opened(version: Version, mark: StoreMark, name: str) -> FactStore:
    try:
        return FactStore(Store.read_only(str(version.path)), mark, version)
    except READ_ERRORS as error:
        version.release()
        raise damaged(name, " ".join(str(error).split())) from None


def damaged(name: str, reason: str) -> StoreError:
    """Return the error for a store of an index that cannot be read."""
    return StoreError(
        f"the store of index {name!r} is damaged ({reason}): run `refactx store build {shlex.quote(name)}`"
    )


def _latest(folder: StoreFolder, name: str) -> tuple[Version, StoreMark]:
    """Return the latest version of a store, and its mark. Raises as `open_latest` does."""
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
    except OSError as error:
        version.release()
        raise damaged(name, " ".join(str(error).split())) from None
    if mark is None:
        version.release()
        raise damaged(name, "it has no mark, as one of an earlier refactx")
    if mark.format != FORMAT:
        version.release()
        raise StoreError(
            f"the store of index {name!r} was built by another refactx (format {mark.format}, expected {FORMAT}): "
            f"run {command}"
        )
    return version, mark


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
