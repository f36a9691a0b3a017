"""Experiments on the texts that a run has: their names are resolved again, by a memory with fewer names or with more.

`ablate_names` takes out names that gold queries need, and measures whether what needs them is refused; `add_distractors`
adds names that are nearly those of the index. No model writes anything.
"""

from refactx.eval.policies.experiments.ablation import ablate_names
from refactx.eval.policies.experiments.distractors import add_distractors
from refactx.eval.policies.experiments.texts import PgmrText, Resolving, read_texts

__all__ = ["PgmrText", "Resolving", "ablate_names", "add_distractors", "read_texts"]
