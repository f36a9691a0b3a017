"""The joins that make facts: claims, descriptions and aliases with names, as triples of units.

The tables, made from the staged ones (`refactx.ingest.parsers.parsed`) and those of
`refactx.ingest.knowledge.names`:

* `judged`: each claim, with the reason for which it is dropped, or NULL; an object that is a redirect is replaced by
  its target
* `descriptions`: all descriptions; `described`: those that are facts
* `inverse_claims`, `ready_inverse`: claims read backwards (`refactx.ingest.knowledge.inverse`)
* `aliased`: the other names of entities (`refactx.ingest.knowledge.names`)
* `used`: the entities whose names occur in a fact; `predicates`: the predicates among them with the kind of their
  objects
* `units`: each distinct part with its number, in the order of the texts (not of the input)
* `ready_facts`, `ready_inverse_facts`: ready-made facts, and their inverses, as triples of units
* `hubs_with_counts`: the rows of `hub_names` with the number of their facts (`refactx.postgres.catalogue`)
* `facts`: distinct triples of units: claims, then descriptions and aliases that are no claim, then inverse facts that
  are none of these; and those of statements with their tails (`refactx.ingest.knowledge.statements`)
"""

from collections import Counter
from collections.abc import Callable, Mapping

from refactx.fact import ALIAS_OF, DESCRIPTIONS, MAX_PART_CHARACTERS
from refactx.ingest.knowledge import inverse, statements
from refactx.ingest.knowledge.inverse import InverseCounts, invert_claims
from refactx.ingest.knowledge.names import (
    ADDS_NOTHING,
    AS_BEFORE,
    BY_INVERSE,
    BY_LABEL,
    BY_LABEL_AND_DESCRIPTION,
    BY_TITLE,
    choose_aliases,
)
from refactx.ingest.knowledge.names import FACTS as ALIAS_FACTS
from refactx.ingest.knowledge.units import join_units
from refactx.ingest.parsers.parsed import DESCRIPTION, LABEL, OTHER_NAME, SHORT_DESCRIPTION, TITLE
from refactx.ingest.parsers.values import NO_LANGUAGE, VALUE_KINDS
from refactx.ingest.report import MOST_PROPERTY_ALIASES, Report
from refactx.ingest.source_options import Selection
from refactx.ingest.work import Tables

DESCRIPTION_UNWANTED, BEYOND = "description", "beyond the limit"
# The fate of each chosen description: kept as a fact or in a name (a short description only as a fact), or dropped.
_ACCOUNT_DESCRIPTIONS = """
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
_NOT_MADE = "AND entity NOT IN (SELECT entity FROM made_labels)"
# Only pairs whose predicate has a stored name: the next change does not know others, and may pair the property anew.
_INVERSE_PROPERTIES = """
SELECT entity_id(property), entity_id(predicate) FROM inverses
WHERE predicate > 0 AND predicate IN (
    SELECT entity FROM used UNION SELECT entity FROM known UNION SELECT entity FROM hub_predicates
)
ORDER BY property
"""
_PROPERTY_ALIASES = f"""
SELECT n.name, t.text, min(CASE WHEN t.kind = {LABEL} THEN 1 ELSE 0 END) AS is_label FROM terms t JOIN named n USING (entity)
WHERE t.kind IN ({LABEL}, {OTHER_NAME}) AND is_property(entity) AND {{wanted}} AND NOT {ADDS_NOTHING}
    AND entity IN (SELECT entity FROM used UNION SELECT entity FROM known)
