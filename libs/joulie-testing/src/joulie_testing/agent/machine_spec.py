"""A machine in a few words, for `joulie_testing.agent.fake_sysfs` to build; and the shapes that are worth a test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Policies(StrEnum):
    """CPUs that share a frequency policy."""

    PER_CPU = "per-cpu"
    PER_CORE = "per-core"
    PER_PACKAGE = "per-package"
    SHARED = "shared"
    NONE = "none"


class Zone(StrEnum):
    """RAPL zones that a machine may have."""

    PACKAGE = "package"
    CORE = "core"
    UNCORE = "uncore"
    DRAM = "dram"
    PSYS = "psys"
    #: A second register for the package, below `intel-rapl-mmio`.
    MMIO = "mmio"


class Limit(StrEnum):
    """Behaviour of the long-term limit of a package."""

    WRITABLE = "writable"
    #: The file has no write bit.
    READ_ONLY = "read-only"
    #: Firmware has locked it and the kernel knows: writes fail with ENODATA, `enabled` reads 0.
    LOCKED = "locked"
    #: Locked by firmware without an error: writes succeed and change nothing.
    HELD = "held"
    #: `enabled` reads 0 and may be set to 1.
    SWITCHED_OFF = "switched-off"
    #: No register behind the files, as on AMD: reads and writes fail with ENODATA.
    UNREADABLE = "unreadable"
    #: No files.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU of a specification."""

    number: int
    package: int
    die: int
    core: int
    #: An efficiency core of a hybrid package.
    efficient: bool = False

    @property
    def core_id(self) -> tuple[int, int, int]:
        """Identity of the physical core."""
        return self.package, self.die, self.core


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """A machine to build. Counts are per level: `dies` per socket, `cores` per die, `threads` per core."""

    sockets: int = 1
    dies: int = 1
    cores: int = 4
    threads: int = 2
    #: Efficiency cores per die, one thread each; they come last.
    efficiency_cores: int = 0
    offline: frozenset[int] = frozenset()

    vendor: str = "GenuineIntel"
    model_name: str = "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"
    family: int = 6
    model: int = 85
    memory_bytes: int = 192 * 1024**3

    policies: Policies = Policies.PER_CPU
    driver: str = "intel_pstate"
    governor: str = "powersave"
    lowest_khz: int = 1_000_000
    #: In the file of intel_pstate; None leaves it out.
    base_khz: int | None = 2_500_000
    #: In the table of ACPI, in MHz; None leaves it out.
    nominal_mhz: int | None = None
    highest_khz: int = 3_900_000
    efficient_highest_khz: int = 2_900_000
    #: The table of a driver that has one, such as acpi-cpufreq; empty for four steps from highest to lowest.
    frequencies_khz: tuple[int, ...] = ()
    #: Whether the driver takes an energy performance preference.
    epp: bool = False
    #: Names of the idle states of every CPU, the shallowest first; empty where there is no cpuidle.
    idle_states: tuple[str, ...] = ()
    #: Lowest and highest of the uncore's clock, per die; None where it cannot be limited.
    uncore_khz: tuple[int, int] | None = None

    zones: frozenset[Zone] = frozenset({Zone.PACKAGE, Zone.DRAM})
    limit: Limit = Limit.WRITABLE
    #: Per zone of a package, so per die where there are several; 0 is "not known", as some firmware answers.
    max_watts: float = 150.0
    limit_watts: float = 150.0
    short_term_watts: float = 180.0
    energy_range_uj: int = 262_143_328_850
    #: Limits are in wider registers and a third one, the peak power, is there (RAPL over TPMI).
    tpmi: bool = False
    #: The platform's own limit per socket, by the hwmon device of AMD's HSMP; None where there is no such device.
    hsmp_max_watts: float | None = None

    #: What a socket draws with nothing to do, and with all to do at the highest frequency.
    idle_watts: float = 40.0
    busy_watts: float = 200.0

    def cpus(self) -> tuple[Cpu, ...]:
        """Return all CPUs as Linux numbers them: the first threads of all cores, then the second ones."""
        places = [
            (package, die, core, core >= self.cores)
            for package in range(self.sockets)
            for die in range(self.dies)
            for core in range(self.cores + self.efficiency_cores)
        ]
        return tuple(Cpu(number, *place) for number, place in enumerate(self._threads(places)))

    def policy_groups(self) -> list[tuple[Cpu, ...]]:
        """Return the CPUs of each frequency policy, in order of their lowest CPU."""
        groups: dict[object, list[Cpu]] = {}
        for cpu in self.cpus() if self.policies is not Policies.NONE else ():
            groups.setdefault(self._policy_of(cpu), []).append(cpu)
        return [tuple(group) for group in groups.values()]

    def highest_khz_of(self, cpu: Cpu) -> int:
        """Return the highest frequency of a CPU."""
        return self.efficient_highest_khz if cpu.efficient else self.highest_khz

    def _policy_of(self, cpu: Cpu) -> object:
        match self.policies:
            case Policies.PER_CORE:
                return cpu.core_id
            case Policies.PER_PACKAGE:
                return cpu.package
            case Policies.SHARED:
                return None
            case _:
                return cpu.number

    def _threads(self, places: list[tuple[int, int, int, bool]]) -> Iterator[tuple[int, int, int, bool]]:
        yield from places
        for _ in range(1, self.threads):
            yield from (place for place in places if not place[3])


