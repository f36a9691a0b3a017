"""A table of a pack's file, whose values are read by type; an error names the file, the place in it, and both types."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from refactx.errors import InputError

IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
_Value = TypeVar("_Value")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Table:
    """A table of TOML or an object of JSON. `where`: the file and the place in it, as errors name them."""

    where: str
    values: Mapping[str, Any]

    def wrong(self, key: str, expected: str) -> InputError:
        """Return the error for the value of a key."""
        found = f"has no {key}" if key not in self.values else f"has {key} = {_shown(self.values[key])}"
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

    def table(self, key: str) -> "Table":
        """Return a table within this one, which is empty without the key."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return Table(f"{self.where}, {key}:", value)

    def tables(self, key: str) -> "tuple[Table, ...]":
        """Return the tables of a list, which is empty without the key."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, f"tables [[{key}]]")
        return tuple(Table(f"{self.where}, {key} {number}", one) for number, one in enumerate(value, 1))

    def mapping(self, key: str, read: "Callable[[Table, str], _Value]") -> dict[str, _Value]:
        """Return the values of a table within this one, each read by a method: `table.mapping("graphs", Table.iri)`."""
        inner = self.table(key)
        return {name: read(inner, name) for name in inner.values}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
