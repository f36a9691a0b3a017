"""Constraints of decoding: which token ids may follow a text so that every fact in it is a fact of the index.

| names | what they are |
|---|---|
| `Constraint`, `Machine` | the protocol of what constrains a text; the constraint of texts with facts |
| `LineConstraint` | the protocol of a constraint of the line after a trigger, such as that of queries |
| `State` | a union of `Free`, `InFact`, `InTerminator`, `Closing` and `Dead` |
| `Written`, `FactLimit` | a fact that a sequence has completed; a limit on their number |
| `FactSource` | the protocol of an index |
| `FactStream`, `TextPiece` | a streamer for `generate`, and the pieces of text that it passes on |
| `Partial` | the output so far of a generation that an error ended |
"""

from refactx.decoding.machine import Machine
from refactx.decoding.states import (
    Closing,
    Constraint,
    Dead,
    FactLimit,
    FactSource,
    Free,
    InFact,
    InTerminator,
    LineConstraint,
    State,
    Written,
)
from refactx.decoding.stream import FactStream, Partial, TextPiece

__all__ = ["Closing", "Constraint", "Dead", "FactLimit", "FactSource", "FactStream", "Free", "InFact", "InTerminator"]
__all__ += ["LineConstraint", "Machine", "Partial", "State", "TextPiece", "Written"]
