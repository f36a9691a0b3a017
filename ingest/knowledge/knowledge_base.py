"""The first half of an ingest: from source files to a knowledge base on disk, which depends on no tokenizer.

A knowledge base is a folder of six files:

| file | columns |
|---|---|
| `units.parquet` | `unit INTEGER` (0 to n - 1, in the order of the texts), `text VARCHAR` (a part, unique) |
| `facts.parquet` | `subject, predicate, object INTEGER` (units), distinct, ascending; of statements also `tail` |
| `names.parquet` | `name VARCHAR` (a unit's text), `id VARCHAR` (`Q42`, an IRI), `object_kind VARCHAR`, `entity BIGINT` |
| `hubs.parquet` | `object, predicate, inverse VARCHAR, subjects BIGINT` (`refactx.postgres.catalogue`) |
| `ids.parquet` | `entity BIGINT` (`refactx.entity_ids`; negative for an inverse), `name VARCHAR`, ascending |
| `labels.parquet` | `language VARCHAR, entity BIGINT, label VARCHAR`: other labels than the name, ascending; references |

`names.parquet`, and `ids.parquet` in another order, have a row for each entity whose name occurs in a fact, and for the
predicates of the inverse facts that hubs do not have; ready-made facts have no ids. `object_kind` of a property is
`entity`, a kind of literals (`refactx.index.names.LITERAL_KINDS`) or `mixed`, after the objects of its facts, which
distinguishes the entity Berlin from the text "Berlin". `inverse` marks the name of an inverse. The kind is NULL for an
item, and for a property that is the predicate of no fact.

A `tail` is a unit whose text has the qualifiers of a statement (`refactx.ingest.knowledge.statements`), or -1.

The files depend on the set of lines in the sources, not on their order, and appear when all are complete.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from refactx.entity_ids import FIRST_OTHER
from refactx.errors import InputError
from refactx.fact import counted
from refactx.index.names import LITERAL_KINDS, REFERENCES
from refactx.ingest.knowledge.joins import STEPS, join_facts
from refactx.ingest.knowledge.names import KnownNames, labels_by_language, name_entities
from refactx.ingest.knowledge.statements import REFERENCE_ROWS, state_claims
from refactx.ingest.knowledge.structure import NO_GRAPH, GraphShape, check_named, shape_graph
from refactx.ingest.knowledge.units import join_units
from refactx.ingest.parsers.formats import OTHER_GRAPH, LineAccount
from refactx.ingest.parsers.parsed import LABEL, SCHEMAS, TITLE
from refactx.ingest.report import Report
from refactx.ingest.source_options import Selection
from refactx.ingest.work import DEFAULT_RESOURCES, Resources, Tables, WorkDatabase, open_work_database
from refactx.progress import progress_bar

# The names in facts, and those of the predicates that hubs do not have, so that a change does not call them otherwise.
# Of the names that the knowledge base has already, only those of predicates whose kind of objects changes.
_NAMES = """
SELECT name, entity, object_kind FROM (
    SELECT u.entity, u.name, k.entity AS known, k.object_kind AS before, CASE
        WHEN u.entity < 0 THEN 'inverse'
        WHEN k.object_kind IS NULL OR p.object_kind = k.object_kind THEN p.object_kind
        WHEN p.object_kind IS NULL THEN k.object_kind
        WHEN p.object_kind IN {literals} AND k.object_kind IN {literals} THEN 'literal'
        ELSE 'mixed' END AS object_kind
    FROM (SELECT entity, name FROM used UNION SELECT entity, name FROM hub_predicates) u
    LEFT JOIN predicates p USING (entity) LEFT JOIN known k USING (entity)
) WHERE known IS NULL OR object_kind IS DISTINCT FROM before
"""
FILES = {
    "units.parquet": "SELECT unit, text FROM units ORDER BY unit",
    "facts.parquet": "SELECT * FROM facts ORDER BY ALL",
    "names.parquet": "SELECT name, entity_id(abs(entity)) AS id, object_kind, abs(entity) AS entity FROM new_names"
    " ORDER BY name",
    "ids.parquet": "SELECT entity, name FROM new_names ORDER BY entity",
    "labels.parquet": "SELECT language, entity, label FROM labels_by_language ORDER BY language, entity",
    "hubs.parquet": "SELECT * FROM hubs_with_counts ORDER BY ALL",
}
"""The files of a knowledge base, with the queries of their rows."""
THINGS = """
SELECT entity, name FROM named WHERE entity IN (
    SELECT subject FROM claims WHERE subject < {first_other} OR subject IN (SELECT entity FROM ids)
    UNION SELECT entity FROM terms WHERE kind IN ({label}, {title})
) AND NOT is_property(entity)
UNION ALL SELECT NULL, subject FROM (SELECT DISTINCT subject FROM ready)
"""
"""What the sources say something about, for an update: its number, NULL if it has none, and its name."""


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A finished knowledge base: the folder of its files, and the account of its sources."""

    folder: Path
    report: Report


