"""The names of entities: those that a knowledge base has already, new ones, and aliases as facts.

The name of an item is its Wikipedia title if the input gives one, else `label (description)`, else its label; the name
of a property is its label. The best label is the one in the first language that has one; of several, the first in
lexical order, so that the order of the input does not matter. A name longer than `refactx.fact.MAX_PART_CHARACTERS` is
cut before names are compared.

Entities that would have the same name get their ids at its end:

* every item (` (Q42)`);
* properties that collide with each other (` (P569)`), and inverses of properties (`refactx.ingest.knowledge.inverse`)
  that collide with a property or with each other (` (inverse of P569)`). A property or an inverse that collides only
  with items keeps its bare label, since models choose from these labels;
* an entity whose name would be `description` or `short description`, the predicates of descriptions, or `alias of`, or
  would end in ` (alias)`, as the parts of aliases do;
* an entity whose name is that of another entity with its id.

All named entities of the input count, also those that no fact uses: a name does not depend on which facts are kept.

If facts are added to a knowledge base, an entity or inverse that has a name there keeps it, with or without a label in
the input. A new one gets its id if its name is taken. All names may not fit into memory, so only those that matter for
the sources are loaded into the work database: names of given entities by one pass over the numbers in all blocks of
names, given names from the blocks whose keys say that they could hold them.

A question seldom uses the label of an entity. An alias (skos:altLabel) is a way into the tree that costs one fact
instead of a copy of all facts about the entity. The name of an alias ends in "(alias)", so that an alias and an entity
of the same name each keep their own facts.

| table | columns |
|---|---|
| `aliased` | `entity BIGINT, text, name VARCHAR, is_cut, of_label BOOLEAN`: of entities that have facts |
| `alias_facts` | `subject, predicate, object INTEGER` (units), `of_label BOOLEAN`: those that are no claim |

Only items have aliases: another name of a property is no subject of a question. The label of an item that is named by
its title is an alias too (`of_label`). Two kinds are left out: an alias that is the item's name, or the name up to a
bracket, since it adds nothing; and an alias whose name an entity of the knowledge base has.

Labels that are not the name, such as those of further languages, are aliases as well. So that an answer can be in the
language of its question, the best label in each language besides the first is kept by language too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from refactx.entity_ids import FIRST_OTHER, is_property, is_wikidata
from refactx.errors import CorruptIndexError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, MAX_PART_CHARACTERS, written_part
from refactx.index.names import FIRST_KEY, NameColumns, block_key, kind_of, unpack_columns
from refactx.ingest.knowledge.inverse import name_inverses
from refactx.ingest.knowledge.structure import complete_labels, distinguish_names
from refactx.ingest.parsers.parsed import DESCRIPTION, LABEL, OTHER_NAME, SHORT_DESCRIPTION, TITLE
from refactx.ingest.parsers.values import NO_LANGUAGE
from refactx.ingest.source_options import Selection
from refactx.ingest.work import Tables, WorkDatabase
from refactx.postgres.catalogue import Hub
from refactx.postgres.locks import Connection
from refactx.tree.codes import RowCodec

NameBlock = tuple[bytes, bytes]
"""The key of a block of names, and the block as it is stored."""

_BLOCKS = 1024  # read at a time: a quarter of a million names
_NAMES = 4096  # looked up at a time, in at most as many blocks: some 20 MB
_EMPTY = {
    "known": pa.schema({"entity": pa.int64(), "name": pa.string(), "object_kind": pa.string()}),
    "taken": pa.schema({"name": pa.string()}),
    "known_hubs": pa.schema({name: pa.string() for name in ("object", "predicate", "inverse")}),
}
# All entities of the sources, and the inverses of those that are properties.
_MENTIONED = """
CREATE TABLE mentioned AS
WITH entities AS (
    SELECT subject AS entity FROM claims UNION ALL SELECT property FROM claims
    UNION ALL SELECT object FROM claims WHERE object IS NOT NULL
    UNION ALL SELECT entity FROM terms UNION ALL SELECT target FROM redirects
    UNION ALL SELECT property FROM snaks UNION ALL SELECT coalesce(object, unit) FROM snaks
    UNION ALL SELECT entity FROM value_nodes
)
SELECT DISTINCT entity FROM (FROM entities UNION ALL SELECT -entity FROM entities WHERE is_property(entity))
WHERE entity IS NOT NULL
"""
_PROPERTIES_WANTED = """
INSERT INTO mentioned SELECT unnest([property, -property]) AS entity FROM (SELECT unnest(CAST(? AS BIGINT[])) AS property)
EXCEPT FROM mentioned
"""
_INVERSES_OF_MENTIONED = """
INSERT INTO mentioned SELECT DISTINCT unnest([predicate, -predicate]) FROM pairs
WHERE property IN (SELECT entity FROM mentioned) AND predicate NOT IN (SELECT entity FROM mentioned)
"""
_PAIRS = pa.schema({"property": pa.int64(), "predicate": pa.int64()})
_BLOCKS_OF = """
SELECT key, block FROM refactx.names_{table} WHERE key IN (
    SELECT (SELECT key FROM refactx.names_{table} WHERE key <= wanted.key AND key >= %b ORDER BY key DESC LIMIT 1)
    FROM unnest(%b::bytea[]) AS wanted (key)
)
"""
_KIND_NAMES = [kind_of(number) for number in range(256)]
_IS_INVERSE = np.array([kind == "inverse" for kind in _KIND_NAMES])
_CODEC = RowCodec()
_SIZE = MAX_PART_CHARACTERS - len(ALIAS)
NAMES = f"SELECT cut(text, {_SIZE}) || '{ALIAS}' AS name FROM terms WHERE kind = {OTHER_NAME}"
"""SQL: the names of all aliases in the input."""
ADDS_NOTHING = "(n.name = t.text OR starts_with(n.name, t.text || ' ('))"
"""SQL: whether alias `t.text` adds nothing to name `n.name`."""
_ALIASED = f"""
SELECT entity, t.text, cut(text, {{size}}) || '{ALIAS}' AS name, length(text) > {{size}} AS is_cut, of_label
FROM (
    SELECT entity, text, bool_and(of_label) AS of_label FROM (
        SELECT entity, text, false AS of_label FROM terms WHERE kind = {OTHER_NAME}
        UNION ALL
        SELECT entity, label, true FROM chosen JOIN named USING (entity) WHERE rule = {{by_title}} AND label IS NOT NULL
        UNION ALL
        SELECT entity, text, false FROM terms JOIN chosen USING (entity) WHERE kind = {LABEL} AND text <> label
    ) GROUP BY entity, text
) t JOIN named n USING (entity)
WHERE {{wanted}} AND NOT is_property(entity) AND NOT {ADDS_NOTHING} AND entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT entity FROM described
    UNION SELECT subject FROM inverse_claims
    UNION SELECT entity FROM known
)
"""
_LABELS_BY_LANGUAGE = f"""
SELECT CASE language {{codes}} END AS language, t.entity, text AS label FROM (
    SELECT language, entity, substr(min(chr(48 + rank) || text), 2) AS text FROM terms
    WHERE kind = {LABEL} AND language <> {NO_LANGUAGE} AND language <> {{first}} GROUP BY language, entity
) t JOIN used n ON t.entity = n.entity WHERE NOT {ADDS_NOTHING}
"""
# Without those whose names are taken: only names that the knowledge base had before can end so.
_NEW_ALIASES = f"""
SELECT a.* FROM aliased a
ANTI JOIN (
    SELECT name FROM named WHERE ends_with(name, '{ALIAS}') UNION SELECT name FROM taken WHERE ends_with(name, '{ALIAS}')
) b ON a.name = b.name
"""
FACTS = f"""
SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object, bool_and(a.of_label) AS of_label
FROM aliased a
JOIN units s ON s.text = a.name
JOIN units p ON p.text = '{ALIAS_OF}'
JOIN entity_units o ON o.entity = a.entity
ANTI JOIN claim_facts c ON c.subject = s.unit AND c.predicate = p.unit AND c.object = o.unit
GROUP BY ALL
"""
BY_TITLE, BY_LABEL_AND_DESCRIPTION, BY_LABEL, BY_INVERSE, AS_BEFORE = 0, 1, 2, 3, 4
"""The values of `named.rule`: what made the name."""
# Each text follows its rank, as one character: the least of these strings is the best term.
_CHOSEN = """
SELECT entity, substr(label, 2) AS label, substr(description, 2) AS description, substr(title, 2) AS title,
    substr(short_description, 2) AS short_description
