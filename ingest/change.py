"""Changes of an index: facts appended, forgotten (retracted) or replaced, each change as one more segment or two, within
seconds.

The rule that keeps counts exact: the signed sum of a fact over the segments is 0 or 1. So the facts of the sources are
encoded as the index's own were, sorted, and looked up: one is appended only if its sum is 0, retracted only if it is 1.
What an update replaces, and what goes with a thing, is found among all facts (`refactx.ingest.revision`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyarrow import compute

from refactx.entity_ids import entity_number, fact_number, other_number
from refactx.errors import CorruptIndexError, InputError, TokenizerMismatchError
from refactx.fact import counted, written_part
from refactx.index.database import DatabaseSource
from refactx.index.index import Index, ready_inverses
from refactx.index.names import REFERENCES
from refactx.ingest.build import Build, ReadOptions, RowJobOptions, index_change
from refactx.ingest.encoding import BATCH, EncodedFacts, WholeFacts, decode_texts, encode_facts, select_by_sum
from refactx.ingest.knowledge.knowledge_base import KnowledgeBase
from refactx.ingest.knowledge.names import KnownNames
from refactx.ingest.new_index import IngestSteps
from refactx.ingest.parsers.columns import parts_of_key
from refactx.ingest.parsers.formats import recognised, row_names, value_columns
from refactx.ingest.profile import Profile, predicate_label
from refactx.ingest.publish import has_names, load_segment, name_rows, write_labels
from refactx.ingest.report import Report, timings
from refactx.ingest.revision import Reviser, Revision, open_revision
from refactx.ingest.source_options import LANGUAGES, NO_INVERSE_LIMIT, Selection, TableOptions, is_property
from refactx.ingest.sources import Inputs, Source
from refactx.postgres import writing
from refactx.postgres.catalogue import Hub, change_hubs, copy_rows, knows_hubs, number, read_hubs
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import DROP_SECONDS, Connection
from refactx.tokenizer import FactTokenizer

_NO_ADDRESS = "-"
"""What stands for the references of a forgotten fact, and hides those that it had."""
_CACHE_BYTES = 64 << 20  # each row is read once a batch
_NO_SOURCES = Report(facts=0, claims=0, descriptions=0, derived=0, lines_read=0, kept=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """The result of `append`, `forget` or `update`.

    `facts`: how many were appended or retracted, in an update how many are new. `passed_over`: how many facts of the
    sources were in the index already (append, update) or not in it (forget). `total`, `segments`: facts and segments of
    the index after the change. `report`: the account of the sources. `seconds`: by step. `note`: what the user should
    know; "" if there is nothing. `removed`: how many facts an update or a new name retracted. `things`: how many things were
    updated or forgotten as a whole, or got another name, `new` of them were not in the index.
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
    removed: int = 0
    things: int = 0
    new: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what the commands print with `--json`."""
        document = asdict(self)
        sources = document.pop("report")
        del document["seconds"], document["note"]
        return {**document, "sources": sources, **timings(self.seconds)}


class ChangeOptions(ReadOptions, total=False):
    """What `append`, `forget` and `update` may be given, as `refactx.ingest.ingest`. `tokenizer`: the index's own, if it is
    loaded already; otherwise it is read from the catalogue."""

    tokenizer: FactTokenizer | None


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
    with _hold("append", database, index=index, work=work, **options) as change:
        return change.by_sources(sources)


def forget(
    sources: Sequence[Path | Source], database: Database, *, index: str, work: Path, **options: Unpack[ChangeOptions]
) -> ChangeResult:
    """Retract the facts of sources that an index has. Entities without a label in the sources are known by their ids.

    A row of a table stays a row while the index has another fact of it. Readers see the whole change or none of it.
    Arguments and errors are those of `append`.
    """
    with _hold("forget", database, index=index, work=work, **options) as change:
        return change.by_sources(sources)


def update(
    sources: Sequence[Path | Source], database: Database, *, index: str, work: Path, **options: Unpack[ChangeOptions]
) -> ChangeResult:
    """Replace all facts of the things that sources have facts or names of, such as the rows of a table, by those of the
    sources, and add the things that an index does not have.

    A thing is found by its id, and gets the name that it has in the sources, everywhere. Inverse facts, other names and
    descriptions are made as the index's ingest made them. What other things say about it stays. Readers see the whole
    change or none of it. Arguments and errors are those of `append`.
    """
    with _hold("update", database, index=index, work=work, **options) as change:
        return change.by_sources(sources)


def forget_things(
    things: Sequence[str], database: Database, *, index: str, work: Path, **options: Unpack[RowJobOptions]
) -> ChangeResult:
    """Retract all facts about things, given by their names or ids: as subjects and as objects, with their names.

    Raises InputError if there is no such thing, or if it is not clear which one is meant; else as `append`.
    """
    with _hold("forget", database, index=index, work=work, **options) as change:
        return change.by_things(things)


def rename(
    thing: str, name: str, database: Database, *, index: str, work: Path, **options: Unpack[RowJobOptions]
) -> ChangeResult:
    """Give a thing, given by its name or id, another name: in all facts that name it, in both directions. Its id stays.

    Raises InputError if there is no such thing, or if the name is taken; else as `append`.
    """
    with _hold("rename", database, index=index, work=work, **options) as change:
        return change.by_name(thing, written_part(name))


@contextmanager
def _hold(
    action: str,
    database: Database,
    *,
    index: str,
    work: Path,
    tokenizer: FactTokenizer | None = None,
    **options: Unpack[ReadOptions],
) -> Iterator["_Change"]:
    """Hold an index for a change, which is built with the index's own tokenizer, trigger and terminator."""
    with index_change(database, index, work, action) as (connection, entry, folder):
        opened = Index(DatabaseSource(database, entry), cache_bytes=_CACHE_BYTES)
        own = opened.tokenizer  # before the sources, so that a damaged one is reported at once
        if tokenizer is not None and tokenizer.fingerprint_of_facts != own.fingerprint_of_facts:
            raise TokenizerMismatchError(
                f"index {index!r} was built for tokenizer {entry.tokenizer}, and another one was given: "
                "leave out --tokenizer, since a change uses the index's own"
            )
        build = Build(
            index=index,
            work=folder,
            tokenizer=own,
            tokenizer_name=entry.tokenizer,
            trigger=opened.trigger,
            terminator=opened.terminator,
            **options,
        )
        hubs = read_hubs(connection, entry.id)
        yield _Change(action=action, build=build, connection=connection, entry=entry, index=opened, hubs=hubs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change of an index, which is held for it. What it adds or retracts is a `Revision`, whatever the action."""

    action: str
    build: Build
    connection: Connection
    entry: CatalogueEntry
    index: Index
    hubs: Sequence[Hub]

    def by_sources(self, sources: Sequence[Path | Source]) -> ChangeResult:
        """Change the index by sources."""
        selection = self._selection()
        inputs = replace(self.build, selection=selection).inputs(sources)
        selection = self._with_rows_of(inputs, recognised(inputs, selection, None))
        steps = self._steps(inputs, selection)
        knowledge = steps.knowledge_base()
        notes = [_note_on_left_out(self.entry, self.action, selection, knowledge.report)]
        revision = self._revision(knowledge, selection.tables)
        if revision.new or (self.action == "append" and revision.added is not None and has_names(knowledge.folder)):
            notes.append(_note_on_links(self.build.index, inputs, selection.tables))
        source = [source.address for source in inputs.all]
        return self._apply(revision, source, notes, knowledge, lambda: steps.encoded_facts(knowledge))

    def by_things(self, things: Sequence[str]) -> ChangeResult:
        """Retract what the index has of some things."""
        with self._revising() as reviser:
            revision = reviser.forget(things, may_rename=not self._shares_names())
        stay = revision.names is None and self._shares_names()
        notes = ["other indexes have the same names, so that the names stay"] if stay else []
        return self._apply(revision, list(things), notes)

    def by_name(self, thing: str, name: str) -> ChangeResult:
        """Give a thing another name."""
        if not name:
            raise InputError("the new name is empty: give what the thing is called")
        if self._shares_names():
            raise InputError(
                f"other indexes have the names of index {self.entry.name!r}, and would lose the old one: build those again "
                "after the change, with `refactx ingest --kb`, and drop them before"
            )
        with self._revising() as reviser:
            revision = reviser.rename(thing, name)
        return self._apply(revision, [], [])

    def _revision(self, knowledge: KnowledgeBase, tables: TableOptions) -> Revision:
        """Return what the facts of sources change."""
        facts, folder, is_forgotten = knowledge.report.facts, knowledge.folder, self.action == "forget"
        if self.action == "update":
            with self._revising() as reviser:
                return reviser.update(folder, may_rename=not self._shares_names())
        if facts and is_forgotten and (tables.rows_of or tables.ids):
            with self._revising() as reviser:
                facts -= reviser.rows_that_stay(folder)
        if facts < 1:  # for example, all claims are about entities without a name in the index
            return Revision()
        if is_forgotten:
            return Revision(removed=folder, new_facts=facts)
        return Revision(added=folder, new_facts=facts)

    @contextmanager
    def _revising(self) -> Iterator[Reviser]:
        ready = ready_inverses(self.entry.report)
        pairs = self.entry.report.get("inverse_properties", {})
        build = self.build
        with (
            build.clock.step("compare"),
            open_revision(self.index, build.work, build.resources, pairs, ready) as reviser,
        ):
            yield reviser

    def _apply(
        self,
        revision: Revision,
        source: list[str],
        notes: Sequence[str],
        knowledge: KnowledgeBase | None = None,
        encode_sources: Callable[[], EncodedFacts] | None = None,
    ) -> ChangeResult:
        """Publish what a revision takes away and adds, as a segment each."""
        build, bars, report = self.build, self.build.bars(), _NO_SOURCES if knowledge is None else knowledge.report
        parts, encoded, passed_over = dict[int, WholeFacts](), 0, revision.same
        for sign, folder in ((-1, revision.removed), (1, revision.added)):
            if folder is None:
                continue
            if knowledge is not None and folder == knowledge.folder and encode_sources is not None:
                facts, work, are_given = encode_sources(), build.work, True
            else:
                with build.clock.step("encode"), bars:
                    facts = encode_facts(folder, build.tokenizer, build.trigger, folder, resources=build.resources)
                work, are_given = folder, sign > 0
            with build.clock.step("look up"), bars:
                chosen = select_by_sum(self.index, facts, int(sign < 0), work, bars)
            if are_given:
                encoded += len(facts)
                passed_over += len(facts) - len(chosen)
            if len(chosen):
                parts[sign] = chosen
        retracted, added = (len(parts.get(sign, ())) for sign in (-1, 1))
        result = ChangeResult(
            index=build.index,
            change=self.action,
            facts=retracted if self.action == "forget" else added,
            passed_over=passed_over,
            total=self.index.facts + added - retracted,
            segments=len(self.index.segments) + len(parts),
            report=report.without_changed(report.facts - revision.new_facts + encoded),
            seconds=build.clock.seconds,
            removed=retracted if self.action in ("update", "rename") else 0,
            things=revision.things,
            new=revision.new,
        )
        learned = self._publish(parts, result, source, knowledge=knowledge, revision=revision)
        if learned and self.action == "append":
            notes = [f"index {build.index!r} has learned the inverse properties of {learned} properties", *notes]
        return replace(result, note=". ".join(filter(None, notes)))

    def _selection(self) -> Selection:
        """Return the selection of the change, with what the index's ingest chose."""
        selection, entry = self.build.selection, self.entry
        own = entry.report.get("selection", {})
        profile = Profile.from_json(own["profile"]) if isinstance(own.get("profile"), dict) else None
        if selection.languages == LANGUAGES and isinstance(own.get("languages"), list):
            selection = replace(selection, languages=tuple(own["languages"]))
            if selection.has_languages:
                selection = replace(selection, aliases=bool(own.get("aliases")))
        if selection.qualifiers is None and isinstance(own.get("qualifiers"), list):
            selection = replace(selection, qualifiers=tuple(own["qualifiers"]))
        if own.get("references") and selection.qualifiers != ():
            selection = replace(selection, references=True)
        if self.action == "update":
            names = selection.inverse_names or tuple((own.get("inverse_names") or {}).items())
            inverse = bool(own.get("inverse"))
            selection = replace(
                selection,
                inverse=inverse,
                inverse_names=names if inverse else (),
                aliases=bool(own.get("aliases")),
                descriptions=bool(own.get("descriptions", True)),
            )
        # An append adds inverse facts of all but the index's hubs, so that it has all of them or is known to have none.
        # To forget inverse facts that the index lacks is to pass them over.
        if knows_hubs(entry) or self.action == "forget":
            selection = replace(selection, inverse_limit=NO_INVERSE_LIMIT)
        # Those that the rules gave to predicates of ready-made facts: "" for one that got none.
        inverse_names, found = selection.inverse_names, entry.report.get("ready_inverses", {})
        if selection.inverse and isinstance(found, dict):
            ready = {str(one): str(name) for one, name in found.items()}
            inverse_names = tuple({**dict(inverse_names), **ready}.items())
        return replace(
            selection,
            profile=selection.profile or profile,
            tables=_tables_of(entry, selection.tables),
            inverse_names=inverse_names,
        )

    def _with_rows_of(self, inputs: Inputs, selection: Selection) -> Selection:
        """Return a selection in which the rows of a table that the index does not have are rows of that table.

        That is a table which is appended, unless its columns are those of the index's only table. In an update it is one whose
        rows another column names, since a file of updates may have any name.
        """
        own, tables, given = _own_tables(self.entry), selection.tables, self.build.selection.tables
        if own.rows_of and (self.action == "append" or not set(given.subjects) <= set(own.subjects)):
            names = row_names(inputs.sources, self.build.index)
            if len(own.rows_of) == 1 and self.action == "append":
                for one in inputs.sources:
                    columns = value_columns(one, tables)
                    known_names = self.index.ids_of(filter(None, map(predicate_label, columns)))
                    if 2 * sum(named.is_property for named in known_names.values()) >= max(1, len(columns)):
                        names.pop(one.table, None)
            known = {one.rpartition("=")[0] for one in own.rows_of}
            new = (f"{of}={name}" for of, name in names.items() if of not in known and tables.row_of(of) != name)
            selection = replace(selection, tables=replace(tables, rows_of=(*new, *own.rows_of)))
        return selection

    def _steps(self, inputs: Inputs, selection: Selection) -> IngestSteps:
        """Return the first steps, with the names that the knowledge base of the index has."""
        entry, is_update = self.entry, self.action == "update"
        known = KnownNames(
            self.connection,
            writing.name_tables(self.connection, entry),
            _inverse_properties(entry),
            self.hubs if self.action != "forget" else (),
            updates=is_update,
            renames=is_update and not self._shares_names(),
        )
        # Numbers of indexes and name tables start at 1 in each database; with the time of creation they are unique.
        identity = f"{entry.id} {entry.created.isoformat()}"
        return IngestSteps(replace(self.build, selection=selection), inputs, known, identity)

    def _shares_names(self) -> bool:
        """Return whether another index has the names of the same knowledge base."""
        statement = "SELECT count(*) FROM refactx.indexes WHERE knowledge_base = %s AND id <> %s AND state = 'ready'"
        return number(self.connection, statement, [self.entry.knowledge_base, self.entry.id]) > 0

    def _publish(
        self,
        parts: Mapping[int, WholeFacts],
        result: ChangeResult,
        source: list[str],
        *,
        knowledge: KnowledgeBase | None,
        revision: Revision,
    ) -> int:
        """Write the segments (facts by sign), the new names and the counts of hubs, and make them visible in one transaction.

        Return of how many properties the index has learned the inverse, if there are no facts to write.
        """
        connection, entry, adds = self.connection, self.entry, self.action != "forget"
        all_names, renamed = (
            revision.names,
            {hub.object: revision.renamed[hub.object] for hub in self.hubs if hub.object in revision.renamed},
        )
        # Facts that the index has may have other references in the sources.
        refers = (
            adds
            and knowledge is not None
            and "references" in knowledge.report.selection
            and has_names(knowledge.folder, "labels.parquet")
        )
        if not parts and all_names is None and not refers:
            learned = 0
            if adds and knowledge is not None:
                if not has_names(knowledge.folder):
                    # Only without new names: these are not stored here, and the next change could not name the pairs.
                    learned = _add_to_report(
                        connection, entry, "inverse_properties", knowledge.report.inverse_properties
                    )
                _add_to_report(connection, entry, "property_aliases", knowledge.report.property_aliases)
            return learned
        names_of = all_names or (knowledge.folder if knowledge is not None and adds else None)
        if names_of is None and -1 in parts and not self._shares_names():
            names_of = self._without_references(parts[-1])
        with self.build.clock.step("load"):
            more = _count_facts_of(self.index, self.hubs, parts, renamed)
            with connection.transaction():
                segments = {sign: writing.add_segment(connection, entry.id, sign) for sign in parts}
                names = None
                if names_of is not None and (has_names(names_of) or has_names(names_of, "labels.parquet")):
                    names = writing.add_name_table(connection, entry.knowledge_base)
            with writing.or_removed(connection, entry), connection.transaction():
                for sign, segment in segments.items():
                    described = load_segment(connection, segment, parts[sign], self.build)
                    writing.show_segment(connection, segment, described)
                if all_names is not None:
                    writing.hide(connection, "name_tables", "knowledge_base", entry.knowledge_base)
                if names is not None and names_of is not None:
                    copy_rows(connection, "names", names, name_rows(names_of))
                    writing.show_names(connection, names)
                if more or renamed:
                    change_hubs(connection, entry.id, more, renamed)
                self._note(result, source, knowledge)
        if all_names is not None:
            writing.remove_unfinished(connection, entry, DROP_SECONDS)
        return 0

    def _without_references(self, gone: WholeFacts) -> Path | None:
        """Write names that take their references from facts that go; None if none has some. (Else a fact that comes back would
        have the sources of the one that was forgotten.)"""
        found = dict[int, str]()
        for low in range(0, len(gone), BATCH):
            texts = decode_texts(self.index.tokenizer, *gone.read_tokens(low, min(low + BATCH, len(gone)))).to_pylist()
            facts = [text.decode("utf-8", "replace").strip() for text in texts]
            stated = zip(facts, self.index.references_of(facts), strict=True)
            found |= {fact_number(fact): _NO_ADDRESS for fact, urls in stated if urls}
        folder = self.build.work / "gone"
        if found:
            write_labels(folder, REFERENCES, found)
        return folder if found else None

    def _note(self, result: ChangeResult, source: list[str], knowledge: KnowledgeBase | None) -> None:
        """Add the change to the account of the index, in the caller's transaction."""
        note = {
            "change": self.action,
            "facts": result.facts,
            "passed_over": result.passed_over,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            **({"removed": result.removed} if self.action in ("update", "rename") else {}),
            **({"things": result.things} if knowledge is None else {"source": source}),  # not the names of things
        }
        adds = self.action != "forget"
        writing.note_change(self.connection, self.entry, note, source if adds else ())
        if adds and knowledge is not None:
            if knowledge.report.statements:
                writing.note_statements(self.connection, self.entry, knowledge.report.statements)
            for key in ("inverse_properties", "ready_inverses", "property_aliases", "units"):
                _add_to_report(self.connection, self.entry, key, getattr(knowledge.report, key))
            if "references" in knowledge.report.selection:
                writing.add_to_report(self.connection, self.entry, "selection", {"references": True})
            own, tables = _own_tables(self.entry), knowledge.report.selection["tables"]
            if (rows_of := tables.get("rows_of", ())) and tuple(rows_of) != own.rows_of:
                found = {"tables": {**own.to_json(), "rows_of": rows_of}}
                writing.add_to_report(self.connection, self.entry, "selection", found)


def _count_facts_of(
    index: Index, hubs: Sequence[Hub], parts: Mapping[int, WholeFacts], renamed: Mapping[str, str]
) -> dict[tuple[str, str], int]:
    """Return how many facts about each hub a change adds, less those that it retracts, by object and predicate, without those
    that have none. `renamed`: new names of hubs, which the facts have that are added."""
    pairs = sorted({(hub.object, hub.predicate) for hub in hubs})
    if not pairs:
        return {}
    new = [(renamed.get(object_, object_), predicate) for object_, predicate in pairs]
    counts = np.zeros(len(pairs) + 1, np.int64)
    for sign, facts in parts.items():
        named = new if sign > 0 else pairs
        ends = pa.array([f"{predicate}> <{object_}>".encode() for object_, predicate in named], pa.large_binary())
        for low in range(0, len(facts), BATCH):
            texts = decode_texts(index.tokenizer, *facts.read_tokens(low, min(low + BATCH, len(facts))))
            after_subject = compute.split_pattern(texts, "> <", max_splits=1)  # no part has `<` or `>`
            after_subject = after_subject.filter(compute.equal(compute.list_value_length(after_subject), 2))
            places = compute.index_in(compute.list_element(after_subject, 1), value_set=ends)
            counts += sign * np.bincount(places.fill_null(len(pairs)).to_numpy(), minlength=len(counts))
    return {pair: int(count) for pair, count in zip(new, counts[:-1], strict=True) if count}


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


def _note_on_links(index: str, inputs: Inputs, tables: TableOptions) -> str:
    """Return by which columns rows may have named things before these were there: such a link is not kept. "" if by none."""
    given = {source.table.casefold() for source in inputs.sources}
    columns = []
    for left, right in map(parts_of_key, tables.keys):
        of, to = (side.rpartition(".")[0].casefold() for side in (left, right))
        if to in given and (of == to or of not in given):
            columns.append(left)
    if not columns:
        return ""
    return (
        f"things are new to index {index!r}, and rows that named them before, by column {' or '.join(columns)}, do not lead to "
        "them: update these rows too, if there are any"
    )


def _tables_of(entry: CatalogueEntry, given: TableOptions) -> TableOptions:
    """Return the options of tables of a change: those of the index's ingest, if none are given here, without its query and
    its files of labels. Keys are those of both; options of rows alone leave its subject."""
    own = _own_tables(entry)
    if given == TableOptions():
        return replace(own, query=None, labels=(), edges=own.edges or bool(own.labels))
    keys = tuple(dict.fromkeys((*given.keys, *own.keys)))
    of_rows = (
        given.ids or given.keys or given.descriptions or given.aliases or given.qualifiers
    )  # which mean nothing without a subject
    return replace(
        given,
        subjects=given.subjects or (own.subjects if of_rows and not given.columns else ()),
        keys=keys,
        ids=given.ids or own.ids,
        qualifiers=given.qualifiers or own.qualifiers,
        prefixed=given.prefixed or own.prefixed,
        whole=own.whole,
        rows_of=own.rows_of,
    )


def _own_tables(entry: CatalogueEntry) -> TableOptions:
    document = entry.report.get("selection", {}).get("tables")
    return TableOptions.from_json(document) if isinstance(document, dict) else TableOptions()


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

    `found`: as `Report.inverse_properties`, `ready_inverses`, `property_aliases` or `units`.
    """
    known = entry.report.get(key, {})
    new = {one: other for one, other in found.items() if one not in known}
    for one in known.keys() & found.keys():
        if isinstance(other := found[one], list) and not set(other) <= set(known[one]):
            new[one] = sorted({*known[one], *other})
    if new:
        writing.add_to_report(connection, entry, key, new)
    return len(new)
