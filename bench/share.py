"""`python -m bench.share [FILE]`: exporting and importing an index over building it.

Each is a command in a process of its own. All three run once, one after another, so that they see the same machine.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from bench import data
from bench.ingest import run_ingest, tree_memory
from refactx.index.open import database


def main() -> None:
    """Print the figures for one file, with the demo model's tokenizer."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else data.sources()[-1]
    with tempfile.TemporaryDirectory() as work, database() as opened:
        tokenizer = data.tokenizers(Path(work))["smollm2"]
        seconds, _, _ = run_ingest(source, tokenizer, "bench", opened.url)
        click.echo(source.name)
        for figure, value in figures("bench", opened.url, seconds).items():
            click.echo(f"  {figure:<52} {value:>12,.3f}")


def figures(name: str, url: str, building: float) -> dict[str, float]:
    """Return figures by name, as docs/results/benchmarks.md has them, for an index that took `building` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "index")
        exporting, export_peak = run_index_command("export", name, str(file), "--db", url)
        importing, import_peak = run_index_command("import", str(file), "--index", f"{name}-copy", "--db", url)
        size = file.stat().st_size
    run_index_command("drop", f"{name}-copy", "--db", url)
    return {
        "export + import over building": (exporting + importing) / building,
        "export, s": exporting,
        "import, s": importing,
        "the file, bytes": size,
        "peak memory of either, GB": max(export_peak, import_peak) / 1e9,
    }


def run_index_command(*command: str) -> tuple[float, int]:
    """Run a `refactx index` command, and return its seconds and its peak memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "refactx", "index", *command], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"refactx index {' '.join(command)} failed: see its message above")
    return seconds, peak


if __name__ == "__main__":
    main()
