"""Building an index: sources → knowledge base → token sequences → tree → rows, published when it is complete."""

from collections.abc import Sequence
from pathlib import Path

from refactx.ingest.pipeline import IngestSteps
from refactx.ingest.progress import Clock, ProgressBars
from refactx.ingest.publish import IngestResult, SegmentFacts, hubs_of, name_rows, publish_index
from refactx.ingest.resources import DEFAULT_RESOURCES, Resources
from refactx.ingest.segment.load import Learned
from refactx.ingest.segment.packing import DEFAULT_SHAPE, Shape
from refactx.ingest.selection import DEFAULT_SELECTION, Selection
from refactx.ingest.sources.inputs import inputs_of
from refactx.ingest.work_folder import names_of, work_folder
from refactx.postgres.building import IndexHeader, check_free, check_name
from refactx.postgres.database import Database
from refactx.postgres.locks import name_lock
from refactx.postgres.writer import writing
from refactx.tokenizer import FactTokenizer


def ingest(
    sources: Sequence[Path],
    database: Database,
    *,
    index: str,
    tokenizer: FactTokenizer,
    tokenizer_name: str,
    work: Path,
    wikipedia: tuple[Path, Path] | None = None,
    selection: Selection = DEFAULT_SELECTION,
    strict: bool = False,
    replace: bool = False,
    trigger: str = "Fact:",
    terminator: str = " .",
    resources: Resources = DEFAULT_RESOURCES,
    shape: Shape = DEFAULT_SHAPE,
) -> IngestResult:
    """Build an index from sources of any format. Readers see it only when it is complete.

    If an ingest was stopped, a call with the same arguments continues after the last finished step.

    Args:
        sources: files, of one format or several; `-` is standard input.
        database: the database that the index is stored in.
        index: its name.
        tokenizer: the tokenizer of the models that will use the index.
        tokenizer_name: its name in the catalogue, from which a user can load it (a Hugging Face id, say).
        work: a folder for temporary files, made if it is missing.
        wikipedia: English Wikipedia's dumps of the tables `page` and `page_props`, for titles and short descriptions.
        selection: which facts of the sources the index gets.
        strict: raise an error at the first malformed line instead of counting it.
        replace: replace an index of the same name; readers see the old one until the new one is complete.
        trigger: the text after which a model writes a fact.
        terminator: the text that ends a fact.
        resources: limits of memory and threads, and whether to show progress.
        shape: how large the rows of the tree may be.

    Raises:
        InputError: a source cannot be read or is not what its name says, all sources together have no fact, a line is
            malformed and `strict` is set, the disk is too small, or the name or the folder cannot be used.
        IndexExistsError: an index of this name exists and `replace` is not set, or another process is writing it.
        DatabaseError: PostgreSQL refused a statement (because its disk is full, say).
        ModelError: the tokenizer changes text.
        RefactxError: DuckDB cannot continue, since the disk is full or `resources.memory` is too small.

    >>> with database() as opened:  # doctest: +SKIP
    ...     result = ingest(
    ...         [Path("facts.csv")], opened, index="mine", tokenizer=tokenizer, tokenizer_name="demo", work=Path("work")
    ...     )
    >>> result.report.facts  # doctest: +SKIP
    1200
    """
    check_name(index)
    tokenizer.check_text()
    inputs = inputs_of(sources, wikipedia, resources.workers)
    with writing(database, index, work) as connection, name_lock(connection, index):
        check_free(connection, index, replace)
        with work_folder(work, *names_of(connection), index) as folder:
            clock, bars = Clock(), ProgressBars(resources.progress)
            steps = IngestSteps(folder, inputs, selection, strict=strict)
            knowledge = steps.knowledge_base(clock, resources)
            with clock.step("encode"), bars:
                facts = steps.encoded_facts(
                    knowledge,
                    tokenizer,
                    fingerprint=tokenizer.fingerprint,
                    trigger=trigger,
                    resources=resources,
                    advance=bars.advance,
                )
                learned = Learned.of(facts)
            paths = tuple(str(source.path) for source in inputs.all)
            return publish_index(
                connection,
                SegmentFacts(facts, learned, knowledge.report.without_changed(len(facts))),
                header=IndexHeader(
                    name=index,
                    tokenizer_name=tokenizer_name,
                    tokenizer=tokenizer,
                    trigger=trigger,
                    terminator=terminator,
                    source=paths,
                ),
                replace=replace,
                work=folder,
                shape=shape,
                resources=resources,
                clock=clock,
                names=lambda: name_rows(knowledge),
                hubs=hubs_of(knowledge),
            )
