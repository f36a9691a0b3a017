"""The steps of an ingest that work on files, each done once: read, join, encode. Loading, the last, is one transaction.

| step | leaves | needs no longer |
|---|---|---|
| read | `staged/`: rows (`ingest.staging`) | |
| join | `knowledge/`: the three files of `ingest.knowledge_base` | `staged/` |
| encode | `encoded/`: sorted token sequences (`ingest.encode`) | |
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refactx.tokenizer import FactTokenizer

from .disk import check_disk, expected_bytes
from .encoding.encode import encode_facts
from .encoding.encoded import EncodedFacts, open_encoded
from .knowledge.knowledge_base import KnowledgeBase, join
from .knowledge.known_names import KnownNames
from .manifest import first_step, remove
from .parsers.reading import Lines, open_sources, read_sources
from .progress import Advance
from .report import Report
from .selection import Selection
from .sources.inputs import Inputs

Clock = Callable[[str], AbstractContextManager[None]]
"""Measures a step by its name."""


class Steps:
    """The steps in one folder, for some inputs. What an earlier run finished with the same input is taken as it is.

    `known`: the names that entities have already, where facts are added to a knowledge base; `made`: of which index, in
    words that no other index has, in any database.
    """

    def __init__(
        self,
        folder: Path,
        inputs: Inputs,
        selection: Selection,
        strict: bool,
        known: KnownNames | None = None,
        made: str = "",
    ) -> None:
        self._folder, self._inputs, self._selection, self._strict = folder, inputs, selection, strict
        self._known = known
        self._read = first_step("read", folder, "staged", inputs.all, selection=selection.to_json(), strict=strict)
        base: dict[str, Any] = {}
        if known is not None:
            base = {"names": list(known.tables), "index": made, "inverses": sorted(map(list, known.inverses.items()))}
        self._join = self._read.then("join", "knowledge", **base)

    def knowledge_base(self, clock: Clock, *, memory: str, workers: int, progress: bool) -> KnowledgeBase:
        """Read and join. Raises as `build_knowledge_base` does, and InputError if the disk is too small."""
        folder, staged = self._join.files, self._read.files
        done = self._join.result()
        if done is not None:
            return KnowledgeBase(folder, Report.from_json(done))
        lines = self._lines(clock, staged, memory, workers, progress)
        with clock("join"):
            self._join.begin()
            remove(folder)
            limits: dict[str, Any] = {"memory": memory, "workers": workers}
            knowledge = join(staged, lines, folder, self._selection, progress=progress, known=self._known, **limits)
            self._join.finish(asdict(knowledge.report))
            self._read.begin()
            remove(staged)
        return knowledge

    def encoded_facts(
        self,
        knowledge: KnowledgeBase,
        tokenizer: FactTokenizer,
        fingerprint: str,
        trigger: str,
        *,
        memory: str,
        workers: int,
        progress: Advance,
    ) -> EncodedFacts:
        """Encode and sort. `fingerprint`: the tokenizer's, which is known of an index's. Raises as `encode_facts` does."""
        step = self._join.then("encode", "encoded", tokenizer=fingerprint, trigger=trigger)
        folder = step.files
        if step.result() is not None:
            return open_encoded(folder)
        step.begin()
        remove(folder)
        folder.mkdir()
        facts = encode_facts(
            knowledge.folder, tokenizer, trigger, folder, memory=memory, workers=workers, progress=progress
        )
        step.finish({"facts": len(facts), "tokens": facts.token_count()})
        return facts

    def _lines(self, clock: Clock, staged: Path, memory: str, workers: int, progress: bool) -> Lines:
        done = self._read.result()
        if done is not None:
            return Lines.from_json(done)
        with clock("read"):
            self._read.begin()
            for old in ("staged", "knowledge", "encoded"):
                remove(self._folder / old)
            opened = open_sources(self._inputs, self._selection, workers)
            check_disk(self._folder, expected_bytes(self._inputs.all), progress)
            staged.mkdir()
            lines = read_sources(
                *(opened, self._inputs, staged, self._selection),
                strict=self._strict,
                memory=memory,
                workers=workers,
                progress=progress,
            )
            self._read.finish(lines.to_json())
        return lines
