"""Answers as JSON: held to their schemas by both engines, whole and in streams, with names of facts that were written."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Literal, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from support.llamacpp.tiny_gguf import write_tiny_gguf
from support.server.running import Gate, Running, asker_alone, eventually, running, said
from support.tiny_asker import EVERY_MESSAGE, FACTS, LinkedIndex
from support.tiny_model import tiny_fact_tokenizer, tiny_model

from refactx.ask.prompt import Generation
from refactx.decoding.matching import EXACT, Vocabulary, json_grammar
from refactx.decoding.stream import FormPiece
from refactx.errors import InputError
from refactx.server.forms import LONGEST_SCHEMA, FormConstraint, Forms, JsonForm
from refactx.server.http import ApiError

QUESTION = "hello Fact:"
WORDS = st.text('ab"é{', min_size=1, max_size=4)
EXACTLY = st.integers(-EXACT, EXACT)
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(
        lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
        st.integers(-50, 50),
        st.integers(0, 200),
    ),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 8)),
    st.builds(lambda values: {"enum": values}, st.lists(st.one_of(WORDS, EXACTLY, st.none()), min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, st.one_of(WORDS, st.booleans())),
    st.just({"type": "string", "pattern": "^[a-c]{1,3}$"}),
    st.just({"type": "string", "format": "date"}),
)


def objects(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def made(fields: dict[str, dict[str, Any]], needed: set[str]) -> dict[str, Any]:
        required = [name for name in fields if name in needed]
        return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}

    names = st.sampled_from(["a", "b", "name of it", "é"])
    return st.builds(made, st.dictionaries(names, parts, max_size=3), st.sets(names))


SCHEMAS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        objects(parts),
        st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, parts, st.integers(0, 3)),
        st.builds(lambda kinds: {"anyOf": kinds}, st.lists(parts, min_size=1, max_size=3)),
    ),
    max_leaves=5,
)
NAMES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "who": {"type": "string", "x-refactx": "subject"},
        "what": {"type": "array", "items": {"type": "string", "x-refactx": "object"}, "minItems": 1, "maxItems": 2},
        "sure": {"type": "boolean"},
    },
    "required": ["who", "what", "sure"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "found", "strict": True, "schema": NAMES}}


class Found(BaseModel):
    """What a client that uses pydantic asks for."""

    model_config = ConfigDict(extra="forbid")

    grade: Literal["good", "bad"]
    is_sure: bool
    name: str = Field(json_schema_extra={"x-refactx": "object"})


@pytest.fixture(scope="module", params=["transformers", "llamacpp"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of a tiny model with room for schemas, by each engine."""
    if request.param == "transformers":
        model = tiny_model()
        model.config.max_position_embeddings = 4096
        with running(model) as found:
            yield found
    else:
        pytest.importorskip("llama_cpp")
        from refactx.engines.llamacpp.model import load_gguf
        from refactx.models.options import EngineOptions

        path = write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", template=EVERY_MESSAGE)
        index = LinkedIndex(tiny_fact_tokenizer(), FACTS)
        loaded = load_gguf(path, index, EngineOptions(context=16384, threads=1))
        with running(loaded, index, tokenizer=loaded.tokenizer) as found:
            yield found


def check_form(server: Running, schema: dict[str, Any], seed: int, temperature: float) -> None:
    drawn = {"temperature": temperature, "seed": seed} if temperature else {}
    options, pieces = Generation(max_new_tokens=400, **drawn), list[FormPiece]()
    answer = server.service.asker.ask("hello", max_new_tokens=1)
    form = JsonForm(schema=schema, place="response_format")
    found = server.service.scoring("").forms.write(form, answer, options, pieces.append, cancelled=lambda: False)
    assert "".join(piece.text for piece in pieces) == found.form
    assert found.reason == "stop"
    jsonschema.validate(json.loads(found.form or ""), schema)


TEXTS: dict[str, Any] = {"schema": SCHEMAS, "seed": st.integers(0, 9), "temperature": st.sampled_from([0.0, 1.5])}


