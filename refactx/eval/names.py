"""Answers by another name: the aliases that an index has (`refactx.ingest.knowledge.aliases`) count as names of a gold answer.

An index leads from an alias to who has it, and not back. So each item of an answer is looked up as an alias.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from string import capwords
from typing import Protocol

from refactx.eval.answers import Gold, same
from refactx.eval.normalise import normalise
from refactx.eval.questions import Question
from refactx.fact import ALIAS, ALIAS_OF, clean_part, split_fact
from refactx.index.completion import completions, normalise_prefix
from refactx.tokenizer import FactTokenizer
from refactx.tree.children import FactTree

_CUT = re.compile(r"\s*[,;\n|•]\s*(?:and\s+|&\s*)?|\s+(?:and|&|/)\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_LONGEST = 100
"""Characters of an alias; what is longer is a sentence, and no name."""
_LONGEST_SHORT = 5
"""Characters besides full stops of what may be an abbreviation: `uk` is looked up as `UK` too."""
_HOLDERS = 1000
"""So many of those who have an alias are gone through."""


class Searched(FactTree, Protocol):
    """A tree with its tokenizer (`refactx.index.index.Index`)."""

    @property
    def tokenizer(self) -> FactTokenizer:
        """What its facts are written with."""
        ...


def possible_aliases(answer: str) -> set[str]:
    """What in an answer may be an alias: the whole and its parts, with and without article and full stop, as they are
    written and, since an index tells case apart, with more capitals.

    >>> sorted(possible_aliases("the USA and JFK."))
    ['JFK', 'JFK.', 'USA', 'USA and JFK', 'USA and JFK.', 'the USA', 'the USA and JFK', 'the USA and JFK.']
    >>> sorted(possible_aliases("obama")), sorted(possible_aliases("uk"))
    (['OBAMA', 'Obama', 'obama'], ['UK', 'Uk', 'uk'])
    """
    parts = {part.strip() for part in (answer, *_CUT.split(answer))}
    parts |= {part.rstrip(".").rstrip() for part in parts}  # "U.K." is an alias, and its stop may be the sentence's
    texts = parts | {_ARTICLE.sub("", part) for part in parts}
    texts |= {text.upper() for text in texts if len(text.replace(".", "")) <= _LONGEST_SHORT}
    texts |= {capwords(text) for text in texts if text.islower()}
    return {text for text in texts if len(text) <= _LONGEST and normalise(text)}


def holders_of(index: Searched, texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The names of those who have each text for an alias, by text; none for most."""
    found = {}
    for text in sorted(texts):
        begun = normalise_prefix(f"<{clean_part(text)}{ALIAS}> <{ALIAS_OF}> <")
        parts = (split_fact(fact) for fact, _ in islice(completions(index, index.tokenizer, begun), _HOLDERS))
        found[text] = tuple(part[2] for part in parts if part is not None)
    return found


def with_aliases(
    question: Question, holders: Mapping[str, tuple[str, ...]], named: Mapping[str, tuple[str, ...]]
) -> Question:
    """The question with those texts as aliases of a gold answer that it has for an alias.

    `holders`: as `holders_of` gives them. `named`: what the index calls ids; of a gold answer that it calls nothing, a holder
    of the same name will do.
    """

    def has(gold: Gold, holder: str) -> bool:
        names = named.get(gold.id or "")
        return holder in names if names else any(same(name, holder) for name in gold.names)

    golds = []
    for gold in question.answers:
        more = (text for text, whose in holders.items() if any(has(gold, holder) for holder in whose))
        golds.append(replace(gold, aliases=(*gold.aliases, *more)))
    return replace(question, answers=tuple(golds))
