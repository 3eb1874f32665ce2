"""Clock limits by the actuator as a process, with the vendors' real packages: nothing of them is left behind."""

import signal

import pytest

from joulie_actuator.protocol import DescribeGpu, ReadGpu, Restore, SetGpuClocks, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import RestoreReport

FREE, LIMIT_MHZ = 0, 1200
UUIDS = ("GPU-0", "GPU-1")


@pytest.fixture(params=["nvml", "amdsmi"])
def node(request, make_gpu_node, hardware):
    for uuid in UUIDS:
        hardware.state.add(uuid, "a GPU")
    return make_gpu_node(request.getfixturevalue(f"{request.param}_folder"))


def limit(node, lease_s=60.0, **clocks_mhz):
    return node.request(SetGpuClocks(clocks_mhz=clocks_mhz or dict.fromkeys(UUIDS, LIMIT_MHZ), lease_s=lease_s))


def locks(node):
    return [node.state.gpus[index].lock_mhz for index in range(len(UUIDS))]


def test_clocks_are_limited_and_released_at_sigterm(node):
    actuator = node.start()
    assert limit(node).reason is Reason.CLOCKS_LIMITED
    assert locks(node) == [LIMIT_MHZ, LIMIT_MHZ]
    assert [figure.clock_limit_mhz for figure in node.request(ReadGpu()).gpus] == [LIMIT_MHZ, LIMIT_MHZ]
    actuator.send_signal(signal.SIGTERM)
    actuator.communicate(timeout=30)
    assert (actuator.returncode, locks(node)) == (0, [FREE, FREE])


def test_a_controller_that_stops_renewing_loses_its_clock_limits(node):
    node.start()
    assert limit(node, lease_s=0.5).reason is Reason.CLOCKS_LIMITED
    node.wait_until(lambda: locks(node) == [FREE, FREE])


def test_clock_limits_that_a_killed_actuator_left_are_released_by_the_next(node):
    killed = node.start()
    assert limit(node).reason is Reason.CLOCKS_LIMITED
    killed.kill()
    killed.wait()
    assert locks(node) == [LIMIT_MHZ, LIMIT_MHZ]
    node.start()
    node.wait_until(lambda: locks(node) == [FREE, FREE])
    assert [device.highest_mhz for device in node.request(DescribeGpu()).devices] == [1980, 1980]


@pytest.mark.parametrize("lock_mhz", [FREE, 1980])
def test_a_clock_of_amd_that_a_kill_left_between_two_calls_is_released_by_the_next(
    lock_mhz, make_gpu_node, hardware, amdsmi_folder
):
    """Level and clock are set by one call each: the level alone, or with the whole range, is left."""
    for uuid in UUIDS:
        hardware.state.add(uuid, "a GPU")
    node = make_gpu_node(amdsmi_folder)
    killed = node.start()
    assert limit(node).reason is Reason.CLOCKS_LIMITED
    killed.kill()
    killed.wait()
    gpu = node.state.gpus[0]
    gpu.lock_mhz, gpu.manual = lock_mhz, 1
    node.start()
    node.wait_until(lambda: locks(node) == [FREE, FREE] and not gpu.manual)


def test_clock_limits_that_a_killed_actuator_left_are_released_by_the_command(node):
    killed = node.start()
    assert limit(node).reason is Reason.CLOCKS_LIMITED
    killed.kill()
    killed.wait()
    restored = node.run("restore")
    assert (restored.returncode, locks(node)) == (0, [FREE, FREE]), restored.stdout


def test_a_clock_that_is_not_named_any_longer_is_released_and_the_other_stays(node):
    node.start()
    assert limit(node).reason is Reason.CLOCKS_LIMITED
    assert limit(node, **{"GPU-1": 900}).reason is Reason.CLOCKS_LIMITED
    assert locks(node) == [FREE, 900]
    report = node.request(Restore(subsystem=Subsystem.GPU))
    assert isinstance(report, RestoreReport)
    assert (report.left, locks(node)) == ((), [FREE, FREE])
