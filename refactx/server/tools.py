"""Calls of tools: which a request may have, how the model's chat template writes one, and the writing of calls.

If the template has no tools, or calls of another form, the system message tells them, and a call is JSON after `GENERIC`.
The model decides whether it calls a tool: where it writes the template's mark of a call, maybe after some text with facts, or
if a call has to come, the constraint takes over, and llguidance holds name and arguments to the schemas of the tools. A text
that begins as the JSON of calls is taken for calls whose mark is missing. Without a call, an answer with facts follows;
after a tool's result, what the model has written is the reply.
"""

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from refactx.ask.conversation import conversation_ids, without_control
from refactx.ask.prompt import Generation
from refactx.ask.writer import BatchWriter, TextRequest, WritingOptions, WrittenText
from refactx.decoding.matching import Matcher, json_problem
from refactx.decoding.states import Constraint, FactSource
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError
from refactx.server.conversation import MOST_NESTED, Conversation, Message, conversation, is_nested
from refactx.server.forms import Forms, JsonForm
from refactx.server.http import ApiError, bad_request
from refactx.server.references import UnheldError
from refactx.server.schemas import TYPES
from refactx.server.shapes import held
from refactx.server.texts import CalledTool, CountedStream, Finished
from refactx.tree.tree import NO_TOKENS, Tokens

MOST_TOOLS = 128
MOST_SAID = 64
"""The most ids before a call. If none begins within them, they are not shown, and the answer with facts is written;
after a tool's result, they go on to their end. A mark of a call has fewer."""
NAME = r"^[A-Za-z0-9_-]{1,64}$"
_PROBES = ("zebra_probe", "yak_probe")
_ARGUMENTS = {"key": "value 4096"}
_BARE_CALL = re.compile(r'(\s*(?:```\w*\s*)?\{?)\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"(?:arguments|parameters)"\s*:')
"""The beginning of a call without its mark, as small models write it: what stands before it, and the name of the tool. Qwen's
template shows a call with two braces, which its models then write."""
GENERIC = '{"tool_call": '
"""The beginning of a call by a chat template that has none."""
_GENERIC_MARK = r'(?:```\w*\s*)?\{\s*"tool_call"\s*:'
_TOOLS_IN_WORDS = """You can call tools. Here they are as JSON, each with the schema of its arguments:
{tools}
To call one, write its name and arguments as JSON on a line like this, and nothing else:
{{"tool_call": {{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}}}
Its result is the next message. If no tool helps, answer in words."""
MOST_LEFT_OUT = 20
"""The most keywords of a tool that are left out, so that the others are held."""


