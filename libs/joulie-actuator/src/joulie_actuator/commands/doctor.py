"""The command `doctor`: what on this machine can be measured and controlled, what cannot, and why.

Changes nothing: it reads, through an actuator where one runs. Exit code 1 where a limit is or may be managed that no
actuator manages, or where that is unknown; 0 otherwise, since what a machine lacks is no failure.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from joulie_actuator import blocking_client
from joulie_actuator.commands import journal_report
from joulie_actuator.commands.journal_report import Finding
from joulie_actuator.cpu_class_protocol import ClassAbilities
from joulie_actuator.cpus import CpuHandler
from joulie_actuator.deadlines import COMMAND_S
from joulie_actuator.gpus import GpuHandler
from joulie_actuator.hardware.cpuinfo import HostFacts
from joulie_actuator.hardware.gpu.device_calls import PATIENT_OPEN_WAIT_S
from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDeviceInfo
from joulie_actuator.hardware.gpu.host import host_gpu_drivers
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.process import start_settings
from joulie_actuator.protocol import DescribeCpu, DescribeGpu, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuDescription, GpuDescription
from joulie_actuator.settings import ActuatorSettings

SUMMARY: Final = "Shows what on this machine can be measured and controlled, what cannot, and why. Changes nothing."
_GIB: Final = 1024**3
_KHZ_PER_GHZ: Final = 1_000_000
_WORKS, _BLOCKED, _ABSENT, _UNKNOWN = "works", "blocked", "absent", "unknown"
_READ_ONLY: Final = HardwareFailure(Reason.NO_JOURNAL, "read only")

#: Subject, state and details.
_Row = tuple[str, str, str]


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Print the report; return the exit code."""
    settings = start_settings("doctor", SUMMARY, arguments, os.environ if env is None else env)
    if isinstance(settings, int):
        return settings
    actuator = blocking_client.request(settings.actuator_socket, DescribeCpu(), COMMAND_S)
    cpu, gpu = (actuator, blocking_client.request(settings.actuator_socket, DescribeGpu(), COMMAND_S))
    directly = not (isinstance(cpu, CpuDescription) and isinstance(gpu, GpuDescription))
    if not isinstance(cpu, CpuDescription) or not isinstance(gpu, GpuDescription):
        cpu, gpu = _read_directly(settings)
    who = f"uid {os.geteuid()}" if directly else "the actuator"
    journals = {
        subsystem: journal_report.check_journal(Path(settings.state_dir), subsystem, actuator_runs=not directly)
        for subsystem in Subsystem
    }
    holder = journal_report.check_holder(Path(settings.state_dir), Path(settings.host_sys_root))
    rows = [
        ("actuator", *_actuator(actuator)),
        ("machine held by", _WORKS if holder.ok else _BLOCKED, holder.message),
        *_cpu_rows(cpu),
        *_gpu_rows(gpu),
        *(("journal", _WORKS if journal.ok else _BLOCKED, journal.message) for journal in journals.values()),
        *(("suspect", _UNKNOWN, line) for line in _suspects(settings, journals, gpu)),
    ]
    sys.stdout.write(f"hardware below {settings.host_sys_root}, read by {who}\n\n")
    width = max(len(subject) for subject, _, _ in rows)
    sys.stdout.writelines(
        f"{subject:<{width}}  {state:<7}  {details}".rstrip() + "\n" for subject, state, details in rows
    )
    sys.stdout.writelines(f"\nnote: {warning}\n" for warning in cpu.facts.warnings)
    return 0 if holder.ok and all(journal.ok for journal in journals.values()) else 1


def _read_directly(settings: ActuatorSettings) -> tuple[CpuDescription, GpuDescription]:
    """Read with the permissions of this process."""
    cpus = CpuHandler(
        tree=SysfsTree(settings.host_sys_root),
        proc_root=settings.host_proc_root,
        writer=_READ_ONLY,
        min_freq_khz=settings.dvfs_min_freq_khz,
        clock=time.monotonic,
    )
    gpus = GpuHandler(
        drivers=host_gpu_drivers(settings.host_sys_root, open_wait_s=PATIENT_OPEN_WAIT_S),
        writer=_READ_ONLY,
        clock=time.monotonic,
    )
    cpu, gpu = cpus.execute(DescribeCpu()), gpus.execute(DescribeGpu())
    assert isinstance(cpu, CpuDescription)
    assert isinstance(gpu, GpuDescription)
    return cpu, gpu


