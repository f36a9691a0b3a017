"""The account of the staged lines after the joins: how many were kept, and how many dropped, by reason."""

from collections import Counter
from dataclasses import dataclass, field

from refactx.fact import DESCRIPTIONS
from refactx.ingest.knowledge.aliases import ADDS_NOTHING
from refactx.ingest.knowledge.inverse import InverseCounts
from refactx.ingest.knowledge.naming import AS_BEFORE, BY_INVERSE, BY_LABEL, BY_LABEL_AND_DESCRIPTION, BY_TITLE
from refactx.ingest.knowledge.tables import Tables
from refactx.ingest.parsers.staging import DESCRIPTION, LABEL, OTHER_NAME, SHORT_DESCRIPTION, TITLE
from refactx.ingest.selection import Selection

DESCRIPTION_UNWANTED, BEYOND = "description", "beyond the limit"
# The fate of each chosen description: kept as a fact or in a name (a short description only as a fact), or dropped.
_DESCRIPTIONS = """
SELECT fate, count(*) FROM (
    SELECT CASE
        WHEN n.entity IS NULL THEN 'subject has no label'
        WHEN f.entity IS NOT NULL OR (c.predicate = '{description}' AND u.rule = {by_both}) THEN 'kept'
        WHEN NOT {descriptions} THEN '{dropped}'
        WHEN d.entity IS NULL THEN '{beyond}'
        ELSE 'duplicate' END AS fate
    FROM descriptions c
    LEFT JOIN named n ON c.entity = n.entity
    LEFT JOIN described d ON c.entity = d.entity AND c.predicate = d.predicate
    LEFT JOIN description_facts f ON c.entity = f.entity AND c.predicate = f.predicate_text
    LEFT JOIN used u ON c.entity = u.entity
) GROUP BY fate
"""
# The fate of each alias. Those that are facts count as duplicates here; the caller subtracts the facts.
_ALIASES = f"""
SELECT fate, count(*) FROM (
    SELECT CASE
        WHEN n.entity IS NULL THEN 'subject has no label'
        WHEN {ADDS_NOTHING} THEN 'duplicate'
        WHEN a.entity IS NULL THEN 'unused name'
        ELSE 'duplicate' END AS fate
    FROM terms t LEFT JOIN named n USING (entity)
    LEFT JOIN aliased a ON t.entity = a.entity AND t.text = a.text
    WHERE t.kind = {OTHER_NAME}
) GROUP BY fate
"""
# Labels that name an entity in a fact, or the inverse of a property, except those that are kept as an alias.
_USED_LABELS = """
SELECT count(*) FROM (
    SELECT entity FROM used WHERE rule IN ({by_both}, {by_label})
    UNION SELECT label_item FROM inverses JOIN used ON inverses.predicate = used.entity
    ANTI JOIN (SELECT entity AS aliased FROM entity_units JOIN alias_facts ON unit = object WHERE of_label)
        ON label_item = aliased
    WHERE label_item IS NOT NULL
)
"""
# Only pairs whose predicate has a stored name: the next change does not know others, and may pair the property anew.
_INVERSE_PROPERTIES = """
SELECT entity_id(property), entity_id(predicate) FROM inverses
WHERE predicate > 0 AND predicate IN (
    SELECT entity FROM used UNION SELECT entity FROM known UNION SELECT entity FROM hub_predicates
)
ORDER BY property
"""
_RULES = {
    "title": f"rule = {BY_TITLE} AND NOT has_id",
    "label (description)": f"rule = {BY_LABEL_AND_DESCRIPTION} AND NOT has_id",
    "label": f"rule = {BY_LABEL} AND NOT has_id",
    "with id": f"rule <> {BY_INVERSE} AND has_id",
    "inverse": f"rule = {BY_INVERSE}",
    "as before": f"rule = {AS_BEFORE}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAccount:
    """How many facts there are, and how many staged lines were kept, or dropped, by reason.

    `claims`: facts from claims, ready-made facts and aliases; `aliases` of them come from other names of entities.
    `derived`: inverse facts. `cut`: parts that were cut. `names`: how many names occur in facts, by the rule that made
    them; `entities` of them belong to an item or a property. `not_inverted`: how many claims about entities have no
    inverse fact of their own, by reason, if inverse facts were asked for; these and `derived` add up to all such
    claims. `hubs`: the rows of `hubs_with_counts`. `inverse_properties`: maps a property to the one that its inverse
    facts belong to. `notes`: about inverse facts, for the user.
    """

    claims: int
    descriptions: int
    aliases: int
    derived: int
    kept: int
    dropped: Counter[str]
    cut: int
    entities: int
    names: dict[str, int]
    not_inverted: dict[str, int]
    hubs: int
    inverse_properties: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def account_for(database: Tables, selection: Selection, inverted: InverseCounts, ready_dropped: int) -> JoinAccount:
    """Return the account of all tables of `refactx.ingest.knowledge.joins`.

    `ready_dropped`: how many ready-made lines were beyond the limit on subjects; no table has them.
    """

    def count(query: str) -> int:
        return database.number(query)

    def rows(query: str) -> Counter[str]:
        return Counter(dict(database.rows(query)))

    rules = {"by_both": BY_LABEL_AND_DESCRIPTION, "by_label": BY_LABEL}
    dropped = rows("SELECT reason, count(*) FROM judged WHERE reason IS NOT NULL GROUP BY reason")
    dropped[BEYOND] += ready_dropped
    claims = count("SELECT count(*) FROM claim_facts")
    staged = count("SELECT count(*) FROM judged WHERE reason IS NULL") + count("SELECT count(*) FROM ready")
    dropped["duplicate"] += staged - claims

    fates = rows(
        _DESCRIPTIONS.format(
            description=DESCRIPTIONS[0],
            descriptions=selection.descriptions,
            dropped=DESCRIPTION_UNWANTED,
            beyond=BEYOND,
            **rules,
        )
    )
    kept_descriptions = fates.pop("kept", 0)
    dropped += fates
    stated = count(f"SELECT count(*) FROM terms WHERE kind IN ({DESCRIPTION}, {SHORT_DESCRIPTION})")
    dropped["duplicate"] += stated - count("SELECT count(*) FROM descriptions")

    used_labels = (
        _USED_LABELS if selection.inverse else "SELECT count(*) FROM used WHERE rule IN ({by_both}, {by_label})"
    )
    aliases = count("SELECT count(*) FROM alias_facts")
    dropped += rows(_ALIASES)
    labels = count("SELECT count(*) FROM alias_facts WHERE of_label")  # their lines are counted as labels
    dropped["duplicate"] -= aliases - labels
    dropped["unused name"] -= labels

    names = 0
    for kind, column, query in (
        (LABEL, "label", used_labels.format(**rules)),
        (TITLE, "title", f"SELECT count(*) FROM used WHERE rule = {BY_TITLE}"),
    ):
        of_kind = count(f"SELECT count({column}) FROM chosen")
        in_use = count(query)
        dropped["duplicate"] += count(f"SELECT count(*) FROM terms WHERE kind = {kind}") - of_kind
        dropped["unused name"] += of_kind - in_use
        names += in_use
    cut = (
        count("SELECT count(*) FROM aliased WHERE is_cut")
        + count("SELECT count(*) FROM judged WHERE reason IS NULL AND is_cut")
        + count("SELECT count(*) FROM described WHERE is_cut")
        + count("SELECT count(*) FROM used WHERE is_cut")
    )
    derived = count("SELECT count(*) FROM inverse_facts")
    not_inverted = {"hub": inverted.hubs, "already a fact": inverted.pairs - inverted.hubs - derived}
    return JoinAccount(
        claims=claims + aliases,
        descriptions=count("SELECT count(*) FROM description_facts"),
        derived=derived,
        aliases=aliases,
        kept=claims + kept_descriptions + aliases + names,
        dropped=dropped,
        cut=cut,
        entities=count("SELECT count(*) FROM used WHERE entity > 0"),
        names={
            rule: made
            for rule, condition in _RULES.items()
            if (made := count(f"SELECT count(*) FROM used WHERE {condition}"))
        },
        not_inverted=not_inverted if selection.inverse else {},
        hubs=count("SELECT count(*) FROM hubs_with_counts"),
        inverse_properties=dict(database.rows(_INVERSE_PROPERTIES)) if selection.inverse else {},
        notes=inverted.notes,
    )
