"""The shape of a graph of any kind: from its triples to claims about things that have names.

Triples of a graph say some facts by nodes that are no things. They become claims of their own:

| triples | claims |
|---|---|
| `:acme :address [ :city :graz ]`: a blank node without a label | `:acme <:address>/<:city> :graz`, a property path |
| `:p :value [ rdf:value 5 ]` | `:p :value 5` |
| `:cake :steps (:mix :bake)`: a list | `:cake :steps :mix`, `:bake`, and `:cake <:steps>/rdf:_1 :mix` and so on |
| `:way :points ((15 47) (14 48))`: lists in it | `:way :points 15` and so on, and `:way <:points>/rdf:_1/rdf:_2 47` and so on |
| `:Pizza rdfs:subClassOf [ owl:onProperty :topping ; owl:someValuesFrom :Ham ]` | `:Pizza :topping :Ham` |
| `:p rdfs:range [ owl:unionOf (:A :B) ]` | `:p rdfs:range :A`, `:B` |

A restriction counts that has `owl:someValuesFrom` or `owl:hasValue` and is a superclass of a class, or part of its
definition (`owl:equivalentClass`, `owl:intersectionOf`, or straight on it). All other triples of lists and classes
are left out by reason, as those about blank nodes that nothing leads to are, if they make no statement
(`refactx.ingest.knowledge.nodes`).

The tables made here, of entities that are not Wikidata's:

* `entities`: `entity BIGINT, id VARCHAR`: each with its number as an item or a property, and its id
* `path_steps`: `entity, place, step BIGINT`: the properties of a path
* `inverse_of`: `subject, object`: properties that `owl:inverseOf` joins
* the views `claims`, `terms`, `statements` and `snaks` of entities with these numbers, in place of the staged ones
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from refactx.entity_ids import FIRST_OTHER, is_property, other_number
from refactx.errors import InputError
from refactx.fact import clean_part, visible, written_part
from refactx.ingest import profile as iris
from refactx.ingest.knowledge.nodes import add_statements, state_nodes, take_triples
from refactx.ingest.parsers.graph import PLACES
from refactx.ingest.parsers.parsed import (
    DESCRIPTION,
    END,
    FAMILY_NAME,
    GIVEN_NAME,
    LABEL,
    OWN_LABEL,
    OWN_NAME,
    START,
)
from refactx.ingest.parsers.values import NO_LANGUAGE
from refactx.ingest.profile import OWN_NAMES, Profile, kinds_of_predicates, local_name
from refactx.ingest.work import WorkDatabase

_MOST_STEPS = 8
_MOST_PLACES = 100
"""Lists up to this length have claims with the places of their members."""
_MOST_LISTS = 8
"""Lists within lists are followed so far."""
_NAMES = "type first rest nil value subclass equivalent on_property some has_value intersection union one_of inverse_of"
_N = {name: other_number(getattr(iris, name.upper())) for name in _NAMES.split(" ")}
_PATHS = pa.schema({"steps": pa.list_(pa.int64()), "entity": pa.int64(), "id": pa.string()})
_PLACE = iris.PREFIXES["rdf"] + "_"
_EXPRESSION = "({on_property}, {some}, {has_value}, {intersection}, {union}, {one_of})".format(**_N)
_STRUCTURE = "({})".format(", ".join(str(other_number(iri)) for iri in iris.STRUCTURE))

_BLANKS = f"""
SELECT entity FROM found WHERE starts_with(id, '_:')
AND entity NOT IN (SELECT entity FROM terms WHERE kind = {LABEL})
"""
_STEPS = {
    "members": """
WITH RECURSIVE walk AS (
    SELECT DISTINCT c.object AS head, c.object AS cell, 1 AS place FROM claims c
    SEMI JOIN (SELECT subject FROM claims WHERE property = {first}) f ON c.object = f.subject
    WHERE c.property <> {rest}
    UNION
    SELECT w.head, r.object, w.place + 1 FROM walk w JOIN claims r ON w.cell = r.subject
    WHERE r.property = {rest} AND r.object <> {nil} AND w.place < 100000
)
SELECT w.head, w.place, f.object, f.text, f.kind FROM walk w JOIN claims f ON w.cell = f.subject WHERE f.property = {first}
""",
    "heads": """
