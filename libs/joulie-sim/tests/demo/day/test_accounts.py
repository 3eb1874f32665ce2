import pytest

from joulie_core.demand import WorkloadClass
from joulie_sim.demo.day.accounts import mean_over, sampling_error_pct, waits_for_sleep_s
from joulie_sim.demo.record import NodeSums, PodCounts, PodTrack, Sample, energy_kwh
from joulie_sim.demo.sleeping.power import Power, power_of

AWAKE, WAKING, ASLEEP = Power.AWAKE, Power.WAKING, Power.ASLEEP


def sample(at_s, awake=0.0, waking=0.0, asleep=0.0, *, pending=0, device_watts=0.0, device_joules=0.0):
    return Sample(
        at_s,
        {},
        {AWAKE: NodeSums(1, awake), WAKING: NodeSums(0, waking), ASLEEP: NodeSums(2, asleep)},
        {WorkloadClass.STANDARD: PodCounts(pending=pending)},
        device_watts,
        device_joules,
    )


def waited(wait_s):
    """Return a pod that got a node after so long; None: never."""
    bound_s = None if wait_s is None else 1.0 + wait_s
    return PodTrack("p", WorkloadClass.STANDARD, created_s=1.0, bound_s=bound_s)


@pytest.mark.parametrize(
    ("bmc", "label", "power"),
    [
        ("On", None, AWAKE),
        ("On", "draining", AWAKE),
        ("PoweringOff", "powering-off", AWAKE),
        ("Off", "asleep", ASLEEP),
        ("Off", "waking", ASLEEP),
        ("PoweringOn", "waking", WAKING),
        ("On", "waking", WAKING),
        ("PoweringOn", None, WAKING),
    ],
)
def test_a_server_is_asleep_only_while_it_is_off_and_awake_only_when_it_takes_pods(bmc, label, power):
    assert power_of(bmc, label) is power


def test_a_sample_holds_until_the_next_and_the_last_until_the_end():
    samples = [sample(0.0, awake=1000.0), sample(1800.0, awake=500.0, asleep=20.0), sample(3600.0, waking=100.0)]
    energy = energy_kwh(samples, 7200.0)
    assert energy[AWAKE] == pytest.approx(0.5 + 0.25)
    assert energy[ASLEEP] == pytest.approx(0.01)
    assert energy[WAKING] == pytest.approx(0.1)
    total_j = 1000.0 * 1800.0 + 520.0 * 1800.0 + 100.0 * 3600.0
    assert sum(energy.values()) == pytest.approx(total_j / 3_600_000.0)


def test_without_samples_there_is_no_energy():
    assert energy_kwh([], 100.0) == dict.fromkeys(Power, 0.0)


def test_the_error_of_sampling_is_that_of_the_devices_whose_energy_is_known_exactly():
    samples = [
        sample(0.0, device_watts=100.0, device_joules=50.0),
        sample(10.0, device_watts=200.0, device_joules=1050.0),
        sample(20.0, device_watts=0.0, device_joules=2550.0),
    ]
    assert sampling_error_pct(samples) == pytest.approx(100.0 * (3000.0 / 2500.0 - 1.0))


def test_means_are_of_the_samples_in_the_hour():
    samples = [sample(0.0, 100.0, pending=2), sample(1800.0, 300.0, pending=4), sample(3600.0, 900.0)]
    mean = mean_over(samples, 0.0, 3600.0)
    assert (mean.watts[AWAKE], mean.pending, mean.nodes[ASLEEP]) == (200.0, 3.0, 2.0)
    assert mean_over(samples, 7200.0, 10800.0) is None


def test_only_what_a_pod_waits_longer_than_without_sleep_is_because_of_sleep():
    asleep = {"a": waited(400.0), "b": waited(10.0), "c": waited(None), "d": waited(5.0)}
    awake = {"a": waited(100.0), "b": waited(50.0), "c": waited(1.0)}
    assert waits_for_sleep_s(asleep, awake) == {"a": 300.0, "b": 0.0}
