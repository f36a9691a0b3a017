"""Building and changing an index from Python, with the arguments of the commands.

    >>> import refactx
    >>> triples = [("Ann Lee", "works for", "Acme"), ("Acme", "founded", 1999)]
    >>> refactx.build_index("acme", triples, tokenizer="demo")  # doctest: +SKIP

`refactx ingest` and `refactx forget` use the same functions.
"""

import io
import itertools
import json
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from refactx.errors import InputError, RefactxError
from refactx.ingest import Resources, forget_things, ingest
from refactx.ingest import append as append_to
from refactx.ingest import forget as forget_from
from refactx.ingest import update as update_in
from refactx.ingest.databases import database_tables, folder_tables, is_sqlite, query_source, rows_of
from refactx.ingest.knowledge.inverse import read_inverse_names
from refactx.ingest.profile import read_profile
from refactx.ingest.qualifiers import qualifiers_of
from refactx.ingest.source_options import TABLES, Selection, SourceOptions, TableOptions, languages_of, properties_of
from refactx.ingest.sources import STANDARD_INPUT, BatchSource, BlockStream, Source
from refactx.ingest.workbooks import is_workbook, workbook_tables
from refactx.models.loading import DEMO
from refactx.options import options_of
from refactx.paths import WORK, refactx_home
from refactx.progress import told_to

if TYPE_CHECKING:
    from refactx.index.index import Index
    from refactx.ingest import ChangeResult, FactWriter, IngestResult
    from refactx.postgres.database import Database
    from refactx.tokenizer import FactTokenizer

_DATABASE = re.compile(r"(sqlite|postgres(?:ql)?):")
_ENDPOINT = re.compile(r"https?://", re.IGNORECASE)
SAMPLE = Path(__file__).parent / "data" / "wikidata-sample.nt.gz"
"""Truthy claims of 130 well-known subjects of Wikidata."""
TOLD_SECONDS = 0.2
"""After which progress is written again."""
_TRIPLE = ("subject", "predicate", "object")


def build_index(
    name: str,
    source: object,
    *,
    tokenizer: Any,
    db: str | None = None,
    replace: bool = False,
    store: bool | None = None,
    **options: Any,
) -> "IngestResult":
    """Build an index as `refactx ingest` does, and return its figures and the account of its sources.

    Args:
        name: of the index.
        source: a path, the address of a database, or a list of them; triples, as an iterable of three values (text,
            numbers, dates) each; a table of pandas, Polars or Arrow; or a graph of rdflib.
        tokenizer: as `--tokenizer`: the model that is to use the index, its tokenizer of Transformers, or an open index
            for the tokenizer of that.
        db: the libpq URL of the database; by default as for `refactx.open_index`.
        replace: replace an index of that name.
        store: whether it gets a store for SPARQL; by default one of up to 200,000 facts does.
        options: those of the command, with `_` for `-`: `subject="name"`, `inverse=True`, `no_header=True`. One that may
            be given several times takes a list.

        refactx.build_index("countries", "countries.csv", tokenizer="demo", subject="name", id="code")

    Notes on why `inverse=True` gave no inverse facts are warnings; all are in `report.notes` of the result.

    Raises InputError for an option that the command does not have, and as `refactx.ingest.ingest` does.
    """
    from refactx.index.open import database
    from refactx.models.loading import load_tokenizer
    from refactx.tokenizer import FactTokenizer

    given = _arguments(options)
    sources = _sources_of(source, given["selection"].tables)
    if isinstance(tokenizer, str | Path):
        loaded, tokenizer_name = load_tokenizer(str(tokenizer))
    elif hasattr(tokenizer, "tokenizer_name"):
        loaded, tokenizer_name = tokenizer.tokenizer, tokenizer.tokenizer_name
    else:
        loaded = FactTokenizer.from_transformers(tokenizer)
        tokenizer_name = str(tokenizer.name_or_path)
    with database(db) as opened:
        result = ingest(
            sources, opened, index=name, tokenizer=loaded, tokenizer_name=tokenizer_name, replace=replace, **given
        )
        keep_examples(opened, name)
        _keep_store(opened, name, store)
    if given["selection"].inverse and not result.report.derived:
        for note in result.report.notes:
            warnings.warn(note, stacklevel=2)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTo:
    """Where files that people send become indexes: the tokenizer and its name, which need no reading, and the database."""

    tokenizer: "FactTokenizer"
    tokenizer_name: str
    db: str | None


