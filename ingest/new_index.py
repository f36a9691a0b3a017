"""Building an index: sources → knowledge base → token sequences → tree → rows, published when it is complete.

The manifest of a step is `STEP.json` in the folder of the ingest. It has what the step's files depend on
(`dependencies`: path, size and time of change of each source, the options that affect the result, the version), the
step's `result`, and the size and CRC-32 of each of its `files`. It is written last, to a temporary file that is then
renamed. The same command finds it and continues after it; a difference in the dependencies or in a file restarts that
step and all later ones. A file differs after a power failure if the manifest reached the disk before the file did.
(Waiting for the disk instead takes longer than a step of a small change; CRC-32 takes 0.3 s a GB.)

| step | leaves | removes |
|---|---|---|
| read | `staged/`: rows (`refactx.ingest.parsers.parsed`) | |
| join | `knowledge/`: the files of `refactx.ingest.knowledge.knowledge_base` | `staged/` |
| encode | `encoded/`: sorted token sequences (`refactx.ingest.encoding`) | |
"""

import hashlib
import json
import shutil
import sys
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Unpack

from refactx.errors import InputError
from refactx.ingest.build import Build, BuildOptions
from refactx.ingest.encoding import EncodedFacts, encode_facts, open_encoded
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, join
from refactx.ingest.knowledge.names import KnownNames
from refactx.ingest.parsers.formats import LineAccount, open_sources, read_sources, recognised
from refactx.ingest.publish import IngestResult, hubs_of, name_rows, publish_index
from refactx.ingest.report import Report
from refactx.ingest.sources import Inputs, Source
from refactx.postgres.database import Database

_FORMAT = 5
"""The version of the files that steps leave; another one restarts all steps."""
_BLOCK = 1 << 20
BYTES_PER_TEXT_BYTE = 0.7
"""Peak size of the folder for each byte of the sources' text (docs/how-to/wikidata-dump.md has the measurements). It is
reached while facts are sorted; half of it is what DuckDB spills."""
_REPORTED_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestStep:
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

    def next_step(self, name: str, files: str, **options: Any) -> "IngestStep":
        """Return the step after this one, whose files depend on this one's and on `options`."""
        dependencies = None if self.dependencies is None else {**self.dependencies, **options}
        return replace(self, name=name, files=self.folder / files, dependencies=dependencies)

    def _checksums(self) -> dict[str, list[int]]:
        """Return size and CRC-32 of each of the step's files. Hidden files are not its own (a file manager's, say)."""
        sums: dict[str, list[int]] = {}
        for path in filter(Path.is_file, sorted(self.files.glob("[!.]*"))):
            size, crc = path.stat().st_size, 0
            with path.open("rb", buffering=0) as file:
                while block := file.read(_BLOCK):
                    crc = zlib.crc32(block, crc)
            sums[path.name] = [size, crc]
        return sums

    @property
    def _manifest(self) -> Path:
        return self.folder / f"{self.name}.json"


