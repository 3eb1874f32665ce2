"""One BMC by IPMI 2.0 (RMCP+, cipher suites 17 and 3), in a thread of its own.

Guarantees: one request at a time, also where an earlier one was given up; every request has a deadline; the session is
closed by `close`, also where no one waits for it any more.
"""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from joulie_core.kinds.node_bmc import BmcCapability, PowerLimitUnit, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.endpoint import Endpoint
from joulie_outofband.ipmi import messages
from joulie_outofband.ipmi.interface import IpmiSession
from joulie_outofband.ipmi.messages import DcmiLimit
from joulie_outofband.reasons import BmcError, BmcReason

T = TypeVar("T")

DEFAULT_PORT: Final = 623
#: Some BMCs have an empty answer for the first reading of a session.
_READINGS: Final = 3
_READING_PATH: Final = "dcmi:power-reading"
_LIMIT_PATH: Final = "dcmi:power-limit"


class IpmiBmc:
    """One BMC; opens its session at the first request."""

    def __init__(self, endpoint: Endpoint, username: str, password: str, *, request_timeout_s: float) -> None:
        self._open = partial(
            IpmiSession,
            endpoint.host,
            DEFAULT_PORT if endpoint.port is None else endpoint.port,
            username,
            password,
            request_timeout_s=request_timeout_s,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ipmi {endpoint.host}")
        self._session: IpmiSession | None = None

    async def report(self) -> BmcReport:
        """Read the power state, the power and the power limit.

        Raises:
            BmcError: no complete answer.
        """
        return await self._run(self._report)

    async def limit(self) -> PowerLimit | None:
        """Read the power limit; None where there is none. Raises BmcError."""
        return _power_limit(await self._run(self._read_limit))

    async def set_limit(self, watts: float | None) -> None:
        """Write the power limit and put it in force, or with None switch it off.

        Raises:
            BmcError: refused, or no answer, after which the limit may have been written.
        """
        await self._run(partial(self._set_limit, watts))

    async def reset(self, kind: str) -> None:
        """Request a chassis control, which is carried out later. Raises BmcError."""
        await self._run(lambda: messages.accepted(self._ask(messages.CHASSIS, messages.CONTROLS[kind]), kind))

    async def close(self) -> None:
        """Close the session, after the request that may hold its thread. Raises BmcError."""
        try:
            await self._run(self._close)
        finally:
            # Where no one waits any more, the first was taken from the queue; a BMC has few sessions.
            self._thread.submit(self._close)
            self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # The rest runs in the thread.

    def _report(self) -> BmcReport:
        powered = messages.is_powered(self._ask(messages.CHASSIS, messages.CHASSIS_STATUS))
        watts, readable = self._read_watts()
        limit = self._read_limit()
        return BmcReport(
            power_state=PowerState.ON if powered else PowerState.OFF,
            watts=watts,
            interval_s=None,
            limit=_power_limit(limit),
            capability=BmcCapability(
                readable=readable,
                cappable=limit is not None,
                unit=None if limit is None else PowerLimitUnit.WATTS,
                limit_exception=None if limit is None else limit.exception,
                cap_path="" if limit is None else _LIMIT_PATH,
                reading_path=_READING_PATH if readable else "",
                reset_types=tuple(messages.CONTROLS),
            ),
        )

    def _read_watts(self) -> tuple[float | None, bool]:
        """Return the power, and whether the BMC has the command."""
        answer = b""
        for _ in range(_READINGS):
            answer = self._ask(messages.GROUP, messages.POWER_READING)
            watts = messages.reading_watts(answer)
            if watts is not None:
                return watts, True
        return None, not messages.is_unknown_command(answer)

    def _read_limit(self) -> DcmiLimit | None:
        return messages.read_limit(self._ask(messages.GROUP, messages.GET_LIMIT))

    def _set_limit(self, watts: float | None) -> None:
        limit = self._read_limit()
        if limit is None:
            raise BmcError(BmcReason.NO_LIMIT, "no power limit")
        if watts is not None:
            message = messages.set_limit(math.floor(watts), limit)
            messages.accepted(self._ask(messages.GROUP, message), "set power limit")
        message = messages.activate(on=watts is not None)
        messages.accepted(self._ask(messages.GROUP, message), "activate power limit")

    def _ask(self, network_function: int, message: bytes) -> bytes:
        """Return the completion code and the data of an answer."""
        if self._session is None:
            self._session = self._open()
        return self._session.ask(network_function, message)

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _power_limit(limit: DcmiLimit | None) -> PowerLimit | None:
    if limit is None:
        return None
    return PowerLimit(float(limit.watts) if limit.active else None, max_watts=messages.MOST_WATTS)
