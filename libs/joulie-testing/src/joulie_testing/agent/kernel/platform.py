"""Controls beside powercap and cpufreq: AMD's socket power limit by HSMP, and Intel's uncore frequency limits.

HSMP: one hwmon directory per socket, named `amd_hsmp_hwmon`, in microwatts; the firmware holds milliwatts and keeps a
limit within its range. hwmon numbers are given in the order of registration and shared with all other sensors.
Uncore: limits per die in multiples of 100 MHz; a value that is no positive ratio is refused.
Source: Linux, drivers/platform/x86/amd/hsmp/hwmon.c and Documentation/arch/x86/amd_hsmp.rst;
drivers/platform/x86/intel/uncore-frequency; Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.cpus import CPU_ROOT
from joulie_testing.agent.kernel.filesystem import Filesystem
from joulie_testing.agent.machine_spec import MachineSpec

UW_PER_MW: Final = 1000
KHZ_PER_RATIO: Final = 100_000
_MW_PER_WATT: Final = 1000
_UW_PER_WATT: Final = 1_000_000
_LARGEST_RATIO: Final = 0x7F
_CLASS: Final = "sys/class/hwmon"


@dataclass(slots=True, eq=False)
class Socket:
    """The limit that a socket's firmware holds."""

    number: int
    cap_mw: int
    max_mw: int
    min_mw: int = 0


class Hsmp:
    """All sockets with HSMP."""

    def __init__(self, fs: Filesystem, spec: MachineSpec, package_watts: Callable[[int], float]) -> None:
        self._fs = fs
        self._package_watts = package_watts
        self.sockets: tuple[Socket, ...] = ()
        if spec.hsmp_max_watts is not None:
            most = round(spec.hsmp_max_watts * _MW_PER_WATT)
            self.sockets = tuple(Socket(number, most, most) for number in range(spec.sockets))
            self.register_all(first=1)

    def register_all(self, first: int) -> None:
        """Renumber the devices, after `first` sensors of others."""
        if not self.sockets:
            return
        self._fs.remove(_CLASS)
        for number in range(first):
            directory = f"sys/devices/pci0000:00/0000:00:18.{number}/hwmon/hwmon{number}"
            self._fs.put(f"{directory}/name", "k10temp")
            self._fs.link(f"{_CLASS}/hwmon{number}", directory)
        for socket in self.sockets:
            self._put(socket, first + socket.number)

    def reset(self) -> None:
        """Start as after a boot."""
        for socket in self.sockets:
            socket.cap_mw = socket.max_mw

    def _put(self, socket: Socket, number: int) -> None:
        device = f"sys/devices/platform/AMDI0097:{socket.number:02}"
        self._fs.remove(f"{device}/hwmon")
        directory = f"{device}/hwmon/hwmon{number}"

        def store(text: str) -> None:
            wanted = parse.decimal(text) // UW_PER_MW
            socket.cap_mw = min(max(wanted, socket.min_mw), socket.max_mw)

        self._fs.put(f"{device}/firmware_node/uid", f"ID{socket.number:02}")
        self._fs.put(f"{directory}/name", "amd_hsmp_hwmon")
        self._fs.put(f"{directory}/power1_input", lambda: round(self._package_watts(socket.number) * _UW_PER_WATT))
        self._fs.put(f"{directory}/power1_cap_max", lambda: socket.max_mw * UW_PER_MW)
        self._fs.put(f"{directory}/power1_cap", lambda: socket.cap_mw * UW_PER_MW, store)
        self._fs.link(f"{directory}/device", device)
        self._fs.link(f"{_CLASS}/hwmon{number}", directory)


@dataclass(slots=True, eq=False)
class UncoreDie:
    """The limits of one die, in multiples of 100 MHz."""

    package: int
    die: int
    low: int
    high: int


class Uncore:
    """All dies with uncore limits."""

    def __init__(self, fs: Filesystem, spec: MachineSpec) -> None:
        self.dies: tuple[UncoreDie, ...] = ()
        if spec.uncore_khz is None:
            return
        low, high = (khz // KHZ_PER_RATIO for khz in spec.uncore_khz)
        self._range = low, high
        self.dies = tuple(UncoreDie(p, d, low, high) for p in range(spec.sockets) for d in range(spec.dies))
        for die in self.dies:
            self._put(fs, die)

    def reset(self) -> None:
        """Start as after a boot."""
        for die in self.dies:
            die.low, die.high = self._range

    def _put(self, fs: Filesystem, die: UncoreDie) -> None:
        directory = f"{CPU_ROOT}/intel_uncore_frequency/package_{die.package:02}_die_{die.die:02}"
        low, high = self._range

        def store_high(text: str) -> None:
            die.high = _ratio(text)

        def store_low(text: str) -> None:
            die.low = _ratio(text)

        fs.put(f"{directory}/initial_min_freq_khz", low * KHZ_PER_RATIO)
        fs.put(f"{directory}/initial_max_freq_khz", high * KHZ_PER_RATIO)
        fs.put(f"{directory}/min_freq_khz", lambda: die.low * KHZ_PER_RATIO, store_low)
        fs.put(f"{directory}/max_freq_khz", lambda: die.high * KHZ_PER_RATIO, store_high)
        fs.put(f"{directory}/current_freq_khz", lambda: die.high * KHZ_PER_RATIO)


def _ratio(text: str) -> int:
    ratio = parse.decimal(text, bits=32) // KHZ_PER_RATIO
    if not 0 < ratio <= _LARGEST_RATIO:
        raise OSError(errno.EINVAL, "Invalid argument")
    return ratio
