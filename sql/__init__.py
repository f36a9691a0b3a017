"""Schema and queries, as `.sql` files."""

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """The text of `name`.sql.

    >>> query("schema").splitlines()[0]
    "-- Everything of ReFactX's in a database. Safe to run again."
    """
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
