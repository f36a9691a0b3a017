"""The selection of facts: by the model itself, by beam search, or by the noisy channel, which scores the question."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.selection.beams import BeamChooser, FactBeams
    from refactx.selection.channel import Channel
    from refactx.selection.chooser import ChannelChooser
    from refactx.selection.plain import PlainChooser
    from refactx.selection.weights import Weights, load_weights

__all__ = ["BeamChooser", "Channel", "ChannelChooser", "FactBeams", "PlainChooser", "Weights", "load_weights"]
__getattr__ = lazy_exports(
    __name__,
    {
        "beams": "BeamChooser FactBeams",
        "channel": "Channel",
        "plain": "PlainChooser",
        "chooser": "ChannelChooser",
        "weights": "Weights load_weights",
    },
)
