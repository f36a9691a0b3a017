"""The agents of docs/how-to/remember.md add, correct and forget facts by MCP, as a script says in a model's place."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.doc_pages import DOCS, blocks
from support.ingest.tiny import ingest_tiny

import refactx

pytestmark = pytest.mark.slow

PAGE = DOCS / "how-to" / "remember.md"
PYDANTIC = """
import json, sys
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

calls = json.loads(sys.argv[1])

def follow(messages, info):
    results = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if len(results) == len(calls):
        return ModelResponse(parts=[TextPart(json.dumps(results))])
    return ModelResponse(parts=[ToolCallPart(*calls[len(results)])])

model = FunctionModel(follow)
"""
AGENTS = """
import json, sys
from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

set_tracing_disabled(True)
calls = json.loads(sys.argv[1])

class Follower(Model):
    async def get_response(self, system_instructions, input, *rest, **more):
        items = input if isinstance(input, list) else []
        results = [one["output"] for one in items if one.get("type") == "function_call_output"]
        if len(results) == len(calls):
            part = ResponseOutputText(type="output_text", text=json.dumps(results), annotations=[])
            said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])
            return ModelResponse(output=[said], usage=Usage(), response_id=None)
        name, arguments = calls[len(results)]
        call = ResponseFunctionToolCall(
            type="function_call", call_id=str(len(results)), name=name, arguments=json.dumps(arguments)
        )
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    def stream_response(self, *rest, **more):
        raise NotImplementedError

model = Follower()
"""
SDKS = {"pydantic_ai": PYDANTIC, "agents": AGENTS}
CALLS = [
    ("add_fact", {"fact": "<Cid> <p> <b1>"}),  # which contradicts <b3>
    ("correct_fact", {"old": "<Cid> <p> <b3>", "fact": "<Cid> <p> <b1>"}),
    ("add_fact", {"fact": "<Dan> <p> <b2>", "new": ["Dan"]}),
    ("add_fact", {"fact": "<Eve> <p> <b2>", "new": ["Eve"]}),
    ("forget_fact", {"fact": "<Dan> <p> <b2>"}),
]


@pytest.mark.parametrize("sdk", SDKS)
def test_an_agent_adds_corrects_and_forgets_facts(
    run_client: Callable[..., "CompletedProcess[str]"], db_url: str, tmp_path: Path, sdk: str
) -> None:
    for name, facts in (("wikidata", ["<Ann> <p> <b1>", "<Bo> <p> <b2>"]), ("mine", ["<Cid> <p> <b3>"])):
        file = tmp_path / f"{name}.txt"
        file.write_text("".join(f"{fact} .\n" for fact in facts))
        ingest_tiny(db_url, file, name)
    (snippet,) = (code for code in blocks(PAGE, "py") if f"import {sdk}" in code or f"from {sdk}" in code)
    home = f"REFACTX_HOME={tmp_path / 'home'}"
    started = json.dumps([home, sys.executable, "-m", "refactx", "mcp", "--db", db_url])[:-1]
    own = snippet.replace('"refactx"', '"env"').replace('["mcp"', started)
    assert own.count(home) == 1
    done = run_client("python", "-c", SDKS[sdk] + own, json.dumps(CALLS), timeout=600)
    assert done.returncode == 0, done.stderr
    results = [str(one) for one in json.loads(done.stdout.splitlines()[-1])]
    assert len(results) == len(CALLS)
    assert "<Cid> <p> <b3>" in results[0]
    with refactx.open_index("mine", db_url) as index:
        assert {fact.text for fact in index.all_facts()} == {"<Cid> <p> <b1> .", "<Eve> <p> <b2> ."}
