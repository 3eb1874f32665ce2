"""CPU frequency policies: which CPUs share a limit, where they are, and how far each can be slowed down.

Promises every policy with an online CPU once, deduplicated by real path and by its CPUs. Which of them to throttle is
decided in `joulie_core.throttle_plan`; an original limit is known to whoever keeps the journal, not here.
Source: contracts, decision 5; Linux, Documentation/admin-guide/pm/cpufreq.rst.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from joulie_agent.hardware.knob import KnobLimits, Refusal
from joulie_agent.hardware.sysfs import SysfsKnob, SysfsTree, parse_cpu_list
from joulie_agent.hardware.topology import CPU_ROOT, CpuPlace, Topology
from joulie_core import throttle_plan

#: The keys of all knobs here begin so. They name the lowest CPU of a policy, online or not: the number of its directory
#: is that of the CPU which came online first.
KEYS: Final = "cpufreq/"
POLICY_ROOT: Final = f"{CPU_ROOT}/cpufreq"
_POLICY: Final = re.compile(r"policy\d+")
_KHZ_PER_MHZ: Final = 1000
#: Drivers that are one family in two modes of operation.
_FAMILIES: Final = {"intel_cpufreq": "intel_pstate", "amd-pstate-epp": "amd-pstate", "amd_pstate": "amd-pstate"}


@dataclass(frozen=True, slots=True)
class CpuPolicy:
    """CPUs whose frequency is limited together."""

    tree: SysfsTree
    #: Such as `policy0`.
    name: str
    path: str
    #: Online CPUs.
    cpus: tuple[int, ...]
    places: frozenset[CpuPlace]
    #: What the hardware can run at.
    lowest_khz: int
    highest_khz: int
    #: The frequency that all cores can hold; None where no driver tells.
    base_khz: int | None
    driver: str
    governor: str
    max_freq: SysfsKnob

    @property
    def package(self) -> int:
        """The package, or the lowest one of those that the policy spans."""
        return min(place.package for place in self.places)

    def current_khz(self) -> int | Refusal:
        """Return the frequency that the CPUs run at."""
        return self.tree.read_int(f"{self.path}/scaling_cur_freq")

    def throttled_khz(self, original_khz: int, min_freq_khz: int) -> int:
        """Return the limit to write where the policy is throttled; never above its original."""
        return throttle_plan.throttled_khz(original_khz, lowest_khz=self.lowest_khz, min_freq_khz=min_freq_khz)


def discover(tree: SysfsTree, topology: Topology) -> tuple[CpuPolicy, ...]:
    """Return the policies, in natural order."""
    paths = {tree.real(f"{POLICY_ROOT}/{name}"): None for name in tree.names(POLICY_ROOT, _POLICY)}
    found: dict[tuple[int, ...], CpuPolicy] = {}
    for path in paths:
        policy = _policy(tree, path, topology)
        if policy is not None:
            found.setdefault(policy.cpus, policy)
    return tuple(found.values())


def plan_throttle(policies: Iterable[CpuPolicy], throttle_pct: float) -> frozenset[str]:
    """Return the names of the policies to throttle; all others are to have their original limit."""
    return throttle_plan.plan_throttle(
        [throttle_plan.FreqPolicy(policy.name, _cores(policy)) for policy in policies], throttle_pct
    )


def driver_family(policies: Iterable[CpuPolicy]) -> str:
    """Return `intel_pstate`, `amd-pstate`, `acpi-cpufreq` and so on; empty where frequencies are out of reach."""
    return next((_FAMILIES.get(policy.driver, policy.driver) for policy in policies if policy.driver), "")


def _policy(tree: SysfsTree, path: str, topology: Topology) -> CpuPolicy | None:
    name = path.rpartition("/")[2]
    cpus, related = _cpus(tree, f"{path}/affected_cpus"), _cpus(tree, f"{path}/related_cpus")
    lowest_khz = tree.read_known(f"{path}/cpuinfo_min_freq")
    highest_khz = tree.read_known(f"{path}/cpuinfo_max_freq")
    if not cpus or not related or lowest_khz is None or highest_khz is None or lowest_khz > highest_khz:
        return None
    file = f"{path}/scaling_max_freq"
    limits = KnobLimits(lowest_khz, highest_khz)
    return CpuPolicy(
        tree=tree,
        name=name,
        path=path,
        cpus=cpus,
        # A CPU without a place in the topology is a core of its own, on the first package.
        places=frozenset(topology.places.get(cpu, CpuPlace(0, 0, cpu)) for cpu in cpus),
        lowest_khz=lowest_khz,
        highest_khz=highest_khz,
        base_khz=_base_khz(tree, path, cpus[0]),
        driver=_word(tree, f"{path}/scaling_driver"),
        governor=_word(tree, f"{path}/scaling_governor"),
        max_freq=SysfsKnob(tree, file, f"{KEYS}cpu{related[0]}/scaling_max_freq", "kHz", limits),
    )


def _cpus(tree: SysfsTree, path: str) -> tuple[int, ...]:
    text = tree.read_text(path)
    return () if isinstance(text, Refusal) else parse_cpu_list(text)


def _base_khz(tree: SysfsTree, path: str, cpu: int) -> int | None:
    """intel_pstate tells it in its own file; elsewhere ACPI may know the nominal frequency, in MHz."""
    told_khz = tree.read_known(f"{path}/base_frequency")
    nominal_mhz = tree.read_known(f"{CPU_ROOT}/cpu{cpu}/acpi_cppc/nominal_freq")
    return told_khz or (nominal_mhz * _KHZ_PER_MHZ if nominal_mhz else None)


def _word(tree: SysfsTree, path: str) -> str:
    text = tree.read_text(path)
    return "" if isinstance(text, Refusal) else text


def _cores(policy: CpuPolicy) -> frozenset[throttle_plan.CpuCore]:
    return frozenset(throttle_plan.CpuCore(place.package, place.die, place.core) for place in policy.places)
