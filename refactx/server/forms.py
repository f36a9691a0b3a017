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
from refactx.decoding.matching import Allowed, Matcher, Vocabulary, json_grammar
from refactx.decoding.names import Subjects, Units
from refactx.decoding.states import Constraint, FactSource
from refactx.decoding.stream import FactStream, FormPiece, TextPiece
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.fact import Fact
from refactx.index.index import Index
from refactx.server.http import ApiError, bad_request
from refactx.server.references import NAMED, UnheldError
from refactx.server.schemas import listed
from refactx.server.shapes import held
from refactx.server.texts import Finished
from refactx.tree.tree import NO_TOKENS, Path, Tokens
from refactx.walks.decoding.names import TreeNames

LONGEST_SCHEMA = 100_000
"""The most characters of a schema: it becomes a part of the prompt, and a grammar within seconds."""
MARK = "x-refactx"
"""The keyword of strings that are names."""
PRIVATE = "\ue000\ue001"
"""Characters for private use, which schemas may not have."""
SENTINELS = {"entity": f"{PRIVATE[0]}entity", "predicate": f"{PRIVATE[0]}predicate"}
"""What stands for a name of the index in a grammar, by the values of `MARK`."""
HIDDEN = [*SENTINELS.values(), *(one.replace(*PRIVATE) for one in SENTINELS.values())]
"""The sentinels, and texts that stand where a string can have a sentinel, but not where it has to."""
DATA = ("enum", "const", "default", "examples")
"""Keywords whose values are no schemas."""
_BEFORE = len(" <")
"""The characters before a name in a fact."""
MOST_READINGS = 64
"""The most ways to read one text as names and other parts of a form."""


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
    """JSON by a schema. `place`: the field of the request that has it, for errors.

    `documents`: the schemas of tools by their names, which it refers to, whose objects are `is_closed` as in `held`; `without`:
    places and keywords that are left out; `unheld`: what is not held of each, in words.
    """

    schema: Mapping[str, Any]
    place: str
    documents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_closed: bool = False
    without: Sequence[tuple[str, str]] = ()
    unheld: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
            text = json.dumps([self.schema, *self.documents.values()], ensure_ascii=False)
            if len(text) > LONGEST_SCHEMA:
                raise self.refusal(f"is too large: give a schema of at most {LONGEST_SCHEMA:,} characters")
            if not set(PRIVATE).isdisjoint(text):
                raise self.refusal("has U+E000 or U+E001, which are for private use: leave them out")
            documents = {name: self._held(one, names) for name, one in {"": self.schema, **self.documents}.items()}
            return _grammar(json.dumps(documents), is_closed=self.is_closed, without=tuple(self.without))
        except UnheldError as error:
            raise self.refusal(f"cannot be used: {error}") from None
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
        kinds = [node, *listed(node.get("anyOf"))]
        if any("null" in listed(one.get("type")) for one in kinds if isinstance(one, Mapping)):
            values.append(None)
        return {"enum": values or [""]}

    def _part(self, key: str, value: Any, names: Mapping[str, Sequence[str]]) -> Any:
        if key in DATA:
            return value
        if key in NAMED and isinstance(value, dict):
            return {name: self._held(schema, names) for name, schema in value.items()}
        return self._held(value, names)


@lru_cache(maxsize=32)
def _grammar(documents: str, *, is_closed: bool, without: tuple[tuple[str, str], ...]) -> str:
    """Return the grammar of schemas, given as JSON, as `held` takes them."""
    return json_grammar(json.dumps(held(json.loads(documents), is_closed=is_closed, without=without)))


def names_in(facts: Sequence[Fact] = ()) -> dict[str, list[str]]:
    """Return the names in facts by what they are."""
    return {"subject": [fact.subject for fact in facts], "object": [fact.object for fact in facts]}


