"""Statements with qualifiers: facts whose object is followed by pairs of a qualifier and its value.

| table | rows |
|---|---|
| `stated` | `statement, subject, property BIGINT, rank UTINYINT, is_best BOOLEAN`: each statement once |
| `values_of` | the rows of `snaks`, those that are a `value` of several triples with its text and unit |
| `claims` | the staged claims that no statement replaces, and the values of statements of the best rank |
| `other_claims` | the values of all other statements |
| `judged_others` | `other_claims`, as `judged` (`refactx.ingest.knowledge.joins`) has the claims |
| `pairs_of` | `statement, property, object, text, kind, is_cut, reason, name, written, place`: qualifiers |
| `tails` | `statement BIGINT, tail VARCHAR`: the pairs after an object, joined as parts are |
| `statement_facts` | `subject, predicate, object, tail INTEGER` (units), distinct |

`REFERENCE_ROWS` are rows as those of labels: the addresses of references of the statements of a fact, by its number.

A tail is a unit as a part is: ` <start time> <1990> <end time> <1994>` without its ends. So a fact is three units or four.

Lines of ready-made facts may have qualifiers too (`ready_statements`): then the line is the fact, as it stands.

Those of tables and graphs (`refactx.ingest.parsers.parsed.statement_rows`) are of one rank, no line says that there is a
statement, and plain claims stay beside them.

The best rank of a subject's statements with a property is that of the preferred ones, or else of the normal ones; their
facts are those of a truthy dump. A statement of another rank has no fact without its qualifiers, a deprecated one none.
"""

from collections import Counter

import pyarrow as pa

from refactx.entity_ids import FIRST_OTHER
from refactx.index.names import REFERENCES
from refactx.ingest.knowledge.units import join_units
from refactx.ingest.parsers.parsed import AMOUNT, DEPRECATED, OF_NO_FACT, PRECISION, QUOTED, TIME, UNIT
from refactx.ingest.parsers.values import VALUE_KINDS, format_time
from refactx.ingest.qualifiers import MOST, order_of, places_of_names
from refactx.ingest.source_options import Selection
from refactx.ingest.work import Tables

