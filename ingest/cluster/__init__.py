"""Ingest on a cluster of Spark, with the API of Spark Connect alone: data frames, SQL and `mapInArrow`.

`ingest`, and `build_index` for an opened database and tokenizer, build the index that `refactx.ingest.ingest` builds on
one machine, row for row. Machines of the cluster parse, join, encode, sort and cut; the driver loads names and rows into
PostgreSQL in one transaction.
"""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.ingest.cluster.new_index import build_index, ingest
    from refactx.ingest.cluster.session import spark_session

__all__ = ["build_index", "ingest", "spark_session"]
__getattr__ = lazy_exports(__name__, {"new_index": "build_index ingest", "session": "spark_session"})
