"""Example questions of an index: those that a page shows, and the prompt whose examples a graph's own facts are.

Both come from the same rules for English (`refactx.english`), and from the things with most facts. The prompt of an index
is made once, at its ingest, and kept in the report of the index, so that later changes leave it as it is.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from refactx.ask.prompt import Example as Turn
from refactx.ask.prompt import Prompt, load_prompt
from refactx.english import HAS_INSTANCE, INSTANCE_OF, OF_ROWS, SUBCLASS_OF, Relation
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, verbalise
from refactx.index.index import Index
from refactx.walks import TreeFacts
from refactx.walks.language import Predicate

SUBJECTS = 300
"""The subjects with most facts, among which examples are chosen: people know them."""
FEW = 3
"""The most facts that answer a question for one thing."""

_BY_PROPERTY = {
    ("P6", False): "Who is the head of government of {}?",
    ("P19", False): "Where was {} born?",
    ("P22", False): "Who is the father of {}?",
    ("P26", False): "Who is the spouse of {}?",
    ("P30", False): "On which continent is {}?",
    ("P35", False): "Who is the head of state of {}?",
    ("P36", False): "What is the capital of {}?",
    ("P38", False): "What is the currency of {}?",
    ("P50", False): "Who wrote {}?",
    ("P57", False): "Who directed {}?",
    ("P69", False): "Where did {} study?",
    ("P86", False): "Who composed the music of {}?",
    ("P112", False): "Who founded {}?",
    ("P138", False): "What is {} named after?",
    ("P159", False): "Where are the headquarters of {}?",
    ("P169", False): "Who is the chief executive officer of {}?",
    ("P170", False): "Who created {}?",
    ("P403", False): "Where does {} flow into?",
    ("P569", False): "When was {} born?",
    ("P570", False): "When did {} die?",
    ("P610", False): "What is the highest point of {}?",
    ("P1082", False): "What is the population of {}?",
}
"""Questions for properties of Wikidata; True: for a property that is read backwards."""
_MANY = {
    ("P40", False): "How many children does {} have?",
    ("P50", True): "Which books did {} write?",
    ("P57", True): "How many films did {} direct?",
    ("P166", False): "Which awards did {} receive?",
    ("P800", False): "What are the notable works of {}?",
}
"""Questions whose answers are sets."""
_UNASKED = frozenset((*DESCRIPTIONS, ALIAS_OF, INSTANCE_OF, SUBCLASS_OF, *OF_ROWS))
_CLASS_OF = ("P31", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_YEAR = re.compile(r"(1\d|20)\d\d$")
GRAPH = "domain"
"""The prompt whose examples an index makes."""
KEPT = "prompt"
"""The key of an index's own examples in its report."""
_WIKIDATA = tuple(
    f"P{number}" for number in (17, 19, 21, 27, 30, 31, 36, 50, 57, 69, 106, 131, 161, 166, 279, 361, 569)
)
SURVEYED, MEMBERS, TRIED, LONGEST = 24, 2, 4, 60
"""How many subjects are looked at; how many members of each class among them; how many of these are tried for a fact of each
predicate; the longest name in an example."""
LINES = 12
"""The most lines of facts, and of queries, with questions: small models read few more."""
_ADDRESS = re.compile(r"://|\.\w{2,4}$")


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """A question, and the subject and predicate of the facts that answer it."""

    question: str
    subject: str
    predicate: str


