"""An answer that repeats a name ends; one that continues with other names does not."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_model import MemoryIndex, one_thread, tiny_fact_tokenizer, tiny_model, tiny_tokenizer  # noqa: F401
from transformers import PreTrainedTokenizerFast

from refactx.ask.answer import SHORTEST, TIMES, RepeatedAnswer, loops, unlinked
from refactx.ask.asker import Asker
from refactx.ask.grounded import RowEnd
from refactx.ask.prompt import Prompt

PROMPT = "Answer: a; a; a;"
AFTER = dict(zip("!Answer: b", "Answer: b;", strict=True)) | {";": " "}


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Answer: b; b; b;", True),
        ("Fact: x\nAnswer: in; b;b ;  b;", True),
        ("Answer: b; b;", False),
        ("Answer: b; b; b", False),  # `bb`, say
        ("Answer: b; b; in; b;", False),
        ("Answer: b; b; b; b; in", False),
        ("b; b; b;", False),
        ("Fact: <Answer: b; b; b;", False),
        ("Answer: b; in; b; in; b; in;", True),
        ("Answer: b; b; in; b; b; in;", False),
        ("Answer: in, b, b, b,", True),
        ("Answer: b,b,b,b,", False),  # 100,000,000
        ("Answer: ;;;", False),
        ("**Answer:** b; b; b;", True),
        ("Answer: in\nb; b; b;", False),
        ("", False),
        *(("So:\n" + "".join(f"{n} is in b\n" for n in range(size)) * 3, True) for size in range(1, 8)),
        *(("So:\n" + "".join(f"{n} is in b\n" for n in range(size)) * 2, False) for size in range(1, 8)),
        ("So" + " Bo is in b, Ann is in c." * 3, True),
        ("Fact: <a> <b> <c> .\n" * 3, True),
        ("Fact: <a> <b> <c> .\n" * 2 + "Fact: <a> <b> <d> .\n", False),
    ],
)
def test_ends_after_the_same_name_or_passage_three_times_in_a_row(text: str, ends: bool) -> None:
    tokenizer = tiny_tokenizer()
    begin, rows = tokenizer.encode(PROMPT), []
    repeated = RepeatedAnswer(tokenizer, "Answer:")
    criterion = RowEnd(repeated.is_end, len(begin))
    for row in (text, "Answer: in; b"):
        rows.append([*begin, *tokenizer.encode(row)])
    longest = max(map(len, rows))
    padded = [
        [*row[: len(begin)], *[tokenizer.pad_token_id] * (longest - len(row)), *row[len(begin) :]] for row in rows
    ]
    assert criterion(torch.tensor(padded), None).tolist() == [ends, False]


class Index(MemoryIndex):
    links = staticmethod(unlinked)


@pytest.fixture
def repeats_itself() -> Iterator[Any]:
    """A model that writes `Answer: b; b; b; ...` after an exclamation mark, without an end."""
    model, tokenizer = tiny_model(), tiny_tokenizer()
    ids = {tokenizer.encode(one)[0]: tokenizer.encode(other)[0] for one, other in AFTER.items()}

    def say(module: Any, args: Any, kwargs: Any, out: Any) -> None:
        for row, numbers in enumerate(kwargs["input_ids"][:, -out.logits.shape[1] :].tolist()):
            for at, number in enumerate(numbers):
                out.logits[row, at] = -9.0
                out.logits[row, at, ids.get(number, ids[tokenizer.encode("!")[0]])] = 9.0

    hook = model.register_forward_hook(say, with_kwargs=True)
    yield model
    hook.remove()


@pytest.mark.parametrize("ends", ["</s>", None])
@pytest.mark.parametrize("options", [{}, {"free": True}, {"num_beams": 2}])
def test_an_answer_of_the_asker_ends_at_a_repetition(
    repeats_itself: Any, options: dict[str, Any], ends: str | None
) -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer().backend_tokenizer, bos_token="<s>", eos_token=ends, pad_token="<pad>"
    )
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    if ends is None:  # finished rows of a batch then continue, or are filled with -1
        repeats_itself.generation_config.eos_token_id = repeats_itself.config.eos_token_id = None
    asker = Asker(repeats_itself, tokenizer, Index(tiny_fact_tokenizer(), ["<b> <b> <b>"]), Prompt(system="b"))
    answer = asker.ask("who is b!", max_new_tokens=60, **options)
    assert answer.text == "Answer: b; b; b;"
    assert (answer.answer, answer.finish_reason) == ("b" if "free" in options else "I don't know.", "stop")
    looped, other = asker.ask_all(["who is b!", "who:"], max_new_tokens=60, batch_size=2, **options)
    assert (looped.text, looped.finish_reason) == ("Answer: b; b; b;", "stop")
    assert (other.text[:8], other.finish_reason) == ("b; b; b;", "length")


@given(
    before=st.text("ab \n", max_size=12),
    passage=st.text("ab ", min_size=1, max_size=14),
    times=st.integers(1, 5),
    after=st.text("ab ", max_size=2),
)
def test_a_passage_of_any_length_is_found(before: str, passage: str, times: int, after: str) -> None:
    text = before + passage * times + after
    ends = (text[-size:] for size in range(SHORTEST, len(text) // TIMES + 1))
    assert loops(text) == any(text.endswith(end * TIMES) and len(set(end.split())) > 1 for end in ends)
