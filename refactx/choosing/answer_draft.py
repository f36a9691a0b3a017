"""How an answer may go on that lists what its facts name: most list all in order; some leave one out, or separate otherwise."""

import re
from collections.abc import Sequence


def listed(written: str, names: Sequence[str]) -> str:
    """How a list of names that begins with `written` may go on: the name that it has begun, and those behind that, separated as
    it separates them. "" where it has begun something else, or has all of them.

    >>> listed("", ["Rome", "Oslo", "Bonn"]), listed(" Oslo,", ["Rome", "Oslo", "Bonn"]), listed(" R", ["Rome", "Oslo"])
    (' Rome; Oslo; Bonn', ' Bonn, Rome', 'ome; Oslo')
    >>> listed(" Paris", ["Rome", "Oslo"]), listed(" Rome, and", ["Rome", "Oslo"])
    ('', ' Oslo')
    """
    names = [name for name in dict.fromkeys(names) if name]
    if not names:
        return ""
    a_name = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    there = list(a_name.finditer(written))
    last, behind = (there[-1].group(), written[there[-1].end() :]) if there else ("", written)
    left = names[names.index(last) + 1 :] + names[: names.index(last)] if last else names
    left = [name for name in left if name not in {found.group() for found in there}]
    separator = (re.findall("[;,]", a_name.sub("", written)) or [";"])[-1] + " "
    if last and not behind:
        return "".join(separator + name for name in left)
    begun = re.sub(r"^and(\s+|$)", "", re.split("[;,]", behind)[-1].lstrip())
    at = next((at for at, name in enumerate(left) if name.startswith(begun)), len(left))
    space = "" if begun or behind.endswith(" ") else " "
    return (space + separator.join(left[at:]))[len(begun) :] if left[at:] else ""