NOT_BEST, NOT_ASSERTED, INCOMPLETE = "not of best rank", "not asserted", "incomplete statement"
UNREADABLE = "unknown datatype value"
_BATCH = 65_536
_STATED = f"""
SELECT statement, subject, property, rank, rank > {QUOTED} AND rank = max(rank) OVER (PARTITION BY subject, property)
    AS is_best
FROM (
    SELECT statement, min(subject) AS subject, min(property) AS property, min(rank) AS rank
    FROM statements JOIN ranks USING (statement) GROUP BY statement
)
"""
# A time is one value of RDF for each precision, however often it is written.
_TIMES = f"""
SELECT DISTINCT t.text, p.text AS precision FROM value_nodes t JOIN value_nodes p USING (value)
WHERE t.field = {TIME} AND p.field = {PRECISION}
"""
_WRITTEN = pa.schema({"raw": pa.string(), "precision": pa.string(), "text": pa.string()})
_NODES = f"""
SELECT t.value, w.text, {VALUE_KINDS.index("time")} AS kind, CAST(NULL AS BIGINT) AS unit
FROM value_nodes t JOIN value_nodes p USING (value) JOIN written_times w ON w.raw = t.text AND w.precision = p.text
WHERE t.field = {TIME} AND p.field = {PRECISION}
UNION
SELECT a.value, a.text, {VALUE_KINDS.index("quantity")}, u.entity
FROM value_nodes a LEFT JOIN (SELECT * FROM value_nodes WHERE field = {UNIT}) u USING (value) WHERE a.field = {AMOUNT}
"""
_VALUES = """
WITH full_values AS (
    SELECT DISTINCT s.statement, s.property, s.is_main, CAST(NULL AS BIGINT) AS object, n.text, n.kind, n.unit
    FROM snaks s JOIN nodes n USING (value)
)
SELECT * FROM full_values
UNION ALL
SELECT s.statement, s.property, s.is_main, s.object, s.text, s.kind, s.unit FROM snaks s
ANTI JOIN full_values f ON s.statement = f.statement AND s.property = f.property AND s.is_main = f.is_main
WHERE s.value IS NULL
"""
_MAIN = """
SELECT t.subject, t.property, v.object, v.text, v.kind, v.unit, t.statement, t.rank
FROM stated t JOIN values_of v ON v.statement = t.statement AND v.property = t.property AND v.is_main WHERE {which}
"""
_CLAIMS = """
SELECT c.*, CAST(NULL AS BIGINT) AS unit, CAST(NULL AS BIGINT) AS statement, CAST(NULL AS UTINYINT) AS rank
FROM staged_claims c ANTI JOIN (SELECT DISTINCT subject, property FROM stated WHERE property < {first_other}) s
USING (subject, property)
UNION ALL
"""
_UNIT_LABELS = """
SELECT unit AS entity, coalesce(c.label, regexp_replace(k.name, ' [(][^()]*[)]$', '')) AS label
FROM (SELECT DISTINCT unit FROM values_of WHERE unit IS NOT NULL)
LEFT JOIN chosen c ON unit = c.entity LEFT JOIN known k ON unit = k.entity
"""
_UNITS_BY_LABEL = """
SELECT label, entity_id(min(entity)) FROM unit_labels
WHERE label IS NOT NULL AND entity IN (SELECT entity FROM used UNION SELECT entity FROM known)
GROUP BY label HAVING count(*) = 1 ORDER BY label
"""
_WITH_UNIT = "CASE WHEN {0}.unit IS NULL THEN {0}.text ELSE {0}.text || ' ' || w.label END"
_PAIRS = """
SELECT q.statement, q.property, coalesce(r.target, q.object) AS object, cut({text}, {{limit}}) AS text, q.kind,
    length({text}) > {{limit}} AS is_cut, p.name, coalesce(o.name, cut({text}, {{limit}})) AS written,
    coalesce(g.place, h.place, {last}) AS place, CASE
    WHEN j.statement IS NULL THEN '{of_no_fact}'
    WHEN x.property IS NOT NULL THEN x.reason
    WHEN p.entity IS NULL THEN 'property has no label'
    WHEN q.object IS NOT NULL AND o.entity IS NULL THEN 'object has no label'
    WHEN q.unit IS NOT NULL AND w.label IS NULL THEN 'unit has no label'
    WHEN q.object IS NULL AND q.text IS NULL THEN '{unreadable}'
    END AS reason
FROM values_of q
LEFT JOIN (
    SELECT statement FROM judged WHERE reason IS NULL UNION SELECT statement FROM judged_others WHERE reason IS NULL
) j ON q.statement = j.statement
LEFT JOIN left_out_qualifiers x ON q.property = x.property
LEFT JOIN redirected r ON q.object = r.entity
LEFT JOIN named p ON q.property = p.entity
LEFT JOIN named o ON coalesce(r.target, q.object) = o.entity
LEFT JOIN unit_labels w ON q.unit = w.entity
LEFT JOIN qualifier_order g ON q.property = g.property
LEFT JOIN qualifier_names h ON q.property >= {first_other} AND h.name = lower(p.name)
WHERE NOT q.is_main
"""
_DISTINCT_PAIRS = f"""
SELECT *, row_number() OVER (PARTITION BY statement ORDER BY place, name, written) <= {MOST} AS is_within FROM (
    SELECT statement, place, name, written, count(*) AS same FROM pairs_of WHERE reason IS NULL GROUP BY ALL
)
"""
_TAILS = """
SELECT statement, string_agg(name || '> <' || written, '> <' ORDER BY place, name, written) AS tail
FROM distinct_pairs WHERE is_within GROUP BY statement
"""
_STATED_ROWS = """
SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object, coalesce(t.unit, -1) AS tail, is_best, j.statement
FROM (
    SELECT statement, subject, property, object, text, true AS is_best FROM judged WHERE reason IS NULL
    UNION ALL SELECT statement, subject, property, object, text, false FROM judged_others WHERE reason IS NULL
) j
JOIN entity_units s ON j.subject = s.entity JOIN entity_units p ON j.property = p.entity
LEFT JOIN used n ON j.object = n.entity JOIN units o ON o.text = coalesce(n.name, j.text)
LEFT JOIN tails l ON j.statement = l.statement LEFT JOIN units t ON t.text = l.tail
"""
_STATEMENT_FACTS = """
SELECT subject, predicate, object, tail FROM stated_rows WHERE tail >= 0
UNION
SELECT * FROM ready_statement_facts
"""
FACTS = """
SELECT subject, predicate, object, -1 AS tail FROM plain_facts
UNION ALL SELECT subject, predicate, object, tail FROM statement_facts
"""
MOST_REFERENCES = 3
"""The most addresses that are kept of a fact: further ones are left out."""
# Of a reference those of the best kind that it has. The facts are few whose numbers are the same: these have none.
REFERENCE_ROWS = f"""
SELECT '{REFERENCES}' AS language, entity, min(addresses) AS label FROM (
    SELECT fact_number('<' || concat_ws('> <', s.text, p.text, o.text, t.text) || '>') AS entity, addresses FROM (
        SELECT subject, predicate, object, tail, string_agg(url, ' ' ORDER BY nth) AS addresses FROM (
            SELECT subject, predicate, object, tail, url,
                row_number() OVER (PARTITION BY subject, predicate, object, tail ORDER BY min(place), url) AS nth
            FROM (
                SELECT subject, predicate, object, -1 AS tail, statement FROM stated_rows WHERE is_best
                UNION ALL SELECT subject, predicate, object, tail, statement FROM stated_rows WHERE tail >= 0
            )
            JOIN referred USING (statement) JOIN reference_urls USING (reference)
            JOIN (SELECT reference, min(place) AS place FROM reference_urls GROUP BY reference) USING (reference, place)
            GROUP BY subject, predicate, object, tail, url
        ) WHERE nth <= {MOST_REFERENCES} GROUP BY subject, predicate, object, tail
    )
    JOIN units s ON subject = s.unit JOIN units p ON predicate = p.unit JOIN units o ON object = o.unit
    LEFT JOIN units t ON tail = t.unit
) GROUP BY entity HAVING count(*) = 1
"""
UNITS = """
    UNION ALL SELECT tail FROM tails
    UNION ALL SELECT text FROM judged_others WHERE reason IS NULL AND text IS NOT NULL
    UNION ALL SELECT subject FROM ready_statements
    UNION ALL SELECT predicate FROM ready_statements
    UNION ALL SELECT object FROM ready_statements
    UNION ALL SELECT tail FROM ready_statements
"""
USED = """
    UNION SELECT subject FROM judged_others WHERE reason IS NULL
    UNION SELECT property FROM judged_others WHERE reason IS NULL
    UNION SELECT object FROM judged_others WHERE reason IS NULL AND object IS NOT NULL
    UNION SELECT property FROM pairs_of WHERE reason IS NULL
    UNION SELECT object FROM pairs_of WHERE reason IS NULL AND object IS NOT NULL
    UNION SELECT entity FROM unit_labels WHERE label IS NOT NULL
"""
PREDICATES = """
    UNION ALL SELECT property, object, kind FROM judged_others WHERE reason IS NULL
    UNION ALL SELECT property, object, kind FROM pairs_of WHERE reason IS NULL
"""
"""What statements add to the queries of units, of what is used and of predicates."""
TEXT = _WITH_UNIT.format("c")
REASONS = f"""
    WHEN c.rank = {DEPRECATED} THEN 'deprecated'
    WHEN c.unit IS NOT NULL AND w.label IS NULL THEN 'unit has no label'
    WHEN c.object IS NULL AND c.text IS NULL THEN '{UNREADABLE}'
"""
JOIN = "LEFT JOIN unit_labels w ON c.unit = w.entity"
"""What they add to the query of judged claims."""


