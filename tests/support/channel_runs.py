"""What the tests of the channel have in common: graphs, questions, and the tiny model with a channel."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from refactx.choosing.candidates import Limits
from refactx.choosing.channel import Channel, ChannelOptions
from refactx.engines.hf.prefix import prefill
from refactx.grounded.model import ground
from support.tiny_model import MemoryIndex, eager, prompts, tiny_model, tiny_tokenizer

GRAPH = (
    "<Ann> <p> <b>",
    "<Ann> <p> <c>",
    "<Ann> <p> <bb>",
    "<Ann> <q> <b>",
    "<Ann> <pin> <Bo>",
    "<Ann> <qq> <c>",
    "<Ann> <description> <x>",
    "<Bé> <p> <in>",
    "<Bé> <r> <Ann>",
    "<Bé> <r> <‹i›>",
    "<Bo> <p> <.>",
    "<Bo> <‹p›> <b>",
    "<Bo> <q> <Ann>",
    "<Bo> <description> <y>",
)
NAMESAKES = (
    "<Bo (n)> <p> <b>",
    "<Bo (n)> <p> <c>",
    "<Bo (n)> <q> <b>",
    "<Bo (b)> <p> <b>",
    "<Bo> <in> <b>",
    *(f"<Ann (n)> <p> <{letter}>" for letter in "bcd"),
)
EXAMPLES = "Fact: <x> <y> Question: z?\n"
QUESTIONS = ("who is Ann?", "in p", "b", "when was it that Bo was where Ann had been?")
ALWAYS = -math.inf
"""For `again`: another fact for as long as there is one."""
EVERY = {
    "candidates": Limits(99, 99, math.inf),
    "meant": 99,
    "within": math.inf,
    "properties": 9999,
    "unlikely": math.inf,
    "hopeless": math.inf,
    "tie": 0.0,
    "doubtful": math.inf,
}
"""So many candidates that none is left out, and each compared once."""


def channel(
    model: Any,
    index: MemoryIndex,
    question: str = QUESTIONS[0],
    marker: str = "Answer:",
    unknown: str = "",
    **options: Any,
) -> Channel:
    encode = index.tokenizer.encode
    lead = encode(" Question:")
    examples = prefill(model, [encode(EXAMPLES)])
    return Channel(
        model, examples, [*lead, *encode(f" {question}")], len(lead), marker, ChannelOptions(**options), unknown
    )


@cache
def llama(seed: int = 0) -> Any:
    return tiny_model(seed)


def write(
    index: MemoryIndex,
    text: str = "a Fact:",
    seed: int = 0,
    budget: int = 120,
    facts: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[list[int], int, list[Any]]:
    """Ids, the prompt's length and facts of a text with a channel. `facts`: arguments of `generate`."""
    grounded, inputs = ground(llama(seed), tiny_tokenizer(), index), prompts(text)
    chosen = channel(llama(seed), index, **options)
    out = grounded.generate(
        **inputs, channel=chosen, logits_processor=eager(), max_new_tokens=budget, do_sample=False, **(facts or {})
    )
    return out[0].tolist(), inputs["input_ids"].shape[1], grounded.facts(out)[0]


def parts(text: str) -> list[str]:
    return text.removesuffix(" .").strip().removeprefix("<").removesuffix(">").split("> <")


def until_closed(index: MemoryIndex, ids: Sequence[int], brackets: int) -> tuple[int, ...]:
    """The first ids up to that closing bracket."""
    count = next(n for n in range(len(ids) + 1) if index.tokenizer.decode_bytes(ids[:n]).count(b">") >= brackets)
    return tuple(ids[:count])
