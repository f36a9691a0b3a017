"""The group `refactx pack`: list, show, check, retrieve, make and examples."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.options import DB, JSON, Number, index_opener, print_json
from refactx.errors import InputError
from refactx.fact import counted, line, visible

if TYPE_CHECKING:
    from refactx.sparql.engines import SparqlEngine
    from refactx.sparql.packs.draft import MadePack
    from refactx.sparql.packs.pack import Pack
    from refactx.sparql.packs.retrieval import Detected, RetrievalWeights, Retrieved
    from refactx.sparql.packs.validation import PackCheck

PACK = click.argument("name", metavar="PACK")

SECONDS = click.option(
    "--timeout",
    "seconds",
    default=20.0,
    show_default=True,
    type=Number(0, min_open=True),
    metavar="S",
    help="The most time of a query.",
)


def print_pack(pack: "Pack", as_json: bool) -> None:
    """Print what a pack has."""
    classes = sum(term.kind == "class" for term in pack.schema.values())
    properties = sum(term.kind == "property" for term in pack.schema.values())
    document = {
        "name": pack.name,
        "title": pack.title,
        "version": pack.version,
        "fingerprint": pack.fingerprint,
        "folder": str(pack.folder),
        "languages": list(pack.languages),
        "endpoint": pack.endpoint,
        "file": None if pack.file is None else str(pack.file),
        "index": pack.index,
        "graphs": dict(pack.graphs),
        "services": dict(pack.services),
        "prefixes": dict(pack.prefixes),
        "patterns": list(pack.patterns),
        "rules": [rule.id for rule in pack.rules],
        "examples": len(pack.examples),
        "classes": classes,
        "properties": properties,
        "individuals": len(pack.schema) - classes - properties,
        "source": pack.source,
        "licence": pack.licence,
    }
    if as_json:
        return print_json(document)
    for key, value in document.items():
        text = ", ".join(value) if isinstance(value, list) else value
        if isinstance(value, dict):
            text = ", ".join(f"{name}: {iri}" for name, iri in value.items())
        if text or text == 0:
            click.echo(f"{key:<12} {line(str(text))}")
    return None


def print_check(pack: "Pack", found: "PackCheck", ran: bool, as_json: bool) -> None:
    """Print what is wrong with a pack."""
    if as_json:
        return print_json(
            {"problems": list(found.problems), "notes": list(found.notes), "ran": found.ran if ran else None}
        )
    for problem in found.problems:
        click.echo(line(problem))
    for note in found.notes:
        click.echo(f"note: {line(note)}")
    rows = f", {found.ran} of them with rows" if ran else ""
    wrong = counted(len(found.problems), "problem")
    click.echo(f"pack {pack.name}: {counted(len(pack.examples), 'example')}{rows}, {wrong}")
    return None


def print_retrieved(
    question: str,
    patterns: "Sequence[Detected]",
    found: "Sequence[Retrieved]",
    shares: "RetrievalWeights",
    *,
    encodes: bool,
    queries: bool,
    as_json: bool,
) -> None:
    """Print the patterns of a question and the examples for it."""
    if as_json:
        return print_json(
            {
                "question": question,
                "patterns": [
                    {"name": one.name, "score": round(one.score, 3), "words": one.words, "phrases": one.phrases}
                    | {"found": list(one.found)}
                    for one in patterns
                ],
                "weights": {"dense": shares.dense, "bm25": shares.bm25, "pattern": shares.pattern},
                "examples": [
                    {
                        "id": one.example.id,
                        "question": one.question,
                        "score": round(one.score, 3),
                        "dense": one.dense,
                        "bm25": one.bm25,
                        "pattern": one.pattern,
                        "sparql": one.example.sparql,
                    }
                    for one in found
                ],
            }
        )
    named = [f"{one.name} {one.score:.2f} ({', '.join(one.found) or 'not by words'})" for one in patterns]
    click.echo(f"patterns: {line('; '.join(named)) or 'none'}")
    if not encodes:
        click.echo(
            f"no encoder (--encoder): BM25 has {shares.bm25:.2f} of the score, patterns {shares.pattern:.2f}", err=True
        )
    click.echo(f"score  {'dense  ' if encodes else ''}bm25   pattern  example")
    for one in found:
        dense = f"{one.dense:.3f}  " if one.dense is not None else ""
        click.echo(
            f"{one.score:.3f}  {dense}{one.bm25:.3f}  {one.pattern:.3f}    {one.example.id}: {line(one.question)}"
        )
        if queries:
            for text in visible(one.example.sparql).splitlines():
                click.echo(f"    {text}")
    return None


def print_made(made: "MadePack", as_json: bool) -> None:
    """Print what a pack that was made has."""
    pack = made.pack
    if as_json:
        return print_json(
            {
                "folder": str(pack.folder),
                "by": made.by,
                "terms": len(pack.schema),
                "graphs": len(pack.graphs),
                "patterns": len(pack.patterns),
                "rules": len(pack.rules),
                "examples": len(pack.examples),
                "notes": list(made.notes),
            }
        )
    for note in made.notes:
        click.echo(f"note: {line(note)}", err=True)
    counts = (
        f"{len(pack.schema):,} classes and properties, {counted(len(pack.graphs), 'graph')}, "
        f"{counted(len(pack.patterns), 'pattern')}, {counted(len(pack.rules), 'rule')}, "
        f"{counted(len(pack.examples), 'example')}"
    )
    click.echo(f"pack {pack.name} in {pack.folder} (by {made.by}): {counts}")
    click.echo(f"Edit its files, and check them with `refactx pack check {pack.folder} --run-on pack`.", err=True)
    return None


@click.group(cls=OrderedGroup)
def pack() -> None:
    """Show, check and make domain packs: what translating needs to know of an endpoint."""


@pack.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the packs that come with ReFactX."""
    from refactx.sparql.packs.pack import built_in_packs, load_pack

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
    from refactx.sparql.packs.pack import load_pack

    print_pack(load_pack(name), as_json)


