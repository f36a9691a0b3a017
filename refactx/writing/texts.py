"""The texts that writers write: what is asked for, and what was written."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.channel import Channel
from refactx.decoding.machine import Machine
from refactx.engines.sampling import GREEDY_SAMPLING, Sampling
from refactx.errors import RefactxError
from refactx.fact import Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A text to write after the ids of a `prompt`: at most `max_new_tokens` ids. `channel`: as in
    `GroundedModel.generate`."""

    prompt: Sequence[int]
    max_new_tokens: int
    channel: Channel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """Options of writing texts.

    `prefix`: ids with which all prompts begin, whose keys and values are computed once; `keeps`: without a prefix,
    continue what was read of an earlier text that begins alike, and keep what is read for later ones, as far as there
    is room (for conversations that grow); `free`: without facts;
    `sampling`: how ids are picked; `num_beams`: beams over the whole text.

    `is_end`: takes the ids of a text after its prompt, int64[n], and returns whether it has ended; `answer_line`: for
    texts without facts, as `refactx.choosing.free.Line`, but with the ids after the prompt, and for the likeliest next id.
    `until`: called with the ids so far, int64[rows, length], after each id, ends all texts once it returns True;
    `cancelled`: asked before each pass of the model, ends them once it returns True; `streamer`: gets the ids as that of
    Transformers' `generate` does.

    The others are for texts with facts, as in `GroundedModel.generate`.
    """

    is_end: Callable[[NDArray[np.int64]], bool]
    answer_line: Callable[[Sequence[int], int], Sequence[int]]
    prefix: Sequence[int] = ()
    keeps: bool = False
    free: bool = False
    sampling: Sampling = GREEDY_SAMPLING
    num_beams: int = 1
    until: Callable[[Any], bool] | None = None
    cancelled: Callable[[], bool] | None = None
    streamer: Any = None
    fact_beams: FactBeams | None = None
    max_facts: int | None = None
    after_facts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """A text: its `ids` after the prompt, its `facts`, whether it is whole or an error ended it, whether it was
    interrupted (`until`, `cancelled`), the forward `passes` that read ids for it, the `seconds` that it took, and how
    many ids were `forced`: by the index or a rule, without a choice of the model's."""

    ids: list[int]
    facts: tuple[Fact, ...]
    is_whole: bool
    is_interrupted: bool
    passes: int
    seconds: float
    forced: int = 0


class WritingError(Exception):
    """The error that ended texts before their ends, with the `texts` so far."""

    def __init__(self, error: RefactxError, texts: Sequence[WrittenText]) -> None:
        super().__init__(str(error))
        self.error, self.texts = error, list(texts)


class Writer(Protocol):
    """A writer of texts with one model, over one index or none."""

    @property
    def machine(self) -> Machine | None:
        """The grammar of the facts of the index; None without an index."""
        ...

    def write(self, orders: Sequence[Ordered], options: WritingOptions, at_once: int = 1) -> Iterator[WrittenText]:
        """Write texts, `at_once` at a time. Yield them in order.

        After `options.until` has returned True, no other text is begun, and the iteration ends with the last one that
        was. Raises WritingError if an error of the index ends a text; it has all texts that were begun and not yielded.
        """
        ...
