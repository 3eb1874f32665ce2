"""Turns at the hardware of one node: passes, samples of the DVFS loop, and fallbacks of its power limit.

One at a time acts on the node. The DVFS loop and the fallback do not wait for the API server, as a pass does; they
publish nothing, the next pass does.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from joulie_agent.budgets.fall_back import FallbackTimer
from joulie_agent.budgets.follow import BudgetFollower
from joulie_agent.enforce.node import Inputs, NodeControl, Tick
from joulie_agent.node_view import EnforcementLog, NodeView
from joulie_api.failures import Failures
from joulie_core.control.dvfs import DvfsDirection
from joulie_core.kinds.telemetry_profile import ControlReports
from joulie_core.names import NodeName

#: Work whose unexpected errors are counted apart.
_SAMPLE: Final = "DVFS sample"
_FALLBACK: Final = "fallback of a power budget"
#: Seconds until a fallback that has failed unexpectedly is tried again.
_FALLBACK_RETRY_S: Final = 1.0


class NodeTurns:
    """Actors on one node: the tick of a pass, and between passes, while `run` runs, DVFS loop and fallback.

    Args:
        node: its name.
        control: of its hardware.
        budget: its power budget.
        view: gets the results.
        failures: of the process.
        dvfs_interval_s: between two samples of the DVFS loop.
        wake: triggers a pass.
        log: of the node.
    """

    def __init__(
        self,
        node: NodeName,
        control: NodeControl,
        budget: BudgetFollower,
        view: NodeView,
        *,
        failures: Failures,
        dvfs_interval_s: float,
        wake: Callable[[], None],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._node = node
        self._control = control
        self._budget = budget
        self._view = view
        self._failures = failures
        self._dvfs_interval_s = dvfs_interval_s
        self._wake = wake
        self._log = log
        self._enforcement_log = EnforcementLog(log)
        self._turn = asyncio.Lock()
        self._looping = asyncio.Event()
        self._fallback = FallbackTimer(self._fall_back)
        #: Inputs of the last tick; None before the first, and after a restore.
        self._ticked: Inputs | None = None

    async def run(self) -> None:
        """Serve the DVFS loop and the fallback until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name=f"dvfs {self._node}")
            group.create_task(self._fallback.run(), name=f"fallback {self._node}")

    async def tick(self, inputs: Inputs) -> tuple[Tick, Inputs]:
        """Carry out the inputs of a pass as they are when its turn comes; return what came of it, and those inputs."""
        async with self._turn:
            now = asyncio.get_running_loop().time()
            limit = inputs.limit and self._budget.renamed(inputs.limit)
            inputs = replace(inputs, now=now, limit=limit, samples=self._budget.samples(now))
            tick = await self._carry_out(inputs)
        if inputs.samples:
            self._budget.sampled(inputs.now, tick.drawn_mw)
        return tick, inputs

    async def restore(self, inputs: Inputs) -> ControlReports:
        """Restore the node."""
        async with self._turn:
            self._ticked = None
            self._fallback.stop()
            reports = await self._control.restore(inputs)
            self._control_moved()
        return reports

    async def _carry_out(self, inputs: Inputs) -> Tick:
        self._ticked = inputs
        # Before it may be in force: a limit whose tick fails ends all the same.
        self._fallback.before(inputs.limit, inputs.now)
        tick = await self._control.tick(inputs)
        self._fallback.after(inputs.limit, tick.limit, inputs.now)
        self._control_moved()
        self._view.show(inputs.target, inputs.limit, tick)
        self._acted(tick.action)
        self._enforcement_log.log(self._view.reports)
        return tick

    async def _fall_back(self) -> None:
        """Lower the limit that was put in force last to its fallback, unless its object names a fresh sample by now."""
        async with self._turn:
            inputs, now = self._ticked, asyncio.get_running_loop().time()
            if inputs is None or inputs.limit is None:
                return
            inputs = replace(inputs, now=now, limit=self._budget.renamed(inputs.limit), samples=False)
            if inputs.limit is not None and not inputs.limit.falls_back(now):
                self._ticked = inputs
                self._fallback.before(inputs.limit, now)
                return
            try:
                await self._carry_out(inputs)
            except Exception as error:  # noqa: BLE001 - as for a pass
                self._view.errors += 1
                self._failures.internal_error(_FALLBACK, error, node=self._node)
                self._fallback.retry(_FALLBACK_RETRY_S)
                return
            self._failures.worked(_FALLBACK, node=self._node)
        self._wake()

    async def _follow(self) -> None:
        """Sample the DVFS loop for as long as it holds the power."""
        loop = asyncio.get_running_loop()
        while True:
            await self._looping.wait()
            await asyncio.sleep(self._dvfs_interval_s)
            async with self._turn:
                try:
                    self._acted(await self._control.follow(loop.time()))
                except Exception as error:  # noqa: BLE001 - as for a pass
                    self._view.errors += 1
                    self._failures.internal_error(_SAMPLE, error, node=self._node)
                else:
                    self._failures.worked(_SAMPLE, node=self._node)
                self._control_moved()

    def _control_moved(self) -> None:
        self._view.cpu_state = self._control.cpu_state
        (self._looping.set if self._control.looping else self._looping.clear)()

    def _acted(self, action: DvfsDirection | None) -> None:
        if action is not None:
            self._view.actions[action] += 1
            self._log.info("throttle changed", action=action, throttle_pct=self._control.cpu_state.dvfs.throttle_pct)
