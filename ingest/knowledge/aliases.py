"""Other names of entities as facts that lead to them: `<JFK (alias)> <alias of> <John F. Kennedy>`.

A question seldom calls a thing by its label: an alias (skos:altLabel) is a way into the tree that costs one fact, and not
another copy of all its facts. What is no entity's name stands in the name ("(alias)"), so that of an alias and an entity of
the same name each keeps its own facts.

| table | columns |
|---|---|
| `aliased` | `entity BIGINT, text, name VARCHAR, is_cut, of_label BOOLEAN`: for entities that have facts of their own |
| `alias_facts` | `subject, predicate, object INTEGER` (units), `of_label BOOLEAN`, those that are no facts already |

Only items have them: what a property is called besides is no subject of a question. The label of an item that is called by
its title is an alias too (`of_label`). One that its name is, or begins with in front of a bracket, adds nothing, and one that
reads like a name in a knowledge base that grows is left out.
"""

from refactx.fact import ALIAS, ALIAS_OF, MAX_PART_CHARACTERS

from ..parsers.wikidata.rules import OTHER_NAME
from ..selection import Selection
from ..work_database import Work

_SIZE = MAX_PART_CHARACTERS - len(ALIAS)
NAMES = f"SELECT cut(text, {_SIZE}) || '{ALIAS}' AS name FROM terms WHERE kind = {OTHER_NAME}"
"""What all aliases of the input could be called."""
ADDS_NOTHING = "(n.name = t.text OR starts_with(n.name, t.text || ' ('))"
"""Of a text `t` and a name `n`."""
_ALIASED = f"""
CREATE TABLE aliased AS
SELECT entity, t.text, cut(text, {{size}}) || '{ALIAS}' AS name, length(text) > {{size}} AS is_cut, of_label
FROM (
    SELECT entity, text, bool_and(of_label) AS of_label FROM (
        SELECT entity, text, false AS of_label FROM terms WHERE kind = {OTHER_NAME}
        UNION ALL
        SELECT entity, label, true FROM chosen JOIN named USING (entity) WHERE rule = {{by_title}} AND label IS NOT NULL
    ) GROUP BY entity, text
) t JOIN named n USING (entity)
WHERE {{wanted}} AND entity & 1 = 0 AND NOT {ADDS_NOTHING} AND entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT entity FROM described
    UNION SELECT subject FROM inverse_claims
    UNION SELECT entity FROM known
)
"""
FACTS = f"""
CREATE TABLE alias_facts AS
SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object, bool_and(a.of_label) AS of_label
FROM aliased a
JOIN units s ON s.text = a.name
JOIN units p ON p.text = '{ALIAS_OF}'
JOIN entity_units o ON o.entity = a.entity
ANTI JOIN claim_facts c ON c.subject = s.unit AND c.predicate = p.unit AND c.object = o.unit
GROUP BY ALL
"""


def choose_aliases(connection: Work, selection: Selection, by_title: int) -> None:
    """The table `aliased`, from `terms`, the names and the facts so far; empty without `selection.aliases`. `by_title`: the
    rule of names that are titles.
    """
    connection.execute(_ALIASED.format(size=_SIZE, wanted=bool(selection.aliases), by_title=by_title))
    for names in ("named", "taken"):  # only names from before end so
        connection.execute(
            f"DELETE FROM aliased WHERE name IN (SELECT name FROM {names} WHERE ends_with(name, '{ALIAS}'))"
        )
