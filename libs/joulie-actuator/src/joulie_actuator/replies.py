"""Replies of the actuator: the whole list. `joulie_actuator.protocol` encodes and decodes them."""

from typing import TypeAlias

import msgspec

from joulie_actuator.cpu_class_protocol import ClassAbilities, CpuClassState, FailedCores
from joulie_actuator.hardware.cpuinfo import HostFacts
from joulie_actuator.hardware.gpu.clock_state import ClockBound
from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import RestoredKnob
from joulie_actuator.hardware.power_meter import ZoneReading
from joulie_actuator.hardware.rapl_domains import ConstraintReading
from joulie_actuator.outcome import ControlOutcome


class _Reply(msgspec.Struct, frozen=True, tag_field="is", kw_only=True):
    """Base of all replies."""


class RestoreReport(_Reply, frozen=True, tag="restore_report"):
    """The result of a restore, for every knob that was managed."""

    knobs: tuple[RestoredKnob, ...]

    @property
    def left(self) -> tuple[RestoredKnob, ...]:
        """Knobs that could not be restored."""
        return tuple(knob for knob in self.knobs if not knob.done)


class CpuClassesReport(_Reply, frozen=True, tag="cpu_classes"):
    """CPU classes in force after `SetCpuClasses`."""

    classes: dict[str, CpuClassState]
    #: Why nothing could be set or restored; None where it could.
    failure: HardwareFailure | None = None
    #: Knobs that no class sets any more and that could not be restored; this is retried.
    not_restored: tuple[RestoredKnob, ...] = ()
    #: What else is worth knowing, such as external values that were overwritten.
    message: str = ""


class CoreLimitsReport(_Reply, frozen=True, tag="core_limits"):
    """Outcome of `SetCoreLimits`; every limit that it does not name as failed is set, or lifted."""

    failed: tuple[FailedCores, ...] = ()
    #: Why nothing could be set or lifted; None where it could.
    failure: HardwareFailure | None = None


class InterruptsReport(_Reply, frozen=True, tag="interrupts"):
    """Outcome of `SetInterrupts`, in numbers of interrupts."""

    #: Interrupts that have other CPUs than without Joulie.
    moved: int = 0
    #: Interrupts that should have others, and that the kernel does not let move.
    fixed: int = 0
    #: Interrupts of a machine with more than are looked at.
    left_out: int = 0
    #: Interrupts that could not be read, moved or restored; this is retried. `message` names the first.
    failed: int = 0
    message: str = ""
    #: Why nothing could be set; None where it could.
    failure: HardwareFailure | None = None


class PolicyReading(msgspec.Struct, frozen=True, kw_only=True):
    """The frequencies of the CPUs of one policy."""

    cpus: tuple[int, ...]
    current_khz: int | None = None
    max_khz: int | None = None


class CpuReadings(_Reply, frozen=True, tag="cpu_readings"):
    """One reading of the CPUs."""

    #: Grows when discovery finds something else than before: request the description again.
    revision: int
    zones: tuple[ZoneReading, ...]
    #: The last requested throttle that is in force.
    throttle_pct: float
    #: How often an external value was overwritten, by knob.
    overwritten: dict[str, int]
    policies: tuple[PolicyReading, ...] = ()
    #: Energy counters beside those of the packages, such as `psys` and `package-0/dram`; not included in the total.
    domains: tuple[ZoneReading, ...] = ()
    #: Every power limit of the package zones, whatever set it.
    constraints: tuple[ConstraintReading, ...] = ()
    #: How many CPUs of each class are throttled; empty without classes.
    throttled_by_class: dict[str, int] = {}


class GpuPowerReading(msgspec.Struct, frozen=True, kw_only=True):
    """Power and limit of one GPU, in milliwatts, its graphics clock, and how busy it is, in percent of the time."""

    uuid: str
    power_mw: int | None = None
    limit_mw: int | None = None
    #: The managed limit on its graphics clock.
    clock_limit_mhz: int | None = None
    #: The limits that it is the lower one of: to hold its cap, and by the class of its holders.
    cap_clock_mhz: int | None = None
    class_clock_mhz: int | None = None
    clock_bound: ClockBound = ClockBound.UNKNOWN
    #: Energy counter in millijoules, which may start again at zero; only where it was asked for and the GPU has one.
    energy_mj: int | None = None
    clock_mhz: int | None = None
    busy_pct: int | None = None
    failure: HardwareFailure | None = None


class GpuReadings(_Reply, frozen=True, tag="gpu_readings"):
    """One reading of the GPUs."""

    revision: int
    gpus: tuple[GpuPowerReading, ...]
    #: Why a vendor's GPUs cannot be read, by driver.
    failures: dict[str, HardwareFailure]
    overwritten: dict[str, int]


class GpuUsers(msgspec.Struct, frozen=True, kw_only=True):
    """Users of one GPU."""

    #: UIDs of the pods of its processes, as their cgroups have them.
    pods: tuple[str, ...] = ()
    #: The first process that is in no pod.
    outside_pid: int | None = None


class GpuProcesses(_Reply, frozen=True, tag="gpu_processes"):
    """Users of the GPUs, by UUID; a GPU is in one of both, unless its driver does not answer."""

    users: dict[str, GpuUsers]
    #: Why it is not known.
    failures: dict[str, HardwareFailure]


class GpuClassClocks(_Reply, frozen=True, tag="gpu_class_clocks"):
    """Clocks of GPUs after `SetGpuClassClocks`, by UUID."""

    #: GPUs whose clock is, or may be, limited by what a request of this kind wants or has wanted, in MHz.
    limits_mhz: dict[str, int]
    #: Why a clock was not set, or is not restored yet.
    failures: dict[str, HardwareFailure]
    #: Why nothing could be set or restored; None where it could.
    failure: HardwareFailure | None = None
    #: What else is worth knowing, such as external values that were overwritten.
    message: str = ""


class CpuDescription(_Reply, frozen=True, tag="cpu"):
    """The CPUs, and why something does not work; None where it does."""

    revision: int
    facts: HostFacts
    reading: HardwareFailure | None
    capping: HardwareFailure | None
    throttling: HardwareFailure | None
    journal: HardwareFailure | None
    class_controls: ClassAbilities = ClassAbilities()


class GpuDescription(_Reply, frozen=True, tag="gpu"):
    """The GPUs."""

    revision: int
    devices: tuple[GpuDeviceInfo, ...]
    #: Why a driver has no usable GPUs, by driver.
    failures: dict[str, HardwareFailure]
    journal: HardwareFailure | None


class SubsystemHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Health of one subsystem: whether its lease is enforced."""

    #: Why it is not, which a restart may cure; None where it is.
    problem: str | None
    #: What hangs or fails permanently, which a restart does not cure.
    degraded: tuple[str, ...] = ()


class HealthReport(_Reply, frozen=True, tag="health"):
    """Health by subsystem: whether leases are enforced."""

    subsystems: dict[str, SubsystemHealth]


class ErrorReply(_Reply, frozen=True, tag="fault"):
    """The request is invalid, or its execution failed unexpectedly."""

    message: str


Reply: TypeAlias = (
    ControlOutcome
    | RestoreReport
    | CpuClassesReport
    | CoreLimitsReport
    | InterruptsReport
    | CpuReadings
    | GpuReadings
    | GpuProcesses
    | GpuClassClocks
    | CpuDescription
    | GpuDescription
    | HealthReport
    | ErrorReply
)
