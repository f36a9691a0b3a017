"""Names as texts: folded, without their descriptions, and alike by their letters."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import filterfalse

from refactx.english import plural

_LIKE = 0.8
"""The least share of letters, as difflib counts them, in which two names or words are alike."""
_LITTLE_WORDS = frozenset(("the", "and", "for", "der", "die", "das", "von", "van", "les", "des", "del", "los", "las"))
SHORT = 4
"""Of a name with more words, lists write one behind the others, an article: `Lord of the Rings, The`."""
_SEPARATORS = re.compile(r"[\s_.,:;!?¡¿'’‘‚`\"“”„«»‹›()\[\]{}<*/&·…\-‐-―]+")
"""What may be written otherwise or left out between the letters of a name."""


def unaccented(text: str) -> str:
    """Return a text in lower case and without accents.

    >>> unaccented("Diego Forlán")
    'diego forlan'
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(filterfalse(unicodedata.combining, decomposed))


def fold(text: str) -> str:
    """Return a text that is equal for names which differ in case, accents, spaces, underscores and punctuation alone.

    The folded text of two names in a row is that of the first and that of the second.

    >>> fold("J. R. R. Tolkien") == fold("j r r tolkien"), fold("body_part") == fold("Body Part"), fold("C++"), fold("AC/DC")
    (True, True, 'c++', 'acdc')
    """
    return _SEPARATORS.sub("", unaccented(text))


def bare_name(name: str) -> str:
    """Return a name without its description in parentheses.

    >>> bare_name("Danny Boyle (English film director)"), bare_name("(500) Days of Summer")
    ('Danny Boyle', '(500) Days of Summer')
    """
    begins = name.find(" (")
    return name[:begins] if begins > 0 and name.endswith(")") else name


def in_other_orders(name: str) -> list[str]:
    """Return a name that lists have as `Lee, Ann` or `Hague, The` in its usual order, or another one as lists may have it.

    >>> in_other_orders("Hague, The"), in_other_orders("The Hague"), in_other_orders("Ann van Lee"), in_other_orders("Ann")
    (['The Hague'], ['Hague, The'], ['van Lee, Ann', 'Lee, Ann van'], [])
    """
    last, comma, first = (part.strip() for part in name.partition(","))
    if comma:
        return [f"{first} {last}"] if first and last else []
    words = name.split()
    behind = range(1, len(words) if len(words) <= SHORT else 2)
    return [f"{' '.join(words[at:])}, {' '.join(words[:at])}" for at in behind]


def in_other_number(name: str) -> list[str]:
    """Return an English name in the plural if it is in the singular, or else in the forms that have it as their plural.

    >>> in_other_number("body part"), in_other_number("anchovies"), in_other_number("Paris")
    (['body parts'], ['anchovy', 'anchovie'], ['Pari'])
    """
    if (many := plural(name)) != name:
        return [many]
    ones = (
        f"{name.removesuffix(end)}{one}" for end, one in (("ies", "y"), ("es", ""), ("s", "")) if name.endswith(end)
    )
    return [one for one in ones if plural(one) == name]


def word_ends(text: str, word: str = r"[^\W_]+") -> dict[int, int]:
    """Return the ends of the words of a text: the number of letters up to there when it is folded, and of its characters.

    >>> word_ends("J. Lo")
    {1: 1, 3: 5}
    """
    return {len(fold(text[: one.end()])): one.end() for one in re.finditer(word, text)}


def is_spelt_as(text: str, name: str) -> bool:
    """Return whether words of a text that have the letters of a name are cut as it is: `Ann a` is no `Anna`, and in small
    letters `us` is no `U.S.`.

    >>> is_spelt_as("body part", "bodyPart"), is_spelt_as("cote d ivoire", "Côte d’Ivoire"), is_spelt_as("MASH", "M*A*S*H")
    (True, True, True)
    >>> is_spelt_as("Ann a", "Anna"), is_spelt_as("us", "U.S.")
    (False, False)
    """
    ends = word_ends(text).keys()
    whole = word_ends(name, r"[^\W_]+(?:['’‘`][^\W_]+)*").keys()
    return ends <= word_ends(name, r"[^\W_]+?(?=[\W_A-Z]|$)").keys() and (whole <= ends or text[:1].isupper())


