"""The simulator's process: watches nodes and pods, serves HTTP, writes completions."""

import asyncio
from functools import partial
from importlib.metadata import version
from typing import Final, NoReturn

from aiohttp import web

from joulie_api.app import App
from joulie_api.client import KubeClient
from joulie_api.metrics import NodeSeriesCollector
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

#: Maximum delay of the report of a completed pod; its completion time is exact.
_TICK_S: Final = 0.2


async def run(settings: SimSettings) -> None:
    """Simulate until shutdown."""
    client = await KubeClient.connect(kubeconfig=settings.kubeconfig or None, user_agent=f"{SERVICE}/{VERSION}")
    async with client:
        finisher = Finisher(client, ttl_s=settings.sim_pod_ttl)
        simulator = _simulator(settings, finisher)
        backend = HttpBackend(simulator, speed=settings.sim_speed)
        async with App(settings, service=SERVICE, version=VERSION, routes=backend.routes()) as app:
            app.registry.register(NodeSeriesCollector(partial(simulator_families, simulator, backend)))
            if settings.sim_addr is not None:
                endpoints = web.Application(client_max_size=MAX_BODY_BYTES)
                endpoints.add_routes(backend.routes())
                await app.serve("work", endpoints, settings.sim_addr)
            _follow(app, client, simulator, settings.sim_node_selector)
            app.spawn("finish pods", finisher.run())
            app.spawn("complete jobs", _complete(simulator))
            await app.wait()


def _simulator(settings: SimSettings, finisher: Finisher) -> Simulator:
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    return Simulator(
        clock=lambda: (loop.time() - started_s) * settings.sim_speed,
        hardware_of=partial(hardware_of, inventory=Inventory.load()),
        on_finished=finisher.put,
    )


def _follow(app: App, client: KubeClient, simulator: Simulator, node_selector: str) -> None:
    nodes = Reflector(client, NODES, decode_node, label_selector=node_selector)
    pods = Reflector(client, PODS, decode_pod)
    nodes.subscribe(simulator.node_changed)
    pods.subscribe(simulator.pod_changed)
    for reflector in (nodes, pods):
        app.watch(reflector)


async def _complete(simulator: Simulator) -> NoReturn:
    while True:
        simulator.complete_due()
        await asyncio.sleep(_TICK_S)
