"""A second index of a knowledge base, for another tokenizer, without the sources.

The facts of a knowledge base are kept once, as the token sequences of an index: they decode to the very texts that were
encoded, so a store of texts beside it would be a second copy. The new index shares the name tables.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from refactx.errors import InputError, TokenizerMismatchError
from refactx.fact import DESCRIPTIONS
from refactx.index.index import Index
from refactx.postgres.building import check_free, check_name
from refactx.postgres.changes import changing
from refactx.postgres.database import Database
from refactx.postgres.locks import name_lock
from refactx.postgres.writer import writing
from refactx.tokenizer import FactTokenizer
from refactx.tree.arrays import Offsets, offsets_of, ragged
from refactx.tree.children import Tokens
from refactx.tree.matrix import from_block
from refactx.tree.scan import surviving

from .encoding.encode import encode_facts
from .encoding.encoded import EncodedFacts
from .lossless import check_lossless
from .new_index import Options, ReadyFacts, Result, publish_index
from .progress import Clock, Progress
from .report import Report
from .segment.load import Learned
from .work_database import Work, number, open_work_database
from .work_folder import names_of, work_folder

_CACHE_BYTES = 16 << 20  # each row is read once
_PARTS = ("subject", "predicate", "object")
_FILES = {
    "units.parquet": "SELECT unit, text FROM units ORDER BY unit",
    "facts.parquet": """
        SELECT s.unit AS subject, p.unit AS predicate, o.unit AS object FROM texts AS t
        JOIN units AS s ON s.text = t.subject JOIN units AS p ON p.text = t.predicate JOIN units AS o ON o.text = t.object
        ORDER BY ALL""",
}
_UNITS = """
CREATE TABLE units AS SELECT CAST(row_number() OVER (ORDER BY text) - 1 AS INTEGER) AS unit, text FROM (
    SELECT subject AS text FROM texts UNION SELECT predicate FROM texts UNION SELECT object FROM texts
)
"""


def ingest_knowledge_base(base: str, database: Database, work: Path, options: Options) -> Result:
    """Build an index from the facts that a ready index, `base`, has now, for the tokenizer of `options`.

    It is what an ingest of the same facts would give, and shares the names. `options.selection`, `strict`, `trigger` and
    `terminator` are not used: trigger and terminator are those of `base`. Errors as of `ingest.run.ingest`; and
    TokenizerMismatchError if either tokenizer loses characters, so that texts do not come back from ids.
    """
    check_name(options.index)
    with (
        writing(database, options.index, work) as connection,
        name_lock(connection, options.index),
        changing(connection, database, base) as entry,
    ):
        check_free(connection, options.index, options.replace)
        clock, progress = Clock(), Progress(options.quiet)
        index = Index(database, entry, _CACHE_BYTES)
        if not index.facts:
            raise InputError(f"index {base!r} is empty: there is nothing to build {options.index!r} from")
        check_lossless(index.tokenizer, index.tokenizer_name)
        check_lossless(options.tokenizer, options.tokenizer_name)
        with work_folder(work, *names_of(connection), options.index, "kb") as folder:
            with clock.step("read"), progress:
                descriptions = _write_texts(index, folder, options, progress)
            limits: dict[str, Any] = {"memory": options.memory, "workers": options.workers}
            with clock.step("check"), progress:
                _check_read_back(index, _encoded(folder, "check", index.tokenizer, index.trigger, progress, limits))
            with clock.step("encode"), progress:
                facts = _encoded(folder, "encoded", options.tokenizer, index.trigger, progress, limits)
            count = len(facts)
            known = entry["report"]
            report = Report(
                facts=count,
                claims=count - descriptions,
                descriptions=descriptions,
                derived=0,
                lines_read=count,
                kept=count,
                notes=(f"read from index {base!r}",),
                selection=known.get("selection", {}),
                inverse_properties=known.get("inverse_properties", {}),
            )
            ready = ReadyFacts(facts, Learned.of(facts), report, tuple(entry["source"]))
            return publish_index(
                *(connection, folder, options, ready, clock),
                trigger=(index.trigger, index.terminator),
                knowledge_base=entry["knowledge_base"],
            )


def _write_texts(index: Index, folder: Path, options: Options, progress: Progress) -> int:
    """The texts of all facts as a knowledge base on disk (`ingest.knowledge_base`), without names; how many describe."""
    with open_work_database(folder, options.memory, options.workers) as database:
        database.execute("CREATE TABLE texts (subject VARCHAR, predicate VARCHAR, object VARCHAR)")
        for tokens, offsets in _facts_of(index):
            _insert(database, _texts(index.tokenizer, tokens, offsets))
            progress.advance("read", len(offsets) - 1, index.facts)
        database.execute(_UNITS)
        for name, query in _FILES.items():
            target = str(folder / name).replace("'", "''")
            database.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
        described = ", ".join(f"'{predicate}'" for predicate in DESCRIPTIONS)
        return number(database, f"SELECT count(*) FROM texts WHERE predicate IN ({described})")


def _facts_of(index: Index) -> Iterator[tuple[Tokens, Offsets]]:
    return (from_block(block) for block in surviving(index.segments))


def _texts(tokenizer: FactTokenizer, tokens: Tokens, offsets: Offsets) -> pa.Table:
    """Subject, predicate and object of facts, as text."""
    table = tokenizer.token_bytes
    sizes = np.fromiter(map(len, table), np.int64, len(table))
    joined: NDArray[np.uint8] = np.frombuffer(b"".join(table), np.uint8)
    data = joined[ragged(offsets_of(sizes)[tokens], sizes[tokens])]
    ends = offsets_of(sizes[tokens])[offsets]
    buffers = [None, pa.py_buffer(ends.astype(np.int64).tobytes()), pa.py_buffer(data.tobytes())]
    try:
        texts = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers).cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise _not_read_back(f"they are no UTF-8 ({error})") from error
    # ` <s> <p> <o>` without its ends; what reads otherwise is found when it is encoded again.
    parts = pc.split_pattern(pc.utf8_slice_codeunits(texts, 2, -1), "> <")
    if not pc.all(pc.equal(pc.list_value_length(parts), 3)).as_py():
        raise _not_read_back("a text has not three parts")
    return pa.table({name: pc.list_element(parts, at) for at, name in enumerate(_PARTS)})


def _insert(database: Work, rows: pa.Table) -> None:
    database.register("incoming", rows)
    database.execute("INSERT INTO texts FROM incoming")
    database.unregister("incoming")


def _encoded(
    knowledge: Path, name: str, tokenizer: FactTokenizer, trigger: str, progress: Progress, limits: dict[str, Any]
) -> EncodedFacts:
    folder = knowledge / name
    folder.mkdir()
    return encode_facts(knowledge, tokenizer, trigger, folder, progress=progress.advance, **limits)


def _check_read_back(index: Index, again: EncodedFacts) -> None:
    """Raise TokenizerMismatchError unless the texts encode to the very ids that they were read from, fact by fact."""
    done = 0
    for tokens, offsets in _facts_of(index):
        count = len(offsets) - 1
        if done + count <= len(again):
            tokens_again, offsets_again = again.read_tokens(done, done + count)
            if np.array_equal(tokens, tokens_again) and np.array_equal(offsets, offsets_again):
                done += count
                continue
        raise _not_read_back("a text does not encode to the ids that it was read from")
    if done != len(again):
        raise _not_read_back("some texts are equal")


def _not_read_back(why: str) -> TokenizerMismatchError:
    return TokenizerMismatchError(
        f"the facts cannot be read back from the index's token ids: {why}. Ingest the sources again instead of --kb"
    )
