"""The measurement of an ingest from outside: its rate over the bare tokenizer's, its peak memory, its size."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.models.loading import load_tokenizer
from refactx.tokenizer import FactTokenizer

SPEED_FACTS = 30_000
"""How many whole facts the bare tokenizer encodes, before the ingest and after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One ingest.

    `rate_ratio`: its facts/s over the bare tokenizer's on the same facts. `peak`: the largest sampled memory of all its
    processes, without the server's, in bytes.
    """

    facts: int
    report: dict[str, Any]
    seconds: float
    rate_ratio: float
    peak: int


def measure(source: Path, tokenizer: Path, name: str, url: str) -> Measurement:
    """Ingest a source as index `name`, with the bare tokenizer measured before and after."""
    fact_tokenizer, _ = load_tokenizer(str(tokenizer))
    seconds, peak, report = run_ingest(source, tokenizer, name, url)
    with open_index(name, url) as index:
        texts = list(islice(whole_facts(index), SPEED_FACTS))
    rates = [bare_rate(fact_tokenizer, texts)]
    again, peak_again, report = run_ingest(source, tokenizer, name, url)
    rates.append(bare_rate(fact_tokenizer, texts))
    best = min(seconds, again)
    return Measurement(
        facts=report["facts"],
        report=report,
        seconds=best,
        rate_ratio=report["facts"] / best / max(rates),
        peak=max(peak, peak_again),
    )


def run_ingest(source: Path, tokenizer: Path, name: str, url: str, *options: str) -> tuple[float, int, dict[str, Any]]:
    """Run `refactx ingest` with more options, and return its seconds, its peak memory and its report."""
    command = [
        "ingest",
        str(source),
        "--tokenizer",
        str(tokenizer),
        "--index",
        name,
        "--db",
        url,
        "--replace",
        "--json",
        *options,
    ]
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "refactx", *command], stdout=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    seconds = time.perf_counter() - start
    output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"the ingest of {source} failed: see its message above")
    return seconds, peak, json.loads(output)


def tree_memory(process: int) -> int:
    """Return the resident bytes of a process and its descendants, without pages of files, which the kernel can drop."""
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        with suppress(OSError, ValueError):
            status = Path(f"/proc/{number}/status").read_text()
            total += sum(1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


def whole_facts(index: Index) -> Iterator[str]:
    """Yield the texts of random facts of an index, without end."""
    from bench.walks import random_facts

    while True:
        for tokens in random_facts(index, 1000, seed=int.from_bytes(os.urandom(4), "big")):
            yield index.tokenizer.decode(tokens)


def bare_rate(tokenizer: FactTokenizer, texts: list[str]) -> float:
    """Return how many whole facts per second the tokenizer alone encodes, on all cores."""
    start = time.perf_counter()
    tokenizer.encode_batch(texts)
    return len(texts) / (time.perf_counter() - start)
