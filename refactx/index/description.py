"""An index in figures: what `refactx index list` and `show` print."""

from typing import Any

import numpy as np

from refactx.index.index import Index
from refactx.tree.piece import TERMINAL


def described(entry: dict[str, Any]) -> dict[str, Any]:
    """A catalogue entry with its sizes: `bytes` is the tree with B-tree and TOAST; the names beside it are `names_bytes`."""
    size = entry["table_bytes"] + entry["index_bytes"] + entry["toast_bytes"]
    return {
        **{key: entry[key] for key in ("name", "state", "facts", "tokens", "segments", "unfinished", "levels")},
        "bytes": size,
        **{key: entry[key] for key in ("table_bytes", "index_bytes", "toast_bytes", "names_bytes")},
        "bytes_per_fact": round(size / entry["facts"], 3) if entry["facts"] else None,
        **{key: entry[key] for key in ("tokenizer", "fingerprint", "vocabulary_size", "trigger", "terminator")},
        **{key: entry[key] for key in ("format", "knowledge_base")},
        "source": entry["source"],
        "created": entry["created"].isoformat(timespec="seconds"),
        "report": entry["report"],
    }


def shape_of(index: Index) -> dict[str, Any]:
    """Rows, depth and fan-out: `rows_by_level` from the facts up; tokens of a fact and children of the root and of the widest
    node that is kept in a root piece."""
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