FROM (
    SELECT entity,
        min(chr(48 + rank) || text) FILTER (WHERE kind = {label}) AS label,
        min(chr(48 + rank) || text) FILTER (WHERE kind = {description}) AS description,
        min(chr(48 + rank) || text) FILTER (WHERE kind = {title}) AS title,
        min(chr(48 + rank) || text) FILTER (WHERE kind = {short_description}) AS short_description
    FROM terms GROUP BY entity
)
"""
_NATURAL = """
SELECT entity, cut(natural_name, {limit}) AS name, rule, length(natural_name) > {limit} AS is_cut, false AS has_id
FROM (
    SELECT entity, rule, CASE rule
        WHEN {by_title} THEN title
        WHEN {by_both} THEN label || ' (' || description || ')'
        ELSE label END AS natural_name
    FROM (
        SELECT *, CAST(CASE
            WHEN is_property(entity) OR entity >= {first_other} THEN {by_label}
            WHEN title IS NOT NULL THEN {by_title}
            WHEN description IS NOT NULL THEN {by_both}
            ELSE {by_label} END AS SMALLINT) AS rule
        FROM chosen
    )
)
WHERE natural_name IS NOT NULL
"""
_WITH_KNOWN_NAMES = """
SELECT n.* FROM named n ANTI JOIN known k ON n.entity = k.entity
UNION ALL SELECT entity, name, CAST({as_before} AS SMALLINT), false, false FROM known WHERE entity > 0
"""
_WITH_KNOWN_INVERSE_NAMES = """
SELECT n.entity, coalesce(k.name, n.name) AS name,
    CAST(CASE WHEN k.entity IS NULL THEN n.rule ELSE {as_before} END AS SMALLINT) AS rule,
    n.is_cut AND k.entity IS NULL AS is_cut, n.has_id
