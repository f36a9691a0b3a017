"""`refactx facts`: how a fact may continue, or all facts of an index."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice, tee
from typing import TYPE_CHECKING

import click

from refactx.cli.options import DB, INDEX, JSON, print_json
from refactx.errors import InputError
from refactx.fact import line, written_part

if TYPE_CHECKING:
    from refactx.index.index import Index
    from refactx.linking import LinkedName


@click.command()
@click.argument("prefix", required=False)
@click.argument("predicate", required=False)
@INDEX
@click.option("--all", "every", is_flag=True, help="Print all facts of the index, one a line.")
@click.option("--predicates", is_flag=True, help="List the predicates, each with one fact.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Show at most N; default: 20 continuations, all facts."
)
@JSON
@DB
def facts(
    prefix: str | None,
    predicate: str | None,
    index: str,
    every: bool,
    predicates: bool,
    limit: int | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show how facts continue after PREFIX, all facts, or the predicates.

    With PREFIX, such as `"<Danny Boyle> <"`, each line is the beginning of a fact, up to the end of its next part,
    after the number of facts that begin so. A name as people write it, such as `alaska`, stands for the entity with most
    facts. With PREDICATE, PREFIX is the name of a subject, and its facts are listed; below each are those that have
    qualifiers, such as `<start time> <1990>`. With --all, facts are in the order of their token ids and in the form that
    `refactx ingest` reads; with --all --json, each line is a document with the ids of a fact's parts.
    """
    from refactx.index.open import open_index

    given = [
        name
        for name, is_given in (("PREFIX", prefix is not None), ("--all", every), ("--predicates", predicates))
        if is_given
    ]
    if len(given) != 1:
        was = f"{' and '.join(given)} were" if given else "neither PREFIX nor --all nor --predicates was"
        raise InputError(
            f'{was} given: give one of the beginning of a fact, such as "<Danny Boyle> <", --all and --predicates'
        )
    with open_index(index, db) as opened:
        if predicates:
            return _print_predicates(opened, as_json, limit)
        if prefix is None:
            return _print_all(opened, as_json, limit)
        if predicate is not None:
            return _print_statements(opened, (prefix, predicate), as_json, limit)
        found, resolved = _completions(opened, prefix, limit or 20)
    if as_json:
        completions = [{"text": text, "leaves": leaves} for text, leaves in found]
        meant = resolved and asdict(resolved)
        return print_json({"index": index, "prefix": prefix, "completions": completions, "resolved": meant})
    if found:
        click.echo(f"{'facts':>12}  begin with")
    for text, leaves in found:
        click.echo(f"{leaves:>12,}  {line(text)}")
    return None


def _completions(index: "Index", prefix: str, limit: int) -> "tuple[list[tuple[str, int]], LinkedName | None]":
    """Return how facts continue after a prefix; if none begins so, after the entity that its subject means.

    Says on standard error which was taken, or names like it.
    """
    from refactx.linking import did_you_mean
    from refactx.walks import TreeFacts

    if found := index.complete(prefix if "<" in prefix else f"<{prefix}> <", limit):
        return found, None
    label, _, rest = prefix.strip().removeprefix("<").partition(">")
    begun, closed, after = rest.strip().removeprefix("<").partition(">")
    label, predicate, facts = written_part(label), written_part(begun), TreeFacts(index)
    meant = facts.linker.predicate(predicate) if closed else None
    resolved = facts.linker.entity(label, () if meant is None else (meant.name,))
    if resolved is None:
        like = did_you_mean(facts.linker.suggestions(label))
        click.echo(f"no fact of index {index.name!r} begins with {prefix!r}{like}", err=True)
        return [], None
    click.echo(f"refactx: {resolved.note}", err=True)
    if closed and (meant := facts.linker.predicate(predicate, [resolved.name])) is not None:
        rest = f" <{meant.name}>{after or ' <'}"
    return index.complete(f"<{resolved.name}>{rest or ' <'}", limit), resolved


