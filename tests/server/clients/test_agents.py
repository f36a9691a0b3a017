"""Agents of well-known packages: they call two tools at once by the server's model, and end with its text."""

import json
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest
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
CALLS = "\n".join(
    f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(given)}}}\n</tool_call>'
    for name, given in (("weather", {"city": "Bern"}), ("add", {"a": 1, "b": 22}))
)


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """A server of a model that calls two tools, and then writes facts and letters."""
    tokenizer = chat_tokenizer(TEMPLATE)
    with scripted_model(tokenizer) as (model, script):
        model.config.max_position_embeddings = 8192
        tools: list[Any] = [{"type": "function", "function": {"name": name}} for name in ("weather", "add")]
        script.say(len(conversation_ids(tokenizer, said("How?"), tools=tools)), CALLS)
        script.ids += [
            script.then,
            *7 * tokenizer.encode("a", add_special_tokens=False),
        ] * 200  # at any place, it ends soon
        with running(model, tokenizer=tokenizer, max_tokens=200) as found:
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
