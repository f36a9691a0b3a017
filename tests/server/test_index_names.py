"""Strings of JSON that are names of an index: any text that is allowed has names that exist, and each name can be written."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest
from support.query.memory_index import RowsIndex
from support.query.twin import Graph
from support.server.running import running, said
from support.tiny_model import tiny_model

from refactx.decoding.matching import Matcher
from refactx.fact import Fact, Link, LinkedFact
from refactx.server.forms import Forms, JsonForm
from refactx.server.http import ApiError
from refactx.tokenizer import FactTokenizer

GRAPH: Graph = frozenset(
    {
        ("Ann", "p", "Bo"),
        ("Ann (Bo)", 'the "best" of', "b"),
        ('"Ann" \\ b', "p", "b"),
        ("Anna", "q", "Bo"),
        ("Bé", "p of", "7"),
        ("Bo", "p", "b"),
        ("b", "q", "Bo"),
        ("Annie (alias)", "alias of", "Anna"),
        ("Ann (alias)", "alias of", "Anna"),
        ("Bo B (alias)", "alias of", "Bo"),
        ("Bé Bo (alias)", "alias of", "Bo"),
        ("Bé Bo (b)", "p", "b"),
        ("Bo Bé", "p", "b"),
    }
)
ENTITIES = {"Ann", "Ann (Bo)", '"Ann" \\ b', "Anna", "Bé", "Bo", "b", "Annie", "Bo B", "Bo Bé", "Bé Bo", "Bé Bo (b)"}
PREDICATES = {"p", 'the "best" of', "q", "p of"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "who": {"type": "string", "x-refactx": "entity"},
        "how": {"type": ["string", "null"], "x-refactx": "predicate"},
        "most": {
            "type": "array",
            "items": {"anyOf": [{"enum": ["none", "Ann"]}, {"x-refactx": "entity"}]},
            "maxItems": 2,
        },
        "why": {"type": "string", "maxLength": 3},
    },
    "required": ["who", "how", "most", "why"],
    "additionalProperties": False,
}


class Named(RowsIndex):
    """Facts in memory whose index has a name, and no ids of properties."""

    name = "rows"

    def ids_of(self, names: object) -> dict[str, object]:  # type: ignore[override]
        return {}

    def names_of(self, ids: object, *, inverse: bool = False) -> dict[str, str]:
        return {}

    def links(self, fact: Fact) -> LinkedFact:
        return LinkedFact(Link(fact.subject, None), Link(fact.predicate, None), fact.object)


@pytest.fixture(scope="module", params=["tiny", pytest.param("smollm2", marks=pytest.mark.long)])
def forms(request: pytest.FixtureRequest) -> Forms:
    if request.param == "tiny":
        index = Named([(1, GRAPH)])
    else:
        folder: Path = request.getfixturevalue("smollm2_folder")
        index = Named([(1, GRAPH)], FactTokenizer.from_file(folder / "tokenizer.json"))
    tokenizer = index.tokenizer
    model = SimpleNamespace(token_bytes=tokenizer.token_bytes, tokenizer=tokenizer, engine=True, room=None)
    return Forms(cast("Any", model), cast("Any", None), index)


def matcher_of(forms: Forms, schema: Mapping[str, Any]) -> Matcher:
    return forms.matcher(JsonForm(schema=schema, place="response_format"), {})


def drawn(forms: Forms, matcher: Matcher, choices: random.Random) -> str:
    """A text of ids that are allowed, each drawn with the same chance."""
    table, text = forms._model.token_bytes, b""
    while len(matcher.allowed.tokens):
        token = choices.choice(matcher.allowed.tokens.tolist())
        after = matcher.after(token)
        assert after is not None
        matcher, text = after, text + table[token]
    assert matcher.can_end
    return text.decode()


def test_what_is_allowed_is_json_with_names_that_exist(forms: Forms) -> None:
    start, seen = matcher_of(forms, SCHEMA), set[str]()
    plain = json.loads(json.dumps(SCHEMA).replace('"x-refactx": "entity"', '"type": "string"'))
    for seed in range(200):
        found = json.loads(drawn(forms, start, random.Random(seed)))
        jsonschema.validate(found, plain)
        assert found["who"] in ENTITIES
        assert found["how"] in PREDICATES | {None}
        assert {*found["most"]} <= ENTITIES | {"none"}
        seen |= {found["who"], found["how"], *found["most"]}
    assert seen == ENTITIES | PREDICATES | {None, "none"}


def written(forms: Forms, matcher: Matcher | None, text: str) -> bool:
    """Whether a text can be written by the longest ids that are allowed."""
    left, table = text.encode(), forms._model.token_bytes
    while matcher is not None and left:
        fitting = [token for token in matcher.allowed.tokens.tolist() if left.startswith(table[token])]
        if not fitting:
            return False
        token = max(fitting, key=lambda one: len(table[one]))
        matcher, left = matcher.after(token), left[len(table[token]) :]
    return matcher is not None and matcher.can_end


@pytest.mark.parametrize(("kind", "names"), [("entity", ENTITIES), ("predicate", PREDICATES)])
def test_each_name_and_no_other_can_be_written(forms: Forms, kind: str, names: set[str]) -> None:
    start = matcher_of(forms, {"type": "string", "x-refactx": kind})
    assert all(written(forms, start, json.dumps(name, ensure_ascii=False)) for name in names)
    others: Sequence[str] = [
        "",
        "An",
        "Ann ",
        "Ann (alias)",
        "alias of",
        "ue000entity",
        "pp",
        "C",
        "\ue000entity",
        "\ue001",
    ]
    assert not any(written(forms, start, json.dumps(name, ensure_ascii=False)) for name in others)


def test_an_id_that_is_not_allowed_has_nothing_after_it(forms: Forms) -> None:
    matcher = matcher_of(forms, {"type": "string", "x-refactx": "entity"})
    for token in range(len(forms._model.token_bytes)):
        assert (matcher.after(token) is not None) == (token in matcher.allowed.tokens)


def test_a_string_without_bounds_beside_a_name_has_any_text(forms: Forms) -> None:
    start = matcher_of(forms, {"anyOf": [{"type": "string", "maxLength": 4}, {"x-refactx": "entity"}]})
    assert written(forms, start, '"xyz"')
    assert written(forms, start, '"Annie"')
    assert written(forms, matcher_of(forms, {"anyOf": [{"type": "string"}, {"x-refactx": "entity"}]}), '"anything"')


def test_ids_beyond_those_of_the_model_are_never_allowed(forms: Forms) -> None:
    matcher: Matcher | None = matcher_of(forms, {"type": "object", "additionalProperties": {"type": "string"}})
    for byte in b'{"a": "b':
        assert matcher is not None
        assert not (matcher.allowed.tokens >= len(forms._model.token_bytes)).any()
        matcher = matcher.after(forms._model.token_bytes.index(bytes([byte])))


def test_a_text_is_taken_whose_tokens_join_a_name_and_what_follows(forms: Forms) -> None:
    schema = {"type": "array", "items": {"x-refactx": "entity"}}
    form = JsonForm(schema=schema, place="tools")
    assert forms.takes(form, '["Ann (Bo)", "Bo"]')
    assert forms.takes(form, '["Ann"]')
    for text in ('["Ann (Bo"]', '["Ann (Bo)"', '["Ann)"]', "[7]"):
        assert not forms.takes(form, text)


def test_too_many_readings_of_a_text_are_refused(forms: Forms) -> None:
    kinds = {"anyOf": [{"enum": ["none", "Ann"]}, {"x-refactx": "entity"}]}
    start = matcher_of(forms, {"type": "array", "items": kinds})
    assert written(forms, start, json.dumps(["Ann"] * 3))
    assert not written(forms, start, json.dumps(["Ann"] * 30))
    assert written(forms, start, json.dumps(["Anna"] * 30))


def test_characters_for_private_use_are_refused(forms: Forms) -> None:
    with pytest.raises(ApiError, match=r"has U\+E000 or U\+E001, which are for private use"):
        matcher_of(forms, {"enum": ["\ue000entity"]})


def test_a_name_of_an_index_without_any_is_empty(forms: Forms) -> None:
    tokenizer = forms._model.tokenizer
    model = SimpleNamespace(token_bytes=tokenizer.token_bytes, tokenizer=tokenizer, engine=True, room=None)
    other = Forms(cast("Any", model), cast("Any", None), Named([], cast("FactTokenizer", tokenizer)))
    for kind in ("entity", "predicate"):
        assert written(other, matcher_of(other, {"x-refactx": kind}), '""')


def test_a_tokenizer_that_joins_parts_of_facts_is_refused(forms: Forms) -> None:
    table = [*forms._model.token_bytes, b"> <"]
    joining = SimpleNamespace(token_bytes=table, encode=forms._model.tokenizer.encode)
    index = SimpleNamespace(tokenizer=joining, trigger="Fact:")
    model = SimpleNamespace(token_bytes=table, tokenizer=forms._model.tokenizer, engine=True, room=None)
    other = Forms(cast("Any", model), cast("Any", None), cast("Any", index))
    with pytest.raises(ApiError, match="names of the index, which cannot be held: the model's tokenizer has tokens"):
        matcher_of(other, {"x-refactx": "entity"})


def test_answers_and_calls_have_names_of_the_index() -> None:
    model = tiny_model()
    model.config.max_position_embeddings = 4096
    given = {"type": "json_schema", "json_schema": {"name": "found", "schema": SCHEMA}}
    with running(model, Named([(1, GRAPH)])) as server:
        create = server.openai().chat.completions.create
        asked: dict[str, Any] = {"model": "tiny", "messages": said("hello"), "max_tokens": 300, "temperature": 1}
        for seed in range(8):
            choice = create(**asked, seed=seed, response_format=given).choices[0]
            assert choice.finish_reason == "stop"
            found = json.loads(choice.message.content or "")
            assert found["who"] in ENTITIES
            assert found["how"] in PREDICATES | {None}
