"""Counters, and the series of each NodeBMC."""

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from joulie_api.apply import WriteResult
from joulie_api.metrics import NodeSeriesCollector
from joulie_core.kinds import NodeBMCStatus
from joulie_core.kinds.base import Condition, ConditionStatus
from joulie_core.kinds.node_bmc import BmcCapStatus, PowerState
from joulie_outofband.metrics import BmcAction, BmcSeries, OutOfBandMetrics, families


def lines(**bmcs):
    registry = CollectorRegistry()
    registry.register(NodeSeriesCollector(lambda: families(lambda: bmcs)))
    return [each for each in generate_latest(registry).decode().splitlines() if not each.startswith("#")]


def test_passes_actions_and_writes_are_counted_by_their_result():
    registry = CollectorRegistry()
    metrics = OutOfBandMetrics(registry)
    metrics.on_pass("Answers", 0.3)
    metrics.on_pass("Answers", 100.0)
    metrics.on_action(BmcAction.CAP, done=True)
    metrics.on_action(BmcAction.RESTORE, done=False)
    metrics.on_action(BmcAction.RESET, done=True)
    metrics.on_write("NodeBMC", WriteResult.APPLIED)
    value = registry.get_sample_value
    name = "joulie_outofband_pass_duration_seconds"
    assert value(f"{name}_count", {"reason": "Answers"}) == 2
    assert value(f"{name}_sum", {"reason": "Answers"}) == 100.3
    bounds = ["0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "30.0", "60.0", "90.0", "+Inf"]
    counts = [value(f"{name}_bucket", {"reason": "Answers", "le": each}) for each in bounds]
    assert counts == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2]
    actions = "joulie_outofband_actions_total"
    assert value(actions, {"action": "cap", "result": "done"}) == 1
    assert value(actions, {"action": "restore", "result": "failed"}) == 1
    assert value(actions, {"action": "reset", "result": "done"}) == 1
    assert value("joulie_outofband_writes_total", {"kind": "NodeBMC", "result": "applied"}) == 1


def test_a_bmc_that_is_known_has_every_series():
    status = NodeBMCStatus(
        power_state=PowerState.ON,
        power_watts=344.0,
        boot_seconds=612.0,
        cap=BmcCapStatus(requested_watts=300),
        conditions=(Condition(type="Reachable", status=ConditionStatus.TRUE, reason="Answers"),),
    )
    assert lines(n1=BmcSeries(status, cap_overdue=False)) == [
        'joulie_bmc_power_watts{node="n1"} 344.0',
        'joulie_bmc_reachable{node="n1"} 1.0',
        'joulie_bmc_power_on{node="n1"} 1.0',
        'joulie_bmc_put_to_sleep{node="n1"} 0.0',
        'joulie_bmc_boot_seconds{node="n1"} 612.0',
        'joulie_bmc_cap_watts{node="n1"} 300.0',
        'joulie_bmc_cap_overdue{node="n1"} 0.0',
        'joulie_bmc_condition{condition="Reachable",node="n1",reason="Answers",status="True"} 1.0',
    ]


def test_what_is_unknown_has_no_sample():
    # What the operator requests is known of every object.
    request = ['joulie_bmc_put_to_sleep{node="n1"} 0.0']
    assert lines(n1=BmcSeries(NodeBMCStatus(), None)) == request
    assert lines(n1=BmcSeries(NodeBMCStatus(cap=BmcCapStatus(watts=3)), None)) == request
    assert lines() == []


@pytest.mark.parametrize(
    ("status", "value"),
    [(ConditionStatus.FALSE, ["0.0"]), (ConditionStatus.TRUE, ["1.0"]), (ConditionStatus.UNKNOWN, [])],
)
def test_a_bmc_that_never_answers_is_neither_reachable_nor_not(status, value):
    conditions = (
        Condition(type="Capped", status=ConditionStatus.TRUE),
        Condition(type="Reachable", status=status),
    )
    found = lines(n1=BmcSeries(NodeBMCStatus(conditions=conditions), None))
    assert [each.rpartition(" ")[2] for each in found if each.startswith("joulie_bmc_reachable{")] == value


def test_a_server_that_is_off_and_a_cap_that_is_overdue_are_shown():
    found = lines(n1=BmcSeries(NodeBMCStatus(power_state=PowerState.OFF), cap_overdue=True, put_to_sleep=True))
    assert found == [
        'joulie_bmc_power_on{node="n1"} 0.0',
        'joulie_bmc_put_to_sleep{node="n1"} 1.0',
        'joulie_bmc_cap_overdue{node="n1"} 1.0',
    ]
    assert lines(n1=BmcSeries(NodeBMCStatus(power_state=PowerState.POWERING_ON), None)) == [
        'joulie_bmc_put_to_sleep{node="n1"} 0.0'
    ]
