"""Fields of requests: each of OpenAI's is accepted, ignored, or refused by name; what is wrong is said in one sentence."""

import json
from collections.abc import Mapping
from typing import Any, get_type_hints

import httpx2
import pytest
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params
from support.server.running import Running, said

from refactx.server.chat import REFUSED, ChatRequest, CompletionRequest, TextFields
from refactx.server.responses import ResponseRequest

ROUTES: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "tiny", "messages": said("hello"), "max_tokens": 3},
    "completions": {"model": "tiny", "prompt": "hello", "max_tokens": 3},
    "responses": {"model": "tiny", "input": "hello", "max_output_tokens": 3},
}
FUNCTION = {"type": "function", "name": "f", "function": {"name": "f", "parameters": {"type": "object"}}}
TOOLS = ("tools", "tool_choice", "functions", "function_call")
IGNORED: dict[str, Any] = {
    "access_programs": {"cyber": "standard"},
    "background_options": {"completion_window": "soonest"},
    "image": {"context_compression": "auto"},
    "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
    "max_tool_calls": 3,
    "metadata": {"a": "b"},
    "parallel_tool_calls": True,
    "prediction": {"type": "content", "content": "hello"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "implicit"},
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "low", "summary": "auto"},
    "reasoning_effort": "high",
    "safety_identifier": "s",
    "service_tier": "flex",
    "store": True,
    "stream_options": {"include_obfuscation": False},
    "user": "me",
    "verbosity": "low",
    "x_of_a_client": [1],
}
NEUTRAL: dict[str, Any] = {
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "top_logprobs": 0,
    "truncation": "auto",
    "background": False,
    "tools": [],
    "tool_choice": "auto",
    "n": 1,
    "presence_penalty": 0.0,
    "response_format": {"type": "text"},
    "modalities": ["text"],
    "logit_bias": {},
}
REFUSALS: dict[str, Any] = {
    "best_of": 2,
    "echo": True,
    "suffix": "x",
    "logprobs": True,
    "top_logprobs": 3,
    "modalities": ["text", "audio"],
    "audio": {"voice": "ash", "format": "wav"},
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 2},
    "top_k": 5,
    "repeat_penalty": 1.1,
    "bad_words": ["no"],
    "chat_template_kwargs": {"enable_thinking": True},
    "continue_final_message": True,
    "grammar": "root ::= [0-9]",
    "response_format": {"type": "json_object"},
    "text.format": {"type": "json_schema", "name": "x", "schema": {}},
    "guided_json": {"type": "object"},
    "web_search_options": {},
    "previous_response_id": "resp_1",
    "conversation": "conv_1",
    "background": True,
    "moderation": {"model": "omni-moderation-latest"},
}

TAKEN = {
    "chat/completions": ("response_format", "logprobs", "top_logprobs"),
    "completions": ("logprobs",),
    "responses": ("text.format",),
}
"""Those that a route takes after all."""


def answered(server: Running, route: str, fields: Mapping[str, Any]) -> Any:
    """The text of a reply, which has status 200."""
    reply = server.post(f"/v1/{route}", {**ROUTES[route], **fields})
    assert reply.status_code == 200, reply.text
    return reply.json().get("choices") or reply.json()["output"][0]["content"]


def refused(server: Running, route: str, fields: Mapping[str, Any]) -> tuple[str, str | None]:
    """The sentence of a refusal, and the field that it is about."""
    reply = server.post(f"/v1/{route}", {**ROUTES[route], **fields})
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (400, "invalid_request_error"), reply.text
    assert "\n" not in error["message"]
    return error["message"], error["param"]


@pytest.mark.parametrize(
    ("request_type", "given"),
    [
        (ChatRequest, chat_create_params.CompletionCreateParamsBase),
        (CompletionRequest, completion_create_params.CompletionCreateParamsBase),
        (ResponseRequest, response_create_params.ResponseCreateParamsBase),
    ],
)
def test_every_field_of_openai_is_sorted(request_type: type[TextFields], given: type) -> None:
    refused_ones = {name.partition(".")[0] for name in REFUSED}
    assert {*get_type_hints(given)} <= {*request_type.model_fields, *refused_ones, *TOOLS, *IGNORED}
    assert not refused_ones & {*IGNORED}


@pytest.mark.parametrize("route", ROUTES)
def test_what_cannot_change_a_text_is_ignored(tiny: Running, route: str) -> None:
    assert answered(tiny, route, IGNORED | NEUTRAL) == answered(tiny, route, {})


@pytest.mark.parametrize(
    ("route", "name"),
    [(route, name) for route in ROUTES for name in REFUSALS if name not in TAKEN[route]],
)
def test_what_would_is_refused_by_name(tiny: Running, route: str, name: str) -> None:
    field, _, inner = name.partition(".")
    message, param = refused(tiny, route, {field: {inner: REFUSALS[name]} if inner else REFUSALS[name]})
    assert (message, param) == (f"{name} is not supported by this server: leave it out", name)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_the_most_tokens_have_three_names(tiny: Running, route: str, name: str) -> None:
    asked = {key: value for key, value in ROUTES[route].items() if not key.startswith("max_")}
    usage = tiny.post(f"/v1/{route}", {**asked, name: 2}).json()["usage"]
    assert (usage.get("completion_tokens") or usage["output_tokens"]) == 2


