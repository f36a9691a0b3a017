"""Common parts of the tests of the channel: graphs, questions, and the tiny model with a channel."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from refactx.ask.grounded import ground
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource, InFact
from refactx.engines.engine import Engine, Feed, IdPath, ScoreReading, Steps
from refactx.engines.scheduler import Job, Scheduler, run_jobs
from refactx.engines.transformers.rows import engine_of
from refactx.ranking import Ranker
from refactx.selection.candidates import CandidateSearch, SubjectCandidate
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.chooser import ChannelChooser
from refactx.selection.scores import ScoredContinuations
from refactx.selection.weights import Weights
from support.tiny_model import MemoryIndex, eager, prompts, tiny_model, tiny_tokenizer

T = TypeVar("T")

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
"""For `another_fact_gain`: always another fact, as long as one is left."""
EVERY = {
    "names": 99,
    "subjects_of_name": 99,
    "drop_names_below": math.inf,
    "compared_subjects": 99,
    "keep_within": math.inf,
    "nearest_properties": 9999,
    "likely_properties": 9999,
    "drop_properties_below": math.inf,
    "drop_below": math.inf,
    "tie_gap": 0.0,
    "subject_gap": math.inf,
}
"""Enough candidates that none is left out, each compared once."""


def result_of(
    steps: Steps[T],
    engine: Engine,
    index: FactSource,
    text: Sequence[int],
    examples: Sequence[int] = (),
) -> T:
    """The result of steps after a text, which the engine reads first, and with examples."""
    found: list[T] = []

    def store() -> Steps[None]:
        found.append((yield from steps))

    shared = [engine.prefill(examples)] if examples else []
    job = Job(steps=store(), begin=lambda: engine.prefill(text), examples=shared)
    run_jobs(Scheduler(engine), [job])
    for sequence in shared:
        engine.drop(sequence)
    return found[0]


def after_text(
    model: Any,
    index: FactSource,
    ids: Sequence[int],
    use: Callable[[ScoreReading], Steps[T]],
    ahead: tuple[int, ...] = (),
) -> T:
    """The result of steps that take a text as a model has read it, and then `ahead`."""
    engine = engine_of(model)

    def steps() -> Steps[T]:
        logits = yield Feed([ids[-1], *ahead], 1 + len(ahead))
        reading = ScoreReading(logits=logits, written=np.array(ids), room=99, trees=engine.trees, ahead=ahead)
        return (yield from use(reading))

    return result_of(steps(), engine, index, ids[:-1])


def channel(
    index: MemoryIndex,
    question: str = QUESTIONS[0],
    marker: str = "Answer:",
    unknown: str = "",
    room: int | None = None,
    queries: QuerySources | None = None,
    ranker: Ranker | None = None,
    **weights: Any,
) -> Channel:
    encode = index.tokenizer.encode
    lead = encode(" Question:")
    return Channel(
        examples=[tuple(encode(EXAMPLES))],
        question=[*lead, *encode(f" {question}")],
        lead=len(lead),
        text=question,
        marker=marker,
        unknown=unknown,
        weights=Weights(**weights),
        room=room,
        queries=queries,
        ranker=ranker,
    )


def chooser(machine: Machine, **options: Any) -> ChannelChooser:
    """The chooser of a text with a channel. `options`: as for `channel`."""
    return ChannelChooser(machine, channel(machine.source, **options))  # type: ignore[arg-type]


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
    """The ids, the prompt's length and the facts of a text with a channel. `facts`: arguments of `generate`."""
    grounded, inputs = ground(llama(seed), tiny_tokenizer(), index), prompts(text)
    chosen = channel(index, **options)
    out = grounded.generate(
        **inputs, channel=chosen, logits_processor=eager(), max_new_tokens=budget, do_sample=False, **(facts or {})
    )
    return out[0].tolist(), inputs["input_ids"].shape[1], grounded.facts(out)[0]


def parts(text: str) -> list[str]:
    return text.removesuffix(" .").strip().removeprefix("<").removesuffix(">").split("> <")


def until_closed(index: MemoryIndex, ids: Sequence[int], brackets: int) -> tuple[int, ...]:
    """The ids up to the given closing bracket."""
    count = next(n for n in range(len(ids) + 1) if index.tokenizer.decode_bytes(ids[:n]).count(b">") >= brackets)
    return tuple(ids[:count])


EVERY_NAME = Weights(names=99, subjects_of_name=99, drop_names_below=math.inf)


def found(
    index: MemoryIndex, text: str, seed: int, weights: Weights, named: Sequence[IdPath] = ()
) -> tuple[list[SubjectCandidate], list[int], InFact]:
    """The subjects after a text, its ids, and the state after it."""
    ids, machine = index.tokenizer.encode(text), Machine(index)
    state = machine.run(ids, 0)
    assert isinstance(state, InFact)

    def search(reading: ScoreReading) -> Steps[list[SubjectCandidate]]:
        return CandidateSearch(
            machine=machine,
            position=len(ids),
            continuations=ScoredContinuations.of(reading),
            weights=weights,
            named=named,
        ).subjects(state)

    return after_text(llama(seed), index, ids, search), ids, state


def shown(index: MemoryIndex, state: InFact, some: Sequence[SubjectCandidate]) -> list[str]:
    return [index.tokenizer.decode([*state.prefix, *one.ids]).strip() for one in some]


def joining_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """`byte level`: it does not split at white space, so that texts such as `> <` are one id; `sentence piece`: also
    so, with a space before every text that is encoded, even a line break.
    """
    space = "Ġ" if kind == "byte level" else "▁"
    pairs = [
        ("F", "a"),
        ("c", "t"),
        ("Fa", "ct"),
        ("Fact", ":"),
        (space, "Fact:"),
        (space, "."),
        (">", space),
        (f">{space}", "<"),
    ]
    if kind == "byte level":
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    else:
        letters = [*(f"<0x{byte:02X}>" for byte in range(256)), "▁", *map(chr, range(33, 127))]
    vocabulary = {text: n for n, text in enumerate([*letters, *("".join(pair) for pair in pairs)])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, byte_fallback=kind != "byte level"))
    if kind == "byte level":
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
        backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens([AddedToken(text, special=True) for text in ("<s>", "</s>")])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>")
