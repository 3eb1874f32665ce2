"""A planner, with a decision that is recorded."""

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.planner.planning import Decisions

import joulie_operator.sleep.planner as planner_module
from joulie_api.failures import Failures
from joulie_operator.sleep.planner import SleepPlanner


@pytest.fixture
def decisions(monkeypatch):
    found = Decisions()
    monkeypatch.setattr(planner_module, "decide", found)
    return found


@pytest.fixture
def planner():
    return SleepPlanner(Failures(CollectorRegistry()))
