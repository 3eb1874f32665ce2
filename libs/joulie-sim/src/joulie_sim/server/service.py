"""The simulator's process: watches in, HTTP out, pods' ends written back."""

import asyncio
from functools import partial
from importlib.metadata import version
from typing import Final, NoReturn

from aiohttp import web

from joulie_api.app import App
from joulie_api.client import KubeClient
from joulie_api.metrics import CONTENT_TYPE, NodeSeriesCollector
from joulie_api.reflector.driver import Reflector
from joulie_api.resources import NODES, PODS
from joulie_api.wire import decode_node, decode_pod
from joulie_core.hardware.inventory import Inventory
from joulie_sim.hardware import hardware_of
from joulie_sim.server.finisher import Finisher
from joulie_sim.server.http import MAX_BODY_BYTES, HttpBackend
from joulie_sim.server.metrics import simulator_families
from joulie_sim.server.settings import SimSettings
from joulie_sim.server.simulator import Simulator

SERVICE: Final = "joulie-sim"
VERSION: Final = version("joulie-sim")

#: How late a completed pod may be reported. When it completed is exact all the same.
_TICK_S: Final = 0.2


async def run(settings: SimSettings) -> None:
    """Simulate until the process is told to end."""
    async with App(settings, service=SERVICE, version=VERSION) as app:
        client = await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
        async with client:
            await _start(app, client, settings)
            await app.wait()


async def _start(app: App, client: KubeClient, settings: SimSettings) -> None:
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    finisher = Finisher(client, ttl_s=settings.sim_pod_ttl)
    simulator = Simulator(
        clock=lambda: (loop.time() - started_s) * settings.sim_speed,
        hardware_of=partial(hardware_of, inventory=Inventory.load()),
        on_finished=finisher.put,
    )
    backend = HttpBackend(simulator, speed=settings.sim_speed)
    app.registry.register(NodeSeriesCollector(partial(simulator_families, simulator, backend)))
    nodes = Reflector(client, NODES, decode_node, label_selector=settings.sim_node_selector)
    pods = Reflector(client, PODS, decode_pod)
    nodes.subscribe(simulator.node_changed)
    pods.subscribe(simulator.pod_changed)
    for reflector in (nodes, pods):
        app.health.add_ready(reflector.name, partial(_unsynced, reflector.synced))
        app.spawn(f"watch {reflector.name}", reflector.run())
    app.spawn("finish pods", finisher.run())
    app.spawn("complete jobs", _complete(simulator))
    await app.serve("work", _endpoints(app, backend), settings.sim_addr)


async def _complete(simulator: Simulator) -> NoReturn:
    while True:
        simulator.complete_due()
        await asyncio.sleep(_TICK_S)


def _endpoints(app: App, backend: HttpBackend) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=await app.registry.render(), headers={"Content-Type": CONTENT_TYPE})

    endpoints = web.Application(client_max_size=MAX_BODY_BYTES)
    backend.add_routes(endpoints)
    endpoints.add_routes([web.get("/metrics", metrics), *app.health.routes()])
    return endpoints


def _unsynced(synced: asyncio.Event) -> str | None:
    return None if synced.is_set() else "the first list is not complete"
