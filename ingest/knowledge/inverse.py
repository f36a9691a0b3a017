"""Inverse facts: `<Danny Boyle> <director of> <Slumdog Millionaire>`, from a claim about the film's director.

The inverse of a property is named by the first of these that exists (examples: docs/reference/names-and-values.md):

1. the name that the user gives. If it is the label of a property, inverse facts are facts of that property.
2. the inverse property (P1696) in the dump, in either direction, if there is exactly one: `father` and `mother` both
   have the inverse `child`, so neither is the inverse of `child`. Inverse facts are facts of that property, as if the
   dump had them; often it has them.
3. the label of the inverse label item (P7087).
4. the rule for its label (`refactx.english`).

| table | rows |
|---|---|
| `inverses` | `property, predicate, label_item BIGINT` |
| `inverse_claims` | `subject, predicate, object BIGINT` |
| `ready_inverse` | `subject, predicate, object VARCHAR`: of ready-made facts |
| `hub_names` | `object, predicate, inverse VARCHAR`: pairs with more subjects than the limit |
| `hub_predicates` | `entity BIGINT, name VARCHAR`: the predicates of the inverse facts that hubs do not have |

The `predicate` of an inverse is another property. If the inverse has a name of its own instead, `predicate` is the
negative number of the property, and `label_item` the item whose label gave the name, if one did.

Facts whose object is a hub by their predicate, here or in the index (`known_hubs`), have no inverse facts. The classes of a
graph that is not Wikidata's (`rdf:type`) and tables (`row_of`) are no hubs: what can be asked of them ranges over their
members, which are 1% of an index with 3,500 of one class.

A change of an index keeps the index's inverses, whatever the sources or given names of the change say: the inverse
facts of a property keep the property they belong to (`Report.inverse_properties`), or else the name that they have.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from refactx.english import inverse_of
from refactx.entity_ids import other_number
from refactx.errors import InputError
from refactx.fact import ALIAS_OF, DESCRIPTIONS, MAX_PART_CHARACTERS, clean_part, counted, written_part
from refactx.ingest.profile import ROW_OF, TYPE
from refactx.ingest.source_options import INVERSE_LABEL, INVERSE_PROPERTY, Selection, is_property, read_text
from refactx.ingest.work import Tables
from refactx.paths import read_toml

_INVERSES = pa.schema({"property": pa.int64(), "predicate": pa.int64(), "label_item": pa.int64()})
_NAMED = pa.schema(
    {"entity": pa.int64(), "name": pa.string(), "rule": pa.int16(), "is_cut": pa.bool_(), "has_id": pa.bool_()}
)
_GIVEN = pa.schema({"property": pa.string(), "name": pa.string()})
_EMPTY = {
    "inverse_claims": pa.schema({name: pa.int64() for name in ("subject", "predicate", "object")}),
    "ready_inverse": pa.schema({name: pa.string() for name in ("subject", "predicate", "object")}),
    "hub_names": pa.schema({name: pa.string() for name in ("object", "predicate", "inverse")}),
    "hub_predicates": pa.schema({"entity": pa.int64(), "name": pa.string()}),
}
_PARTNERS = """
SELECT subject, object FROM claims
WHERE property = entity_number('{property}') AND is_property(subject) AND is_property(object)
"""
_LABEL_ITEMS = """
SELECT DISTINCT c.subject, l.label, l.entity FROM claims c JOIN chosen l ON c.object = l.entity
WHERE c.property = entity_number('{property}') AND is_property(c.subject) AND NOT is_property(l.entity) AND l.label IS NOT NULL
"""
_CLAIMS = {
    "pairs": """
SELECT DISTINCT subject, property, object FROM judged WHERE reason IS NULL AND object IS NOT NULL
""",
    "index_hubs": """
SELECT DISTINCT p.entity AS property, o.entity AS object, true AS is_known
FROM known_hubs k JOIN named o ON k.object = o.name JOIN named p ON k.predicate = p.name
""",
    "hubs": """
SELECT property, object, subjects, is_known
FROM (SELECT property, object, count(*) AS subjects FROM pairs GROUP BY ALL) LEFT JOIN index_hubs USING (property, object)
WHERE (subjects > {limit} AND property NOT IN ({of_classes})) OR is_known
""",
    "hub_predicates": """
