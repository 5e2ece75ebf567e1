"""The style of comparisons: that of displays, and charts in the colours of the page around them.

A chart as SVG has the colours of a light page. Each is replaced by a variable, which has the colour
of its role on a dark page where the page is dark: as JupyterLab says, else as the system says.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from envbench.workbench.charts import theme


@cache
def style() -> str:
    """The whole style, without that of displays."""
    text = (
        resources.files("envbench.workbench").joinpath("static/comparison.css").read_text("utf-8")
    )
    light, dark = (_variables(colours) for colours in ({c: c for c in theme.DARK}, theme.DARK))
    return (
        f"{text}{_replaced()}"
        f".envbench-comparison{{--eb-link:#1a6498;{light}}}\n"
        "@media (prefers-color-scheme:dark){"
        f":root:not(:has([data-jp-theme-light])) .envbench-comparison{{--eb-link:#8cc4ee;{dark}}}"
        "}\n"
        f'[data-jp-theme-light="false"] .envbench-comparison{{--eb-link:#8cc4ee;{dark}}}\n'
    )


_NAMES = {
    theme.PAPER: "paper",
    theme.INK: "ink",
    theme.SOFT: "soft",
    theme.LINE: "line",
    theme.GRID: "grid",
    theme.BAND: "band",
    theme.BLUE: "blue",
    theme.VERMILION: "vermilion",
    theme.YELLOW: "yellow",
    theme.PURPLE: "purple",
    theme.SLATE: "slate",
    theme.EMPTY: "empty",
    theme.ON_COLOUR: "on-colour",
    theme.ON_YELLOW: "on-yellow",
}


def _variables(colours: dict[str, str] | object) -> str:
    assert isinstance(colours, dict)
    return "".join(f"--eb-chart-{name}:{colours[colour]};" for colour, name in _NAMES.items())


def _replaced() -> str:
    """A rule a colour and attribute: what is drawn in it follows the page."""
    return "".join(
        f'.envbench-comparison .envbench-chart [{what}="{colour}"]{{{what}:var(--eb-chart-{name})}}'
        for colour, name in _NAMES.items()
        for what in ("fill", "stroke")
    )