def build_sent(to: SentTo, sent: tuple[Path, str, str]) -> None:
    """Build an index of a file that somebody sent, given its path, the name of the index, and the column with the names of its
    rows ("": none); for a process of its own (`refactx.ingest.parallel.Process`).

    The file is in a folder of its own, with nothing else. Beside that, `progress` gets a JSON object with the `stage` and the
    `fraction` of it that is done (0 to 1, or null). Raises as `build_index`.
    """
    path, name, subject = sent
    folder, last = path.parent.parent, time.monotonic()

    def tell(stage: str, fraction: float | None) -> None:
        nonlocal last
        if fraction and time.monotonic() < last + TOLD_SECONDS:
            return
        last = time.monotonic()
        new = folder / "progress.new"
        new.write_text(json.dumps({"stage": stage, "fraction": None if fraction is None else round(fraction, 3)}))
        new.replace(folder / "progress")

    given: dict[str, Any] = {"subject": subject} if subject else {}
    with told_to(tell):  # relative IRIs have no part of a folder that is gone tomorrow
        build_index(
            name,
            path,
            tokenizer=to,
            db=to.db,
            inverse=True,
            work_dir=folder / "work",
            base=f"file:///{path.name}",
            **given,
        )


def keep_examples(database: "Database", name: str) -> None:
    """Write examples for the prompt of a new index into its report."""
    from refactx.ask.examples import KEPT, graph_examples
    from refactx.index.open import open_index
    from refactx.postgres.catalogue import find_index
    from refactx.postgres.writing import add_to_report

    with open_index(name, database.url) as index:
        made = graph_examples(index)
    if made:
        with database.connection() as connection:
            add_to_report(connection, find_index(database, name), KEPT, made)


def append(name: str, source: object, *, db: str | None = None, **options: Any) -> "ChangeResult":
    """Add the facts of a source to an index, as `refactx ingest --append` does. Arguments as for `build_index`.

    A table is read with the options of the ingest if none are given here.
    """
    from refactx.index.open import database

    given = _arguments(options)
    with database(db) as opened:
        changed = append_to(_sources_of(source, given["selection"].tables), opened, index=name, **given)
        _keep_store(opened, name)
    return changed


def update(name: str, source: object, *, db: str | None = None, **options: Any) -> "ChangeResult":
    """Replace what an index has about the things of a source, as `refactx update` does. Arguments as for `append`.

    refactx.update("countries", "changed.csv", id="code")
    """
    from refactx.index.open import database

    given = _arguments(options)
    with database(db) as opened:
        changed = update_in(_sources_of(source, given["selection"].tables), opened, index=name, **given)
        _keep_store(opened, name)
    return changed


def forget(name: str, source: object = None, *, db: str | None = None, **options: Any) -> "ChangeResult":
    """Retract the facts of a source from an index, as `refactx forget` does. Arguments as for `append`.

    Without a source, everything about the things goes whose names or ids are the `subject`:

        refactx.forget("countries", subject="Norway")
    """
    from refactx.index.open import database

    given = _arguments(options)
    things = given["selection"].tables.subjects
    if source is None and not things:
        raise InputError("nothing to forget was given: give a source, or a subject")
    with database(db) as opened:
        if source is None:
            machine = {option: given[option] for option in ("work", "resources")}
            changed = forget_things(things, opened, index=name, **machine)
        else:
            changed = forget_from(_sources_of(source, given["selection"].tables), opened, index=name, **given)
        _keep_store(opened, name)
    return changed


@contextmanager
def fact_writer(
    index: str, db: str | None = None, writable: str | None = None, reader: "Index | None" = None
) -> "Iterator[FactWriter]":
    """Open what adds, corrects and takes away single facts of an index.

        with refactx.fact_writer("wikidata,mine", writable="mine") as writer:
            writer.remember("<Ann Lee> <residence> <Oslo> .", new=["Ann Lee"]).added

    `index`: what is read, which may be several; `writable`: the one of them that is written; `reader`: the index, if it is
    open already. Raises InputError if `writable` is none of them, and as `refactx.open_index`.
    """
    from refactx.index.open import database, open_index
    from refactx.ingest import FactWriter

    names = [name.strip() for name in index.split(",")]
    if (written := writable or index) not in names:
        raise InputError(f"--index {index}: give --writable with the one of these that is written")
    with open_index(index, db) if reader is None else nullcontext(reader) as read, database(db) as opened:
        yield FactWriter(read, opened, written, work_dir_of(None))