class Function(BaseModel):
    """A function that may be called. `parameters`: the JSON schema of its arguments, none: it has no arguments."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(pattern=NAME)
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(BaseModel):
    """A tool of a chat completion."""

    model_config = ConfigDict(extra="allow")

    type: Literal["function"]
    function: Function


class ToolName(BaseModel):
    """The name of a function."""

    name: str


class NamedTool(BaseModel):
    """The choice of one tool."""

    type: Literal["function"]
    function: ToolName


Choice = Literal["none", "auto", "required"] | NamedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOrder:
    """The calls that a text may be. `messages`: the conversation, as chat templates take it; `plain`: the same without tools,
    results in words; `tools`: those that the prompt has; `form`: that of one call; `is_required`: one has to come;
    `parallel`: several may."""

    messages: Sequence[Mapping[str, Any]]
    plain: Sequence[Mapping[str, str]]
    tools: Sequence[Mapping[str, Any]]
    form: JsonForm
    is_required: bool
    parallel: bool

    @property
    def may_reply(self) -> bool:
        """Whether a text without calls is the reply: after a tool's result, unless a call has to come."""
        return not self.is_required and bool(self.messages[-1]["role"] == "tool")

    def json_form(self, name: str, key: str) -> JsonForm:
        """Return the form of a call of one tool. `key`: the name of the field of arguments."""
        functions = (Function.model_validate(tool["function"]) for tool in self.tools)
        return _form({one.name: one for one in functions if one.name == name}, key)

    def is_plausible(self, call: CalledTool) -> bool:
        """Whether a call that a model begins without its mark is one to make: it does not stand after what the user said last;
        and after a result, each of its arguments has a word of the conversation or the tools, since small models invent more.
        """
        made = list[tuple[str, Any]]()
        for message in self.messages:
            if message["role"] == "user":
                made.clear()
            made += [(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls", ())]
        arguments = json.loads(call.arguments)
        if (call.name, arguments) in made:
            return False
        if not self.may_reply:
            return True
        said = set[str]().union(*map(_words, _values([*self.messages, *self.tools])))
        return all(said & words for words in map(_words, _values(arguments)) if words)

    def in_order(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call in the order of the tool's schema, in which llguidance reads them."""
        schema = next(tool["function"].get("parameters") for tool in self.tools if tool["function"]["name"] == name)
        names = [one for one in (schema or {}).get("properties") or () if one in arguments]
        return {one: arguments[one] for one in dict.fromkeys((*names, *arguments))}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMarks:
    """How a chat template writes calls: the text before the first, between two and after the last, and the name of the field
    of `arguments`. By default, those for templates without calls, which `in_words` describes."""

    opens: str = GENERIC
    between: str = f"\n{GENERIC}"
    closes: str = "}"
    arguments: str = "arguments"

    @property
    def mark(self) -> re.Pattern[str]:
        """What begins calls in a text."""
        return re.compile(_GENERIC_MARK if self.is_generic else re.escape(self.opens.strip()))

    @property
    def is_generic(self) -> bool:
        """Whether the prompt has to describe tools and calls, since the template does not."""
        return self.opens == GENERIC


def in_words(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return a conversation with tools as chat templates without tools take it: calls as JSON after `GENERIC`, results
    as the user's, and the tools in the system message.

    >>> call = {"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}
    >>> said = [{"role": "user", "content": "How?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
    ...         {"role": "tool", "tool_call_id": "c", "content": "5"}]
    >>> found = in_words(said, [{"function": {"name": "f"}}])
    >>> found.history[0].answer, found.question
    ('{"tool_call": {"name": "f", "arguments": {"a": 1}}}', 'The result of f({"a": 1}): 5')
    """
    said, calls = list[Message](), dict[str, Mapping[str, Any]]()
    for one in messages:
        made, role, texts = one.get("tool_calls", ()), one["role"], [one["content"]]
        calls |= {call["id"]: call["function"] for call in made}
        texts += [f"{GENERIC}{_json(call['function'])}}}" for call in made]
        if role == "tool":
            call = calls[one["tool_call_id"]]
            role, texts = "user", [f"The result of {call['name']}({_json(call['arguments'])}): {one['content']}"]
        said.append(Message(role=role, content="\n".join(filter(None, texts))))
    told = "\n".join(_json(tool["function"]) for tool in tools)
    return conversation(said, "messages", _TOOLS_IN_WORDS.format(tools=told))


def call_marks(tokenizer: Any) -> CallMarks | None:
    """Return how a tokenizer's chat template writes calls, as it writes two; None if it has no tools or other calls."""
    tools = [{"type": "function", "function": {"name": name, "description": "", "parameters": {}}} for name in _PROBES]
    calls = [
        {"id": f"call0000{n}", "type": "function", "function": {"name": name, "arguments": _ARGUMENTS}}
        for n, name in enumerate(_PROBES)
    ]
    asked = [{"role": "user", "content": "Zebra?"}]
    said = [*asked, {"role": "assistant", "content": "", "tool_calls": calls}]
    try:
        base: str = tokenizer.apply_chat_template(asked, tools=tools, tokenize=False, add_generation_prompt=True)
        whole: str = tokenizer.apply_chat_template(said, tools=tools, tokenize=False)
    except Exception:  # a template may raise anything
        return None
    if _PROBES[0] not in base or not whole.startswith(base):
        return None
    for key in ("arguments", "parameters"):
        first, second = (json.dumps({"name": name, key: _ARGUMENTS}) for name in _PROBES)
        opens, _, rest = whole[len(base) :].partition(first)
        between, found, after = rest.partition(second)
        size = next((n for n, (a, b) in enumerate(zip(between, after, strict=False)) if a != b), len(between))
        if found and opens.strip() and between[size:].strip():
            return CallMarks(opens=opens, between=between[size:], closes=between[:size], arguments=key)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """After the ids of a text: those of the mark that come next (`mark`), or where the JSON of a call is (`call`).

    `calls`: the ids of the calls that are whole; `is_free`: the model may write something else than `mark`; `is_whole`: the
    text has ended.
    """

    mark: tuple[int, ...] = ()
    call: tuple[int, ...] = ()
    matcher: Matcher | None = field(default=None, compare=False, repr=False)
    calls: tuple[tuple[int, ...], ...] = ()
    is_free: bool = False
    is_closing: bool = False
    is_whole: bool = False


class CallConstraint(Constraint[CallState]):
    """The constraint of texts that are calls. `marks`: the ids of those before, between and after calls; `parallel`: whether
    several may come."""

    def __init__(
        self,
        matcher: Matcher,
        marks: tuple[Sequence[int], Sequence[int], Sequence[int]],
        *,
        parallel: bool,
    ) -> None:
        self._matcher, self._parallel = matcher, parallel
        self._opens, self._between, self._closes = (tuple(ids) for ids in marks)

    def start(self, prompt: Sequence[int], padding: Container[int] | None = None) -> CallState:
        return self._after_mark(CallState(mark=self._opens))

    def advance(self, state: CallState, token: int, position: int) -> CallState:
        if state.is_whole:
            return state
        if state.mark:
            if token != state.mark[0]:
                return replace(state, is_whole=True)
            return self._after_mark(replace(state, mark=state.mark[1:]))
        after = None if state.matcher is None else state.matcher.after(token)
        if after is None:
            raise InputError("the arguments of the tools have too many alternatives at one place: give simpler schemas")
        call = (*state.call, token)
        if not after.can_end or len(after.allowed.tokens):
            return replace(state, matcher=after, call=call)
        done = CallState(mark=self._closes, calls=(*state.calls, call), is_closing=True)
        return done if done.mark else self._after_mark(done)

    def _after_mark(self, state: CallState) -> CallState:
        if state.mark:
            return state
        if not state.is_closing:
            return replace(state, matcher=self._matcher, is_free=False)
        return replace(state, mark=self._between, is_free=True, is_closing=False, is_whole=not self._parallel)

    def allowed(self, state: CallState) -> Tokens | None:
        if state.is_whole:
            return NO_TOKENS
        if not state.mark:
            return NO_TOKENS if state.matcher is None else state.matcher.allowed.tokens
        if state.is_free:
            return None
        return np.array(state.mark[:1], np.int32)

    def can_end(self, state: CallState) -> bool:
        return state.is_whole


class Tools:
    """The writing of calls, by a model. `index`: of the facts before them; `name`: that of the model, for errors."""

    def __init__(self, model: LanguageModel, forms: Forms, index: FactSource, name: str) -> None:
        self._model, self._forms, self._index, self._name = model, forms, index, name

    @cached_property
    def marks(self) -> CallMarks | None:
        """How the model writes calls; None if it cannot."""
        return None if self._model.engine is None else call_marks(self._model.tokenizer) or CallMarks()

    @property
    def _known_marks(self) -> CallMarks:
        if self.marks is None:
            raise bad_request(
                f"the model {self._name} cannot call tools, since its cache is not one that engines read: leave out tools, "
                'or send `"tool_choice": "none"`',
                "tools",
                "unsupported_parameter",
            )
        return self.marks

    def order(
        self,
        tools: Sequence[Tool],
        choice: Choice,
        messages: Sequence[Mapping[str, Any]],
        said: Conversation,
        *,
        parallel: bool,
    ) -> ToolOrder:
        """Return the calls that a request may have. `said`: what the messages say, without tools.

        Raises ApiError (400) if the tools cannot be called.
        """
        key = self._known_marks.arguments
        functions = {tool.function.name: tool.function for tool in tools}
        if len(functions) < len(tools) or len(tools) > MOST_TOOLS:
            raise bad_request(f"tools has to be at most {MOST_TOOLS} functions of different names", "tools")
        chosen = list(functions)
        if isinstance(choice, NamedTool):
            chosen = [choice.function.name]
            if chosen[0] not in functions:
                raise bad_request(
                    f"tool_choice is {chosen[0]!r}, which is not in tools: name one of them", "tool_choice"
                )
        form = _form({name: functions[name] for name in chosen}, key)
        self._forms.check(form, {})
        clean = partial(without_control, self._model.tokenizer)
        return ToolOrder(
            messages=[{**one, "content": clean(one["content"])} for one in messages],
            plain=[{**one, "content": clean(one["content"])} for one in said.messages],
            tools=[tool.model_dump(exclude_none=True) for tool in tools],
            form=form,
            is_required=choice != "auto",
            parallel=parallel,
        )

    def write(
        self,
        order: ToolOrder,
        options: Generation,
        stream: CountedStream,
        cancelled: Callable[[], bool],
        *,
        free: bool,
        replies: bool = True,
    ) -> Finished | None:
        """Write calls. None: the model begins none, or some without their mark that are not plausible.

        `stream`: takes the text before them; `free`: that has no facts; `replies`: a text after a tool's result is the
        reply; if it is empty, or such calls, then what the model writes without tools. None: that is empty, too.

        Raises InputError if there is no room for them.
        """
        ids, room = self._prompt(order), self._model.room
        if room is not None and len(ids) >= room:
            raise InputError(
                f"the conversation and its tools have {len(ids)} tokens, but the model takes at most {room}: send less"
            )
        most = options.max_new_tokens if room is None else min(options.max_new_tokens, room - len(ids))
        writing = WritingOptions(
            is_end=lambda _: True,
            answer_line=lambda _, __: (),
            keeps=True,
            free=free,
            sampling=options.sampling,
            cancelled=cancelled,
            max_facts=options.max_facts,
        )
        said, bare, replies = list[int](), None, replies and order.may_reply
        request = TextRequest(prompt=ids, max_new_tokens=most)
        if not order.is_required:
            begun, bare, written = self._begun(order, request, writing, replies)
            if begun is None and replies:
                return self._reply(ids, written, stream) or self._plain_reply(order, most, writing, stream)
            if begun is None:
                return None
            said = begun
        calls = [] if bare is None else self._own_calls(order, bare)
        if not calls:
            if bare is None:
                _pass_on(stream, ids, said)
            request = TextRequest(prompt=[*ids, *said], max_new_tokens=max(1, most - len(said)))
            calls, written = self._held_calls(order, request, bare, replace(writing, free=False))
        if bare is not None:
            made, calls = calls, [*filter(order.is_plausible, calls)]
            if made and not calls:
                return self._plain_reply(order, most, writing, stream) if replies else None
        stream.prompt_tokens = len(ids)
        stream.tokens += len(written.ids)
        return Finished(
            reason="tool_calls" if calls else "length",
            forced_tokens=written.forced,
            forward_passes=written.passes,
            calls=tuple(calls),
        )

    def _prompt(self, order: ToolOrder) -> list[int]:
        tokenizer = self._model.tokenizer
        if not self._known_marks.is_generic:
            return conversation_ids(tokenizer, order.messages, tools=order.tools)
        said = in_words(order.messages, order.tools).messages
        return conversation_ids(
            tokenizer, [{**one, "content": without_control(tokenizer, one["content"])} for one in said]
        )

    def _plain_reply(
        self, order: ToolOrder, most: int, writing: WritingOptions, stream: CountedStream
    ) -> Finished | None:
        """Write a reply to the conversation without tools; None if it is empty."""
        ids = conversation_ids(self._model.tokenizer, order.plain)
        request = TextRequest(prompt=ids, max_new_tokens=most)
        return self._reply(ids, self._before.write_one(request, replace(writing, is_end=lambda _: False)), stream)

    def _reply(self, prompt: Sequence[int], written: WrittenText, stream: CountedStream) -> Finished | None:
        """Return a text without calls as the reply; None if it is empty."""
        said = [number for number in written.ids if number not in self._model.ends]
        text: str = self._model.tokenizer.decode(said).strip()
        if not text:
            return None
        _pass_on(stream, prompt, said)
        stream.prompt_tokens, stream.tokens = len(prompt), len(written.ids)
        return Finished(
            reason="stop" if written.ids[-1] in self._model.ends else "length",
            forced_tokens=written.forced,
            forward_passes=written.passes,
            answer=text,
        )

    def _held_calls(
        self, order: ToolOrder, request: TextRequest, bare: re.Match[str] | None, writing: WritingOptions
    ) -> tuple[list[CalledTool], WrittenText]:
        """Write calls as the schemas of the tools have them. `bare`: the beginning of one without its mark."""
        marks, key = self._known_marks, self._known_marks.arguments
        form = order.form if bare is None else order.json_form(bare[2], key)
        texts = (marks.opens, marks.between, marks.closes) if bare is None else (bare[1], "", "")
        opens, between, closes = map(self._encode, texts)
        constraint = CallConstraint(
            self._forms.matcher(form, {}), (opens, between, closes), parallel=order.parallel and bare is None
        )
        written = BatchWriter(self._model, constraint=constraint).write_one(request, writing)
        state = constraint.start(request.prompt)
        for position, token in enumerate(written.ids):
            state = constraint.advance(state, token, position)
        table = self._model.token_bytes
        try:
            found = [json.loads(b"".join(table[one] for one in call)) for call in state.calls]
        except RecursionError:
            found = [None]
        if any(one is None or is_nested(one) for one in found):
            raise InputError(
                f"the model's arguments have more than {MOST_NESTED} levels: give a tool whose schema has fewer"
            )
        return [_call(one["name"], one[key]) for one in found], written

    def _own_calls(self, order: ToolOrder, bare: re.Match[str]) -> list[CalledTool]:
        """Return the calls without their mark that the model has written, the first ones that are whole and as the schemas
        have them; each once."""
        key, (made, _) = self._known_marks.arguments, _json_values_of(bare, bare.string)
        once = [one for n, one in enumerate(made) if one not in made[:n]]
        return [_call(one["name"], one[key]) for one in takewhile(partial(self._fits, order), once)]

    def _fits(self, order: ToolOrder, written: Any) -> bool:
        """Whether JSON is a call as the schemas have it."""
        key, names = self._known_marks.arguments, {tool["function"]["name"] for tool in order.tools}
        if not isinstance(written, dict) or {*written} != {"name", key} or written["name"] not in names:
            return False
        if not isinstance(written[key], dict) or is_nested(written[key]):
            return False
        call = {"name": written["name"], key: order.in_order(written["name"], written[key])}
        return self._forms.takes(order.form, _json(call))

    def _begun(
        self, order: ToolOrder, request: TextRequest, writing: WritingOptions, to_end: bool
    ) -> tuple[list[int] | None, re.Match[str] | None, WrittenText]:
        """Write a text until it begins a call, or calls without their mark are whole.

        Returns the ids before a mark, None if there is no call, the beginning of calls without a mark, and all that was
        written. `to_end`: a text without calls is whole.
        """
        mark, names = self._known_marks.mark, {tool["function"]["name"] for tool in order.tools}

        def text_of(ids: Sequence[int]) -> str:
            text: str = self._model.tokenizer.decode(ids, clean_up_tokenization_spaces=False)
            return text

        def bare_in(text: str) -> re.Match[str] | None:
            found = _BARE_CALL.match(text)
            return found if found is not None and found[2] in names else None

        def begins(ids: NDArray[np.int64]) -> bool:
            bare = bare_in(text_of(ids[:MOST_SAID].tolist()))
            if bare is None:
                has_mark = mark.search(text_of(ids[-MOST_SAID:].tolist())) is not None
                return has_mark or (len(ids) >= MOST_SAID and not to_end)
            made, rest = _json_values_of(bare, text_of(ids.tolist()))
            return bool(made) and (not order.parallel or not "{".startswith(rest[:1]) or made[-1] in made[:-1])

        written = self._before.write_one(request, replace(writing, is_end=begins))
        ids = written.ids
        said = text_of(ids)
        found = mark.search(said)
        if found is None:
            bare = bare_in(said)
            return None if bare is None else [], bare, written
        said = said[: found.start()]
        kept = max(n for n in range(len(ids) + 1) if said.startswith(text_of(ids[:n])))
        rest = said[len(text_of(ids[:kept])) :]  # a token may have the end of it and the beginning of the mark
        return [*ids[:kept], *self._encode(rest)], None, written

    @cached_property
    def _before(self) -> BatchWriter:
        return BatchWriter(self._model, self._index)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._model.tokenizer.encode(text, add_special_tokens=False)
        return ids


def _pass_on(stream: CountedStream, prompt: Sequence[int], said: Sequence[int]) -> None:
    """Pass a text on that was written before."""
    for part in (prompt, *([number] for number in said)):
        stream.put(np.array(part))
    stream.end()


def _json_values_of(begun: re.Match[str], text: str) -> tuple[list[Any], str]:
    """Return the JSON values with which a text goes on after its beginning, one after the other, and what stands after the
    last. After a doubled brace, all have double ones."""
    found, rest, decoder, outer = list[Any](), text[begun.end(1) :], json.JSONDecoder(), begun[1][-1:] == "{"
    with suppress(ValueError, RecursionError):
        while rest.startswith("{"):
            value, size = decoder.raw_decode(rest)
            found.append(value)
            rest = rest[size:].removeprefix("}" * outer).lstrip(" \r\n,")
            rest = rest.removeprefix("{") if outer and rest.startswith("{{") else rest
    return found, rest


def _words(value: str | float) -> set[str]:
    """Return the words and numbers of a value, in small letters; 1,200 is 1200."""
    return {*re.findall(r"\w+", re.sub(r"(?<=\d),(?=\d{3})", "", str(value)).casefold())}


def _values(data: Any) -> Iterator[str | float]:
    """Yield the texts and numbers of JSON data, 2.0 as 2.

    >>> [*_values({"a": ["b", 2.0], "c": None})]
    ['b', 2]
    """
    if isinstance(data, Mapping | list):
        for one in data.values() if isinstance(data, Mapping) else data:
            yield from _values(one)
    elif not isinstance(data, bool | None):
        yield int(data) if isinstance(data, float) and data.is_integer() else data


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


def _call(name: str, arguments: Any) -> CalledTool:
    return CalledTool(name=name, arguments=_json(arguments))


class HeldTool(NamedTuple):
    """The arguments of a tool as they are held: a `schema` `without` keywords at places; `unheld`: what is not, in words."""

    schema: Mapping[str, Any]
    without: Sequence[tuple[str, str]] = ()
    unheld: Sequence[str] = ()


def held_tool(function: Function) -> HeldTool:
    """Return how the arguments of a tool are held. Raise ApiError (400) for a schema that is wrong, or that nothing fulfils.

    A keyword that cannot be held is left out; if that does not do, any object is taken.

    >>> tags = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    >>> held_tool(Function(name="f", parameters={"properties": {"tags": tags}})).without
    [('f#/properties/tags', 'uniqueItems')]
    """
    name, schema = function.name, _object_schema(function)
    without, unheld = list[tuple[str, str]](), list[str]()
    while len(without) < MOST_LEFT_OUT:
        try:
            found = held({"": {"$ref": name}, name: schema}, is_closed=True, without=without)
            if problem := json_problem(json.dumps(found)):
                raise UnheldError(f"{name}#", "the schema", f"is too large: give a simpler one ({problem[:80]})")
        except UnheldError as error:
            if error.is_wrong:
                raise _wrong_tool(name, str(error)) from None
            unheld.append(str(error))
            if error.keyword == "the schema" or (error.place, error.keyword) in without:
                break
            without.append((error.place, error.keyword))
        except RecursionError:
            raise _wrong_tool(name, "it is too deep: give one with fewer levels") from None
        except ValueError as error:  # such as of a number beyond 2^53
            unheld.append(str(error))
            break
        else:
            return HeldTool(schema, without, unheld)
    return HeldTool(
        {"type": "object", "additionalProperties": True}, (), [*unheld[-1:], "its arguments may be any object"]
    )


def _wrong_tool(name: str, reason: str) -> ApiError:
    return bad_request(f"the schema in tools cannot be used, of the function {name!r}: {reason}", "tools")


def _object_schema(function: Function) -> dict[str, Any]:
    """Return the schema of the arguments of a function, an object also where a client writes null for no arguments."""
    schema = dict(function.parameters or {})
    types = schema.get("type", "object")
    if types in ("null", ["null"]) or not schema:
        return {"type": "object", "properties": {}}
    if isinstance(types, str) and types != "object" and types in (*TYPES, "integer"):
        raise _wrong_tool(function.name, "its type has to be object")
    return {**schema, "type": "object" if isinstance(types, list) and "object" in types else types}


def _form(functions: Mapping[str, Function], key: str) -> JsonForm:
    """Return the form of a call of one of some functions. `key`: the name of the field of arguments."""
    tools = {name: held_tool(function) for name, function in functions.items()}
    kinds = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, key: {"$ref": name}},
            "required": ["name", key],
            "additionalProperties": False,
        }
        for name in tools
    ]
    return JsonForm(
        schema={"anyOf": kinds},
        place="tools",
        documents={name: tool.schema for name, tool in tools.items()},
        is_closed=True,
        without=[one for tool in tools.values() for one in tool.without],
        unheld={name: tool.unheld for name, tool in tools.items() if tool.unheld},
    )
