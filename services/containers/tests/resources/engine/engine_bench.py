"""A placement engine with a policy whose decisions are easy to foresee, and everything that it reports to."""

from dataclasses import replace

from services.containers.tests.resources.conftest import Recorder, SlicesPolicy

from joulie_containers.resources.cache import Cache
from joulie_containers.resources.controllers import values_of
from joulie_containers.resources.engine import Configured, PlacementEngine
from joulie_containers.resources.ledger import Ledger
from joulie_containers.resources.values import UNSET, ContainerValues, CreationClasses
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.interrupts import InterruptPlacement
from joulie_core.containers.policy import PlacementZone

MANIFEST = {"kind": "SlicesPolicy"}


class ZonesPolicy(SlicesPolicy):
    """Has a zone, wants interrupts moved, and notes which of its methods were called."""

    def __init__(self, cpus="0-7"):
        super().__init__(cpus)
        self.calls = []

    def zones(self, state):
        return (PlacementZone(name="shared", kind="pool", cpus=state.available, containers=tuple(state.slices)),)

    def interrupts(self, state):
        return InterruptPlacement(isolated=IdSet.parse(str(state.cpu_classes.get("performance", ""))))

    def synchronize(self, containers, grants):
        self.calls.append(("synchronize", {each.id for each in containers}, dict(grants)))
        return super().synchronize(containers, grants)

    def update(self, state, container):
        self.calls.append(("update", container.id))
        return super().update(state, container)

    def allocate(self, state, container):
        self.calls.append(("allocate", container.id))
        return super().allocate(state, container)


def container(name, milli=0, *, pod="pod", called=None, annotations=None):
    """A container whose id is its name, unless it is `called` otherwise."""
    info = PodInfo(
        id=PodSandboxId(pod),
        uid=f"u-{pod}",
        namespace="ns",
        name=pod,
        qos=QosClass.BURSTABLE,
        annotations=annotations or {},
    )
    resources = ContainerResources(cpu_request_milli=milli)
    return ContainerInfo(id=ContainerId(name), pod=info, name=called or name, resources=resources)


class EngineBench:
    """An engine; a second one on the same directory is the process after it."""

    def __init__(self, directory):
        self.policy = ZonesPolicy()
        self.recorder = Recorder()
        self.ledger = Ledger(lambda: 0.0)
        self.cache = Cache(directory)
        self.adjust = lambda each: each
        self.engine = PlacementEngine(
            self.ledger,
            self.cache,
            self.recorder,
            values_of,
            lambda each: self.adjust(each),  # noqa: PLW0108 - tests replace it
            classes_of=lambda each: CreationClasses(rdt=f"class of {each.resources.cpu_request_milli}m"),
        )

    async def configure(self, cpus="0-7", manifest=None):
        self.policy.available = Cpus.parse(cpus)
        await self.engine.configure(Configured(policy=self.policy, manifest=manifest or MANIFEST))

    async def list(self, *containers, **in_force):
        """Let the runtime list these containers, with what it has in force for them."""
        await self.engine.synchronize({each.id: (each, in_force.get(each.id, UNSET)) for each in containers})

    def adjusted(self, **resources):
        """Adjust every container from now on."""
        self.adjust = lambda each: replace(each, resources=replace(each.resources, **resources))

    def wanted(self):
        """The CPUs that containers are to have."""
        return {name: str(self.ledger.wanted(name).cpus) for name in self.engine.containers}

    async def stored(self):
        """What the next process finds."""
        await self.engine.save()
        return self.cache.load()


def cpus(text):
    return ContainerValues(cpus=Cpus.parse(text))
