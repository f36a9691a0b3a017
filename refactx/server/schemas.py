"""JSON schemas in the few keywords that a grammar holds: types, bounds and parts, without references, `not`, `if` or `oneOf`.

A schema is read as ways in which a value may be valid; a way has types, and rules of which each holds for values of its type.
`not` and what depends on something give more ways. The parts of values are sets of claims, that a schema holds or does not,
so recursion comes to an end. What no keyword of a grammar says is left out: all that is held is valid, but not all that is
valid is held. If nothing is left, the schema is refused.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import isfinite
from typing import Any, NamedTuple

from refactx.decoding.matching import json_problem
from refactx.server.references import References, SchemaPlace, UnheldError

TYPES = ("null", "boolean", "number", "string", "array", "object")
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"}
"""Those that are held. By JSON Schema's rules a format need not be checked, so others are left out."""
MOST_WAYS, MOST_STEPS, CHECK, RULES = 300, 200_000, 40, 10
"""The most ways of a part; the most steps that are made for one schema, some seconds: a step compares two ways, or reads
`RULES` of their rules, and `CHECK` of them try a grammar."""
LARGEST_SIZE = 2**31
"""The largest size that a grammar takes: no text is as long."""
MOST_NEAR = 40
"""The most ways to be as one schema of `oneOf` has it, and as no other one that has common values: the shortest ones."""
DEEPEST = 60
"""The most schemas within each other that say something of one value."""
_TYPE_OF = {
    "string": ("minLength", "maxLength", "pattern", "format", "others"),
    "number": ("integer", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems", "list", "contains"),
    "object": ("fields", "required", "forbidden", "minProperties", "maxProperties", "propertyNames"),
}
TYPE_OF = {kind: type_ for type_, kinds in _TYPE_OF.items() for kind in kinds}
_LOOP = "refers to itself with nothing between: what would be written has no end"
_LITERAL = re.compile(r"\^([\w-]+)\$", re.ASCII)
"""A pattern of one name."""
_CLASS = re.compile(r"\\.|\[(\^?)((?:\\.|[^\]\\])*)\]", re.DOTALL)
_IN_CLASS = re.compile(r"(\\.)|^-|\[|&(?=&)|~(?=~)|(?<=.-)-", re.DOTALL)
"""A class of characters, and what stands for itself in it by JSON Schema, but not by llguidance."""
_SIZES = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_MAPS = (
    "properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies", "$defs", "definitions",
)  # fmt: skip
_OPPOSITE = {
    "minimum": "exclusiveMaximum", "exclusiveMaximum": "minimum",
    "maximum": "exclusiveMinimum", "exclusiveMinimum": "maximum",
    "minLength": "maxLength", "maxLength": "minLength", "minItems": "maxItems", "maxItems": "minItems",
    "minProperties": "maxProperties", "maxProperties": "minProperties",
}  # fmt: skip


class Claim(NamedTuple):
    """That a schema holds, or that it does not. `place`: its number."""

    place: int
    holds: bool


class SchemaRule(NamedTuple):
    """A rule for values of one type, that of its `kind`, see `_TYPE_OF`. `at`: the place of its keyword; `tells`: whether it
    says which parts are evaluated."""

    kind: str
    value: Any
    at: str = ""
    tells: bool = True


class ValidWay(NamedTuple):
    """A way to be valid: one of some types, by all of some rules."""

    types: frozenset[str]
    rules: tuple[SchemaRule, ...] = ()


class ValidWays(NamedTuple):
    """The ways to be valid; `missing`: why there are others, which cannot be held."""

    ways: tuple[ValidWay, ...]
    missing: UnheldError | None = None


class Fields(NamedTuple):
    """Claims about the properties of an object: by names, by patterns of names, and about the `rest`."""

    names: Mapping[str, "Part"]
    patterns: Mapping[str, Claim]
    rest: Claim | None


Part = frozenset[Claim]
"""What a part of a value has to be: all of some claims."""
ANYTHING, NOTHING = Claim(0, True), Claim(0, False)
EVERY, NONE = ValidWays((ValidWay(frozenset(TYPES)),)), ValidWays(())


def listed(value: Any) -> list[Any]:
    """Return a value that may stand for a list of itself as a list."""
    return value if isinstance(value, list) else [value]


def type_of(value: Any) -> str:
    """Return the type of a value of JSON."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def same_text(value: Any) -> str:
    """Return a text that equal values of JSON have, 1 and 1.0 too.

    >>> same_text({"b": 1.0, "a": True}), same_text({"a": True, "b": 1}) == same_text({"b": 1.0, "a": True})
    ('{"a": true, "b": 1}', True)
    """

    def plain(one: Any) -> Any:
        if isinstance(one, list):
            return [plain(part) for part in one]
        if isinstance(one, dict):
            return {name: plain(part) for name, part in one.items()}
        return int(one) if isinstance(one, float) and one.is_integer() else one

    return json.dumps(plain(value), sort_keys=True)


class SchemaReading:
    """The ways of the parts of some schemas. `without`: places and keywords that are taken as if they were not there."""

    def __init__(self, documents: Mapping[str, Any], without: Iterable[tuple[str, str]] = ()) -> None:
        self._references, self._without = References(documents), frozenset(without)
        self._places, self._numbers = [SchemaPlace("", "", True, "", ())], dict[tuple[str, str, tuple[str, ...]], int]()
        self._known, self._open, self._steps = dict[Claim, ValidWays](), list[Claim](), 0

    def root(self) -> Part:
        """Return what the whole document at "" asks for."""
        return part_of(self._claim(self._references.root("")))

    def place_of(self, part: Part) -> str:
        """Return the place of a part, as errors tell it."""
        return self._places[max((one.place for one in part), default=0)].name

    def is_whole(self, part: Part) -> bool:
        """Return whether a part is a whole document."""
        return any(one.place and not self._places[one.place].pointer for one in part)

    def spend(self, steps: int) -> None:
        """Note some steps of work. Raise UnheldError when there were too many in all."""
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise UnheldError("#", "the schema", "takes too long to read: give a simpler one")

    def ways_of(self, part: Part) -> ValidWays:
        """Return the ways of all claims of a part. Raises UnheldError."""
        return self._all(map(self.ways, sorted(part)), max(part, default=ANYTHING))

    def _claim(self, place: SchemaPlace, *, holds: bool = True) -> Claim:
        seen = set[str]()
        while True:
            if self._without and isinstance(place.schema, Mapping):
                left = {one: value for one, value in place.schema.items() if (place.name, one) not in self._without}
                place = place._replace(schema=left)
            if not isinstance(place.schema, Mapping) or place.schema.keys() != {"$ref"}:
                break
            if place.name in seen:
                raise UnheldError(place.name, "$ref", _LOOP, is_wrong=True)
            seen.add(place.name)
            place = self._references.follow(place, "$ref")
        if isinstance(place.schema, bool):
            return Claim(0, place.schema == holds)
        key = (place.document, place.pointer, place.scope)
        number = self._numbers.setdefault(key, len(self._places))
        if number == len(self._places):
            self._places.append(place)
        return Claim(number, holds)

    def too_large(self, part: Part) -> UnheldError:
        """Return the error of a part with too many ways."""
        return UnheldError(self.place_of(part), "the schema", "has too many alternatives: give a simpler one")

    def _both(self, first: ValidWays, second: ValidWays, at: Claim) -> ValidWays:
        """Return the ways that are of both."""
        found = [ValidWay(types, one.rules + two.rules) for one in first.ways for two in second.ways
                 if (types := one.types & two.types)]  # fmt: skip
        found = [way for way in found if not _is_contradiction(way)]
        self.spend(len(first.ways) * len(second.ways) + sum(len(way.rules) for way in found) // RULES)
        if len(found) > MOST_WAYS:
            raise self.too_large(frozenset([at]))
        return ValidWays(tuple(found), first.missing or second.missing)

    def _either(self, all_: Iterable[ValidWays]) -> ValidWays:
        known = list(all_)
        missing = next((ways.missing for ways in known if ways.missing), None)
        return ValidWays(tuple(way for ways in known for way in ways.ways), missing)

    def ways(self, claim: Claim) -> ValidWays:
        """Return the ways of a claim. Raise UnheldError if it refers to itself, or is no schema."""
        if claim in self._known:
            return self._known[claim]
        place = self._places[claim.place]
        if isinstance(place.schema, bool):
            return EVERY if place.schema == claim.holds else NONE
        if claim in self._open:
            raise UnheldError(place.name, "$ref" if "$ref" in place.schema else "the schema", _LOOP, is_wrong=True)
        if len(self._open) > DEEPEST:
            raise UnheldError(place.name, "the schema", "is too deep: give one with fewer levels")
        if not isinstance(place.schema, Mapping):
            raise UnheldError(place.name, "the schema", "has to be an object, true or false", is_wrong=True)
        self._open.append(claim)
        assertions = (self._assertion(place, *one, claim) for one in _keywords(place))
        if claim.holds:
            found = self._evaluated(place, self._all(assertions, claim))
        else:
            late = [one for one in ("unevaluatedProperties", "unevaluatedItems") if one in place.schema]
            found = self._either([*assertions, *(self._lost(place, one) for one in late)])
            found = _untold(found)
        self._open.pop()
        self._known[claim] = found
        return found

    def _lost(self, place: SchemaPlace, keyword: str) -> ValidWays:
        said = "cannot be held where it must not be met, or together with the others: say what is meant without it"
        return ValidWays((), UnheldError(place.name, keyword, said))

    def _within(self, place: SchemaPlace, *steps: str | int, holds: bool = True) -> Claim:
        return self._claim(self._references.part(place, *steps), holds=holds)

    def _assertion(self, place: SchemaPlace, keyword: str, value: Any, claim: Claim) -> ValidWays:
        """Return the ways in which a keyword is fulfilled, or is not."""
        holds = claim.holds
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return self.ways(self._claim(self._references.follow(place, keyword), holds=holds))
        if keyword in ("allOf", "anyOf"):
            parts = (self.ways(self._within(place, keyword, number, holds=holds)) for number in range(len(value)))
            return self._all(parts, claim) if (keyword == "allOf") == holds else self._either(parts)
        if keyword == "not":
            return _untold(self.ways(self._within(place, keyword, holds=not holds)))
        if keyword == "oneOf":
            return self._one_of(place, value, claim)
        if keyword == "if":
            given = (
                (self.ways(self._within(place, "if", holds=met)), then)
                for met, then in ((True, "then"), (False, "else"))
            )
            free = EVERY if holds else NONE
            return self._either(
                self._both(
                    way, self.ways(self._within(place, then, holds=holds)) if then in place.schema else free, claim
                )
                for way, then in given
            )
        if keyword in ("type", "enum"):
            of = _of_type if keyword == "type" else _of_values
            return of(value, place, holds=holds)
        if keyword in ("dependentSchemas", "dependentRequired"):
            return self._dependent(place, keyword, value, claim)
        rule = SchemaRule(keyword, value, place.name)
        if keyword == "fields":
            rule = rule._replace(value=self._fields(place))
        elif keyword == "list":
            rule = rule._replace(value=self._list(place))
        elif keyword == "contains":
            rule = rule._replace(value=(self._within(place, "contains"), *value))
        elif keyword == "propertyNames":
            rule = rule._replace(value=self._within(place, keyword))
        if holds:
            return ValidWays((_way(TYPES, rule),))
        return self._opposite(place, rule)

    def _one_of(self, place: SchemaPlace, value: Sequence[Any], claim: Claim) -> ValidWays:
        """Return the ways of which exactly one schema is fulfilled; if it must not be: none of them, or two."""
        yes, no = ([self._within(place, "oneOf", n, holds=one) for n in range(len(value))] for one in (True, False))
        if not claim.holds:
            two = (self._both(self.ways(one), self.ways(other), claim) for one, other in combinations(yes, 2))
            return self._either([self._all(map(self.ways, no), claim), *two])
        found = list[ValidWays]()
        for number, one in enumerate(yes):
            own = self.ways(one)
            for n, other in enumerate(yes):
                if n != number and not self._apart(one, other):
                    own = self._both(own, self.ways(no[n]), claim)
                if len(own.ways) > MOST_NEAR:
                    missing = own.missing or self._lost(place, "oneOf").missing
                    own = ValidWays(tuple(sorted(own.ways, key=lambda way: len(way.rules))[:MOST_NEAR]), missing)
            found.append(own)
        return self._either(found)

    def _all(self, all_: Iterable[ValidWays], at: Claim) -> ValidWays:
        found = EVERY
        for one in all_:
            found = self._both(found, one, at)
        return found

    def _apart(self, one: Claim, two: Claim, depth: int = 3) -> bool:
        """Return whether it is sure that no value is as two claims have it."""
        first, second = self.ways(one), self.ways(two)
        if first.missing or second.missing or not depth:
            return False
        self.spend(len(first.ways) * len(second.ways))
        return all(
            all(self._apart_as(type_, left, right, depth) for type_ in left.types & right.types)
            for left in first.ways
            for right in second.ways
        )

    def _apart_as(self, type_: str, left: ValidWay, right: ValidWay, depth: int) -> bool:
        both = ValidWay(frozenset([type_]), left.rules + right.rules)
        if _is_contradiction(both):
            return True
        if type_ != "object":
            return False
        needed = {name for rule in both.rules if rule.kind == "required" for name in rule.value}
        fields = [rule.value for rule in both.rules if rule.kind == "fields"]
        return any(
            self._apart(a, b, depth - 1)
            for name in needed
            for ours, theirs in combinations([one.names[name] for one in fields if name in one.names], 2)
            for a, b in product(ours, theirs)
        )

    def _dependent(self, place: SchemaPlace, keyword: str, value: Mapping[str, Any], claim: Claim) -> ValidWays:
        found, either = EVERY, list[ValidWays]()
        for name, needed in value.items():
            given, absent = SchemaRule("required", (name,)), SchemaRule("forbidden", name)
            there = ValidWays((_way(["object"], given),))
            if keyword == "dependentRequired":
                met = ValidWays((_way(["object"], given, SchemaRule("required", tuple(needed))),))
                unmet = ValidWays(tuple(_way(["object"], given, SchemaRule("forbidden", one)) for one in needed))
            else:
                at = "dependencies" if name in place.schema.get("dependencies", ()) else keyword
                met, unmet = (
                    self._both(there, self.ways(self._within(place, at, name, holds=one)), claim)
                    for one in (True, False)
                )
            found = self._both(found, self._either([ValidWays((_way(TYPES, absent),)), met]), claim)
            either.append(unmet)
        return found if claim.holds else self._either(either)

    def _fields(self, place: SchemaPlace) -> Fields:
        names = {one: part_of(self._within(place, "properties", one)) for one in place.schema.get("properties", ())}
        patterns = dict[str, Claim]()
        for one in place.schema.get("patternProperties", ()):
            claim = self._within(place, "patternProperties", one)
            if literal := _LITERAL.fullmatch(one):
                names[literal[1]] = part_of(claim, *names.get(literal[1], ()))
                continue
            check_pattern(one, place.name, "patternProperties")
            patterns[grammar_pattern(one)] = claim
        rest = self._within(place, "additionalProperties") if "additionalProperties" in place.schema else None
        return Fields(names, patterns, rest)

    def _list(self, place: SchemaPlace) -> tuple[tuple[Claim, ...], Claim | None]:
        schema, items = place.schema, place.schema.get("items")
        key = "items" if isinstance(items, list) else "prefixItems"
        first = tuple(self._within(place, key, number) for number in range(len(schema.get(key, ()))))
        rest = "additionalItems" if key == "items" else "items"
        return first, self._within(place, rest) if rest in schema else None

    def _opposite(self, place: SchemaPlace, rule: SchemaRule) -> ValidWays:
        """Return the ways in which a rule does not hold."""
        kind, value, of = rule.kind, rule.value, [TYPE_OF[rule.kind]]
        if kind in _OPPOSITE:
            other = _OPPOSITE[kind]
            if "exclusive" not in other + kind:
                value += 1 if other.startswith("min") else -1
                if value < 0:
                    return NONE
            return ValidWays((_way(of, SchemaRule(other, value)),))
        if kind == "required":
            return ValidWays(tuple(_way(of, SchemaRule("forbidden", name)) for name in value))
        if kind == "format":  # it need not be checked
            return NONE
        if kind == "fields":
            named = [(name, opposite(one)) for name, part in value.names.items() for one in sorted(part)]
            found = [
                _way(of, SchemaRule("required", (name,)), SchemaRule("fields", Fields({name: part_of(one)}, {}, None)))
                for name, one in named
            ]
            more = value.patterns or value.rest not in (None, ANYTHING)
            return ValidWays(tuple(found), self._lost(place, "additionalProperties").missing if more else None)
        if kind == "list":
            first, rest = value
            each = enumerate((*first, *(() if rest is None else (rest,))))
            at = [(n, SchemaRule("list", ((*[ANYTHING] * n, opposite(one)), None), place.name)) for n, one in each]
            return ValidWays(tuple(_way(of, SchemaRule("minItems", n + 1), rule) for n, rule in at))
        if kind == "contains":
            claim, low, high = value
            sizes = [(0, low - 1)] if low else []
            sizes += [] if high is None else [(high + 1, None)]
            return ValidWays(tuple(_way(of, SchemaRule("contains", (claim, *size))) for size in sizes))
        return self._lost(place, kind)

    def _evaluated(self, place: SchemaPlace, found: ValidWays) -> ValidWays:
        """Return the ways with rules for the parts that no other rule of them evaluates."""
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword not in place.schema:
                continue
            rest, ways = self._within(place, keyword), list[ValidWay]()
            for way in found.ways:
                if keyword == "unevaluatedItems":
                    lists = [rule.value for rule in way.rules if rule.kind == "list" and rule.tells]
                    most = max((len(first) for first, _ in lists), default=0)
                    is_all = any(one is not None for _, one in lists)
                    rule = SchemaRule("list", ((ANYTHING,) * most, ANYTHING if is_all else rest))
                else:
                    fields = [rule.value for rule in way.rules if rule.kind == "fields" and rule.tells]
                    names = dict.fromkeys((name for one in fields for name in one.names), part_of())
                    patterns = dict.fromkeys((name for one in fields for name in one.patterns), ANYTHING)
                    is_all = any(one.rest is not None for one in fields)
                    rule = SchemaRule("fields", Fields(names, patterns, ANYTHING if is_all else rest))
                ways.append(ValidWay(way.types, (*way.rules, rule)))
            found = ValidWays(tuple(ways), found.missing)
        return found


def part_of(*claims: Claim | None) -> Part:
    """Return what a part has to be by some claims.

    >>> part_of(ANYTHING, None), part_of(Claim(3, True), NOTHING) == part_of(NOTHING)
    (frozenset(), True)
    """
    found = frozenset(one for one in claims if one is not None and one != ANYTHING)
    return frozenset([NOTHING]) if NOTHING in found else found


def grammar_pattern(pattern: str) -> str:
    r"""Return a pattern of JSON Schema in the syntax of llguidance, which reads the one of Rust.

    A class with all control characters takes an escaped quote and backslash there, which it may not have. So none has NUL.

    >>> print(grammar_pattern(r'^[^"]+[a[&&]$'))
    ^[^\x00"]+[a\[\&&]$
    """

    def written(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        if not found[2]:
            return r"[^\x00]" if found[1] else r"[^\s\S]"
        body = _IN_CLASS.sub(lambda one: one[1] or f"\\{one[0]}", found[2])
        return rf"[^\x00{body}]" if found[1] else f"[{body}]".replace(r"\x00-", r"\x01-").replace(r"\u0000-", r"\x01-")

    return _CLASS.sub(written, pattern)


def check_pattern(pattern: str, place: str, keyword: str) -> None:
    """Raise UnheldError for a pattern that no grammar has."""
    problem = json_problem(json.dumps({"type": "string", "pattern": grammar_pattern(pattern)}))
    if problem and not problem.startswith("Unsatisfiable"):
        said = (
            f"has {pattern[:80]!r}, which cannot be held: write one that does not look ahead or back, or repeat a group"
        )
        raise UnheldError(place, keyword, said)


def opposite(claim: Claim) -> Claim:
    """Return the claim that holds where another one does not."""
    return claim._replace(holds=not claim.holds)


def _way(types: Iterable[str], *rules: SchemaRule) -> ValidWay:
    return ValidWay(frozenset(types), rules)


def _untold(found: ValidWays) -> ValidWays:
    ways = (ValidWay(way.types, tuple(one._replace(tells=False) for one in way.rules)) for way in found.ways)
    return ValidWays(tuple(ways), found.missing)


def _is_contradiction(way: ValidWay) -> bool:
    """Return whether it is plain that no value is as a way has it."""
    values = [rule.value for rule in way.rules if rule.kind == "enum"]
    if len(values) > 1 and not set.intersection(*map(set, values)):
        return True
    if len(way.types) > 1:
        return False
    low, high = bounds(way.rules, "minimum"), bounds(way.rules, "maximum")
    if "number" in way.types and low is not None and high is not None:
        return low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))
    if "object" not in way.types:
        return False
    needed = {name for rule in way.rules if rule.kind == "required" for name in rule.value}
    return not needed.isdisjoint(rule.value for rule in way.rules if rule.kind == "forbidden")


def bounds(rules: Iterable[SchemaRule], kind: str) -> tuple[Any, bool] | None:
    """Return the bound of numbers by some rules, and whether it is no number itself. `kind`: minimum or maximum.

    >>> bounds([SchemaRule("minimum", 1), SchemaRule("exclusiveMinimum", 1)], "minimum")
    (1, True)
    """
    other = f"exclusiveM{kind[1:]}"
    found = [(rule.value, rule.kind == other) for rule in rules if rule.kind in (kind, other)]
    if not found:
        return None
    return max(found) if kind == "minimum" else min(found, key=lambda one: (one[0], not one[1]))


def _of_type(names: Sequence[str], place: SchemaPlace, *, holds: bool) -> ValidWays:
    types = frozenset("number" if one == "integer" else one for one in names)
    only_integers = "integer" in names and "number" not in names
    if holds:
        return ValidWays((_way(types, *([SchemaRule("integer", True)] if only_integers else [])),))
    said = "cannot be held where it must not be one: name the types that there may be"
    missing = UnheldError(place.name, "type", said) if only_integers else None
    rest = frozenset(TYPES) - types
    return ValidWays((_way(rest),) if rest else (), missing)


def _of_values(values: Sequence[Any], place: SchemaPlace, *, holds: bool) -> ValidWays:
    """Return the ways to be one of some values, or none of them."""
    by_type: dict[str, dict[str, Any]] = {}
    for value in values:
        by_type.setdefault(type_of(value), {}).setdefault(same_text(value), value)
    if holds:
        known = {text: value for found in by_type.values() for text, value in found.items()}
        return ValidWays((_way(by_type, SchemaRule("enum", known)),) if known else ())
    free = frozenset(TYPES) - by_type.keys()
    ways, missing = [_way(free)] if free else [], None
    if len(by_type.get("boolean", ())) == 1:
        other = False in by_type["boolean"].values()
        ways.append(_way(["boolean"], SchemaRule("enum", {same_text(other): other})))
    if "string" in by_type:
        ways.append(_way(["string"], SchemaRule("others", frozenset(by_type["string"].values()), place.name)))
    if "number" in by_type:
        ordered = sorted(by_type["number"].values())
        for low, high in zip((None, *ordered), (*ordered, None), strict=True):
            rules = [SchemaRule("exclusiveMinimum", low)] if low is not None else []
            rules += [SchemaRule("exclusiveMaximum", high)] if high is not None else []
            ways.append(_way(["number"], *rules))
    for type_, word in (("array", "Items"), ("object", "Properties")):
        sizes = [len(value) for value in by_type.get(type_, {}).values()]
        if sizes:
            ways.append(_way([type_], SchemaRule(f"min{word}", max(sizes) + 1)))
            ways += [_way([type_], SchemaRule(f"max{word}", min(sizes) - 1))] if min(sizes) else []
            said = "has lists or objects that must not be: name other types or sizes"
            missing = UnheldError(place.name, "const" if "const" in place.schema else "enum", said)
    return ValidWays(tuple(ways), missing)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and isfinite(value)))


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


_WANTED: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (_SIZES, lambda one: _is_number(one) and one >= 0 and int(one) == one, "an integer of 0 or more"),
    (_BOUNDS[:2], _is_number, "a number"),
    (_BOUNDS[2:], lambda one: _is_number(one) or isinstance(one, bool), "a number"),
    (("multipleOf",), lambda one: _is_number(one) and one > 0, "a number above 0"),
    (("pattern", "format"), lambda one: isinstance(one, str), "a text"),
    (("uniqueItems",), lambda one: isinstance(one, bool), "true or false"),
    (("required",), _is_texts, "a list of names"),
    (("enum",), lambda one: isinstance(one, list), "a list of values"),
    (("allOf", "anyOf", "oneOf"), lambda one: isinstance(one, list) and bool(one), "a list of schemas"),
    (("prefixItems",), lambda one: isinstance(one, list), "a list of schemas"),
    (_MAPS, lambda one: isinstance(one, Mapping), "an object"),
    (
        ("type",),
        lambda one: _is_texts(listed(one)) and {*TYPES, "integer"}.issuperset(listed(one)),
        f"one or a list of {', '.join(TYPES)} and integer",
    ),
)


def _keywords(place: SchemaPlace) -> Iterator[tuple[str, Any]]:
    """Yield what a schema says in some keywords of its own, each in one form for all drafts. Raise UnheldError for values that
    they cannot have."""
    schema = place.schema
    for keywords, fits, wanted in _WANTED:
        for one in keywords:
            if one in schema and not fits(schema[one]):
                raise UnheldError(place.name, one, f"has to be {wanted}", is_wrong=True)
    yield from ((one, schema[one]) for one in ("$ref", "$dynamicRef", "$recursiveRef") if one in schema)
    if "type" in schema:
        yield "type", listed(schema["type"])
    yield from (("enum", schema[one] if one == "enum" else [schema[one]]) for one in ("enum", "const") if one in schema)
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusiveM{bound[1:]}"
        if bound in schema:
            yield (exclusive if schema.get(exclusive) is True else bound), schema[bound]
        if not isinstance(schema.get(exclusive, True), bool):
            yield exclusive, schema[exclusive]
    yield from ((one, min(int(schema[one]), LARGEST_SIZE)) for one in _SIZES[:6] if one in schema)
    yield from ((one, schema[one]) for one in ("multipleOf", "pattern") if one in schema)
    if schema.get("format") in FORMATS:
        yield "format", schema["format"]
    if any(one in schema for one in ("properties", "patternProperties", "additionalProperties")):
        yield "fields", None
    if schema.get("required"):
        yield "required", tuple(schema["required"])
    if "items" in schema or "prefixItems" in schema:
        yield "list", None
    if "contains" in schema:
        yield "contains", (int(schema.get("minContains", 1)), schema.get("maxContains"))
    if schema.get("uniqueItems"):
        yield "uniqueItems", True
    if "propertyNames" in schema:
        yield "propertyNames", None
    depends = schema.get("dependencies", {})
    required = {name: one for name, one in depends.items() if isinstance(one, list)}
    required |= schema.get("dependentRequired", {})
    for name, needed in required.items():
        if not _is_texts(needed):
            said = f"has to have a list of names for {name[:80]!r}"
            raise UnheldError(place.name, "dependentRequired", said, is_wrong=True)
    schemas = {name: one for name, one in depends.items() if name not in required} | dict(
        schema.get("dependentSchemas", {})
    )
    yield from (pair for pair in (("dependentRequired", required), ("dependentSchemas", schemas)) if pair[1])
    yield from ((one, schema[one]) for one in ("allOf", "anyOf", "oneOf", "not") if one in schema)
    if "if" in schema and ("then" in schema or "else" in schema):
        yield "if", None
