"""Changes of an index: facts appended or forgotten (retracted), each change as one more segment, within seconds.

The rule that keeps counts exact: the signed sum of a fact over the segments is 0 or 1. So the facts of the sources are
encoded as the index's own were, sorted, and looked up: one is appended only if its sum is 0, retracted only if it is 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from pyarrow import compute

from refactx.entity_ids import entity_number, other_number
from refactx.errors import CorruptIndexError, TokenizerMismatchError
from refactx.fact import counted
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.ingest.encoding import BATCH, SortedFacts, WholeFacts, decode_texts, select_by_sum
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.knowledge.names import KnownNames
from refactx.ingest.new_index import IngestSteps
from refactx.ingest.parsers.formats import recognised
from refactx.ingest.profile import Profile
from refactx.ingest.publish import has_names, name_rows
from refactx.ingest.report import Clock, ProgressBars, Report, timings
from refactx.ingest.segment.builder import Learned, load_segment
from refactx.ingest.segment.cutting import DEFAULT_SHAPE, Shape
from refactx.ingest.selection import DEFAULT_SELECTION, NO_INVERSE_LIMIT, Selection, TableOptions, is_property
from refactx.ingest.sources import Inputs, Source, inputs_of
from refactx.ingest.work import DEFAULT_RESOURCES, Resources, index_change
from refactx.postgres import writing
from refactx.postgres.catalogue import Hub, change_hubs, copy_rows, knows_hubs, read_hubs
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import Connection
from refactx.tokenizer import FactTokenizer

_CACHE_BYTES = 64 << 20  # each row is read once a batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of `append` or `forget`.

    `facts`: how many were appended or retracted. `passed_over`: how many facts of the sources were in the index already
    (append) or not in it (forget). `total`, `segments`: facts and segments of the index after the change. `report`: the
    account of the sources. `seconds`: by step. `note`: what the user should know; "" if there is nothing.
    """

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
        """Return what the commands print with `--json`."""
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


class ChangeOptions(TypedDict, total=False):
    """What `append` and `forget` may be given, as `refactx.ingest.ingest`. `tokenizer`: the index's own, if it is loaded
    already; otherwise it is read from the catalogue."""

    tokenizer: FactTokenizer | None
    wikipedia: tuple[Path, Path] | None
    selection: Selection
    strict: bool
    resources: Resources
    shape: Shape


def append(
    sources: Sequence[Path | Source], database: Database, *, index: str, work: Path, **options: Unpack[ChangeOptions]
) -> ChangeResult:
    """Add the facts of sources that an index does not have, and the names that its knowledge base does not have.

    Readers see the whole change or none of it.

    Raises:
        IndexNotFoundError: there is no such index.
        TokenizerMismatchError: the given tokenizer is not the index's own.

    The other errors are those of `refactx.ingest.ingest`.
    """
    return _Change(action="append", index=index, work=work, **options).make(database, sources)


