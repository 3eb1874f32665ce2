"""CPU frequency policies: which CPUs share a limit, their cores, and how far each can be throttled.

Every policy with an online CPU is found once, deduplicated by real path and by its CPUs. Which of them to throttle is
decided in `joulie_core.control.throttle_plan`; originals are in the journal.

Limits of a frequency that are not a user's show in `bios_limit` (acpi-cpufreq) and in cooling devices; a limit of
firmware through intel_pstate shows in neither.
Source: Linux, Documentation/admin-guide/pm/cpufreq.rst and driver-api/thermal/sysfs-api.rst,
drivers/acpi/processor_perflib.c.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_actuator.hardware.knob import HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.hardware.sysfs import SysfsKnob, SysfsTree, parse_cpu_list
from joulie_actuator.hardware.topology import CPU_ROOT, Topology
from joulie_core.control.throttle_plan import CpuCore, FreqPolicy
from joulie_core.units import KHZ_PER_MHZ

#: Prefix of the keys of all knobs here. They name the lowest CPU of a policy, online or not: the number of its
#: directory is that of the CPU which came online first.
KEYS: Final = "cpufreq/"
#: End of the keys of upper limits.
LIMIT_KEY_END: Final = "/scaling_max_freq"
POLICY_ROOT: Final = f"{CPU_ROOT}/cpufreq"
_POLICY: Final = re.compile(r"policy\d+")
_CPU: Final = re.compile(r"cpu\d+")
_THERMAL: Final = "class/thermal"
_COOLER: Final = re.compile(r"cooling_device\d+")
_CPUFREQ_COOLER: Final = re.compile(r"cpufreq-cpu(\d+)|(?:thermal-)?cpufreq-.*")
#: The coarsest step of a clock: Intel's bus clock, 100 MHz; drivers round requests down to it where they round at all.
_STEP_KHZ: Final = 100_000
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
    cores: frozenset[CpuCore]
    #: The range of the hardware.
    lowest_khz: int
    highest_khz: int
    #: The frequency that all cores can sustain; None where no driver reports it.
    base_khz: int | None
    driver: str
    governor: str
    max_freq: "FrequencyRequest"

    @property
    def cpu_key(self) -> str:
        """Name of the policy in keys, such as `cpu4`: its lowest CPU, online or not."""
        return self.max_freq.key.split("/")[1]

    @property
    def package(self) -> int:
        """The package, or the lowest one of those that the policy spans."""
        return min(core.package for core in self.cores)

    def current_khz(self) -> int | HardwareFailure:
        """Return the frequency that the CPUs run at."""
        return self.tree.read_int(f"{self.path}/scaling_cur_freq")

    def to_plan(self) -> FreqPolicy:
        """Return what the choice of policies to throttle needs."""
        return FreqPolicy(self.name, self.cores)


@dataclass(frozen=True, slots=True)
class FrequencyRequest(SysfsKnob):
    """`scaling_max_freq`: a write sets the user's request, a read shows the lowest of all; a `RequestKnob`."""

    policy: str = ""
    #: Devices that cool these CPUs, or may do so, by slowing them down.
    coolers: tuple[str, ...] = ()

    def platform_limit(self, value: int) -> str:
        """Return what on the machine explains that this frequency is read; empty where nothing visible does."""
        if value >= self.limits.high:
            return ""
        bios_khz = self.tree.read_known(f"{self.policy}/bios_limit")
        if bios_khz is not None and self._is_limit(bios_khz) and value in {bios_khz, self._reached(bios_khz)}:
            return f"bios_limit is {bios_khz} kHz"
        for cooler in self.coolers:
            if state := self.tree.read_known(f"{cooler}/cur_state"):
                return f"{cooler.rpartition('/')[2]} is at state {state}"
        return ""

    def next_above(self, value: int) -> int | None:
        """Return the next frequency of the driver's table, else one step of the clock more; None at the highest."""
        if value >= self.limits.high:
            return None
        return min(
            (each for each in self.offered_khz() if each > value), default=min(value + _STEP_KHZ, self.limits.high)
        )

    def _is_limit(self, bios_khz: int) -> bool:
        """Return whether firmware limits; otherwise it answers with the nominal frequency, which boost exceeds."""
        return bios_khz < max(self.offered_khz(), default=self.limits.high)

    def _reached(self, khz: int) -> int:
        """Return the highest frequency that a driver with a table offers below a limit."""
        return max((each for each in self.offered_khz() if each <= khz), default=khz)

    def offered_khz(self) -> tuple[int, ...]:
        """Return the frequencies of the driver's table, to which it rounds requests down; empty without a table."""
        text = self.tree.read_text(f"{self.policy}/scaling_available_frequencies")
        words = () if isinstance(text, HardwareFailure) else text.split()
        return tuple(int(word) for word in words if word.isdecimal())


