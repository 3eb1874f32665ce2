"""Holds of devices from looks at their holders."""

from joulie_core.attribution.counters import CounterReading
from joulie_core.attribution.energy import EnergyKind
from joulie_core.attribution.gpus import DeviceEnergy, device_energy
from joulie_core.attribution.holds import DeviceHolds

A, B, NO_POD = frozenset({"a"}), frozenset({"b"}), frozenset()


def looks(*found) -> DeviceHolds:
    """Return the holds of device `gpu` after looks at 0, 1, 2, ... seconds."""
    holds = DeviceHolds()
    for at, holders in enumerate(found):
        holds = holds.looked(float(at), {"gpu": holders})
    return holds


def energy(holds: DeviceHolds, start: float, end: float, device="gpu") -> DeviceEnergy:
    readings = [CounterReading(start, 0.0), CounterReading(end, 100.0)]
    return device_energy(readings, holds.of(device), most_watts=1000.0, longest_seconds=30.0)


def kinds(found: DeviceEnergy) -> dict[str, EnergyKind]:
    return {each.holder: each.kind for each in found.holders}


def test_one_pod_at_every_look_is_measured():
    assert kinds(energy(looks(*[A] * 20), 2.0, 12.0)) == {"a": EnergyKind.MEASURED}


def test_no_pod_at_any_look_is_idle():
    assert energy(looks(*[NO_POD] * 20), 2.0, 12.0) == DeviceEnergy((), 100.0, 0.0, 0.0)


def test_a_hand_over_is_never_measured_even_if_it_is_seen_only_after_the_interval():
    holds = looks(*[A] * 13, *[B] * 10)
    assert kinds(energy(holds, 2.0, 12.0)) == {"a": EnergyKind.ALLOCATED, "b": EnergyKind.ALLOCATED}


def test_an_interval_whose_end_no_look_has_caught_up_with_is_unattributed():
    assert energy(looks(*[A] * 13), 2.0, 12.0) == DeviceEnergy((), 0.0, 100.0, 0.0)


def test_what_was_before_the_first_look_is_unattributed():
    assert energy(looks(*[A] * 30), -1.0, 9.0).unattributed_joules == 100.0


def test_a_look_that_is_not_certain_leaves_its_interval_unattributed_and_not_the_next():
    holds = looks(*[A] * 5, None, *[A] * 30)
    assert energy(holds, 2.0, 12.0).unattributed_joules == 100.0
    assert kinds(energy(holds, 12.0, 22.0)) == {"a": EnergyKind.MEASURED}


def test_looks_that_are_far_apart_leave_the_time_between_them_unattributed():
    holds = looks(*[A] * 3).looked(20.0, {"gpu": A}).looked(30.0, {"gpu": A}).looked(40.0, {"gpu": A})
    assert energy(holds, 5.0, 15.0).unattributed_joules == 100.0
    assert kinds(energy(holds, 20.0, 30.0)) == {"a": EnergyKind.MEASURED}


def test_a_device_that_is_gone_is_unknown_and_then_forgotten():
    holds = looks(*[A] * 3).looked(3.0, {}).looked(4.0, {})
    assert energy(holds, 3.0, 4.0).unattributed_joules == 100.0
    assert "gpu" not in holds.present
    assert holds.since(100.0).past == {}


def test_a_device_that_was_never_looked_at_is_unattributed():
    assert energy(looks(A), 0.0, 5.0, "other").unattributed_joules == 100.0
    assert energy(DeviceHolds(), 0.0, 5.0).unattributed_joules == 100.0


def test_forgetting_what_ended_before_changes_nothing_after():
    holds = looks(*[A] * 5, *[B] * 30)
    assert energy(holds.since(15.0), 15.0, 25.0) == energy(holds, 15.0, 25.0)
