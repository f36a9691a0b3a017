"""Schemas in keywords that a grammar holds: types, bounds and parts, without references, `not`, `if`, `oneOf` and the like.

Where no keyword of a grammar says what a schema does, less is held: all of it is valid, but not all that is valid is held. What
can have no value, since it is part of itself without an end, is left out where it may be. If nothing is left, the schema is
refused, by the first thing that cannot be held.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, islice
from math import ceil, floor, lcm
from typing import Any, NamedTuple

from refactx.decoding.matching import EXACT, json_problem, json_takes
from refactx.server.references import UnheldError
from refactx.server.schemas import (
    CHECK,
    NOTHING,
    TYPE_OF,
    TYPES,
    Claim,
    Fields,
    Part,
    SchemaReading,
    SchemaRule,
    ValidWay,
    bounds,
    check_pattern,
    grammar_pattern,
    opposite,
    part_of,
    same_text,
    type_of,
)  # fmt: skip

MOST_PARTS, MOST_SHAPES, MOST_CHOICES = 3000, 300, 100
"""The most parts of a schema, the most shapes of one, and the most of them that differ only in the properties they need."""
MOST_VALUES, LONGEST_OTHERS = 300, 20_000
"""The most lists of values that are all different; the most characters of a pattern of texts that are none of some."""


class ValueShape(NamedTuple):
    """Values of one type, in keywords of a grammar, and their parts. `values`: all of them, where they are few."""

    keywords: Mapping[str, Any]
    values: Sequence[Any] | None = None
    properties: Mapping[str, Part] = {}
    patterns: Mapping[str, Part] = {}
    rest: Part | None = None
    items: Sequence[Part] = ()
    tail: Part | None = None

    @property
    def parts(self) -> Iterator[Part]:
        """The parts of its values."""
        yield from (*self.properties.values(), *self.patterns.values(), *self.items)
        yield from (one for one in (self.rest, self.tail) if one is not None)


def held(
    documents: Mapping[str, Any], *, is_closed: bool = False, without: Iterable[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Return the schema at "" in keywords of a grammar. `documents`: by their addresses, as in `References`.

    `is_closed`: objects have the properties that are named alone, where nothing is said of others; `without`: as in
    `SchemaReading`. Raises UnheldError.

    >>> held({"": {"not": {"type": ["null", "boolean", "number", "array", "object"]}}})
    {'type': 'string'}
    """
    return _ValueShapes(SchemaReading(documents, without), is_closed=is_closed).schema()


def others(texts: Iterable[str]) -> str | None:
    """Return a pattern of the strings that are none of some; None if it would be too long. For NUL see `grammar_pattern`.

    >>> others(["a"])
    '^(?:|[^\\\\x00\\\\x{61}](?s:.)*|\\\\x{61}(?s:.)+)$'
    """
    known, after = set(texts), dict[str, set[str]]()
    for text in known:
        after.setdefault(text, set())
        for size in range(len(text)):
            after.setdefault(text[:size], set()).add(text[size])
    if 6 * sum(map(len, after)) > LONGEST_OTHERS:
        return None

    def coded(text: Iterable[str]) -> str:
        return "".join(f"\\x{{{ord(one):x}}}" for one in text)

    parts = list[str]()
    for begun, following in sorted(after.items()):
        parts += [] if begun in known else [coded(begun)]
        parts.append(coded(begun) + (f"[^\\x00{coded(sorted(following))}](?s:.)*" if following else "(?s:.)+"))
    return f"^(?:{'|'.join(parts)})$"


