"""`python -m bench.living [FILE]`: an index that changes: appending over building, readers of a compaction, five segments.

Each figure is a ratio within one run on the same machine, whose speed varies from minute to minute: so building and changes
are timed in turn. An index is built in a process of its own (`--build`), as it is by whoever changes it a day later: a
process that has just built one has a heap in which a change takes a quarter longer. The reader whose latencies are measured
is a process too (`bench.reader`).
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

import click

from bench import data
from bench.claims import claims_slice
from bench.walks import random_facts
from refactx.connect import database, open_index
from refactx.index.index import Index
from refactx.ingest.change import ChangeOptions, append, forget
from refactx.ingest.compaction import CompactOptions, compact
from refactx.ingest.new_index import Options, ingest
from refactx.models.loading import load_tokenizer
from refactx.postgres.building import drop
from refactx.postgres.database import Database
from refactx.tree.children import FactTree

NAME, BUILT = "bench-living", "bench-living-again"
"""The index that is changed, and one that is only built."""
SHARE = 100
"""One fact in so many is appended."""
ROUNDS = 5
"""Of each change; the best counts, since the machine is shared."""
WALKS = 300
QUIET_SECONDS = 20.0
"""How long a reader is measured with nothing else going on."""


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
    """Ingest a source, and print how long it took, as JSON."""
    options = Options(name, *load_tokenizer(str(data.demo_model_folder())), replace=True, quiet=True)
    with tempfile.TemporaryDirectory() as folder, database(url) as opened:
        click.echo(json.dumps(_timed(lambda: ingest([source], opened, Path(folder), options))))


def figures(source: Path, tokenizer: Path, opened: Database, folder: Path) -> list[tuple[str, float]]:
    """Figures by name, as docs/benchmarks.md has them."""
    loaded = load_tokenizer(str(tokenizer))
    change, work = ChangeOptions(NAME, loaded[0], quiet=True), folder / "work"
    found: list[tuple[str, float]] = []
    appended: list[int] = []

    building = [_built(NAME, source, opened.url)]
    where = ("--index", NAME, "--db", opened.url, "--work-dir", work)
    by_command = _command("ingest", source, "--replace", "--tokenizer", tokenizer, *where)
    with open_index(NAME, opened.url) as index:
        facts = index.facts
        slices = [_facts_file(index, folder / f"{n}.txt", facts // SHARE, seed=n) for n in range(3)]
    forgetting, compacting, appending = [], [], []
    for _ in range(ROUNDS):
        building.append(_built(BUILT, source, opened.url))
        forgetting.append(_timed(lambda: forget([slices[0]], opened, work, change)))
        compacting.append(_timed(lambda: compact(opened, work, CompactOptions(NAME, quiet=True))))
        appending.append(_timed(lambda: append([slices[0]], opened, work, change)))
    with opened.connection() as connection:
        drop(connection, BUILT)
    whole, cpu = map(min, zip(*building, strict=True))
    found += [("facts", facts), ("building, seconds", whole), ("building, seconds of a core", cpu)]
    for what, times in (("appending 1%", appending), ("forgetting 1%", forgetting), ("compacting", compacting)):
        best, best_cpu = map(min, zip(*times, strict=True))
        found += [(f"{what} over building", best / whole), (f"{what} over building, of a core", best_cpu / cpu)]
    if ".nt" in source.suffixes:
        # With the descriptions of what is in it, every 200th claim of Wikidata's makes about 1% of its facts.
        claims, times = claims_slice(source, folder / "claims.nt", 2 * SHARE), []
        for _ in range(ROUNDS):
            forget([claims], opened, work, change)
            compact(opened, work, CompactOptions(NAME, quiet=True))
            times.append(_timed(lambda: appended.append(append([claims], opened, work, change).facts)))
        found.append((f"appending {appended[-1]:,} facts, as N-Triples, over building", min(times)[0] / whole))
    forget([slices[0]], opened, work, change)
    compact(opened, work, CompactOptions(NAME, quiet=True))
    changed = _command("ingest", slices[0], "--append", *where)
    found.append(("appending 1% over building, by the command", changed / by_command))
    for slice_ in slices[1:]:
        forget([slice_], opened, work, change)
    append([slices[1]], opened, work, change)
    with open_index(NAME, opened.url) as index:
        in_largest = _largest(index)
        walked = [fact for fact in random_facts(index, WALKS, seed=9) if in_largest.children(fact).terminal]
        segments = len(index.segments)
    ratios = _walks(opened.url, walked)
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


def _timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of this process's cores (the server's not)."""
    start, core = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - start, time.process_time() - core


def _built(name: str, source: Path, url: str) -> tuple[float, float]:
    """`_timed` of an ingest in a process of its own."""
    command = [sys.executable, "-m", "bench.living", "--build", name, source, url]
    done = subprocess.run(command, check=True, capture_output=True)
    seconds, core = json.loads(done.stdout)
    return seconds, core


def _command(*arguments: str | Path) -> float:
    """Seconds that a command takes, from its start to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "refactx", *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def _facts_file(index: Index, path: Path, count: int, seed: int) -> Path:
    """So many facts of an index, drawn evenly, as a source."""
    facts = {index.tokenizer.decode(fact) for fact in random_facts(index, count, seed)}
    path.write_text("".join(fact.lstrip() + " .\n" for fact in sorted(facts)))
    return path


def _walks(url: str, facts: Sequence[tuple[int, ...]]) -> tuple[float, float, float]:
    """Times of `children()` along facts in all segments over those in the largest one alone: the median where the prefix was
    asked for before; the mean along new facts, in an index that is open; and along the first fact of one just opened."""
    gc.collect()
    gc.freeze()  # else a collection of all that is imported, 50 to 90 ms, falls to one of the two
    with open_index(NAME, url) as several, open_index(NAME, url) as other:
        trees = several, _largest(other)
        _in_turn(trees, facts[:1])
        new, known = _in_turn(trees, facts[1:]), _in_turn(trees, facts)
    first: tuple[list[float], list[float]] = ([], [])
    for fact in facts[:50]:
        with open_index(NAME, url) as several, open_index(NAME, url) as other:
            for rows in (*several.rows, *other.rows):
                rows.fetch(b"none")  # connected, and the statement prepared
            for times, more in zip(first, _in_turn((several, _largest(other)), [fact]), strict=True):
                times.extend(more)
    gc.unfreeze()  # DuckDB's binding counts at the end of the process what is left of it
    return median(known[0]) / median(known[1]), mean(new[0]) / mean(new[1]), mean(first[0]) / mean(first[1])


def _largest(index: Index) -> FactTree:
    return max((tree for _, tree in index.segments), key=lambda tree: tree.facts)


def _in_turn(trees: tuple[FactTree, FactTree], facts: Sequence[tuple[int, ...]]) -> tuple[list[float], list[float]]:
    """Microseconds of `children()` for every prefix, in both trees, one and then the other: the machine's speed varies."""
    times: tuple[list[float], list[float]] = ([], [])
    for number, fact in enumerate(facts):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].extend(_once(trees[which], fact[:depth]) for depth in range(len(fact) + 1))
    return times


def _once(tree: FactTree, prefix: tuple[int, ...]) -> float:
    start = time.perf_counter()
    tree.children(prefix)
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
