"""The numbers of parts, in the place of their texts: what the joins of facts are made of.

The table `units` has each distinct part of a fact with its number (`unit INTEGER, text VARCHAR`).
"""

from refactx.ingest.work import Tables


def join_units(database: Tables, name: str, table: str, *, has_tails: bool = False) -> None:
    """Make a table of the rows of `table`, with units in the place of their texts.

    `table`: `subject, predicate, object VARCHAR`, and with `has_tails` `tail VARCHAR`, empty for a plain fact: unit -1.

    One statement for each column that may have most of all texts: two such joins at once need twice the memory.
    """
    tail = ", tail" if has_tails else ""
    database.table(
        name,
        f"SELECT s.unit AS subject, p.unit AS predicate, r.object{tail} FROM {table} r JOIN units s ON s.text = r.subject"
        f" JOIN (SELECT unit, text FROM units WHERE text IN (SELECT predicate FROM {table})) p ON p.text = r.predicate",
    )
    database.table(
        name,
        f"SELECT subject, predicate, o.unit AS object{tail} FROM {name} r JOIN units o ON o.text = r.object",
    )
    if has_tails:
        tailed = "SELECT subject, predicate, object, coalesce(t.unit, -1) AS tail"
        database.table(name, f"{tailed} FROM {name} r LEFT JOIN units t ON t.text = r.tail")
