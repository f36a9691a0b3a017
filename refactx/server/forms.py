"""Answers in a form that was asked for: JSON by a schema, which a text with facts is followed by.

llguidance holds the model to the schema. A string of it with `"x-refactx"` is held to names in the facts that the text has.
"""

import json
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Example, Generation
from refactx.decoding.states import Constraint
from refactx.decoding.stream import FactStream
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError
from refactx.fact import Fact, Link, LinkedFact
from refactx.server.http import ApiError, bad_request
from refactx.sparql.decoding.matching import Matcher, Vocabulary, json_grammar
from refactx.tree.tree import NO_TOKENS, Tokens

LONGEST_SCHEMA = 20_000
"""The most characters of a schema: it becomes a part of the prompt."""
MARK = "x-refactx"
"""The keyword of strings that are names in facts."""
DATA = ("enum", "const", "default", "examples")
"""Keywords whose values are no schemas."""
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values have schemas by names."""


class _Schema(BaseModel):
    model_config = ConfigDict(extra="allow")

    schema_: dict[str, Any] = Field(alias="schema")


class Format(BaseModel):
    """The form of an answer, as the APIs of chats and of responses have it."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")

    def form(self, place: str) -> "JsonForm | None":
        """Return the form that an answer is held to; None for any text. Raise ApiError (400) if the schema is missing.

        `place`: the field of the request.
        """
        if self.type == "text":
            return None
        schema = self.schema_ if self.json_schema is None else self.json_schema.schema_
        if self.type == "json_object":
            schema = {"type": "object"}
        if schema is None:
            raise bad_request(f"{place} has no schema: give one, or the type json_object", place)
        return JsonForm(schema=schema, place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonForm:
    """JSON by a schema. `place`: the field of the request that has it, for errors."""

    schema: Mapping[str, Any]
    place: str

    @property
    def request(self) -> str:
        """What the model is asked after its text."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Write your last answer as JSON and nothing else, by this JSON schema:\n{schema}"

    def grammar(self, names: Mapping[str, Sequence[str]]) -> str:
        """Return the grammar of the JSON. `names`: those that strings are held to, by the values of `MARK`.

        Raises ApiError (400) for a schema that cannot be read or is too large.
        """
        try:
            if len(json.dumps(self.schema)) > LONGEST_SCHEMA:
                raise self.refusal(f"is too large: give a schema of at most {LONGEST_SCHEMA:,} characters")
            return json_grammar(json.dumps(self._held(self.schema, names)))
        except RecursionError:
            raise self.refusal("is too deep: give a schema with fewer levels") from None
        except ValueError as error:
            raise self.refusal(f"cannot be used: {error}") from None

    def refusal(self, reason: str) -> ApiError:
        """Return the error of a schema."""
        return bad_request(f"the schema in {self.place} {reason}", self.place)

    def _held(self, node: Any, names: Mapping[str, Sequence[str]]) -> Any:
        if isinstance(node, list):
            return [self._held(one, names) for one in node]
        if not isinstance(node, Mapping):
            return node
        mark = node.get(MARK)
        if not isinstance(mark, str):
            return {key: self._part(key, value, names) for key, value in node.items()}
        if mark not in names:
            raise self.refusal(f"has {mark[:50]!r} as {MARK}: give {', '.join(names)}")
        values: list[str | None] = [*dict.fromkeys(names[mark])]
        kinds = [node, *_listed(node.get("anyOf"))]
        if any("null" in _listed(one.get("type")) for one in kinds if isinstance(one, Mapping)):
            values.append(None)
        return {"enum": values or [""]}

    def _part(self, key: str, value: Any, names: Mapping[str, Sequence[str]]) -> Any:
        if key in DATA:
            return value
        if key in NAMED and isinstance(value, dict):
            return {name: self._held(schema, names) for name, schema in value.items()}
        return self._held(value, names)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def names_in(facts: Sequence[Fact] = (), links: Sequence[LinkedFact] = ()) -> dict[str, list[str]]:
    """Return the names in facts by what they are. `links`: the same facts with their ids."""
    objects = [fact.object for fact, linked in zip(facts, links, strict=True) if isinstance(linked.object, Link)]
    return {
        "entity": [*(fact.subject for fact in facts), *objects],
        "predicate": [fact.predicate for fact in facts],
        "object": [fact.object for fact in facts],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState:
    """After the ids of a text: the `matcher` there, None after an id that was not allowed; `is_whole`: the text has ended."""

    matcher: Matcher | None = field(default=None, compare=False, repr=False)
    ids: tuple[int, ...] = ()
    is_whole: bool = False


class FormConstraint(Constraint[FormState]):
    """The constraint of texts by a grammar. `ends`: the ids that end texts, one of which ends one that could go on."""

    def __init__(self, matcher: Matcher, ends: Collection[int]) -> None:
        self._start, self._ends = matcher, np.array(sorted(ends), np.int32)

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> FormState:
        return FormState(matcher=self._start)

    def advance(self, state: FormState, token: int, position: int) -> FormState:
        matcher, ids = state.matcher, (*state.ids, token)
        if matcher is None or state.is_whole:
            return state
        if matcher.can_end and token in self._ends:
            return FormState(matcher=matcher, ids=ids, is_whole=True)
        after = matcher.after(token)
        if after is None and token in matcher.allowed.tokens:
            raise InputError("the form of the answer has too many alternatives at one place: give a simpler schema")
        is_whole = after is not None and after.can_end and not len(after.allowed.tokens)
        return FormState(matcher=after, ids=ids, is_whole=is_whole)

    def allowed(self, state: FormState) -> Tokens | None:
        if state.matcher is None or state.is_whole:
            return NO_TOKENS
        tokens = state.matcher.allowed.tokens
        return np.union1d(tokens, self._ends) if state.matcher.can_end else tokens

    def can_end(self, state: FormState) -> bool:
        return state.is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenForm:
    """An answer in its form: its `text`, and how many ids it took, how many of them were `forced`, and in how many `passes`."""

    text: str
    reason: Literal["stop", "length"]
    tokens: int
    forced: int
    passes: int


class Forms:
    """The writing of answers in a form, by the model of an asker."""

    def __init__(self, model: LanguageModel, asker: Asker) -> None:
        self._model, self._asker, self._lock = model, asker, Lock()
        self._matcher = lru_cache(maxsize=16)(self._new_matcher)

    def check(self, form: JsonForm) -> None:
        """Raise ApiError (400) for a form that cannot be held or takes too much of the model's room, or if the model cannot
        be held to forms."""
        if self._model.engine is None:
            raise bad_request(f"this server's model cannot be held to a form: leave {form.place} out", form.place)
        self.matcher(form)
        size, room = len(self._model.tokenizer.encode(form.request)), self._model.room
        if room is not None and 2 * size > room:
            raise form.refusal(f"has {size} tokens of the {room} that the model takes: give a smaller one")

    def write(
        self,
        form: JsonForm,
        answer: Answer,
        options: Generation,
        put: Callable[[str], None],
        *,
        history: Sequence[Example] = (),
        system: str = "",
        cancelled: Callable[[], bool],
    ) -> WrittenForm:
        """Write an answer in its form. `options`: with the most ids that it may take; `put`: takes its pieces; the others as
        in `Asker.follow_up`, whose errors it raises."""
        pieces, table = list[str](), self._model.token_bytes

        def put_piece(text: str) -> None:
            pieces.append(text)
            put(text)

        written = self._asker.follow_up(
            form.request,
            answer,
            FormConstraint(self.matcher(form, names_in(answer.facts, answer.links)), self._model.ends),
            options,
            history=history,
            system=system,
            streamer=FactStream(table, None, lambda piece: put_piece(piece.text)),
            cancelled=cancelled,
        )
        text, is_whole = "".join(pieces), False
        with suppress(ValueError):
            json.loads(text)
            is_whole = True
        return WrittenForm(
            text=text,
            reason="stop" if is_whole else "length",
            tokens=len(written.ids),
            forced=written.forced,
            passes=written.passes,
        )

    def matcher(self, form: JsonForm, names: Mapping[str, Sequence[str]] = names_in()) -> Matcher:
        """Return the matcher of a form. Raise ApiError (400) for one that cannot be held."""
        grammar = form.grammar(names)
        try:
            return self._matcher(grammar)
        except (ValueError, RuntimeError) as error:
            raise form.refusal(f"cannot be used: {str(error).partition('<state>')[0].strip()}") from None

    def _new_matcher(self, grammar: str) -> Matcher:
        with self._lock:
            return self._vocabulary.matcher(grammar)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(list(self._model.token_bytes))
