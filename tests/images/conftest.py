"""The services' images, built once for this directory, and containers of them that end with their test.

On the engine at DOCKER_HOST or, where that is not set, on one of our own, which takes root. Every container is as
locked up as a pod of the chart: a read-only root filesystem, no capability but those a test gives, no new privileges.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from joulie_devcluster.containers.engine import Engine, private_engine_obstacle
from joulie_devcluster.containers.images import SERVICES, ImageBuilder, image_builder, image_name
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import terminal_reporter

DEADLINE_S = 60.0
_POLL_S = 0.1
_TAIL = 4000


@pytest.fixture(scope="package")
def builder(pytestconfig: pytest.Config) -> Iterator[ImageBuilder]:
    """A builder that has built the images of all services, as this checkout is now."""
    obstacle = None if os.environ.get("DOCKER_HOST") else private_engine_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with contextlib.ExitStack() as stack:
        try:
            with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
                builder = stack.enter_context(image_builder(stack.enter_context(terminal_reporter())))
                for service in SERVICES:
                    builder.build(service)
        except EngineError as error:
            pytest.fail(str(error), pytrace=False)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("DOCKER_HOST", builder.engine.host)
        # It is an image of a registry, and would reap what the engine ends anyway.
        patch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
        yield builder


@pytest.fixture(scope="package")
def engine(builder: ImageBuilder) -> Engine:
    """The engine that has the images."""
    return builder.engine


@dataclass(frozen=True, slots=True)
class Running:
    """A started container. Its engine is asked in a thread: the API server of a test lives in the test's event loop."""

    name: str
    container: Any

    async def log(self) -> str:
        """Return what it has written."""
        return (await asyncio.to_thread(self.container.logs)).decode()

    async def until_logged(self, text: str) -> str:
        """Wait until it has written something and return its log."""
        async with asyncio.timeout(DEADLINE_S):
            while text not in (log := await self.log()):
                assert await self.state() == "running", log
                await asyncio.sleep(_POLL_S)
        return log

    async def state(self) -> str:
        """Return `running`, `exited` or whatever else it is."""
        await asyncio.to_thread(self.container.reload)
        return str(self.container.status)

    async def signal(self, name: str) -> None:
        """Send a signal to its process."""
        await asyncio.to_thread(self.container.kill, name)

    async def end(self) -> int:
        """Wait until it has ended and return its exit code."""
        answer = await asyncio.to_thread(self.container.wait, timeout=DEADLINE_S)
        return int(answer["StatusCode"])


Start = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start(engine: Engine) -> AsyncIterator[Start]:
    """A function that starts a container of a service: arguments of its command, then how it runs."""
    from testcontainers.core.container import DockerContainer

    started: list[tuple[Any, Running]] = []

    async def run(
        service: str, *arguments: str, env: dict[str, str] | None = None, volumes: tuple[str, ...] = (), **options: Any
    ) -> Running:
        locked = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "network_mode": "none"}
        box = DockerContainer(image_name(service), command=list(arguments)).with_envs(**(env or {}))
        for volume in volumes:
            box = box.with_volume_mapping(*volume.split(":"))
        box = box.with_kwargs(**(locked | options))
        await asyncio.to_thread(box.start)
        running = Running(f"{service} {' '.join(arguments)}", box.get_wrapped_container())
        started.append((box, running))
        return running

    yield run
    for box, running in started:
        print(f"--- {running.name}\n{(await running.log())[-_TAIL:]}")
        await asyncio.to_thread(box.stop)


async def until_ready(url: str, running: Running) -> None:
    """Wait until a service says that it is ready."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with http.get(f"{url}/readyz") as answer:
                    if answer.status == 200:
                        return
            assert await running.state() == "running", await running.log()
            await asyncio.sleep(_POLL_S)
