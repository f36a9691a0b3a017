"""Responses of OpenAI's API, whole and as events, and their route."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from refactx.decoding.stream import FormPiece, TextPiece
from refactx.server.chat import (
    TextFields,
    conversation_order,
)
from refactx.server.conversation import (
    AssistantCall,
    CalledFunction,
    ContentPart,
    Message,
    Role,
)
from refactx.server.forms import Format
from refactx.server.http import bad_request
from refactx.server.service import TextService
from refactx.server.streaming import STREAMED, Document, Documents, JsonRoute, answered
from refactx.server.texts import CalledTool, Citation, Finished, about_facts, citations_of, reasoning_of
from refactx.server.tools import Function, NamedTool, Tool, ToolName


class ResponseDocuments(Documents):
    """The documents of one response. `given`: fields of the request that it repeats; `answer_alone`: the text is the
    answer, and what stands before it an item of reasoning, as a thought is."""

    def __init__(self, model: str, given: Mapping[str, Any], *, answer_alone: bool = False) -> None:
        self._model, self._given, self._answer_alone = model, given, answer_alone
        self._reasons = answer_alone  # whether an item of reasoning comes first
        number = uuid.uuid4().hex
        self._id, self._message_id, self._reasoning_id = f"resp_{number}", f"msg_{number}", f"rs_{number}"
        self._created = time.time()
        self._events = 0  # how many were made
        self._is_open = {"reasoning": False, "message": False}  # whether an item was added
        self._text = ""
        self._reasoning = ""
        self._annotations: list[Citation] = []

    def whole(self, texts: Sequence[Finished]) -> Document:
        (finished,) = texts
        text = finished.content if self._answer_alone else finished.text
        reasoning = reasoning_of(finished, answer_alone=self._answer_alone)
        self._reasons = self._reasons or bool(reasoning)
        annotations = citations_of(finished, answer_alone=self._answer_alone)
        return self._response(finished, self._items(finished, reasoning, text, annotations))

    def _items(self, finished: Finished, reasoning: str, text: str, annotations: list[Citation]) -> list[Document]:
        """Return the items of a response. Before calls, there is none that would be empty."""
        found, has_calls = list[Document](), bool(finished.calls)
        if reasoning or (self._reasons and not has_calls):
            found.append(self._reasoning_item(reasoning))
        if text or not has_calls:
            found.append(self._message_item(text, annotations))
        return [*found, *map(_call_item, finished.calls)]

    def first(self, index: int) -> list[Document]:
        response = self._response(None, [])
        return [self._event(f"response.{what}", response=response) for what in ("created", "in_progress")]

    def piece(self, piece: TextPiece | FormPiece, index: int) -> list[Document]:
        if isinstance(piece, TextPiece) and piece.is_reasoning:
            self._reasons = True
            found = self._open_reasoning()
            self._reasoning += piece.text
            event = self._event("response.reasoning_summary_text.delta", **self._reasoning_place, delta=piece.text)
        else:
            found = [*self._close_reasoning(), *self._open_message()]
            self._text += piece.text
            event = self._event("response.output_text.delta", **self._text_place, delta=piece.text, logprobs=[])
        found.append(event | about_facts(piece))
        return found

    def last(self, finished: Finished, index: int) -> list[Document]:
        found = self._close_reasoning()
        if self._text or not finished.calls:
            found += self._close_message(finished)
        items = self._items(finished, self._reasoning.rstrip(), self._text, self._annotations)
        for number, item in enumerate(items):
            if item["type"] == "function_call":
                found += self._called(item, number)
        response = self._response(finished, items)
        return [*found, self._event(f"response.{response['status']}", response=response)]

    def _close_message(self, finished: Finished) -> list[Document]:
        found = self._open_message()
        found += [self._annotation(one) for one in citations_of(finished, answer_alone=self._answer_alone)]
        part, item = self._part(self._text, self._annotations), self._message_item(self._text, self._annotations)
        return [
            *found,
            self._event("response.output_text.done", **self._text_place, text=self._text, logprobs=[]),
            self._event("response.content_part.done", **self._text_place, part=part),
            self._event("response.output_item.done", output_index=self._message_index, item=item),
        ]

    def _called(self, item: Document, number: int) -> list[Document]:
        """Return the events of a call, which is the item with a number."""
        place, text = {"item_id": item["id"], "output_index": number}, item["arguments"]
        begun = {**item, "status": "in_progress", "arguments": ""}
        return [
            self._event("response.output_item.added", output_index=number, item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=text),
            self._event("response.function_call_arguments.done", **place, name=item["name"], arguments=text),
            self._event("response.output_item.done", output_index=number, item=item),
        ]

    @property
    def _message_index(self) -> int:
        return int(self._reasons)

    @property
    def _text_place(self) -> Document:
        return {"item_id": self._message_id, "output_index": self._message_index, "content_index": 0}

    @property
    def _reasoning_place(self) -> Document:
        return {"item_id": self._reasoning_id, "output_index": 0, "summary_index": 0}

    def _open_message(self) -> list[Document]:
        if self._is_open["message"]:
            return []
        self._is_open["message"] = True
        item = {**self._message_item("", []), "status": "in_progress", "content": []}
        found = [*self._open_reasoning(), *self._close_reasoning()] if self._reasons else []
        return [
            *found,
            self._event("response.output_item.added", output_index=self._message_index, item=item),
            self._event("response.content_part.added", **self._text_place, part=self._part("", [])),
        ]

    def _open_reasoning(self) -> list[Document]:
        if self._is_open["reasoning"] or self._reasoning:
            return []
        self._is_open["reasoning"] = True
        item = {**self._reasoning_item(""), "summary": []}
        part = {"type": "summary_text", "text": ""}
        return [
            self._event("response.output_item.added", output_index=0, item=item),
            self._event("response.reasoning_summary_part.added", **self._reasoning_place, part=part),
        ]

    def _close_reasoning(self) -> list[Document]:
        if not self._is_open["reasoning"]:
            return []
        self._is_open["reasoning"] = False
        text = self._reasoning.rstrip()
        part = {"type": "summary_text", "text": text}
        return [
            self._event("response.reasoning_summary_text.done", **self._reasoning_place, text=text),
            self._event("response.reasoning_summary_part.done", **self._reasoning_place, part=part),
            self._event("response.output_item.done", output_index=0, item=self._reasoning_item(text)),
        ]

    def _annotation(self, found: Citation) -> Document:
        self._annotations.append(found)
        return self._event(
            "response.output_text.annotation.added",
            **self._text_place,
            annotation_index=len(self._annotations) - 1,
            annotation=found,
        )

    def _event(self, kind: str, **fields: Any) -> Document:
        self._events += 1
        return {"type": kind, "sequence_number": self._events - 1, **fields}

    def _part(self, text: str, annotations: list[Citation]) -> Document:
        return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}

    def _message_item(self, text: str, annotations: list[Citation]) -> Document:
        return {
            "id": self._message_id,
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [self._part(text, annotations)],
        }

    def _reasoning_item(self, text: str) -> Document:
        summary = [{"type": "summary_text", "text": text}]
        return {"id": self._reasoning_id, "type": "reasoning", "status": "completed", "summary": summary}

    def _response(self, finished: Finished | None, output: list[Document]) -> Document:
        """Return the response. `finished`: the text, if it has ended."""
        is_cut = finished is not None and finished.reason == "length"
        status = "in_progress" if finished is None else "incomplete" if is_cut else "completed"
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "completed_at": time.time() if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "model": self._model,
            "output": output,
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "text": {"format": {"type": "text"}},
            "tool_choice": "none",
            "tools": [],
            "truncation": "disabled",
            **self._given,
            "usage": None if finished is None else _usage(finished),
            "refactx": None if finished is None else finished.to_json(),
        }


def _call_item(call: CalledTool) -> Document:
    return {
        "id": call.id.replace("call_", "fc_"),
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _usage(finished: Finished) -> Document:
    return {
        "input_tokens": finished.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": finished.tokens,
        "output_tokens_details": {"reasoning_tokens": finished.thought_tokens},
        "total_tokens": finished.prompt_tokens + finished.tokens,
    }


class InputItem(BaseModel):
    """A message of the input, or what a client sends back of an earlier response."""

    model_config = ConfigDict(extra="allow")

    type: str = "message"
    role: Role | None = None
    content: str | list[ContentPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[ContentPart] | None = None

    def message(self, field: str) -> Message:
        """Return the message. `field`: its name, for errors. Raises ApiError (400) for other items."""
        if self.type == "function_call":
            function = CalledFunction(name=self.name, arguments=self.arguments)
            return Message(role="assistant", tool_calls=[AssistantCall(id=self.call_id, function=function)])
        if self.type == "function_call_output":
            return Message(role="tool", tool_call_id=self.call_id, content=self.output)
        if self.type != "message":
            raise bad_request(
                f"{field}.type is {self.type!r}: give message, function_call or function_call_output", f"{field}.type"
            )
        if self.role is None:
            raise bad_request(f"{field}.role is missing: give user, assistant, system or developer", f"{field}.role")
        return Message(role=self.role, content=self.content)


class TextOptions(BaseModel):
    """The options of the text of a response."""

    model_config = ConfigDict(extra="allow")

    format: Format | None = None


class ResponseTool(Function):
    """A tool of a response."""

    type: Literal["function"]


class NamedFunction(ToolName):
    """The choice of one tool."""

    type: Literal["function"]


class ResponseRequest(TextFields):
    """A question, or a conversation whose next message is asked for."""

    input: str | list[InputItem]
    instructions: str | None = None
    reasoning: dict[str, Any] | None = None
    text: TextOptions | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None

    def messages(self) -> list[Message]:
        """Return the conversation, without what the model has thought. Raise ApiError (400) for other items."""
        if isinstance(self.input, str):
            return [Message(role="user", content=self.input)]
        items = enumerate(self.input)
        return [item.message(f"input.{number}") for number, item in items if item.type != "reasoning"]


def responses_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/responses", response_class=JSONResponse, responses=STREAMED)
    async def responses(asked: ResponseRequest, request: Request) -> Response:
        """Answer a question, with facts of the index as citations. Responses are not stored."""
        asked.refuse()
        variant, chosen = asked.variant(service.options), asked.tool_choice
        effort = (asked.reasoning or {}).get("effort")
        order = await conversation_order(
            asked,
            asked.messages(),
            service,
            variant=variant,
            places=("input", "text.format"),
            instructions=asked.instructions or "",
            given=None if asked.text is None else asked.text.format,
            tools=[
                Tool(type="function", function=Function(**one.model_dump(exclude={"type"})))
                for one in asked.tools or ()
            ],
            choice=NamedTool(type="function", function=chosen) if isinstance(chosen, NamedFunction) else chosen,
            parallel=asked.parallel_tool_calls,
            effort=effort if isinstance(effort, str) else None,
        )
        given: dict[str, Any] = {
            "instructions": asked.instructions,
            "max_output_tokens": asked.most,
            "temperature": asked.temperature or 0.0,
            "top_p": asked.top_p or 1.0,
            "metadata": (asked.model_extra or {}).get("metadata") or {},
        }
        if order.calls is not None:
            given |= asked.model_dump(include={"tools", "tool_choice"}, exclude_none=True)
            given["parallel_tool_calls"] = order.calls.parallel
        if asked.text is not None:
            given["text"] = {"format": {"type": "text"}} | asked.text.model_dump(by_alias=True, exclude_none=True)
        documents = ResponseDocuments(asked.model, given, answer_alone=order.answer_alone)
        return await answered(service, request, [order], documents, streams=asked.stream, ends=b"")

    return router
