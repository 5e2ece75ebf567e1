"""envbench: record Gymnasium episodes as evidence and judge what agents did to the world."""

from __future__ import annotations

__version__ = "0.1.0"
