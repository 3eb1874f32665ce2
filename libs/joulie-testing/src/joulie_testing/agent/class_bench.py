"""A machine with the kernel's semantics, and classes to apply there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from joulie_actuator.cpu_class_protocol import CpuClassControls, Governor
from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import Epp, SetCpuClasses, SetCpuTuning, SetThrottle
from joulie_actuator.replies import CpuClassesReport
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_testing.agent.kernel import KernelMachine

FREE_KHZ: Final = 3_900_000
LOWEST_KHZ: Final = 1_000_000
THROTTLED_KHZ: Final = 1_500_000
CPUFREQ: Final = "devices/system/cpu/cpufreq"

ECO: Final = CpuClassControls(
    cpus="0-1",
    max_khz=2_000_000,
    epp="power",
    disabled_idle_states=("POLL",),
    throttle_order=ThrottleOrder.ECO,
)

FAST: Final = CpuClassControls(
    cpus="2-3",
    min_khz=FrequencyName.BASE,
    governor=Governor.PERFORMANCE,
    disabled_idle_states=("C6",),
    throttle_order=ThrottleOrder.PERFORMANCE,
)

BOTH: Final = {"eco": ECO, "fast": FAST}


class SetClock(Protocol):
    """A clock that a test sets."""

    now: float


@dataclass
class ClassBench:
    """CPU classes on a machine with the kernel's semantics."""

    machine: KernelMachine
    handler: CpuHandler
    writer: JournaledWriter
    executor: SubsystemExecutor
    clock: SetClock

    def apply(self, lease_s: float = 60.0, **classes: CpuClassControls) -> CpuClassesReport:
        """Set these classes in place of the earlier ones."""
        report = self.executor.execute(SetCpuClasses(classes=classes, lease_s=lease_s))
        assert isinstance(report, CpuClassesReport)
        return report

    def throttle(self, pct: float, lease_s: float = 60.0) -> Any:
        """Throttle a share of the policies."""
        return self.executor.execute(SetThrottle(throttle_pct=pct, lease_s=lease_s))

    def tune(self, epp: Epp | None = None, uncore_max_khz: int | None = None) -> Any:
        """Set the tuning of the whole machine."""
        return self.executor.execute(SetCpuTuning(epp=epp, uncore_max_khz=uncore_max_khz, lease_s=60))

    def after(self, seconds: float) -> Any:
        """Let time pass, and look at the leases."""
        self.clock.now += seconds
        return self.executor.check()

    @property
    def limits(self) -> list[int]:
        """The user's request of each policy, in kHz."""
        return [self.machine.user_request_khz(name) for name in self.machine.cpufreq.policies]

    def of(self, control: str) -> Sequence[Any]:
        """Return what each policy has of `min`, `governor` or `epp`."""
        return [self.machine.class_controls()[f"{name}/{control}"] for name in self.machine.cpufreq.policies]

    @property
    def state(self) -> dict[str, Any]:
        """Everything that can be set."""
        return {**self.machine.registers(), **self.machine.class_controls()}

    def write(self, cpu: int, file: str, value: Any) -> None:
        """Write as another program does."""
        self.machine.external_write(f"{CPUFREQ}/policy{cpu}/{file}", value)


def controls(**fields: Any) -> CpuClassControls:
    """Return controls of the first two CPUs."""
    return CpuClassControls(**({"cpus": "0-1"} | fields))


def unmet(report: CpuClassesReport, name: str) -> dict[Any, Any]:
    """Return reason and CPUs of each control that is not in force."""
    return {each.control: (each.reason, each.cpus) for each in report.classes[name].unmet}
