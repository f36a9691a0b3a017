"""Texts as jobs of a scheduler: greedy, with fact beams and with a channel, over the facts of the tiny tokenizer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from refactx.decoding.machine import Machine
from refactx.engines.engine import Engine, FactChooser, Logits
from refactx.engines.scheduler import Job, Scheduler
from refactx.engines.writer import Capabilities, Hooks, Row, TextWriter
from refactx.selection.beams import BeamChooser, FactBeams
from refactx.selection.channel import Channel
from refactx.selection.chooser import ChannelChooser
from refactx.selection.plain import PlainChooser
from refactx.selection.weights import Weights
from support.channel_runs import EXAMPLES
from support.tiny_model import FACTS, tiny_index

INDEX = tiny_index(FACTS)
MACHINE = Machine(INDEX)
LENGTH = 60
EAGER = 6.0
"""What is added to the logits of triggers, so that short texts have facts."""

encode = INDEX.tokenizer.encode


def picked(state: Any, logits: Logits) -> int:
    """The likeliest id that may follow. `logits`: float32[vocabulary]."""
    allowed, logits = MACHINE.allowed(state), logits.copy()
    logits[encode(" Fact:")] += EAGER
    return int(logits.argmax() if allowed is None else allowed[logits[allowed].argmax()])


class Greedy:
    """A `refactx.engines.writer.Picker` of what is `picked`."""

    greedy = True

    def pick(self, row: Row, logits: Logits) -> int:
        return picked(row.state, logits)

    def skip(self) -> None:
        pass


def new_channel(question: str = "who is Ann?", another_fact_gain: float = math.inf, **weights: Any) -> Channel:
    lead = encode(" Question:")
    return Channel(
        examples=[tuple(encode(EXAMPLES))],
        question=[*lead, *encode(f" {question}")],
        lead=len(lead),
        marker="Answer:",
        weights=Weights(another_fact_gain=another_fact_gain, **weights),
    )


CHOOSERS: dict[str, Callable[[Machine], FactChooser]] = {
    "plain": PlainChooser,
    "beams": lambda machine: BeamChooser(machine, FactBeams(3)),
    "channel": lambda machine: ChannelChooser(machine, new_channel()),
}


class Source:
    """The facts of the tiny tokenizer, looked up by a function."""

    tokenizer, trigger, terminator = INDEX.tokenizer, INDEX.trigger, INDEX.terminator

    def __init__(self, children: Any) -> None:
        self.children = children


@dataclass(frozen=True)
class Text:
    """A text to write, up to `end` ids. `mode`: one of `CHOOSERS`."""

    prompt: str
    mode: str = "plain"
    end: int = LENGTH

    @property
    def ids(self) -> list[int]:
        return encode(self.prompt)


class Writing:
    """The row and the job of a text. `sequence`: that of the job, also after its end.

    `choose`: makes its chooser; `on_token`: as `Hooks` takes it; `children`: looks up its facts; `examples`: a sequence
    that has read those of channels; `more`: other arguments of `Job`. The job reads all of the prompt but its first id in
    passes.
    """

    def __init__(
        self,
        engine: Engine,
        text: Text,
        *,
        choose: Callable[[], FactChooser] | None = None,
        on_token: Callable[[int], object] = lambda token: None,
        is_done: Callable[[Row], bool] = lambda row: False,
        children: Any = INDEX.children,
        examples: int | None = None,
        drafts: bool = True,
        **more: Any,
    ) -> None:
        self.text, ids = text, text.ids
        self.row = Row(ids, MACHINE.run(ids, len(ids)), capacity=max(LENGTH, text.end), unread=len(ids) - 1)
        self.sequence = -1
        machine = MACHINE.over(Source(children))
        chooser = choose() if choose else CHOOSERS[text.mode](machine)
        writer = TextWriter(
            self.row,
            constraint=machine,
            chooser=chooser if engine.trees >= chooser.needs else chooser.without_trees(),
            picker=Greedy(),
            hooks=Hooks(lambda row: row.length >= text.end or is_done(row), on_token),
            max_length=max(LENGTH, text.end),
            capabilities=Capabilities(trees=engine.trees, drafts=drafts and engine.can_forget),
        )

        def begin() -> int:
            self.sequence = engine.prefill(ids[:1])
            return self.sequence

        shared = [] if examples is None else [examples]
        self.job = Job(steps=writer.write(), begin=begin, examples=shared, **more)

    @property
    def ids(self) -> list[int]:
        found: list[int] = self.row.written.tolist()
        return found


def write_alone(engine: Engine, text: Text) -> Writing:
    """A text that is written by a scheduler of its own."""
    examples = engine.prefill(encode(EXAMPLES))
    writing = Writing(engine, text, examples=examples)
    Scheduler(engine).run([writing.job])
    engine.drop(examples)
    assert writing.job.error is None
    return writing


def decoded(ids: Sequence[int]) -> str:
    return INDEX.tokenizer.decode(ids)
