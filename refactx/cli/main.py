"""The command line: a thin layer over the library.

Results go to standard output, progress and logs to standard error. A user's mistake is reported in one line, with exit
code 2. Each command imports what it needs, since some modules are slow to import.
"""

import atexit
import gc
import logging
import os
import sys
from typing import NoReturn

import click

from refactx.cli.agent import agent
from refactx.cli.ask import ask
from refactx.cli.calibrate import calibrate
from refactx.cli.eval import eval_
from refactx.cli.facts import facts
from refactx.cli.help import OrderedGroup
from refactx.cli.index import index
from refactx.cli.ingest import forget, ingest
from refactx.cli.mcp import mcp
from refactx.cli.memory import memory
from refactx.cli.pack import pack
from refactx.cli.query import query
from refactx.cli.serve import serve
from refactx.cli.sparql import sparql
from refactx.cli.store import store
from refactx.cli.translate import translate
from refactx.cli.validate import validate
from refactx.errors import RefactxError, without_password

FIRST_STEPS = """\
Language models that write facts of a knowledge base, and only facts that exist.

  make demo                              in a clone: a model, an index, answers
  refactx ingest FILE --tokenizer MODEL  build an index of Wikidata or own facts
  refactx ask "QUESTION" --model MODEL   answer with facts of the index
  refactx --help                         list all commands
  refactx COMMAND --help                 list the options of one

MODEL is a Hugging Face id, a folder or a GGUF file, or demo (a small model).
Documentation: README.md and docs/ in the repository."""


@click.group(
    cls=OrderedGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="refactx", prog_name="refactx")
@click.pass_context
def cli(context: click.Context) -> None:
    """Language models that write facts from a knowledge base, and only facts that exist."""
    if context.invoked_subcommand is None:
        click.echo(FIRST_STEPS)


COMMANDS = (
    ingest, ask, serve, query, sparql, translate, validate, agent, pack, facts, index,
    memory, store, forget, mcp, eval_, calibrate,
)  # fmt: skip
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line. Report an error of refactx or of click in one line on standard error; exit code 2."""
    # By default, OpenMP's threads spin while they wait, which takes a third of the time on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    atexit.register(_freeze_all)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # refactx reports lost connections itself
    try:
        sys.exit(cli(standalone_mode=False))
    except RefactxError as error:
        _complain(str(error))
    except click.ClickException as error:  # a wrong option, for example
        context = getattr(error, "ctx", None)
        _complain(f"{error.format_message()} (see `{context.command_path if context else 'refactx'} --help`)")
    except click.Abort:
        sys.exit(130)  # Ctrl-C


def _freeze_all() -> None:
    """Spare the interpreter a garbage collection of all modules at exit, which takes a tenth of a second."""
    if "duckdb" not in sys.modules:  # its binding (nanobind) reports objects that are not collected
        gc.freeze()


def _complain(message: str) -> NoReturn:
    click.echo(f"refactx: {without_password(' '.join(message.split()))}", err=True)
    sys.exit(2)
