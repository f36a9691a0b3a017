"""`python -m bench.living [FILE]`: an index that changes: appending over building, readers of a compaction, five segments.

Everything is timed in this process on the same machine, so each figure is a ratio within one run; the reader whose latencies
are measured is a process of its own (`bench.reader`).
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median

import click

from bench import data
from bench.walks import random_facts
from refactx.connect import database, open_index
from refactx.index import Index
from refactx.ingest.change import ChangeOptions, append, forget
from refactx.ingest.compact import CompactOptions, compact
from refactx.ingest.run import Options, ingest
from refactx.models import load_tokenizer
from refactx.postgres import Database

NAME = "bench-living"
SHARE = 100
"""One fact in so many is appended."""
ROUNDS = 3
"""Of each change, and of walks; the best counts, since the machine is shared."""
WALKS = 300
QUIET_SECONDS = 20.0
"""How long a reader is measured with nothing else going on."""


def main() -> None:
    """Print the figures for one source, with the demo model's tokenizer."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else data.sources()[-1]
    with tempfile.TemporaryDirectory() as folder, database() as opened:
        for figure, value in figures(source, data.demo_model_folder(), opened, Path(folder)):
            click.echo(f"  {figure:<60} {value:>12,.4f}")


def figures(source: Path, tokenizer: Path, opened: Database, folder: Path) -> list[tuple[str, float]]:
    """Figures by name, as docs/benchmarks.md has them."""
    loaded = load_tokenizer(str(tokenizer))
    change, work = ChangeOptions(NAME, loaded[0], quiet=True), folder / "work"
    found: list[tuple[str, float]] = []

    build = Options(NAME, *loaded, replace=True, quiet=True)
    building = [_timed(lambda: ingest([source], opened, work, build)) for _ in range(2)]
    with open_index(NAME, opened.url) as index:
        facts = index.facts
        slices = [_facts_file(index, folder / f"{n}.txt", facts // SHARE, seed=n) for n in range(3)]
    forgetting, compacting, appending = [], [], []
    for _ in range(ROUNDS):
        forgetting.append(_timed(lambda: forget([slices[0]], opened, work, change)))
        compacting.append(_timed(lambda: compact(opened, work, CompactOptions(NAME, quiet=True))))
        appending.append(_timed(lambda: append([slices[0]], opened, work, change)))
    whole, cpu = map(min, zip(*building, strict=True))
    found += [("facts", facts), ("building, seconds", whole), ("building, seconds of a core", cpu)]
    for what, times in (("appending 1%", appending), ("forgetting 1%", forgetting), ("compacting", compacting)):
        best, best_cpu = map(min, zip(*times, strict=True))
        found += [(f"{what} over building", best / whole), (f"{what} over building, of a core", best_cpu / cpu)]
    for slice_ in slices[1:]:
        forget([slice_], opened, work, change)
    append([slices[1]], opened, work, change)
    with open_index(NAME, opened.url) as index:
        walked = random_facts(index, WALKS, seed=9)
        segments = len(index.segments)
    several = _walks(opened.url, walked)
    quiet = _read_during(opened.url, folder, walked, lambda: time.sleep(QUIET_SECONDS))
    busy = _read_during(opened.url, folder, walked, lambda: _compact_as_a_user(opened.url, work))
    one = _walks(opened.url, walked)
    for at, which in enumerate(
        ("of prefixes seen before, p50", "of new prefixes, mean", "of a reader's first fact, mean")
    ):
        found.append((f"children() on {segments} segments over one, {which}", several[at] / one[at]))
    found += [
        ("children() of a reader, p99, microseconds", quiet["p99"]),
        ("the same during a compaction, over that", busy["p99"] / quiet["p99"]),
        ("the slowest during a compaction, milliseconds", busy["max"] / 1000),
    ]
    return found


def _timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of this process's cores (the server's not)."""
    start, core = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - core


def _facts_file(index: Index, path: Path, count: int, seed: int) -> Path:
    """So many facts of an index, drawn evenly, as a source."""
    facts = {index.tokenizer.decode(fact) for fact in random_facts(index, count, seed)}
    path.write_text("".join(fact.lstrip() + " .\n" for fact in sorted(facts)))
    return path


def _walks(url: str, facts: Sequence[tuple[int, ...]]) -> tuple[float, float, float]:
    """Microseconds of `children()` along facts: the median where the prefix was asked for before; the mean along new facts, in
    an index that is open; and along the first fact of one that was just opened. The best of some rounds."""
    rounds = [_walks_once(url, facts) for _ in range(ROUNDS)]
    known, new, first = map(min, zip(*rounds, strict=True))
    return known, new, first


def _walks_once(url: str, facts: Sequence[tuple[int, ...]]) -> tuple[float, float, float]:
    with open_index(NAME, url) as index:
        _along(index, facts[:1])
        new = _along(index, facts[1:])
        known = _along(index, facts)
    first = []
    for fact in facts[:50]:
        with open_index(NAME, url) as index:
            for rows in index.rows:
                rows.fetch(b"none")  # connected, and the statement prepared
            first += _along(index, [fact])
    return median(known), mean(new), mean(first)


def _along(index: Index, facts: Sequence[tuple[int, ...]]) -> list[float]:
    return [_once(index, fact[:depth]) for fact in facts for depth in range(len(fact) + 1)]


def _once(index: Index, prefix: tuple[int, ...]) -> float:
    start = time.perf_counter()
    index.children(prefix)
    return (time.perf_counter() - start) * 1e6


def _compact_as_a_user(url: str, work: Path) -> None:
    """By the command, which is a process of its own and leaves readers the precedence."""
    command = ["index", "compact", NAME, "--db", url, "--work-dir", str(work)]
    subprocess.run([sys.executable, "-m", "refactx", *command], check=True, capture_output=True)


def _read_during(
    url: str, folder: Path, facts: Sequence[tuple[int, ...]], action: Callable[[], object]
) -> dict[str, float]:
    """What a reader in another process measures while something is done."""
    path = folder / "walks.json"
    path.write_text(json.dumps(random.Random(1).sample(list(facts), len(facts))))
    reader = subprocess.Popen(
        [sys.executable, "-m", "bench.reader", url, NAME, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if reader.stdout is None:
        raise RuntimeError("no pipe to the reader")
    reader.stdout.readline()  # it has begun
    action()
    output, _ = reader.communicate("stop\n")
    measured: dict[str, float] = json.loads(output)
    return measured


if __name__ == "__main__":
    main()
