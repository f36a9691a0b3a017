"""SPARQL that a model writes, held to the grammar: any of our engines, one query for a prompt."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refactx.ask.chat import Message, conversation_ids, without_control
from refactx.ask.writer import BatchWriter, TextRequest, WritingError, WritingOptions
from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InQuery, State
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.index.index import Index
from refactx.sparql.decoding.grammar import END, TRIGGER, SparqlGrammar, SparqlState

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


MAX_NEW_TOKENS = 200
"""The most tokens of a query: few have more than 100."""


class SparqlWriter:
    """A model that writes SPARQL with the names of an index, and nothing else. Threads may share it.

        model = refactx.load_language_model("demo", index)
        writer = SparqlWriter(model, index)
        writer.generate([{"role": "user", "content": "Which nicknames has Louisiana?"}])
        # such as "SELECT ?x { <Louisiana (state of the United States)> <nickname> ?x }"

    Raises ModelError for a model that our engines cannot run, and as `SparqlGrammar.bind` does; InputError for an index
    without facts, or if llguidance is not installed; TokenizerMismatchError if the index was built for another tokenizer.
    """

    def __init__(self, model: LanguageModel, index: Index) -> None:
        model.check_tokenizer(index)
        if model.engine is None:
            raise ModelError(
                "SPARQL is written by models whose attention takes masks of four dimensions, or by GGUF files: give another "
                "model"
            )
        if not index.children(()).total:
            raise InputError("the index has no facts to query: add some with `refactx ingest --append`")
        self._model, self._tokenizer = model, model.tokenizer
        self._writer = BatchWriter(model, index, queries=SparqlGrammar(index))
        if self._writer.machine is None:
            raise ValueError("a writer with an index has a machine")
        self._machine = self._writer.machine
        self._prefixes: dict[tuple[str, ...], list[int]] = {}

    def generate(self, prompt: str | Sequence[Message], max_new_tokens: int = MAX_NEW_TOKENS) -> str:
        """Return the likeliest query after a prompt, with names in angle brackets, on one line.

        `prompt`: a text, or a conversation, whose last message is the user's; `SPARQL:` follows it. A query that would
        have more than `max_new_tokens` tokens ends after the last part at which it can be closed; it is empty if there
        is none. Raises InputError for a prompt that is too long for the model, and as `Index.children` does.
        """
        ids, prefix = self._ids(prompt)
        room = self._model.room
        if room is not None and len(ids) >= room:
            raise InputError(f"the prompt has {len(ids)} tokens, but the model takes at most {room}: ask more briefly")
        if not isinstance(self._machine.run(ids, len(ids)), InQuery):
            raise InputError("the prompt does not end where a query can begin: leave out `SPARQL:` in it")
        most = max_new_tokens if room is None else min(max_new_tokens, room - len(ids))
        options = WritingOptions(is_end=self._is_end, answer_line=lambda _, __: (), prefix=prefix)
        try:
            (text,) = self._writer.write([TextRequest(prompt=ids, max_new_tokens=most)], options)
        except WritingError as failed:
            raise failed.error from None
        written, end, _ = self._machine.text_of(text.ids).partition(END)
        if end:
            return written.decode("utf-8", "replace").strip()
        return closed(self._machine, ids, text.ids) or ""

    def _is_end(self, ids: NDArray[np.int64]) -> bool:
        return END in self._machine.bytes_of(int(ids[-1]))

    def _ids(self, prompt: str | Sequence[Message]) -> tuple[list[int], list[int]]:
        """Return the ids of a prompt with the trigger, and those with which nearly all prompts like it begin."""
        if isinstance(prompt, str):
            before, trigger, after = prompt.rpartition(TRIGGER)
            if not trigger or after.strip():
                before = prompt if prompt.endswith("\n") else f"{prompt}\n"
            return list(self._tokenizer.encode(f"{before}{TRIGGER}")), []
        *earlier, last = prompt
        said = without_control(self._tokenizer, last["content"])
        begun: Any = self._tokenizer.encode(TRIGGER, add_special_tokens=False)
        ids = conversation_ids(self._tokenizer, [*earlier, last | {"content": said}])
        return [*ids, *begun], self._prefix(earlier)

    def _prefix(self, before: Sequence[Message]) -> list[int]:
        key = tuple(message["content"] for message in before)
        if key not in self._prefixes:
            texts = [[*before, {"role": "user", "content": text}] for text in ("0", "?")]
            one, other = (conversation_ids(self._tokenizer, messages) for messages in texts)
            length = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            self._prefixes = {key: one[:length]}
        return self._prefixes[key]


def write_sparql(
    model: LanguageModel, index: Index, prompt: str | Sequence[Message], max_new_tokens: int = MAX_NEW_TOKENS
) -> str:
    """Return the query that a model writes after a prompt, as `SparqlWriter.generate` does, which many prompts share.

    Raises as `SparqlWriter` does.
    """
    return SparqlWriter(model, index).generate(prompt, max_new_tokens)
