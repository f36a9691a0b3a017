"""Facts as citations of OpenAI's API: where they stand in a text, and the page that has them."""

from collections.abc import Sequence
from typing import Any

from refactx.server.text.events import CitedFact, Finished

Citation = dict[str, Any]


def citation(fact: CitedFact, span: tuple[int, int] | None = None) -> Citation | None:
    """Return a fact as a flat `url_citation`, as the API of responses has it; None for a fact without a page.

    `span`: where it stands, by default in the whole text.
    """
    if fact.url is None:
        return None
    start, stop = span or (fact.start, fact.stop)
    return {"type": "url_citation", "start_index": start, "end_index": stop, "url": fact.url, "title": fact.title}


def nested(flat: Citation) -> Citation:
    """Return a citation as the API of chat completions has it.

    >>> nested({"type": "url_citation", "url": "https://example.org"})
    {'type': 'url_citation', 'url_citation': {'url': 'https://example.org'}}
    """
    return {"type": flat["type"], flat["type"]: {name: value for name, value in flat.items() if name != "type"}}


def citations(facts: Sequence[CitedFact], content: str | None = None) -> list[Citation]:
    """Return the facts of a text that have pages as flat citations.

    `content`: if it is an answer alone, which the facts prove: then each stands for all of it.
    """
    span = None if content is None else (0, len(content))
    return [found for fact in facts if (found := citation(fact, span)) is not None]


def citations_of(finished: Finished, *, answer_alone: bool) -> list[Citation]:
    """Return the citations of a text that has ended, for the content that clients get: none if that is empty."""
    if answer_alone and not finished.answer:
        return []
    return citations(finished.facts, finished.answer if answer_alone else None)
