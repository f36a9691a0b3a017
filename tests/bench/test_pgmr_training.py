"""LoRA on questions with PGMR text: the loss falls, the query alone counts, and merging changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from support.tiny_asker import save_tiny

from bench.pgmr.__main__ import main
from bench.pgmr.lora import Settings, load, merge, train
from bench.pgmr.texts import IGNORED, encoded, padded
from bench.pgmr.writing import write_queries
from refactx.errors import InputError

ROWS = [
    {"question": f"Who is {name}?", "pgmr": f"ASK {{ ?x ?p '{name}' }}", "sparql": "ASK {}"} for name in ("Ann", "Bo")
]
SETTINGS = Settings(rank=4, alpha=8, learning_rate=0.02, epochs=20, batch_size=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"), 400)


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("adapter")
    return out, train(*load(str(folder), "cpu"), ROWS, SETTINGS, out)


def test_the_loss_falls_and_is_logged(trained: tuple[Path, list[dict[str, Any]]]) -> None:
    out, log = trained
    assert [step["step"] for step in log] == list(range(1, 21))
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    assert [json.loads(line) for line in (out / "losses.jsonl").read_text().splitlines()] == log
    assert json.loads((out / "settings.json").read_text())["rows"] == 2


def test_the_merged_model_writes_what_the_adapted_one_does(
    trained: tuple[Path, list[dict[str, Any]]], folder: Path, tmp_path: Path
) -> None:
    from peft import AutoPeftModelForCausalLM

    merge(trained[0], tmp_path)
    merged, tokenizer = load(str(tmp_path), "cpu")
    adapted: Any = AutoPeftModelForCausalLM.from_pretrained(trained[0])
    ids = torch.tensor([encoded(tokenizer, "Who is Ann?", "ASK").prompt])
    with torch.inference_mode():
        logits = merged(input_ids=ids).logits
        torch.testing.assert_close(logits, adapted(input_ids=ids).logits, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(logits, load(str(folder), "cpu")[0](input_ids=ids).logits, atol=1e-2)


def test_the_loss_is_of_the_query_and_its_end_alone(folder: Path) -> None:
    tokenizer = load(str(folder), "cpu")[1]
    rows = [encoded(tokenizer, row["question"], row["pgmr"]) for row in ROWS]
    batch = padded(rows, tokenizer.pad_token_id)
    for row, ids, labels, mask in zip(rows, batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
        assert [label for label in labels.tolist() if label != IGNORED] == row.query
        assert ids[: len(row)].tolist() == [*row.prompt, *row.query]
        assert int(mask.sum()) == len(row)
        assert row.query[-1] == tokenizer.eos_token_id


def test_a_batch_writes_what_each_question_does_alone(folder: Path) -> None:
    model, tokenizer = load(str(folder), "cpu")
    questions = ["Who?", "Who is the mother of Ann?", "A"]
    together = list(write_queries(model, tokenizer, questions, batch_size=3, max_new_tokens=12))
    alone = [text for q in questions for text in write_queries(model, tokenizer, [q], batch_size=1, max_new_tokens=12)]
    assert together == alone


def test_the_commands_train_and_write(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def run(*arguments: object) -> str:
        done = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    options = ["--model", folder, "--rank", 2, "--epochs", 2, "--minutes", 5]
    assert run("train", data, *options, "--out", tmp_path / "adapter").startswith("2 steps in ")
    settings = json.loads((tmp_path / "adapter" / "settings.json").read_text())
    assert (settings["rank"], settings["alpha"], settings["dropout"], settings["learning_rate"]) == (2, 128, 0.05, 1e-4)
    run("merge", tmp_path / "adapter", "--out", tmp_path / "merged")
    run(
        "write",
        data,
        "--model",
        tmp_path / "merged",
        "--max-new-tokens",
        4,
        "--limit",
        1,
        "--out",
        tmp_path / "out.jsonl",
    )
    (row,) = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert row["question"] == ROWS[0]["question"]
    assert isinstance(row["written"], str)


def test_rows_that_are_all_too_long_are_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="all 2 rows are longer than 3 tokens"):
        train(*load(str(folder), "cpu"), ROWS, Settings(max_length=3), tmp_path)
