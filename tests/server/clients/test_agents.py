"""Agents of well-known packages: they call two tools at once by the server's model, and end with its text."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.doc_pages import DOCS, blocks
from support.server.running import Running, running, said
from support.thinking_model import scripted_model
from support.tiny_asker import chat_tokenizer

from bench.agents import AGENTS, program
from refactx.ask.conversation import conversation_ids

pytestmark = pytest.mark.slow

TEMPLATE = (
    "{% if not tools %}{{ '<s>' * 400 }}{% endif %}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}{{ '<s>' + m.role + '\n' }}{% for c in m.tool_calls or [] %}"
    "{% if not loop.first %}{{ '\n' }}{% endif %}{{ '<tool_call>\n{\"name\": \"' + c.function.name }}"
    "{{ '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{% endfor %}"
    "{{ '</s>' }}{% endfor %}{% if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif %}"
)
"""Its prompts have one length, whatever an agent writes of itself and its tools; those without tools are longer."""
CALLS = {"weather": {"city": "Bern"}, "add": {"a": 1, "b": 22}}
SNIPPETS = [code for code in blocks(DOCS / "how-to" / "clients.md", "py") if "weather" in code]


@contextmanager
def calling(*names: str, served_as: str = "tiny") -> Iterator[Running]:
    """A server of a model that calls tools, and then writes facts and letters."""
    tokenizer = chat_tokenizer(TEMPLATE)
    calls = (
        f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(CALLS[name])}}}\n</tool_call>' for name in names
    )
    with scripted_model(tokenizer) as (model, script):
        model.config.max_position_embeddings = 8192
        tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in names]
        script.say(len(conversation_ids(tokenizer, said("How?"), tools=tools)), "\n".join(calls))
        script.ids += [
            script.then,
            *7 * tokenizer.encode("a", add_special_tokens=False),
        ] * 200  # at any place, it ends soon
        with running(model, tokenizer=tokenizer, max_tokens=200, name=served_as) as found:
            yield found


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with calling("weather", "add") as found:
        yield found


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_calls_its_tools_and_ends_with_a_text(
    served: Running, run_client: Callable[..., "CompletedProcess[str]"], agent: str
) -> None:
    done = run_client("python", "-c", program(agent), f"{served.url}/v1", "tiny", "How?")
    assert done.returncode == 0, done.stderr
    calls, text = json.loads(done.stdout.splitlines()[-1])
    assert sorted(calls) == [["add", 1, 22], ["weather", "Bern"]]
    assert isinstance(text, str)
    assert text


@pytest.mark.parametrize("snippet", SNIPPETS[:-1], ids=["langchain", "pydantic_ai", "agents"])
def test_a_snippet_of_the_page_calls_its_tool_and_prints_a_text(
    run_client: Callable[..., "CompletedProcess[str]"], snippet: str
) -> None:
    tool = SNIPPETS[-1].replace("return", "print('asked for', city)\n    return")
    with calling("weather", served_as="demo") as server:
        own = re.sub(r"How warm is it in \w+\?", "How?", snippet.replace("http://127.0.0.1:8000", server.url))
        done = run_client("python", "-c", tool + own)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"asked for Bern\n(.|\n)*\S\n", done.stdout)
