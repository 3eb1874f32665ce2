"""Energy of the packages between two readings of their counters."""

import pytest

from joulie_core.attribution.cpu_times import CpuTimes
from joulie_core.attribution.cpus import WattsBand
from joulie_core.attribution.energy import StatedEnergy
from joulie_core.attribution.packages import (
    PackagesModel,
    PackagesReading,
    ZoneCounter,
    counted_joules,
    stated_packages,
)
from joulie_core.control.energy_meter import EnergyCounter
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_status
from joulie_core.kinds.node_hardware import CpuHardware, NodeHardwareStatus
from joulie_core.power.curves import node_curves

RANGE_UJ = 65_000_000_000
MODEL = PackagesModel(WattsBand(2.0, 8.0), WattsBand(40.0, 60.0))


def counter(joules: float, max_watts: float | None = 200.0, range_uj: int | None = RANGE_UJ) -> ZoneCounter:
    return ZoneCounter(int(joules * 1e6), EnergyCounter(range_uj, max_watts))


def reading(at, zones, node=None, **pods) -> PackagesReading:
    return PackagesReading(at, zones, None if node is None else CpuTimes(node, pods))


def stated(before, after, model=MODEL) -> StatedEnergy:
    return stated_packages(before, after, model, longest_seconds=30.0)


def test_pods_have_their_part_of_all_packages_and_the_sum_is_the_counters():
    before = reading(0.0, {"package-0": counter(100.0), "package-1": counter(50.0)}, 10.0, web=5.0)
    after = reading(10.0, {"package-0": counter(900.0), "package-1": counter(450.0)}, 150.0, web=105.0)
    found = stated(before, after)
    (web,) = found.pods
    assert web.holder == "web"
    assert 0.0 < web.lower_joules < web.joules < web.upper_joules < 1200.0
    assert web.joules + found.idle_joules + found.unattributed_joules == pytest.approx(1200.0)
    assert found.unknown_seconds == 0.0


def test_a_counter_that_wraps_counts_on():
    before, after = reading(0.0, {"p": counter(64_900.0)}), reading(10.0, {"p": counter(400.0)})
    assert counted_joules(before, after) == {"p": pytest.approx(500.0)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (counter(900.0), counter(100.0)),
        (counter(900.0, range_uj=None), counter(100.0, range_uj=None)),
        (counter(100.0), counter(100.0)),
        (None, counter(100.0)),
        (counter(100.0), None),
    ],
)
def test_a_counter_that_does_not_tell_leaves_the_others_unattributed_and_tells_its_seconds(before, after):
    found = stated(
        reading(0.0, {"p": before, "q": counter(100.0)}, 0.0, web=0.0),
        reading(10.0, {"p": after, "q": counter(600.0)}, 50.0, web=40.0),
    )
    assert found == StatedEnergy((), 0.0, pytest.approx(500.0), 10.0)


def test_a_gap_and_a_node_without_a_power_model_are_unattributed():
    before = reading(0.0, {"p": counter(0.0)}, 0.0, web=0.0)
    late = reading(31.0, {"p": counter(3000.0)}, 50.0, web=40.0)
    assert stated(before, late) == StatedEnergy((), 0.0, pytest.approx(3000.0))
    after = reading(10.0, {"p": counter(1000.0)}, 50.0, web=40.0)
    assert stated(before, after, None) == StatedEnergy((), 0.0, pytest.approx(1000.0))


def test_without_cpu_times_all_over_idle_is_unattributed():
    found = stated(reading(0.0, {"p": counter(0.0)}), reading(10.0, {"p": counter(1000.0)}))
    assert found == StatedEnergy((), pytest.approx(500.0), pytest.approx(500.0))


def test_packages_that_were_seen_at_few_watts_have_no_higher_idle_power():
    status = NodeHardwareStatus(
        cpu=CpuHardware(raw_model="AMD EPYC 7763 64-Core Processor", sockets=2, total_cores=128)
    )
    curves = node_curves(view_from_status(status, Inventory.load()))
    modelled = curves.packages_watts[0]
    free = PackagesModel.of(curves)
    assert (free.idle.lowest, free.idle.highest) == (pytest.approx(modelled * 0.5), pytest.approx(modelled * 1.5))
    assert PackagesModel.of(curves, modelled * 0.9).idle.highest == pytest.approx(modelled * 0.9)
    assert PackagesModel.of(curves, 5.0).idle == WattsBand(5.0, 5.0)