def discover(
    tree: SysfsTree, topology: Topology, known: Mapping[str, FrequencyRequest] | None = None
) -> tuple[CpuPolicy, ...]:
    """Return the policies with an online CPU, in natural order; `known`: the requests, where they have been read."""
    found: dict[tuple[int, ...], CpuPolicy] = {}
    for request in (requests(tree) if known is None else known).values():
        policy = _policy(tree, request, topology)
        if policy is not None:
            found.setdefault(policy.cpus, policy)
    return tuple(found.values())


def requests(tree: SysfsTree) -> dict[str, FrequencyRequest]:
    """Return the frequency requests of all policies by key, in natural order; also of those without an online CPU."""
    coolers = _coolers(tree)
    paths = {tree.real(f"{POLICY_ROOT}/{name}"): None for name in tree.names(POLICY_ROOT, _POLICY)}
    found: dict[str, FrequencyRequest] = {}
    for path in paths:
        request = _request(tree, path, coolers)
        if request is not None:
            found.setdefault(request.key, request)
    return found


def is_limit(key: str) -> bool:
    """Return whether a key is that of an upper limit."""
    return key.startswith(KEYS) and key.endswith(LIMIT_KEY_END)


def driver_family(policies: Iterable[CpuPolicy]) -> str:
    """Return `intel_pstate`, `amd-pstate`, `acpi-cpufreq` and so on; empty where there is no policy."""
    return next((_FAMILIES.get(policy.driver, policy.driver) for policy in policies if policy.driver), "")


def _request(tree: SysfsTree, path: str, coolers: Sequence[tuple[str, int | None]]) -> FrequencyRequest | None:
    related = _cpus(tree, f"{path}/related_cpus")
    lowest_khz = tree.read_known(f"{path}/cpuinfo_min_freq")
    highest_khz = tree.read_known(f"{path}/cpuinfo_max_freq")
    if not related or lowest_khz is None or highest_khz is None or lowest_khz > highest_khz:
        return None
    return FrequencyRequest(
        tree,
        f"{path}/scaling_max_freq",
        f"{KEYS}cpu{related[0]}{LIMIT_KEY_END}",
        "kHz",
        KnobLimits(lowest_khz, highest_khz),
        KnobKind.REQUEST,
        policy=path,
        coolers=tuple(cooler for cooler, cpu in coolers if cpu is None or cpu in related),
    )


def _policy(tree: SysfsTree, request: FrequencyRequest, topology: Topology) -> CpuPolicy | None:
    path = request.policy
    cpus = _cpus(tree, f"{path}/affected_cpus")
    if not cpus:
        return None
    return CpuPolicy(
        tree=tree,
        name=path.rpartition("/")[2],
        path=path,
        cpus=cpus,
        # A CPU that the topology does not have is a core of its own, on the first package.
        cores=frozenset(topology.core_of.get(cpu, CpuCore(0, 0, cpu)) for cpu in cpus),
        lowest_khz=request.limits.low,
        highest_khz=request.limits.high,
        base_khz=read_base_khz(tree, path, cpus[0]),
        driver=_word(tree, f"{path}/scaling_driver"),
        governor=_word(tree, f"{path}/scaling_governor"),
        max_freq=request,
    )


def _coolers(tree: SysfsTree) -> list[tuple[str, int | None]]:
    """Return the devices that cool CPUs by slowing them down, each with its CPU; None where that is unknown.

    ACPI's devices are of type `Processor` and link to the processor's node in firmware, as the CPU itself does; those
    of cpufreq are named for the policy's CPU, on kernels before 5.9 with a number without meaning.
    """
    nodes: dict[str, int] = {}
    found: list[tuple[str, int | None]] = []
    for name in tree.names(_THERMAL, _COOLER):
        kind = _word(tree, f"{_THERMAL}/{name}/type")
        if kind == "Processor":
            nodes = nodes or _firmware_nodes(tree)
            found.append((f"{_THERMAL}/{name}", nodes.get(tree.real(f"{_THERMAL}/{name}/device"))))
        elif match := _CPUFREQ_COOLER.fullmatch(kind):
            found.append((f"{_THERMAL}/{name}", int(match[1]) if match[1] else None))
    return found


def _firmware_nodes(tree: SysfsTree) -> dict[str, int]:
    return {
        tree.real(f"{CPU_ROOT}/{name}/firmware_node"): int(name.removeprefix("cpu"))
        for name in tree.names(CPU_ROOT, _CPU)
    }


def _cpus(tree: SysfsTree, path: str) -> tuple[int, ...]:
    text = tree.read_text(path)
    return () if isinstance(text, HardwareFailure) else parse_cpu_list(text)


def read_base_khz(tree: SysfsTree, path: str, cpu: int) -> int | None:
    """Return the base frequency, from intel_pstate's own file or from ACPI's nominal frequency in MHz."""
    base_khz = tree.read_known(f"{path}/base_frequency")
    nominal_mhz = tree.read_known(f"{CPU_ROOT}/cpu{cpu}/acpi_cppc/nominal_freq")
    return base_khz or (nominal_mhz * KHZ_PER_MHZ if nominal_mhz else None)


def _word(tree: SysfsTree, path: str) -> str:
    text = tree.read_text(path)
    return "" if isinstance(text, HardwareFailure) else text
