"""Agents of well-known packages: they call two tools at once by the server's model, and end with its text."""

import json
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest
from support.server.running import Running, running, said
from support.thinking_model import scripted_model
from support.tiny_asker import chat_tokenizer

from refactx.ask.chat import conversation_ids

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
HEAD = """
import json, sys
url, calls = sys.argv[1], []

def weather(city: str) -> str:
    "Tell the weather. city: its name."
    calls.append(["weather", city])
    return "5 degrees"

def add(a: int, b: int) -> int:
    "Add two numbers."
    calls.append(["add", a, b])
    return a + b
"""
AGENTS = {
    "openai": """
import openai
client = openai.OpenAI(base_url=url, api_key="none")
def described(name, **types):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in types.items()}, "required": [*types]}
    return {"type": "function", "function": {"name": name, "parameters": schema}}
tools = [described("weather", city="string"), described("add", a="integer", b="integer")]
messages = [{"role": "user", "content": "How?"}]
while True:
    said = client.chat.completions.create(model="tiny", messages=messages, tools=tools, max_tokens=200).choices[0].message
    messages.append(said)
    if not said.tool_calls:
        break
    for call in said.tool_calls:
        result = globals()[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
text = said.content
""",
    "langchain": """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model="tiny", base_url=url, api_key="none", max_tokens=200)
done = create_agent(chat, [weather, add], system_prompt="Be brief.").invoke({"messages": [("user", "How?")]})
text = done["messages"][-1].content
""",
    "langchain by responses, streamed": """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model="tiny", base_url=url, api_key="none", max_tokens=200, use_responses_api=True, streaming=True)
done = create_agent(chat, [weather, add]).invoke({"messages": [("user", "How?")]})
text = done["messages"][-1].text
""",
    "pydantic_ai": """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
model = OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=url, api_key="none"))
agent = Agent(model, tools=[weather, add], instructions="Be brief.", model_settings={"max_tokens": 200})
text = agent.run_sync("How?").output
""",
    "openai agents": """
import agents, openai
agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=url, api_key="none")
tools = [agents.function_tool(weather), agents.function_tool(add)]
model = agents.OpenAIResponsesModel(model="tiny", openai_client=client)
agent = agents.Agent(name="a", instructions="Be brief.", model=model, tools=tools)
text = agents.Runner.run_sync(agent, "How?").final_output
""",
    "llm": """
from llm.default_plugins.openai_models import Chat
model = Chat("refactx", model_name="tiny", api_base=url, supports_tools=True)
model.key = "none"
text = model.chain("How?", tools=[weather, add]).text()
""",
}


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
    code = f"{HEAD}{AGENTS[agent]}print(json.dumps([calls, text]))"
    done = run_client("python", "-c", code, f"{served.url}/v1")
    assert done.returncode == 0, done.stderr
    calls, text = json.loads(done.stdout.splitlines()[-1])
    assert sorted(calls) == [["add", 1, 22], ["weather", "Bern"]]
    assert isinstance(text, str)
    assert text
