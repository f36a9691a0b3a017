"""Counts by prefix: claims that stand for ready-made facts, and the figures of an index of them, hubs included."""

from collections import Counter
from pathlib import Path

from support.ingest.tiny import ingest_tiny

from bench.queries.as_claims import claims_of
from bench.queries.counts import CountedDatabase, figures
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.ingest import Selection
from refactx.postgres.catalogue import find_index

FACTS = [
    ("Ann", "likes", "Bob"),
    ("Ann", "likes", 'a "b" \\ ‹c›'),
    ("Bé", "likes", "Bob"),
    ("Cid", "likes", "Bob"),
    ("Ann", "p", "x"),
]


def test_an_index_of_the_claims_has_the_facts_and_their_counts(db_url: str, tmp_path: Path) -> None:
    facts, claims = tmp_path / "facts.txt", tmp_path / "claims.nt"
    facts.write_text("".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in FACTS).replace("‹c›", "<c>"))
    claims.write_text("".join(claims_of(facts)))
    ingest_tiny(db_url, claims, "small", selection=Selection(inverse=True, inverse_limit=2))
    database = CountedDatabase(db_url)
    try:
        entry = find_index(database, "small")
        with Index(DatabaseSource(database, entry)) as index:
            own = [(fact.subject, fact.predicate, fact.object) for fact in index.all_facts()]
            inverse = [(o, "likes (inverse)", s) for s, p, o in FACTS if p == "likes" and o != "Bob"]
            assert sorted(own) == sorted([*FACTS, *inverse, ("x", "p of", "Ann")])
            found = figures(database, lambda: Index(DatabaseSource(database, entry), tokenizer=index.tokenizer), own)
    finally:
        database.close()
    per_prefix = Counter((subject, predicate) for subject, predicate, _ in own)
    assert found["count, prefixes of facts, number of prefixes"] == len(per_prefix)
    assert found["count, prefixes of facts, most facts"] == max(per_prefix.values())
    assert found["count, hubs, number of prefixes"] == 1
    assert found["count, hubs, most facts"] == 3
    assert 1 <= found["count, hubs, cold, round trips, max"] <= 4
