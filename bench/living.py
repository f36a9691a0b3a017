"""`python -m bench.living [FILE]`: changes of an index over building it, and its readers with several segments.

Each figure is a ratio within one run on the same machine, whose speed varies from minute to minute, so that building
and changes are measured in turn. An index is built in another process (`--build`) than it is changed in, as in real
use: in the heap of a process that has just built an index, a change takes a quarter longer. The reader whose latencies
are measured is a process too (`bench.reader`).
"""

import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import click

from bench import data
from bench.claims import claims_slice
from bench.walks import random_facts
from refactx.index.index import Index
from refactx.index.open import database, open_index
from refactx.ingest import Resources, append, compact, forget, ingest
from refactx.models.loading import load_tokenizer
from refactx.postgres.database import Database
from refactx.postgres.writing import drop
from refactx.tree.tree import FactTree

QUIET = Resources(progress=False)
NAME, BUILT = "bench-living", "bench-living-again"
"""The index that is changed, and one that is only built."""
SHARE = 100
"""One fact in 100 is appended."""
ROUNDS = 5
"""How often each change is measured; the best counts, since the machine is shared."""
WALKS = 300
QUIET_SECONDS = 20.0
"""How long a reader is measured while nothing else runs."""


def main() -> None:
    """Print the figures for one source, with the demo model's tokenizer."""
    if sys.argv[1:2] == ["--build"]:
        return _build(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else data.sources()[-1]
    with tempfile.TemporaryDirectory() as folder, database() as opened:
        for figure, value in figures(source, data.demo_model_folder(), opened, Path(folder)):
            click.echo(f"  {figure:<60} {value:>12,.4f}")
    return None


def _build(name: str, source: Path, url: str) -> None:
    """Ingest a source, and print the seconds that it took as JSON."""
    tokenizer, tokenizer_name = load_tokenizer(str(data.demo_model_folder()))
    with tempfile.TemporaryDirectory() as folder, database(url) as opened:
        seconds = _measure(
            lambda: ingest(
                [source],
                opened,
                index=name,
                tokenizer=tokenizer,
                tokenizer_name=tokenizer_name,
                work=Path(folder),
                replace=True,
                resources=QUIET,
            )
        )
        click.echo(json.dumps(seconds))


def figures(source: Path, tokenizer: Path, opened: Database, folder: Path) -> list[tuple[str, float]]:
    """Return figures with their names, as docs/results/benchmarks.md has them."""
    loaded = load_tokenizer(str(tokenizer))
    work = folder / "work"
    where_to: Any = {"index": NAME, "work": work, "resources": QUIET}
    change: Any = {**where_to, "tokenizer": loaded[0]}
    found: list[tuple[str, float]] = []
    appended: list[int] = []

    building = [_measure_build(NAME, source, opened.url)]
    where = ("--index", NAME, "--db", opened.url, "--work-dir", work)
    by_command = _run_command("ingest", source, "--replace", "--tokenizer", tokenizer, *where)
    with open_index(NAME, opened.url) as index:
        facts = index.facts
        slices = [_facts_file(index, folder / f"{n}.txt", facts // SHARE, seed=n) for n in range(3)]
    forgetting, compacting, appending = [], [], []
    for _ in range(ROUNDS):
        building.append(_measure_build(BUILT, source, opened.url))
        forgetting.append(_measure(lambda: forget([slices[0]], opened, **change)))
        compacting.append(_measure(lambda: compact(opened, **where_to)))
        appending.append(_measure(lambda: append([slices[0]], opened, **change)))
    with opened.connection() as connection:
        drop(connection, BUILT)
    whole, cpu = map(min, zip(*building, strict=True))
    found += [("facts", facts), ("building, seconds", whole), ("building, seconds of a core", cpu)]
    for what, times in (("appending 1%", appending), ("forgetting 1%", forgetting), ("compacting", compacting)):
        best, best_cpu = map(min, zip(*times, strict=True))
        found += [(f"{what} over building", best / whole), (f"{what} over building, of a core", best_cpu / cpu)]
    if ".nt" in source.suffixes:
        # Every 200th claim of Wikidata, with the descriptions of its entities, gives about 1% of the facts.
        claims, times = claims_slice(source, folder / "claims.nt", 2 * SHARE), []
        for _ in range(ROUNDS):
            forget([claims], opened, **change)
            compact(opened, **where_to)
            times.append(_measure(lambda: appended.append(append([claims], opened, **change).facts)))
        found.append((f"appending {appended[-1]:,} facts, as N-Triples, over building", min(times)[0] / whole))
    forget([slices[0]], opened, **change)
    compact(opened, **where_to)
    changed = _run_command("ingest", slices[0], "--append", *where)
    found.append(("appending 1% over building, by the command", changed / by_command))
    for slice_ in slices[1:]:
        forget([slice_], opened, **change)
    append([slices[1]], opened, **change)
    with open_index(NAME, opened.url) as index:
        in_largest = _largest(index)
        walked = [fact for fact in random_facts(index, WALKS, seed=9) if in_largest.children(fact).terminal]
        segments = len(index.segments)
    ratios = _compare_walks(opened.url, walked)
    quiet = _read_during(opened.url, folder, walked, lambda: time.sleep(QUIET_SECONDS))
    busy = _read_during(opened.url, folder, walked, lambda: _compact_as_a_user(opened.url, work))
    kinds = ("of prefixes seen before, p50", "of new prefixes, mean", "of a reader's first fact, mean")
    found += [
        (f"children() on {segments} segments over one, {kind}", ratio)
        for kind, ratio in zip(kinds, ratios, strict=True)
    ]
    found += [
        ("children() of a reader, p99, microseconds", quiet["p99"]),
        ("the same during a compaction, over that", busy["p99"] / quiet["p99"]),
        ("the slowest during a compaction, milliseconds", busy["max"] / 1000),
    ]
    return found


def _measure(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of an action, and its core seconds in this process (without the server's)."""
    start, core = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - core


def _measure_build(name: str, source: Path, url: str) -> tuple[float, float]:
    """Return what `_measure` returns, for an ingest in a process of its own."""
    command = [sys.executable, "-m", "bench.living", "--build", name, source, url]
    done = subprocess.run(command, check=True, capture_output=True)
    seconds, core = json.loads(done.stdout)
    return seconds, core


def _run_command(*arguments: str | Path) -> float:
    """Return the seconds of a command, from its start to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "refactx", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def _facts_file(index: Index, path: Path, count: int, seed: int) -> Path:
    """Write at most `count` random facts of an index as a source."""
    facts = {index.tokenizer.decode(fact) for fact in random_facts(index, count, seed)}
    path.write_text("".join(fact.lstrip() + " .\n" for fact in sorted(facts)))
    return path


def _compare_walks(url: str, facts: Sequence[tuple[int, ...]]) -> tuple[float, float, float]:
    """Return the times of `children()` along facts in all segments over those in the largest segment alone.

    These are the median for prefixes that were asked for before, the mean along new facts in an open index, and the
    mean along the first fact of an index just opened.
    """
    gc.collect()
    gc.freeze()  # otherwise a collection of all that is imported, 50 to 90 ms, happens in one of the two
    with open_index(NAME, url) as several, open_index(NAME, url) as other:
        trees = several, _largest(other)
        _time_in_turn(trees, facts[:1])
        new, known = _time_in_turn(trees, facts[1:]), _time_in_turn(trees, facts)
    first: tuple[list[float], list[float]] = ([], [])
    for fact in facts[:50]:
        with open_index(NAME, url) as several, open_index(NAME, url) as other:
            for rows in (*several.rows, *other.rows):
                rows.fetch(b"none")  # connected, and the statement prepared
            for times, more in zip(first, _time_in_turn((several, _largest(other)), [fact]), strict=True):
                times.extend(more)
    gc.unfreeze()  # DuckDB's binding counts at the end of the process the objects that are left
    return median(known[0]) / median(known[1]), mean(new[0]) / mean(new[1]), mean(first[0]) / mean(first[1])


def _largest(index: Index) -> FactTree:
    return max((tree for _, tree in index.segments), key=lambda tree: tree.facts)


def _time_in_turn(
    trees: tuple[FactTree, FactTree], facts: Sequence[tuple[int, ...]]
) -> tuple[list[float], list[float]]:
    """Return the microseconds of `children()` for every prefix in two trees, in turn, as the machine's speed varies."""
    times: tuple[list[float], list[float]] = ([], [])
    for number, fact in enumerate(facts):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].extend(_time_children(trees[which], fact[:depth]) for depth in range(len(fact) + 1))
    return times


def _time_children(tree: FactTree, prefix: tuple[int, ...]) -> float:
    start = time.perf_counter()
    tree.children(prefix)
    return (time.perf_counter() - start) * 1e6


def _compact_as_a_user(url: str, work: Path) -> None:
    """Compact by the command, which is a process of its own and gives readers precedence."""
    command = ["index", "compact", NAME, "--db", url, "--work-dir", str(work)]
    subprocess.run([sys.executable, "-m", "refactx", *command], check=True, capture_output=True)


def _read_during(
    url: str, folder: Path, facts: Sequence[tuple[int, ...]], action: Callable[[], object]
) -> dict[str, float]:
    """Return what a reader in another process measures during an action."""
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
    reader.stdout.readline()  # `begun`
    action()
    output, _ = reader.communicate("stop\n")
    measured: dict[str, float] = json.loads(output)
    return measured


if __name__ == "__main__":
    main()
