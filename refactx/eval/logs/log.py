"""The log of a run: a file with one line for each question, so that a run that was stopped can continue.

A line is a JSON object with a `key`, and is on the disk before the next question is asked. If a process was killed
while it wrote a line, the incomplete line is removed when the file is opened again. One process at a time may have a
file open.
"""

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from refactx.errors import InputError


class AnswerLog:
    """The records of a log by their keys (`records`). Use it in a `with` block.

    Raises InputError if another process has the file open, or if a complete line of it is not a record.
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
        return parse_records(content[:whole], self.path)

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Write a record and wait until it is on the disk."""
        record = {"key": key, **record}
        # (In ASCII: a text of a model may have other line ends, but a record is one line.)
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[key] = record

    def close(self) -> None:
        """Close the file, so that another process may open it."""
        self._file.close()

    def __enter__(self) -> "AnswerLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def parse_records(content: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of complete lines by their keys. Raise InputError, which names the line, if one is not a
    record."""
    records = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            record = json.loads(line)
            records[record["key"]] = record
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}: line {number} is not a record of a run: delete that line, or give another --out"
            ) from error
    return records


def write_atomically(path: Path, document: Any) -> None:
    """Write a JSON file by a rename, so that it is never incomplete."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")  # other machines may write the same file
    try:
        with part.open("w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
