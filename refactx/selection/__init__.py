"""The selection of facts: by the model itself, by beam search, or by the noisy channel, which scores the question."""

from typing import TYPE_CHECKING

from refactx.lazy import lazy_exports

if TYPE_CHECKING:
    from refactx.selection.beams import BeamChooser, FactBeams
    from refactx.selection.channel import Channel, ChannelChooser, ChannelOptions
    from refactx.selection.plain import PlainChooser

__all__ = ["BeamChooser", "Channel", "ChannelChooser", "ChannelOptions", "FactBeams", "PlainChooser"]
__getattr__ = lazy_exports(
    __name__,
    {"beams": "BeamChooser FactBeams", "channel": "Channel ChannelChooser ChannelOptions", "plain": "PlainChooser"},
)
