"""`python -m bench.memory.experiments RUN QUESTIONS --index INDEX`: names of a run, resolved again by other memories.

RUN is the folder of `refactx eval QUESTIONS --sparql placeholders`. No model writes anything: the PGMR texts are read once
and resolved many times, by a memory with fewer names (`--ablate-names`) or with more (`--distractors`).

**Ablation.** Of the names of entities and properties that the gold queries need, a share at random is taken out; a larger
share has all that a smaller one has. Are the queries that need them refused, and what does that cost the others?
Questions that need none of them are answerable, if the index has the others. Texts that cannot be read are no refusals,
and do not count among those that need a name which was taken out.

**Distractors.** Names get near-duplicates, as many for each name. A near-duplicate has the description and the facts of
its name, and a label with a letter left out, doubled or changed for its neighbour, or with another word. It counts as an
entity or property of its own, so a mention that is resolved to it is resolved wrongly. Near-duplicates are made when a
mention is compared with their names: those of names that are far from it are far from it too. With `--distractors-from`
the names beside them are those of another index, as many times the memory's, which have nothing to do with it.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click
from rapidfuzz import fuzz, process

from refactx.entity_ids import is_wikidata_id
from refactx.eval.execution import has_answer, is_same, row_f1, run_query
from refactx.eval.questions import Question, read_queries
from refactx.eval.statistics import mean, share
from refactx.index.index import Index
from refactx.index.open import open_index
from refactx.sparql.engines import QueryRefusedError, SparqlSyntaxError, engine_at
from refactx.sparql.engines.checking import check_query
from refactx.sparql.labels import ids_of
from refactx.sparql.packs.prompt import pgmr_in
from refactx.sparql.packs.writers import ids_within
from refactx.sparql.placeholders.entry import (
    Match,
    Memory,
    MemoryEntry,
    Near,
    ResolvedMentions,
    fold,
    mention_text,
)
from refactx.sparql.placeholders.name_memory import NameMemory
from refactx.sparql.placeholders.opening import open_memory
from refactx.sparql.placeholders.resolver import (
    FactFeasibility,
    Feasible,
    MemoryResolver,
    MentionPattern,
    Reading,
    patterns_of,
)
from refactx.sparql.placeholders.text import PgmrQuery, Placeholder, read_pgmr
from refactx.walks.language import QueryError

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_MORE = 10
"""The entries that are read beyond those that are wanted, at first."""
SEED = 0
TAUS = (0.0, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""The least similarities that are tried beside those of the run."""
BEFORE, AFTER = ("New", "Old", "North", "South", "Little"), ("II", "County", "Park", "Society", "Hall")
_DIGITS = 12
_FIRST = 900
_UNRELATED = "99"
_OTHER_DUPLICATE = re.compile(r"(.+)~9\d\d", re.DOTALL)
_NEAR = 10
"""The names whose near-duplicates may have a mention's very label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PgmrText:
    """A text of the policy placeholders. `query`: None if it cannot be read, and is refused whatever the memory has; `needed`:
    the ids of the gold query; `gold`: the line of that."""

    question: Question
    gold: Mapping[str, Any]
    query: PgmrQuery | None = None
    patterns: Sequence[MentionPattern] = ()

    @property
    def needed(self) -> frozenset[str]:
        return ids_of(self.question.sparql).all

    def resolved(self, resolver: MemoryResolver) -> str | None:
        """Return the query with ids; None if it is refused."""
        if self.query is None:
            return None
        found = resolver.resolve_mentions(self.query.mentions, self.patterns)
        return self.query.with_ids(found.ids) if isinstance(found, ResolvedMentions) else None


def read_texts(
    questions: Sequence[Question], records: Sequence[Mapping[str, Any]], golds: Sequence[Mapping[str, Any]]
) -> list[PgmrText]:
    """Return the texts of lines of the policy placeholders, with the lines of their gold queries."""
    return [
        _read(question, record.get("text") or "", gold)
        for question, record, gold in zip(questions, records, golds, strict=True)
    ]


def _read(question: Question, text: str, gold: Mapping[str, Any]) -> PgmrText:
    written = pgmr_in(text)
    try:
        query = None if written is None else read_pgmr(written)
        if query is None or ids_within(query.sparql):
            return PgmrText(question=question, gold=gold)
        check_query(query.sparql)
        return PgmrText(question=question, gold=gold, query=query, patterns=patterns_of(query))
    except (QueryError, QueryRefusedError, SparqlSyntaxError):
        return PgmrText(question=question, gold=gold)


@dataclass
class Resolving:
    """What resolves texts by memories, and scores the queries. `run`: returns the result of a query, as `run_query`.

    The same query is run and compared once.
    """

    run: Callable[[str], Mapping[str, Any]]
    feasible: Feasible | None = None
    tau: float | None = None
    _scores: dict[tuple[str, str], tuple[bool, bool, float | None]] = field(default_factory=dict)

    def resolver(self, memory: Memory, *, tau: float | None = None, feasible: Feasible | None = None) -> MemoryResolver:
        """Return the resolver of a memory, as the policy placeholders has it. `tau`, `feasible`: in place of the own ones."""
        feasible = feasible or self.feasible
        return MemoryResolver(memory, tau=self.tau if tau is None else tau, feasible=feasible, must_match=True)

    def scores(self, texts: Sequence[PgmrText], queries: Sequence[str | None]) -> dict[str, Any]:
        """Return SQM in both modes, execution F1 and the share refused of some texts, given their queries."""
        scored = [self._score(text, sparql) for text, sparql in zip(texts, queries, strict=True)]
        compared = [f1 for _, _, f1 in scored if f1 is not None]
        return {
            "sqm_strict": share(strict for strict, _, _ in scored).to_json(),
            "sqm_paper": share(paper for _, paper, _ in scored).to_json(),
            "f1": mean(compared).to_json(),
            "refused": share(sparql is None for sparql in queries).to_json(),
        }

    def _score(self, text: PgmrText, sparql: str | None) -> tuple[bool, bool, float | None]:
        key = (text.question.key, sparql or "")
        if key not in self._scores:
            gold, wanted = text.question.sparql, text.gold["result"]
            f1 = None
            if wanted is not None and has_answer(wanted):
                f1 = 0.0 if sparql is None else row_f1(wanted, self._run(sparql))
            self._scores[key] = is_same(sparql, gold, "strict"), is_same(sparql, gold, "paper"), f1
        return self._scores[key]

    def __post_init__(self) -> None:
        self._run = cache(self.run)


def ablate_names(
    texts: Sequence[PgmrText], memory: Memory, resolving: Resolving, shares: Sequence[float]
) -> list[dict[str, Any]]:
    """Return a row for each share and least similarity (`tau`; None: that of the run).

    `refusal_accuracy`: of the questions that need a name which was taken out, the share refused; the others are scores of
    the answerable questions: `sqm_strict`, `sqm_paper`, `f1` and `refused`.
    """
    rows = []
    for of_names in shares:
        without = removed_names(texts, of_names)
        whole = [text for text in texts if not text.needed & without and not text.gold["unknown"]]
        lacking = [text for text in texts if text.needed & without and text.query is not None]
        for tau in (None, *TAUS):
            resolver = resolving.resolver(MemoryWithout(memory, without), tau=tau)
            refused = [text.resolved(resolver) is None for text in lacking]
            rows.append(
                {
                    "share": of_names,
                    "tau": tau,
                    "removed": len(without),
                    "unanswerable": len(lacking),
                    "answerable": len(whole),
                    "refusal_accuracy": share(refused).to_json(),
                    **resolving.scores(whole, [text.resolved(resolver) for text in whole]),
                }
            )
    return rows


def removed_names(texts: Sequence[PgmrText], of_names: float) -> frozenset[str]:
    """Return the ids that are taken out: a share of those that gold queries need, always the same ones."""
    needed = sorted(frozenset().union(*(text.needed for text in texts)))
    random.Random(SEED).shuffle(needed)
    return frozenset(needed[: round(of_names * len(needed))])


class MemoryWithout:
    """A memory that does not know some ids: a `Memory`. By it one measures whether what is missing is refused.

    MemoryWithout(memory, {"Q1588"}).exact([Placeholder("entity", "Louisiana")])  # without the state
    """

    def __init__(self, memory: Memory, ids: Collection[str]) -> None:
        self._memory, self._ids = memory, frozenset(ids)

    @property
    def thresholds(self) -> Mapping[Match, float]:
        """Those of the whole memory."""
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Placeholder]) -> list[list[MemoryEntry]]:
        """Return the other entries of each mention's kind that have its label."""
        return [[one for one in some if one.id not in self._ids] for some in self._memory.exact(mentions)]

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        """Return the other entries of each mention's kind that are most similar to it: at most `count`."""
        kept: list[list[Near]] = [[] for _ in mentions]
        lacking, seen, read = list(range(len(mentions))), [0] * len(mentions), count + _MORE
        while lacking:
            for at, near in zip(lacking, self._memory.nearest([mentions[at] for at in lacking], read), strict=True):
                kept[at] = [one for one in near if one.entry.id not in self._ids][:count]
                # Entries that are read may be fewer than `read` though there are more: some are of one entity.
                seen[at] = len(near) if len(near) > seen[at] and len(kept[at]) < count else -1
            lacking, read = [at for at in lacking if seen[at] > 0], 4 * read
        return kept

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> Sequence[float]:
        """Return how similar entries are to a mention."""
        return self._memory.similarities(mention, entries)


