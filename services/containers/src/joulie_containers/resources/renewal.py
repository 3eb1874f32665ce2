"""Something of the actuator that is sent when it changes, and renewed before its lease ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, Protocol

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import Request
from joulie_actuator.replies import ErrorReply, Reply

#: How often a lease is renewed while it lasts.
RENEWALS: Final = 3
#: After a failure.
RETRY_S: Final = 2.0
#: Why nothing is sent where there is no actuator.
NO_ACTUATOR: Final = "unavailable: ACTUATOR_SOCKET is not set"


class RequestExecutor(Protocol):
    """Carries out requests on the hardware (`joulie_actuator.client.HardwareClient`)."""

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Carry out a request."""


def problem_of(reply: Reply | HardwareFailure) -> str:
    """Return why a request was not carried out, by a reply that is not the report of it."""
    match reply:
        case HardwareFailure(message=problem) | ErrorReply(message=problem):
            return problem
        case _:
            return f"unexpected reply {type(reply).__name__}"


class Renewal:
    """Calls a function at every change, and when it wants to be called again.

    Args:
        apply: sends what is wanted; returns the seconds until it is sent again, None for the next change.
    """

    def __init__(self, apply: Callable[[], Awaitable[float | None]]) -> None:
        self._apply = apply
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Note that what is wanted has changed."""
        self._changed.set()

    async def run(self) -> NoReturn:
        """Repeat until cancelled."""
        while True:
            self._changed.clear()
            wait_s = await self._apply()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
