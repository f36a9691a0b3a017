"""The first step of an ingest: sources → staged rows (`refactx.ingest.parsers.staging`), and the account of lines."""

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
from refactx.ingest.parsers.formats import FORMATS, AdvanceBytes
from refactx.ingest.parsers.parsed import Parsed
from refactx.ingest.parsers.recognition import format_of
from refactx.ingest.parsers.staging import StagingWriter
from refactx.ingest.parsers.wikidata.rules import NOT_NTRIPLES
from refactx.ingest.parsers.wikipedia.enwiki import parse_page, parse_page_props
from refactx.ingest.report import REPORTED_FAULTS
from refactx.ingest.resources import Resources
from refactx.ingest.selection import Selection
from refactx.ingest.sources.inputs import Inputs
from refactx.ingest.sources.source import Source
from refactx.ingest.work_database import WorkDatabase, open_work_database

RDF_KINDS = FORMATS.keys() - {"ready-made facts", "table"}
OTHER_GRAPH = (
    "it has no triple about an id of www.wikidata.org (<http://www.wikidata.org/entity/Q42>), and triples about others "
    "are not read: give their facts as a table with columns subject, predicate and object, or as lines "
    "<subject> <predicate> <object> ."
)


@dataclass(slots=True, kw_only=True)
class LineAccount:
    """The account of the lines read so far.

    `dropped`: how many lines were dropped, by reason, malformed ones included. `faults`: the first malformed lines as
    `file:line: what`. `notes`: other remarks on a source. Lines that neither parsing nor the joins drop are kept.
    """

    read: int = 0
    cut: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, parsed: Parsed) -> None:
        """Add a parsed block of a source."""
        self.read += parsed.lines
        self.cut += parsed.cut
        self.dropped += parsed.dropped
        self.dropped["malformed"] += len(parsed.faults)
        free = REPORTED_FAULTS - len(self.faults)
        self.faults += (f"{source}:{line}: {what}" for line, what in parsed.faults[:free])
        self.notes += (f"{source}: {note}" for note in parsed.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the account for a manifest; `from_json` reads it back."""
        dropped = dict(self.dropped)
        return {"read": self.read, "cut": self.cut, "dropped": dropped, "faults": self.faults, "notes": self.notes}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "LineAccount":
        """Return the account that `to_json` gave."""
        return cls(**{**document, "dropped": Counter(document["dropped"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSource:
    """A source that can be read: its name, its format with an example of a line, and its reader."""

    name: str
    kind: str
    example: str
    read: Callable[[AdvanceBytes], Iterator[Parsed]]


def open_sources(inputs: Inputs, selection: Selection, workers: int) -> list[OpenSource]:
    """Return the sources, without English Wikipedia's dumps, after the first lines of all files have been read.

    Raises InputError if a file cannot be read, or has no known format.
    """
    opened = []
    for source in inputs.sources:
        source.first_lines()
        kind = format_of(source)
        form = FORMATS[kind]
        read = partial(form.read, source, selection, workers)
        opened.append(OpenSource(name=source.name, kind=kind, example=form.example, read=read))
    for source in inputs.wikipedia or ():
        source.first_lines()
    return opened


def read_sources(
    opened: Sequence[OpenSource],
    inputs: Inputs,
    staged: Path,
    selection: Selection,
    *,
    strict: bool,
    resources: Resources,
) -> LineAccount:
    """Parse all inputs into the tables in the folder `staged`; the next blocks are parsed while one is written.

    `resources.memory` limits the join of English Wikipedia's dumps. Raises InputError if a source is not what its name
    says, and for the first malformed line if `strict` is set.
    """
    account = LineAccount()
    sizes = [source.size for source in inputs.all]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with ExitStack() as stack:
        writer = stack.enter_context(StagingWriter(staged))
        if inputs.wikipedia is not None:
            work = stack.enter_context(open_work_database(staged, resources))
            opened = [*opened, *_open_dumps(inputs.wikipedia, work, selection)]
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="stage"))
        bar = stack.enter_context(progress_bar("reading", total, resources.progress, unit="B", unit_scale=True))
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
    """Return a bar on standard error with the remaining time, if `progress` and if that is a terminal."""
    return tqdm(desc=what, total=total, disable=None if progress else True, file=sys.stderr, **options)


def _open_dumps(
    dumps: tuple[Source, Source], work: WorkDatabase, selection: Selection
) -> tuple[OpenSource, OpenSource]:
    """Return English Wikipedia's dumps, which have to be read in this order."""
    page, page_props = dumps
    example = "INSERT INTO `{}` VALUES (...),(...);"
    return (
        OpenSource(
            name=page.name,
            kind="the dump of table page",
            example=example.format("page"),
            read=partial(parse_page, page, work),
        ),
        OpenSource(
            name=page_props.name,
            kind="the dump of table page_props",
            example=example.format("page_props"),
            read=partial(parse_page_props, page_props, work, selection),
        ),
    )


def _parse(source: OpenSource, strict: bool, advance: AdvanceBytes) -> Iterator[Parsed]:
    """Yield the parsed blocks of a source. Raise InputError if it does not hold what it should."""
    statements, rows, first_fault = 0, 0, ""
    for parsed in source.read(advance):
        if parsed.faults and not first_fault:
            at, what = min(parsed.faults)
            first_fault = f"line {at}: {what}"
            if strict:
                raise malformed(source.name, at, what)
        check_syntax(source.name, parsed.faults)
        yield parsed
        statements += parsed.statements
        rows += sum(map(len, parsed.tables.values()))
    if not statements:
        raise no_statement(source.name, source.kind, source.example, first_fault)
    if not rows and source.kind in RDF_KINDS:
        yield Parsed(lines=0, notes=(OTHER_GRAPH,))


def check_syntax(source: str, faults: Sequence[tuple[int, str]]) -> None:
    """Raise InputError if one of the malformed lines of N-Triples is RDF in another syntax, of which facts would be lost."""
    for line, what in sorted(faults):
        syntax, found, _ = what.partition(f", {NOT_NTRIPLES}: ")
        if found:
            suffix = ".nq" if syntax == "N-Quads" else ".ttl"
            raise InputError(f"{source}:{line}: {what}: give the file a name that ends in {suffix}")


def malformed(source: str, line: int, what: str) -> InputError:
    """Return the error for a malformed line, if none is allowed."""
    return InputError(f"{source}:{line}: {what}: correct the line, or leave out --strict to skip it")


def no_statement(source: str, kind: str, example: str, first_fault: str) -> InputError:
    """Return the error for a source without any of the lines that its kind should have."""
    what = first_fault or "it has only blank lines and comments"
    return InputError(f"{source} is not {kind}: {what}; expected lines such as {example}")
