"""The CPUs of interrupts: sends the actuator what the container policy wants, and renews the lease of that."""

from typing import NoReturn

import structlog

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.interrupt_protocol import InterruptClaims
from joulie_actuator.protocol import SetInterrupts
from joulie_actuator.replies import InterruptsReport
from joulie_api.failure_log import FailureLog
from joulie_containers.resources.renewal import NO_ACTUATOR, RENEWALS, RETRY_S, Renewal, RequestExecutor, problem_of
from joulie_core.containers.interrupts import NO_INTERRUPTS, InterruptPlacement

_log = structlog.get_logger()


class InterruptController:
    """The interrupts of the node.

    Args:
        actuator: None where there is none; then no interrupt is moved, which is stated once.
        lease_s: how long the actuator leaves them moved without this process.
    """

    def __init__(self, actuator: RequestExecutor | None, *, lease_s: float) -> None:
        self._actuator = actuator
        self._lease_s = lease_s
        self._controllable: tuple[str, ...] = ()
        self._wanted = NO_INTERRUPTS
        self._renewal = Renewal(self._apply)
        #: Whether the actuator may have moved some for this process.
        self._in_use = False
        self._failures = FailureLog(_log, failed="interrupts not moved", recovered="interrupts moved")
        self._unmet = FailureLog(_log, failed="some interrupts not moved", recovered="all interrupts moved")
        self.report = InterruptsReport()
        """The last report of the actuator."""

    @property
    def wanted(self) -> InterruptPlacement:
        """Wishes of the container policy."""
        return self._wanted

    @property
    def problem(self) -> str | None:
        """Interrupts that are not where they should be, and why; None where all are."""
        return self._failures.problem() or self._unmet.problem()

    def define(self, controllable: tuple[str, ...]) -> None:
        """Note which interrupts the configuration lets move."""
        if controllable != self._controllable:
            self._controllable = controllable
            self._renewal.wake()

    def assign(self, wanted: InterruptPlacement) -> None:
        """Note what the container policy wants."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._renewal.wake()

    async def run(self) -> NoReturn:
        """Keep interrupts moved until cancelled; then they return with the lease, or another process renews it."""
        await self._renewal.run()

    async def _apply(self) -> float | None:
        wanted = self._wanted
        if not wanted and not self._in_use:
            return None
        if self._actuator is None:
            self._failures.failed(NO_ACTUATOR)
            return None
        request = SetInterrupts(
            controllable=self._controllable,
            claims=tuple(InterruptClaims(patterns=each.patterns, cpus=str(each.cpus)) for each in wanted.claims),
            sinks=str(wanted.sinks),
            isolated=str(wanted.isolated),
            lease_s=self._lease_s,
        )
        match await self._actuator.execute(request):
            case InterruptsReport(failure=None) as report:
                self.report = report
                self._in_use = bool(wanted)
                self._failures.recovered()
                self._note(report)
                return self._lease_s / RENEWALS if self._in_use else None
            case InterruptsReport(failure=HardwareFailure(message=problem)):
                pass
            case reply:
                problem = problem_of(reply)
        self.report = InterruptsReport()
        self._in_use = True
        self._failures.failed(problem)
        return RETRY_S

    def _note(self, report: InterruptsReport) -> None:
        texts = [
            *([f"{report.failed} of them: {report.message}"] if report.failed else ()),
            *([f"the kernel does not let {report.fixed} of them move"] if report.fixed else ()),
            *([f"{report.left_out} of them are more than are looked at"] if report.left_out else ()),
        ]
        if texts:
            self._unmet.failed("; ".join(texts))
        else:
            self._unmet.recovered()
