"""CPU classes in requests to the actuator and in its replies: the controls of a class, and what is in force of them."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.reasons import Reason
from joulie_core.containers.idset import Cpus, InvalidIdListError
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder

#: Classes in one request, and idle states in one class.
MOST_CLASSES: Final = 64
MOST_IDLE_STATES: Final = 16
#: Groups of cores in one request.
MOST_CORE_LIMITS: Final = 4096


class Governor(StrEnum):
    """Governors of cpufreq that a class may select. `userspace` is none of them: it has a speed of its own."""

    PERFORMANCE = "performance"
    POWERSAVE = "powersave"
    SCHEDUTIL = "schedutil"
    ONDEMAND = "ondemand"
    CONSERVATIVE = "conservative"


Khz = Annotated[int, msgspec.Meta(gt=0, le=100_000_000)]
Frequency: TypeAlias = Khz | FrequencyName
ClassName = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
#: CPUs in the list format of the kernel, such as `0-3,8`.
CpuList = Annotated[str, msgspec.Meta(max_length=32_768)]
#: The name that cpuidle has for a state, such as `C6`.
IdleStateName = Annotated[str, msgspec.Meta(min_length=1, max_length=32)]
#: A word of cpufreq, or a number from 0 (performance) to 255 (power) on drivers that take numbers.
EppText = Annotated[
    str,
    msgspec.Meta(pattern=r"^(default|performance|balance_performance|balance_power|power|1?\d?\d|2[0-4]\d|25[0-5])\Z"),
]


def _check_list(cpus: str) -> None:
    try:
        Cpus.parse(cpus)
    except InvalidIdListError as error:
        raise ValueError(str(error)) from error


class CpuClassControls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The CPUs of one class and their controls; a control that is None or empty has its original.

    Raises:
        ValueError: `cpus` is no list of CPUs.
    """

    cpus: CpuList
    #: Lower and upper limit of the frequency, raised and lowered to what the hardware can run at.
    min_khz: Frequency | None = None
    max_khz: Frequency | None = None
    epp: EppText | None = None
    governor: Governor | None = None
    disabled_idle_states: Annotated[tuple[IdleStateName, ...], msgspec.Meta(max_length=MOST_IDLE_STATES)] = ()
    uncore_min_khz: Khz | None = None
    uncore_max_khz: Khz | None = None
    #: In each package the classes of the highest priority alone have `turbo` resolved to the highest frequency, all
    #: others to the base frequency. Where all have 0, all may exceed it.
    turbo_priority: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    #: When a throttle takes the CPUs of this class.
    throttle_order: ThrottleOrder = ThrottleOrder.STANDARD

    def __post_init__(self) -> None:
        _check_list(self.cpus)


class CoreFrequencyLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The highest frequency of CPUs by the class of the containers that have them alone.

    Raises:
        ValueError: `cpus` is no list of CPUs.
    """

    cpus: CpuList
    max_khz: Khz

    def __post_init__(self) -> None:
        _check_list(self.cpus)


class FailedCores(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs of a frequency policy whose limit could not be set or lifted; what it is now is not known."""

    #: In the list format of the kernel.
    cpus: str
    failure: HardwareFailure


class ClassControl(StrEnum):
    """A control of a class, named as the field of `CpuClassControls` that has its value."""

    MIN_KHZ = "min_khz"
    MAX_KHZ = "max_khz"
    EPP = "epp"
    GOVERNOR = "governor"
    IDLE_STATES = "disabled_idle_states"
    UNCORE_MIN_KHZ = "uncore_min_khz"
    UNCORE_MAX_KHZ = "uncore_max_khz"
    TURBO_PRIORITY = "turbo_priority"


class UnmetControl(msgspec.Struct, frozen=True, kw_only=True):
    """A control of a class that is not in force on some of its CPUs."""

    control: ClassControl
    reason: Reason
    message: str
    #: In the list format of the kernel.
    cpus: str


class KhzSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The lowest and the highest value among the CPUs of a class."""

    lowest: int
    highest: int


class CpuClassState(msgspec.Struct, frozen=True, kw_only=True):
    """Frequency limits in force on the CPUs of one class, and its unmet controls."""

    #: Those that are online, in the list format of the kernel.
    cpus: str
    #: Frequency limits as they are in force, whatever set them; None where there is no CPU or no frequency policy.
    ceiling_khz: KhzSpan | None
    floor_khz: KhzSpan | None
    #: How many of the CPUs the power loop throttles.
    throttled_cpus: int = 0
    #: A lower external limit is none of these: it shows in `ceiling_khz`.
    unmet: tuple[UnmetControl, ...] = ()


class ClassAbilities(msgspec.Struct, frozen=True, kw_only=True):
    """Controls of CPU classes that a machine has, with the values that it offers; empty where it has none."""

    #: Whether frequency limits can be written.
    frequencies: bool = False
    #: Whether `base` is known.
    base_frequency: bool = False
    preferences: tuple[str, ...] = ()
    governors: tuple[Governor, ...] = ()
    idle_states: tuple[str, ...] = ()
    #: Whether the actuator has the capability to disable them.
    idle_states_permitted: bool = False
    uncore: bool = False