SELECT head, max(place) AS length, any_value(uses) AS uses FROM members
JOIN (SELECT object AS head, count(*) AS uses FROM claims GROUP BY object) USING (head) GROUP BY head
""",
    "items": """
WITH RECURSIVE walk AS (
    SELECT head, length AS longest, [other] AS steps, object, text, kind, [head] AS lists
    FROM members JOIN heads USING (head) LEFT JOIN places USING (place)
    WHERE head IN (SELECT object FROM claims WHERE property NOT IN ({first}, {rest}))
    UNION ALL
    SELECT w.head, greatest(w.longest, h.length), list_append(steps, other), m.object, m.text, m.kind,
        list_append(lists, h.head)
    FROM walk w JOIN heads h ON w.object = h.head JOIN members m ON m.head = h.head LEFT JOIN places USING (place)
    WHERE h.uses = 1 AND len(lists) < {most_lists}
)
SELECT * FROM walk WHERE object IS NULL OR object <> {nil} AND object NOT IN (SELECT head FROM heads)
""",
    "flat": """
SELECT c.* FROM claims c ANTI JOIN heads m ON c.object = m.head WHERE property NOT IN ({first}, {rest})
    AND object IS DISTINCT FROM {nil}
UNION ALL
SELECT c.subject, c.property, m.object, m.text, m.kind FROM claims c JOIN items m ON c.object = m.head
WHERE c.property NOT IN ({first}, {rest})
""",
    "placed": """
SELECT c.subject, c.property, m.steps, m.object, m.text, m.kind FROM claims c JOIN items m ON c.object = m.head
WHERE longest BETWEEN 2 AND {places} AND c.property NOT IN {structure} AND c.subject NOT IN (SELECT entity FROM blanks)
    AND (m.object IS NULL OR m.object NOT IN (SELECT entity FROM blanks))
""",
    "class_nodes": """
SELECT DISTINCT subject AS entity FROM flat SEMI JOIN blanks ON subject = blanks.entity WHERE property IN {expression}
""",
    "class_parts": """
WITH whole AS (
    SELECT subject AS class, object AS part FROM flat SEMI JOIN blanks ON object = blanks.entity
    WHERE property IN ({subclass}, {equivalent}) AND subject NOT IN (SELECT entity FROM blanks)
    UNION SELECT subject, subject FROM flat
    WHERE property IN ({intersection}, {on_property}) AND subject NOT IN (SELECT entity FROM blanks)
)
FROM whole UNION
SELECT class, i.object FROM whole JOIN flat i ON whole.part = i.subject WHERE i.property = {intersection}
""",
    "said": """
SELECT p.class AS subject, r.object AS property, v.object, v.text, v.kind FROM class_parts p
JOIN flat r ON p.part = r.subject AND r.property = {on_property}
JOIN flat v ON p.part = v.subject AND v.property IN ({some}, {has_value})
WHERE v.object IS NULL OR v.object NOT IN (SELECT entity FROM blanks)
UNION
SELECT class, {subclass}, part, NULL, NULL FROM class_parts
WHERE part <> class AND part NOT IN (SELECT entity FROM blanks)
UNION
SELECT f.subject, f.property, m.object, m.text, m.kind FROM flat f JOIN flat m ON f.object = m.subject
WHERE m.property IN ({union}, {one_of}) AND f.property NOT IN {structure} AND f.property <> {subclass}
    AND f.subject NOT IN (SELECT entity FROM blanks) AND (m.object IS NULL OR m.object NOT IN (SELECT entity FROM blanks))
""",
    "plain": """
SELECT f.* FROM flat f ANTI JOIN class_nodes s ON f.subject = s.entity ANTI JOIN class_nodes o ON f.object = o.entity
WHERE property NOT IN {structure}
""",
    "paths": """
WITH RECURSIVE walk AS (
    SELECT subject AS root, [property] AS steps, object AS node, [object] AS seen FROM plain
    SEMI JOIN blanks ON object = blanks.entity WHERE subject NOT IN (SELECT entity FROM blanks)
    UNION ALL
    SELECT root, list_append(steps, property), object, list_append(seen, object) FROM walk JOIN plain ON node = subject
    WHERE object IN (SELECT entity FROM blanks) AND NOT list_contains(seen, object) AND len(steps) < {most_steps}
)
SELECT DISTINCT root, steps, node FROM walk
""",
    "folded": """
