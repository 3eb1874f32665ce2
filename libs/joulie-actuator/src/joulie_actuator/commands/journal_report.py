"""The part of the doctor's report that is about managed limits: how many, who manages them, and which may be managed.

Changes nothing. Where a journal cannot be read, every limit below its maximum is listed as a suspect, with its path and
both values, so that it can be checked and corrected by hand.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_actuator.hardware import cpuinfo, journal, machine_lock
from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo
from joulie_actuator.hardware.journal_file import JournalError
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.machine_lock import MachineHeldError
from joulie_actuator.hardware.rapl import UW_PER_WATT
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.program import command
from joulie_actuator.protocol import Subsystem

_KHZ_PER_GHZ: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    message: str
    #: Whether nothing has to be done.
    ok: bool
    #: False where it is unknown which limits are managed.
    known: bool = True


def check_journal(state_dir: Path, subsystem: Subsystem, *, actuator_runs: bool) -> Finding:
    """Read a journal. `actuator_runs`: an actuator answers, and so enforces the leases of managed limits."""
    directory = state_dir / subsystem
    try:
        entries = journal.peek(directory)
    except JournalError as error:
        return Finding(str(error), ok=False, known=False)
    if not entries:
        return Finding(f"{directory}: 0 limits managed", ok=True)
    message = f"{directory}: {len(entries)} limits managed"
    if actuator_runs:
        return Finding(message, ok=True)
    return Finding(f"{message} and no actuator runs: run `{command('restore')}`", ok=False)


def check_holder(state_dir: Path, sys_root: Path) -> Finding:
    """Return which process may set limits on this machine."""
    if any(journal.is_held(state_dir / subsystem) for subsystem in Subsystem):
        return Finding(f"a process holds {state_dir}", ok=True)
    try:
        lock = machine_lock.claim(sys_root, state_dir)
    except MachineHeldError as error:
        return Finding(str(error), ok=False)
    if lock is not None:
        os.close(lock)
    return Finding("no process", ok=True)


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
