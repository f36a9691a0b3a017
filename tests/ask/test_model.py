"""The methods of a grounded model: arguments and results of `generate`, `facts`, and calls that are refused."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_model import (
    FACTS,
    PROMPTS,
    MemoryIndex,
    eager,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_tokenizer,
)
from transformers import (
    GenerationConfig,
)

from refactx.ask.grounded import GroundedModel, ground
from refactx.engines.transformers.processor import FactLogitsProcessor
from refactx.errors import InputError, RefactxError


class TestGroundedModel:
    def test_it_returns_the_output_of_generate(self, grounded: GroundedModel) -> None:
        options: dict[str, Any] = {**prompts("a Fact:"), "max_new_tokens": 30, "do_sample": False}
        plain = grounded.generate(**options)
        rich = grounded.generate(**options, return_dict_in_generate=True, output_scores=True)
        assert torch.equal(plain, rich.sequences)
        assert len(rich.scores) == 30
        assert grounded.facts(plain) == grounded.facts(rich) == grounded.facts(rich.sequences)

    def test_ids_may_come_first_and_a_config_second(self, grounded: GroundedModel) -> None:
        config = GenerationConfig(max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
        out = grounded.generate(prompts("a Fact:")["input_ids"], config)
        assert grounded.facts(out)[0]

    def test_the_prompt_may_be_embeddings_with_their_ids(self, model: Any, grounded: GroundedModel) -> None:
        ids = prompts("a Fact:")["input_ids"]
        embeddings = model.get_input_embeddings()(ids)
        out = grounded.generate(ids, inputs_embeds=embeddings, max_new_tokens=30)
        assert torch.equal(out, grounded.generate(ids, max_new_tokens=30)) and grounded.facts(out)[0]
        for wrong in ({}, {"input_ids": ids[:, 1:]}):
            with pytest.raises(InputError, match="inputs_embeds alone"):
                grounded.generate(**wrong, inputs_embeds=embeddings, max_new_tokens=30)

    def test_a_streamer_sees_the_ids(self, grounded: GroundedModel) -> None:
        seen: list[int] = []

        class Streamer:
            def put(self, value: torch.Tensor) -> None:
                seen.extend(value.flatten().tolist())

            def end(self) -> None:
                pass

        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=20, do_sample=False, streamer=Streamer())
        assert seen == out[0].tolist()

    def test_without_processors_in_place_free_text_is_the_models(self, model: Any) -> None:
        """If prompt and text have no triggers, the ids are those of the model alone."""
        quiet = ground(model, tiny_tokenizer(), tiny_index(FACTS, trigger="Fact:::"))
        options: dict[str, Any] = {**prompts("hello"), "max_new_tokens": 40, "do_sample": False}
        assert torch.equal(quiet.generate(**options), model.generate(**options))

    def test_several_threads_may_share_the_index(self, grounded: GroundedModel) -> None:
        def run(number: int) -> list[int]:
            text = PROMPTS[number % len(PROMPTS)]
            out = grounded.generate(**prompts(text), logits_processor=eager(), max_new_tokens=40, do_sample=False)
            return out[0].tolist()

        alone = [run(number) for number in range(len(PROMPTS))]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(run, range(12))) == alone * 3

    def test_facts_of_unknown_ids_need_the_prompts_length(self, grounded: GroundedModel) -> None:
        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=30, do_sample=False)
        with pytest.raises(InputError, match="prompt_length"):
            grounded.facts(out.clone())
        length = prompts("a Fact:")["input_ids"].shape[1]
        assert grounded.facts(out.clone(), prompt_length=length) == grounded.facts(out)
        assert grounded.facts(out.tolist(), prompt_length=length) == grounded.facts(out)

    def test_an_output_of_another_grounded_model_is_refused(self, model: Any, grounded: GroundedModel) -> None:
        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=30, do_sample=False)
        other = ground(model, tiny_tokenizer(), tiny_index(["<Bo> <r> <d>"]))
        with pytest.raises(InputError, match="prompt_length"):
            other.facts(out)

    def test_an_output_can_be_saved_without_its_grounding(self, grounded: GroundedModel, tmp_path: Path) -> None:
        out = grounded.generate(**prompts("a Fact:"), max_new_tokens=30, do_sample=False)
        torch.save(out, tmp_path / "out.pt")
        loaded = torch.load(tmp_path / "out.pt")
        assert torch.equal(loaded, out)
        with pytest.raises(InputError, match="prompt_length"):
            grounded.facts(loaded)
        assert grounded.facts(loaded, out.grounding.prompt_length) == grounded.facts(out)

    def test_an_output_has_its_grounding(self, grounded: GroundedModel) -> None:
        inputs = prompts("a Fact:", "b")
        for options in ({}, {"return_dict_in_generate": True}):
            out = grounded.generate(**inputs, max_new_tokens=20, do_sample=False, **options)
            sequences = getattr(out, "sequences", out)
            assert out.grounding is sequences.grounding
            assert out.grounding.prompt_length == inputs["input_ids"].shape[1]
            assert grounded.facts(out) == grounded.facts(sequences.tolist(), out.grounding.prompt_length)

    def test_other_attributes_are_the_models(self, model: Any, grounded: GroundedModel) -> None:
        assert grounded.config is model.config
        assert grounded.device == model.device
        with pytest.raises(AttributeError):
            _ = grounded.no_such_attribute

    def calls_of_continuous_batching(self, grounded: GroundedModel) -> Iterator[Callable[[], Any]]:
        inputs = prompts("a")["input_ids"]
        yield lambda: grounded.generate_batch([[1]])
        yield grounded.init_continuous_batching
        yield grounded.continuous_batching_context_manager
        yield lambda: grounded.generate(inputs, cache_implementation="paged")

    def test_continuous_batching_is_blocked(self, grounded: GroundedModel) -> None:
        for call in self.calls_of_continuous_batching(grounded):
            with pytest.raises(RefactxError, match="unconstrained"):
                call()

    def test_transformers_would_not_take_the_processor_there(self, index: MemoryIndex) -> None:
        assert FactLogitsProcessor(index, tiny_tokenizer()).supports_continuous_batching is False
