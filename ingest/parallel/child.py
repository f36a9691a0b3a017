"""What a process of `refactx.ingest.parallel.processes` runs: it reads items from its input and writes their results.

What is pickled comes from the same program at the other end of a pipe: paths, numbers, and bytes of data, which stay
bytes. No file and no other process can write to the pipe.
"""

import os
import pickle
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

NICE = 5
"""How much later than the parent a process with a limit has its turn, so that the parent goes on to answer others."""


def serve(given: BinaryIO, out: BinaryIO) -> None:
    """Run the items that the parent sends, until it closes the pipe."""
    function, shared = pickle.load(given)  # noqa: S301 (the other end of the pipe is the parent)
    with suppress(EOFError, BrokenPipeError):
        while True:
            item, seconds = pickle.load(given)  # noqa: S301 (the other end of the pipe is the parent)
            if seconds is not None:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            try:
                result = True, function(shared, item)
            except Exception as error:
                result = False, error
            if seconds is not None:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            pickle.dump(result, out, pickle.HIGHEST_PROTOCOL)
            out.flush()


def limit(memory: int) -> None:
    """Let this process have at most so many bytes of data: it is aborted when it wants more."""
    import resource  # Windows has none

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    memory = memory if most == resource.RLIM_INFINITY else min(memory, most)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICE)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the parent ends this one
    if sys.argv[1:]:  # with limits
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends it within native code too, where the parent is gone
        limit(int(sys.argv[1]))
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no result
    serve(sys.stdin.buffer, results)
