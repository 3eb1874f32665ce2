"""Watches of an API that a cluster may not serve, or not let be read.

Guarantees that each state is told from the others: known, not there (checked again periodically), and not known. One
line is logged when it turns out that the API is not there, not one for each check.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import Forbidden, KubeError, NotFound
from joulie_api.reflector import Reflector

#: A cluster gets an API by an upgrade, which takes longer than this.
RECHECK_S: Final = 600.0
_RETRY_S: Final = 5.0
#: Time that `wait_settled` takes at most: the first lists take less where they can be read at all.
SETTLE_S: Final = 10.0

_log = structlog.get_logger()


class OptionalWatch:
    """The watches of one API, kept up to date by `run` as soon as all their resources can be read.

    Args:
        client: of the API server.
        title: name in log lines, such as `claims`.
        reflectors: the watches.
        denied_is_absent: whether an API that may not be read counts as absent; else it is not known.
    """

    def __init__(
        self, client: KubeClient, title: str, *reflectors: Reflector[Any], denied_is_absent: bool = True
    ) -> None:
        self._client = client
        self._title = title
        self._denied_is_absent = denied_is_absent
        self.reflectors = reflectors
        self._absent = asyncio.Event()
        #: Log line about the absence.
        self._told = ""

    @property
    def absent(self) -> bool:
        """Whether the cluster does not serve one of the resources, or does not let it be read."""
        return self._absent.is_set()

    def is_unknown(self, tolerance_s: float) -> bool:
        """Return whether the API may be there and its objects are not known, or older than the tolerance."""
        return not self.absent and any(each.is_stale(tolerance_s) for each in self.reflectors)

    async def wait_settled(self) -> None:
        """Wait until all objects are known, cannot be read, or have not arrived in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await self.wait_known()

    async def wait_known(self) -> None:
        """Wait until all objects are known, or the API is absent."""
        absent = asyncio.create_task(self._absent.wait())
        known = asyncio.create_task(self._wait_synced())
        try:
            await asyncio.wait((absent, known), return_when=asyncio.FIRST_COMPLETED)
        finally:
            absent.cancel()
            known.cancel()

    async def run(self) -> NoReturn:
        """Watch until cancelled, as soon as the cluster has the API."""
        while True:
            if await self._is_readable():
                break
            await asyncio.sleep(RECHECK_S if self.absent else _RETRY_S)
        self._absent.clear()
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"watch {reflector.name}")
        raise AssertionError("reflectors do not end")

    async def _wait_synced(self) -> None:
        for reflector in self.reflectors:
            await reflector.wait_synced()

    async def _is_readable(self) -> bool:
        try:
            for reflector in self.reflectors:
                await self._client.list_page(reflector.resource, limit=1)
        except NotFound as error:
            self._tell(_log.info, f"{self._title} not watched, api not served", error)
            self._absent.set()
        except Forbidden as error:
            self._tell(_log.warning, f"{self._title} not watched, access denied", error)
            if self._denied_is_absent:
                self._absent.set()
        except KubeError:
            return False  # The other watches log that the server cannot be reached.
        else:
            return True
        return False

    def _tell(self, log: Callable[..., None], event: str, error: KubeError) -> None:
        if event != self._told:
            self._told = event
            log(event, error=str(error))
