"""The HTTP backend: telemetry by GET, controls by POST, as the simulator and others speak it.

Promises that the reply is believed only where it was read: a 2xx without `result` applied is not "applied", and watts
are enforced watts only if the reply's state carries them. Source: contracts, section 4, HTTP backend.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from joulie_agent.backends.base import Outcome, Reading, Unavailable, applied, blocked, failed
from joulie_agent.backends.telemetry_wire import ControlReply, parse_reply, parse_telemetry
from joulie_agent.backends.transport import HttpTransport, Target
from joulie_agent.reasons import Reason
from joulie_core.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.kinds.telemetry_profile import ControlResult
from joulie_core.names import NodeName

RAPL: Final = "http-rapl"
DVFS: Final = "http-dvfs"
GPU: Final = "http-gpu"


def wall_time() -> str:
    """Now, RFC 3339 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class HttpSource:
    """Readings of one node from one endpoint."""

    def __init__(self, transport: HttpTransport, target: Target) -> None:
        self._transport = transport
        self._target = target

    async def read(self) -> Reading | Unavailable:
        """GET the telemetry once."""
        raw = await self._transport.get(self._target)
        return raw if isinstance(raw, Unavailable) else parse_telemetry(raw)


class HttpActuator:
    """CPU and GPU controls of one node at one endpoint."""

    def __init__(
        self, transport: HttpTransport, target: Target, node: NodeName, *, clock: Callable[[], str] = wall_time
    ) -> None:
        self._transport = transport
        self._target = target
        self._node = node
        self._clock = clock

    async def set_cpu_cap(self, cap_watts_per_package: float) -> Outcome:
        """`rapl.set_power_cap_watts`."""
        return await self._control(RAPL, "rapl.set_power_cap_watts", capWatts=cap_watts_per_package)

    async def set_dvfs_throttle(self, throttle_pct: float) -> Outcome:
        """`dvfs.set_throttle_pct`."""
        return await self._control(DVFS, "dvfs.set_throttle_pct", throttlePct=throttle_pct)

    async def restore_cpu(self, limits: WattRange) -> Outcome:
        """Throttle 0 and the cap at the range's maximum: the protocol has no word for "no cap".

        A backend that blocks one of the two never had it in force.
        """
        released = await self.set_dvfs_throttle(0.0)
        if limits.max_watts is None:
            return blocked(RAPL, Reason.NO_CAP_RANGE, "no maximum is known to lift the cap to")
        return _restored(RAPL, [released, await self.set_cpu_cap(limits.max_watts)])

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """The protocol caps all GPUs of a node alike."""
        return ()

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> Outcome:
        """`gpu.set_power_cap_watts`; where the caps differ, the lowest, so that no device gets more than its own."""
        return await self._control(GPU, "gpu.set_power_cap_watts", capWattsPerGpu=min(cap_watts.values()))

    async def restore_gpu(self, limits: WattRange) -> Outcome:
        """The cap at the range's maximum."""
        if limits.max_watts is None:
            return blocked(GPU, Reason.NO_CAP_RANGE, "no maximum is known to go back to")
        return _restored(GPU, [await self.set_gpu_caps({"": limits.max_watts})])

    async def _control(self, backend: str, action: str, **arguments: float) -> Outcome:
        body: dict[str, Any] = {"node": self._node, "action": action, "ts": self._clock(), **arguments}
        raw = await self._transport.post(self._target, body)
        reply = raw if isinstance(raw, Unavailable) else parse_reply(raw)
        if isinstance(reply, Unavailable):
            return failed(backend, reply.reason, reply.message)
        return _outcome(backend, reply)


def _outcome(backend: str, reply: ControlReply) -> Outcome:
    match reply.result:
        case ControlResult.APPLIED:
            enforced = {RAPL: reply.cap_watts, GPU: reply.cap_watts_per_gpu}.get(backend)
            return applied(backend, reply.message, enforced_watts=enforced)
        case ControlResult.BLOCKED:
            return blocked(backend, Reason.REFUSED, reply.message)
        case ControlResult.ERROR | ControlResult.NONE:
            return failed(backend, Reason.BACKEND_FAILED, reply.message)


def _restored(backend: str, outcomes: Sequence[Outcome]) -> Outcome:
    worst = next((outcome for outcome in outcomes if outcome.result is ControlResult.ERROR), None)
    # A node that the backend has forgotten has no caps there either.
    if worst is not None and worst.reason is not Reason.NOT_FOUND:
        return worst
    return Outcome(ControlResult.APPLIED, Reason.RESTORED, backend)
