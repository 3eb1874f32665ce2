"""Reads and writes the PowerEvents of this VEN, and no others.

An object that fails does not stop the others; what could not be written is written at the next poll.
"""

from collections.abc import Awaitable
from typing import Final

from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.errors import AlreadyExists, DecodeError, KubeError
from joulie_api.failures import Failures
from joulie_api.resources import POWER_EVENTS
from joulie_api.wire import decode_kind, decode_page
from joulie_core.kinds import PowerEvent
from joulie_ven.changes import Changes
from joulie_ven.objects import MANAGED_BY, MANAGER, OwnEvent, read_own

_SELECTOR: Final = f"{MANAGED_BY}={MANAGER}"


class EventKeeper:
    """The PowerEvents of this VEN at the API server."""

    def __init__(self, client: KubeClient, writer: FencedWriter, failures: Failures) -> None:
        self._client = client
        self._writer = writer
        self._failures = failures
        self._decode = decode_kind(PowerEvent)

    async def read(self) -> list[OwnEvent]:
        """Return the PowerEvents with this VEN's label that it can have written.

        Raises:
            KubeError: they cannot be read.
        """
        found = []
        async for page in self._client.list_pages(POWER_EVENTS, label_selector=_SELECTOR):
            for raw in decode_page(page).items or ():
                try:
                    own = read_own(self._decode(bytes(raw)))
                except DecodeError as error:
                    self._failures.invalid_input(POWER_EVENTS.full_name, error)
                    continue
                if own is None:
                    self._failures.invalid_input(
                        POWER_EVENTS.full_name, "has the label of joulie-ven and not what it writes"
                    )
                else:
                    found.append(own)
        return found

    async def write(self, changes: Changes) -> bool:
        """Make the changes; return whether all succeeded."""
        writer, res = self._writer, POWER_EVENTS
        done = [await self._try(name, writer.create(res, name, body)) for name, body in changes.create.items()]
        done += [await self._try(name, writer.patch(res, name, body)) for name, body in changes.patch.items()]
        done += [await self._try(name, _deleted(writer, name, version)) for name, version in changes.delete.items()]
        return all(done)

    async def _try(self, name: str, write: Awaitable[None]) -> bool:
        try:
            await write
        except AlreadyExists:
            problem = f"PowerEvent {name} exists without the label {_SELECTOR}: it is left alone"
            self._failures.invalid_input(POWER_EVENTS.full_name, problem, power_event=name)
        except KubeError as error:
            self._failures.invalid_input(POWER_EVENTS.full_name, error, power_event=name)
        else:
            self._failures.valid_input(POWER_EVENTS.full_name, power_event=name)
            return True
        return False


async def _deleted(writer: FencedWriter, name: str, version: str) -> None:
    await writer.delete(POWER_EVENTS, name, version=version)
