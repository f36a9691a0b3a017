"""How much disk the folder of an ingest will need, told before it starts."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from refactx.errors import InputError

from .sources.source import Source

BYTES_PER_TEXT_BYTE = 0.7
"""The most that the folder held at once, for each byte of the sources' text: docs/scale.md has the measurements. It is
reached while facts are sorted; half of it is what DuckDB spills."""
_WORTH_SAYING = 1 << 30


def expected_bytes(sources: Sequence[Source]) -> int:
    """Bytes that an ingest of the sources will need in its folder, at their peak; standard input counts as nothing.

    How much text a compressed file holds is judged from its start.
    """
    return round(sum((source.size or 0) * source.text_per_byte() for source in sources) * BYTES_PER_TEXT_BYTE)


def check_disk(folder: Path, needed: int, say: bool) -> None:
    """Say how much an ingest in `folder` will need, if it is a gigabyte or more.

    Raises InputError if less than that is free.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the ingest needs some {_written(needed)} in {folder}, where {_written(free)} are free: "
            "free disk space there, or give --work-dir a folder on a larger disk"
        )
    if say and needed >= _WORTH_SAYING:
        sys.stderr.write(f"the ingest needs some {_written(needed)} in {folder} ({_written(free)} are free)\n")


def _written(size: int) -> str:
    """
    >>> _written(2_500_000_000), _written(300_000)
    ('2.5 GB', '0.3 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 100_000_000 else f"{size / 1e6:,.1f} MB"
