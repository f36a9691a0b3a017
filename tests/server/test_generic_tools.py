"""Calls of tools by models whose chat template has none: told in the system message, and held to the same schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.server.running import Running, running, said
from support.thinking_model import TURNS, Script, scripted_model
from support.tiny_asker import chat_tokenizer
from transformers import AutoTokenizer

import refactx
from refactx.ask.conversation import conversation_ids
from refactx.server.tools import GENERIC, call_marks, in_words

TEMPLATE = TURNS + "{% if add_generation_prompt %}{{ '<s>assistant: ' }}{% endif %}"
ALTERNATING = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles alternate') }}{% endif %}"
    "{{ '[' + m.role + '] ' + m.content }}{% endfor %}"
)
"""A template as Gemma's and Mistral's first ones: no system message, and roles that alternate."""
OTHER_FORM = (
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}" + TURNS.replace("m['content']", "(m.content or '')")
    + "{% for c in messages[-1].tool_calls or [] %}[CALL]{{ c.function.name }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s>assistant: ' }}{% endif %}"
)  # fmt: skip
"""A template with tools whose calls are no JSON."""
CITY = {"enum": ["Bern", "Juneau"]}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return {"type": "function", "function": {"name": name, "description": "Look.", "parameters": schema}}


TOOLS = [tool("weather", city=CITY), tool("add", a={"type": "integer"}, b={"type": "integer"})]
WEATHER = '{"tool_call": {"name": "weather", "arguments": {"city": "Bern"}}}'
ADD = '{"tool_call": {"name": "add", "arguments": {"a": 1, "b": 22}}}'
CALLS = [("weather", {"city": "Bern"}), ("add", {"a": 1, "b": 22})]


@pytest.fixture(scope="module", params=[TEMPLATE, OTHER_FORM], ids=["no tools", "another form"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Running, Script]]:
    tokenizer = chat_tokenizer(request.param)
    with scripted_model(tokenizer) as (model, script):
        model.config.max_position_embeddings = 8192
        with running(model, tokenizer=tokenizer) as found:
            yield found, script


def say(script: Script, text: str, messages: list[Any]) -> None:
    """Let the model write a text after the prompt of a conversation with tools."""
    script.say(len(conversation_ids(chat_tokenizer(TEMPLATE), in_words(messages, TOOLS).messages)), text)


def called(server: Running, **fields: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """The first choice of a completion, and its calls, which a stream has as well."""
    asked: Any = {"model": "tiny", "messages": said("How?"), "tools": TOOLS, "max_tokens": 200, **fields}
    client = server.openai()
    choice = client.chat.completions.create(**asked).choices[0]
    with client.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0]
    whole, parts = (
        [(one.function.name, json.loads(one.function.arguments)) for one in found.message.tool_calls or ()]
        for found in (choice, streamed)
    )
    assert (whole, choice.finish_reason) == (parts, streamed.finish_reason)
    return choice, whole


def test_the_model_calls_tools_when_it_decides_so(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, f"{WEATHER}\n{ADD}", said("How?"))
    choice, calls = called(server)
    assert calls == CALLS
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert called(server, parallel_tool_calls=False)[1] == CALLS[:1]
    say(script, '{"name": "weather", "arguments": {"city": "Bern"}}', said("How?"))  # without the mark
    assert called(server)[1] == CALLS[:1]


@pytest.mark.parametrize(
    "begun", [f"```json\n{WEATHER}", f"```\n{WEATHER}", '{\n  "tool_call": {\n    "name":', '{"tool_call" :']
)
def test_a_call_may_begin_in_a_layout_of_the_models_own(served: tuple[Running, Script], begun: str) -> None:
    server, script = served
    say(script, begun, said("How?"))  # what follows the mark then stands elsewhere in the script
    choice, ((name, _),) = called(server, parallel_tool_calls=False)
    assert (choice.message.content, name in ("weather", "add")) == (None, True)


def test_a_text_before_a_call_is_content_with_its_facts(served: tuple[Running, Script]) -> None:
    server, script = served
    text = "I look.\nFact: <Ann> <p> <b> ."
    say(script, f"{text}\n{WEATHER}", said("How?"))
    choice, calls = called(server)
    assert (choice.message.content, calls) == (text, CALLS[:1])
    assert [one["text"] for one in choice.message.refactx["facts"]] == ["<Ann> <p> <b> ."]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_comes_when_it_has_to(served: tuple[Running, Script], choice: Any) -> None:
    server, script = served
    say(script, "I would rather talk.", said("How?"))
    done, ((name, arguments),) = called(server, tool_choice=choice, parallel_tool_calls=False)
    assert done.finish_reason == "tool_calls"
    assert name == "weather" or choice == "required"
    assert [*arguments] == {"weather": ["city"], "add": ["a", "b"]}[name]


def test_arguments_are_held_to_the_schema(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, '{"tool_call": {"name": "weather", "arguments": {"city": "Paris"}}}', said("How?"))
    ((_, arguments),) = called(server, parallel_tool_calls=False)[1]
    assert arguments["city"] in CITY["enum"]


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_text_comes_without_a_call(served: tuple[Running, Script], choice: str) -> None:
    server, script = served
    say(script, "No.", said("How?"))
    done, calls = called(server, tool_choice=choice, max_tokens=5)
    plain: Any = {"model": "tiny", "messages": said("How?"), "max_tokens": 5}
    assert not calls
    assert done.message.content == server.openai().chat.completions.create(**plain).choices[0].message.content


def test_after_a_result_a_text_is_the_reply_or_calls_follow(served: tuple[Running, Script]) -> None:
    server, script = served
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    result = {"role": "tool", "tool_call_id": "c", "content": "5 degrees"}
    history = [*said("How?"), {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    arguments = {"function": {"name": "weather", "arguments": {"city": "Bern"}}, "id": "c"}
    whole = [*said("How?"), {"role": "assistant", "content": "", "tool_calls": [arguments]}, result]
    say(script, "It is 5 degrees.", whole)
    done, calls = called(server, messages=history)
    assert (done.message.content, calls, done.finish_reason) == ("It is 5 degrees.", [], "stop")
    say(script, ADD, whole)
    assert called(server, messages=history)[1] == CALLS[1:]


def test_responses_call_tools(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, f"{WEATHER}\n{ADD}", said("How?"))
    tools: Any = [{"type": "function", **one["function"], "strict": None} for one in TOOLS]
    whole = server.openai().responses.create(model="tiny", input="How?", tools=tools, max_output_tokens=200)
    assert [(one.name, json.loads(one.arguments)) for one in whole.output if one.type == "function_call"] == CALLS


def test_a_prompt_has_the_tools_the_calls_and_their_results() -> None:
    made = [
        {"id": name, "function": {"name": "weather", "arguments": {"city": city}}}
        for name, city in (("a", "Bern"), ("b", "Juneau"))
    ]
    messages = [
        {"role": "system", "content": "Be brief."},
        *said("How?"),
        {"role": "assistant", "content": "I look.", "tool_calls": made},
        *({"role": "tool", "tool_call_id": one, "content": text} for one, text in (("b", "2"), ("a", "5"))),
        *said("And?"),
    ]
    found = in_words(messages, TOOLS).messages
    assert [one["role"] for one in found] == ["system", "user", "assistant", "user"]
    assert all(json.dumps(one["function"]) in found[0]["content"] for one in TOOLS)
    assert found[0]["content"].endswith("Be brief.")
    texts = [f"{GENERIC}{json.dumps(one['function'])}}}" for one in made]
    assert found[2]["content"] == "\n".join(["I look.", *texts])
    results = ['The result of weather({"city": "Juneau"}): 2', 'The result of weather({"city": "Bern"}): 5', "And?"]
    assert found[3]["content"] == "\n\n".join(results)
    tokenizer = chat_tokenizer(ALTERNATING)
    assert call_marks(tokenizer) is None
    assert len(conversation_ids(tokenizer, found)) > 100


def test_control_tokens_in_tools_are_left_out(served: tuple[Running, Script]) -> None:
    counts = []
    for text in ("Look </s> up.", "Look   up."):
        described = [{"type": "function", "function": {**TOOLS[0]["function"], "description": text}}]
        asked = {"model": "tiny", "messages": said("How?"), "tools": described, "tool_choice": "required"}
        counts.append(served[0].post("/v1/chat/completions", asked).json()["usage"]["prompt_tokens"])
    assert counts[0] == counts[1]


@pytest.mark.long
def test_the_demo_model_calls_by_its_real_template(sample_url: str, smollm2_folder: Path) -> None:
    model, tokenizer = refactx.load_model(str(smollm2_folder))
    assert call_marks(AutoTokenizer.from_pretrained(smollm2_folder)) is None
    with refactx.open_index(db=sample_url) as index, running(model, tokenizer=tokenizer, index=index) as server:
        done, calls = called(server, tool_choice="required", messages=said("How is the weather in Bern?"))
        assert done.finish_reason == "tool_calls"
        assert {name for name, _ in calls} <= {"weather", "add"}
        free, _ = called(server, messages=said("What is the capital of Alaska?"))
        assert free.message.content or free.finish_reason == "tool_calls"
