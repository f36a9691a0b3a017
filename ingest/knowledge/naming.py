"""The naming of entities: each has one name, and no two the same (docs/reference/names-and-values.md has examples).

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
  would end in ` (alias)`, as the parts of aliases do (`refactx.ingest.knowledge.aliases`);
* an entity whose name is that of another entity with its id.

All named entities of the input count, also those that no fact uses: a name does not depend on which facts are kept.

If facts are added to a knowledge base (`refactx.ingest.knowledge.known_names`), an entity or inverse that has a name
there keeps it, with or without a label in the input. A new one gets its id if its name is taken.
"""

from dataclasses import dataclass

from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, MAX_PART_CHARACTERS, written_part
from refactx.ingest.knowledge.aliases import NAMES
from refactx.ingest.knowledge.inverse import name_inverses
from refactx.ingest.knowledge.known_names import NamesBefore, no_known_names
from refactx.ingest.knowledge.tables import Tables
from refactx.ingest.parsers.staging import DESCRIPTION, LABEL, SHORT_DESCRIPTION, TITLE
from refactx.ingest.selection import Selection

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
            WHEN is_property(entity) THEN {by_label}
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
_SUFFIX = "(CASE WHEN entity < 0 THEN ' (inverse of ' ELSE ' (' END || entity_id(abs(entity)) || ')')"
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
class NamingOutcome:
    """The outcome of naming.

    `collisions`: how many names had to get an id. `notes`: for the user, about given names that are not used.
    """

    collisions: int
    notes: tuple[str, ...]


def name_entities(database: Tables, selection: Selection, known: NamesBefore | None = None) -> NamingOutcome:
    """Make the tables `chosen` and `named` from `terms` (and `claims`, if inverse facts are asked for).

    `chosen`: `entity, label, description, title, short_description`: the best of each, or NULL. `named`: `entity, name,
    rule, is_cut, has_id`: each entity with its unique name and the rule that made it; the inverse of a property has the
    property's negative number. The argument `known` has the names of the knowledge base that facts are added to; those
    that matter here are in the table `known` afterwards.
    """
    terms = {"label": LABEL, "description": DESCRIPTION, "title": TITLE, "short_description": SHORT_DESCRIPTION}
    rules = {"by_title": BY_TITLE, "by_both": BY_LABEL_AND_DESCRIPTION, "by_label": BY_LABEL, "as_before": AS_BEFORE}
    values = {**rules, "limit": MAX_PART_CHARACTERS, "suffix": _SUFFIX, "alias": ALIAS}
    database.table("chosen", _CHOSEN.format(**terms))
    database.table("named", _NATURAL.format(**values))
    no_known_names(database)
    notes: tuple[str, ...] = ()
    if known is not None:
        known.load_entities({written_part(name) for _, name in selection.inverse_names})
        database.table("named", _WITH_KNOWN_NAMES.format(**values))
    if selection.inverse:
        notes = name_inverses(database, selection, BY_INVERSE, {} if known is None else known.inverses)
    if known is not None:
        database.table("named", _WITH_KNOWN_INVERSE_NAMES.format(**values))
        known.load_taken(f"{_CANDIDATES.format(**values)} UNION ALL {NAMES}")
    database.table("colliding", _COLLIDING.format(**values, reserved=(*DESCRIPTIONS, ALIAS_OF)))
    collisions = database.number("SELECT count(DISTINCT name) FROM colliding")
    while database.number("SELECT count(*) FROM colliding"):
        database.table("named", _WITH_IDS.format(**values))
        database.table("colliding", _COLLIDING_AGAIN.format(**values))
    database.drop("colliding")
    return NamingOutcome(collisions, notes)
