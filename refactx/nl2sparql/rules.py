"""The reader of `rules.toml`: tables of rules with their checks, each checked as it is read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from refactx.errors import InputError
from refactx.nl2sparql.rule_checks import (
    LITERAL,
    Apart,
    Check,
    Compared,
    Connected,
    Direction,
    End,
    Names,
    NoGraph,
    NoLiteral,
    Once,
    Place,
    Reach,
    Rule,
    Shared,
    Types,
    Values,
    Wanted,
)

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


OUTSIDE = "outside"
"""The name of the place that is in no GRAPH and no SERVICE."""


def read_rules(
    table: Table,
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
    reader = _Reader(prefixes, graphs, services)
    found: dict[str, Rule] = {}
    for number, values in enumerate(table.tables("rule"), 1):
        name = values.text("id")
        one = Table(f"{table.where}, rule {number} ({name})", values.values)
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
            names=Names(prefixes, {f"<{iri}>": place for place, iri in {**graphs, **services}.items()}),
        )
    return tuple(found.values())


class _Reader:
    """Reads checks, with the names of a pack."""

    def __init__(self, prefixes: Mapping[str, str], graphs: Mapping[str, str], services: Mapping[str, str]) -> None:
        self._prefixes, self._graphs, self._services = prefixes, graphs, services
        self._kinds: dict[str, tuple[Callable[[Table], Check], tuple[str, ...]]] = {
            "place": (self._place, ("names", "in", "not_in")),
            "no_graph": (self._no_graph, ("service",)),
            "shared": (self._shared, ("service",)),
            "direction": (self._direction, ("property", "subject", "object")),
            "reach": (self._reach, ("property", "end", "path", "never")),
            "values": (self._values, ("property", "end", "only")),
            "once": (self._once, ("property", "why")),
            "apart": (self._apart, ("one", "other", "unless", "why")),
            "connected": (lambda _: Connected(), ()),
            "no_literal": (self._no_literal, ("properties",)),
            "compared": (self._compared, ("properties", "any_case")),
            "types": (self._types, ("disjoint", "ends")),
        }

    def check(self, table: Table) -> Check:
        found = self._kinds.get(table.text("kind"))
        if found is None:
            raise table.wrong("kind", f"one of {', '.join(sorted(self._kinds))}")
        read, keys = found
        table.only("kind", *keys)
        return read(table)

    # --- The kinds

    def _place(self, table: Table) -> Check:
        never = "not_in" in table.values
        key = "not_in" if never else "in"
        places = table.texts(key)
        known = {*self._graphs, *self._services, OUTSIDE}
        if not places or not known.issuperset(places):
            raise table.wrong(key, f"a list of places among {', '.join(sorted(known))}")
        return Place(
            self._wanted(table, "names"),
            frozenset(f"<{self._graphs[one]}>" for one in places if one in self._graphs),
            frozenset(f"<{self._services[one]}>" for one in places if one in self._services),
            OUTSIDE in places,
            never,
        )

    def _no_graph(self, table: Table) -> Check:
        return NoGraph(self._service(table))

    def _shared(self, table: Table) -> Check:
        return Shared(self._service(table))

    def _direction(self, table: Table) -> Check:
        subject, value = (tuple(one.lower() for one in table.texts(key)) for key in ("subject", "object"))
        return Direction(self._name(table, "property"), subject, value)

    def _reach(self, table: Table) -> Check:
        path = tuple(self._term(table, "path", one) for one in table.texts("path"))
        never = frozenset(self._term(table, "never", one) for one in table.texts("never"))
        return Reach(self._name(table, "property"), self._is_subject(table), path, never)

    def _values(self, table: Table) -> Check:
        only = tuple(self._term(table, "only", one) for one in table.texts("only"))
        return Values(self._name(table, "property"), self._is_subject(table), only)

    def _once(self, table: Table) -> Check:
        return Once(self._name(table, "property"), table.text("why"))

    def _apart(self, table: Table) -> Check:
        one, other, unless = (self._wanted(table, key) for key in ("one", "other", "unless"))
        return Apart(one, other, unless, table.text("why"))

    def _no_literal(self, table: Table) -> Check:
        return NoLiteral(self._wanted(table, "properties"))

    def _compared(self, table: Table) -> Check:
        any_case = table.values.get("any_case", False)
        if not isinstance(any_case, bool):
            raise table.wrong("any_case", "true or false")
        return Compared(self._wanted(table, "properties"), any_case)

    def _types(self, table: Table) -> Check:
        ends = []
        for one in table.tables("ends"):
            one.only("property", "subject", "object", "value")
            classes = {key: self._class(one, key) for key in ("subject", "object") if key in one.values}
            value = self._name(one, "value") if "value" in one.values else ""
            ends.append(End(self._name(one, "property"), value=value, **classes))
        disjoint = tuple(self._term(table, "disjoint", one)[1:-1] for one in table.texts("disjoint"))
        return Types(disjoint, tuple(ends))

    # --- Names

    def _term(self, table: Table, key: str, name: str) -> str:
        """Return a prefixed name, an IRI, or the name of a graph as a term."""
        prefix, colon, local = name.partition(":")
        if name in self._graphs:
            return f"<{self._graphs[name]}>"
        if colon and prefix in self._prefixes:
            return f"<{self._prefixes[prefix]}{local}>"
        if colon and local.startswith("//") and IRI.fullmatch(name):
            return f"<{name}>"
        raise table.wrong(key, f"names with a prefix of the pack, or whole IRIs, and {name} is neither")

    def _name(self, table: Table, key: str) -> str:
        return self._term(table, key, table.text(key))

    def _class(self, table: Table, key: str) -> str:
        return LITERAL if table.text(key) == LITERAL else self._name(table, key)[1:-1]

    def _wanted(self, table: Table, key: str) -> Wanted:
        return Wanted(tuple(self._term(table, key, one) for one in table.texts(key)))

    def _service(self, table: Table) -> str:
        name = table.text("service")
        if name not in self._services:
            raise table.wrong(
                "service", f"one of {', '.join(self._services) or 'the services of the pack, which has none'}"
            )
        return f"<{self._services[name]}>"

    def _is_subject(self, table: Table) -> bool:
        end = table.text("end")
        if end not in ("subject", "object"):
            raise table.wrong("end", "subject or object")
        return end == "subject"