class Examples:
    """Examples from one index. `facts`: those of the index. It is safe to share between threads."""

    def __init__(self, index: Index, facts: TreeFacts) -> None:
        self._index, self._facts, self._reading = index, facts, Lock()
        self._known: dict[str, list[tuple[bool, ExampleQuestion]]] = {}

    def some(self, limit: int, seed: int | None = None) -> list[ExampleQuestion]:
        """Return at most `limit` questions about different subjects, each for another predicate; none if the names are in
        another language than English, in which the questions are.

        `seed`: the same one chooses the same examples of an unchanged index. Those for well-known properties come first.
        Raises as `Index.children` does.
        """
        if not is_english(self._index):
            return []
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        subjects = list(self._subjects)
        chance.shuffle(subjects)
        found: dict[str, ExampleQuestion] = {}
        spare: dict[str, ExampleQuestion] = {}
        for subject in subjects:
            if len(found) >= limit:
                break
            questions = list(self._asked(subject))
            chance.shuffle(questions)
            for is_known, example in questions:
                chosen = found if is_known else spare
                if example.predicate not in chosen:
                    chosen[example.predicate] = example
                    break
        of_subjects = {example.subject for example in found.values()}
        more = [example for example in spare.values() if example.subject not in of_subjects]
        return [*found.values(), *more][:limit]

    @property
    def _subjects(self) -> list[str]:
        with self._reading:
            return self._widest

    @cached_property
    def _widest(self) -> list[str]:
        """The subjects with most facts whose plain names are clear."""
        return _widest(self._index, SUBJECTS)

    def _asked(self, subject: str) -> list[tuple[bool, ExampleQuestion]]:
        if subject not in self._known:
            self._known[subject] = list(self._questions(subject))
        return self._known[subject]

    def _questions(self, subject: str) -> Iterator[tuple[bool, ExampleQuestion]]:
        """Yield questions about a subject, and whether each is for a well-known property."""
        name = plain_name(subject)
        if name != subject and len(self._index.complete(f"<{name} (", 2)) > 1:
            return  # two things have this name
        counts = self._facts.predicates(subject)
        described = self._facts.describe(list(counts))
        for predicate, count in counts.items():
            known = described.get(predicate)
            key = (known.id or "", known.inverse) if known else ("", False)
            template = (_BY_PROPERTY if count <= FEW else _MANY).get(key)
            if template:
                yield True, ExampleQuestion(template.format(name), subject, predicate)
            elif predicate not in _UNASKED and (count <= FEW or key[1]):
                relation = relation_of(self._facts, subject, predicate, known, count=count)
                asks = relation.which if count <= FEW else relation.how_many
                yield False, ExampleQuestion(asks(name), subject, predicate)


def question_for(known: Predicate, relation: Relation, name: str, many: bool) -> str:
    """Return the question for the objects of a subject called `name`: as people ask for a well-known property, else by
    the rules for English."""
    key = (known.id or "", known.inverse)
    template = None if many else _BY_PROPERTY.get(key)
    return template.format(name) if template else relation.which(name)


def relation_of(
    facts: TreeFacts, subject: str, predicate: str, known: Predicate | None, *, count: int, values: Sequence[str] = ()
) -> Relation:
    """Return a predicate of a subject as questions have it. `values`: some of its objects, read here if there are none."""
    is_thing = known is not None and known.kind in ("entity", "mixed")
    forwards = (facts.inverse_of(predicate) or "") if known is not None and known.inverse else ""
    if known is not None and not values:
        values = [value for _, value in islice(facts.objects([subject], predicate), FEW)]
    return Relation(
        predicate=predicate,
        forwards=forwards,
        things=class_of(facts, values) if is_thing else "",
        is_date=known is not None
        and (known.kind == "time" or (known.kind == "quantity" and all(map(_YEAR.match, values)))),
        many=count > 1,
    )


def class_of(facts: TreeFacts, names: Sequence[str]) -> str:
    """Return the class that most of some things have, without its description; "" if they have none."""
    predicate = next(iter(facts.names(_CLASS_OF).values()), None)
    if predicate is None or not names:
        return ""
    classes = Counter(plain_name(one) for _, one in facts.objects(names, predicate))
    return min(classes, key=lambda one: (-classes[one], len(one), one), default="")


def is_english(index: Index) -> bool:
    """Return whether names are in English, in which questions are."""
    languages = (index.entry.report.get("selection") or {}).get("languages") or ["en"]
    return next((one for one in languages if one != "mul"), "en").partition("-")[0] == "en"


def _widest(index: Index, most: int) -> list[str]:
    """Return the subjects with most facts, without aliases."""
    names = [text.removeprefix("<").removesuffix(">") for text, _ in index.complete("<", most)]
    return [name for name in names if not name.endswith(ALIAS)]


def plain_name(name: str) -> str:
    """Return the name of an entity without its description.

    >>> plain_name("Alaska (state of the United States of America)"), plain_name("(500) Days")
    ('Alaska', '(500) Days')
    """
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at].rstrip() or name
    return name


