"""Values of one node that metrics and the log show: the last reading, reports and actions."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from joulie_agent.backends.base import CpuReading, GpuReading
from joulie_agent.budgets.metrics import NodeBudgetView
from joulie_agent.class_limits.shadow import ShadowState
from joulie_agent.enforce.cpu import CpuControlState
from joulie_agent.enforce.node import Tick
from joulie_core.budget.node_limit import FollowedLimit
from joulie_core.control.dvfs import DvfsDirection
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import ControlReport


@dataclass(slots=True)
class NodeView:
    """Values of one node for a scrape; written by its worker only."""

    policy: str = ""
    #: Watts per package in the published target.
    cap_watts: float | None = None
    cpu: CpuReading = field(default_factory=CpuReading)
    gpu: GpuReading = field(default_factory=GpuReading)
    cpu_state: CpuControlState = field(default_factory=CpuControlState)
    #: What each subsystem reported last, by its name.
    reports: dict[str, ControlReport] = field(default_factory=dict)
    actions: Counter[DvfsDirection] = field(default_factory=Counter)
    errors: int = 0
    #: None where limits by class are not followed.
    shadow: ShadowState | None = None
    #: None without a power budget.
    budget: NodeBudgetView | None = None

    def show(self, target: NodePowerProfileSpec | None, limit: FollowedLimit | None, tick: Tick) -> None:
        """Take the results of a tick that carried out `target` and the limit of a power budget."""
        self.budget = None
        if limit is not None and tick.limit is not None:
            oversubscribed = limit.hold is not None
            self.budget = NodeBudgetView(limit.ask.limit_mw, tick.limit, tick.sources, oversubscribed)
        self.policy = (target.policy.name if target.policy and target.policy.name else target.profile) if target else ""
        self.cap_watts = tick.cpu.requested_watts
        # A scrape between two good readings shows the last one for one interval at most, then nothing.
        self.cpu = tick.cpu_reading or CpuReading()
        self.gpu = tick.gpu_reading or GpuReading()
        if tick.failed:
            self.errors += 1
        self.reports = {"cpu": tick.cpu, "gpu": tick.gpu}


class EnforcementLog:
    """Logs the result of each enforcement when it changes, not at each tick."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        #: What was last logged, by subsystem.
        self._logged: dict[str, dict[str, Any]] = {}

    def log(self, reports: Mapping[str, ControlReport]) -> None:
        """Log what has changed of the reports, by subsystem."""
        for subsystem, report in reports.items():
            outcome = {"result": report.result, "reason": report.reason, "requested_watts": report.requested_watts}
            if self._logged.get(subsystem) != outcome:
                self._logged[subsystem] = outcome
                self._log.info(
                    "enforcement changed",
                    subsystem=subsystem,
                    **outcome,
                    backend=report.backend,
                    message=report.message,
                )
