"""The time limits of a reader: for one lookup, and for a database that went away.

REFACTX_LOOKUP_SECONDS and REFACTX_OUTAGE_SECONDS set them, or a value in the code. For lookups
`options=-c statement_timeout=...` in the database's address takes precedence over both.
"""

import math
import os
from dataclasses import dataclass

from refactx.errors import InputError

LOOKUP_SECONDS = 10.0
"""A lookup takes far less than a millisecond. One that takes 10 s waits for a lock or an overloaded disk."""

OUTAGE_SECONDS = 60.0
"""A restart takes some seconds, a failover less than a minute."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits of a reader, in seconds.

    `lookup`: the time that a lookup may take; 0: no limit; None: the limit that the server's settings have, otherwise
    `LOOKUP_SECONDS`. `outage`: the time to wait for a database that went away; 0: do not wait.

    Raises InputError if a value is not a number of seconds from 0 to 1,000,000.
    """

    lookup: float | None = None
    outage: float = OUTAGE_SECONDS

    def __post_init__(self) -> None:
        for name, seconds in (("lookup", self.lookup), ("outage", self.outage)):
            if seconds is not None and not (0 <= seconds <= 1e6):
                raise InputError(f"{seconds} is not a limit for {name}: give a number of seconds, 0 to 1,000,000")


def limits_of_environment() -> Limits:
    """Return the limits of the environment. Raises InputError if a variable is not a number of seconds."""
    outage = _seconds("REFACTX_OUTAGE_SECONDS")
    return Limits(_seconds("REFACTX_LOOKUP_SECONDS"), OUTAGE_SECONDS if outage is None else outage)


def _seconds(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 1e6:
        raise InputError(f"{variable} is {text!r}: set it to a number of seconds, such as 30, or unset it")
    return seconds
