"""A grounded model used as any model: moved, switched, cast (the result is still grounded), interrupted."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.tiny_model import (
    FACTS,
    eager,
    one_thread,  # noqa: F401
    prompts,
    tiny_index,
    tiny_model,
    tiny_tokenizer,
)

from refactx.ask.asker import Asker
from refactx.ask.grounded import GroundedModel, ground
from refactx.ask.prompt import Prompt

CHANGES: dict[str, Callable[[Any], Any]] = {
    "eval": lambda model: model.eval(),
    "train": lambda model: model.train(False),
    "to": lambda model: model.to("cpu"),
    "requires_grad_": lambda model: model.requires_grad_(False),
    "bfloat16": lambda model: model.bfloat16(),
}


@pytest.fixture
def grounded() -> GroundedModel:
    return ground(tiny_model(), tiny_tokenizer(), tiny_index(FACTS))


@pytest.mark.parametrize("change", CHANGES)
def test_a_method_that_returns_the_model_returns_the_grounded_model(change: str, grounded: GroundedModel) -> None:
    changed = CHANGES[change](grounded)
    assert changed is grounded
    options: dict[str, Any] = {
        **prompts("a Fact:"),
        "logits_processor": eager(),
        "max_new_tokens": 40,
        "do_sample": False,
    }
    out = changed.generate(**options)
    assert changed.facts(out)[0]


def test_the_change_is_made_to_the_model(grounded: GroundedModel) -> None:
    assert grounded.half().dtype == torch.float16
    assert grounded.train().training


def test_other_results_of_methods_are_the_models() -> None:
    model = tiny_model()
    grounded = ground(model, tiny_tokenizer(), tiny_index(FACTS))
    assert grounded.get_input_embeddings() is model.get_input_embeddings()
    assert grounded.lm_head is model.lm_head
    assert grounded.num_parameters() == model.num_parameters()


def test_the_common_prefix_is_computed_with_the_next_question_if_the_first_is_interrupted() -> None:
    model, tokenizer = tiny_model(), copy.deepcopy(tiny_tokenizer())
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
    asker = Asker(model, tokenizer, None, Prompt(system="Be true."))
    read: list[int] = []

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    hook = model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        asker.ask("Who?", max_new_tokens=1, free=True)
    hook.remove()
    model.register_forward_pre_hook(lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True)
    for question in ("Who?", "What?"):
        asker.ask(question, max_new_tokens=1, free=True)
    assert read == [len("Be true. "), len("Who? "), len("What? ")]
