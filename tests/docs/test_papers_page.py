"""Every command of the list in docs/results/papers.md runs, on small input, where it takes no more than the tiny model."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.doc_pages import DOCS
from support.ingest.tiny import ingest_tiny
from support.tiny_asker import save_tiny

from refactx.cli.main import cli

PAGE = (DOCS / "results/papers.md").read_text(encoding="utf-8").partition("## Every row")[2]
ROWS = re.findall(r"^\| (\d+) \| [^|]+ \| (yes|partly|no)\b(.*)\|$", PAGE, re.M)
TOO_LARGE = {
    "refactx ingest FILE --inverse --tokenizer MODEL --index bank": "the tests of ingest run it",
    "refactx train QUESTIONS": "it takes minutes, and hundreds of questions",
    "refactx train QUESTIONS --task sparql --text placeholders": "the same",
    "refactx calibrate --run RUN": "it takes 20 names that a model wrote otherwise; the tests of such runs run it",
    "refactx eval QUESTIONS --sparql placeholders": "it needs a memory",
    "refactx eval QUESTIONS --sparql placeholders --thresholds 0.5,0.7": "the same",
    "refactx eval QUESTIONS --sparql rag-placeholders": "the same",
    "refactx eval QUESTIONS --sparql ids --shots 0 --adapter adapter": "its facts have no ids",
    "refactx eval QUESTIONS --sparql harvest": "the same",
    "refactx eval QUESTIONS --sparql rag --shots 25 --train FILE": "the same",
    "refactx eval --pack liita --pattern TRANSLATION --modes prompt": "the prompt is longer than the tiny model takes",
    'refactx translate "Quanti?" --pack liita --model-url URL': "the tests of packs run it, on a server",
    'refactx translate "Quanti?" --pack liita --stream': "the same",
    "refactx mcp --pack liita": "it serves until its input ends; the tests of mcp run it",
}
NEEDS_MODEL = ("eval QUESTIONS", "ask ")


def commands() -> Iterator[str]:
    for _, _, text in ROWS:
        yield from re.findall(r"`((?:refactx|python -m) [^`]*)`", text)


def test_the_rows_are_counted() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 40))
    count = Counter(verdict for _, verdict, _ in ROWS)
    summary = " ".join(PAGE.split())
    assert f"{count['yes']} are yes, {count['partly']} partly and {count['no']} no." in summary
    assert TOO_LARGE.keys() <= set(commands())
    for _, verdict, text in ROWS:
        assert verdict != "yes" or "`" in text or "above" in text or "report of" in text, "a yes has a command"


def test_commands_of_a_clone_are_there() -> None:
    names = [command.split()[2] for command in commands() if command.startswith("python -m")]
    assert names
    assert all(find_spec(name) for name in names)


@pytest.mark.long
def test_the_commands_run(db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, asked, said = tmp_path / "facts.txt", tmp_path / "q.jsonl", tmp_path / "f.jsonl"
    facts.write_text("<Ann> <p> <b> .\n<Ann> <p> <c> .\n")
    lines = [{"id": f"q{n}", "question": "Fact:", "questions": {"en": "Fact:"}, "answers": ["b"]} for n in range(3)]
    lines = [line | {"sparql": f"SELECT ?x {{ wd:Q{n} wdt:P1 ?x }}"} for n, line in enumerate(lines, 1)]
    asked.write_text("".join(json.dumps(line | {"kind": "ab"[n % 2]}) + "\n" for n, line in enumerate(lines)))
    said.write_text(json.dumps({"question": "Who?", "answer": "Answer: Ann", "right": True}) + "\n")
    ingest_tiny(db_url, facts)
    model = str(save_tiny(tmp_path / "tiny"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFACTX_DB", db_url)
    values = {
        "QUESTIONS": str(asked), "MODEL": model, "INDEX": "default", "RUN": "run0", "FILE": "f.svg", "FEEDBACK": str(said),
        "4000": "40", "200": "2",
    }  # fmt: skip
    made = 0

    def run(command: str) -> None:
        nonlocal made
        words = [values.get(word, word) for word in shlex.split(command)[1:]]
        if command.removeprefix("refactx ").startswith(NEEDS_MODEL):
            words += ["--model", model, "--max-new-tokens", "20"]
            if words[0] == "eval":
                words += [
                    "--out",
                    f"run{made}",
                    *([] if "--prompt" in words else ["--prompt", str(tmp_path / "p.toml")]),
                ]
                made += 1
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, (words, done.output, done.exception)
        assert done.stdout.strip(), words

    (tmp_path / "p.toml").write_text('system = "a"\n')
    asks = [
        command for command in dict.fromkeys(commands()) if command.startswith("refactx") and command not in TOO_LARGE
    ]
    asks.sort(key=lambda command: "eval compare" in command)
    asks.sort(key=lambda command: "--free" not in command)
    for command in asks:
        run(command)
    assert made >= 4
    report = json.loads((tmp_path / "run0" / "report.json").read_text())
    assert {"em_accuracy", "em_precision"} <= report["runs"]["free"]["overall"].keys()
    assert (tmp_path / "f.svg").is_file()