FROM named n LEFT JOIN (SELECT entity, name FROM known WHERE entity < 0) k ON n.entity = k.entity
"""
# The entities that the input calls otherwise than the knowledge base does. A name of a label stays.
_LEAVING = """
CREATE TABLE leaving AS SELECT entity FROM known JOIN chosen USING (entity)
WHERE {renames} AND entity >= {first_other} AND NOT is_property(entity)
    AND name <> label AND NOT starts_with(name, label || ' (');
DELETE FROM known WHERE entity IN (SELECT entity FROM leaving);
"""
# The names that new entities could get.
_CANDIDATES = """
SELECT name FROM named WHERE rule <> {as_before}
UNION ALL SELECT cut(name, {limit} - length({suffix})) || {suffix} FROM named WHERE rule <> {as_before}
"""
# The entities that get their ids. An inverse has the negative number of its property.
_COLLIDING = """
SELECT entity, name FROM named
JOIN (
    SELECT name, count(*) FILTER (WHERE is_property(entity) AND entity > 0) AS properties,
        count(*) FILTER (WHERE entity < 0) AS inverses
    FROM named WHERE rule <> {as_before} GROUP BY name HAVING count(*) > 1
) USING (name)
WHERE rule <> {as_before} AND CASE
    WHEN entity < 0 THEN inverses > 1 OR properties > 0
    WHEN is_property(entity) THEN properties > 1
    ELSE true END
UNION SELECT entity, name FROM named
WHERE rule <> {as_before}
    AND (name IN {reserved} OR name IN (SELECT name FROM taken) OR ends_with(name, '{alias}'))
