"""One BMC by Redfish: what it reports, and what it is asked to do."""

from typing import Final

from joulie_core.kinds.node_bmc import BmcCapability, PowerLimitUnit, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import RedfishConnection
from joulie_outofband.redfish.discovery import BmcLayout, discover, reading_watts
from joulie_outofband.redfish.limits import text

_STATES: Final = {each.value: each for each in PowerState}


class RedfishBmc:
    """One BMC; discovers at the first report what it has."""

    def __init__(self, connection: RedfishConnection, *, system: str | None) -> None:
        self._connection = connection
        self._system = system
        self._layout: BmcLayout | None = None

    async def report(self) -> BmcReport:
        """Read the power state, the power and the power limit.

        Raises:
            BmcError: no complete answer.
        """
        if self._layout is None:
            self._layout = await discover(self._connection, self._system)
        layout = self._layout
        state = (await self._connection.get(layout.system)).body.get("PowerState")
        watts = reading_watts((await self._connection.get(layout.reading)).body) if layout.reading else None
        limit = await self.limit()
        return BmcReport(
            power_state=_STATES.get(text(state), PowerState.UNKNOWN),
            watts=watts,
            interval_s=layout.interval_s,
            limit=limit,
            capability=_capability(layout, limit),
        )

    async def limit(self) -> PowerLimit | None:
        """Read the power limit; None where there is none. Raises BmcError."""
        place = self._layout.limit if self._layout is not None else None
        return None if place is None else place.read((await self._connection.get(place.path)).body)

    async def set_limit(self, watts: float | None) -> None:
        """Write the power limit, or with None switch it off.

        Raises:
            BmcError: refused, or no answer, after which the limit may have been written.
        """
        place = self._layout.limit if self._layout is not None else None
        if place is None:
            raise BmcError(BmcReason.NO_LIMIT, "no power limit")
        body = (await self._connection.get(place.path)).body
        await self._connection.patch(place.path, place.change(body, watts))

    async def reset(self, kind: str) -> None:
        """Request a reset type, which the BMC carries out later.

        Raises:
            BmcError: refused, or no answer.
        """
        if self._layout is None or not self._layout.reset:
            raise BmcError(BmcReason.RESET_TYPE_MISSING, "no reset action")
        await self._connection.post(self._layout.reset, {"ResetType": kind})

    async def close(self) -> None:
        """End the session. Raises BmcError."""
        await self._connection.close()


def _capability(layout: BmcLayout, limit: PowerLimit | None) -> BmcCapability:
    return BmcCapability(
        readable=bool(layout.reading),
        cappable=limit is not None and limit.unit is PowerLimitUnit.WATTS,
        unit=None if limit is None else limit.unit,
        min_watts=None if limit is None else limit.min_watts,
        max_watts=None if limit is None else limit.max_watts,
        limit_exception=layout.exception,
        cap_path="" if layout.limit is None else layout.limit.path,
        reading_path=layout.reading,
        reset_types=layout.reset_types,
    )