GROUP BY n.name, t.text ORDER BY n.name, t.text LIMIT {MOST_PROPERTY_ALIASES}
"""
_NAMES_BY_LANGUAGE = f"""
SELECT language, count(*) FROM (
    SELECT DISTINCT t.language, t.entity, t.text FROM terms t JOIN named n USING (entity)
    LEFT JOIN (SELECT entity, a.text FROM aliased a JOIN units ON units.text = a.name) a
        ON t.entity = a.entity AND t.text = a.text
    WHERE t.language <> {NO_LANGUAGE} AND t.kind IN ({LABEL}, {OTHER_NAME})
        AND (a.entity IS NOT NULL
            OR t.entity IN (SELECT entity FROM used) AND ({ADDS_NOTHING} OR {{wanted}} AND is_property(t.entity)))
) GROUP BY language
"""
_NO_NAME = "nothing has a name in {}: the sources have none in it, or its code is another one, such as de for German"
_BY_LABEL = {"by_both": BY_LABEL_AND_DESCRIPTION, "by_label": BY_LABEL}
_RULES = {
    "title": f"rule = {BY_TITLE} AND NOT has_id",
    "label (description)": f"rule = {BY_LABEL_AND_DESCRIPTION} AND NOT has_id",
    "label": f"rule = {BY_LABEL} AND NOT has_id",
    "with id": f"rule <> {BY_INVERSE} AND has_id",
    "inverse": f"rule = {BY_INVERSE}",
    "as before": f"rule = {AS_BEFORE}",
}
# A redirect may lead to another; only the end of the chain has a name. An entity with a name is not a redirect.
_REDIRECTED = "SELECT entity, min(target) AS target FROM redirects ANTI JOIN named USING (entity) GROUP BY entity"
_TWICE_AS_FAR = """
SELECT r.entity, coalesce(next.target, r.target) AS target
FROM redirected r LEFT JOIN redirected next ON r.target = next.entity
"""
_TO_NAMED = "SELECT r.* FROM redirected r SEMI JOIN named n ON r.target = n.entity"
_STEPS_OF_REDIRECTS = 8
_JUDGED = """
SELECT c.subject, c.property, coalesce(r.target, c.object) AS object, cut({text}, {limit}) AS text,
    c.kind, length({text}) > {limit} AS is_cut, {more} CASE
    WHEN x.property IS NOT NULL THEN x.reason
    WHEN s.entity IS NULL THEN 'subject has no label'
    WHEN p.entity IS NULL THEN 'property has no label'
    WHEN c.object IS NOT NULL AND o.entity IS NULL THEN 'object has no label'
    {reasons}
    END AS reason
FROM {claims} c
LEFT JOIN unwanted x ON c.property = x.property
LEFT JOIN redirected r ON c.object = r.entity
LEFT JOIN named s ON c.subject = s.entity
LEFT JOIN named p ON c.property = p.entity
LEFT JOIN named o ON coalesce(r.target, c.object) = o.entity
{join}
"""
_DESCRIBED = """
SELECT entity, predicate, cut(text, {limit}) AS text, length(text) > {limit} AS is_cut
FROM descriptions SEMI JOIN named USING (entity) WHERE {descriptions}
"""
_DESCRIPTIONS = """
SELECT entity, '{description}' AS predicate, description AS text FROM chosen WHERE description IS NOT NULL
UNION ALL SELECT entity, '{short_description}', short_description FROM chosen WHERE short_description IS NOT NULL
"""
_USED = """
SELECT entity, name, is_cut, rule, has_id FROM named
WHERE entity IN (
    SELECT subject FROM judged WHERE reason IS NULL
    UNION SELECT property FROM judged WHERE reason IS NULL
    UNION SELECT object FROM judged WHERE reason IS NULL AND object IS NOT NULL
    UNION SELECT entity FROM described
    UNION SELECT predicate FROM inverse_claims
    UNION SELECT entity FROM aliased
    {used}
)
"""
_PREDICATES = """
SELECT entity, CASE
    WHEN entity < 0 THEN 'inverse'
    WHEN count(object) = count(*) THEN 'entity'
    WHEN count(object) = 0 THEN CASE WHEN min(kind) = max(kind) THEN CASE min(kind) {kinds} END ELSE 'literal' END
    ELSE 'mixed' END AS object_kind