class _ValueShapes:
    """The shapes of the parts of a schema."""

    def __init__(self, reading: SchemaReading, *, is_closed: bool) -> None:
        self._reading, self._is_closed = reading, is_closed
        self._shapes, self._missing = dict[Part, list[ValueShape]](), dict[Part, UnheldError]()
        self._names, self._full = dict[Part, str](), set[Part]()

    def schema(self) -> dict[str, Any]:
        """Return the whole schema. Raises UnheldError."""
        root = self._reading.root()
        waiting = [root]
        while waiting:
            part = waiting.pop()
            if part not in self._shapes:
                self._shapes[part] = self._shapes_of(part)
                waiting += [one for shape in self._shapes[part] for one in shape.parts]
            if len(self._shapes) > MOST_PARTS:
                raise UnheldError(self._reading.place_of(part), "the schema", "has too many parts: give a simpler one")
        self._fill()
        if root not in self._full:
            raise self._lack(root)
        written, queue = dict[str, Any](), [root]
        self._names[root] = "p0"
        for part in queue:
            before = len(self._names)
            written[self._names[part]] = self._written(part)
            queue += list(self._names)[before:]
        whole: dict[str, Any] = written.pop("p0")
        if '"#/$defs/p0"' in json.dumps([whole, written]):
            written["p0"], whole = whole, {"$ref": "#/$defs/p0"}
        return {**whole, "$defs": written} if written else whole

    # What can have a value

    def _fill(self) -> None:
        """Find the parts that have values."""
        parts, size = list(reversed(self._shapes)), -1
        while size < len(self._full):
            size = len(self._full)
            self._full |= {part for part in parts if any(map(self._has_value, self._shapes[part]))}

    def _has_value(self, shape: ValueShape) -> bool:
        more = shape.keywords.get("minProperties", 0) > len(shape.keywords.get("required", ()))
        others_ = [*shape.patterns.values(), *(() if shape.rest is None else (shape.rest,))]
        return self._full.issuperset(_needed(shape)) and (not more or any(one in self._full for one in others_))

    def _lack(self, part: Part) -> UnheldError:
        """Return why a part has no value: something that cannot be held, or that can have no value at all."""
        seen, waiting = {part}, [part]
        for one in waiting:
            if one in self._missing:
                return self._missing[one]
            new = {child for shape in self._shapes[one] for child in _needed(shape)} - self._full - seen
            seen |= new
            waiting += sorted(new, key=sorted)
        empty = next((one for one in waiting if not self._shapes[one]), part)
        said = "fits no value: what it asks for contradicts itself, or has no end"
        return UnheldError(self._reading.place_of(empty), "the schema", said, is_wrong=True)

    # Writing

    def _written(self, part: Part) -> dict[str, Any]:
        found = [self._schema_of(shape) for shape in self._shapes[part] if self._has_value(shape)]
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _reference(self, part: Part) -> Any:
        """Return the schema of a part of another one, false for none."""
        if not part:
            return {}
        if part not in self._full:
            if all(one.holds for one in part) and not (lack := self._lack(part)).is_wrong:
                raise lack
            return False
        if not any(list(shape.parts) for shape in self._shapes[part]):
            return self._written(part)
        return {"$ref": f"#/$defs/{self._names.setdefault(part, f'p{len(self._names)}')}"}

    def _schema_of(self, shape: ValueShape) -> dict[str, Any]:
        found = dict(shape.keywords)
        if found.get("type") == "object":
            found["properties"] = {name: self._reference(part) for name, part in shape.properties.items()}
            patterns = {one: self._reference(part) for one, part in shape.patterns.items()}
            rest = False if shape.rest is None else self._reference(shape.rest)
            self._reading.spend(CHECK if patterns else 1)
            if patterns and not _has_other_names(found["properties"], patterns, has_rest=rest is not False):
                patterns, rest = {}, False
            found |= {"patternProperties": patterns} if patterns else {}
            found["additionalProperties"] = rest
        if found.get("type") == "array":
            first = [self._reference(part) for part in shape.items]
            if False in first:
                first = first[: first.index(False)]
                found["maxItems"] = min(len(first), found.get("maxItems", len(first)))
            found |= {"prefixItems": first} if first else {}
            found["items"] = False if shape.tail is None else self._reference(shape.tail)
        return found

    # Shapes

    def _shapes_of(self, part: Part) -> list[ValueShape]:
        if not part:
            return [ValueShape({})]
        ways, found = self._reading.ways_of(part), list[ValueShape]()
        if ways.missing is not None:
            self._missing[part] = ways.missing
        for way in ways.ways:
            listed = [rule.value for rule in way.rules if rule.kind == "enum"]
            if listed:
                values = [value for value in listed[0].values() if self._is_by(way, value)]
                found += [ValueShape({"enum": values}, values)] if values else []
                continue
            for type_ in TYPES:
                if type_ in way.types:
                    rules = [rule for rule in way.rules if TYPE_OF[rule.kind] == type_]
                    found += [one for one in self._of_type(part, type_, rules) if one not in found]
            if len(found) > MOST_SHAPES:
                raise self._reading.too_large(part)
        return found

    def _of_type(self, part: Part, type_: str, rules: Sequence[SchemaRule]) -> list[ValueShape]:
        if type_ in ("null", "boolean"):
            return [ValueShape({"type": type_}, [None] if type_ == "null" else [False, True])]
        makers = {"number": self._number, "string": self._string, "array": self._arrays, "object": self._objects}
        return makers[type_](part, rules)

    def _number(self, part: Part, rules: Sequence[SchemaRule]) -> list[ValueShape]:
        found: dict[str, Any] = {"type": "integer" if any(rule.kind == "integer" for rule in rules) else "number"}
        steps = [rule.value for rule in rules if rule.kind == "multipleOf"]
        step = Fraction(1) if found["type"] == "integer" else None
        for one in map(_fraction, steps):
            step = one if step is None else _common(step, one)
        ends = dict[str, tuple[Any, bool]]()
        for kind, sign in (("minimum", -1), ("maximum", 1)):
            end = bounds(rules, kind)
            if end is not None and sign * end[0] > EXACT:  # what is beyond is rounded: a narrower bound
                end = (sign * EXACT, False)
            elif end is not None and -sign * end[0] > EXACT:
                said = "is beyond 2^53, where numbers are not exact: give a bound within, or use a string"
                return self._not_held(part, _unheld(rules, (kind, f"exclusiveM{kind[1:]}"), said))
            if end is not None:
                ends[kind] = end
                found[kind if not end[1] else f"exclusiveM{kind[1:]}"] = end[0]
        if len(ends) == 2:
            if not _has_number(ends["minimum"], ends["maximum"], step):
                return []
            found |= _inner_ends(found)
        if steps:
            found |= _joined(found["type"], multipleOf=steps)
            if json_problem(json.dumps(found)):
                said = "has too many digits, or no number: give a simpler step"
                return self._not_held(part, _unheld(rules, ("multipleOf",), said))
        return [ValueShape(found)]

    def _not_held(self, part: Part, why: UnheldError) -> list[ValueShape]:
        """Note why there are values of a part that cannot be held."""
        self._missing.setdefault(part, why)
        return []

    def _string(self, part: Part, rules: Sequence[SchemaRule]) -> list[ValueShape]:
        found: dict[str, Any] = {"type": "string", **_sizes(rules, "Length")}
        if found.get("minLength", 0) > found.get("maxLength", EXACT):
            return []
        patterns = list(dict.fromkeys(grammar_pattern(rule.value) for rule in rules if rule.kind == "pattern"))
        formats = list(dict.fromkeys(rule.value for rule in rules if rule.kind == "format"))
        texts = {text for rule in rules if rule.kind == "others" for text in rule.value}
        if texts:
            other = others(texts)
            if other is None:
                said = "has too many texts that it must not be: name those that there may be"
                return self._not_held(part, _unheld(rules, ("others",), said))
            patterns.append(other)
        found |= _joined("string", pattern=patterns, format=formats)
        self._reading.spend(CHECK if patterns or formats else 1)
        problem = json_problem(json.dumps(found)) if patterns or formats else ""
        if problem and not problem.startswith("Unsatisfiable"):
            for rule in rules:
                if rule.kind == "pattern":
                    check_pattern(rule.value, rule.at, "pattern")
            said = "is too large together with the others: give a simpler one"
            return self._not_held(part, _unheld(rules, ("pattern", "format", "others"), said))
        return [] if problem else [ValueShape(found)]

    def _arrays(self, part: Part, rules: Sequence[SchemaRule]) -> list[ValueShape]:
        lists = [rule.value for rule in rules if rule.kind == "list"]
        sizes = _sizes(rules, "Items")
        size, tail = max((len(first) for first, _ in lists), default=0), part_of(*(rest for _, rest in lists))
        items = [part_of(*(first[n] if n < len(first) else rest for first, rest in lists)) for n in range(size)]
        plans = [(items, tail, sizes.get("minItems", 0))]
        for claim, low, high in (rule.value for rule in rules if rule.kind == "contains"):
            if max(low, high or 0) <= MOST_SHAPES:
                plans = [one for plan in plans for one in _containing(plan, claim, low, high)]
            if len(plans) > MOST_SHAPES or max(low, high or 0) > MOST_SHAPES:
                said = "has too many items: give fewer"
                return self._not_held(part, _unheld(rules, ("contains",), said))
        found, most = list[ValueShape](), sizes.get("maxItems")
        for first, rest, least in plans:
            if most is not None and least > most:
                continue
            different = next((rule.at for rule in rules if rule.kind == "uniqueItems"), None)
            if different is not None and (most is None or most > 1):
                found += self._different(part, first, rest, (least, most), different)
                continue
            ends = {"minItems": least} if least else {}
            ends |= {} if most is None else {"maxItems": most}
            found.append(ValueShape({"type": "array", **ends}, items=first[:most], tail=rest))
        return found

    def _different(
        self, part: Part, items: Sequence[Part], rest: Part, ends: tuple[int, int | None], at: str
    ) -> list[ValueShape]:
        """Return the shape of lists whose items are all different, where there are few values."""
        least, most = ends
        if NOTHING in rest:
            most = min(len(items), len(items) if most is None else most)
        if most is not None and most <= 1:
            return [ValueShape({"type": "array", "minItems": least, "maxItems": most}, items=items[:most], tail=rest)]
        values = [self._values_of(one) for one in (*items, rest)[: most if most is not None else None]]
        known = [one for one in values if one is not None]
        if len(known) < len(values):
            said = "cannot be held where there are many values: name them by enum, say maxItems 1, or leave it out"
            return self._not_held(part, UnheldError(at, "uniqueItems", said))
        for is_ordered in (False, True):  # in any order, or in one alone if there are too many
            levels: list[list[list[Any]]] = [[[]]]
            while levels[-1] and (most is None or len(levels) <= most) and sum(map(len, levels)) <= MOST_VALUES:
                of = known[min(len(levels) - 1, len(known) - 1)]
                levels.append(_longer(levels[-1], of, is_ordered=is_ordered))
            is_whole = sum(map(len, levels)) <= MOST_VALUES
            if is_whole:
                break
        lists = [one for level in (levels if is_whole else levels[:-1])[least:] for one in level]
        return [ValueShape({"enum": lists}, lists)] if lists else []

    def _values_of(self, part: Part) -> list[Any] | None:
        """Return the values of a part; None if they may be many."""
        ways = self._reading.ways_of(part).ways
        if not all(way.types <= {"null", "boolean"} or any(rule.kind == "enum" for rule in way.rules) for way in ways):
            return None
        values = {same_text(one): one for shape in self._shapes_of(part) for one in shape.values or ()}
        return list(values.values())

    def _objects(self, part: Part, rules: Sequence[SchemaRule]) -> list[ValueShape]:
        fields: list[Fields] = [rule.value for rule in rules if rule.kind == "fields"]
        needed = list(dict.fromkeys(name for rule in rules if rule.kind == "required" for name in rule.value))
        refused = {rule.value for rule in rules if rule.kind == "forbidden"}
        claims = [rule.value for rule in rules if rule.kind == "propertyNames"]
        named = dict.fromkeys(name for one in fields for name in one.names)
        properties = {name: self._property(fields, name) for name in dict.fromkeys((*named, *needed, *refused))}
        patterns, rest = self._patterns(fields), part_of(*(one.rest for one in fields))
        if claims:
            patterns, rest = self._named(claims, fields, properties, (patterns, rest))
        for name in properties:
            if name in refused or not all(self._is_by_part(part_of(one), name) for one in claims):
                properties[name] = part_of(NOTHING)
        says_all = any(one.rest is not None or one.patterns for one in fields) or claims
        if self._is_closed and not says_all and (named or self._reading.is_whole(part)) and named.keys() >= {*needed}:
            rest = part_of(NOTHING)
        if any(NOTHING in properties[name] for name in needed):
            return []
        if self._narrows(patterns, properties):
            patterns, rest = {}, part_of(NOTHING)
        whole = ValueShape({"type": "object", "required": needed}, None, properties, patterns, rest)
        found = _sized(whole, _sizes(rules, "Properties"))
        held_ = [one for one in found if one.keywords.get("minProperties", 0) <= len(one.keywords["required"]) + 1]
        if len(held_) < len(found):
            said = "cannot be held, since a text may have one name twice: name more properties, or leave it out"
            self._not_held(part, _unheld(rules, ("minProperties",), said))
        return held_

    def _narrows(self, patterns: Mapping[str, Part], properties: Mapping[str, Part]) -> bool:
        """Return whether a pattern asks more of a property than is asked of it: one of several patterns, or of a name alone."""
        return any(
            not part <= of and NOTHING not in of and self._matches(pattern, name)
            for pattern, part in patterns.items()
            for name, of in properties.items()
        )

    def _matches(self, pattern: str, text: str) -> bool:
        self._reading.spend(CHECK)
        schema = {"type": "string", "pattern": grammar_pattern(pattern)}
        return json_takes(json.dumps(schema), json.dumps(text, ensure_ascii=False))

    def _have_common_names(self, one: str, two: str) -> bool:
        self._reading.spend(CHECK)
        return bool(json_problem(json.dumps({"type": "object", "patternProperties": {one: {}, two: {}}})))

    def _patterns(self, fields: Sequence[Fields]) -> dict[str, Part]:
        """Return the patterns of names, those with common names as one, whose values are as all of them have it."""
        groups = list[list[str]]()
        for pattern in dict.fromkeys(one for each in fields for one in each.patterns):
            near = [group for group in groups if any(self._have_common_names(pattern, one) for one in group)]
            groups = [group for group in groups if group not in near]
            groups.append([*(one for group in near for one in group), pattern])
        found = dict[str, Part]()
        for group in groups:
            claims = [one.patterns[pattern] for one in fields for pattern in group if pattern in one.patterns]
            rests = [one.rest for one in fields if not all(pattern in one.patterns for pattern in group)]
            found[group[0] if len(group) == 1 else "|".join(f"(?:{one})" for one in group)] = part_of(*claims, *rests)
        return found

    def _property(self, fields: Sequence[Fields], name: str) -> Part:
        claims = list[Claim | None]()
        for one in fields:
            fitting = [claim for pattern, claim in one.patterns.items() if self._matches(pattern, name)]
            claims += [*one.names.get(name, ()), *fitting]
            claims += [one.rest] if not fitting and name not in one.names else []
        return part_of(*claims)

    def _named(
        self,
        claims: Sequence[Claim],
        fields: Sequence[Fields],
        properties: dict[str, Part],
        other: tuple[dict[str, Part], Part],
    ) -> tuple[dict[str, Part], Part]:
        """Return the patterns and the rest of an object whose names are as some claims have it. Names that they list are added
        to its properties."""
        patterns, rest = other
        regexes = list[str | None]()
        for way in self._reading.ways_of(part_of(*claims)).ways:
            listed = [rule.value for rule in way.rules if rule.kind == "enum"]
            if listed:
                for name in filter(lambda one: isinstance(one, str), listed[0].values()):
                    properties.setdefault(name, self._property(fields, name))
            elif "string" in way.types:
                regexes.append(_regex([rule for rule in way.rules if TYPE_OF[rule.kind] == "string"]))
        if "" in regexes:
            return patterns, rest
        known = [one for one in regexes if one is not None]
        if not known or (patterns and set(known) != set(patterns)):
            return {}, part_of(NOTHING)
        return patterns or {"|".join(f"(?:{one})" for one in known): rest}, part_of(NOTHING)

    # Values

    def _is_by_part(self, part: Part, value: Any) -> bool:
        return any(self._is_by(way, value) for way in self._reading.ways_of(part).ways)

    def _is_by(self, way: ValidWay, value: Any) -> bool:
        """Return whether a value is as a way has it."""
        type_ = type_of(value)
        of = [rule for rule in way.rules if rule.kind == "enum" or TYPE_OF[rule.kind] == type_]
        return type_ in way.types and all(self._is_right(rule, value) for rule in of)

    def _is_right(self, rule: SchemaRule, value: Any) -> bool:
        kind, said = rule.kind, rule.value
        if kind.endswith(("Length", "Items", "Properties")) and kind[:3] in ("min", "max"):
            return bool(len(value) >= said if kind[:3] == "min" else len(value) <= said)
        if kind in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            low, high = (said, value) if kind.lower().endswith("minimum") else (value, said)
            return bool(low < high or (low == high and kind in ("minimum", "maximum")))
        if kind == "enum":
            return same_text(value) in said
        if kind in ("integer", "multipleOf"):
            return _fraction(value) % (1 if kind == "integer" else _fraction(said)) == 0
        if kind == "list":
            first, rest = said
            each = [first[n] if n < len(first) else rest for n in range(len(value))]
            return all(self._is_by_part(part_of(claim), one) for claim, one in zip(each, value, strict=True))
        if kind == "contains":
            claim, low, high = said
            yes, no = (sum(self._is_by_part(part_of(one), item) for item in value) for one in (claim, opposite(claim)))
            return yes >= low and (high is None or len(value) - no <= high)
        if kind == "uniqueItems":
            return len(set(map(same_text, value))) == len(value)
        if kind == "fields":
            return all(self._is_by_part(self._property([said], name), one) for name, one in value.items())
        if kind == "propertyNames":
            return all(self._is_by_part(part_of(said), name) for name in value)
        if kind in ("required", "forbidden"):
            return all(name in value for name in said) if kind == "required" else said not in value
        return kind == "format" or (value not in said if kind == "others" else self._matches(said, value))


