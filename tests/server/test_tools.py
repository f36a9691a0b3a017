"""Calls of tools in chats: by the template's own form, held to schemas, in streams as whole, with their results after them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.server.running import Running, running, said
from support.thinking_model import Script, scripted_model
from support.tiny_asker import chat_tokenizer

from refactx.ask.conversation import conversation_ids
from refactx.server.conversation import AssistantCall, CalledFunction, Message, conversation, with_results
from refactx.server.tools import CallMarks, call_marks

TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ '<s>' + m.role + '\n' + (m.content or '') }}"
    "{% for c in m.tool_calls or [] %}{% if not loop.first %}{{ '\n' }}{% endif %}{{ '<tool_call>\n{\"name\": \"' "
    "+ c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
    "</s>{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
"""A chat template that writes calls as Hermes and Qwen do."""


def tool(name: str, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": "Look.", "parameters": schema}}


CITY = {"enum": ["Bern", "Juneau"]}
TOOLS = [tool("weather", city=CITY), tool("add", a={"type": "integer"}, b={"type": "integer"})]
TOOLS_OF_ANY_CITY = [tool("weather", city={"type": "string"}), TOOLS[1]]
WEATHER = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bern"}}\n</tool_call>'
WEATHER_CALL = ("weather", {"city": "Bern"})
ADD = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 22}}\n</tool_call>'


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Running, Script]]:
    """A server of a model that writes what a test says, by a template with tools."""
    tokenizer = chat_tokenizer(TEMPLATE)
    with scripted_model(tokenizer) as (model, script):
        model.config.max_position_embeddings = 8192
        with running(model, tokenizer=tokenizer) as found:
            yield found, script


def say(script: Script, text: str, messages: list[Any], tools: Any = TOOLS) -> None:
    """Let the model write a text after the prompt of a conversation with tools."""
    script.say(len(conversation_ids(chat_tokenizer(TEMPLATE), messages, tools=tools)), text)


def called(server: Running, **fields: Any) -> tuple[Any, list[tuple[str, Any]]]:
    """The first choice of a completion, and its calls, which a stream has as well."""
    asked: Any = {"model": "tiny", "messages": said("How?"), "tools": TOOLS, "max_tokens": 200, **fields}
    client = server.openai()
    choice = client.chat.completions.create(**asked).choices[0]
    calls = [(one.function.name, json.loads(one.function.arguments)) for one in choice.message.tool_calls or ()]
    with client.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0]
    again = [(one.function.name, json.loads(one.function.arguments)) for one in streamed.message.tool_calls or ()]
    assert (again, streamed.finish_reason) == (calls, choice.finish_reason)
    return choice, calls


def test_responses_call_tools_and_take_results(served: tuple[Running, Script]) -> None:
    server, script = served
    tools: Any = [{"type": "function", **one["function"], "strict": None} for one in TOOLS]
    asked: dict[str, Any] = {"model": "tiny", "input": "How?", "tools": tools, "max_output_tokens": 200}
    say(script, f"{WEATHER}\n{ADD}", said("How?"))
    client = server.openai()
    whole = client.responses.create(**asked)
    calls = [(one.name, json.loads(one.arguments)) for one in whole.output if one.type == "function_call"]
    assert calls == [("weather", {"city": "Bern"}), ("add", {"a": 1, "b": 22})]
    with client.responses.stream(**asked) as stream:
        events = [event.type for event in stream]
        streamed = stream.get_final_response()
    assert [(one.name, json.loads(one.arguments)) for one in streamed.output if one.type == "function_call"] == calls
    assert events.count("response.function_call_arguments.done") == 2
    call = whole.output[0]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "5 degrees"}  # type: ignore[union-attr]
    history = [*said("How?"), call.model_dump(), output]
    script.say(0, "")
    assert client.responses.create(**{**asked, "input": history, "tools": []}).output[0].type == "message"


def test_marks_of_calls_are_learned_from_the_template() -> None:
    marks = CallMarks(opens="<tool_call>\n", between="\n<tool_call>\n", closes="\n</tool_call>", arguments="arguments")
    assert call_marks(chat_tokenizer(TEMPLATE)) == marks
    assert call_marks(chat_tokenizer()) is None


def test_the_model_calls_tools_when_it_decides_so(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, f"{WEATHER}\n{ADD}", said("How?"))
    choice, calls = called(server)
    assert calls == [("weather", {"city": "Bern"}), ("add", {"a": 1, "b": 22})]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert called(server, parallel_tool_calls=False)[1] == calls[:1]


SAID = "I look.\nFact: <Ann> <p> <b> ."


def test_a_text_before_a_call_is_content_with_its_facts(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, f"{SAID}\n{WEATHER}", said("How?"))
    choice, calls = called(server)
    assert (choice.message.content, calls, choice.finish_reason) == (SAID, [WEATHER_CALL], "tool_calls")
    assert [one["text"] for one in choice.message.refactx["facts"]] == ["<Ann> <p> <b> ."]
    (cited,) = choice.message.annotations
    assert SAID[cited.url_citation.start_index : cited.url_citation.end_index] == "Fact: <Ann> <p> <b> ."
    alone, calls = called(server, model="tiny:answer")
    assert (alone.message.content, alone.message.reasoning, calls) == (None, SAID, [WEATHER_CALL])
    stopped, calls = called(server, stop="look")
    assert (stopped.message.content, calls, stopped.finish_reason) == ("I", [], "stop")


def test_a_response_has_the_text_before_a_call_as_a_message(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, f"{SAID}\n{WEATHER}", said("How?"))
    tools: Any = [{"type": "function", **one["function"], "strict": None} for one in TOOLS]
    for model, kind in (("tiny", "message"), ("tiny:answer", "reasoning")):
        asked: dict[str, Any] = {"model": model, "input": "How?", "tools": tools, "max_output_tokens": 200}
        whole = server.openai().responses.create(**asked)
        assert [item.type for item in whole.output] == [kind, "function_call"]
        with server.openai().responses.stream(**asked) as stream:
            added = [event.output_index for event in stream if event.type == "response.output_item.done"]
            streamed = stream.get_final_response()
        assert added == [0, 1]
        assert (streamed.output_text, [item.type for item in streamed.output]) == (
            whole.output_text,
            [kind, "function_call"],
        )
        assert whole.output_text == (SAID if kind == "message" else "")
    call = whole.output[1].model_dump()
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "5 degrees"}
    fields: dict[str, Any] = {"model": "tiny", "max_output_tokens": 5}
    message = {"type": "message", "role": "assistant", "content": SAID}
    given = [[*said("How?"), *before, call, result] for before in ([message], [])]
    replies = [server.post("/v1/responses", {**fields, "input": one}).json()["usage"] for one in given]
    assert replies[0] == replies[1]  # the answer is to the question with the result


@pytest.mark.parametrize("before", ["", "```json\n", "{"])
def test_a_call_without_its_mark_is_one(served: tuple[Running, Script], before: str) -> None:
    server, script = served
    say(script, before + '{"name": "weather", "arguments": {"city": "Bern"}}', said("How?"))
    choice, calls = called(server)
    assert (choice.message.content, calls) == (None, [WEATHER_CALL])
    tools = [TOOLS[0], tool("river", city=CITY)]
    for named in ("weather", "river"):  # in a layout of the model's own
        say(script, before + f'{{\n  "name": "{named}",\n  "arguments": {{', said("How?"), tools)
        assert [name for name, _ in called(server, tools=tools)[1]] == [named]
    say(script, before + '{\n  "name": "add",\n  "arguments": {\n    "a": 1,\n    "b": 22\n  }\n}', said("How?"))
    assert called(server)[1] == [("add", {"a": 1, "b": 22})]
    say(script, before + '{"name": "wealth", "arguments": {}}', said("How?"))
    assert not called(server, max_tokens=5)[1]


@pytest.mark.parametrize("between", ["\n", ",\n  ", ""])
def test_several_calls_without_a_mark_are_those(served: tuple[Running, Script], between: str) -> None:
    server, script = served
    made = [{"name": "weather", "arguments": {"city": city}} for city in ("Bern", "Juneau")]
    for more in ("", '{"name": "wealth", "arguments": {}}', '{"name": "wea', *map(json.dumps, made)):
        texts = [*map(json.dumps, made), more]
        say(script, f"```json\n{between.join(texts)}\n```", said("How?"))
        assert called(server)[1] == [("weather", one["arguments"]) for one in made]
    say(script, between.join(f"{{{json.dumps(one)}}}" for one in made), said("How?"))  # as Qwen's template shows one
    assert called(server)[1] == [("weather", one["arguments"]) for one in made]
    other = json.dumps({"name": "add", "arguments": {"b": 22, "a": 1}})  # in an order of the model's own
    say(script, between.join([json.dumps(made[0]), other]), said("How?"))
    assert called(server)[1] == [WEATHER_CALL, ("add", {"a": 1, "b": 22})]
    say(script, json.dumps(made[0]), said("How?"))
    assert called(server, parallel_tool_calls=False)[1] == [WEATHER_CALL]


def test_arguments_are_those_that_a_schema_names_unless_it_says_otherwise(served: tuple[Running, Script]) -> None:
    server, script = served
    place = {"type": "object", "properties": {"city": CITY}, "required": ["city"]}
    for schema, given, kept in (
        (place, {"city": "Bern", "day": 1}, {"city": "Bern"}),
        ({**place, "additionalProperties": True}, {"city": "Bern", "day": 1}, {"city": "Bern", "day": 1}),
        ({"type": "object", "properties": {"at": place}}, {"at": {"city": "Bern", "day": 1}}, {"at": {"city": "Bern"}}),
    ):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
        for opens in ("<tool_call>\n", ""):
            text = json.dumps({"name": "weather", "arguments": given})
            say(script, f"{opens}{text}", said("How?"), tools)
            ((_, arguments),) = called(server, tools=tools, parallel_tool_calls=False)[1]
            assert arguments == kept


def test_arguments_are_held_to_the_schema(served: tuple[Running, Script]) -> None:
    server, script = served
    say(script, '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}', said("How?"))
    ((name, arguments),) = called(server, parallel_tool_calls=False)[1]
    assert name == "weather"
    assert arguments["city"] in CITY["enum"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_comes_when_it_has_to(served: tuple[Running, Script], choice: Any) -> None:
    server, script = served
    say(script, "I would rather talk.", said("How?"))
    done, calls = called(server, tool_choice=choice, parallel_tool_calls=False)
    assert (done.finish_reason, len(calls)) == ("tool_calls", 1)
    if choice != "required":
        assert calls[0][0] == "weather"


def test_a_template_may_write_texts_in_a_form_of_its_own() -> None:
    trimmed = chat_tokenizer(TEMPLATE.replace("(m.content or '')", "(m.content or '') | trim"))
    for messages in (said("How?\n"), [{"role": "system", "content": "Be brief.\n"}, *said("How?\n")]):
        plain = [{**one, "content": one["content"].strip()} for one in messages]
        assert conversation_ids(trimmed, messages) == conversation_ids(trimmed, plain)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_text_comes_without_a_call(served: tuple[Running, Script], choice: str) -> None:
    server, script = served
    say(script, "No.", said("How?"))
    done, calls = called(server, tool_choice=choice, max_tokens=5)
    assert not calls
    plain = server.openai().chat.completions.create(model="tiny", messages=said("How?"), max_tokens=5)  # type: ignore[arg-type]
    assert done.message.content == plain.choices[0].message.content


@pytest.mark.parametrize("model", ["tiny", "tiny:answer"])
@pytest.mark.parametrize("text", ["It is 5 degrees.", f"{SAID}\n" + 12 * "It is 5 degrees. " + "Bye."])
def test_after_a_result_a_text_without_a_call_is_the_reply(
    served: tuple[Running, Script], text: str, model: str
) -> None:
    server, script = served
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    result = {"role": "tool", "tool_call_id": "c", "content": "5 degrees"}
    history = [*said("How?"), {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    arguments = {"name": "weather", "arguments": {"city": "Bern"}}
    whole = [*said("How?"), {"role": "assistant", "tool_calls": [{**call, "function": arguments}]}, result]
    say(script, text, whole)
    done, calls = called(server, model=model, messages=history, max_tokens=900)
    assert (done.message.content, calls, done.finish_reason) == (text, [], "stop")
    assert done.message.refactx["answer"] == text
    assert [one["text"] for one in done.message.refactx["facts"]] == ["<Ann> <p> <b> ."] * (SAID in text)
    asked = {"model": model, "messages": history, "tools": TOOLS, "max_tokens": 5}
    (cut,) = server.post("/v1/chat/completions", asked).json()["choices"]
    assert cut["message"]["content"]
    assert (text.startswith(cut["message"]["content"]), cut["finish_reason"]) == (True, "length")
    tokenizer = chat_tokenizer(TEMPLATE)  # a call that is begun again, and what follows the prompt without tools
    told = said('The result of weather({"city": "Bern"}): 5 degrees\n\nHow?')
    starts = len(conversation_ids(tokenizer, told)), len(conversation_ids(tokenizer, whole, tools=TOOLS))
    script.start, script.then = starts[0], tokenizer.eos_token_id
    invented = {"name": "add", "arguments": {"a": 7, "b": 9}}  # numbers that nobody has named
    for begun in (json.dumps(arguments), json.dumps(invented), ""):  # or nothing is written
        said_, again = (tokenizer.encode(one, add_special_tokens=False) for one in ("It is 5.", begun))
        script.ids = [*said_, *[script.then] * (starts[1] - starts[0] - len(said_)), *again]
        done, calls = called(server, model=model, messages=history)
        assert (done.message.content, calls, done.finish_reason) == ("It is 5.", [], "stop")
    say(script, f"{text}\n{ADD}", whole)
    assert called(server, model=model, messages=history, max_tokens=900)[1] == [("add", {"a": 1, "b": 22})]


def test_after_a_result_a_call_without_its_mark_is_about_what_was_said(served: tuple[Running, Script]) -> None:
    server, script = served
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    arguments = {"name": "weather", "arguments": {"city": "Bern"}}
    result = {"role": "tool", "tool_call_id": "c", "content": "It is like 22 below in JUNEAU."}
    asked = said("How is Bern, and what is 1 and 1?")
    whole = [*asked, {"role": "assistant", "tool_calls": [{**call, "function": arguments}]}, result]
    history = [*asked, {"role": "assistant", "content": None, "tool_calls": [call]}, result]
    made = [{"name": "add", "arguments": {"a": 1, "b": 22}}, {"name": "weather", "arguments": {"city": "Juneau"}}]
    made.append({"name": "river", "arguments": {"city": "Bern"}})  # of an earlier call
    tools = [*TOOLS_OF_ANY_CITY, tool("river", city={"enum": ["Zürich", "Bern"]})]
    made.append({"name": "river", "arguments": {"city": "Zürich"}})  # of the tools
    made.append({"name": "weather", "arguments": {"city": "the capital of Juneau"}})
    for one in made:
        say(script, json.dumps(one), whole, tools)
        ((name, given),) = called(server, messages=history, tools=tools)[1]
        assert (name, given) == (one["name"], one["arguments"])


def test_a_late_result_stands_after_what_was_said_before_it() -> None:
    calls = [AssistantCall(id=name, function=CalledFunction(name=name, arguments="{}")) for name in "fg"]
    first, second = (Message(role="tool", tool_call_id=one.id, content="5") for one in calls)
    asked, made = Message(role="user", content="How?"), Message(role="assistant", tool_calls=calls)
    wait = Message(role="assistant", content="Wait.")
    for messages, wanted in (
        ([asked, made, first, second], ["The result of f({}): 5", "The result of g({}): 5", "How?"]),
        ([asked, made, first, wait, second], ["The result of f({}): 5", "How?", "Wait.", "The result of g({}): 5"]),
        ([asked, asked, made, first], ["The result of f({}): 5", "How?", "How?"]),
        ([made, first, asked], ["The result of f({}): 5", "How?"]),
        ([asked, wait, asked, made, first], ["How?", "Wait.", "The result of f({}): 5", "How?"]),
    ):
        plain, _ = with_results(messages, "messages")
        assert [one.content for one in plain] == wanted
        assert conversation(plain, "messages").question


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"city": CITY}, "required": ["city", "day"]},
        {"type": "object", "properties": {"city": CITY}, "allOf": [{"properties": {"day": CITY}, "required": ["day"]}]},
        {"type": "object", "properties": {"place": {"$ref": "#/$defs/P"}}, "$defs": {"P": {"properties": {}}}},
        {"type": "object", "properties": {"headers": {"type": "object", "properties": {}}}},
    ],
)
def test_schemas_that_have_parts_elsewhere_stay_as_they_are(served: tuple[Running, Script], schema: Any) -> None:
    server, script = served
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    given = {"city": "Bern", "day": "Bern", "place": {"city": "Bern"}, "headers": {"a": "b"}}
    kept = {key: given[key] for key in (*schema["properties"], *("day",) * ("city" in schema["properties"]))}
    say(script, json.dumps({"name": "weather", "arguments": kept}), said("How?"), tools)
    assert called(server, tools=tools)[1] == [("weather", kept)]


def test_results_of_calls_are_part_of_what_is_asked(served: tuple[Running, Script]) -> None:
    server, script = served
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    history = [*said("How?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    history += [{"role": "tool", "tool_call_id": "c", "content": "5 degrees"}]
    arguments = {"name": "weather", "arguments": {"city": "Bern"}}
    whole = [*said("How?"), {"role": "assistant", "tool_calls": [{**call, "function": arguments}]}, history[-1]]
    say(script, ADD, whole)
    assert called(server, messages=history)[1] == [("add", {"a": 1, "b": 22})]
    say(script, WEATHER, whole)
    assert called(server, messages=history)[1] == [WEATHER_CALL]
    say(script, json.dumps(arguments), whole)  # without its mark, the call of which it has the result
    asked: dict[str, Any] = {"model": "tiny", "messages": history, "max_tokens": 200}
    replies = [server.post("/v1/chat/completions", {**asked, "tools": tools}).json() for tools in (TOOLS, None)]
    assert replies[0]["choices"] == replies[1]["choices"]
    again = [*history, *said("And now?")]
    say(script, json.dumps(arguments), [*whole, *said("And now?")])
    assert called(server, messages=again)[1] == [WEATHER_CALL]
    told = 'The result of weather({"city": "Bern"}): 5 degrees\n\nHow?'
    fields: dict[str, Any] = {"model": "tiny", "max_tokens": 5}
    texts = [
        server.post("/v1/chat/completions", {**fields, "messages": messages}).json()["usage"]
        for messages in (history, said(told))
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("fields", "param", "says"),
    [
        ({"tools": [tool("no name")]}, "tools.0.function.name", "tools.0.function.name cannot be read"),
        ({"tools": [*TOOLS, TOOLS[0]]}, "tools", "of different names"),
        ({"tools": [tool("f", a={"type": "strange"})]}, "tools", "the schema in tools cannot be used"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "which is not in tools"),
        ({"tools": [], "tool_choice": "required"}, "tools", "there are no tools"),
        ({"messages": [*said("a"), {"role": "tool", "tool_call_id": "c", "content": "x"}]}, None, "no earlier call"),
    ],
)
def test_wrong_tools_are_said_in_one_sentence(
    served: tuple[Running, Script], fields: dict[str, Any], param: str | None, says: str
) -> None:
    reply = served[0].post(
        "/v1/chat/completions", {"model": "tiny", "messages": said("How?"), "tools": TOOLS, **fields}
    )
    error = reply.json()["error"]
    assert reply.status_code == 400
    assert says in error["message"]
    assert error["param"] == (param or "messages.1.tool_call_id")


def function(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


UNIQUE = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}


def test_what_cannot_be_held_of_a_tool_is_left_out_and_told(served: tuple[Running, Script]) -> None:
    server, script = served
    many = {"dependentRequired": {f"a{n}": [f"b{n}"] for n in range(20)}}
    tools = [*TOOLS, function("tag", UNIQUE), function("any", many), function("none", {"type": "null"})]
    written = [("tag", {"tags": ["a", "a"]}), ("any", {"x": [1]}), ("none", {}), WEATHER_CALL]
    for name, arguments in written:
        say(script, f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}", said("How?"), tools)
        choice, calls = called(server, tools=tools, parallel_tool_calls=False)
        assert calls == [(name, arguments)]
        unheld = choice.message.refactx["unheld"]
        assert [*unheld] == ["tag", "any"]
        assert unheld["tag"][0].startswith("uniqueItems at tag#/properties/tags cannot be held")
        assert unheld["any"][-1] == "its arguments may be any object"
    asked = {
        "model": "tiny",
        "input": "How?",
        "max_output_tokens": 5,
        "tools": [{"type": "function", **tools[2]["function"]}],
    }
    assert [*server.post("/v1/responses", asked).json()["refactx"]["unheld"]] == ["tag"]
    assert "unheld" not in called(server)[0].message.refactx


NODE = {"type": "object", "properties": {"name": {"const": "n"}, "next": {"$ref": "#"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("schema", "right"),
    [
        (NODE, {"name": "n", "next": {"name": "n"}}),
        ({**NODE, "$id": "https://example.org/node"}, {"name": "n", "next": {"name": "n"}}),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/definitions/X"}}, "definitions": {"X": CITY}},
            {"a": "Bern"},
        ),
        ({"type": "object", "properties": {"a": CITY, "b": {"$ref": "#/properties/a"}}}, {"b": "Bern"}),
    ],
)
def test_references_mean_parts_of_the_parameters(served: tuple[Running, Script], schema: Any, right: Any) -> None:
    server, script = served
    other = function("other", {"type": "object", "$defs": {"X": {"const": 1}}, "definitions": {"X": {"const": 1}}})
    tools = [function("f", schema), other]
    say(script, f"<tool_call>\n{json.dumps({'name': 'f', 'arguments': right})}", said("How?"), tools)
    choice, calls = called(server, tools=tools, parallel_tool_calls=False)
    assert calls == [("f", right)]
    assert "unheld" not in choice.message.refactx


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (
            {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
            "$ref at f#/$defs/a refers to itself",
        ),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "$ref at f#/properties/a refers to '#/$defs/b', which is not there"),
        ({"type": "string"}, "its type has to be object"),
        ({"required": "a"}, "required at f# has to be a list of names"),
        ({"required": ["a"], "additionalProperties": False}, "the schema at f# fits no value"),
    ],
)  # fmt: skip
def test_a_wrong_schema_of_a_tool_is_refused_by_its_name(
    served: tuple[Running, Script], schema: Any, says: str
) -> None:
    asked = {"model": "tiny", "messages": said("How?"), "tools": [*TOOLS, function("f", schema)]}
    reply = served[0].post("/v1/chat/completions", asked)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("the schema in tools cannot be used, of the function 'f': ")
    assert says in reply.json()["error"]["message"]


@pytest.mark.parametrize("depth", [101, 500, 5000])
def test_arguments_that_are_nested_too_deeply_are_refused(served: tuple[Running, Script], depth: int) -> None:
    server, script = served
    deep = '{"a": ' * depth + "1" + "}" * depth
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": deep}}
    history = [*said("How?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    asked: dict[str, Any] = {"model": "tiny", "messages": [*history, *said("And?")], "max_tokens": 5, "tools": TOOLS}
    reply = server.post("/v1/chat/completions", asked)
    assert (reply.status_code, "more than 100 levels" in reply.text) == (400, True)
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    tools = [function("f", {**schema, "properties": {"a": {"anyOf": [{"$ref": "#"}, {"const": 1}]}}})]
    if depth == 101:  # of the model
        say(script, f'<tool_call>\n{{"name": "f", "arguments": {deep}}}', said("How?"), tools)
        asked = {
            "model": "tiny",
            "messages": said("How?"),
            "tools": tools,
            "max_tokens": 2000,
            "parallel_tool_calls": False,
        }
        reply = server.post("/v1/chat/completions", asked)
        assert (reply.status_code, "more than 100 levels" in reply.text) == (400, True)