@settings(max_examples=60)
@given(**TEXTS)
def test_every_text_is_valid_by_its_schema(
    server: Running, schema: dict[str, Any], seed: int, temperature: float
) -> None:
    check_form(server, schema, seed, temperature)


@pytest.mark.slow
@settings(max_examples=1000)
@given(**TEXTS)
def test_a_thousand_texts_are_valid_by_their_schemas(
    server: Running, schema: dict[str, Any], seed: int, temperature: float
) -> None:
    check_form(server, schema, seed, temperature)


@pytest.mark.slow
def test_a_thousand_strings_are_names_of_the_facts_before_them(server: Running) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": said(QUESTION), "max_tokens": 200, "response_format": FORMAT}
    names, seed, create = 0, 0, server.openai().chat.completions.create
    while names < 1000:
        choice: Any = create(**asked, temperature=1.5, seed=seed).choices[0]
        seed += 1
        assert seed < 2000
        if choice.finish_reason == "length":
            continue
        facts, found = choice.message.refactx["facts"], json.loads(choice.message.content)
        assert found["who"] in ({fact["subject"]["label"] for fact in facts} or {""})
        assert {*found["what"]} <= ({fact["object"]["literal"] for fact in facts} or {""})
        names += 1 + len(found["what"]) if facts else 0


