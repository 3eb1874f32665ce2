"""A BMC as the service knows it, whatever its protocol. No I/O."""

from dataclasses import dataclass
from typing import Protocol

from joulie_core.kinds.node_bmc import BmcCapability, PowerLimitUnit, PowerState


@dataclass(frozen=True, slots=True)
class PowerLimit:
    """A power limit; `watts` None: there is none in force, or it is not in watts."""

    watts: float | None
    unit: PowerLimitUnit = PowerLimitUnit.WATTS
    min_watts: float | None = None
    max_watts: float | None = None


@dataclass(frozen=True, slots=True)
class BmcReport:
    """Readings of one pass; `limit` None: the BMC has no power limit.

    `answers` False: there is nothing that answers, so the power state is never known.
    """

    power_state: PowerState
    watts: float | None
    interval_s: float | None
    limit: PowerLimit | None
    capability: BmcCapability
    answers: bool = True


class Bmc(Protocol):
    """One BMC, which has one request at a time."""

    async def report(self) -> BmcReport:
        """Read the power state, the power and the power limit.

        Raises:
            BmcError: no complete answer.
        """

    async def limit(self) -> PowerLimit | None:
        """Read the power limit; None where there is none. Raises BmcError."""

    async def set_limit(self, watts: float | None) -> None:
        """Write the power limit, or with None switch it off.

        Raises:
            BmcError: refused, or no answer, after which the limit may have been written.
        """

    async def reset(self, kind: str) -> None:
        """Request a reset type, which is carried out later.

        Raises:
            BmcError: refused, or no answer.
        """

    async def close(self) -> None:
        """End the connection. Raises BmcError."""
