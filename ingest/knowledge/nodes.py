"""Nodes of a graph that say several things at once: their values stay together, as a fact and its qualifiers.

| triples | statement |
|---|---|
| `:r rdf:reifies <<( :ann :mayor :graz )>> ; :since 1990` | `:ann :mayor :graz`, `:since 1990` |
| `:r rdf:subject :ann ; rdf:predicate :mayor ; rdf:object :graz ; :since 1990` | the same |
| `:ch :population [ :year 2010 ; :value 8 ]` | `:ch <:population>/<:value> 8`, `:year 2010` |
| `[ :country :ch ; :language :it ; :percent 8.2 ]` | `:ch ^<:country>/<:language> :it`, `:percent 8.2`, and backwards |

A triple that no line asserts has no fact without its qualifiers. What is said of a node that is about a triple is no fact.

Of a blank node that something leads to, the main value is that of `rdf:value`; else the one thing that it names, else the
one number, times aside. All its values stay facts by their paths. Of one that nothing leads to, each thing
that it names is the subject of a statement about each other thing, or about the main value if there is none. Where this
decides nothing, no statement is made.

The tables made here are `quoted_triples`, `node_facts` (`node, statement, subject, steps, property, object, text, kind`, the
places of its subject and of its object among the values of the node, and `rank`) and `node_snaks`. In a list of steps, a
negative number is a property that is read backwards.
"""

from collections.abc import Callable

import pyarrow as pa

from refactx.entity_ids import other_number
from refactx.fact import QUALIFIER_NAMES
from refactx.ingest import profile as iris
from refactx.ingest.parsers.parsed import NORMAL, QUOTED
from refactx.ingest.parsers.values import VALUE_KINDS
from refactx.ingest.qualifiers import MOST
from refactx.ingest.work import WorkDatabase

_MOST_NAMED = 8
"""A node that nothing leads to and that names more things makes no statement: they are pairs."""
_MOST = 2 * MOST
"""More values of a node are not looked at."""
_TIME, _NUMBER = VALUE_KINDS.index("time"), VALUE_KINDS.index("quantity")
_TIMES = frozenset(name for kind in ("starts", "ends", "points") for name in QUALIFIER_NAMES[kind])
_ROLES = {
    name: other_number(iris.PREFIXES["rdf"] + name) for name in ("subject", "predicate", "object", "value", "type")
}
_QUOTED = """
WITH roles AS (
    SELECT DISTINCT c.subject AS node, property, object, text, kind FROM claims c
    WHERE property IN ({subject}, {predicate}, {object})
), one AS (
    SELECT node, min(object) FILTER (WHERE property = {subject}) AS s, min(object) FILTER (WHERE property = {predicate}) AS p
    FROM roles GROUP BY node HAVING count(*) = 3
)
FROM quoted UNION
SELECT node, s, p, object, text, kind FROM one JOIN roles USING (node)
WHERE property = {object} AND s IS NOT NULL AND p IS NOT NULL
"""
_REST = """
SELECT c.*, {type} <> property AND (object IS NULL OR object NOT IN (SELECT entity FROM blanks)) AS is_said,
    property IN ({subject}, {predicate}, {object}) AS is_role
FROM claims c SEMI JOIN quoted_triples q ON c.subject = q.node
"""
_QUALIFIERS = """
SELECT DISTINCT subject AS node, property, object, text, kind FROM about_triples WHERE is_said AND NOT is_role
QUALIFY row_number() OVER (PARTITION BY subject ORDER BY property, text, object) <= {most}
"""
_FACTS_OF_TRIPLES = """
SELECT q.node, CAST(hash(q.node, q.subject, q.property, q.object, q.text) >> 1 AS BIGINT) AS statement, q.subject,
    CAST(NULL AS BIGINT[]) AS steps, q.property, q.object, q.text, q.kind, CAST(-1 AS BIGINT) AS one,
    CAST(-1 AS BIGINT) AS place,
    CAST(CASE WHEN c.subject IS NULL THEN {quoted} ELSE {normal} END AS UTINYINT) AS rank
FROM quoted_triples q LEFT JOIN (SELECT DISTINCT subject, property, object, text FROM claims) c ON q.subject = c.subject
    AND q.property = c.property AND q.object IS NOT DISTINCT FROM c.object AND q.text IS NOT DISTINCT FROM c.text
WHERE q.subject NOT IN (SELECT entity FROM blanks) AND (q.object IS NULL OR q.object NOT IN (SELECT entity FROM blanks))
"""
_VALUES = """
SELECT subject AS node, property, object, text, kind, row_number() OVER () AS place,
    property IN (SELECT property FROM times) OR kind IS NOT DISTINCT FROM {time} AS is_time
FROM (
    SELECT DISTINCT p.* FROM plain p SEMI JOIN blanks ON p.subject = blanks.entity
    WHERE property <> {type} AND (object IS NULL OR object NOT IN (SELECT entity FROM blanks))
) QUALIFY count(*) OVER (PARTITION BY subject) <= {most}
"""
_MAIN = """
SELECT v.* FROM node_values v JOIN (
    SELECT node, count(*) FILTER (WHERE property = {value}) AS given,
        count(*) FILTER (WHERE object IS NOT NULL AND NOT is_time) AS things,
        count(*) FILTER (WHERE kind = {number} AND NOT is_time) AS numbers
    FROM node_values GROUP BY node HAVING count(*) > 1
) USING (node)
WHERE CASE WHEN given > 0 THEN property = {value} WHEN is_time THEN false
    WHEN things = 1 THEN object IS NOT NULL ELSE numbers = 1 AND kind IS NOT DISTINCT FROM {number} END
"""
_FREE = """
SELECT *, count(*) OVER (PARTITION BY node) AS named FROM node_values
WHERE object IS NOT NULL AND NOT is_time AND node NOT IN (SELECT object FROM claims WHERE object IS NOT NULL)
QUALIFY named <= {most_named}
"""
_FACTS_OF_NODES = """
WITH main AS (
    SELECT root AS subject, CASE WHEN property = {value} THEN steps ELSE list_append(steps, property) END AS steps, m.*,
        CAST(-1 AS BIGINT) AS one
    FROM paths JOIN main_values m USING (node)
    UNION ALL BY NAME
    SELECT f.object AS subject, [-f.property, o.property] AS steps, o.* EXCLUDE (named), f.place AS one
    FROM free_values f JOIN free_values o ON f.node = o.node AND f.place <> o.place AND f.object <> o.object
    UNION ALL BY NAME
    SELECT f.object AS subject, [-f.property, n.property] AS steps, n.*, f.place AS one FROM free_values f JOIN (
        SELECT v.* FROM node_values v JOIN free_values f ON v.node = f.node AND f.named = 1 AND v.object IS NULL
        WHERE NOT v.is_time AND (v.property = {value} OR v.kind = {number})
        QUALIFY count(*) OVER (PARTITION BY v.node) = 1
    ) n ON f.node = n.node
)
SELECT node, CAST(hash(node, subject, steps, place) >> 1 AS BIGINT) AS statement, subject, steps,
    CAST(NULL AS BIGINT) AS property, object, text, kind, one, place, CAST({normal} AS UTINYINT) AS rank
FROM main
"""
_SNAKS = """
SELECT statement, coalesce(p.entity, f.property) AS property, true AS is_main, object, text, kind
FROM node_facts f LEFT JOIN path_properties p ON f.steps = p.steps
UNION ALL
SELECT f.statement, v.property, false, v.object, v.text, v.kind FROM node_facts f JOIN (
    SELECT node, property, object, text, kind, place FROM node_values
    UNION ALL SELECT node, property, object, text, kind, -2 FROM ({qualifiers})
) v ON v.node = f.node AND v.place <> f.place AND v.place <> f.one
WHERE v.property NOT IN (SELECT property FROM left_out_of_nodes)
"""
_UNDECIDED = """
SELECT count(*) FROM (SELECT node FROM node_values GROUP BY node HAVING count(*) > 1)
WHERE node NOT IN (SELECT node FROM node_facts)
"""