def forget(
    sources: Sequence[Path | Source], database: Database, *, index: str, work: Path, **options: Unpack[ChangeOptions]
) -> ChangeResult:
    """Retract the facts of sources that an index has. Entities without a label in the sources are known by their ids.

    Readers see the whole change or none of it. Arguments and errors are those of `append`.
    """
    return _Change(action="forget", index=index, work=work, **options).make(database, sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The arguments of a call of `append` or `forget`."""

    action: str
    index: str
    work: Path
    tokenizer: FactTokenizer | None = None
    wikipedia: tuple[Path, Path] | None = None
    selection: Selection = DEFAULT_SELECTION
    strict: bool = False
    resources: Resources = DEFAULT_RESOURCES
    shape: Shape = DEFAULT_SHAPE

    @property
    def sign(self) -> int:
        """+1 or -1, the sign of the new segment in the table `refactx.segments`."""
        return 1 if self.action == "append" else -1

    def make(self, database: Database, sources: Sequence[Path | Source]) -> ChangeResult:
        with index_change(database, self.index, self.work, self.action) as (connection, entry, folder):
            tables = _tables_of(entry, self.selection.tables)
            inputs = inputs_of(
                sources,
                self.wikipedia,
                self.resources.workers,
                encoding=tables.encoding,
                labels=tables.labels,
                base=self.selection.base,
            )
            clock, bars = Clock(), ProgressBars(self.resources.progress)
            index = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES)
            own_tokenizer = index.tokenizer  # before the sources, so that a damaged one is reported at once
            if self.tokenizer is not None and self.tokenizer.fingerprint_of_facts != own_tokenizer.fingerprint_of_facts:
                raise TokenizerMismatchError(
                    f"index {entry.name!r} was built for tokenizer {entry.tokenizer}, and another one was given: "
                    "leave out --tokenizer, since a change uses the index's own"
                )
            hubs = read_hubs(connection, entry.id)
            steps = self._steps(connection, entry, folder, inputs, hubs)
            knowledge = steps.knowledge_base(clock, self.resources)
            report = knowledge.report
            count = passed_over = learned = 0
            if report.facts:  # none if, for example, all claims are about entities without a name in the index
                facts = steps.encoded_facts(knowledge, own_tokenizer, index.trigger, clock, self.resources)
                report = report.without_changed(len(facts))
                with clock.step("look up"), bars:
                    chosen = select_by_sum(index, facts, 0 if self.sign > 0 else 1, folder, bars)
                count, passed_over = len(chosen), len(facts) - len(chosen)
            if count:
                with clock.step("load"), bars:
                    more = _count_facts_of(hubs, chosen, own_tokenizer, self.sign)
                    note = self._note(inputs, count, passed_over)
                    self._write(connection, entry, chosen, knowledge, note, folder, more)
            elif self.sign > 0:
                if not has_names(knowledge):
                    # Only without new names: these are not stored here, and the next change could not name the pairs.
                    learned = _add_to_report(connection, entry, "inverse_properties", report.inverse_properties)
                _add_to_report(connection, entry, "property_aliases", report.property_aliases)
            notes = [_note_on_left_out(entry, self.action, self.selection, report)]
            if learned:
                notes.insert(0, f"index {self.index!r} has learned the inverse properties of {learned} properties")
            return ChangeResult(
                index=self.index,
                change=self.action,
                facts=count,
                passed_over=passed_over,
                total=index.facts + self.sign * count,
                segments=len(index.segments) + bool(count),
                report=report,
                seconds=clock.seconds,
                note=". ".join(filter(None, notes)),
            )

    def _steps(
        self, connection: Connection, entry: CatalogueEntry, folder: Path, inputs: Inputs, hubs: Sequence[Hub]
    ) -> IngestSteps:
        """Return the first steps, with the names that the knowledge base of the index has."""
        # Numbers of indexes and name tables start at 1 in each database; with the time of creation they are unique.
        identity = f"{entry.id} {entry.created.isoformat()}"
        selection, appends = self.selection, self.sign > 0
        own_profile = entry.report.get("selection", {}).get("profile")
        profile = Profile.from_json(own_profile) if isinstance(own_profile, dict) else None
        # An append adds inverse facts of all but the index's hubs, so that it has all of them or is known to have none.
        # To forget inverse facts that the index lacks is to pass them over.
        if knows_hubs(entry) or not appends:
            selection = replace(selection, inverse_limit=NO_INVERSE_LIMIT)
        # Those that the rules gave to predicates of ready-made facts: "" for one that got none.
        inverse_names, found = selection.inverse_names, entry.report.get("ready_inverses", {})
        if selection.inverse and isinstance(found, dict):
            ready = {str(one): str(name) for one, name in found.items()}
            inverse_names = tuple({**dict(inverse_names), **ready}.items())
        selection = replace(
            selection,
            profile=selection.profile or profile,
            tables=_tables_of(entry, selection.tables),
            inverse_names=inverse_names,
        )
        selection = recognised(inputs, selection, None)
        known = KnownNames(
            connection, writing.name_tables(connection, entry), _inverse_properties(entry), hubs if appends else ()
        )
        return IngestSteps(folder, inputs, selection, strict=self.strict, known=known, identity=identity)

    def _note(self, inputs: Inputs, facts: int, passed_over: int) -> dict[str, Any]:
        """Return what the account of the index says of the change."""
        return {
            "change": self.action,
            "facts": facts,
            "passed_over": passed_over,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": [source.address for source in inputs.all],
        }

    def _write(
        self,
        connection: Connection,
        entry: CatalogueEntry,
        facts: WholeFacts,
        knowledge: KnowledgeBase,
        note: dict[str, Any],
        folder: Path,
        more: Mapping[tuple[str, str], int],
    ) -> None:
        """Write the segment, the new names and the counts of hubs, and make them visible in one transaction."""
        appends = self.sign > 0
        with connection.transaction():
            segment = writing.add_segment(connection, entry.id, self.sign)
            names = (
                writing.add_name_table(connection, entry.knowledge_base) if appends and has_names(knowledge) else None
            )
        with writing.or_removed(connection, entry), connection.transaction():
            described = load_segment(
                connection,
                segment,
                facts,
                Learned.of(facts),
                work=folder,
                shape=self.shape,
                workers=self.resources.workers,
            )
            writing.show_segment(connection, segment, described)
            if names is not None:
                copy_rows(connection, "names", names, name_rows(knowledge))
                writing.show_names(connection, names)
            if more:
                change_hubs(connection, entry.id, more)
            writing.note_change(connection, entry, note, note["source"] if appends else ())
            if appends:
                _add_to_report(connection, entry, "inverse_properties", knowledge.report.inverse_properties)
                _add_to_report(connection, entry, "ready_inverses", knowledge.report.ready_inverses)
                _add_to_report(connection, entry, "property_aliases", knowledge.report.property_aliases)


def _count_facts_of(
    hubs: Sequence[Hub], facts: SortedFacts, tokenizer: FactTokenizer, sign: int
) -> dict[tuple[str, str], int]:
    """Return how many facts are about each hub, times `sign`, by object and predicate, without those that have none."""
    pairs = sorted({(hub.object, hub.predicate) for hub in hubs})
    if not pairs:
        return {}
    ends = pa.array([f"{predicate}> <{object_}>".encode() for object_, predicate in pairs], pa.large_binary())
    counts = np.zeros(len(pairs) + 1, np.int64)
    for low in range(0, len(facts), BATCH):
        texts = decode_texts(tokenizer, *facts.read_tokens(low, min(low + BATCH, len(facts))))
        after_subject = compute.split_pattern(texts, "> <", max_splits=1)  # no part has `<` or `>`
        after_subject = after_subject.filter(compute.equal(compute.list_value_length(after_subject), 2))
        places = compute.index_in(compute.list_element(after_subject, 1), value_set=ends)
        counts += np.bincount(places.fill_null(len(pairs)).to_numpy(), minlength=len(counts))
    return {pair: sign * int(count) for pair, count in zip(pairs, counts[:-1], strict=True) if count}


def _note_on_left_out(entry: CatalogueEntry, action: str, selection: Selection, report: Report) -> str:
    """Return which facts a change left out that the index's ingest would have made, and what to do; "" if none."""
    own = entry.report.get("selection", {})
    other_names = bool(own.get("inverse_names")) and own["inverse_names"] != dict(selection.inverse_names)
    missing, facts = [], []
    if report.entities or own.get("inverse_names"):  # only given names invert ready-made facts
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
            f"index {entry.name!r} was ingested with {' '.join(missing)}, which this change was not given: the "
            f"{' and '.join(facts)} of these sources {'were not added' if action == 'append' else 'stay'}. "
            "Run the command again with the options of the ingest"
        )
    if other_names and action == "append" and report.names.get("inverse"):
        return (
            f"index {entry.name!r} was ingested with other --inverse-names: {counted(report.names['inverse'], 'predicate')} of "
            "inverse facts, new to it, got a name without them and will keep it. Give each change the "
            "--inverse-names of the ingest"
        )
    return ""


