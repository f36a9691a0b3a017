"""Data made of gold queries, so that each has known rows: triples with fresh resources, and near misses beside them."""

from refactx.nl2sparql.frozen.engine import FrozenEngine
from refactx.nl2sparql.frozen.freezing import Frozen, Planned, freeze
from refactx.nl2sparql.frozen.of_pack import frozen_engine, frozen_pack, gold_queries

__all__ = ["Frozen", "FrozenEngine", "Planned", "freeze", "frozen_engine", "frozen_pack", "gold_queries"]
