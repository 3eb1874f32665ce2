"""Brings the power of one server to what is desired, and times its boots.

Guarantees: a boot is stored before it is requested, so that it is timed across restarts of the service; nothing is
requested unless this process leads. A power-off that the operator has requested is carried out only while the NodeBMC
still asks for it and the Node has the taint of sleeping nodes and no pod that would be lost, all as the API server has
them immediately before the request, be it the graceful or the forced one: without the taint the request is one that was
left behind. It is carried out once: a server that is on again after it was off was switched on by a person.
"""

from typing import Final

import structlog

from joulie_api.errors import DecodeError, NotFound
from joulie_api.node_pods import pod_in_the_way
from joulie_api.resources import NODE_BMCS, NODES
from joulie_api.wire import Versioned, decode_kind
from joulie_core import labels
from joulie_core.kinds import NodeBMC, NodeBMCSpec
from joulie_core.kinds.node_bmc import BmcBoot, DesiredPower, PowerState, is_own_request
from joulie_core.timestamps import age_seconds, rfc3339
from joulie_outofband.bmc import Bmc, BmcReport
from joulie_outofband.boots import NodeReadiness, is_complete, read_readiness, usual_boot_s, with_boot
from joulie_outofband.metrics import BmcAction
from joulie_outofband.outcome import BmcFinding
from joulie_outofband.parts import WorkerParts
from joulie_outofband.power import PowerDecision, PowerRequest, decide_power
from joulie_outofband.publish import StatusPublisher
from joulie_outofband.reasons import BmcError, BmcReason

#: The way out from a power-off that is not carried out.
_LEFT_BEHIND: Final = (
    f"the operator requested desiredPower Off, and the Node has no taint {labels.ASLEEP_TAINT}: pods may be on it. "
    "Remove spec.desiredPower; the operator, where it runs, does"
)
#: The same of one that was carried out already.
_SWITCHED_ON: Final = "the server was off, and was switched on by a person; the operator, where it runs, takes that up"
#: Of one that was withdrawn, which the watch has not shown yet.
_WITHDRAWN: Final = "the power-off was withdrawn meanwhile: nothing was requested"
#: Of pods before a request, and after one that cannot be taken back.
_NOT_REQUESTED: Final = (
    "is on the node, and would be lost: nothing was requested; the operator, where it runs, wakes it"
)
_NOT_FORCED: Final = (
    "came while the server was asked to shut down: its kubelet has to end it, the power is not forced off while it is "
    "there, and the operator, where it runs, wakes the node"
)

_DECODE: Final = decode_kind(NodeBMC)

_log = structlog.get_logger()


