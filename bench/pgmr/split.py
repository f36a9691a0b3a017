"""Training and test questions: at random, or so that each test question has a URI that no training question has."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from bench.pgmr.examples import Example
from refactx.eval.sparql import ids_of

Split = Literal["random", "unknown-uri"]


def split_examples(
    examples: Sequence[Example], split: Split, share: float, seed: int
) -> tuple[list[Example], list[Example]]:
    """Return training and test examples, both in their order. `share`: of the test examples, from 0 to 1.

    `unknown-uri`, as in arXiv:2502.13369: ids are drawn at random, and all questions whose queries have one of them are
    test questions, until there are enough. An id with more questions than are wanted is not taken.
    """
    chance, wanted = random.Random(seed), round(share * len(examples))
    if split == "random":
        chosen = set(chance.sample(range(len(examples)), wanted))
    else:
        having = defaultdict[str, set[int]](set)
        for at, example in enumerate(examples):
            for id_ in ids_of(example.sparql).all:
                having[id_].add(at)
        chosen = set[int]()
        for id_ in chance.sample(sorted(having), len(having)):
            if len(chosen | having[id_]) <= wanted:
                chosen |= having[id_]
    training = [example for at, example in enumerate(examples) if at not in chosen]
    return training, [example for at, example in enumerate(examples) if at in chosen]
