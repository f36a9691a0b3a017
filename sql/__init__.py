"""Schema and queries, as `.sql` files."""

from functools import cache
from pathlib import Path


@cache
def query(name: str) -> str:
    """The text of `name`.sql.

    >>> query("schema").splitlines()[0]
    "-- Everything of ReFactX's in a database. Safe to run again."
    """
    # (`importlib.resources` takes 8 ms to import, of every command.)
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