def _unheld(rules: Iterable[SchemaRule], kinds: Sequence[str], said: str) -> UnheldError:
    """Return the error of the first rule of some kinds."""
    rule = next(one for one in rules if one.kind in kinds)
    return UnheldError(rule.at, "enum" if rule.kind == "others" else rule.kind, said)


def _needed(shape: ValueShape) -> list[Part]:
    """Return the parts that all values of a shape have."""
    items = [*shape.items, *([] if shape.tail is None else [shape.tail])]
    least = shape.keywords.get("minItems", 0)
    return [shape.properties[name] for name in shape.keywords.get("required", ())] + items[:least]


def _has_other_names(names: Iterable[str], patterns: Mapping[str, Any], *, has_rest: bool) -> bool:
    """Return whether an object can have names that are none of some: where none is left, a comma would have nothing after."""
    null = {"type": "null"}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, False),
        "patternProperties": {one: value is not False and null for one, value in patterns.items()},
        "additionalProperties": has_rest and null,
    }
    return json_takes(json.dumps(schema), '{"', begun=True)


def _joined(type_: str, **values: Sequence[Any]) -> dict[str, Any]:
    """Return keywords that say each of their values."""
    first = {keyword: said[0] for keyword, said in values.items() if said}
    more = [{"type": type_, keyword: one} for keyword, said in values.items() for one in said[1:]]
    return first | ({"allOf": more} if more else {})


