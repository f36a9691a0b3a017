"""Random SPARQL 1.1 as pieces, of which the ids are known, and made-up names for ids."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hypothesis import strategies as st

from refactx.iris import ID
from refactx.sparql.placeholders.text import Placeholder

WIKIDATA = "http://www.wikidata.org/"
OF_PROPERTIES = {
    "wdt": "direct", "wdtn": "direct-normalized", "wdno": "novalue", "p": "", "ps": "statement", "psv": "statement/value",
    "psn": "statement/value-normalized", "pq": "qualifier", "pqv": "qualifier/value", "pqn": "qualifier/value-normalized",
    "pr": "reference", "prv": "reference/value", "prn": "reference/value-normalized",
}  # fmt: skip
KNOWN = " PREFIX wd: <http://www.wikidata.org/entity/>"
DECLARED = (
    "PREFIX e: <http://www.wikidata.org/entity/> prefix d.x-y: <http://www.wikidata.org/prop/direct/>\n"
    "BASE <http://www.wikidata.org/> PREFIX : <entity/>" + KNOWN
)
IRIS = ("<http://example.org/Q5>", "<http://example.org/entity1>")
"""What another graph has: ids too, but not Wikidata's."""
OTHERS = [
    *(
        "?Q5",
        "?entity1",
        "$relation1",
        "rdfs:label",
        "xsd:date",
        *IRIS,
    ),
    *("wds:Q5-0A", "wikibase:rank", "schema:Q5", "[]", "_:Q5", "5", "-1.5", "true", '"wd:Q5"', "'wdt:P31'@en-GB"),
    *('"<http://www.wikidata.org/entity/Q5>"^^xsd:anyURI', '"entity1 = [ENT] A [/ENT]"', "'starturi A enduri'", '""'),
    *(
        "'''it's wd:Q5 # \"\n entity1'''",
        '"""a "wd:Q5" \\""""',
        "'\\'wd:Q5'",
        "e:",
        "<http://www.wikidata.org/entity/>",
    ),
]
SPACES = [" ", "\n", "\t \r\n", " # wd:Q5, it's \" starturi A enduri entity1 = [ENT]\n"]


class Id(NamedTuple):
    """An id of a query, with what its URI has before and after it."""

    before: str
    id: str
    after: str = ""


Pieces = list[str | Id]

ENTITY_IDS = [*(f"Q{number}" for number in (1, 2, 5, 42, 1588)), "L7", "L7-F2"]
PROPERTY_IDS = [f"P{number}" for number in (1, 2, 31, 279, 1588)]
_AS_ENTITY = st.sampled_from([("wd:", ""), ("e:", ""), (":", ""), (f"<{WIKIDATA}entity/", ">"), ("<entity/", ">")])
_AS_PROPERTY = st.sampled_from(
    [
        *((f"{prefix}:", "") for prefix in OF_PROPERTIES),
        *((f"<{WIKIDATA}prop/{path}/".replace("prop//", "prop/"), ">") for path in OF_PROPERTIES.values()),
        ("d.x-y:", ""),
    ]
)


