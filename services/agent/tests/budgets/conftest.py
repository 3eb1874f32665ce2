"""Reports of limits that come without a long wait."""

import pytest

from joulie_agent.budgets import report_delay


@pytest.fixture(autouse=True)
def _prompt_reports(monkeypatch):
    """A pass that reports a limit comes soon, where that of the interval is hours away."""
    monkeypatch.setattr(report_delay, "LONGEST_S", 0.3)
