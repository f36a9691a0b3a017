"""The manifests of an ingest's steps, by which a second run continues after the last finished step.

The manifest of a step is `STEP.json` in the folder of the ingest. It has what the step's files depend on
(`dependencies`: path, size and time of change of each source, the options that affect the result, the version), the
step's `result`, and the size and CRC-32 of each of its `files`. It is written last, to a temporary file that is then
renamed. The same command finds it and continues after it; a difference in the dependencies or in a file restarts that
step and all later ones. A file differs after a power failure if the manifest reached the disk before the file did.
(Waiting for the disk instead takes longer than a step of a small change; CRC-32 takes 0.3 s a GB.)
"""

import json
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from refactx.ingest.sources.source import Source

_FORMAT = 3
"""The version of the files that steps leave; another one restarts all steps."""
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step in the ingest's folder, with the folder of its files.

    `dependencies`: all that the files depend on; None if it cannot be compared with that of another run (standard
    input), so that the step never counts as finished.
    """

    name: str
    folder: Path
    files: Path
    dependencies: dict[str, Any] | None

    def result(self) -> dict[str, Any] | None:
        """Return the step's result if it was finished with the same dependencies; None otherwise."""
        try:
            manifest = json.loads(self._manifest.read_bytes())
        except (OSError, ValueError):
            return None
        if (
            self.dependencies is None
            or not isinstance(manifest, dict)
            or manifest.get("dependencies") != self.dependencies
            or manifest.get("files") != self._checksums()
        ):
            return None
        result = manifest.get("result")
        return result if isinstance(result, dict) else None

    def begin(self) -> None:
        """Mark the step's files as incomplete."""
        remove(self._manifest)

    def finish(self, result: dict[str, Any]) -> None:
        """Mark the step's files as complete. `result` must be representable as JSON."""
        new = self._manifest.with_suffix(".new")
        remove(new)
        manifest = {"step": self.name, "dependencies": self.dependencies, "result": result, "files": self._checksums()}
        new.write_text(json.dumps(manifest))  # without an indent, for which json has no C code
        new.replace(self._manifest)

    def next_step(self, name: str, files: str, **options: Any) -> "Step":
        """Return the step after this one, whose files depend on this one's and on `options`."""
        dependencies = None if self.dependencies is None else {**self.dependencies, **options}
        return replace(self, name=name, files=self.folder / files, dependencies=dependencies)

    def _checksums(self) -> dict[str, list[int]]:
        """Return size and CRC-32 of each of the step's files. Hidden files are not its own (a file manager's, say)."""
        return {
            path.name: [path.stat().st_size, _crc32(path)]
            for path in sorted(self.files.glob("[!.]*"))
            if path.is_file()
        }

    @property
    def _manifest(self) -> Path:
        return self.folder / f"{self.name}.json"


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _crc32(path: Path) -> int:
    crc = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc


def first_step(name: str, folder: Path, files: str, sources: Sequence[Source], **options: Any) -> Step:
    """Return the step that reads the sources; its files are in the folder `files` in `folder`."""
    inputs = [source.identity() for source in sources]
    if None in inputs:
        return Step(name=name, folder=folder, files=folder / files, dependencies=None)
    # Through JSON, to compare equal to what a manifest holds: tuples are lists there.
    dependencies = json.loads(
        json.dumps({"version": version("refactx"), "format": _FORMAT, "inputs": inputs, **options})
    )
    return Step(name=name, folder=folder, files=folder / files, dependencies=dependencies)
