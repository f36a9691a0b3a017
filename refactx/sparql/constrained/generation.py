"""SPARQL that a model writes, constrained by the grammar: any of our engines, one query for a prompt."""

from collections.abc import Iterator, Sequence

from refactx.ask.chat_text import ChatModel
from refactx.ask.conversation import Message
from refactx.ask.writer import BatchWriter
from refactx.decoding.machine import Machine
from refactx.decoding.states import Free, InQuery, State
from refactx.engines.engine import LanguageModel
from refactx.errors import InputError, ModelError
from refactx.index.index import Index
from refactx.sparql.constrained.grammar import TRIGGER, SparqlGrammar, SparqlState

_MOST_STEPS = 40
"""More than any query needs: the grammar has few brackets within each other."""
MAX_NEW_TOKENS = 200
"""The most tokens of a query: few have more than 100."""


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


class SparqlWriter(ChatModel):
    """A model that writes SPARQL with the names of an index, and nothing else. Threads may share it.

        model = refactx.load_language_model("demo", index)
        writer = SparqlWriter(model, index)
        writer.generate([{"role": "user", "content": "Which nicknames has Louisiana?"}])
        # such as "SELECT ?x { <Louisiana (state of the United States)> <nickname> ?x }"

    Raises ModelError for a model that our engines cannot run, and as `SparqlGrammar` does; InputError for an index
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
        writer = BatchWriter(model, index, queries=SparqlGrammar(index))
        super().__init__(model, writer, begins=TRIGGER, is_alike=True)
        if writer.machine is None:
            raise ValueError("a writer with an index has a machine")
        self._machine = writer.machine

    def generate(self, messages: str | Sequence[Message], max_new_tokens: int = MAX_NEW_TOKENS) -> str:
        """Return the likeliest query after a prompt, with names in angle brackets, on one line.

        `messages`: a text, or a conversation, whose last message is the user's; `SPARQL:` follows it. A query that would
        have more than `max_new_tokens` tokens ends after the last part at which it can be closed; it is empty if there
        is none. Raises InputError for a prompt that is too long for the model, and as `Index.children` does.
        """
        if not isinstance(messages, str):
            return super().generate(messages, max_new_tokens)
        before, trigger, after = messages.rpartition(TRIGGER)
        if not trigger or after.strip():
            before = messages if messages.endswith("\n") else f"{messages}\n"
        return self._reply(list(self._model.tokenizer.encode(f"{before}{TRIGGER}")), max_new_tokens)

    def _reply(self, ids: Sequence[int], max_new_tokens: int, prefix: Sequence[int] = ()) -> str:
        if not isinstance(self._machine.run(ids, len(ids)), InQuery):
            raise InputError("the prompt does not end where a query can begin: leave out `SPARQL:` in it")
        return super()._reply(ids, max_new_tokens, prefix)

    def _cut_line(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        return closed(self._machine, prompt, ids) or ""


def write_sparql(
    model: LanguageModel, index: Index, prompt: str | Sequence[Message], max_new_tokens: int = MAX_NEW_TOKENS
) -> str:
    """Return the query that a model writes after a prompt, as `SparqlWriter.generate` does, which many prompts share.

    Raises as `SparqlWriter` does.
    """
    return SparqlWriter(model, index).generate(prompt, max_new_tokens)
