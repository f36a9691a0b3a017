"""How well the confidence in an answer tells right answers from wrong ones, and which threshold of it is best."""

from refactx.eval.confidence.curve import Point, best_point, curve_of
from refactx.eval.confidence.figures import confidence_of, separation_of
from refactx.eval.confidence.separation import separation

__all__ = ["Point", "best_point", "confidence_of", "curve_of", "separation", "separation_of"]
