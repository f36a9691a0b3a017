"""The checks of a run's queries, stored in its folder, so that the report can be made again without the index."""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from refactx.errors import InputError
from refactx.eval.logs import write_atomically
from refactx.eval.queries.check import Checked

FILE = "queries.json"


def load_checks(
    folder: Path, lines: Collection[str], check: Callable[[Collection[str]], Mapping[str, Checked]]
) -> dict[str, Checked]:
    """Return the checks of queries by their lines, from the run's folder; check those that it lacks, and store them."""
    path = folder / FILE
    known = _read(path) if path.exists() else {}
    lacking = sorted(set(lines) - known.keys())
    if lacking:
        known |= check(lacking)
        document = {line: {"error": one.error, "unknown": list(one.unknown)} for line, one in sorted(known.items())}
        write_atomically(path, document)
    return {line: known[line] for line in lines}


def _read(path: Path) -> dict[str, Checked]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {line: Checked(one["error"], tuple(one["unknown"])) for line, one in document.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path} cannot be read ({error}): delete it, so that it is made again") from error
