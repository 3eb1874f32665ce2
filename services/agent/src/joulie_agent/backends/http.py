"""The HTTP backend: telemetry by GET, controls by POST, as the simulator speaks it.

A 2xx status without result `applied` is not applied, and watts count as enforced only if the reply's state has them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from joulie_actuator.outcome import ControlOutcome, applied, blocked, failed
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import (
    NO_RANGE,
    CpuHeld,
    CpuReading,
    NodeReading,
    Unavailable,
    is_released,
    with_release,
)
from joulie_agent.backends.telemetry_wire import ControlReply, parse_reply, parse_telemetry
from joulie_agent.backends.transport import HttpTarget, HttpTransport
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import Held
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339

RAPL: Final = "http-rapl"
DVFS: Final = "http-dvfs"
GPU: Final = "http-gpu"


def wall_time() -> str:
    """Now, RFC 3339 in UTC with milliseconds."""
    return rfc3339(time.time())


class HttpSource:
    """Readings of one node from one endpoint."""

    def __init__(self, transport: HttpTransport, target: HttpTarget) -> None:
        self._transport = transport
        self._target = target

    async def read(self) -> NodeReading | Unavailable:
        """Request the telemetry once."""
        raw = await self._transport.get(self._target)
        return raw if isinstance(raw, Unavailable) else parse_telemetry(raw)

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Request the telemetry once and return its CPU values."""
        reading = await self.read()
        return reading if isinstance(reading, Unavailable) else reading.cpu


class HttpActuator:
    """CPU and GPU controls of one node at one endpoint."""

    def __init__(
        self, transport: HttpTransport, target: HttpTarget, node: NodeName, *, clock: Callable[[], str] = wall_time
    ) -> None:
        self._transport = transport
        self._target = target
        self._node = node
        self._clock = clock

    def hold_for(self, least_s: float) -> None:
        """Do nothing: what the protocol sets stays until it is changed."""

    async def set_cpu_cap(self, cap_watts_per_package: float, *, release_throttle: Held = Held.NO) -> ControlOutcome:
        """Send `rapl.set_power_cap_watts`."""
        outcome = await self._cap(cap_watts_per_package)
        if not outcome.applied or release_throttle is Held.NO:
            return outcome
        return with_release(outcome, await self._throttle(0.0), release_throttle)

    async def set_dvfs_throttle(
        self, throttle_pct: float, *, release_cap: Held = Held.NO, limits: WattRange = NO_RANGE
    ) -> ControlOutcome:
        """Send `dvfs.set_throttle_pct`."""
        outcome = await self._throttle(throttle_pct)
        if not outcome.applied or release_cap is Held.NO:
            return outcome
        return with_release(outcome, await self._release_cap(limits), release_cap)

    async def tune_cpu(self, *, saving: bool) -> None:
        """Do nothing: the optional controls are the host's."""

    async def restore_cpu(self, limits: WattRange, held: CpuHeld) -> ControlOutcome:
        """Send throttle 0 and a cap at the range's maximum: the protocol has no request that removes a cap."""
        releases = []
        if held.throttle is not Held.NO:
            releases.append((await self._throttle(0.0), held.throttle))
        if held.cap is not Held.NO:
            releases.append((await self._release_cap(limits), held.cap))
        left = [release for release, was in releases if not is_released(release, was)]
        if left:
            return next((release for release in left if release.result is ControlResult.ERROR), left[0])
        return ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, RAPL)

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """Return nothing: the protocol has one cap for all GPUs of a node."""
        return ()

    def gpus_without_limit(self) -> Sequence[str]:
        """Return nothing: what the node has is in its telemetry."""
        return ()

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:
        """Send `gpu.set_power_cap_watts`; of different caps the lowest, so that no device gets more than its own."""
        return await self._control(GPU, "gpu.set_power_cap_watts", capWattsPerGpu=min(cap_watts.values()))

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """Return nothing: the protocol has no clocks."""
        return {}

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:  # noqa: ARG002 - the protocol's signature
        """Return blocked: the protocol has no clocks."""
        return blocked(GPU, Reason.NO_INTERFACE, "the HTTP protocol has no request that limits clocks")

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:
        """Send a cap at the range's maximum."""
        if limits.max_watts is None:
            return blocked(GPU, Reason.NO_CAP_RANGE, "no maximum is known to go back to")
        return _restored(GPU, [await self.set_gpu_caps({"": limits.max_watts})])

    async def _cap(self, watts: float) -> ControlOutcome:
        return await self._control(RAPL, "rapl.set_power_cap_watts", capWatts=watts)

    async def _throttle(self, throttle_pct: float) -> ControlOutcome:
        return await self._control(DVFS, "dvfs.set_throttle_pct", throttlePct=throttle_pct)

    async def _release_cap(self, limits: WattRange) -> ControlOutcome:
        if limits.max_watts is None:
            return blocked(RAPL, Reason.NO_CAP_RANGE, "no maximum is known to lift the cap to")
        return await self._cap(limits.max_watts)

    async def _control(self, backend: str, action: str, **arguments: float) -> ControlOutcome:
        body: dict[str, Any] = {"node": self._node, "action": action, "ts": self._clock(), **arguments}
        raw = await self._transport.post(self._target, body)
        reply = raw if isinstance(raw, Unavailable) else parse_reply(raw)
        if isinstance(reply, Unavailable):
            return failed(backend, reply.reason, reply.message)
        return _outcome(backend, reply)


def _outcome(backend: str, reply: ControlReply) -> ControlOutcome:
    match reply.result:
        case ControlResult.APPLIED:
            enforced = {RAPL: reply.cap_watts, GPU: reply.cap_watts_per_gpu}.get(backend)
            return applied(backend, reply.message, enforced_watts=enforced)
        case ControlResult.BLOCKED:
            return blocked(backend, Reason.REFUSED, reply.message)
        case ControlResult.ERROR | ControlResult.NONE:
            return failed(backend, Reason.BACKEND_FAILED, reply.message)


def _restored(backend: str, outcomes: Sequence[ControlOutcome]) -> ControlOutcome:
    worst = next((outcome for outcome in outcomes if outcome.result is ControlResult.ERROR), None)
    # A node that the backend has forgotten has no caps there either.
    if worst is not None and worst.reason is not Reason.NOT_FOUND:
        return worst
    return ControlOutcome(ControlResult.APPLIED, Reason.RESTORED, backend)
