"""Commands with a GGUF file: run by llama.cpp, without torch; mistakes are one clear line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.command import complains
from support.llamacpp.tiny_gguf import write_tiny_gguf

from refactx.cli.main import cli

pytest.importorskip("llama_cpp")

SHORT = ("--max-new-tokens", 20)
FACTS = {"<Ann> <p> <b> .", "<Ann> <p> <c> .", "<Bé> <p> <in> ."}
COUNT_TORCH = """
import sys
from refactx.cli.main import main
sys.argv = ["refactx", *sys.argv[1:]]
try:
    main()
finally:
    print(sorted({"torch", "transformers"} & sys.modules.keys()), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose conversations end in the question."""
    return write_tiny_gguf(
        tmp_path_factory.mktemp("gguf") / "tiny.gguf", template="{{ messages[-1]['content'] + ' ' }}"
    )


def in_process(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def answers(done: Result) -> list[dict[str, object]]:
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_gguf_file_runs_without_torch(gguf: Path, url: str) -> None:
    command = [sys.executable, "-c", COUNT_TORCH, "ask", "Fact:", "--model", gguf, "--db", url, "--json", *SHORT]
    done = subprocess.run(map(str, command), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert json.loads(done.stdout)["tokens"] == 20


@pytest.mark.parametrize("options", [(), ("--no-channel",), ("--fact-beams", 2)])
def test_questions_are_answered_with_facts_one_by_one_and_at_once(
    gguf: Path, url: str, tmp_path: Path, options: tuple[object]
) -> None:
    questions = ["Fact:", "What? Fact:", "Who is Ann? Fact: <"]
    (tmp_path / "questions.txt").write_text("\n".join(questions))
    common = ("--model", gguf, "--db", url, "--json", "--max-new-tokens", 90, *options)
    alone = [answers(in_process("ask", question, *common))[0] for question in questions]
    together = answers(in_process("ask", "--file", tmp_path / "questions.txt", "--batch-size", 3, *common))
    assert [one["question"] for one in together] == questions
    for some in (alone, together):  # (their texts may differ: llama.cpp rounds keys and values to float16)
        facts = [fact["text"] for one in some for fact in one["facts"]]  # type: ignore[attr-defined]
        assert len(facts) >= 3
        assert set(facts) <= FACTS


def test_free_text_and_samples(gguf: Path, url: str) -> None:
    common = ("ask", "Fact:", "--model", gguf, "--json", *SHORT)
    [free] = answers(in_process(*common, "--free"))
    assert free["facts"] == []
    sampled = [
        answers(in_process(*common, "--db", url, "--no-channel", "--temperature", 3, "--seed", seed))[0]
        for seed in (1, 1, 2)
    ]
    assert sampled[0]["text"] == sampled[1]["text"] != sampled[2]["text"]


def test_transformers_can_be_asked_for(gguf: Path) -> None:
    common = ("ask", "Fact:", "--model", gguf, "--free", "--json", "--max-new-tokens", 10)
    [one], [other] = answers(in_process(*common)), answers(in_process(*common, "--engine", "transformers"))
    assert one["tokens"] == other["tokens"] == 10


@pytest.mark.long
def test_mistakes_are_one_clear_line(gguf: Path, url: str, tmp_path: Path, tiny_folder: Path) -> None:
    half, text = tmp_path / "half.gguf", tmp_path / "text.gguf"
    half.write_bytes(gguf.read_bytes()[: gguf.stat().st_size // 2])
    text.write_text("no model")
    for arguments, said in (
        (("--model", half), "llama.cpp cannot load"),
        (("--model", text), "is not a GGUF file"),
        (("--model", tmp_path / "none.gguf"), "there is no folder or file"),
        (("--model", tiny_folder, "--engine", "llamacpp"), "llama.cpp runs GGUF files"),
        (("--model", tiny_folder, "--threads", 2), "--threads of the engine llamacpp given"),
        (("--model", gguf, "--engine", "llamacpp", "--dtype", "float32"), "--dtype of the engine transformers given"),
        (
            ("--model", gguf, "--engine", "llamacpp", "--num-beams", 2),
            "beams over the whole text need the engine Transformers",
        ),
        (("--model", gguf, "--context", 1024), "the model takes at most 512"),
        (("--model", gguf, "--context", 256), "256 is not in the range"),
    ):
        question = "long " * 200 if "--context" in arguments else "Fact:"
        assert said in complains("ask", question, "--db", url, *arguments), arguments
