"""The steps of an ingest, each of which leaves files and, once they are whole, a manifest: so a second run goes on.

A manifest is `STEP.json` in the folder of the ingest: what went in (`inputs`: path, bytes and time of change of each
source), the options that bear on the result, the version, and what came out: `result`, and `files`, bytes and CRC-32 of
each. It is written last, under another name first. The same command finds it and goes on behind it; any difference in what
went in begins that step, and all behind it, anew. So does any difference in a file, which is what a power failure leaves
where the manifest came to the disk before the file did. (Waiting for the disk instead takes longer than a step of a small
change; CRC-32 takes 0.3 s a GB.)
"""

import json
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .sources.source import Source

_FORMAT = 2
"""Of the files that steps leave: another number makes old ones begin anew."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """One step in the ingest's folder, and the folder in it where its files go. `went_in` is all that these depend on; None if
    that can't be told apart from another time's (standard input), so that it never counts as finished."""

    name: str
    folder: Path
    files: Path
    went_in: dict[str, Any] | None

    def result(self) -> dict[str, Any] | None:
        """What the step gave, if it was finished with the same input; None if it is still to be done."""
        try:
            manifest = json.loads(self._manifest.read_bytes())
        except (OSError, ValueError):
            return None
        if (
            self.went_in is None
            or not isinstance(manifest, dict)
            or manifest.get("went_in") != self.went_in
            or manifest.get("files") != self._sums()
        ):
            return None
        result = manifest.get("result")
        return result if isinstance(result, dict) else None

    def begin(self) -> None:
        """From here on the step's files are not whole."""
        remove(self._manifest)

    def finish(self, result: dict[str, Any]) -> None:
        """The step's files are whole. `result` must be what JSON can hold."""
        new = self._manifest.with_suffix(".new")
        remove(new)
        manifest = {"step": self.name, "went_in": self.went_in, "result": result, "files": self._sums()}
        new.write_text(json.dumps(manifest))  # (with an indent Python writes it, and not C)
        new.replace(self._manifest)

    def then(self, name: str, files: str, **options: Any) -> "Step":
        """The step behind this one, whose files depend on this one's and on more options."""
        went_in = None if self.went_in is None else {**self.went_in, **options}
        return replace(self, name=name, files=self.folder / files, went_in=went_in)

    def _sums(self) -> dict[str, list[int]]:
        """Bytes and CRC-32 of each of its files; hidden ones are somebody else's (a file manager's, say)."""
        return {
            path.name: [path.stat().st_size, _crc(path)] for path in sorted(self.files.glob("[!.]*")) if path.is_file()
        }

    @property
    def _manifest(self) -> Path:
        return self.folder / f"{self.name}.json"


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def first_step(name: str, folder: Path, files: str, sources: Sequence[Source], **options: Any) -> Step:
    """The step that reads the sources, whose files go into the folder `files` in `folder`."""
    inputs = [source.identity() for source in sources]
    if None in inputs:
        return Step(name, folder, folder / files, None)
    # Through JSON, so that it compares with what a manifest holds: tuples are lists there.
    went_in = json.loads(json.dumps({"version": version("refactx"), "format": _FORMAT, "inputs": inputs, **options}))
    return Step(name, folder, folder / files, went_in)
