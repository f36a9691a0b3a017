"""The folder of a store: versions of its database, of which the latest counts.

A version is a RocksDB database that never changes once it is there, in a folder whose name is its number. A writer makes
the next one in a folder of another name, and renames that when it is complete; so a process that is killed leaves the
version before it. Readers hold a lock on the version that they read, and a version that nobody reads is removed when
there is a later one.

| in the folder | |
|---|---|
| `7/` | a version |
| `7.lock` | locked (flock): shared by the readers of version 7, exclusively while it is removed |
| `next/` | a version that is being made, or that a killed writer left |
| `lock` | locked exclusively by a writer |
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from refactx.errors import InputError
from refactx.index import Index
from refactx.paths import make_home, refactx_home
from refactx.sparql.store.errors import StoreError

_NEXT, _WRITER = "next", "lock"
_PAUSE = 0.02
"""The seconds between two attempts to lock a file."""
_LOCK = os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC  # makes it if it is missing; if not, only the right to read is needed


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
            fcntl.flock(lock, fcntl.LOCK_SH)
            if path.is_dir():
                return Version(path, lock)
            os.close(lock)  # it was removed in between, since there is a later one
        return None

    def is_being_written(self) -> bool:
        """Return whether a process is making a version, as far as this user can see."""
        try:
            lock = os.open(self.path / _WRITER, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
                lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
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
        except FileNotFoundError:
            return []

    def _remove_unused(self) -> None:
        """Remove the versions before the latest that nobody reads. The others are left to the next writer."""
        locks = [int(path.stem) for path in self.path.glob("*.lock") if path.stem.isdecimal()]  # of killed writers too
        latest = max(self._versions(), default=0)
        for number in sorted({number for number in (*self._versions(), *locks) if number < latest}):
            path = self.path / str(number)
            lock = os.open(self._lock_of(path), _LOCK, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
