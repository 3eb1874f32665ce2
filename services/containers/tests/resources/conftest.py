"""A resource manager in the test's process, on a fake runtime, with a policy whose decisions are easy to foresee."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from joulie_containers.nri.connection import NriConnection, NriEndpoint
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.resources import resource_files
from joulie_containers.resources.cache import Cache
from joulie_containers.resources.controllers import values_of
from joulie_containers.resources.engine import Configured, PlacementEngine
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.ledger import Ledger
from joulie_containers.resources.pipeline import Pipeline
from joulie_containers.resources.resource_file_directory import ResourceFileDirectory
from joulie_containers.resources.resource_files import ResourceFiles
from joulie_containers.resources.settings import OnDeadline
from joulie_containers.resources.translate import ContainerReader
from joulie_containers.resources.updates import Updater
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.containers.policy import (
    ColdStartEnded,
    ContainerPolicy,
    Placement,
    PolicyResult,
    PolicyTimer,
    PolicyWarning,
    PowerProfileChanged,
    RebalanceRequested,
)
from joulie_testing.agent.fake_nri_runtime import FakeNriRuntime
from joulie_testing.agent.host_files import host_in_memory
from joulie_testing.core.machines import MachineShape


@dataclass(frozen=True, slots=True)
class SlicesState:
    #: Exclusive CPUs of the containers that request whole CPUs, and nothing for the others.
    slices: Mapping[str, Cpus] = field(default_factory=dict)
    available: Cpus = EMPTY

    @property
    def placements(self):
        shared = self.available
        for taken in self.slices.values():
            shared -= taken
        return {
            name: Placement(zone="slice", cpus=taken, exclusive=taken)
            if taken
            else Placement(zone="shared", cpus=shared)
            for name, taken in self.slices.items()
        }

    @property
    def cpu_classes(self):
        taken = EMPTY
        for each in self.slices.values():
            taken |= each
        return {"performance": taken} if taken else {}


class SlicesPolicy(ContainerPolicy[SlicesState]):
    """Each whole CPU of a request is an exclusive one, the lowest that is free; the rest is shared, one at least."""

    name: ClassVar[str] = "slices"

    def __init__(self, cpus="0-7"):
        self.available = Cpus.parse(cpus)
        #: Called by `synchronize` and `handle`, in a thread, for tests that hold it.
        self.hold = lambda: None

    def synchronize(self, containers, grants):
        self.hold()
        slices, rejected = {}, {}
        for container in containers:
            cpus = Cpus.parse(str(grants.get(container.id, {}).get("cpus", "")))
            free = self._free(SlicesState(slices, self.available))
            if len(cpus) == container.resources.cpu_request_milli // 1000 and cpus <= free:
                slices[container.id] = cpus
        state = SlicesState(slices, self.available)
        for container in sorted(containers, key=lambda each: (each.created_ns, each.id)):
            if container.id not in slices:
                result = self.allocate(state, container)
                state, slices = result.state, dict(result.state.slices)
                rejected |= result.rejected
        return PolicyResult(state=state, rejected=rejected)

    def _free(self, state):
        free = self.available
        for taken in state.slices.values():
            free -= taken
        return free

    def allocate(self, state, container):
        count = container.resources.cpu_request_milli // 1000
        free = self._free(state)
        if count >= len(free):
            return PolicyResult(state=state, rejected={container.id: f"{count} CPUs requested, {len(free)} left"})
        slices = {**state.slices, container.id: free.lowest(count)}
        warnings = ()
        if "bad" in container.pod.annotations:
            warnings = (PolicyWarning(container=container.id, reason="InvalidAnnotation", message="bad is no option"),)
        timers = ()
        if "cold" in container.pod.annotations:
            timers = (PolicyTimer(after_s=0.01, event=ColdStartEnded(container.id)),)
        return PolicyResult(state=SlicesState(slices, self.available), warnings=warnings, timers=timers)

    def restore(self, state, container, grant):
        cpus = Cpus.parse(grant["cpus"])
        if not cpus <= self._free(state):
            return None
        return PolicyResult(state=SlicesState({**state.slices, container.id: cpus}, self.available))

    def release(self, state, container):
        return PolicyResult(
            state=SlicesState({name: cpus for name, cpus in state.slices.items() if name != container}, self.available)
        )

    def update(self, state, container):
        return self.allocate(self.release(state, container.id).state, container)

    def handle(self, state, event):
        self.hold()
        match event:
            case ColdStartEnded(container) if container in state.slices:
                highest = Cpus([max(self._free(state))])
                return PolicyResult(state=SlicesState({**state.slices, container: highest}, self.available))
            case PowerProfileChanged(profile="eco"):
                return PolicyResult(state=SlicesState(state.slices, self.available - Cpus([7])))
            case RebalanceRequested(usage):
                busy = max(usage, key=usage.get)
                return PolicyResult(state=SlicesState({**state.slices, busy: Cpus([6])}, self.available))
        return PolicyResult(state=state)

    def grants(self, state):
        return {name: {"cpus": str(cpus)} for name, cpus in state.slices.items()}

    def zones(self, state):
        return ()

    def check(self, state):
        pass


class Recorder:
    """Records consequences and figures."""

    def __init__(self):
        self.rejections, self.warnings, self.moves, self.classes, self.requested_timers = [], [], [], {}, []
        self.interrupts = []
        self.requests = []

    def rejected(self, container, reason):
        self.rejections.append((container.id, reason))

    def warned(self, container, warning):
        self.warnings.append(warning)

    def moved(self, containers):
        self.moves += containers

    def classes_changed(self, cpu_classes):
        self.classes = {name: str(cpus) for name, cpus in cpu_classes.items()}

    def interrupts_changed(self, wanted):
        self.interrupts.append(wanted)

    def timers(self, timers):
        self.requested_timers += timers

    def handled(self, request, seconds, *, late):
        self.requests.append((str(request), late))

    def complete(self, adjustment, container, placement):
        pass


def host_without_devices():
    topology = MachineShape(cores_per_node=8).topology()
    return host_in_memory(topology)[0], topology


class Manager:
    """A resource manager connected to a fake runtime."""

    def __init__(self, directory: Path, runtime: FakeNriRuntime, policy, on_deadline, exports):
        self.recorder = Recorder()
        self.policy = policy
        self.runtime = runtime
        self.cache = Cache(directory / "state")
        self.ledger = Ledger(time.monotonic)
        self.engine = PlacementEngine(self.ledger, self.cache, self.recorder, values_of, self.adjust)
        self.file_directory = ResourceFileDirectory(directory / "state")
        self.files = None
        if exports:
            topology = host_without_devices()[1]
            self.files = ResourceFiles(self.engine, self.file_directory, Path("/on/the/host"), topology)
            self.ledger.on_change = self.files.wake
        content = self.cache.load()
        if content:
            self.engine.restore(content)
        self.pipeline = Pipeline(
            self.engine,
            ContainerReader(HintSource(*host_without_devices()), 64 << 30),
            self.recorder,
            self.recorder,
            on_deadline=on_deadline,
            on_configure=self.configured,
            updates_wanted=lambda: self.updater.wake(),  # noqa: PLW0108 - it exists later
            files=self.files,
        )
        endpoint = NriEndpoint(name="joulie", index="90", path=directory / "nri.sock")
        self.connection = NriConnection(self.pipeline, endpoint, chance=lambda: 0.0)
        self.updater = Updater(self.ledger, self.connection, str)
        self.tasks = []

    def adjust(self, container):
        """Change a container as an adjustment does; a test replaces `adjusted`."""
        return self.adjusted(container)

    @staticmethod
    def adjusted(container):
        return container

    async def configured(self, runtime):
        pass

    async def start(self):
        await self.pipeline.apply(Configured(policy=self.policy, manifest={"kind": "SlicesPolicy"}))
        self.tasks = [asyncio.create_task(self.connection.run()), asyncio.create_task(self.updater.run())]
        if self.files is not None:
            self.tasks.append(asyncio.create_task(self.files.run()))
        await self.runtime.registered()

    async def kill(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []

    async def apply(self, policy):
        self.policy = policy
        await self.pipeline.apply(Configured(policy=policy, manifest={"kind": "SlicesPolicy"}))

    def cpus(self):
        """What the containers have at the runtime."""
        return {
            name: container.linux.resources.cpu.cpus
            for name, container in self.runtime.containers.items()
            if container.state != nri.CONTAINER_STOPPED
        }

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 - conditions are on plain values
                await asyncio.sleep(0.005)

    async def until_cpus(self, **expected):
        await self.until(lambda: self.cpus() == expected)


def make_pod(name="pod", *, annotations: Mapping[str, str] | None = None):
    pod = nri.PodSandbox(id=name, name=name, uid=f"uid-{name}", namespace="default", annotations=annotations or {})
    pod.linux.cgroup_parent = "/kubepods/burstable/pod" + name
    return pod


def make_container(name, *, pod="pod", milli=0, cpus="", created=0, state=nri.CONTAINER_RUNNING):
    container = nri.Container(id=name, pod_sandbox_id=pod, name=name, created_at=created, state=state)
    container.linux.resources.cpu.shares.value = max(2, milli * 1024 // 1000)
    container.linux.resources.cpu.cpus = cpus
    return container


class Node:
    """A node: its runtime outlives the resource manager, and the other way around."""

    container = staticmethod(make_container)
    pod = staticmethod(make_pod)
    policy = SlicesPolicy

    def __init__(self, directory: Path):
        self.directory = directory
        self.runtime = FakeNriRuntime()
        self.managers: list[Manager] = []

    @asynccontextmanager
    async def listening(self):
        async with self.runtime.listening(self.directory / "nri.sock"):
            try:
                yield self
            finally:
                for manager in self.managers:
                    await manager.kill()

    def manager(self, policy=None, *, on_deadline=OnDeadline.ADMIT, exports=False):
        """A resource manager that has read its cache, and is not registered."""
        manager = Manager(self.directory, self.runtime, policy or SlicesPolicy(), on_deadline, exports)
        self.managers.append(manager)
        return manager

    async def start(self, policy=None, *, on_deadline=OnDeadline.ADMIT, exports=False):
        manager = self.manager(policy, on_deadline=on_deadline, exports=exports)
        await manager.start()
        return manager

    async def add(self, *containers: nri.Container, start=True):
        for container in containers:
            if container.pod_sandbox_id not in self.runtime.pods:
                await self.runtime.run_pod(make_pod(container.pod_sandbox_id))
            await self.runtime.create_container(container)
            if start:
                await self.runtime.start_container(container.id)

    def existing(self, *containers: nri.Container):
        """Add containers that ran before the resource manager."""
        for container in containers:
            self.runtime.pods.setdefault(container.pod_sandbox_id, make_pod(container.pod_sandbox_id))
            self.runtime.containers[container.id] = container


@pytest.fixture(autouse=True)
def slow_disk():
    """A creation waits for its file, however slow the disk of the machine is that runs the test."""
    # Not the test's own monkeypatch, which would be undone after the fixtures that it shall outlive.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource_files, "_MOST_WAIT_S", 10.0)
        yield


@pytest.fixture
async def node(tmp_path):
    async with Node(tmp_path).listening() as node:
        yield node
