"""The group `refactx memory`: build, show, find and drop."""

from typing import TYPE_CHECKING, Any

import click

from refactx.cli.help import OrderedGroup
from refactx.cli.options import DB, DEVICE, INDEX, JSON, OWN_INDEX, print_json
from refactx.fact import line

if TYPE_CHECKING:
    from refactx.postgres.memory import MemoryRecord
    from refactx.sparql.placeholders.entry import MentionChoice


ENCODER = "Model of sentence-transformers: id or folder; minilm; own module:function."


@click.group(cls=OrderedGroup)
def memory() -> None:
    """Remember the names of an index by embeddings, so that words are resolved to ids."""


@memory.command()
@click.option("--encoder", default="minilm", show_default=True, metavar="MODEL", help=ENCODER)
@OWN_INDEX
@click.option("--aliases", is_flag=True, help="Embeddings of aliases too.")
@DEVICE
@DB
@JSON
def build(encoder: str, index: str, aliases: bool, device: str, db: str | None, as_json: bool) -> None:
    """Build the memory of an index, or update it after a change.

    Only what is missing is encoded, and what the index has no more goes. The same command continues a build that was
    stopped. It needs pgvector in PostgreSQL, which the embedded server has.
    """
    from refactx.index.open import database
    from refactx.progress import progress_bar
    from refactx.ranking.encoders import load_encoder
    from refactx.sparql.placeholders.vector_memory import build_memory

    loaded = load_encoder(encoder, device)
    with database(db) as opened, progress_bar("encode", unit=" texts", unit_scale=True) as bar:

        def progress(encoded: int, total: int) -> None:
            bar.total = total
            bar.update(encoded - bar.n)

        done = build_memory(opened, loaded, index=index, aliases=aliases, progress=progress)
    if as_json:
        return print_json(done.to_json())
    copied = f", {done.copied:,} copied" if done.copied else ""
    click.echo(
        f"memory of {index}: {done.texts:,} texts by {done.encoder} ({done.encoded:,} encoded{copied}), entries "
        f"{done.added:,} added, {done.removed:,} removed, in {done.seconds:.1f} s"
    )
    return None


@memory.command()
@OWN_INDEX
@DB
@JSON
def show(index: str, db: str | None, as_json: bool) -> None:
    """Show the memories of an index: encoder, size, and whether it is behind."""
    from refactx.index.open import database
    from refactx.postgres.catalogue import find_index
    from refactx.postgres.memory import count_missing, list_memories
    from refactx.sparql.placeholders.opening import behind_note

    with database(db) as opened, opened.connection() as connection:
        records = list_memories(connection, find_index(opened, index))
        counts = [count_missing(connection, record) for record in records]
    documents = [_document(record, *count) for record, count in zip(records, counts, strict=True)]
    if as_json:
        return print_json(documents)
    if not records:
        click.echo(f"index {index} has no memory: its names are found as written, or by their letters", err=True)
    for record, document in zip(records, documents, strict=True):
        for key, value in document.items():
            click.echo(f"{key:<20} {f'{value:,}' if type(value) is int else value}")
        if note := behind_note(record):
            click.echo(note, err=True)
    return None


@memory.command()
@click.argument("label")
@click.option("--description", metavar="TEXT", help="What tells it from others of the label.")
@click.option("--relation", is_flag=True, help="A property; default: an entity.")
@click.option("--encoder", metavar="MODEL", help="Of the memory; default: the one built last.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1), metavar="N", help="At most N.")
@INDEX
@DB
@JSON
def find(
    label: str,
    description: str | None,
    relation: bool,
    encoder: str | None,
    limit: int,
    index: str,
    db: str | None,
    as_json: bool,
) -> None:
    """Find entities or properties by what they are called.

    What has the label as a name or an alias; else what is nearest, with its similarity.
    """
    from refactx.index.open import open_index
    from refactx.sparql.placeholders.opening import open_memory
    from refactx.sparql.placeholders.resolver import MemoryResolver
    from refactx.sparql.placeholders.text import Placeholder

    with open_index(index, db) as opened:
        resolver = MemoryResolver(open_memory(opened, encoder))
        found = resolver.candidates(Placeholder("relation" if relation else "entity", label, description))[:limit]
    if as_json:
        return print_json([_choice(one) for one in found])
    if not found:
        click.echo(f"nothing in the memory of {index} is like {line(label)}", err=True)
    if found:
        click.echo(f"{'id':<12} like  {'found as':<8} name")
    for one in found:
        click.echo(f"{one.entry.id:<12} {one.similarity:.2f}  {one.how:<8} {line(one.entry.text)}")
    return None


@memory.command()
@click.option("--encoder", metavar="MODEL", help="Only that of this encoder, as show names it.")
@OWN_INDEX
@DB
@JSON
def drop(encoder: str | None, index: str, db: str | None, as_json: bool) -> None:
    """Delete the memories of an index."""
    from refactx.index.open import database
    from refactx.postgres.catalogue import find_index
    from refactx.postgres.memory import drop_memories, memory_session

    with database(db) as opened, memory_session(opened, index) as connection:
        dropped = drop_memories(connection, find_index(opened, index), encoder)
    if as_json:
        return print_json([{"index": index, "encoder": one.encoder} for one in dropped])
    click.echo(f"dropped the memory of {index} by {', '.join(one.encoder for one in dropped)}")
    return None


def _document(record: "MemoryRecord", texts: int, missing: int) -> dict[str, Any]:
    return {
        "index": record.index,
        "encoder": record.encoder,
        "width": record.width,
        "weights": record.fingerprint,
        "aliases": record.aliases,
        "complete": record.ready and not missing,
        "behind": record.behind,
        "texts": texts,
        "without_embedding": missing,
        "bytes": record.bytes,
        "built": str(record.created),
    }


def _choice(choice: "MentionChoice") -> dict[str, Any]:
    entry = choice.entry
    return {
        "id": entry.id,
        "label": entry.label,
        "description": entry.description,
        "alias": entry.is_alias,
        "similarity": round(choice.similarity, 4),
        "how": choice.how,
    }