def remove(path: Path) -> None:
    """Remove a file, or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def first_step(name: str, folder: Path, files: str, sources: Sequence[Source], **options: Any) -> IngestStep:
    """Return the step that reads the sources; its files are in the folder `files` in `folder`."""
    inputs = [source.identity() for source in sources]
    if None in inputs:
        return IngestStep(name=name, folder=folder, files=folder / files, dependencies=None)
    # Through JSON, to compare equal to what a manifest holds: tuples are lists there.
    dependencies = json.loads(
        json.dumps({"version": version("refactx"), "format": _FORMAT, "inputs": inputs, **options})
    )
    return IngestStep(name=name, folder=folder, files=folder / files, dependencies=dependencies)


class IngestSteps:
    """The steps of a build in its folder. What an earlier run finished with the same input is not repeated.

    `known`: the names that entities have already, if facts are added to an index. `identity`: a text that no other
    index has, in any database.
    """

    def __init__(self, build: Build, inputs: Inputs, known: KnownNames | None = None, identity: str = "") -> None:
        self._build, self._inputs, self._known = build, inputs, known
        options = {"selection": build.selection.to_json(), "strict": build.strict}
        self._read = first_step("read", build.work, "staged", inputs.all, **options)
        base: dict[str, Any] = {}
        if known is not None:
            hubs = sorted((hub.object, hub.predicate, hub.inverse) for hub in known.hubs)
            base = {
                "names": list(known.tables),
                "index": identity,
                "inverses": sorted(map(list, known.inverses.items())),
                "updates": [known.updates, known.renames],
                "hubs": hashlib.sha256(json.dumps(hubs).encode()).hexdigest(),  # they may be many
            }
        self._join = self._read.next_step("join", "knowledge", **base)

    def knowledge_base(self) -> KnowledgeBase:
        """Read and join. Raises as `read_sources` and `join` do, and InputError if the disk is too small."""
        build, folder, staged = self._build, self._join.files, self._read.files
        done = self._join.result()
        if done is not None:
            return KnowledgeBase(folder, Report.from_json(done))
        lines = self._lines(staged)
        with build.clock.step("join"):
            self._join.begin()
            remove(folder)
            knowledge = join(staged, lines, folder, build.selection, resources=build.resources, known=self._known)
            self._join.finish(asdict(knowledge.report))
            self._read.begin()
            remove(staged)
        return knowledge

    def encoded_facts(self, knowledge: KnowledgeBase) -> EncodedFacts:
        """Encode and sort. Raises what `encode_facts` raises."""
        build, tokenizer = self._build, self._build.tokenizer
        step = self._join.next_step("encode", "encoded", tokenizer=tokenizer.fingerprint, trigger=build.trigger)
        folder = step.files
        with build.clock.step("encode"), build.bars() as bars:
            if step.result() is not None:
                return open_encoded(folder)
            step.begin()
            remove(folder)
            folder.mkdir()
            facts = encode_facts(
                knowledge.folder, tokenizer, build.trigger, folder, resources=build.resources, advance=bars.advance
            )
            step.finish({"facts": len(facts), "tokens": facts.token_count()})
        return facts

    def _lines(self, staged: Path) -> LineAccount:
        """Read the sources into staged rows."""
        done = self._read.result()
        if done is not None:
            return LineAccount.from_json(done)
        build = self._build
        with build.clock.step("read"):
            self._read.begin()
            for old in ("staged", "knowledge", "encoded"):
                remove(build.work / old)
            opened = open_sources(self._inputs, build.selection, build.resources.workers)
            _check_disk(build.work, expected_bytes(self._inputs.all), build.resources.progress)
            staged.mkdir()
            lines = read_sources(
                opened, self._inputs, staged, build.selection, strict=build.strict, resources=build.resources
            )
            self._read.finish(lines.to_json())
        return lines


def expected_bytes(sources: Sequence[Source]) -> int:
    """Return how many bytes an ingest of the sources needs in its folder at the peak; standard input counts as 0.

    How much text a compressed file holds is estimated from its start.
    """
    return round(sum((source.size or 0) * source.text_per_byte() for source in sources) * BYTES_PER_TEXT_BYTE)


def _check_disk(folder: Path, needed: int, report: bool) -> None:
    """Raise InputError if an ingest needs more bytes than are free in `folder`.

    If `report`, write a need of 1 GiB or more to standard error.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the ingest needs about {_format_size(needed)} in {folder}, where {_format_size(free)} are free: "
            "free disk space there, or give --work-dir a folder on a larger disk"
        )
    if report and needed >= _REPORTED_BYTES:
        sys.stderr.write(f"the ingest needs about {_format_size(needed)} in {folder} ({_format_size(free)} are free)\n")


def _format_size(size: int) -> str:
    """Return a number of bytes as text.

    >>> _format_size(2_500_000_000), _format_size(300_000), _format_size(700)
    ('2.5 GB', '0.3 MB', '0.7 kB')
    """
    if size < 100_000:
        return f"{size / 1e3:,.1f} kB"
    return f"{size / 1e9:,.1f} GB" if size >= 100_000_000 else f"{size / 1e6:,.1f} MB"


def ingest(sources: Sequence[Path | Source], database: Database, **options: Unpack[BuildOptions]) -> IngestResult:
    """Build an index from sources of any format. Readers see it only when it is complete.

    If an ingest was stopped, a call with the same arguments continues after the last finished step.

    Args:
        sources: files, of one format or several; `-` is standard input.
        database, index: where the index is stored, and its name.
        tokenizer, tokenizer_name: of the models that will use the index, and its name in the catalogue, from which a user
            can load it (a Hugging Face id, say).
        work: a folder for temporary files, made if it is missing.
        wikipedia: English Wikipedia's dumps of the tables `page` and `page_props`, for titles and short descriptions.
        selection: which facts of the sources the index gets.
        strict: raise an error at the first malformed line instead of counting it.
        replace: replace an index of the same name; readers see the old one until the new one is complete.
        trigger, terminator: the texts after which a model writes a fact, and with which it ends.
        resources: limits of memory and threads, and whether to show progress.
        shape: how large the rows of the tree may be.

    Raises:
        InputError: a source cannot be read or is not what its name says, all sources together have no fact, a line is
            malformed and `strict` is set, the disk is too small, or the name or the folder cannot be used.
        IndexExistsError: an index of this name exists and `replace` is not set, or another process is writing it.
        DatabaseError: PostgreSQL refused a statement (because its disk is full, say).
        ModelError: the tokenizer changes text.
        RefactxError: DuckDB cannot continue, since the disk is full or `resources.memory` is too small.
    """
    build = Build(**options)
    build.tokenizer.check_text()
    inputs = build.inputs(sources)
    with build.new_index(database) as (connection, held):
        build = replace(held, selection=recognised(inputs, build.selection, build.index))
        steps = IngestSteps(build, inputs)
        knowledge = steps.knowledge_base()
        facts = steps.encoded_facts(knowledge)
        return publish_index(
            connection,
            build,
            facts,
            knowledge.report.without_changed(len(facts)),
            sources=tuple(source.address for source in inputs.all),
            names=lambda: name_rows(knowledge.folder),
            hubs=hubs_of(knowledge),
        )
