"""The loop: once in the interval, and soon after a pod waits, it reads, decides, stores and carries out.

What is seen is decided about in a thread, so that leases are renewed and watches followed meanwhile.

Guarantees that nothing is decided on what may be out of date; that a record is carried out only once it is stored, and
so goes on after a restart; that a node is powered off only by a record that an earlier pass has stored; and that what
fails for one node or policy, for whatever reason, is tried again at the next pass and holds no other up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog

from joulie_api.errors import KubeError, NotLeader
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.wire import Versioned
from joulie_core.hardware.view import HardwareView
from joulie_core.kinds import NodeBMC, NodeSleepPolicyStatus
from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.names import NodeName
from joulie_core.sleep import NodePowerFacts, SleepRecord, SleepState, intent_of
from joulie_core.sleep_state import SWITCHED_OFF
from joulie_operator.events import Event
from joulie_operator.sleep.evictions import SleepEvictions
from joulie_operator.sleep.facts import HardwareOf, SleepFacts, gather
from joulie_operator.sleep.left_off import OffReason, servers_off
from joulie_operator.sleep.metrics import SleepMetrics
from joulie_operator.sleep.nodes import WatchedNode
from joulie_operator.sleep.notices import sleep_event
from joulie_operator.sleep.pacing import LoopTurns, PassPacing
from joulie_operator.sleep.planner import SleepPlan, SleepPlanner, UsablePolicy, usable_policies
from joulie_operator.sleep.power_requests import LostMarks, SleepPowerRequest, wanted_power
from joulie_operator.sleep.records import lasting, stored_record
from joulie_operator.sleep.status import SleepSight, policy_status, refused_status
from joulie_operator.sleep.watches import SleepWatches, WatchedCluster
from joulie_operator.sleep.windows import UnusableSpec
from joulie_operator.sleep.writer import SleepWriter

_log = structlog.get_logger()

#: A node that has never slept counts as awake since any time.
_ALWAYS_S: Final = 0.0


@dataclass(frozen=True, slots=True)
class SleepParts:
    """Parts that a controller uses; `managed` returns the nodes of the operator's selection, `wall` the time."""

    watches: SleepWatches
    writer: SleepWriter
    metrics: SleepMetrics
    hardware: HardwareOf
    managed: Callable[[], Iterable[NodeName]]
    record_event: Callable[[Event], None]
    failures: Failures
    wall: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision, and what it is made of."""

    #: Records of all nodes at the beginning.
    before: dict[NodeName, SleepRecord]
    facts: SleepFacts
    plan: SleepPlan
    #: The policies that can be used, by name, and the errors of the others.
    usable: Mapping[str, UsablePolicy]
    errors: Mapping[str, UnusableSpec]


class SleepController:
    """The controller of one operator; `statuses` are those of the policies, by name.

    `off` are the servers that Joulie switched off last and that are not on.
    """

    def __init__(self, parts: SleepParts, *, interval_s: float) -> None:
        self.statuses: dict[str, NodeSleepPolicyStatus] = {}
        self.off: dict[NodeName, OffReason] = {}
        self._parts = parts
        self._pacing = PassPacing(interval_s)
        parts.watches.on_waiting_pod(self._pacing.on_waiting_pod)
        self._planner = SleepPlanner(parts.failures)
        #: As decided last, with what is not stored.
        self._records: dict[NodeName, SleepRecord] = {}
        self._lost_marks = LostMarks()
        #: Version of a Node that was written since: until another one is seen, the record in memory is the newer one.
        self._written_over: dict[NodeName, str] = {}
        self._failures = FailureLog(
            _log, failed="sleep write failed, will be repeated", recovered="sleep write succeeded"
        )
        self._evictions = SleepEvictions(parts.writer, parts.metrics, parts.failures, self._failures)
        self._reads = FailureLog(_log, failed="no decision about sleep", recovered="decisions about sleep go on")

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotLeader: this process must not write any more.
        """
        while True:
            self._pacing.begin()
            problem = self._parts.watches.stale_reason()
            if problem is None:
                self._reads.recovered()
                with self._parts.failures.contained("decide about sleep"):
                    await self.step()
            else:
                self._reads.failed(problem, cause="stale")
            await self._pacing.next_pass()

    async def step(self) -> None:
        """Decide once, and carry out what is stored. Raise as `run`."""
        turns = LoopTurns()
        self._pacing.take_pods()
        seen, now_s = self._parts.watches.seen(), self._parts.wall()
        views = await self._views(seen, turns)
        found = await asyncio.to_thread(self._decide, seen, views, frozenset(self._parts.managed()), now_s)
        before, records = found.before, found.plan.records
        stored: dict[NodeName, SleepRecord] = {}
        for node, record in records.items():
            await turns.next()
            with self._parts.failures.contained("store sleep record", node=node):
                if await self._store(seen.nodes[node], before[node], record):
                    stored[node] = record
        self._records = before | stored
        self._written_over = {name: version for name, version in self._written_over.items() if name in before}
        # What was decided and could not be stored is decided anew at the next pass, and its old record rests till then.
        settled = {name: record for name, record in self._records.items() if name in stored or name not in records}
        await self._carry_out(seen, found, settled, now_s, turns)
        statuses = await asyncio.to_thread(self._statuses, seen, found, SleepSight(found.facts, self._records, now_s))
        for name, status in statuses.items():
            if status != seen.policies[name].model.status:
                await self._attempt("status", self._parts.writer.publish(name, status), policy=name)
        self.statuses = statuses

    async def _views(self, seen: WatchedCluster, turns: LoopTurns) -> dict[NodeName, HardwareView | None]:
        """Return the hardware of the nodes; none of one whose hardware cannot be read."""
        views: dict[NodeName, HardwareView | None] = {}
        for key in seen.nodes:
            await turns.next()
            name = NodeName(key)
            with self._parts.failures.contained("read hardware of node", node=name):
                views[name] = self._parts.hardware(name)
        return views

    def _decide(
        self,
        seen: WatchedCluster,
        views: Mapping[NodeName, HardwareView | None],
        managed: frozenset[NodeName],
        now_s: float,
    ) -> _Decided:
        """Decide, in a thread: reads nothing that changes during a pass, and changes the planner only."""
        before = {NodeName(name): self._record(node, now_s) for name, node in seen.nodes.items()}
        facts = gather(seen, before, views, now_s, self._parts.failures)
        usable, errors = usable_policies(seen.policies.values(), seen.nodes, managed)
        plan = self._planner.plan(facts, before, usable.values(), now_s)
        return _Decided(before, facts, plan, usable, errors)

    def _statuses(self, seen: WatchedCluster, found: _Decided, sight: SleepSight) -> dict[str, NodeSleepPolicyStatus]:
        """Return the statuses of the policies, in a thread as `_decide`."""
        statuses: dict[str, NodeSleepPolicyStatus] = {}
        for name, policy in found.usable.items():
            with self._parts.failures.contained("status of a policy", policy=name):
                statuses[name] = policy_status(policy, seen.policies[name], sight, found.plan)
        return statuses | {
            name: refused_status(seen.policies[name], error, sight.now_s) for name, error in found.errors.items()
        }

    def _record(self, node: WatchedNode, now_s: float) -> SleepRecord:
        """Return the record of a node: the stored one, with what is remembered beside it."""
        name = node.node.name
        known = self._records.get(name)
        if known is not None and self._written_over.get(name) == node.node.resource_version:
            return known
        stored = stored_record(node, now_s)
        if node.ready is not True and (stored is None or stored.state is SleepState.AWAKE):
            left = self._lost_marks.record_of(name, now_s)
            if left is not None:
                return left
        if stored is None:
            return known if known is not None and known.state is SleepState.AWAKE else SleepRecord(since_s=_ALWAYS_S)
        return known if known is not None and lasting(known) == stored else stored

    async def _store(self, node: WatchedNode, before: SleepRecord, after: SleepRecord) -> bool:
        """Store a record; return whether it is the one in force."""
        changed = lasting(before) != lasting(after)
        name = node.node.name
        if self._written_over.get(name) == node.node.resource_version:
            # Written on a newer version than the one seen.
            return not changed
        try:
            if await self._parts.writer.store(node, after, changed=changed):
                self._written_over[name] = node.node.resource_version
        except NotLeader:
            raise
        except KubeError as error:
            self._failures.failed(error, node=name, write="record")
            return not changed
        self._failures.recovered(node=name, write="record")
        if before.state is not after.state:
            self._parts.metrics.on_transition(before, after)
            self._parts.record_event(sleep_event(node.node, before.state, after))
            _log.info(
                "sleep state changed",
                node=name,
                from_state=before.state.value,
                to_state=after.state.value,
                reason=after.reason.value,
            )
        return True

    async def _carry_out(
        self,
        seen: WatchedCluster,
        found: _Decided,
        settled: Mapping[NodeName, SleepRecord],
        now_s: float,
        turns: LoopTurns,
    ) -> None:
        before, facts = found.before, found.facts
        for name, record in settled.items():
            await turns.next()
            await self._attempt("condition", self._parts.writer.show(seen.nodes[name], record), node=name)
        self.off = servers_off(seen.bmcs.values(), settled, facts.nodes)
        self._lost_marks.note(before, (bmc.name for bmc in seen.bmcs.values()))
        for bmc in seen.bmcs.values():
            await turns.next()
            name = NodeName(bmc.name)
            if name in before and name not in settled:
                continue
            power = facts.power.get(name)
            if power is None:
                continue
            node, decided = facts.nodes.get(name), settled.get(name)
            was = before[name].state if name in before else None
            with self._parts.failures.contained("sleep power", node=name):
                request = self._lost_marks.with_mark(bmc, wanted_power(power, node, decided, now_s))
                await self._attempt("power", self._request_power(bmc, request, power, was=was, now_s=now_s), node=name)
        # After the power, which is requested on the version that was seen.
        for bmc in seen.bmcs.values():
            await turns.next()
            reason = self.off.get(NodeName(bmc.name))
            left_off = self._parts.writer.show_left_off(bmc, reason, now_s=now_s)
            await self._attempt("condition of NodeBMC", left_off, node=bmc.name)
        draining = {name for name, record in settled.items() if intent_of(record.state).evict}
        if draining:
            await self._evictions.evict(pod for pod in seen.pods.values() if pod.node in draining)

    async def _request_power(
        self,
        bmc: Versioned[NodeBMC],
        request: SleepPowerRequest,
        facts: NodePowerFacts,
        *,
        was: SleepState | None,
        now_s: float,
    ) -> None:
        if request.power is DesiredPower.OFF:
            if was not in SWITCHED_OFF or facts.requested is DesiredPower.ON:
                # A pod that was bound just before the record was stored is seen at the next pass; a person's On holds.
                return
            on = facts.state is not PowerState.OFF
            if on and self._parts.writer.differs(bmc, request) and not await self._parts.writer.is_empty(bmc.name):
                _log.warning("node not powered off, pods are on it", node=bmc.name)
                if was is not SleepState.ASLEEP:
                    return
                # Its server was off, and its NodeBMC may have been written again since.
                request = replace(request, power=DesiredPower.UNMANAGED)
        if await self._parts.writer.request_power(bmc, request, now_s=now_s):
            _log.info("power requested", node=bmc.name, desired=request.power.value)

    async def _attempt(self, what: str, write: Awaitable[None], **subject: str) -> None:
        """Make a write about `subject`; one that fails is logged, and repeated at the next pass."""
        with self._parts.failures.contained(f"sleep {what}", **subject):
            try:
                await write
            except NotLeader:
                raise
            except KubeError as error:
                self._failures.failed(error, write=what, **subject)
            else:
                self._failures.recovered(write=what, **subject)
