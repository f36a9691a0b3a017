"""The check of a query by a domain pack: its syntax (L1), its rules and names (L2), and its result (L3)."""

from refactx.nl2sparql.validation.report import Level, Problem, Report
from refactx.nl2sparql.validation.validating import validate

__all__ = ["Level", "Problem", "Report", "validate"]
