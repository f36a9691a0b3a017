"""The calibration of a memory: the thresholds below which it refuses, by names that are left out of it.

`calibrate_memory` finds and stores them. `pairs_of` and `refactx.sparql.memory.thresholds.best_threshold` do the same
for cases of one's own.
"""

from refactx.sparql.memory.calibration.calibrate import MemoryCalibration, calibrate_memory
from refactx.sparql.memory.calibration.cases import Case
from refactx.sparql.memory.calibration.pairs import pairs_of

__all__ = ["Case", "MemoryCalibration", "calibrate_memory", "pairs_of"]
