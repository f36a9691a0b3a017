"""The channels of questions: what chooses the facts and queries of each, with the examples of a prompt."""

from collections.abc import Collection

from refactx.asking.prompt import Prompt
from refactx.choosing.anchors import FoldedTokens
from refactx.choosing.channel import Channel, ChannelOptions
from refactx.choosing.queries.answering import QueryAnswers
from refactx.decoding.states import FactSource
from refactx.fact import clean_part
from refactx.query.fact_set import FactSet

SCORED = 64
"""The most ids of a question (its last ones) that a channel scores: it reads them after each candidate."""


class Channels:
    """The channels of questions to one index. `ends`: the ids that end a text.

    Only an index in PostgreSQL answers queries, and only with a prompt that has examples and words for them.
    """

    def __init__(self, index: FactSource, prompt: Prompt, ends: Collection[int]) -> None:
        self._index, self._prompt, self._end = index, prompt, sorted(ends)[:1]
        self._facts: FactSet | None = None
        self._tokens: FoldedTokens | None = None
        texts = [prompt.channel.strip()]
        if prompt.words is not None and prompt.queries.strip() and (facts := _facts_of(index)) is not None:
            self._facts, self._tokens = facts, FoldedTokens(index.tokenizer.token_bytes)
            texts.append(f"{texts[0]}\n{prompt.queries.strip()}")
        self._examples = [index.tokenizer.encode(f"{text}\n") for text in texts]

    def of(self, question: str, tells: float | None = None) -> Channel | None:
        """Return the channel of a question; None if the prompt has no examples for one.

        `tells`: as in `ChannelOptions`, None for the prompt's.
        """
        if not self._prompt.channel.strip():
            return None
        encode, prompt, question = self._index.tokenizer.encode, self._prompt, clean_part(question)
        lead, options = encode(prompt.asks), ChannelOptions(tells=prompt.tells if tells is None else tells)
        channel = Channel(
            examples=self._examples[0],
            of_queries=self._examples[1] if len(self._examples) > 1 else (),
            question=[*lead, *encode(f" {question}")[-SCORED:]],
            lead=len(lead),
            marker=prompt.marker,
            unknown=prompt.unknown,
            options=options,
        )
        if self._facts is not None and self._tokens is not None and prompt.words is not None:
            channel.queries = QueryAnswers(
                facts=self._facts,
                words=prompt.words,
                tokens=self._tokens,
                question=question,
                score=channel.score_of_queries,
                marker=prompt.marker,
                end=self._end,
                values=options.values,
                tells=options.tells,
            )
        return channel


def _facts_of(index: FactSource) -> FactSet | None:
    """Return the facts of an index as queries need them; None for other sources of facts."""
    from refactx.index.index import Index  # imports psycopg, which a program with another source may not need
    from refactx.query.tree_facts import TreeFacts

    return TreeFacts(index) if isinstance(index, Index) else None
