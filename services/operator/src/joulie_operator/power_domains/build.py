"""The controller of power domains, connected to the other parts of the operator."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from joulie_api.app import App
from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.metrics import NodeSeriesCollector
from joulie_api.optional_watch import OptionalWatch
from joulie_api.reflector import Reflector, stale_reasons
from joulie_api.resources import NODE_POWER_BUDGETS, POWER_DOMAINS, POWER_EVENTS
from joulie_api.wire import decode_kind
from joulie_core.kinds import NodePowerBudget, PowerDomain, PowerEvent
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.names import NodeName
from joulie_operator.cluster import Cluster
from joulie_operator.power_domains.available import AvailableWatts
from joulie_operator.power_domains.budget_writer import BudgetWriter
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.controller import PowerDomainController, PowerDomainParts
from joulie_operator.power_domains.event_metrics import event_families
from joulie_operator.power_domains.events import PowerEventParts, PowerEvents
from joulie_operator.power_domains.inputs import DomainSight
from joulie_operator.power_domains.metrics import families
from joulie_operator.power_domains.rest import RestTracker
from joulie_operator.power_domains.sent import SentLimits
from joulie_operator.settings import OperatorSettings, PowerDomainsMode, PowerOversubscription
from joulie_operator.twins import TwinTracker
from joulie_operator.watches import OperatorWatches


@dataclass(frozen=True, slots=True)
class PowerDomainSurroundings:
    """Parts of the operator that are used."""

    client: KubeClient
    writer: FencedWriter
    cluster: Cluster
    watches: OperatorWatches
    twins: TwinTracker
    available: AvailableWatts
    server_power: Callable[[NodeName], ServerMeasurement | None]
    #: Of the leader; see `joulie_api.election.Elector.term`.
    term: Callable[[int], int | None]
    #: See `joulie_operator.power_domains.budget_writer.BudgetWriter`.
    ahead: Callable[[float], AbstractContextManager[None]]


def build_power_domains(
    settings: OperatorSettings, app: App, around: PowerDomainSurroundings, is_leading: Callable[[], bool]
) -> PowerDomainController | None:
    """Return the controller, its watches started; None where the setting is off.

    Its series are exported while this process leads. Its watches do not count in the readiness of the process: where
    the kind is not installed, all else goes on.
    """
    if settings.power_domains is PowerDomainsMode.OFF:
        return None
    domains = Reflector(around.client, POWER_DOMAINS, decode_kind(PowerDomain))
    nodes = around.watches.node_watch.every
    assert nodes is not None, "all nodes are watched with power domains"
    budgets = Reflector(around.client, NODE_POWER_BUDGETS, decode_kind(NodePowerBudget))
    for reflector in (domains, budgets):
        app.report(reflector)
        app.spawn(f"watch {reflector.name}", reflector.run())
    events = _events(app, around)
    clock, sent = asyncio.get_running_loop().time, SentLimits()

    def stale_reason() -> str | None:
        return stale_reasons((domains, *around.watches.all))

    controller = PowerDomainController(
        PowerDomainParts(
            domains=domains,
            nodes=nodes,
            sight=DomainSight(
                around.cluster,
                around.twins,
                around.watches.hardware.store,
                around.server_power,
                RestTracker(time.time),
            ),
            budgets=NodeBudgets(
                budgets,
                sent,
                BudgetWriter(
                    around.writer, sent, clock=clock, concurrency=settings.write_concurrency, ahead=around.ahead
                ),
                term=around.term,
                enforces=settings.power_domains is PowerDomainsMode.ENFORCE,
                clock=clock,
            ),
            available=around.available,
            events=events,
            writer=around.writer,
            stale_reason=stale_reason,
            failures=app.failures,
            wall=time.time,
            clock=clock,
            oversubscribes=settings.power_oversubscription is PowerOversubscription.ON,
        )
    )
    app.registry.register(NodeSeriesCollector(lambda: families(controller.states) if is_leading() else ()))
    app.registry.register(
        NodeSeriesCollector(lambda: event_families(events.figures, events.unreadable) if is_leading() else ())
    )
    return controller


def _events(app: App, around: PowerDomainSurroundings) -> PowerEvents:
    """Return the events, their watch started; a cluster that an earlier release was installed on lacks the kind."""
    events = Reflector(around.client, POWER_EVENTS, decode_kind(PowerEvent))
    app.report(events)
    watch = OptionalWatch(around.client, "power events", events, denied_is_absent=False)
    app.spawn(f"watch {events.name}", watch.run())

    def unknown_reason() -> str | None:
        if watch.absent or events.synced.is_set():
            return None
        return f"power events are not known: {events.problem or 'first list not complete'}"

    return PowerEvents(PowerEventParts(events, unknown_reason, around.writer, app.failures))
