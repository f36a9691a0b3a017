"""The answer of a text apart from what stands before it: reasoning while it is written, and the answer at the end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from refactx.server.text.events import Delta, Event, Finished


async def answer_alone(events: AsyncGenerator[Event, None], marker: str) -> AsyncGenerator[Event, None]:
    """Yield the text before the last `marker` as reasoning, and after it the final answer as content.

    A marker inside a fact does not count.
    """
    held = ""
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                if not held.startswith(marker) and held.strip():
                    yield Delta(text=held.rstrip(), is_reasoning=True)
                if event.answer:
                    yield Delta(text=event.answer)
                yield event
                return
            if event.in_fact:
                if held:
                    yield Delta(text=held, is_reasoning=True)
                held = ""
                yield Delta(text=event.text, in_fact=True, fact=event.fact, is_reasoning=True)
                continue
            held += event.text
            at = _where(held, marker)
            if at:
                yield Delta(text=held[:at], is_reasoning=True)
            held = held[at:]


def _where(text: str, marker: str) -> int:
    """Return where the last marker in a text begins, or what may become one at its end.

    >>> _where("so Answer: x", "Answer:"), _where("so Ans", "Answer:"), _where("so", "Answer:")
    (3, 3, 2)
    """
    at = text.rfind(marker)
    if at >= 0:
        return at
    sizes = range(min(len(marker) - 1, len(text)), 0, -1)
    return next((len(text) - size for size in sizes if text.endswith(marker[:size])), len(text))
