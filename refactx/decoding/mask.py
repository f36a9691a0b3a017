"""Which tokens may follow a state.

>>> from refactx.decoding.machine import Free
>>> allowed(None, Free()) is None, forced(None, Free()) is None  # outside facts, any
(True, True)
"""

import numpy as np

from refactx.decoding.machine import Closing, Dead, Free, InFact, InTerminator, Machine, State
from refactx.tree.children import NO_TOKENS, Tokens


def allowed(machine: Machine, state: State) -> Tokens | None:
    """The ids that may come next, int32[n], ascending; None where any may (outside facts).

    Empty only where the sequence is off the tree. In a fact, special tokens, end of sequence and ids beyond the tokenizer's
    vocabulary are never among them.
    """
    match state:
        case Free():
            return None
        case InFact():
            children = state.children
            if children.terminal == 0:
                return children.tokens
            return np.union1d(children.tokens, machine.terminator.tokens[0])
        case InTerminator():
            return machine.terminator.tokens[state.done]
        case Closing():
            return np.array(state.ids[state.done : state.done + 1], np.int32)
        case Dead():
            return NO_TOKENS


def allowed_behind(machine: Machine, state: State, last: int) -> Tokens | None:
    """As `allowed`, for the mask of a row of scores that ends in the id `last`: what is off the tree gets that id again.

    What such a row gets is not read: the host pads it (a stopping criterion ended it inside a fact), or it is a beam whose
    score is minus infinity already, whatever is added. But a row of nothing but minus infinities becomes NaN in the
    warpers behind our mask and in sampling, and they raise for all rows. Of all ids its own last one does the least
    harm where a host reads it nevertheless (a processor behind ours had ruled out all that is allowed): it stands there
    already, and the same id again and again writes no other fact.
    """
    return np.array([last], np.int32) if isinstance(state, Dead) else allowed(machine, state)


def forced(machine: Machine, state: State) -> int | None:
    """The id that has to come next, where exactly one may; else None.

    More than four of five ids of a fact are forced: they need no forward pass of the model (`refactx.engines.loop`).
    """
    match state:
        case InFact():
            children = state.children
            return int(children.tokens[0]) if len(children.tokens) == 1 and children.terminal == 0 else None
        case InTerminator():
            tokens = machine.terminator.tokens[state.done]
            return int(tokens[0]) if len(tokens) == 1 else None
        case Closing():
            return state.ids[state.done]
        case _:
            return None
