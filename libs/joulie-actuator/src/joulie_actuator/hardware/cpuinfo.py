"""Facts about a machine, from /proc and /sys: its CPUs, its memory, the GPUs on its bus. Needs no privileges.

Nothing is inferred: an absent or unreadable fact is None or empty, and an inconsistency is a warning. What the facts
mean, and what the inventory adds, is in `joulie_agent.discovery.host`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_actuator.hardware import cpufreq, hsmp, rapl, rapl_domains
from joulie_actuator.hardware.cpufreq import CpuPolicy, FrequencyRequest
from joulie_actuator.hardware.pci import PciGpus, read_pci_gpus
from joulie_actuator.hardware.rapl import UW_PER_WATT, RaplZone
from joulie_actuator.hardware.rapl_domains import RaplConstraint, RaplDomain
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.hardware.topology import Topology, read_topology

PROC_ROOT: Final = "/proc"
_MEM_TOTAL: Final = re.compile(r"MemTotal:\s+(\d+) kB")
_BYTES_PER_KB: Final = 1024
#: More processors than this in front of the first blank line is no /proc/cpuinfo.
_LONGEST_BLOCK: Final = 200


@dataclass(frozen=True, slots=True)
class CpuIdentity:
    """The first processor of /proc/cpuinfo."""

    vendor: str = ""
    model_name: str = ""
    family: int | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The facts as plain values, which can be sent from one process to another."""

    identity: CpuIdentity
    packages: int
    cores: int
    threads: int
    offline_cpus: tuple[int, ...]
    hybrid: bool
    #: The cpufreq driver; empty where there is none.
    driver_family: str
    policies: int
    lowest_khz: int | None
    base_khz: int | None
    highest_khz: int | None
    #: RAPL package zones, with or without a limit.
    zones: tuple[str, ...]
    #: What a package can be capped to, where the hardware reports it; never derived from a limit in force.
    min_package_watts: float | None
    max_package_watts: float | None
    memory_bytes: int | None
    warnings: tuple[str, ...]
    #: None where there is no PCI bus to read.
    gpus_on_bus: PciGpus | None = None


@dataclass(frozen=True, slots=True)
class HostCpus:
    """The CPUs of a machine, with their knobs."""

    topology: Topology
    zones: tuple[RaplZone, ...]
    policies: tuple[CpuPolicy, ...]
    #: Energy counters beside those of the packages.
    domains: tuple[RaplDomain, ...]
    #: Power limits of the package zones, whatever set them.
    constraints: tuple[RaplConstraint, ...]
    #: By key, also of policies without an online CPU.
    requests: Mapping[str, FrequencyRequest]
    facts: HostFacts


def discover(
    tree: SysfsTree, proc_root: Path | str = PROC_ROOT, originals: Mapping[str, int] = rapl.NO_ORIGINALS
) -> HostCpus:
    """Read the machine once; `originals`: of the managed limits, by key."""
    proc = Path(proc_root)
    topology = read_topology(tree)
    zones = hsmp.attach(tree, rapl.discover(tree, originals), originals)
    requests = cpufreq.requests(tree)
    policies = cpufreq.discover(tree, topology, requests)
    base = [policy.base_khz for policy in policies if policy.base_khz]
    limits = rapl.package_range_uw(zones)
    facts = HostFacts(
        identity=read_identity(proc / "cpuinfo"),
        packages=topology.packages,
        cores=topology.cores,
        threads=len(topology.core_of),
        offline_cpus=topology.offline,
        hybrid=topology.hybrid,
        driver_family=cpufreq.driver_family(policies),
        policies=len(policies),
        lowest_khz=min((policy.lowest_khz for policy in policies), default=None),
        base_khz=max(base, default=None),
        highest_khz=max((policy.highest_khz for policy in policies), default=None),
        zones=tuple(zone.name for zone in zones),
        min_package_watts=limits.low / UW_PER_WATT if limits else None,
        max_package_watts=limits.high / UW_PER_WATT if limits else None,
        memory_bytes=read_memory_bytes(proc / "meminfo"),
        warnings=_warnings(tree, topology, zones, policies),
        gpus_on_bus=read_pci_gpus(tree),
    )
    return HostCpus(
        topology=topology,
        zones=zones,
        policies=policies,
        domains=rapl_domains.discover(tree),
        constraints=rapl_domains.discover_constraints(zones),
        requests=requests,
        facts=facts,
    )


def read_identity(path: Path) -> CpuIdentity:
    """Read the first block of /proc/cpuinfo, which is as long as the machine has CPUs."""
    fields: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for _, line in zip(range(_LONGEST_BLOCK), lines, strict=False):
                name, colon, value = line.partition(":")
                if not colon and fields:
                    break
                fields[name.strip()] = value.strip()
    except OSError:
        return CpuIdentity()
    return CpuIdentity(
        vendor=fields.get("vendor_id", ""),
        model_name=fields.get("model name") or _arm_name(fields),
        family=_whole(fields.get("cpu family", "")),
        model=_whole(fields.get("model", "")),
    )


def read_memory_bytes(path: Path) -> int | None:
    """Read the main memory that the kernel manages; None where it cannot be read."""
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            found = next((match for line in lines if (match := _MEM_TOTAL.match(line))), None)
    except OSError:
        return None
    return int(found[1]) * _BYTES_PER_KB if found else None


def _arm_name(fields: dict[str, str]) -> str:
    """Return a name from the numbers that ARM machines have instead of one."""
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    return f"ARM implementer {implementer} part {part}" if implementer and part else ""


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _warnings(
    tree: SysfsTree, topology: Topology, zones: Sequence[RaplZone], policies: Sequence[CpuPolicy]
) -> tuple[str, ...]:
    messages = list(rapl.warnings(tree, zones))
    if not zones:
        messages.append("no RAPL package zone: the power of the CPUs is neither measured nor capped")
    if not policies:
        messages.append("no cpufreq policy: the CPUs cannot be throttled")
    if topology.offline:
        messages.append(f"{len(topology.offline)} CPUs are offline and not counted")
    if topology.hybrid:
        messages.append("cores of two kinds: frequencies are those of the widest range")
    return tuple(messages)
