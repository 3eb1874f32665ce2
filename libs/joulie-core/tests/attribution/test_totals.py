"""Sums of energy by part and workload."""

from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy, StatedEnergy
from joulie_core.attribution.sums import OTHER, EnergySum, PodOwner
from joulie_core.attribution.totals import EnergyPart, EnergyTotals

WEB = PodOwner("shop", "deployment/web")


def of(pod, joules) -> HolderEnergy:
    return HolderEnergy(pod, EnergyKind.ALLOCATED, AllocationRule.CPU_TIME_BAND, joules, joules / 2, joules * 2)


def test_intervals_add_up_by_part_and_past_the_bound_to_other():
    totals = EnergyTotals().plus(StatedEnergy((of("u1", 10.0),), 2.0, 3.0, 4.0), {"u1": WEB}, most_owners=1)
    totals = totals.plus(StatedEnergy((of("u1", 1.0), of("u2", 5.0)), 1.0, 1.0), {"u1": WEB}, most_owners=1)
    assert totals.workloads == {
        (WEB, EnergyKind.ALLOCATED): EnergySum(11.0, 5.5, 22.0),
        (OTHER, EnergyKind.ALLOCATED): EnergySum(5.0, 2.5, 10.0),
    }
    assert totals.parts == {EnergyPart.PODS: 16.0, EnergyPart.IDLE: 3.0, EnergyPart.UNATTRIBUTED: 4.0}
    assert totals.unknown_seconds == 4.0