"""
_SUFFIX = (
    "(CASE WHEN entity < 0 THEN ' (inverse of ' ELSE ' (' END || "
    "replace(replace(entity_id(abs(entity)), '<', '‹'), '>', '›') || ')')"
)
_WITH_IDS = """
SELECT entity, CASE WHEN with_id IS NULL THEN name ELSE cut(name, {limit} - length({suffix})) || {suffix} END AS name, rule,
    is_cut OR (with_id IS NOT NULL AND length(name) > {limit} - length({suffix})) AS is_cut,
    has_id OR with_id IS NOT NULL AS has_id
FROM named LEFT JOIN (SELECT DISTINCT entity AS with_id FROM colliding) ON entity = with_id
"""
# Names with ids differ from each other, so a name with an id can collide only with a name without one, or with one that
# the knowledge base has already.
_COLLIDING_AGAIN = """
SELECT entity, name FROM named
WHERE rule <> {as_before} AND CASE
    WHEN has_id THEN entity IN (SELECT entity FROM colliding) AND name IN (SELECT name FROM taken) AND length(name) < {limit}
    ELSE name IN (SELECT name FROM named WHERE entity IN (SELECT entity FROM colliding)) END
"""


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names in name tables, of which a later one wins (`tables` ascends).

    `inverses`: maps a property to the property that its inverse facts belong to, as numbers. `hubs`: objects that get
    no inverse facts of a predicate. `updates`: what the input says something about is listed. `renames`: an entity whose
    label in the input is another one gets a new name, unless it is Wikidata's.
    """

    connection: Connection
    tables: tuple[int, ...]
    inverses: Mapping[int, int] = field(default_factory=dict)
    hubs: Sequence[Hub] = ()
    updates: bool = False
    renames: bool = False

    def load_entities(self, database: WorkDatabase, wanted: Collection[str] = ()) -> None:
        """Fill the table `known` (`entity, name, object_kind`), and `known_hubs` (`object, predicate, inverse`).

        It gets each entity that claims or terms mention, the properties that have one of the `wanted` names, and the
        inverses of all properties among them.
        """
        if self.hubs:
            columns = {name: [getattr(hub, name) for hub in self.hubs] for name in ("object", "predicate", "inverse")}
            database.insert("known_hubs", pa.table(columns))
        database.execute(_MENTIONED)
        if wanted:
            database.execute(_PROPERTIES_WANTED, [self._properties_named(wanted)])
        if self.inverses:
            pairs = {"property": list(self.inverses), "predicate": list(self.inverses.values())}
            with database.lend("pairs", pa.table(pairs, schema=_PAIRS)):
                database.execute(_INVERSES_OF_MENTIONED)
        database.execute("CREATE TABLE entries (entity BIGINT, name VARCHAR, object_kind VARCHAR, age BIGINT)")
        for age, table in enumerate(self.tables) if database.number("SELECT count(*) FROM mentioned") else ():
            for blocks in self._all_blocks(table):
                database.insert("entries", _select_mentioned(database, blocks), f"*, {age}")
        database.execute(
            "INSERT INTO known SELECT entity, arg_max(name, age), arg_max(object_kind, age) FROM"
            " (SELECT entity, name, coalesce(object_kind, '') AS object_kind, age FROM entries) GROUP BY entity"
        )
        database.execute("UPDATE known SET object_kind = NULL WHERE object_kind = ''")
        database.execute("DROP TABLE entries; DROP TABLE mentioned")

    def load_taken(self, database: WorkDatabase, candidates: str) -> None:
        """Fill the table `taken`: those of the names that a query gives (`name`) that an entity has already."""
        database.execute(f"CREATE TABLE candidates AS SELECT DISTINCT name FROM ({candidates})")
        leaving = {row[0] for row in database.rows("SELECT entity FROM leaving")}
        # In ascending order, so that each block is read once.
        for batch in database.batches("SELECT name FROM candidates WHERE name IS NOT NULL ORDER BY name", _NAMES):
            names = set(batch["name"].to_pylist())
            taken = {
                name
                for table in self.tables
                for near in self._blocks_near(table, names)
                for name, number in zip(near.names, near.numbers.tolist(), strict=True)
                if name in names and number not in leaving
            }
            database.insert("taken", pa.table({"name": pa.array(sorted(taken), pa.string())}))
        database.execute("DROP TABLE candidates")

    def other_properties(self) -> set[int]:
        """Return the numbers of the properties that are not Wikidata's."""
        return {
            number
            for table in self.tables
            for blocks in self._all_blocks(table)
            for key, block in blocks
            for number in unpack_columns(key, block, _CODEC, _describe(key)).numbers.tolist()
            if is_property(number) and not is_wikidata(number)
        }

    def _all_blocks(self, table: int) -> Iterator[list[NameBlock]]:
        with self.connection.transaction(), self.connection.cursor(f"refactx_names_{table}", binary=True) as cursor:
            statement = f"SELECT key, block FROM refactx.names_{table} WHERE key >= %b ORDER BY key"
            cursor.execute(statement.encode(), [FIRST_KEY])
            while blocks := cursor.fetchmany(_BLOCKS):
                yield blocks

    def _properties_named(self, wanted: Collection[str]) -> list[int]:
        return [
            number
            for table in self.tables
            for block in self._blocks_near(table, wanted)
            for name, number, kind in zip(block.names, block.numbers.tolist(), block.kinds, strict=True)
            if name in wanted and is_property(number) and not _IS_INVERSE[kind]
        ]

    def _blocks_near(self, table: int, wanted: Iterable[str]) -> Iterator[NameColumns]:
        """Yield the blocks that could have the `wanted` names, as `unpack_columns` returns them."""
        keys = [block_key(name) for name in wanted]
        for key, block in self.connection.execute(
            _BLOCKS_OF.format(table=table).encode(), [FIRST_KEY, keys], binary=True
        ):
            yield unpack_columns(key, block, _CODEC, _describe(key))


