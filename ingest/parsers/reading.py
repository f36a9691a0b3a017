"""The first step of an ingest: sources → staged rows (`ingest.staging`), and an account of every line."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from refactx.errors import InputError

from ..parsers.formats import FORMATS, Advance
from ..parsers.parsed import Parsed
from ..parsers.staging import StagingWriter
from ..parsers.wikipedia.enwiki import parse_page, parse_page_props
from ..report import REPORTED_FAULTS
from ..selection import Selection
from ..sources.inputs import Inputs
from ..sources.source import Source, format_of
from ..work_database import Work, open_work_database


@dataclass(slots=True)
class Lines:
    """The account of lines while they are read; `dropped` by reason, the malformed among them, `faults` the first of these
    as `file:line: what`, and `notes` what else to know of a source. What is neither dropped here nor in the joins is kept."""

    read: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, parsed: Parsed) -> None:
        """One block more."""
        self.read += parsed.lines
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.dropped["malformed"] += len(parsed.faults)
        free = REPORTED_FAULTS - len(self.faults)
        self.faults += (f"{source}:{line}: {what}" for line, what in parsed.faults[:free])
        self.notes += (f"{source}: {note}" for note in parsed.notes)

    def to_json(self) -> dict[str, Any]:
        """For a manifest; `from_json` reads it back."""
        dropped = dict(self.dropped)
        return {"read": self.read, "cut": self.cut, "dropped": dropped, "faults": self.faults, "notes": self.notes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Lines":
        return cls(**{**document, "dropped": Counter(document["dropped"])})


@dataclass(frozen=True, slots=True)
class Opened:
    """A source that can be read: its name, what it should hold with a line of that as an example, and its contents."""

    name: str
    kind: str
    example: str
    read: Callable[[Advance], Iterator[Parsed]]


def open_sources(inputs: Inputs, selection: Selection, workers: int) -> list[Opened]:
    """The sources but for English Wikipedia's dumps, before any is read whole.

    Raises InputError if one can't be read, or isn't of a known format.
    """
    opened = []
    for source in inputs.sources:
        source.first_lines()
        kind = format_of(source)
        form = FORMATS[kind]
        opened.append(Opened(source.name, kind, form.example, partial(form.read, source, selection, workers)))
    for source in inputs.wikipedia or ():
        source.first_lines()
    return opened


def read_sources(
    opened: Sequence[Opened],
    inputs: Inputs,
    staged: Path,
    selection: Selection,
    *,
    strict: bool,
    memory: str,
    workers: int,
    progress: bool,
) -> Lines:
    """Parse all inputs into the tables in the folder `staged`; the next blocks are parsed while one is written.

    `memory` is the limit on joining English Wikipedia's dumps. Raises InputError if a source isn't what its name says, or with
    `strict` for the first malformed line.
    """
    account = Lines()
    sizes = [source.size for source in inputs.all]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with ExitStack() as stack:
        writer = stack.enter_context(StagingWriter(staged))
        if inputs.wikipedia is not None:
            work = stack.enter_context(open_work_database(staged, memory, workers))
            opened = [*opened, *_open_dumps(*inputs.wikipedia, work, selection)]
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="stage"))
        bar = stack.enter_context(progress_bar("reading", total, progress, unit="B", unit_scale=True))
        written: Future[None] | None = None
        for source in opened:
            for parsed in _parse(source, strict, bar.update):
                account.add(source.name, parsed)
                if written is not None:
                    written.result()
                written = pool.submit(writer.write, parsed.tables)
        if written is not None:
            written.result()
    return account


def progress_bar(what: str, total: int | None, progress: bool, **options: Any) -> "tqdm[Any]":
    """A bar on standard error with the time that is left, where that is a terminal."""
    return tqdm(desc=what, total=total, disable=None if progress else True, file=sys.stderr, **options)


def _open_dumps(page: Source, page_props: Source, work: Work, selection: Selection) -> tuple[Opened, Opened]:
    """English Wikipedia's dumps, which have to be read in this order."""
    example = "INSERT INTO `{}` VALUES (...),(...);"
    return (
        Opened(page.name, "the dump of table page", example.format("page"), partial(parse_page, page, work)),
        Opened(
            page_props.name,
            "the dump of table page_props",
            example.format("page_props"),
            partial(parse_page_props, page_props, work, selection),
        ),
    )


def _parse(source: Opened, strict: bool, advance: Advance) -> Iterator[Parsed]:
    """The blocks of one source, parsed; an error if it does not hold what it should."""
    statements, first_fault = 0, ""
    for parsed in source.read(advance):
        if parsed.faults and not first_fault:
            at, what = min(parsed.faults)
            first_fault = f"line {at}: {what}"
            if strict:
                raise InputError(
                    f"{source.name}:{at}: {what}: correct the line, or leave out --strict to read on past it"
                )
        yield parsed
        statements += parsed.statements
    if not statements:
        what = first_fault or "it has only blank lines and comments"
        raise InputError(f"{source.name} is not {source.kind}: {what}; expected lines such as {source.example}")