def state_claims(database: Tables, selection: Selection) -> bool:
    """Make `stated`, `values_of` and `other_claims`, and replace `claims`, if statements are given in full; return whether
    they are."""
    is_given = selection.qualifiers != () and database.has_rows("statements")
    if not is_given and not database.has_rows("ready_statements"):
        return False
    database.table("stated", _STATED)
    database.table_of("written_times", _WRITTEN.empty_table())
    for batch in database.batches(_TIMES, _BATCH):
        raws, precisions = batch["text"].to_pylist(), batch["precision"].to_pylist()
        texts = [_written(raw, precision) for raw, precision in zip(raws, precisions, strict=True)]
        database.insert("written_times", pa.table([raws, precisions, texts], schema=_WRITTEN))
    database.table("nodes", _NODES)
    database.table("values_of", _VALUES)
    database.table("staged_claims", "SELECT * FROM claims")
    database.view("claims", _CLAIMS.format(first_other=FIRST_OTHER) + _MAIN.format(which="t.is_best"))
    database.view("other_claims", _MAIN.format(which="NOT t.is_best"))
    database.drop("written_times", "nodes")
    return True


def _written(raw: str, precision: str) -> str | None:
    return format_time(raw, int(precision)) if precision.isdecimal() and len(precision) < 3 else None


