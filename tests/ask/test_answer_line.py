"""Free text that would end without an answer continues with the answer's line, once, in every mode; other text is not
changed."""

from typing import Any, cast

import pytest
import torch
from support.tiny_asker import tiny_asker
from support.tiny_model import one_thread, prompts, tiny_model, tiny_tokenizer  # noqa: F401
from transformers import LogitsProcessorList

from refactx.ask.answer import AnswerLine
from refactx.ask.grounded import NextId

MARKER = "Answer:"


def ending_model(weight: float = 100.0) -> Any:
    """A random model that often ends its texts."""
    model = tiny_model()
    model.get_output_embeddings().weight.data[tiny_tokenizer().eos_token_id] *= weight
    return model


def texts(model: Any, *given: str, line: bool = True, **options: Any) -> list[str]:
    """The texts after some prompts."""
    inputs, tokenizer = prompts(*given), tiny_tokenizer()
    length = inputs["input_ids"].shape[1]
    own = AnswerLine(tokenizer, MARKER, {tokenizer.eos_token_id})
    processors = [NextId(own.after, length)] if line else []
    out = model.generate(**inputs, logits_processor=LogitsProcessorList(processors), max_new_tokens=40, **options)
    return [tokenizer.decode(row[length:], skip_special_tokens=True) for row in out.tolist()]


@pytest.mark.parametrize("options", [{"do_sample": False}, {"num_beams": 3, "do_sample": False}])
@pytest.mark.parametrize("given", [["a"], ["b c", "a", "in p"]])
def test_a_text_that_ends_has_one_answer(given: list[str], options: dict[str, Any]) -> None:
    written = texts(ending_model(), *given, **options)
    before = texts(ending_model(), *given, line=False, **options)
    assert all(text.count(MARKER) == 1 for text in written), written
    assert not any(MARKER in text for text in before)
    if "num_beams" not in options:
        for text, plain in zip(written, before, strict=True):
            assert text.startswith(plain), "up to there it is the model's own"
            assert text[len(plain) :].startswith(MARKER if not plain or plain.endswith("\n") else f"\n{MARKER}")


def test_a_text_that_does_not_end_is_not_changed() -> None:
    model = ending_model(0.0)
    assert texts(model, "a", "b", do_sample=False) == texts(model, "a", "b", do_sample=False, line=False)


def test_a_text_with_an_answer_may_end() -> None:
    tokenizer = tiny_tokenizer()
    end = tokenizer.eos_token_id
    own = AnswerLine(tokenizer, MARKER, {end})
    assert not own.after(tokenizer.encode(f"a b\n{MARKER} b", add_special_tokens=False), end)
    assert not own.after(tokenizer.encode("a b", add_special_tokens=False), end - 1)
    assert own.after([], end) == tokenizer.encode(MARKER, add_special_tokens=False)


def test_rows_with_other_prompts_do_not_share_a_line() -> None:
    tokenizer = tiny_tokenizer()
    end, line = tokenizer.eos_token_id, tokenizer.encode(MARKER, add_special_tokens=False)
    processor = NextId(AnswerLine(tokenizer, MARKER, {end}).after, 1)

    def forced(ids: list[int], likeliest: int) -> list[int]:
        """The ids that may follow."""
        scores = torch.zeros((1, len(tokenizer)))
        scores[0, likeliest] = 1.0
        after: torch.Tensor = processor(cast(Any, torch.tensor([ids])), cast(Any, scores))
        return (after[0] > -torch.inf).nonzero()[:, 0].tolist()

    assert forced([1], end) == line[:1]
    assert len(forced([2, line[0]], 5)) > 1, "a row that wrote the line's first id by itself"
    assert forced([1, line[0]], 5) == line[1:2]


def test_free_questions_are_answered_and_grounded_ones_as_before() -> None:
    asker = tiny_asker(ending_model())
    answer = asker.ask("hello", max_new_tokens=40, free=True)
    assert answer.text.count(MARKER) == 1
    assert answer.finish_reason == "stop"
    assert MARKER not in asker.ask("hello", max_new_tokens=40).text