def join(
    staged: Path,
    lines: LineAccount,
    folder: Path,
    selection: Selection,
    *,
    resources: Resources = DEFAULT_RESOURCES,
    known: KnownNames | None = None,
) -> KnowledgeBase:
    """Write the files, from staged rows and the account of their lines.

    `known`: the names that entities have already, if facts are added to an index. `names.parquet` then has only the
    names to add, and it is no error if there is no fact: the change may have nothing to do.

    Raises InputError if there is no fact and no `known`, RefactxError if DuckDB cannot continue, since the disk is full or
    `resources.memory` is too small.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        open_work_database(folder, resources) as database,
        progress_bar("joining names and facts", STEPS + len(FILES) + 1, shown=resources.progress) as bar,
    ):
        for table in SCHEMAS:
            database.view_parquet(table, staged / f"{table}.parquet")
        if known is None:
            check_named(database, selection.profile)
        properties = known.other_properties() if known is not None and database.has_rows("ids") else ()
        keeps = None if selection.qualifiers == () else selection.keeps_qualifier
        graph = shape_graph(database, selection.profile, properties, keeps)
        report = join_tables(database, lines, selection, known=known, step=bar.update, graph=graph)
        files = dict(FILES)
        if known is not None and known.updates:
            files["things.parquet"] = THINGS.format(label=LABEL, title=TITLE, first_other=FIRST_OTHER)
        # First under temporary names, so that a killed run leaves no incomplete file.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as new:
            for name, query in files.items():
                database.write_parquet(query, Path(new, name))
                bar.update()
            for name in files:
                Path(new, name).replace(folder / name)
    return KnowledgeBase(folder, report)


def join_tables(
    database: Tables,
    lines: LineAccount,
    selection: Selection,
    *,
    known: KnownNames | None = None,
    step: Callable[[], object] = lambda: None,
    graph: GraphShape = NO_GRAPH,
) -> Report:
    """Make the tables that the queries `FILES` read, from views of the staged tables. Calls `step` `STEPS` times.

    `graph`: the account of entities that are not Wikidata's, after `shape_graph`.

    Raises InputError if there is no fact, and no `known`.
    """
    of_graph = database if isinstance(database, WorkDatabase) and not graph.is_empty else None
    is_stated = state_claims(database, selection)
    naming = name_entities(database, selection, known, of_graph)
    step()
    joined = join_facts(database, selection, step, is_graph=of_graph is not None, is_stated=is_stated)
    report = _report(lines, joined, naming, selection, graph, needs_facts=known is None)
    database.table("new_names", _NAMES.format(literals=LITERAL_KINDS))
    labels, keeps = labels_by_language(selection), selection.references and is_stated
    database.table("labels_by_language", f"{labels} UNION ALL {REFERENCE_ROWS}" if keeps else labels)
    if selection.references:
        kept = database.number(f"SELECT count(*) FROM labels_by_language WHERE language = '{REFERENCES}'")
        report = replace(report, notes=(*report.notes, f"references are kept of {counted(kept, 'fact')}"))
    return report


def write_facts(database: WorkDatabase, table: str, folder: Path) -> None:
    """Write a table of facts (`subject, predicate, object, tail`, that of a plain fact is empty) as a knowledge base has them:
    the files of units and of facts."""
    has_tails = bool(database.rows(f"SELECT 1 FROM {table} WHERE tail <> '' LIMIT 1"))
    parts = " UNION ALL ".join(f"SELECT {part} AS text FROM {table}" for part in ("subject", "predicate", "object"))
    database.numbered("units", f"{parts} UNION ALL SELECT tail FROM {table} WHERE tail <> ''", "unit")
    database.write_parquet("SELECT unit, text FROM units ORDER BY unit", folder / "units.parquet")
    join_units(database, "facts_of_units", table, has_tails=has_tails)
    database.write_parquet("SELECT * FROM facts_of_units ORDER BY ALL", folder / "facts.parquet")


def _report(
    lines: LineAccount,
    joined: Report,
    naming: tuple[int, tuple[str, ...]],
    selection: Selection,
    graph: GraphShape,
    *,
    needs_facts: bool,
) -> Report:
    dropped, (collisions, names) = lines.dropped + graph.dropped + Counter(joined.dropped), naming
    report = replace(
        joined,
        lines_read=lines.read,
        kept=joined.kept - graph.more,
        dropped={reason: dropped[reason] for reason in sorted(dropped) if dropped[reason]},
        cut=lines.cut + joined.cut,
        malformed=tuple(lines.faults),
        notes=(*lines.notes, *graph.notes, *names, *(joined.notes if needs_facts else ())),
        collisions=collisions,
        selection=selection.to_json(),
    )
    if needs_facts and not report.facts:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.dropped.items())
        expected = f"expected Wikidata claims with labels in {','.join(selection.languages)} for their subjects, "
        expected += "predicates and objects, or ready-made facts"
        if not graph.is_empty:
            expected = "expected triples that say something of things, not only labels, axioms and types of a schema"
        if selection.tables.subjects:
            expected = "expected rows with a name and another filled cell"
        other_graph = next((note for note in lines.notes if note.endswith(OTHER_GRAPH)), expected)
        raise InputError(f"no fact in {counted(lines.read, 'line')}, dropped: {reasons}; {other_graph}")
    return report
