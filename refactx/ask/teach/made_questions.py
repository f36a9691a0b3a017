"""Questions made of an index: walks drawn at random, answered by the facts, and phrased by the rules for English.

A fact is drawn by a walk down the tree, at each fork by the number of facts, so that each fact is as likely as another;
facts of frequent predicates are then drawn less often, so that predicates come in turns. A question of each kind is tried
about it:

| kind | walk | question |
|---|---|---|
| single | `list <Alaska> <capital>` | What is the capital of Alaska? |
| multi | `list <Alaska> <shares border with>`, or over two predicates | What is the population of the capital of Alaska? |
| count | `count <Alaska> <shares border with>` | How many things does Alaska share border with? |
| ask | `ask <Alaska> <capital> <Juneau>`, or of an object of others | Is Juneau the capital of Alaska? |
| superlative | `most <river> <has instance> by <length>` | Which river has the highest length? |
| comparison | `ask <Alaska> <population> over <700000>` | Is the population of Alaska more than 700000? |
| unanswerable | none: others of its class have facts with the predicate | What is the currency of Juneau? |

Gold answers are the answers of the walk, so nobody has to check them; how well a question reads depends on how the
predicates of a graph are called.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from typing import Any

from refactx.ask.asker import Asker
from refactx.ask.examples import class_of, is_english, is_shown, plain_name, question_for, relation_of
from refactx.ask.prompt import Example, Prompt
from refactx.engines.engine import LanguageModel
from refactx.english import HAS_INSTANCE, INSTANCE_OF, OF_ROWS, Relation
from refactx.errors import InputError
from refactx.fact import ALIAS, ALIAS_OF, DESCRIPTIONS, split_fact
from refactx.index.index import Index
from refactx.linking.names import bare_name
from refactx.walks import TreeFacts
from refactx.walks.answered import AnsweredQuery, answer_query
from refactx.walks.language import Hop, MemberValue, Predicate, Query, QueryError, WalkFilter, write_line
from refactx.walks.values import parse_quantity

KINDS = ("single", "multi", "count", "ask", "superlative", "comparison", "unanswerable")
MOST_ANSWERS = 12
"""Questions with more answers are asked for their number alone."""
DRAWN = 12
"""How many facts are drawn for each question, so that rare predicates are among them."""
FURTHER = 3
"""How many predicates of an object are tried for a question over two."""
_HIDDEN = frozenset((*DESCRIPTIONS, ALIAS_OF, *OF_ROWS))
WORDS = Prompt(
    system="You say questions in other words, as people ask them. Keep all names as they are. Answer with one question alone.",
    examples=(
        Example("What is the capital of Peru?", "Which city is Peru's capital?"),
        Example("How many children does Ann Lee have?", "How many kids has Ann Lee got?"),
    ),
)
"""The prompt for other words."""
LONGEST = 64
"""The most ids of a question in other words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQuestion:
    """A question with its gold answer.

    `answers`: names without descriptions, numbers, `yes` or `no`; none if no fact answers it. `walk`: its query, empty
    without one, with `sparql` where its names have ids. `facts`: texts of facts that prove the answer. `subject`,
    `predicates`: what it is about. `part`: `train`, or `subjects` or `predicates` if its subject or one of its predicates is
    kept aside, see `part_of`. `rule`: the question by the rules for English, before a model changed its words.
    """

    id: str
    question: str
    kind: str
    answers: tuple[str, ...]
    walk: str
    sparql: str | None
    facts: tuple[str, ...]
    subject: str
    predicates: tuple[str, ...]
    part: str
    rule: str

    def to_json(self) -> dict[str, Any]:
        """Return the record of the question, which `refactx eval` reads."""
        return {
            "id": self.id,
            "source": "made",
            "question": self.question,
            "kind": self.kind,
            "answers": list(self.answers),
            "walk": self.walk or None,
            "sparql": self.sparql,
            "facts": list(self.facts),
            "subject": self.subject,
            "predicates": list(self.predicates),
            "part": self.part,
            "rule": self.rule,
        }


