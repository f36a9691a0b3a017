"""A schema of facts that are read out of texts: which predicates there are, between things of which classes, and how many.

A file in TOML, with a table for each predicate:

    [predicates."place of birth"]
    domain = ["human"]         # classes of subjects, by their names in the index; left out: any
    range = ["city", "town"]   # classes of objects; or one of the kinds time, quantity and text
    most = 1                   # of a subject, in a document
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from refactx.errors import InputError
from refactx.fact import clean_part, written_part
from refactx.walks.language import ValueKind

VALUE_KINDS: tuple[ValueKind, ...] = ("time", "quantity", "text")
LARGEST, MOST_PREDICATES = 1 << 20, 10_000
"""The most bytes of a file, and predicates in it."""


@dataclass(frozen=True, slots=True)
class PredicateRule:
    """What a schema says of a predicate. `domain`, `range`: classes, empty for any; `kind`: that of its objects; `most`: the
    most objects of a subject in a document, None for any number."""

    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    kind: ValueKind = "entity"
    most: int | None = None


@dataclass(frozen=True, slots=True)
class FactSchema:
    """The predicates of a schema by their names.

    >>> FactSchema.of({"predicates": {"founded": {"range": ["time"], "most": 1}}}).predicates["founded"].kind
    'time'
    """

    predicates: Mapping[str, PredicateRule] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any], name: str = "the schema") -> Self:
        """Return the schema of a document as TOML or JSON has it. Raises InputError for one that is none, with its `name`."""
        tables = document.get("predicates")
        if document.keys() != {"predicates"} or not isinstance(tables, dict) or not tables:
            raise InputError(f'{name} has to have tables such as [predicates."place of birth"], and nothing else')
        if len(tables) > MOST_PREDICATES:
            raise InputError(f"{name} has {len(tables):,} predicates: give at most {MOST_PREDICATES:,}")
        return cls({written_part(one): _rule(table, f"{one!r} of {name}") for one, table in tables.items()})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the schema of a file. Raises InputError if it cannot be read, or is none."""
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise InputError(f"{path} has more than {LARGEST >> 20} MiB: give a smaller schema")
            document = tomllib.loads(content.decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"the schema {path} cannot be read: {error}") from None
        return cls.of(document, str(path))


def _rule(table: object, name: str) -> PredicateRule:
    if not isinstance(table, dict) or table.keys() - {"domain", "range", "most"} or not clean_part(name):
        raise InputError(f"the predicate {name} has to be a table with domain, range and most alone")
    found = dict[str, tuple[str, ...]]()
    for side in ("domain", "range"):
        classes = table.get(side, [])
        if not isinstance(classes, list) or not all(isinstance(one, str) and clean_part(one) for one in classes):
            raise InputError(f"{side} of the predicate {name} has to be a list of names of classes")
        found[side] = tuple(map(written_part, classes))
    most = table.get("most")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise InputError(f"most of the predicate {name} is {most!r}: give a whole number, 1 or more")
    kinds = [one for one in VALUE_KINDS if one in found["range"]]
    if kinds and len(found["range"]) > 1:
        raise InputError(f"range of the predicate {name} is {kinds[0]} and more: give one kind of values, or classes")
    kind = kinds[0] if kinds else "entity"
    return PredicateRule(found["domain"], () if kinds else found["range"], kind, most)
