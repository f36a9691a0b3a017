"""Other names of entities as facts that lead to them: `<JFK (alias)> <alias of> <John F. Kennedy>`.

A question seldom calls a thing by its label: an alias (skos:altLabel) is a way into the tree that costs one fact, and not
another copy of all its facts. What is no entity's name stands in the name ("(alias)"), so that of an alias and an entity of
the same name each keeps its own facts.

| table | columns |
|---|---|
| `aliased` | `entity BIGINT, text, name VARCHAR, is_cut BOOLEAN`: for entities that have facts of their own |
| `alias_facts` | `subject, predicate, object INTEGER` (units), those that are no facts already |

Only items have them: what a property is called besides is no subject of a question. An alias that is the entity's label in
another language adds nothing, and one whose name is an entity's in a knowledge base that grows is left out.
"""

from refactx.fact import ALIAS, ALIAS_OF, MAX_PART_CHARACTERS

from .selection import Selection
from .wikidata import OTHER_NAME
from .work_database import Work

_SIZE = MAX_PART_CHARACTERS - len(ALIAS)
NAMES = f"SELECT cut(text, {_SIZE}) || '{ALIAS}' AS name FROM terms WHERE kind = {OTHER_NAME}"
"""What all aliases of the input could be called."""
_ALIASED = f"""
CREATE TABLE aliased AS
SELECT entity, text, cut(text, {{size}}) || '{ALIAS}' AS name, length(text) > {{size}} AS is_cut
FROM (SELECT DISTINCT entity, text FROM terms WHERE kind = {OTHER_NAME} AND {{wanted}}) t
JOIN named n USING (entity) JOIN chosen c USING (entity)
WHERE entity & 1 = 0 AND c.label IS DISTINCT FROM text AND entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT entity FROM described
    UNION SELECT subject FROM inverse_claims
)
"""
FACTS = f"""
CREATE TABLE alias_facts AS
SELECT DISTINCT s.unit AS subject, p.unit AS predicate, o.unit AS object
FROM aliased a
JOIN units s ON s.text = a.name
JOIN units p ON p.text = '{ALIAS_OF}'
JOIN entity_units o ON o.entity = a.entity
ANTI JOIN claim_facts c ON c.subject = s.unit AND c.predicate = p.unit AND c.object = o.unit
"""


def choose_aliases(connection: Work, selection: Selection) -> None:
    """The table `aliased`, from `terms`, the names and the facts so far; empty without `selection.aliases`."""
    connection.execute(_ALIASED.format(size=_SIZE, wanted=bool(selection.aliases)))
    for names in ("named", "taken"):
        connection.execute(f"DELETE FROM aliased WHERE name IN (SELECT name FROM {names})")