@pytest.mark.parametrize("model", ["tiny", "tiny:answer", "tiny:free"])
def test_the_content_is_json_and_what_stands_before_it_is_the_reasoning(server: Running, model: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": said(QUESTION), "max_tokens": 200}
    create = server.openai().chat.completions.create
    before: Any = create(**asked | {"model": model.replace(":answer", ""), "max_tokens": 100}).choices[0].message
    choice = create(**asked, response_format=FORMAT).choices[0]
    message: Any = choice.message
    found = json.loads(message.content)
    assert choice.finish_reason == "stop"
    assert message.reasoning == before.content
    assert message.refactx["answer"] == before.refactx["answer"]
    assert message.refactx["facts"] == before.refactx["facts"]
    facts = message.refactx["facts"]
    assert bool(facts) == (model != "tiny:free")
    assert found["who"] in ({fact["subject"]["label"] for fact in facts} or {""})
    assert {*found["what"]} <= ({fact["object"]["literal"] for fact in facts} or {""})
    cited = [one.url_citation for one in message.annotations]
    assert [(one.start_index, one.end_index) for one in cited] == [(0, len(message.content))] * len(facts)


@pytest.mark.parametrize("options", [{}, {"temperature": 1.2, "seed": 1}])
def test_a_stream_of_a_form_is_the_whole_one_in_pieces(server: Running, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": said(QUESTION), "max_tokens": 200, "response_format": FORMAT}
    create = server.openai().chat.completions.create
    whole = create(**asked, **options)
    chunks = list(create(**asked, **options, stream=True, stream_options={"include_usage": True}))
    message: Any = whole.choices[0].message
    deltas: list[Any] = [chunk.choices[0].delta for chunk in chunks[:-1]]
    pieces = [(delta.content or "", (delta.model_extra or {}).get("reasoning", "")) for delta in deltas]
    assert "".join(content for content, _ in pieces) == message.content
    assert "".join(reasoning for _, reasoning in pieces).rstrip() == message.reasoning
    assert deltas[-1].annotations == [one.model_dump() for one in message.annotations]
    assert chunks[-1].usage == whole.usage


def test_each_of_several_texts_has_its_form(server: Running) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": said(QUESTION), "max_tokens": 200, "response_format": FORMAT}
    done = server.openai().chat.completions.create(**asked, n=3, temperature=1)
    assert [{*json.loads(choice.message.content or "")} for choice in done.choices] == [{*NAMES["required"]}] * 3


def test_responses_have_forms_too(server: Running) -> None:
    asked: dict[str, Any] = {"model": "tiny", "input": QUESTION, "max_output_tokens": 200}
    form = {"type": "json_schema", "name": "found", "schema": NAMES}
    create = server.openai().responses.create
    whole = create(**asked, text={"format": form})
    assert whole.status == "completed"
    assert {*json.loads(whole.output_text)} == {*NAMES["required"]}
    assert [item.type for item in whole.output] == ["reasoning", "message"]
    events = list(create(**asked, text={"format": form}, stream=True))
    assert "".join(one.delta for one in events if one.type == "response.output_text.delta") == whole.output_text
    assert events[-1].type == "response.completed"
    chat: Any = server.openai().chat.completions.create(
        model="tiny",
        messages=said(QUESTION),
        max_tokens=200,
        response_format=FORMAT,  # type: ignore[arg-type]
    )
    assert chat.choices[0].message.content == whole.output_text
    assert whole.usage is not None
    assert whole.usage.output_tokens == chat.usage.completion_tokens


def test_clients_get_objects_of_their_classes(server: Running) -> None:
    client = server.openai()
    asked: dict[str, Any] = {"model": "tiny", "temperature": 1}
    chat = client.chat.completions.parse(**asked, messages=said(QUESTION), response_format=Found, max_tokens=200)
    found, extra = chat.choices[0].message.parsed, chat.choices[0].message.model_extra or {}
    assert found is not None
    assert found.name in ({fact["object"]["literal"] for fact in extra["refactx"]["facts"]} or {""})
    response = client.responses.parse(**asked, input="hello", text_format=Found, max_output_tokens=200)
    assert isinstance(response.output_parsed, Found)


def test_texts_at_once_are_those_alone(tiny: Running) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b", "cc"]}}}
    bodies = [
        {"model": "tiny", "messages": said(f"{word} Fact:"), "max_tokens": 60, "response_format": form, "stream": True}
        for word in ("hello", "who", "in Ann", "a b", "Bo", "so")
    ]

    def contents(body: dict[str, Any]) -> str:
        reply = tiny.post("/v1/chat/completions", body).text
        chunks = [json.loads(line[6:]) for line in reply.splitlines() if line.startswith("data: {")]
        return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)

    alone = [contents(body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        assert list(pool.map(contents, bodies)) == alone
    assert {json.loads(text) for text in alone} <= {"a", "b", "cc"}


def test_a_client_that_goes_away_in_the_json_ends_it() -> None:
    gate = Gate()
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "minLength": 300}}}
    with running(gate.model) as server:
        assert eventually(lambda: server.service.is_warm)
        stream: Any = server.openai().chat.completions.create(
            model="tiny",
            messages=said("hello"),
            max_tokens=40,
            response_format=form,
            stream=True,  # type: ignore[call-overload]
        )
        assert next(chunk for chunk in stream if chunk.choices[0].delta.content)
        gate.close()
        stream.close()
        assert eventually(lambda: any(line["status"] == 499 for line in server.requests))
        gate.open()
        assert eventually(lambda: server.service.slots.running == 0)
        assert not server.service.asker._writer.scheduler.running


def test_any_object_is_one_unless_it_is_cut(server: Running) -> None:
    for seed in range(6):
        asked = {"model": "tiny", "messages": said("hello"), "max_tokens": 60, "temperature": 1, "seed": seed}
        done = server.post("/v1/chat/completions", asked | {"response_format": {"type": "json_object"}}).json()
        choice = done["choices"][0]
        assert choice["message"]["content"].startswith("{")
        assert done["usage"]["completion_tokens"] <= 60
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)
        else:
            assert choice["finish_reason"] == "length"


