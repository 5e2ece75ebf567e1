"""Hooks and fixtures of the whole suite.

A test whose browser or server is missing is skipped and says what to install. In the gate
(``CI=true``) everything is installed, so there a skip is a failure: nothing goes untested silently.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator

import pytest
from hypothesis import settings

IN_CI = os.environ.get("CI") == "true"

# No deadline: no test depends on timing. In the gate the examples are the same at every run.
settings.register_profile("envbench", deadline=None, derandomize=IN_CI, print_blob=True)
settings.load_profile("envbench")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_when_skipped_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_when_skipped_in_ci(report)
    return report


def fail_when_skipped_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure in the gate; an expected failure (xfail) is not a skip."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"A skip fails the gate. {reason}"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; the test is skipped where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("needs a browser: apt-get install chromium")
