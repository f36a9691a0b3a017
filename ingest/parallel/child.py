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


def serve(given: BinaryIO, out: BinaryIO) -> None:
    """Run the items that the parent sends, until it closes the pipe."""
    function, shared = pickle.load(given)  # noqa: S301 (the other end of the pipe is the parent)
    with suppress(EOFError, BrokenPipeError):
        while True:
            item = pickle.load(given)  # noqa: S301 (the other end of the pipe is the parent)
            try:
                result = True, function(shared, item)
            except Exception as error:
                result = False, error
            pickle.dump(result, out, pickle.HIGHEST_PROTOCOL)
            out.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the parent ends this one
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no result
    serve(sys.stdin.buffer, results)
