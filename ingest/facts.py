"""Claims and descriptions joined with names: the facts, as triples of units, and what became of each staged line.

Step by step, on the tables of `ingest.work_database` and `ingest.names`:

* `judged`: each claim with the reason for which it is dropped, or NULL
* `used`: the entities whose names occur in a fact
* `units`: each distinct part with its number, in the order of the texts, whatever the order of the input
* `facts`: distinct triples of units, claims first, then the descriptions that are no claim already
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from refactx.fact import MAX_PART_CHARACTERS

from .wikidata import DESCRIPTION, LABEL, TITLE
from .work_database import number

_JUDGED = """
CREATE TABLE judged AS
SELECT c.subject, c.property, c.object, cut(c.text, {limit}) AS text, length(c.text) > {limit} AS is_cut, CASE
    WHEN x.property IS NOT NULL THEN x.reason
    WHEN s.entity IS NULL OR p.entity IS NULL OR (c.object IS NOT NULL AND o.entity IS NULL) THEN 'no English label'
    END AS reason
FROM claims c
LEFT JOIN (SELECT property, min(reason) AS reason FROM left_out GROUP BY property) x ON c.property = x.property
LEFT JOIN named s ON c.subject = s.entity
LEFT JOIN named p ON c.property = p.entity
LEFT JOIN named o ON c.object = o.entity
"""
_DESCRIBED = """
CREATE TABLE described AS
SELECT entity, cut(description, {limit}) AS text, length(description) > {limit} AS is_cut
FROM chosen SEMI JOIN named USING (entity) WHERE description IS NOT NULL
"""
_USED = """
CREATE TABLE used AS
SELECT entity, name, is_cut, title IS NOT NULL AND entity & 1 = 0 AS by_title FROM named JOIN chosen USING (entity)
WHERE entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT property FROM judged WHERE reason IS NULL
    UNION SELECT object FROM judged WHERE reason IS NULL AND object IS NOT NULL
    UNION SELECT entity FROM described
)
"""
_UNITS = """
CREATE TABLE units AS
SELECT CAST(row_number() OVER (ORDER BY text) - 1 AS INTEGER) AS unit, text FROM (
    SELECT name AS text FROM used
    UNION SELECT text FROM judged WHERE reason IS NULL AND text IS NOT NULL
    UNION SELECT text FROM described
    UNION SELECT 'description' WHERE EXISTS (FROM described)
    UNION SELECT subject FROM ready UNION SELECT predicate FROM ready UNION SELECT object FROM ready
)
"""
_ENTITY_UNITS = "CREATE TABLE entity_units AS SELECT entity, unit FROM used JOIN units ON used.name = units.text"
_CLAIM_FACTS = """
CREATE TABLE claim_facts AS
SELECT DISTINCT * FROM (
    SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object
    FROM judged j
    JOIN entity_units s ON j.subject = s.entity
    JOIN entity_units p ON j.property = p.entity
    JOIN entity_units o ON j.object = o.entity
    WHERE j.reason IS NULL
    UNION ALL
    SELECT s.unit, p.unit, t.unit
    FROM judged j
    JOIN entity_units s ON j.subject = s.entity
    JOIN entity_units p ON j.property = p.entity
    JOIN units t ON j.text = t.text
    WHERE j.reason IS NULL
    UNION ALL
    SELECT s.unit, p.unit, o.unit
    FROM ready r
    JOIN units s ON r.subject = s.text
    JOIN units p ON r.predicate = p.text
    JOIN units o ON r.object = o.text
)
"""
_DESCRIPTION_FACTS = """
CREATE TABLE description_facts AS
SELECT e.unit AS subject, p.unit AS predicate, t.unit AS object, d.entity
FROM described d JOIN entity_units e USING (entity) JOIN units t USING (text)
JOIN units p ON p.text = 'description'
ANTI JOIN claim_facts c ON c.subject = e.unit AND c.predicate = p.unit AND c.object = t.unit
"""


@dataclass(frozen=True, slots=True)
class Joined:
    """How many facts there are, and what became of the staged lines: kept, or dropped by reason."""

    claims: int
    descriptions: int
    kept: int
    dropped: Counter[str]
    cut: int


def join_facts(connection: duckdb.DuckDBPyConnection, step: Callable[[], object] = lambda: None) -> Joined:
    """Make the tables `used`, `units`, `claim_facts` and `description_facts`; call `step` after each of `STEPS`."""
    for query in _QUERIES:
        connection.execute(query.format(limit=MAX_PART_CHARACTERS))
        step()
    return _account(connection)


def _account(connection: duckdb.DuckDBPyConnection) -> Joined:
    def count(query: str) -> int:
        return number(connection, query)

    dropped: Counter[str] = Counter()
    reasons = "SELECT reason, count(*) FROM judged WHERE reason IS NOT NULL GROUP BY reason"
    dropped.update(dict(connection.execute(reasons).fetchall()))
    claims = count("SELECT count(*) FROM claim_facts")
    staged = count("SELECT count(*) FROM judged WHERE reason IS NULL") + count("SELECT count(*) FROM ready")
    dropped["duplicate"] += staged - claims

    descriptions = count("SELECT count(*) FROM description_facts")
    # A description that a claim says already is kept all the same where it is part of the entity's name.
    in_names = count(
        "SELECT count(*) FROM described JOIN used USING (entity) ANTI JOIN description_facts USING (entity) "
        "WHERE used.entity & 1 = 0 AND NOT by_title"
    )
    described = count("SELECT count(*) FROM described")
    chosen = count("SELECT count(description) FROM chosen")
    dropped["no English label"] += chosen - described
    dropped["duplicate"] += count(f"SELECT count(*) FROM terms WHERE kind = {DESCRIPTION}") - chosen
    dropped["duplicate"] += described - descriptions - in_names

    names = 0
    for kind, column, condition in ((LABEL, "label", "NOT by_title"), (TITLE, "title", "by_title")):
        of_kind = count(f"SELECT count({column}) FROM chosen")
        in_use = count(f"SELECT count(*) FROM used WHERE {condition}")
        dropped["duplicate"] += count(f"SELECT count(*) FROM terms WHERE kind = {kind}") - of_kind
        dropped["unused name"] += of_kind - in_use
        names += in_use
    cut = (
        count("SELECT count(*) FROM judged WHERE reason IS NULL AND is_cut")
        + count("SELECT count(*) FROM described WHERE is_cut")
        + count("SELECT count(*) FROM used WHERE is_cut")
    )
    return Joined(claims, descriptions, claims + descriptions + in_names + names, dropped, cut)


_QUERIES = (_JUDGED, _DESCRIBED, _USED, _UNITS, _ENTITY_UNITS, _CLAIM_FACTS, _DESCRIPTION_FACTS)
STEPS = len(_QUERIES)
