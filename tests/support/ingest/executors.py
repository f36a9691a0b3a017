"""The executors of a Spark cluster that a process has started on this machine."""

from pathlib import Path


def executors_of(driver: int) -> list[int]:
    """Return the ids of the executors below a process, its own children's included, in ascending order."""
    below, found = {driver}, []
    for process in sorted(_processes()):
        if _parent(process) in below:
            below.add(process)
            if b"CoarseGrainedExecutorBackend" in _read(process, "cmdline"):
                found.append(process)
    return found


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _parent(process: int) -> int:
    status = _read(process, "stat").rpartition(b")")[2].split()
    return int(status[1]) if status else 0


def _read(process: int, what: str) -> bytes:
    """Return a file of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{process}/{what}").read_bytes()
    except OSError:
        return b""
