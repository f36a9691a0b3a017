"""Chat completions and completions of OpenAI's API: requests, documents with citations, and routes."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from refactx.ask.checked import ONLY_CHATS, CheckedAsker, unsupported_option
from refactx.ask.prompt import GREEDY, THINK_WORDS, THOUGHT, Generation
from refactx.decoding.stream import FormPiece, TextPiece
from refactx.errors import InputError
from refactx.options import options_of
from refactx.server.conversation import Message, conversation, with_results
from refactx.server.forms import Format, names_in
from refactx.server.http import bad_request, no_model
from refactx.server.service import GenerationOrder, TextService
from refactx.server.streaming import DONE, STREAMED, Document, Documents, JsonRoute, answered
from refactx.server.texts import (
    Finished,
    ServingOptions,
    about_facts,
    citations_of,
    nested,
    reasoning_of,
)
from refactx.server.tools import Choice, NamedTool, Tool, ToolOrder

MOST_STOPS = 4
MOST_COPIES = 16
MOST_LOGPROBS = 20
MOST_THOUGHT = 100_000


EFFORTS = {"none": 0, "minimal": 0, "low": 250, "medium": THOUGHT, "high": 4 * THOUGHT, "xhigh": 16 * THOUGHT}
"""The most tokens of a thought by the efforts of OpenAI's API."""
_NOTHING: tuple[Any, ...] = (None, False, [], {}, "")
REFUSED: dict[str, tuple[Any, ...]] = {
    # What else a reply would have.
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": _NOTHING,
    "suffix": _NOTHING,
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "modalities": (None, ["text"]),
    "audio": _NOTHING,
    "moderation": _NOTHING,
    "background": _NOTHING,
    # How tokens are chosen, and when a text ends.
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "repeat_penalty": (None, 1),
    "length_penalty": (None, 1),
    "use_beam_search": _NOTHING,
    "bad_words": _NOTHING,
    "allowed_token_ids": _NOTHING,
    "logit_bias": _NOTHING,
    "top_k": (None, -1, 0),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "ignore_eos": _NOTHING,
    "stop": _NOTHING,
    "stop_token_ids": _NOTHING,
    # The form of a text.
    "response_format": (None, {"type": "text"}),
    "text.format": (None, {}, {"type": "text"}),
    "guided_json": _NOTHING,
    "guided_regex": _NOTHING,
    "guided_choice": _NOTHING,
    "guided_grammar": _NOTHING,
    "structured_outputs": _NOTHING,
    "grammar": _NOTHING,
    "json_schema": _NOTHING,
    # What a text is about.
    "prompt": _NOTHING,
    "chat_template": _NOTHING,
    "chat_template_kwargs": _NOTHING,
    "continue_final_message": _NOTHING,
    "documents": _NOTHING,
    "previous_response_id": _NOTHING,
    "conversation": _NOTHING,
    "context_management": _NOTHING,
    "truncation": (None, "auto", "disabled"),
    "web_search_options": (None,),
}
"""Fields of OpenAI's API, and of servers like it, that would change a reply, each with the values that do not.

They are refused where the class of a request has no such field. Others cannot change a text, and are ignored: `user`,
`metadata`, `store`, `service_tier`, `include`, `reasoning`, `verbosity`, ...
"""
MAX_TOKENS = 16
"""As in OpenAI's API."""


def request_field(name: str, most: int) -> Any:
    """Return the field of a request for an option of `Generation`, of which a client may ask for at most so much."""
    return Field(default=getattr(GREEDY, name), ge=options_of(Generation)[name].least, le=most)


class RefactxOptions(BaseModel):
    """Options of ReFactX, in the field `refactx` of a request (`extra_body` of OpenAI's clients)."""

    model_config = ConfigDict(extra="forbid")

    channel: bool = True
    min_confidence: float | None = Field(
        default=None, allow_inf_nan=False, validation_alias=AliasChoices("min_confidence", "tells")
    )
    language: str | None = Field(default=None, max_length=50)
    answer_language: str | None = Field(default=None, max_length=50)
    fact_beams: int | None = request_field("fact_beams", 16)
    fact_length_penalty: float = request_field("fact_length_penalty", 10)
    max_facts: int | None = request_field("max_facts", 1000)
    think: Literal["off", "on"] | Annotated[int, Field(ge=0, le=MOST_THOUGHT)] | None = None
    top_k: int | None = request_field("top_k", 1_000_000)


