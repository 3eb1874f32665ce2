"""CPUs that are present, those that are online, and where each is.

An offline CPU keeps its directory and loses its topology. The first CPU has no `online` file: x86 cannot take it away.
Source: Linux, Documentation/core-api/cpu_hotplug.rst, drivers/base/cpu.c and topology.c.
"""

import errno
from collections.abc import Callable
from typing import Final

from joulie_testing.agent.kernel import parse
from joulie_testing.agent.kernel.filesystem import WRITABLE, Filesystem
from joulie_testing.agent.machine_spec import Cpu, MachineSpec

CPU_ROOT: Final = "sys/devices/system/cpu"
_KB: Final = 1024


class Cpus:
    """CPUs that are present, and those that run; `on_change` is called after each change."""

    def __init__(self, fs: Filesystem, spec: MachineSpec, on_change: Callable[[], None]) -> None:
        self._fs = fs
        self._spec = spec
        self._on_change = on_change
        self.present: dict[int, Cpu] = {cpu.number: cpu for cpu in spec.cpus()}
        self.online: set[int] = set(self.present) - spec.offline
        self._lay_out()

    def packages(self) -> frozenset[tuple[int, int]]:
        """Return the packages and dies that have an online CPU."""
        return frozenset((self.present[number].package, self.present[number].die) for number in self.online)

    def set_online(self, number: int, *, online: bool) -> None:
        """Start or stop a CPU; the first one and the last one that runs cannot be stopped."""
        if number not in self.present:
            raise OSError(errno.ENODEV, "No such device")
        if not online and (number == 0 or self.online == {number}):
            raise OSError(errno.EBUSY, "Device or resource busy")
        if online == (number in self.online):
            return
        self.online ^= {number}
        self._place_all()
        self._on_change()

    def _lay_out(self) -> None:
        fs = self._fs
        fs.put(f"{CPU_ROOT}/online", lambda: parse.cpu_list(self.online))
        fs.put(f"{CPU_ROOT}/offline", lambda: parse.cpu_list(set(self.present) - self.online))
        fs.put(f"{CPU_ROOT}/present", f"0-{len(self.present) - 1}")
        fs.put(f"{CPU_ROOT}/possible", f"0-{len(self.present) - 1}")
        for number in self.present:
            fs.put(f"{CPU_ROOT}/cpu{number}/uevent", "", mode=WRITABLE)
            if number:
                self._put_switch(number)
            if self._spec.nominal_mhz is not None:
                fs.put(f"{CPU_ROOT}/cpu{number}/acpi_cppc/nominal_freq", self._spec.nominal_mhz)
        if self._spec.efficiency_cores:
            fs.put("sys/devices/cpu_core/cpus", lambda: self._of_kind(efficient=False))
            fs.put("sys/devices/cpu_atom/cpus", lambda: self._of_kind(efficient=True))
        fs.put("proc/cpuinfo", self._cpuinfo)
        fs.put("proc/meminfo", f"MemTotal:       {self._spec.memory_bytes // _KB} kB")
        self._place_all()

    def _put_switch(self, number: int) -> None:
        def store(text: str) -> None:
            self.set_online(number, online=parse.flag(text))

        self._fs.put(f"{CPU_ROOT}/cpu{number}/online", lambda: int(number in self.online), store)

    def _place_all(self) -> None:
        for number, cpu in self.present.items():
            directory = f"{CPU_ROOT}/cpu{number}/topology"
            if number not in self.online:
                self._fs.remove(directory)
                continue
            self._fs.put(f"{directory}/physical_package_id", cpu.package)
            self._fs.put(f"{directory}/die_id", cpu.die)
            self._fs.put(f"{directory}/core_id", cpu.core)
            for name in ("core_cpus_list", "thread_siblings_list"):
                self._fs.put(f"{directory}/{name}", lambda cpu=cpu: parse.cpu_list(self._siblings(cpu)))

    def _siblings(self, cpu: Cpu) -> set[int]:
        return {n for n in self.online if self.present[n].core_id == cpu.core_id}

    def _of_kind(self, *, efficient: bool) -> str:
        return parse.cpu_list({n for n in self.online if self.present[n].efficient == efficient})

    def _cpuinfo(self) -> str:
        spec = self._spec
        blocks = []
        for number in sorted(self.online):
            cpu = self.present[number]
            fields = {
                "processor": number,
                "vendor_id": spec.vendor,
                "cpu family": spec.family,
                "model": spec.model,
                "model name": spec.model_name,
                "physical id": cpu.package,
                "core id": cpu.core,
                "cpu cores": spec.dies * (spec.cores + spec.efficiency_cores),
            }
            blocks.append("".join(f"{name}\t: {value}\n" for name, value in fields.items()))
        return "\n".join(blocks)