@pack.command()
@PACK
@click.option("--run-on", metavar="WHERE", help="Run the examples: pack (its own), URL, RDF file, index, invented.")
@click.option("--endpoint", "--file", "old", hidden=True)
@SECONDS
@DB
@JSON
def check(name: str, run_on: str | None, old: str | None, seconds: float, db: str | None, as_json: bool) -> None:
    """Check a pack: its files, its examples by its rules and names, and, with --run-on, by running them.

    The exit code is 1 if something is to be repaired.
    """
    from refactx.sparql.packs.invented import engine_for
    from refactx.sparql.packs.pack import load_pack
    from refactx.sparql.packs.validation import check_pack

    loaded, where = load_pack(name), run_on or old
    with ExitStack() as stack:
        engine = None if where is None else engine_for(loaded, where, index_opener(stack, "default", db))
        if engine is not None:
            stack.callback(engine.close)
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
@click.option("--learned", is_flag=True, help="Detect patterns as the pack's examples have them, without its words.")
@click.option("--sparql", "queries", is_flag=True, help="Print the queries too.")
@JSON
def retrieve(
    question: str,
    name: str,
    top: int,
    encoder: str | None,
    weights: str | None,
    learned: bool,
    queries: bool,
    as_json: bool,
) -> None:
    """Show the patterns of a question, and the examples that are most like it, with the parts of their scores."""
    from refactx.ranking.encoders import load_encoder
    from refactx.sparql.packs.pack import load_pack
    from refactx.sparql.packs.retrieval import LearnedDetector, PatternDetector, RetrievalWeights, Retriever

    if not question.strip():
        raise InputError("the question is empty: ask something, in quotes")
    loaded = load_pack(name)
    shares = RetrievalWeights() if weights is None else RetrievalWeights.read(weights)
    model = None if encoder is None else load_encoder(encoder)
    retriever = Retriever(loaded, model, shares)
    patterns = (LearnedDetector if learned else PatternDetector)(loaded, model).explain(question)
    found = retriever.retrieve(question, top, patterns={one.name: one.score for one in patterns})
    print_retrieved(
        question, patterns, found, retriever.shares, encodes=model is not None, queries=queries, as_json=as_json
    )


