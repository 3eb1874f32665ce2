"""The operator as a process: watches into the model, and, while it leads, decisions out of it.

Every replica watches and is ready; one leads and writes. Losing the lease ends the process, whose successor starts from
what is published.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, NoReturn

import aiohttp
import structlog

from joulie_api.app import App
from joulie_api.apply import Applier
from joulie_api.claims import Claims
from joulie_api.client import KubeClient
from joulie_api.election import Elector
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_HARDWARES, NODE_POWER_PROFILES, NODE_TWINS, NODES, PODS, TELEMETRY_PROFILES
from joulie_api.wire import Versioned, decode_kind, decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds import NodeHardware, TelemetryProfile
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_core.policy import build_policy
from joulie_core.timestamps import age_seconds
from joulie_core.transition import NodeState, Transition
from joulie_operator.cluster import Cluster
from joulie_operator.conditions import ReportCache
from joulie_operator.events import Recorder, UnknownClasses, refusal_event, transition_event, unknown_pods_event
from joulie_operator.gpu_caps_check import GpuCapsCheck
from joulie_operator.loops import OperatorLoops
from joulie_operator.metrics import OperatorMetrics, register_node_series
from joulie_operator.node_reconciler import NodeReconciler, PublishedObjects
from joulie_operator.planner import NodePlanner
from joulie_operator.power import AgentReadings, PowerTracker
from joulie_operator.published import (
    PodSummary,
    PublishedCondition,
    PublishedTarget,
    PublishedTwin,
    decode_pod_summary,
    decode_target,
    decode_twin,
)
from joulie_operator.settings import OperatorSettings
from joulie_operator.sources import build_facility, build_power_sources
from joulie_operator.twins import NoFacility, RackCapacities, TwinTracker
from joulie_operator.workqueue import WorkQueue

SERVICE: Final = "joulie-operator"
VERSION: Final = version("joulie-operator")
#: Owner of the fields that the operator writes.
FIELD_MANAGER: Final = "joulie-operator"
LEASE: Final = "joulie-operator"
#: Finished pods demand nothing; they need not be sent.
ACTIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Watches:
    """Everything that is read from the API server."""

    nodes: Reflector[Node]
    pods: Reflector[PodSummary]
    hardware: Reflector[Versioned[NodeHardware]]
    telemetry: Reflector[Versioned[TelemetryProfile]]
    targets: Reflector[PublishedTarget]
    twins: Reflector[PublishedTwin]
    #: Not among `all`: nothing waits for them but the pods, and a cluster may not have any.
    claims: Claims

    @property
    def all(self) -> tuple[Reflector[Any], ...]:
        """All of them; pods last, since they count on nodes that are known."""
        return (self.nodes, self.hardware, self.telemetry, self.targets, self.twins, self.pods)


async def run(settings: OperatorSettings, app: App | None = None) -> None:
    """Run the operator from its start to its orderly end; `app` is for tests that want to look inside."""
    async with AsyncExitStack() as stack:
        # The connections are opened first and closed last: the tasks of the app give the lease back through them.
        client = await stack.enter_async_context(
            await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        app = await stack.enter_async_context(app or App(settings, service=SERVICE, version=VERSION))
        Operator(settings, app, client, session).start()
        await app.wait()


class Operator:
    """The parts of one operator, put together."""

    def __init__(
        self, settings: OperatorSettings, app: App, client: KubeClient, session: aiohttp.ClientSession
    ) -> None:
        self._settings = settings
        self._app = app
        self._metrics = OperatorMetrics(app.registry)
        self._elector = Elector(
            client,
            namespace=settings.lease_namespace,
            name=LEASE,
            identity=settings.pod_name or socket.gethostname(),
            lease_duration_s=settings.lease_duration,
            renew_deadline_s=settings.lease_renew_deadline,
            retry_period_s=settings.lease_retry_period,
        )
        self._recorder = Recorder(
            client,
            component=SERVICE,
            instance=self._elector.identity,
            guard=self._elector.is_leading,
            wall=time.time,
            per_second=settings.events_per_second,
            on_write=self._metrics.on_write,
        )
        self._watches = watch(client, settings, UnknownClasses(self._recorder.record).on_pod)
        self._published = PublishedObjects(self._watches.targets.store, self._watches.twins.store)
        self._reports = ReportCache()
        self._cluster = Cluster(
            Inventory.load(),
            reserved_key=settings.reserved_label_key,
            gpu_product_keys=settings.gpu_product_label_keys,
        )
        self._controller = self._build_controller()
        self._agents = AgentReadings(
            max_age_s=settings.operator_node_power_max_age, clock=asyncio.get_running_loop().time, wall=time.time
        )
        self._power = build_power_sources(settings, session, self._managed_names)
        self._facility = build_facility(settings, session, self._cluster)
        self._queue = WorkQueue()
        self._twins = TwinTracker(
            self._cluster,
            PowerTracker((*self._power, self._agents), max_age_s=settings.operator_node_power_max_age),
            self._facility or NoFacility(),
            RackCapacities(settings.rack_capacity_watts, settings.rack_capacity_json),
            caps=self._controller.caps,
            heartbeat_s=settings.twin_heartbeat,
            least_interval_s=settings.twin_interval,
        )
        self._publisher = self._build_publisher(client)
        self._reconciler = self._build_reconciler()

    def start(self) -> None:
        """Start every task; the election last, so that it ends first and gives the lease back."""
        GpuCapsCheck(self._settings).at_start()
        self._subscribe()
        self._app.spawn("watch claims", self._watches.claims.run())
        for reflector in self._watches.all:
            work = self._watch_pods() if reflector is self._watches.pods else reflector.run()
            self._app.spawn(f"watch {reflector.name}", work)
            self._app.health.add_ready(f"watch {reflector.name}", reflector.stale_reason)
        for source in self._power:
            self._app.spawn("poll power", source.run())
        if self._facility is not None:
            self._app.spawn("poll facility", self._facility.run())
        register_node_series(
            self._app.registry, self._metrics, self._cluster, self._controller, self._elector.is_leading
        )
        self._app.spawn("lead", self._elector.run(self._lead))

    async def _watch_pods(self) -> NoReturn:
        """Read pods when their claims can be looked up."""
        await self._watches.claims.wait_settled()
        await self._watches.pods.run()

    async def _lead(self) -> None:
        for reflector in self._watches.all:
            await reflector.wait_synced()
        now, wall = asyncio.get_running_loop().time(), time.time()
        for name, twin in self._watches.twins.store.items():
            age_s = age_seconds(twin.last_updated, wall)
            self._twins.adopt(NodeName(name), age_s=age_s, now=now, measured_watts=twin.measured_watts)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reconciler.plan_for_ever(), name="plan")
            group.create_task(self._reconciler.sweep_for_ever(), name="sweep twins")
            group.create_task(self._recorder.work(), name="write events")
            for number in range(self._settings.write_concurrency):
                group.create_task(self._publisher.work(), name=f"publish {number}")

    def _subscribe(self) -> None:
        watches, cluster = self._watches, self._cluster
        watches.nodes.subscribe(cluster.on_node)
        watches.pods.subscribe(cluster.on_pod)
        watches.hardware.subscribe(lambda key, _, new: cluster.on_hardware(key, new.model.status if new else None))
        watches.telemetry.subscribe(lambda key, _, new: self._on_telemetry(key, new.model if new else None))
        watches.targets.subscribe(self._on_target)
        watches.twins.subscribe(self._on_twin)
        cluster.on_change = self._reconciler.on_change
        cluster.on_relabel = self._queue.add
        self._reports.on_change = self._on_report

    def _on_telemetry(self, key: str, profile: TelemetryProfile | None) -> None:
        self._agents.on_profile(key, profile)
        self._reports.on_profile(key, profile)

    def _on_report(self, name: NodeName) -> None:
        """Look at a node whose agent says something else, after those that wait for a decision."""
        self._queue.add(name, urgent=False)

    def _on_target(self, key: str, _old: PublishedTarget | None, new: PublishedTarget | None) -> None:
        """Look at a node whose target is not the one decided."""
        name = NodeName(key)
        if new is None:
            self._publisher.lost(NODE_POWER_PROFILES, name)
        elif new.spec != self._controller.target(name):
            self._queue.add(name)

    def _on_twin(self, key: str, _old: PublishedTwin | None, new: PublishedTwin | None) -> None:
        """Look at a node whose twin was deleted, or that should have none."""
        name = NodeName(key)
        if new is None:
            self._publisher.lost(NODE_TWINS, name)
        elif self._controller.state(name) is None:
            self._queue.add(name)

    def _on_transition(self, name: NodeName, transition: Transition) -> None:
        self._metrics.on_transition(name, transition)
        _log.info(
            "transition",
            node=name,
            from_state=transition.from_state,
            to_state=transition.to_state,
            result=transition.result,
            performance_pods=self._cluster.load(name).performance_pods,
        )
        node = self._cluster.nodes[name]
        self._recorder.record(transition_event(node, transition, self._cluster.load(name).performance_pods))

    def _on_unknown(self, name: NodeName, state: NodeState) -> None:
        self._recorder.record(unknown_pods_event(self._cluster.nodes[name], state))

    def _on_refusal(self, node: Node, enforced: PublishedCondition) -> None:
        self._recorder.record(refusal_event(node, enforced))

    def _blocking_pods(self, name: NodeName) -> int | None:
        """Return the performance pods on a node, None while the pods cannot be read."""
        if self._watches.pods.is_stale():
            return None
        return self._cluster.load(name).performance_pods

    def _managed_names(self) -> set[NodeName]:
        return set(self._cluster.nodes)

    def _build_controller(self) -> NodePlanner:
        settings = self._settings
        return NodePlanner(
            self._cluster,
            build_policy(settings.policy_type, dict(settings)),
            settings,
            reconcile_interval_s=settings.reconcile_interval,
            settle_s=settings.downgrade_settle,
            on_lost_control=settings.on_lost_control,
            blocking_pods=self._blocking_pods,
            published=self._watches.targets.store.get,
            on_transition=self._on_transition,
            on_unknown=self._on_unknown,
        )

    def _build_publisher(self, client: KubeClient) -> NodeReconciler:
        applier = Applier(
            client,
            FIELD_MANAGER,
            guard=self._elector.is_leading,
            on_write=self._metrics.on_write,
            max_in_flight=self._settings.write_concurrency,
        )
        return NodeReconciler(
            self._cluster,
            self._controller,
            self._twins,
            queue=self._queue,
            writes=applier,
            published=self._published,
            report=self._reports.of,
            on_refusal=self._on_refusal,
            wall=time.time,
        )

    def _build_reconciler(self) -> OperatorLoops:
        settings = self._settings
        return OperatorLoops(
            self._cluster,
            self._controller,
            self._twins,
            queue=self._queue,
            published=self._published,
            interval_s=settings.reconcile_interval,
            debounce_s=settings.plan_debounce,
            sweep_interval_s=settings.twin_interval,
            wall=time.time,
            on_pass=self._metrics.on_pass,
        )


def watch(client: KubeClient, settings: OperatorSettings, on_pod: Callable[[Pod], None]) -> Watches:
    """Return the reflectors, not started; `on_pod` sees every pod before it is condensed."""
    claims = Claims(client, settings.device_class_gpus_json)
    return Watches(
        nodes=Reflector(client, NODES, decode_node, label_selector=settings.node_selector),
        pods=Reflector(client, PODS, decode_pod_summary(on_pod, claims.gpus), field_selector=ACTIVE_PODS),
        hardware=Reflector(client, NODE_HARDWARES, decode_kind(NodeHardware)),
        telemetry=Reflector(client, TELEMETRY_PROFILES, decode_kind(TelemetryProfile)),
        targets=Reflector(client, NODE_POWER_PROFILES, decode_target),
        twins=Reflector(client, NODE_TWINS, decode_twin),
        claims=claims,
    )
