"""One entity one name, one name one entity.

An entity is called by its English Wikipedia title if the input gives one, else `label (description)` for an item, else
by its label alone; a property always by its label. The best label is that in `en`, then any `en-...`, then `mul`, and
of several the first in lexical order, so that the order of the input does not matter. A name longer than
`refactx.fact.MAX_PART_CHARACTERS` is cut before names are compared.

Where several entities come out with one name, each gets its id, ` (Q42)`, at the end. A property alone among items
keeps its bare label, for labels of properties are what a model has to choose from; properties that collide with each
other get their ids (` (P569)`). An entity whose own name looks like another's with its id gets its id too. All named
entities of the input count, also those that no fact uses: so a name does not depend on which facts are kept.
"""

import duckdb

from refactx.fact import MAX_PART_CHARACTERS

from .wikidata import DESCRIPTION, LABEL, TITLE
from .work_database import number

# The rank, one digit, in front of the text: the least of these strings is the best term.
_CHOSEN = """
CREATE TABLE chosen AS
SELECT entity, substr(label, 2) AS label, substr(description, 2) AS description, substr(title, 2) AS title
FROM (
    SELECT entity,
        min(rank || text) FILTER (kind = {label}) AS label,
        min(rank || text) FILTER (kind = {description}) AS description,
        min(rank || text) FILTER (kind = {title}) AS title
    FROM terms GROUP BY entity
)
"""
_NATURAL = """
CREATE TABLE named AS
SELECT entity, cut(natural_name, {limit}) AS name, length(natural_name) > {limit} AS is_cut, false AS has_id
FROM (
    SELECT entity, CASE
        WHEN entity & 1 = 1 THEN label
        WHEN title IS NOT NULL THEN title
        WHEN description IS NOT NULL THEN label || ' (' || description || ')'
        ELSE label END AS natural_name
    FROM chosen
)
WHERE natural_name IS NOT NULL
"""
# Of entities with one name, every item gets its id; a property does if it is not the only one.
_COLLIDING = """
CREATE TABLE colliding AS
SELECT entity FROM named
JOIN (SELECT name, sum(entity & 1) AS properties FROM named GROUP BY name HAVING count(*) > 1) USING (name)
WHERE entity & 1 = 0 OR properties > 1
"""
_ADD_IDS = """
UPDATE named SET
    name = cut(name, {limit} - length(entity_id(entity)) - 3) || ' (' || entity_id(entity) || ')', has_id = true,
    is_cut = is_cut OR length(name) > {limit} - length(entity_id(entity)) - 3
WHERE entity IN (SELECT entity FROM colliding)
"""
# Names with ids differ from each other, so a collision is left only between one just made and one without an id.
_COLLIDING_AGAIN = """
CREATE OR REPLACE TABLE colliding AS
SELECT entity FROM named
WHERE NOT has_id AND name IN (SELECT name FROM named WHERE entity IN (SELECT entity FROM colliding))
"""


def name_entities(connection: duckdb.DuckDBPyConnection) -> None:
    """From `terms`, the table `chosen` (`entity, label, description, title`: the best of each, or NULL) and the table
    `named` (`entity, name, is_cut, has_id`: each entity that has a name, and that name, unique).
    """
    connection.execute(_CHOSEN.format(label=LABEL, description=DESCRIPTION, title=TITLE))
    connection.execute(_NATURAL.format(limit=MAX_PART_CHARACTERS))
    connection.execute(_COLLIDING)
    while number(connection, "SELECT count(*) FROM colliding"):
        connection.execute(_ADD_IDS.format(limit=MAX_PART_CHARACTERS))
        connection.execute(_COLLIDING_AGAIN)
    connection.execute("DROP TABLE colliding")