def part_of(subject: str, predicates: Collection[str], aside: float) -> str:
    """Return the part of a question, the same one in each run: `aside` is the share of the subjects that are kept aside,
    and half of it that of the predicates.

    >>> part_of("Alaska", [], 0.0), part_of("Alaska", [], 1.0), part_of("Alaska", ["area"], 2.0)
    ('train', 'subjects', 'predicates')
    """
    if any(_share(f"predicate {one}") < aside / 2 for one in predicates):
        return "predicates"
    return "subjects" if _share(f"subject {subject}") < aside else "train"


def _share(text: str) -> float:
    """Return a number from 0 to 1 that a text has by its hash."""
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big") / 2**32


def make_questions(
    index: Index, most: int, *, kinds: Collection[str] = KINDS, seed: int = 0, aside: float = 0.2
) -> Iterator[MadeQuestion]:
    """Yield at most `most` different questions of some `kinds` about an index, in turns of kind and predicate.

        with refactx.open_index("demo") as index:
            for one in make_questions(index, 5):
                print(one.question, one.answers)

    `aside`: as in `part_of`. The same seed gives the same questions of an unchanged index. Raises InputError for an unknown
    kind, and for an index whose names are not in English.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise InputError(f"there are no questions of kind {unknown[0]}: give some of {', '.join(KINDS)}")
    if not is_english(index):
        raise InputError(
            "the names of this index are not in English, in which questions are phrased: ingest it with --languages en"
        )
    maker, made = _Maker(index, random.Random(seed)), Counter[str]()  # noqa: S311 - not for secrets
    asked = set[str]()
    for subject, predicate, value in maker.drawn(most * DRAWN):
        about = maker.about(subject, predicate)
        for kind in sorted(kinds, key=lambda one: (made[one], KINDS.index(one))):
            found = maker.question(kind, subject, *about, value)
            if found is None or found.question in asked:
                continue
            made[kind] += 1
            asked.add(found.question)
            yield found.numbered(len(asked), aside)
            break
        if len(asked) == most:
            return


def rephrased(made: Iterator[MadeQuestion], model: LanguageModel, index: Index) -> Iterator[MadeQuestion]:
    """Yield questions in other words of a model, where it reads the same query back; the others as they are.

    `model`: of the index's tokenizer. Raises as `refactx.Asker` does.
    """
    words, reader = Asker(model, model.tokenizer, None, WORDS), Asker(model, model.tokenizer, index)
    for one in made:
        text = words.ask(one.question, free=True, max_new_tokens=LONGEST).text.partition("\n")[0].strip()
        keeps_name = plain_name(one.subject).casefold() in text.casefold()
        if one.walk and keeps_name and text.endswith("?") and text != one.question:
            candidates = reader.query(text).candidates
            if candidates and write_line(candidates[0].query) == one.walk:
                yield replace(one, question=text)
                continue
        yield one


@dataclass(frozen=True, slots=True)
class _Draft:
    """A question of a `kind` with its answer: that of a query, or none."""

    kind: str
    question: str
    subject: str
    predicates: tuple[str, ...]
    answered: AnsweredQuery | None

    def numbered(self, number: int, aside: float) -> MadeQuestion:
        """Return the question that it is."""
        answered, answers = self.answered, tuple[str, ...]()
        if answered is not None and answered.query.head in ("ask", "count"):
            answers = (answered.answer,)
        elif answered is not None:
            answers = tuple(dict.fromkeys(map(bare_name, answered.result.values)))
        return MadeQuestion(
            id=f"made-{number}",
            question=self.question,
            kind=self.kind,
            answers=answers,
            walk="" if answered is None else answered.line,
            sparql=None if answered is None else answered.sparql,
            facts=() if answered is None else tuple(f"<{s}> <{p}> <{o}>" for s, p, o in answered.result.facts),
            subject=self.subject,
            predicates=self.predicates,
            part=part_of(self.subject, self.predicates, aside),
            rule=self.question,
        )


class _Maker:
    """Facts and questions of one index, by chance."""

    def __init__(self, index: Index, chance: random.Random) -> None:
        self._index, self._chance, self._facts = index, chance, TreeFacts(index)
        self._clear: dict[str, bool] = {}
        self._others: dict[str, list[str]] = defaultdict(list)  # objects of a predicate that were drawn
        self._makes: dict[str, Callable[[str, Relation, Predicate, str], _Draft | None]] = {
            "single": lambda subject, one, known, _: None if one.many else self._list("single", subject, one, known),
            "multi": self._multi,
            "count": self._count,
            "ask": self._ask,
            "superlative": self._superlative,
            "comparison": self._comparison,
            "unanswerable": self._unanswerable,
        }

    def drawn(self, most: int) -> Iterator[tuple[str, str, str]]:
        """Yield at most `most` facts whose subjects people can name, of one predicate after another.

        Subjects that are predicates themselves, as in ontologies, are left out.
        """
        by_predicate: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        for _ in range(most):
            subject, predicate, value = self._fact()
            if predicate not in _HIDDEN and not subject.endswith(ALIAS) and self._is_clear(subject):
                by_predicate[predicate].append((subject, predicate, value))
                self._others[predicate].append(value)
        order = sorted(by_predicate)
        self._chance.shuffle(order)
        while order:
            for predicate in order:
                yield by_predicate[predicate].pop()
            order = [predicate for predicate in order if by_predicate[predicate]]

    def about(self, subject: str, predicate: str) -> tuple[Relation, Predicate]:
        """Return a predicate of a subject as questions have it, and what the index knows of it."""
        known = self._facts.describe([predicate]).get(predicate, Predicate(predicate, None, False, "literal"))
        return self._relation(subject, known), known

    def question(self, kind: str, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        """Return a question of a kind about a fact, given what `about` returns; None if there is none."""
        return self._makes[kind](subject, relation, known, value)

    def _relation(self, subject: str, known: Predicate) -> Relation:
        """Return a predicate of a subject as questions have it. Its objects are called by a class that all of them have."""
        [count] = self._facts.counts([subject], known.name)
        values = [value for _, value in islice(self._facts.objects([subject], known.name), MOST_ANSWERS)]
        relation = relation_of(self._facts, subject, known.name, known, count=count, values=values)
        if relation.things and count > 1:
            members = [class_of(self._facts, [value]) == relation.things for value in values]
            relation = replace(relation, things=relation.things if all(members) and count <= len(values) else "")
        return relation

    def _fact(self) -> tuple[str, str, str]:
        """Return a fact: at each fork of the tree, a child with many facts is as much likelier."""
        ids, token_bytes, text = list[int](), self._index.tokenizer.token_bytes, b""
        while True:
            children = self._index.children(ids)
            place = self._chance.randrange(children.total)
            token = int(children.tokens[int((children.leaves.cumsum() > place).argmax())])
            ids.append(token)
            text += token_bytes[token]
            if text.rstrip().endswith(b">") and (fact := split_fact(text.decode("utf-8", "replace").strip())):
                return fact

    def _is_clear(self, name: str) -> bool:
        """Return whether a name is one that people say, and means one thing."""
        if name not in self._clear:
            plain = plain_name(name)
            several = plain != name and len(self._index.complete(f"<{plain} (", 2)) > 1
            self._clear[name] = is_shown(plain) and not several and not self._facts.describe([name])
        return self._clear[name]

    def _draft(self, kind: str, question: str, query: Query, *predicates: str) -> _Draft | None:
        """Return a question with the answer of its query; None if there is none, or a hub's, which has no proof."""
        try:
            answered = answer_query(query, self._facts)
        except QueryError:
            return None
        if not answered.answer or not answered.result.is_complete or len(answered.result.values) > MOST_ANSWERS:
            return None
        return _Draft(kind, question, query.start, predicates, answered)

    def _list(self, kind: str, subject: str, relation: Relation, known: Predicate) -> _Draft | None:
        question = question_for(known, relation, plain_name(subject), relation.many)
        return self._draft(kind, question, Query("list", subject, (Hop(relation.predicate),)), relation.predicate)

    def _multi(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        if relation.many:
            return self._list("multi", subject, relation, known)
        if known.kind != "entity" or not relation.is_noun:
            return None
        further = [one for one in self._facts.predicates(value) if one not in (*_HIDDEN, INSTANCE_OF)]
        self._chance.shuffle(further)
        for predicate, described in self._facts.describe(further[:FURTHER]).items():
            second = self._relation(value, described)
            if described.inverse or second.many:
                continue
            question = question_for(described, second, relation.of(plain_name(subject)), False)
            query = Query("list", subject, (Hop(relation.predicate), Hop(predicate)))
            if found := self._draft("multi", question, query, relation.predicate, predicate):
                return found
        return None

    def _count(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        if not relation.many or known.kind in ("time", "quantity"):
            return None
        query = Query("count", subject, (Hop(relation.predicate),))
        return self._draft("count", relation.how_many(plain_name(subject)), query, relation.predicate)

    def _ask(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        if known.inverse or known.kind not in ("entity", "text"):
            return None
        if self._chance.random() < 0.5:  # an object of others: no
            value = self._chance.choice(self._others[relation.predicate])
        if not is_shown(plain_name(value)) or plain_name(value) == plain_name(subject):
            return None
        which = (WalkFilter((Hop(relation.predicate),), "is", value),)
        question = relation.whether(plain_name(subject), plain_name(value))
        return self._draft("ask", question, Query("ask", subject, which=which), relation.predicate)

    def _superlative(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        class_ = class_of(self._facts, [subject]) if known.kind in ("quantity", "time") and not relation.many else ""
        if not class_:
            return None
        members = [one for _, one in islice(self._facts.objects([class_], HAS_INSTANCE), MOST_ANSWERS)]
        values = [one for _, one in islice(self._facts.objects(members, relation.predicate), MOST_ANSWERS)]
        relation = relation_of(self._facts, subject, relation.predicate, known, count=1, values=values)
        query = Query("most", class_, (Hop(HAS_INSTANCE),), by=MemberValue(relation.predicate))
        found = self._draft("superlative", relation.first(class_), query, HAS_INSTANCE, relation.predicate)
        return found if found and found.answered and len(found.answered.result.values) == 1 else None

    def _comparison(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        number = parse_quantity(value)
        if known.kind != "quantity" or relation.is_date or relation.many or number is None or number <= 0:
            return None
        limit = f"{int(number * self._chance.choice((1, 3)) / 2) or 1}"
        which = (WalkFilter((Hop(relation.predicate),), "over", limit),)
        question = relation.over(plain_name(subject), limit)
        return self._draft("comparison", question, Query("ask", subject, which=which), relation.predicate)

    def _unanswerable(self, subject: str, relation: Relation, known: Predicate, value: str) -> _Draft | None:
        """Return a question about another member of the subject's class, which has no fact with the predicate."""
        class_ = next((one for _, one in self._facts.objects([subject], INSTANCE_OF)), None)
        if known.inverse or class_ is None or relation.predicate == INSTANCE_OF:
            return None
        for _, other in islice(self._facts.objects([class_], HAS_INSTANCE), MOST_ANSWERS):
            if self._is_clear(other) and relation.predicate not in self._facts.predicates(other):
                question = question_for(known, relation, plain_name(other), False)
                return _Draft("unanswerable", question, other, (relation.predicate,), None)
        return None
