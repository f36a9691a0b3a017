"""Servers of the tiny model that make indexes of files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from refactx.ask.asker import language_model
from refactx.cli.serve import ServiceOpener, open_indexes
from refactx.server import ServerOptions
from refactx.server.http import Slots
from support.ingest.tiny import ingest_tiny
from support.server.running import Running, served
from support.tiny_asker import chat_tokenizer
from support.tiny_model import tiny_model

MOST = 2000
"""Bytes of a file."""


@contextmanager
def opener_of(url: str, folder: Path) -> Iterator[ServiceOpener]:
    """What opens services of a database that has the index `first`."""
    facts, prompt = folder / "facts.txt", folder / "short.toml"
    facts.write_text("<Zoe> <p> <b> .\n")
    prompt.write_text('system = "Be true."\n')
    ingest_tiny(url, facts, index="first")
    options = ServerOptions(name="tiny", max_upload=MOST)
    with ExitStack() as stack:
        yield ServiceOpener(
            options=options, prompt=str(prompt), taught=None, db=url, stack=stack, slots=Slots(4, 4), names_index=True
        )


@contextmanager
def taking_files(
    opener: ServiceOpener, before: Callable[[], Any] = lambda: None, models: Sequence[str] = ("tiny",)
) -> Iterator[Running]:
    """A server with the index `first`. `before`: called before an index is made; `models`: names of the tiny model."""
    opened = open_indexes(["first"], opener.db, opener.stack)
    model = language_model(tiny_model(), chat_tokenizer())
    pairs = [(name, model, "first") for name in models]
    uploads = opener.uploads(pairs, opened["first"])

    def build(path: Path, name: str, subject: str) -> None:
        before()
        uploads.build(path, name, subject)

    with served(opener.services(pairs, opened), replace(uploads, build=build)) as server:
        yield server
