"""Clients that people use, from packages of their own: llm, LlamaIndex, and LangChain with the API of responses."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.doc_pages import DOCS, blocks
from support.server.running import Running, asker_alone, running

pytestmark = pytest.mark.slow

Run = Callable[..., "CompletedProcess[str]"]
QUESTION = "hello Fact:"
URL = "https://www.wikidata.org/wiki/Q1#P1"


@pytest.mark.parametrize("options", [["--no-stream"], []])
def test_llm_prints_the_text_of_the_asker(tiny: Running, run_client: Run, tmp_path: Path, options: list[str]) -> None:
    (yaml,) = blocks(DOCS / "how-to" / "clients.md", "yaml")
    own = yaml.replace("http://127.0.0.1:8000", tiny.url).replace("model_name: demo", "model_name: tiny")
    (tmp_path / "extra-openai-models.yaml").write_text(own)
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
    done = run_client("llm", "-m", "refactx", "-o", "max_tokens", "40", *options, QUESTION, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == asker_alone().ask(QUESTION, max_new_tokens=40).text


def test_the_snippet_of_langchain_prints_facts_as_annotations(run_client: Run, tmp_path: Path) -> None:
    snippet = next(code for code in blocks(DOCS / "how-to" / "clients.md", "py") if "langchain" in code)
    question = "What is the capital of Alaska?"
    assert question in snippet
    with running(name="demo", max_tokens=40) as server:
        own = snippet.replace("http://127.0.0.1:8000", server.url).replace(question, QUESTION)
        done = run_client("python", "-c", own, env={**os.environ, "OPENAI_API_KEY": ""})
    assert done.returncode == 0, done.stderr
    assert "'annotations'" in done.stdout
    assert URL in done.stdout


def test_the_snippet_of_llamaindex_prints_the_answer(run_client: Run) -> None:
    (snippet,) = (code for code in blocks(DOCS / "how-to" / "clients.md", "py") if "llama_index" in code)
    with running(name="demo", max_tokens=40) as server:
        own = snippet.replace("http://127.0.0.1:8000", server.url).replace("What is the capital of Alaska?", QUESTION)
        done = run_client("python", "-c", own, environment=".venv-llamaindex")
    assert done.returncode == 0, done.stderr
    alone = asker_alone().ask(QUESTION, max_new_tokens=40)
    assert done.stdout.strip() == str(alone.answer or "").strip()


STREAM = """
import json, sys
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model="tiny", base_url=sys.argv[1], api_key="none", use_responses_api=True, max_tokens=40)
whole = None
for chunk in chat.stream(sys.argv[2]):
    whole = chunk if whole is None else whole + chunk
texts = [block for block in whole.content if block["type"] == "text"]
found = [one for block in texts for one in block.get("annotations", ())]
print(json.dumps({"text": "".join(block["text"] for block in texts), "urls": [one["url"] for one in found]}))
"""


def test_langchain_streams_the_text_with_its_citations(tiny: Running, run_client: Run) -> None:
    done = run_client("python", "-c", STREAM, f"{tiny.url}/v1", QUESTION)
    assert done.returncode == 0, done.stderr
    alone = asker_alone().ask(QUESTION, max_new_tokens=40)
    found = json.loads(done.stdout)
    assert found["text"] == alone.text
    assert found["urls"] == [URL] * len(alone.facts)
    assert alone.facts
