"""Aliases, the other names of entities, as facts that lead to them: `<JFK (alias)> <alias of> <John F. Kennedy>`.

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
"""

from refactx.fact import ALIAS, ALIAS_OF, MAX_PART_CHARACTERS
from refactx.ingest.knowledge.tables import Tables
from refactx.ingest.parsers.staging import OTHER_NAME
from refactx.ingest.selection import Selection

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
    ) GROUP BY entity, text
) t JOIN named n USING (entity)
WHERE {{wanted}} AND NOT is_property(entity) AND NOT {ADDS_NOTHING} AND entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT entity FROM described
    UNION SELECT subject FROM inverse_claims
    UNION SELECT entity FROM known
)
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


def choose_aliases(database: Tables, selection: Selection, by_title: int) -> None:
    """Make the table `aliased` from `terms`, the names and the facts so far; it is empty without `selection.aliases`.

    `by_title`: the number of the rule of names that are titles.
    """
    database.table("aliased", _ALIASED.format(size=_SIZE, wanted=bool(selection.aliases), by_title=by_title))
    database.table("aliased", _NEW_ALIASES)
