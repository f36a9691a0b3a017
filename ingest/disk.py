"""The disk space that an ingest needs in its work folder, checked before it starts."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from refactx.errors import InputError
from refactx.ingest.sources.source import Source

BYTES_PER_TEXT_BYTE = 0.7
"""Peak size of the folder for each byte of the sources' text (docs/how-to/wikidata-dump.md has the measurements). It is
reached while facts are sorted; half of it is what DuckDB spills."""
_REPORTED_BYTES = 1 << 30


def expected_bytes(sources: Sequence[Source]) -> int:
    """Return how many bytes an ingest of the sources needs in its folder at the peak; standard input counts as 0.

    How much text a compressed file holds is estimated from its start.
    """
    return round(sum((source.size or 0) * source.text_per_byte() for source in sources) * BYTES_PER_TEXT_BYTE)


def check_disk(folder: Path, needed: int, report: bool) -> None:
    """Raise InputError if an ingest needs more bytes than are free in `folder`.

    If `report`, write a need of 1 GiB or more to standard error.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"the ingest needs about {_format_size(needed)} in {folder}, where {_format_size(free)} are free: "
            "free disk space there, or give --work-dir a folder on a larger disk"
        )
    if report and needed >= _REPORTED_BYTES:
        sys.stderr.write(f"the ingest needs about {_format_size(needed)} in {folder} ({_format_size(free)} are free)\n")


def _format_size(size: int) -> str:
    """Return a number of bytes as text.

    >>> _format_size(2_500_000_000), _format_size(300_000), _format_size(700)
    ('2.5 GB', '0.3 MB', '0.7 kB')
    """
    if size < 100_000:
        return f"{size / 1e3:,.1f} kB"
    return f"{size / 1e9:,.1f} GB" if size >= 100_000_000 else f"{size / 1e6:,.1f} MB"
