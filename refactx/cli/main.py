"""The command line: a thin layer over the library.

Results go to standard output, progress and logs to standard error. A user's mistake is reported in one line, with exit
code 2. A command is imported when it is run, and imports what it needs then, since some modules are slow to import.
"""

import atexit
import errno
import gc
import io
import logging
import os
import sys
from typing import NoReturn

import click

from refactx.cli.help import LazyGroup
from refactx.errors import InputError, RefactxError, brief, without_password
from refactx.fact import visible
from refactx.lazy import clear_imports

FIRST_STEPS = """\
Language models that write facts of a knowledge base, and only facts that exist.

  refactx demo                           a small model, an index, three answers
  refactx ingest FILE --tokenizer MODEL  build an index of Wikidata or own facts
  refactx ask "QUESTION" --model MODEL   answer with facts of the index
  refactx --help                         list all commands
  refactx COMMAND --help                 list the options of one

MODEL is a Hugging Face id, a folder or a GGUF file, or demo (a small model).
Documentation: README.md and docs/ in the repository."""

COMMANDS = {  # where each command is, and its line in the list, as its own help begins
    "demo": ("demo:demo", "Build an index of a sample of Wikidata, and ask a small model three questions."),
    "ingest": ("ingest:ingest", "Build an index from files."),
    "ask": ("ask:ask", "Answer questions with facts of an index as proof."),
    "serve": ("serve:serve", "Serve answers with facts over HTTP, with OpenAI's API."),
    "check": ("check:check", "Check the claims of a text by the facts of an index."),
    "extract": ("extract:extract", "Read the facts that documents state, by names and predicates of an index."),
    "query": ("query:query", "Answer questions about sets of facts: how many, which ones, whether, the highest."),
    "sparql": ("sparql:sparql", "Run a SPARQL query, or convert SPARQL to text with names in place of URIs."),
    "translate": ("translate:translate", "Write the SPARQL of questions for the endpoint of a domain pack."),
    "validate": ("validate:validate", "Check a SPARQL query for the endpoint of a domain pack."),
    "agent": ("translate:agent", "Show how questions are translated."),
    "pack": ("pack:pack", "Show, check and make domain packs: what translating needs to know of an endpoint."),
    "facts": ("facts:facts", "Show how facts continue after PREFIX, all facts, or the predicates."),
    "index": ("index:index", "List, check, share and maintain indexes."),
    "memory": ("memory:memory", "Remember the names of an index by embeddings, so that words are resolved to ids."),
    "store": ("store:store", "Keep the facts of an index as RDF triples, for SPARQL."),
    "update": ("ingest:update", "Replace what an index has about the things in files, and add new things."),
    "forget": ("ingest:forget", "Remove the facts of files from an index, or everything about a thing."),
    "remember": ("remember:remember", 'Add a fact to an index, such as `"<Oslo> <mayor> <Ann Lee> ."`.'),
    "correct": ("remember:correct", "Put FACT in the place of the fact OLD, at once."),
    "rename": ("remember:rename", "Give a thing another name, in all facts that name it, in both directions."),
    "mcp": ("mcp:mcp", "Serve tools to an assistant, over standard input and output (Model Context Protocol)."),
    "eval": ("eval:eval_", "Score answers to a file of questions; the same command continues a run."),
    "questions": ("questions:questions", "Make questions with gold answers, to measure a model or to teach it."),
    "train": (
        "train:train",
        "Teach a model to answer out of an index, by questions whose answers are known, or (--task sparql) to write queries.",
    ),
    "calibrate": (
        "calibrate:calibrate",
        "Find the confidence that answers need, or how similar names have to be, by questions whose answers are known.",
    ),
}


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version, and those of the formats that this release writes: rows of an index, and index files."""
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        from refactx.index.file import FILE_VERSION
        from refactx.tree.codes import FORMAT_VERSION

        click.echo(f"refactx, version {version('refactx')} (index format {FORMAT_VERSION}, file format {FILE_VERSION})")
        context.exit()


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Language models that write facts from a knowledge base, and only facts that exist."""
    if context.invoked_subcommand is None:
        click.echo(FIRST_STEPS)


def main() -> None:
    """Run the command line. Report an error of refactx or of click in one line on standard error; exit code 2."""
    # By default, OpenMP's threads spin while they wait, which takes a third of the time on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Spares a garbage collection of all modules at exit, which takes a tenth of a second. DuckDB's binding (nanobind)
    # reports objects that are not collected.
    atexit.register(lambda: None if "duckdb" in sys.modules else gc.freeze())
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # refactx reports lost connections itself
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("refactx: %(message)s"))
    logging.getLogger("refactx").addHandler(handler)
    if sys.stderr.isatty():
        log = logging.getLogger("refactx.loading")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False  # a server's log is of its own
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # half a character of a JSON document, as JSON writes it
    try:
        for text in sys.argv[1:]:  # bytes that are no UTF-8 are halves of characters in Python
            written = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if written != text and not os.path.lexists(text):  # the name of a file may have any bytes
                raise InputError(f"the argument '{written[:80]}' is not text in UTF-8: set the terminal to UTF-8")
        with clear_imports():
            sys.exit(cli(standalone_mode=False))
    except RefactxError as error:
        _complain(str(error))
    except click.ClickException as error:  # a wrong option, for example
        context = getattr(error, "ctx", None)
        _complain(f"{error.format_message()} (see `{context.command_path if context else 'refactx'} --help`)")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            if error.filename is None:
                raise
            _complain(f"cannot use {error.filename!r}: {error.strerror}")
        _complain(
            f"cannot write {error.filename or 'the output'} ({error.strerror}): free disk space where the output goes, in "
            "the folder of temporary files, and in REFACTX_HOME"
        )
    except click.Abort:
        sys.exit(130)  # Ctrl-C
    finally:
        for name in ("refactx", "refactx.loading"):
            logging.getLogger(name).removeHandler(handler)  # its stream may be closed when a program goes on


def _complain(message: str) -> NoReturn:
    click.echo(f"refactx: {visible(brief(without_password(message)))}", err=True)
    sys.exit(2)
