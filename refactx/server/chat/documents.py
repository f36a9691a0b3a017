"""Chat completions as OpenAI's API has them, whole and in chunks, with the facts of a text in them."""

import time
import uuid
from typing import Any

from refactx.server.citations import citation, citations_of, nested
from refactx.server.http.exchange import Document
from refactx.server.text.events import Delta, Finished


def usage(finished: Finished) -> Document:
    """Return the numbers of tokens of a text and its prompt."""
    return {
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.tokens,
        "total_tokens": finished.prompt_tokens + finished.tokens,
    }


class ChatDocuments:
    """The documents of one chat completion. `model`: as the client named it; `answer_alone`: the content is the answer.

    `with_usage`: whether chunks have a field `usage`.
    """

    def __init__(self, model: str, *, answer_alone: bool = False, with_usage: bool = False) -> None:
        self._answer_alone, self._with_usage = answer_alone, with_usage
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, finished: Finished) -> Document:
        """Return a text that has ended as one document."""
        message: Document = {"role": "assistant", "content": finished.text, "refusal": None}
        if self._answer_alone:
            reasoning = reasoning_of(finished)
            message |= {"content": finished.answer, "reasoning": reasoning, "reasoning_content": reasoning}
        message["annotations"] = [nested(one) for one in citations_of(finished, answer_alone=self._answer_alone)]
        message["refactx"] = finished.to_json()
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finished.reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": usage(finished)}

    def first(self) -> Document:
        """Return the first chunk, without text."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, delta: Delta) -> Document:
        """Return the chunk of a piece of text."""
        found: Document = {"content": delta.text}
        if delta.is_reasoning:
            found = {"reasoning": delta.text, "reasoning_content": delta.text}
        if delta.in_fact:
            found["refactx"] = {"in_fact": True}
        if delta.fact is not None:
            found["refactx"]["fact"] = delta.fact.to_json()
            cited = None if self._answer_alone else citation(delta.fact)
            if cited is not None:
                found["annotations"] = [nested(cited)]
        return self._chunk(found)

    def last(self, finished: Finished) -> list[Document]:
        """Return the chunks after the text."""
        delta: Document = {"refactx": finished.to_json()}
        if self._answer_alone:
            delta["annotations"] = [nested(one) for one in citations_of(finished, answer_alone=True)]
        chunks = [self._chunk(delta, finished.reason)]
        if self._with_usage:
            chunks.append({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(finished)})
        return chunks

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Document:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._with_usage else chunk


def reasoning_of(finished: Finished) -> str:
    """Return the text before the answer: all of it, if there is none."""
    return finished.text[: finished.answer_start].rstrip()
