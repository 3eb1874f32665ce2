"""The template policy: the smallest complete container policy, to be copied and changed.

Copy this file, replace "template" and "Template" by a name of your own, and you have a policy that works. What it does:
containers of the namespaces in `reservedPoolNamespaces` run on the reserved CPUs, all others on the remaining available
CPUs. The text of every method is about what belongs there in a policy that does more.

Three rules make a policy work in the resource manager:

1. It is a function of values. A state is never changed; every method returns a new one. The resource manager discards a
   new state that the container runtime has refused, so nothing may be kept on `self` between calls.
2. Equal arguments give equal results. Sort before iterating over what has no order of its own.
3. `synchronize` leaves running containers where they are. A container that is moved loses its caches, and a restart of
   the agent is no reason for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from joulie_core.containers import cpu_allocator
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.node_cpus import node_cpus
from joulie_core.containers.policy import (
    ContainerPolicy,
    GrantRecord,
    Placement,
    PlacementZone,
    PolicyEvent,
    PolicyResult,
)
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.template_policy import TemplatePolicySpec


@dataclass(frozen=True, slots=True)
class TemplateState:
    """Everything that the policy knows about the node's containers.

    Two fields are required of every state: `placements` and `cpu_classes`. Add what your decisions depend on, such as
    the CPUs that are free, as further frozen values.
    """

    placements: Mapping[ContainerId, Placement] = field(default_factory=dict)
    #: CPUs by the name of a CPU class; the actuator sets the frequencies of the class on them.
    cpu_classes: Mapping[str, Cpus] = field(default_factory=dict)


class TemplateContainerPolicy(ContainerPolicy[TemplateState]):
    """Separates the containers of reserved namespaces from all others."""

    #: The name that selects the policy: `joulie-containers manager --policy template`.
    name: ClassVar[str] = "template"

    def __init__(self, spec: TemplatePolicySpec, topology: HardwareTopology) -> None:
        """Resolve the configuration on this node; work that depends on nothing else belongs here.

        Raises:
            PolicyConfigError: The configuration cannot be used on this node.
        """
        cpus = node_cpus(topology, spec.available_resources.cpu, spec.reserved_resources.cpu)
        reserved = cpus.reserved_set
        if reserved is None:
            reserved = cpu_allocator.allocate(topology, cpus.available, cpus.reserved_count)
        self._reserved_namespaces = ("kube-system", *spec.reserved_pool_namespaces)
        # A zone must not be empty: with no reserved CPUs, or with nothing but reserved ones, both are all of them.
        self._zones = {
            "reserved": reserved or cpus.available,
            "shared": cpus.available - reserved or cpus.available,
        }

    def synchronize(
        self, containers: Sequence[ContainerInfo], grants: Mapping[ContainerId, GrantRecord]
    ) -> PolicyResult[TemplateState]:
        """Return the state for exactly these containers: at start, after a restart, and with a new configuration.

        Here a placement follows from the container and the configuration, so that it is the same after a restart, and
        the grants are not needed. A policy whose placements depend on the order of events does this in two passes: it
        keeps every grant that is still valid, such as one whose CPUs are available and granted to no other container;
        then it allocates the remaining containers, sorted by `(created_ns, id)`.
        """
        del grants
        placements = {container.id: self._placement(container) for container in containers}
        return PolicyResult(state=TemplateState(placements))

    def allocate(self, state: TemplateState, container: ContainerInfo) -> PolicyResult[TemplateState]:
        """Place a container that is being created.

        Where that is not possible, return `PolicyResult(state=state, rejected={container.id: reason})`. The container
        is then not created, and its pod's events show the reason. For something that the user should know and that is
        no obstacle, such as an annotation that cannot be read, return the new state with `warnings`.
        """
        return PolicyResult(state=TemplateState({**state.placements, container.id: self._placement(container)}))

    def release(self, state: TemplateState, container: ContainerId) -> PolicyResult[TemplateState]:
        """Free what a container was granted. Containers that gain from it get another placement in the new state."""
        remaining = {other: placement for other, placement in state.placements.items() if other != container}
        return PolicyResult(state=TemplateState(remaining))

    def update(self, state: TemplateState, container: ContainerInfo) -> PolicyResult[TemplateState]:
        """Place a container whose requests or limits have changed; `container` has the new ones."""
        return self.allocate(state, container)

    def handle(self, state: TemplateState, event: PolicyEvent) -> PolicyResult[TemplateState]:
        """React to a timer of your own (`PolicyResult.timers`), a new power profile or a request to rebalance."""
        del event  # none matters here
        return PolicyResult(state=state)

    def grants(self, state: TemplateState) -> Mapping[ContainerId, GrantRecord]:
        """Return what `synchronize` needs after a restart to leave each container where it is.

        A record is stored as JSON, so it holds texts, numbers, lists and mappings: `str(cpus)`, read by `IdSet.parse`.
        It may be older than the configuration and the machine it is read on; take nothing in it for granted.
        """
        return {container: {} for container in state.placements}

    def zones(self, state: TemplateState) -> tuple[PlacementZone, ...]:
        """Return the parts into which the policy divides the node, for metrics and NodeResourceTopology."""
        return tuple(
            PlacementZone(
                name=name,
                kind="pool",
                cpus=cpus,
                capacity_milli=1000 * len(cpus),
                allocatable_milli=1000 * len(cpus),
                available_milli=1000 * len(cpus),
                containers=tuple(
                    container for container, placement in sorted(state.placements.items()) if placement.zone == name
                ),
            )
            for name, cpus in self._zones.items()
        )

    def check(self, state: TemplateState) -> None:
        """Raise AssertionError where the state contradicts itself; tests call it after every step.

        State here what must hold whatever has happened: no CPU is exclusive to two containers, none is granted that is
        not available, everything is free when all containers have left.
        """
        for container, placement in state.placements.items():
            assert placement.cpus == self._zones[placement.zone], f"{container} is not on the CPUs of its zone"

    def _placement(self, container: ContainerInfo) -> Placement:
        reserved = any(fnmatchcase(container.pod.namespace, glob) for glob in self._reserved_namespaces)
        zone = "reserved" if reserved else "shared"
        return Placement(zone=zone, cpus=self._zones[zone])
