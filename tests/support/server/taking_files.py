"""Servers of the tiny model that make indexes of files."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from refactx.ask.asker import language_model
from refactx.build import SentTo, build_sent
from refactx.cli.serve import ServiceOpener, open_indexes
from refactx.ingest.parallel import pickled
from refactx.server import ServingOptions
from refactx.server.http import RequestSlots
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
    options = ServingOptions(name="tiny", max_upload=MOST, grace=1.0)
    with ExitStack() as stack:
        yield ServiceOpener(
            options=options,
            prompt=str(prompt),
            weights=None,
            ranker=None,
            taught=None,
            db=url,
            stack=stack,
            slots=RequestSlots(4, 4),
            names_index=True,
        )


def build_when_written(given: tuple[SentTo, Path], sent: tuple[Path, str, str]) -> None:
    """Build an index of a file after somebody has written to a pipe."""
    to, pipe = given
    pipe.read_bytes()
    build_sent(to, sent)


@contextmanager
def taking_files(
    opener: ServiceOpener, waits_for: Path | None = None, models: Sequence[str] = ("tiny",), **limits: Any
) -> Iterator[Running]:
    """A server with the index `first`. `waits_for`: a named pipe that is read before an index is made; `models`: names of
    the tiny model; `limits`: those of `Uploads`."""
    opened = open_indexes(["first"], opener.db, opener.stack)
    model = language_model(tiny_model(), chat_tokenizer())
    pairs = [(name, model, "first") for name in models]
    uploads = replace(opener.uploads(pairs, opened["first"]), **limits)
    if waits_for is not None:
        _, to = pickle.loads(uploads.build)
        uploads = replace(uploads, build=pickled(build_when_written, (to, waits_for)))
    with served(opener.services(pairs, opened), uploads) as server:
        yield server