def _actuator(answer: object) -> tuple[str, str]:
    if not isinstance(answer, HardwareFailure):
        return _WORKS, "answers"
    return (_ABSENT if answer.reason is Reason.NO_HOST_INTERFACE else _BLOCKED), answer.message


def _cpu_rows(cpu: CpuDescription) -> Iterator[_Row]:
    facts = cpu.facts
    cores = f"{facts.packages} packages, {facts.cores} cores, {facts.threads} threads"
    memory = f", {facts.memory_bytes / _GIB:.0f} GiB of memory" if facts.memory_bytes else ""
    yield "cpu", _WORKS if facts.cores else _BLOCKED, f"{facts.identity.model_name or 'unknown model'}: {cores}{memory}"
    yield "cpu power reading", *_state(cpu.reading, ", ".join(facts.zones))
    yield "cpu power cap", *_state(cpu.capping, _cap_range(facts))
    yield "cpu throttle", *_state(cpu.throttling, _frequencies(facts))
    yield from _class_rows(cpu.class_controls)


def _class_rows(can: ClassAbilities) -> Iterator[_Row]:
    """Return a row for each kind of control of CPU classes."""
    base = "min, base and turbo" if can.base_frequency else "min and turbo; the base frequency is not known"
    yield "class frequencies", *_offered(can.frequencies, base)
    yield "class preferences", *_offered(bool(can.preferences), ", ".join(can.preferences))
    yield "class governors", *_offered(bool(can.governors), ", ".join(can.governors))
    if can.idle_states and not can.idle_states_permitted:
        yield "class idle states", _BLOCKED, f"{Reason.NOT_PERMITTED}: needs the capability SYS_ADMIN"
    else:
        yield "class idle states", *_offered(bool(can.idle_states), ", ".join(can.idle_states))
    yield "class uncore", *_offered(can.uncore, "")


def _offered(there: bool, values: str) -> tuple[str, str]:  # noqa: FBT001 - the state of a row
    return (_WORKS, values) if there else (_ABSENT, "")


def _gpu_rows(gpu: GpuDescription) -> Iterator[_Row]:
    for name, failure in gpu.failures.items():
        yield name, _ABSENT if failure.reason is Reason.NO_INTERFACE else _BLOCKED, failure.message
    for info in gpu.devices:
        yield f"gpu {info.index}", *_state(info.failure, _device(info))


def _state(failure: HardwareFailure | None, details: str) -> tuple[str, str]:
    if failure is None:
        return _WORKS, details
    return _BLOCKED, f"{failure.reason}: {failure.message}"


def _cap_range(facts: HostFacts) -> str:
    if facts.min_package_watts is None or facts.max_package_watts is None:
        return "unknown range"
    return f"{facts.min_package_watts:g} to {facts.max_package_watts:g} W per package"


def _frequencies(facts: HostFacts) -> str:
    if facts.lowest_khz is None or facts.highest_khz is None:
        return f"{facts.policies} policies, {facts.driver_family}"
    low, high = facts.lowest_khz / _KHZ_PER_GHZ, facts.highest_khz / _KHZ_PER_GHZ
    return f"{facts.policies} policies, {low:.1f} to {high:.1f} GHz, driver {facts.driver_family}"


def _device(info: GpuDeviceInfo) -> str:
    limits = info.limits
    power = "no power limit" if limits is None else f"{limits.low / MW_PER_WATT:g} to {limits.high / MW_PER_WATT:g} W"
    now = f", now {info.current_mw / MW_PER_WATT:g} W" if info.current_mw else ""
    return f"{info.model} {info.uuid}: {power}{now}"


def _suspects(settings: ActuatorSettings, journals: Mapping[Subsystem, Finding], gpu: GpuDescription) -> Iterator[str]:
    if not journals[Subsystem.CPU].known:
        yield from journal_report.cpu_suspects(SysfsTree(settings.host_sys_root), settings.host_proc_root)
    if not journals[Subsystem.GPU].known:
        yield from journal_report.gpu_suspects(gpu.devices)
