"""The facts that an update replaces or that go with a thing, found by one pass over all facts of an index.

A tree leads from subjects to objects, so what says something about a thing as an object is found by reading all facts.
They are read once, into the work database of the change:

| table | columns |
|---|---|
| `stored` | `subject, predicate, object, tail VARCHAR`: the facts of the index; a tail has the qualifiers, or is empty |
| `tail_parts` | `tail VARCHAR, place BIGINT, predicate, object VARCHAR`: a qualifier and its value, by their place |
| `names` | `entity BIGINT, name, id, kind VARCHAR`: of its knowledge base; an inverse has the negative number |
| `labels` | `language VARCHAR, entity BIGINT, label VARCHAR`: other labels of these |
| `inverse_of` | `inverse, claim VARCHAR`: the predicates of inverse facts, and those that they read backwards |
| `gone_facts` | `entity BIGINT`: the numbers of facts that are taken away or replaced, whose references go |
| `things` | `entity BIGINT, name, before VARCHAR`: what is updated or forgotten, its name afterwards and now |
| `removed`, `added` | as `stored`: what the change takes away, and what it adds |

An inverse fact belongs to the thing whose claim it reads backwards: `<Oslo> <capital of> <Norway>` is Norway's.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from pyarrow import compute, parquet

from refactx.errors import CorruptIndexError, InputError
from refactx.fact import ALIAS_OF, counted, visible
from refactx.index.index import Index
from refactx.index.names import LITERAL_KINDS, REFERENCES, language_of, unpack_ids
from refactx.ingest.encoding import decode_texts
from refactx.ingest.knowledge.knowledge_base import write_facts
from refactx.ingest.profile import ROW_OF
from refactx.ingest.work import Resources, WorkDatabase, open_work_database
from refactx.tree.bulk import from_matrix, surviving
from refactx.tree.codes import RowCodec

_PAIR = "[^<>]*> <[^<>]*"
_FACT = (
    r"^\s*<(?P<subject>[^<>]*)> <(?P<predicate>[^<>]*)> <(?P<object>[^<>]*)"
    f"(?:> <(?P<tail>{_PAIR}(?:> <{_PAIR})*))?>$"
)
_TAIL_PARTS = """
SELECT tail, place, parts[2 * place - 1] AS predicate, parts[2 * place] AS object FROM (
    SELECT tail, parts, unnest(range(1, len(parts) // 2 + 1)) AS place FROM (
        SELECT tail, string_split(tail, '> <') AS parts FROM (SELECT DISTINCT tail FROM stored WHERE tail <> '')
    )
)
"""
_NAMES = pa.schema({"entity": pa.int64(), "name": pa.string(), "id": pa.string(), "kind": pa.string()})
_LABELS = pa.schema({"language": pa.string(), "entity": pa.int64(), "label": pa.string()})
_THINGS = pa.schema({"entity": pa.int64(), "name": pa.string(), "before": pa.string()})
_INVERSES = pa.schema({"inverse": pa.string(), "claim": pa.string()})
_SHOWN = 5
# A fact about an entity, as far as it is known: the objects of ready-made facts have no kind.
_ABOUT_ENTITY = f"""
predicate NOT IN (SELECT name FROM names WHERE kind IN {LITERAL_KINDS}
    EXCEPT SELECT name FROM names WHERE kind NOT IN {LITERAL_KINDS})
"""
# Facts that read a claim of another thing backwards, which stays.
_OF_OTHERS = """
SELECT DISTINCT s.* FROM stored s JOIN inverse_of i ON s.predicate = i.inverse
SEMI JOIN stored c ON c.subject = s.object AND c.predicate = i.claim AND c.object = s.subject
WHERE s.subject IN (SELECT before FROM things) AND s.object NOT IN (SELECT before FROM things)
"""
_REPLACED = f"""
WITH claims AS (
    SELECT * FROM stored WHERE subject IN (SELECT before FROM things)
    EXCEPT ({_OF_OTHERS})
)
SELECT * FROM claims
UNION SELECT s.* FROM stored s JOIN inverse_of i ON s.predicate = i.inverse
    SEMI JOIN claims c ON c.subject = s.object AND c.predicate = i.claim AND c.object = s.subject
UNION SELECT * FROM stored WHERE predicate = '{ALIAS_OF}' AND object IN (SELECT before FROM things)
"""
# What stays of others about things that have another name now.
_RENAMED = f"""
SELECT s.subject, s.predicate, s.object, s.tail, coalesce(a.name, s.subject) AS new_subject,
    coalesce(o.name, s.object) AS new_object, coalesce(t.new_tail, s.tail) AS new_tail
FROM (SELECT * FROM stored EXCEPT SELECT * FROM removed) s
LEFT JOIN things a ON a.before = s.subject
LEFT JOIN things o ON o.before = s.object AND {_ABOUT_ENTITY.replace("predicate", "s.predicate")}
LEFT JOIN new_tails t ON t.tail = s.tail
WHERE a.name <> s.subject OR o.name <> s.object OR t.new_tail <> s.tail
"""
_NEW_TAILS = f"""
SELECT tail, string_agg(predicate || '> <' || coalesce(name, object), '> <' ORDER BY place) AS new_tail
FROM tail_parts LEFT JOIN things ON before = object AND {_ABOUT_ENTITY} GROUP BY tail
"""
_NUMBER = "fact_number('<' || concat_ws('> <', {0}subject, predicate, {0}object, nullif({0}tail, '')) || '>')"
_GONE_FACTS = f"SELECT DISTINCT {_NUMBER.format('')} AS entity FROM removed"
_LABELS_OF_RENAMED = f"""
FROM labels SEMI JOIN things USING (entity)
UNION ALL SELECT language, {_NUMBER.format("new_")} AS entity, label
    FROM renamed JOIN labels ON language = '{REFERENCES}' AND entity = {_NUMBER.format("")}
"""
_FORGOTTEN = f"""
SELECT * FROM stored WHERE subject IN (SELECT before FROM things)
UNION SELECT * FROM stored WHERE object IN (SELECT before FROM things) AND {_ABOUT_ENTITY}
UNION SELECT * FROM stored WHERE tail IN (
    SELECT tail FROM tail_parts WHERE object IN (SELECT before FROM things) AND {_ABOUT_ENTITY}
)
"""
_MEMBER = f"SELECT name FROM names WHERE id = '{ROW_OF}' AND entity > 0"
_WHOLE = f"SELECT name FROM names WHERE id = '{ROW_OF}' AND entity < 0"
# What makes a row a row: that it is one of a table, and its id.
_IDENTITY = f"""
SELECT * FROM stored WHERE predicate IN ({_MEMBER}) OR EXISTS (
    FROM names n WHERE n.name = subject AND (n.id = object OR ends_with(n.id, ':' || object))
)
"""
# The same of those rows of which the index keeps another fact of their own.
_STILL_ROWS = f"""
WITH identity AS ({_IDENTITY}), staying AS (
    SELECT subject FROM (
        SELECT * FROM stored WHERE subject IN (SELECT before FROM things)
        EXCEPT (FROM given UNION FROM identity UNION {_OF_OTHERS})
    )
)
FROM given INTERSECT SELECT * FROM identity SEMI JOIN staying USING (subject)
UNION SELECT * FROM given WHERE predicate IN ({_WHOLE}) AND object IN (FROM staying)
"""


@dataclass(frozen=True, slots=True)
class Revision:
    """What a change takes away from an index and adds to it.

    `removed`, `added`: the folders of facts, as those of a knowledge base; None if there are none. `names`: the folder of
    all names that the knowledge base has afterwards; None if the names that it has stay. `things`: how many things were
    updated or forgotten as a whole, `new` of them were not there. `new_facts`: how many facts of the sources are in `added`
    or, to be forgotten, in `removed`; `same`: how many are there already. `renamed`: the names
    of things that get another one, and the new ones.
    """

    removed: Path | None = None
    added: Path | None = None
    names: Path | None = None
    things: int = 0
    new: int = 0
    new_facts: int = 0
    same: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def open_revision(
    index: Index, folder: Path, resources: Resources, pairs: Mapping[str, str], ready: Mapping[str, str]
) -> Iterator["Reviser"]:
    """Read an index into a work database in `folder`, for one of the methods of `Reviser`.

    `pairs`: the ids of properties and of those that their inverse facts belong to; `ready`: the predicates of ready-made
    facts, and those of their inverse facts. Raises RefactxError as `open_work_database`.
    """
    work = folder / "revision"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with open_work_database(work, resources, task="read the index") as database:
        _read_facts(index, work / "stored.parquet")
        database.view_parquet("stored", work / "stored.parquet")
        database.table("tail_parts", _TAIL_PARTS)
        database.table_of("names", _names_of(index))
        database.table_of("labels", _labels_of(index))
        properties = dict(database.rows("SELECT id, name FROM names WHERE entity > 0 AND is_property(entity)"))
        rows = [(properties.get(other), properties.get(one)) for one, other in pairs.items()]
        rows += [(name, one) for one, name in ready.items() if name]
        columns = zip(*[row for row in rows if all(row)], strict=True) if any(map(all, rows)) else ((), ())
        database.table_of("inverse_of", pa.table([pa.array(one, pa.string()) for one in columns], schema=_INVERSES))
        database.table(
            "inverse_of",
            "FROM inverse_of UNION SELECT i.name, p.name FROM names i JOIN names p ON i.entity = -p.entity"
            " WHERE i.entity < 0",
        )
        yield Reviser(index, database, work)


class Reviser:
    """An index that is read to be revised."""

    def __init__(self, index: Index, database: WorkDatabase, work: Path) -> None:
        self._index, self._database, self._work = index, database, work

    def update(self, knowledge: Path, *, may_rename: bool) -> Revision:
        """Return what replaces the facts of the things that a knowledge base says something about."""
        database = self._database
        _read_given(database, knowledge)
        database.view_parquet("given_things", knowledge / "things.parquet")
        database.table(
            "things",
            "SELECT g.entity, g.name, coalesce(n.name, g.name) AS before, n.name IS NULL AND g.entity IS NOT NULL AS is_new"
            " FROM given_things g LEFT JOIN names n USING (entity)",
        )
        database.table("removed", _REPLACED)
        database.table("new_tails", _NEW_TAILS)
        database.table("renamed", _RENAMED)
        database.execute("INSERT INTO removed SELECT subject, predicate, object, tail FROM renamed")
        database.table(
            "added",
            "FROM given UNION SELECT new_subject AS subject, predicate, new_object AS object, new_tail AS tail FROM renamed",
        )
        database.table("gone_facts", _GONE_FACTS)
        same = database.number("SELECT count(*) FROM (FROM given INTERSECT FROM stored)")
        database.table("kept", "FROM added INTERSECT FROM removed")
        database.table("removed", "FROM removed EXCEPT FROM kept")
        database.table("added", "FROM added EXCEPT FROM stored")
        database.view_parquet("new_ids", knowledge / "ids.parquet")
        database.view_parquet("new_names", knowledge / "names.parquet")
        database.table(
            "renamed_entities", "SELECT entity FROM things WHERE entity IS NOT NULL AND name <> before AND NOT is_new"
        )
        database.view_parquet("new_labels", knowledge / "labels.parquet")
        return replace(
            self._revision(may_rename), new=database.number("SELECT count(*) FROM things WHERE is_new"), same=same
        )

    def forget(self, wanted: Sequence[str], *, may_rename: bool) -> Revision:
        """Return what goes with things that are given by their names or ids. Raises InputError if there is no such thing, or
        if a text is the name of one thing and the id of another."""
        rows = [self._thing(text) for text in dict.fromkeys(wanted)]
        self._database.table_of("things", pa.table(list(zip(*rows, strict=True)), schema=_THINGS))
        self._database.table("removed", _FORGOTTEN)
        self._database.table("gone_facts", _GONE_FACTS)
        self._database.table("added", "FROM stored LIMIT 0")
        self._database.table("renamed_entities", "SELECT entity FROM things WHERE entity IS NOT NULL")
        none = "SELECT entity, name, id, kind AS object_kind FROM names LIMIT 0"
        self._database.table("new_names", none)
        self._database.table("new_ids", "SELECT entity, name FROM names LIMIT 0")
        self._database.table("new_labels", "FROM labels LIMIT 0")
        return self._revision(may_rename)

    def rename(self, wanted: str, name: str) -> Revision:
        """Return what gives a thing another name, in all facts that name it. Raises InputError if there is no such thing, or if
        the name is taken."""
        database, (entity, _, before) = self._database, self._thing(wanted)
        taken = "SELECT 1 FROM names WHERE name = ? UNION SELECT 1 FROM stored WHERE subject = ? OR object = ?"
        if database.rows(f"{taken} AND {_ABOUT_ENTITY} LIMIT 1", [name] * 3):
            raise InputError(
                f"index {self._index.name!r} has a thing called {visible(name)!r} already: give another name"
            )
        database.table_of("things", pa.table([[entity], [name], [before]], schema=_THINGS))
        database.table("removed", "FROM stored LIMIT 0")
        database.table("new_tails", _NEW_TAILS)
        database.table("renamed", _RENAMED)
        database.table("removed", "SELECT subject, predicate, object, tail FROM renamed")
        database.table("gone_facts", _GONE_FACTS)
        database.table(
            "added", "SELECT new_subject AS subject, predicate, new_object AS object, new_tail AS tail FROM renamed"
        )
        database.table("renamed_entities", "SELECT entity FROM things WHERE entity IS NOT NULL")
        same = "FROM names SEMI JOIN things USING (entity)"
        database.table("new_names", f"SELECT entity, (SELECT name FROM things) AS name, id, kind AS object_kind {same}")
        database.table("new_ids", "SELECT entity, name FROM new_names")
        database.table("new_labels", _LABELS_OF_RENAMED)
        return self._revision(may_rename=True)

    def rows_that_stay(self, knowledge: Path) -> int:
        """Leave out of the facts of a knowledge base that are to be forgotten what says that rows are rows, and their ids,
        of those rows of which the index keeps another fact. Return how many facts that are."""
        database = self._database
        _read_given(database, knowledge)
        database.table(
            "things", "SELECT DISTINCT CAST(NULL AS BIGINT) AS entity, subject AS name, subject AS before FROM given"
        )
        database.table("still", _STILL_ROWS)
        if database.has_rows("still"):
            database.table("given", "FROM given EXCEPT FROM still")
            write_facts(database, "given", self._work)
            for name in ("units.parquet", "facts.parquet"):
                (self._work / name).replace(knowledge / name)
        return database.number("SELECT count(*) FROM still")

    def _thing(self, wanted: str) -> tuple[int | None, str, str]:
        rows = self._database.rows
        found = rows(
            "SELECT entity, name, id FROM names WHERE (name = ? OR id = ?) AND NOT is_property(entity)",
            [wanted, wanted],
        )
        ready = f"SELECT 1 FROM stored WHERE subject = ? OR object = ? AND {_ABOUT_ENTITY} LIMIT 1"
        if not found and rows(ready, [wanted, wanted]):
            return None, wanted, wanted
        if not found:  # people write the label, or the key of a row without its table
            found = rows(
                "SELECT entity, name, id FROM names WHERE NOT is_property(entity)"
                " AND (starts_with(name, ? || ' (') OR ends_with(id, ':' || ?) OR lower(name) = lower(?)) ORDER BY name",
                [wanted] * 3,
            )
            if not found:
                raise InputError(
                    f"index {self._index.name!r} has no thing with the name or id {visible(wanted[:100])!r}: "
                    "`refactx facts` shows names that are like it"
                )
            if len(found) == 1 and found[0][1].casefold() != wanted.casefold() and found[0][2].endswith(f":{wanted}"):
                return found[0][0], found[0][1], found[0][1]
            raise InputError(f"no thing is called {visible(wanted[:100])!r}, but {_shown(found)}: give one of these")
        if len(found) > 1:
            raise InputError(f"{visible(wanted[:100])!r} is {_shown(found)}: give that which is meant")
        return found[0][0], found[0][1], found[0][1]

    def _revision(self, may_rename: bool) -> Revision:
        database, folders = self._database, {name: self._work / name for name in ("removed", "added", "names")}
        if not database.has_rows("added"):
            folders.pop("added")
        if not database.has_rows("removed"):
            folders.pop("removed")
        gone = "SELECT entity FROM things UNION ALL FROM gone_facts"
        gone = f"SELECT language, entity FROM labels WHERE entity IN ({gone})"
        database.table("gone_labels", f"{gone} EXCEPT SELECT language, entity FROM new_labels")
        if not may_rename or not (database.has_rows("renamed_entities") or database.has_rows("gone_labels")):
            folders.pop("names")
        for name, folder in folders.items():
            folder.mkdir()
            if name == "names":
                self._write_names(folder)
            else:
                write_facts(database, name, folder)
        return Revision(
            removed=folders.get("removed"),
            added=folders.get("added"),
            names=folders.get("names"),
            things=database.number("SELECT count(*) FROM things"),
            new_facts=database.number("SELECT count(*) FROM added"),
            renamed=dict(database.rows("SELECT before, name FROM things WHERE before <> name")),
        )

    def _write_names(self, folder: Path) -> None:
        """Write all names after the change: those that it brings before those that are there."""
        database = self._database
        database.table(
            "all_names",
            "SELECT CASE WHEN object_kind = 'inverse' THEN -entity ELSE entity END AS entity, name, id, object_kind AS kind"
            " FROM new_names UNION ALL"
            " SELECT entity, name, id, kind FROM names WHERE entity NOT IN (SELECT entity FROM new_ids)"
            " AND entity NOT IN (FROM renamed_entities)",
        )
        database.write_parquet(
            "SELECT name, id, kind AS object_kind, abs(entity) AS entity FROM all_names ORDER BY name",
            folder / "names.parquet",
        )
        database.write_parquet("SELECT entity, name FROM all_names ORDER BY entity", folder / "ids.parquet")
        database.write_parquet(
            "FROM new_labels UNION ALL SELECT l.* FROM labels l ANTI JOIN things USING (entity)"
            " ANTI JOIN gone_facts USING (entity)"
            " ANTI JOIN new_labels USING (language, entity) ORDER BY language, entity",
            folder / "labels.parquet",
        )


def _shown(found: Sequence[tuple[int, str, str]]) -> str:
    names = [f"{visible(name[:100])} ({visible(id_[:100])})" for _, name, id_ in found[:_SHOWN]]
    more = f" and {counted(len(found) - _SHOWN, 'other')}" if len(found) > _SHOWN else ""
    return " or ".join(names) + more


def _read_facts(index: Index, path: Path) -> None:
    """Write all facts of an index to a Parquet file. Raises CorruptIndexError if one is none."""
    schema = pa.schema({name: pa.large_string() for name in ("subject", "predicate", "object", "tail")})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for matrix in surviving(index.segments):
            texts = decode_texts(index.tokenizer, *from_matrix(matrix))
            try:
                parts = compute.extract_regex(texts.cast(pa.large_string()), _FACT)
            except pa.ArrowInvalid:
                parts = pa.nulls(1)
            if parts.null_count:
                raise CorruptIndexError(f"index {index.name!r} has a fact that is none. Ingest the index again")
            writer.write_table(pa.Table.from_batches([pa.RecordBatch.from_struct_array(parts)]).cast(schema))


def _names_of(index: Index) -> pa.Table:
    """Return the names of an index's knowledge base; of several tables the latest decides."""
    found: dict[str, tuple[int, str, str, str | None]] = {}
    for block in (index.unpack_names(key, block) for key, block in index.name_rows()):
        for name, named in block.items():
            number = -named.number if named.object_kind == "inverse" else named.number
            found.setdefault(name, (number, name, named.id, named.object_kind))
    columns = list(zip(*found.values(), strict=True)) or [(), (), (), ()]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _NAMES, strict=True)]
    return pa.table(arrays, schema=_NAMES)


