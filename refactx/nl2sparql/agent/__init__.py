"""The machine of translation: nodes, bounds and events. `refactx.nl2sparql.Translator` runs it."""

from refactx.nl2sparql.agent.machine import Machine, Parts, Written
from refactx.nl2sparql.agent.metered import Meter
from refactx.nl2sparql.agent.questions import Questions
from refactx.nl2sparql.agent.state import EDGES, Bounds, Event, Node, mermaid

__all__ = ["EDGES", "Bounds", "Event", "Machine", "Meter", "Node", "Parts", "Questions", "Written", "mermaid"]