def take_triples(database: WorkDatabase, *, is_wanted: bool) -> None:
    """Make `quoted_triples` and `about_triples`, and take what is said of their nodes out of `claims`. `is_wanted`: facts have
    qualifiers; else nothing is taken."""
    database.table("quoted_triples", _QUOTED.format(**_ROLES) if is_wanted else "FROM quoted LIMIT 0")
    database.table("about_triples", _REST.format(**_ROLES))
    if database.has_rows("about_triples"):
        database.table("other_triples", "SELECT * FROM claims WHERE subject NOT IN (SELECT node FROM quoted_triples)")
        database.view("claims", "SELECT * FROM other_triples")


def state_nodes(database: WorkDatabase, keeps: Callable[[str], bool] | None) -> None:
    """Make `node_facts` and `node_values`, and so the paths that properties are to be made of. `keeps`: whether facts have a
    qualifier, by its name; None: they have none. Reads `plain`, `paths`, `blanks`."""
    used = "SELECT property FROM claims UNION SELECT property FROM about_triples"
    rows = database.rows(f"SELECT entity, id FROM found WHERE entity IN ({used})")
    names = {number: iris.local_name(id_).casefold() for number, id_ in rows}
    for table, some in (
        ("times", [number for number, name in names.items() if name in _TIMES]),
        ("left_out_of_nodes", [number for number, name in names.items() if keeps is not None and not keeps(name)]),
    ):
        database.table_of(table, pa.table({"property": pa.array(some, pa.int64())}))
    values = {**_ROLES, "time": _TIME, "number": _NUMBER, "most": _MOST, "most_named": _MOST_NAMED, "normal": NORMAL}
    for table, query in (("node_values", _VALUES), ("main_values", _MAIN), ("free_values", _FREE)):
        database.table(table, query.format(**values) + ("" if keeps else " LIMIT 0"))
    database.table("node_facts", f"{_FACTS_OF_NODES} UNION ALL {_FACTS_OF_TRIPLES}".format(**values, quoted=QUOTED))


def add_statements(database: WorkDatabase) -> tuple[int, tuple[str, ...]]:
    """Add the statements of nodes to the staged ones; return how many values they have, and a note for the user."""
    database.table("node_snaks", _SNAKS.format(qualifiers=_QUALIFIERS.format(most=_MOST)))
    undecided = database.number(_UNDECIDED)
    notes = (f"{undecided:,} blank nodes have no main value: their values are facts apart",) if undecided else ()
    if not database.has_rows("node_facts"):
        return 0, notes
    property_ = "(SELECT any_value(property) FROM node_snaks s WHERE s.statement = f.statement AND is_main)"
    for table, rows in {
        "statements": f"SELECT statement, subject, {property_} AS property FROM node_facts f",
        "ranks": "SELECT statement, rank FROM node_facts",
        "snaks": "FROM node_snaks",
    }.items():
        database.table(f"all_{table}", f"FROM {table} UNION ALL BY NAME {rows}")
        database.view(table, f"SELECT * FROM all_{table}")
    return database.number("SELECT count(*) FROM node_snaks"), notes
