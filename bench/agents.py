"""`python -m bench.agents URL MODEL`: agents of five packages, with two tools, by the model of a running server.

How many of the calls are right that a question needs, and how many answers have the results of the tools. The packages
are those of `.venv-clients`, which `make test-serve` makes.
"""

import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import click

HEAD = """
import json, sys
(url, name, question), calls = sys.argv[1:], []

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
messages = [{"role": "user", "content": question}]
while True:
    said = client.chat.completions.create(model=name, messages=messages, tools=tools, max_tokens=200).choices[0].message
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
chat = ChatOpenAI(model=name, base_url=url, api_key="none", max_tokens=200)
done = create_agent(chat, [weather, add], system_prompt="Be brief.").invoke({"messages": [("user", question)]})
text = done["messages"][-1].content
""",
    "langchain by responses, streamed": """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
chat = ChatOpenAI(model=name, base_url=url, api_key="none", max_tokens=200, use_responses_api=True, streaming=True)
done = create_agent(chat, [weather, add]).invoke({"messages": [("user", question)]})
text = done["messages"][-1].text
""",
    "pydantic_ai": """
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
model = OpenAIChatModel(name, provider=OpenAIProvider(base_url=url, api_key="none"))
agent = Agent(model, tools=[weather, add], instructions="Be brief.", model_settings={"max_tokens": 200})
text = agent.run_sync(question).output
""",
    "openai agents": """
import agents, openai
agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=url, api_key="none")
tools = [agents.function_tool(weather), agents.function_tool(add)]
model = agents.OpenAIResponsesModel(model=name, openai_client=client)
agent = agents.Agent(name="a", instructions="Be brief.", model=model, tools=tools)
text = agents.Runner.run_sync(agent, question).final_output
""",
    "llm": """
from llm.default_plugins.openai_models import Chat
model = Chat("refactx", model_name=name, api_base=url, supports_tools=True)
model.key = "none"
text = model.chain(question, tools=[weather, add]).text()
""",
}
TASKS: dict[str, tuple[list[list[Any]], list[str]]] = {
    "What is the weather in Bern?": ([["weather", "Bern"]], ["5"]),
    "How much is 17 plus 25?": ([["add", 17, 25]], ["42"]),
    "What is the weather in Oslo, and how much is 120 plus 35?": (
        [["weather", "Oslo"], ["add", 120, 35]],
        ["5", "155"],
    ),
    "What is the weather in Paris and in Rome?": ([["weather", "Paris"], ["weather", "Rome"]], ["5"]),
}
"""Questions with the calls that they need, and what their answers have."""

LONGEST = 600
"""The seconds after which a loop does not end."""


def program(agent: str) -> str:
    """Return the Python code of an agent. Arguments: URL, model, question; its last line: JSON of calls and text."""
    return f"{HEAD}{AGENTS[agent]}print(json.dumps([calls, text]))"


def right_calls(calls: list[list[Any]], needed: list[list[Any]]) -> float:
    """Return the share of right calls, of those needed or made, whichever are more.

    >>> right_calls([["add", 1, 2], ["add", 2, 3]], [["add", 1, 2]])
    0.5
    """
    made, wanted = Counter(map(json.dumps, calls)), Counter(map(json.dumps, needed))
    return (made & wanted).total() / max(len(calls), len(needed))


@click.command()
@click.argument("url")
@click.argument("model")
@click.option("--tasks", default=len(TASKS), show_default=True, help="How many of the questions, from the first.")
@click.option("--python", default=".venv-clients/bin/python", type=click.Path(exists=True, path_type=Path))
def main(url: str, model: str, tasks: int, python: Path) -> None:
    """Ask MODEL of the server at URL (http://localhost:8000/v1) by each agent, and print each agent's calls and text."""
    shares, ended, right = [], 0, 0
    for agent in AGENTS:
        for question, (needed, results) in list(TASKS.items())[:tasks]:
            started = time.perf_counter()
            command = [str(python), "-c", program(agent), url, model, question]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST)
                calls, text = json.loads(done.stdout.splitlines()[-1])
                ended += 1
                right += all(re.search(rf"\b{result}\b", text or "") is not None for result in results)
            except subprocess.SubprocessError as error:
                calls, text = [], str(error.stderr or error)[-300:]
            shares.append(right_calls(calls, needed))
            click.echo(f"{shares[-1]:.2f} {time.perf_counter() - started:4.0f} s {agent}: {question} {calls} {text!r}")
    click.echo(f"right calls {sum(shares) / len(shares):.2f}, ended {ended}, results told {right}, of {len(shares)}")


if __name__ == "__main__":
    main()
