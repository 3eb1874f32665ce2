"""Package, die and core of each CPU. Offline CPUs have no core: the kernel does not show it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree, parse_cpu_list
from joulie_core.control.throttle_plan import CpuCore

CPU_ROOT: Final = "devices/system/cpu"
_CPU: Final = re.compile(r"cpu\d+")
#: Performance and efficiency cores of Intel's hybrid processors.
_KINDS: Final = ("cpu_core", "cpu_atom")


@dataclass(frozen=True, slots=True)
class Topology:
    """The online CPUs of a machine.

    A core is named by its lowest online CPU, since `core_id` repeats over dies and clusters. Its kind is the name of
    the kernel's device for cores of that kind, empty where there is one kind only.
    """

    #: The physical core of each online CPU.
    core_of: Mapping[int, CpuCore]
    #: CPUs that are present and offline.
    offline: tuple[int, ...] = ()
    #: Whether there are cores of two kinds.
    hybrid: bool = False

    @property
    def packages(self) -> int:
        """The number of packages with an online CPU."""
        return len({core.package for core in self.core_of.values()})

    @property
    def cores(self) -> int:
        """The number of physical cores with an online CPU."""
        return len(set(self.core_of.values()))


def read_topology(tree: SysfsTree) -> Topology:
    """Read the topology; empty where the tree has none."""
    online, present = _cpus(tree, f"{CPU_ROOT}/online"), _cpus(tree, f"{CPU_ROOT}/present")
    numbers = online or tuple(int(name.removeprefix("cpu")) for name in tree.names(CPU_ROOT, _CPU))
    kinds = {kind: _cpus(tree, f"devices/{kind}/cpus") for kind in _KINDS}
    hybrid = all(kinds.values())
    kind_of = {cpu: kind for kind, cpus in kinds.items() for cpu in cpus} if hybrid else {}
    core_of = {cpu: core for cpu in numbers if (core := _core(tree, cpu, kind_of.get(cpu, "")))}
    return Topology(
        core_of=core_of,
        offline=tuple(cpu for cpu in present if cpu not in numbers),
        hybrid=hybrid,
    )


def _cpus(tree: SysfsTree, path: str) -> tuple[int, ...]:
    text = tree.read_text(path)
    return () if isinstance(text, HardwareFailure) else parse_cpu_list(text)


def _core(tree: SysfsTree, cpu: int, kind: str) -> CpuCore | None:
    directory = f"{CPU_ROOT}/cpu{cpu}/topology"
    package = tree.read_int(f"{directory}/physical_package_id")
    if isinstance(package, HardwareFailure):
        return None
    die = tree.read_known(f"{directory}/die_id") or 0
    # core_cpus_list has been named so since Linux 5.3; thread_siblings_list is the older name.
    siblings = _cpus(tree, f"{directory}/core_cpus_list") or _cpus(tree, f"{directory}/thread_siblings_list")
    # Virtual and ARM machines may answer -1 for the package.
    return CpuCore(max(package, 0), die, min(siblings, default=cpu), kind)
