"""Index files made without a database."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

from refactx.entity_ids import entity_number
from refactx.index.file import IndexFileWriter, KeyedRow
from refactx.index.header import FileHeader, FileSegment
from refactx.index.names import Named, pack_blocks, pack_id_blocks
from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.cutting import Packing, Shape, learn
from refactx.share.export import to_file
from refactx.tree.codes import FORMAT_VERSION, RowCodec, shared_seed
from support.stored_trees import ListedFacts, Sequences
from support.tiny_model import tiny_fact_tokenizer

Hubs = Mapping[tuple[str, str, str], int]


def write_file(
    path: Path,
    segments: Sequence[tuple[int, Sequences]],
    *,
    shape: Shape = Shape(),  # noqa: B008  # frozen
    names: Sequence[Mapping[str, Named]] = (),
    hubs: Hubs | None = None,
) -> Path:
    """Write the file of an index with these facts (signed, as token ids), names by table, the oldest first, and hubs."""
    with closing(IndexFileWriter(path)) as writer:
        writer.add(("tokens", 0), zstandard.compress(tiny_fact_tokenizer().serialized.encode()))
        described = [_add_segment(writer, number, *segment, shape) for number, segment in enumerate(segments)]
        tables = [_name_rows(table) for table in names]
        for number, rows in enumerate(tables):
            writer.add_table(("names", number), rows)
        if hubs is not None:
            counts = (("\n".join(three).encode(), subjects.to_bytes(8, "big")) for three, subjects in hubs.items())
            writer.add_table(("hubs", 0), sorted(counts))
        writer.finish(
            FileHeader(
                format=FORMAT_VERSION,
                name="made",
                tokenizer="tiny",
                fingerprint=tiny_fact_tokenizer().fingerprint,
                vocabulary_size=max(len(tiny_fact_tokenizer().token_bytes), _vocabulary(segments)),
                trigger="Fact:",
                terminator=" .",
                source=("test",),
                report={} if hubs is None else {"hubs": len(hubs)},
                created="2026-01-01T00:00:00+00:00",
                origin=(1,),
                segments=tuple(described),
                names=tuple(map(len, tables)),
                names_bytes=sum(len(key) + len(value) for rows in tables for key, value in rows),
                hubs=None if hubs is None else len(hubs),
            )
        )
    return path


def _add_segment(writer: IndexFileWriter, number: int, sign: int, sequences: Sequences, shape: Shape) -> FileSegment:
    facts = ListedFacts(sequences)
    codes, dictionary = learn(facts, 9)
    frequent = codes.frequent.astype("<i4").tobytes()
    codec = RowCodec(dictionary, seed=shared_seed(frequent, dictionary))
    with TemporaryDirectory() as work:
        builder = SegmentBuilder(facts, Packing(codes, codec), work=Path(work), shape=shape)
        stored = list(builder.rows())
    writer.add(("codes", number), frequent)
    writer.add(("dict", number), dictionary)
    writer.add_table(("tree", number), to_file(iter(stored), frequent, dictionary, "made"))
    return FileSegment(
        sign=sign,
        levels=builder.levels,
        cut=shape.facts,
        facts=len(facts),
        tokens=sum(map(len, facts.sequences)),
        rows=len(stored),
    )


def _name_rows(names: Mapping[str, Named]) -> list[KeyedRow]:
    numbered = sorted(
        (-entity_number(named.id) if named.object_kind == "inverse" else entity_number(named.id), name)
        for name, named in names.items()
    )
    by_name = sorted(names.items(), key=lambda pair: pair[0].encode())
    return [*pack_id_blocks(numbered, RowCodec()), *pack_blocks(by_name, RowCodec())]


def _vocabulary(segments: Sequence[tuple[int, Sequences]]) -> int:
    return 1 + max((token for _, some in segments for sequence in some for token in sequence), default=0)