class TextFields(BaseModel):
    """The fields that all requests for texts have. Others are ignored, or refused if they would change the reply."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(max_length=500)
    stream: bool | None = False
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=-(1 << 63), lt=1 << 63)
    refactx: RefactxOptions | None = None

    def refuse(self) -> None:
        """Raise ApiError (400) for a field of `REFUSED`, or for tools, with a value that would change the reply."""
        given = self.model_extra or {}
        for tools, choice in (("tools", "tool_choice"), ("functions", "function_call")):
            chosen = given.get(choice)
            if chosen != "none" and (given.get(tools) or chosen not in (None, "auto")):
                raise bad_request(
                    f'this server does not call tools here: leave out {tools}, or send `"{choice}": "none"`',
                    tools if given.get(tools) else choice,
                    "unsupported_parameter",
                )
        for name, usual in REFUSED.items():
            value: Any = given
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else value
            if value not in usual:
                raise bad_request(
                    f"{name} is not supported by this server: leave it out", name, "unsupported_parameter"
                )

    def variant(self, options: ServingOptions) -> str:
        """Return the variant of the model that is asked for: "", `answer` or `free`. Raise ApiError (404) for others."""
        known = options.variants
        if self.model not in known:
            raise no_model(self.model, known)
        return known[self.model]

    @property
    def most(self) -> int | None:
        """The most tokens of the text, by whichever of the names of that field was used."""
        return self.max_output_tokens or self.max_completion_tokens or self.max_tokens

    def generation(
        self, max_tokens: int | None, service: TextService, *, free: bool, effort: str | None = None
    ) -> Generation:
        """Return the options of generation, with at most `max_tokens` tokens, and not more than the server allows.

        A thought takes at most half of `max_tokens`. Without a temperature, the likeliest text is written. `effort`: of
        reasoning, which is for models that think, and nothing for others, since clients send it to any; None: there is no
        thought. Raises ApiError (400) for options that exclude each other.
        """
        most, given, temperature = service.options.max_tokens, self.refactx or RefactxOptions(), self.temperature or 0.0
        think = 0
        if effort is not None:
            think = EFFORTS.get(effort, service.options.think) if service.asker.can_think else 0
            if given.think is not None:
                think = given.think if isinstance(given.think, int) else THINK_WORDS[given.think]
        if max_tokens is not None:
            think = min(think, max_tokens // 2)
            most = min(most, max_tokens - think)
        sampling: Mapping[str, Any] = {}
        if temperature:
            seed = None if self.seed is None else self.seed % (1 << 63)
            sampling = {"temperature": temperature, "top_p": self.top_p, "top_k": given.top_k, "seed": seed}
        try:
            own = given.model_dump(exclude={"think", "top_k"})  # the other options have the names that `Generation` has
            found = Generation(**own, max_new_tokens=most, think=think, **sampling)
        except InputError as error:
            raise bad_request(str(error), "refactx") from None
        if free and replace(found, channel=True) != replace(found.free, channel=True):
            raise bad_request("the model without facts has no options for facts: leave them out", "refactx")
        found = found.free if free else found
        if isinstance(service.asker, CheckedAsker) and (name := unsupported_option(found, free=free)):
            field = name if name in type(self).model_fields else f"refactx.{name}"
            raise bad_request(ONLY_CHATS.format(field), field, "unsupported_parameter")
        return found


def stop_texts(stop: str | list[str] | None) -> list[str]:
    """Return the stop texts of a request. Raise ApiError (400) for too many."""
    found = [stop] if isinstance(stop, str) else list(stop or ())
    if len(found) > MOST_STOPS:
        raise bad_request(f"stop has {len(found)} texts: give at most {MOST_STOPS}", "stop")
    return [text for text in found if text]


def usage(texts: Sequence[Finished]) -> Document:
    """Return the numbers of tokens of texts after one prompt, which counts once."""
    prompt, written = texts[0].prompt_tokens, sum(text.tokens for text in texts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "completion_tokens_details": {"reasoning_tokens": sum(text.thought_tokens for text in texts)},
        "total_tokens": prompt + written,
    }


class ChatDocuments(Documents):
    """The documents of one chat completion. `model`: as the client named it; `answer_alone`: the content is the answer.

    `with_usage`: whether chunks have a field `usage`.
    """

    def __init__(self, model: str, *, answer_alone: bool = False, with_usage: bool = False) -> None:
        self._answer_alone, self._with_usage = answer_alone, with_usage
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, texts: Sequence[Finished]) -> Document:
        choices = [self._choice(text, index) for index, text in enumerate(texts)]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage(texts)}

    def _choice(self, finished: Finished, index: int) -> Document:
        message: Document = {"role": "assistant", "content": finished.text, "refusal": None}
        if self._answer_alone:
            message["content"] = finished.content
        if self._answer_alone or finished.thought:
            reasoning = reasoning_of(finished, answer_alone=self._answer_alone)
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        message["annotations"] = [nested(one) for one in citations_of(finished, answer_alone=self._answer_alone)]
        message["refactx"] = finished.to_json()
        if finished.calls:
            message |= {
                "content": message["content"] or None,
                "tool_calls": [call.to_json() for call in finished.calls],
            }
        return {"index": index, "message": message, "logprobs": _logprobs(finished), "finish_reason": finished.reason}

    def first(self, index: int) -> list[Document]:
        return [self._chunk({"role": "assistant", "content": ""}, index)]

    def piece(self, piece: TextPiece | FormPiece, index: int) -> list[Document]:
        found: Document = {"content": piece.text}
        if isinstance(piece, TextPiece) and piece.is_reasoning:
            found = {"reasoning": piece.text, "reasoning_content": piece.text}
        return [self._chunk(found | about_facts(piece), index)]

    def last(self, finished: Finished, index: int) -> list[Document]:
        cited = [nested(one) for one in citations_of(finished, answer_alone=self._answer_alone)]
        delta: Document = {"refactx": finished.to_json(), "annotations": cited}
        calls = [
            self._chunk({"tool_calls": [{"index": number, **call.to_json()}]}, index)
            for number, call in enumerate(finished.calls)
        ]
        return [*calls, self._chunk(delta, index, finished.reason, _logprobs(finished))]

    def end(self, texts: Sequence[Finished]) -> list[Document]:
        if not self._with_usage:
            return []
        return [{**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(texts)}]

    def _chunk(
        self, delta: dict[str, Any], index: int, reason: str | None = None, logprobs: Document | None = None
    ) -> Document:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [choice]}
        return {**chunk, "usage": None} if self._with_usage else chunk


def _logprobs(finished: Finished) -> Document | None:
    return None if finished.scores is None else {"content": [one.to_json() for one in finished.scores], "refusal": None}


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool | None = False


class CompletedRequest(TextFields):
    """The fields that requests for completions have, of chats and of prompts."""

    n: int | None = Field(default=None, ge=1, le=MOST_COPIES)
    stop: str | list[str] | None = None
    stream_options: StreamOptions | None = None

    @property
    def with_usage(self) -> bool:
        """Whether the last chunk of a stream has the numbers of tokens."""
        return bool(self.stream and self.stream_options and self.stream_options.include_usage)

    def scored(self, order: GenerationOrder, most: int | None, service: TextService) -> GenerationOrder:
        """Return an order with the scores of its tokens, of which `most` likeliest ones are told; None: as it is.

        Raises ApiError (400) for a text that is not all of the reply, or is written without an engine.
        """
        if most is None:
            return order
        is_part = order.answer_alone or order.form is not None or order.calls is not None or order.generation.think > 0
        if service.scoring("logprobs").model.engine is None or is_part:
            raise bad_request("logprobs are of whole texts by the model's engine: leave them out here", "logprobs")
        return replace(order, scores=most)

    def copies(self, order: GenerationOrder) -> list[GenerationOrder]:
        """Return the orders of `n` texts. Raise ApiError (400) for several that would be the same.

        A seed counts up from text to text.
        """
        generation, count = order.generation, self.n or 1
        if count > 1 and not generation.samples:
            raise bad_request(f"n is {count}, but without a temperature all texts are the same: give one above 0", "n")
        if generation.seed is None:
            return [order] * count
        seeds = [(generation.seed + number) % (1 << 63) for number in range(count)]
        return [replace(order, generation=replace(generation, seed=seed)) for seed in seeds]


class ChatRequest(CompletedRequest):
    """A conversation whose next message is asked for."""

    messages: list[Message] = Field(min_length=1)
    reasoning_effort: str | None = Field(default=None, max_length=500)
    response_format: Format | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=MOST_LOGPROBS)


async def conversation_order(
    asked: TextFields,
    messages: Sequence[Message],
    service: TextService,
    *,
    variant: str,
    places: tuple[str, str],
    instructions: str = "",
    given: Format | None,
    tools: Sequence[Tool] | None,
    choice: Choice | None,
    parallel: bool | None,
    effort: str | None,
    stop: str | list[str] | None = None,
) -> GenerationOrder:
    """Return the order of the next message of a conversation. `places`: the names of the fields with `messages` and with the
    form that is `given`.

    Raises ApiError (400) for what cannot be answered, a form that a text cannot be held to, and tools that cannot be called.
    """
    plain, whole = with_results(messages, places[0])
    said = conversation(plain, places[0], instructions)
    if instructions:
        whole.insert(0, {"role": "system", "content": instructions})
    form, calls = None if given is None else given.form(places[1]), cast("ToolOrder | None", None)
    if form is not None:
        await service.look_up(service.scoring(places[1]).forms.check, form, names_in())
        if stop:
            raise bad_request("stop is not for answers in a form, which end by themselves: leave it out", "stop")
    if not tools and (choice == "required" or isinstance(choice, NamedTool)):
        raise bad_request("tool_choice asks for a call, but there are no tools: give some", "tools")
    if tools and choice != "none":
        ordered = partial(service.scoring("tools").tools.order, parallel=parallel is not False)
        calls = await service.look_up(ordered, tools, choice or "auto", whole, said)
    return GenerationOrder(
        question=said.question,
        history=said.history,
        system=said.system,
        generation=asked.generation(asked.most, service, free=variant == "free", effort=effort or ""),
        free=variant == "free",
        stop=stop_texts(stop),
        answer_alone=form is not None or (variant == "answer" and not (calls is not None and calls.may_reply)),
        form=form,
        calls=calls,
    )


def chat_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/chat/completions", response_class=JSONResponse, responses=STREAMED)
    async def chat_completions(asked: ChatRequest, request: Request) -> Response:
        """Answer the last message of a conversation, with facts of the index as citations."""
        asked.refuse()
        order = await conversation_order(
            asked,
            asked.messages,
            service,
            variant=asked.variant(service.options),
            places=("messages", "response_format"),
            given=asked.response_format,
            tools=asked.tools,
            choice=asked.tool_choice,
            parallel=asked.parallel_tool_calls,
            effort=asked.reasoning_effort,
            stop=asked.stop,
        )
        if asked.top_logprobs and not asked.logprobs:
            raise bad_request("top_logprobs needs logprobs: give both", "top_logprobs")
        order = asked.scored(order, asked.top_logprobs or 0 if asked.logprobs else None, service)
        documents = ChatDocuments(asked.model, answer_alone=order.answer_alone, with_usage=asked.with_usage)
        return await answered(service, request, asked.copies(order), documents, streams=asked.stream, ends=DONE)

    return router


class CompletionRequest(CompletedRequest):
    """A prompt whose continuation is asked for: a text, or ids of the model's tokens."""

    prompt: str | list[int] | list[str] | list[list[int]]
    logprobs: Annotated[
        Annotated[int, Field(ge=0, le=MOST_LOGPROBS)] | None,
        BeforeValidator(lambda given: None if given is False else given),
    ] = None

    def text(self) -> str | list[int]:
        """Return the prompt. Raise ApiError (400) if there are several."""
        prompt = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise bad_request(f"prompt has {len(prompt)} prompts: send a request for each", "prompt")
            only = prompt[0]
            return only if isinstance(only, str) else list(only)
        return prompt if isinstance(prompt, str) else [number for number in prompt if isinstance(number, int)]


