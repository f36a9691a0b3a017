"""Index files made without a database, and older versions of a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import zstandard

from refactx.entity_ids import entity_number
from refactx.index.file.format import FILE_VERSION, ROWS, BlockWriter, SharedRows, SharedSegment, ShareHeader
from refactx.index.file.rows import KeyedRow, pack_rows, unpack_rows
from refactx.index.names import Named, pack_blocks, pack_id_blocks
from refactx.ingest.segment.builder import SegmentBuilder
from refactx.ingest.segment.cutting import Packing, Shape, learn
from refactx.share.export import to_database, to_file
from refactx.tree.codes import FORMAT_VERSION, RowCodec, shared_seed
from support.shared_index import blocks, forged
from support.stored_trees import ListedFacts, Sequences
from support.tiny_model import tiny_fact_tokenizer

Part = tuple[str, int, bytes]
Hubs = Mapping[tuple[str, str, str], int]


def write_file(
    path: Path,
    segments: Sequence[tuple[int, Sequences]],
    *,
    shape: Shape = Shape(),  # noqa: B008  # frozen
    names: Sequence[Mapping[str, Named]] = (),
    hubs: Hubs | None = None,
    rows_a_block: int = 3,
) -> Path:
    """Write the file of an index with these facts (signed, as token ids), names by table, the oldest first, and hubs."""
    parts: list[Part] = [("tokens", 0, zstandard.compress(tiny_fact_tokenizer().serialized.encode()))]
    described = [_add_segment(parts, number, *segment, shape) for number, segment in enumerate(segments)]
    sizes = [_add_rows(parts, "names", number, _name_rows(table), rows_a_block) for number, table in enumerate(names)]
    counts = None
    if hubs is not None:
        rows = [("\n".join(names).encode(), subjects.to_bytes(8, "big")) for names, subjects in hubs.items()]
        counts = _add_rows(parts, "hubs", 0, sorted(rows), rows_a_block)
    header = ShareHeader(
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
        names=tuple(sizes),
        hubs=counts,
    )
    path.write_bytes(forged([("header", 0, header.to_bytes()), *parts, ("contents", 0, b""), ("end", 0, b"")]))
    return path


def as_version_2(file: bytes) -> bytes:
    """The same index as a file of version 2: rows above the facts as in a database, without contents."""
    parts = [(block.kind, block.number, block.payload) for block in blocks(file) if block.kind != "contents"]
    header = ShareHeader.from_bytes(parts[0][2])
    shared = {(kind, number): payload for kind, number, payload in parts if kind in ("codes", "dict")}
    grown = dict.fromkeys(range(len(header.segments)), 0)
    old: list[Part] = []
    for kind, number, payload in parts[1:]:
        if kind not in ROWS:
            old.append((kind, number, b"" if kind == "end" else payload))
            continue
        rows = list(unpack_rows(payload, FILE_VERSION))
        if kind == "tree":
            codes, dictionary = shared["codes", number], shared["dict", number]
            codec = RowCodec(dictionary, seed=shared_seed(codes, dictionary))
            packed = [row if row[0][0] == 0 else to_database(row, codec, "test") for row in rows]
            grown[number] += sum(len(key) + len(value) for key, value in packed if key[0])
            rows = packed
        old.append((kind, number, _old_rows(rows)))
    segments = tuple(
        replace(one, rows=SharedRows(one.rows.rows, one.rows.size + grown[number]))
        for number, one in enumerate(header.segments)
    )
    stream = BytesIO()
    writer = BlockWriter(stream, version=2)
    for part in (("header", 0, json.dumps(asdict(replace(header, segments=segments))).encode()), *old):
        writer.write(*part)
    return stream.getvalue()


def _old_rows(rows: Sequence[KeyedRow]) -> bytes:
    sized = ((len(key).to_bytes(2, "big") + len(value).to_bytes(4, "big") + key + value) for key, value in rows)
    return b"".join(sized)


def _add_segment(parts: list[Part], number: int, sign: int, sequences: Sequences, shape: Shape) -> SharedSegment:
    facts = ListedFacts(sequences)
    codes, dictionary = learn(facts, 9)
    frequent = codes.frequent.astype("<i4").tobytes()
    codec = RowCodec(dictionary, seed=shared_seed(frequent, dictionary))
    with TemporaryDirectory() as work:
        builder = SegmentBuilder(facts, Packing(codes, codec), work=Path(work), shape=shape)
        stored = list(builder.rows())
    parts += [("codes", number, frequent), ("dict", number, dictionary)]
    rows = list(to_file(iter(stored), frequent, dictionary, "made"))
    counts = _add_rows(parts, "tree", number, rows, 3)
    size = sum(len(key) + len(value) for key, value in rows if key[0] == 0)
    tokens = sum(map(len, facts.sequences))
    return SharedSegment(
        sign=sign,
        levels=builder.levels,
        cut=shape.facts,
        facts=len(facts),
        tokens=tokens,
        rows=SharedRows(counts.rows, size),
    )


def _add_rows(parts: list[Part], kind: str, number: int, rows: Sequence[KeyedRow], a_block: int) -> SharedRows:
    parts += [(kind, number, pack_rows(rows[low : low + a_block])) for low in range(0, len(rows), a_block)]
    return SharedRows(len(rows), sum(len(key) + len(value) for key, value in rows))


def _name_rows(names: Mapping[str, Named]) -> list[KeyedRow]:
    numbered = sorted(
        (-entity_number(named.id) if named.object_kind == "inverse" else entity_number(named.id), name)
        for name, named in names.items()
    )
    by_name = sorted(names.items(), key=lambda pair: pair[0].encode())
    return [*pack_id_blocks(numbered, RowCodec()), *pack_blocks(by_name, RowCodec())]


def _vocabulary(segments: Sequence[tuple[int, Sequences]]) -> int:
    return 1 + max((token for _, some in segments for sequence in some for token in sequence), default=0)
