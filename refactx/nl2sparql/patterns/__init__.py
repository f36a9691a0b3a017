"""The patterns of questions: what kinds of things they ask for, by words and phrases that a pack has."""

from refactx.nl2sparql.patterns.detection import Detected, PatternDetector, detect
from refactx.nl2sparql.patterns.quotes import quoted_terms, without_quoted

__all__ = ["Detected", "PatternDetector", "detect", "quoted_terms", "without_quoted"]
