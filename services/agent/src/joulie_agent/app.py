"""The agent process: its watches, its workers, its endpoints."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from joulie_agent import metrics
from joulie_agent.backends.base import PowerBackend
from joulie_agent.backends.headers import SecretHeaders
from joulie_agent.backends.http import wall_time
from joulie_agent.backends.refusing import RefusingBackend
from joulie_agent.backends.transport import HttpTransport
from joulie_agent.backends.wiring import Wirer
from joulie_agent.discovery import Discoverer
from joulie_agent.fleet import Fleet
from joulie_agent.publish import FIELD_MANAGER, Publisher
from joulie_agent.reasons import Reason
from joulie_agent.scope import scope_of
from joulie_agent.settings import AgentMode, AgentSettings
from joulie_agent.worker import Tools
from joulie_agent.world import World
from joulie_api.app import App
from joulie_api.apply import Applier
from joulie_api.client import KubeClient
from joulie_api.metrics import NodeSeriesCollector
from joulie_core.hardware.inventory import Inventory

SERVICE: Final = "joulie-agent"
VERSION: Final = version(SERVICE)
_USER_AGENT: Final = f"{SERVICE}/{VERSION}"


async def run(settings: AgentSettings, *, on_start: Callable[[App], None] = lambda _app: None) -> None:
    """Be the agent until the process is told to end; `on_start` gets the frame once it listens."""
    scope = scope_of(settings)
    async with (
        # The frame comes last, so that the tasks in it have ended before what they use is closed.
        await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=_USER_AGENT) as client,
        HttpTransport(SecretHeaders(client, settings.pod_namespace), user_agent=_USER_AGENT) as transport,
        App(settings, service=SERVICE, version=VERSION) as app,
    ):
        on_start(app)
        fleet = Fleet(client, scope)
        world = World(client, scope, settings.default_route, wake=fleet.wake, moved=fleet.move)
        host = host_backend(settings)
        tools = Tools(
            world=world,
            wirer=Wirer(transport, lambda _node: host),
            publisher=Publisher(client, Applier(client, FIELD_MANAGER)),
            discoverer=Discoverer(Inventory.load()),
            dvfs=settings.dvfs,
            interval_s=settings.reconcile_interval,
            wall_time=wall_time,
        )
        app.registry.register(NodeSeriesCollector(lambda: metrics.families(fleet.workers)))
        app.health.add_ready("watches", lambda: _unsynced(world))
        for reflector in world.reflectors:
            app.spawn(f"watch {reflector.name}", reflector.run())
        app.spawn("nodes", fleet.run(tools))
        await app.wait()


def host_backend(settings: AgentSettings) -> PowerBackend:
    """The backend for this machine's own hardware, or one that says why there is none."""
    if settings.agent_mode is AgentMode.POOL:
        return RefusingBackend(Reason.HOST_IN_POOL, "a pool agent does not act on the machine it runs on")
    if settings.simulate_only:
        return RefusingBackend(Reason.SIMULATE_ONLY, "SIMULATE_ONLY is set")
    return RefusingBackend(Reason.NO_HOST_INTERFACE, "this agent drives HTTP backends only")


def _unsynced(world: World) -> str | None:
    waiting = [
        f"{watch.name} ({watch.problem or 'reading'})" for watch in world.reflectors if not watch.synced.is_set()
    ]
    return f"waiting for {', '.join(waiting)}" if waiting else None
