"""`python -m bench.files [INDEX] [--db URL] [--walks N]`: an index in its file over the same index in its database.

The index is exported to a temporary file. Each of N random facts is walked cold in both, in turn: in an index that was
opened this moment, after one lookup that finds nothing; the fastest of five walks counts, and of ten warm ones. Figures
are medians over the facts. The time from the start of a process to its first `children()` is that of ten processes,
with the time of the processor in brackets, which other jobs do not change.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

from bench.walks import microseconds, random_facts, walk_fact
from refactx.index.database import DatabaseSource
from refactx.index.index import Index
from refactx.index.open import database, open_index
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.share.export import export_index

_FIRST = """
import sys
import refactx
print(refactx.open_index(sys.argv[1]).children([]).total, flush=True)
"""
_PROCESSES, _COLD, _WARM = 10, 5, 10


@click.command()
@click.argument("name", default="default")
@click.option("--db", metavar="URL")
@click.option("--walks", default=300, metavar="N")
def main(name: str, db: str | None, walks: int) -> None:
    """Print the figures of one index."""
    with tempfile.TemporaryDirectory() as folder, database(db) as opened:
        path = Path(folder) / "index.refactx"
        done = export_index(opened, name, path)
        click.echo(f"facts                              {done.facts:>10,}")
        click.echo(f"bytes of the file a fact           {done.size / done.facts:>10.2f}")
        for what, (of_database, of_file) in _walks(opened, name, path, walks).items():
            click.echo(
                f"{what} walk, file / database       {of_file / of_database:>10.3f}   {of_file:.0f} / {of_database:.0f} µs"
            )
        seconds = [_first_children(path) for _ in range(_PROCESSES)]
        wall, cores = (median(column) for column in zip(*seconds, strict=True))
        click.echo(f"process start to first children()  {wall:>10.3f} s ({cores:.3f})")


def _walks(opened: Database, name: str, path: Path, count: int) -> dict[str, tuple[float, float]]:
    """Return the median microseconds of walks, cold and warm, in the database and in the file."""
    entry = find_index(opened, name)
    times: dict[str, tuple[list[float], list[float]]] = {"cold": ([], []), "warm": ([], [])}
    with open_index(path) as first:
        facts = random_facts(first, count)
    for fact in facts:
        cold: tuple[list[float], list[float]] = ([], [])
        for _ in range(_COLD):
            both = Index(DatabaseSource(opened, entry)), open_index(path)
            for index, walks in zip(both, cold, strict=True):
                for rows in index.rows:
                    rows.fetch(b"none")  # prepares the statement
                walks.append(microseconds(lambda: walk_fact(index, fact)))  # noqa: B023  # called at once
        for place, index in enumerate(both):
            times["cold"][place].append(min(cold[place]))
            warm = [microseconds(lambda: walk_fact(index, fact)) for _ in range(_WARM)]  # noqa: B023
            times["warm"][place].append(min(warm))
    return {what: (median(ours), median(files)) for what, (ours, files) in times.items()}


def _first_children(path: Path) -> tuple[float, float]:
    """Return the seconds from the start of a process to its first answer, and those of the processor to its end."""
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", _FIRST, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wall = time.perf_counter() - started
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return wall, used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
