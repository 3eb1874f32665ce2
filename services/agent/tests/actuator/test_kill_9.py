"""The actuator's own code, really killed while it caps and throttles a fake two-socket machine, and `restore` after."""

import os
import random
import signal
import time
from itertools import count
from pathlib import Path

from joulie_agent.actuator import restore
from joulie_agent.actuator.cpus import CpuPart
from joulie_agent.actuator.protocol import SetCpuCap, SetThrottle
from joulie_agent.hardware import journal
from joulie_agent.hardware.hands import Hands
from joulie_agent.hardware.journal import Journal
from joulie_agent.hardware.sysfs import SysfsTree

KILLS = 200


def _control_until_killed(settings, ready):
    dice = random.Random(os.getpid())
    with Journal.open(Path(settings.state_dir) / "cpu") as opened:
        part = CpuPart(
            tree=SysfsTree(settings.host_sys_root),
            proc_root=settings.host_proc_root,
            hands=Hands(opened),
            min_freq_khz=1_500_000,
            clock=time.monotonic,
        )
        os.write(ready, b"!")
        for _ in count():
            part.carry_out(SetCpuCap(cap_uw_per_package=dice.randrange(40, 150) * 1_000_000, lease_s=60))
            part.carry_out(SetThrottle(throttle_pct=dice.choice([0, 10, 50, 100]), lease_s=60))


def test_200_kills_at_random_points_and_200_times_everything_is_restored(
    actuator_settings, actuator_environment, capfd
):
    settings, machine = actuator_settings()
    env = actuator_environment(settings)
    paths = [*machine.limits(), *machine.policy_limits()]
    originals = {path: machine.read(path) for path in paths}
    dice = random.Random(1)
    changed = restored = 0
    for _ in range(KILLS):
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _control_until_killed(settings, told)
            finally:
                os._exit(1)
        os.close(told)
        assert os.read(ready, 1) == b"!"
        os.close(ready)
        time.sleep(dice.uniform(0, 0.03))  # a random point is what is wanted here
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        changed += {path: machine.read(path) for path in paths} != originals
        assert restore.main([], env) == 0
        assert not journal.peek(Path(settings.state_dir) / "cpu")
        restored += {path: machine.read(path) for path in paths} == originals
    capfd.readouterr()
    print(f"killed {KILLS} times, limits of ours in force {changed} times, restored {restored} times")
    assert restored == KILLS
    assert changed > KILLS / 4
