"""Requests to the actuator, with the range of every value, and how they and the replies are encoded.

A line that does not fit a type or a range is rejected while it is decoded, before anything is done. One request or
reply is one line of JSON; a connection carries one request at a time. Ranges here are those of any machine; the ranges
of the knobs of this machine are narrower.

Every request that sets something carries a lease. When it expires without being renewed, the actuator restores: a
controller that has died or hangs cannot leave a cap behind.
"""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from joulie_actuator.cpu_class_protocol import (
    MOST_CLASSES,
    MOST_CORE_LIMITS,
    ClassName,
    CoreFrequencyLimit,
    CpuClassControls,
    CpuList,
)
from joulie_actuator.interrupt_protocol import MOST_CLAIMS, InterruptClaims, Patterns
from joulie_actuator.replies import Reply
from joulie_core.containers.idset import Cpus, union
from joulie_core.containers.interrupts import InterruptClaim, InterruptPlacement
from joulie_core.text import printable

#: Longest line that is read, in bytes.
LINE_LIMIT: Final = 1 << 20
#: GPUs in one request. Eight modules in eight partitions each, with a UUID per partition, are 64 already, and machines
#: with sixteen modules exist; a description of so many, at a kilobyte each, still fits in a line.
MOST_GPUS: Final = 512

Watts = Annotated[float, msgspec.Meta(gt=0, le=5000)]
MilliWatts = Annotated[int, msgspec.Meta(gt=0, le=10_000_000)]
MegaHertz = Annotated[int, msgspec.Meta(gt=0, le=10_000)]
Pct = Annotated[float, msgspec.Meta(ge=0, le=100)]
Uuid = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
#: Seconds; the longest lease bounds how long a node stays capped after its controller has failed.
LeaseS = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class Epp(StrEnum):
    """Energy performance preferences that save power, as cpufreq spells them."""

    POWER = "power"
    BALANCE_POWER = "balance_power"
    BALANCE_PERFORMANCE = "balance_performance"


class Subsystem(StrEnum):
    """A part of the machine with its own journal, lease and thread: a GPU driver that hangs must not delay the CPUs."""

    CPU = "cpu"
    GPU = "gpu"
    #: Which CPUs handle interrupts.
    INTERRUPTS = "interrupts"


class LeaseKind(StrEnum):
    """Kind of lease that a client holds in a subsystem. Each ends on its own: two clients hold one each."""

    #: Caps, throttles and tuning, of the controller.
    POWER = "power"
    #: CPU classes, of the resource manager; clocks of GPUs by the class of their holders, of the controller.
    CLASSES = "classes"
    #: Limits of cores by the class of their containers, of the resource manager.
    CORE_LIMITS = "core_limits"
    #: CPUs of interrupts, of the resource manager.
    INTERRUPTS = "interrupts"


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op", kw_only=True):
    """Base of all requests."""


class SetCpuCap(_Request, frozen=True, tag="set_cpu_cap"):
    """Cap the power of every package."""

    cap_watts_per_package: Watts
    lease_s: LeaseS
    #: Lift a managed throttle once the cap is in force, so that one control at a time limits the CPUs.
    release_throttle: bool = False


class SetThrottle(_Request, frozen=True, tag="set_throttle"):
    """Throttle a share of the frequency policies; 0 restores all of them."""

    throttle_pct: Pct
    lease_s: LeaseS
    #: Lift managed power caps once the throttle is in force, so that one control at a time limits the CPUs.
    release_caps: bool = False


class SetCpuTuning(_Request, frozen=True, tag="set_cpu_tuning"):
    """Set the optional controls beside the power cap; what is None is restored."""

    #: Energy performance preference of every frequency policy.
    epp: Epp | None
    #: Upper limit of the uncore frequency, in kHz, raised to what the hardware can run at.
    uncore_max_khz: Annotated[int, msgspec.Meta(gt=0)] | None
    lease_s: LeaseS


class SetCpuClasses(_Request, frozen=True, tag="set_cpu_classes"):
    """Put CPU classes in force, in place of all that are; no class restores their controls.

    CPUs without a class, and controls that a class leaves out, have their originals.

    Raises:
        ValueError: a CPU has two classes.
    """

    classes: Annotated[dict[ClassName, CpuClassControls], msgspec.Meta(max_length=MOST_CLASSES)]
    lease_s: LeaseS

    def __post_init__(self) -> None:
        sets = [Cpus.parse(controls.cpus) for controls in self.classes.values()]
        if len(union(sets)) != sum(map(len, sets)):
            raise ValueError("a CPU has two classes")


class SetCoreLimits(_Request, frozen=True, tag="set_core_limits"):
    """Limit the frequency of CPUs by the class of the containers that have them alone, in place of all such limits.

    The lowest of this, of the CPU's class, of a throttle and of what an administrator has set is in force.

    Raises:
        ValueError: a CPU has two limits.
    """

    limits: Annotated[tuple[CoreFrequencyLimit, ...], msgspec.Meta(max_length=MOST_CORE_LIMITS)]
    lease_s: LeaseS

    def __post_init__(self) -> None:
        sets = [Cpus.parse(each.cpus) for each in self.limits]
        if len(union(sets)) != sum(map(len, sets)):
            raise ValueError("a CPU has two limits")


class SetGpuCaps(_Request, frozen=True, tag="set_gpu_caps"):
    """Cap the power of GPUs, by UUID. GPUs that are not named are left as they are."""

    caps_mw: Annotated[dict[Uuid, MilliWatts], msgspec.Meta(min_length=1, max_length=MOST_GPUS)]
    lease_s: LeaseS
    #: Restore the clocks of all GPUs: only power limits are requested.
    release_clocks: bool = False


