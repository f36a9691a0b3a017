"""Gold queries as PGMR text and back, and the commands of docs/how-to/fine-tune.md."""

import json
import shlex
from pathlib import Path

from click.testing import CliRunner
from support.doc_pages import DOCS, blocks
from support.ingest.graph_twin import Line, written
from support.ingest.tiny import ingest_tiny

from bench.pgmr.__main__ import main
from refactx.cli.main import cli

LINES: list[Line] = [
    *(("label", f"Q{number}", f"Name {number}", "en") for number in range(1, 9)),
    ("label", "P1", "child", "en"),
    *(("claim", f"Q{number}", "P1", f"Q{number + 1}") for number in range(1, 8)),
]


def test_queries_whose_ids_have_names_are_the_same_again(db_url: str, tmp_path: Path) -> None:
    graph, source = tmp_path / "graph.nt", tmp_path / "questions.json"
    graph.write_text("".join(written(line) + "\n" for line in LINES))
    ingest_tiny(db_url, graph)
    golds = [
        {"id": str(n), "question": f"{n}?", "sparql": f"ASK {{ wd:Q{n} wdt:P1 wd:Q{n + 1} }}"} for n in range(1, 9)
    ]
    source.write_text(json.dumps(golds))
    done = CliRunner().invoke(main, [str(source), "--db", db_url], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[:2] == ["block: 7 of 8 are the same query again", "  1: not written"]


def test_the_commands_of_the_recipe_and_their_options_exist() -> None:
    text = "\n".join(blocks(DOCS / "how-to" / "fine-tune.md", "")).replace("\\\n", " ")
    lines = [shlex.split(line)[2:] for line in text.splitlines() if line.startswith("$ refactx ")]
    assert {name for name, *_ in lines} >= {"train", "questions", "eval"}
    for name, *words in lines:
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        while getattr(command, "commands", None) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known
