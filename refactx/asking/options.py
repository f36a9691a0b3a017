"""The options of generation that `refactx ask` and `refactx eval` share."""

import math
from dataclasses import dataclass, replace

from refactx.engines.sampling import Sampling
from refactx.errors import InputError

MAX_NEW_TOKENS = 1000
"""As in the paper."""

MAX_FACTS = 25
"""A fact of the sample has 32 ids on average: so many leave room for the answer in `MAX_NEW_TOKENS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Options of generation: by default greedy text of at most `max_new_tokens` ids.

    `channel`: choose each fact by the question (`refactx.choosing.channel`), if the prompt has examples for that and
    there are no beams; `tells`: how much likelier, in nats, a fact or query has to make the question than none does, for
    the answer not to be "I don't know." (None: as the prompt says). `num_beams`: beams over the whole text.
    `fact_beams`: search for each fact with this many beams, in greedy or sampled text; `fact_length_penalty`: see
    `refactx.FactBeams`. `max_facts`: after this many facts the answer has to follow, and the text ends if it begins
    another fact (None: no limit). `temperature`: above 0, sample from the `top_k` likeliest ids, and from the likeliest
    ids with a total probability of `top_p` (None: from all); `seed`: for sampling (None: another text each time).

    Raises InputError for values out of range, and for options that exclude each other.

    >>> Generation(temperature=0.7).samples, Generation().samples
    (True, False)
    """

    channel: bool = True
    tells: float | None = None
    num_beams: int = 1
    fact_beams: int | None = None
    fact_length_penalty: float = 0.0
    max_new_tokens: int = MAX_NEW_TOKENS
    max_facts: int | None = MAX_FACTS
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.num_beams < 1 or self.max_new_tokens < 1:
            raise InputError(
                f"num_beams is {self.num_beams} and max_new_tokens {self.max_new_tokens}: give at least 1 for both"
            )
        if self.tells is not None and math.isnan(self.tells):
            raise InputError("the threshold `tells` is not a number: give one, such as 4")
        if self.tells is not None and not self.uses_channel:
            raise InputError(
                "a threshold `tells` was given with beams or without the channel: leave these options out, or tells"
            )
        if self.fact_beams is not None and self.fact_beams < 1:
            raise InputError(f"{self.fact_beams} fact beams: give at least 1")
        if self.fact_beams is not None and self.num_beams > 1:
            raise InputError(
                "fact beams and num_beams were both given: fact beams need greedy or sampled text, so leave out num_beams"
            )
        if self.fact_length_penalty < 0:
            raise InputError(f"length penalty {self.fact_length_penalty}: give 0 (the sum) or more (1: the mean)")
        if self.max_facts is not None and self.max_facts < 1:
            raise InputError(f"at most {self.max_facts} facts: give at least 1")
        if self.temperature < 0:
            raise InputError(f"temperature {self.temperature}: give 0 (greedy) or more")
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k {self.top_k}: give at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p {self.top_p}: give more than 0 and at most 1")
        given = [name for name in ("top_k", "top_p", "seed") if getattr(self, name) is not None]
        if given and not self.samples:
            raise InputError(f"{' and '.join(given)} given without sampling: give a temperature above 0 too")

    @property
    def samples(self) -> bool:
        """Whether ids are drawn at random."""
        return self.temperature > 0

    @property
    def uses_channel(self) -> bool:
        """Whether facts are chosen by the question: so without beams, which choose them otherwise."""
        return self.channel and self.num_beams == 1 and self.fact_beams is None

    @property
    def free(self) -> "Generation":
        """These options with the usual values of those for facts, which free text has none of."""
        most = None if self.max_facts is None else MAX_FACTS
        return replace(self, channel=False, tells=None, fact_beams=None, fact_length_penalty=0.0, max_facts=most)

    @property
    def sampling(self) -> Sampling:
        """How ids are picked."""
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p, seed=self.seed)


GREEDY = Generation()
