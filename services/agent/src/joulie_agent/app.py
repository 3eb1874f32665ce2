"""The agent process: its informers, node workers and endpoints."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from joulie_agent import metrics
from joulie_agent.backends.base import PowerBackend
from joulie_agent.backends.factory import BackendFactory
from joulie_agent.backends.headers import SecretHeaders
from joulie_agent.backends.host import HostBackend
from joulie_agent.backends.this_machine import host_backend
from joulie_agent.backends.transport import HttpTransport
from joulie_agent.budgets.watch import BudgetsWatch
from joulie_agent.class_limits.bound_pods import BoundPods
from joulie_agent.class_limits.enforcement import ClassLimitEnforcement, EnforcementSources
from joulie_agent.class_limits.metrics import enforcement_families, start_families
from joulie_agent.class_limits.shadow import ShadowLimits, ShadowSources
from joulie_agent.class_limits.start_looks import LookSources, StartLooks
from joulie_agent.class_limits.starts import ContainerStarts
from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.energy.cgroups import read_cpu_times
from joulie_agent.energy.follow import EnergyFollower, EnergySources
from joulie_agent.energy.metrics import energy_families
from joulie_agent.energy.receipts import Receipts, write_receipts
from joulie_agent.holders.answer import fetch_answer, now_socket
from joulie_agent.holders.cluster import NodePodsWatch
from joulie_agent.holders.follow import HoldersFollower, HolderSources
from joulie_agent.holders.users import UsersNow, follow_users
from joulie_agent.informers import Informers
from joulie_agent.node_workers import NodeWorkers
from joulie_agent.publish import FIELD_MANAGER, Publisher
from joulie_agent.scope import Scope, is_managed, scope_of
from joulie_agent.settings import AgentSettings, ClassLimits, PowerBudgets
from joulie_agent.worker import WorkerDeps
from joulie_api.app import App
from joulie_api.apply import Applier
from joulie_api.client import KubeClient
from joulie_api.metrics import NodeSeriesCollector
from joulie_api.namespaces import NamespacesWatch
from joulie_api.pod_events import PodEvents
from joulie_core.class_caps.held_limit import HolderPods
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_status
from joulie_core.kinds.telemetry_profile import ControlType
from joulie_core.power.curves import NodeCurves, node_curves

SERVICE: Final = "joulie-agent"
VERSION: Final = version(SERVICE)
_USER_AGENT: Final = f"{SERVICE}/{VERSION}"


async def run(settings: AgentSettings, *, on_start: Callable[[App], None] = lambda _app: None) -> None:
    """Run the agent until it is terminated; `on_start` gets the application once it listens."""
    scope = scope_of(settings)
    inventory = Inventory.load()
    async with (
        # The frame comes last, so that the tasks in it have ended before what they use is closed.
        await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=_USER_AGENT) as client,
        HttpTransport(SecretHeaders(client, settings.pod_namespace), user_agent=_USER_AGENT) as transport,
        host_backend(settings, inventory) as host,
        App(settings, service=SERVICE, version=VERSION) as app,
    ):
        on_start(app)
        workers = NodeWorkers(client, scope)
        budgets = _watch_budgets(app, settings, client, workers, scope)
        informers = Informers(
            client, scope, settings.default_route, wake=workers.wake, moved=workers.move, budgets=budgets
        )
        watch = _watch_pods(app, settings, client)
        receipts = None
        if settings.energy_receipts and watch is not None:
            receipts = write_receipts(app, client, SERVICE, settings.node_name, watch.unreadable_pods)
        energy = _follow_energy(app, settings, watch, host, informers=informers, inventory=inventory, receipts=receipts)
        read_users = host.gpu_users if settings.device_processes and isinstance(host, HostBackend) else None
        users = follow_users(app, read_users)
        follower = _follow_holders(app, settings, watch, host, workers, energy=energy, users=users)
        shadow = _shadow_limits(app, settings, client, host, follower, informers=informers) if follower else None
        enforcement = _enforce_class_limits(
            app,
            settings,
            client,
            watch,
            host,
            follower=follower,
            shadow=shadow,
            informers=informers,
            workers=workers,
            users=users,
        )
        deps = WorkerDeps(
            informers=informers,
            factory=BackendFactory(transport, lambda _node: host),
            publisher=Publisher(client, Applier(client, FIELD_MANAGER)),
            discoverer=Discoverer(inventory),
            dvfs=settings.dvfs,
            dvfs_interval_s=settings.dvfs_interval,
            interval_s=settings.reconcile_interval,
            spec_timeout_s=settings.spec_read_timeout,
            wall_time=time.time,
            failures=app.failures,
            held=follower.current if follower else None,
            energy=energy,
            shadow=shadow,
            enforcement=enforcement,
        )
        app.registry.register(NodeSeriesCollector(lambda: metrics.families(workers.workers)))
        for reflector in informers.reflectors:
            app.watch(reflector)
        app.spawn("nodes", workers.run(deps))
        await app.wait()


def _watch_budgets(
    app: App, settings: AgentSettings, client: KubeClient, workers: NodeWorkers, scope: Scope
) -> BudgetsWatch | None:
    """Start to watch the power budgets of the nodes, if that is set."""
    if settings.power_budgets is PowerBudgets.OFF:
        return None
    budgets = BudgetsWatch(client, scope.field_selector, workers.wake)
    app.report(budgets.reflector)
    app.health.add_ready(f"watch {budgets.reflector.name}", budgets.stale_reason)
    app.spawn("power budgets", budgets.run())
    return budgets


def _watch_pods(app: App, settings: AgentSettings, client: KubeClient) -> NodePodsWatch | None:
    """Start to watch the pods of this node, once for all that need them; None where nothing does."""
    if not settings.holders_socket and not settings.energy_by_pod:
        return None
    watch = NodePodsWatch(client, settings.node_name)
    app.watch(watch.pods)
    return watch


def _follow_holders(
    app: App,
    settings: AgentSettings,
    watch: NodePodsWatch | None,
    host: PowerBackend,
    workers: NodeWorkers,
    *,
    energy: EnergyFollower | None,
    users: UsersNow,
) -> HoldersFollower | None:
    """Start to follow which pods hold the GPUs of this machine, if that is set."""
    if watch is None or not settings.holders_socket:
        return None
    sources = HolderSources(
        listing=partial(fetch_answer, settings.holders_socket),
        pods=watch.current,
        gpus=lambda: host.node_gpus() if isinstance(host, HostBackend) else (),
        users=users,
    )
    follower = HoldersFollower(sources, partial(workers.wake, settings.node_name), energy.looked if energy else None)
    for reflector in watch.slices.reflectors:
        app.report(reflector)
    app.spawn("resource slices", watch.slices.run())
    app.spawn("device holders", follower.run())
    return follower


def _follow_energy(
    app: App,
    settings: AgentSettings,
    watch: NodePodsWatch | None,
    host: PowerBackend,
    *,
    informers: Informers,
    inventory: Inventory,
    receipts: Receipts | None,
) -> EnergyFollower | None:
    """Start to add up the energy of this machine by pod, if that is set and its hardware is this agent's."""
    if watch is None or not settings.energy_by_pod or not isinstance(host, HostBackend):
        return None

    def curves() -> NodeCurves | None:
        hardware = informers.hardware(settings.node_name)
        return node_curves(view_from_status(hardware.model.status, inventory)) if hardware else None

    cpu_times = partial(read_cpu_times, Path(settings.host_cgroup_root))
    sources = EnergySources(host.read_counters, cpu_times, watch.current_pods, curves)
    follower = EnergyFollower(sources, receipts=receipts)
    app.registry.register(NodeSeriesCollector(partial(energy_families, settings.node_name, follower)))
    app.spawn("energy by pod", follower.run())
    return follower