def _uri(ids: Sequence[str], ways: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[Pieces]:
    return st.builds(lambda id_, way: [Id(way[0], id_, way[1])], st.sampled_from(ids), ways)


ENTITIES = _uri(ENTITY_IDS, _AS_ENTITY)
PROPERTIES = _uri(PROPERTY_IDS, _AS_PROPERTY)
PROPERTIES_AS_ENTITIES = _uri(PROPERTY_IDS, _AS_ENTITY)
VARIABLES = st.sampled_from([["?x"], ["?Item"], ["?itemLabel"], ["$y"]])


def written(pieces: Iterable[str | Id], rename: Callable[[str], str] = str) -> str:
    """Pieces as text, with other names for the ids."""
    return "".join(
        piece if isinstance(piece, str) else piece.before + rename(piece.id) + piece.after for piece in pieces
    )


def ids_of(pieces: Iterable[str | Id]) -> list[str]:
    """The ids of pieces in their order, each once."""
    return list(dict.fromkeys(piece.id for piece in pieces if isinstance(piece, Id)))


def placeholders_of(ids: Iterable[str]) -> dict[str, str]:
    """The placeholders of ids in their order: those of entities and those of relations are counted from 1."""
    kinds = [("relation" if id_[0] == "P" else "entity", id_) for id_ in ids]
    return {id_: f"{kind}{[k for k, _ in kinds[: at + 1]].count(kind)}" for at, (kind, id_) in enumerate(kinds)}


@st.composite
def queries(draw: st.DrawFn, *, properties_as_entities: bool = True) -> Pieces:
    """A query. `properties_as_entities`: also with `wd:P31`."""
    return _Writing(draw, properties_as_entities).query()


class _Writing:
    """A query that is drawn."""

    def __init__(self, draw: st.DrawFn, properties_as_entities: bool) -> None:
        self._draw, self._pieces = draw, list[str | Id]()
        others = [PROPERTIES_AS_ENTITIES] if properties_as_entities else []
        self._terms = st.one_of(VARIABLES, ENTITIES, *others)

    def query(self) -> Pieces:
        self._put(DECLARED if self._one_of(True, False) else DECLARED.removesuffix(KNOWN))
        self._put(
            self._one_of("SELECT DISTINCT ?x WHERE", "select *", "ASK", "Select (Count(*) As ?n) Where", "DESCRIBE ?x")
        )
        self._group(0)
        self._put(self._one_of("", "ORDER BY DESC(?x) LIMIT 3", "OFFSET 1"))
        return self._pieces

    def _one_of(self, *values: Any) -> Any:
        return self._draw(st.sampled_from(values))

    def _put(self, *parts: str | st.SearchStrategy[Pieces]) -> None:
        """Write parts, each with white space or a comment after it."""
        for part in parts:
            self._pieces.extend([part] if isinstance(part, str) else self._draw(part))
            self._pieces.append(self._one_of(*SPACES))

    def _group(self, depth: int) -> None:
        self._put("{")
        for _ in range(self._one_of(1, 1, 2, 3)):
            self._pattern(depth)
        self._put("}")

    def _pattern(self, depth: int) -> None:
        match self._one_of(
            "triples", "triples", "filter", "in", "values", "bind", "label", "service", "group", "union", "select"
        ):
            case "filter":
                self._put("FILTER(", VARIABLES, self._one_of("<", ">", "!=", "=", "<="), self._terms, "&&")
                self._put("CONTAINS( LCASE(STR(?x)), ", self._one_of("'Wd:Q5'", '"A"'), "))")
            case "in":
                self._put("FILTER(?x NOT IN (", ENTITIES, ",", ENTITIES, "))")
            case "values":
                self._put("VALUES ?x {", ENTITIES, "UNDEF", ENTITIES, "}")
            case "bind":
                self._put("BIND(", st.one_of(ENTITIES, PROPERTIES), "AS ?z )")
            case "label":
                self._put('SERVICE wikibase:label { bd:serviceParam wikibase:language "en,mul" . }')
            case "service":
                self._put("SERVICE <http://a.b/Q5> {")
                self._triples()
                self._put("}")
            case "group" if depth < 2:
                self._put(self._one_of("OPTIONAL", "MINUS", "FILTER NOT EXISTS", "GRAPH ?g", "SERVICE SILENT ?g"))
                self._group(depth + 1)
            case "union" if depth < 2:
                self._group(depth + 1)
                self._put("UNION")
                self._group(depth + 1)
            case "select" if depth < 2:
                self._put("{", "SELECT ?x (COUNT(DISTINCT ?y) AS ?n) WHERE")
                self._group(depth + 1)
                self._put("GROUP BY ?x HAVING(COUNT(?y) > 1)", "}")
            case _:
                self._triples()

    def _triples(self) -> None:
        self._put(self._terms)
        self._path(0)
        self._put(st.one_of(self._terms, st.sampled_from(OTHERS).map(lambda other: [other])))
        if self._one_of(True, False):
            self._put(";")
            self._path(0)
            self._put(self._terms, ",", ENTITIES)
        self._put(".")

    def _path(self, depth: int) -> None:
        match self._one_of("one", "one", "one", "a", "variable", "inverse", "repeated", "set", "/", "|"):
            case "variable" if depth == 0:
                self._put("?p")
            case "a":
                self._put("a")
            case "repeated":
                self._put(PROPERTIES, self._one_of("*", "+"))
            case "set":
                self._put("!(", PROPERTIES, "|", PROPERTIES, ")")
            case "inverse":
                self._put("^", PROPERTIES)
            case "/" | "|" as sign if depth < 2:
                self._put("(")
                self._path(depth + 1)
                self._put(sign)
                self._path(depth + 1)
                self._put(")")
            case _:
                self._put(PROPERTIES)


class MadeNames:
    """Made-up names and a resolver by them. `names`: those of some ids; others of Wikidata are called `Name of Q42`."""

    def __init__(self, names: Mapping[str, Placeholder] = MappingProxyType({})) -> None:
        self._names = names

    def mention(self, id_: str) -> Placeholder:
        kind = "relation" if id_[0] == "P" else "entity"
        return self._names.get(id_) or Placeholder(kind, f"Name of {id_}", f"what {id_} Is" if id_[-1] != "2" else "")

    def mentions(self, ids: Sequence[str]) -> dict[str, Placeholder]:
        return {id_: self.mention(id_) for id_ in ids if id_ in self._names or ID.fullmatch(id_)}

    def resolve(self, mentions: Sequence[Placeholder]) -> list[str]:
        known = {self.mention(id_).label.lower(): id_ for id_ in (*self._names, *ENTITY_IDS, *PROPERTY_IDS)}
        return [known[mention.label.lower()] for mention in mentions]