def completions_router(service: TextService) -> APIRouter:
    router = APIRouter(route_class=JsonRoute)

    @router.post("/v1/completions", response_class=JSONResponse, responses=STREAMED)
    async def completions(asked: CompletionRequest, request: Request) -> Response:
        """Continue a prompt. After the trigger of the index, only its facts can follow."""
        asked.refuse()
        variant = asked.variant(service.options)
        service.scoring("prompt")
        if variant == "answer":
            raise bad_request("the continuation of a prompt is no answer: ask the model without `:answer`", "model")
        free = variant == "free"
        order = GenerationOrder(
            prompt=asked.text(),
            generation=asked.generation(asked.most or MAX_TOKENS, service, free=free),
            free=free,
            stop=stop_texts(asked.stop),
        )
        order = asked.scored(order, asked.logprobs, service)
        documents = CompletionDocuments(asked.model, with_usage=asked.with_usage)
        return await answered(service, request, asked.copies(order), documents, streams=asked.stream, ends=DONE)

    return router


class CompletionDocuments(Documents):
    """The documents of one continuation. `with_usage`: whether chunks have a field `usage`."""

    def __init__(self, model: str, *, with_usage: bool = False) -> None:
        self._with_usage = with_usage
        id_, created = f"cmpl-{uuid.uuid4().hex}", int(time.time())
        self._head = {"id": id_, "object": "text_completion", "created": created, "model": model}

    def whole(self, texts: Sequence[Finished]) -> Document:
        choices = [
            self._choice(text.text, index, text.reason, logprobs=_listed(text), refactx=text.to_json())
            for index, text in enumerate(texts)
        ]
        return {**self._head, "choices": choices, "usage": usage(texts)}

    def piece(self, piece: TextPiece | FormPiece, index: int) -> list[Document]:
        return [self._chunk(self._choice(piece.text, index, None, **about_facts(piece)))]

    def last(self, finished: Finished, index: int) -> list[Document]:
        extra = {"logprobs": _listed(finished), "refactx": finished.to_json()}
        return [self._chunk(self._choice("", index, finished.reason, **extra))]

    def end(self, texts: Sequence[Finished]) -> list[Document]:
        return [{**self._head, "choices": [], "usage": usage(texts)}] if self._with_usage else []

    def _choice(self, text: str, index: int, reason: str | None, **more: Document | None) -> Document:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason, **more}

    def _chunk(self, choice: Document) -> Document:
        chunk = {**self._head, "choices": [choice]}
        return {**chunk, "usage": None} if self._with_usage else chunk


