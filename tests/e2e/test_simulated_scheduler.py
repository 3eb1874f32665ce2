"""The engine's kube-scheduler chooses as the real one does: 200 pods, each placed by both."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from aiohttp import web
from tests.e2e.view import ClusterView

from joulie_api.reflector import Reflector
from joulie_api.resources import PODS
from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.binaries.lookup import selected_kubernetes
from joulie_devcluster.binaries.modules import parse_release
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import read_node_classes, scale
from joulie_devcluster.fixtures import Starter, create_namespace
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.kube_scores import Balance, FitStrategy
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.placement import KubeScheduler, PlacementRequests
from joulie_sim.workload.item import WorkItem

pytestmark = pytest.mark.e2e

_CLASSES = scale(read_node_classes(Path(__file__).parent / "nodes.yaml"), 24)
_PODS = 200
_BOUND_S = 20.0


class _Extender:
    """Refuses every fourth node to performance pods, and scores by the node's name: for the cluster and the engine."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self.calls = 0

    @staticmethod
    def score(node: str) -> int:
        return fnv1a_32(node) % 8

    @staticmethod
    def refuses(node: str) -> bool:
        return fnv1a_32(node) % 4 == 0

    def scores(self, nodes, demand):
        return np.array([float(self.score(self._machines.names[node])) for node in nodes])

    async def filter(self, request: web.Request) -> web.Response:
        self.calls += 1
        arguments = await request.json()
        annotations = arguments["Pod"]["metadata"].get("annotations") or {}
        performance = annotations.get("joulie.io/workload-class") == "performance"
        names = [name for name in arguments["NodeNames"] if not (performance and self.refuses(name))]
        failed = {name: "refused" for name in arguments["NodeNames"] if name not in names}
        return web.json_response({"NodeNames": names, "FailedNodes": failed})

    async def prioritize(self, request: web.Request) -> web.Response:
        arguments = await request.json()
        return web.json_response([{"Host": name, "Score": self.score(name)} for name in arguments["NodeNames"]])


@pytest_asyncio.fixture
async def cluster(start_cluster: Starter) -> AsyncIterator[DevCluster]:
    cluster = await start_cluster(ClusterConfig(nodes=_CLASSES))
    yield cluster
    await cluster.down()


def _workload() -> list[WorkItem]:
    source = random.Random(11)
    items = []
    for number in range(_PODS):
        gpus = source.choice((*[0] * 12, 1, 2))
        items.append(
            WorkItem(
                name=f"pod-{number:03d}",
                arrives_s=float(number),
                workload_class=source.choice(list(WorkloadClass)),
                cpu_milli=source.choice((250, 1000, 3000, 8000, 20_000)),
                memory_mib=source.choice((64, 1000, 4096, 30_000)),
                gpus=gpus,
                work_s=1.0,
                cpu_utilization=1.0,
            )
        )
    return items


async def test_the_real_choice_is_always_among_the_best_nodes(cluster: DevCluster) -> None:
    machines = machines_of(nodes_of_classes(_CLASSES), Inventory.load())
    extender = _Extender(machines)
    items = _workload()
    requests = PlacementRequests(Jobs.of(items), machines.gpu_resources)
    balance = Balance.RESULT if parse_release(selected_kubernetes()) < (1, 36) else Balance.IMPROVEMENT
    without, combined = (
        KubeScheduler(
            machines,
            strategy=FitStrategy.LEAST_ALLOCATED,
            nodes_to_score_pct=100,
            seed=0,
            extender=scores,
            balance=balance,
        )
        for scores in (None, extender)
    )
    combined.accepting[:] = [not extender.refuses(name) for name in machines.names]
    index = {name: number for number, name in enumerate(machines.names)}
    best_sizes = []
    async with await cluster.client() as client:
        view = ClusterView(client, sim_url="", namespace=await create_namespace(client))
        bindings = Reflector(client, PODS, _node_of, namespace=view.namespace, field_selector="spec.nodeName!=")
        bound: dict[str, asyncio.Future[str]] = {
            item.name: asyncio.get_running_loop().create_future() for item in items
        }
        bindings.subscribe(lambda key, _old, new: _note(bound[key.rpartition("/")[2].removesuffix("-0")], new))
        following = asyncio.create_task(bindings.run())
        runner = None
        try:
            for number, item in enumerate(items):
                if number == _PODS // 2:
                    runner = await _serve(extender, cluster.extender_port)
                request = requests.requests[requests.of_job[number]]
                engine = without if runner is None else combined
                best = {machines.names[node] for node in engine.best(engine.candidates(request)[0], request)}
                await view.create_pods(
                    1,
                    item.name,
                    cpu=f"{item.cpu_milli}m",
                    memory=f"{item.memory_mib}Mi",
                    gpu=item.gpus,
                    workload_class=item.workload_class.value,
                )
                node = await asyncio.wait_for(bound[item.name], _BOUND_S)
                assert node in best, (number, item, node, sorted(best))
                best_sizes.append(len(best))
                for each in (without, combined):
                    each.bind(request, index[node])
        finally:
            following.cancel()
            if runner is not None:
                await runner.cleanup()
    assert extender.calls == _PODS // 2
    # The test would prove nothing if any node were among the best.
    assert max(best_sizes) < len(machines)
    assert sum(size == 1 for size in best_sizes) > _PODS / 4


def _node_of(body: bytes) -> str:
    return str(json.loads(body)["spec"]["nodeName"])


def _note(bound: "asyncio.Future[str]", node: str | None) -> None:
    if node is not None and not bound.done():
        bound.set_result(node)


async def _serve(extender: _Extender, port: int) -> web.AppRunner:
    app = web.Application()
    app.router.add_post("/filter", extender.filter)
    app.router.add_post("/prioritize", extender.prioritize)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner
