"""What an index is built of, and how, as one value that goes from the call through all steps to the rows of the index."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Required, TypedDict

from refactx.ingest.report import Clock, ProgressBars
from refactx.ingest.segment.cutting import DEFAULT_SHAPE, Shape
from refactx.ingest.source_options import DEFAULT_SELECTION, Selection
from refactx.ingest.sources import Inputs, Source, inputs_of
from refactx.ingest.work import DEFAULT_RESOURCES, Resources, names_of, work_folder
from refactx.postgres.database import Database
from refactx.postgres.entry import CatalogueEntry
from refactx.postgres.locks import Connection, name_lock
from refactx.postgres.writing import IndexHeader, changing, check_free, check_name, writing
from refactx.tokenizer import FactTokenizer


class RowJobOptions(TypedDict, total=False):
    """What every function that writes rows may be given: the fields of `RowJob`."""

    resources: Resources
    shape: Shape


class ReadOptions(RowJobOptions, total=False):
    """What every function takes that reads sources: fields of `Build`."""

    wikipedia: tuple[Path, Path] | None
    selection: Selection
    strict: bool


class CopyOptions(RowJobOptions, total=False):
    """What every function takes that builds an index: fields of `Build`."""

    index: Required[str]
    tokenizer: Required[FactTokenizer]
    tokenizer_name: Required[str]
    work: Required[Path]
    replace: bool


class BuildOptions(CopyOptions, ReadOptions, total=False):
    """What the functions take that build an index of sources: fields of `Build`."""

    trigger: str
    terminator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowJob:
    """How rows are made: the folder of temporary files, limits, the sizes of rows, and the durations of the steps."""

    work: Path
    resources: Resources = DEFAULT_RESOURCES
    shape: Shape = DEFAULT_SHAPE
    clock: Clock = field(default_factory=Clock)

    def bars(self) -> ProgressBars:
        return ProgressBars(self.resources.progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build(RowJob):
    """What an index is built of, or changed by. `refactx.ingest.ingest` describes the fields.

    A step that settles a field gives the next one a copy with it: `work` is the folder of the index once its name is held,
    `selection` has the profile and the keys of the sources once these are recognised.
    """

    index: str
    tokenizer: FactTokenizer
    tokenizer_name: str
    wikipedia: tuple[Path, Path] | None = None
    selection: Selection = DEFAULT_SELECTION
    strict: bool = False
    replace: bool = False
    trigger: str = "Fact:"
    terminator: str = " ."

    def inputs(self, sources: Sequence[Path | Source]) -> Inputs:
        """Return the files of sources, labels and Wikipedia's dumps. Raises as `inputs_of`."""
        tables = self.selection.tables
        return inputs_of(
            sources,
            self.wikipedia,
            self.resources.workers,
            encoding=tables.encoding,
            labels=tables.labels,
            base=self.selection.base,
        )

    def header(self, sources: tuple[str, ...]) -> IndexHeader:
        """Return the new catalogue entry; `sources`: their addresses."""
        return IndexHeader(
            name=self.index,
            tokenizer_name=self.tokenizer_name,
            tokenizer=self.tokenizer,
            trigger=self.trigger,
            terminator=self.terminator,
            source=sources,
        )

    @contextmanager
    def new_index(self, database: Database) -> Iterator[tuple[Connection, "Build"]]:
        """Hold the name of the index to be made, with a folder below `work`, which is that of the build given.

        Raises InputError for a name that cannot be used, IndexExistsError if it is not free and `replace` is not set, or if
        another process is writing the index.
        """
        check_name(self.index)
        with writing(database, self.index, self.work) as connection, name_lock(connection, self.index):
            check_free(connection, self.index, self.replace)
            with work_folder(self.work, *names_of(connection), self.index) as folder:
                yield connection, replace(self, work=folder)


@contextmanager
def index_change(
    database: Database, index: str, work: Path, action: str
) -> Iterator[tuple[Connection, CatalogueEntry, Path]]:
    """Hold an index for a change, with a folder below `work` that is of this action.

    Raises IndexNotFoundError if there is no such index, IndexExistsError if another process is writing it.
    """
    with (
        writing(database, index, work) as connection,
        changing(connection, database, index) as entry,
        work_folder(work, *names_of(connection), index, action) as folder,
    ):
        yield connection, entry, folder
