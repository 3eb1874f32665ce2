"""A resource manager behind a real socket."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from joulie_containers.resource_api.config import serve_config
from joulie_containers.resource_api.proto import resource_api_pb2 as pb


class ScriptedManager:
    """A resource manager that records what it is sent, and answers what a test sets."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        #: Manifests in the order of the calls.
        self.configs: list[str] = []
        self.adjustments: list[dict[str, str]] = []
        self.profiles: list[str] = []
        #: By `namespace/name` of the pod.
        self.consents: list[dict[str, pb.PodConsent]] = []
        #: Refusals by a part of the manifest.
        self.refusals: dict[str, str] = {}
        #: Errors by adjustment and container.
        self.errors: dict[str, dict[str, str]] = {}
        #: Fields of every configuration that have no effect.
        self.ignored: Sequence[str] = ()
        self.status = pb.ManagerStatus(node_name="n1")
        #: While it is cleared, configurations are not answered.
        self.answering = asyncio.Event()
        self.answering.set()
        self._moved = asyncio.Event()
        self._stack: AsyncExitStack | None = None

    async def start(self) -> None:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(serve_config(self.socket, self))

    async def stop(self) -> None:
        if self._stack is not None:
            await self._stack.aclose()
            self._stack = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when the condition holds; it is checked again after each call."""
        async with asyncio.timeout(10):
            while not condition():
                await self._moved.wait()

    async def set_config(self, request: pb.SetConfigRequest) -> pb.SetConfigReply:
        assert request.node_name == "n1"
        self.configs.append(request.manifest)
        self._move()
        await self.answering.wait()
        error = next((text for part, text in self.refusals.items() if part in request.manifest), "")
        return pb.SetConfigReply(error=error, ignored=() if error else self.ignored)

    async def set_adjustments(self, request: pb.SetAdjustmentsRequest) -> pb.SetAdjustmentsReply:
        self.adjustments.append(dict(request.adjustments))
        self._move()
        errors = {name: pb.AdjustmentErrors(errors=each) for name, each in self.errors.items()}
        return pb.SetAdjustmentsReply(errors=errors)

    async def set_power_profile(self, request: pb.SetPowerProfileRequest) -> pb.Nothing:
        self.profiles.append(request.profile)
        self._move()
        return pb.Nothing()

    async def set_pod_consents(self, request: pb.SetPodConsentsRequest) -> pb.Nothing:
        assert request.node_name == "n1"
        self.consents.append({f"{each.namespace}/{each.pod}": each for each in request.pods})
        self._move()
        return pb.Nothing()

    async def get_status(self, request: pb.Nothing) -> pb.ManagerStatus:
        del request
        self._move()
        return self.status

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
