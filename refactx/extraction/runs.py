"""A run over documents whose facts go to a file, or into an index: it can be stopped at any time, and continued.

Beside the file of facts there is a file of its state, `<file>.state`: a line for each piece of a document that was read, with
the length that the file of facts has after it. A piece is written, then its line; what a killed run wrote beyond the last line
is cut off when it goes on. So no fact is there twice, and none is lost. In an index a fact is there once by itself.
"""

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode, Triple

from refactx.ask.extraction import ExtractedFact, ExtractedFacts
from refactx.ask.sentences import MOST_CHARACTERS, sentences_of
from refactx.documents import extracted_document, to_json
from refactx.errors import InputError
from refactx.extraction.files import Document
from refactx.fact import line
from refactx.index.index import Index
from refactx.iris import PREFIXES
from refactx.locking import lock_file
from refactx.sparql.store.triples import Triples, own

FactFormat = Literal["table", "nt", "jsonl"]
"""How facts are written: a table with tabs, N-Triples with references (RDF 1.2), or lines of JSON."""
COLUMNS = ("subject", "predicate", "object", "document", "sentence", "confidence", "known")
DOCUMENT, SENTENCE = "stated in", "sentence"
"""The qualifiers of a fact: the name of its document, and its sentence."""
PIECE_SENTENCES, PIECE_CHARACTERS = 50, 20_000
"""The most sentences and characters of a document that are read at once, and are lost if the run is killed meanwhile."""
_REIFIES = NamedNode(PREFIXES["rdf"] + "reifies")
Extract = Callable[[str], ExtractedFacts]


@dataclass(slots=True)
class RunCounts:
    """What a run has read: documents, sentences, facts, those of them that the index had, and those that were doubted;
    `failed`: documents that could not be read."""

    documents: int = 0
    sentences: int = 0
    facts: int = 0
    known: int = 0
    doubted: int = 0
    failed: int = 0