def _print_statements(index: "Index", asked: tuple[str, str], as_json: bool, limit: int | None) -> None:
    """Print the facts of a subject with a predicate, those with qualifiers below their plain fact, if there is one."""
    from refactx.ask.browse import fact_of
    from refactx.walks import TreeFacts

    facts, (subject, predicate) = TreeFacts(index), map(written_part, asked)
    meant = facts.linker.predicate(predicate)
    entity = facts.linker.entity(subject, () if meant is None else (meant.name,))
    named = None if entity is None else facts.linker.predicate(predicate, [entity.name])
    names = (subject, predicate) if entity is None or named is None else (entity.name, named.name)
    found = [
        fact_of(one, names[1], value, qualifiers)
        for one, value, qualifiers in islice(facts.statements(names[:1], names[1]), limit)
    ]
    if as_json:
        from refactx.documents import fact_document, to_json

        documents = [
            fact_document(linked, fact.text) for fact, linked in zip(found, index.links_of(found), strict=True)
        ]
        return print_json(to_json({"index": index.name, "facts": documents}))
    if not found:
        click.echo(f"index {index.name!r} has no fact of {line(names[0])!r} with {line(names[1])!r}", err=True)
    plain = ""
    for fact in found:
        begun = fact.text.removesuffix(" .")
        plain = begun if not fact.qualifiers else plain
        is_below = bool(fact.qualifiers) and plain != "" and begun.startswith(f"{plain} <")
        of = f"  ({', '.join(index.origins(fact.text))})" if index.is_joined else ""
        click.echo((f"    {line(begun.removeprefix(plain).lstrip())} ." if is_below else line(fact.text)) + of)
    return None


def _print_predicates(index: "Index", as_json: bool, limit: int | None) -> None:
    """Print the predicates with their numbers of facts, those with most first, and a fact of each."""
    from refactx.walks import TreeFacts

    facts = TreeFacts(index)
    found = list(islice(facts.count_predicates().items(), limit))
    described = facts.describe([name for name, _ in found])
    if as_json:
        return print_json(
            {
                "index": index.name,
                "predicates": [
                    {
                        "label": name,
                        "id": described[name].id if name in described else None,
                        "inverse": name in described and described[name].inverse,
                        "facts": count,
                        "example": text,
                    }
                    for name, (count, text) in found
                ],
            }
        )
    width = min(40, max((len(name) for name, _ in found), default=9))
    click.echo(f"{'facts':>12}  {'predicate':<{width}}  such as")
    for name, (count, text) in found:
        click.echo(f"{count:>12,}  {line(name):<{width}}  {line(text)}")
    return None


def _print_all(index: "Index", as_json: bool, limit: int | None) -> None:
    """Print the first `limit` facts (None: all), one a line.

    If the reader (such as `head`) closes the pipe, end without an error.
    """
    try:
        lines = _documents(index) if as_json else (line(fact.text) for fact in index.all_facts())
        for text in _progress(islice(lines, limit), min(index.facts, limit or index.facts)):
            sys.stdout.write(f"{text}\n")  # click.echo flushes each line
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would report the broken pipe again at exit, for what is still buffered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _documents(index: "Index") -> Iterator[str]:
    """Yield each fact with its ids as a line of JSON."""
    from refactx.documents import fact_document, to_json

    facts, again = tee(index.all_facts())  # holds the 1,024 facts that `links_of` reads ahead
    for fact, linked in zip(facts, index.links_of(again), strict=False):
        yield json.dumps(to_json(fact_document(linked, fact.text)), ensure_ascii=False)


def _progress(lines: Iterator[str], total: int) -> Iterator[str]:
    """Yield the lines; count them on standard error if that is a terminal and standard output is none."""
    from tqdm import tqdm

    yield from tqdm(
        lines, total=total, unit=" facts", unit_scale=True, disable=sys.stdout.isatty() or None, leave=False
    )
