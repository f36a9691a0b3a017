"""Schema and queries, as `.sql` files."""

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """The text of `name`.sql.

    >>> query("schema").splitlines()[1]
    'CREATE SCHEMA IF NOT EXISTS refactx;'
    """
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
