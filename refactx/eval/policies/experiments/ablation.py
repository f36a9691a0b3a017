"""Names taken out of the memory: whether the queries that need them are refused, and what that costs the others.

Of the names of entities and properties that the gold queries need, a share at random is taken out; a larger share has all
that a smaller one has. Questions that need none of them are answerable, if the index has the others. Texts that cannot be
read are no refusals, and do not count among those that need a name which was taken out.
"""

import random
from collections.abc import Sequence
from typing import Any

from refactx.eval.intervals import proportion
from refactx.eval.policies.experiments.texts import PgmrText, Resolving
from refactx.sparql.memory import Memory, MemoryWithout

SEED = 0
TAUS = (0.0, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""The least similarities that are tried beside those of the run."""


def ablate_names(
    texts: Sequence[PgmrText], memory: Memory, resolving: Resolving, shares: Sequence[float], seed: int = SEED
) -> list[dict[str, Any]]:
    """Return a row for each share and least similarity (`tau`; None: that of the run).

    `refusal_accuracy`: of the questions that need a name which was taken out, the share refused; the others are scores of
    the answerable questions: `sqm_strict`, `sqm_paper`, `f1` and `refused`.
    """
    rows = []
    for share in shares:
        without = removed_names(texts, share, seed)
        whole = [text for text in texts if not text.needed & without and not text.gold["unknown"]]
        lacking = [text for text in texts if text.needed & without and text.query is not None]
        for tau in (None, *TAUS):
            resolver = resolving.resolver(MemoryWithout(memory, without), tau=tau)
            refused = [text.resolved(resolver) is None for text in lacking]
            rows.append(
                {
                    "share": share,
                    "tau": tau,
                    "removed": len(without),
                    "unanswerable": len(lacking),
                    "answerable": len(whole),
                    "refusal_accuracy": proportion(sum(refused), len(refused)).to_json(),
                    **resolving.scores(whole, [text.resolved(resolver) for text in whole]),
                }
            )
    return rows


def removed_names(texts: Sequence[PgmrText], share: float, seed: int = SEED) -> frozenset[str]:
    """Return the ids that are taken out: a share of those that gold queries need, the same for the same seed."""
    needed = sorted(frozenset().union(*(text.needed for text in texts)))
    random.Random(seed).shuffle(needed)  # noqa: S311 - not for secrets
    return frozenset(needed[: round(share * len(needed))])
