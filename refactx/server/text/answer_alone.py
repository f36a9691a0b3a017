"""The answer of a text apart from what stands before it: reasoning while it is written, and the answer at the end."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from refactx.asking.answer import MARKUP, marker_start
from refactx.server.text.events import Delta, Event, Finished


async def answer_alone(events: AsyncGenerator[Event, None], marker: str) -> AsyncGenerator[Event, None]:
    """Yield the text before the last `marker` that begins a line as reasoning, and after it the final answer as content.

    A marker inside a fact does not count.
    """
    line, held = "", ""  # of the current line: what was yielded; what is held from there on
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                if marker_start(line + held, marker) is None and held.strip():
                    yield Delta(text=held.rstrip(), is_reasoning=True)
                if event.answer:
                    yield Delta(text=event.answer)
                yield event
                return
            if event.in_fact:
                if held:
                    yield Delta(text=held, is_reasoning=True)
                line, held = "<", ""  # no marker follows in this line
                yield Delta(text=event.text, in_fact=True, fact=event.fact, is_reasoning=True)
                continue
            whole = line + held + event.text
            at = _where(whole, marker)
            if at > len(line):
                yield Delta(text=whole[len(line) : at], is_reasoning=True)
            line, held = whole[whole.rfind("\n", 0, at) + 1 : at], whole[at:]


def _where(text: str, marker: str) -> int:
    """Return where the last marker that begins a line begins, or what may become one at the end of the text.

    >>> _where("so\\nAnswer: x", "Answer:"), _where("so\\n**Ans", "Answer:"), _where("so Ans", "Answer:")
    (3, 5, 6)
    """
    at = marker_start(text, marker)
    if at is not None:
        return at
    line = text[text.rfind("\n") + 1 :].lstrip(MARKUP)
    return len(text) - (len(line) if marker.startswith(line) else 0)
