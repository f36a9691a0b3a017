"""One line a question, kept whatever happens: the file that a run writes and goes on with.

A line is a JSON object with a `key`. It is on the disk before the next question is asked. What a killed process left of
a line is dropped when the file is opened again. One process at a time may have a file open.
"""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from refactx.errors import InputError


class AnswerLog:
    """The lines of a file by their keys, and a way to add one. Use it in a `with` block.

    Raises InputError if another process has the file open, or if a whole line of it is no record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise InputError(f"cannot write {path} ({error.strerror}): give another --out") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise InputError(f"{path} is being written by another run: wait for it, or give another --out") from error
        try:
            self.records = self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> dict[str, dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        return parsed(content[:whole], self.path)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Write a record and wait until it is on the disk."""
        record = {"key": key, **record}
        # ASCII, so that no text of a model can be anything but one line
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[key] = record

    def close(self) -> None:
        """Let others write."""
        self._file.close()

    def __enter__(self) -> "AnswerLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parsed(content: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """The records of whole lines by their keys. Raises InputError, naming the line that is none."""
    records = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            record = json.loads(line)
            records[record["key"]] = record
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: line {number} is no record of a run: delete that line, or give another --out"
            ) from error
    return records


def write_whole(path: Path, document: Any) -> None:
    """Write a JSON file such that it is there complete or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
