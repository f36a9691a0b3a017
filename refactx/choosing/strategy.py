"""The strategy that chooses facts, given the options of a call."""

from refactx.choosing.beam_search import FactBeams
from refactx.choosing.beams import BeamChooser
from refactx.choosing.channel import Channel
from refactx.choosing.channel_chooser import ChannelChooser
from refactx.choosing.plain import PlainChooser
from refactx.decoding.machine import Machine
from refactx.engines.chooser import FactChooser


def choose_strategy(machine: Machine, beams: FactBeams | None, channel: Channel | None) -> FactChooser:
    """Return beam search with the options `beams`, the noisy `channel`, or, if neither is given, the model's own choice."""
    if beams is not None:
        return BeamChooser(machine, beams)
    return PlainChooser(machine) if channel is None else ChannelChooser(machine, channel)
