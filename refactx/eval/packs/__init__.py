"""Evaluation of translation by domain packs: queries with known rows, on data that is frozen from gold queries."""

from refactx.eval.packs.evaluation import Mode, PackEvaluationOptions, evaluate_pack
from refactx.eval.packs.scoring import components_found, rows_f1

__all__ = ["Mode", "PackEvaluationOptions", "components_found", "evaluate_pack", "rows_f1"]
