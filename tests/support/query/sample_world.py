"""A small world of films, countries and a family, with questions about it and the queries that they ask."""

import math
from collections.abc import Sequence

from refactx.ask.prompt import load_prompt
from refactx.ranking.ranker import Ranker
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import QueryWords
from refactx.selection.query_answers import QueryAnswers
from refactx.selection.weights import Weights
from refactx.walks.language import read_line
from support.query.twin import Fact
from support.query.world import FakeScore, Properties, WorldIndex

PROPERTIES: Properties = {
    "instance of": ("P31", "entity", "has instance"),
    "subclass of": ("P279", "entity", "has subclass"),
    "director": ("P57", "entity", "director of"),
    "publication date": ("P577", "time", ""),
    "capital": ("P36", "entity", "capital of"),
    "continent": ("P30", "entity", "continent of"),
    "official language": ("P37", "entity", "official language of"),
    "population": ("P1082", "quantity", ""),
    "area": ("P2046", "quantity", ""),
    "nickname": ("P1449", "text", ""),
    "spouse": ("P26", "entity", "spouse of"),
    "child": ("P40", "entity", "child of"),
}
KUBRICK, PERU, CHILE = "Stanley Kubrick (film director)", "Peru (country)", "Chile (country)"
FILM, COUNTRY, KENNEDY = "film (sequence of images)", "country (state)", "John F. Kennedy (US president)"
SHORT, AMERICA = "short film (n)", "South America (continent)"
FILMS = {"Lolita": 1962, "Spartacus": 1960, "Barry Lyndon": 1975, "The Shining": 1980, "Eyes Wide Shut": 1999}
FILMS |= {"Paths of Glory": 1957, "The Killing": 1956, "Killer's Kiss": 1955}
SHORTS = {"Flying Padre": 1951, "Day of the Fight": 1950}
CLAIMS: list[Fact] = [
    *((f"{film} (film)", "director", KUBRICK) for film in (*FILMS, *SHORTS)),
    *((f"{film} (film)", "publication date", f"{year}-05-02") for film, year in (FILMS | SHORTS).items()),
    *((f"{film} (film)", "instance of", FILM) for film in FILMS),
    *((f"{film} (film)", "instance of", SHORT) for film in SHORTS),
    (SHORT, "subclass of", FILM),
    ("Jaws (film)", "instance of", FILM),
    ("Jaws (film)", "publication date", "2005-06-20"),
    *((name, "instance of", COUNTRY) for name in (PERU, CHILE, "France (country)")),
    *((name, "continent", AMERICA) for name in (PERU, CHILE)),
    ("France (country)", "continent", "Europe (continent)"),
    ("France (country)", "area", "643801"),
    ("France (country)", "official language", "French (language)"),
    (PERU, "area", "1285216"),
    (PERU, "population", "32824358"),
    (PERU, "capital", "Lima (city)"),
    *((PERU, "official language", f"{one} (language)") for one in ("Spanish", "Quechua", "Aymara")),
    (CHILE, "area", "756950"),
    (CHILE, "capital", "Santiago (city)"),
    (CHILE, "official language", "Spanish (language)"),
    *(("Louisiana (US state)", "nickname", f"State {n}") for n in range(4)),
    *((KENNEDY, "child", f"{name} Kennedy (n)") for name in ("Caroline", "Patrick")),
    (KENNEDY, "spouse", "Jackie (n)"),
    (KUBRICK, "spouse", "Christiane (n)"),
    ("Ann Lee (n)", "spouse", "Bo (n)"),
    ("JFK (alias)", "alias of", KENNEDY),
    *((name, "description", "a property") for name in PROPERTIES),
]

ASKED = {
    "How many nicknames does Louisiana have?": ("count <Louisiana (US state)> <nickname>", "4"),
    "how many people live in peru?": (f"list <{PERU}> <population>", "32824358"),
    "How many children does JFK have?": (f"count <{KENNEDY}> <child>", "2"),
    "How many films did Stanley Kubrick direct?": (f"count <{KUBRICK}> <director of>", "10"),
    "How many short films did Stanley Kubrick direct?": (
        f"count <{KUBRICK}> <director of> which <instance of> <subclass of>* <{SHORT}>",
        "2",
    ),
    "Was Ann Lee the spouse of Bo?": ("ask <Ann Lee (n)> <spouse> <Bo (n)>", "yes"),
    "Was Ann Lee married to Jackie?": ("ask <Ann Lee (n)> <spouse> <Jackie (n)>", "no"),
    "Is it true that Lima is the capital of Chile?": (f"ask <{CHILE}> <capital> <Lima (city)>", "no"),
    "Does Peru have Spanish and Quechua as official languages?": (
        f"ask <{PERU}> <official language> <Spanish (language)> and <official language> <Quechua (language)>",
        "yes",
    ),
    "Is the population of Peru over 32,000,000?": (f"ask <{PERU}> <population> over <32000000>", "yes"),
    "what is the largest country in South America?": (
        f"most <{COUNTRY}> <has instance> which <continent> <{AMERICA}> by <area>",
        "Peru",
    ),
    "What is the newest film of Stanley Kubrick?": (
        f"most <{FILM}> <has instance> which <director> <{KUBRICK}> by <publication date>",
        "Eyes Wide Shut",
    ),
    "Which country has the most official languages?": (
        f"most <{COUNTRY}> <has instance> by count <official language>",
        "Peru",
    ),
}
"""Questions with the query that each asks, and its answer."""
END = (0, 1)
WITHOUT = -20.0


def world(limit: float = math.inf) -> WorldIndex:
    return WorldIndex(CLAIMS, PROPERTIES, limit)


def words() -> QueryWords:
    found = load_prompt().words
    assert found is not None
    return found


class Script:
    """The score of a line: of one that is wanted `weight` more than without any, of others less."""

    def __init__(self, wanted: str, weight: float = 20.0) -> None:
        self._wanted, self._weight = set(_parts(wanted)), weight

    def __call__(self, line: str) -> float:
        parts = set(_parts(line))
        return WITHOUT + self._weight * len(parts & self._wanted) / len(parts | self._wanted)


def _parts(line: str) -> list[str]:
    """The names of a line without descriptions, and its words."""
    return [part.partition(" (")[0].strip() for part in line.replace(">", "<").split("<") if part.strip(" *+")]


def answers(
    index: WorldIndex,
    question: str,
    score: FakeScore,
    min_confidence: float = 4.0,
    values: int = 6,
    ranker: Ranker | None = None,
    earlier: Sequence[str] = (),
) -> QueryAnswers:
    channel = Channel(
        examples=(),
        question=(),
        lead=0,
        text=question,
        earlier=earlier,
        marker="Answer:",
        ranker=ranker,
        weights=Weights(facts_of_property=values, min_confidence=min_confidence),
    )
    sources = QuerySources(facts=index.facts, words=words(), tokens=index.folded, end=END)
    return QueryAnswers(index.machine, channel, sources, score)


assert all(read_line(line) for line, _ in ASKED.values())