@pack.command()
@click.argument("name")
@click.option("--endpoint", metavar="URL", help="Of a SPARQL endpoint.")
@click.option("--index", metavar="NAME", help="Of an index that has a store.")
@click.option("--file", type=click.Path(path_type=Path), metavar="FILE", help="Of RDF, such as Turtle.")
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
@DB
@JSON
def make(
    name: str,
    endpoint: str | None,
    index: str | None,
    file: Path | None,
    out: Path | None,
    title: str,
    languages: tuple[str, ...],
    queries: int,
    seconds: float,
    db: str | None,
    as_json: bool,
) -> None:
    """Write a first pack of an endpoint, an index or a file, to be edited.

    It has the classes and properties that VoID describes, or that counts and samples find, with prefixes, graphs,
    patterns, and examples that have rows, and remembers what it is made of: queries run there. With --endpoint beside
    --file or --index, these are read, and queries run at the endpoint.
    """
    from refactx.sparql.engines import EndpointEngine, open_engine, open_file
    from refactx.sparql.engines.endpoint import read_address
    from refactx.sparql.packs.draft import MakeOptions, make_pack

    if index is not None and file is not None:
        raise InputError("--index and --file exclude each other: give what the pack is made of")
    if endpoint is None and index is None and file is None:
        raise InputError("what is the pack made of? Give --endpoint URL, --index NAME or --file FILE")
    options = MakeOptions(
        title=title,
        endpoint=None if endpoint is None else read_address(endpoint).shown,
        file=file,
        index=index,
        languages=languages or ("en",),
        queries=queries,
        seconds=seconds,
    )
    with ExitStack() as stack:
        engine: SparqlEngine
        if file is not None:
            engine = open_file(file)
        elif index is not None:
            engine = open_engine(index_opener(stack, index, db)(None), "store")
        else:
            engine = EndpointEngine(endpoint or "")
        stack.callback(engine.close)
        made = make_pack(engine, out or Path(name), name, options)
    print_made(made, as_json)


@pack.command()
@PACK
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="JSON lines to write.")
@click.option("--run-on", metavar="WHERE", help="As of pack check; default: the pack's own.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1), metavar="N", help="Make at most N.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Another seed makes other examples.")
@SECONDS
@DB
def examples(name: str, out: Path, run_on: str | None, limit: int, seed: int, seconds: float, db: str | None) -> None:
    """Make more examples of a pack's: with other values of its data, and two as one; all have rows there.

    FILE is in the form of examples.jsonl, and is read by refactx train --task sparql and refactx eval.
    """
    from refactx.sparql.packs.draft import example_json
    from refactx.sparql.packs.invented import engine_for
    from refactx.sparql.packs.pack import load_pack
    from refactx.sparql.packs.variations import variations

    loaded, number = load_pack(name), 0
    with ExitStack() as stack:
        engine = engine_for(loaded, run_on or "pack", index_opener(stack, "default", db))
        if engine is None:
            raise InputError(f"the pack {name} has no data of its own: give --run-on")
        stack.callback(engine.close)
        try:
            with out.open("w", encoding="utf-8") as file:
                for number, one in enumerate(variations(loaded, engine, seed=seed, seconds=seconds), 1):
                    file.write(json.dumps(example_json(one), ensure_ascii=False) + "\n")
                    if number == limit:
                        break
        except OSError as error:
            raise InputError(f"cannot write {out}: {error.strerror}: give another file with --out") from error
    if not number:
        raise InputError(
            f"no other value of the data, and no pair of examples of {name}, gives rows: no example was made"
        )
    click.echo(f"{out}: {counted(number, 'example')}")
