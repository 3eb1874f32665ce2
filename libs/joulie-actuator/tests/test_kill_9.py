"""The actuator's own code, really killed while it caps, throttles and classifies CPUs, and `restore` after.

On a mounted /sys with the kernel's semantics where that can be had, and on plain files everywhere.
"""

import os
import random
import signal
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from joulie_actuator.commands import restore
from joulie_actuator.cpu_class_protocol import CoreFrequencyLimit, CpuClassControls, Governor
from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware import journal
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.protocol import ReadCpu, SetCoreLimits, SetCpuCap, SetCpuClasses, SetThrottle
from joulie_actuator.settings import ActuatorSettings
from joulie_testing.agent.kernel.mount import mounted, why_not
from joulie_testing.agent.machine_spec import PLATFORMS

CLASSES = (
    {},
    {
        "eco": CpuClassControls(cpus="0-3", max_khz=2_000_000, epp="power", disabled_idle_states=("POLL",)),
        "fast": CpuClassControls(cpus="4-7", min_khz=2_500_000, disabled_idle_states=("C6",)),
    },
    {"fast": CpuClassControls(cpus="0-7", min_khz=2_000_000, max_khz=3_000_000, governor=Governor.PERFORMANCE)},
)
CORE_LIMITS = (
    (),
    (CoreFrequencyLimit(cpus="0-1", max_khz=1_800_000), CoreFrequencyLimit(cpus="6", max_khz=2_800_000)),
    (CoreFrequencyLimit(cpus="0-7", max_khz=2_200_000),),
)


def _control_until_killed(settings, ready):
    dice = random.Random(os.getpid())
    with Journal.open(Path(settings.state_dir) / "cpu") as opened:
        handler = CpuHandler(
            tree=SysfsTree(settings.host_sys_root),
            proc_root=settings.host_proc_root,
            writer=JournaledWriter(opened),
            min_freq_khz=1_500_000,
            clock=time.monotonic,
        )
        handler.execute(ReadCpu(power_only=True))  # discovers
        os.write(ready, b"!")
        for _ in count():
            handler.execute(SetCpuCap(cap_watts_per_package=dice.randrange(40, 150), lease_s=60))
            handler.execute(SetThrottle(throttle_pct=dice.choice([0, 10, 50, 100]), lease_s=60))
            handler.execute(SetCpuClasses(classes=dice.choice(CLASSES), lease_s=60))
            handler.execute(SetCoreLimits(limits=dice.choice(CORE_LIMITS), lease_s=60))


def _kill_at_a_random_point(settings, dice):
    ready, signalled = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _control_until_killed(settings, signalled)
        finally:
            os._exit(1)
    os.close(signalled)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    time.sleep(dice.uniform(0, 0.03))  # a random point is what is wanted here
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@contextmanager
def _plain_files(actuator_settings, _tmp_path):
    settings, machine = actuator_settings()
    files = [machine.sys / path for path in (*machine.limits(), *machine.policy_limits())]
    files += (machine.sys / "devices/system/cpu").rglob("scaling_min_freq")
    files += (machine.sys / "devices/system/cpu").rglob("scaling_governor")
    yield settings, lambda: {file: file.read_text().partition("\n")[0] for file in files}


@contextmanager
def _kernel(_actuator_settings, tmp_path):
    with mounted(PLATFORMS["xeon-small"], tmp_path / "mount") as there:
        settings = ActuatorSettings(
            host_sys_root=str(there.sys),
            host_proc_root=str(there.proc),
            state_dir=str(tmp_path / "journals"),
            actuator_socket=str(tmp_path / "socket"),
        )
        yield settings, lambda: there.machine.registers() | there.machine.class_controls()


on_files = pytest.param((_plain_files, 50), id="50 times on plain files")
without_kernel = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))
on_kernel = pytest.param((_kernel, 50), marks=without_kernel, id="50 times on a kernel's sys")
often_on_kernel = pytest.param(
    (_kernel, 200), marks=[without_kernel, pytest.mark.long], id="200 times on a kernel's sys"
)


@pytest.fixture
def opened(request, actuator_settings, tmp_path):
    """The settings of an actuator, a function that tells what the machine holds, and how often to kill."""
    machine, kills = request.param
    with machine(actuator_settings, tmp_path) as (settings, registers):
        yield settings, registers, kills


@pytest.mark.timeout(900)
@pytest.mark.parametrize("opened", [on_files, on_kernel, often_on_kernel], indirect=True)
def test_every_kill_at_a_random_point_is_followed_by_a_full_restore(opened, actuator_environment, capfd):
    settings, registers, kills = opened
    env = actuator_environment(settings)
    dice = random.Random(1)
    changed = restored = 0
    originals = registers()
    for _ in range(kills):
        _kill_at_a_random_point(settings, dice)
        changed += registers() != originals
        assert restore.main([], env) == 0
        assert not journal.peek(Path(settings.state_dir) / "cpu")
        restored += registers() == originals
    capfd.readouterr()
    print(f"killed {kills} times, managed limits in force {changed} times, restored {restored} times")
    assert restored == kills
    assert changed > kills / 10
