"""The protocols of policies, by which a question becomes SPARQL, and of models that write text; and what was written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args, runtime_checkable

from refactx.fact import LinkedFact
from refactx.sparql.memory.choices import Choice
from refactx.sparql.memory.entry import Entry
from refactx.writing.conversation import Message

PolicyName = Literal["strict", "harvest", "open", "direct", "rag"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
MAX_NEW_TOKENS = 300
"""The most tokens of a text: three times those of the longest gold query of most sets of questions."""


class TextModel(Protocol):
    """A language model that replies to a conversation, whatever runs it."""

    def generate(self, messages: Sequence[Message], max_new_tokens: int) -> str:
        """Return the reply, greedily, of at most `max_new_tokens` tokens. The first message is the system's.

        Raises ModelError if the model cannot be used, InputError if the conversation is too long for it.
        """
        ...


@runtime_checkable
class CancellableModel(TextModel, Protocol):
    """A model whose texts can be ended while they are written."""

    def cancelled_by(self, cancelled: Callable[[], bool]) -> TextModel:
        """Return the same model for texts that end, with a ModelError, once `cancelled` returns True as well.

        It is asked before each pass of the model, in any thread.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a policy made of a question.

    `text`: what the model wrote, or the walk that it chose; `sparql`: the query with ids, None if it was refused, and
    then `reason` says why; `choices`: what names of the text were resolved to, by placeholder; `made_up`: ids of the
    query that the index does not have; `given`: the entities and properties that the model was given; `facts`: those that
    it wrote before; `told`: how much likelier than no query the query makes the question, in nats, None if nobody asked.
    """

    policy: PolicyName
    question: str
    text: str
    sparql: str | None = None
    reason: str = ""
    choices: Mapping[str, Choice] = field(default_factory=dict)
    made_up: tuple[str, ...] = ()
    given: tuple[Entry, ...] = ()
    facts: tuple[LinkedFact, ...] = ()
    told: float | None = None


class Policy(Protocol):
    """A way from a question to SPARQL."""

    def write(self, question: str) -> Written:
        """Return the query of a question, or why there is none.

        Raises InputError for a question without visible text, and as the policy's model and index do.
        """
        ...
