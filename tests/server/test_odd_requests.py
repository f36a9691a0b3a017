"""Requests with odd parts: an answer, or status 400 in a sentence, and never an error of the server."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.server.running import Running, running, said
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role + (m.content or '') }}"
    "{% for c in m.tool_calls or [] %}{% if not loop.first %}{{ '\n' }}{% endif %}{{ '<call>{\"name\": \"' "
    "+ c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}</call>' }}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'a' }}{% endif %}"
)
FIELDS = {"a": {"$ref": "#/$defs/x"}, "b": {"type": "array", "items": {"oneOf": [{"const": 1}, {"type": "string"}]}}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["a"], "$defs": {"x": {"type": "integer", "maximum": 9}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
TOOL = {"type": "function", "function": {"name": "f", "description": "Look.", "parameters": SCHEMA}}
FORM = {"type": "json_schema", "name": "x", "schema": SCHEMA}
ASKED = {"model": "tiny", "max_tokens": 3}
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("chat/completions", {**ASKED, "messages": said("hi"), "tools": [TOOL], "tool_choice": "auto"}),
    (
        "chat/completions",
        {
            **ASKED,
            "messages": [
                *said("hi"),
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "5"}]},
            ],
            "tools": [TOOL],
        },
    ),
    (
        "chat/completions",
        {**ASKED, "messages": said("hi"), "response_format": {"type": "json_schema", "json_schema": FORM}},
    ),
    ("responses", {"model": "tiny", "input": said("hi"), "max_output_tokens": 3, "text": {"format": FORM}}),
    ("completions", {**ASKED, "prompt": "hi"}),
]


def nested(size: int, name: str) -> Any:
    value: Any = 1
    for _ in range(size):
        value = {name: value} if name else [value]
    return value


ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        1.5,
        1e308,
        10**30,
        "",
        "x",
        "\0",
        "\ud800",
        "#",
        "#/$defs/x",
        "#/properties/a",
        [],
        {},
        [None],
        [[]],
    ),
    *({"$ref": "#"}, {"$ref": 5}, {"$ref": "http://x"}, {"$id": "::["}, {"$anchor": 5}, {"type": 5}, {"type": [None]}),
    *(
        {"allOf": {}},
        {"properties": []},
        {"required": "a"},
        {"enum": 5},
        {"pattern": "("},
        {"items": [1]},
        {"minLength": -1},
    ),
    *({"multipleOf": 0}, {"x-refactx": 5}, {"type": "text"}, "[" * 500, '{"a":' * 300 + "1" + "}" * 300),
    *(nested(200, "items"), nested(90, "not"), nested(60, ""), nested(1, "$dynamicRef"), nested(2, "oneOf")),
]
NAMES = ["content", "$ref", "oneOf", "not", "type", "parameters", "role", "arguments", "text", "tool_calls"]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield (*above, key)
        yield from places(part, (*above, key))


@st.composite
def odd_requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    route, request = draw(st.sampled_from(REQUESTS))
    found = copy.deepcopy(request)
    for _ in range(draw(st.integers(1, 2))):
        *above, last = draw(st.sampled_from([one for one in places(found) if one[0] not in ("model", "max_tokens")]))
        part: Any = found
        for key in above:
            part = part[key]
        odd = copy.deepcopy(draw(st.sampled_from(ODD)))
        if isinstance(part, dict) and draw(st.booleans()):
            last = draw(st.sampled_from(NAMES))
        part[last] = odd
    return route, found


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    model, tokenizer = tiny_model(), chat_tokenizer(TEMPLATE)
    model.config.max_position_embeddings = 4096
    with running(model, tokenizer=tokenizer) as found:
        yield found


@settings(max_examples=80)
@given(odd=odd_requests())
def test_an_odd_part_is_no_error_of_the_server(server: Running, odd: tuple[str, dict[str, Any]]) -> None:
    route, request = odd
    body, headers = json.dumps(request).encode(), {"Content-Type": "application/json"}
    reply = httpx2.post(f"{server.url}/v1/{route}", content=body, headers=headers, timeout=60)
    assert reply.status_code in (200, 400), reply.text
    if reply.status_code == 400:
        assert "\n" not in reply.json()["error"]["message"]
