"""The node agent: connects the resource manager of this pod with the API server.

It pushes the configuration that applies to the node, the Adjustments that name it, its power profile and how much
longer its pods may run, reports in the status of objects what became of them, and publishes what the resource manager
reports. While the resource manager cannot be reached, nothing is known about it, and what is published stays.
Source: docs/decisions/0014-container-resources.md.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import KubeError
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.pod_events import PodEvents
from joulie_api.reflector import Reflector
from joulie_api.resources import ADJUSTMENTS
from joulie_containers.node_agent.consents import PodConsentsWatch, ToldConsent
from joulie_containers.node_agent.names import FIELD_MANAGER
from joulie_containers.node_agent.node_changes import NodeChanges
from joulie_containers.node_agent.objects import POLICY_RESOURCES, Entry, NodeObject, ObjectKey, decode_object
from joulie_containers.node_agent.published import StatePublisher
from joulie_containers.node_agent.pusher import PACE, Pace, Pusher
from joulie_containers.node_agent.selection import Selection, select
from joulie_containers.node_agent.status_details import adjustment_entry, policy_entry, shortfalls_of
from joulie_containers.node_agent.status_entries import Seen, StatusEntries
from joulie_containers.resource_api.cluster import serve_cluster
from joulie_containers.resource_api.config import ConfigClient
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ResourceApiError
from joulie_core.kinds.adjustment import names_node
from joulie_core.kinds.base import Profile
from joulie_core.node import Node

_SELECT: Final = "selection of container policies"

_log = structlog.get_logger()


class _Pushed(NamedTuple):
    """A configuration that the resource manager has answered, with the answer."""

    applied: NodeObject
    error: str
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """State that the resource manager is to have, all of it again after its restart."""

    instance: str
    #: Differs where the same is to be pushed again.
    turn: int
    #: None: no object applies.
    applied: NodeObject | None = None
    adjustments: tuple[NodeObject, ...] = ()
    profile: Profile | None = None
    consents: tuple[ToldConsent, ...] = ()


class NodeAgent:
    """Serves the resource manager of one node.

    Args:
        client: client of the API server.
        node_name: name of the node.
        config_socket: socket of the resource manager.
        cluster_socket: socket that the resource manager may use.
        node: returns the node as watched elsewhere; None where it is not known, or gone.
        profile: returns its power profile; None without a target. `wake` is to be called after changes of both.
        wall_time: seconds since the epoch.
        failures: where unexpected errors are counted.
        report_success: whether the status of a configuration names this node where it uses it.
        consents: how much longer pods may run; None where that is not told.
        pace: time constants.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        node_name: str,
        config_socket: Path,
        cluster_socket: Path,
        node: Callable[[], Node | None],
        profile: Callable[[], Profile | None],
        wall_time: Callable[[], float],
        failures: Failures,
        report_success: bool = True,
        consents: PodConsentsWatch | None = None,
        pace: Pace = PACE,
    ) -> None:
        self._node_name = node_name
        self._cluster_socket = cluster_socket
        self._node = node
        self._profile = profile
        self._report_success = report_success
        self._consents = consents
        self._pace = pace
        self._manager = ConfigClient(config_socket)
        #: The last state of the resource manager; None while it cannot be reached.
        self._state: pb.ManagerStatus | None = None
        #: What of the configuration is not in force as far as known, by field of the status.
        self._shortfalls: Mapping[str, object] = {}
        self._pushed: _Pushed | None = None
        self._selection: Selection | None = None
        self._adjusting: tuple[NodeObject, ...] = ()
        self._applying: tuple[ObjectKey, ...] = ()
        #: Counts the changes of what applies: what applies again is pushed again.
        self._turn = 0
        #: Counts comparisons without a change: containers that have started since may not fit an Adjustment.
        self._rounds = 0
        self._moved = asyncio.Event()
        self._internal = failures
        self._failures = FailureLog(_log, failed="resource manager unreachable", recovered="resource manager reached")
        self._reflectors = tuple(
            Reflector(client, each, decode_object(each, node_name)) for each in (*POLICY_RESOURCES, ADJUSTMENTS)
        )
        self._entries = StatusEntries(
            client, node_name, field_manager=FIELD_MANAGER, objects=self._objects, wall_time=wall_time
        )
        self._events = PodEvents(client, component=FIELD_MANAGER, node=node_name, wall_time=wall_time)
        self._changes = NodeChanges(
            client, node_name, field_manager=FIELD_MANAGER, events=self._events, problem=self._problem
        )
        self._status_pusher: Pusher[dict[Seen, Entry | None]] = Pusher(
            "status",
            lambda: self._entries.differences() or None,
            self._entries.write,
            interval_s=0,
            failures=failures,
            pace=pace,
        )
        published = StatePublisher(
            client, node_name, node=node, state=lambda: self._state, failures=failures, pace=pace
        )
        slow = partial(Pusher[Any], interval_s=pace.push_interval_s, failures=failures, pace=pace)
        self._consents_pusher = slow("consents of pods", self._wanted_consents, self._push_consents)
        self._pushers: tuple[Pusher[Any], ...] = (
            slow("configuration", self._wanted_config, self._push_config),
            slow("adjustments", self._wanted_adjustments, self._push_adjustments),
            Pusher(
                "power profile", self._wanted_profile, self._push_profile, interval_s=0, failures=failures, pace=pace
            ),
            self._consents_pusher,
            self._status_pusher,
            *published.pushers,
        )

    @property
    def reflectors(self) -> tuple[Reflector[NodeObject], ...]:
        """The watches of this node agent, to be run."""
        return self._reflectors

    def wake(self) -> None:
        """Compare everything with what is in force; handlers of watches may call it."""
        self._moved.set()

    async def run(self) -> NoReturn:
        """Serve until cancelled, then remove this node from the status of all objects.

        Raises:
            OSError: The socket for the resource manager cannot be made.
        """
        for reflector in self._reflectors:
            await reflector.wait_synced()
            reflector.subscribe(lambda _key, _old, _new: self.wake())
        try:
            async with serve_cluster(self._cluster_socket, self._changes), asyncio.TaskGroup() as group:
                for pusher in self._pushers:
                    group.create_task(pusher.run())
                group.create_task(self._events.run())
                group.create_task(self._follow())
                if self._consents is not None:
                    group.create_task(self._consents.run(self._consents_pusher.wake))
                await self._compare()
        finally:
            await self._end()
        raise AssertionError("the loops end by cancellation only")

    async def _follow(self) -> NoReturn:
        """Read the state of the resource manager repeatedly."""
        while True:
            try:
                state = await self._manager.status()
            except ResourceApiError as error:
                self._failures.failed(error)
                self._state = None
            else:
                self._failures.recovered()
                if state != self._state:
                    self._state = state
                    self._shortfalls = shortfalls_of(state)
                    self.wake()
            await asyncio.sleep(self._pace.poll_interval_s)

    async def _compare(self) -> NoReturn:
        """Decide what applies, and wake whatever acts on it, after each change and once in a while."""
        while True:
            self._moved.clear()
            try:
                self._select()
            except Exception as error:  # noqa: BLE001 - what applied before stays; compared again as after a change
                self._internal.internal_error(_SELECT, error)
            else:
                self._internal.worked(_SELECT)
            for pusher in self._pushers:
                pusher.wake()
            try:
                async with asyncio.timeout(self._pace.compare_interval_s):
                    await self._moved.wait()
            except TimeoutError:
                self._rounds += 1

    def _select(self) -> None:
        node = self._node()
        if node is None:
            return
        policies = [each for each in self._objects() if each.key.resource is not ADJUSTMENTS]
        self._selection = select(self._node_name, node.labels, policies)
        adjustments = (each for each in self._objects() if each.key.resource is ADJUSTMENTS)
        naming = [each for each in adjustments if names_node(each.spec, self._node_name)]
        self._adjusting = tuple(sorted(naming, key=lambda each: each.key.name))
        applying = tuple(each.key for each in (*self._selection.objects, *self._adjusting))
        if applying != self._applying:
            self._applying = applying
            self._turn += 1
        self._entries.apply(applying)
        if self._pushed is not None and self._pushed.applied == self._selection.applied:
            self._report(*self._pushed)  # what the hardware does not serve changes without a push
        if self._selection.conflict is not None:
            for each in self._selection.objects:
                self._report(each, self._selection.conflict)

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(self._pace.withdraw_timeout_s):
                await self._entries.withdraw()
        except (KubeError, TimeoutError) as error:
            # The next process on this node corrects what is left.
            _log.warning("removing status entries failed", error=str(error) or "timeout")
        await self._manager.close()

    def _objects(self) -> Iterator[NodeObject]:
        for reflector in self._reflectors:
            yield from reflector.store.values()

    def _problem(self) -> str | None:
        reasons = ((reflector.name, reflector.stale_reason()) for reflector in self._reflectors)
        return "; ".join(f"watch of {name}: {reason}" for name, reason in reasons if reason) or None

    def _wanted(self) -> _Wanted | None:
        return None if self._state is None else _Wanted(self._state.instance, self._turn)

    def _wanted_config(self) -> _Wanted | None:
        wanted, selection = self._wanted(), self._selection
        if wanted is None or selection is None or selection.conflict is not None:
            return None
        return replace(wanted, applied=selection.applied)

    async def _push_config(self, wanted: _Wanted) -> None:
        applied = wanted.applied
        reply = await self._manager.set_config(self._node_name, applied.manifest() if applied else "")
        _log.info(
            "configuration pushed",
            object=str(applied.key) if applied else "",
            generation=applied.generation if applied else 0,
            error=reply.error,
            ignored=list(reply.ignored),
        )
        if applied is not None:
            self._pushed = _Pushed(applied, reply.error, tuple(reply.ignored))
            self._report(applied, reply.error, reply.ignored)
            self._status_pusher.wake()

    def _report(self, each: NodeObject, error: str, ignored: Iterable[str] = ()) -> None:
        reported = error or self._report_success or self._shortfalls
        self._entries.want(each, policy_entry(each, error, ignored, self._shortfalls) if reported else None)

    def _wanted_adjustments(self) -> _Wanted | None:
        wanted = self._wanted()
        if wanted is None or self._selection is None:
            return None
        turn = wanted.turn + self._rounds if self._adjusting else 0
        return replace(wanted, turn=turn, adjustments=self._adjusting)

    async def _push_adjustments(self, wanted: _Wanted) -> None:
        manifests = {each.key.name: each.manifest() for each in wanted.adjustments}
        refused = await self._manager.set_adjustments(self._node_name, manifests)
        for each in wanted.adjustments:
            self._entries.want(each, adjustment_entry(each, refused.get(each.key.name, {})))
        self._status_pusher.wake()

    def _wanted_profile(self) -> _Wanted | None:
        wanted, profile = self._wanted(), self._profile()
        return None if wanted is None or profile is None else replace(wanted, turn=0, profile=profile)

    async def _push_profile(self, wanted: _Wanted) -> None:
        assert wanted.profile is not None
        await self._manager.set_power_profile(wanted.profile)

    def _wanted_consents(self) -> _Wanted | None:
        wanted, consents = self._wanted(), None if self._consents is None else self._consents.current()
        if wanted is None or self._consents is None or consents is None:
            return None
        return replace(wanted, turn=self._consents.turn, consents=consents)

    async def _push_consents(self, wanted: _Wanted) -> None:
        await self._manager.set_pod_consents(self._node_name, [each.message() for each in wanted.consents])
