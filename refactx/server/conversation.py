"""Conversations of requests as the asker needs them: a question, earlier turns, and a system message."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from refactx.asking.prompt import Example
from refactx.server.http.errors import ApiError, bad_request

MOST_MESSAGES = 1000
Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ContentPart(BaseModel):
    """A part of a message. Only parts with text are accepted."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class Message(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="allow")

    role: Role
    content: str | list[ContentPart] | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The last question, the turns before it, and what system messages say."""

    question: str
    history: tuple[Example, ...] = ()
    system: str = ""


TEXT_PARTS = ("text", "input_text", "output_text", "refusal")


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


def no_tools(field: str, found: str) -> ApiError:
    """Return the error of a conversation with calls of tools or their results. `found`: what shows that `field` is one."""
    return bad_request(
        f"{field} is {found}: this server does not call tools yet, and reads messages with text alone: leave calls of "
        "tools and their results out",
        field,
        "unsupported_parameter",
    )


def _text(message: Message, field: str) -> str:
    extra: dict[str, Any] = message.model_extra or {}
    if message.role in ("tool", "function"):
        raise no_tools(f"{field}.role", repr(message.role))
    if extra.get("tool_calls") or extra.get("function_call"):
        raise no_tools(field, "a message with tool_calls")
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
