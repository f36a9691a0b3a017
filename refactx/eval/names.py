"""Names of gold answers in an index: an item of an answer may also be an alias (`refactx.ingest.knowledge.names`).

An index leads from an alias to its entities, but not back. So each item of an answer is looked up as an alias.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from string import capwords
from typing import Protocol

from refactx.eval.answers import Gold, same
from refactx.eval.normalise import normalise
from refactx.eval.question import Question
from refactx.fact import ALIAS, ALIAS_OF, clean_part, split_fact
from refactx.index.index import completions, normalise_prefix
from refactx.index.names import Named
from refactx.tokenizer import FactTokenizer
from refactx.tree.tree import FactTree

_CUT = re.compile(r"\s*[,;\n|•]\s*(?:and\s+|&\s*)?|\s+(?:and|&|/)\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_LONGEST = 100
"""The most characters of an alias: a longer text is a sentence."""
_LONGEST_SHORT = 5
"""The most characters of an abbreviation, without full stops: `uk` is also looked up as `UK`."""
_HOLDERS = 1000
"""The most entities of an alias that are read."""


class Searched(FactTree, Protocol):
    """A tree with its tokenizer (`refactx.index.index.Index`)."""

    @property
    def tokenizer(self) -> FactTokenizer:
        """The tokenizer of the facts."""
        ...


def possible_aliases(answer: str) -> set[str]:
    """Return the texts in an answer that may be aliases: the whole and its parts, with and without article and full
    stop, as they are written, and with more capitals, since an index is case-sensitive.

    >>> sorted(possible_aliases("the USA and JFK."))
    ['JFK', 'JFK.', 'USA', 'USA and JFK', 'USA and JFK.', 'the USA', 'the USA and JFK', 'the USA and JFK.']
    >>> sorted(possible_aliases("obama")), sorted(possible_aliases("uk"))
    (['OBAMA', 'Obama', 'obama'], ['UK', 'Uk', 'uk'])
    """
    parts = {part.strip() for part in (answer, *_CUT.split(answer))}
    parts |= {
        part.rstrip(".").rstrip() for part in parts
    }  # the full stop may be the alias's ("U.K.") or the sentence's
    texts = parts | {_ARTICLE.sub("", part) for part in parts}
    texts |= {text.upper() for text in texts if len(text.replace(".", "")) <= _LONGEST_SHORT}
    texts |= {capwords(text) for text in texts if text.islower()}
    return {text for text in texts if len(text) <= _LONGEST and normalise(text)}


def find_holders(index: Searched, texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the entities that have each text as an alias, by text; empty for most texts."""
    found = {}
    for text in sorted(texts):
        begun = normalise_prefix(f"<{clean_part(text)}{ALIAS}> <{ALIAS_OF}> <")
        parts = (split_fact(fact) for fact, _ in islice(completions(index, index.tokenizer, begun), _HOLDERS))
        found[text] = tuple(part[2] for part in parts if part is not None)
    return found


def with_aliases(
    question: Question, holders: Mapping[str, tuple[str, ...]], named: Mapping[str, tuple[str, ...]]
) -> Question:
    """Return the question with each text as an alias of those gold answers that have it as an alias in the index.

    `holders`: the result of `find_holders`; `named`: the names of ids in the index. A gold answer whose id has no name
    is compared with the holders' names.
    """

    def has(gold: Gold, holder: str) -> bool:
        names = named.get(gold.id or "")
        return holder in names if names else any(same(name, holder) for name in gold.names)

    golds = []
    for gold in question.answers:
        more = (text for text, whose in holders.items() if any(has(gold, holder) for holder in whose))
        golds.append(replace(gold, aliases=(*gold.aliases, *more)))
    return replace(question, answers=tuple(golds))


class NameTable(Protocol):
    """The names of an index, in blocks (`refactx.index.index.Index`)."""

    def name_rows(self) -> list[tuple[bytes, bytes]]:
        """Return the keys and blocks of all names."""
        ...

    def unpack_names(self, key: bytes, block: bytes) -> dict[str, Named]:
        """Return all names of a block."""
        ...


def gold_names(index: NameTable, ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the given ids, by id, without ids that the index does not have.

    This reads all names, since an index finds ids by names and not names by ids.
    """
    wanted = frozenset(ids)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, number in _named(index) if wanted else ():
        if number in wanted and name not in found[number]:  # several name tables may have a name
            found[number].append(name)
    return {number: tuple(names) for number, names in found.items()}


def _named(index: NameTable) -> Iterable[tuple[str, str]]:
    for key, block in index.name_rows():
        for name, named in index.unpack_names(key, block).items():
            yield name, named.id
