"""Answers in a form that was asked for: JSON by a schema, which a text with facts is followed by.

llguidance holds the model to the schema. A string of it with `"x-refactx"` is held to names in the facts that the text has, or
to names of the index: such a name is written in place of a `SENTINEL`, whose constant the grammar has there.
"""

import json
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from refactx.ask.answer import Answer
from refactx.ask.asker import Asker
from refactx.ask.prompt import Example, Generation
from refactx.decoding.states import Constraint, FactSource
from refactx.decoding.stream import FactStream
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.fact import Fact
from refactx.index.index import Index
from refactx.server.http import ApiError, bad_request
from refactx.sparql.decoding.matching import Allowed, Matcher, Vocabulary, json_grammar
from refactx.sparql.decoding.names import TreeNames
from refactx.tree.tree import NO_TOKENS, Path, Tokens
from refactx.walks.decoding.grammar import Subjects
from refactx.walks.facts import Units

LONGEST_SCHEMA = 20_000
"""The most characters of a schema: it becomes a part of the prompt."""
MARK = "x-refactx"
"""The keyword of strings that are names."""
SENTINELS = {"entity": "\ue000entity", "predicate": "\ue000predicate"}
"""What stands for a name of the index in a grammar, by the values of `MARK`: nobody's text has this private character."""
ANY = "\ue001"
"""A text that only strings without bounds have."""
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
        """Return the grammar of the JSON. `names`: those that strings are held to, by values of `MARK` beside `SENTINELS`.

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
        if mark not in names and mark not in SENTINELS:
            raise self.refusal(f"has {mark[:50]!r} as {MARK}: give {', '.join((*SENTINELS, *names))}")
        values: list[str | None] = [SENTINELS[mark]] if mark in SENTINELS else [*dict.fromkeys(names[mark])]
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


def names_in(facts: Sequence[Fact] = ()) -> dict[str, list[str]]:
    """Return the names in facts by what they are."""
    return {"subject": [fact.subject for fact in facts], "object": [fact.object for fact in facts]}


class IndexNames:
    """The names of an index as texts of strings of JSON. `token_bytes`: of the model's ids.

    Raises ModelError if the tokenizer joins parts of facts.
    """

    def __init__(self, index: FactSource, token_bytes: Sequence[bytes]) -> None:
        units = Units(index.tokenizer, index.trigger)
        if not units.are_whole:
            raise ModelError("the model's tokenizer has tokens with text of two parts of a fact, such as '> <'")
        self.token_bytes, self._index, self._closing = token_bytes, index, units.closing
        self._subjects = Subjects(token_bytes, units.closing)
        self._ids = {text: number for number, text in enumerate(token_bytes) if text}
        self._others = self._having(lambda text: b">" in text or _json_text(text) != text)
        self.private = self._having(lambda text: text[:1] == ANY.encode()[:1])
        """The tokens that sentinels may begin with: int32[n], ascending."""

    def _having(self, has: Callable[[bytes], bool]) -> Tokens:
        return np.array([number for number, text in enumerate(self.token_bytes) if has(text)], np.int32)

    @cached_property
    def _tree(self) -> TreeNames:
        return TreeNames(cast("Index", self._index))

    def after(self, kind: str, ids: Path) -> tuple[Tokens, dict[int, bytes], bool]:
        """Return what may follow some ids of a name: tokens, whose text is that of the string, int32[n], ascending; the text
        in the string of other tokens, with brackets or what JSON escapes; and whether the name is whole.

        An alias ends before what marks it as one.
        """
        if kind == "predicate":
            begun = self._tree.all_properties().after(ids)
        else:
            begun = self._subjects.after(ids, self._index)
        written, tokens = self._text(ids), begun.tokens
        if begun.unit is not None:
            return NO_TOKENS, {}, True
        if (
            kind == "entity"
            and written
            and len(tokens)
            and self._subjects.is_alias((*ids, int(tokens[0])), self._index)
        ):
            return NO_TOKENS, {}, True
        is_other = np.isin(tokens, self._others) if written else np.ones(len(tokens), np.bool_)
        others = {token: self._text((*ids, token))[len(written) :] for token in tokens[is_other].tolist()}
        return tokens[~is_other], others, False

    def beginnings(self, text: bytes) -> Tokens:
        """Return the tokens with the beginning of a text, or all of it: int32[n], ascending."""
        found = [self._ids[text[:size]] for size in range(1, len(text) + 1) if text[:size] in self._ids]
        return np.array(sorted(found), np.int32)

    def _text(self, ids: Path) -> bytes:
        """Return the text in a string of a name's ids, which begin with a space and a bracket."""
        text = b"".join(self.token_bytes[token] for token in ids)[2:]
        return _json_text(text[:-1] if ids and ids[-1] in self._closing else text)


