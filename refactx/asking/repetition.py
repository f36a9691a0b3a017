"""Repetitions at the end of a list, which small models continue up to the limit of tokens: "Oslo, Oslo, Oslo, ..."."""

import re

TIMES = 3
"""This many times in a row is a repetition. (Of 200 answers of a 0.5B model, three had a name twice and continued.)"""
LONGEST = 5
"""The most names that are repeated together."""
_BETWEEN = re.compile(r";|,(?=\s|$)")  # no comma of 1,000,000


def once(line: str) -> str:
    """Return a list without the repetition at its end; any other line as it is.

    >>> once("Rome, Oslo, Bern, Oslo, Bern, Oslo, Bern,")
    'Rome, Oslo, Bern'
    >>> once("Rome; Oslo; Oslo;")
    'Rome; Oslo; Oslo;'
    """
    ends = [found.start() for found in _BETWEEN.finditer(line)]
    names = [name.strip(" \t*") for name in _BETWEEN.split(line)]
    if not names[-1]:
        names.pop()
    for size in range(1, min(LONGEST, len(names) // TIMES) + 1):
        last = names[-size:]
        if any(last) and names[-TIMES * size :] == last * TIMES:
            return line[: ends[len(names) - (TIMES - 1) * size - 1]]
    return line