def _labels_of(index: Index) -> pa.Table:
    """Return the labels by language of an index's knowledge base; of several tables the latest decides."""
    found: dict[tuple[str, int], str] = {}
    for key, block in index.name_rows(b""):
        if language := language_of(key):
            numbers, labels = unpack_ids(key, block, RowCodec(), f"block of labels {key!r}")
            for number, label in zip(numbers.tolist(), labels, strict=True):
                found.setdefault((language, number), label)
    rows = [(language, number, label) for (language, number), label in found.items()]
    return pa.table(list(zip(*rows, strict=True)) or [(), (), ()], schema=_LABELS)


def _read_given(database: WorkDatabase, knowledge: Path) -> None:
    database.view_parquet("given_units", knowledge / "units.parquet")
    database.view_parquet("given_facts", knowledge / "facts.parquet")
    has_tails = any(column == "tail" for column, *_ in database.rows("DESCRIBE given_facts"))
    tail, join = ("coalesce(t.text, '')", " LEFT JOIN given_units t ON t.unit = f.tail") if has_tails else ("''", "")
    database.table(
        "given",
        f"SELECT s.text AS subject, p.text AS predicate, o.text AS object, {tail} AS tail FROM given_facts f"
        " JOIN given_units s ON s.unit = f.subject JOIN given_units p ON p.unit = f.predicate"
        f" JOIN given_units o ON o.unit = f.object{join}",
    )
