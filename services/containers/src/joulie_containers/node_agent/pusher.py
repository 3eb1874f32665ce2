"""Keeps the other side's copy of one value up to date: at a limited rate, with retries; only the last value counts."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, NoReturn, TypeVar

import structlog

from joulie_api.backoff import Backoff
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_containers.resource_api.transport import ResourceApiError

T = TypeVar("T")

_PUSH: Final = "push to or from the resource manager"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """Time constants, in seconds."""

    #: Between two pushes of one value: an object that is edited repeatedly must not move containers each time.
    push_interval_s: float = 2.0
    #: Ceiling of the first delay after a failure, and of all.
    retry_initial_s: float = 1.0
    retry_cap_s: float = 30.0
    #: Between two requests for the state of the resource manager.
    poll_interval_s: float = 2.0
    #: Between two writes of one NodeResourceTopology.
    topology_interval_s: float = 2.0
    #: After which everything is compared without a change: a kubelet that restarts resets capacities, and containers
    #: that have started may not fit an Adjustment.
    compare_interval_s: float = 30.0
    #: Within which entries are removed from the status of objects at the end.
    withdraw_timeout_s: float = 5.0

    def backoff(self) -> Backoff:
        """Return delays for one kind of request."""
        return Backoff(random.random, initial_s=self.retry_initial_s, cap_s=self.retry_cap_s)


PACE: Final = Pace()


class Pusher(Generic[T]):
    """Pushes one value whenever it differs from the last one that was pushed.

    Args:
        name: name in the log.
        current: returns the value, None while there is nothing to push; what follows is pushed in any case.
        push: pushes it. Whatever it raises, it is tried again.
        interval_s: least time between two successful pushes.
        failures: where errors other than ResourceApiError and KubeError are counted.
        pace: delays after failures.
    """

    def __init__(
        self,
        name: str,
        current: Callable[[], T | None],
        push: Callable[[T], Awaitable[None]],
        *,
        interval_s: float,
        failures: Failures,
        pace: Pace = PACE,
    ) -> None:
        self._name = name
        self._current = current
        self._push = push
        self._interval_s = interval_s
        self._backoff = pace.backoff()
        self._pushed: T | None = None
        self._wake = asyncio.Event()
        self._internal = failures
        self._failures = FailureLog(_log, failed="push failed", recovered="push recovered")

    def wake(self) -> None:
        """Compare the value with the one last pushed."""
        self._wake.set()

    async def run(self) -> NoReturn:
        """Push until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                pushed = await self._push_changed()
            except (ResourceApiError, KubeError) as error:
                self._failures.failed(error, what=self._name)
            except Exception as error:  # noqa: BLE001 - one value must not end what else is served on this node
                self._internal.internal_error(_PUSH, error, what=self._name)
            else:
                if pushed:
                    await asyncio.sleep(self._interval_s)
                continue
            # A change of the value meanwhile does not shorten the delay: the other side is what fails.
            await asyncio.sleep(self._backoff.next_s(asyncio.get_running_loop().time()))
            self._wake.set()

    async def _push_changed(self) -> bool:
        """Push the value if it has changed, and return whether it was pushed."""
        value = self._current()
        if value is None or value == self._pushed:
            self._pushed = value
            return False
        await self._push(value)
        self._failures.recovered(what=self._name)
        self._internal.worked(_PUSH, what=self._name)
        self._pushed = value
        return True
