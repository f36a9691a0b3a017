"""A generator of dumps in the exact form that Wikimedia publishes, of any size, deterministic by a seed.

world = World(seed=1, items=100_000)
truthy, page, page_props = write_dumps(world, folder)
truth(world)   # what an ingest has to find in them
"""

import gzip
from pathlib import Path

from support.ingest.dump_world import World
from support.ingest.enwiki_dump import page_props_sql, page_sql
from support.ingest.truthy_dump import truthy_lines


def write_dumps(world: World, folder: Path) -> tuple[Path, Path, Path]:
    """Write the three dumps, gzipped, and return their paths; they have the names of the published ones."""
    paths = tuple(folder / f"{name}.gz" for name in ("latest-truthy.nt", "enwiki-page.sql", "enwiki-page_props.sql"))
    lines = (line.encode() for line in truthy_lines(world))
    for path, pieces in zip(paths, (lines, page_sql(world), page_props_sql(world)), strict=True):
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.writelines(pieces)
    return paths[0], paths[1], paths[2]