def no_known_names(database: Tables) -> None:
    """Make the tables `known`, `taken` and `known_hubs`, empty, as for a knowledge base without names."""
    for name, schema in _EMPTY.items():
        database.table_of(name, schema.empty_table())


def _select_mentioned(database: WorkDatabase, blocks: list[NameBlock]) -> pa.Table:
    """Return the rows (`entity, name, object_kind`) of some blocks whose entities are in the table `mentioned`."""
    columns = [unpack_columns(key, block, _CODEC, _describe(key)) for key, block in blocks]
    kinds = np.frombuffer(b"".join(one.kinds for one in columns), np.uint8)
    numbers = np.concatenate([one.numbers for one in columns])
    # Blocks have the number of the property for its inverse; only work databases have the negative number.
    entities = np.where(_IS_INVERSE[kinds], -numbers, numbers)
    with database.lend("ids", pa.table({"entity": entities, "place": np.arange(len(entities))})):
        at = database.arrays("SELECT place FROM ids SEMI JOIN mentioned USING (entity) ORDER BY place")["place"]
    names = _lines(b"\n".join(one.joined for one in columns), at)
    try:
        texts = pa.array(names, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        first, last = blocks[0][0], blocks[-1][0]
        raise CorruptIndexError(
            f"blocks of names {first!r} to {last!r} are damaged: {error}. Ingest the index again"
        ) from error
    return pa.table(
        {
            "entity": entities[at],
            "name": texts,
            "object_kind": pa.array([_KIND_NAMES[kind] for kind in kinds[at].tolist()], pa.string()),
        }
    )


def _lines(joined: bytes, numbers: NDArray[np.int64]) -> list[bytes]:
    """Return some lines of a text, given their numbers. (Splitting the text takes three times as long.)"""
    ends = np.append(np.flatnonzero(np.frombuffer(joined, np.uint8) == ord("\n")), len(joined))
    begins = np.append(0, ends[:-1] + 1)
    return [joined[begin:end] for begin, end in zip(begins[numbers].tolist(), ends[numbers].tolist(), strict=True)]


def _describe(key: bytes) -> str:
    return f"block of names {key!r}"


def choose_aliases(database: Tables, selection: Selection, by_title: int) -> None:
    """Make the table `aliased` from `terms`, the names and the facts so far; it is empty without `selection.aliases`.

    `by_title`: the number of the rule of names that are titles.
    """
    database.table("aliased", _ALIASED.format(size=_SIZE, wanted=bool(selection.aliases), by_title=by_title))
    database.table("aliased", _NEW_ALIASES)


def labels_by_language(selection: Selection) -> str:
    """Return the query of the labels in further languages (`language, entity, label`) of entities that facts name, without
    those that are the name."""
    first = next((at for at, language in enumerate(selection.languages) if language != "mul"), 0)
    codes = " ".join(f"WHEN {at} THEN '{code}'" for at, code in enumerate(selection.languages))
    return _LABELS_BY_LANGUAGE.format(codes=codes, first=first)


def name_entities(
    database: Tables, selection: Selection, known: KnownNames | None = None, graph: WorkDatabase | None = None
) -> tuple[int, tuple[str, ...]]:
    """Make the tables `chosen` and `named` from `terms` (and `claims`, if inverse facts are asked for). Return how many names
    had to get an id, and notes for the user about given names that are not used.

    `chosen`: `entity, label, description, title, short_description`: the best of each, or NULL. `named`: `entity, name,
    rule, is_cut, has_id`: each entity with its unique name and the rule that made it; the inverse of a property has the
    property's negative number. The argument `known` has the names of the knowledge base that facts are added to; those
    that matter here are in the table `known` afterwards. `graph`: the database, if it has entities that are not
    Wikidata's (`refactx.ingest.knowledge.structure`).
    """
    terms = {"label": LABEL, "description": DESCRIPTION, "title": TITLE, "short_description": SHORT_DESCRIPTION}
    rules = {"by_title": BY_TITLE, "by_both": BY_LABEL_AND_DESCRIPTION, "by_label": BY_LABEL, "as_before": AS_BEFORE}
    values = {**rules, "limit": MAX_PART_CHARACTERS, "suffix": _SUFFIX, "alias": ALIAS, "first_other": FIRST_OTHER}
    reserved = (*DESCRIPTIONS, ALIAS_OF)
    database.table("chosen", _CHOSEN.format(**terms))
    no_known_names(database)
    if known is not None and isinstance(database, WorkDatabase):
        known.load_entities(database, {written_part(name) for _, name in selection.inverse_names if name})
        database.execute(_LEAVING.format(renames=known.renames, **terms, first_other=FIRST_OTHER))
    if graph is not None:
        complete_labels(graph)
    database.table("named", _NATURAL.format(**values))
    notes: tuple[str, ...] = ()
    if known is not None:
        database.table("named", _WITH_KNOWN_NAMES.format(**values))
    if selection.inverse:
        pairs = {} if known is None else known.inverses
        notes = name_inverses(database, selection, BY_INVERSE, pairs, is_graph=graph is not None)
    if known is not None and isinstance(database, WorkDatabase):
        database.table("named", _WITH_KNOWN_INVERSE_NAMES.format(**values))
        known.load_taken(database, f"{_CANDIDATES.format(**values)} UNION ALL {NAMES}")
    collisions = 0
    if graph is not None:
        collisions = distinguish_names(
            graph, by_label=BY_LABEL, limit=MAX_PART_CHARACTERS, reserved=reserved, alias=ALIAS
        )
    database.table("colliding", _COLLIDING.format(**values, reserved=reserved))
    collisions += database.number("SELECT count(DISTINCT name) FROM colliding")
    while database.number("SELECT count(*) FROM colliding"):
        database.table("named", _WITH_IDS.format(**values))
        database.table("colliding", _COLLIDING_AGAIN.format(**values))
    database.drop("colliding")
    return collisions, notes
