"""Facts added to an index that is there, or retracted: each time one more segment, in seconds.

The rule that keeps counts exact: a fact's signed sum over the segments is 0 or 1. So a source's facts are encoded as the
index's own were, sorted, and looked up: a fact is appended only where its sum is 0, and retracted only where it is 1.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.errors import CorruptIndexError, TokenizerMismatchError
from refactx.index.index import Index
from refactx.postgres.building import add_name_table, add_segment, show_names, show_segment
from refactx.postgres.changes import (
    add_inverse_properties,
    changing,
    inverse_properties,
    name_tables,
    note_change,
    remove_unfinished,
)
from refactx.postgres.database import Database
from refactx.postgres.locks import Connection
from refactx.postgres.tables import copy_rows
from refactx.postgres.writer import writing
from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, select
from refactx.tree.children import Tokens
from refactx.tree.lookup import contained

from .encoding.encoded import EncodedFacts, WholeFacts
from .encoding.spilled_facts import SpilledFacts
from .knowledge.knowledge_base import KnowledgeBase
from .knowledge.known_names import KnownNames
from .new_index import has_names, name_rows
from .pipeline import Steps
from .progress import Clock, Progress, timings
from .report import Report
from .segment.level_cutter import Shape
from .segment.load import Learned, load_segment
from .selection import NO_INVERSE_LIMIT, Selection
from .sources.inputs import inputs_of
from .work_folder import names_of, work_folder

_BATCH = 65_536
_CACHE_BYTES = 64 << 20  # each row is read once a batch


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Which index to change, from which facts of the sources, with how much of the machine.

    `tokenizer`: the index's own, if it is at hand (otherwise it is read from the catalogue).
    """

    index: str
    tokenizer: FactTokenizer | None = None
    selection: Selection = field(default_factory=Selection)
    strict: bool = False
    memory: str = "1GB"
    workers: int = 2
    shape: Shape = field(default_factory=Shape)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """A finished change: `facts` were appended or retracted, `passed_over` were there already, or were not there; the index
    has `total` now, in so many `segments`. `report` is the account of the sources. `note`: what its user should know; "" if
    there is nothing."""

    index: str
    change: str
    facts: int
    passed_over: int
    total: int
    segments: int
    report: Report
    seconds: dict[str, float]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the commands print it with `--json`."""
        return {
            "index": self.index,
            "change": self.change,
            "facts": self.facts,
            "passed_over": self.passed_over,
            "total": self.total,
            "segments": self.segments,
            "sources": asdict(self.report),
            **timings(self.seconds),
        }


def append(
    sources: Sequence[Path],
    database: Database,
    work: Path,
    options: ChangeOptions,
    wikipedia: tuple[Path, Path] | None = None,
) -> Changed:
    """Add the facts of some sources that an index doesn't have yet, and the names that its knowledge base doesn't have.

    Readers see all of them or none. Arguments and errors are those of `ingest.run.ingest`, and IndexNotFoundError if there is
    no such index, TokenizerMismatchError if another tokenizer is given.
    """
    return _change(+1, sources, database, work, options, wikipedia)


def forget(
    sources: Sequence[Path],
    database: Database,
    work: Path,
    options: ChangeOptions,
    wikipedia: tuple[Path, Path] | None = None,
) -> Changed:
    """Retract the facts of some sources that an index has. Entities without a label in them are known by their names.

    Readers see all of it or nothing. Arguments and errors are those of `append`.
    """
    return _change(-1, sources, database, work, options, wikipedia)


def _change(
    sign: int,
    sources: Sequence[Path],
    database: Database,
    work: Path,
    options: ChangeOptions,
    wikipedia: tuple[Path, Path] | None,
) -> Changed:
    action = "append" if sign > 0 else "forget"
    inputs = inputs_of(sources, wikipedia, options.workers)
    with (
        writing(database, options.index, work) as connection,
        changing(connection, database, options.index) as entry,
        work_folder(work, *names_of(connection), options.index, action) as folder,
    ):
        clock, progress = Clock(), Progress(options.quiet)
        _check_tokenizer(entry, options.tokenizer)
        index = Index(database, entry, _CACHE_BYTES, tokenizer=options.tokenizer)
        tokenizer = index.tokenizer  # read now: if it is damaged, that shows before the sources are read
        known = KnownNames(connection, name_tables(connection, entry), inverse_properties(entry))
        # Numbers of indexes and name tables begin anew in each database; with the time they tell one from another.
        made = f"{entry['id']} {entry['created'].isoformat()}"
        selection = options.selection
        if sign < 0:  # what is a hub in these sources may not have been one, and what the index has not is passed over
            selection = replace(selection, inverse_limit=NO_INVERSE_LIMIT)
        steps = Steps(folder, inputs, selection, options.strict, known, made)
        limits: dict[str, Any] = {"memory": options.memory, "workers": options.workers}
        knowledge = steps.knowledge_base(clock.step, progress=not options.quiet, **limits)
        report = knowledge.report
        count = passed_over = learned = 0
        if report.facts:  # otherwise claims of what has no name here, say
            with clock.step("encode"), progress:
                facts = steps.encoded_facts(
                    knowledge, tokenizer, index.fingerprint, index.trigger, progress=progress.advance, **limits
                )
            with clock.step("look up"), progress:
                chosen = _chosen(index, facts, 0 if sign > 0 else 1, folder, progress)
            count, passed_over = len(chosen), len(facts) - len(chosen)
        if count:
            change = {
                "change": action,
                "facts": count,
                "passed_over": passed_over,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "source": [str(source.path) for source in inputs.all],
            }
            with clock.step("load"), progress:
                _write(connection, entry, sign, chosen, knowledge, change, folder, options)
        elif sign > 0 and not has_names(knowledge):  # the next change would not know a property that is named only here
            learned = add_inverse_properties(connection, entry, report.inverse_properties)
        counts = (count, passed_over, index.facts + sign * count, len(index.segments) + bool(count))
        told = (
            [f"index {options.index!r} has learned the inverse properties of {learned} properties"] if learned else []
        )
        note = ". ".join(filter(None, [*told, _left_out(entry, action, options.selection, report)]))
        return Changed(options.index, action, *counts, report, clock.seconds, note)


def _left_out(entry: dict[str, Any], action: str, selection: Selection, report: Report) -> str:
    """Which facts of the sources a change passed over that the index's own ingest would have made, and what to do; or ""."""
    own = entry["report"].get("selection", {})
    other_names = bool(own.get("inverse_names")) and own["inverse_names"] != dict(selection.inverse_names)
    missing, facts = [], []
    if report.entities or own.get("inverse_names"):  # by which alone ready-made facts have inverse facts
        if own.get("inverse") and not selection.inverse:
            missing.append("--inverse")
        if other_names and not (selection.inverse and report.entities):  # claims follow the names that the index has
            missing.append("--inverse-names")
        facts += ["inverse facts"] if missing else []
    if own.get("aliases") and not selection.aliases and report.dropped.get("alias"):
        missing.append("--aliases")
        facts.append("facts of aliases")
    if missing:
        return (
            f"index {entry['name']!r} was ingested with {' '.join(missing)}, and this change was without: the "
            f"{' and '.join(facts)} of these sources {'were not added' if action == 'append' else 'stay'}. "
            "Run the command again with what its ingest was given"
        )
    if other_names and action == "append" and report.names.get("inverse"):
        return (
            f"index {entry['name']!r} was ingested with other --inverse-names: {report.names['inverse']} predicates of inverse "
            "facts that it had not yet are called without them, and stay so. Give each change what its ingest was given"
        )
    return ""


