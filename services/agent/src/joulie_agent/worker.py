"""Control loop of one node: enforce, publish, wait. It runs at every change and at least once per interval.

What cannot wait for the API server acts between passes, and while one waits: `joulie_agent.turns`.

Nodes do not wait for each other. A pass that fails is counted, logged once per cause and followed by the next. A node
that leaves is restored before its objects are deleted. A shutdown restores nothing: the next agent continues from the
report, and without one the lease of the host's limits expires.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import structlog

from joulie_agent.backends.factory import BackendFactory
from joulie_agent.budgets.follow import BudgetFollower, BudgetSources
from joulie_agent.budgets.report_delay import ReportDelay
from joulie_agent.class_limits.enforcement import ClassLimitEnforcement
from joulie_agent.class_limits.report import limit_reports
from joulie_agent.class_limits.shadow import ShadowLimits, ShadowState
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.energy.follow import EnergyFollower
from joulie_agent.enforce.node import Inputs, NodeControl, Tick
from joulie_agent.enforce.places import announced
from joulie_agent.informers import Informers
from joulie_agent.node_view import NodeView
from joulie_agent.publish import Publisher
from joulie_agent.report import HEARTBEAT_S, compose
from joulie_agent.turns import NodeTurns
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_core.control.dvfs import DvfsSettings
from joulie_core.control.lost_control import target_out_of_reach
from joulie_core.control.telemetry_route import Route
from joulie_core.fnv import fnv1a_32
from joulie_core.holders.held import HeldDevice
from joulie_core.kinds.telemetry_profile import ControlReports, TelemetryProfileStatus
from joulie_core.node import Node
from joulie_core.timestamps import rfc3339

#: Work whose unexpected errors are counted apart.
_REGULAR: Final = "node pass"
_SHADOW: Final = "limits by class"

#: Changes that come together, such as a profile and its node's labels, are acted on together.
DEBOUNCE_S: Final = 0.1
#: Passes that try to restore a leaving node before that is left to the next agent.
RESTORE_ATTEMPTS: Final = 15

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WorkerDeps:
    """Objects that all node workers of a process share."""

    informers: Informers
    factory: BackendFactory
    publisher: Publisher
    discoverer: Discoverer
    dvfs: DvfsSettings
    #: Between two samples of the DVFS loop.
    dvfs_interval_s: float
    interval_s: float
    #: How long a target is kept without contact with the API server.
    spec_timeout_s: float
    #: Now, in seconds since the epoch.
    wall_time: Callable[[], float]
    failures: Failures
    #: What holds the GPUs of this machine, or None before that is known; None where it is not followed.
    held: Callable[[], Sequence[HeldDevice] | None] | None = None
    #: The energy of this machine; None where it is not added up.
    energy: EnergyFollower | None = None
    #: The limits by class that the GPUs of this machine would have; None where they are not followed.
    shadow: ShadowLimits | None = None
    #: Those that are set; None where none is.
    enforcement: ClassLimitEnforcement | None = None


class NodeWorker:
    """The loop of one node; `run` ends when the node has left and was restored."""

    def __init__(self, node: Node, deps: WorkerDeps, *, orphan: bool = False) -> None:
        """Make a worker. `orphan`: the node left management while no agent ran and is only to be restored."""
        self.view = NodeView()
        self._node = node
        self._deps = deps
        self._orphan = self._departing = orphan
        self._attempts = 0
        self._woken = asyncio.Event()
        self._log = _log.bind(node=node.name)
        self._write_failures = FailureLog(self._log, failed="publishing failed", recovered="publishing recovered")
        self._target_failures = FailureLog(self._log, failed="target not refreshed", recovered="target refreshed again")
        profile = deps.informers.status_profile(node.name)
        last = profile.model.status.control if profile else None
        #: As last published; the next agent restores the places in it.
        self._published = last
        self._announced: tuple[Route, bool, bool] | None = None
        #: When the power of the node was last reported.
        self._told_power_s = -math.inf
        budgets = BudgetSources(deps.informers.budget, deps.publisher.budget, deps.wall_time)
        self._budget = BudgetFollower(node.name, budgets, self._log)
        self._report_delay = ReportDelay()
        self._control = NodeControl(
            node,
            last,
            factory=deps.factory,
            discoverer=deps.discoverer,
            dvfs=deps.dvfs,
        )
        self._turns = NodeTurns(
            node.name,
            self._control,
            self._budget,
            self.view,
            failures=deps.failures,
            dvfs_interval_s=deps.dvfs_interval_s,
            wake=self.wake,
            log=self._log,
        )

    def wake(self) -> None:
        """Trigger a pass: something about the node changed."""
        self._woken.set()

    def leave(self) -> None:
        """Restore the node, delete its objects and end: it is no longer served here."""
        if not self._departing:
            self._departing = True
            self._attempts = 0
            self.wake()

    def stay(self) -> None:
        """Continue: the node came back before it was gone."""
        if self._departing:
            self._orphan = self._departing = False
            self.wake()

    async def run(self) -> None:
        """Serve the node until it has left."""
        follower = asyncio.create_task(self._turns.run(), name=f"turns {self._node.name}")
        try:
            await self._passes()
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)

    async def _passes(self) -> None:
        loop = asyncio.get_running_loop()
        # Nodes that start together must not tick together from then on.
        spread = 0.25 + 0.75 * (fnv1a_32(self._node.name) % 1000) / 1000
        while True:
            started = loop.time()
            self._woken.clear()
            if await self._guarded_pass(started):
                return
            next_s = self._report_delay.next_pass_s(started + self._deps.interval_s * spread, started)
            await self._rest(self._budget.due_s(next_s, loop.time()))
            spread = 1.0

    async def _rest(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(max(0.0, due - loop.time())):
                await self._woken.wait()
        except TimeoutError:
            return
        await asyncio.sleep(DEBOUNCE_S)

    async def _guarded_pass(self, now: float) -> bool:
        """Run one pass; return True when the node has left. A failing pass must not end those of other nodes."""
        try:
            gone = await (self._depart(now) if self._departing else self._serve(now))
        except KubeError as error:
            self.view.errors += 1
            self._write_failures.failed(error)
            return False
        except Exception as error:  # noqa: BLE001 - counted, and logged with its trace; the next pass starts afresh
            self.view.errors += 1
            self._deps.failures.internal_error(_REGULAR, error, node=self._node.name)
            return False
        self._write_failures.recovered()
        self._deps.failures.worked(_REGULAR, node=self._node.name)
        return gone

    async def _serve(self, now: float) -> bool:
        informers, publisher = self._deps.informers, self._deps.publisher
        self._node = informers.nodes.get(self._node.name, self._node)
        inputs = self._inputs(now)
        await self._announce(inputs)
        tick, inputs = await self._turns.tick(inputs)
        if tick.again:
            self.wake()
        if not await self._budget.report(tick.limit):
            self.view.errors += 1
        self.view.shadow = self._shadowed(tick, now)
        wall_time = rfc3339(self._deps.wall_time())
        await publisher.hardware(self._node, tick.hardware.status, informers.hardware(self._node.name), wall_time)
        await publisher.status_profile(self._node, inputs.route, informers.status_profile(self._node.name))
        reading, gpu_reading = (tick.cpu_reading, tick.gpu_reading) if self._tells_power(inputs) else (None, None)
        await self._report(
            ControlReports(cpu=tick.cpu, gpu=tick.gpu),
            cpu_watts=reading.power_watts if reading else None,
            gpu_watts=gpu_reading.power_watts if gpu_reading else None,
            watts_of={each.gpu: each.power_watts for each in gpu_reading.gpus} if gpu_reading else {},
            postponed=self._report_delay.postpones(inputs.limit, now),
        )
        return False

    def _tells_power(self, inputs: Inputs) -> bool:
        """Return whether a pass reports power: those that are only for a sample do not, or each would be a write."""
        if inputs.samples and inputs.now < self._told_power_s + min(self._deps.interval_s, HEARTBEAT_S):
            return False
        self._told_power_s = inputs.now
        return True

    def _shadowed(self, tick: Tick, now: float) -> ShadowState | None:
        """Return the limits by class; None where they are not followed. What sets nothing must not stop what does."""
        if self._deps.shadow is None:
            return None
        try:
            state = self._deps.shadow.step(tick.gpu_reading, tick.gpu, tick.hardware.status, now)
        except Exception as error:  # noqa: BLE001 - as for a pass
            self._deps.failures.internal_error(_SHADOW, error, node=self._node.name)
            return None
        self._deps.failures.worked(_SHADOW, node=self._node.name)
        return state

    async def _announce(self, inputs: Inputs) -> None:
        """Publish what is about to be put in force at an endpoint, for the next agent if this one ends meanwhile."""
        limited = inputs.limit is not None and inputs.limit.applies(inputs.now)
        wanted = (inputs.route, inputs.target is not None, limited)
        reports = announced(self._published, self._node.name, inputs.route, inputs.target, limited=limited)
        # An endpoint that refuses everything is never recorded with anything in force: once is enough.
        if reports is None or wanted == self._announced:
            self._announced = wanted
            return
        live = self._deps.informers.status_profile(self._node.name)
        await self._deps.publisher.status_profile(self._node, inputs.route, live)
        last = live.model.status if live else TelemetryProfileStatus()
        status = TelemetryProfileStatus(control=reports, power=last.power, devices=last.devices, energy=last.energy)
        await self._deps.publisher.report(self._node.name, status, live)
        self._published = reports
        self._announced = wanted

    async def _depart(self, now: float) -> bool:
        informers, name = self._deps.informers, self._node.name
        self._attempts += 1
        reports = await self._turns.restore(self._inputs(now))
        if self._control.in_force:
            self.view.errors += 1
            await self._report(reports, cpu_watts=None, gpu_watts=None)
            if self._attempts < RESTORE_ATTEMPTS:
                return False
            self._log.error("restore failed, giving up", attempts=self._attempts, **_summary(reports))
            return True
        wall_time = rfc3339(self._deps.wall_time())
        final_status = TelemetryProfileStatus(
            control=ControlReports(
                cpu=reports.cpu and reports.cpu.model_copy(update={"updated_at": wall_time}),
                gpu=reports.gpu and reports.gpu.model_copy(update={"updated_at": wall_time}),
            )
        )
        await self._deps.publisher.withdraw(name, informers.status_profile(name), final_status)
        self._log.info("node left", **_summary(reports))
        return True

    def _inputs(self, now: float) -> Inputs:
        informers = self._deps.informers
        hardware = informers.hardware(self._node.name)
        age_s, target = informers.targets_age_s(), informers.target(self._node.name)
        lost = age_s > self._deps.spec_timeout_s
        if lost and target is not None:
            target = target_out_of_reach(target, self._control.floor)
            self._target_failures.failed(f"no contact with the API server for {age_s:.0f} s", cause="no contact")
        else:
            self._target_failures.recovered()
        return Inputs(
            node=self._node,
            route=informers.last_route(self._node) if self._orphan else informers.route(self._node),
            target=target,
            lost=lost,
            published=hardware.model.status if hardware else None,
            now=now,
            limit=self._budget.follow(now),
            held={each.uuid: each.held_as for each in self._held() or ()},
        )

    def _held(self) -> Sequence[HeldDevice] | None:
        """Return the GPUs of the machine and what holds them; None while that is not known, or not followed."""
        return self._deps.held() if self._deps.held else None

    async def _report(
        self,
        reports: ControlReports,
        *,
        cpu_watts: float | None,
        gpu_watts: float | None,
        watts_of: Mapping[str, float | None] = MappingProxyType({}),
        postponed: bool = False,
    ) -> None:
        assert reports.cpu is not None
        assert reports.gpu is not None
        enforcement = self._deps.enforcement
        live = self._deps.informers.status_profile(self._node.name)
        status = compose(
            last=live.model.status if live else TelemetryProfileStatus(),
            cpu=reports.cpu,
            gpu=reports.gpu,
            cpu_watts=cpu_watts,
            gpu_watts=gpu_watts,
            now_s=self._deps.wall_time(),
            held=self._held(),
            watts_of=watts_of,
            energy=self._deps.energy.totals if self._deps.energy else None,
            energy_since_s=self._deps.energy.since_s if self._deps.energy else 0.0,
            limits=limit_reports(
                self.view.shadow,
                enforcement.gpus if enforcement else None,
                waits_s=enforcement.waits_s if enforcement else None,
            )
            if self.view.shadow
            else {},
            postponed=postponed,
        )
        await self._deps.publisher.report(self._node.name, status, live)
        self._published = status.control


def _summary(reports: ControlReports) -> dict[str, str]:
    return {
        subsystem: f"{report.result}: {report.reason} {report.message}".strip()
        for subsystem, report in (("cpu", reports.cpu), ("gpu", reports.gpu))
        if report is not None
    }
