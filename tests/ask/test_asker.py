"""Answers of an asker with their facts, and their forms as JSON and as text."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.tiny_asker import ANSWER, BERN, FACTS, WIKI, YEAR, LinkedIndex, tiny_asker
from support.tiny_model import tiny_model, tiny_tokenizer
from transformers import GenerationConfig, TextStreamer

from refactx.ask.answer import Answer, final_answer
from refactx.ask.asker import Asker
from refactx.ask.channels import Channels
from refactx.ask.prompt import Example
from refactx.cli.views import plain
from refactx.documents import answer_document, to_json
from refactx.errors import InputError, ModelError
from refactx.fact import Fact
from refactx.models.loading import load_model
from refactx.tokenizer import FactTokenizer


@pytest.mark.parametrize("num_beams", [1, 3])
def test_the_facts_of_an_answer_are_in_the_index(num_beams: int) -> None:
    answer = tiny_asker().ask("Fact:", num_beams=num_beams, max_new_tokens=40)
    assert answer.facts
    assert {fact.text for fact in answer.facts} <= {f"{fact} ." for fact in FACTS}
    assert answer.facts[0].text in answer.text
    assert [linked.subject.label for linked in answer.links] == [fact.subject for fact in answer.facts]


def test_an_answer_is_deterministic_and_silent_whatever_the_generation_config(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    model = tiny_model()
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=5.0, top_k=3, min_p=0.1, repetition_penalty=3.0, max_length=30, eos_token_id=[2]
    )
    before = model.generation_config.to_dict()
    first, plain = tiny_asker(model).ask("Fact:", max_new_tokens=30), tiny_asker().ask("Fact:", max_new_tokens=30)
    assert (first.text, first.facts) == (plain.text, plain.facts)
    assert model.generation_config.to_dict() == before
    assert capfd.readouterr() == ("", "")
    assert not [warning for warning in recwarn if "transformers" in str(warning.filename)]


def test_forward_passes_and_tokens_are_counted_and_the_model_is_left_as_it_was() -> None:
    model = tiny_model()
    asker = tiny_asker(model)
    answer = asker.ask("Fact:", max_new_tokens=20)
    assert answer.tokens == 20
    assert answer.forward_passes < 20  # forced ids need none
    assert asker.ask("Fact:", max_new_tokens=20).forward_passes == answer.forward_passes
    free = asker.ask("Fact:", max_new_tokens=20, free=True)
    assert free.tokens == free.forward_passes == 20
    assert not model._forward_pre_hooks
    assert answer.seconds > 0


def test_generation_stops_at_the_end_of_sequence_of_the_tokenizer_too() -> None:
    asker = tiny_asker()
    long = asker.ask("Fact:", max_new_tokens=40)
    ids = asker._tokenizer.encode(long.text, add_special_tokens=False)
    model = tiny_model()
    model.generation_config.eos_token_id = None
    model.get_output_embeddings().weight.data[asker._tokenizer.eos_token_id] *= 100
    short = tiny_asker(model).ask("Fact:", max_new_tokens=200)
    assert len(ids) >= 30
    assert short.tokens < 200
    assert "</s>" not in short.text


def test_an_index_without_facts_answers_nothing() -> None:
    """All text after a trigger would be the model's own."""
    with pytest.raises(InputError, match="no facts to answer with: add some"):
        tiny_asker(facts=[])


@pytest.mark.parametrize("free", [False, True])
def test_a_model_reads_the_names_of_ids_in_questions_and_turns(monkeypatch: pytest.MonkeyPatch, free: bool) -> None:
    monkeypatch.setattr(Channels, "with_names", lambda _, question: question.replace("Q1", "Ann"))
    asker, turn = tiny_asker(), Example("Q1 in?", "b Q1")
    answer = asker.ask("Q1 Fact:", history=[turn], max_new_tokens=20, free=free)
    read = tiny_asker(facts=FACTS if not free else None).ask(
        "Ann Fact:", history=[replace(turn, question="Ann in?")], max_new_tokens=20, free=free
    )
    assert (answer.question, answer.text, answer.facts) == ("Q1 Fact:", read.text, read.facts)
    [batched] = asker.ask_all(["Q1 Fact:"], max_new_tokens=20, free=free)
    alone = tiny_asker().ask("Ann Fact:", max_new_tokens=20, free=free)
    assert isinstance(batched, Answer)
    assert (batched.question, batched.text) == ("Q1 Fact:", alone.text)


