"""The first step of an ingest: sources → staged rows (`ingest.staging`), and an account of every line."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from refactx.errors import InputError

from .formats import FORMATS
from .parsed import Parsed
from .report import REPORTED_FAULTS
from .selection import Selection
from .sources import Format, Source, format_of
from .staging import StagingWriter


@dataclass(slots=True)
class Lines:
    """The account of lines while they are read; `dropped` by reason, the malformed among them, `faults` the first of these
    as `file:line: what`. What is neither dropped here nor later in the joins is kept."""

    read: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def add(self, source: str, parsed: Parsed) -> None:
        """One block more."""
        self.read += parsed.lines
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.dropped["malformed"] += len(parsed.faults)
        free = REPORTED_FAULTS - len(self.faults)
        self.faults += (f"{source}:{line}: {what}" for line, what in parsed.faults[:free])

    def to_json(self) -> dict[str, Any]:
        """For a manifest; `from_json` reads it back."""
        return {"read": self.read, "cut": self.cut, "dropped": dict(self.dropped), "faults": self.faults}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Lines":
        return cls(document["read"], document["cut"], Counter(document["dropped"]), list(document["faults"]))


def open_sources(sources: Sequence[Source]) -> list[tuple[Source, Format]]:
    """The sources and what they hold, before any is read whole.

    Raises InputError if one can't be read, isn't known, or is given twice where it can be read only once.
    """
    if not sources:
        raise InputError("no source was given: expected at least one file of N-Triples or ready-made facts")
    if sum(source.is_standard_input for source in sources) > 1:
        raise InputError("standard input (-) is given more than once: it can be read only once")
    return [(source, format_of(source)) for source in sources]


def read_sources(
    sources: Sequence[tuple[Source, Format]],
    staged: Path,
    selection: Selection,
    *,
    strict: bool,
    workers: int,
    progress: bool,
) -> Lines:
    """Parse every source into the tables in the folder `staged`; the next blocks are parsed while one is written.

    Raises InputError if a source isn't what its name says, or with `strict` for the first malformed line.
    """
    account = Lines()
    sizes = [source.size for source, _ in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with (
        StagingWriter(staged) as writer,
        ThreadPoolExecutor(1, thread_name_prefix="stage") as pool,
        progress_bar("reading", total, progress, unit="B", unit_scale=True) as bar,
    ):
        written: Future[None] | None = None
        for source, kind in sources:
            for parsed in _parse(source, kind, selection, strict, workers, bar.update):
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


def _parse(
    source: Source,
    kind: Format,
    selection: Selection,
    strict: bool,
    workers: int,
    advance: Callable[[int], object],
) -> Iterator[Parsed]:
    """The blocks of one source, parsed; an error if it does not hold what it should."""
    statements, first_fault = 0, ""
    for parsed in FORMATS[kind].read(source, selection, workers, advance):
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
        raise InputError(f"{source.name} is not {kind}: {what}; expected lines such as {FORMATS[kind].example}")