FROM (
    SELECT property AS entity, object, kind FROM judged WHERE reason IS NULL
    UNION ALL SELECT predicate, object, NULL FROM inverse_claims
    {predicates}
)
GROUP BY entity
"""
_UNITS = """
SELECT name AS text FROM used
UNION ALL SELECT text FROM judged WHERE reason IS NULL AND text IS NOT NULL
UNION ALL SELECT text FROM described
UNION ALL SELECT predicate FROM described
UNION ALL SELECT subject FROM ready
UNION ALL SELECT predicate FROM ready
UNION ALL SELECT object FROM ready
UNION ALL SELECT predicate FROM ready_inverse
UNION ALL SELECT name FROM aliased
UNION ALL SELECT '{alias_of}' FROM aliased
{units}
"""
_ENTITY_UNITS = "SELECT entity, unit FROM used JOIN units ON used.name = units.text"
_CLAIM_FACTS = """
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
    SELECT * FROM ready_facts
)
"""
_DESCRIPTION_FACTS = """
SELECT e.unit AS subject, p.unit AS predicate, t.unit AS object, d.entity, d.predicate AS predicate_text
FROM described d JOIN entity_units e USING (entity) JOIN units t USING (text) JOIN units p ON p.text = d.predicate
ANTI JOIN claim_facts c ON c.subject = e.unit AND c.predicate = p.unit AND c.object = t.unit
"""
_INVERSE_FACTS = """
SELECT i.* FROM (
    SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object
    FROM inverse_claims c
    JOIN entity_units s ON c.subject = s.entity
    JOIN entity_units p ON c.predicate = p.entity
    JOIN entity_units o ON c.object = o.entity
    UNION
    SELECT * FROM ready_inverse_facts
) i
ANTI JOIN claim_facts USING (subject, predicate, object)
ANTI JOIN description_facts USING (subject, predicate, object)
ANTI JOIN alias_facts USING (subject, predicate, object)
"""
_FACTS = """
SELECT subject, predicate, object FROM claim_facts
UNION ALL SELECT subject, predicate, object FROM description_facts
UNION ALL SELECT subject, predicate, object FROM alias_facts
UNION ALL SELECT subject, predicate, object FROM inverse_facts
"""
# By names: a ready-made fact, or one that is derived, counts like a claim.
_HUBS = """
SELECT h.object, h.predicate, h.inverse, count(*) AS subjects
FROM plain_facts f JOIN units o ON f.object = o.unit JOIN units p ON f.predicate = p.unit
JOIN hub_names h ON h.object = o.text AND h.predicate = p.text
GROUP BY ALL
"""
_WITHIN = {
    "within": """
SELECT entity FROM (SELECT subject AS entity FROM judged WHERE reason IS NULL UNION SELECT entity FROM described)
ORDER BY is_property(entity), entity LIMIT {limit}
""",
    "judged": """
SELECT subject, property, object, text, kind, is_cut, {more}
    CASE WHEN reason IS NULL AND w.entity IS NULL THEN '{beyond}' ELSE reason END AS reason
