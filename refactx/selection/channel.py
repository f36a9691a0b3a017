"""The noisy channel: the choice of the fact after which the question is likeliest.

Small models write facts badly by themselves: "what did einstein do?" begins `<Ein`, which the tree continues to
`Einsatzgruppen`; "what timezone is arizona in?" needs `located in time zone`, which begins like `located in ...`. The
reverse is easy: of all candidates, the question is likeliest after the right fact. So a subject and a property of it
are chosen by

    log p(question | examples, fact so far)  +  weights * log p(the model's own choice)

the noisy channel (Min et al., arXiv 2108.04106), with one model for all terms. `refactx.selection.chooser` compares the
candidates, `refactx.selection.query_answers` queries in place of facts, and `refactx.selection.answer_lines` continues the
text after a fact. Everything written still comes from the tree.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refactx.engines.engine import IdPath
from refactx.linking.names import bare_name
from refactx.ranking.ranker import Ranker
from refactx.selection.mentions import FoldedTokens, QueryWords
from refactx.selection.scores import QuestionScore
from refactx.selection.weights import Weights
from refactx.walks.answered import AnsweredQuery
from refactx.walks.language import FactSet


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySources:
    """What the queries of questions to one index are made of.

    `facts`: what they are answered with; `words`, `tokens`: to find what a question names; `end`: the ids that end a text.
    """

    facts: FactSet
    words: QueryWords
    tokens: FoldedTokens
    end: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedProperty:
    """A property that a choice compared, and the terms of its score in nats, each without its weight.

    `subject`, `name`: the names of both; `subject_score`: that of the subject without the question; `own`: log p of the
    property after the text; `meaning`: as in `Channel.meanings`; `likelihood`: log p of the question after it, minus infinity
    if it was dropped; `gain`: that minus the likelihood after no fact.
    """

    subject: str
    name: str
    subject_score: float
    own: float
    meaning: float
    likelihood: float
    gain: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel:
    """One question whose facts are chosen in one text, and what the text has of them.

    `examples`: the ids of facts with their questions, after which the model scores the question, and those of queries, if
    there are any. (Beside examples of queries, models choose worse facts.) `question`: the ids between a fact and the end of
    the question; `lead`: how many of them introduce the question (`Question:`) and are not scored; `text`: the question on
    one line; `earlier`: the texts of the turns before it, the latest last.

    `marker`: the text that begins the answer; a line after facts begins with it or with another fact. If empty, such lines
    are the model's. `unknown`: the answer if no fact answers the question; if empty, the model writes it. `room`: the most
    ids from the first fact to the end of the text, None if there is no limit: facts end while there is room for the answer.
    `ranker`: tells how near names are to the question in meaning; None: no name is nearer than others. `queries`: what queries
    that may take the place of facts are made of; None: there are none.

    `labels`: returns the labels of things in the language of the answer by their names, None: that is the names' language;
    `answers`: what yes and no are in it.

    `evidence`: for each chosen fact (its ids up to the end of its property), how much likelier it makes the question, a
    difference of log-probabilities, with what its meaning counts for; `compared`: the properties that each choice compared, the
    best first; `answered`: the queries that the text has; `translated`: what the answer has in another language, with the names
    of the index.
    """

    examples: Sequence[IdPath]
    question: Sequence[int]
    lead: int
    text: str = ""
    earlier: Sequence[str] = ()
    marker: str = ""
    unknown: str = ""
    room: int | None = None
    weights: Weights = field(default_factory=Weights)
    ranker: Ranker | None = None
    queries: QuerySources | None = None
    labels: Callable[[Sequence[str]], Mapping[str, str]] | None = None
    answers: Mapping[str, str] = field(default_factory=dict)
    evidence: dict[IdPath, float] = field(default_factory=dict, init=False)
    compared: list[Sequence[ComparedProperty]] = field(default_factory=list, init=False)
    answered: list[AnsweredQuery] = field(default_factory=list, init=False)
    translated: dict[str, str] = field(default_factory=dict, init=False)

    def in_language(self, values: Sequence[str]) -> list[str]:
        """Return the values of an answer, by their names in the index, as it has them: in its language, each once."""
        labels = {} if self.labels is None else self.labels(values)
        named = {value: bare_name(value) for value in values}
        texts = {value: labels.get(value) or self.answers.get(name, name) for value, name in named.items()}
        self.translated.update({text: named[value] for value, text in texts.items() if text != named[value]})
        return list(dict.fromkeys(texts.values()))

    def meanings(self, names: Sequence[str], called: Sequence[str] = ()) -> NDArray[np.float64]:
        """Return what the meaning of the question says of names, in nats, float64[names].

        `called`: what the question calls the thing whose properties these are: that says nothing of them.
        """
        if self.ranker is None:
            return np.zeros(len(names))
        text = self.text
        for one in called:
            text = re.sub(rf"\b{re.escape(one)}(?:['’]s)?(?!\w)", " ", text, flags=re.IGNORECASE) if one else text
        return self.weights.meaning * self.ranker.nearness(text, [bare_name(name) for name in names])

    @cached_property
    def score(self) -> QuestionScore:
        """The likelihoods of the question after facts."""
        return QuestionScore(question=self.question, lead=self.lead)

    @cached_property
    def score_of_queries(self) -> QuestionScore:
        """The likelihoods of the question after queries."""
        return QuestionScore(question=self.question, lead=self.lead, examples=1)

    @property
    def confidence(self) -> float | None:
        """How much likelier what the text has makes the question: its last query, or else the best fact, in nats, with what
        its meaning counts for. None if the channel has chosen none, or did not compare them with none at all."""
        if self.answered:
            return self.answered[-1].confidence
        return max(self.evidence.values(), default=None)
