"""CPU classes: sends the actuator which CPUs have which class, and renews the lease of that."""

from collections.abc import Callable, Mapping
from typing import NoReturn

import structlog

from joulie_actuator.cpu_class_protocol import CpuClassControls, CpuClassState, Governor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCpuClasses
from joulie_actuator.replies import CpuClassesReport, ErrorReply
from joulie_api.failure_log import FailureLog
from joulie_containers.resources.renewal import NO_ACTUATOR, RENEWALS, RETRY_S, Renewal, RequestExecutor, problem_of
from joulie_core.containers.idset import Cpus
from joulie_core.kinds.cpu_class import CpuClassSpec

_log = structlog.get_logger()


class CpuClassController:
    """The CPU classes of the node.

    Args:
        actuator: None where there is none; then classes are not applied, which is stated once.
        lease_s: how long the actuator keeps the classes without this process.
    """

    def __init__(self, actuator: RequestExecutor | None, *, lease_s: float) -> None:
        self._actuator = actuator
        self._lease_s = lease_s
        self._specs: Mapping[str, CpuClassSpec] = {}
        self._cpus: Mapping[str, Cpus] = {}
        self._renewal = Renewal(self._apply)
        #: Whether the actuator may have classes in force that this process has set.
        self._in_use = False
        self._failures = FailureLog(_log, failed="CPU classes not applied", recovered="CPU classes applied")
        self._unmet = FailureLog(_log, failed="CPU class not in force", recovered="CPU class in force")
        self.on_report: Callable[[Mapping[str, CpuClassState]], None] = lambda _states: None
        """Called with each report of the actuator."""
        self.in_force: Mapping[str, CpuClassState] = {}
        """What the actuator has reported, by class."""

    @property
    def problem(self) -> str | None:
        """Reason why classes are not applied; None where they are, or none is wanted."""
        return self._failures.problem()

    @property
    def shortfalls(self) -> Mapping[str, str]:
        """Parts that are not in force of each class that the actuator has, by class; a class that is met is absent."""
        return {
            name: "; ".join(f"{each.control}: {each.message} (CPUs {each.cpus})" for each in state.unmet)
            for name, state in self.in_force.items()
            if state.unmet
        }

    @property
    def shortfall(self) -> str | None:
        """The same in one line, or why no class is applied; None where nothing is missing."""
        texts = [f"class {name}: {text}" for name, text in sorted(self.shortfalls.items())]
        return "; ".join([*filter(None, [self.problem]), *texts]) or None

    def define(self, specs: Mapping[str, CpuClassSpec]) -> None:
        """Note what the classes of the configuration set."""
        if specs != self._specs:
            self._specs = specs
            self._renewal.wake()

    def assign(self, cpus: Mapping[str, Cpus]) -> None:
        """Note which CPUs have which class."""
        if cpus != self._cpus:
            self._cpus = cpus
            self._renewal.wake()

    async def run(self) -> NoReturn:
        """Keep the classes in force until cancelled; then they end with their lease, or another process renews it."""
        await self._renewal.run()

    async def _apply(self) -> float | None:
        """Send the classes; return when to send them again, in seconds, or None where that is not necessary."""
        classes = {name: cpus for name, cpus in self._cpus.items() if cpus}
        if not classes and not self._in_use:
            return None
        incomplete = self._report_incomplete(classes)
        if self._actuator is None:
            self._failures.failed(NO_ACTUATOR)
            return None
        controls = {name: _controls(self._specs[name], cpus) for name, cpus in classes.items() if name in self._specs}
        reply = await self._actuator.execute(SetCpuClasses(classes=controls, lease_s=self._lease_s))
        match reply:
            case CpuClassesReport(failure=None):
                self._in_use = bool(classes)
                self._note(reply.classes)
                if not incomplete:
                    self._failures.recovered()
                return self._lease_s / RENEWALS if self._in_use else None
            case CpuClassesReport(failure=HardwareFailure(message=problem)):
                self._note(reply.classes)
            case _:
                if isinstance(reply, HardwareFailure | ErrorReply):
                    self.in_force = {}
                problem = problem_of(reply)
        self._in_use = True
        self._failures.failed(problem)
        return RETRY_S

    def _note(self, states: Mapping[str, CpuClassState]) -> None:
        """Take what the actuator has reported, and log what the hardware cannot serve once."""
        self.in_force = states
        self.on_report(states)
        for name, text in self.shortfalls.items():
            self._unmet.failed(text, cpu_class=name)
        for name in states.keys() - self.shortfalls.keys():
            self._unmet.recovered(cpu_class=name)
        self._unmet.retain(lambda subject: subject["cpu_class"] in states)

    def _report_incomplete(self, classes: Mapping[str, Cpus]) -> bool:
        """Report what cannot be sent; return whether there is something."""
        problems = [
            f"the configuration does not define the class {name}" for name in classes if name not in self._specs
        ]
        for name, spec in self._specs.items():
            for field in ("uncore_min_freq", "uncore_max_freq"):
                if name in classes and isinstance(getattr(spec, field), str):
                    alias = CpuClassSpec.model_fields[field].alias
                    problems.append(f"{alias} of the class {name} has no number: the uncore has no such frequency")
        if problems:
            self._failures.failed("; ".join(problems))
        return bool(problems)


def _controls(spec: CpuClassSpec, cpus: Cpus) -> CpuClassControls:
    return CpuClassControls(
        cpus=str(cpus),
        min_khz=spec.min_freq,
        max_khz=spec.max_freq,
        epp=spec.energy_performance_preference,
        governor=None if spec.freq_governor is None else Governor(spec.freq_governor),
        disabled_idle_states=spec.disabled_cstates,
        uncore_min_khz=_fixed(spec.uncore_min_freq),
        uncore_max_khz=_fixed(spec.uncore_max_freq),
        turbo_priority=spec.turbo_priority,
        throttle_order=spec.throttled,
    )


def _fixed(frequency: object) -> int | None:
    """Return a frequency of the uncore; one by name is not sent."""
    return frequency if isinstance(frequency, int) else None
