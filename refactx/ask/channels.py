"""The channels of questions and sentences to one index: what each is scored with, and what its names are looked up in."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from refactx.ask.prompt import Prompt
from refactx.decoding.machine import Machine
from refactx.decoding.states import FactSource
from refactx.fact import clean_part
from refactx.ranking.ranker import Ranker, open_ranker
from refactx.selection.channel import Channel, QuerySources
from refactx.selection.mentions import FoldedTokens, QueryWords, with_names
from refactx.tokenizer import FactTokenizer
from refactx.walks.language import FactSet

if TYPE_CHECKING:
    from refactx.index.index import Index

SCORED = 64
"""The most ids of a question (its last ones) that a channel scores: it reads them after each candidate."""


def scored_question(tokenizer: FactTokenizer, prompt: Prompt, question: str) -> tuple[list[int], int]:
    """Return the ids between a candidate and the end of a question, as a channel reads them, and how many are not scored."""
    lead = tokenizer.encode(prompt.asks)
    return [*lead, *tokenizer.encode(f" {clean_part(question)}")[-SCORED:]], len(lead)


class Channels:
    """The channels of questions to one index. `ends`: the ids that end a text.

    Only an index in PostgreSQL answers queries, and only with a prompt that has examples and words for them.
    """

    def __init__(self, index: FactSource, prompt: Prompt, ends: Collection[int]) -> None:
        self._index, self._prompt = index, prompt
        texts, self._queries = [prompt.channel.strip()], cast("QuerySources | None", None)
        if prompt.words is not None and prompt.has_queries and (facts := facts_of(index)) is not None:
            self._queries = QuerySources(
                facts=facts,
                words=prompt.words,
                tokens=FoldedTokens(index.tokenizer.token_bytes),
                end=sorted(ends)[:1],
            )
            texts.append(f"{texts[0]}\n{prompt.queries.strip()}")
        self._examples = [tuple(index.tokenizer.encode(f"{text}\n")) for text in texts]

    @cached_property
    def ranker(self) -> Ranker:
        """The ranker of the index, for which the inverse of a predicate has that one's aliases."""
        aliases: dict[str, Sequence[str]] = dict(getattr(self._index, "property_aliases", {}))
        if (facts := facts_of(self._index)) is not None:
            ids = facts.ids(list(aliases))
            inverse = facts.names(list(ids.values()), inverse=True)
            aliases = {inverse[ids[name]]: some for name, some in aliases.items() if ids.get(name) in inverse} | aliases
        return open_ranker(self._prompt.ranker, aliases)

    def of(
        self,
        question: str,
        min_confidence: float | None = None,
        room: int | None = None,
        earlier: Sequence[str] = (),
        *,
        language: str | None = None,
        answer_language: str | None = "index",
    ) -> Channel | None:
        """Return the channel of a question; None if the prompt has no examples for one.

        `min_confidence`: as in `Weights`, None for the prompt's; `room`, `earlier`: as in `Channel`; `language`,
        `answer_language`: as in `Generation`.
        """
        if not self._prompt.channel.strip():
            return None
        prompt, question = self._prompt, clean_part(question)
        ids, lead = scored_question(self._index.tokenizer, prompt, question)
        least = prompt.min_confidence if min_confidence is None else min_confidence
        channel = Channel(
            examples=self._examples,
            question=ids,
            lead=lead,
            text=question,
            earlier=[clean_part(text) for text in earlier],
            marker=prompt.marker,
            unknown=prompt.unknown,
            room=room,
            weights=replace(prompt.weights, min_confidence=least),
            ranker=self.ranker,
        )
        if self._queries is None:
            return channel
        words = self._queries.words.of_question(question, language)
        channel = replace(channel, queries=replace(self._queries, words=words))
        code = words.language if answer_language in (None, "question") else answer_language
        return self._answering(channel, code, self._queries.words)

    def with_names(self, question: str) -> str:
        """Return a question with the names of things in place of their ids (`refactx.selection.mentions.with_names`)."""
        known = self._queries
        return question if known is None else with_names(self._machine, known.tokens, question, known.facts)

    @cached_property
    def _machine(self) -> Machine:
        return Machine(self._index)  # which takes a tenth of a second

    def of_sentence(self, sentence: str, earlier: Sequence[str]) -> Channel | None:
        """Return the channel of a sentence of a text, given those before it."""
        return self.of(sentence, earlier=earlier)

    def _answering(self, channel: Channel, language: str, words: QueryWords) -> Channel:
        """Return a channel whose answer is in a language, if the index has names in it that are not the usual ones."""
        index = labelled(self._index)
        further = [code for code in index.languages if code != "mul"][1:] if index is not None else []
        code = next((one for one in further if language in (one, one.partition("-")[0])), None)
        if code is None or index is None:
            return channel
        said, unknown = words.of_question("", code.partition("-")[0]), self._prompt.unknown
        answers = {"yes": said.yes, "no": said.no} if said.language == code.partition("-")[0] else {}
        channel = replace(channel, labels=partial(index.labels_of, language=code), answers=answers)
        if answers and unknown == words.unknown:  # else the prompt has its own
            channel = replace(channel, unknown=said.unknown)
            channel.translated[said.unknown] = unknown
        return channel


def labelled(index: FactSource | None) -> "Index | None":
    """Return an index that knows labels by language; None for other sources of facts."""
    from refactx.index.index import Index  # as in `facts_of`

    return index if isinstance(index, Index) else None


def facts_of(index: FactSource) -> FactSet | None:
    """Return the facts of an index as queries need them; None for other sources of facts."""
    from refactx.index.index import Index  # imports psycopg, which a program with another source may not need
    from refactx.walks.facts import TreeFacts

    return TreeFacts(index) if isinstance(index, Index) else None
