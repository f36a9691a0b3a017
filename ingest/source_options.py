"""The options of sources: which of their facts an ingest keeps, which it adds, and how tables are read."""

import codecs
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from refactx.errors import InputError
from refactx.fact import PAGE_FIELDS, counted, visible
from refactx.ingest.profile import Profile
from refactx.ingest.qualifiers import check_qualifiers, is_kept
from refactx.options import option

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
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8})*", re.ASCII)
TABLES, _FACTS, _TITLES, _MACHINE = "Tables", "Which facts", "Names from Wikipedia", "Database and machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How tables are read, and JSON lines and graphs of properties, whose fields are columns too.

    A column is its name, its number from 1, or, if there are several tables, `TABLE.COLUMN` with the name of the file
    without its endings.

    `columns`: those of subject, predicate and object. `header`: the first line has the names of columns. `comment`:
    lines of CSV that begin so are left out. `delimiter`: between cells; None: the one with which the header has the
    columns. `encoding`: of all sources; None: UTF-8. `subjects`: the column whose cells name the rows; each other
    column is then a predicate. `ids`, `descriptions`, `aliases`: columns of a row's key and of other texts about it.
    `lists`: what is between the values of a cell: of all columns (`|`), or of one (`languages=,`). `qualifiers`: columns
    that say more about the row's other facts, of which each is then a statement. `keys`: columns
    that hold the key of another table (`products.supplier=suppliers.id`). `prefixed`: ids are `TABLE:KEY`. `whole`:
    columns of keys, whose `1.0` is the key `1`. `notes`: pairs of a table and what its report says of keys.
    `rows_of`: what rows are rows of: those of all tables (`price list`), or of one (`price_list=price list`).
    `edges`: the objects of subject, predicate and object are entities too. `labels`: files of lines
    `id<TAB>label<TAB>description`. `query`: of a database.

    Raises InputError for a value that cannot be used.

    >>> TableOptions(lists=("|", "languages=,"), delimiter="tab").delimiter
    '\\t'
    """

    columns: tuple[str, ...] = ()
    header: bool = True
    comment: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    subjects: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    qualifiers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    prefixed: bool = False
    whole: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    rows_of: tuple[str, ...] = ()
    edges: bool = False
    labels: tuple[str, ...] = ()
    query: str | None = None

    def __post_init__(self) -> None:
        if self.columns and len(self.columns) != 3:
            raise InputError(
                f"--columns {','.join(self.columns)} names {counted(len(self.columns), 'column')}: expected three, those "
                "of subject, predicate and object, such as 1,2,3"
            )
        if self.columns and self.subjects:
            raise InputError(
                "--columns and --subject were both given: choose facts of three columns, or one subject a row"
            )
        if self.delimiter is not None:
            delimiter = {"tab": "\t", "\\t": "\t"}.get(self.delimiter.lower(), self.delimiter)
            if len(delimiter) != 1 or delimiter in '"\\\r\n' or not delimiter.isascii():
                raise InputError(f"--delimiter {self.delimiter!r} is not one character, such as ';' or tab")
            object.__setattr__(self, "delimiter", delimiter)
        if self.comment is not None and (not self.comment.strip() or set(self.comment) & {'"', "\n", "\r"}):
            raise InputError(
                f"--comment {self.comment!r} cannot begin a line that is left out: give a text such as '#'"
            )
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise InputError(
                    f"--encoding {self.encoding} is not known: give one such as latin-1, cp1252 or utf-16"
                ) from None
        for key in self.keys:
            if not re.fullmatch(r"[^=]+\.[^=]+=[^=]+\.[^=]+", key):
                raise InputError(f"--key {key} is not of the form products.supplier=suppliers.id")
        if any(not one or (one.endswith("=") and len(one) > 1) for one in self.lists):
            raise InputError("--list has no delimiter: give one such as '|', or 'languages=,' for one column")

    def notes_of_keys(self, table: str) -> list[str]:
        """Return what the report says of the keys of a table."""
        pairs = [[side.strip().rpartition(".") for side in key.partition("=")[::2]] for key in self.keys]
        own = [
            f"column {column} is read as the key of "
            f"{'its own table' if other.casefold() == of.casefold() else f'table {other}'}"
            for (of, _, column), (other, *_) in pairs
            if of.casefold() == table.casefold()
        ]
        return [*own, *(note for of, note in self.notes if of == table)]

    def row_of(self, table: str) -> str:
        """Return what the rows of a table are rows of; "" if that is not known.

        >>> TableOptions(rows_of=("price_list=price list", "people=people")).row_of("price_list")
        'price list'
        """
        given = (one.rpartition("=") for one in self.rows_of)
        return next((name for of, _, name in given if of in ("", table)), "")

    def to_json(self) -> dict[str, Any]:
        """Return the values that are not those of `TableOptions()`; `from_json` reads them back."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.compare}
        values = {name: value for name, value in found.items() if value != getattr(_USUAL, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "TableOptions":
        known = {one.name for one in fields(cls)}
        values = {name: value for name, value in document.items() if name in known}
        found: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}
        return cls(**found)


_USUAL = TableOptions()


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
    the other names of an entity to the entity, its labels in further languages among them; None: with several languages,
    and as `inverse`, since both serve questions that do not name a subject as its facts do.

    `qualifiers`: those that facts have, as groups and ids (`refactx.ingest.qualifiers`); (): none, and facts are those of a
    truthy dump; None: all but what is bookkeeping. `references`: keep where Wikidata's statements are stated, beside the facts.

    `profile`: how the graph names its things; None: that of Wikidata, or what its triples say. `graphs`: the IRIs of the
    named graphs that are read; empty: all. `base`: the IRI that relative ones begin with; None: the address of their file.
    `link`: the address of a thing's page (`refactx.fact.page_of`); None:
    Wikidata's page, or the id if that is one.
    `tables`: how tables are read.

    Raises InputError for a value that cannot be used.

    >>> Selection(languages=("de", "EN-gb")).languages, Selection(languages=("en", "mul")).aliases
    (('de', 'en-gb'), False)
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
    qualifiers: tuple[str, ...] | None = None
    references: bool = False
    profile: Profile | None = None
    graphs: tuple[str, ...] = ()
    base: str | None = None
    link: str | None = None
    tables: TableOptions = _USUAL

    def __post_init__(self) -> None:
        if self.base is not None and not re.fullmatch(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*', self.base):
            raise InputError(
                f"--base {visible(self.base)} is no IRI with a scheme: give one such as http://example.org/data/"
            )
        if self.link is not None and not (re.match(r"https?://", self.link) and PAGE_FIELDS.search(self.link)):
            raise InputError(
                f"{self.link!r} is no pattern of pages: expected an address with {{id}}, {{local}} or {{label}} in it, such "
                "as https://kb.example.org/{local}"
            )
        object.__setattr__(self, "languages", tuple(language.lower() for language in self.languages))
        if self.aliases is None:
            object.__setattr__(self, "aliases", self.inverse or self.has_languages)
        if self.properties is not None and not self.properties:
            raise InputError("--properties names no property: expected ids such as P31,P569; leave it out for all")
        for property_ in sorted(self.properties or ()):
            if not _names_property(property_):
                raise InputError(f"{property_!r} is not a property: expected ids such as P31,P569, or IRIs")
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
        if self.qualifiers:
            check_qualifiers(self.qualifiers)
        if self.tables.qualifiers and self.qualifiers == ():
            raise InputError("--qualifier and --qualifiers none were both given: choose facts with qualifiers, or none")
        if self.references and self.qualifiers == ():
            raise InputError("--references and --qualifiers none were both given: leave out one of them")
        if self.inverse_names and not self.inverse:
            raise InputError("names for inverse facts were given without asking for inverse facts: add --inverse")

    @property
    def has_languages(self) -> bool:
        """Whether names are in several languages, `mul` and variants of one aside."""
        return len({language.partition("-")[0] for language in self.languages} - {"mul"}) > 1

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

    def keeps_qualifier(self, property_: str) -> bool:
        """Return whether facts have the values of a qualifier."""
        return is_kept(property_, self.qualifiers)

    def to_json(self) -> dict[str, Any]:
        """Return what the report of an ingest has: lists for sets and tuples, a mapping for `inverse_names`."""
        document = asdict(self)
        if not self.references:
            del document["references"]
        if self.properties is not None:  # IRIs, then ids by their numbers
            document["properties"] = sorted(
                self.properties, key=lambda one: (int(one[1:]) if is_property(one) else 0, one)
            )
        document["languages"] = list(self.languages)
        document["qualifiers"] = None if self.qualifiers is None else list(self.qualifiers)
        document["inverse_names"] = dict(self.inverse_names)
        document["profile"] = None if self.profile is None else self.profile.to_json()
        document["graphs"] = list(self.graphs)
        document["tables"] = self.tables.to_json()
        return document


DEFAULT_SELECTION = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of sources as users write them, in commands and in Python. `refactx.build` makes a `Selection` of them."""

    limit: int | None = option(None, "For a trial: N subjects with all their facts.", least=1)
    inverse: bool = option(False, "Add inverse facts: <A> <director of> <B>.")
    columns: str | None = option(
        None, "Of subject, predicate, object: names or numbers.", metavar="S,P,O", group=TABLES
    )
    no_header: bool = option(False, "The first line is a row, not names of columns.", group=TABLES)
    comment: str | None = option(None, "Lines that begin so are left out, such as '#'.", metavar="TEXT", group=TABLES)
    delimiter: str | None = option(None, "Between cells: ';' or tab; default: what fits.", metavar="CHAR", group=TABLES)
    encoding: str | None = option(
        None, "Of text: latin-1, cp1252, utf-16; default: UTF-8.", metavar="NAME", group=TABLES
    )
    subject: tuple[str, ...] = option((), "Names the rows; the others are predicates.", metavar="COLUMN", group=TABLES)
    id: tuple[str, ...] = option((), "Has the ids of the rows; default: their names.", metavar="COLUMN", group=TABLES)
    description: tuple[str, ...] = option((), "Has a description of each row.", metavar="COLUMN", group=TABLES)
    alias: tuple[str, ...] = option((), "Has other names, with --aliases.", metavar="COLUMN", group=TABLES)
    list: tuple[str, ...] = option((), "Between the values of a cell: '|', 'langs=,'.", metavar="CHAR", group=TABLES)
    qualifier: tuple[str, ...] = option(
        (), "Says more about the row's facts: start, end, role.", metavar="COLUMN", group=TABLES
    )
    key: tuple[str, ...] = option((), "products.supplier=suppliers.id: joins tables.", metavar="KEY", group=TABLES)
    edges: bool = option(False, "Objects are entities, as subjects are.", group=TABLES)
    labels: tuple[Path, ...] = option((), "Lines of id<TAB>label<TAB>description.", metavar="FILE", group=TABLES)
    query: str | None = option(
        None, "For URLs: SQL of a database, CONSTRUCT of an endpoint.", metavar="QUERY", group=TABLES
    )
    properties: str | None = option(
        None, "Only these: P31,P569, IRIs, or a file of them.", metavar="LIST", group=_FACTS
    )
    languages: str = option(",".join(LANGUAGES), "Languages of names, best first.", metavar="LIST", group=_FACTS)
    keep_external_ids: bool = option(False, "Keep identifiers in other databases.", group=_FACTS)
    descriptions: bool = option(True, "<X> <description> <...>; default: on.", group=_FACTS)
    aliases: bool | None = option(None, "<JFK (alias)> <alias of> <...>; default: --inverse.", group=_FACTS)
    qualifiers: str | None = option(
        None, "time, ordinal, of, role, other, ids; all; none.", metavar="LIST", group=_FACTS
    )
    references: bool = option(False, "Keep the sources of Wikidata's statements.", group=_FACTS)
    inverse_names: Path | None = option(None, "Lines of P57<TAB>director of, or TOML.", metavar="FILE", group=_FACTS)
    inverse_limit: int = option(INVERSE_LIMIT, "At most N per object and property.", least=1, group=_FACTS)
    profile: str | None = option(
        None, "wikidata, rdf or FILE.toml; default: by the data.", metavar="NAME", group=_FACTS
    )
    graphs: tuple[str, ...] = option(
        (), "Only this named graph, or `default`.", metavar="IRI", flag="graph", group=_FACTS
    )
    base: str | None = option(None, "Of relative IRIs; default: the file's address.", metavar="IRI", group=_FACTS)
    link: str | None = option(
        None, "Pages of things, with {id}, {local} or {label} in it.", metavar="URL", group=_FACTS
    )
    page: Path | None = option(None, "enwiki-...-page.sql.gz: titles as names.", metavar="FILE", group=_TITLES)
    page_props: Path | None = option(None, "enwiki-...-page_props.sql.gz, with --page.", metavar="FILE", group=_TITLES)
    strict: bool = option(False, "Stop at the first malformed line.", group=_MACHINE)
    memory: str = option("1GB", "Memory for joins and sorts.", metavar="SIZE", group=_MACHINE)
    workers: int = option(os.cpu_count() or 2, "Number of threads.", least=1, group=_MACHINE)
    work_dir: Path | None = option(
        None, "For temporary files; default: $REFACTX_HOME/work.", metavar="FOLDER", group=_MACHINE
    )


def is_property(text: str) -> bool:
    """Return whether a text is the id of a property.

    >>> is_property("P31"), is_property("p31")
    (True, False)
    """
    return _PROPERTY.fullmatch(text) is not None


def properties_of(text: str) -> frozenset[str]:
    """Return the ids or IRIs in `P31,P569`, or in a file of them, separated by commas, white space or line ends.

    In a file, `#` begins a comment. Raises InputError for an id that is not a property's, and for a text that is
    neither a list of ids nor a file.

    >>> sorted(properties_of("P31, P569"))
    ['P31', 'P569']
    """
    ids = _words(text)
    if ids and all(map(_names_property, ids)):
        return frozenset(ids)
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"{text!r} is neither a list of properties nor a file of them: expected ids such as P31,P569, IRIs, or a file"
        )
    found: set[str] = set()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        for word in _words(re.split(r"(?:^|\s)#", line)[0]):
            if not _names_property(word):
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


def _names_property(text: str) -> bool:
    """Return whether a text is the id of a property, or an IRI, which may be that of one."""
    return is_property(text) or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:\S", text) is not None
