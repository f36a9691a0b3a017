"""The engine over Transformers: after any operations, a sequence has the logits of plain passes over its own ids."""

from functools import cache
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_model import log_probabilities, one_thread, tiny_model  # noqa: F401

from refactx.engines.engine import Feed, Logits
from refactx.engines.hf.engine import TransformersEngine

IDS = st.lists(st.integers(5, 12), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), st.lists(st.tuples(st.integers(0, 9), IDS), min_size=1, max_size=3)),
        st.tuples(st.just("fork"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.tuples(st.integers(0, 9), st.integers(0, 3))),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("tree"), st.tuples(st.integers(0, 9), IDS)),
    ),
    max_size=8,
)


@cache
def llama() -> Any:
    return tiny_model(2)


def agrees(logits: Logits, ids: list[int]) -> bool:
    """Whether logits, float32[last, vocabulary], are those after the last ids."""
    plain = log_probabilities(llama(), ids)[-len(logits) :]
    return torch.allclose(torch.tensor(logits).log_softmax(-1), plain, atol=1e-4)


def batch(*prompts: list[int]) -> tuple[TransformersEngine, dict[int, list[int]]]:
    """An engine whose sequences are the rows of one batch, padded on the left, and the ids that each has read."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (mask.cumsum(-1) - 1).clamp_min(0)
    inputs = {"attention_mask": mask, "position_ids": positions, "use_cache": True}
    out = llama()(input_ids=ids, **inputs)
    engine = TransformersEngine(llama())
    rows = engine.add_batch(inputs | {"past_key_values": out.past_key_values}, (len(prompts), width))
    return engine, dict(zip(rows, map(list, prompts), strict=True))


@torch.no_grad()
@settings(max_examples=60, deadline=None, derandomize=True)
@given(prompts=st.lists(IDS, min_size=1, max_size=3), steps=STEPS)
def test_sequences_that_are_fed_forked_cut_and_dropped_depend_on_their_own_ids_alone(
    prompts: list[list[int]], steps: list[tuple[str, Any]]
) -> None:
    engine, read = batch(*prompts)
    for step, given_ in steps:
        if not read:
            break

        live = list(read)
        match step:
            case "feed":
                feeds = {live[number % len(live)]: ids for number, ids in given_}
                found = engine.feed([Feed(sequence, ids, last=len(ids)) for sequence, ids in feeds.items()])
                for (sequence, ids), logits in zip(feeds.items(), found, strict=True):
                    read[sequence] += ids
                    assert len(logits) == len(ids)
                    assert agrees(logits, read[sequence])
            case "fork":
                sequence = live[given_ % len(live)]
                read[engine.fork(sequence)] = list(read[sequence])
            case "forget":
                sequence, number = live[given_[0] % len(live)], given_[1]
                if number < len(read[sequence]):
                    engine.forget(sequence, number)
                    read[sequence] = read[sequence][: len(read[sequence]) - number]
            case "drop":
                sequence = live[given_ % len(live)]
                engine.drop(sequence)
                del read[sequence]
            case "tree":
                sequence, path = live[given_[0] % len(live)], tuple(given_[1])
                tree = engine.tree(sequence)
                paths = [path[: n + 1] for n in range(len(path))]
                for numbers, logits in tree.read(paths):
                    for number, after in zip(numbers, logits, strict=True):
                        assert agrees(after[None], [*read[sequence], *paths[number]])
                kept = tree.keep(path[:2])
                read[sequence] += path[:kept]
    for sequence, ids in read.items():
        [logits] = engine.feed([Feed(sequence, [7])])
        assert agrees(logits, [*ids, 7])
