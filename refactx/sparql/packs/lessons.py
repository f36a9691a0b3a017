"""Lessons in writing queries: for a question with a gold query, the text that a writer of `refactx.sparql.packs.writers`
wants of its model, after the conversation that it will be shown, which has no examples."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from refactx.ask.conversation import conversation_ids, without_control
from refactx.ask.teach.lessons import Lesson, Lessons, TrainingOptions, made_lessons, parts_of
from refactx.errors import InputError
from refactx.iris import PREFIXES
from refactx.progress import progress_bar
from refactx.sparql.packs.prompt import Form, SparqlPrompt, without_prefixes
from refactx.sparql.packs.shots import NamesOf, training_examples
from refactx.sparql.packs.writers import NEAREST, Retrieve
from refactx.walks.language import QueryError

QueryText = Literal["placeholders", "ids", "retrieved"]
"""What is learned: the text of the policy `placeholders`, of `ids`, or of `rag`, which is given names."""
FORMS: dict[QueryText, Form] = {"placeholders": "placeholders", "ids": "ids", "retrieved": "rag"}
SIGNS = "{}<>[]\\^~|"
"""Signs of SPARQL, of which vocabularies such as T5's lack some."""


class GoldQuery(NamedTuple):
    """A question with its gold query, from `line` of a file; `part`: `train`, another one, or empty."""

    line: int
    question: str
    sparql: str
    part: str = ""


class QueryTeacher:
    """Makes lessons in writing queries as one text.

    `names_of`: the names of an index by ids; `retrieve`: returns the nearest names of a question, for `retrieved`;
    `tokenizer`: of Transformers, which gets the signs of SPARQL that it lacks if all weights are trained; `end`: the id after
    a text.
    """

    def __init__(
        self,
        text: QueryText,
        prompt: SparqlPrompt,
        names_of: NamesOf,
        tokenizer: Any,
        *,
        end: int,
        options: TrainingOptions,
        retrieve: Retrieve | None = None,
    ) -> None:
        self._form, self._prompt, self._names_of = FORMS[text], replace(prompt, examples=()), names_of
        self._tokenizer, self._end, self._options, self._retrieve = tokenizer, end, options, retrieve
        lacks = [sign for sign in SIGNS if tokenizer.unk_token_id in tokenizer.encode(sign, add_special_tokens=False)]
        if lacks and options.rank:
            raise InputError(
                f"the model's tokenizer has no {' '.join(lacks)}, which queries need: train all weights, --rank 0"
            )
        tokenizer.add_tokens(lacks)

    def lessons(self, questions: Sequence[GoldQuery]) -> Lessons:
        """Return the lessons of questions; those whose query cannot be read, or has an id without a name, are left out,
        whatever the text, so that the same questions are learned.

        Raises InputError if none is left.
        """
        left_out = defaultdict[str, list[int]](list)
        chosen = parts_of(questions, [one.part for one in questions], self._options)
        train, aside = (self._made(some, left_out) for some in chosen)
        return made_lessons(train, aside, left_out)

    def _made(self, questions: Sequence[GoldQuery], left_out: dict[str, list[int]]) -> list[Lesson]:
        found = list[Lesson]()
        for one in progress_bar("texts", len(questions), iterable=questions, unit=" questions"):
            lesson = self._lesson(one)
            if isinstance(lesson, str):
                left_out[lesson].append(one.line)
            else:
                found.append(lesson)
        return found

    def _lesson(self, one: GoldQuery) -> Lesson | str:
        """Return the lesson of a question, or why it has none."""
        examples = training_examples([(one.question, one.sparql)], self._names_of)
        if not examples:
            return "its query cannot be read, or has an id that the index has no name for"
        example = replace(examples[0], sparql=without_prefixes(examples[0].sparql, PREFIXES))
        try:
            example.text("placeholders")
        except QueryError:
            return "its names cannot be written in place of ids"
        given = () if self._retrieve is None else tuple(self._retrieve(one.question, NEAREST))
        said = [
            message | {"content": without_control(self._tokenizer, message["content"])}
            for message in self._prompt.messages(self._form, one.question, given)
        ]
        asked = conversation_ids(self._tokenizer, said)
        written = [*self._tokenizer.encode(example.text(self._form), add_special_tokens=False), self._end]
        if len(asked) + len(written) > self._options.max_length:
            return f"its text has more than {self._options.max_length} tokens"
        places = np.arange(len(asked), len(asked) + len(written), dtype=np.int32)
        return Lesson(np.array([*asked, *written], np.int32), places, [None] * len(written))