FROM judged LEFT JOIN within w ON subject = w.entity
""",
    "described": "SELECT d.* FROM described d SEMI JOIN within w ON d.entity = w.entity",
}
_CHOSEN_ROWS = {"judged": _JUDGED, "described": _DESCRIBED}
_WITHOUT_STATEMENTS = {
    **{"text": "c.text", "more": "", "reasons": "", "join": "", "claims": "claims"},
    **dict.fromkeys(("used", "predicates", "units"), ""),
}
_WITH_STATEMENTS = {
    **{"text": statements.TEXT, "more": "c.statement,", "reasons": statements.REASONS, "join": statements.JOIN},
    **{"claims": "claims", "used": statements.USED, "predicates": statements.PREDICATES, "units": statements.UNITS},
}
"""What the queries have in their places, without and with statements that are given in full."""
_IN_FACTS = {"used": _USED, "predicates": _PREDICATES}
_FACTS_OF_KINDS = {
    "entity_units": _ENTITY_UNITS,
    "claim_facts": _CLAIM_FACTS,
    "description_facts": _DESCRIPTION_FACTS,
    "alias_facts": ALIAS_FACTS,
    "inverse_facts": _INVERSE_FACTS,
}
_AFTER_FACTS = {"hubs_with_counts": _HUBS}
STEPS = 2 + inverse.STEPS + sum(map(len, (_CHOSEN_ROWS, _IN_FACTS, _FACTS_OF_KINDS, _AFTER_FACTS)))


def account_for(
    database: Tables,
    selection: Selection,
    inverted: InverseCounts,
    ready_dropped: int,
    *,
    is_graph: bool,
    is_stated: bool,
) -> Report:
    """Return the account of all tables of `refactx.ingest.knowledge.joins`, without that of the lines of the sources.

    `ready_dropped`: how many ready-made lines were beyond the limit on subjects; no table has them.
    """
    count = database.number
    dropped = _counted(database, "SELECT reason, count(*) FROM judged WHERE reason IS NOT NULL GROUP BY reason")
    dropped[BEYOND] += ready_dropped
    claims = count("SELECT count(*) FROM claim_facts")
    kept_claims, stated = claims, 0
    if is_stated:
        kept_claims, stated = statements.account_for_statements(database, dropped, claims)
    else:
        staged = count("SELECT count(*) FROM judged WHERE reason IS NULL") + count("SELECT count(*) FROM ready")
        dropped["duplicate"] += staged - claims
    kept_descriptions = _add_descriptions(database, selection, dropped)
    aliases, of_properties = _add_aliases(database, dropped), _property_aliases(database, selection, dropped)
    other_names = sum(map(len, of_properties.values()))
    names = _add_names(database, selection, dropped, _NOT_MADE if is_graph else "")
    cut = sum(count(f"SELECT count(*) FROM {table} WHERE is_cut") for table in ("aliased", "described", "used"))
    cut += count("SELECT count(*) FROM judged WHERE reason IS NULL AND is_cut")
    derived = count("SELECT count(*) FROM inverse_facts")
    of_places = dict(database.rows(_NAMES_BY_LANGUAGE.format(wanted=bool(selection.aliases))))
    by_language = {code: of_places.get(at, 0) for at, code in enumerate(selection.languages) if code != "mul"}
    nameless = [code for code, named in by_language.items() if not named and any(by_language.values())]
    not_inverted = {"hub": inverted.hubs, "already a fact": inverted.pairs - inverted.hubs - derived}
    by_rule = {rule: count(f"SELECT count(*) FROM used WHERE {condition}") for rule, condition in _RULES.items()}
    descriptions = count("SELECT count(*) FROM description_facts")
    return Report(
        facts=claims + aliases + descriptions + derived + stated,
        claims=claims + aliases,
        descriptions=descriptions,
        derived=derived,
        aliases=aliases,
        lines_read=0,
        statements=stated,
        kept=kept_claims + kept_descriptions + aliases + other_names + names,
        dropped=dropped,
        cut=cut,
        entities=count("SELECT count(*) FROM used WHERE entity > 0"),
        names={rule: made for rule, made in by_rule.items() if made},
        not_inverted=not_inverted if selection.inverse else {},
        hubs=count("SELECT count(*) FROM hubs_with_counts"),
        inverse_properties=dict(database.rows(_INVERSE_PROPERTIES)) if selection.inverse else {},
        property_aliases=of_properties,
        units=statements.units_by_label(database) if is_stated else {},
        names_by_language=by_language if any(by_language.values()) else {},
        notes=(*inverted.notes, *([_NO_NAME.format(", ".join(nameless))] if nameless else ())),
        ready_inverses=dict(inverted.ready),
    )


def _property_aliases(database: Tables, selection: Selection, dropped: Counter[str]) -> dict[str, list[str]]:
    """Return the other names of predicates, which count no more as dropped."""
    found: dict[str, list[str]] = {}
    for name, text, is_label in database.rows(_PROPERTY_ALIASES.format(wanted=bool(selection.aliases))):
        found.setdefault(name, []).append(text)
        dropped["duplicate" if is_label else "unused name"] -= 1
    return found


def _add_descriptions(database: Tables, selection: Selection, dropped: Counter[str]) -> int:
    """Add the descriptions that were dropped, and return how many were kept."""
    query = _ACCOUNT_DESCRIPTIONS.format(
        description=DESCRIPTIONS[0],
        descriptions=selection.descriptions,
        dropped=DESCRIPTION_UNWANTED,
        beyond=BEYOND,
        **_BY_LABEL,
    )
    fates = _counted(database, query)
    kept = fates.pop("kept", 0)
    dropped.update(fates)
    stated = database.number(f"SELECT count(*) FROM terms WHERE kind IN ({DESCRIPTION}, {SHORT_DESCRIPTION})")
    dropped["duplicate"] += stated - database.number("SELECT count(*) FROM descriptions")
    return kept


def _add_aliases(database: Tables, dropped: Counter[str]) -> int:
    """Add the aliases that were dropped, and return how many are facts."""
    aliases = database.number("SELECT count(*) FROM alias_facts")
    dropped.update(_counted(database, _ALIASES))
    # Their lines are counted as labels that name nothing; those of other labels than the chosen one, as duplicates.
    of_titled = database.number("SELECT count(*) FROM alias_facts WHERE of_label")
    dropped["duplicate"] -= aliases - of_titled
    dropped["unused name"] -= of_titled
    return aliases


def _add_names(database: Tables, selection: Selection, dropped: Counter[str], given: str) -> int:
    """Add the labels and titles that were dropped, and return how many are in use. `given`: a condition of the entities
    whose labels have a line."""
    labels = "SELECT count(*) FROM used WHERE rule IN ({by_both}, {by_label}) {given}"
    if selection.inverse and not given:
        labels = _USED_LABELS
    names = 0
    for kind, column, query in (
        (LABEL, "label", labels.format(**_BY_LABEL, given=given)),
        (TITLE, "title", f"SELECT count(*) FROM used WHERE rule = {BY_TITLE}"),
    ):
        of_kind = database.number(f"SELECT count({column}) FROM chosen WHERE true {given}")
        in_use = database.number(query)
        dropped["duplicate"] += database.number(f"SELECT count(*) FROM terms WHERE kind = {kind}") - of_kind
        dropped["unused name"] += of_kind - in_use
        names += in_use
    return names


def _counted(database: Tables, query: str) -> Counter[str]:
    return Counter(dict(database.rows(query)))


def join_facts(
    database: Tables,
    selection: Selection,
    step: Callable[[], object] = lambda: None,
    *,
    is_graph: bool = False,
    is_stated: bool = False,
) -> Report:
    """Make the tables `used`, `predicates`, `units`, `hubs_with_counts` and the view `facts`; return the account.

    Calls `step` after each of `STEPS`. `is_graph`: some entities are not Wikidata's. `is_stated`: statements are given in full
    (`refactx.ingest.knowledge.statements.state_claims`).
    """

    def run(tables: Mapping[str, str]) -> None:
        for name, query in tables.items():
            database.table(name, query.format(**values))
            step()

    values = {"limit": MAX_PART_CHARACTERS, "descriptions": selection.descriptions, "alias_of": ALIAS_OF}
    values |= _WITH_STATEMENTS if is_stated else _WITHOUT_STATEMENTS
    values |= {"kinds": " ".join(f"WHEN {at} THEN '{kind}'" for at, kind in enumerate(VALUE_KINDS))}
    database.table("unwanted", _unwanted(selection, is_graph))
    database.view("descriptions", _DESCRIPTIONS.format(description=DESCRIPTIONS[0], short_description=DESCRIPTIONS[1]))
    _follow_redirects(database)
    step()
    if is_stated:
        statements.label_units(database)
        database.table("judged_others", _JUDGED.format(**{**values, "claims": "other_claims"}))
    run(_CHOSEN_ROWS)
    ready = 0 if selection.limit is None else _limit_subjects(database, selection.limit, is_stated=is_stated)
    if is_stated:
        statements.join_qualifiers(database, MAX_PART_CHARACTERS, selection.keep_external_ids)
    inverted = invert_claims(database, selection, step)
    choose_aliases(database, selection, BY_TITLE)
    run(_IN_FACTS)
    database.numbered("units", _UNITS.format(**values), "unit")
    step()
    for table in ("ready", "ready_inverse"):
        join_units(database, f"{table}_facts", table)
    run(_FACTS_OF_KINDS)
    database.view("plain_facts", _FACTS)
    if is_stated:
        statements.make_statement_facts(database)
    database.view("facts", statements.FACTS if is_stated else "SELECT * FROM plain_facts")
    run(_AFTER_FACTS)
    return account_for(database, selection, inverted, ready, is_graph=is_graph, is_stated=is_stated)


def _unwanted(selection: Selection, is_graph: bool) -> str:
    """Return the query of properties whose claims are dropped, by datatype or since only names of inverses need them.

    A path through blank nodes is wanted if its first property is.
    """
    dropped = f"""
        SELECT property, min(reason) AS reason FROM left_out
        WHERE reason <> 'external identifier' OR NOT {selection.keep_external_ids} GROUP BY property"""
    if selection.properties is None:
        return dropped
    wanted = ", ".join("'" + property_.replace("'", "''") + "'" for property_ in sorted(selection.properties))
    path = f"(SELECT entity FROM path_steps WHERE place = 1 AND entity_id(step) IN ({wanted}))" if is_graph else "(-1)"
    return f"""
        SELECT property, min(reason) AS reason FROM (
            {dropped} UNION ALL SELECT c.property, 'other property' FROM claims c
            ANTI JOIN ({dropped}) d ON c.property = d.property
            WHERE entity_id(c.property) NOT IN ({wanted}) AND c.property NOT IN {path}
        ) GROUP BY property"""


def _follow_redirects(database: Tables) -> None:
    """Make the table `redirected`: entities that were merged, and the entity with a name that each is now."""
    database.table("redirected", _REDIRECTED)
    steps = 1
    while steps < _STEPS_OF_REDIRECTS:
        database.table("redirected", _TWICE_AS_FAR)
        steps *= 2
    database.table("redirected", _TO_NAMED)


def _limit_subjects(database: Tables, limit: int, *, is_stated: bool) -> int:
    """Keep only the first `limit` subjects: items by number, then properties, then ready-made ones by name.

    Returns how many ready-made lines that drops.
    """
    more = "statement," if is_stated else ""
    for name, query in _WITHIN.items():
        database.table(name, query.format(limit=limit, beyond=BEYOND, more=more))
    if is_stated:
        others = _WITHIN["judged"].replace("FROM judged", "FROM judged_others")
        database.table("judged_others", others.format(beyond=BEYOND, more=more))
    rest = limit - database.number("SELECT count(*) FROM within")
    ready = database.number("SELECT count(*) FROM ready")
    database.table("ready_within", f"SELECT DISTINCT subject FROM ready ORDER BY subject LIMIT {rest}")
    database.table("ready_kept", "SELECT r.* FROM ready r SEMI JOIN ready_within w ON r.subject = w.subject")
    database.view("ready", "SELECT * FROM ready_kept")
    if is_stated:
        kept = "SELECT r.* FROM ready_statements r SEMI JOIN ready_within w ON r.subject = w.subject"
        left_out = database.number("SELECT count(*) FROM ready_statements")
        database.table("ready_statements_kept", kept)
        database.view("ready_statements", "SELECT * FROM ready_statements_kept")
        ready += left_out - database.number("SELECT count(*) FROM ready_statements")
    return ready - database.number("SELECT count(*) FROM ready")
