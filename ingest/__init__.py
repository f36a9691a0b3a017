"""Building and changing an index: parse, name, verbalise, encode, sort, cut into pieces, load.

`ingest` builds an index from sources; `append` and `forget` add facts to it or retract them, as one more segment;
`update` replaces the facts of things, `forget_things` retracts all that is about them, `rename` gives one another name;
`FactWriter` writes single facts; `compact` merges its segments into one; `retokenise` builds an index of the same facts for
another tokenizer.
`Selection` chooses facts of the sources, `Resources` limits memory and threads, and `Report` accounts for every line.
DuckDB, pyarrow and psycopg are imported when a function is first used.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.change import ChangeResult, append, forget, forget_things, rename, update
    from refactx.ingest.compaction import CompactResult, compact
    from refactx.ingest.new_index import ingest
    from refactx.ingest.publish import IngestResult
    from refactx.ingest.remember import FactChange, FactWriter
    from refactx.ingest.report import Report
    from refactx.ingest.retokenisation import retokenise
    from refactx.ingest.source_options import Selection
    from refactx.ingest.work import Resources

__all__ = ["ChangeResult", "CompactResult", "FactChange", "FactWriter", "IngestResult", "Report", "Resources"]
__all__ += ["Selection"]
__all__ += ["append", "compact", "forget", "forget_things", "ingest", "rename", "retokenise", "update"]
__dir__ = __all__.copy
__getattr__ = lazy_exports(
    __name__,
    {
        "change": "ChangeResult append forget forget_things rename update",
        "compaction": "CompactResult compact",
        "new_index": "ingest",
        "publish": "IngestResult",
        "remember": "FactChange FactWriter",
        "report": "Report",
        "work": "Resources",
        "retokenisation": "retokenise",
        "source_options": "Selection",
    },
)
