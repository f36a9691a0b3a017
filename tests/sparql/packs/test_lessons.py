"""Lessons in writing queries: what is read and written, that the same is learned in each text, and models that learn it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from refactx.ask.chat_text import ChatModel
from refactx.ask.teach.lessons import Lessons, TrainingOptions
from refactx.engines.language_models import load_language_model
from refactx.errors import InputError
from refactx.models.loading import load_chat_tokenizer, save_merged
from refactx.models.options import EngineOptions
from refactx.sparql.packs.lessons import FORMS, GoldQuery, QueryTeacher, QueryText
from refactx.sparql.packs.prompt import load_sparql_prompt, query_in
from refactx.sparql.placeholders.entry import MemoryEntry
from refactx.sparql.placeholders.text import read_pgmr

pytest.importorskip("peft")
pytest.importorskip("accelerate")
from refactx.ask.teach.training import Training, _arguments, collate_pairs

NAMES = {"Q1": "Ann (poet)", "Q2": "Bob", "P3": "child", "P4": "spouse", "Q5": "it is [ENT] x [/ENT]"}
GOLDS = [
    GoldQuery(1, "Who is the child of Ann?", "SELECT ?x { wd:Q1 wdt:P3 ?x }", "train"),
    GoldQuery(2, "Has Bob a spouse?", "PREFIX wd: <http://www.wikidata.org/entity/> ASK { wd:Q2 wdt:P4 ?x }", "train"),
    GoldQuery(3, "Whose is it?", "SELECT ?x { wd:Q9 wdt:P3 ?x }", "train"),
    GoldQuery(4, "Whose is that?", "SELECT ?x { wd:Q5 wdt:P3 ?x }", "train"),
    GoldQuery(5, "Who is the child of Ann?", "SELECT ?x { wd:Q1 wdt:P3 ?x }", "aside"),
]
OPTIONS = TrainingOptions(epochs=160, learning_rate=0.01, rank=0, batch_size=2, device="cpu", max_length=500)
GIVEN = [MemoryEntry("Q1", "Ann", "poet", kind="entity")]
PROMPT = load_sparql_prompt()


def word_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that has a token for each letter, and none for braces, as that of T5."""
    signs = [chr(code) for code in range(32, 127) if chr(code) not in "{}"] + ["\n"]
    vocabulary = {sign: at for at, sign in enumerate(["<pad>", "</s>", "<unk>", *signs])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("t5")
    word_tokenizer().save_pretrained(path)
    config = T5Config(
        vocab_size=110, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, dropout_rate=0.0,
        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(path)
    return path


def few_checkpoints(options: TrainingOptions, folder: Path, each: int, label: str) -> Any:
    """The arguments of a run with an evaluation, and a checkpoint, every 20 steps."""
    return _arguments(options, folder, 20, label)


def teaching(text: QueryText, options: TrainingOptions = OPTIONS) -> Callable[[Any, int], Lessons]:
    def known(ids: Any) -> dict[str, str]:
        return {id_: NAMES[id_] for id_ in ids if id_ in NAMES}

    retrieve = (lambda question, count: GIVEN) if text == "retrieved" else None
    return lambda tokenizer, end: QueryTeacher(
        text, PROMPT, known, tokenizer, end=end, options=options, retrieve=retrieve
    ).lessons(GOLDS)


@pytest.mark.parametrize("text", FORMS)
def test_a_lesson_reads_the_conversation_and_writes_the_query(text: QueryText, folder: Path) -> None:
    tokenizer = load_chat_tokenizer(str(folder))
    lessons = teaching(text)(tokenizer, 1)
    assert len(lessons.train) == 2
    assert sorted(lessons.left_out.values()) == [[3], [4]], "the same questions, whatever the text"
    for lesson in lessons.train:
        ids, begin = lesson.ids.tolist(), int(lesson.places[0])
        assert lesson.places.tolist() == list(range(begin, len(ids)))
        assert ids[-1] == 1
        asked, written = tokenizer.decode(ids[:begin]), tokenizer.decode(ids[begin:-1])
        gold = next(one for one in GOLDS if one.question in asked)
        messages = PROMPT.messages(FORMS[text], gold.question, GIVEN if text == "retrieved" else ())
        assert messages[0]["content"] in asked
        assert asked.rstrip("\n </s>").endswith(messages[-1]["content"])
        plain = gold.sparql.partition("> ")[2] or gold.sparql
        if text == "placeholders":
            assert {one.label for one in read_pgmr(written).mentions.values()} in ({"Ann", "child"}, {"Bob", "spouse"})
        else:
            assert written == plain


def test_pairs_are_padded_where_nothing_is_read_or_learned(folder: Path) -> None:
    lessons = teaching("ids")(load_chat_tokenizer(str(folder)), 1).train
    batch = collate_pairs(lessons, 0)
    for row, lesson in enumerate(lessons):
        read = [id_ for id_, here in zip(batch["input_ids"][row], batch["attention_mask"][row], strict=True) if here]
        assert [*read, *(one for one in batch["labels"][row] if one != -100)] == lesson.ids.tolist()


@pytest.mark.long
def test_a_tiny_t5_learns_queries_by_heart_with_signs_that_it_lacked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactx.ask.teach.training.EVALUATIONS_WITHOUT_GAIN", 1000)
    monkeypatch.setattr("refactx.ask.teach.training._arguments", few_checkpoints)
    out = tmp_path / "model"
    report = Training(
        model=str(folder), index="none", teach=teaching("ids"), ids=0, card="# Queries", out=out,
        options=OPTIONS, source={"file": "gold.jsonl", "sha256": "0", "prompt": None}, say=len,
    ).run()  # fmt: skip
    assert report["loss"] < 0.1 * report["loss_before"]
    model = ChatModel(load_language_model(str(out)))
    for gold in GOLDS[:2]:
        messages = replace(PROMPT, examples=()).messages("ids", gold.question)
        assert query_in(model.generate(messages, 60)) == (gold.sparql.partition("> ")[2] or gold.sparql)


def test_an_adapter_of_a_t5_is_merged_into_it(folder: Path, tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, rank=2, device="cpu", max_length=500)
    with pytest.raises(InputError, match=r"has no \{ \}, which queries need: train all weights, --rank 0"):
        teaching("ids", options)(load_chat_tokenizer(str(folder)), 1)
    whole = tmp_path / "whole"
    T5ForConditionalGeneration.from_pretrained(folder).save_pretrained(whole)
    tokenizer = word_tokenizer()
    tokenizer.add_tokens(["{", "}"])
    tokenizer.save_pretrained(whole)
    Training(
        model=str(whole), index="none", teach=teaching("ids", options), ids=0, card="# Queries", out=tmp_path / "lora",
        options=options, source={"file": "gold.jsonl", "sha256": "0", "prompt": None}, say=len,
    ).run()  # fmt: skip
    assert json.loads((tmp_path / "lora" / "adapter_config.json").read_text())["task_type"] == "SEQ_2_SEQ_LM"
    save_merged(str(whole), tmp_path / "lora", tmp_path / "merged")
    adapted, merged = (
        ChatModel(load_language_model(str(name), options=options)).generate([{"role": "user", "content": "Who?"}], 20)
        for name, options in ((whole, EngineOptions(adapter=str(tmp_path / "lora"))), (tmp_path / "merged", None))
    )
    assert adapted == merged
