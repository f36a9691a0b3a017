"""Estimates with 95% intervals: Wilson's for proportions, bootstrap intervals for means and ratios.

Wilson's interval for k of n (E. B. Wilson, 1927), z = 1.96, p = k/n:
(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). Unlike the usual p ± z·sqrt(p(1-p)/n), it holds for small n and
for p near 0 or 1. The bootstrap samples questions with replacement and takes the 2.5th and 97.5th percentile of the
results; its seed is fixed, so that a report is reproducible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Z = NormalDist().inv_cdf(0.975)
RESAMPLES = 10_000
_CELLS = 4_000_000
"""The most random numbers in memory at a time (32 MB)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate over `of` questions with its 95% interval from `low` to `high`; all None if it is not defined."""

    value: float | None
    low: float | None
    high: float | None
    of: int

    def to_json(self) -> dict[str, float | int | None]:
        """Return the estimate as a JSON document, rounded to four places."""
        rounded = {
            name: None if (x := getattr(self, name)) is None else round(x, 4) for name in ("value", "low", "high")
        }
        return {**rounded, "of": self.of}


def proportion(successes: int, of: int) -> Estimate:
    """Return `successes`/`of` with Wilson's interval.

    >>> half = proportion(5, 10)
    >>> round(half.low, 4), round(half.high, 4)
    (0.2366, 0.7634)
    >>> proportion(0, 0).value is None
    True
    """
    if of == 0:
        return Estimate(value=None, low=None, high=None, of=0)
    p, zz = successes / of, Z * Z
    middle, reach = p + zz / (2 * of), Z * sqrt(p * (1 - p) / of + zz / (4 * of * of))
    low, high = (middle - reach) / (1 + zz / of), (middle + reach) / (1 + zz / of)
    return Estimate(value=p, low=max(0.0, low), high=min(1.0, high), of=of)


def mean(values: Sequence[float], seed: int = 0) -> Estimate:
    """Return the mean with a bootstrap interval.

    >>> mean([1.0, 1.0])
    Estimate(value=1.0, low=1.0, high=1.0, of=2)
    """
    return ratio(values, [1.0] * len(values), seed)


def ratio(above: Sequence[float], below: Sequence[float], seed: int = 0) -> Estimate:
    """Return the sum of `above` divided by the sum of `below`, with a bootstrap interval over pairs of values.

    >>> ratio([2.0, 4.0], [1.0, 2.0])
    Estimate(value=2.0, low=2.0, high=2.0, of=2)
    """
    top, bottom = np.asarray(above, np.float64), np.asarray(below, np.float64)
    if len(top) == 0 or bottom.sum() == 0:
        return Estimate(value=None, low=None, high=None, of=len(top))
    drawn = _resampled(top, bottom, np.random.default_rng(seed))
    low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
    return Estimate(value=float(top.sum() / bottom.sum()), low=float(low), high=float(high), of=len(top))


def _resampled(
    top: NDArray[np.float64], bottom: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    at_once = max(1, _CELLS // len(top))
    drawn = []
    for start in range(0, RESAMPLES, at_once):
        rows = random.integers(0, len(top), (min(at_once, RESAMPLES - start), len(top)))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn.append(top[rows].sum(axis=1) / bottom[rows].sum(axis=1))
    whole: NDArray[np.float64] = np.concatenate(drawn)
    finite: NDArray[np.float64] = whole[np.isfinite(whole)]
    return finite