def _sizes(rules: Iterable[SchemaRule], of: str) -> dict[str, int]:
    """Return the bounds of a size. `of`: Length, Items or Properties."""
    low = [rule.value for rule in rules if rule.kind == f"min{of}"]
    high = [rule.value for rule in rules if rule.kind == f"max{of}"]
    return ({f"min{of}": max(low)} if low and max(low) else {}) | ({f"max{of}": min(high)} if high else {})


def _fraction(value: Any) -> Fraction:
    return Fraction(str(value))


def _common(one: Fraction, two: Fraction) -> Fraction:
    """Return the least number that is a multiple of both."""
    return Fraction(
        lcm(one.numerator * two.denominator, two.numerator * one.denominator), one.denominator * two.denominator
    )


def _has_number(low: tuple[Any, bool], high: tuple[Any, bool], step: Fraction | None) -> bool:
    """Return whether there is a number between bounds, which may be exclusive. `step`: of which it is a multiple."""
    if step is None:
        return bool(low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1]))
    first, last = _fraction(low[0]) / step, _fraction(high[0]) / step
    from_ = floor(first) + 1 if low[1] else ceil(first)
    return from_ <= (ceil(last) - 1 if high[1] else floor(last))


def _inner_ends(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exclusive ends of a schema of numbers that a grammar takes, within one unit, a little further inside."""
    low, high = (schema.get(f"exclusiveM{kind}", schema.get(f"m{kind}")) for kind in ("inimum", "aximum"))
    width, size, found = _fraction(high) - _fraction(low), Fraction(1), dict[str, Any]()
    while size * 100 > width > 0:
        size /= 10
    for keyword, end, sign in (("exclusiveMinimum", low, 1), ("exclusiveMaximum", high, -1)):
        if keyword in schema and any(json_takes(json.dumps(schema), text) for text in (json.dumps(end), f"-{end}")):
            found[keyword] = float(_fraction(end) + sign * size)
    return found


def _longer(lists: Sequence[list[Any]], values: Sequence[Any], *, is_ordered: bool) -> list[list[Any]]:
    """Return lists with one more value, which is none of them. `is_ordered`: and stands after the last one in `values`."""
    texts, found = [same_text(one) for one in values], list[list[Any]]()
    for begun in lists:
        known = [same_text(one) for one in begun]
        first = texts.index(known[-1]) if is_ordered and known and known[-1] in texts else 0
        found += [[*begun, one] for one, text in zip(values[first:], texts[first:], strict=True) if text not in known]
    return found


_Plan = tuple[list[Part], Part, int]
"""The first items of a list, the others, and the least number of items."""


def _containing(plan: _Plan, claim: Claim, low: int, high: int | None) -> Iterator[_Plan]:
    """Yield plans of lists with at least `low` and at most `high` items as a claim has them: those stand side by side."""
    items, tail, least = plan
    if high is not None and high < low:
        return
    for start in range(len(items) + 1 if low or high is not None else 1):
        size = start + max(low, high or 0)
        first = [*items, *[tail] * (size - len(items))]
        for n, part in enumerate(first):
            if start <= n < start + low:
                first[n] = part_of(*part, claim)
            elif high is not None and not start <= n < start + high:
                first[n] = part_of(*part, opposite(claim))
        yield first, tail if high is None else part_of(*tail, opposite(claim)), max(least, start + low if low else 0)


def _regex(rules: Sequence[SchemaRule]) -> str | None:
    """Return a pattern of strings by some rules; empty for any string, None if one pattern does not say it."""
    patterns = [grammar_pattern(rule.value) for rule in rules if rule.kind == "pattern"]
    sizes = _sizes(rules, "Length")
    texts = [others(rule.value) for rule in rules if rule.kind == "others"]
    found = [*patterns, *texts]
    if sizes:
        found.append(f"^(?s:.{{{sizes.get('minLength', 0)},{sizes.get('maxLength', '')}}})$")
    return (found[0] if found else "") if len(found) < 2 else None


def _sized(shape: ValueShape, sizes: Mapping[str, int]) -> list[ValueShape]:
    """Return the shapes of objects with some numbers of properties: a grammar counts those that are not named, or needed."""
    needed, low, high = shape.keywords["required"], sizes.get("minProperties", 0), sizes.get("maxProperties")
    optional = [name for name, part in shape.properties.items() if NOTHING not in part and name not in needed]
    is_open = bool(shape.patterns) or shape.rest is None or NOTHING not in shape.rest
    if high is not None and (len(needed) > high or low > high):
        return []
    if low <= len(needed) and (high is None or (not is_open and len(needed) + len(optional) <= high)):
        return [shape]
    if not optional:
        return [shape._replace(keywords={**shape.keywords, **sizes})] if is_open or low <= len(needed) else []
    found, lack = list[ValueShape](), max(0, low - len(needed))
    if high is None:
        if lack > len(optional):
            whole = {**shape.keywords, "required": [*needed, *optional], **sizes}
            return [shape._replace(keywords=whole)] if is_open else []
        for names in islice(combinations(optional, lack), MOST_CHOICES):
            found.append(shape._replace(keywords={**shape.keywords, "required": [*needed, *names]}))
        return found
    none = part_of(NOTHING)
    for kept in islice(combinations(optional, min(high - len(needed), len(optional))), MOST_CHOICES):
        properties = {name: part if name in kept or name in needed else none for name, part in shape.properties.items()}
        for names in islice(combinations(kept, lack), MOST_CHOICES):
            keywords = {**shape.keywords, "required": [*needed, *names]}
            found.append(shape._replace(keywords=keywords, properties=properties, patterns={}, rest=none))
    if is_open:
        properties = {name: part if name in needed else none for name, part in shape.properties.items()}
        found.append(shape._replace(keywords={**shape.keywords, **sizes}, properties=properties))
    return found[:MOST_CHOICES]
