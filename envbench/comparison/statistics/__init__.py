"""The statistics of paired comparisons: functions of counts and arrays, with no I/O.

`paired` is for pairs that are independent of each other, `clusters` (with `sign_flips` and
`intervals`) for pairs that are not. `detectable` says what a comparison of this size could have
shown, `unknown` what the outcomes that were not measured could make of it, `holm` what it costs to
look at many checks; `passes` is pass@k and pass^k. None of them returns NaN: what cannot be had is
None.
"""

from envbench.comparison.statistics.clusters import (
    ClusterResult,
    cluster_differences,
    cluster_test,
)
from envbench.comparison.statistics.detectable import (
    discordance_bound,
    smallest_cluster_effect,
    smallest_effect,
)
from envbench.comparison.statistics.holm import holm
from envbench.comparison.statistics.intervals import ClusterInterval, cluster_interval
from envbench.comparison.statistics.paired import exact_mcnemar, newcombe_interval, smallest_p
from envbench.comparison.statistics.passes import pass_at_k, pass_hat_k
from envbench.comparison.statistics.unknown import bounds

__all__ = [
    "ClusterInterval",
    "ClusterResult",
    "bounds",
    "cluster_differences",
    "cluster_interval",
    "cluster_test",
    "discordance_bound",
    "exact_mcnemar",
    "holm",
    "newcombe_interval",
    "pass_at_k",
    "pass_hat_k",
    "smallest_cluster_effect",
    "smallest_effect",
    "smallest_p",
]
