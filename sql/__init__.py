"""The schema and the longer queries, as `.sql` files."""

from functools import cache
from pathlib import Path

__all__ = ["query"]


@cache
def query(name: str) -> str:
    """Return the text of `name`.sql. Raise FileNotFoundError if there is none.

    >>> query("schema").splitlines()[0]
    '-- The schema of ReFactX in a database. It can be run again.'
    """
    # Not `importlib.resources`, whose import takes 8 ms of every command.
    return Path(__file__).with_name(f"{name}.sql").read_text(encoding="utf-8")
