"""A machine with the kernel's semantics, and classes to apply there."""

from dataclasses import dataclass

from joulie_agent.actuator.cpu_class_protocol import CpuClassControls, Governor
from joulie_agent.actuator.cpus import CpuHandler
from joulie_agent.actuator.executor import SubsystemExecutor
from joulie_agent.actuator.protocol import (
    CpuClassesReport,
    SetCpuClasses,
    SetCpuTuning,
    SetThrottle,
)
from joulie_agent.hardware.journaled_writer import JournaledWriter
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_testing.agent.kernel import KernelMachine

FREE_KHZ, LOWEST_KHZ, THROTTLED_KHZ = 3_900_000, 1_000_000, 1_500_000
CPUFREQ = "devices/system/cpu/cpufreq"

ECO = CpuClassControls(
    cpus="0-1",
    max_khz=2_000_000,
    epp="power",
    disabled_idle_states=("POLL",),
    throttle_order=ThrottleOrder.ECO,
)


FAST = CpuClassControls(
    cpus="2-3",
    min_khz=FrequencyName.BASE,
    governor=Governor.PERFORMANCE,
    disabled_idle_states=("C6",),
    throttle_order=ThrottleOrder.PERFORMANCE,
)


BOTH = {"eco": ECO, "fast": FAST}


@dataclass
class Bench:
    machine: KernelMachine
    handler: CpuHandler
    writer: JournaledWriter
    executor: SubsystemExecutor
    clock: object

    def apply(self, lease_s=60.0, **classes) -> CpuClassesReport:
        report = self.executor.execute(SetCpuClasses(classes=classes, lease_s=lease_s))
        assert isinstance(report, CpuClassesReport)
        return report

    def throttle(self, pct, lease_s=60.0):
        return self.executor.execute(SetThrottle(throttle_pct=pct, lease_s=lease_s))

    def tune(self, epp=None, uncore_max_khz=None):
        return self.executor.execute(SetCpuTuning(epp=epp, uncore_max_khz=uncore_max_khz, lease_s=60))

    def after(self, seconds):
        self.clock.now += seconds
        return self.executor.check()

    @property
    def limits(self):
        return [self.machine.user_request_khz(name) for name in self.machine.cpufreq.policies]

    def of(self, control):
        """Return what each policy has of `min`, `governor` or `epp`."""
        return [self.machine.class_controls()[f"{name}/{control}"] for name in self.machine.cpufreq.policies]

    @property
    def state(self):
        return self.machine.registers() | self.machine.class_controls()

    def write(self, cpu, file, value):
        self.machine.external_write(f"{CPUFREQ}/policy{cpu}/{file}", value)


def controls(**fields):
    return CpuClassControls(**({"cpus": "0-1"} | fields))


def unmet(report, name):
    return {each.control: (each.reason, each.cpus) for each in report.classes[name].unmet}
