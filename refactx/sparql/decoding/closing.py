"""The end of a query that was cut: its longest beginning that can be closed, with the brackets that close it."""

from collections.abc import Iterator, Sequence

from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InQuery, State
from refactx.sparql.decoding.states import SparqlState

_MOST_STEPS = 40
"""More than any query needs: the grammar has few brackets within each other."""


def closed(machine: Machine, prompt: Sequence[int], ids: Sequence[int]) -> str | None:
    """Return the longest beginning of a query that becomes a query by closing it, closed; None if there is none.

    `prompt`: its ids, which end in the trigger; `ids`: those after it. The result has at least the query's first triple.
    Raises as `Index.children` does.
    """
    states: list[State] = [machine.run(prompt, len(prompt))]
    for position, token in enumerate(ids, len(prompt)):
        states.append(machine.advance(states[-1], token, position))
    for stop in range(len(ids), 0, -1):
        end = _closing(machine, states[stop], len(prompt) + stop)
        if end is not None:
            return (machine.text_of(ids[:stop]).decode("utf-8", "replace") + end).strip()
    return None


def _closing(machine: Machine, state: State, position: int) -> str | None:
    """Return the text that closes a query, with its line end; None if there is none."""
    written = ""
    for _ in range(_MOST_STEPS):
        for text in _steps(state):
            after = machine.follow(state, machine.source.tokenizer.encode(text), position)
            if isinstance(after, InQuery | Free):
                state, written = after, written + text
                break
        else:
            return None
        if isinstance(state, Free):
            return written
    return None


def _steps(state: State) -> Iterator[str]:
    """Yield texts that may bring a query nearer to its end."""
    yield "\n"
    line = state.line if isinstance(state, InQuery) else None
    for way in line.ways if isinstance(line, SparqlState) else ():
        frame = (way.whole or way.point).scope.frames[-1]
        if frame.named and frame.ungrouped:
            yield "".join([" GROUP BY", *(f" ?{name}" for name in frame.ungrouped)])
            yield "".join(f" ?{name}" for name in frame.ungrouped)
    yield " }"
    yield ")"
