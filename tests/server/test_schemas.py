"""Schemas in keywords of a grammar: never wider than another implementation has them, and of which kinds they are refused."""

import json
import re
import warnings
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refactx.decoding.matching import json_problem, json_takes
from refactx.server.references import UnheldError
from refactx.server.shapes import held, others

NAMES = st.sampled_from(["a", "b", "ab"])
SCALARS: st.SearchStrategy[Any] = st.sampled_from([None, True, False, 0, 1, 2, 1.5, "", "a", "ab", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAMES, parts, max_size=3),
    max_leaves=4,
)
SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["null", "boolean", "number", "integer", "string", "array", "object"])
PATTERNS = st.sampled_from(["^a", "b$", "^a$", "^[ab]$", "a", "^$"])
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#b", "other", "other#/$defs/a"])


def schemas() -> st.SearchStrategy[Any]:
    def of(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        few = st.lists(parts, min_size=1, max_size=3)
        named = st.dictionaries(NAMES, parts, max_size=2)
        keywords: dict[str, st.SearchStrategy[Any]] = {
            "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=4),
            "const": VALUES,
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), few),
            **dict.fromkeys(("not", "if", "then", "else", "items", "contains", "additionalProperties"), parts),
            **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), parts),
            "propertyNames": parts,
            "prefixItems": st.lists(parts, min_size=1, max_size=2),
            **dict.fromkeys(("properties", "dependentSchemas"), named),
            "patternProperties": st.dictionaries(PATTERNS, parts, max_size=2),
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), SIZES),
            **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), SIZES),
            "uniqueItems": st.booleans(),
            **dict.fromkeys(
                ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.sampled_from([0, 1, 1.5])
            ),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "pattern": PATTERNS,
            "$ref": REFERENCES,
        }

        def made(chosen: list[str]) -> st.SearchStrategy[Any]:
            return st.fixed_dictionaries({one: keywords[one] for one in chosen})

        return st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True).flatmap(made)

    return st.recursive(st.booleans() | st.just({}) | of(st.booleans()), of, max_leaves=4)


def whole(schema: Any, parts: list[Any]) -> Any:
    """A schema with parts to which it may refer."""
    first, second, third = parts
    named = {"a": first, "b": {**second, "$anchor": "b"} if isinstance(second, dict) else {"$anchor": "b"}}
    other = {"$id": "other", "$defs": {"a": third}, "type": ["integer", "object"]}
    return {**schema, "$defs": {**named, "other": other}} if isinstance(schema, dict) else schema


@settings(max_examples=400)
@given(schema=schemas(), parts=st.lists(schemas(), min_size=3, max_size=3), values=st.lists(VALUES, max_size=8))
def test_what_is_held_is_valid(schema: Any, parts: list[Any], values: list[Any]) -> None:
    check(whole(schema, parts), values)


def check(schema: Any, values: list[Any]) -> None:
    try:
        found = held({"": schema})
    except UnheldError:
        return
    own, theirs = (jsonschema.Draft202012Validator(one) for one in (found, schema))
    for value in values:
        if own.is_valid(value):
            theirs.validate(value)


