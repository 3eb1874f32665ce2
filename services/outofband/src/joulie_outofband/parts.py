"""Parts that the workers of all BMCs share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from joulie_api.backoff import Backoff
from joulie_api.client import KubeClient
from joulie_api.failures import Failures
from joulie_core.kinds import NodeBMCSpec
from joulie_outofband.bmc import Bmc
from joulie_outofband.metrics import OutOfBandMetrics
from joulie_outofband.power import PowerTimeouts


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Times of a worker, in seconds."""

    poll_s: float
    transition_s: float
    pass_timeout_s: float
    close_timeout_s: float
    credentials_retry_s: float
    boot_timeout_s: float
    power: PowerTimeouts


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """Parts that all workers share; `connect` returns a BMC that is not connected yet, and raises BmcError."""

    connect: Callable[[NodeBMCSpec], Awaitable[Bmc]]
    client: KubeClient
    observer: OutOfBandMetrics
    failures: Failures
    times: WorkerTimes
    may_write: Callable[[], bool]
    clock: Callable[[], float]
    wall: Callable[[], float]
    chance: Callable[[], float]

    def pauses(self) -> Backoff:
        """Return the pauses after failures that the same request would have again."""
        longest_s = self.times.credentials_retry_s
        return Backoff(self.chance, initial_s=self.times.poll_s, cap_s=longest_s, reset_after_s=float("inf"))
