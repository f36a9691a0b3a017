"""Conversations of requests: messages, as a question with earlier turns, and as chat templates with tools take them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from refactx.ask.prompt import Example
from refactx.server.http import bad_request

MOST_MESSAGES = 1000
Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
MOST_NESTED = 100
"""The most lists and objects within each other in the arguments of a call: chat templates write them again."""


class ContentPart(BaseModel):
    """A part of a message. Only parts with text are accepted."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class CalledFunction(BaseModel):
    """The function of a call. `arguments`: JSON."""

    name: str
    arguments: str


class AssistantCall(BaseModel):
    """A call of a tool that the assistant made."""

    model_config = ConfigDict(extra="allow")

    id: str
    function: CalledFunction


class Message(BaseModel):
    """A message of a conversation. `tool_calls`: of an assistant; `tool_call_id`: whose result a tool's message is."""

    model_config = ConfigDict(extra="allow")

    role: Role
    content: str | list[ContentPart] | None = None
    tool_calls: list[AssistantCall] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The last question, the turns before it, and what system messages say."""

    question: str
    history: tuple[Example, ...] = ()
    system: str = ""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The conversation as chat templates take it."""
        said = [("system", self.system)] if self.system else []
        for turn in self.history:
            said += [("user", turn.question), ("assistant", turn.answer)]
        return [{"role": role, "content": text} for role, text in (*said, ("user", self.question))]


def conversation(messages: Iterable[Message], field: str, instructions: str = "") -> Conversation:
    """Return the conversation that messages are. `field`: their name, for errors.

    Messages of one role in succession count as one. Raises ApiError (400) if the last one is not the user's, or if one has
    something else than text.

    >>> said = conversation([Message(role="user", content="Hi"), Message(role="assistant", content="Yes?"),
    ...                      Message(role="user", content="Who?")], "messages")
    >>> said.question, said.history
    ('Who?', (Example(question='Hi', answer='Yes?'),))
    """
    system, turns = [instructions] if instructions.strip() else [], list[tuple[str, str]]()
    for number, message in enumerate(messages):
        if number >= MOST_MESSAGES:
            raise bad_request(f"{field} has more than {MOST_MESSAGES:,} messages: leave out the oldest", field)
        text = _text(message, f"{field}.{number}")
        if message.role in ("system", "developer"):
            system.append(text)
        elif turns and turns[-1][0] == message.role:
            turns[-1] = message.role, f"{turns[-1][1]}\n\n{text}"
        else:
            turns.append((message.role, text))
    if not turns or turns[-1][0] != "user" or not turns[-1][1].strip():
        raise bad_request(
            f"{field} has no question at its end: the last message has to be the user's, with text", field
        )
    if turns[0][0] == "assistant":  # what it said unasked
        turns.insert(0, ("user", "..."))
    pairs = zip(turns[:-1:2], turns[1:-1:2], strict=True)
    history = tuple(Example(question[1], answer[1]) for question, answer in pairs)
    return Conversation(turns[-1][1], history, "\n\n".join(text for text in system if text.strip()))


def with_results(messages: Sequence[Message], field: str) -> tuple[list[Message], list[dict[str, Any]]]:
    """Return a conversation without tools, in which results of calls stand before what the user said, and the same one as
    chat templates with tools take it. `field`: the name of the messages, for errors.

    Raises ApiError (400) for a result of no call, and for arguments that are no JSON.

    >>> call = AssistantCall(id="c", function=CalledFunction(name="f", arguments="{}"))
    >>> said = [Message(role="user", content="How?"), Message(role="assistant", tool_calls=[call]),
    ...         Message(role="tool", tool_call_id="c", content="5")]
    >>> [message.content for message in with_results(said, "messages")[0]]
    ['The result of f({}): 5', 'How?']
    """
    plain, whole, calls = list[Message](), list[dict[str, Any]](), dict[str, CalledFunction]()
    question = 0  # the place of what the user said last
    for number, message in enumerate(messages):
        place = f"{field}.{number}"
        text, role = _text(message, place), "system" if message.role == "developer" else message.role
        turn: dict[str, Any] = {"role": role, "content": text}
        if message.role == "tool":
            call = calls.get(message.tool_call_id or "")
            if call is None:
                found = f"{place}.tool_call_id is {message.tool_call_id!r}"
                raise bad_request(f"{found}, the id of no earlier call: give that of one", f"{place}.tool_call_id")
            said = f"The result of {call.name}({call.arguments}): {text}"
            is_late = any(one.role == "assistant" for one in plain[question:])
            plain.insert(len(plain) if is_late else question, Message(role="user", content=said))
            question += not is_late
            turn |= {"name": call.name, "tool_call_id": message.tool_call_id}
        elif message.tool_calls:
            calls |= {one.id: one.function for one in message.tool_calls}
            turn["tool_calls"] = [
                {"id": one.id, "type": "function", "function": {"name": one.function.name, "arguments": given}}
                for one in message.tool_calls
                for given in [_arguments(one.function, place)]
            ]
            if whole and whole[-1]["role"] == "assistant":  # responses have an item for a text, and for each call
                before = whole.pop()
                if "tool_calls" not in before:
                    plain.pop()
                turn["content"] = "\n\n".join(filter(None, (before["content"], text)))
                turn["tool_calls"] = [*before.get("tool_calls", ()), *turn["tool_calls"]]
        else:
            if role == "user" and not (plain and plain[-1].role == "user"):
                question = len(plain)
            plain.append(message)
        whole.append(turn)
    return plain, whole


def is_nested(value: Any) -> bool:
    """Return whether JSON has more than `MOST_NESTED` lists and objects within each other."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        level = [
            one
            for part in level
            if isinstance(part, list | dict)
            for one in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return False
    return True


def _arguments(function: CalledFunction, place: str) -> Any:
    given = function.arguments
    try:
        found = json.loads(given or "{}")
        if is_nested(found):
            raise RecursionError
    except ValueError:
        raise bad_request(f"{place}.tool_calls has arguments that are no JSON: {given[:50]!r}", place) from None
    except RecursionError:
        said = f"{place}.tool_calls has arguments with more than {MOST_NESTED} levels: {given[:50]!r}"
        raise bad_request(said, place) from None
    return found


def _text(message: Message, field: str) -> str:
    extra: dict[str, Any] = message.model_extra or {}
    if message.role == "function" or extra.get("function_call"):
        raise bad_request(
            f"{field} is of an API for functions that is no more: send tool_calls and tool messages", field
        )
    if extra.get("audio"):
        raise bad_request(f"{field} has sound: this server reads text alone", field)
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    for part in message.content:
        if part.type not in TEXT_PARTS or (part.text is None and part.type != "refusal"):
            raise bad_request(
                f"{field} has a part of type {part.type!r}: this server reads text alone, as a part of type 'text'",
                field,
            )
    return "".join(part.text or "" for part in message.content)
