"""The cases of an evaluation of a pack: questions with gold queries, from its `cases.jsonl`, its examples or a file."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from refactx.errors import InputError
from refactx.eval.question import Question
from refactx.nl2sparql import Pack

CASES = "cases.jsonl"
Source = Literal["cases", "examples"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question with its gold query.

    `primary`: the variables whose values answer the question, empty for all; `patterns`: those of the question;
    `components`: texts that the query is expected to have; `without`: ids of examples that a model is not to be shown.
    """

    id: str
    question: str
    sparql: str
    primary: tuple[str, ...] = ()
    category: str = ""
    patterns: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def cases_of(
    pack: Pack,
    source: Source = "cases",
    language: str | None = None,
    category: str | None = None,
    limit: int | None = None,
) -> list[Case]:
    """Return the cases that have a gold query, in an order that has nothing to do with them, so that a limit is fair.

    `language`: of the questions, if they are in several. Raises InputError if there are none.
    """
    found = list(_from_file(pack, language) if source == "cases" else _from_examples(pack, language))
    chosen = [case for case in found if category is None or case.category == category]
    if not chosen:
        known = sorted({case.category for case in found if case.category})
        asked = f" of category {category} (there are {', '.join(known) or 'none'})" if category else ""
        where = CASES if source == "cases" else "examples.jsonl"
        raise InputError(f"pack {pack.name} has no cases with gold queries{asked} in {where}: give --source or a file")
    return sorted(chosen, key=lambda case: sha256(case.id.encode()).hexdigest())[:limit]


def cases_of_questions(questions: Sequence[Question]) -> list[Case]:
    """Return questions with a gold query as cases, in their order. Their kind is the category; all variables are primary.

    >>> one = Question(id="1", source="s", text="Who?", answers=(), kind="single", sparql="SELECT ?x { ?x ?p 1 }", key="s/1")
    >>> [(case.id, case.question, case.category) for case in cases_of_questions([one])]
    [('s/1', 'Who?', 'single')]
    """
    return [Case(id=one.key, question=one.text, sparql=one.sparql, category=one.kind) for one in questions]


def _from_file(pack: Pack, language: str | None) -> Iterator[Case]:
    path = None if pack.folder is None else pack.folder / CASES
    if path is None or not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield from _case(json.loads(line), language)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path}: line {number} is no case ({error!r}): expected id, questions, sparql, primary, category, patterns"
            ) from None


def _case(document: dict[str, Any], language: str | None) -> Iterator[Case]:
    questions = document["questions"]
    question = questions.get(language) if language else next(iter(questions.values()))
    if question and document.get("sparql"):
        yield Case(
            id=str(document["id"]),
            question=question,
            sparql=document["sparql"],
            primary=tuple(document.get("primary", ())),
            category=document.get("category", ""),
            patterns=tuple(document.get("patterns", ())),
            components=tuple(document.get("components", ())),
        )


def _from_examples(pack: Pack, language: str | None) -> Iterator[Case]:
    for one in pack.examples:
        questions = (one.question,) if language is None else one.variants.get(language, ())
        if questions:
            yield Case(
                id=one.id, question=questions[0], sparql=one.sparql, patterns=tuple(one.patterns), without=(one.id,)
            )
