"""A limit of facts: after the last one the answer has to follow, and no text that looks like a fact."""

import re
from typing import Any

import pytest
import torch
from support.prefix_runs import INDEX, MODES, TEXTS, grounded
from support.tiny_asker import tiny_asker
from support.tiny_model import eager, ids, prompts

from refactx.decoding.machine import Machine
from refactx.decoding.states import Closing, Dead, FactLimit, Free
from refactx.errors import InputError

LIMITED: dict[str, Any] = {"max_facts": 2, "after_facts": "So:"}
USED = ("greedy", "sampling", "beams", "beam sampling", "fact beams")


def written(mode: str, *texts: str, **options: Any) -> tuple[list[str], list[list[str]]]:
    """The texts after the prompts, and their facts."""
    torch.manual_seed(0)
    inputs = prompts(*texts)
    out = grounded().generate(**inputs, logits_processor=eager(mode), max_new_tokens=90, **MODES[mode], **options)
    rows = getattr(out, "sequences", out)[:, inputs["input_ids"].shape[1] :]
    decoded = [INDEX.tokenizer.decode(row) for row in rows.tolist()]
    return decoded, [[fact.text for fact in facts] for facts in grounded().facts(out)]


@pytest.mark.parametrize("texts", [TEXTS[1:2], TEXTS])
@pytest.mark.parametrize("mode", USED)
def test_after_the_last_fact_the_answer_follows(mode: str, texts: tuple[str, ...]) -> None:
    decoded, found = written(mode, *texts, **LIMITED)
    assert sum(len(facts) == 2 for facts in found) > len(found) / 2
    for text, facts in zip(decoded, found, strict=True):
        assert len(facts) <= 2
        if len(facts) == 2:
            following = text[text.rindex(facts[-1]) + len(facts[-1]) :]
            assert following.strip().startswith("So:")
            assert not re.search(r"(?<!\w)Fact:\s*\S", following)


@pytest.mark.parametrize("texts", [TEXTS[1:2], TEXTS])
def test_the_loop_of_forced_tokens_and_transformers_own_write_the_same(texts: tuple[str, ...]) -> None:
    assert written("greedy", *texts, **LIMITED) == written("scores", *texts, **LIMITED)


def test_below_its_limit_nothing_changes() -> None:
    assert written("greedy", *TEXTS, max_facts=99, after_facts="So:") == written("greedy", *TEXTS)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        grounded().generate(**prompts("a"), max_facts=0)


def test_the_states_after_a_limit() -> None:
    limit = FactLimit(
        facts=1, after_fact=tuple(ids("\n", "s")), after_line=tuple(ids("s")), after_trigger=tuple(ids("</s>"))
    )
    machine = Machine(INDEX).limited(limit)
    fact = [*ids(" Fact:"), *INDEX.tokenizer.encode_after("Fact:", " <Bo> <p> <.>")]

    def after(*pieces: str) -> Any:
        return machine.run([*fact, *ids(*pieces)], 0)

    closing = after(" .")
    assert isinstance(closing, Closing)
    assert (machine.allowed(closing).tolist(), machine.forced(closing)) == (ids("\n"), ids("\n")[0])  # type: ignore[union-attr]
    assert isinstance(after(" .", "\n", "s"), Free)
    assert isinstance(after(" .\n", "s"), Free), "the line end is there already"
    assert isinstance(after(" .", "s"), Dead)
    again = after(" .\n", "s", " Fact:")
    assert (isinstance(again, Closing), machine.forced(again)) == (True, ids("</s>")[0])
    assert isinstance(after(" .\n", "s", " Fact:", "</s>"), Free)


def test_an_answer_ends_at_the_trigger_of_a_further_fact() -> None:
    whole = tiny_asker().ask("Fact:", max_new_tokens=60)
    answer = tiny_asker().ask("Fact:", max_new_tokens=60, max_facts=1)
    assert len(answer.facts) == 1
    assert answer.facts[0] == whole.facts[0]
    assert re.match(re.escape(answer.facts[0].text) + r"\s*\nAnswer:", answer.text)
    assert answer.answer
    with pytest.raises(InputError, match="free text has no facts"):
        tiny_asker().ask("Fact:", max_facts=1, free=True)
