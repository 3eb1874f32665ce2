"""The state of the resource manager: containers, the policy's state, what follows from a change of it.

For one task at a time: the pipeline holds its lock around every method that is not a property.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from joulie_containers.nri.handler import RequestRefusedError
from joulie_containers.resources.cache import Cache, CacheContent
from joulie_containers.resources.ledger import Ledger
from joulie_containers.resources.translate import KnownResources
from joulie_containers.resources.values import NO_CLASSES, UNSET, ContainerValues, CreationClasses
from joulie_core.containers.container import ContainerId, ContainerInfo, ContainerResources, PodSandboxId
from joulie_core.containers.differences import changes
from joulie_core.containers.idset import Cpus
from joulie_core.containers.interrupts import InterruptPlacement
from joulie_core.containers.policy import (
    ContainerPolicy,
    GrantRecord,
    Placement,
    PlacementZone,
    PolicyEvent,
    PolicyResult,
    PolicyState,
    PolicyTimer,
    PolicyWarning,
)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A policy and the configuration it was built from."""

    policy: ContainerPolicy[Any]
    #: The manifest, as it is stored.
    manifest: Mapping[str, Any]


class Consequences(Protocol):
    """Receiver of the engine's reports, besides the ledger and the cache."""

    def rejected(self, container: ContainerInfo, reason: str) -> None:
        """Note that a container could not be placed."""

    def warned(self, container: ContainerInfo | None, warning: PolicyWarning) -> None:
        """Note a warning of the policy; None is a container that has ended."""

    def moved(self, containers: Sequence[ContainerId]) -> None:
        """Note which containers that were placed before get another placement."""

    def classes_changed(self, cpu_classes: Mapping[str, Cpus]) -> None:
        """Note which CPUs have which CPU class."""

    def interrupts_changed(self, wanted: InterruptPlacement) -> None:
        """Note what the policy wants of interrupts."""

    def timers(self, timers: Iterable[PolicyTimer]) -> None:
        """Start timers, whose events go through the pipeline."""


