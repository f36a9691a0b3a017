"""The interface between an index and the place that it is read from: a database, or a file."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from refactx.index.name_tables import ReadBlocks
from refactx.index.patience import Patience
from refactx.index.snapshot import Segment, Snapshot
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.tokenizer import FactTokenizer

if TYPE_CHECKING:
    from refactx.postgres.database import Database

Value = TypeVar("Value")


class IndexSource(Protocol):
    """A ready index in one place. `entry`: its entry in the catalogue, or what a file has of that.

    Methods raise RefactxError of the kinds that `Index` documents.
    """

    @property
    def entry(self) -> CatalogueEntry: ...

    @property
    def database(self) -> "Database":
        """The database, for what is stored beside an index there. Raises InputError if there is none."""
        ...

    def snapshot(self, cache_bytes: int, before: Sequence[Segment] = ()) -> Snapshot:
        """Return the index as it is now. Segments in `before` stay open, with their caches."""
        ...

    def patience(self) -> Patience | None:
        """Return the wait for a table that a snapshot has and the server that answered has not; None: there is none."""
        ...

    def prepare_tokenizer(self) -> Callable[[], FactTokenizer]:
        """Read the tokenizer, and return what loads it."""
        ...

    def read_names(self, find: Callable[[ReadBlocks], Value], *, unlimited: bool = False) -> Value:
        """Return `find(read)`, where `read` reads blocks of a name table; maybe without the time limit of a lookup."""
        ...

    def name_rows(self, table: int, first: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of a name table from the key `first` on."""
        ...

    def hubs(self, objects: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the subjects of some objects that are hubs, by object and inverse predicate."""
        ...

    def faults(self) -> Iterable[str]:
        """Check how the index is stored, apart from its rows, and yield what is wrong."""
        ...

    def close(self) -> None:
        """Let go of the database or file."""
        ...
