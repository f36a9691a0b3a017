"""The group `refactx pack`: list, show, check, retrieve and make."""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.options import JSON, print_json
from refactx.cli.pack.views import print_check, print_made, print_pack, print_retrieved
from refactx.errors import InputError
from refactx.fact import counted

if TYPE_CHECKING:
    from refactx.sparql.engines import SparqlEngine

PACK = click.argument("name", metavar="PACK")
SECONDS = click.option(
    "--timeout",
    "seconds",
    default=20.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="The most time of a query.",
)


@click.group(cls=OrderedGroup, invoke_without_command=True)
@click.pass_context
def pack(context: click.Context) -> None:
    """Show, check and make domain packs: what translating needs to know of an endpoint."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@pack.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the packs that come with ReFactX."""
    from refactx.nl2sparql.pack import built_in_packs, load_pack

    packs = [load_pack(name) for name in built_in_packs()]
    if as_json:
        return print_json([{"name": one.name, "title": one.title, "examples": len(one.examples)} for one in packs])
    for one in packs:
        click.echo(f"{one.name:<12} {one.title} ({counted(len(one.examples), 'example')})")
    return None


@pack.command()
@PACK
@JSON
def show(name: str, as_json: bool) -> None:
    """Show what a pack has. PACK: a name, or a folder."""
    from refactx.nl2sparql.pack import load_pack

    print_pack(load_pack(name), as_json)


@pack.command()
@PACK
@click.option("--endpoint", metavar="URL", help="Run the examples there; or `pack`, the pack's own.")
@click.option("--file", "path", type=click.Path(path_type=Path), metavar="FILE", help="Run the examples on a file.")
@SECONDS
@JSON
def check(name: str, endpoint: str | None, path: Path | None, seconds: float, as_json: bool) -> None:
    """Check a pack: its files, its examples by its rules and names, and, with an endpoint or a file, by running them.

    The exit code is 1 if something is to be repaired.
    """
    from refactx.nl2sparql.checking import check_pack
    from refactx.nl2sparql.pack import load_pack

    loaded = load_pack(name)
    if endpoint == "pack":
        if loaded.endpoint is None:
            raise InputError(f"the pack {loaded.name} has no endpoint: give its URL, or --file")
        endpoint = loaded.endpoint
    with ExitStack() as stack:
        engine = _open(stack, endpoint, path) if endpoint is not None or path is not None else None
        found = check_pack(loaded, engine, seconds=seconds)
    print_check(loaded, found, engine is not None, as_json)
    if found.problems:
        sys.exit(1)


@pack.command()
@click.argument("question")
@click.option("--pack", "name", required=True, metavar="PACK", help="A name, or a folder.")
@click.option("--top", default=5, show_default=True, type=click.IntRange(1), metavar="K", help="Show K examples.")
@click.option("--encoder", metavar="MODEL", help="Compare by embeddings too: id, folder; minilm; module:function.")
@click.option("--weights", metavar="D,B,P", help="Of embeddings, BM25, patterns; default: 0.4,0.3,0.3.")
@click.option("--sparql", "queries", is_flag=True, help="Print the queries too.")
@JSON
def retrieve(
    question: str, name: str, top: int, encoder: str | None, weights: str | None, queries: bool, as_json: bool
) -> None:
    """Show the patterns of a question, and the examples that are most like it, with the parts of their scores."""
    from refactx.nl2sparql.pack import load_pack
    from refactx.nl2sparql.patterns import PatternDetector
    from refactx.nl2sparql.retrieval import Retriever, Weights
    from refactx.sparql.memory.encoders import load_encoder

    if not question.strip():
        raise InputError("the question is empty: ask something, in quotes")
    loaded = load_pack(name)
    shares = Weights() if weights is None else Weights.read(weights)
    model = None if encoder is None else load_encoder(encoder)
    retriever = Retriever(loaded, model, shares)
    patterns = PatternDetector(loaded, model).explain(question)
    found = retriever.retrieve(question, top, patterns={one.name: one.score for one in patterns})
    print_retrieved(question, patterns, found, retriever.shares, model is not None, queries, as_json)


@pack.command()
@click.argument("name")
@click.option("--endpoint", metavar="URL", help="The SPARQL endpoint.")
@click.option(
    "--file", "path", type=click.Path(path_type=Path), metavar="FILE", help="Turtle or other RDF, in its place."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Default: NAME, in this folder.")
@click.option("--title", default="", metavar="TEXT", help="What prompts call the data; default: NAME.")
@click.option(
    "--language", "languages", multiple=True, metavar="CODE", help="Of labels and questions, several; default: en."
)
@click.option(
    "--queries",
    default=600,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Run at most N queries, twice.",
)
@SECONDS
@JSON
def make(
    name: str,
    endpoint: str | None,
    path: Path | None,
    out: Path | None,
    title: str,
    languages: tuple[str, ...],
    queries: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Write a first pack of an endpoint, or of a file, to be edited.

    It has the classes and properties that the endpoint describes by VoID, or that counts and samples find, with prefixes,
    graphs, patterns, and examples that have rows. With --file and --endpoint, the file is read, and the endpoint is written
    into the pack.
    """
    from refactx.nl2sparql.making import MakeOptions, make_pack
    from refactx.sparql.engines.address import read_address

    if endpoint is None and path is None:
        raise InputError("what is the pack made of? Give --endpoint URL, or --file FILE")
    options = MakeOptions(
        title=title,
        endpoint=None if endpoint is None else read_address(endpoint).shown,
        languages=languages or ("en",),
        queries=queries,
        seconds=seconds,
    )
    with ExitStack() as stack:
        engine = _open(stack, None if path is not None else endpoint, path)
        made = make_pack(engine, out or Path(name), name, options)
    print_made(made, as_json)


def _open(stack: ExitStack, endpoint: str | None, path: Path | None) -> "SparqlEngine":
    """Return the engine at an endpoint, or on a file."""
    from refactx.nl2sparql.making import open_file
    from refactx.sparql.engines import EndpointEngine

    if endpoint is not None and path is not None:
        raise InputError("--endpoint and --file exclude each other: run the examples at one of them")
    engine: SparqlEngine = EndpointEngine(endpoint) if endpoint is not None else open_file(path or Path())
    stack.callback(engine.close)
    return engine
