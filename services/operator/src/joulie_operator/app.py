"""The operator as a process: its parts, how they are connected, and its tasks.

Every replica watches and is ready; one leads and writes. Losing the lease ends it; the next goes on from what it wrote.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import Final

import aiohttp

from joulie_api.answers import session_options
from joulie_api.app import App, settle_heap
from joulie_api.apply import FencedWriter
from joulie_api.client import KubeClient
from joulie_api.elected import elector_of
from joulie_api.metrics import NodeSeriesCollector
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.held_devices import DeviceReport
from joulie_core.kinds.node_twin import ServerMeasurement
from joulie_core.names import NodeName
from joulie_core.policy import build_policy
from joulie_core.twin.server_power import server_measurement
from joulie_operator.class_limits.build import LiftingSurroundings, build_limit_lifting
from joulie_operator.class_limits.pods import awaited_gpus
from joulie_operator.cluster import Cluster
from joulie_operator.conditions import ReportCache
from joulie_operator.events import Recorder, UnknownClasses
from joulie_operator.gpu_caps_check import GpuCapsCheck
from joulie_operator.loops import OperatorLoops
from joulie_operator.metrics import OperatorMetrics, register_node_series
from joulie_operator.node_reconciler import NodeReconciler
from joulie_operator.node_writer import NodeWriter
from joulie_operator.notifier import Notifier
from joulie_operator.planner import NodePlanner, never_lifted
from joulie_operator.power import AgentReadings, PowerTracker
from joulie_operator.power_domains.available import AvailableWatts
from joulie_operator.power_domains.build import PowerDomainSurroundings, build_power_domains
from joulie_operator.power_domains.withdrawal import BudgetWithdrawal
from joulie_operator.published_state import PublishedState
from joulie_operator.savings.build import SavingsSurroundings, build_savings
from joulie_operator.savings.controller import SavingsController
from joulie_operator.settings import OperatorSettings, PowerDomainsMode
from joulie_operator.sleep.controller import SleepController, SleepParts
from joulie_operator.sleep.metrics import SleepMetrics, families
from joulie_operator.sleep.nodes import read_node
from joulie_operator.sleep.pods import read_pod
from joulie_operator.sleep.watches import SleepWatches
from joulie_operator.sleep.writer import SleepWriter
from joulie_operator.sources import Polled, build_facility, build_power_sources, poll_forever
from joulie_operator.twins import NoFacility, RackCapacities, TwinTracker
from joulie_operator.ui.domains import bars_of
from joulie_operator.ui.feed import LiveFeed
from joulie_operator.ui.server import PageServer
from joulie_operator.watches import Readers, watch
from joulie_operator.workqueue import PlanTrigger, WorkQueue

SERVICE: Final = "joulie-operator"
VERSION: Final = version("joulie-operator")
#: Owner of the fields that the operator writes.
FIELD_MANAGER: Final = "joulie-operator"
LEASE: Final = "joulie-operator"


async def run(settings: OperatorSettings, app: App | None = None) -> None:
    """Run the operator from its start to its orderly end; tests pass the `app` that they observe."""
    async with AsyncExitStack() as stack:
        # The connections are opened first and closed last: the tasks of the app release the lease through them.
        client = await stack.enter_async_context(
            await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
        )
        session = await stack.enter_async_context(aiohttp.ClientSession(**session_options()))
        app = await stack.enter_async_context(app or App(settings, service=SERVICE, version=VERSION))
        operator = Operator(settings, app, client, session)
        operator.start()
        if settings.ui_addr:
            await operator.serve_page()
        await app.wait()


class Operator:
    """The parts of one operator, connected."""

    def __init__(
        self, settings: OperatorSettings, app: App, client: KubeClient, session: aiohttp.ClientSession
    ) -> None:
        self._clock = asyncio.get_running_loop().time
        self._settings = settings
        self._app = app
        self._metrics = OperatorMetrics(app.registry)
        self._elector = elector_of(settings, client, LEASE)
        self._recorder = Recorder(
            client,
            component=SERVICE,
            instance=self._elector.identity,
            guard=self._elector.is_leading,
            wall=time.time,
            per_second=settings.events_per_second,
            on_write=self._metrics.on_write,
        )
        readers = Readers(
            node_for_sleep=read_node if settings.sleep_enabled else None,
            pod_for_sleep=read_pod if settings.sleep_enabled else None,
            awaited_gpus=awaited_gpus if settings.lift_class_limits else None,
        )
        self._watches = watch(client, settings, UnknownClasses(self._recorder.record).on_pod, readers)
        policy = build_policy(settings.policy_type, dict(settings))
        self._queue = WorkQueue()
        self._trigger = PlanTrigger(self._queue, follows_demand=policy.follows_demand)
        self._reports = ReportCache(self._trigger.on_change)
        self._cluster = Cluster(
            Inventory.load(),
            pods=self._watches.pods,
            on_change=self._trigger.on_change,
            reserved_key=settings.reserved_label_key,
            gpu_product_keys=settings.gpu_product_label_keys,
            failures=app.failures,
        )
        self._published = PublishedState(
            self._watches.targets.store, self._watches.twins.store, clock=self._clock, wall=time.time
        )
        lifting_around = LiftingSurroundings(self._watches, self._cluster, self._published, self._queue.add)
        self._lifting = build_limit_lifting(settings, app, lifting_around, self._elector.is_leading)
        self._planner = NodePlanner(
            self._cluster,
            policy,
            settings,
            reconcile_interval_s=settings.reconcile_interval,
            settle_s=settings.downgrade_settle,
            on_lost_control=settings.on_lost_control,
            published=self._published,
            lifted=self._lifting.lifted if self._lifting is not None else never_lifted,
        )
        self._agents = AgentReadings(max_age_s=settings.operator_node_power_max_age, clock=self._clock, wall=time.time)
        self._power = build_power_sources(settings, session, self._node_names)
        self._facility = build_facility(settings, session, self._cluster)
        available = AvailableWatts(self._clock)
        self._twins = TwinTracker(
            self._cluster,
            PowerTracker((*self._power, self._agents), max_age_s=settings.operator_node_power_max_age),
            self._facility or NoFacility(),
            RackCapacities(settings.rack_capacity_watts, settings.rack_capacity_json),
            self._server_power,
            power_domains=available.of,
            heartbeat_s=settings.twin_heartbeat,
            least_interval_s=settings.twin_interval,
            settle_s=settings.twin_settle,
        )
        self._gpu_caps_check = GpuCapsCheck(settings)
        self._writes = self._build_writer(client)
        self._reconciler = self._build_reconciler()
        self._sleep = self._build_sleep(client)
        self._savings = self._build_savings(client) if settings.savings_enabled else None
        around = PowerDomainSurroundings(
            client,
            # No limit waits for a place among the writes of targets, labels and twins.
            self._build_writer(client),
            self._cluster,
            self._watches,
            self._twins,
            available,
            self._server_power,
            self._elector.term,
            self._queue.urgent_only,
        )
        self._power_domains = build_power_domains(settings, app, around, self._elector.is_leading)
        self._withdrawal = None
        if settings.power_domains is PowerDomainsMode.OFF:
            self._withdrawal = BudgetWithdrawal(client, self._writes, app.failures)
        self._loops = OperatorLoops(
            self._cluster,
            self._planner,
            self._twins,
            trigger=self._trigger,
            queue=self._queue,
            published=self._published,
            interval_s=settings.reconcile_interval,
            debounce_s=settings.plan_debounce,
            sweep_interval_s=settings.twin_interval,
            failures=app.failures,
            wall=time.time,
            on_pass=self._metrics.on_pass,
        )

    def start(self) -> None:
        """Start every task; the election last, so that it ends first and releases the lease."""
        self._gpu_caps_check.at_start()
        self._subscribe()
        for reflector in self._watches.claims.reflectors:
            self._app.report(reflector)
        self._app.spawn("watch claims", self._watches.claims.run())
        for reflector in self._watches.all:
            self._app.watch(reflector, work=self._watches.run(reflector))
        for source in self._power:
            self._poll("poll power", source)
        if self._facility is not None:
            self._poll("poll facility", self._facility)
        register_node_series(
            self._app.registry,
            self._metrics,
            self._cluster,
            self._planner,
            self._twins,
            is_leading=self._elector.is_leading,
        )
        self._app.spawn("settle", self._settle(), may_end=True)
        self._app.spawn("lead", self._elector.run(self._lead))

    def _poll(self, name: str, source: Polled) -> None:
        failures = self._app.failures
        self._app.spawn(name, poll_forever(source.poll, interval_s=source.interval_s, failures=failures, work=name))

    async def serve_page(self) -> None:
        """Serve the live page.

        Raises:
            OSError: its address cannot be bound.
        """
        watches, savings, domains = self._watches, self._savings, self._power_domains
        feed = LiveFeed(
            self._cluster,
            watches.targets.store,
            watches.twins.store,
            watches=watches.all,
            is_leading=self._elector.is_leading,
            failures=self._app.failures,
            wall=time.time,
            savings=None if savings is None else lambda: savings.rates,
            domains=None if domains is None else lambda: bars_of(domains.states),
        )
        watches.nodes.subscribe(feed.on_object)
        watches.twins.subscribe(feed.on_object)
        watches.pods.subscribe(feed.on_pod)
        watches.targets.subscribe(feed.on_target)
        self._app.spawn("feed live page", feed.run())
        page = PageServer(feed, self._devices_of, hosts=self._settings.ui_hosts)
        await self._app.serve("live page", page.application(), self._settings.ui_addr)

    def _devices_of(self, node: str) -> Sequence[DeviceReport] | None:
        """Return the GPUs of a node as its agent reports them; None without a report that can be read."""
        profile = None if node in self._watches.telemetry.invalid else self._watches.telemetry.store.get(node)
        return profile.model.status.devices if profile is not None else None

    async def _wait_synced(self) -> None:
        for reflector in self._watches.all:
            await reflector.wait_synced()

    async def _settle(self) -> None:
        await self._wait_synced()
        settle_heap()

    async def _lead(self) -> None:
        await self._wait_synced()
        await self._loops.prepare()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loops.run_plans(), name="plan")
            group.create_task(self._loops.run_sweeps(), name="sweep twins")
            group.create_task(self._recorder.work(), name="write events")
            # Before the first target is compared: what is published as lifted is taken over first.
            optional = {
                "class limits": self._lifting,
                "sleep": self._sleep,
                "savings": self._savings,
                "power domains": self._power_domains,
                "withdraw power budgets": self._withdrawal,
            }
            for name, controller in optional.items():
                if controller is not None:
                    group.create_task(controller.run(), name=name)
            for number in range(self._settings.write_concurrency):
                group.create_task(self._reconciler.work(), name=f"reconcile {number}")

    def _subscribe(self) -> None:
        watches, cluster = self._watches, self._cluster
        watches.nodes.subscribe(cluster.on_node)
        watches.pods.subscribe(cluster.on_pod)
        watches.hardware.subscribe(lambda key, _, new: cluster.on_hardware(key, new.model.status if new else None))
        watches.telemetry.subscribe(lambda key, _, new: self._agents.on_profile(key, new.model if new else None))
        watches.telemetry.subscribe(lambda key, _, new: self._reports.on_profile(key, new.model if new else None))
        watches.targets.subscribe(self._reconciler.on_target)
        watches.twins.subscribe(self._reconciler.on_twin)

    def _server_power(self, name: NodeName) -> ServerMeasurement | None:
        bmc = self._watches.bmcs.store.get(name)
        return None if bmc is None else server_measurement(bmc.model, time.time())

    def _node_names(self) -> set[NodeName]:
        return set(self._cluster.nodes)

    def _build_writer(self, client: KubeClient) -> FencedWriter:
        return FencedWriter(
            client,
            FIELD_MANAGER,
            guard=self._elector.is_leading,
            on_write=self._metrics.on_write,
            max_in_flight=self._settings.write_concurrency,
        )

    def _build_reconciler(self) -> NodeReconciler:
        return NodeReconciler(
            self._cluster,
            self._planner,
            self._twins,
            self._reports,
            queue=self._queue,
            writer=NodeWriter(self._writes, self._published, wall=time.time),
            published=self._published,
            notify=Notifier(self._metrics, self._recorder.record, self._gpu_caps_check).notify,
            failures=self._app.failures,
            clock=self._clock,
            wall=time.time,
        )

    def _build_sleep(self, client: KubeClient) -> SleepController | None:
        """Return the controller of sleeping nodes, and start its watches; None without sleep."""
        nodes, pods = self._watches.node_watch.for_sleep, self._watches.pod_watch.for_sleep
        if nodes is None or pods is None:
            return None
        watches = SleepWatches(client, nodes, pods, self._watches.bmcs)
        for reflector in watches.own:
            self._app.report(reflector)
            self._app.spawn(f"watch {reflector.name}", reflector.run())
        parts = SleepParts(
            watches=watches,
            writer=SleepWriter(client, self._writes),
            metrics=SleepMetrics(self._app.registry),
            hardware=self._cluster.view,
            managed=self._node_names,
            record_event=self._recorder.record,
            failures=self._app.failures,
            wall=time.time,
        )
        controller = SleepController(parts, interval_s=self._settings.sleep_interval)
        leading = self._elector.is_leading
        self._app.registry.register(
            NodeSeriesCollector(lambda: families(controller.statuses, controller.off) if leading() else ())
        )
        return controller

    def _build_savings(self, client: KubeClient) -> SavingsController:
        surroundings = SavingsSurroundings(
            client=client,
            writer=self._writes,
            cluster=self._cluster,
            watches=self._watches,
            server_power=self._server_power,
            record_event=self._recorder.record,
        )
        return build_savings(self._settings, self._app, surroundings, self._elector.is_leading)
