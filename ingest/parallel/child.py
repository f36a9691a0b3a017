"""What a process of `refactx.ingest.parallel.processes` runs: it reads items from its input and writes their results."""

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
    serve(sys.stdin.buffer, sys.stdout.buffer)
