"""The state of the resource manager: containers, the policy's state, what follows from a change of it.

For one task at a time: the pipeline holds its lock around every method that is not a property.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from joulie_agent.nri.handler import RequestRefusedError
from joulie_agent.resources.cache import Cache
from joulie_agent.resources.ledger import Ledger
from joulie_agent.resources.values import UNSET, ContainerValues
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
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
    """What the engine reports to, besides the ledger and the cache."""

    def rejected(self, container: ContainerInfo, reason: str) -> None:
        """Note that a container could not be placed."""

    def warned(self, container: ContainerInfo | None, warning: PolicyWarning) -> None:
        """Note a warning of the policy; None is a container that has ended."""

    def moved(self, container: ContainerInfo, before: Placement, after: Placement) -> None:
        """Note that a running container gets another placement."""

    def classes_changed(self, cpu_classes: Mapping[str, Cpus]) -> None:
        """Note which CPUs have which CPU class."""

    def timers(self, timers: Iterable[PolicyTimer]) -> None:
        """Start timers, whose events go through the pipeline."""


class PlacementEngine:
    """Containers of the node and their placements.

    Args:
        ledger: takes what containers are to have.
        cache: takes what survives a restart.
        consequences: takes everything else that follows from a change.
        values_of: what a placement means for a container.
    """

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        consequences: Consequences,
        values_of: Callable[[ContainerInfo, Placement], ContainerValues],
    ) -> None:
        self.ledger = ledger
        self._cache = cache
        self._consequences = consequences
        self._values_of = values_of
        self._configured: Configured | None = None
        self._state: PolicyState | None = None
        self._containers: dict[ContainerId, ContainerInfo] = {}
        #: Grants of an earlier process, until the runtime has listed its containers.
        self._stored_grants: Mapping[ContainerId, GrantRecord] = {}

    @property
    def containers(self) -> Mapping[ContainerId, ContainerInfo]:
        """The containers that run or are being created."""
        return self._containers

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

    def restore(self, grants: Mapping[ContainerId, GrantRecord]) -> None:
        """Take the grants of an earlier process."""
        self._stored_grants = grants

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
        self._containers = {name: info for name, (info, _) in reported.items()}
        self._cache.clear()
        for info in self._containers.values():
            self._cache.put(info)
        self.ledger.clear()
        for name, (_, values) in reported.items():
            self.ledger.report(name, values)
        await self._replace(list(self._containers.values()), grants)
        self._stored_grants = {}

    def create(self, container: ContainerInfo) -> None:
        """Place a container that is being created; one of the same name in its pod must have ended.

        Raises:
            RequestRefusedError: it cannot be placed; nothing has changed but that an earlier one of its name is gone.
        """
        earlier = [
            other.id
            for other in self._containers.values()
            if other.id == container.id or (other.pod.id == container.pod.id and other.name == container.name)
        ]
        self._release(earlier)
        result = self._policy.allocate(self._present_state, container)
        if (reason := result.rejected.get(container.id)) is not None:
            self._consequences.rejected(container, reason)
            self._cache.save()
            raise RequestRefusedError(reason)
        self._containers[container.id] = container
        self._cache.put(container)
        self._commit(result)

    def update(self, container: ContainerInfo) -> None:
        """Place a container whose resources change.

        Raises:
            RequestRefusedError: it cannot be placed; nothing has changed.
        """
        if container.id not in self._containers:
            self.create(container)
            return
        if container.resources == self._containers[container.id].resources:
            return
        result = self._policy.update(self._present_state, container)
        if (reason := result.rejected.get(container.id)) is not None:
            self._consequences.rejected(container, reason)
            raise RequestRefusedError(reason)
        self._containers[container.id] = container
        self._cache.put(container)
        self._commit(result)

    def release(self, containers: Collection[ContainerId]) -> None:
        """Free what containers were granted; unknown ones change nothing."""
        if self._release(containers):
            self._cache.save()

    def refresh(self) -> None:
        """Recompute what all containers are to have, after something besides the placements has changed."""
        for name, placement in self.placements.items():
            self._want(name, placement)

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
            self.ledger.want(name, UNSET)
        self._commit(result, fresh=True)

    def _release(self, containers: Collection[ContainerId]) -> bool:
        known = [container for container in containers if container in self._containers]
        for container in known:
            result = self._policy.release(self._present_state, container)
            del self._containers[container]
            self.ledger.forget(container)
            self._cache.drop(container)
            self._commit(result, save=False)
        return bool(known)

    def _commit(self, result: PolicyResult[Any], *, save: bool = True, fresh: bool = False) -> None:
        before, self._state = self.placements, result.state
        classes = self._state
        for name, placement in self.placements.items():
            earlier = before.get(name)
            if earlier is placement or (earlier == placement and not fresh):
                continue
            self._want(name, placement)
            if earlier is not None and earlier != placement:
                self._consequences.moved(self._containers[name], earlier, placement)
        for warning in result.warnings:
            self._consequences.warned(self._containers.get(warning.container), warning)
        self._consequences.timers(result.timers)
        self._consequences.classes_changed(classes.cpu_classes)
        self._cache.set_grants(self._policy.grants(self._state))
        if save:
            self._cache.save()

    def _want(self, name: ContainerId, placement: Placement) -> None:
        self.ledger.want(name, self._values_of(self._containers[name], placement), placement.exclusive)
