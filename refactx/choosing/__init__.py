"""Ways to choose facts: by the model itself, by beam search, or by the noisy channel, which scores the question."""

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.beams import BeamChooser
from refactx.choosing.channel import Channel, ChannelOptions
from refactx.choosing.channel_chooser import ChannelChooser
from refactx.choosing.plain import PlainChooser

__all__ = ["BeamChooser", "Channel", "ChannelChooser", "ChannelOptions", "FactBeams", "PlainChooser"]
