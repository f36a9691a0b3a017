"""The snippets of the page about clients, as they stand, against a server of the tiny model."""

import pytest
from support.doc_pages import DOCS, blocks
from support.server.running import asker_alone, running

PAGE = DOCS / "how-to" / "clients.md"


@pytest.mark.long
def test_the_snippets_of_openais_client_run(capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(blocks(PAGE, "python"))
    question = "What is the capital of Alaska?"
    assert code.count(question) == 3
    alone = asker_alone().ask(f"{question} Fact:", max_new_tokens=200)
    assert alone.facts
    with running(name="demo") as server:
        own = code.replace("http://127.0.0.1:8000", server.url).replace(question, f"{question} Fact:")
        exec(compile(own, PAGE.name, "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith(f"{alone.text}\n{alone.facts[0].subject}: ")
    assert "  [https://www.wikidata.org/wiki/Q1#P1]" in printed