class SetGpuClocks(_Request, frozen=True, tag="set_gpu_clocks"):
    """Limit the graphics clock of GPUs to hold their caps, by UUID, in place of all such limits before.

    The clock of a GPU that neither this nor `SetGpuClassClocks` names is restored; where both do, the lower holds.
    """

    clocks_mhz: Annotated[dict[Uuid, MegaHertz], msgspec.Meta(max_length=MOST_GPUS)]
    lease_s: LeaseS


class SetGpuClassClocks(_Request, frozen=True, tag="set_gpu_class_clocks"):
    """Limit the graphics clock of GPUs by the class of their holders, by UUID; otherwise as `SetGpuClocks`."""

    clocks_mhz: Annotated[dict[Uuid, MegaHertz], msgspec.Meta(max_length=MOST_GPUS)]
    lease_s: LeaseS


class SetInterrupts(_Request, frozen=True, tag="set_interrupts"):
    """Move interrupts, in place of what was wanted before; without claims, sinks and isolated CPUs restore all.

    Raises:
        ValueError: one of the lists is no list of CPUs.
    """

    #: Which interrupts may be moved: numbers, and globs of the name of a device or chip.
    controllable: Patterns
    lease_s: LeaseS
    #: CPUs by their claims, those of one claim in the list format of the kernel.
    claims: Annotated[tuple[InterruptClaims, ...], msgspec.Meta(max_length=MOST_CLAIMS)] = ()
    sinks: CpuList = ""
    isolated: CpuList = ""

    def __post_init__(self) -> None:
        self.placement()

    def placement(self) -> InterruptPlacement:
        """Return what is wanted."""
        return InterruptPlacement(
            claims=tuple(InterruptClaim(each.patterns, Cpus.parse(each.cpus)) for each in self.claims),
            sinks=Cpus.parse(self.sinks),
            isolated=Cpus.parse(self.isolated),
        )


class Restore(_Request, frozen=True, tag="restore"):
    """Restore everything that is managed in a subsystem."""

    subsystem: Subsystem
    #: Leave what has the lease of classes, or of limits of cores, in force.
    keep_classes: bool = False


class ReadCpu(_Request, frozen=True, tag="read_cpu"):
    """Read power, throttle, frequencies, RAPL domains and power limits."""

    #: Read the power of the packages and the throttle only: a few files instead of hundreds.
    power_only: bool = False


class ReadGpu(_Request, frozen=True, tag="read_gpu"):
    """Read the power and the limit of every GPU."""

    #: Read the energy counters instead.
    energy_only: bool = False


class ReadGpuProcesses(_Request, frozen=True, tag="read_gpu_processes"):
    """Read to which pods the processes belong that use each GPU."""


class DescribeCpu(_Request, frozen=True, tag="describe_cpu"):
    """Describe the CPUs and what can be controlled."""


class DescribeGpu(_Request, frozen=True, tag="describe_gpu"):
    """Describe the GPUs and what can be controlled."""


class CheckHealth(_Request, frozen=True, tag="health"):
    """Check whether leases are enforced. Answered without waiting for any subsystem."""


Setting: TypeAlias = (
    SetCpuCap
    | SetThrottle
    | SetCpuTuning
    | SetCpuClasses
    | SetCoreLimits
    | SetGpuCaps
    | SetGpuClocks
    | SetGpuClassClocks
    | SetInterrupts
)
Request: TypeAlias = Setting | Restore | ReadCpu | ReadGpu | ReadGpuProcesses | DescribeCpu | DescribeGpu | CheckHealth


def subsystem_of(request: Request) -> Subsystem:
    """Return the subsystem that a request is about."""
    match request:
        case Restore(subsystem=subsystem):
            return subsystem
        case SetGpuCaps() | SetGpuClocks() | SetGpuClassClocks() | ReadGpu() | ReadGpuProcesses() | DescribeGpu():
            return Subsystem.GPU
        case SetInterrupts():
            return Subsystem.INTERRUPTS
        case _:
            return Subsystem.CPU


def lease_of(request: Setting) -> LeaseKind:
    """Return the lease that a request renews."""
    match request:
        case SetCpuClasses() | SetGpuClassClocks():
            return LeaseKind.CLASSES
        case SetCoreLimits():
            return LeaseKind.CORE_LIMITS
        case SetInterrupts():
            return LeaseKind.INTERRUPTS
        case _:
            return LeaseKind.POWER


T = TypeVar("T")
#: Characters of a decoder's error, which may quote the line.
_LONGEST_ERROR: Final = 300

_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


class ProtocolError(Exception):
    """A line is not a valid request or reply."""


def encode(message: Request | Reply) -> bytes:
    """Return a message as a line."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> Request:
    """Read a request.

    Raises:
        ProtocolError: it is unknown, or a value is out of range.
    """
    return _decode(_requests, line)


def decode_reply(line: bytes) -> Reply:
    """Read a reply.

    Raises:
        ProtocolError: it is not a valid reply.
    """
    return _decode(_replies, line)


def _decode(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """Decode a line; the one place that does, as `joulie_api.decoding` is in processes that have pydantic anyway."""
    try:
        return decoder.decode(line)
    except RecursionError as error:
        raise ProtocolError("nested too deeply") from error.with_traceback(None)
    except (msgspec.MsgspecError, ValueError, ArithmeticError) as error:
        raise ProtocolError(printable(str(error), _LONGEST_ERROR)) from error
