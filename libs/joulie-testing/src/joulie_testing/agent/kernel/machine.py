"""The machine: its files as system calls see them, what others do to it, and the truth behind both.

Every method may be called from any thread. Paths given to `open`, `entries`, `real` and `look_up` are absolute, as
`/sys/...` or `/proc/...`; those of all other methods are relative to /sys, as for a `SysfsTree`.
"""

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from joulie_testing.agent.kernel.behaviour import Behaviour
from joulie_testing.agent.kernel.cooling import Cooling
from joulie_testing.agent.kernel.cpufreq import NO_MAX, Cpufreq
from joulie_testing.agent.kernel.cpuidle import Cpuidle
from joulie_testing.agent.kernel.cpus import Cpus
from joulie_testing.agent.kernel.faults import KernelFault, KernelFaults
from joulie_testing.agent.kernel.filesystem import Attribute, Filesystem, Node
from joulie_testing.agent.kernel.platform import KHZ_PER_RATIO, UW_PER_MW, Hsmp, Uncore
from joulie_testing.agent.kernel.power import PowerModel
from joulie_testing.agent.kernel.powercap import Powercap
from joulie_testing.agent.machine_spec import MachineSpec, Zone

_PAGE: Final = 4096
_MOST_SENSORS: Final = 4


class KernelMachine:
    """A machine built from a specification."""

    def __init__(
        self,
        spec: MachineSpec,
        behaviour: Behaviour | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.spec = spec
        self.behaviour = behaviour = behaviour or Behaviour()
        self.faults = KernelFaults(sleep)
        self._clock = clock
        self._advanced_at = clock()
        self._lock = threading.RLock()
        self._fs = Filesystem()
        self._handles: dict[int, tuple[str, Attribute]] = {}
        self._next_handle = itertools.count(1)
        self.cpus = Cpus(self._fs, spec, self._follow_hotplug)
        self._places = self.cpus.packages()
        self.powercap = Powercap(self._fs, spec, behaviour)
        self.power = PowerModel(spec, behaviour, self.cpus, self.powercap)
        self.cpufreq = Cpufreq(self._fs, spec, behaviour, self.cpus, self.power.current_khz)
        self.hsmp = Hsmp(self._fs, spec, self.power.package_watts)
        self.power.cpufreq, self.power.hsmp = self.cpufreq, self.hsmp
        self.uncore = Uncore(self._fs, spec)
        self.cpuidle = Cpuidle(self._fs, spec)
        self.cooling = Cooling(self._fs, self.cpus, self.cpufreq)

    # --- system calls ---

    def open(self, path: str, flags: int) -> int:
        """Open an attribute."""
        with self._lock:
            self.faults.on_open(self._fs.real(path.strip("/")))
            opened = self._fs.open(path.strip("/"), flags)
            handle = next(self._next_handle)
            self._handles[handle] = opened
            return handle

    def read(self, handle: int) -> bytes:
        """Read an attribute as a whole."""
        path, node = self._handles[handle]
        self.faults.on_read(path)
        return self._show(path, node)

    def write(self, handle: int, content: bytes) -> None:
        """Write an attribute in one call."""
        path, node = self._handles[handle]
        if self.faults.on_write(path):
            self._store(path, node, content)

    def close(self, handle: int) -> None:
        """Forget a handle."""
        del self._handles[handle]

    def entries(self, path: str) -> list[str]:
        """Return the names in a directory."""
        with self._lock:
            return self._fs.entries(path.strip("/"))

    def real(self, path: str) -> str:
        """Return a path without symbolic links."""
        with self._lock:
            return "/" + self._fs.real(path.strip("/"))

    def look_up(self, path: str) -> Node:
        """Return what is at a path, without following a link at its end."""
        with self._lock:
            return self._fs.find(path.strip("/"), follow=False)[1]

    # --- what others do; past all faults ---

    def external_read(self, path: str) -> str:
        """Read as another process."""
        with self._lock:
            return self._show(*self._fs.open(f"sys/{path}", os.O_RDONLY)).decode().strip()

    def external_write(self, path: str, value: int | str) -> None:
        """Write as another process, without knowledge of Joulie: `echo VALUE > PATH`."""
        with self._lock:
            self._store(*self._fs.open(f"sys/{path}", os.O_WRONLY), f"{value}\n".encode())

    def set_platform_limit(self, policy: str, khz: int | None) -> None:
        """Let firmware limit a policy, as ACPI `_PPC` does; None lifts the limit."""
        with self._lock:
            self._advance()
            self.cpufreq.policies[policy].platform_max = NO_MAX if khz is None else khz

    def set_thermal_state(self, subject: int | str, state: int) -> None:
        """Cool a package, or a policy by its name where devices are per policy; 0 ends it."""
        with self._lock:
            self._advance()
            self.cooling.set_state(subject, state)

    def set_online(self, *cpus: int, online: bool = True) -> None:
        """Start CPUs, or stop them."""
        with self._lock:
            self._advance()
            for cpu in cpus:
                self.cpus.set_online(cpu, online=online)

    def renumber_zones(self, seed: int | None = None, order: Sequence[str] = ()) -> None:
        """Load the drivers anew, in another order: zones and sensors get other numbers, registers keep their values."""
        with self._lock:
            names = [zone.name for zone in self.powercap.hardware]
            if seed is not None:
                random.Random(seed).shuffle(names)  # noqa: S311 - repeatable, not secret
            self.powercap.register_all(order or names)
            self.hsmp.register_all(first=1 if seed is None else seed % _MOST_SENSORS)

    def remove_zone(self, name: str) -> None:
        """Let a zone vanish."""
        with self._lock:
            self.powercap.unregister(self.powercap.zone(name))

    def return_zone(self, name: str) -> None:
        """Let a zone that has vanished return, under the lowest free number."""
        with self._lock:
            self.powercap.register(self.powercap.zone(name))

    def clamp_zone(self, name: str, low_uw: int, high_uw: int) -> None:
        """Let firmware clamp the long-term limit from now on, whatever is written."""
        with self._lock:
            if register := self.powercap.zone(name).long_term():
                register.clamp_uw = (low_uw, high_uw)

    def reset_energy(self, name: str, energy_uj: int = 0) -> None:
        """Set the counter of a zone."""
        with self._lock:
            self._advance()
            self.powercap.zone(name).energy_uj = energy_uj

    def set_load(self, package: int, share: float) -> None:
        """Say how busy a package is, from 0 to 1."""
        with self._lock:
            self._advance()
            self.power.load[package] = share

    def set_fault(self, path: str, fault: KernelFault | None) -> None:
        """Let a file fail from now on; None ends it. A path that is a link stands for where it leads."""
        with self._lock:
            real = self._fs.real(f"sys/{path}")
        self.faults.put(real, fault)

    def clear_faults(self) -> None:
        """End all faults, and release the callers that hang."""
        self.faults.clear()

    def reboot(self, order: Sequence[str] = ()) -> None:
        """Boot: no requests, firmware's limits, the CPUs of the specification, zones in an order."""
        with self._lock:
            for cpu in self.cpus.present:
                self.cpus.set_online(cpu, online=cpu not in self.spec.offline)
            for part in (self.powercap, self.cpufreq, self.hsmp, self.uncore, self.cpuidle, self.cooling):
                part.reset()
            self.powercap.register_all(order)

    # --- the truth, for assertions ---

    def hung_accesses(self) -> int:
        """Return how many accesses wait for a fault to be taken away."""
        return self.faults.hung

    def user_request_khz(self, policy: str) -> int:
        """Return the user's request of a policy; a request of nothing is its highest frequency."""
        with self._lock:
            found = self.cpufreq.policies[policy]
            return min(found.user_max, found.highest)

    def registers(self) -> dict[str, int]:
        """Return what writers have put, by `policyN`, `ZONE/CONSTRAINT`, `ZONE/enabled`, `hsmp/N` and `uncore/P-D`."""
        with self._lock:
            values = {name: self.user_request_khz(name) for name in self.cpufreq.policies}
            for zone in self.powercap.hardware:
                prefix = f"{zone.name}-mmio" if zone.kind is Zone.MMIO else zone.name
                values |= {f"{prefix}/{register.name}": register.limit_uw for register in zone.registers}
                values[f"{prefix}/enabled"] = int(zone.enabled)
            values |= {f"uncore/{die.package}-{die.die}": die.high * KHZ_PER_RATIO for die in self.uncore.dies}
            values |= {f"hsmp/{socket.number}": socket.cap_mw * UW_PER_MW for socket in self.hsmp.sockets}
            return values

    def class_controls(self) -> dict[str, int | str]:
        """Return what writers have put beside `registers`: `policyN/min`, `/governor`, `/epp`, and `cpuN/STATE`.

        The preference is the one that returns after governor `performance`, where that forces another.
        """
        with self._lock:
            values: dict[str, int | str] = {}
            for name, policy in self.cpufreq.policies.items():
                values[f"{name}/min"] = max(policy.user_min, policy.lowest)
                values[f"{name}/governor"] = policy.governor
                values[f"{name}/epp"] = policy.epp if policy.saved_epp is None else policy.saved_epp
            values |= {f"cpu{state.cpu}/{state.name}": int(state.disabled) for state in self.cpuidle.states}
            return values | {f"uncore/{die.package}-{die.die}/min": die.low * KHZ_PER_RATIO for die in self.uncore.dies}

    def zone_path(self, name: str) -> str:
        """Return where a registered zone is, relative to /sys."""
        with self._lock:
            found = (path for path, zone in self.powercap.zones() if zone.name == name and zone.kind is not Zone.MMIO)
            return next(found).removeprefix("sys/")

    def limit_path(self, name: str) -> str:
        """Return the path of a zone's long-term limit."""
        return f"{self.zone_path(name)}/constraint_0_power_limit_uw"

    def package_watts(self, package: int) -> float:
        """Return the draw of a package at this moment."""
        with self._lock:
            return self.power.package_watts(package)

    def write_proc(self, directory: Path) -> None:
        """Write /proc/cpuinfo and /proc/meminfo as ordinary files, for readers that are not below a tree."""
        with self._lock:
            for name in ("cpuinfo", "meminfo"):
                node = self._fs.find(f"proc/{name}")[1]
                assert isinstance(node, Attribute)
                (directory / name).write_text(f"{node.show()}\n", encoding="ascii")

    # --- inside ---

    def _show(self, path: str, node: Attribute) -> bytes:
        with self._lock:
            self._fs.check(path, node)
            self._advance()
            return f"{node.show()}\n".encode()

    def _store(self, path: str, node: Attribute, content: bytes) -> None:
        with self._lock:
            self._fs.check(path, node)
            self._advance()
            assert node.store is not None, "opening for writing has checked this"
            node.store(content[:_PAGE].decode("ascii", errors="replace"))

    def _advance(self) -> None:
        now = self._clock()
        if now > self._advanced_at:
            self.power.advance(now - self._advanced_at)
            self._advanced_at = now

    def _follow_hotplug(self) -> None:
        before, self._places = self._places, self.cpus.packages()
        self.cpufreq.follow_hotplug()
        self.powercap.follow_hotplug(before, self._places)
