"""One BMC by IPMI 2.0 (RMCP+, cipher suites 17 and 3), in a thread of its own.

Guarantees: one request at a time, also where an earlier one was given up; every request has a deadline; the session is
closed by `close`. Credentials are in no message.
"""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import pyipmi
import pyipmi.interfaces
from pyipmi.errors import (
    AuthenticationError,
    DecodingError,
    IpmiConnectionError,
    IpmiLongPasswordError,
    IpmiTimeoutError,
    MessageStatusCodeError,
    NotSupportedError,
    RetryError,
)

from joulie_core.kinds.node_bmc import BmcCapability, PowerLimitUnit, PowerState
from joulie_outofband.bmc import BmcReport, PowerLimit
from joulie_outofband.ipmi import messages
from joulie_outofband.ipmi.messages import DcmiLimit
from joulie_outofband.reasons import BmcError, BmcReason

T = TypeVar("T")

DEFAULT_PORT: Final = 623
_MC: Final = 0x20
#: Some BMCs have an empty answer for the first reading of a session.
_READINGS: Final = 3
#: Status codes of RMCP+: no resources, for a session at all or for this user.
_NO_SESSION: Final = frozenset({0x01, 0x0F})
_READING_PATH: Final = "dcmi:power-reading"
_LIMIT_PATH: Final = "dcmi:power-limit"


class IpmiBmc:
    """One BMC; opens its session at the first request."""

    def __init__(self, address: str, username: str, password: str, *, request_timeout_s: float) -> None:
        host, _, port = address.removeprefix("ipmi://").rpartition(":")
        self._host, self._port = (host, int(port)) if host and port.isdecimal() else (f"{host}{port}", DEFAULT_PORT)
        self._username = username
        self._password = password
        self._timeout_s = request_timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"ipmi {self._host}")
        self._connection: Any = None

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
        """Close the session. Raises BmcError."""
        try:
            await self._run(self._close)
        finally:
            self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except (TimeoutError, IpmiTimeoutError, RetryError, IpmiConnectionError) as error:
            raise BmcError(BmcReason.TIMED_OUT, f"{self._host}: no answer in time") from error
        except (AuthenticationError, IpmiLongPasswordError) as error:
            raise BmcError(BmcReason.UNAUTHORIZED, f"{self._host}: {type(error).__name__}") from error
        except MessageStatusCodeError as error:
            reason = BmcReason.BUSY if error.msc in _NO_SESSION else BmcReason.UNAUTHORIZED
            raise BmcError(reason, f"{self._host}: RMCP+ status 0x{error.msc:02x}") from error
        except (DecodingError, NotSupportedError) as error:
            raise BmcError(BmcReason.MALFORMED, f"{self._host}: {type(error).__name__}") from error
        except OSError as error:
            raise BmcError(BmcReason.UNREACHABLE, f"{self._host}: {type(error).__name__}") from error

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
        if self._connection is None:
            self._connection = self._open()
        return bytes(self._connection.send_raw(0, network_function, message))

    def _open(self) -> Any:
        # Retries are of later passes, and a thread that keeps the session alive is not needed at this pace.
        interface = pyipmi.interfaces.create_interface("rmcpplus", keep_alive_interval=0, max_retries=0)
        connection = pyipmi.create_connection(interface)
        connection.target = pyipmi.Target(ipmb_address=_MC)
        connection.session.set_session_type_rmcp(self._host, self._port)
        connection.session.set_auth_type_user(self._username, self._password)
        connection.session.set_priv_level("ADMINISTRATOR")
        interface.open()
        interface.set_timeout(self._timeout_s)
        try:
            connection.session.establish()
        except BaseException:
            interface.close()
            raise
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.session.close()
        finally:
            connection.interface.close()


def _power_limit(limit: DcmiLimit | None) -> PowerLimit | None:
    return None if limit is None else PowerLimit(float(limit.watts) if limit.active else None)