# --- The prompt of a graph


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """A predicate of a subject: as questions have it, with the kind of its objects, their number and some `values`."""

    subject: str
    relation: Relation
    known: Predicate
    count: int
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """The subject as people call it."""
        return plain_name(self.subject)

    @property
    def predicate(self) -> str:
        return self.relation.predicate

    @property
    def is_thing(self) -> bool:
        """Whether its objects are things."""
        return self.known.kind == "entity"

    @property
    def facts(self) -> str:
        """The lines of its facts."""
        return "".join(f"Fact:{verbalise(self.subject, self.predicate, value)} .\n" for value in self.values)


def prompt_for(name: str | Path | None, index: object) -> Prompt:
    """Return the prompt of a name, as `load_prompt` does, for an index; None: the one that goes with the index.

    That is `wikidata` for Wikidata, and else `domain`, with examples of the index's own in place of those in its file.
    """
    if not isinstance(index, Index) or name not in (None, GRAPH):
        return load_prompt("wikidata" if name is None else name)
    if name is None and is_wikidata(index):
        return load_prompt()
    made, prompt = index.entry.report.get(KEPT) or graph_examples(index), load_prompt(GRAPH)
    facts, queries = made.get("channel", "").splitlines(), made.get("queries", "").splitlines()
    examples = tuple(Turn(**one) for one in made.get("examples", ()))
    return replace(
        prompt,
        # Made questions have the very name of their relation: without others before them, models expect that of all.
        channel="\n".join([*prompt.channel.strip().splitlines(), *facts][: LINES + 1]),
        queries="\n".join([*queries, *prompt.queries.strip().splitlines()][:LINES]),
        examples=examples if len(examples) > 1 else prompt.examples,
    )


def is_wikidata(index: Index) -> bool:
    """Return whether the properties of an index are Wikidata's."""
    profile = (index.entry.report.get("selection") or {}).get("profile") or {}
    return profile.get("name", "wikidata") == "wikidata" and bool(index.names_of(_WIKIDATA))


def graph_examples(index: Index) -> dict[str, Any]:
    """Return examples for the prompt of an index: `channel` and `queries`, texts, and `examples`, questions with answers.

    The same facts give the same examples. Empty if the index is Wikidata's, or if its names are not in English.
    """
    if not is_english(index) or is_wikidata(index):
        return {}
    facts = TreeFacts(index)
    surveyed = _survey(index, facts)
    asked = [f"Fact: <{one.name}> <{one.predicate}> Question: {one.relation.which(one.name)}" for one in surveyed]
    queries = [f"Query: {line} Question: {question}" for line, question in _mixed(_queries(facts, surveyed))]
    return {
        "channel": "\n".join(asked[:LINES]),
        "queries": "\n".join(queries[:LINES]),
        "examples": [asdict(one) for one in _turns(surveyed)],
    }


def _survey(index: Index, facts: TreeFacts) -> list[_Surveyed]:
    """Return one of the facts of each predicate, those of most subjects first.

    They are about the subjects with most facts and members of the classes among them, each about another as far as possible.
    """
    widest = _widest(index, SURVEYED)
    instances = facts.names(_CLASS_OF, inverse=True).values()
    members = [one for name in widest for of in instances for _, one in islice(facts.objects([name], of), MEMBERS)]
    counts = {name: facts.predicates(name) for name in dict.fromkeys([*members, *widest]) if is_shown(name)}
    subjects = defaultdict[str, list[str]](list)
    for name, own in counts.items():
        for predicate in own.keys() - {*DESCRIPTIONS, ALIAS_OF}:
            subjects[predicate].append(name)
    described, used = facts.describe(list(subjects)), Counter[str]()
    found: list[_Surveyed] = []
    for predicate, names in sorted(subjects.items(), key=lambda one: (-len(one[1]), one[0])):
        known = described.get(predicate, Predicate(predicate, None, False, "literal"))
        names.sort(key=lambda name: (used[name], not 1 < counts[name][predicate] <= FEW))
        for name in names[:TRIED]:
            values = tuple(value for _, value in islice(facts.objects([name], predicate), FEW))
            shown = known.kind in ("quantity", "time") or all(is_shown(value) and value != name for value in values)
            if values and shown:
                relation = relation_of(facts, name, predicate, known, count=counts[name][predicate], values=values)
                found.append(_Surveyed(name, relation, known, counts[name][predicate], values))
                used[name] += 1
                break
        if len(found) == 3 * LINES:
            break
    return sorted(
        found, key=lambda one: one.known.kind not in ("quantity", "time") and one.values[0].isupper()
    )  # codes last


