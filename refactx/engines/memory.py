"""The memory that is free, as far as the system tells."""

from pathlib import Path


def free_memory() -> int | None:
    """Return the bytes of memory that can be allocated without swapping; None if this system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    limits = [_limit_of_group()] if found else []
    return min([*found, *(limit for limit in limits if limit is not None)], default=None)


def _limit_of_group() -> int | None:
    """Return the bytes that the control group of a container has left."""
    folder = Path("/sys/fs/cgroup")
    try:
        return int((folder / "memory.max").read_text()) - int((folder / "memory.current").read_text())
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return None