def words_folded(name: str) -> list[str]:
    """Return the words of a name without its description, each folded, in the singular of English.

    >>> words_folded("Anchovies Topping (food)"), words_folded("J. R. R. Tolkien")
    (['anchovy', 'topping'], ['j', 'r', 'r', 'tolkien'])
    """
    words = (fold(word) for word in re.findall(r"\w+", bare_name(name)))
    return [re.sub("ie$", "y", re.sub("(?<=[^s])s$", "", word)) for word in words]


def named_among(name: str, names: Iterable[str]) -> str | None:
    """Return the one of some names that a name is in any spelling, maybe without its description; None if it is none.

    >>> named_among("juneau", ["Juneau (capital of Alaska)", "Nome"]), named_among("Rome", ["Nome"])
    ('Juneau (capital of Alaska)', None)
    """
    names, folded = list(names), fold(name)
    same = (one for one in names if folded in (fold(one), fold(bare_name(one))))
    return name if name in names else next(same, None) if folded else None


def alike(name: str, names: Iterable[str], most: int | None = None, least: float = 0.5) -> list[str]:
    """Return names that share letters with one, those most like it first, without regard to case.

    `most`: at most so many; `least`: the least share of letters, 0 to 1.

    >>> alike("capitol", ["mayor", "capital"]), alike("capitol", ["mayor", "capital"], least=0)
    (['capital'], ['capital', 'mayor'])
    """
    matcher, found = SequenceMatcher(b=unaccented(name)), list[tuple[float, str]]()
    for other in dict.fromkeys(names):
        matcher.set_seq1(unaccented(other))
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least:
            found.append((matcher.ratio(), other))
    return [other for _, other in sorted(found, key=lambda one: -one[0])][:most]


def significant_words(name: str) -> list[str]:
    """Return the words of a name without its description by which names are alike: those of three letters or digits and
    more.

    >>> significant_words("The Lord of the Rings (film)")
    ['Lord', 'Rings']
    """
    words = re.findall(r"\w{3,}", bare_name(name))
    return [word for word in words if word.casefold() not in _LITTLE_WORDS]


def most_like(name: str, others: Iterable[str], most: int) -> list[str]:
    """Return those of other names that are like a name, without regard to case, accents or descriptions, the most alike
    first.

    They begin with it, share words with it, letter by letter or nearly, or have nearly the same letters.

    >>> most_like("danny boyle", ["dancer", "Boyle (town)", "Danny Boile (director)", "Boyle, Danny"], 3)
    ['Danny Boile (director)', 'Boyle, Danny', 'Boyle (town)']
    """
    wanted, of_word = unaccented(bare_name(name)), dict[str, list[str]]()
    names = {other: unaccented(bare_name(other)) for other in others}
    for other, text in names.items():
        for word in significant_words(text):
            of_word.setdefault(word, []).append(other)
    words, shared = significant_words(wanted), Counter[str]()
    for word in words:
        near = dict.fromkeys((word, *get_close_matches(word, of_word, 3, _LIKE))) if len(word) > 3 else (word,)
        shared.update({other: len(word) for one in near for other in of_word.get(one, ())})
    letters = {names[other] for other in names if names[other].startswith(wanted)}
    letters.update(get_close_matches(wanted, set(names.values()), most, _LIKE))
    candidates = [other for other in names if other in shared or names[other] in letters]
    matcher = SequenceMatcher(b=wanted)

    def likeness(other: str) -> float:
        matcher.set_seq1(names[other])
        return shared[other] / max(1, sum(map(len, words))) + matcher.ratio()

    return sorted(candidates, key=likeness, reverse=True)[:most]
