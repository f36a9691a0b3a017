"""How long a reader waits: for one lookup, and for a database that went away.

Set by REFACTX_LOOKUP_SECONDS and REFACTX_OUTAGE_SECONDS, or given as a value. For lookups `options=-c statement_timeout=...`
in the database's own address comes before both.
"""

import math
import os
from dataclasses import dataclass

from refactx.errors import InputError

LOOKUP_SECONDS = 10.0
"""A lookup takes well below a millisecond; one that takes so long waits for a lock or for a disk that is overloaded."""

OUTAGE_SECONDS = 60.0
"""A server that restarts is back within some seconds, a failover within a minute."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`lookup`: seconds that a lookup may take, 0 for any number; None: what the server's own settings say, else
    `LOOKUP_SECONDS`. `outage`: seconds that a database which went away is waited for, 0 for not at all.

    Raises InputError for what is no number of seconds.
    """

    lookup: float | None = None
    outage: float = OUTAGE_SECONDS

    def __post_init__(self) -> None:
        for name, seconds in (("lookup", self.lookup), ("outage", self.outage)):
            if seconds is not None and not (0 <= seconds <= 1e6):
                raise InputError(f"{seconds} is no limit for {name}: give a number of seconds, 0 to 1,000,000")


def limits_of_environment() -> Limits:
    """The limits that the environment sets. Raises InputError for a variable that holds no number of seconds."""
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
        raise InputError(f"{variable} is {text!r}: set it to a number of seconds, such as 30, or leave it out")
    return seconds