def _json_text(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


class _Way(NamedTuple):
    """A way to go on in a name of a `kind`: `ids` after which `rest` is still to be written, the `tokens` that may be next,
    and the grammar after the name."""

    kind: str
    ids: Path
    rest: bytes
    tokens: Tokens
    end: Matcher


class NamedMatcher(Matcher):
    """A grammar of JSON after some tokens, in which names of an index stand in place of sentinels.

    `grammars`: those outside names; `ways`: those to go on in one.
    """

    def __init__(self, names: IndexNames, grammars: Sequence[Matcher], ways: Sequence[_Way] = ()) -> None:
        self._names, self._grammars, self._ways = names, list(grammars), list(ways)
        found = [self._outside(grammar) for grammar in self._grammars] + [way.tokens for way in self._ways]
        tokens = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        self.allowed, self.can_end = Allowed(tokens, ()), any(grammar.can_end for grammar in grammars)

    def _outside(self, grammar: Matcher) -> Tokens:
        """Return the tokens of a grammar outside names, and add what can follow in names that begin here."""
        tokens, first = grammar.allowed.tokens, len(self._names.token_bytes)
        tokens = tokens[tokens < first]
        is_private = np.isin(tokens, self._names.private)
        if not is_private.any() or grammar.after(first + len(SENTINELS)) is not None:
            return tokens
        for number, kind in enumerate(SENTINELS, first):
            if (end := grammar.after(number)) is not None:
                ends, ways = self._within(kind, (), b"", end)
                self._grammars += ends
                self._ways += ways
        return tokens[~is_private]

    def _within(self, kind: str, ids: Path, rest: bytes, end: Matcher) -> tuple[list[Matcher], list[_Way]]:
        """Return the grammars after whole names, and the ways to go on in one. A name is empty if there is none."""
        if rest:
            return [], [_Way(kind, ids, rest, self._names.beginnings(rest), end)]
        tokens, others, is_whole = self._names.after(kind, ids)
        is_whole = is_whole or not (len(tokens) or others)
        grammars, ways = [end] if is_whole else [], [_Way(kind, ids, b"", tokens, end)] if len(tokens) else []
        for token, text in others.items():
            more = self._within(kind, (*ids, token), text, end)
            grammars, ways = grammars + more[0], ways + more[1]
        return grammars, ways

    def after(self, token: int) -> "NamedMatcher | None":
        if token not in self.allowed.tokens:
            return None
        grammars = [after for grammar in self._grammars if (after := grammar.after(token)) is not None]
        ways = list[_Way]()
        for way in self._ways:
            if token not in way.tokens:
                continue
            ids, rest = way.ids, way.rest[len(self._names.token_bytes[token]) :]
            more = self._within(way.kind, ids if way.rest else (*ids, token), rest, way.end)
            grammars, ways = grammars + more[0], ways + more[1]
        return NamedMatcher(self._names, grammars, ways)


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
    """The writing of answers in a form, by the model of an asker over an index."""

    def __init__(self, model: LanguageModel, asker: Asker, index: FactSource) -> None:
        self._model, self._asker, self._index, self._lock = model, asker, index, Lock()
        self._matcher = lru_cache(maxsize=16)(self._new_matcher)

    def check(self, form: JsonForm, names: Mapping[str, Sequence[str]]) -> None:
        """Raise ApiError (400) for a form that cannot be held or takes too much of the model's room, or if the model cannot
        be held to forms. `names`: as in `JsonForm.grammar`."""
        if self._model.engine is None:
            raise bad_request(f"this server's model cannot be held to a form: leave {form.place} out", form.place)
        self.matcher(form, names)
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
            FormConstraint(self.matcher(form, names_in(answer.facts)), self._model.ends),
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

    def matcher(self, form: JsonForm, names: Mapping[str, Sequence[str]]) -> Matcher:
        """Return the matcher of a form. `names`: as in `JsonForm.grammar`. Raise ApiError (400) for one that cannot be held."""
        grammar = form.grammar(names)
        has_names = any(sentinel in grammar for sentinel in SENTINELS.values())
        try:
            found = self._matcher(grammar)
            return NamedMatcher(self._names, [found]) if has_names else found
        except ModelError as error:
            raise form.refusal(f"has {MARK} with names of the index, which cannot be held: {error}") from None
        except (ValueError, RuntimeError) as error:
            raise form.refusal(f"cannot be used: {str(error).partition('<state>')[0].strip()}") from None

    def _new_matcher(self, grammar: str) -> Matcher:
        with self._lock:
            return self._vocabulary.matcher(grammar)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        texts = [one.encode() for one in (*SENTINELS.values(), ANY)]
        return Vocabulary([*self._model.token_bytes, *texts], self._model.tokenizer.encode)

    @cached_property
    def _names(self) -> IndexNames:
        return IndexNames(self._index, self._model.token_bytes)
