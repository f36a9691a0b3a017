"""What stands for a URI in PGMR text: a kind, a label and a description; the protocols that name and find it; and the
mapping block of PGMR text, `entity1 = [ENT] Label [/ENT] Description`, with an entry a line or all on one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from refactx.index.names import Named
from refactx.walks.language import QueryError

Kind = Literal["entity", "relation"]
"""A relation is a property, whatever stands before its id in SPARQL; an entity is anything else."""

EXPECTED = "expected entityX = [ENT] Label [/ENT] Description, or relationY = [REL] Label [/REL] Description"
_HEAD = re.compile(r"(?<!\S)((?:entity|relation)\w+)\s*=\s*(?=\[(?!/))", re.IGNORECASE)
_ENTRY = re.compile(r"\[(ENT|REL)\](.*?)\[/(ENT|REL)\](.*)", re.IGNORECASE | re.DOTALL)
_MARK = re.compile(rf"\[/?(?:ENT|REL)\]|\b(?:start|end)uri\b|{_HEAD.pattern}", re.IGNORECASE)
_KINDS: Mapping[str, Kind] = {"ENT": "entity", "REL": "relation"}


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A URI in words. `description`: empty if it has none, None if the text does not say (the inline dialect).

    >>> str(Placeholder("relation", "nickname", "informal name"))
    '[REL] nickname [/REL] informal name'
    """

    kind: Kind
    label: str
    description: str | None = None

    def __str__(self) -> str:
        mark = "ENT" if self.kind == "entity" else "REL"
        return f"[{mark}] {self.label} [/{mark}] {self.description or ''}".rstrip()


class Names(Protocol):
    """What entities and properties are called."""

    def mentions(self, ids: Sequence[str]) -> Mapping[str, Placeholder]:
        """Return the mentions of ids (`Q42`, `P31`, an IRI), without ids that have no name."""
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a mention has no id, as a part of a sentence: `no entity of the index is called <Louisianna>`."""

    reason: str


class Resolver(Protocol):
    """What finds the ids of mentions."""

    def resolve(self, mentions: Sequence[Placeholder]) -> Sequence[str | Refusal]:
        """Return the id of each mention (`Q42`; `P31` for a relation), or why it has none."""
        ...


class RefusedError(QueryError):
    """A query that was refused, since some of its mentions have no id. `refusals`: why, by placeholder."""

    def __init__(self, mentions: Mapping[str, Placeholder], refusals: Mapping[str, Refusal]) -> None:
        self.refusals = refusals
        super().__init__("; ".join(f"{name} = {mentions[name]}: {why.reason}" for name, why in refusals.items()))


def kind_of(named: Named) -> Kind:
    """Return the kind of what an index names.

    >>> kind_of(Named("Q42", None)), kind_of(Named("P31", "entity"))
    ('entity', 'relation')
    """
    return "relation" if named.is_property else "entity"


def write_mapping(mentions: Mapping[str, Placeholder], *, lower: bool = False, one_line: bool = False) -> str:
    """Return the mapping block of mentions by placeholder: entities first.

    >>> ann = Placeholder("entity", "Ann", "a girl")
    >>> print(write_mapping({"relation1": Placeholder("relation", "spouse"), "entity1": ann}))
    entity1 = [ENT] Ann [/ENT] a girl
    relation1 = [REL] spouse [/REL]
    """
    ordered = sorted(mentions.items(), key=lambda item: item[1].kind != "entity")
    text = (" " if one_line else "\n").join(f"{name} = {mention}" for name, mention in ordered)
    return text.lower() if lower else text


def clean_mention(mention: Placeholder, id_: str) -> Placeholder:
    """Return a mention with one space for each white space.

    Raises QueryError, which names the id, if it has no label or contains a mark, so that it could not be read again.
    """
    label, description = " ".join(mention.label.split()), " ".join((mention.description or "").split())
    if not label:
        raise QueryError(f"{id_} has an empty label: give it a name")
    if (found := _MARK.search(f"{label} {description}")) is not None:
        raise QueryError(f"the name of {id_} contains {found[0]}, which is a mark of PGMR: {label} ({description})")
    return Placeholder(mention.kind, label, description)


def read_mapping(text: str) -> dict[str, Placeholder]:
    """Return the mentions of a mapping block by placeholder, in lower case. Raises QueryError if one is broken.

    >>> read_mapping("entity1 = [ENT] Ann [/ENT] a girl relation1 = [REL] spouse [/REL]")  # doctest: +NORMALIZE_WHITESPACE
    {'entity1': Placeholder(kind='entity', label='Ann', description='a girl'),
     'relation1': Placeholder(kind='relation', label='spouse', description='')}
    """
    heads = list(_HEAD.finditer(text))
    before = text[: heads[0].start()] if heads else text
    if before.strip():
        raise QueryError(f"{_shown(before)} is no mapping: {EXPECTED}")
    found = dict[str, Placeholder]()
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):  # without heads there is an end
        name = head[1].lower()
        if name in found:
            raise QueryError(f"{name} has two mappings: give each placeholder one")
        found[name] = _read_entry(name, text[head.end() : end])
    return found


def _read_entry(name: str, text: str) -> Placeholder:
    match = _ENTRY.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"the marks of {name} are not closed at {_shown(text)}: {EXPECTED}")
    opened, label, closed, description = match[1].upper(), *match.groups()[1:]
    kind = _KINDS[opened]
    if opened != closed.upper():
        raise QueryError(f"the mapping of {name} begins with [{opened}] and ends with [/{closed}]: {EXPECTED}")
    if not name.startswith(kind):
        raise QueryError(f"{name} is mapped by [{opened}], as {kind}: {EXPECTED}")
    if (line := description.partition("\n")[2].strip()) != "":
        raise QueryError(f"{_shown(line)} is no mapping: {EXPECTED}")
    if (mark := _MARK.search(f"{label} {description}")) is not None:
        raise QueryError(f"the mapping of {name} has a second {mark[0]}: {EXPECTED}")
    if not label.strip():
        raise QueryError(f"the mapping of {name} has no label: {EXPECTED}")
    return Placeholder(kind, " ".join(label.split()), " ".join(description.split()))


def _shown(text: str) -> str:
    """Return the first line of a text, cut to 40 characters, in quotes."""
    first = text.strip().partition("\n")[0]
    return repr(first if len(first) <= 40 else f"{first[:39]}…")
