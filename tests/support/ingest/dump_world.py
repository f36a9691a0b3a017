"""A made-up Wikidata with its English Wikipedia, which `dump_generator` writes as dumps, and the truth about it.

Everything about an entity follows from the seed and its number, so that worlds of any size take no memory.
"""

import random
from dataclasses import dataclass, field

WD = "http://www.wikidata.org/entity/"
XSD = "http://www.w3.org/2001/XMLSchema#"
_WKT = "http://www.opengis.net/ont/geosparql#wktLiteral"
DATATYPES = (
    *(
        "WikibaseItem",
        "WikibaseItem",
        "WikibaseItem",
        "WikibaseProperty",
        "String",
        "Monolingualtext",
        "Quantity",
        "Time",
    ),
    *("GlobeCoordinate", "Url", "ExternalId", "CommonsMedia", "GeoShape", "TabularData", "Math", "MusicalNotation"),
    *("WikibaseLexeme", "WikibaseForm", "WikibaseSense"),
)
"""The datatypes of P1, P2 and so on, in turn."""
_SYLLABLES = (
    "ka",
    "lo",
    "mi",
    "ren",
    "tus",
    "O'",
    "vá",
    "ß",
    "東京",
    "ду",
    "Ð",
    "é",
    "x",
    "\U0001f600",
    "-",
    "St. ",
    "), (",
)
_WORDS = (
    "album",
    "village in",
    "river of",
    'the "Red"',
    "Ann's",
    "1990 film by",
    "back\\slash",
    "painter",
    "a),(b",
    "species",
)


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item; `title` is that of its English Wikipedia article."""

    number: int
    label: str | None
    description: str | None
    title: str | None
    short_description: str | None
    claims: tuple[tuple[int, str, str | None], ...]
    """For each claim: property, object in N-Triples, and object of its fact (an id or a text; None for no fact)."""

    @property
    def id(self) -> str:
        return f"Q{self.number}"


@dataclass(frozen=True)
class Truth:
    """What an ingest has to find.

    Facts are (subject id, property id, object id or text), of subjects and objects with a name.
    """

    titles: dict[str, str] = field(default_factory=dict)
    short_descriptions: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    facts: set[tuple[str, str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class World:
    """A world of the items Q1 to Q`items` and the properties P1 to P`properties`."""

    seed: int
    items: int
    properties: int = len(DATATYPES)

    def item(self, number: int) -> Item:
        chance = random.Random(f"{self.seed} Q{number}")
        label = _name(chance) if chance.random() < 0.9 else None
        title = f"{_name(chance).capitalize()} {number}" if chance.random() < 0.5 else None
        return Item(
            number=number,
            label=label,
            description=_phrase(chance) if chance.random() < 0.7 else None,
            title=title,
            short_description=_phrase(chance) if title and chance.random() < 0.6 else None,
            claims=tuple(self._claim(chance) for _ in range(chance.randint(0, 8))),
        )

    def datatype(self, property_: int) -> str:
        return DATATYPES[(property_ - 1) % len(DATATYPES)]

    def property_label(self, number: int) -> str:
        return f"{random.Random(f'{self.seed} P{number}').choice(('part', 'place', 'type', 'number'))} of {number}"

    def has_name(self, entity: str) -> bool:
        """Return whether an item or property has a name."""
        if entity[0] == "P":
            return int(entity[1:]) <= self.properties
        number = int(entity[1:])
        if number > self.items:
            return False
        item = self.item(number)
        return item.label is not None or item.title is not None

    def _claim(self, chance: random.Random) -> tuple[int, str, str | None]:
        property_ = chance.randint(1, self.properties)
        if chance.random() < 0.03:
            return property_, f"<http://www.wikidata.org/.well-known/genid/{chance.getrandbits(128):032x}>", None
        return property_, *self._value(chance, self.datatype(property_))

    def _value(self, chance: random.Random, datatype: str) -> tuple[str, str | None]:
        match datatype:
            case "WikibaseItem":
                id_ = f"Q{chance.randint(1, self.items + self.items // 20)}"  # some do not exist
                return f"<{WD}{id_}>", id_
            case "WikibaseProperty":
                id_ = f"P{chance.randint(1, self.properties)}"
                return f"<{WD}{id_}>", id_
            case "String":
                text = _phrase(chance)
                return literal(text), text
            case "Monolingualtext":
                text, language = _phrase(chance), chance.choice(("en", "en-gb", "fr"))
                return f"{literal(text)}@{language}", text if language != "fr" else None
            case "Quantity":
                number = chance.randint(0, 10**6)
                return f'"+{number}"^^<{XSD}decimal>', str(number)
            case "Time":
                day = f"{chance.randint(1000, 2020)}-{chance.randint(2, 12):02}-{chance.randint(2, 28):02}"
                return f'"{day}T00:00:00Z"^^<{XSD}dateTime>', day
            case "GlobeCoordinate":
                east, north = chance.randint(1, 179), chance.randint(1, 89)
                return f'"Point({east}.5 {north}.25)"^^<{_WKT}>', f"{north}.25°N, {east}.5°E"
            case "Url":
                return f"<http://www.example.com/?q={chance.randint(1, 99)}>", None
            case "ExternalId":
                return f'"{chance.getrandbits(32):08x}"', None
            case "CommonsMedia":
                return f"<http://commons.wikimedia.org/wiki/Special:FilePath/File%20{chance.randint(1, 99)}.jpg>", None
            case "GeoShape" | "TabularData":
                return f"<http://commons.wikimedia.org/data/main/Data:X{chance.randint(1, 99)}.map>", None
            case "Math":
                return '"<math><mi>x</mi></math>"^^<http://www.w3.org/1998/Math/MathML>', None
            case "MusicalNotation":
                text = f"c{chance.randint(1, 9)}"
                return literal(text), text
        suffix = {"WikibaseLexeme": "", "WikibaseForm": "-F1", "WikibaseSense": "-S1"}[datatype]
        return f"<{WD}L{chance.randint(1, 9)}{suffix}>", None


def truth(world: World) -> Truth:
    """Return what an ingest of all dumps of a world has to find, without external identifiers and media files."""
    found = Truth()
    for number in range(1, world.properties + 1):
        found.labels[f"P{number}"] = world.property_label(number)
    for item in map(world.item, range(1, world.items + 1)):
        for texts, text in (
            (found.labels, item.label),
            (found.descriptions, item.description),
            (found.titles, item.title),
            (found.short_descriptions, item.short_description),
        ):
            if text is not None:
                texts[item.id] = text
        if not world.has_name(item.id):
            continue
        for property_, written, object_ in item.claims:
            if object_ is not None and (not written.startswith(f"<{WD}") or world.has_name(object_)):
                found.facts.add((item.id, f"P{property_}", object_))
    return found


def literal(text: str) -> str:
    r"""Return a string as the dumps write it: with escapes for quotes, control characters and all but ASCII.

    >>> literal('é "x"\\ 😀')
    '"\\u00E9 \\"x\\"\\\\ \\U0001F600"'
    """
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    written = (
        short.get(c) or (c if " " <= c <= "~" else f"\\u{ord(c):04X}" if c <= "\uffff" else f"\\U{ord(c):08X}")
        for c in text
    )
    return f'"{"".join(written)}"'


def _name(chance: random.Random) -> str:
    return "".join(chance.choices(_SYLLABLES, k=chance.randint(2, 5))).strip()


def _phrase(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.randint(1, 4)))
