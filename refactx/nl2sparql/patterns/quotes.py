"""Terms in quotes: what a question is about, and not how it asks."""

import re

_PAIRS = ("''", '""', "‘’", "“”", "«»", "„“", "``")
_GLOSS = r"(?:\s*\([^()]*\))?"
_QUOTED = re.compile("|".join(rf"(?<!\w){a}(?=\S)([^{a}{b}\n]+?){b}(?!\w){_GLOSS}" for a, b in map(tuple, _PAIRS)))


def quoted_terms(question: str) -> tuple[str, ...]:
    """Return what is in quotes.

    >>> quoted_terms("Which nouns' definitions have 'casa' (house), or \\"l'oro\\"?")
    ('casa', "l'oro")
    """
    return tuple(next(filter(None, match.groups())) for match in _QUOTED.finditer(question))


def without_quoted(question: str) -> str:
    """Return a question without what is in quotes, and without a translation in parentheses after it.

    >>> without_quoted("Find hyponyms of 'animale' (animal) with their definitions")
    'Find hyponyms of  with their definitions'
    """
    return _QUOTED.sub("", question)
