"""What the doctor says of limits in force: whose they are, who answers for them, and which may be ours.

Promises to change nothing. Where a journal cannot tell which limits are ours, every limit below its maximum is named as
a suspect, with its path: whoever reads that knows what to look at, and to write where.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_agent.actuator.protocol import Subsystem
from joulie_agent.hardware import cpuinfo, journal, machine_lock
from joulie_agent.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo
from joulie_agent.hardware.journal import JournalError
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.hardware.machine_lock import MachineHeldError
from joulie_agent.hardware.rapl import UW_PER_WATT
from joulie_agent.hardware.sysfs import SysfsTree

_KHZ_PER_GHZ: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class InForce:
    """The journal of one subsystem, as the doctor reports it."""

    said: str
    #: Whether nothing of ours is in force, or somebody answers for what is.
    fine: bool
    #: False where it cannot be known which limits are ours.
    known: bool = True


def look(state_dir: Path, subsystem: Subsystem, *, answered_for: bool) -> InForce:
    """Look into a journal. `answered_for`: an actuator is there that keeps the leases of what is in force."""
    directory = state_dir / subsystem
    try:
        entries = journal.peek(directory)
    except JournalError as error:
        return InForce(str(error), fine=False, known=False)
    if not entries:
        return InForce(f"{directory}: nothing in charge", fine=True)
    said = f"{directory}: {len(entries)} limits in our charge"
    if answered_for:
        return InForce(said, fine=True)
    return InForce(f"{said} are in force and no actuator answers for them: run `joulie-agent restore`", fine=False)


def owner(state_dir: Path, sys_root: Path) -> InForce:
    """Say which process may set limits on this machine."""
    ours = any(journal.is_held(state_dir / subsystem) for subsystem in Subsystem)
    if ours:
        return InForce(f"a process holds {state_dir}", fine=True)
    try:
        lock = machine_lock.claim(sys_root, state_dir)
    except MachineHeldError as error:
        return InForce(str(error), fine=False)
    if lock is not None:
        os.close(lock)
    return InForce("no process", fine=True)


def cpu_suspects(tree: SysfsTree, proc_root: str) -> Iterator[str]:
    """Return a line for each limit of the CPUs that is below its maximum, or whose maximum is not known."""
    found = cpuinfo.discover(tree, proc_root)
    for zone in found.zones:
        if not isinstance(zone.power_limit, HardwareFailure):
            now = zone.power_limit.read()
            yield from _suspect(zone.power_limit.path, now, zone.max_power_uw, UW_PER_WATT, "W")
    for policy in found.policies:
        yield from _suspect(policy.max_freq.path, policy.max_freq.read(), policy.highest_khz, _KHZ_PER_GHZ, "GHz")


def gpu_suspects(devices: Sequence[GpuDeviceInfo]) -> Iterator[str]:
    """Return a line for each GPU whose power limit is below the one it comes up with, or is not known."""
    for info in devices:
        now = info.failure or info.current_mw
        if now is not None:
            yield from _suspect(f"gpu {info.index} {info.uuid}", now, info.default_mw or info.max_mw, MW_PER_WATT, "W")


def _suspect(place: str, now: int | HardwareFailure, most: int | None, per_unit: int, unit: str) -> Iterator[str]:
    if isinstance(now, HardwareFailure):
        yield f"{place}: cannot be read: {now.message or now.reason}"
    elif most is None:
        yield f"{place}: {now / per_unit:g} {unit}, the maximum is not known"
    elif now < most:
        yield f"{place}: {now / per_unit:g} {unit}, the maximum is {most / per_unit:g} {unit}"