SELECT root AS subject, CASE WHEN property = {value} THEN steps ELSE list_append(steps, property) END AS steps,
    object, text, kind
FROM paths JOIN plain ON node = subject
WHERE property <> {type} AND (object IS NULL OR object NOT IN (SELECT entity FROM blanks))
UNION ALL
SELECT subject, list_prepend(property, steps), object, text, kind FROM placed
""",
}
_SHAPED = """
SELECT * FROM plain WHERE subject NOT IN (SELECT entity FROM blanks)
    AND (object IS NULL OR object NOT IN (SELECT entity FROM blanks))
UNION ALL FROM said
UNION ALL SELECT subject, p.entity, object, text, kind FROM folded JOIN path_properties p USING (steps)
"""
# A property has the next number. Those of staged triples are of items; those of tables are of properties already, since
# a row and a column of one id are two things.
_PREDICATES = """
SELECT entity FROM (
SELECT DISTINCT property AS entity FROM shaped WHERE property & 1 = 0
UNION SELECT unnest([subject, object]) FROM claims WHERE property = {inverse_of}
UNION SELECT abs(unnest(steps)) FROM path_properties
UNION SELECT property FROM snaks
UNION SELECT entity - 1 FROM known_properties ANTI JOIN found USING (entity)
) WHERE entity & 1 = 0
"""
_TYPED = "{0} + CAST({0} IN (SELECT entity FROM predicate_numbers) AS BIGINT)"
_INVERSE_OF = """
SELECT {subject}, {object} FROM claims WHERE property = {inverse_of}
UNION SELECT a.entity, b.entity FROM path_properties a JOIN path_properties b ON a.steps = [-b.steps[2], -b.steps[1]]
"""
_OF_STATEMENTS = {"statements": ("subject", "property"), "snaks": ("property", "object")}
_UNLABELLED = """
SELECT e.entity, e.id FROM entities e
SEMI JOIN (
    SELECT subject AS entity FROM claims UNION SELECT property FROM claims
    UNION SELECT object FROM claims WHERE object IS NOT NULL UNION SELECT step FROM path_steps
    UNION SELECT subject FROM inverse_of UNION SELECT object FROM inverse_of
    UNION SELECT property FROM snaks UNION SELECT object FROM snaks WHERE object IS NOT NULL
    UNION SELECT subject FROM statements
) m ON e.entity = m.entity
LEFT JOIN chosen c ON e.entity = c.entity
WHERE c.label IS NULL AND NOT starts_with(e.id, '_:') AND e.entity NOT IN (SELECT entity FROM path_steps)
    AND e.entity NOT IN (SELECT entity FROM edges)
"""
# Things without a label of which more is said, and which have one of their own.
_OWN_LABELLED = f"""
CREATE OR REPLACE TABLE own_labelled AS SELECT DISTINCT entity
FROM terms SEMI JOIN (SELECT entity FROM found WHERE NOT starts_with(id, '_:')) USING (entity)
WHERE kind = {OWN_LABEL} AND rank % {PLACES} = {{place}}
    AND entity NOT IN (SELECT entity FROM terms WHERE kind = {LABEL}) AND entity NOT IN (SELECT entity FROM own_labels)
    AND entity IN (
        SELECT subject FROM claims WHERE property NOT IN (SELECT property FROM own_predicates WHERE place = {{place}})
        UNION SELECT object FROM claims
    )
    AND NOT ({{place}} > 2 AND entity IN (SELECT entity FROM terms WHERE kind IN ({GIVEN_NAME}, {FAMILY_NAME})))
"""
_OWN_TEXTS = f"""
SELECT count(DISTINCT entity), count(DISTINCT text), quantile_disc(length(text), 0.9) FROM terms
WHERE kind = {OWN_LABEL} AND rank % {PLACES} = {{place}}
"""
_OWN_TERMS = f"""
SELECT entity, o.kind, rank, language, text FROM terms t JOIN own_labels o USING (entity)
WHERE t.kind = {OWN_LABEL} AND rank % {PLACES} = o.place
"""
_OWN_DESCRIBED = f"""
INSERT INTO own_labels SELECT entity, {{place}}, {DESCRIPTION} FROM terms
WHERE kind = {OWN_LABEL} AND rank % {PLACES} = {{place}}
    AND entity NOT IN (SELECT entity FROM terms WHERE kind = {DESCRIPTION})
