"""Which tokens may follow a state."""

import numpy as np

from refactx.state import Dead, Free, InFact, InTerminator, Machine, State
from refactx.tree import NO_TOKENS, Tokens


def allowed(machine: Machine, state: State) -> Tokens | None:
    """The ids that may come next, int32[n], ascending; None where any may (outside facts).

    Empty only where the sequence is off the tree. Special tokens, end of sequence and ids beyond the tokenizer's
    vocabulary are never among them.
    """
    match state:
        case Free():
            return None
        case InFact():
            children = machine.children(state)
            if children.terminal == 0:
                return children.tokens
            return np.union1d(children.tokens, machine.terminator.tokens[0])
        case InTerminator():
            return machine.terminator.tokens[state.done]
        case Dead():
            return NO_TOKENS
