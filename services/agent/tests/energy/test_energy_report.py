"""Energy in the status of the TelemetryProfile, within its bounds."""

import pytest

from joulie_agent.energy.report import energy_report
from joulie_agent.report import HEARTBEAT_S, compose
from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy, StatedEnergy
from joulie_core.attribution.sums import PodOwner
from joulie_core.attribution.totals import EnergyTotals, MeteredDevice
from joulie_core.control_result import ControlResult
from joulie_core.kinds.energy_report import MOST_REPORTED_WORKLOADS
from joulie_core.kinds.telemetry_profile import ControlReport, TelemetryProfileStatus

CPU = MeteredDevice.CPU
NOW = 1_780_000_000.0
BLOCKED = ControlReport(result=ControlResult.BLOCKED, reason="NoProfile")


def totals(pods: int, joules: float = 100.0) -> EnergyTotals:
    owners = {f"u{number}": PodOwner("team", f"job/{number}") for number in range(pods)}
    energies = tuple(
        HolderEnergy(uid, EnergyKind.ALLOCATED, AllocationRule.CPU_TIME_BAND, joules + number, joules / 2, joules * 2)
        for number, uid in enumerate(owners)
    )
    return EnergyTotals().plus(StatedEnergy(energies, 7.0, 8.0, 9.0), owners, most_owners=1000)


def test_the_largest_workloads_are_named_and_the_sum_of_all_stays():
    total = totals(100)
    found = energy_report({CPU: total}, NOW - 60.0, NOW)
    assert len(found.workloads) == MOST_REPORTED_WORKLOADS
    assert found.workload_count == 100
    names = {each.workload for each in found.workloads}
    assert {"other", "job/99"} <= names
    assert "job/0" not in names
    assert sum(each.joules for each in found.workloads) == pytest.approx(found.devices[0].pods_joules)
    assert sum(each.upper_joules for each in found.workloads) == pytest.approx(100 * 200.0)
    assert (found.devices[0].idle_joules, found.devices[0].unattributed_joules) == (7.0, 8.0)
    assert found.devices[0].unknown_seconds == 9.0


def composed(last, now_s, joules, *, watts=100.0, since_s=NOW - 60.0) -> TelemetryProfileStatus:
    return compose(
        last=last,
        cpu=BLOCKED,
        gpu=BLOCKED,
        cpu_watts=watts,
        gpu_watts=None,
        now_s=now_s,
        energy={CPU: totals(1, joules)},
        energy_since_s=since_s,
    )


def test_energy_that_grows_is_no_reason_for_a_write_until_the_power_or_the_heartbeat_is():
    first = composed(TelemetryProfileStatus(), NOW, 100.0)
    assert first.energy.workloads[0].joules == 100.0
    assert composed(first, NOW + 5.0, 200.0) == first
    assert composed(first, NOW + 5.0, 200.0, watts=150.0).energy.workloads[0].joules == 200.0
    assert composed(first, NOW + HEARTBEAT_S, 200.0).energy.workloads[0].joules == 200.0


def test_an_agent_that_started_anew_reports_its_own_sums_at_once():
    first = composed(TelemetryProfileStatus(), NOW, 100.0)
    assert composed(first, NOW + 5.0, 3.0, since_s=NOW + 4.0).energy.workloads[0].joules == 3.0