GROUP BY entity HAVING count(*) = 1
"""
_OTHER_CLAIMS = """
SELECT c.* FROM claims c LEFT JOIN own_predicates p USING (property)
LEFT JOIN (SELECT entity, place, true AS is_term FROM own_labels) l ON l.entity = subject AND l.place = p.place
WHERE is_term IS NULL OR text IS NULL
"""
_EDGES = f"""
SELECT s.subject AS entity, s.object AS one, e.object AS other FROM claims s JOIN claims e ON s.subject = e.subject
WHERE s.property = {START} AND e.property = {END}
"""
_EDGE_LABELS = f"""
SELECT e.entity, min(coalesce(k.name, c.label)), min(coalesce(l.name, d.label)), min(text)
FROM edges e JOIN terms t ON e.entity = t.entity AND t.kind = {OWN_NAME}
LEFT JOIN chosen c ON one = c.entity LEFT JOIN chosen d ON other = d.entity
LEFT JOIN known k ON one = k.entity LEFT JOIN known l ON other = l.entity GROUP BY e.entity
"""
_PERSONS = f"""
SELECT entity, concat_ws(' ', min(text) FILTER (WHERE kind = {GIVEN_NAME}), min(text) FILTER (WHERE kind = {FAMILY_NAME}))
    AS label
FROM terms WHERE kind IN ({GIVEN_NAME}, {FAMILY_NAME}) GROUP BY entity
"""
_WITH_LABELS = """
SELECT coalesce(c.entity, l.entity) AS entity, coalesce(c.label, l.label) AS label, description, title, short_description
FROM chosen c FULL JOIN labels l ON c.entity = l.entity
"""
_PATH_LABELS = """
SELECT s.entity, array_agg(c.label ORDER BY place) AS labels FROM path_steps s JOIN chosen c ON s.step = c.entity
GROUP BY s.entity
"""
_CONTESTED = """
SELECT entity, name FROM named JOIN (
    SELECT name, count(*) FILTER (WHERE is_property(entity) AND entity > 0) AS properties
    FROM named GROUP BY name HAVING count(*) > 1
) USING (name)
WHERE entity >= {first} AND rule = {by_label} AND (NOT is_property(entity) OR properties > 1)
UNION SELECT entity, name FROM named WHERE entity >= {first} AND rule = {by_label}
    AND (name IN {reserved} OR name IN (SELECT name FROM taken) OR ends_with(name, '{alias}'))
"""
_TYPES = """
SELECT subject AS entity, min(label) AS type FROM claims JOIN chosen ON object = chosen.entity
WHERE property = {type} AND subject IN (SELECT entity FROM contested) GROUP BY subject
"""
_BRACKETS = """
SELECT c.entity, c.name, description, type, id FROM contested c JOIN entities e USING (entity)
LEFT JOIN chosen USING (entity) LEFT JOIN ({types}) t USING (entity) ORDER BY c.entity
"""
_RENAMED = """
SELECT n.entity, CASE WHEN r.name IS NULL THEN n.name
    ELSE cut(n.name, {limit} - length(r.name) - 3) || ' (' || r.name || ')' END AS name,
    n.rule, n.is_cut, n.has_id OR r.has_id IS TRUE AS has_id
FROM named n LEFT JOIN renamed r USING (entity)
"""
_LONGEST_BRACKET = 100
_LONGEST_NAME = 100
"""A predicate names things if nine of ten of its texts are no longer."""
_OWN_LABELS = pa.schema({"entity": pa.int64(), "place": pa.int64(), "kind": pa.uint8()})


@dataclass(frozen=True, slots=True)
class GraphShape:
    """The account of a graph.

    `dropped`: how many staged claims gave none, by reason. `more`: how many more claims and labels there are than
    triples. `notes`: for the user. `is_empty`: no entity of it is other than Wikidata's.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    more: int = 0
    notes: tuple[str, ...] = ()
    is_empty: bool = True


NO_GRAPH = GraphShape()