SELECT DISTINCT predicate AS entity, name FROM hubs JOIN inverses USING (property) JOIN named n ON predicate = n.entity
""",
    "inverse_claims": """
SELECT p.object AS subject, i.predicate, p.subject AS object
FROM pairs p JOIN inverses i USING (property) ANTI JOIN hubs h USING (property, object)
""",
}
_READY = {
    "ready_pairs": """
SELECT DISTINCT r.subject, r.predicate, r.object, g.name FROM ready r JOIN given g ON r.predicate = g.property
""",
    "ready_hubs": """
SELECT predicate, object, name, subjects, is_known
FROM (SELECT predicate, object, name, count(*) AS subjects FROM ready_pairs GROUP BY ALL)
LEFT JOIN (SELECT DISTINCT object, predicate, true AS is_known FROM known_hubs) USING (predicate, object)
WHERE subjects > {limit} OR is_known
""",
    "ready_inverse": """
SELECT object AS subject, name AS predicate, subject AS object
FROM ready_pairs ANTI JOIN ready_hubs USING (predicate, object)
""",
    "hub_names": """
SELECT o.name AS object, p.name AS predicate, n.name AS inverse
FROM hubs h JOIN inverses i USING (property)
JOIN named o ON h.object = o.entity JOIN named p ON property = p.entity JOIN named n ON i.predicate = n.entity
WHERE is_known IS NULL
UNION SELECT object, predicate, name FROM ready_hubs WHERE is_known IS NULL
""",
}
STEPS = len(_CLAIMS)
_OF_CLASSES = f"{other_number(TYPE) + 1}, {other_number(ROW_OF) + 1}"
_LARGEST = """
SELECT name, label, subjects FROM (
    SELECT o.name, p.name AS label, subjects FROM hubs h JOIN named o ON h.object = o.entity JOIN named p ON property = p.entity
    UNION ALL SELECT object, predicate, subjects FROM ready_hubs
) ORDER BY subjects DESC, name, label LIMIT 1
"""
_OBJECTS = """
SELECT predicate, count(*) AS objects, count(s.subject) AS entities
FROM (SELECT DISTINCT predicate, object FROM ready) r LEFT JOIN (SELECT DISTINCT subject FROM ready) s ON object = s.subject
GROUP BY predicate ORDER BY predicate
"""


def read_inverse_names(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a property and the name of its inverse in a file: lines `P57<TAB>director of`, or TOML.

    A file `.toml` has lines `P57 = "director of"`. The first column is a property's id, or its name, since ready-made
    facts have no ids. Blank lines and lines that begin with `#` are skipped.

    Raises:
        InputError: the file cannot be read, a line or entry is not of that form, or a property is named twice.
    """
    entries = _toml_entries(path) if path.suffix.lower() == ".toml" else _line_entries(path)
    names: dict[str, str] = {}
    for where, property_, name in entries:
        key, clean = clean_part(property_), clean_part(name)
        if not key or not clean:
            raise InputError(f"{where}: a column is empty: expected P57<TAB>director of")
        if key in names:
            raise InputError(f"{where}: {key} has a name already: give each property one name")
        names[key] = clean
    if not names:
        raise InputError(f"{path} holds no names: expected lines such as P57<TAB>director of")
    return tuple(names.items())


def _line_entries(path: Path) -> list[tuple[str, str, str]]:
    entries = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = line.rstrip("\r").split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{path}:{number}: {counted(len(columns), 'column')}, separated by tabs: expected two, such as "
                "P57<TAB>director of"
            )
        entries.append((f"{path}:{number}", columns[0], columns[1]))
    return entries


def _toml_entries(path: Path) -> list[tuple[str, str, str]]:
    text = read_text(path)
    try:
        table = read_toml(text)
    except ValueError as error:
        raise InputError(f'{path} is not TOML ({error}): expected lines such as P57 = "director of"') from None
    for key, name in table.items():
        if not isinstance(name, str):
            raise InputError(f'{path}: {key} is not a string: expected lines such as P57 = "director of"')
    return [(str(path), key, name) for key, name in table.items()]


@dataclass(frozen=True, slots=True)
class InverseCounts:
    """How many claims about entities could have an inverse fact (`pairs`); the limit excludes `hubs` of these. `notes`:
    why some facts could have none, for the user. `ready`: the predicates of ready-made facts that
    nobody named, and the names of their inverses: "" if most of their objects are no entities."""

    pairs: int
    hubs: int
    notes: tuple[str, ...] = ()
    ready: Mapping[str, str] = field(default_factory=dict)