def _check_tokenizer(entry: dict[str, Any], given: FactTokenizer | None) -> None:
    """Raise TokenizerMismatchError if a tokenizer is given that is not the index's own."""
    if given is not None and given.fingerprint != entry["fingerprint"]:
        raise TokenizerMismatchError(
            f"index {entry['name']!r} was built for tokenizer {entry['tokenizer']}, and another was given: leave out "
            "--tokenizer, since a change uses the index's own"
        )


def multiplicities(index: Index, tokens: Tokens, offsets: Offsets) -> NDArray[np.int64]:
    """The signed sum over an index's segments for each of some distinct, ascending sequences: int64[n], 0 or 1 each.

    Raises CorruptIndexError where it is anything else.
    """
    sums = np.zeros(len(offsets) - 1, np.int64)
    for sign, tree in index.segments:
        sums += sign * contained(tree, tokens, offsets)
    if ((sums < 0) | (sums > 1)).any():
        raise CorruptIndexError(f"index {index.name!r} has a fact twice, or less than never. Ingest the index again")
    return sums


def _chosen(index: Index, facts: EncodedFacts, wanted: int, work: Path, progress: Progress) -> WholeFacts:
    """Those of the facts that an index has `wanted` times."""
    chosen = SpilledFacts(work)
    for low in range(0, len(facts), _BATCH):
        tokens, offsets = facts.read_tokens(low, min(low + _BATCH, len(facts)))
        picked = np.flatnonzero(multiplicities(index, tokens, offsets) == wanted)
        chosen.append(*select(tokens, offsets, picked))
        progress.advance("look up", len(offsets) - 1, len(facts))
    return chosen.finish()


def _write(
    connection: Connection,
    entry: dict[str, Any],
    sign: int,
    facts: WholeFacts,
    knowledge: KnowledgeBase,
    change: dict[str, Any],
    work: Path,
    options: ChangeOptions,
) -> None:
    with connection.transaction():
        segment = add_segment(connection, entry["id"], sign)
        names = add_name_table(connection, entry["knowledge_base"]) if sign > 0 and has_names(knowledge) else None
    try:
        with connection.transaction():
            described = load_segment(
                *(connection, segment, facts, Learned.of(facts), work), shape=options.shape, workers=options.workers
            )
            show_segment(connection, segment, described)
            if names is not None:
                copy_rows(connection, "names", names, name_rows(knowledge))
                show_names(connection, names)
            note_change(connection, entry, change, change["source"] if sign > 0 else ())
            if sign > 0:
                add_inverse_properties(connection, entry, knowledge.report.inverse_properties)
    except BaseException:
        if not connection.broken and not connection.closed:
            remove_unfinished(connection, entry)
        raise
