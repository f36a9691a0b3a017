"""What `refactx pack` prints: a pack, its check, retrieved examples, a pack that was made."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from refactx.cli.options import print_json
from refactx.fact import counted, line, visible

if TYPE_CHECKING:
    from refactx.nl2sparql.checking import PackCheck
    from refactx.nl2sparql.making import MadePack
    from refactx.nl2sparql.pack import Pack
    from refactx.nl2sparql.patterns import Detected
    from refactx.nl2sparql.retrieval import Retrieved, Weights


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
    shares: "Weights",
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
    named = [f"{one.name} {one.score:.2f} ({', '.join(one.found) or 'by phrases'})" for one in patterns]
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
    click.echo(f"Edit its files, and check them with `refactx pack check {pack.folder}`.", err=True)
    return None
