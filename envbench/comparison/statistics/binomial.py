"""The binomial distribution, by SciPy's special functions.

`scipy.stats` has all of this, and takes three seconds to import.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def at_least(successes: ArrayLike, trials: ArrayLike, rate: float = 0.5) -> NDArray[np.float64]:
    """The chance of so many successes or more, for 1 ≤ successes ≤ trials."""
    from scipy.special import betainc

    least = np.asarray(successes, np.float64)
    return np.asarray(betainc(least, np.asarray(trials, np.float64) - least + 1, rate))


def chances(successes: NDArray[np.float64], trials: int, rate: float) -> NDArray[np.float64]:
    """The chance of each number of successes, for 0 < rate ≤ 1."""
    from scipy.special import gammaln, xlog1py, xlogy

    failures = trials - successes
    ways = gammaln(trials + 1) - gammaln(successes + 1) - gammaln(failures + 1)
    return np.asarray(np.exp(ways + xlogy(successes, rate) + xlog1py(failures, -rate)))
