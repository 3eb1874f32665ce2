"""Advice of `kubectl joulie doctor` names reasons that the agent has."""

from joulie_actuator.reasons import Reason
from joulie_cli.verbs.doctor_installation import KINDS
from joulie_cli.verbs.doctor_nodes import CAP_WAYS_OUT
from joulie_core.kinds import KINDS as MODELS


def test_every_reason_with_advice_is_one_of_the_agents():
    assert {reason.value for reason in Reason} >= set(CAP_WAYS_OUT)


def test_the_kinds_that_are_checked_are_those_of_the_models():
    assert {kind.plural for kind in MODELS} == set(KINDS)
