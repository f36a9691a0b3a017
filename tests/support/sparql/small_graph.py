"""A small graph with ids for engines: random claims about a few people and places, and queries on it."""

import random
from pathlib import Path

from refactx.ingest.source_options import Selection
from support.ingest.graph_twin import Line, written
from support.ingest.living_index import LivingIndex

ENTITIES = {"Q1": "Ann", "Q2": "Ann", "Q3": "Bob", "Q4": "Eve", "Q5": "Dan", "Q6": "Up (song)"}
DESCRIPTIONS = {"Q1": "a poet", "Q2": "a town"}
ALIASES = {"Q3": ("Bobby",), "Q4": ("Evi", "Bobby")}
LINKS = {"P1": "before", "P2": "after", "P3": "child", "P4": "spouse"}
VALUES = {
    "P5": ("size", "^^decimal", ("-1.5", "0", "7", "30")),
    "P6": ("day", "^^dateTime", ("1990-01-01T00:00:00Z", "1991-05-02T00:00:00Z")),
    "P7": ("motto", "en", ("Be", "b")),
}
EVERY: list[Line] = [("claim", s, p, o) for s in ENTITIES for p in LINKS for o in ENTITIES]
EVERY += [("literal", s, p, value, tag) for s in ENTITIES for p, (_, tag, values) in VALUES.items() for value in values]
NAMES: list[Line] = [("label", id_, name, "en") for id_, name in (ENTITIES | LINKS).items()]
NAMES += [("label", id_, name, "en") for id_, (name, *_) in VALUES.items()]
NAMES += [("description", id_, text, "en") for id_, text in DESCRIPTIONS.items()]
NAMES += [("alias", id_, text, "en") for id_, texts in ALIASES.items() for text in texts]
FIXED: list[Line] = [
    *(("claim", "Q1", "P3", child) for child in ("Q3", "Q4")),
    *(("claim", person, "P4", "Q5") for person in ("Q3", "Q4")),
    ("claim", "Q2", "P1", "Q3"),
    ("literal", "Q3", "P5", "7", "^^decimal"),
    ("literal", "Q4", "P6", "1990-01-01T00:00:00Z", "^^dateTime"),
    ("literal", "Q4", "P7", "Be", "en"),
]


def ingest_graph(
    url: str, folder: Path, claims: list[Line], name: str = "default", *, inverse: bool = True
) -> LivingIndex:
    """Ingest claims with all names, and with their inverse facts, or without."""
    path, living = folder / f"{name}.nt", LivingIndex(url, folder, name)
    path.write_text("".join(written(line) + "\n" for line in [*NAMES, *claims]))
    living.ingest_from(path, selection=Selection(inverse=inverse, aliases=True))
    return living


class Queries:
    """Random queries, most of which are walks."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def query(self) -> str:
        chance = self.chance
        patterns = " . ".join([self.pattern("?x"), *(self.pattern("?x") for _ in range(chance.choice((0, 0, 1))))])
        if chance.random() < 0.25:
            patterns += f" . {self.condition('?x')}"
        head = chance.choice(("SELECT ?x", "SELECT DISTINCT ?x", "SELECT (COUNT(DISTINCT ?x) AS ?n)", "ASK"))
        tail = ""
        if head == "SELECT DISTINCT ?x" and chance.random() < 0.2:
            patterns += f" . ?x wdt:{chance.choice(('P5', 'P6'))} ?v"
            head, tail = "SELECT ?x", f" ORDER BY {chance.choice(('?v', 'DESC(?v)'))} LIMIT 1"
        if head.startswith("SELECT (") and chance.random() < 0.5:
            head = "SELECT (COUNT(?x) AS ?n)"
        return f"{head} {{ {patterns} }}{tail}"

    def pattern(self, variable: str) -> str:
        chance, entity = self.chance, f"wd:{self.chance.choice(list(ENTITIES))}"
        if chance.random() < 0.15:
            return f"{entity} wdt:{chance.choice(list(VALUES))} {variable}"
        path = chance.choice(("{0}", "{0}", "{0}", "{0}/{1}", "^{0}", "{0}+", "{0}*", "^{0}/{1}", "{0}|{1}"))
        path = path.format(*(f"wdt:{chance.choice(list(LINKS))}" for _ in range(2)))
        return f"{entity} {path} {variable}" if chance.random() < 0.6 else f"{variable} {path} {entity}"

    def condition(self, variable: str) -> str:
        chance = self.chance
        if chance.random() < 0.4:
            return f"FILTER({variable} = wd:{chance.choice(list(ENTITIES))})"
        sign = chance.choice(("<", ">", "=", "<=", "!="))
        if chance.random() < 0.5:
            return f"{variable} wdt:P5 ?s FILTER(?s {sign} {chance.choice((0, 7, 7.5))})"
        return f'{variable} wdt:P6 ?d FILTER(?d {sign} "1990-06-01T00:00:00Z"^^xsd:dateTime)'
