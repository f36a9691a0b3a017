"""The selection of an ingest: which facts of the sources it keeps, and which it adds."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from refactx.errors import InputError

LANGUAGES = ("en", "mul")
"""English, then `mul`: labels that Wikidata writes once for all languages, above all names of people and places."""
MAX_LANGUAGES = 30
INVERSE_LIMIT = 1_000
"""An object with more subjects by one property is a hub: `human`, `male`, a country, a language. On the development
data 35 of 110,000 pairs of object and property are hubs, with 27% of the claims
(docs/reference/names-and-values.md)."""
NO_INVERSE_LIMIT = 2**63 - 1
INVERSE_PROPERTY, INVERSE_LABEL = "P1696", "P7087"
"""The properties of a property that name its inverse: by another property, or by an item whose label is the name."""

_PROPERTY = re.compile(r"P[1-9][0-9]{0,17}", re.ASCII)
_LANGUAGE = re.compile(r"[a-z]{2,8}(?:-[a-z0-9]{1,8})*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which facts of the sources an index gets, and which are added to them.

    `properties`: ids such as `P57`; only claims with these are kept (None: all claims). `languages`: codes, best first;
    labels and descriptions are in the first of them that an entity has, and monolingual texts are kept in any of them
    (`refactx.ingest.parsers.values.language_rank`). `keep_external_ids`: keep claims with properties of the datatype
    external identifier. `descriptions`: add facts such as `<X> <description> <...>`; names contain descriptions in any
    case. `limit`: keep only the first `limit` subjects, each with all its facts (None: all).

    `inverse`: add inverse facts, except for objects with more than `inverse_limit` subjects by one property.
    `inverse_names`: pairs of a property's id or name and the name of its inverse. `aliases`: add facts that lead from
    the other names of an entity to the entity; None: as `inverse`, since both serve questions that do not name a
    subject as its facts do.

    Raises InputError for a value that cannot be used.

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
            raise InputError("--properties names no property: expected ids such as P31,P569; leave it out for all")
        for property_ in sorted(self.properties or ()):
            if not is_property(property_):
                raise InputError(f"{property_!r} is not a property: expected ids such as P31,P569")
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise InputError(f"{language!r} is not a language code: expected codes such as en,en-gb,mul")
        if not 0 < len(set(self.languages)) == len(self.languages) <= MAX_LANGUAGES:
            raise InputError(
                f"{','.join(self.languages)!r} is not a list of languages: expected 1 to {MAX_LANGUAGES} different "
                "codes, best first, such as en,mul"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"a limit of {self.limit} subjects leaves no fact: expected 1 or more")
        if self.inverse_limit < 1:
            raise InputError(f"an inverse limit of {self.inverse_limit} leaves no inverse fact: expected 1 or more")
        if self.inverse_names and not self.inverse:
            raise InputError("names for inverse facts were given without asking for inverse facts: add --inverse")

    @property
    def wikipedia(self) -> str:
        """The code of the Wikipedia whose titles are names: that of the first language, without `mul` and variants.

        >>> Selection(languages=("mul", "en-gb", "de")).wikipedia
        'en'
        """
        return next((language for language in self.languages if language != "mul"), "mul").partition("-")[0]

    def reads(self, property_: str) -> bool:
        """Return whether claims with this property are needed: as facts, or to name the inverse of another."""
        return (
            self.properties is None
            or property_ in self.properties
            or (self.inverse and property_ in (INVERSE_PROPERTY, INVERSE_LABEL))
        )

    def to_json(self) -> dict[str, Any]:
        """Return what the report of an ingest has: lists for sets and tuples, a mapping for `inverse_names`."""
        document = asdict(self)
        document["properties"] = None if self.properties is None else sorted(self.properties, key=_by_number)
        document["languages"] = list(self.languages)
        document["inverse_names"] = dict(self.inverse_names)
        return document


DEFAULT_SELECTION = Selection()


def is_property(text: str) -> bool:
    """Return whether a text is the id of a property.

    >>> is_property("P31"), is_property("p31")
    (True, False)
    """
    return _PROPERTY.fullmatch(text) is not None


def properties_of(text: str) -> frozenset[str]:
    """Return the ids in `P31,P569`, or in a file of ids separated by commas, white space or line ends.

    In a file, `#` begins a comment. Raises InputError for an id that is not a property's, and for a text that is
    neither a list of ids nor a file.

    >>> sorted(properties_of("P31, P569"))
    ['P31', 'P569']
    """
    ids = _words(text)
    if ids and all(is_property(word) for word in ids):
        return frozenset(ids)
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"{text!r} is neither a list of properties nor a file of them: expected ids such as P31,P569, or a file"
        )
    found: set[str] = set()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        for word in _words(line.partition("#")[0]):
            if not is_property(word):
                raise InputError(f"{path}:{number}: {word!r} is not a property: expected ids such as P31")
            found.add(word)
    if not found:
        raise InputError(f"{path} names no property: expected ids such as P31, one a line")
    return frozenset(found)


def languages_of(text: str) -> tuple[str, ...]:
    """Return the codes in `en,en-gb,mul`.

    >>> languages_of("en, mul")
    ('en', 'mul')
    """
    return tuple(_words(text))


def read_text(path: Path) -> str:
    """Return the text of a small file. Raise InputError if it cannot be read, or is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}: check its name and permissions") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8 (line {line}), perhaps Latin-1: convert it (iconv -f LATIN1 -t UTF-8)"
        ) from None


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _by_number(property_: str) -> int:
    return int(property_[1:])
