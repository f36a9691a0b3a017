"""The steps of an ingest that leave files, each done once: read, join, encode. Loading, the last, is one transaction.

| step | leaves | removes |
|---|---|---|
| read | `staged/`: rows (`refactx.ingest.parsers.staging`) | |
| join | `knowledge/`: the files of `refactx.ingest.knowledge.knowledge_base` | `staged/` |
| encode | `encoded/`: sorted token sequences (`refactx.ingest.encoding.encoded`) | |
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from refactx.ingest.disk import check_disk, expected_bytes
from refactx.ingest.encoding.encode import encode_facts
from refactx.ingest.encoding.encoded import EncodedFacts, open_encoded
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase, join
from refactx.ingest.knowledge.known_names import KnownNames
from refactx.ingest.manifest import first_step, remove
from refactx.ingest.parsers.reading import LineAccount, open_sources, read_sources
from refactx.ingest.progress import Advance, Clock
from refactx.ingest.report import Report
from refactx.ingest.resources import Resources
from refactx.ingest.selection import Selection
from refactx.ingest.sources.inputs import Inputs
from refactx.tokenizer import FactTokenizer


class IngestSteps:
    """The steps in one folder, for some inputs. What an earlier run finished with the same input is not repeated.

    `known`: the names that entities have already, if facts are added to an index. `identity`: a text that no other
    index has, in any database.
    """

    def __init__(
        self,
        folder: Path,
        inputs: Inputs,
        selection: Selection,
        *,
        strict: bool,
        known: KnownNames | None = None,
        identity: str = "",
    ) -> None:
        self._folder, self._inputs, self._selection, self._strict = folder, inputs, selection, strict
        self._known = known
        self._read = first_step("read", folder, "staged", inputs.all, selection=selection.to_json(), strict=strict)
        base: dict[str, Any] = {}
        if known is not None:
            base = {
                "names": list(known.tables),
                "index": identity,
                "inverses": sorted(map(list, known.inverses.items())),
                "hubs": _digest(sorted((hub.object, hub.predicate, hub.inverse) for hub in known.hubs)),
            }
        self._join = self._read.next_step("join", "knowledge", **base)

    def knowledge_base(self, clock: Clock, resources: Resources) -> KnowledgeBase:
        """Read and join. Raises what `build_knowledge_base` raises, and InputError if the disk is too small."""
        folder, staged = self._join.files, self._read.files
        done = self._join.result()
        if done is not None:
            return KnowledgeBase(folder, Report.from_json(done))
        lines = self._lines(clock, staged, resources)
        with clock.step("join"):
            self._join.begin()
            remove(folder)
            knowledge = join(staged, lines, folder, self._selection, resources=resources, known=self._known)
            self._join.finish(asdict(knowledge.report))
            self._read.begin()
            remove(staged)
        return knowledge

    def encoded_facts(
        self,
        knowledge: KnowledgeBase,
        tokenizer: FactTokenizer,
        *,
        fingerprint: str,
        trigger: str,
        resources: Resources,
        advance: Advance,
    ) -> EncodedFacts:
        """Encode and sort. Raises what `encode_facts` raises.

        `fingerprint`: the tokenizer's, which the catalogue has for an index.
        """
        step = self._join.next_step("encode", "encoded", tokenizer=fingerprint, trigger=trigger)
        folder = step.files
        if step.result() is not None:
            return open_encoded(folder)
        step.begin()
        remove(folder)
        folder.mkdir()
        facts = encode_facts(knowledge.folder, tokenizer, trigger, folder, resources=resources, advance=advance)
        step.finish({"facts": len(facts), "tokens": facts.token_count()})
        return facts

    def _lines(self, clock: Clock, staged: Path, resources: Resources) -> LineAccount:
        """Read the sources into staged rows."""
        done = self._read.result()
        if done is not None:
            return LineAccount.from_json(done)
        with clock.step("read"):
            self._read.begin()
            for old in ("staged", "knowledge", "encoded"):
                remove(self._folder / old)
            opened = open_sources(self._inputs, self._selection, resources.workers)
            check_disk(self._folder, expected_bytes(self._inputs.all), resources.progress)
            staged.mkdir()
            lines = read_sources(
                opened, self._inputs, staged, self._selection, strict=self._strict, resources=resources
            )
            self._read.finish(lines.to_json())
        return lines


def _digest(values: Sequence[object]) -> str:
    """Return the SHA-256 of values, which may be many."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