def is_shown(name: str) -> bool:
    """Return whether a name is one that people say: no address, no code, no text."""
    letters = sum(map(str.isalpha, name))
    return name.isprintable() and len(name) <= LONGEST and not _ADDRESS.search(name) and 2 * letters > len(name)


def _queries(facts: TreeFacts, surveyed: Sequence[_Surveyed]) -> Iterator[list[tuple[str, str]]]:
    """Yield lines of queries with their questions, those of one kind together."""
    plain = [one for one in surveyed if one.predicate not in (HAS_INSTANCE, INSTANCE_OF)]
    starts = [(one, f"<{one.name}> <{one.predicate}>") for one in surveyed if one.predicate != INSTANCE_OF]
    many = [(one, start) for one, start in starts if one.count > 1 and one.is_thing]
    yield [(f"count {start}", one.relation.how_many(one.name)) for one, start in many][:3]
    yield [
        (
            f"ask <{one.name}> <{one.predicate}> <{(value := plain_name(one.values[0]))}>",
            one.relation.whether(one.name, value),
        )
        for one in surveyed
        if not one.known.inverse and one.known.kind in ("entity", "text")
    ][:4]
    sets, compared = list[tuple[str, str]](), list[tuple[str, str]]()
    for one in plain if HAS_INSTANCE in facts.names(_CLASS_OF, inverse=True).values() else ():
        class_ = class_of(facts, [one.subject])
        start, value = f"<{class_}> <{HAS_INSTANCE}>", plain_name(one.values[0])
        if class_ and one.known.kind in ("quantity", "time"):
            compared.append((f"most {start} by <{one.predicate}>", one.relation.first(class_)))
        elif class_ and one.is_thing and not one.known.inverse:
            sets.append((f"count {start} which <{one.predicate}> <{value}>", one.relation.members(class_, value)))
    yield sets[:3]
    yield [(f"list {start}", one.relation.which(one.name)) for one, start in starts][:3]
    yield compared[:2]
    yield [
        (f"ask <{one.name}> <{one.predicate}> over <{one.values[0]}>", one.relation.over(one.name, one.values[0]))
        for one in plain
        if one.known.kind == "quantity"
    ][:1]


def _mixed(kinds: Iterator[list[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    """Yield members of lists in turns."""
    waiting = [list(one) for one in kinds]
    while any(waiting):
        yield from [one.pop(0) for one in waiting if one]


def _turns(surveyed: Sequence[_Surveyed]) -> Iterator[Turn]:
    """Yield worked examples: a list, a look-up, a count, a yes, and a question that no fact answers."""
    left = [one for one in surveyed if one.predicate not in (INSTANCE_OF, HAS_INSTANCE) and one.count <= FEW]

    def take(*, several: bool, thing: bool = False, forwards: bool = False) -> Iterator[_Surveyed]:
        for one in left:
            if (one.count > 1) == several and one.is_thing >= thing and not (forwards and one.known.inverse):
                left.remove(one)
                yield one
                return

    for one in take(several=True):
        yield Turn(one.relation.which(one.name), f"{one.facts}Answer: {'; '.join(map(plain_name, one.values))}")
    for one in take(several=False):
        yield Turn(one.relation.which(one.name), f"{one.facts}Answer: {plain_name(one.values[0])}")
    for one in take(several=True, thing=True):
        yield Turn(one.relation.how_many(one.name), f"{one.facts}Answer: {one.count}")
    for one in take(several=False, thing=True, forwards=True):
        yield Turn(one.relation.whether(one.name, plain_name(one.values[0])), f"{one.facts}Answer: yes")
    for one in take(several=False):
        yield Turn(Relation(predicate="favourite colour").which(one.name), f"{one.facts}Answer: I don't know.")