@pytest.mark.parametrize("route", ["chat/completions", "responses"])
def test_tools_that_may_not_be_called_change_nothing(tiny: Running, route: str) -> None:
    plain = answered(tiny, route, {})
    for fields in (
        {"tools": [FUNCTION], "tool_choice": "none"},
        {"functions": [{"name": "f"}], "function_call": "none"},
        {"tools": [], "tool_choice": "none"},
        {"tools": None},
        {"tool_choice": "none", "parallel_tool_calls": False},
    ):
        assert answered(tiny, route, fields) == plain


@pytest.mark.parametrize(
    ("route", "fields", "param"),
    [
        ("responses", {"tools": [{"type": "web_search"}], "tool_choice": "auto"}, "tools.0.name"),
        ("responses", {"tool_choice": "required"}, "tools"),
        ("responses", {"tool_choice": {"type": "function", "name": "f"}}, "tools"),
        ("responses", {"input": [*said("a"), {"type": "mcp_list_tools", "tools": []}, *said("b")]}, "input.1.type"),
        (
            "responses",
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            "input.0.tool_call_id",
        ),
        ("chat/completions", {"functions": [{"name": "f"}], "function_call": "auto"}, "functions"),
        ("chat/completions", {"messages": [*said("a"), {"role": "function", "content": "x"}]}, "messages.1"),
        ("completions", {"tools": [FUNCTION]}, "tools"),
    ],
)
def test_tools_that_cannot_be_called_are_refused_in_one_sentence(
    tiny: Running, route: str, fields: dict[str, Any], param: str
) -> None:
    assert refused(tiny, route, fields)[1] == param


@pytest.mark.parametrize(
    ("route", "fields", "message"),
    [
        ("chat/completions", {"messages": 5}, "messages has to be a valid list"),
        ("chat/completions", {"messages": ["a"]}, "messages.0 has to be an object"),
        ("chat/completions", {"messages": [{"content": "a"}]}, "messages.0.role is missing"),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": {"a": 1}}]},
            "messages.0.content has to be a valid string or a valid list",
        ),
        (
            "chat/completions",
            {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
            "messages.0.content.0.type is missing",
        ),
        ("chat/completions", {"stop": [1]}, "stop.0 has to be a valid string"),
        ("chat/completions", {"refactx": {"beams": 3}}, "refactx.beams is not known: leave it out"),
        ("completions", {"prompt": {"a": 1}}, "prompt has to be a valid string or a valid list"),
        ("chat/completions", {"n": 17, "temperature": 1}, "n has to be less than or equal to 16"),
        ("completions", {"n": 0}, "n has to be greater than or equal to 1"),
        (
            "chat/completions",
            {"n": 2},
            "n is 2, but without a temperature all texts are the same: give one above 0",
        ),
        ("responses", {"n": 2, "temperature": 1}, "n is not supported by this server: leave it out"),
        ("completions", {"temperature": 3}, "temperature has to be less than or equal to 2"),
        (
            "responses",
            {"input": [{"content": "a"}]},
            "input.0.role is missing: give user, assistant, system or developer",
        ),
        ("responses", {"input": {"role": "user"}}, "input has to be a valid string or a valid list"),
    ],
)
def test_wrong_fields_are_named_in_one_sentence(
    tiny: Running, route: str, fields: dict[str, Any], message: str
) -> None:
    assert refused(tiny, route, fields)[0] == message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "NaN is no number of JSON"),
        ("-Infinity", "-Infinity is no number of JSON"),
        ("1e400", "1e400 is no number of JSON"),
        ("9" * 5000, "Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits"),
        ("[" * 100_000, "lists or objects are too deep"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice in one object"),
        ("'a'", "Expecting value at character 13"),
    ],
)
def test_what_is_no_json_is_refused_whatever_field_has_it(tiny: Running, value: str, reason: str) -> None:
    for path in (*ROUTES, "facts/check", "check", "query", "translate"):
        body, headers = f'{{"metadata": {value}}}', {"Content-Type": "application/json"}
        reply = httpx2.post(f"{tiny.url}/v1/{path}", content=body.encode(), headers=headers)
        assert reply.status_code == 400
        assert reply.json()["error"]["message"] == f"the body of the request is no JSON that can be read: {reason}"


def test_other_types_of_content_are_refused(tiny: Running) -> None:
    for kind in ("text/plain", "multipart/form-data", "application/x-www-form-urlencoded", ""):
        body = json.dumps(ROUTES["completions"]).encode()
        reply = httpx2.post(f"{tiny.url}/v1/completions", content=body, headers={"Content-Type": kind})
        assert (reply.status_code, "Content-Type: application/json" in reply.json()["error"]["message"]) == (400, True)
