"""The figures of an index that `refactx index list` and `show` print, as JSON documents."""

from typing import Any

import numpy as np

from refactx.index.index import Index
from refactx.postgres.catalogue_entry import CatalogueEntry
from refactx.tree.piece import TERMINAL


def index_document(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the JSON document of a catalogue entry, as `refactx index list --json` prints it.

    `bytes`: the size of the tree with B-tree and TOAST; `names_bytes`: that of the names, which have tables of their
    own.
    """
    size = entry.tree_bytes
    return {
        "name": entry.name,
        "state": entry.state,
        "facts": entry.facts,
        "tokens": entry.tokens,
        "segments": entry.segments,
        "unfinished": entry.unfinished,
        "levels": entry.levels,
        "bytes": size,
        "table_bytes": entry.table_bytes,
        "index_bytes": entry.index_bytes,
        "toast_bytes": entry.toast_bytes,
        "names_bytes": entry.names_bytes,
        "bytes_per_fact": round(size / entry.facts, 3) if entry.facts else None,
        "tokenizer": entry.tokenizer,
        "fingerprint": entry.fingerprint,
        "vocabulary_size": entry.vocabulary_size,
        "trigger": entry.trigger,
        "terminator": entry.terminator,
        "format": entry.format,
        "knowledge_base": entry.knowledge_base,
        "source": list(entry.source),
        "created": entry.created.isoformat(timespec="seconds"),
        "report": entry.report,
    }


def shape_of(index: Index) -> dict[str, Any]:
    """Return the rows, depth and fan-out of an index as a JSON document.

    `depth_mean`: tokens of a fact; `fan_out_root`, `fan_out_widest`: children of the root, and of the widest node in
    the root pieces.
    """
    rows = sum(source.count() for source in index.rows)
    widest = 0
    for _, tree in index.segments:
        root = tree.piece(tree.root_key)
        if root.level:
            kinds = root.kinds != TERMINAL
            depths, counts = np.unique(root.lcp[kinds], return_counts=True)
            widest = max(widest, int(counts.max(initial=0)) if len(depths) else 0)
    return {
        "rows": rows,
        "facts_per_row": round(index.facts / max(1, rows), 1),
        "depth_mean": round(index.tokens / max(1, index.facts), 1),
        "fan_out_root": len(index.children([]).tokens),
        "fan_out_widest": widest,
    }
