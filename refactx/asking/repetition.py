"""Repetitions that small models continue up to the limit of tokens: of names in a list, and of whole passages."""

import re

TIMES = 3
"""This many times in a row is a repetition. (Of 200 answers of a 0.5B model, three had a name twice and continued.)"""
LONGEST = 5
"""The most names that are repeated together."""
SHORTEST = 8
"""Characters of the shortest passage that is a repetition, of at least two words: a name may be "Duran Duran"."""
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


def loops(text: str) -> bool:
    """Return whether a text ends in `TIMES` copies of one passage, of any length: of a line, or of several in turn.

    >>> loops("So:\\n" + "Bonn is a city.\\nIt is old.\\n" * 3), loops("Bonn is a city.\\nIt is old.\\n" * 2)
    (True, False)
    """
    tail = text[-SHORTEST:]
    at = text.rfind(tail, 0, -SHORTEST)  # a passage is as long as its end is away from the same end before
    while at >= 0 and TIMES * (size := len(text) - SHORTEST - at) <= len(text):
        passage = text[-size:]
        if text.endswith(passage * TIMES) and len(set(re.findall(r"\w+", passage))) > 1:
            return True
        at = text.rfind(tail, 0, at + SHORTEST - 1)
    return False
