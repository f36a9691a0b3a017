"""One entity one name, one name one entity: docs/names.md has the rules, with examples.

An entity is called by its Wikipedia title if the input gives one, else `label (description)` for an item, else by its label
alone; a property always by its label. The best label is that in the first language that has one, and of several the first
in lexical order, so that the order of the input does not matter. A name longer than `refactx.fact.MAX_PART_CHARACTERS` is
cut before names are compared.

Where several come out with one name, each gets its id, ` (Q42)`, at the end. A property alone among items keeps its bare
label, for labels of properties are what a model has to choose from, and so does the inverse of a property (`ingest.inverse`)
alone among items; properties that collide with each other get their ids (` (P569)`), inverses that collide with a property
or with each other theirs (` (inverse of P569)`). So does whatever is called `description` or `short description`, for these
are the predicates of descriptions, and whatever is called `alias of` or ends in ` (alias)`, as parts of aliases do
(`ingest.aliases`); and what looks like another's name with its id gets its id too. All named entities of the input count,
also those that no fact uses: so a name does not depend on which facts are kept.

Where facts are added to a knowledge base (`ingest.known_names`), an entity or inverse that has a name there keeps it, with
or without a label in the input, and one that would get a name that is taken gets its id.
"""

from dataclasses import dataclass

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, MAX_PART_CHARACTERS, written_part

from ..knowledge.inverse import name_inverses
from ..knowledge.known_names import KnownNames, no_known_names
from ..parsers.wikidata.rules import DESCRIPTION, LABEL, SHORT_DESCRIPTION, TITLE
from ..selection import Selection
from ..work_database import Work, number
from . import aliases

BY_TITLE, BY_LABEL_AND_DESCRIPTION, BY_LABEL, BY_INVERSE, AS_BEFORE = 0, 1, 2, 3, 4
"""The rules of `named`."""
# The rank, one character, in front of the text: the least of these strings is the best term.
_CHOSEN = """
CREATE TABLE chosen AS
SELECT entity, substr(label, 2) AS label, substr(description, 2) AS description, substr(title, 2) AS title,
    substr(short_description, 2) AS short_description
FROM (
    SELECT entity,
        min(chr(48 + rank) || text) FILTER (kind = {label}) AS label,
        min(chr(48 + rank) || text) FILTER (kind = {description}) AS description,
        min(chr(48 + rank) || text) FILTER (kind = {title}) AS title,
        min(chr(48 + rank) || text) FILTER (kind = {short_description}) AS short_description
    FROM terms GROUP BY entity
)
"""
_NATURAL = """
CREATE TABLE named AS
SELECT entity, cut(natural_name, {limit}) AS name, rule, length(natural_name) > {limit} AS is_cut, false AS has_id
FROM (
    SELECT entity, rule, CASE rule
        WHEN {by_title} THEN title
        WHEN {by_both} THEN label || ' (' || description || ')'
        ELSE label END AS natural_name
    FROM (
        SELECT *, CAST(CASE
            WHEN entity & 1 = 1 THEN {by_label}
            WHEN title IS NOT NULL THEN {by_title}
            WHEN description IS NOT NULL THEN {by_both}
            ELSE {by_label} END AS UTINYINT) AS rule
        FROM chosen
    )
)
WHERE natural_name IS NOT NULL
"""
_KEEP_NAMES = """
DELETE FROM named WHERE entity > 0 AND entity IN (SELECT entity FROM known);
INSERT INTO named SELECT entity, name, {as_before}, false, false FROM known WHERE entity > 0
"""
_KEEP_INVERSE_NAMES = """
UPDATE named SET name = known.name, rule = {as_before}, is_cut = false FROM known
WHERE named.entity < 0 AND named.entity = known.entity
"""
# What a new entity could be called.
_CANDIDATES = """
SELECT name FROM named WHERE rule <> {as_before}
UNION ALL SELECT cut(name, {limit} - length({suffix})) || {suffix} FROM named WHERE rule <> {as_before}
"""
# Of entities with one name, every item gets its id; a property or inverse does unless it goes before all the others. An
# inverse has the number of its property with a minus sign.
_COLLIDING = """
CREATE TABLE colliding AS
SELECT entity, name FROM named
JOIN (
    SELECT name, count(*) FILTER (entity & 1 = 1 AND entity > 0) AS properties, count(*) FILTER (entity < 0) AS inverses
    FROM named WHERE rule <> {as_before} GROUP BY name HAVING count(*) > 1
) USING (name)
WHERE rule <> {as_before} AND CASE
    WHEN entity < 0 THEN inverses > 1 OR properties > 0
    WHEN entity & 1 = 1 THEN properties > 1
    ELSE true END
UNION SELECT entity, name FROM named
WHERE rule <> {as_before}
    AND (list_contains(?, name) OR name IN (SELECT name FROM taken) OR ends_with(name, '{alias}'))
"""
_SUFFIX = "(CASE WHEN entity < 0 THEN ' (inverse of ' ELSE ' (' END || entity_id(abs(entity)) || ')')"
_ADD_IDS = """
UPDATE named SET
    name = cut(name, {limit} - length({suffix})) || {suffix}, has_id = true,
    is_cut = is_cut OR length(name) > {limit} - length({suffix})
WHERE entity IN (SELECT entity FROM colliding)
"""
# Names with ids differ from each other, so a collision is left only between one just made and one without an id, or one
# that was there before.
_COLLIDING_AGAIN = """
CREATE OR REPLACE TABLE colliding AS
SELECT entity, name FROM named
WHERE rule <> {as_before} AND CASE
    WHEN has_id THEN entity IN (SELECT entity FROM colliding) AND name IN (SELECT name FROM taken) AND length(name) < {limit}
    ELSE name IN (SELECT name FROM named WHERE entity IN (SELECT entity FROM colliding)) END
"""


