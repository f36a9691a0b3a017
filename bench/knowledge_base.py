"""`python -m bench.knowledge_base [FILE]`: the rate of N-Triples → knowledge base over that of `zcat | wc -l`.

The two are measured in turn, three times, and the best of each counts, so that both see the same machine.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from bench import data
from bench.ingest import tree_memory

_BUILD = """
import sys
import time
from pathlib import Path
from bench.data import knowledge_of
start = time.perf_counter()
built = knowledge_of(Path(sys.argv[1]), Path(sys.argv[2]))
print(built.report.lines_read, time.perf_counter() - start)
"""
_CAT = {".gz": "zcat", ".bz2": "bzcat", ".zst": "zstdcat"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One build in a process of its own: `seconds` without its start, `peak` bytes of memory, `disk` bytes of files."""

    lines: int
    seconds: float
    peak: int
    disk: int


def main() -> None:
    """Print the figures for one file of N-Triples."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else [p for p in data.sources() if ".nt" in p.name][-1]
    for figure, value in figures(source).items():
        click.echo(f"  {figure:<52} {value:>12,.3f}")


def figures(source: Path, rounds: int = 3) -> dict[str, float]:
    """Return figures by name, as docs/results/benchmarks.md has them."""
    cats, builds = [], []
    for _ in range(rounds):
        cats.append(cat_seconds(source))
        builds.append(build(source))
    best = min(builds, key=lambda built: built.seconds)
    return {
        "N-Triples → knowledge base, lines/s over zcat | wc -l": min(cats) / best.seconds,
        "N-Triples → knowledge base, lines/s": best.lines / best.seconds,
        "zcat | wc -l, lines/s": best.lines / min(cats),
        "peak memory of the build, GB": max(built.peak for built in builds) / 1e9,
        "its largest folder, bytes a byte of the source": max(built.disk for built in builds) / source.stat().st_size,
    }


def cat_seconds(source: Path) -> float:
    """Return how many seconds the shell takes to count the lines."""
    start = time.perf_counter()
    reader = subprocess.Popen([_CAT.get(source.suffix, "cat"), str(source)], stdout=subprocess.PIPE)
    subprocess.run(["wc", "-l"], stdin=reader.stdout, check=True, capture_output=True)
    reader.wait()
    return time.perf_counter() - start


def build(source: Path) -> Build:
    """Measure the build of a knowledge base, and delete it."""
    peak = disk = 0
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", _BUILD, str(source), folder], stdout=subprocess.PIPE, text=True
        )
        while process.poll() is None:
            peak, disk = max(peak, tree_memory(process.pid)), max(disk, folder_bytes(Path(folder)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"building a knowledge base of {source} failed: see its message above")
    lines, seconds = output.split()
    return Build(lines=int(lines), seconds=float(seconds), peak=peak, disk=disk)


def folder_bytes(folder: Path) -> int:
    """Return how many bytes the files in a folder take on the disk."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # deleted meanwhile
            yield path.stat().st_blocks * 512


if __name__ == "__main__":
    main()