class NamesInJson:
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
        self.private = self._having(lambda text: text[:1] == PRIVATE[0].encode()[:1])
        """The tokens that sentinels may begin with: int32[n], ascending."""
        if not len(self.private):
            raise ModelError(f"the model's tokenizer has no token for the first byte of U+{ord(PRIVATE[0]):04X}")

    def _having(self, has: Callable[[bytes], bool]) -> Tokens:
        return np.array([number for number, text in enumerate(self.token_bytes) if has(text)], np.int32)

    @cached_property
    def _tree(self) -> TreeNames:
        return TreeNames(cast("Index", self._index))

    def after(self, kind: str, ids: Path) -> tuple[Tokens, dict[int, bytes], bool]:
        """Return what may follow some ids of a name: tokens, whose text is that of the string, int32[n], ascending; the text
        in the string of other tokens, with brackets or what JSON escapes; and whether the name is whole.

        An alias ends before what marks it as one. Raises InputError if the index has no such name any more.
        """
        is_closed = bool(ids) and ids[-1] in self._closing
        if kind == "predicate":
            begun = self._tree.all_properties().after(ids)
            tokens, is_whole = begun.tokens, begun.unit is not None
        else:
            children = self._index.children(ids)
            aliases = [] if is_closed else self._subjects.aliases(ids, children.tokens, self._index)
            tokens = NO_TOKENS if is_closed else children.tokens[~np.isin(children.tokens, aliases)]
            is_whole = children.total > 0 if is_closed else self._subjects.has_alias(ids, self._index)
        if ids and not is_whole and not len(tokens):
            raise InputError("the index was changed while a name of it was written: ask again")
        is_begun = is_closed or sum(len(self.token_bytes[token]) for token in ids) >= _BEFORE
        is_other = np.isin(tokens, self._others) if is_begun else np.ones(len(tokens), np.bool_)
        written = len(self._text(ids))
        others = {token: self._text((*ids, token))[written:] for token in tokens[is_other].tolist()}
        return tokens[~is_other], others, is_whole

    def beginnings(self, text: bytes) -> Tokens:
        """Return the tokens with the beginning of a text, or all of it: int32[n], ascending."""
        found = [self._ids[text[:size]] for size in range(1, len(text) + 1) if text[:size] in self._ids]
        return np.array(sorted(found), np.int32)

    def _text(self, ids: Path) -> bytes:
        """Return the text in a string of a name's ids, which begin with a space and a bracket."""
        text = b"".join(self.token_bytes[token] for token in ids)[_BEFORE:]
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

    def __init__(self, names: NamesInJson, grammars: Sequence[Matcher], ways: Sequence[_Way] = ()) -> None:
        self._names, self._grammars, self._ways = names, list(grammars), list(ways)
        found = [self._outside(grammar) for grammar in self._grammars] + [way.tokens for way in self._ways]
        tokens = found[0] if len(found) == 1 else np.unique(np.concatenate(found))
        self.allowed, self.can_end = Allowed(tokens, ()), any(grammar.can_end for grammar in grammars)

    def _outside(self, grammar: Matcher) -> Tokens:
        """Return the tokens of a grammar outside names, and add what can follow in names that begin here."""
        tokens, first = grammar.allowed.tokens, len(self._names.token_bytes)
        is_private = np.isin(tokens, self._names.private)
        if not is_private.any():
            return tokens
        has_names = False
        for number, kind in enumerate(SENTINELS, first):
            end = grammar.after(number)
            if end is not None and grammar.after(number + len(SENTINELS)) is None:
                self._grammars += self._within(kind, (), b"", end, self._ways)
                has_names = True
        return tokens[~is_private] if has_names else tokens

    def _within(self, kind: str, ids: Path, rest: bytes, end: Matcher, ways: list[_Way]) -> list[Matcher]:
        """Return the grammars after whole names, and add the ways to go on in one. A name is empty if there is none."""
        if rest:
            ways.append(_Way(kind, ids, rest, self._names.beginnings(rest), end))
            return []
        tokens, others, is_whole = self._names.after(kind, ids)
        grammars = [end] if is_whole or not (len(tokens) or others) else []
        if len(tokens):
            ways.append(_Way(kind, ids, b"", tokens, end))
        for token, text in others.items():
            grammars += self._within(kind, (*ids, token), text, end, ways)
        return grammars

    def after(self, token: int) -> "NamedMatcher | None":
        if token not in self.allowed.tokens:
            return None
        grammars = [after for grammar in self._grammars if (after := grammar.after(token)) is not None]
        ways = list[_Way]()
        for way in self._ways:
            if token not in way.tokens:
                continue
            ids, rest = way.ids, way.rest[len(self._names.token_bytes[token]) :]
            grammars += self._within(way.kind, ids if way.rest else (*ids, token), rest, way.end, ways)
        if len(grammars) > MOST_READINGS or not (grammars or ways):
            return None
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
        put: Callable[[FormPiece], None],
        *,
        history: Sequence[Example] = (),
        system: str = "",
        cancelled: Callable[[], bool],
    ) -> Finished:
        """Write an answer in its form. `options`: with the most ids that it may take; `put`: takes its pieces; the others as
        in `Asker.follow_up`, whose errors it raises. What is returned counts the ids of the form and before it."""
        pieces, table = list[str](), self._model.token_bytes

        def put_piece(piece: TextPiece) -> None:
            pieces.append(piece.text)
            put(FormPiece(piece.text))

        written = self._asker.follow_up(
            form.request,
            answer,
            FormConstraint(self.matcher(form, names_in(answer.facts)), self._model.ends),
            options,
            history=history,
            system=system,
            streamer=FactStream(table, None, put_piece),
            cancelled=cancelled,
        )
        text, is_whole = "".join(pieces), False
        with suppress(ValueError):
            json.loads(text)
            is_whole = True
        return Finished(
            reason="stop" if is_whole else "length",
            forced_tokens=answer.forced_tokens + written.forced,
            forward_passes=answer.forward_passes + written.passes,
            form=text,
            tokens=len(written.ids),
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

    def takes(self, form: JsonForm, text: str) -> bool:
        """Return whether a text has a form, without names of facts. Raises as `matcher` does.

        A token such as `)"`, with the end of a name and what follows, is read byte by byte.
        """
        table, matcher = self._model.token_bytes, cast("Matcher | None", self.matcher(form, {}))
        for token in self._index.tokenizer.encode(text):
            before = matcher
            matcher = None if before is None else before.after(token)
            if matcher is None:
                matcher = before
                for at in range(len(table[token])):
                    byte = table[token][at : at + 1]
                    matcher = matcher.after(table.index(byte)) if matcher is not None and byte in table else None
        return matcher is not None and matcher.can_end

    def _new_matcher(self, grammar: str) -> Matcher:
        with self._lock:
            return self._vocabulary.matcher(grammar)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        hidden = [one.encode() for one in HIDDEN]
        return Vocabulary(list(self._model.token_bytes), self._index.tokenizer.encode, hidden)

    @cached_property
    def _names(self) -> NamesInJson:
        return NamesInJson(self._index, self._model.token_bytes)
