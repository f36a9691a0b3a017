"""The queries of answers: whether they run, and whether the index has their names."""

from refactx.eval.queries.check import Checked, check_line
from refactx.eval.queries.stored import load_checks

__all__ = ["Checked", "check_line", "load_checks"]
