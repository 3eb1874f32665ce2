"""A process that is really killed while it moves interrupts, and `restore` after."""

import os
import random
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from joulie_actuator.commands import restore
from joulie_actuator.hardware import journal
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.interrupts import InterruptHandler
from joulie_actuator.protocol import SetInterrupts
from joulie_actuator.settings import ActuatorSettings

KILLS = 40
#: Some requests open as many.
MOST_FILES = 300
CLAIMS = (InterruptClaims(patterns=("eth0*",), cpus="2"),)


def _move_until_killed(settings, dice):
    """Kill this process as it opens the n-th file, which it does before each read, write and record."""
    left, opened_by_os = dice.randrange(1, MOST_FILES), os.open

    def open_or_die(*arguments, **options):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return opened_by_os(*arguments, **options)

    os.open = open_or_die
    with Journal.open(Path(settings.state_dir) / "interrupts") as opened:
        handler = InterruptHandler(
            tree=SysfsTree(settings.host_sys_root),
            irq_tree=SysfsTree(settings.host_irq_root),
            writer=JournaledWriter(opened),
            clock=time.monotonic,
        )
        for _ in count():
            handler.execute(
                SetInterrupts(
                    controllable=("*",),
                    claims=dice.choice([(), CLAIMS]),
                    sinks=dice.choice(["", "0"]),
                    isolated=dice.choice(["", "6-7", "0-3"]),
                    lease_s=60,
                )
            )


def _kill_at_a_random_point(settings, dice):
    child = os.fork()
    if child == 0:
        try:
            _move_until_killed(settings, dice)
        finally:
            os._exit(1)
    dice.random()  # the child has drawn from its copy
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.timeout(300)
def test_every_kill_at_a_random_point_is_followed_by_a_full_restore(machine, tmp_path, actuator_environment, capfd):
    settings = ActuatorSettings(
        host_sys_root=str(machine.root / "sys"),
        host_irq_root=str(machine.root / "irq"),
        state_dir=str(tmp_path / "journals"),
        actuator_socket=str(tmp_path / "socket"),
    )
    machine.put("irq/24/smp_affinity_list", "1-2")
    originals, dice, changed = machine.all, random.Random(1), 0
    for _ in range(KILLS):
        _kill_at_a_random_point(settings, dice)
        changed += machine.all != originals
        assert restore.main([], actuator_environment(settings)) == 0
        assert not journal.peek(Path(settings.state_dir) / "interrupts")
        assert machine.all == originals
        assert int(machine.default, 16) == 0xFF
    capfd.readouterr()
    assert changed > KILLS / 10
