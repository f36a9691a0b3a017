"""SPARQL of a pack as a second grammar of a state machine (`refactx.decoding.second_grammar`): one line after `SPARQL:`."""

from dataclasses import dataclass, field

from refactx.decoding.lookups import Lookups
from refactx.decoding.states import FactSource
from refactx.extras import require
from refactx.nl2sparql.held.lark import grammar_of
from refactx.nl2sparql.pack import Pack
from refactx.sparql.decoding.matching import Matcher, new_matcher
from refactx.tree.children import NO_TOKENS, Tokens

TRIGGER = "SPARQL:"
END = b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldState:
    """In a line: the `matcher` after its ids; None after its end, and then `rest` is the text of the last token after it."""

    matcher: Matcher | None = field(default=None, compare=False, repr=False)
    ids: tuple[int, ...] = ()
    rest: bytes | None = None

    @property
    def following(self) -> Tokens:
        """The ids that may come next, int32[n], ascending."""
        return NO_TOKENS if self.matcher is None else self.matcher.allowed.tokens


class PackGrammar:
    """The grammar of a pack (`refactx.decoding.second_grammar.SecondGrammar`).

    Raises InputError if llguidance is not installed.
    """

    def __init__(self, pack: Pack) -> None:
        require("llguidance", "sparql")
        self._text = grammar_of(pack)

    def bind(self, source: FactSource) -> "BoundPackGrammar":
        """Return the grammar for the tokens of a tokenizer. Raises ModelError if llguidance refuses it."""
        return BoundPackGrammar(self._text, source)


class BoundPackGrammar:
    """The grammar of a pack for one tokenizer. Threads may share it."""

    trigger = TRIGGER

    def __init__(self, text: str, source: FactSource) -> None:
        self._token_bytes = list(source.tokenizer.token_bytes)
        self._start = new_matcher(self._token_bytes, text)

    def beginning(self, *, after_space: bool = False) -> Lookups[HeldState]:
        """Return the state directly after the trigger."""
        return HeldState(matcher=self._start)
        yield  # a generator, as the protocol has it

    def advancing(self, state: HeldState, token: int) -> Lookups[HeldState | None]:
        """Return the state after one more token; None if it was not allowed."""
        after = None if state.matcher is None else state.matcher.after(token)
        if after is None:
            return None
        text = self._token_bytes[token]
        if END in text:
            return HeldState(rest=text.partition(END)[2])
        return HeldState(matcher=after, ids=(*state.ids, token))
        yield  # a generator, as the protocol has it
