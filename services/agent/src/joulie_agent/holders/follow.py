"""Follows which pods hold the GPUs of this node: the kubelet's answer, the pods and the GPUs, once a second."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import structlog

from joulie_api.failure_log import FailureLog
from joulie_core.holders.held import HeldDevice, NodePods, held_devices
from joulie_core.holders.records import DeviceListing, DeviceUsers, NodeGpu, NoListing

#: Between two answers.
INTERVAL_S: Final = 1.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class HolderSources:
    """Sources of what holders depend on."""

    #: The kubelet's answer, within a deadline.
    listing: Callable[[], Awaitable[DeviceListing | NoListing]]
    pods: Callable[[], NodePods | None]
    gpus: Callable[[], Sequence[NodeGpu]]
    #: What uses each GPU, by UUID; None where that is not looked for.
    users: Callable[[], Mapping[str, DeviceUsers] | None] = lambda: None


class HoldersFollower:
    """The holders of each GPU of this node, kept current by `run`.

    Args:
        sources: what it is taken from.
        changed: called when a GPU, its holders or the reason changed.
        looked: called with what each look found.
    """

    def __init__(
        self,
        sources: HolderSources,
        changed: Callable[[], None],
        looked: Callable[[Sequence[HeldDevice]], None] | None = None,
    ) -> None:
        self._sources = sources
        self._changed = changed
        self._looked = [looked] if looked is not None else []
        self._devices: tuple[HeldDevice, ...] | None = None
        #: When the last look has ended, on the loop's clock.
        self._looked_at: float | None = None
        #: The pods of the last look.
        self._pods: NodePods | None = None
        self._failures = FailureLog(_log, failed="device holders not known", recovered="device holders known again")

    def current(self) -> tuple[HeldDevice, ...] | None:
        """Return the GPUs and what holds them, as of the last second; None before the first answer."""
        return self._devices

    def when_looked(self, looked: Callable[[Sequence[HeldDevice]], None]) -> None:
        """Call this too with what each look found."""
        self._looked.append(looked)

    def recent(self, within_s: float) -> tuple[HeldDevice, ...] | None:
        """Return the GPUs and what holds them; None where the last look is older than that, in seconds."""
        if self._looked_at is None or asyncio.get_running_loop().time() - self._looked_at > within_s:
            return None
        return self._devices

    def pods(self) -> NodePods | None:
        """Return the pods that `current` was made with; None while they are not known."""
        return self._pods

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL_S)

    async def look(self) -> None:
        """Ask once."""
        listing = await self._sources.listing()
        if isinstance(listing, NoListing):
            self._failures.failed(listing.message, cause=listing.reason)
        else:
            self._failures.recovered()
        self._pods = self._sources.pods()
        found = held_devices(listing, self._pods, self._sources.gpus(), self._sources.users())
        self._looked_at = asyncio.get_running_loop().time()
        # A message may name a time or an address that differs each time.
        if self._devices is None or _without_messages(found) != _without_messages(self._devices):
            self._devices = found
            self._changed()
        for looked in self._looked:
            looked(found)


def _without_messages(devices: tuple[HeldDevice, ...]) -> tuple[HeldDevice, ...]:
    return tuple(replace(each, message="") for each in devices)