def _keep_store(database: "Database", name: str, builds: bool | None = False) -> None:
    """Bring the store of an index to what the index has now, as `keep_store` does. If that fails, it is a warning,
    unless the store was asked for."""
    from refactx.index import Index
    from refactx.index.database import DatabaseSource
    from refactx.postgres.catalogue import find_index
    from refactx.sparql.store import keep_store

    try:
        keep_store(Index(DatabaseSource(database, find_index(database, name))), builds)
    except (RefactxError, OSError) as error:
        if builds:
            raise
        warnings.warn(f"index {name!r} is as it should be, but its store for SPARQL is not: {error}", stacklevel=3)


def _arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the functions of `refactx.ingest`, given options by the names that the command has."""
    usual = {one.name: one.default for one in fields(SourceOptions)}
    unknown = sorted(options.keys() - usual.keys())
    if unknown:
        raise InputError(f"{unknown[0]!r} is no option: expected {', '.join(usual)}")
    return source_arguments({**usual, **options})


def source_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the functions of `refactx.ingest` for options of sources.

    Raises InputError if a value or a file cannot be used.
    """
    rest = dict(given)
    memory = rest.pop("memory")
    if not re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b|\d+(\.\d+)?%", memory.strip(), re.IGNORECASE):
        raise InputError(f"--memory {memory!r} is not a size: give one such as 1GB, 512MB or 80%")
    return {
        "work": work_dir_of(rest.pop("work_dir")),
        "wikipedia": wikipedia_dumps(rest.pop("page"), rest.pop("page_props")),
        "strict": rest.pop("strict"),
        "resources": Resources(memory=memory, workers=rest.pop("workers")),
        "selection": selection_of(**rest),
    }


def work_dir_of(given: Path | None) -> Path:
    """Return the folder for temporary files."""
    return Path(given) if given else refactx_home() / WORK


def wikipedia_dumps(page: Path | None, page_props: Path | None) -> tuple[Path, Path] | None:
    """Return both dumps of Wikipedia, or None if neither is given. Raise InputError if only one is given."""
    if page is None and page_props is None:
        return None
    if page is None or page_props is None:
        given, missing = ("--page", "--page-props") if page_props is None else ("--page-props", "--page")
        raise InputError(f"{given} was given without {missing}: give both dumps, or neither")
    return Path(page), Path(page_props)


def selection_of(**given: Any) -> Selection:
    """Return the selection that options describe. Raise InputError if a value or a file cannot be used."""
    properties, names, profile = given["properties"], given["inverse_names"], given["profile"]
    qualifiers = given["qualifiers"]
    tables = {name: given.pop(name) for name, known in options_of(SourceOptions).items() if known.group == TABLES}
    if isinstance(names, Mapping):
        inverse_names = tuple(names.items())
    else:
        inverse_names = () if names is None else read_inverse_names(Path(names))
    changed = {
        "properties": properties_of(properties)
        if isinstance(properties, str)
        else properties and frozenset(properties),
        "languages": languages_of(given["languages"]) if isinstance(given["languages"], str) else given["languages"],
        "inverse_names": inverse_names,
        "qualifiers": qualifiers_of(qualifiers) if isinstance(qualifiers, str) else qualifiers,
        "profile": read_profile(str(profile)) if isinstance(profile, str | Path) else profile,
        "graphs": _several(given["graphs"]),
    }
    return Selection(**{**given, **changed}, tables=tables_of(**tables))


def tables_of(**given: Any) -> TableOptions:
    """Return the options of tables. Raise InputError for a value that cannot be used."""
    columns = given["columns"]
    return TableOptions(
        columns=tuple(part.strip() for part in columns.split(","))
        if isinstance(columns, str)
        else tuple(columns or ()),
        header=not given["no_header"],
        comment=given["comment"],
        delimiter=given["delimiter"],
        encoding=given["encoding"],
        subjects=_several(given["subject"]),
        ids=_several(given["id"]),
        descriptions=_several(given["description"]),
        aliases=_several(given["alias"]),
        lists=_several(given["list"]),
        qualifiers=tuple(
            filter(None, (name.strip() for one in _several(given["qualifier"]) for name in one.split(",")))
        ),
        keys=_several(given["key"]),
        edges=given["edges"],
        labels=tuple(map(str, _several(given["labels"]))),
        query=given["query"],
    )