@dataclass(frozen=True, slots=True)
class Naming:
    """`collisions`: how many names more than one entity had at first. `notes`: for the user, on given names that are not
    used."""

    collisions: int
    notes: tuple[str, ...]


def name_entities(connection: Work, selection: Selection, known: KnownNames | None = None) -> Naming:
    """From `terms` (and `claims`, if inverse facts are asked for) two tables, and how that went.

    `chosen`: `entity, label, description, title, short_description`, the best of each, or NULL. `named`: `entity, name,
    rule, is_cut, has_id`, each entity that has a name, by which rule, and that name, unique. The inverse of a property has
    the property's number with a minus sign (`ingest.inverse`). `known`: names that are there already; they are in the table
    `known` afterwards.
    """
    terms = {"label": LABEL, "description": DESCRIPTION, "title": TITLE, "short_description": SHORT_DESCRIPTION}
    rules = {"by_title": BY_TITLE, "by_both": BY_LABEL_AND_DESCRIPTION, "by_label": BY_LABEL, "as_before": AS_BEFORE}
    values = {**rules, "limit": MAX_PART_CHARACTERS, "suffix": _SUFFIX, "alias": ALIAS}
    connection.execute(_CHOSEN.format(**terms))
    connection.execute(_NATURAL.format(**values))
    no_known_names(connection)
    notes: tuple[str, ...] = ()
    if known is not None:
        known.load_entities(connection, {written_part(name) for _, name in selection.inverse_names})
        connection.execute(_KEEP_NAMES.format(**values))
    if selection.inverse:
        notes = name_inverses(connection, selection, BY_INVERSE, {} if known is None else known.inverses)
        connection.execute(_KEEP_INVERSE_NAMES.format(**values))
    if known is not None:
        known.load_taken(connection, f"{_CANDIDATES.format(**values)} UNION ALL {aliases.NAMES}")
    connection.execute(_COLLIDING.format(**values), [[*DESCRIPTIONS, ALIAS_OF]])
    collisions = number(connection, "SELECT count(DISTINCT name) FROM colliding")
    while number(connection, "SELECT count(*) FROM colliding"):
        connection.execute(_ADD_IDS.format(**values))
        connection.execute(_COLLIDING_AGAIN.format(**values))
    connection.execute("DROP TABLE colliding")
    return Naming(collisions, notes)