def name_inverses(
    database: Tables, selection: Selection, rule: int, known_pairs: Mapping[int, int], *, is_graph: bool = False
) -> tuple[str, ...]:
    """Make the table `inverses`, and add to `named` each inverse that is no property; return notes for the user.

    Reads `claims`, and `named` before ids are added to names. A row added to `named` has `rule`, and the negative
    number of the property. `known_pairs`: the properties and their inverse properties in the index; its other inverses
    are in the table `known`. The notes are about given names that are not used. `is_graph`: the entities are not
    Wikidata's, and the table `inverse_of` has pairs of properties that are inverses of each other.
    """
    known = dict(database.rows("SELECT entity, name FROM known WHERE entity < 0 OR is_property(entity)"))
    properties = dict(database.rows("SELECT entity, name FROM named WHERE is_property(entity)"))
    count = Counter(properties.values())
    labelled = {name: entity for entity, name in properties.items() if count[name] == 1}
    # A new property with the name of a known one gets its id.
    labelled |= {name: entity for entity, name in known.items() if entity > 0}
    given = dict(selection.inverse_names)
    id_of = dict(database.rows("SELECT entity, entity_id(entity) FROM named WHERE is_property(entity)"))
    pairs = "SELECT subject, object FROM inverse_of" if is_graph else _PARTNERS.format(property=INVERSE_PROPERTY)
    partners: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in database.rows(pairs):
        partners[one].add(other)
        partners[other].add(one)
    # The label and the number of each property's inverse label item; of several, the first label.
    rows = [] if is_graph else database.rows(_LABEL_ITEMS.format(property=INVERSE_LABEL))
    items = {property_: (label, item) for property_, label, item in sorted(rows, reverse=True)}
    english = selection.wikipedia in ("en", "mul")
    inverses: list[tuple[int, int, int | None]] = []
    names: list[tuple[int, str, int, bool, bool]] = []
    unused: list[str] = []
    for property_, label in properties.items():
        item = old_name = None
        name = given.get(id_of[property_]) or given.get(label)
        partner = known_pairs.get(property_)
        if partner in properties:  # the index comes first: `known` has the names of all indexes of its knowledge base
            old_name = properties[partner]
        elif -property_ in known:
            partner, old_name = None, known[-property_]
        elif name:
            partner = labelled.get(written_part(name))
        else:
            own = partners.get(property_, set())
            partner = next(iter(own)) if len(own) == 1 and own <= properties.keys() else None
            if partner is None:
                name, item = items.get(property_, (inverse_of(label, english=english), None))
        if old_name is not None:
            its_id = f" (inverse of {id_of[property_]})" if partner is None else f" ({id_of[partner]})"
            if name and written_part(name) != old_name.removesuffix(its_id):
                unused.append(f"{id_of[property_]} stays {old_name!r:.100}, not {name!r:.100}")
            name = old_name
        inverses.append((property_, -property_ if partner is None else partner, item))
        if partner is None and name:
            names.append((-property_, written_part(name), rule, len(name) > MAX_PART_CHARACTERS, False))
    database.table_of("inverses", _table(_INVERSES, inverses))
    if names:
        database.insert("named", _table(_NAMED, names))
    return _note(unused)


def _note(unused: list[str]) -> tuple[str, ...]:
    """Return a line for the user about names such as `P22 stays 'child', not 'begot'`; nothing if there are none."""
    if not unused:
        return ()
    more = f"; and {len(unused) - 3:,} more" if len(unused) > 3 else ""
    return (f"--inverse-names: the inverse of {'; of '.join(unused[:3])}{more}, as the index has it",)


