"""A pipeline without a socket: a test makes the runtime's requests itself, and holds the engine where it wants to."""

import asyncio
from contextlib import asynccontextmanager

from services.containers.tests.resources.conftest import (
    Recorder,
    SlicesPolicy,
    host_without_devices,
    make_container,
    make_pod,
)

from joulie_containers.nri.handler import RuntimeInfo
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources.cache import Cache
from joulie_containers.resources.controllers import values_of
from joulie_containers.resources.engine import Configured, PlacementEngine
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.ledger import Ledger
from joulie_containers.resources.pipeline import Pipeline
from joulie_containers.resources.settings import OnDeadline
from joulie_containers.resources.translate import ContainerReader
from joulie_containers.resources.updates import nothing_to_settle
from joulie_containers.resources.values import CreationClasses

#: Of the runtime; requests that cannot have their turn are answered after 60 % of it.
TIMEOUT_S = 5.0
BUSY_TIMEOUT_S = 0.1


class Files:
    """Stands for the files of containers."""

    def __init__(self):
        self.created, self.woken = [], 0

    async def create(self, container):
        self.created.append(container)
        return nri.Mount(destination="/x", source=f"/files/{container}")

    def wake(self):
        self.woken += 1


class Observer(Recorder):
    """Completes adjustments with a class that says for which placement."""

    def __init__(self):
        super().__init__()
        self.times = []

    def handled(self, request, seconds, *, late):
        super().handled(request, seconds, late=late)
        self.times.append(seconds)

    def complete(self, adjustment, container, placement):
        adjustment.linux.resources.rdt_class.value = f"{container.name} in {placement.zone}"


class PipelineBench:
    """One pod, `pod`, and a pipeline."""

    pod = make_pod("pod")
    container = staticmethod(make_container)

    def __init__(self, directory, *, on_deadline=OnDeadline.ADMIT, files=None):
        self.observer = Observer()
        self.policy = SlicesPolicy()
        self.ledger = Ledger(lambda: 0.0)
        self.cache = Cache(directory)
        self.adjust = lambda each: each
        self.files = files
        self.configured_by, self.woken = [], 0
        self.before_reply = nothing_to_settle
        self.engine = PlacementEngine(
            self.ledger,
            self.cache,
            self.observer,
            values_of,
            lambda each: self.adjust(each),  # noqa: PLW0108 - tests replace it
            classes_of=lambda _each: CreationClasses(rdt="gold"),
        )
        self.pipeline = Pipeline(
            self.engine,
            ContainerReader(HintSource(*host_without_devices()), 64 << 30),
            self.observer,
            self.observer,
            on_deadline=on_deadline,
            on_configure=self._configured,
            updates_wanted=self._wake,
            files=files,
            before_reply=lambda: self.before_reply(),  # noqa: PLW0108 - tests replace it
        )

    async def _configured(self, runtime):
        self.configured_by.append(runtime)

    def _wake(self):
        self.woken += 1

    async def configure(self, timeout_s=TIMEOUT_S):
        """Let a runtime configure the plugin."""
        await self.pipeline.configure(
            RuntimeInfo(
                name="r",
                version="v",
                nri_version="",
                request_timeout_s=timeout_s,
                registration_timeout_s=5.0,
                config="",
            )
        )

    async def start(self, *containers):
        """Configure the policy, and let the runtime list containers of the pod."""
        await self.pipeline.apply(Configured(policy=self.policy, manifest={"kind": "SlicesPolicy"}))
        await self.configure()
        reply = await self.pipeline.synchronize([self.pod], containers)
        self.observer.requests.clear()
        self.woken = 0
        return updates(reply)

    async def create(self, name, milli=0, *, pod=None, called=None, runs=True):
        """Create a container, and let it run; returns the reply."""
        message = make_container(name, milli=milli, state=nri.CONTAINER_CREATED)
        message.name = called or name
        message.linux.cgroups_path = f"/pods/{name}"
        reply = await self.pipeline.create_container(pod or self.pod, message)
        if runs:
            await self.pipeline.start_container(self.pod, message)
            await self.pipeline.container_running(self.pod, message)
        return reply

    @asynccontextmanager
    async def busy(self):
        """Nothing gets its turn meanwhile, and the runtime does not wait long."""
        await self.configure(BUSY_TIMEOUT_S)
        async with self.pipeline._turn:
            yield
        await self.configure()

    async def settled(self):
        """Wait for work that goes on after its reply."""
        async with asyncio.timeout(5):
            while self.pipeline._work:
                await asyncio.wait(set(self.pipeline._work))
        await asyncio.sleep(0)

    def wanted(self):
        """The CPUs that containers are to have."""
        return {name: str(self.ledger.wanted(name).cpus) for name in self.engine.containers}


def updates(reply):
    """CPUs by container, of the updates in a reply."""
    return {each.container_id: each.linux.resources.cpu.cpus for each in reply.update}
