"""The watched objects of one process, and which change triggers which node worker.

Only changes that a worker can act on trigger it; the agent's own status writes and kubelet heartbeats do not. Generated
profiles take no part in routing. An agent of one node watches the profiles of users and the one of its node, not those
that other agents generate.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from joulie_agent.budgets.watch import BudgetsWatch
from joulie_agent.publish import StatusProfile, decode_status_profile
from joulie_agent.scope import Scope
from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_HARDWARES, NODE_POWER_PROFILES, NODES, TELEMETRY_PROFILES
from joulie_api.wire import Versioned, decode_kind, decode_node
from joulie_core.control.telemetry_route import Route, RoutingProfile, route
from joulie_core.kinds.node_hardware import NodeHardware
from joulie_core.kinds.node_power_budget import NodePowerBudget
from joulie_core.kinds.node_power_profile import NodePowerProfile, NodePowerProfileSpec
from joulie_core.kinds.telemetry_profile import TargetScope
from joulie_core.labels import MANAGED_BY, MANAGED_BY_AGENT
from joulie_core.names import NodeName
from joulie_core.node import Node

_GENERATED: Final = f"{MANAGED_BY}={MANAGED_BY_AGENT}"
_AUTHORED: Final = f"{MANAGED_BY}!={MANAGED_BY_AGENT}"


class Informers:
    """The watches of one process.

    Args:
        client: client of the API server.
        scope: which nodes are watched.
        default_route: applies where no profile does.
        wake: called with the name of a node that changed, or with None for a change that may concern all nodes.
        moved: called when a node was added, removed or relabelled.
        budgets: watch of power budgets, which is run by itself; None: there are none.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        default_route: Route,
        *,
        wake: Callable[[str | None], None],
        moved: Callable[[], None],
        budgets: BudgetsWatch | None = None,
    ) -> None:
        self._budgets = budgets
        self._default_route = default_route
        self._wake = wake
        self._moved = moved
        own = scope.field_selector
        self._nodes = Reflector(
            client, NODES, decode_node, label_selector=scope.label_selector, field_selector=scope.field_selector
        )
        self._targets = Reflector(client, NODE_POWER_PROFILES, decode_kind(NodePowerProfile), field_selector=own)
        self._hardware = Reflector(client, NODE_HARDWARES, decode_kind(NodeHardware), field_selector=own)
        self._authored = Reflector(
            client,
            TELEMETRY_PROFILES,
            decode_status_profile,
            label_selector=_AUTHORED,
            name="authored telemetryprofiles",
        )
        self._status_profiles = Reflector(
            client,
            TELEMETRY_PROFILES,
            decode_status_profile,
            label_selector="" if own else _GENERATED,
            field_selector=own,
            name="status profiles",
        )
        #: Profiles that route, by the node they name ("" for those of the cluster), then by where they were seen.
        self._routing: dict[str, dict[tuple[str, str], RoutingProfile]] = {}
        self._subscribe()

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """All watches, to be run; that of budgets is not among them."""
        return (self._nodes, self._targets, self._hardware, self._authored, self._status_profiles)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that the scope's selectors match."""
        return self._nodes.store

    def target(self, name: str) -> NodePowerProfileSpec | None:
        """Return the published target of a node."""
        found = self._targets.store.get(name)
        return found.model.spec if found else None

    def targets_age_s(self) -> float:
        """Return the seconds since the last contact with the API server on the watch of targets."""
        return self._targets.age_s()

    def hardware(self, name: str) -> Versioned[NodeHardware] | None:
        """Return the published hardware of a node."""
        return self._hardware.store.get(name)

    def budget(self, name: str) -> Versioned[NodePowerBudget] | None:
        """Return the power budget of a node."""
        return self._budgets.find(name) if self._budgets else None

    async def wait_known(self) -> None:
        """Wait until everything that is watched has been listed once, or is known not to be served."""
        for reflector in self.reflectors:
            await reflector.wait_synced()
        if self._budgets is not None:
            await self._budgets.wait_known()

    def status_profile(self, name: str) -> StatusProfile | None:
        """Return the profile that holds a node's report: the one with its name, whatever its manager."""
        return self._authored.store.get(name) or self._status_profiles.store.get(name)

    def status_profiles(self) -> Iterator[StatusProfile]:
        """Return every profile that may hold a node's report."""
        yield from {**self._status_profiles.store, **self._authored.store}.values()

    def route(self, node: Node) -> Route:
        """Return the current route of a node."""
        profiles = [*self._routing.get(node.name, {}).values(), *self._routing.get("", {}).values()]
        return route(node, profiles, self._default_route)

    def last_route(self, node: Node) -> Route:
        """Return the route that the generated profile mirrors; labels may no longer select the same profiles."""
        profile = self.status_profile(node.name)
        if profile is None or not profile.generated:
            return self.route(node)
        return route(node, [RoutingProfile(profile.name, "", profile.model.spec)], self._default_route)

    def _subscribe(self) -> None:
        self._nodes.subscribe(self._on_node)
        self._targets.subscribe(self._on_target)
        self._hardware.subscribe(self._on_hardware)
        self._authored.subscribe(partial(self._on_profile, "authored"))
        self._status_profiles.subscribe(partial(self._on_profile, "status"))

    def _on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or old.labels != new.labels or old.uid != new.uid:
            self._moved()
            self._wake(key)

    def _on_target(
        self, key: str, old: Versioned[NodePowerProfile] | None, new: Versioned[NodePowerProfile] | None
    ) -> None:
        if old is None or new is None or old.model.spec != new.model.spec:
            self._wake(key)

    def _on_hardware(self, key: str, _old: Versioned[NodeHardware] | None, new: Versioned[NodeHardware] | None) -> None:
        if new is None:
            self._wake(key)

    def _on_profile(self, seen: str, key: str, old: StatusProfile | None, new: StatusProfile | None) -> None:
        if old is not None and new is not None and _same_routing(old, new):
            return
        if new is None or not new.generated:
            self._wake(key)
        for profile in (old, new):
            if profile is not None and not profile.generated:
                self._wake(_routed_node(profile) or None)
        if old is not None:
            self._routing.get(_routed_node(old), {}).pop((seen, key), None)
        if new is not None and not new.generated:
            routing = RoutingProfile(new.name, new.metadata.created_at or "", new.model.spec)
            self._routing.setdefault(_routed_node(new), {})[seen, key] = routing


def _routed_node(profile: StatusProfile) -> str:
    """Return the node that a profile applies to; empty for profiles of scope cluster."""
    target = profile.model.spec.target
    return NodeName(target.node_name or "") if target.scope is TargetScope.NODE else ""


def _same_routing(old: StatusProfile, new: StatusProfile) -> bool:
    return (
        old.model.spec == new.model.spec
        and old.metadata.uid == new.metadata.uid
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
