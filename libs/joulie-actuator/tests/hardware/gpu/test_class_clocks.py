"""Clock limits by class by the actuator as a process, with the vendors' real packages over stubs of their libraries."""

import signal

import pytest

from joulie_actuator.protocol import SetGpuClassClocks, SetGpuClocks

FREE = 0
UUIDS = ("GPU-0", "GPU-1")


@pytest.fixture(params=["nvml", "amdsmi"])
def node(request, make_gpu_node, hardware):
    for uuid in UUIDS:
        hardware.state.add(uuid, "a GPU")
    return make_gpu_node(request.getfixturevalue(f"{request.param}_folder"))


def by_class(node, lease_s=60.0, **clocks_mhz):
    return node.request(SetGpuClassClocks(clocks_mhz=_uuids(clocks_mhz), lease_s=lease_s))


def by_cap(node, lease_s=60.0, **clocks_mhz):
    return node.request(SetGpuClocks(clocks_mhz=_uuids(clocks_mhz), lease_s=lease_s))


def _uuids(clocks_mhz):
    return {f"GPU-{name[-1]}": mhz for name, mhz in clocks_mhz.items()}


def locks(node):
    return [node.state.gpus[index].lock_mhz for index in range(len(UUIDS))]


def test_the_lower_limit_is_sent_and_the_end_of_both_is_a_reset(node):
    node.start()
    by_cap(node, gpu0=1400)
    assert by_class(node, gpu0=1200, gpu1=1500).limits_mhz == {"GPU-0": 1200, "GPU-1": 1500}
    assert locks(node) == [1200, 1500]
    by_class(node)
    assert locks(node) == [1400, FREE]
    by_cap(node)
    assert locks(node) == [FREE, FREE]


def test_limits_of_classes_that_are_not_renewed_end_while_caps_stay(node):
    node.start()
    by_cap(node, gpu0=1400)
    by_class(node, lease_s=0.5, gpu0=1200, gpu1=1500)
    assert locks(node) == [1200, 1500]
    node.wait_until(lambda: locks(node) == [1400, FREE])


def test_limits_of_classes_that_a_killed_actuator_left_are_restored_by_the_next(node):
    killed = node.start()
    by_class(node, gpu0=1200, gpu1=1500)
    killed.kill()
    killed.wait()
    assert locks(node) == [1200, 1500]
    node.start()
    node.wait_until(lambda: locks(node) == [FREE, FREE])
    assert by_class(node, gpu1=1500).limits_mhz == {"GPU-1": 1500}
    assert locks(node) == [FREE, 1500]


def test_a_terminated_actuator_leaves_no_limit_of_a_class(node):
    actuator = node.start()
    by_class(node, gpu0=1200)
    actuator.send_signal(signal.SIGTERM)
    actuator.communicate(timeout=30)
    assert (actuator.returncode, locks(node)) == (0, [FREE, FREE])


def test_a_driver_that_refuses_to_lift_is_named_and_lifts_as_soon_as_it_can(node):
    node.start()
    by_class(node, gpu0=1200)
    node.state.may_set = 0
    done = by_class(node)
    assert (done.limits_mhz, done.failures.keys(), locks(node)) == ({"GPU-0": 1200}, {"GPU-0"}, [1200, FREE])
    node.state.may_set = 1
    done = by_class(node)
    assert (done.limits_mhz, done.failures, locks(node)) == ({}, {}, [FREE, FREE])


def test_a_lost_gpu_does_not_keep_the_limit_of_another(node):
    node.start()
    by_class(node, gpu0=1200, gpu1=1500)
    node.state.gpus[0].lost = 1
    assert by_class(node).failures.keys() == {"GPU-0"}
    assert locks(node)[1] == FREE
