"""What a pack is: all that translating questions for one SPARQL endpoint needs to know about it, as values.

Packs by name or folder: `pack.toml`, `patterns.toml`, `examples.jsonl`, `schema.jsonl` and `rules.toml`, each checked as it
is read.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from os.path import normpath
from pathlib import Path
from typing import Any, TypeVar

from refactx.errors import InputError
from refactx.paths import read_toml
from refactx.sparql.packs.rules import (
    LITERAL,
    Apart,
    Check,
    Compared,
    Connected,
    Direction,
    End,
    EndValues,
    NoGraph,
    NoLiteral,
    Once,
    PackNames,
    Place,
    Places,
    Reach,
    Rule,
    SchemaTerm,
    Shared,
    TermKind,
    Types,
    Wanted,
    shorten,
)

IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
_Value = TypeVar("_Value")
_SHOWN = 60
OUTSIDE = "outside"
"""The name of the place that is in no GRAPH and no SERVICE."""
THRESHOLD = 0.35
"""The least score of a detected pattern, where a pack says nothing else."""
VERSION = 1
"""The version of the file format that this code reads."""
PACK, PATTERNS, EXAMPLES, SCHEMA, RULES = "pack.toml", "patterns.toml", "examples.jsonl", "schema.jsonl", "rules.toml"
_HEAD = (
    "version", "name", "title", "languages", "endpoint", "file", "index", "base", "graphs", "services", "gives", "prefixes",
    "vocabularies", "source", "licence",
)  # fmt: skip
GAP, _GAPS = "...", 3
"""Stands for some words between two of a pattern, and how often it may."""
_BLANK, _DECODER = re.compile(r"\s*"), json.JSONDecoder()
_KINDS: dict[str, TermKind] = {"class": "class", "property": "property", "individual": "individual"}


@dataclass(frozen=True, slots=True)
class PackTable:
    """A table of TOML or an object of JSON. `where`: the file and the place in it, as errors name them."""

    where: str
    values: Mapping[str, Any]

    def wrong(self, key: str, expected: str) -> InputError:
        """Return the error for the value of a key."""
        value = repr(self.values.get(key))
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        found = f"has {key} = {shown}" if key in self.values else f"has no {key}"
        return InputError(f"{self.where} {found}: expected {expected}")

    def only(self, *keys: str) -> None:
        """Raise InputError if there are other keys than these."""
        other = sorted(self.values.keys() - set(keys))
        if other:
            raise InputError(f"{self.where} has {other[0]}, which is unknown: expected {', '.join(keys)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that is not empty; `default` if there is none."""
        if key not in self.values and default is not None:
            return default
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "a text")
        return value

    def iri(self, key: str) -> str:
        """Return an absolute IRI."""
        value = self.values.get(key)
        if not isinstance(value, str) or IRI.fullmatch(value) is None:
            raise self.wrong(key, "an IRI, such as http://example.org/name")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number from 0 to 1."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.wrong(key, "a number from 0 to 1")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        """Return a whole number."""
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, "a whole number")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, which is empty without the key."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise self.wrong(key, 'a list of texts, such as ["one", "two"]')
        return tuple(value)

    def iris(self, key: str) -> tuple[str, ...]:
        """Return a list of absolute IRIs, which is empty without the key."""
        values = self.texts(key)
        if not all(IRI.fullmatch(value) for value in values):
            raise self.wrong(key, "a list of IRIs, each such as http://example.org/name")
        return values

    def table(self, key: str) -> "PackTable":
        """Return a table within this one, which is empty without the key."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return PackTable(f"{self.where}, {key}:", value)

    def tables(self, key: str) -> "tuple[PackTable, ...]":
        """Return the tables of a list, which is empty without the key."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, f"tables [[{key}]]")
        return tuple(PackTable(f"{self.where}, {key} {number}", one) for number, one in enumerate(value, 1))

    def mapping(self, key: str, read: "Callable[[PackTable, str], _Value]") -> dict[str, _Value]:
        """Return the values of a table within this one, each read by a method: `table.mapping("graphs", PackTable.iri)`."""
        inner = self.table(key)
        return {name: read(inner, name) for name in inner.values}


def read_rules(
    table: PackTable,
    prefixes: Mapping[str, str],
    graphs: Mapping[str, str],
    services: Mapping[str, str],
    patterns: Mapping[str, object],
) -> tuple[Rule, ...]:
    """Return the rules of a document, in order. `prefixes`, `graphs`, `services`: the pack's IRIs by name; `patterns`: its
    patterns by name.

    Raises InputError, with the rule and the key, if a value is not what it has to be.
    """
    table.only("version", "rule")
    if table.whole("version", 1) != 1:
        raise table.wrong("version", "1, which is what this ReFactX reads")
    reader = _CheckReader(prefixes, graphs, services)
    found: dict[str, Rule] = {}
    for number, values in enumerate(table.tables("rule"), 1):
        name = values.text("id")
        one = PackTable(f"{table.where}, rule {number} ({name})", values.values)
        one.only("id", "text", "patterns", "check")
        if name in found:
            raise one.wrong("id", "each id once")
        if unknown := [pattern for pattern in one.texts("patterns") if pattern not in patterns]:
            raise one.wrong("patterns", f"names of the pack's patterns, and {unknown[0]} is none")
        found[name] = Rule(
            id=name,
            text=" ".join(one.text("text", " ").split()),
            patterns=one.texts("patterns"),
            checks=tuple(map(reader.check, one.tables("check"))),
            names=PackNames(prefixes),
        )
    return tuple(found.values())


class _CheckReader:
    """Reads checks, with the names of a pack."""

    def __init__(self, prefixes: Mapping[str, str], graphs: Mapping[str, str], services: Mapping[str, str]) -> None:
        self._prefixes, self._graphs, self._services = prefixes, graphs, services

    def check(self, table: PackTable) -> Check:
        """Return a check, whose fields are the values of its table."""
        kind = table.text("kind")
        if kind not in _CHECKS:
            raise table.wrong("kind", f"one of {', '.join(sorted(_CHECKS))}")
        make, keys = _CHECKS[kind]
        table.only("kind", *keys)
        return make(*(read(self, table, key) for key, read in keys.items()))

    def term(self, table: PackTable, key: str, name: str) -> str:
        """Return a prefixed name, an IRI, or the name of a graph as a term."""
        prefix, colon, local = name.partition(":")
        if name in self._graphs:
            return f"<{self._graphs[name]}>"
        if colon and prefix in self._prefixes:
            return f"<{self._prefixes[prefix]}{local}>"
        if colon and local.startswith("//") and IRI.fullmatch(name):
            return f"<{name}>"
        raise table.wrong(key, f"names with a prefix of the pack, or whole IRIs, and {name} is neither")

    # --- Each returns the value of a key

    def name(self, table: PackTable, key: str) -> str:
        return self.term(table, key, table.text(key))

    def terms(self, table: PackTable, key: str) -> tuple[str, ...]:
        return tuple(self.term(table, key, one) for one in table.texts(key))

    def iris(self, table: PackTable, key: str) -> tuple[str, ...]:
        return tuple(one[1:-1] for one in self.terms(table, key))

    def wanted(self, table: PackTable, key: str) -> Wanted:
        return Wanted(self.terms(table, key))

    def text(self, table: PackTable, key: str) -> str:
        return table.text(key)

    def globs(self, table: PackTable, key: str) -> tuple[str, ...]:
        return tuple(one.lower() for one in table.texts(key))

    def service(self, table: PackTable, key: str) -> str:
        if (name := table.text(key)) not in self._services:
            known = ", ".join(self._services) or "the services of the pack, which has none"
            raise table.wrong(key, f"one of {known}")
        return f"<{self._services[name]}>"

    def is_subject(self, table: PackTable, key: str) -> bool:
        if (end := table.text(key)) not in ("subject", "object"):
            raise table.wrong(key, "subject or object")
        return end == "subject"

    def truth(self, table: PackTable, key: str) -> bool:
        if not isinstance(value := table.values.get(key, False), bool):
            raise table.wrong(key, "true or false")
        return value

    def places(self, table: PackTable, key: str) -> Places | None:
        if key not in table.values and (key == "not_in" or "not_in" in table.values):
            return None
        names = table.texts(key)
        known = {*self._graphs, *self._services, OUTSIDE}
        if not names or not known.issuperset(names):
            raise table.wrong(key, f"a list of places among {', '.join(sorted(known))}")
        graphs, services = (
            frozenset(f"<{some[one]}>" for one in names if one in some) for some in (self._graphs, self._services)
        )
        return Places(graphs, services, OUTSIDE in names)

    def ends(self, table: PackTable, key: str) -> tuple[End, ...]:
        found = []
        for one in table.tables(key):
            one.only("property", "subject", "object", "value")
            classes = {
                end: LITERAL if one.text(end) == LITERAL else self.name(one, end)[1:-1]
                for end in ("subject", "object")
                if end in one.values
            }
            value = self.name(one, "value") if "value" in one.values else ""
            found.append(End(self.name(one, "property"), value=value, **classes))
        return tuple(found)


_CHECKS: dict[str, tuple[Callable[..., Check], dict[str, Callable[[_CheckReader, PackTable, str], Any]]]] = {
    "place": (Place, {"names": _CheckReader.wanted, "in": _CheckReader.places, "not_in": _CheckReader.places}),
    "no_graph": (NoGraph, {"service": _CheckReader.service}),
    "shared": (Shared, {"service": _CheckReader.service}),
    "direction": (
        Direction,
        {"property": _CheckReader.name, "subject": _CheckReader.globs, "object": _CheckReader.globs},
    ),
    "reach": (
        Reach,
        {
            "property": _CheckReader.name,
            "end": _CheckReader.is_subject,
            "path": _CheckReader.terms,
            "never": _CheckReader.terms,
        },
    ),
    "values": (EndValues, {"property": _CheckReader.name, "end": _CheckReader.is_subject, "only": _CheckReader.terms}),
    "once": (Once, {"property": _CheckReader.name, "why": _CheckReader.text}),
    "apart": (
        Apart,
        {
            "one": _CheckReader.wanted,
            "other": _CheckReader.wanted,
            "unless": _CheckReader.wanted,
            "why": _CheckReader.text,
        },
    ),
    "connected": (Connected, {}),
    "no_literal": (NoLiteral, {"properties": _CheckReader.wanted}),
    "compared": (Compared, {"properties": _CheckReader.wanted, "any_case": _CheckReader.truth}),
    "types": (Types, {"disjoint": _CheckReader.iris, "ends": _CheckReader.ends}),
}
"""The checks by their kinds, with the keys of their tables and what reads each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPattern:
    """A kind of thing that a question asks for, and the words by which it is detected, by language.

    `words`: one of them is enough, and gives the pattern `weight`; `hints`: two different ones are; `unless`: parts of a
    question in which neither is looked for; `phrases`: whole questions, which an encoder compares with the question;
    `implies`: other patterns that come with this one, with the share of its score that they get. A word may end or begin
    with `*`; `...` stands for up to three words, and `^` before the first word for the beginning of the question.
    """

    name: str
    about: str = ""
    weight: float = 1.0
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    phrases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    implies: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackExample:
    """A question with its query. `variants`: the same question in other words, by language; `patterns`: those that the
    query has, each with how much of it, from 0 to 1."""

    id: str
    question: str
    sparql: str
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patterns: Mapping[str, float] = field(default_factory=dict)

    @property
    def questions(self) -> tuple[str, ...]:
        """The question and its variants.

        >>> PackExample(id="1", question="Count", sparql="", variants={"it": ("Conta",)}).questions
        ('Count', 'Conta')
        """
        return (self.question, *(text for texts in self.variants.values() for text in texts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A domain pack; `load_pack` returns one.

    `name`, `title`: as people call it; `version`: of the file format; `languages`: of questions, the main one first;
    `endpoint`, `file`, `index`: where the data is: a URL, a file of RDF, the name of an index with a store; `base`: the
    prompt's text that is always there; `graphs`, `services`, `prefixes`: IRIs by name; `gives`: by service, endings of
    variables to which it gives values; `vocabularies`: prefixes whose names are all in `schema`, so that another is a
    mistake; `threshold`: the least score of a detected pattern; `patterns`, `schema`: by name and by IRI; `rules`: what
    prompts say of the data and what is checked in queries; `source`, `licence`: where the data is from; `fingerprint`:
    equal only for the same files; `folder`: where they are.
    """

    name: str
    title: str
    version: int
    languages: tuple[str, ...]
    base: str
    endpoint: str | None = None
    file: Path | None = None
    index: str | None = None
    graphs: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    gives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    vocabularies: tuple[str, ...] = ()
    threshold: float = THRESHOLD
    patterns: Mapping[str, QuestionPattern] = field(default_factory=dict)
    examples: tuple[PackExample, ...] = ()
    schema: Mapping[str, SchemaTerm] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    source: str = ""
    licence: str = ""
    fingerprint: str = ""
    folder: Path | None = None

    @property
    def place(self) -> str | None:
        """Where its queries are run, as `--run-on` has it; None if it does not say."""
        return self.endpoint or (self.index if self.file is None else str(self.file))

    def expand(self, name: str) -> str | None:
        """Return the IRI of a prefixed name (`wdt:P31`), or None if the pack has no such prefix.

        >>> Pack(name="x", title="x", version=1, languages=("en",), base="", prefixes={"ex": "http://e.org/"}).expand("ex:a")
        'http://e.org/a'
        """
        prefix, colon, local = name.partition(":")
        return self.prefixes[prefix] + local if colon and prefix in self.prefixes else None

    def shorten(self, iri: str) -> str:
        """Return an IRI as a prefixed name, by the longest prefix that fits; in angle brackets if none does."""
        return shorten(iri, self.prefixes)


def built_in_packs() -> tuple[str, ...]:
    """Return the names of the packs that come with ReFactX, in order.

    >>> "liita" in built_in_packs()
    True
    """
    folder = files("refactx.prompts") / "packs"
    if not folder.is_dir():
        return ()
    return tuple(sorted(one.name for one in folder.iterdir() if one.is_dir() and (one / PACK).is_file()))


def load_pack(name: str | Path) -> Pack:
    """Return a built-in pack, given its name, or the pack in a folder, given a path.

    A text is a path if it has a slash or names a folder that is there, and else a name. Raises InputError if there is no
    such pack, or if one of its files is not valid (the message has the file, and the line or table).

    >>> load_pack("liita").languages
    ('en', 'it')
    """
    path = Path(name)
    if isinstance(name, str) and "/" not in name and not path.is_dir():
        if name not in built_in_packs():
            known = ", ".join(built_in_packs()) or "none"
            raise InputError(f"there is no pack {name}: expected one of {known}, or a folder with a {PACK}")
        with as_file(files("refactx.prompts") / "packs" / name) as folder:
            return read_pack(folder)
    if not (path / PACK).is_file():
        raise InputError(f"{path} is no pack: expected a folder with a {PACK}")
    return read_pack(path)


def read_pack(folder: Path) -> Pack:
    """Return the pack of a folder. Raises InputError as `load_pack` does."""
    head = _toml(folder / PACK)
    version = head.whole("version")
    if version != VERSION:
        raise InputError(f"{head.where} has version = {version}: this ReFactX reads version {VERSION}")
    head.only(*_HEAD)
    prefixes = head.mapping("prefixes", PackTable.iri)
    vocabularies = head.texts("vocabularies")
    if unknown := [prefix for prefix in vocabularies if prefix not in prefixes]:
        raise InputError(f"{head.where} has the vocabulary {unknown[0]}: expected names of its table [prefixes]")
    graphs, services = head.mapping("graphs", PackTable.iri), head.mapping("services", PackTable.iri)
    gives = head.mapping("gives", PackTable.texts)
    if unknown := [name for name in gives if name not in services]:
        raise InputError(f"{head.where} has {unknown[0]} in [gives]: expected names of its table [services]")
    threshold, patterns = _patterns(folder)
    return Pack(
        name=head.text("name"),
        title=head.text("title", head.text("name")),
        version=version,
        languages=head.texts("languages") or ("en",),
        base=head.text("base", " ").strip(),
        endpoint=head.iri("endpoint") if "endpoint" in head.values else None,
        file=Path(normpath(folder / head.text("file"))) if "file" in head.values else None,
        index=head.text("index") if "index" in head.values else None,
        graphs=graphs,
        services=services,
        gives=gives,
        prefixes=prefixes,
        vocabularies=vocabularies,
        threshold=threshold,
        patterns=patterns,
        examples=_examples(folder, patterns),
        schema=_schema(folder),
        rules=read_rules(_toml(folder / RULES), prefixes, graphs, services, patterns)
        if (folder / RULES).is_file()
        else (),
        source=head.text("source", " ").strip(),
        licence=head.text("licence", " ").strip(),
        fingerprint=_fingerprint(folder),
        folder=folder,
    )


def _toml(path: Path) -> PackTable:
    try:
        return PackTable(str(path), read_toml(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): expected a TOML file") from error
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from error


def _lines(path: Path) -> Iterator[PackTable]:
    """Yield the objects of a file of JSON, one after the other; none if there is no such file. A person may break lines."""
    if not path.is_file():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}): expected JSON in UTF-8, one object a line") from error
    at, number, read = 0, 1, 0
    while True:
        start = _BLANK.match(text, at).end()  # type: ignore[union-attr] # it may match nothing
        if start == len(text):
            return
        number, read = number + text.count("\n", read, start), start
        try:
            values, at = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            reason = f"{error.msg}, column {error.colno}"
            raise InputError(
                f"{path}, line {error.lineno} is not JSON ({reason}): expected one object a line"
            ) from error
        except (RecursionError, ValueError) as error:
            what = "brackets" if isinstance(error, RecursionError) else "digits"
            raise InputError(f"{path}, line {number} has too many {what}: expected one object a line") from None
        if not isinstance(values, dict):
            raise InputError(f"{path}, line {number} is a {type(values).__name__}: expected an object")
        yield PackTable(f"{path}, line {number}", values)


def _patterns(folder: Path) -> tuple[float, dict[str, QuestionPattern]]:
    path = folder / PATTERNS
    if not path.is_file():
        return THRESHOLD, {}
    table, found = _toml(path), dict[str, QuestionPattern]()
    table.only("version", "threshold", "pattern")
    for number, values in enumerate(table.tables("pattern"), 1):
        name = values.text("name")
        one = PackTable(f"{path}, pattern {number} ({name})", values.values)
        one.only("name", "about", "weight", "words", "hints", "unless", "phrases", "implies")
        if name in found:
            raise InputError(f"{one.where} has a name that was there before: expected each name once")
        found[name] = QuestionPattern(
            name=name,
            about=one.text("about", " ").strip(),
            weight=one.number("weight", 1.0),
            words=one.mapping("words", PackTable.texts),
            hints=one.mapping("hints", PackTable.texts),
            unless=one.mapping("unless", PackTable.texts),
            phrases=one.mapping("phrases", PackTable.texts),
            implies=one.mapping("implies", PackTable.number),
        )
        for some in (found[name].words, found[name].hints, found[name].unless):
            for word in (word for words in some.values() for word in words):
                if fault := fault_of(word):
                    # The line with the word; with the pattern's name, if the word is written otherwise.
                    lines = path.read_text(encoding="utf-8").splitlines()
                    begin = next((at for at, line in enumerate(lines) if name in line), 0)
                    at = next((at for at, line in enumerate(lines) if at >= begin and word in line), begin)
                    raise InputError(f"{path}, line {at + 1}, pattern {number} ({name}) has the word {word!r}: {fault}")
    for pattern in found.values():
        if unknown := sorted(pattern.implies.keys() - found.keys()):
            raise InputError(f"{path}: {pattern.name} implies {unknown[0]}, which is no pattern of this file")
    return table.number("threshold", THRESHOLD), found


def fault_of(word: str) -> str:
    """Return what is wrong with a word of a pattern; empty if nothing is. What is, might be looked for without an end.

    >>> fault_of("sinonim*"), fault_of("s*nim"), fault_of("how ... ... many")
    ('', '`*` stands at the beginning or the end of a word', '`...` stands between words, at most 3 times')
    """
    pieces = word.removeprefix("^").split()
    if any("*" in (inner := piece.removeprefix("*").removesuffix("*")) or not inner for piece in pieces):
        return "`*` stands at the beginning or the end of a word"
    gaps = [at for at, piece in enumerate(pieces) if piece == GAP]
    is_between = all(0 < at < len(pieces) - 1 and at + 1 not in gaps for at in gaps)
    return "" if is_between and len(gaps) <= _GAPS else f"`...` stands between words, at most {_GAPS} times"


def _examples(folder: Path, patterns: dict[str, QuestionPattern]) -> tuple[PackExample, ...]:
    found, ids = list[PackExample](), set[str]()
    for one in _lines(folder / EXAMPLES):
        one.only("id", "question", "variants", "sparql", "patterns")
        example = PackExample(
            id=one.text("id"),
            question=one.text("question"),
            sparql=one.text("sparql"),
            variants=one.mapping("variants", PackTable.texts),
            patterns=one.mapping("patterns", PackTable.number),
        )
        if unknown := sorted(example.patterns.keys() - patterns.keys()):
            raise InputError(f"{one.where} has the pattern {unknown[0]}: expected those of {PATTERNS}")
        if example.id in ids:
            raise InputError(f"{one.where} has the id {example.id}, which was there before: expected each once")
        ids.add(example.id)
        found.append(example)
    return tuple(found)


def _schema(folder: Path) -> dict[str, SchemaTerm]:
    found = dict[str, SchemaTerm]()
    for one in _lines(folder / SCHEMA):
        one.only("iri", "kind", "labels", "domain", "range", "parents", "comment")
        kind = _KINDS.get(one.text("kind"))
        if kind is None:
            raise one.wrong("kind", f"one of {', '.join(_KINDS)}")
        term = SchemaTerm(
            iri=one.iri("iri"),
            kind=kind,
            labels=one.mapping("labels", PackTable.text),
            domain=one.iris("domain"),
            range=one.iris("range"),
            parents=one.iris("parents"),
            comment=one.text("comment", " ").strip(),
        )
        if term.iri in found:
            raise InputError(f"{one.where} has the IRI {term.iri}, which was there before: expected each once")
        found[term.iri] = term
    return found


def _fingerprint(folder: Path) -> str:
    """Return a hash of the files of a pack, 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in (PACK, PATTERNS, EXAMPLES, SCHEMA, RULES):
        path = folder / name
        content = path.read_bytes() if path.is_file() else b""
        digest.update(b"%s %d\n" % (name.encode(), len(content)) + content)
    return digest.hexdigest()[:16]