def _several(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str | Path) else tuple(map(str, value))


def sources_of(texts: Iterable[str | Path], tables: TableOptions) -> tuple[Path | Source, ...]:
    """Return files, the tables of databases, workbooks and folders, and the queries of databases and endpoints, as sources.
    `demo` is the sample of Wikidata in this package, unless there is a file of that name.

    Raises InputError for a query without a database or an endpoint, and as `refactx.ingest.databases` and
    `refactx.ingest.workbooks` do.
    """
    addresses = [str(text) for text in texts]
    named = {one.partition(".")[0].casefold() for one in (*tables.subjects, *tables.ids) if "." in one}
    found: list[Path | Source] = []
    is_queried = False
    for text in addresses:
        path = SAMPLE if text == DEMO and not Path(text).exists() else Path(text)
        if _ENDPOINT.match(text):
            found.append(endpoint_source(text, tables.query))
            is_queried = True
        elif _DATABASE.match(text) or is_sqlite(path):
            found += [query_source(text, tables.query)] if tables.query else database_tables(text, named)
            is_queried = True
        elif path.is_dir():
            found += folder_tables(path, tables.encoding)
        elif is_workbook(path):
            found += workbook_tables(path)
        else:
            found.append(path)
    if tables.query and not is_queried:
        raise InputError(
            "--query was given without a database: give sqlite:///file.db, postgresql://... or the https://... of an endpoint "
            "as SOURCE"
        )
    return tuple(found)


def endpoint_source(url: str, query: str | None) -> Source:
    """Return the triples of a CONSTRUCT query at a SPARQL endpoint, page by page; without a query, all triples."""
    from refactx.sparql.engines.endpoint import EVERYTHING, EndpointEngine

    engine = EndpointEngine(url)
    pages = BlockStream(engine.triples(query or EVERYTHING))
    return Source(STANDARD_INPUT, stream=(engine.name, io.BufferedReader(pages)))


def _sources_of(source: Any, tables: TableOptions) -> tuple[Path | Source, ...]:
    """Return an object of Python as sources."""
    if isinstance(source, str | Path):
        return sources_of([source], tables)
    if isinstance(source, Source):
        return (source,)
    if hasattr(source, "serialize") and hasattr(source, "triples"):
        text = source.serialize(format="nt")
        content = io.BufferedReader(io.BytesIO(text if isinstance(text, bytes) else text.encode()))
        return (Source(STANDARD_INPUT, stream=("graph", content)),)
    table = _table_of(source)
    if table is not None:
        return (table,)
    if not isinstance(source, Iterable):
        raise InputError(
            f"a {type(source).__name__} is no source: expected a path, triples, a table of pandas, Polars or Arrow, or a graph "
            "of rdflib"
        )
    waiting = iter(source)
    first = next(waiting, None)
    if first is None:
        raise InputError("the source has no triples: expected three values each, such as ('Ann', 'works for', 'Acme')")
    everything = itertools.chain([first], waiting)
    if isinstance(first, str | Path):
        return sources_of([str(path) for path in everything], tables)
    reader = rows_of(_triples(everything), _TRIPLE)
    return (BatchSource("triples", lambda: reader, reads_once=True),)


def _table_of(source: Any) -> BatchSource | None:
    """Return a table of another library as a source; None if it is none."""
    for method in ("__arrow_c_stream__", "to_arrow", "__dataframe__"):
        if hasattr(source, method):
            break
    else:
        return None

    def read() -> pa.RecordBatchReader:
        if hasattr(source, "__arrow_c_stream__"):
            try:
                return pa.RecordBatchReader.from_stream(source)
            except (pa.ArrowException, ValueError, TypeError) as error:
                reason = " ".join(str(error).split())
                raise InputError(f"the table cannot be read: {reason}: rename or convert the column") from None
        table = source.to_arrow() if hasattr(source, "to_arrow") else pa.interchange.from_dataframe(source)
        return table.to_reader()

    return BatchSource("table", read, reads_once=isinstance(source, pa.RecordBatchReader))


def _triples(values: Iterable[Any]) -> Iterator[Sequence[object]]:
    for number, value in enumerate(values, 1):
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 3:
            raise InputError(
                f"triple {number} is {value!r:.80}: expected three values, such as ('Ann', 'works for', 'Acme')"
            )
        yield value