def pieces_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open ranges of the pieces of a text: whole sentences, some at a time.

    >>> list(pieces_of("Ann left. Bo stayed."))
    [(0, 20)]
    """
    begin, end, count = 0, 0, 0
    for start, stop in sentences_of(text):
        if count and (count == PIECE_SENTENCES or stop - begin > PIECE_CHARACTERS):
            yield begin, end
            count = 0
        begin, end, count = (begin if count else start), stop, count + 1
    if count:
        yield begin, end


@dataclass
class RunFile:
    """The file of facts of a run, and its state. `path`: None for standard output, without a state.

    `position`: how far each document was read, by its key; `done`: the keys of those that were read to their end.
    """

    path: Path | None
    file: IO[str]
    state: IO[str] | None = None
    position: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    is_new: bool = True

    def write(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.file.write(text)
        self.file.flush()

    def note(self, **entry: Any) -> None:
        """Note in the state what was written until now."""
        if self.state is not None:
            os.fsync(self.file.fileno())
            self.state.write(f"{json.dumps({**entry, 'bytes': os.fstat(self.file.fileno()).st_size})}\n")
            self.state.flush()
            os.fsync(self.state.fileno())


@contextmanager
def run_file(path: Path | None, options: Mapping[str, Any], stdout: IO[str]) -> Iterator[RunFile]:
    """Open the file of a run, which goes on where it was stopped. `options`: of the run, which have to be the same then.

    Raises InputError if the file is of something else, of a run with other options, or of one that is running.
    """
    if path is None:
        yield RunFile(None, stdout)
        return
    beside = path.with_name(f"{path.name}.state")
    if path.exists() and path.stat().st_size and not beside.exists():
        raise InputError(f"{path} is there, and no run wrote it ({beside.name} is missing): give another --out")
    with beside.open("a+", encoding="utf-8") as state, path.open("a", encoding="utf-8", newline="") as file:
        try:
            lock_file(state)
        except OSError:
            raise InputError(f"another run is writing {path}: wait for it, or give another --out") from None
        found = RunFile(path, file, state)
        state.seek(0)
        entries, whole = list[dict[str, Any]](), 0
        for text in state.read().splitlines(keepends=True):
            with suppress(ValueError):  # the last line of a killed run
                if text.endswith("\n"):
                    entries.append(json.loads(text))
                    whole += len(text.encode())
        state.truncate(whole)
        state.seek(0, os.SEEK_END)
        if entries and entries[0].get("options") != json.loads(json.dumps(options)):
            given = json.dumps(entries[0].get("options"))
            raise InputError(f"{path} was begun with other options, {given}: give the same, or another --out")
        file.truncate(entries[-1]["bytes"] if entries else 0)
        file.seek(0, os.SEEK_END)
        for entry in entries[1:]:
            found.position[entry["document"]] = entry["stop"]
            found.done |= {entry["document"]} if entry["done"] else set()
        found.is_new = not entries
        if not entries:
            found.note(options=options)
        yield found


def key_of(document: Document) -> str:
    """Return what a document is known by in a state: its name and its text."""
    return f"{document.name}#{hashlib.sha256(document.text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def run(
    documents: Iterable[Document],
    extract: Extract,
    written: Callable[[Document, ExtractedFacts], Iterable[str]],
    out: RunFile,
    say: Callable[[str], object],
) -> RunCounts:
    """Read the facts of documents, and write them. Return what was read by this run.

    `extract`: returns the facts of a piece of text; `written`: returns how the facts of a document are written; `say`: told in
    a line of a document that cannot be read.
    """
    counts = RunCounts()
    for document in documents:
        if document.error:
            counts.failed += 1
            say(f"{line(document.name)} is left out: {document.error}")
            continue
        key = key_of(document)
        if key in out.done:
            continue
        counts.documents += 1
        pieces = [piece for piece in pieces_of(document.text) if piece[0] >= out.position.get(key, 0)]
        for start, stop in pieces:
            if stop - start > MOST_CHARACTERS:
                say(f"{line(document.name)}: a sentence of {stop - start:,} characters is left out")
                counts.sentences += 1
            else:
                found = extract(document.text[start:stop])
                out.write(written(document, found))
                counts.sentences += found.sentences
                counts.facts += len(found.facts)
                counts.known += sum(one.is_known for one in found.facts)
                counts.doubted += found.doubted
            out.note(document=key, stop=stop, done=False)
        out.note(document=key, stop=len(document.text), done=True)
        out.done.add(key)
    return counts


def writer_of(
    format_: FactFormat, index: Index, *, begins: bool
) -> Callable[[Document, ExtractedFacts], Iterator[str]]:
    """Return what writes the facts of documents in a format. `begins`: whether the file begins, with the head of a table."""
    heads = [COLUMNS] if format_ == "table" and begins else []

    def table(document: Document, found: ExtractedFacts) -> Iterator[str]:
        for one in found.facts:
            cells = (*_triple(one), document.name, one.text, f"{one.confidence:.2f}", "yes" if one.is_known else "no")
            yield from (_row(head) for head in heads)
            heads.clear()
            yield _row([line(cell) for cell in cells])

    def lines(document: Document, found: ExtractedFacts) -> Iterator[str]:
        for fact in to_json(extracted_document(index, found))["facts"]:
            yield f"{json.dumps({'document': document.name, **fact}, ensure_ascii=False)}\n"

    def triples(document: Document, found: ExtractedFacts) -> Iterator[str]:
        quads = Triples(index.ids_of).of([one.fact for one in found.facts])
        for one, quad in zip(found.facts, quads, strict=True):
            if quad is not None:
                triple = Triple(quad.subject, quad.predicate, quad.object)
                node = f"_:f{hashlib.sha256(f'{document.name} {one.text} {triple}'.encode()).hexdigest()[:24]}"
                yield f"{triple} .\n{node} {_REIFIES} <<( {triple} )>> .\n"
                for name, value in reference_of(document, one):
                    yield f"{node} {own(name)} {RdfLiteral(value)} .\n"

    return {"table": table, "jsonl": lines, "nt": triples}[format_]


def reference_of(document: Document, one: ExtractedFact) -> tuple[tuple[str, str], ...]:
    """Return the qualifiers of a fact that say where it is stated."""
    return (DOCUMENT, line(document.name)), (SENTENCE, line(one.text))


def _triple(one: ExtractedFact) -> tuple[str, str, str]:
    return one.fact.subject, one.fact.predicate, one.fact.object


def _row(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerow(cells)
    return text.getvalue()