def _listed(finished: Finished) -> Document | None:
    """Return the scores of a continuation as OpenAI lists them; `refactx.forced`: whether the model did not pick it."""
    if finished.scores is None:
        return None
    return {
        "tokens": [one.token.decode("utf-8", "replace") for one in finished.scores],
        "token_logprobs": [one.logprob for one in finished.scores],
        "top_logprobs": [  # of tokens with the same text, the likeliest stays
            {token.decode("utf-8", "replace"): value for token, value in reversed(one.top)} for one in finished.scores
        ],
        "text_offset": [one.offset for one in finished.scores],
        "refactx": {"forced": [not one.is_picked for one in finished.scores]},
    }


def models_router(services: Sequence[TextService]) -> APIRouter:
    """Return the routes of the models of a server."""
    router, created = APIRouter(), int(time.time())

    def documents() -> dict[str, Document]:
        found: dict[str, Document] = {}
        for service in services:
            index = service.index_name
            for name, variant in service.options.variants.items():
                head = {"id": name, "object": "model", "created": created, "owned_by": "refactx"}
                found.setdefault(name, {**head, "refactx": {"index": index, "variant": variant or "facts"}})
        return found

    @router.get("/v1/models")
    async def models() -> Document:
        """List the models, each with its variants: with facts, the answer alone, and without facts."""
        found, listed = documents(), [replace(service.options, short="").variants for service in services]
        return {"object": "list", "data": [found[name] for names in listed for name in names]}

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> Document:
        """Describe a variant."""
        found = documents()
        if model not in found:
            raise no_model(model, found)
        return found[model]

    return router