def label_units(database: Tables) -> None:
    """Make `unit_labels`: units are called by their labels alone."""
    database.table("unit_labels", _UNIT_LABELS)


def units_by_label(database: Tables) -> dict[str, str]:
    """Return the ids of the units that the index names, by their labels, without units of one label."""
    return dict(database.rows(_UNITS_BY_LABEL))


def join_qualifiers(database: Tables, limit: int, keeps_external_ids: bool) -> None:
    """Make `pairs_of` and `tails` from the judged claims."""
    order = order_of()
    properties = pa.array([2 * int(one[1:]) + 1 for one in order], pa.int64())
    database.table_of(
        "qualifier_order", pa.table({"property": properties, "place": pa.array(order.values(), pa.int64())})
    )
    database.table(
        "left_out_qualifiers",
        "SELECT property, min(reason) AS reason FROM left_out"
        f" WHERE reason <> 'external identifier' OR NOT {keeps_external_ids} GROUP BY property",
    )
    names = places_of_names()
    database.table_of("qualifier_names", pa.table({"name": list(names), "place": pa.array(names.values(), pa.int64())}))
    values = {"text": _WITH_UNIT.format("q"), "last": len(order), "first_other": FIRST_OTHER}
    query = _PAIRS.format(**values, of_no_fact=OF_NO_FACT, unreadable=UNREADABLE)
    database.table("pairs_of", query.format(limit=limit))
    database.table("distinct_pairs", _DISTINCT_PAIRS)
    database.table("tails", _TAILS)


def make_statement_facts(database: Tables) -> None:
    """Make `stated_rows` and `statement_facts` from units."""
    database.table("stated_rows", _STATED_ROWS)
    join_units(database, "ready_statement_facts", "ready_statements", has_tails=True)
    database.table("statement_facts", _STATEMENT_FACTS)


def account_for_statements(database: Tables, dropped: Counter[str], claims: int) -> tuple[int, int]:
    """Count in `dropped` the lines of claims and qualifiers that are in no fact; return how many are in one, and how many
    facts have qualifiers. `claims`: how many facts have none, those of ready-made lines among them."""
    count = database.number
    for table in ("judged_others", "pairs_of"):
        dropped.update(
            dict(database.rows(f"SELECT reason, count(*) FROM {table} WHERE reason IS NOT NULL GROUP BY reason"))
        )
    dropped["structure"] += count(f"SELECT count(*) FROM statements WHERE property < {FIRST_OTHER}")
    dropped["duplicate"] += count(
        f"SELECT count(*) FROM staged_claims SEMI JOIN stated USING (subject, property) WHERE property < {FIRST_OTHER}"
    )
    dropped[INCOMPLETE] += count(
        "SELECT count(*) FROM values_of v ANTI JOIN stated t ON v.statement = t.statement AND v.property = t.property"
        " WHERE is_main"
    )
    ready = "SELECT count(*) FROM ready_statements"
    rows = count("SELECT count(*) FROM stated_rows") + count("SELECT count(*) FROM ready") + count(ready)
    bare = count("SELECT count(*) FROM stated_rows WHERE NOT is_best AND tail < 0")
    quoted = count(
        f"SELECT count(*) FROM stated_rows JOIN stated USING (statement) WHERE stated.rank = {QUOTED} AND tail < 0"
    )
    told = count(
        "SELECT count(*) FROM (SELECT DISTINCT subject, predicate, object, tail FROM stated_rows WHERE is_best OR tail >= 0)"
    )
    told += claims - count(
        "SELECT count(*) FROM (SELECT DISTINCT subject, predicate, object FROM stated_rows WHERE is_best)"
    )
    stated = count("SELECT count(*) FROM statement_facts")
    told += stated - count(
        "SELECT count(*) FROM (SELECT DISTINCT subject, predicate, object, tail FROM stated_rows WHERE tail >= 0)"
    )
    dropped[NOT_BEST] += bare - quoted
    dropped[NOT_ASSERTED] += quoted
    pairs = count("SELECT count(*) FROM pairs_of WHERE reason IS NULL")
    kept, beyond = database.rows(
        "SELECT count(*) FILTER (WHERE is_within), coalesce(sum(same) FILTER (WHERE NOT is_within), 0) FROM distinct_pairs"
    )[0]
    dropped["too many qualifiers"] += int(beyond)
    dropped["duplicate"] += rows - bare - told + pairs - kept - int(beyond)
    return told + kept, stated
