"""Thermal cooling devices that make a frequency request.

ACPI has one device of type `Processor` per CPU; its states hold for the whole package, each of the first three takes
20% of the highest frequency away, and those beyond throttle the clock, which no file of cpufreq shows. Other machines
have `cpufreq-cpuN`, one per policy, which steps through its frequencies. A device of ACPI and its CPU both link to the
processor's node in firmware.
Source: Linux, drivers/acpi/processor_thermal.c, drivers/thermal/cpufreq_cooling.c,
Documentation/driver-api/thermal/sysfs-api.rst.
"""

import errno
from collections.abc import Callable, Iterable
from typing import Final

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.cpufreq import NO_MAX, Cpufreq, CpufreqPolicy
from joulie_testing.agent.kernel.cpus import CPU_ROOT, Cpus
from joulie_testing.agent.kernel.filesystem import Filesystem

_DEVICES: Final = "sys/devices/virtual/thermal"
_CLASS: Final = "sys/class/thermal"
_FIRMWARE: Final = "sys/devices/LNXSYSTM:00/LNXSYBUS:00"
_FREQUENCY_STATES: Final = 3
_CLOCK_STATES: Final = 7
_STEP_PCT: Final = 20
#: Steps of a policy without a table.
_EVEN_STEPS: Final = 10


class Cooling:
    """All cooling devices of the CPUs."""

    def __init__(self, fs: Filesystem, cpus: Cpus, cpufreq: Cpufreq) -> None:
        self._fs = fs
        self._policies = tuple(cpufreq.policies.values())
        #: State by package, or by policy where devices are per policy.
        self._states: dict[int | str, int] = {}
        if not self._policies:
            return
        if cpufreq.driver.cools_by_policy:
            for number, policy in enumerate(self._policies):
                self._put(number, f"cpufreq-cpu{policy.related[0]}", policy.name, _EVEN_STEPS)
        else:
            for number, cpu in cpus.present.items():
                self._put(number, "Processor", cpu.package, _FREQUENCY_STATES + _CLOCK_STATES)
                self._tie(number)

    def state(self, subject: int | str) -> int:
        """Return the state of a package or a policy."""
        return self._states.get(subject, 0)

    def set_state(self, subject: int | str, state: int) -> None:
        """Cool a package (or a policy, by name) as the thermal framework does; 0 ends it."""
        self._states[subject] = state
        request: Callable[[CpufreqPolicy, int], int] = _by_level if isinstance(subject, str) else _by_share
        for policy in self._of(subject):
            policy.thermal_max = request(policy, state)

    def reset(self) -> None:
        """Start as after a boot."""
        self._states.clear()

    def _put(self, number: int, kind: str, subject: int | str, highest: int) -> None:
        def store(text: str) -> None:
            state = parse.unsigned(text)
            if state > highest:
                raise OSError(errno.EINVAL, "Invalid argument")
            self.set_state(subject, state)

        directory = f"{_DEVICES}/cooling_device{number}"
        self._fs.put(f"{directory}/type", kind)
        self._fs.put(f"{directory}/max_state", highest)
        self._fs.put(f"{directory}/cur_state", lambda: self.state(subject), store)
        self._fs.link(f"{_CLASS}/cooling_device{number}", directory)

    def _tie(self, number: int) -> None:
        """Link a device and its CPU by the processor's node in firmware, as ACPI does."""
        node = f"{_FIRMWARE}/ACPI0007:{number:02x}"
        self._fs.put(f"{node}/hid", "ACPI0007")
        self._fs.link(f"{node}/physical_node", f"{CPU_ROOT}/cpu{number}")
        self._fs.link(f"{node}/thermal_cooling", f"{_DEVICES}/cooling_device{number}")
        self._fs.link(f"{CPU_ROOT}/cpu{number}/firmware_node", node)
        self._fs.link(f"{_DEVICES}/cooling_device{number}/device", node)

    def _of(self, subject: int | str) -> Iterable[CpufreqPolicy]:
        if isinstance(subject, str):
            return [policy for policy in self._policies if policy.name == subject]
        return [policy for policy in self._policies if subject in policy.packages]


def _by_share(policy: CpufreqPolicy, state: int) -> int:
    taken = min(state, _FREQUENCY_STATES) * _STEP_PCT
    return policy.highest * (100 - taken) // 100 if taken else NO_MAX


def _by_level(policy: CpufreqPolicy, state: int) -> int:
    if not state:
        return NO_MAX
    return policy.highest - (policy.highest - policy.lowest) * state // _EVEN_STEPS
