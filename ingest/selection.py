"""Which of the input's facts an ingest keeps, and what it adds: one value, checked before anything is read."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError

LANGUAGES = ("en", "mul")
"""English, then `mul`: what Wikidata writes once for all languages, names of people and places above all."""
MAX_LANGUAGES = 30
INVERSE_LIMIT = 1_000
"""Of Wikidata's objects, those with more subjects by one property are hubs: `human`, `male`, a country, a language. On the
development data 35 pairs of object and property of 110,000 are beyond it, with 27% of the claims (docs/names.md)."""
NO_INVERSE_LIMIT = 2**63 - 1
INVERSE_PROPERTY, INVERSE_LABEL = "P1696", "P7087"
"""The properties of a property that name its inverse: another property, or an item that is labelled so."""

_PROPERTY = re.compile(r"P[1-9][0-9]{0,17}", re.ASCII)
_LANGUAGE = re.compile(r"[a-z]{2,8}(?:-[a-z0-9]{1,8})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes into the facts.

    `properties`: only claims with these (`P57`); None for all. `languages`: labels and descriptions come from the first of
    them that an entity has, monolingual texts are kept in any of them (see `ingest.values.language_rank`).
    `keep_external_ids`: also properties of datatype external identifier. `descriptions`: facts such as `<X> <description>
    <...>`; names hold descriptions all the same. `limit`: only the first so many subjects, each with all its facts.
    `inverse`: also inverse facts, but for objects with more than `inverse_limit` subjects by one property;
    `inverse_names` are given names for them, pairs of a property's id or name and what its inverse is called. `aliases`: also
    facts from the other names of an entity to the entity; None: as `inverse`, since both are for questions that do not name
    a subject as its facts do.

    Raises InputError for a value that makes no sense.

    >>> Selection(languages=("de", "EN-gb")).languages
    ('de', 'en-gb')
    """

    properties: frozenset[str] | None = None
    languages: tuple[str, ...] = LANGUAGES
    keep_external_ids: bool = False
    descriptions: bool = True
    limit: int | None = None
    inverse: bool = False
    inverse_names: tuple[tuple[str, str], ...] = ()
    inverse_limit: int = INVERSE_LIMIT
    aliases: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "languages", tuple(language.lower() for language in self.languages))
        if self.aliases is None:
            object.__setattr__(self, "aliases", self.inverse)
        if self.properties is not None and not self.properties:
            raise InputError("--properties names no property: expected ids such as P31,P569, or leave it out for all")
        for property_ in sorted(self.properties or ()):
            if not is_property(property_):
                raise InputError(f"{property_!r} is no property: expected ids such as P31,P569")
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise InputError(f"{language!r} is no language: expected codes such as en,en-gb,mul")
        if not 0 < len(set(self.languages)) == len(self.languages) <= MAX_LANGUAGES:
            raise InputError(
                f"{','.join(self.languages)!r} is no list of languages: expected 1 to {MAX_LANGUAGES} different codes, "
                "best first, such as en,mul"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"a limit of {self.limit} subjects leaves no fact: expected 1 or more")
        if self.inverse_limit < 1:
            raise InputError(f"an inverse limit of {self.inverse_limit} leaves no inverse fact: expected 1 or more")
        if self.inverse_names and not self.inverse:
            raise InputError("names for inverse facts were given, but no inverse facts asked for: add --inverse")

    @property
    def wikipedia(self) -> str:
        """The code of the Wikipedia whose titles are names: that in the first language, `mul` aside.

        >>> Selection(languages=("mul", "en-gb", "de")).wikipedia
        'en'
        """
        return next((language for language in self.languages if language != "mul"), "mul").partition("-")[0]

    def reads(self, property_: str) -> bool:
        """Whether claims with this property are needed: as facts, or to name the inverse of another."""
        return (
            self.properties is None
            or property_ in self.properties
            or (self.inverse and property_ in (INVERSE_PROPERTY, INVERSE_LABEL))
        )

    def to_json(self) -> dict[str, Any]:
        """As the report of an ingest records it: lists for sets and tuples, names of inverses as a mapping."""
        document = asdict(self)
        document["properties"] = None if self.properties is None else sorted(self.properties, key=_by_number)
        document["languages"] = list(self.languages)
        document["inverse_names"] = dict(self.inverse_names)
        return document


def is_property(text: str) -> bool:
    """Whether a text is a property's id.

    >>> is_property("P31"), is_property("p31")
    (True, False)
    """
    return _PROPERTY.fullmatch(text) is not None


def properties_of(written: str) -> frozenset[str]:
    """The ids in `P31,P569`, or in a file of them: separated by commas, white space or line ends; `#` begins a comment.

    Raises InputError if one is no property's id, or if it is neither such a list nor a file.

    >>> sorted(properties_of("P31, P569"))
    ['P31', 'P569']
    """
    ids = _words(written)
    if ids and all(is_property(word) for word in ids):
        return frozenset(ids)
    path = Path(written)
    if not path.is_file():
        raise InputError(
            f"{written!r} is neither a list of properties nor a file of them: expected ids such as P31,P569, or a file"
        )
    found: set[str] = set()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        for word in _words(line.partition("#")[0]):
            if not is_property(word):
                raise InputError(f"{path}:{number}: {word!r} is no property: expected ids such as P31")
            found.add(word)
    if not found:
        raise InputError(f"{path} names no property: expected ids such as P31, one a line")
    return frozenset(found)


def languages_of(written: str) -> tuple[str, ...]:
    """The codes in `en,en-gb,mul`.

    >>> languages_of("en, mul")
    ('en', 'mul')
    """
    return tuple(_words(written))


def read_text(path: Path) -> str:
    """A small text file that an option names. Raises InputError if it can't be read, or isn't UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8: expected a text file") from None


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _by_number(property_: str) -> int:
    return int(property_[1:])