def shape_graph(
    database: WorkDatabase,
    profile: Profile | None,
    known_properties: Iterable[int] = (),
    keeps: Callable[[str], bool] | None = None,
) -> GraphShape:
    """Make the tables of this module from the staged rows; without ids that are not Wikidata's, nothing is to be done.

    `known_properties`: the numbers of such properties of the knowledge base that facts are added to. `keeps`: as in
    `state_nodes`. Raises InputError if two ids have one number.
    """
    if not database.has_rows("ids"):
        return NO_GRAPH
    database.table("found", "SELECT DISTINCT entity, id FROM ids")
    if same := database.rows("SELECT min(id), max(id) FROM found GROUP BY entity HAVING count(*) > 1 LIMIT 1"):
        one, other = same[0]
        raise InputError(
            f"{one} and {other} have the same number, which happens once in 10^18 pairs: give one of them another IRI"
        )
    numbers = pa.table({"entity": pa.array(list(known_properties), pa.int64())})
    database.table_of("known_properties", numbers)
    database.table("blanks", _BLANKS)
    named = _label_by_own(database)
    before = database.number("SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM quoted)")
    take_triples(database, is_wanted=keeps is not None)
    axioms = nested = stated = 0
    undecided: tuple[str, ...] = ()
    if database.number(
        f"SELECT (SELECT count(*) FROM blanks) + (SELECT count(*) FROM claims WHERE property IN {_STRUCTURE})"
        "+ (SELECT count(*) FROM quoted_triples)"
    ):
        axioms, nested = _shape(database, keep=profile is not None and profile.axioms, keeps=keeps)
        stated, undecided = add_statements(database)
    else:
        database.table(
            "path_properties", "SELECT CAST([0] AS BIGINT[]) AS steps, CAST(0 AS BIGINT) AS entity, '' AS id LIMIT 0"
        )
        database.view("shaped", "SELECT * FROM claims")
    database.table("predicate_numbers", _PREDICATES.format(**_N))
    if database.has_rows("statements"):
        for table, some in _OF_STATEMENTS.items():
            columns = ", ".join(f"{_TYPED.format(name)} AS {name}" for name in some)
            database.table(f"graph_{table}", f"SELECT * REPLACE ({columns}) FROM {table}")
            database.view(table, f"SELECT * FROM graph_{table}")
    names = ("subject", "property", "object")
    typed = [f"{_TYPED.format(name)} AS {name}" for name in names]
    database.table("graph_claims", f"SELECT {', '.join(typed)}, text, kind FROM shaped")
    database.table("inverse_of", _INVERSE_OF.format(subject=typed[0], object=typed[2], **_N))
    database.table("graph_terms", f"SELECT {_TYPED.format('entity')} AS entity, kind, rank, language, text FROM terms")
    database.table(
        "entities",
        f"SELECT {_TYPED.format('entity')} AS entity, id FROM found UNION SELECT entity, id FROM path_properties",
    )
    database.table(
        "path_steps",
        f"SELECT entity, place, {_TYPED.format('step')} AS step FROM (SELECT entity, "
        "unnest(range(1, len(steps) + 1)) AS place, abs(unnest(steps)) AS step FROM path_properties WHERE len(steps) > 1)",
    )
    database.view("claims", "SELECT * FROM graph_claims")
    database.view("terms", "SELECT * FROM graph_terms")
    given = _add_given_names(database, profile)
    database.execute(
        "CREATE OR REPLACE MACRO entity_id(number) AS CASE WHEN number < "
        f"{FIRST_OTHER} THEN (CASE WHEN number & 1 = 1 THEN 'P' ELSE 'Q' END) || (number >> 1) "
        "ELSE (SELECT any_value(e.id) FROM entities e WHERE e.entity = number) END"
    )
    shape = _account(database, before - stated, (axioms, nested), given)
    return replace(shape, notes=(*shape.notes, *undecided, *named))


