"""Names in an index: those of gold answers, and those in the queries of answers.

An item of an answer may also be an alias (`refactx.ingest.knowledge.names`). An index leads from an alias to its
entities, but not back, so each item of an answer is looked up as an alias. A query is read again from its line, run
again, and its names are looked up.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from string import capwords
from typing import Any

from refactx.eval.answers import Gold, same
from refactx.eval.normalise import normalise
from refactx.eval.questions import Question
from refactx.fact import ALIAS, ALIAS_OF, clean_part, split_fact
from refactx.index import Index
from refactx.index.index import completions, normalise_prefix
from refactx.walks.evaluate import evaluate_walk
from refactx.walks.language import FactSet, Query, QueryError, read_line

_CUT = re.compile(r"\s*[,;\n|•]\s*(?:and\s+|&\s*)?|\s+(?:and|&|/)\s+", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_LONGEST = 100
"""The most characters of an alias: a longer text is a sentence."""
_LONGEST_SHORT = 5
"""The most characters of an abbreviation, without full stops: `uk` is also looked up as `UK`."""
_HOLDERS = 1000
"""The most entities of an alias that are read."""


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


def find_holders(index: Index, texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
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


def gold_names(index: Index, ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the given ids, by id, without ids that the index does not have.

    This reads all names, since an index finds ids by names and not names by ids.
    """
    wanted = frozenset(ids)
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key, block in index.name_rows() if wanted else ():
        for name, named in index.unpack_names(key, block).items():
            if named.id in wanted and name not in found[named.id]:  # several name tables may have a name
                found[named.id].append(name)
    return {number: tuple(names) for number, names in found.items()}


@dataclass(frozen=True, slots=True)
class CheckedNames:
    """What is wrong with a query: `error`, why it does not run, empty if it does; `unknown`: names that the index does
    not have."""

    error: str = ""
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> "CheckedNames":
        """Return what `dataclasses.asdict` has made into JSON. Raises TypeError or KeyError for anything else."""
        return cls(value["error"], tuple(value["unknown"]))


def check_line(line: str, facts: FactSet) -> CheckedNames:
    """Check a query, given its line.

    An entity is known if it has an id or facts; a predicate, if the index describes it or the start has it. The value
    of a filter is a name if it is compared with entities. Raises as the methods of `facts` do.
    """
    try:
        query = read_line(line)
    except QueryError as error:
        return CheckedNames(str(error))
    unknown = tuple(dict.fromkeys([*_unknown_entities(query, facts), *_unknown_predicates(query, facts)]))
    try:
        evaluate_walk(query, facts)
    except QueryError as error:
        return CheckedNames(str(error), unknown)
    return CheckedNames("", unknown)


def _unknown_entities(query: Query, facts: FactSet) -> list[str]:
    names = [walk.start for walk in query.walks if walk.start]
    for which in query.which:
        last = [*query.hops, *which.hops][-1:]
        described = facts.describe([hop.predicate for hop in last])
        leads_to = [described[hop.predicate].kind for hop in last if hop.predicate in described]
        if which.operator == "is" and leads_to == ["entity"]:
            names += which.values
    ids = facts.ids(names)
    return [name for name in names if name not in ids and not facts.predicates(name)]


def _unknown_predicates(query: Query, facts: FactSet) -> list[str]:
    values = [one for one in (query.by, *query.show) if one and not one.its]
    names = [hop.predicate for walk in query.walks for hop in walk.hops] + [name for one in values for name in one.path]
    known = facts.describe(names)
    left = [name for name in names if name not in known]
    own = facts.predicates(query.start) if left else {}
    return [name for name in left if name not in own]