def test_free_text_has_no_facts() -> None:
    asker = tiny_asker()
    answer = asker.ask("Fact:", max_new_tokens=20, free=True)
    assert (answer.facts, answer.links) == ((), ())
    assert answer.text == tiny_asker(facts=None).ask("Fact:", max_new_tokens=20, free=True).text
    assert answer.text != asker.ask("Fact:", max_new_tokens=20).text


def test_fact_beams_find_facts_of_the_index_and_go_with_greedy_text_only() -> None:
    asker = tiny_asker()
    answer = asker.ask("Fact:", max_new_tokens=40, fact_beams=3)
    assert {fact.text for fact in answer.facts} <= {f"{fact} ." for fact in FACTS}
    assert answer.facts
    for options in ({"num_beams": 2}, {"free": True}):
        with pytest.raises(InputError, match=r"fact[ _]beams"):
            asker.ask("Fact:", fact_beams=3, **options)


@pytest.mark.parametrize("options", [{}, {"free": True}, {"num_beams": 2}, {"fact_beams": 2}])
def test_the_common_prefix_of_prompts_is_computed_once(options: dict[str, Any]) -> None:
    """The model reads only the other ids of the second question, and the answer is that of a new asker."""
    model, asked = tiny_model(), []
    asker = tiny_asker(model)
    asker.ask("hello", max_new_tokens=4, **options)
    model.register_forward_pre_hook(
        lambda _, args, kwargs: asked.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    second = asker.ask("What? Fact:", max_new_tokens=30, **options)
    assert asked[0] < 20
    alone = tiny_asker().ask("What? Fact:", max_new_tokens=30, **options)
    assert (second.text, second.facts) == (alone.text, alone.facts)


def test_a_streamer_gets_the_text_while_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    asker = tiny_asker()
    streamer = TextStreamer(asker._tokenizer, skip_prompt=True, skip_special_tokens=True)
    answer = asker.ask("Fact:", max_new_tokens=20, streamer=streamer)
    assert capsys.readouterr().out.strip() == answer.text


def test_questions_that_cannot_be_asked_are_refused() -> None:
    asker = tiny_asker()
    for options in ({"num_beams": 0}, {"max_new_tokens": 0}, {"num_beams": 2, "streamer": object()}):
        with pytest.raises(InputError):
            asker.ask("What?", **options)
    with pytest.raises(InputError, match="question is empty"):
        asker.ask(" ")
    with pytest.raises(InputError, match="ask more briefly"):
        asker.ask("long " * 600)
    with pytest.raises(InputError, match="no index"):
        tiny_asker(facts=None).ask("What?")
    with pytest.raises(ModelError, match="chat template"):
        Asker(tiny_model(), tiny_tokenizer(), None)


def test_the_final_answer_is_the_text_after_the_last_marker_that_begins_a_line() -> None:
    fact = Fact("Answer: x", "p", "o", "<Answer: x> <p> <o> .", (0, 1))
    assert final_answer("Answer: a\nAnswer:  b \nmore", "Answer:") == "b"
    assert final_answer("**Answer**: a\n", "Answer:") == ""
    assert final_answer("**Answer: a**", "Answer:") == final_answer("\n# Answer: a", "Answer:") == "a"
    assert final_answer("so Answer: a", "Answer:") == ""
    assert final_answer("Answer: a. Answer: b\n<c> Answer: d", "Answer:") == "a. Answer: b"
    assert final_answer("no marker", "Answer:") == ""
    assert final_answer(f"Answer: a\nFact: {fact.text}", "Answer:", [fact]) == "", "a fact followed"
    assert final_answer("Answer:\nnext line", "Answer:") == ""


@pytest.mark.parametrize("end", ["> .", "> .\nFact: <x> <y> <z\nAnswer: b> .\n", "> .\nSo", ">", ""])
def test_no_part_of_a_fact_is_the_answer(end: str) -> None:
    """The label has a line end, as in an index that no ingest wrote; without ` .` the fact is the unfinished end.

    An answer counts after the last fact."""
    texts = "<a> <b> <line\nAnswer: x> .", "<x> <y> <z\nAnswer: b> ."
    whole = f"Fact: {texts[0].removesuffix('> .')}{end}"
    facts = [Fact("", "", "", text, (0, 1)) for text in texts if text in whole]
    assert final_answer(whole, "Answer:", facts, "Fact:") == ""
    assert final_answer(f"Answer: mine\n{whole}", "Answer:", facts, "Fact:") == ("" if facts else "mine")
    if facts:
        assert final_answer(f"{whole}\nAnswer: mine", "Answer:", facts, "Fact:") == "mine"


@pytest.mark.long
def test_smollm2_writes_the_fact_that_answers_the_question(smollm2_folder: Path) -> None:
    model, tokenizer = load_model(str(smollm2_folder))
    country = "<Switzerland (country in Central Europe)>"
    facts = [f"{country} <capital> <Bern (capital of Switzerland)>", f"{country} <inception> <1291-08-01>"]
    facts += ["<Ethiopia (country in East Africa)> <capital> <Addis Ababa (capital city of Ethiopia)>"]
    index = LinkedIndex(FactTokenizer.from_transformers(tokenizer), facts)
    answer = Asker(model, tokenizer, index).ask("What is the capital of Switzerland?", max_new_tokens=40)
    assert answer.facts[0].text == f"{facts[0]} ."
    assert "<|" not in answer.text


def test_the_json_of_an_answer() -> None:
    switzerland = {"label": "Switzerland", "id": "Q39", "url": f"{WIKI}Q39"}
    assert json.loads(json.dumps(to_json(answer_document(ANSWER)))) == {
        "question": ANSWER.question,
        "answer": ANSWER.answer,
        "unknown": False,
        "text": ANSWER.text,
        "thought": "",
        "confidence": None,
        "queries": [],
        "facts": [
            {
                "text": BERN.text,
                "subject": switzerland,
                "predicate": {"label": "capital", "id": "P36", "url": f"{WIKI}Property:P36"},
                "object": {"label": "Bern", "id": "Q70", "url": f"{WIKI}Q70"},
                "inverse": False,
                "qualifiers": [],
                "indexes": [],
                "proves": True,
            },
            {
                "text": YEAR.text,
                "subject": switzerland,
                "predicate": {"label": "inception", "id": None, "url": None},
                "object": {"literal": "1291"},
                "inverse": True,
                "qualifiers": [],
                "indexes": [],
                "proves": False,
            },
        ],
        "tokens": 30,
        "forward_passes": 20,
        "seconds": 1.235,
        "finish_reason": "stop",
        "turns_left_out": 0,
    }


def test_in_plain_output_the_answer_comes_first_and_each_fact_once_with_its_pages() -> None:
    repeated = replace(ANSWER, facts=(*ANSWER.facts, BERN), links=(*ANSWER.links, ANSWER.links[0]))
    assert plain(repeated) == (
        "Question: What[2J is it?\n"
        "Answer: Bern\n"
        "<Switzerland> <capital> <Bern> .\n"
        f"  {WIKI}Q39 {WIKI}Property:P36 {WIKI}Q70\n"
        "(besides: 1 other fact tried; --json shows all)\n"
    )


def test_a_missing_answer_is_shown() -> None:
    assert (
        plain(Answer(question="Q?", answer="", text="", facts=(), links=(), tokens=1, forward_passes=1, seconds=0.1))
        == "Question: Q?\nAnswer: (none)\n"
    )


def test_plain_output_says_why_a_text_is_incomplete() -> None:
    cut = Answer(
        question="Q?",
        answer="",
        text="I",
        facts=(),
        links=(),
        tokens=1052,
        forward_passes=9,
        seconds=0.1,
        finish_reason="length",
    )
    note = "(cut off after 1,052 tokens: see --max-new-tokens)"
    assert plain(cut) == f"Question: Q?\n  I\nAnswer: (none)\n{note}\n"
    assert plain(replace(cut, finish_reason="interrupted")).endswith("Answer: (none)\n(interrupted)\n")
