"""Choices: the texts that the channel compares for a question, and the loss of the right one among them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_asker import LinkedIndex, chat_tokenizer, save_tiny
from support.tiny_model import one_thread, tiny_fact_tokenizer, tiny_tokenizer  # noqa: F401
from transformers import AutoModelForCausalLM, Lfm2Config

import refactx
from refactx.ask.prompt import Prompt
from refactx.ask.teach.choices import ChoiceMaker, TextChoice
from refactx.ask.teach.lessons import Taught, Teacher, TrainingOptions
from refactx.ask.teach.made_questions import make_questions
from refactx.decoding.machine import Machine
from refactx.models.loading import load_chat_tokenizer, load_model
from refactx.ranking.ranker import open_ranker

pytest.importorskip("peft")
from peft import LoraConfig, get_peft_model

from refactx.ask.teach.training import ReadExamples, choice_loss, collate, lesson_loss

FACTS = [f"<Ann> <{p}> <{value}>" for p in "pqr" for value in "bc"] + ["<Bo> <p> <b>"]
PROMPT = Prompt(system="Be true.", channel="Fact: <Cy> <p> Question: p of Cy?")
OPTIONS = TrainingOptions(max_length=2000, candidates=4)


def lessons(questions: list[tuple[str, str]], candidates: int = 4, facts: Sequence[str] = FACTS) -> list[Any]:
    index = LinkedIndex(tiny_fact_tokenizer(), facts)
    options = replace(OPTIONS, candidates=candidates)
    teacher = Teacher(index, PROMPT, chat_tokenizer(), end=tiny_tokenizer().eos_token_id, options=options, asked=PROMPT)
    return [
        teacher.lesson(Taught(line=1, question=question, answers=("b",), facts=(fact,))) for question, fact in questions
    ]


def test_the_right_property_stands_beside_others_of_its_subject_and_no_fact() -> None:
    decode = tiny_fact_tokenizer().decode
    [lesson] = lessons([("q of Ann?", "<Ann> <q> <b>")])
    [choice] = lesson.choices
    texts = [decode(text).split() for text in choice.texts]
    assert [text[:3] for text in texts] == [["Fact:", "<Ann>", "<q>"], *texts[1:3], ["Fact:"]] or texts[-1] == ["Fact:"]
    assert sorted(text[2] for text in texts[:-1]) == ["<p>", "<q>", "<r>"]
    assert decode(choice.question) == " Question: q of Ann?"
    assert decode(choice.question[: choice.lead]) == PROMPT.asks
    assert decode(choice.examples).strip() == PROMPT.channel
    [few] = lessons([("q of Ann?", "<Ann> <q> <b>")], candidates=3)
    assert len(few.choices[0].texts) == 3
    [none] = lessons([("q of Ann?", "<Ann> <q> <b>")], candidates=0)
    assert none.choices == ()


NAMES = """country of origin; author; publication date; number of pages; place of birth; spouse; genre; publisher; language
of work; height; cast member; composer; capital; population; award received; author of foreword""".replace(
    "\n", " "
).split("; ")


@pytest.mark.parametrize("right", ["author", "population"])
def test_the_others_are_the_nearest_in_meaning_as_in_asking(right: str) -> None:
    question, decode = "Who has written Ann's book?", tiny_fact_tokenizer().decode
    nearness = open_ranker(PROMPT.ranker, {}).nearness("Who has written   book?", NAMES)
    nearest = [NAMES[n] for n in np.argsort(-nearness)[:8]]
    assert ("author" in nearest, "population" in nearest) == (True, False)
    [lesson] = lessons([(question, f"<Ann> <{right}> <b>")], 9, [f"<Ann> <{name}> <b>" for name in NAMES])
    texts = [decode(text) for text in lesson.choices[0].texts]
    assert [text.rpartition("<")[2].rstrip(" >") for text in texts[:-1]] == [
        right,
        *[name for name in nearest if name != right][:7],
    ]


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4), min_size=1, max_size=3), st.integers(0, 1000))
def test_the_loss_of_a_choice_is_that_of_its_first_text(lengths: list[list[int]], seed: int) -> None:
    torch.manual_seed(seed)
    texts = [(group, length) for group, some in enumerate(lengths) for length in some]
    rows = [row for row, (_, length) in enumerate(texts) for _ in range(length)]
    logits, targets = torch.randn(len(rows), 7), torch.randint(0, 7, (len(rows),))
    found = choice_loss(logits, targets, torch.tensor(rows), torch.tensor([group for group, _ in texts]))
    scores = [logits[n].log_softmax(0)[targets[n]] for n in range(len(rows))]
    of_texts = [sum(score for row, score in zip(rows, scores, strict=True) if row == n) for n in range(len(texts))]
    for group, loss in enumerate(found):
        among = torch.tensor([float(one) for one, (of, _) in zip(of_texts, texts, strict=True) if of == group])
        torch.testing.assert_close(loss, -among.log_softmax(0)[0])


def adapted(model: Any) -> Any:
    torch.manual_seed(0)
    return get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)).eval()


@pytest.mark.parametrize("kind", ["attention", "recurrent"])
def test_lessons_read_together_have_the_loss_of_each(kind: str, tmp_path: Path) -> None:
    if kind == "attention":
        model = load_model(str(save_tiny(tmp_path)), device="cpu")[0]
    else:  # whose examples are read before each text
        config = Lfm2Config(
            vocab_size=400,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            full_attn_idxs=[1],
        )
        model = AutoModelForCausalLM.from_config(config)
    model = adapted(model)
    made = lessons([("q of Ann?", "<Ann> <q> <b>"), ("p of Bo?", "<Bo> <p> <b>"), ("r?", "<Ann> <r> <c>")])
    each = [loss_of(model, [one]) for one in made]
    together = loss_of(model, made)
    torch.testing.assert_close(together, torch.stack(each).mean())
    [choice] = made[0].choices
    without = loss_of(model, [replace(made[0], choices=())])
    torch.testing.assert_close(each[0] - without, brute_force(model, choice))


def loss_of(model: Any, some: list[Any]) -> torch.Tensor:
    read, inputs = ReadExamples(), collate(some)
    first, again = (lesson_loss(model, inputs, read, step=1)[0] for _ in range(2))
    torch.testing.assert_close(first, again)
    return first


def brute_force(model: Any, choice: TextChoice) -> torch.Tensor:
    """The loss of a choice, each of whose texts is read by itself after the examples."""
    found = []
    for text in choice.texts:
        ids = torch.tensor([[*choice.examples, *text, *choice.question]])
        scores = model(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
        scored = range(ids.shape[1] - len(choice.question) + choice.lead, ids.shape[1])
        found.append(torch.stack([scores[at - 1, ids[0, at]] for at in scored]).sum())
    return -torch.stack(found).log_softmax(0)[0]


@pytest.mark.long
def test_the_right_query_stands_beside_others_and_none(sample_url: str, smollm2_folder: Path) -> None:
    tokenizer, sizes = load_chat_tokenizer(str(smollm2_folder)), list[int]()
    with refactx.open_index(db=sample_url) as index:
        maker, decode = ChoiceMaker(index, refactx.load_prompt(), Machine(index), 6), index.tokenizer.decode
        teacher = Teacher(index, refactx.load_prompt(), tokenizer, end=0, options=OPTIONS)
        for one in make_questions(index, 30, kinds=("count", "superlative", "comparison")):
            query = teacher._query_of(Taught(line=1, question=one.question, walk=one.walk))
            for choice in maker.of(one.question, (), query, random.Random(0)):
                texts = [decode(text) for text in choice.texts]
                assert texts[-1] == "Query:" and len(texts) == len(set(texts)) <= 6
                assert query is not None and texts[0].startswith(f"Query: {query.head} <")
                assert all(hop.predicate in texts[0] for hop in query.hops)
                sizes.append(len(texts))
    assert len(sizes) > 20 and max(sizes) > 2
