"""The look of the charts: colours, marks and type, each with one meaning everywhere.

The colours are those of Okabe and Ito (2008, "Color Universal Design"), which readers with any
colour vision can tell apart; every colour goes with a mark of its own shape. Each role has a
colour of its own, so that a page that holds a chart as SVG can put another in its place for a dark
background (`DARK`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER = "#ffffff"
INK = "#1b2127"
SOFT = "#59636d"
LINE = "#9aa3ab"
GRID = "#e3e6e9"
BAND = "#f5f6f8"

BLUE = "#0072b2"
VERMILION = "#d55e00"
YELLOW = "#f0e442"
PURPLE = "#cc79a7"
SLATE = "#3d4751"
EMPTY = "#fdfefe"
"""The inside of what is only outlined."""

ON_COLOUR = "#fefefd"
"""A mark on blue, vermilion or slate."""
ON_YELLOW = "#22262a"
"""A mark on yellow."""

DARK: Mapping[str, str] = {
    PAPER: "#181d22",
    INK: "#e7eaed",
    SOFT: "#a5afb8",
    LINE: "#6a747d",
    GRID: "#2e363d",
    BAND: "#20262c",
    BLUE: "#56b4e9",
    VERMILION: "#f0803c",
    YELLOW: "#f0e443",
    PURPLE: "#d98ab6",
    SLATE: "#c3cbd2",
    EMPTY: "#1a2025",
    ON_COLOUR: "#12161a",
    ON_YELLOW: "#16191c",
}
"""The colour of each role on a dark background."""

OUTCOMES = ("passed", "failed", "unknown", "error", "unmatched")
"""What a check came to on an episode of a pair, in the order of legends."""

OUTCOME_COLOURS: Mapping[str, str] = {
    "passed": BLUE,
    "failed": VERMILION,
    "unknown": YELLOW,
    "error": SLATE,
    "unmatched": EMPTY,
}

OUTCOME_MARKS: Mapping[str, str] = {
    "passed": "M-0.55,0.05L-0.15,0.45L0.6,-0.45",
    "failed": "M-0.45,-0.45L0.45,0.45M0.45,-0.45L-0.45,0.45",
    "unknown": "M-0.3,-0.25C-0.3,-0.72,0.35,-0.72,0.35,-0.27C0.35,0.06,0.02,0.02,0.02,0.3"
    "M0.02,0.58L0.02,0.62",
    "error": "M0,-0.6L0,0.2M0,0.53L0,0.57",
    "unmatched": "M-0.4,0L0.4,0",
}
"""A stroke for each outcome: tick, cross, question mark, exclamation mark, dash."""

ON_OUTCOMES: Mapping[str, str] = {
    "passed": ON_COLOUR,
    "failed": ON_COLOUR,
    "unknown": ON_YELLOW,
    "error": ON_COLOUR,
    "unmatched": SOFT,
}
"""The colour of a mark on the colour of its outcome."""

VERDICTS = ("regression", "indeterminate", "descriptive", "no difference shown", "improvement")
"""What a comparison of a check comes to, the worst first."""

VERDICT_COLOURS: Mapping[str, str] = {
    "regression": VERMILION,
    "indeterminate": YELLOW,
    "descriptive": EMPTY,
    "no difference shown": SOFT,
    "improvement": BLUE,
}

VERDICT_SHAPES: Mapping[str, str] = {
    "regression": "triangle-down",
    "indeterminate": "diamond",
    "descriptive": "square",
    "no difference shown": "circle",
    "improvement": "triangle-up",
}

FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
"""Faces of one width, so that what was measured here fits where it is drawn."""

SIZE = 12
TITLE_SIZE = 15
LINE_HEIGHT = 15

CONFIG: Mapping[str, Any] = {
    "background": PAPER,
    "padding": 14,
    "font": FONT,
    "view": {"stroke": None, "cursor": "default"},
    "concat": {"spacing": 0},
    "axis": {
        "labelFontSize": SIZE,
        "labelColor": SOFT,
        "labelPadding": 5,
        "titleFontSize": SIZE,
        "titleFontWeight": "normal",
        "titleColor": SOFT,
        "titlePadding": 8,
        "domain": False,
        "ticks": False,
        "gridColor": GRID,
    },
    "title": {
        "anchor": "start",
        "fontSize": TITLE_SIZE,
        "fontWeight": "bold",
        "color": INK,
        "subtitleFontSize": SIZE,
        "subtitleColor": SOFT,
        "subtitleLineHeight": LINE_HEIGHT + 1,
        "lineHeight": TITLE_SIZE + 4,
        "offset": 14,
        "subtitlePadding": 5,
    },
    "text": {"fontSize": SIZE, "color": INK, "baseline": "middle"},
}
"""The configuration that every specification carries with it."""