class PowerKeeper:
    """The power of one server."""

    def __init__(self, name: str, publisher: StatusPublisher, parts: WorkerParts) -> None:
        self._name = name
        self._publisher = publisher
        self._parts = parts
        self._request: PowerRequest | None = None
        #: Whether the server was off since that is desired, as far as this process knows.
        self._was_off = False
        #: Until when the server may still go off by the last graceful shutdown, by the monotonic clock.
        self._shuts_down_until = float("-inf")
        self._log = _log.bind(node=name)

    @property
    def is_changing(self) -> bool:
        """Whether the effect of a request, of one that was withdrawn too, or the end of a boot is awaited."""
        shuts_down = self._parts.clock() < self._shuts_down_until
        return shuts_down or self._request is not None or self._publisher.status.pending_boot is not None

    async def keep(self, bmc: Bmc, wanted: Versioned[NodeBMC], report: BmcReport) -> BmcFinding:
        """Request a reset where one is due.

        Raises:
            KubeError: the NodeBMC, the Node or its pods could not be read, or the boot not stored; nothing was
                requested, or only the graceful shutdown before the second look at pods.
        """
        spec = wanted.model.spec
        off = spec.desired_power is DesiredPower.OFF
        self._was_off = off and (self._was_off or report.power_state is PowerState.OFF)
        if report.power_state is PowerState.OFF:
            self._shuts_down_until = float("-inf")
        if off:
            self._publisher.change(pending_boot=None)
        decision = decide_power(
            spec,
            await self._assumed_state(spec, report),
            report.capability.reset_types,
            self._request,
            now=self._parts.clock(),
            timeouts=self._parts.times.power,
        )
        if decision.reset is None or decision.request is None:
            self._request = decision.request
            return decision.finding
        if not self._parts.may_write():
            return decision.finding
        of_operator = is_own_request(wanted.metadata.annotations, spec.desired_power)
        looks = of_operator and not decision.request.on
        objection = await self._objection() if looks else None
        if objection is not None:
            self._request = None
            return objection
        if decision.request.on and self._publisher.status.pending_boot is None:
            boot = BmcBoot(requested_at=rfc3339(self._parts.wall()), boot_id=(await self._readiness()).boot_id)
            self._publisher.change(pending_boot=boot)
            await self._publisher.store()
        finding = await self._reset(bmc, decision.reset, decision, decision.request)
        # A pod may have come while the BMC took the request, which cannot be taken back.
        taken = self._request is decision.request
        late = await self._pods(_NOT_FORCED) if looks and taken and not decision.request.forced else None
        return finding if late is None else late

    async def _objection(self) -> BmcFinding | None:
        """Return why a power-off of the operator is not carried out; None if it is.

        Pods are asked for last, since that leaves the least time for another one.
        """
        if self._was_off:
            return BmcFinding.no(BmcReason.SWITCHED_ON, _SWITCHED_ON)
        if not await self._is_still_requested():
            return BmcFinding.no(BmcReason.CHANGING, _WITHDRAWN)
        if not (await self._readiness()).tainted:
            return BmcFinding.no(BmcReason.NODE_NOT_TAINTED, _LEFT_BEHIND)
        return await self._pods(_NOT_REQUESTED)

    async def _is_still_requested(self) -> bool:
        """Return whether the NodeBMC asks for the power-off of the operator: the watch may be behind."""
        try:
            newest = _DECODE(await self._parts.client.get(NODE_BMCS, self._name))
        except (NotFound, DecodeError):
            return False
        off = DesiredPower.OFF
        return newest.model.spec.desired_power is off and is_own_request(newest.metadata.annotations, off)

    async def _pods(self, what_follows: str) -> BmcFinding | None:
        """Return the finding that names a pod of the node that would be lost; None where there is none."""
        pod = await pod_in_the_way(self._parts.client, self._name)
        return None if pod is None else BmcFinding.no(BmcReason.PODS_ON_NODE, f"{pod} {what_follows}")

    async def _assumed_state(self, spec: NodeBMCSpec, report: BmcReport) -> PowerState:
        """Return the power state; where nothing tells it, a server whose Node is not ready may be powered on."""
        if report.answers or spec.desired_power is not DesiredPower.ON:
            return report.power_state
        return PowerState.ON if (await self._readiness()).ready else PowerState.OFF

    async def _reset(self, bmc: Bmc, reset: str, decision: PowerDecision, request: PowerRequest) -> BmcFinding:
        try:
            await bmc.reset(reset)
        except BmcError as error:
            self._parts.observer.on_action(BmcAction.RESET, done=False)
            self._request = _after(error, request)
            return BmcFinding.no(error.reason, f"{reset}: {error}")
        self._parts.observer.on_action(BmcAction.RESET, done=True)
        self._request = request
        if not request.on:
            # It cannot be taken back: whatever is desired next, the server goes off first.
            self._shuts_down_until = self._parts.clock() + self._parts.times.power.graceful_s
        self._log.info("reset requested", reset=reset)
        return decision.finding

    async def boots(self, report: BmcReport, *, proof: BmcFinding | None) -> BmcFinding | None:
        """Return the proof of the wake path, `proof` where there is nothing new.

        Raises:
            KubeError: the Node could not be read.
        """
        boot = self._publisher.status.pending_boot
        if boot is None:
            return proof
        now_s = self._parts.wall()
        waited_s = age_seconds(boot.requested_at, now_s)
        powered = report.power_state is PowerState.ON or not report.answers
        if powered and is_complete(boot, await self._readiness(), now_s):
            recent = self._publisher.status.recent_boots
            if waited_s >= 0:
                recent = with_boot(recent, waited_s)
            self._publisher.change(pending_boot=None, recent_boots=recent, boot_seconds=usual_boot_s(recent))
            self._log.info("node booted", seconds=round(waited_s, 1))
            return BmcFinding.yes(BmcReason.WOKEN, "powered on, and the node became ready")
        if waited_s > self._parts.times.boot_timeout_s:
            self._publisher.change(pending_boot=None)
            self._log.warning("node not ready after power on", seconds=round(waited_s, 1))
            return BmcFinding.no(BmcReason.BOOT_TIMED_OUT, f"not ready after {waited_s:.0f} s")
        if waited_s < 0:
            # Stored by a process whose clock was ahead, or before this one's was set back: its time is not known.
            self._publisher.change(pending_boot=boot.model_copy(update={"requested_at": rfc3339(now_s)}))
        return proof

    async def _readiness(self) -> NodeReadiness:
        try:
            return read_readiness(await self._parts.client.get(NODES, self._name))
        except NotFound:
            return NodeReadiness()


def _after(error: BmcError, request: PowerRequest) -> PowerRequest:
    """Return what is awaited of a request that failed."""
    if error.reason in {BmcReason.REFUSED, BmcReason.FAILED}:
        return request.refused()
    # Without an answer it may have been carried out.
    return request.not_taken() if error.reason is BmcReason.BUSY else request
