"""The knobs of CPU classes: keys, kinds and the capability that idle states need."""

import pytest

from joulie_actuator.cpu_class_protocol import Governor
from joulie_actuator.hardware import class_knobs, cpufreq
from joulie_actuator.hardware.class_knobs import GOVERNOR_CODES, may_disable_idle_states
from joulie_actuator.hardware.topology import read_topology
from joulie_testing.agent.kernel import KernelMachine, KernelTree
from joulie_testing.agent.machine_spec import PLATFORMS


@pytest.fixture
def tree():
    return KernelTree(KernelMachine(PLATFORMS["xeon-small"]))


@pytest.mark.parametrize(
    ("effective", "may"), [("000001ffffffffff", True), ("0000000000200000", True), ("000001ffffdfffff", False)]
)
def test_idle_states_need_the_capability_sys_admin(tmp_path, effective, may):
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\nCapBnd:\t0\n")
    assert may_disable_idle_states(status) is may


def test_an_unreadable_status_forbids_nothing(tmp_path):
    assert may_disable_idle_states(tmp_path / "absent")


def test_every_governor_of_the_protocol_has_a_number():
    assert set(GOVERNOR_CODES) == {governor.value for governor in Governor}


def test_a_knob_is_found_by_its_key_among_those_of_the_machine(tree):
    requests = cpufreq.requests(tree)
    upper = next(iter(requests.values()))
    known = [
        class_knobs.floor_request(upper),
        class_knobs.governor(upper),
        *class_knobs.idle_states(tree, 3).values(),
    ]
    keys = [knob.key for knob in known]
    absent = ["cpufreq/cpu99/scaling_min_freq", "cpuidle/cpu3/C9", "cpuidle/cpu99/C6", "epp/cpu0", upper.key]
    assert dict(class_knobs.knobs_of(tree, requests, [*keys, *absent])) == dict(zip(keys, known, strict=True))


def test_a_lower_limit_at_the_upper_one_is_explained_by_it(tree):
    policy = cpufreq.discover(tree, read_topology(tree))[0]
    floor = class_knobs.floor_request(policy.max_freq)
    assert floor.write(5_000_000) == policy.highest_khz
    assert floor.platform_limit(policy.highest_khz)
    assert floor.platform_limit(2_000_000) == ""


def test_under_governor_performance_a_driver_that_is_its_own_governor_forces_the_preference(tree):
    policy = cpufreq.discover(tree, read_topology(tree))[0]
    assert class_knobs.forces_preference(policy, "performance")
    assert not class_knobs.forces_preference(policy, "powersave")
