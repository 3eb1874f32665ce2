"""A backend that refuses everything: controls turned off, or hardware that this process must not or cannot reach."""

from collections.abc import Mapping, Sequence

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import NO_RANGE, CpuHeld, CpuReading, NodeReading, Unavailable
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.control.gpu_clock import ClockRange
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import Held


class RefusingBackend:
    """Answers every request with the same reason. Nothing was ever in force, so there is nothing to restore."""

    def __init__(self, reason: Reason, message: str, *, result: ControlResult = ControlResult.BLOCKED) -> None:
        self._result = result
        self._reason = reason
        self._message = message

    def hold_for(self, least_s: float) -> None:
        """Do nothing: nothing is in force."""

    async def read(self) -> NodeReading | Unavailable:
        """Return the reason."""
        return Unavailable(self._reason, self._message)

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Return the reason."""
        return Unavailable(self._reason, self._message)

    async def set_cpu_cap(
        self,
        cap_watts_per_package: float,  # noqa: ARG002 - the protocol's signature
        *,
        release_throttle: Held = Held.NO,  # noqa: ARG002
    ) -> ControlOutcome:
        """Refuse."""
        return self._refuse()

    async def set_dvfs_throttle(
        self,
        throttle_pct: float,  # noqa: ARG002 - the protocol's signature
        *,
        release_cap: Held = Held.NO,  # noqa: ARG002
        limits: WattRange = NO_RANGE,  # noqa: ARG002
    ) -> ControlOutcome:
        """Refuse."""
        return self._refuse()

    async def tune_cpu(self, *, saving: bool) -> None:
        """Do nothing: the optional controls are the host's."""

    async def restore_cpu(self, limits: WattRange, held: CpuHeld) -> ControlOutcome:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        return self._refuse()

    def gpu_devices(self) -> Sequence[GpuDeviceRange]:
        """Return no devices."""
        return ()

    def gpus_without_limit(self) -> Sequence[str]:
        """Return no devices."""
        return ()

    async def set_gpu_caps(self, cap_watts: Mapping[str, float]) -> ControlOutcome:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        return self._refuse()

    def gpu_clocks(self) -> Mapping[str, ClockRange]:
        """Return no devices."""
        return {}

    async def set_gpu_clocks(self, clocks_mhz: Mapping[str, int]) -> ControlOutcome:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        return self._refuse()

    async def restore_gpu(self, limits: WattRange) -> ControlOutcome:  # noqa: ARG002 - the protocol's signature
        """Refuse."""
        return self._refuse()

    def _refuse(self) -> ControlOutcome:
        return ControlOutcome(self._result, self._reason, "none", self._message)
