"""Sums of energy by workload in a bounded number of series."""

from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy
from joulie_core.attribution.sums import OTHER, EnergySum, PodOwner, add_energy

WEB, JOB, BATCH = PodOwner("shop", "web"), PodOwner("lab", "job"), PodOwner("lab", "batch")
OWNERS = {"web-1": WEB, "web-2": WEB, "job-1": JOB, "batch-1": BATCH}
KIND = EnergyKind.ALLOCATED


def of(pod, joules):
    return HolderEnergy(pod, KIND, AllocationRule.CPU_TIME_BAND, joules, joules / 2.0, joules * 2.0)


def test_bounds_add_as_bounds():
    sums = add_energy({}, [of("web-1", 2.0), of("web-2", 4.0)], OWNERS, most_owners=9)
    assert sums == {(WEB, KIND): EnergySum(6.0, 3.0, 12.0)}


def test_what_comes_past_the_bound_is_other_and_series_that_exist_stay():
    sums = add_energy({}, [of("web-1", 1.0), of("job-1", 3.0)], OWNERS, most_owners=1)
    assert {owner: part.joules for (owner, _), part in sums.items()} == {JOB: 3.0, OTHER: 1.0}
    sums = add_energy(sums, [of("batch-1", 50.0), of("job-1", 1.0)], OWNERS, most_owners=1)
    assert {owner: part.joules for (owner, _), part in sums.items()} == {JOB: 4.0, OTHER: 51.0}


def test_a_pod_without_a_known_owner_is_other_and_takes_no_series():
    sums = add_energy({}, [of("gone", 5.0), of("web-1", 1.0)], OWNERS, most_owners=1)
    assert {owner: part.joules for (owner, _), part in sums.items()} == {OTHER: 5.0, WEB: 1.0}


def test_measured_and_allocated_energy_of_one_workload_are_apart():
    measured = HolderEnergy("web-1", EnergyKind.MEASURED, AllocationRule.NONE, 7.0, 7.0, 7.0)
    sums = add_energy({}, [measured, of("web-1", 1.0)], OWNERS, most_owners=1)
    assert {kind: part.joules for (_, kind), part in sums.items()} == {EnergyKind.MEASURED: 7.0, KIND: 1.0}
