"""Users of each GPU of this machine by its driver's list of processes, asked of the actuator once a second.

Guarantees that an answer is the current one or none, so that a driver that hangs delays no look at the holders.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NoReturn

import structlog

from joulie_actuator.client import HardwareClient
from joulie_actuator.protocol import ReadGpuProcesses
from joulie_actuator.replies import GpuProcesses
from joulie_api.app import App
from joulie_api.failure_log import FailureLog
from joulie_core.holders.records import DeviceUsers
from joulie_core.text import printable

#: Between two answers.
INTERVAL_S: Final = 1.0
#: Seconds since the actuator was asked, after which an answer is none.
MOST_AGE_S: Final = 3.0
_LONGEST_PROBLEM: Final = 200

_log = structlog.get_logger()

ReadUsers = Callable[[], Awaitable[Mapping[str, DeviceUsers]]]
#: Returns what uses each GPU now, by UUID; None where that is not looked for.
UsersNow = Callable[[], Mapping[str, DeviceUsers] | None]


async def read_gpu_users(client: HardwareClient) -> Mapping[str, DeviceUsers]:
    """Return what uses each GPU, by UUID; those of a driver that does not answer are left out."""
    reply = await client.execute(ReadGpuProcesses())
    if not isinstance(reply, GpuProcesses):
        return {}
    found = {uuid: DeviceUsers(frozenset(each.pods), each.outside_pid) for uuid, each in reply.users.items()}
    failed = {
        uuid: DeviceUsers(problem=printable(each.message or each.reason, _LONGEST_PROBLEM))
        for uuid, each in reply.failures.items()
    }
    return found | failed


def follow_users(app: App, read: ReadUsers | None) -> UsersNow:
    """Start to ask; None for `read` does not look for processes."""
    if read is None:
        return lambda: None
    follower = GpuUsersFollower(read)
    app.spawn("processes of GPUs", follower.run())
    return follower.current


class GpuUsersFollower:
    """The newest answer, kept current by `run`. For one event loop.

    Args:
        read: asks once.
        clock: monotonic seconds; None takes the event loop's.
    """

    def __init__(self, read: ReadUsers, clock: Callable[[], float] | None = None) -> None:
        self._read = read
        self._clock = clock or asyncio.get_running_loop().time
        self._asked_at = float("-inf")
        self._users: Mapping[str, DeviceUsers] = {}
        self._failures = FailureLog(_log, failed="processes of GPUs not known", recovered="processes of GPUs known")

    def current(self) -> Mapping[str, DeviceUsers]:
        """Return what uses each GPU, by UUID; empty where the newest answer is too old."""
        return self._users if self._clock() - self._asked_at <= MOST_AGE_S else {}

    async def run(self) -> NoReturn:
        """Ask until cancelled."""
        while True:
            due = self._clock() + INTERVAL_S
            await self.ask()
            await asyncio.sleep(max(0.0, due - self._clock()))

    async def ask(self) -> None:
        """Ask once."""
        asked_at = self._clock()
        self._users = await self._read()
        self._asked_at = asked_at
        problem = next((each.problem for each in self._users.values() if each.problem), "")
        if problem:
            self._failures.failed(problem)
        else:
            self._failures.recovered()
