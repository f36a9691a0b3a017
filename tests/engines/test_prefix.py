"""The prefix that prompts share, computed once: it changes the work alone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
import torch
from support.prefix_runs import INDEX, MODES, TEXTS, grounded, llama
from support.tiny_model import (
    SURPLUS,
    Passes,
    check_text,
    eager,
    ids,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

from refactx.ask.grounded import ground
from refactx.engines.transformers.internals import CACHE
from refactx.engines.transformers.rows import Prefix
from refactx.errors import InputError, ModelError

SHARED = "Facts are good.\nFact: <Ann> <p> <b> .\nFact: <Bo> <p> <.> .\n"


def encoded(text: str) -> list[int]:
    numbers: list[int] = prompts(text)["input_ids"][0].tolist()
    return numbers


@cache
def prefix(text: str = SHARED) -> Prefix:
    return grounded().prefill(torch.tensor([encoded(text)]))


def after_shared(*texts: str, shared: str = SHARED) -> dict[str, torch.Tensor]:
    """Prompts that begin with the shared text, with padding after it."""
    rows = [encoded(text) for text in texts]
    width = max(map(len, rows))
    pad = ids("<pad>")
    begin = encoded(shared)
    numbers = [[*begin, *pad * (width - len(row)), *row] for row in rows]
    mask = [[1] * len(begin) + [0] * (width - len(row)) + [1] * len(row) for row in rows]
    return {"input_ids": torch.tensor(numbers), "attention_mask": torch.tensor(mask)}


def written(seed: int, inputs: dict[str, torch.Tensor], mode: str, budget: int = 25, **options: Any) -> torch.Tensor:
    torch.manual_seed(seed)
    out = grounded().generate(**inputs, logits_processor=eager(mode), max_new_tokens=budget, **MODES[mode], **options)
    sequences: torch.Tensor = getattr(out, "sequences", out)
    return sequences


@pytest.mark.parametrize("texts", [TEXTS[2:3], TEXTS])
@pytest.mark.parametrize("mode", MODES)
def test_the_ids_are_the_same_with_and_without(mode: str, texts: tuple[str, ...]) -> None:
    if mode == "prompt lookup":
        texts = texts[:1]  # Transformers takes a single row
    inputs = after_shared(*texts)
    with_prefix, without = written(1, inputs, mode, prefix=prefix()), written(1, inputs, mode)
    assert with_prefix.tolist() == without.tolist()
    length = inputs["input_ids"].shape[1]
    found = grounded().facts(with_prefix, prompt_length=length)
    assert sum(map(len, found))
    for row, facts in zip(with_prefix.tolist(), found, strict=True):
        check_text(INDEX, row, length, facts)


@pytest.mark.parametrize("row", range(len(TEXTS)))
def test_the_ids_of_a_single_padded_row_are_the_same_too(row: int) -> None:
    inputs = {name: value[row : row + 1] for name, value in after_shared(*TEXTS).items()}
    assert written(1, inputs, "greedy", prefix=prefix()).tolist() == written(1, inputs, "greedy").tolist()


def test_the_rest_of_the_prompt_is_read_with_draft_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = after_shared("so it is")
    truth = written(0, inputs, "greedy", 8)
    ahead = truth[0].tolist()
    monkeypatch.setattr("refactx.selection.plain.repeat", lambda before, most, matched: ahead[len(before) :][:most])
    with Passes(llama()) as passes:
        out = written(0, inputs, "greedy", 8, prefix=prefix())
    assert out.tolist() == truth.tolist()
    assert passes.number == 1


def test_an_assistant_may_help() -> None:
    inputs = after_shared("a Fact:")
    out = written(0, inputs, "greedy", prefix=prefix(), assistant_model=tiny_model(1))
    assert out.tolist() == written(0, inputs, "greedy").tolist()


@pytest.mark.parametrize("mode", ["greedy", "fact beams"])
def test_each_row_of_a_batch_has_the_ids_that_it_has_alone(mode: str) -> None:
    together = written(0, after_shared(*TEXTS), mode, prefix=prefix())
    for row, text in zip(together, TEXTS, strict=True):
        alone = written(0, after_shared(text), mode)
        assert row[-25:].tolist() == alone[0, -25:].tolist()


@pytest.mark.parametrize("shared", ["so Fact:", "so Fact: <", "so Fact: <B", "so Fact: <Ann> <p> <b> "])
@pytest.mark.parametrize("mode", ["greedy", "beams"])
def test_a_fact_may_begin_in_the_prefix_and_continue_after_the_padding(mode: str, shared: str) -> None:
    fact = ids(" Fact:", " <", "B", "o", ">", " <", "p>", " <", ".", ">", " .")
    begun = encoded(shared)
    at = ["so Fact:", "so Fact: <", "so Fact: <B"].index(shared) + 1 if "Ann" not in shared else 0
    rest = fact[at:] if at else ids(".", "\n", "b")
    texts = [rest[:1], rest[:3], rest]
    width = max(map(len, texts))
    pad = ids("<pad>")
    numbers = torch.tensor([[*begun, *pad * (width - len(text)), *text] for text in texts])
    mask = torch.tensor([[1] * len(begun) + [0] * (width - len(text)) + [1] * len(text) for text in texts])
    inputs = {"input_ids": numbers, "attention_mask": mask}
    together = written(0, inputs, mode, prefix=grounded().prefill(torch.tensor([begun])))
    for row, text in zip(together, texts, strict=True):
        alone = {"input_ids": torch.tensor([[*begun, *text]])}
        assert row[-25:].tolist() == written(0, alone, mode)[0, -25:].tolist()


def test_it_may_be_used_many_times_and_does_not_change() -> None:
    own = grounded().prefill(torch.tensor([encoded(SHARED)]))
    before = [layer.keys.clone() for layer in own.cache.layers]
    modes = ("greedy", "sampling", "beams", "fact beams")
    first, again = ([written(0, after_shared(*TEXTS[:3]), m, 20, prefix=own).tolist() for m in modes] for _ in range(2))
    assert first == again
    assert own.cache.get_seq_length() == own.ids.shape[1]
    assert all(torch.equal(layer.keys, keys) for layer, keys in zip(own.cache.layers, before, strict=True))


def test_several_threads_may_use_it_at_once() -> None:
    def run(number: int) -> Any:
        texts = TEXTS if number % 2 else TEXTS[number % len(TEXTS) :][:1]
        mode = ("greedy", "fact beams", "beams")[number % 3]
        return written(0, after_shared(*texts), mode, 20, prefix=prefix()).tolist()

    alone = [run(number) for number in range(6)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(6))) == alone


def test_its_facts_may_be_written_again() -> None:
    """The facts of a prompt do not count as written."""
    few = ground(llama(), tiny_tokenizer(), tiny_index(["<Ann> <p> <b>", "<Bo> <p> <.>"]))
    for options in ({"do_sample": False}, {"do_sample": False, "fact_beams": 2}):
        inputs = after_shared(" Fact:")
        out = few.generate(
            **inputs, logits_processor=eager("beam", 20.0), max_new_tokens=60, prefix=prefix(), **options
        )
        assert {fact.text for fact in few.facts(out)[0]} == {"<Ann> <p> <b> .", "<Bo> <p> <.> ."}


@pytest.mark.parametrize("mode", ["greedy", "several samples", "beams", "fact beams", "scores"])
@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS[1:4]])
def test_the_model_reads_its_ids_once(mode: str, texts: tuple[str, ...]) -> None:
    inputs, work = after_shared(*texts), []
    for options in ({}, {"prefix": prefix()}):
        with Passes(llama()) as passes:
            written(0, inputs, mode, 6, **options)
        work.append(passes.ids)
    assert work[0] - work[1] == prefix().ids.shape[1] * len(texts) * rows_of(mode)


def rows_of(mode: str) -> int:
    return max(MODES[mode].get(name, 1) for name in ("num_beams", "num_return_sequences"))


def refused() -> list[tuple[str, Callable[[], Any]]]:
    own, inputs = prefix(), after_shared("so")
    numbers = inputs["input_ids"]
    cache = DynamicCache(config=llama().config)
    return [
        ("begin with the prefix", lambda: grounded().generate(numbers[:, 1:], prefix=own)),
        ("begin with the prefix", lambda: grounded().generate(own.ids, prefix=own)),
        ("begin with the prefix", lambda: grounded().generate(own.ids[:, :3], prefix=own)),
        ("begin with the prefix", lambda: grounded().generate(**prompts(SHARED + "so", SHARED), prefix=own)),
        ("begin with the prefix", lambda: grounded().generate(prefix=own)),
        ("begin with the prefix", lambda: grounded().generate(**prompts("so", "it"), prefix=own, fact_beams=2)),
        (
            f"prefix and {CACHE} were both given",
            lambda: grounded().generate(numbers, prefix=own, **{CACHE: cache}),
        ),
        ("one row", lambda: grounded().prefill(after_shared("so", "it")["input_ids"])),
        ("one row", lambda: grounded().prefill(encoded(SHARED))),
        ("one row", lambda: grounded().prefill(torch.zeros((1, 0), dtype=torch.long))),
    ]


@pytest.mark.parametrize("number", range(10))
def test_a_prefix_that_does_not_fit_is_refused(number: int) -> None:
    match, call = refused()[number]
    with pytest.raises(InputError, match=match):
        call()


def test_a_model_whose_cache_cannot_be_shared_is_refused() -> None:
    config = MistralConfig(
        vocab_size=len(tiny_tokenizer()) + SURPLUS,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        sliding_window=4,
    )
    with pytest.raises(ModelError, match="MistralForCausalLM"):
        ground(MistralForCausalLM(config), tiny_tokenizer(), INDEX).prefill([encoded(SHARED)])