class RememberedMemory:
    """A `Memory` that is asked the same mentions many times, and keeps what another one has returned."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._exact: dict[Placeholder, Sequence[MemoryEntry]] = {}
        self._nearest: defaultdict[int, dict[Placeholder, Sequence[Near]]] = defaultdict(dict)
        self._similar: defaultdict[Placeholder, dict[MemoryEntry, float]] = defaultdict(dict)
        self._alike: defaultdict[Placeholder, dict[MemoryEntry, float]] = defaultdict(dict)

    @property
    def thresholds(self) -> Mapping[Match, float]:
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Placeholder]) -> list[Sequence[MemoryEntry]]:
        return _remembered(self._exact, mentions, self._memory.exact)

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[Sequence[Near]]:
        """Return the entries of each mention's kind that are most similar to it, at most `count`."""
        return _remembered(self._nearest[count], mentions, lambda new: self._memory.nearest(new, count))

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        return _remembered(self._similar[mention], entries, lambda new: self._memory.similarities(mention, new))

    def alike(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        """Return how similar entries that the memory does not have are to a mention, as `nearest` would say."""

        def found(new: Sequence[MemoryEntry]) -> Sequence[float]:
            if isinstance(self._memory, NameMemory):
                return [fuzz.ratio(fold(mention.label), fold(one.label)) / 100 for one in new]
            # Aliases are encoded, and need not be stored.
            return self._memory.similarities(mention, [replace(one, is_alias=True) for one in new])

        return _remembered(self._alike[mention], entries, found)


def _remembered(
    known: dict[_Key, _Value], keys: Sequence[_Key], find: Callable[[Sequence[_Key]], Sequence[_Value]]
) -> list[_Value]:
    """Return the values of keys; find those that are not known yet, all at once."""
    new = [key for key in dict.fromkeys(keys) if key not in known]
    if new:
        known.update(zip(new, find(new), strict=True))
    return [known[key] for key in keys]


def add_distractors(
    texts: Sequence[PgmrText],
    memory: RememberedMemory,
    resolving: Resolving,
    factors: Sequence[int],
    grown: Callable[[int], Memory] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each factor by which the memory grows, and first for 1: the memory as it is. `grown`: returns the
    memory of a factor, by default with near-duplicates.

    `sqm_strict`, `sqm_paper`, `f1`, `refused`: of all texts; `over`: SQM (strict) over that with factor 1, None if that is
    0; `changed`: the texts whose query is not that with factor 1.
    """
    rows: list[dict[str, Any]] = []
    before: list[str | None] = []
    for factor in dict.fromkeys((1, *factors)):
        feasible = None if resolving.feasible is None else GrownFeasible(resolving.feasible)
        larger = GrownMemory(memory, factor) if grown is None else grown(factor)
        resolver = resolving.resolver(larger, feasible=feasible)
        queries = [text.resolved(resolver) for text in texts]
        before = before or queries
        scores = resolving.scores(texts, queries)
        first = (rows[0] if rows else scores)["sqm_strict"]["value"]
        rows.append(
            {
                "factor": factor,
                **scores,
                "over": round(scores["sqm_strict"]["value"] / first, 4) if first else None,
                "changed": sum(one != other for one, other in zip(queries, before, strict=True)),
            }
        )
    return rows


class GrownMemory:
    """A memory with `factor` - 1 near-duplicates of each name: a `Memory`."""

    def __init__(self, memory: RememberedMemory, factor: int) -> None:
        self._memory, self._factor = memory, factor

    @property
    def thresholds(self) -> Mapping[Match, float]:
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Placeholder]) -> list[Sequence[MemoryEntry]]:
        """Return the entries that have each mention's label; near-duplicates if no name has it."""
        found = self._memory.exact(mentions)
        others = [at for at, some in enumerate(found) if not some]
        near = self._memory.nearest([mentions[at] for at in others], _NEAR) if others else []
        for at, some in zip(others, near, strict=True):
            label = fold(mentions[at].label)
            found[at] = [one for one in self._duplicates([near.entry for near in some]) if fold(one.label) == label]
        return found

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        """Return the names and near-duplicates that are most similar to each mention, at most `count`."""
        found = []
        for mention, near in zip(mentions, self._memory.nearest(mentions, count), strict=True):
            made = self._duplicates([one.entry for one in near])
            others = map(Near, made, self._memory.alike(mention, made))
            found.append(sorted([*near, *others], key=lambda one: -one.similarity)[:count])
        return found

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        own = iter(self._memory.similarities(mention, [one for one in entries if original_of(one.id) is None]))
        made = iter(self._memory.alike(mention, [one for one in entries if original_of(one.id) is not None]))
        return [next(own if original_of(one.id) is None else made) for one in entries]

    def _duplicates(self, entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
        return [near_duplicate(one, number) for one in entries for number in range(1, self._factor)]


class UnrelatedMemory:
    """A memory with entries of another graph besides: a `Memory`. They are compared by letters, and have ids that the index
    does not have, so a mention that is resolved to one is resolved wrongly."""

    def __init__(self, memory: Memory, others: Iterable[MemoryEntry]) -> None:
        self._memory = memory
        self._others = defaultdict[str, list[MemoryEntry]](list)
        for number, one in enumerate(others):
            id_ = f"{'P' if one.kind == 'relation' else 'Q'}{_UNRELATED}{number:0{_DIGITS}d}"
            self._others[one.kind].append(replace(one, id=id_))
        self._labels = {kind: [fold(one.label) for one in some] for kind, some in self._others.items()}

    @property
    def thresholds(self) -> Mapping[Match, float]:
        return self._memory.thresholds

    def exact(self, mentions: Sequence[Placeholder]) -> list[Sequence[MemoryEntry]]:
        """Return the entries that have each mention's label, of both."""
        found = []
        for mention, own in zip(mentions, self._memory.exact(mentions), strict=True):
            labels, label = self._labels.get(mention.kind, []), fold(mention.label)
            found.append([*own, *(self._others[mention.kind][at] for at, one in enumerate(labels) if one == label)])
        return found

    def nearest(self, mentions: Sequence[Placeholder], count: int) -> list[list[Near]]:
        """Return the entries of both that are most similar to each mention, at most `count`."""
        found = []
        for mention, own in zip(mentions, self._memory.nearest(mentions, count), strict=True):
            close = process.extract(
                fold(mention.label), self._labels.get(mention.kind, []), scorer=fuzz.ratio, limit=count
            )
            others = [Near(self._others[mention.kind][at], score / 100) for _, score, at in close]
            found.append(sorted([*own, *others], key=lambda one: -one.similarity)[:count])
        return found

    def similarities(self, mention: Placeholder, entries: Sequence[MemoryEntry]) -> list[float]:
        text = fold(mention_text(mention))
        own = iter(self._memory.similarities(mention, [one for one in entries if not _is_unrelated(one)]))
        return [
            fuzz.token_sort_ratio(text, fold(one.text)) / 100 if _is_unrelated(one) else next(own) for one in entries
        ]


def _is_unrelated(entry: MemoryEntry) -> bool:
    return entry.id[1:].startswith(_UNRELATED) and len(entry.id) == 1 + len(_UNRELATED) + _DIGITS


def entries_of(index: Index) -> list[MemoryEntry]:
    """Return the names of an index as entries."""
    tables = NameMemory(index)._names()
    return [one for some in tables.entries.values() for one in some]


class GrownFeasible:
    """What is known of facts, where near-duplicates have the facts of their names: a `Feasible`."""

    def __init__(self, feasible: Feasible) -> None:
        self._feasible = feasible

    def readings(self, ids: Sequence[str]) -> dict[str, Mapping[Reading, int]]:
        """Return the properties that entities have, also under the ids of near-duplicates of these."""
        own = {one: original_of(one) or one for one in ids}
        found = self._feasible.readings(list(dict.fromkeys(own.values())))
        return {one: found[of] for one, of in own.items()}

    def is_known(self, reading: Reading) -> bool:
        """Return whether all facts of a property are found."""
        property_, inverse = reading
        return self._feasible.is_known((original_of(property_) or property_, inverse))


def near_duplicate(entry: MemoryEntry, number: int, seed: int = SEED) -> MemoryEntry:
    """Return a near-duplicate of an entry, the same for the same number and seed.

    >>> near_duplicate(MemoryEntry("Q42", "Adams", "writer"), 1).id, original_of("Q901000000000042"), original_of("Q42")
    ('Q901000000000042', 'Q42', None)
    >>> near_duplicate(MemoryEntry("http://e.org/a", "Adams"), 1).id, original_of("http://e.org/a~901")
    ('http://e.org/a~901', 'http://e.org/a')
    """
    drawn = random.Random(f"{seed} {entry.id} {entry.label} {number}")
    label, at = entry.label, drawn.randrange(max(1, len(entry.label) - 1))
    changed = {
        "left out": label[:at] + label[at + 1 :],
        "doubled": label[: at + 1] + label[at:],
        "changed": label[:at] + label[at : at + 2][::-1] + label[at + 2 :],
        "before": f"{drawn.choice(BEFORE)} {label}",
        "after": f"{label} {drawn.choice(AFTER)}",
    }
    others = [text for text in changed.values() if text.strip() and fold(text) != fold(label)]
    id_ = f"{entry.id}~{_FIRST + number}"
    if is_wikidata_id(entry.id):  # whose namespaces take no other id
        id_ = f"{entry.id[0]}{_FIRST + number}{int(entry.id[1:]):0{_DIGITS}d}"
    return replace(entry, id=id_, label=drawn.choice(others))


def original_of(id_: str) -> str | None:
    """Return the id of the name of which an id is a near-duplicate; None if it is none."""
    if not is_wikidata_id(id_):
        found = _OTHER_DUPLICATE.fullmatch(id_)
        return None if found is None else found[1]
    if len(id_) != 1 + len(str(_FIRST)) + _DIGITS or int(id_[1:4]) <= _FIRST:
        return None
    return f"{id_[0]}{int(id_[4:])}"


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("questions", type=click.Path(path_type=Path, exists=True))
@click.option("--ablate-names", "shares", default="0.1,0.3,0.5", show_default=True, help="Shares of names to take out.")
@click.option("--distractors", "factors", default="2,9", show_default=True, help="How many times as many names.")
@click.option("--distractors-from", "other", help="Take them from the names of this index: unrelated ones.")
@click.option("--tau", type=float, help="The least similarity of a name; default: that of the memory.")
@click.option("--run-on", default="auto", show_default=True, help="What runs queries.")
@click.option("--seconds", default=60.0, show_default=True, help="The most time of a query.")
@click.option("--index", default="default", show_default=True)
@click.option("--db", help="PostgreSQL; default: $REFACTX_DB or embedded.")
def main(
    run: Path,
    questions: Path,
    shares: str,
    factors: str,
    other: str | None,
    tau: float | None,
    run_on: str,
    seconds: float,
    index: str,
    db: str | None,
) -> None:
    """Print rows of `ablation` and `distractors` as JSON."""
    written, golds = (records_of(run / f"{name}.jsonl") for name in ("placeholders", "gold"))
    asked = [one for one in read_queries(questions) if one.key in written.keys() & golds.keys()]
    asked = [one for one in asked if not golds[one.key]["fault"]]
    texts = read_texts(asked, [written[one.key] for one in asked], [golds[one.key] for one in asked])
    with open_index(index, db) as opened, closing(engine_at(run_on, lambda _: opened)) as engine:
        memory, grown = RememberedMemory(open_memory(opened)), None
        if other is not None:
            with open_index(other, db) as unrelated:
                foreign, own = entries_of(unrelated), len(entries_of(opened))
            random.Random(SEED).shuffle(foreign)
            if len(foreign) < own * (max(map(int, filter(None, factors.split(",")))) - 1):
                raise click.ClickException(f"index {other} has {len(foreign):,} names, and the memory {own:,}: too few")
            grown = lambda factor: UnrelatedMemory(memory, foreign[: own * (factor - 1)])  # noqa: E731
        resolving = Resolving(lambda sparql: run_query(engine, sparql, seconds), FactFeasibility(opened), tau)
        found = {
            "ablation": ablate_names(texts, memory, resolving, [float(one) for one in shares.split(",") if one]),
            "distractors": add_distractors(
                texts, memory, resolving, [int(one) for one in factors.split(",") if one], grown
            ),
        }
    click.echo(json.dumps(found, indent=2))


def records_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a run by the keys of their questions."""
    return {record["key"]: record for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())}


if __name__ == "__main__":
    main()
