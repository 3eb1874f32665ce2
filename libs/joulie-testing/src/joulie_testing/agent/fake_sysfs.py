"""A machine's /sys and /proc in a directory, built from a small specification.

Layout, names, modes and symbolic links are those of a real machine, for everything that the agent reads or writes:
powercap, cpufreq, the CPU topology, /proc/cpuinfo and /proc/meminfo. Files are ordinary, so another process may use the
tree as well. What ordinary files cannot do - fail a read or a write, or take a value and keep their own - is done by
the tree that `FakeMachine.tree()` gives, and only there.
"""

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree, read_failure, write_failure
from joulie_testing.agent.machine_files import CPU_ROOT, POWERCAP, UW_PER_WATT, MachineFiles
from joulie_testing.agent.machine_spec import Limit, MachineSpec, Zone

#: An eighth of a watt is the power unit of nearly all processors.
_POWER_UNIT_UW: Final = UW_PER_WATT // 8


@dataclass(frozen=True, slots=True)
class FileFault:
    """Departures of a file from an ordinary one."""

    read_errno: int = 0
    write_errno: int = 0
    #: Writes succeed and change nothing.
    holds: bool = False
    #: Writes are rounded down to a multiple of this.
    unit: int = 1


class FakeTree(SysfsTree):
    """A tree whose files answer as a kernel's would."""

    def __init__(self, root: Path, faults: Mapping[str, FileFault]) -> None:
        super().__init__(root)
        self._faults = faults

    def read_text(self, path: str) -> str | HardwareFailure:
        """Read, unless the file is to fail."""
        code = self._fault(path).read_errno
        return read_failure(path, OSError(code, os.strerror(code))) if code else super().read_text(path)

    def write_int(self, path: str, value: int) -> HardwareFailure | None:
        """Write, unless the file is to fail or to keep its value."""
        fault = self._fault(path)
        refused = self.probe_write(path)
        if refused or fault.holds:
            return refused
        if fault.write_errno:
            return write_failure(path, OSError(fault.write_errno, os.strerror(fault.write_errno)))
        return super().write_int(path, value // fault.unit * fault.unit)

    def _fault(self, path: str) -> FileFault:
        return self._faults.get(self.real(path), FileFault())


class FakeMachine:
    """A built machine: `sys` and `proc` are its roots."""

    def __init__(self, root: Path, spec: MachineSpec) -> None:
        self.spec = spec
        self.sys = root / "sys"
        self.proc = root / "proc"
        #: By real path below `sys`; may be changed at any time.
        self.faults: dict[str, FileFault] = {}
        self.sys.mkdir(parents=True)
        self.proc.mkdir()
        self._files = MachineFiles(self.sys, self.proc, spec)
        self._files.put_memory()
        self._files.put_cpus(spec.offline)
        self.load_rapl()

    def tree(self) -> FakeTree:
        """Return the tree, faults and all."""
        return FakeTree(self.sys, self.faults)

    def read(self, path: str) -> int:
        """Return the integer in a file, past all faults."""
        return int((self.sys / path).read_text(encoding="ascii").partition("\n")[0])

    def write(self, path: str, value: int | str) -> None:
        """Put a value in a file, past all faults, as an external writer or the hardware itself does."""
        fd = os.open(self.sys / path, os.O_WRONLY)
        try:
            os.write(fd, f"{value}\n".encode())
        finally:
            os.close(fd)

    def zones(self, kind: Zone = Zone.PACKAGE) -> tuple[str, ...]:
        """Return the real paths of the zones of a kind."""
        parent = "intel-rapl-mmio" if kind is Zone.MMIO else "intel-rapl"
        name = "package" if kind is Zone.MMIO else kind.value
        found = sorted((self.sys / POWERCAP / parent).rglob("name"))
        return tuple(
            str(each.parent.relative_to(self.sys))
            for each in found
            if each.read_text(encoding="ascii").startswith(name)
        )

    def limits(self) -> tuple[str, ...]:
        """Return the paths of the long-term limits of all package zones."""
        return tuple(f"{zone}/constraint_0_power_limit_uw" for zone in self.zones())

    def policy_limits(self) -> tuple[str, ...]:
        """Return the paths of the frequency limits of all policies."""
        found = (self.sys / CPU_ROOT / "cpufreq").glob("policy*/scaling_max_freq")
        return tuple(sorted(str(each.relative_to(self.sys)) for each in found))

    def consume(self, zone: str, joules: float) -> None:
        """Advance a zone's energy counter, which starts again at zero beyond its range."""
        path = f"{zone}/energy_uj"
        self.write(path, (self.read(path) + round(joules * 1e6)) % (self.spec.energy_range_uj + 1))

    def set_offline(self, *numbers: int) -> None:
        """Take these CPUs offline and bring all others online; policies that stay keep their limits."""
        limits = {path: self.read(path) for path in self.policy_limits()}
        self._files.put_cpus(frozenset(numbers))
        for path in self.policy_limits():
            self.write(path, limits.get(path, self.read(path)))

    def unload_rapl(self) -> None:
        """Take the powercap driver away."""
        self.faults.clear()
        shutil.rmtree(self.sys / POWERCAP, ignore_errors=True)
        shutil.rmtree(self.sys / "class/powercap", ignore_errors=True)

    def load_rapl(self) -> None:
        """Bring the powercap driver, with the firmware's own limits."""
        self.unload_rapl()
        self._files.put_powercap()
        for zone in self.zones():
            limit, enabled = _faults(self.spec.limit)
            self.faults |= {f"{zone}/constraint_0_power_limit_uw": limit, f"{zone}/enabled": enabled}


def build(root: Path, spec: MachineSpec) -> FakeMachine:
    """Build a machine in an empty directory."""
    return FakeMachine(root, spec)


def _faults(limit: Limit) -> tuple[FileFault, FileFault]:
    """Return how the long-term limit and `enabled` behave."""
    match limit:
        case Limit.LOCKED:
            return FileFault(write_errno=errno.ENODATA), FileFault(write_errno=errno.ENOSYS)
        case Limit.HELD:
            return FileFault(holds=True), FileFault()
        case Limit.UNREADABLE:
            return FileFault(read_errno=errno.ENODATA, write_errno=errno.ENODATA), FileFault(write_errno=errno.ENOSYS)
        case _:
            return FileFault(unit=_POWER_UNIT_UW), FileFault()