def _tables_of(entry: CatalogueEntry, given: TableOptions) -> TableOptions:
    """Return the options of tables of a change: those of the index's ingest, if none are given here, without its query and
    its files of labels. Keys are those of both."""
    document = entry.report.get("selection", {}).get("tables")
    own = TableOptions.from_json(document) if isinstance(document, dict) else TableOptions()
    if given == TableOptions():
        return replace(own, query=None, labels=(), edges=own.edges or bool(own.labels))
    keys = tuple(dict.fromkeys((*given.keys, *own.keys)))
    return replace(
        given,
        keys=keys,
        ids=given.ids or own.ids,
        prefixed=given.prefixed or own.prefixed,
        whole=own.whole,
        rows_of=own.rows_of,
    )


def _inverse_properties(entry: CatalogueEntry) -> dict[int, int]:
    """Return the pairs in the report of an index, as numbers: a property → the property of its inverse facts.

    Raises:
        CorruptIndexError: the report has something else in place of pairs of properties.
    """
    pairs = entry.report.get("inverse_properties", {})
    if not isinstance(pairs, dict) or not all(
        isinstance(other, str) and all(is_property(id_) or ":" in id_ for id_ in (one, other))
        for one, other in pairs.items()
    ):
        raise CorruptIndexError(
            f"index {entry.name!r}: the inverse properties in its account are damaged: {pairs!r:.100}, expected pairs "
            "such as P22 and P40. Ingest the index again"
        )
    return {_property_number(one): _property_number(other) for one, other in pairs.items()}


def _property_number(id_: str) -> int:
    return entity_number(id_) if is_property(id_) else other_number(id_) + 1


def _add_to_report(connection: Connection, entry: CatalogueEntry, key: str, found: Mapping[str, Any]) -> int:
    """Add to a part of the report of an index what it does not have of properties yet, and return of how many.

    `found`: as `Report.inverse_properties`, `ready_inverses` or `property_aliases`.
    """
    known = entry.report.get(key, {})
    new = {one: other for one, other in found.items() if one not in known}
    for one in known.keys() & found.keys():
        if isinstance(other := found[one], list) and not set(other) <= set(known[one]):
            new[one] = sorted({*known[one], *other})
    if new:
        writing.add_to_report(connection, entry, key, new)
    return len(new)
