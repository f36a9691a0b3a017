"""A share of the claims of a source of N-Triples, such as a day's, that a user appends to an index."""

import re
from collections.abc import Iterator
from pathlib import Path

from refactx.ingest.sources import Source

_ENTITY = r"<http://www\.wikidata\.org/entity/([PQ]\d+)>"
_LINE = re.compile(f"{_ENTITY} <([^>]*)>(?: {_ENTITY})?".encode())
_DIRECT = b"http://www.wikidata.org/prop/direct/"


def claims_slice(source: Path, path: Path, one_in: int) -> Path:
    """Write every `one_in`-th claim of a source to a file, then its labels and descriptions of their entities."""
    entities: set[bytes] = set()
    count = 0
    with path.open("wb") as file:
        for line, match in _statements(source):
            if match[2].startswith(_DIRECT):
                count += 1
                if count % one_in == 0:
                    file.write(line)
                    entities |= {match[1], match[2].removeprefix(_DIRECT), match[3] or match[1]}
        for line, match in _statements(source):
            if match[1] in entities and not match[2].startswith(_DIRECT):
                file.write(line)
    return path


def _statements(source: Path) -> Iterator[tuple[bytes, re.Match[bytes]]]:
    """Yield the lines about entities."""
    for block in Source(source).blocks():
        for line in block.splitlines(keepends=True):
            match = _LINE.match(line)
            if match:
                yield line, match
