import pytest

from joulie_core.control.lost_control import Floor, target_out_of_reach
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import (
    CpuTarget,
    GpuPowerCap,
    GpuTarget,
    NodePowerProfileSpec,
    OnLostControl,
    PolicyNote,
)

KNOWN = Floor(cpu_watts_per_package=90, watts_per_gpu=200)


def target(on_lost_control=None, *, cpu=60.0, gpu=60.0):
    return NodePowerProfileSpec(
        node_name="n1",
        profile=Profile.ECO,
        cpu=CpuTarget(package_power_cap_pct_of_max=cpu) if cpu else None,
        gpu=GpuTarget(power_cap=GpuPowerCap(cap_pct_of_max=gpu)) if gpu else None,
        policy=PolicyNote(name="static_partition", on_lost_control=on_lost_control),
    )


@pytest.mark.parametrize("choice", [None, OnLostControl.RESTORE])
def test_giving_back_is_the_default(choice):
    assert target_out_of_reach(target(choice), KNOWN) is None


def test_a_target_without_a_policy_is_given_back():
    assert target_out_of_reach(NodePowerProfileSpec(node_name="n1", profile=Profile.ECO), KNOWN) is None


def test_holding_keeps_the_last_target():
    last = target(OnLostControl.HOLD)
    assert target_out_of_reach(last, KNOWN) == last


def test_the_floor_is_the_lowest_cap_of_what_the_target_caps():
    floored = target_out_of_reach(target(OnLostControl.FLOOR), KNOWN)
    assert floored.cpu == CpuTarget(package_power_cap_watts=90)
    assert floored.gpu == GpuTarget(power_cap=GpuPowerCap(cap_watts_per_gpu=200))


def test_what_the_target_leaves_alone_the_floor_leaves_alone():
    floored = target_out_of_reach(target(OnLostControl.FLOOR, cpu=None, gpu=None), KNOWN)
    assert (floored.cpu, floored.gpu) == (None, None)


@pytest.mark.parametrize("unknown", [Floor(None, None), Floor(0, 0)])
def test_a_floor_that_is_not_known_is_no_guess(unknown):
    last = target(OnLostControl.FLOOR)
    assert target_out_of_reach(last, unknown) == last
