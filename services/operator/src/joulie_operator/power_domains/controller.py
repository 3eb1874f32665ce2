"""The loop: once in the interval it reads, decides, and writes the status of each domain that has changed.

Guarantees that nothing is written but the status of PowerDomains and, by `joulie_operator.power_domains.budgets`, the
objects of nodes; that nothing is decided on what may be out of date; that a status is written only on the version of
the object that it was decided by; and that what fails for one node, tree or domain is tried again at the next pass and
holds no other up. A changed spec of a domain, and one of an event, is looked at at once, also while an earlier decision
is carried out: what raises limits is then left to the next one. Reports of nodes, and new domains, are looked at
together.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from joulie_api.apply import FencedWriter
from joulie_api.failure_log import FailureLog
from joulie_api.failures import Failures
from joulie_api.reflector import LocalCopy, Reflector
from joulie_api.resources import POWER_DOMAINS
from joulie_api.wire import Versioned
from joulie_core.kinds import PowerDomain, PowerDomainStatus
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.power_domains.available import AvailableWatts
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.changes import is_due
from joulie_operator.power_domains.decision import DomainDecision, DomainInputs, decide
from joulie_operator.power_domains.enforcement import TreeEnforcer
from joulie_operator.power_domains.events import PowerEvents
from joulie_operator.power_domains.inputs import DomainNode, DomainSight, unknown_node
from joulie_operator.power_domains.metrics import DomainState
from joulie_operator.power_domains.rest import published_rests
from joulie_operator.power_domains.status import dated, domain_status, unreadable_status
from joulie_operator.power_domains.status_writer import StatusWriter

_log = structlog.get_logger()

#: Between two passes where nothing changes.
INTERVAL_S: Final = 10.0
#: Time in which reports of nodes and new domains are collected before a pass; as long as a decision takes, where that
#: is longer.
DEBOUNCE_S: Final = 0.1
#: Time after which a pass is carried out to its end whatever changes meanwhile.
WHOLE_S: Final = 30.0
#: Between two looks whether the watches can be believed again.
STALE_INTERVAL_S: Final = 1.0
#: Nodes between two turns of the event loop: about a millisecond.
SLICE: Final = 25


@dataclass(frozen=True, slots=True)
class PowerDomainParts:
    """Parts that a controller uses; `stale_reason` says why a watch may be out of date, `wall` is the time."""

    domains: Reflector[Versioned[PowerDomain]]
    #: All nodes of the cluster.
    nodes: LocalCopy[Node]
    sight: DomainSight
    budgets: NodeBudgets
    available: AvailableWatts
    events: PowerEvents
    writer: FencedWriter
    stale_reason: Callable[[], str | None]
    failures: Failures
    wall: Callable[[], float]
    #: The clock of leases.
    clock: Callable[[], float]
    #: The setting for limits that add up to more than those of domains.
    oversubscribes: bool = False


class PowerDomainController:
    """The controller of one operator; `states` are the domains as seen last, by name."""

    def __init__(self, parts: PowerDomainParts) -> None:
        self.states: dict[str, DomainState] = {}
        self._parts = parts
        self._enforcer = TreeEnforcer()
        #: Nodes with what was known of them at the last pass that was not asked for.
        self._facts: dict[NodeName, tuple[Node, DomainNode]] = {}
        self._changed = asyncio.Event()
        #: Set with it where a limit of a domain has changed, and not only what a node reports.
        self._urgent = asyncio.Event()
        #: Time that the last decision took.
        self._decided_in_s = 0.0
        #: End of the last pass that was not superseded.
        self._whole_s = parts.clock()
        #: Of the wall clock: when a limit changes by an event that was known at the last decision.
        self._next_change_s = math.inf
        parts.budgets.wake = self._changed.set
        parts.events.wake = self._wake_at_once
        parts.events.renewed = self._changed.set
        parts.domains.subscribe(self._on_domain)
        #: Why objects could not be read, as it was written into their status.
        self._told: dict[str, str] = {}
        self._reads = FailureLog(_log, failed="power domains not observed", recovered="power domains are observed")
        self._writes = StatusWriter[PowerDomain](
            parts.writer, POWER_DOMAINS, parts.failures, noun="power domain", key="domain"
        )

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            NotLeader: this process must not write any more.
        """
        full_s = self._parts.clock()
        while True:
            self._changed.clear()
            started_s = self._parts.clock()
            is_full = started_s >= full_s
            full_s = started_s + INTERVAL_S if is_full else full_s
            with self._parts.failures.contained("power domains"):
                await self.look(afresh=is_full)
            if not self._is_superseded():
                self._whole_s = self._parts.clock()
            pause_s = max(0.0, min(full_s - self._parts.clock(), self._parts.events.pause_s(self._parts.wall())))
            if self._reads.problem() is not None:
                full_s, pause_s = started_s, STALE_INTERVAL_S
            try:
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(max(DEBOUNCE_S, self._decided_in_s)):
                            await self._urgent.wait()
            except TimeoutError:
                pass

    async def look(self, *, afresh: bool = True) -> None:
        """Decide once, and write what has changed; `afresh` False: by what is known of nodes. Raise as `run`."""
        self._urgent.clear()
        events = self._parts.events
        problem = self._parts.stale_reason() or self._parts.budgets.stale_reason() or events.unknown_reason()
        started_s = self._parts.clock()
        if problem is not None:
            # What was seen is not known to be so any more.
            self.states = {}
            self._parts.available.lose()
            events.forget()
            self._reads.failed(problem, cause="stale")
            return
        self._reads.recovered()
        domains, invalid = dict(self._parts.domains.store), dict(self._parts.domains.invalid)
        nodes, unread_nodes = dict(self._parts.nodes.store), frozenset(self._parts.nodes.invalid)
        facts = await self._nodes(nodes.values(), afresh=afresh)
        now_s = self._parts.wall()
        inputs = DomainInputs(
            specs={name: each.model.spec for name, each in domains.items()},
            unread=frozenset(invalid),
            nodes=facts,
            labels={NodeName(name): node.labels for name, node in nodes.items()},
            unread_nodes=unread_nodes - nodes.keys(),
            budgets=self._parts.budgets.seen(nodes),
            rests=published_rests(domains, now_s),
            events=events.inputs(domains, facts, now_s, self._parts.clock()),
            oversubscribes=self._parts.oversubscribes,
        )
        self._next_change_s = now_s + events.pause_s(now_s)
        decided_s = self._parts.clock()
        decision = await asyncio.to_thread(decide, inputs, self._enforcer, self._parts.failures)
        self._decided_in_s = self._parts.clock() - started_s
        highest_mw = {name: each.budget.max_mw for name, each in facts.items()}
        self._parts.available.update(decision.available, highest_mw, decision.kept)
        await self._parts.budgets.carry_out(decision, nodes, unread_nodes, decided_s, self._is_superseded)
        await asyncio.to_thread(events.take, inputs, decision, is_sample=afresh)
        readable = {name: each for name, each in domains.items() if name not in invalid}
        statuses = await asyncio.to_thread(self._statuses, readable, inputs, decision)
        self.states = {name: DomainState(inputs.specs[name], status) for name, status in statuses.items()} | {
            name: DomainState(None, unreadable_status(reason)) for name, reason in invalid.items()
        }
        await self._publish(readable, invalid, statuses)
        await events.publish(self._parts.wall(), self._is_superseded)

    def _is_superseded(self) -> bool:
        """Return whether a limit of a domain has changed since the decision, which is made again at once.

        False where that has been so for `WHOLE_S`: limits that change without end hold up no raise and no renewal.
        """
        if self._parts.clock() >= self._whole_s + WHOLE_S:
            return False
        return self._urgent.is_set() or self._parts.wall() >= self._next_change_s

    def _wake_at_once(self) -> None:
        self._urgent.set()
        self._changed.set()

    def _on_domain(self, _name: str, old: Versioned[PowerDomain] | None, new: Versioned[PowerDomain] | None) -> None:
        if old is None or new is None:
            # The domains of a tree are created one by one: nodes would be lowered for a part of it.
            self._changed.set()
        elif old.model.spec != new.model.spec:
            self._wake_at_once()

    async def _nodes(self, nodes: Iterable[Node], *, afresh: bool) -> dict[NodeName, DomainNode]:
        """Return what is known of each node; without `afresh`, of those that are as they were, what was known."""
        before = {} if afresh else self._facts
        facts: dict[NodeName, tuple[Node, DomainNode]] = {}
        listed = list(nodes)
        for start in range(0, len(listed), SLICE):
            for node in listed[start : start + SLICE]:
                known = before.get(node.name)
                if known is not None and known[0] is node:
                    facts[node.name] = known
                    continue
                facts[node.name] = node, unknown_node(node)
                with self._parts.failures.contained("node of power domains", node=node.name):
                    facts[node.name] = node, self._parts.sight.node(node)
            await asyncio.sleep(0)
        self._facts = facts
        self._parts.sight.retain(facts)
        return {name: found for name, (_, found) in facts.items()}

    def _statuses(
        self, domains: Mapping[str, Versioned[PowerDomain]], inputs: DomainInputs, decision: DomainDecision
    ) -> dict[str, PowerDomainStatus]:
        """Return the status of each domain, undated; in a thread, on values that do not change."""
        found: dict[str, PowerDomainStatus] = {}
        for name in domains:
            outcome = decision.outcomes.get(name)
            if outcome is not None:
                with self._parts.failures.contained("status of power domain", domain=name):
                    found[name] = domain_status(
                        name,
                        inputs.specs[name],
                        outcome,
                        inputs.nodes,
                        enforces=inputs.budgets is not None,
                    )
        return found

    async def _publish(
        self,
        domains: Mapping[str, Versioned[PowerDomain]],
        invalid: Mapping[str, str],
        statuses: Mapping[str, PowerDomainStatus],
    ) -> None:
        now_s = self._parts.wall()
        self._told = {name: reason for name, reason in self._told.items() if name in invalid}

        def due(domain: Versioned[PowerDomain]) -> PowerDomainStatus | None:
            status = statuses.get(domain.name)
            return None if status is None else self._due(domain, status, now_s)

        await self._writes.publish(domains.values(), due, self._is_superseded, unreadable=invalid)
        for name, reason in invalid.items():
            if self._told.get(name) != reason:
                status = dated(unreadable_status(reason), (), None, now_s)
                if await self._writes.write(name, {"status": status.dump()}):
                    self._told[name] = reason

    def _due(self, domain: Versioned[PowerDomain], status: PowerDomainStatus, now_s: float) -> PowerDomainStatus | None:
        """Return a status, dated and with what was drawn, where it is due."""
        before = domain.model.status
        after = dated(status, before.conditions, domain.metadata.generation, now_s)
        if not is_due(before, after, domain.model.spec.limit_watts, now_s):
            return None
        return after.model_copy(update={"history": self._parts.events.history(domain.name, now_s)})