def invert_claims(database: Tables, selection: Selection, step: Callable[[], object] = lambda: None) -> InverseCounts:
    """Make the tables `inverse_claims`, `ready_inverse`, `hub_names` and `hub_predicates` from `judged` and `ready`;
    they are empty without `selection.inverse`.

    A ready-made fact has an inverse if the user gives a name for the inverse of its predicate, or if at least half of the
    predicate's objects are subjects of ready-made facts: they are entities. Calls `step` after each of `STEPS`.
    """
    if not selection.inverse:
        for name, schema in _EMPTY.items():
            database.table_of(name, schema.empty_table())
        return InverseCounts(0, 0)
    given = [(property_, written_part(name)) for property_, name in selection.inverse_names if name]
    by_rule, refused = _ready_inverses(database, selection)
    database.table_of("given", _table(_GIVEN, [*given, *by_rule.items()]))
    for name, query in _CLAIMS.items():
        database.table(name, query.format(limit=selection.inverse_limit, of_classes=_OF_CLASSES))
        step()
    for name, query in _READY.items():
        database.table(name, query.format(limit=selection.inverse_limit))
    count = database.number
    pairs = count("SELECT count(*) FROM pairs") + count("SELECT count(*) FROM ready_pairs")
    hubs = count("SELECT sum(subjects) FROM hubs") + count("SELECT sum(subjects) FROM ready_hubs")
    notes = _not_invertible(database, pairs, [property_ for property_, _ in given], by_rule, refused)
    notes += _of_hubs(database, selection.inverse_limit)
    database.drop("pairs", "ready_pairs", "given")
    return InverseCounts(pairs, hubs, notes, {**by_rule, **{predicate: "" for predicate, *_ in refused}})


def _ready_inverses(database: Tables, selection: Selection) -> tuple[dict[str, str], list[tuple[str, int, int]]]:
    """Return the names of inverses of the predicates of ready-made facts most of whose objects are entities.

    An object is an entity if it is a subject. Also returns the other predicates, with how many objects they have, and how
    many of these are subjects; predicates that the user or the index has named are in neither.
    """
    english = selection.wikipedia in ("en", "mul")
    named = {property_ for property_, _ in selection.inverse_names}
    found: dict[str, str] = {}
    refused: list[tuple[str, int, int]] = []
    for predicate, objects, entities in database.rows(_OBJECTS):
        if predicate in named or predicate in DESCRIPTIONS or predicate == ALIAS_OF:
            continue
        if 2 * entities >= objects:
            found[predicate] = written_part(inverse_of(predicate, english=english))
        else:
            refused.append((predicate, objects, entities))
    return found, refused


def _not_invertible(
    database: Tables,
    pairs: int,
    given: Sequence[str],
    by_rule: Mapping[str, str],
    refused: Sequence[tuple[str, int, int]],
) -> tuple[str, ...]:
    """Return lines for the user: which predicates of ready-made facts have inverse facts, and why others have none."""
    predicates = {row[0] for row in database.rows("SELECT DISTINCT predicate FROM ready")}
    if not predicates:
        return () if pairs else ("--inverse: no fact has an entity as its object, so there are no inverse facts",)
    unused = [name for name in given if name not in predicates and not is_property(name)]
    notes = [f"--inverse-names: no fact has the predicate {_some(unused)}"] if unused else []
    if by_rule:
        one, name = next(iter(by_rule.items()))
        count = counted(len(by_rule), "predicate")
        notes.append(
            f"--inverse: {count} of tables and lines {'has' if len(by_rule) == 1 else 'have'} inverse facts, such as "
            f"{one:.60} ({name:.60}): at least half of the objects are subjects too"
        )
    if refused:
        few = [f"{predicate:.60} ({entities:,} of {objects:,})" for predicate, objects, entities in refused]
        example = f"{refused[0][0]:.60}<TAB>{inverse_of(refused[0][0]):.60}"
        notes.append(
            f"--inverse: {counted(len(refused), 'predicate')} of tables and lines {'has' if len(refused) == 1 else 'have'} "
            f"none, since fewer than half of the objects are subjects: {_some(few)}: name them with --inverse-names FILE, "
            f"in lines such as {example}"
        )
    return tuple(notes)


def _of_hubs(database: Tables, limit: int) -> tuple[str, ...]:
    """Return a line for the user that says what hubs are and what follows; nothing if there are none."""
    hubs = database.number("SELECT (SELECT count(*) FROM hubs) + (SELECT count(*) FROM ready_hubs)")
    if not hubs:
        return ()
    name, label, subjects = database.rows(_LARGEST)[0]
    has = "object has" if hubs == 1 else "objects have"
    return (
        f"--inverse-limit: {hubs:,} {has} more than {limit:,} claims of one predicate (hubs), such as {name:.60} ({label:.60}: "
        f"{subjects:,}): these claims are counted, and have no inverse facts",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(f"{name:.60}" for name in names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _table(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)