def test_names_of_no_facts_are_empty_or_null(tiny: Running) -> None:
    kinds: dict[str, Any] = {
        "a": {"type": "string"},
        "b": {"type": ["string", "null"]},
        "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    fields = {name: {**kind, "x-refactx": "object"} for name, kind in kinds.items()}
    schema = {"type": "object", "properties": fields, "required": [*kinds], "additionalProperties": False}
    form = JsonForm(schema=schema, place="response_format")
    answer = asker_alone().ask("hello", max_new_tokens=1)
    found = tiny.service.scoring("").forms.write(form, answer, Generation(), lambda _: None, cancelled=lambda: False)
    assert json.loads(found.form or "") == {"a": "", "b": None, "c": None}


def test_a_field_may_have_the_name_of_a_keyword(tiny: Running) -> None:
    marked = {"type": "string", "x-refactx": "subject"}
    names = ["enum", "x-refactx"]
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, marked),
        "required": names,
        "additionalProperties": False,
        "default": {"x-refactx": "no"},
    }
    answer = asker_alone().ask("hello", max_new_tokens=1)
    form = JsonForm(schema=schema, place="response_format")
    found = tiny.service.scoring("").forms.write(form, answer, Generation(), lambda _: None, cancelled=lambda: False)
    assert json.loads(found.form or "") == dict.fromkeys(names, "")


NO_VALUE = "the schema at # fits no value: what it asks for contradicts itself, or has no end"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"type": "array", "uniqueItems": True},
            "cannot be used: uniqueItems at # cannot be held where there are many values: name them by enum, say maxItems 1, "
            "or leave it out",
        ),
        (
            {"properties": {"a": {"type": "x"}}},
            "cannot be used: type at #/properties/a has to be one or a list of null, boolean, number, string, array, object "
            "and integer",
        ),
        ({"properties": 5}, "cannot be used: properties at # has to be an object"),
        ({"enum": []}, f"cannot be used: {NO_VALUE}"),
        ({"type": "object", "x-guidance": {"lenient": True}, "not": {}}, f"cannot be used: {NO_VALUE}"),
        (
            {"const": 2**53 + 1},
            "cannot be used: 9007199254740993 is beyond 2^53, where numbers are not exact: use a string",
        ),
        ({"enum": ["x" * LONGEST_SCHEMA]}, "is too large: give a schema of at most 100,000 characters"),
        ({"const": "x" * 300}, "has 382 tokens of the 512 that the model takes: give a smaller one"),
        ({"items": {"x-refactx": "name"}}, "has 'name' as x-refactx: give entity, predicate, subject, object"),
    ],
)
def test_a_schema_that_cannot_be_held_is_refused(tiny: Running, schema: dict[str, Any], reason: str) -> None:
    given = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    asked = {"model": "tiny", "messages": said("hello"), "response_format": given}
    reply = tiny.post("/v1/chat/completions", asked)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, "response_format")
    assert error["message"] == f"the schema in response_format {reason}"
    given = {"type": "json_schema", "name": "x", "schema": schema}
    reply = tiny.post("/v1/responses", {"model": "tiny", "input": "hello", "text": {"format": given}})
    assert reply.json()["error"]["message"] == f"the schema in text.format {reason}"


def test_a_schema_that_is_found_to_be_too_complex_ends_the_text_with_an_error() -> None:
    fields = {f"k{number}": {"type": "integer"} for number in range(600)}
    start = Vocabulary([bytes([byte]) for byte in range(256)]).matcher(json_grammar(json.dumps({"properties": fields})))
    constraint = FormConstraint(start, {256})
    with pytest.raises(InputError, match="give a simpler schema"):
        constraint.advance(constraint.start(()), ord("{"), 0)


def test_a_model_without_an_engine_has_no_forms(tiny: Running) -> None:
    form = JsonForm(schema={}, place="response_format")
    with pytest.raises(ApiError, match="cannot be held to a form: leave response_format out"):
        model = cast(Any, SimpleNamespace(engine=None))
        Forms(model, tiny.service.asker, LinkedIndex(tiny_fact_tokenizer(), FACTS)).check(form, {})


def test_a_deep_schema_is_refused(tiny: Running) -> None:
    schema: dict[str, Any] = {}
    for _ in range(300):
        schema = {"items": schema}
    given = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    reply = tiny.post("/v1/chat/completions", {"model": "tiny", "messages": said("hello"), "response_format": given})
    assert reply.status_code == 400
    assert len(reply.json()["error"]["message"]) < 300
