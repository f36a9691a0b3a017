"""What requests for texts have in common: the model's name, options of generation, and the fields that are refused."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from refactx.asking.options import MAX_FACTS, Generation
from refactx.errors import InputError
from refactx.server.http.errors import ApiError, bad_request

VARIANTS = ("", "answer", "free")
MOST_STOPS = 4


class RefactxOptions(BaseModel):
    """Options of ReFactX, in the field `refactx` of a request (`extra_body` of OpenAI's clients)."""

    model_config = ConfigDict(extra="forbid")

    channel: bool = True
    tells: float | None = Field(default=None, allow_inf_nan=False)
    fact_beams: int | None = Field(default=None, ge=1, le=16)
    fact_length_penalty: float = Field(default=0.0, ge=0, le=10)
    max_facts: int | None = Field(default=MAX_FACTS, ge=1, le=1000)
    top_k: int | None = Field(default=None, ge=1, le=1_000_000)


class TextRequest(BaseModel):
    """The fields that all requests for texts have. Others are ignored, or refused if they would change the reply."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(max_length=500)
    stream: bool | None = False
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
                    f'this server does not call tools yet: leave out {tools}, or send `"{choice}": "none"`',
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

    def variant(self, name: str) -> str:
        """Return the variant of the model that is asked for: "", `answer` or `free`. Raise ApiError (404) for others."""
        for variant in VARIANTS:
            if self.model == model_name(name, variant):
                return variant
        known = ", ".join(model_name(name, variant) for variant in VARIANTS)
        raise ApiError(
            404,
            f"the model {self.model!r} does not exist: ask for one of {known}",
            code="model_not_found",
            param="model",
        )

    def generation(self, max_tokens: int, most: int, *, free: bool) -> Generation:
        """Return the options of generation, with `max_tokens` or `most` tokens, whichever is less.

        Without a temperature, the likeliest text is written. Raises ApiError (400) for options that exclude each other.
        """
        given, temperature = self.refactx or RefactxOptions(), self.temperature or 0.0
        sampling: Mapping[str, Any] = {}
        if temperature:
            seed = None if self.seed is None else self.seed % (1 << 63)
            sampling = {"temperature": temperature, "top_p": self.top_p, "top_k": given.top_k, "seed": seed}
        try:
            found = Generation(
                channel=given.channel,
                tells=given.tells,
                fact_beams=given.fact_beams,
                fact_length_penalty=given.fact_length_penalty,
                max_facts=given.max_facts,
                max_new_tokens=min(max_tokens, most),
                **sampling,
            )
        except InputError as error:
            raise bad_request(str(error), "refactx") from None
        if not free:
            return found
        if replace(found, channel=True) != replace(found.free, channel=True):
            raise bad_request("the model without facts has no options for facts: leave them out", "refactx")
        return found.free


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
    # What a text is about.
    "prompt": _NOTHING,
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


def model_name(name: str, variant: str) -> str:
    """Return the name of a variant of a model.

    >>> model_name("demo", ""), model_name("demo", "free")
    ('demo', 'demo:free')
    """
    return f"{name}:{variant}" if variant else name


def stop_texts(stop: str | list[str] | None) -> list[str]:
    """Return the stop texts of a request. Raise ApiError (400) for too many."""
    found = [stop] if isinstance(stop, str) else list(stop or ())
    if len(found) > MOST_STOPS:
        raise bad_request(f"stop has {len(found)} texts: give at most {MOST_STOPS}", "stop")
    return [text for text in found if text]