def _label_by_own(database: WorkDatabase) -> tuple[str, ...]:
    """Label the things that have no label by predicates of the graph's own (`refactx.ingest.profile.OWN_NAMES`), whose claims
    are then terms, and their descriptions; return lines for the user.

    A predicate names nothing if half of its texts are the same, as titles of offices are, or if they are longer than names;
    `description` describes things of which it says one thing.
    """
    if not database.number(f"SELECT count(*) FROM terms WHERE kind = {OWN_LABEL}"):
        return ()
    database.table_of("own_labels", _OWN_LABELS.empty_table())
    used: list[str] = []
    own = _own_predicates(database)
    numbers = pa.array([number for some in own.values() for number in some], pa.int64())
    places = pa.array([place for place, some in own.items() for _ in some], pa.int64())
    database.table_of("own_predicates", pa.table({"property": numbers, "place": places}))
    for place, predicates in own.items():
        database.execute(_OWN_LABELLED.format(place=place))
        things, texts, length = database.rows(_OWN_TEXTS.format(place=place))[0]
        count = database.number("SELECT count(*) FROM own_labelled")
        if count and 2 * texts > things and length <= _LONGEST_NAME and place < len(OWN_NAMES):
            database.execute(f"INSERT INTO own_labels SELECT entity, {place}, {LABEL} FROM own_labelled")
            used.append(f"{' and '.join(predicates.values())} ({count:,})")
    if (place := len(OWN_NAMES)) in own:
        database.execute(_OWN_DESCRIBED.format(place=place))
    if database.has_rows("own_labels"):
        database.table("own_terms", _OWN_TERMS)
        database.table("other_claims", _OTHER_CLAIMS)
        database.view("claims", "SELECT * FROM other_claims")
        database.table("all_terms", "SELECT * FROM terms UNION ALL BY NAME SELECT * FROM own_terms")
        database.view("terms", "SELECT * FROM all_terms")
    return (f"things without a label are named by {', then '.join(used)}",) if used else ()


def check_named(database: WorkDatabase, profile: Profile | None) -> None:
    """Raise InputError if a profile has predicates of names that the user gave, and no text is by one of them."""
    if profile is None or not profile.named_by:
        return
    if database.number(f"SELECT count(*) FROM terms WHERE kind = {LABEL} AND rank < {PLACES}"):
        return
    texts = "SELECT property, count(*) AS uses FROM claims WHERE text IS NOT NULL GROUP BY property"
    found = database.rows(
        f"SELECT id FROM ids JOIN ({texts}) ON property = entity GROUP BY id ORDER BY max(uses) DESC, id LIMIT 9"
    )
    there = ", ".join(visible(id_[:100]) for (id_,) in found)
    raise InputError(
        f"no triple has the predicate {', '.join(profile.named_by)} (--subject) with a text: "
        f"{f'those with texts are {there}' if found else 'none has a text'}"
    )


def _own_predicates(database: WorkDatabase) -> dict[int, dict[int, str]]:
    """Return the predicates of a graph's own that may name its things, by their places in `OWN_NAMES`: numbers and IRIs."""
    kind_of, found = kinds_of_predicates(Profile()), dict[int, dict[int, str]]()
    for number, id_ in database.rows(
        "SELECT entity, id FROM found WHERE entity IN (SELECT DISTINCT property FROM claims WHERE text IS NOT NULL)"
    ):
        kind, place = kind_of(id_) if re.match(r"[A-Za-z][\w+.-]*:\S", id_) else ("", 0)
        if kind == "own label":
            found.setdefault(place, {})[number] = id_
    return dict(sorted(found.items()))


def _shape(database: WorkDatabase, keep: bool, keeps: Callable[[str], bool] | None) -> tuple[int, int]:
    """Make the table `shaped`; return how many triples of classes it does not have, and how many members of lists that are
    in others too deep, or several times. `keep`: it has all triples of classes; `keeps`: as in `shape_graph`."""
    values = {
        **_N,
        "structure": "(0)" if keep else _STRUCTURE,
        "expression": _EXPRESSION,
        "places": _MOST_PLACES,
        "most_steps": _MOST_STEPS,
        "most_lists": _MOST_LISTS,
    }
    for name, query in _STEPS.items():
        if name == "items":
            _make_places(database)
        database.table(name, query.format(**values))
    state_nodes(database, keeps)
    _make_path_properties(database)
    database.table("shaped", _SHAPED)
    nested = database.number(
        "SELECT count(*) FROM members WHERE head IN (SELECT object FROM members) "
        "AND head NOT IN (SELECT unnest(lists) FROM items)"
    )
    axioms = database.number(
        f"SELECT count(*) FROM flat LEFT JOIN class_nodes s ON subject = s.entity LEFT JOIN class_nodes o ON object = o.entity "
        f"WHERE property IN {values['structure']} OR s.entity IS NOT NULL OR o.entity IS NOT NULL"
    ) - database.number("SELECT count(*) FROM said")
    return axioms, nested