def taken(schema: Any, *values: Any) -> list[bool]:
    """Whether a grammar of a schema takes each value, whose properties stand in the order of the schema."""
    text = json.dumps(held({"": schema}))
    assert not json_problem(text)
    return [json_takes(text, json.dumps(value)) for value in values]


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        # references
        (
            {"properties": {"a": {"type": "null"}, "b": {"$ref": "#"}}},
            [{"b": {"a": None}}, {"b": {}}],
            [{"b": {"a": 1}}],
        ),
        ({"definitions": {"X": {"type": "null"}}, "items": {"$ref": "#/definitions/X"}}, [[None]], [[1]]),
        ({"properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}}, [{"b": None}], [{"b": 1}]),
        ({"$defs": {"a~b/c%": {"type": "null"}}, "items": {"$ref": "#/$defs/a~0b~1c%25"}}, [[None]], [[1]]),
        ({"$id": "http://x/y", "$defs": {"a": {"$anchor": "n", "const": 1}}, "items": {"$ref": "y#n"}}, [[1]], [[2]]),
        (
            {"$defs": {"a": {"$id": "z", "type": "array", "items": {"$ref": "#"}}}, "items": {"$ref": "z"}},
            [[[]], [[[]]]],
            [[1], [[1]]],
        ),
        ({"$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "integer"}}}, [5], [6, "a"]),
        ({"allOf": [{"$ref": "#/allOf/1"}, {"enum": [1, 2]}], "minimum": 2}, [2], [1, 3]),
        ({"$defs": {"n": {"$dynamicAnchor": "n", "const": 1}}, "items": {"$dynamicRef": "#n"}}, [[1]], [[2]]),
        # what depends on something
        ({"not": {"type": ["object", "array", "string"]}}, [1, None], ["a", [], {}]),
        ({"type": "string", "not": {"enum": ["a", "ab"]}}, ["", "b", "aba", "\n"], ["a", "ab"]),
        ({"oneOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, ["a", 1], [0, None]),
        ({"oneOf": [{"properties": {"a": {"const": n}}, "required": ["a"]} for n in "xy"]}, [{"a": "x"}], [{"a": "z"}]),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            [{"a": 1}, {"b": 1}],
            [{"a": 1, "b": 1}, {}],
        ),
        ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "null"}}, ["a", None], ["ab", 1]),
        (
            {"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}},
            [{"b": 1}, {"a": 1, "b": 1}],
            [{"a": 1}],
        ),
        ({"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}}, [{"b": 1}], [{"a": 1}]),
        # numbers of things
        ({"properties": {"a": {}, "b": {}}, "minProperties": 1}, [{"a": 1}, {"b": 1}], [{}]),
        ({"properties": {"a": {}, "b": {}}, "maxProperties": 1}, [{"a": 1}, {"b": 1}, {}], [{"a": 1, "b": 1}]),
        ({"items": {"enum": [1, 2, 3]}, "uniqueItems": True}, [[], [3, 1], [1, 2, 3]], [[1, 1], [1, 2, 1]]),
        ({"items": {"type": "integer"}, "contains": {"const": 5}, "maxItems": 2}, [[5], [5, 1]], [[], [1]]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, [0.5, 0.25], [0, 0.6]),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, [0, -5, 10**15], [0.5]),
        # names
        (
            {"properties": {"ab": {"minimum": 5}}, "patternProperties": {"^a": {"type": "integer"}}},
            [{"ab": 5}, {"ac": 1}],
            [{"ab": 4}],
        ),
        (
            {"patternProperties": {"a": {"minimum": 5}, "b": {"type": "integer"}}},
            [{"ab": 5}, {"c": None}],
            [{"ab": 4}, {"b": "x"}],
        ),
        ({"propertyNames": {"pattern": "^a"}}, [{"ab": 1}, {}], [{"b": 1}]),
        (
            {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}},
            [{"a": None}],
            [{"c": None}, {"a": 1}],
        ),
        (
            {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}], "unevaluatedProperties": False},
            [{"a": 1, "b": 1}, {"b": 2}],
            [{"c": 1}],
        ),
        ({"prefixItems": [{"type": "null"}], "unevaluatedItems": False}, [[None], []], [[None, 1]]),
        (
            {
                "properties": {"ab": {"type": "integer"}},
                "patternProperties": {"^a": {"maximum": 5}, "b$": {"minimum": 1}},
                "additionalProperties": False,
            },
            [{"ab": 3}, {}],
            [{"ab": 0}, {"ab": 6}, {"b": 0}],
        ),
        # texts
        ({"type": "string", "pattern": r'^[^"]$'}, ["a", "\\", "\n"], ['"', ""]),
        ({"type": "string", "pattern": r'^[^"\\]*$'}, ["a", ""], ['a"', "\\"]),
        ({"type": "string", "pattern": r"^[\x00-!a]$"}, ["a", "!", "\n"], ["\\", "b", '"']),
        ({"type": "string", "not": {"enum": ['a"b', "\\"]}}, ["a", 'a"', '"', "a\\b"], ['a"b', "\\"]),
        ({"type": "string", "pattern": "^[^[]$"}, ["a", "]"], ["["]),
        ({"type": "string", "pattern": "^[^-a]$"}, ["b", "\n"], ["-", "a"]),
        ({"type": "string", "maxLength": 2**70}, ["a"], [1]),
        # what forbids nothing
        ({"type": "string", "format": "topic", "contentMediaType": "a/b", "$comment": 5, "x": {"not": {}}}, ["a"], [1]),
        ({"propertyNames": {"type": "string"}, "additionalProperties": {}}, [{"a": 1}], []),
    ],
)
def test_a_schema_means_what_it_says(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    judge = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    assert taken(schema, *valid) == [True] * len(valid)
    assert taken(schema, *invalid) == [False] * len(invalid)
    if "dependencies" not in schema:
        assert [judge(schema).is_valid(one) for one in (*valid, *invalid)] == [True] * len(valid) + [False] * len(
            invalid
        )


@pytest.mark.parametrize("name", ["a", "\n", "é", 'a"'])
def test_a_name_is_not_written_in_another_way(name: str) -> None:
    text = json.dumps(
        held({"": {"properties": {name: {"type": "integer"}}, "additionalProperties": {"type": "string"}}})
    )
    codes = "".join(f"\\u{ord(one):04x}" for one in name)
    texts = (json.dumps({name: 1}, ensure_ascii=False), '{"b": "x"}', f'{{"{codes}": "x"}}')
    assert [json_takes(text, one) for one in texts] == [True, True, False]


@pytest.mark.parametrize(
    "pattern", ["^[a[]$", "^[a&&b]$", "^[a~~b]$", "^[+--]$", "^[--/]$", "^[^-a]$", "^[^a-]$", r"^[\]-]$"]
)
def test_a_class_of_a_pattern_has_what_it_has_elsewhere(pattern: str) -> None:
    texts = ["a", "b", "[", "]", "&", "~", "+", ",", "-", ".", "/", '"', "\\", "\n"]
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        assert taken({"type": "string", "pattern": pattern}, *texts) == [
            re.search(pattern, one) is not None for one in texts
        ]


def test_a_name_that_a_pattern_has_too_is_no_dead_end() -> None:
    for pattern in ("^score$", "^(score|score)$", "^scor[e]$"):
        fields = {"score": {"type": "integer", "minimum": 1, "maximum": 50}}
        schema = {"type": "object", "properties": fields, "required": ["score"], "additionalProperties": False}
        text = json.dumps(held({"": {**schema, "patternProperties": {pattern: {"type": "integer"}}}}))
        assert json_takes(text, '{"score": 10}')
        assert not json_takes(text, '{"score": 10,', begun=True)


@pytest.mark.parametrize(
    ("schema", "place", "keyword", "says"),
    [
        ({"$ref": "#"}, "#", "$ref", "refers to itself"),
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "#/$defs/a",
            "$ref",
            "refers to itself",
        ),
        ({"items": {"allOf": [{"$ref": "#/items"}]}}, "#/items", "the schema", "refers to itself"),
        ({"properties": {"a": {"$ref": "#/b"}}}, "#/properties/a", "$ref", "refers to '#/b', which is not there"),
        ({"$ref": "http://x/y.json"}, "#", "$ref", "copy it into $defs"),
        (
            {"properties": {"a": {"uniqueItems": True, "type": "array"}}},
            "#/properties/a",
            "uniqueItems",
            "name them by enum",
        ),
        ({"pattern": "^(?!a)", "type": "string"}, "#", "pattern", "does not look ahead"),
        ({"required": ["a"], "properties": {"a": False}, "type": "object"}, "#", "the schema", "fits no value"),
        ({"required": ["b"], "additionalProperties": False, "type": "object"}, "#", "the schema", "fits no value"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}, "#", "the schema", "has no end"),
        ({"properties": {"a/b": {"minLength": "1"}}}, "#/properties/a~1b", "minLength", "an integer of 0 or more"),
        ({"items": 5}, "#/items", "the schema", "has to be an object, true or false"),
        ({"type": "object", "minProperties": 2}, "#", "minProperties", "one name twice"),
        (
            {"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
            "#/oneOf/1",
            "pattern",
            "say what is meant",
        ),
        (
            {"allOf": [{"anyOf": [{"maxLength": n}, {"maxItems": n}]} for n in range(40)]},
            "#",
            "the schema",
            "too many alternatives",
        ),
    ],
)
def test_what_cannot_be_held_is_told_with_its_place(schema: Any, place: str, keyword: str, says: str) -> None:
    with pytest.raises(UnheldError) as error:
        held({"": schema})
    assert (error.value.place, error.value.keyword) == (place, keyword)
    assert says in str(error.value)


def test_documents_have_names_of_their_own() -> None:
    tools = {name: {"$ref": "#/$defs/X", "$id": "same", "$defs": {"X": {"const": name}}} for name in ("f", "g")}
    text = json.dumps(held({"": {"prefixItems": [{"$ref": name} for name in tools], "items": False}, **tools}))
    assert [json_takes(text, json.dumps(one)) for one in (["f", "g"], ["g", "f"])] == [True, False]


def test_what_is_left_out_is_not_held() -> None:
    schema = {"properties": {"a": {"type": "array", "uniqueItems": True}}, "additionalProperties": False}
    found = held({"": schema}, without=[("#/properties/a", "uniqueItems")])
    assert json_takes(json.dumps(found), '{"a": [1, 1]}')


@given(texts=st.lists(st.text("ab", max_size=3), min_size=1, max_size=4), text=st.text("abc\n", max_size=4))
def test_the_pattern_of_other_texts_takes_all_but_those(texts: list[str], text: str) -> None:
    pattern = json.dumps({"type": "string", "pattern": others(texts)})
    assert json_takes(pattern, json.dumps(text)) == (text not in texts)
