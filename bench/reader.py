"""`python -m bench.reader URL INDEX FILE`: latencies of walks along the facts of a JSON file, until a line of input."""

import json
import sys
import threading
import time
from pathlib import Path
from statistics import quantiles

from refactx.index.open import open_index

CACHE_BYTES = 2 << 20
"""So small that rows are read repeatedly."""


def main() -> None:
    """Print `begun`, and after a line of input percentiles of `children()` in microseconds as JSON."""
    url, name, path = sys.argv[1:4]
    facts = [tuple(fact) for fact in json.loads(Path(path).read_text())]
    stop, times = threading.Event(), []
    with open_index(name, url, CACHE_BYTES) as index:
        for fact in facts[:50]:
            index.children(fact)
        print("begun", flush=True)
        threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
        while not stop.is_set():
            for fact in facts:
                for depth in range(len(fact) + 1):
                    start = time.perf_counter()
                    index.children(fact[:depth])
                    times.append((time.perf_counter() - start) * 1e6)
                if stop.is_set():
                    break
    cuts = quantiles(times, n=100)
    print(json.dumps({"p50": cuts[49], "p99": cuts[98], "max": max(times), "count": len(times)}))


if __name__ == "__main__":
    main()
