"""The words of questions: folded text, stems and phrases as expressions, and what stands in quotes."""

import re
import unicodedata
from collections.abc import Iterable

from refactx.nl2sparql.pack import GAP

_BETWEEN = r"(?:\W+\w+){0,3}"


def fold(text: str) -> str:
    """Return a text in lower case without accents, in which words are looked for.

    >>> fold("Polarità")
    'polarita'
    """
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def compile_words(words: Iterable[str]) -> "re.Pattern[str] | None":
    """Return an expression that finds each of some words in folded text; None without words.

    `*` at the end or the beginning of a word stands for letters, `...` between words for at most three of them, and `^`
    before the first word for the beginning of the text.

    >>> found = compile_words(["sinonim*", "how many ... senses"]).finditer(fold("How many different senses, e sinonimi?"))
    >>> [match[0] for match in found]
    ['how many different senses', 'sinonimi']
    """
    parts = sorted(map(_part, words), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)") if parts else None


def _part(word: str) -> str:
    word = fold(word)
    found, start = "", r"^\W*" if word.startswith("^") else ""
    for piece in word.removeprefix("^").split():
        if piece == GAP:
            found += _BETWEEN
            continue
        found += (r"\W+" if found else "") + re.escape(piece).replace(r"\*", r"\w*")
    return start + found


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
