"""Charts of comparisons, of many episodes, and of one.

Each gives a `Chart`: drawn live by JupyterLab, and an SVG everywhere else, with nothing asked of
the network. Figures are counted before they are drawn, so that a chart of 67,000 steps is as small
as one of 67, and what was left out or folded is said under the title.
"""

from envbench.workbench.charts.bundle import Chart
from envbench.workbench.charts.case_grid import case_grid
from envbench.workbench.charts.differences import differences
from envbench.workbench.charts.endings import endings
from envbench.workbench.charts.flips import flips
from envbench.workbench.charts.forbidden_changes import forbidden_changes
from envbench.workbench.charts.outcomes_over_versions import outcomes_over_versions
from envbench.workbench.charts.overview import overview
from envbench.workbench.charts.reward_against_verdict import reward_against_verdict
from envbench.workbench.charts.step_counts import step_counts
from envbench.workbench.charts.verdict_table import verdict_table

__all__ = [
    "Chart",
    "case_grid",
    "differences",
    "endings",
    "flips",
    "forbidden_changes",
    "outcomes_over_versions",
    "overview",
    "reward_against_verdict",
    "step_counts",
    "verdict_table",
]
