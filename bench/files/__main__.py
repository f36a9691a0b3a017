"""`python -m bench.files [INDEX] [--db URL] [--walks N]`: an index in its file over the same index in its database.

The index is exported to a temporary file. Each of N random facts is walked cold in both, in turn: in an index that was
opened this moment, after one lookup that finds nothing; then warm, ten times. The time from the start of a process to
its first `children()` is that of ten processes.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import click

from bench.walks import microseconds, random_facts, walk_fact
from refactx.connect import database, open_index
from refactx.index.database_source import DatabaseSource
from refactx.index.index import Index
from refactx.postgres.catalogue import find_index
from refactx.postgres.database import Database
from refactx.share.export import export_index

_FIRST = """
import sys
import refactx
print(refactx.open_index(sys.argv[1]).children([]).total, flush=True)
"""
_PROCESSES = 10
_WARM = 10


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
        click.echo(f"process start to first children()  {median(seconds):>10.3f} s (least {min(seconds):.3f})")


def _walks(opened: Database, name: str, path: Path, count: int) -> dict[str, tuple[float, float]]:
    """Return the median microseconds of walks, cold and warm, in the database and in the file."""
    entry = find_index(opened, name)
    times: dict[str, tuple[list[float], list[float]]] = {"cold": ([], []), "warm": ([], [])}
    with open_index(path) as index:
        facts = random_facts(index, count)
    for fact in facts:
        for place, index in enumerate((Index(DatabaseSource(opened, entry)), open_index(path))):
            for rows in index.rows:
                rows.fetch(b"none")  # prepares the statement
            times["cold"][place].append(microseconds(lambda: walk_fact(index, fact)))  # noqa: B023  # called at once
            warm = [microseconds(lambda: walk_fact(index, fact)) for _ in range(_WARM)]  # noqa: B023
            times["warm"][place].append(median(warm))
    return {what: (median(ours), median(files)) for what, (ours, files) in times.items()}


def _first_children(path: Path) -> float:
    """Return the seconds from the start of a process to its first answer."""
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", _FIRST, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