def _make_places(database: WorkDatabase) -> None:
    """Make the table `places` of the properties `rdf:_1` and so on that the places of lists need, and have them and
    `rdfs:subClassOf` among the ids, for claims that no triple makes."""
    most = database.number(f"SELECT max(length) FROM heads WHERE length <= {_MOST_PLACES}")
    ids = [f"{_PLACE}{place}" for place in range(1, most + 1)]
    numbers = pa.array([other_number(id_) for id_ in (*ids, iris.SUBCLASS)], pa.int64())
    database.table_of("places", pa.table({"place": pa.array(range(1, most + 1), pa.int64()), "other": numbers[:most]}))
    database.insert("found", pa.table({"entity": numbers, "id": pa.array([*ids, iris.SUBCLASS], pa.string())}))
    database.table("found", "SELECT DISTINCT * FROM found")


def _make_path_properties(database: WorkDatabase) -> None:
    """Make the table `path_properties` (`steps, entity, id`); a path of one step is that property."""
    database.table("all_steps", "SELECT steps FROM folded UNION SELECT steps FROM node_facts WHERE steps IS NOT NULL")
    found = database.rows("FROM all_steps")
    ids = dict(database.rows("SELECT entity, id FROM found WHERE entity IN (SELECT abs(unnest(steps)) FROM all_steps)"))
    rows = []
    for (steps,) in found:
        path = "/".join(f"{'^' if step < 0 else ''}<{ids[abs(step)]}>" for step in steps)
        rows.append((steps, steps[0], ids[steps[0]]) if len(steps) == 1 else (steps, other_number(path) + 1, path))
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _PATHS.types, strict=True)]
    database.table_of("path_properties", pa.table(arrays, schema=_PATHS))


def _add_given_names(database: WorkDatabase, profile: Profile | None) -> int:
    """Add the names of a profile to the labels, as the best ones; return how many."""
    names = () if profile is None else profile.names
    before = database.number("SELECT count(*) FROM graph_terms")
    if names:
        rows = pa.table({"id": [iri for iri, _ in names], "name": [name for _, name in names]})
        with database.lend("given_labels", rows):
            database.execute(
                f"INSERT INTO graph_terms SELECT entity, {LABEL}, 0, {NO_LANGUAGE}, name"
                " FROM given_labels JOIN entities USING (id)"
            )
    return database.number("SELECT count(*) FROM graph_terms") - before


def _account(database: WorkDatabase, before: int, left_out: tuple[int, int], given: int) -> GraphShape:
    after = database.number("SELECT count(*) FROM graph_claims")
    dropped = Counter[str]()
    notes: tuple[str, ...] = ()
    lost = 0
    if database.number("SELECT count(*) FROM blanks"):
        lost = database.number(
            "SELECT count(*) FROM plain SEMI JOIN blanks ON subject = blanks.entity "
            "ANTI JOIN (SELECT node FROM paths UNION SELECT node FROM node_facts) p ON subject = p.node"
        )
    if lost:
        dropped["anonymous node"] = lost
        notes = (f"{lost:,} triples are about blank nodes without a label that no named thing leads to: left out",)
    rest = before - after - lost
    for reason, count in zip(("OWL axiom", "nested list"), left_out, strict=True):
        dropped[reason] = min(max(count, 0), max(rest, 0))
        rest -= dropped[reason]
    dropped["structure"] = max(rest, 0)
    return GraphShape(+dropped, max(-rest, 0) + given, notes, is_empty=False)


def complete_labels(database: WorkDatabase) -> None:
    """Add to `chosen` the labels of entities that have none: of names of persons, of ids and IRIs, of the steps of paths,
    and of the two ends of edges (`Arsenal – Chelsea (played, 29 Apr 2014)`).

    The table `made_labels` has these entities.
    """
    database.table("made_labels", "SELECT CAST(0 AS BIGINT) AS entity LIMIT 0")
    database.table("edges", _EDGES)
    missing = database.rows(_UNLABELLED)
    own = dict(database.rows(f"SELECT entity, min(text) FROM terms WHERE kind = {OWN_NAME} GROUP BY entity"))
    own |= dict(database.rows(_PERSONS))
    texts = (
        (entity, (own.get(entity, ""), local_name(id_, of_thing=not is_property(entity)).removeprefix("_"), id_))
        for entity, id_ in missing
    )
    labels = [(entity, next(filter(None, map(written_part, some)), "")) for entity, some in texts]
    _add_labels(database, labels)
    _add_labels(database, [(entity, path_label(steps)) for entity, steps in database.rows(_PATH_LABELS)])
    if database.has_rows("edges"):
        named = [(entity, f"{one} – {other} {text}") for entity, one, other, text in database.rows(_EDGE_LABELS)]
        _add_labels(database, named)