class PlacementEngine:
    """Containers of the node and their placements.

    Args:
        ledger: takes what containers are to have.
        cache: takes what survives a restart.
        consequences: takes everything else that follows from a change.
        values_of: what a placement means for a container; with its resources where they are, or once were, adjusted.
        adjusted: returns a container with what adjustments change in it.
        classes_of: returns the classes that a container gets when it is created.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        consequences: Consequences,
        values_of: Callable[[Placement, ContainerResources | None], ContainerValues],
        adjusted: Callable[[ContainerInfo], ContainerInfo],
        *,
        classes_of: Callable[[ContainerInfo], CreationClasses] = lambda _container: NO_CLASSES,
    ) -> None:
        self.ledger = ledger
        self._cache = cache
        self._consequences = consequences
        self._values_of = values_of
        self._adjusted = adjusted
        self._classes_of = classes_of
        self._configured: Configured | None = None
        self._state: PolicyState | None = None
        #: Containers as the policy sees them, and without what adjustments change.
        self._containers: dict[ContainerId, ContainerInfo] = {}
        self._originals: dict[ContainerId, ContainerInfo] = {}
        #: Grants and placements of ended containers whose pod goes on: the kubelet may start them again.
        self._ended: dict[tuple[PodSandboxId, str], tuple[GrantRecord, Placement]] = {}
        #: Grants in force.
        self._records: Mapping[ContainerId, GrantRecord] = {}
        #: Those whose limits were set here once, so that the runtime's are not in force any more.
        self._once_adjusted: set[ContainerId] = set()
        #: What containers were created with; those that this resource manager did not create have no classes.
        self._created_with: dict[ContainerId, CreationClasses] = {}
        #: Of an earlier process, until the runtime has listed its containers.
        self._stored_grants: Mapping[ContainerId, GrantRecord] = {}
        self._stored_resources: Mapping[ContainerId, KnownResources] = {}

    @property
    def containers(self) -> Mapping[ContainerId, ContainerInfo]:
        """The containers that run or are being created."""
        return self._containers

    @property
    def originals(self) -> Mapping[ContainerId, ContainerInfo]:
        """The same without what adjustments change."""
        return self._originals

    @property
    def placements(self) -> Mapping[ContainerId, Placement]:
        """The placements in force as far as the policy is concerned."""
        return {} if self._state is None else self._state.placements

    @property
    def cpu_classes(self) -> Mapping[str, Cpus]:
        """CPUs by the name of their CPU class."""
        return {} if self._state is None else self._state.cpu_classes

    @property
    def zones(self) -> Sequence[PlacementZone]:
        """The pools or balloons; none before the runtime has listed its containers."""
        return () if self._state is None else self._policy.zones(self._state)

    @property
    def synchronized(self) -> bool:
        """Whether the runtime has listed its containers once."""
        return self._state is not None

    def restore(self, content: CacheContent) -> None:
        """Take what an earlier process has stored."""
        self._stored_grants = {ContainerId(name): grant for name, grant in content.grants.items()}
        self._stored_resources = {
            ContainerId(name): KnownResources(
                ContainerResources(
                    cpu_request_milli=stored.cpu_request_milli,
                    cpu_limit_milli=stored.cpu_limit_milli,
                    memory_request_bytes=stored.memory_request_bytes,
                    memory_limit_bytes=stored.memory_limit_bytes,
                ),
                ContainerValues(
                    cpu_shares=stored.set_cpu_shares,
                    cpu_quota_us=stored.set_cpu_quota_us,
                    memory_limit_bytes=stored.set_memory_limit_bytes,
                ),
            )
            for name, stored in content.containers.items()
        }
        self._created_with = {
            ContainerId(name): CreationClasses(rdt=stored.rdt_class, blockio=stored.blockio_class)
            for name, stored in content.containers.items()
        }

    def created_with(self, container: ContainerId) -> CreationClasses:
        """Return the classes that a container was created with."""
        return self._created_with.get(container, NO_CLASSES)

    def known_resources(self, container: ContainerId) -> KnownResources | None:
        """Return what is known of a container's resources besides what the runtime shows."""
        if (original := self._originals.get(container)) is not None:
            return KnownResources(original.resources, self.ledger.wanted(container))
        return self._stored_resources.get(container)

    async def configure(self, configured: Configured) -> None:
        """Apply a configuration: valid grants stay, all other containers are placed anew."""
        grants = self._grants()
        self._configured = configured
        self._cache.set_head(configured.policy.name, configured.manifest)
        if self._state is not None:
            await self._replace(list(self._containers.values()), grants)

    async def synchronize(self, reported: Mapping[ContainerId, tuple[ContainerInfo, ContainerValues]]) -> None:
        """Place exactly the containers that the runtime lists, with what it has in force for each."""
        grants = self._grants()
        known = {name: self.known_resources(name) for name in reported}
        self._once_adjusted = {
            name for name, each in known.items() if each is not None and _sets_limits(each.set_values)
        }
        self._originals = {name: info for name, (info, _) in reported.items()}
        self._containers = {name: self._adjusted(info) for name, info in self._originals.items()}
        self._created_with = {name: self.created_with(name) for name in reported}
        self._cache.clear()
        self.ledger.clear()
        for name, (info, values) in reported.items():
            self._cache.put(info, UNSET, self.created_with(name))
            self.ledger.report(name, values)
        await self._replace(list(self._containers.values()), grants)
        self._stored_grants, self._stored_resources = {}, {}
        self._ended.clear()

    async def create(self, container: ContainerInfo, *, with_classes: bool = True) -> None:
        """Place a container that is being created; one of the same name in its pod must have ended.

        A container that is started again gets the grant that it had, where that is free: a crash is no reason to move
        its neighbours.

        Args:
            container: As the runtime shows it.
            with_classes: Whether the reply that creates it has its classes.

        Raises:
            RequestRefusedError: it cannot be placed; nothing has changed but that an earlier one of its name is gone.
        """
        earlier = [
            other.id
            for other in self._containers.values()
            if other.id == container.id or (other.pod.id == container.pod.id and other.name == container.name)
        ]
        self.release(earlier)
        adjusted = self._adjusted(container)
        result = self._started_again(adjusted) or self._policy.allocate(self._present_state, adjusted)
        if (reason := result.rejected.get(container.id)) is not None:
            self._consequences.rejected(container, reason)
            raise RequestRefusedError(reason)
        self._ended.pop((container.pod.id, container.name), None)
        self._originals[container.id] = container
        self._containers[container.id] = adjusted
        self._created_with[container.id] = self._classes_of(adjusted) if with_classes else NO_CLASSES
        self._commit(result)

    def _started_again(self, container: ContainerInfo) -> PolicyResult[Any] | None:
        """Return a state in which a container has the grant of its last run and no other moves; None without one."""
        ended = self._ended.get((container.pod.id, container.name))
        if ended is None:
            return None
        record, placement = ended
        result = self._policy.restore(self._present_state, container, record)
        return result if result is not None and result.state.placements[container.id] == placement else None

    async def save(self) -> None:
        """Store what has changed, for the next process.

        Nothing before the runtime has listed its containers: until then the stored grants are those of an earlier
        process, and the only ones.
        """
        if self._state is not None:
            await self._cache.save()

    def end_pod(self, pod: PodSandboxId) -> None:
        """Note that no container of a pod is started again."""
        for key in [key for key in self._ended if key[0] == pod]:
            del self._ended[key]

    async def update(self, container: ContainerInfo) -> None:
        """Place a container whose resources change.

        Raises:
            RequestRefusedError: it cannot be placed; nothing has changed.
        """
        if container.id not in self._containers:
            await self.create(container, with_classes=False)
            return
        adjusted = self._adjusted(container)
        if (reason := self._update(adjusted)) is not None:
            self._consequences.rejected(container, reason)
            raise RequestRefusedError(reason)
        self._originals[container.id] = container
        self._cache.put(container, self.ledger.wanted(container.id), self.created_with(container.id))

    def adjust(self) -> Mapping[ContainerId, str]:
        """Apply changed adjustments to all containers; return what could not be done, by container."""
        errors = {}
        for name, original in self._originals.items():
            if (reason := self._update(self._adjusted(original))) is not None:
                errors[name] = reason
        return errors

    def release(self, containers: Collection[ContainerId]) -> None:
        """Free what containers were granted; unknown ones change nothing."""
        for container in containers:
            self.ledger.forget(container)  # also one that was refused after its creation had been answered
            if container not in self._containers:
                continue
            info = self._containers[container]
            if container in self._records and container in self.placements:
                self._ended[info.pod.id, info.name] = (self._records[container], self.placements[container])
            result = self._policy.release(self._present_state, container)
            del self._containers[container], self._originals[container]
            self._once_adjusted.discard(container)
            self._created_with.pop(container, None)
            self._cache.drop(container)
            self._commit(result)

    async def handle(self, event: PolicyEvent) -> None:
        """Let the policy react to an event; without containers there is nothing to react to."""
        if self._state is None:
            return
        self._commit(await asyncio.to_thread(self._policy.handle, self._state, event))

    @property
    def _policy(self) -> ContainerPolicy[Any]:
        assert self._configured is not None, "the plugin registers when there is a policy"
        return self._configured.policy

    @property
    def _present_state(self) -> PolicyState:
        assert self._state is not None, "a runtime lists its containers first"
        return self._state

    def _grants(self) -> Mapping[ContainerId, GrantRecord]:
        return self._stored_grants if self._state is None else self._policy.grants(self._state)

    async def _replace(self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]) -> None:
        # In a thread, since hundreds of containers take long: handlers that cannot wait answer meanwhile.
        result = await asyncio.to_thread(self._policy.synchronize, containers, grants)
        for name, reason in result.rejected.items():
            self._consequences.rejected(self._containers[name], reason)
            self.ledger.want(name, self.ledger.wanted(name))  # it stays where it is, and owns nothing
        self._commit(result, fresh=True)

    def _update(self, container: ContainerInfo) -> str | None:
        """Place a known container anew where something in it has changed; return why that is not possible."""
        before = self._containers[container.id]
        if (container.resources, container.pod) == (before.resources, before.pod):
            return None
        result = self._policy.update(self._present_state, container)
        if (reason := result.rejected.get(container.id)) is not None:
            return reason
        self._containers[container.id] = container
        self._commit(result)
        if (placement := self.placements.get(container.id)) is not None:
            self._want([container.id], placement, {})  # limits may have changed with an equal placement
        return None

    def _commit(self, result: PolicyResult[Any], *, fresh: bool = False) -> None:
        before, placements, self._state = self.placements, result.state.placements, result.state
        moved: list[ContainerId] = []
        known: dict[int, ContainerValues] = {}
        for earlier, placement, names in changes(placements, before):
            equal = earlier == placement
            if equal and not fresh:
                continue
            self._want(names, placement, known)
            if earlier is not None and not equal:
                moved.extend(names)
        self._consequences.moved(moved)
        for warning in result.warnings:
            self._consequences.warned(self._containers.get(warning.container), warning)
        self._consequences.timers(result.timers)
        self._consequences.classes_changed(self._state.cpu_classes)
        self._consequences.interrupts_changed(self._policy.interrupts(self._state))
        self._records = self._policy.grants(self._state)
        self._cache.set_grants(self._records)

    def _want(self, names: Iterable[ContainerId], placement: Placement, known: dict[int, ContainerValues]) -> None:
        """Note what containers with one placement are to have; `known` has the values of placements by their id."""
        shared = known.get(id(placement))
        if shared is None:
            shared = known[id(placement)] = self._values_of(placement, None)
        alike = []
        for name in names:
            original, container = self._originals[name], self._containers[name]
            if container is not original and original.resources != container.resources:
                self._once_adjusted.add(name)
            if name in self._once_adjusted:
                values = self._values_of(placement, container.resources)
                self.ledger.want(name, values, placement.exclusive)
            else:
                values = shared
                alike.append(name)
            self._cache.put(original, values, self._created_with.get(name, NO_CLASSES))
        self.ledger.want_all(alike, shared, placement.exclusive)


def _sets_limits(values: ContainerValues) -> bool:
    return values.cpu_quota_us is not None or values.memory_limit_bytes is not None