_AMD: Final = MachineSpec(
    sockets=2,
    cores=8,
    vendor="AuthenticAMD",
    model_name="AMD EPYC 7763 64-Core Processor",
    family=25,
    model=1,
    driver="acpi-cpufreq",
    governor="schedutil",
    policies=Policies.PER_CPU,
    lowest_khz=1_500_000,
    base_khz=None,
    nominal_mhz=2450,
    highest_khz=3_529_052,
    zones=frozenset({Zone.PACKAGE, Zone.CORE}),
    limit=Limit.UNREADABLE,
    max_watts=0,
    energy_range_uj=65_532_610_987,
)

#: Shapes of machines by name, each a case of its own.
PLATFORMS: Final[Mapping[str, MachineSpec]] = {
    "xeon-2s": MachineSpec(sockets=2, cores=8),
    "xeon-multi-die": MachineSpec(sockets=2, dies=2, cores=4, max_watts=200.0, limit_watts=200.0),
    "xeon-locked": MachineSpec(sockets=2, limit=Limit.LOCKED),
    "xeon-held": MachineSpec(limit=Limit.HELD),
    "xeon-read-only": MachineSpec(limit=Limit.READ_ONLY),
    "xeon-switched-off": MachineSpec(limit=Limit.SWITCHED_OFF),
    "xeon-unknown-maximum": MachineSpec(max_watts=0),
    "client-hybrid": MachineSpec(
        model_name="12th Gen Intel(R) Core(TM) i9-12900K",
        model=151,
        cores=8,
        efficiency_cores=8,
        lowest_khz=800_000,
        base_khz=3_200_000,
        highest_khz=5_200_000,
        efficient_highest_khz=3_900_000,
        zones=frozenset({Zone.PACKAGE, Zone.CORE, Zone.UNCORE, Zone.PSYS, Zone.MMIO}),
        max_watts=125.0,
        limit_watts=241.0,
        short_term_watts=241.0,
        memory_bytes=64 * 1024**3,
    ),
    "epyc-2s": _AMD,
    "epyc-no-constraints": MachineSpec(
        sockets=1,
        vendor=_AMD.vendor,
        model_name="AMD EPYC 9654 96-Core Processor",
        family=25,
        model=17,
        driver="amd-pstate-epp",
        lowest_khz=400_000,
        base_khz=None,
        nominal_mhz=2400,
        highest_khz=3_707_812,
        zones=_AMD.zones,
        limit=Limit.ABSENT,
        max_watts=0,
        energy_range_uj=_AMD.energy_range_uj,
    ),
    "policy-per-core": MachineSpec(policies=Policies.PER_CORE, sockets=2),
    "policy-per-package": MachineSpec(policies=Policies.PER_PACKAGE, sockets=2, driver="acpi-cpufreq", base_khz=None),
    "policy-shared": MachineSpec(policies=Policies.SHARED, sockets=2, driver="acpi-cpufreq", base_khz=None),
    "cpus-offline": MachineSpec(sockets=2, offline=frozenset({3, 11})),
    "xeon-small": MachineSpec(sockets=2, cores=2, epp=True, idle_states=("POLL", "C1", "C6")),
    "xeon-tpmi": MachineSpec(
        sockets=2,
        cores=8,
        model_name="Intel(R) Xeon(R) 6766E",
        model=175,
        tpmi=True,
        epp=True,
        idle_states=("POLL", "C1", "C1E", "C6"),
        uncore_khz=(800_000, 2_200_000),
        zones=frozenset({Zone.PACKAGE, Zone.DRAM, Zone.PSYS}),
        max_watts=250.0,
        limit_watts=250.0,
        short_term_watts=300.0,
        busy_watts=280.0,
    ),
    "epyc-hsmp": replace(_AMD, driver="amd-pstate-epp", epp=True, hsmp_max_watts=280.0, busy_watts=300.0),
    "arm-cppc": MachineSpec(
        threads=1,
        vendor="",
        model_name="",
        driver="cppc_cpufreq",
        governor="schedutil",
        base_khz=None,
        nominal_mhz=2600,
        highest_khz=3_000_000,
        zones=frozenset(),
    ),
    "virtual-machine": MachineSpec(
        threads=1,
        model_name="Intel Xeon Processor (Cascadelake)",
        policies=Policies.NONE,
        zones=frozenset(),
        memory_bytes=16 * 1024**3,
    ),
}