def path_label(steps: list[str]) -> str:
    """Return the label of a path, without words of a step that repeat the step before.

    >>> path_label(["address", "address country"]), path_label(["has end", "in MYA"])
    ('address: country', 'has end: in MYA')
    """
    pairs = zip([""] + steps[:-1], steps, strict=True)
    return ": ".join(step.removeprefix(f"{before} ") if before else step for before, step in pairs)


def _add_labels(database: WorkDatabase, labels: list[tuple[int, str]]) -> None:
    columns = {"entity": pa.array([entity for entity, _ in labels], pa.int64())}
    columns["label"] = pa.array([label for _, label in labels], pa.string())
    database.table_of("labels", pa.table(columns))
    database.table("chosen", _WITH_LABELS)
    database.execute("INSERT INTO made_labels SELECT entity FROM labels")
    database.drop("labels")


def distinguish_names(
    database: WorkDatabase, *, by_label: int, limit: int, reserved: tuple[str, ...], alias: str
) -> int:
    """Give those of the table `named` that share a name what distinguishes them in brackets; return how many.

    It is the description, else the type, else the local name of the IRI, in words or as it is, else what stands before it,
    else the whole IRI: the first in which no two of them agree. `by_label`: the rule of these names.
    """
    contested = _CONTESTED.format(first=FIRST_OTHER, by_label=by_label, reserved=reserved, alias=alias)
    database.table("contested", contested)
    types = _TYPES.format(type=_N["type"] + 1)
    rows = database.rows(_BRACKETS.format(types=types))
    database.drop("contested")
    if not rows:
        return 0
    groups: dict[str, list[tuple[int, list[str]]]] = {}
    for entity, name, description, type_, id_ in rows:
        short = [one for one in (description, type_, *_parts(id_, entity)) if one and len(one) <= _LONGEST_BRACKET]
        groups.setdefault(name, []).append((entity, [*(one for one in short if one != name), clean_part(id_)]))
    chosen: list[tuple[int, str, bool]] = []
    for group in groups.values():
        chosen += _brackets(group)
    columns = list(zip(*chosen, strict=True))
    types_ = (pa.int64(), pa.string(), pa.bool_())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types_, strict=True)]
    database.table_of("renamed", pa.table(arrays, names=["entity", "name", "has_id"]))
    database.table("named", _RENAMED.format(limit=limit))
    database.drop("renamed")
    return len(chosen)


def _parts(id_: str, entity: int) -> list[str]:
    """Return the texts in an IRI that may tell its entity from others of its name.

    >>> _parts("http://example.org/shop#unit_price", 85), _parts("urn:x", 84)
    (['unit price', 'unit_price', 'shop'], ['x', 'x', ''])
    """
    if id_.startswith("_:"):
        return []
    last = re.split(r"[#/:]", id_)[-1]
    before = re.match(r"[A-Za-z][\w+.-]*:(?://)?(?:[^/#]*/)*?([^/#:]*)[/#]$", id_.removesuffix(last))
    return [
        local_name(id_, of_thing=not is_property(entity)),
        clean_part(last),
        clean_part(before[1] if before else ""),
    ]


def _brackets(group: list[tuple[int, list[str]]]) -> list[tuple[int, str, bool]]:
    """Return what each of some entities of a name gets in brackets, and whether that is its id; the last one is.

    >>> _brackets([(2, ["city", "x:1"]), (4, ["club", "x:2"]), (6, ["club", "x:3"]), (8, ["x:4"])])
    [(2, 'city', False), (8, 'x:4', True), (4, 'x:2', True), (6, 'x:3', True)]
    """
    found: list[tuple[int, str, bool]] = []
    waiting = group
    for _ in range(max(len(texts) for _, texts in group)):
        count = Counter(texts[0] for _, texts in waiting)
        found += [(entity, texts[0], len(texts) == 1) for entity, texts in waiting if count[texts[0]] == 1]
        waiting = [(entity, texts[1:] or texts) for entity, texts in waiting if count[texts[0]] > 1]
    return found