def _shadow_limits(
    app: App,
    settings: AgentSettings,
    client: KubeClient,
    host: PowerBackend,
    follower: HoldersFollower,
    *,
    informers: Informers,
) -> ShadowLimits | None:
    """Return the limits by class that the GPUs of this machine would have; None where they are not followed."""
    if not settings.shows_class_limits:
        return None
    namespaces = NamespacesWatch(client)
    # Not in the readiness of the process: a Namespace that was not seen allows nothing, and that is shown.
    app.report(namespaces.reflector)
    app.spawn("watch namespaces", namespaces.reflector.run())

    def pods() -> HolderPods | None:
        found = follower.pods()
        if found is None:
            return None
        default = settings.default_max_slowdown
        return HolderPods(found.pods, namespaces.annotations, default, settings.default_slowdown_is_consent)

    def lifted() -> bool:
        # The last target that was seen, however old: without an operator it is not known that no pod waits any more.
        target = informers.target(settings.node_name)
        return target is not None and target.class_limits is not None and target.class_limits.lifted

    return ShadowLimits(ShadowSources(follower.current, pods, host.gpu_clocks, lifted), Inventory.load())


def _enforce_class_limits(
    app: App,
    settings: AgentSettings,
    client: KubeClient,
    watch: NodePodsWatch | None,
    host: PowerBackend,
    *,
    follower: HoldersFollower | None,
    shadow: ShadowLimits | None,
    informers: Informers,
    workers: NodeWorkers,
    users: UsersNow,
) -> ClassLimitEnforcement | None:
    """Start to set the limits by class, if that is set and the hardware of this machine is this agent's."""
    if settings.class_limits is not ClassLimits.ENFORCE or watch is None or follower is None or shadow is None:
        return None
    if not isinstance(host, HostBackend):
        return None
    name = settings.node_name
    woken = partial(workers.wake, name)

    def controlled() -> bool:
        node = informers.nodes.get(name)
        return node is not None and is_managed(node) and informers.route(node).gpu_control.type is ControlType.HOST

    listing = partial(fetch_answer, now_socket(settings.holders_socket))
    looks = StartLooks(LookSources(listing, watch.current, host.node_gpus, users), app.failures)
    bound = BoundPods(looks, asyncio.get_running_loop())
    watch.pods.subscribe(bound.pod_changed)
    starts = _follow_starts(app, settings, client, looks, bound, changed=woken) if settings.start_hook_socket else None
    sources = EnforcementSources(
        follower.recent,
        shadow.decide,
        controlled,
        host.set_class_clocks,
        (lambda: starts.waits_s) if starts else lambda: None,
    )
    enforcement = ClassLimitEnforcement(sources, woken, app.failures)
    follower.when_looked(lambda _held: enforcement.wake())
    app.registry.register(NodeSeriesCollector(partial(enforcement_families, name, enforcement)))
    app.spawn("limits by class", enforcement.run())
    app.spawn("starting pods", looks.run(enforcement.before_start))
    return enforcement


def _follow_starts(
    app: App,
    settings: AgentSettings,
    client: KubeClient,
    looks: StartLooks,
    bound: BoundPods,
    *,
    changed: Callable[[], None],
) -> ContainerStarts:
    """Start to answer the start hook, by whose questions limits are lifted before containers start."""
    name = settings.node_name
    events = PodEvents(client, component=SERVICE, node=name, wall_time=time.time)
    app.spawn("events", events.run())
    starts = ContainerStarts(settings.start_hook_socket, looks, bound, events.record, changed)
    app.registry.register(NodeSeriesCollector(partial(start_families, name, starts)))
    app.spawn("container starts", starts.run())
    return starts
