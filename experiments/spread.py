"""SCORE_MAX against what users request of the scheduler: `python -m experiments.spread` writes 06-score-max/runs.csv.

A real kube-scheduler places services on 50 nodes in three zones of the development cluster, once for each score and
SCORE_MAX, pod by pod. Each service requests one thing, none of which is a hard rule: to be spread over the zones
(`topologySpreadConstraints`, `ScheduleAnyway`), one pod for each node (preferred anti-affinity, weight 100), or nodes
with a label (preferred node affinity, weight 100). The extender of this module scores with `joulie_core`'s own rows, on
the power that the calibrated models state for the pods that are bound; it does without agents and operator, so that
nothing but the scores differs. kube-scheduler adds an extender's score times its weight times 10, so that SCORE_MAX 30
and weight 1 are SCORE_MAX 10 and weight 3, but for rounding: one of the two is enough to vary.
"""

import asyncio
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor
from statistics import fmean
from typing import Final

from aiohttp import web

from experiments.config import ROOT
from experiments.report import write_between
from experiments.rows import Row, text_row, write_rows
from experiments.spread_services import arrivals, node_classes, services, violations
from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import PODS
from joulie_core.caps import CapIntent
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.power_curve import interpolate
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.names import NodeName
from joulie_core.power.curves import NodeCurves
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.policy import ScorePolicy
from joulie_core.scoring.prepared import AffineRow
from joulie_core.scoring.registry import SCORE_POLICIES
from joulie_core.scoring.state import STEADY_TREND_SCALE, NodeSituation, TwinSnapshot
from joulie_core.twin import budget_of
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.fixtures import create_namespace
from joulie_sim.engine.machines import HardwareGroup, Machines, machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.tables import TextTable

DIRECTORY: Final = ROOT / "06-score-max"
SCORE_MAXIMA: Final = (10, 20, 30, 50, 100)
SEEDS: Final = 2
_BOUND_S: Final = 60.0
#: Of the request that a pod keeps busy.
_BUSY: Final = 0.7
_NO_CAPS: Final = CapIntent(cpu_pct=100.0, gpu_pct=100.0)


@dataclass(slots=True)
class PowerExtender:
    """Scores nodes by the power that the models state for the pods that are bound."""

    machines: Machines
    policy: ScorePolicy | None = None
    score_max: int = 100
    #: Threads that the bound pods keep busy, by node.
    busy: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def scores(self, names: Sequence[str], cores: float) -> list[int]:
        """Return a score for each node and a pod without GPUs."""
        if self.policy is None:
            return [0] * len(names)
        size = self.policy.size(PodDemand(cores))
        rows = (self._row(self.policy, name) for name in names)
        return [floor(row.score(size, 0.0) * self.score_max / 100.0 + 0.5) for row in rows]

    def added_watts(self) -> float:
        """Return what the pods add to the power of all servers, at the wall."""
        return sum(self._wall(name, cores) - self._wall(name, 0.0) for name, cores in self.busy.items())

    def _group(self, name: str) -> HardwareGroup:
        return self.machines.groups[int(self.machines.group[self.machines.names.index(NodeName(name))])]

    def _row(self, policy: ScorePolicy, name: str) -> AffineRow:
        group = self._group(name)
        budget, power = budget_of(group.view, _NO_CAPS), group.power
        node = TwinSnapshot(
            SchedulableClass.PERFORMANCE,
            measured_watts=interpolate(_curves(group).packages_watts, self.busy[name] / _curves(group).threads),
            capped_watts=budget.capped_watts,
            cpu_cap_share=budget.cpu_share,
            gpu_cap_share=budget.gpu_share,
            cooling_stress_pct=0.0,
        )
        return policy.row(NodeSituation(node, power), WorkloadClass.STANDARD, STEADY_TREND_SCALE)

    def _wall(self, name: str, cores: float) -> float:
        curves = _curves(self._group(name))
        return interpolate(curves.wall_watts, cores / curves.threads)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer a prioritize request."""
        arguments = await request.json()
        resources = arguments["Pod"]["spec"]["containers"][0]["resources"]["requests"]
        names = arguments["NodeNames"]
        scores = self.scores(names, float(resources["cpu"]))
        found = [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
        return web.json_response(found)

    async def pass_all(self, request: web.Request) -> web.Response:
        """Answer a filter request: nothing is refused."""
        return web.json_response({"NodeNames": (await request.json())["NodeNames"], "FailedNodes": {}})


class SpreadStudy:
    """Places the pods of all arms, one after the other, on one cluster."""

    def __init__(self, client: KubeClient, namespace: str, extender: PowerExtender) -> None:
        self._client = client
        self._namespace = namespace
        self._extender = extender
        self._bindings = Reflector(client, PODS, _node_of, namespace=namespace, field_selector="spec.nodeName!=")
        self._changed = asyncio.Event()
        self._bindings.subscribe(lambda _key, _old, _new: self._changed.set())

    async def follow(self) -> None:
        """Watch the bindings; runs until it is cancelled."""
        await self._bindings.run()

    async def place(self, policy: ScorePolicy | None, score_max: int, seed: int) -> dict[str, float]:
        """Place the services of a seed; return violations and added watts."""
        extender, of = self._extender, services(seed)
        extender.policy, extender.score_max = policy, score_max
        extender.busy.clear()
        placed: dict[tuple[str, int], str] = {}
        for service, number in arrivals(of, seed):
            manifest = service.manifest(number, self._namespace)
            await self._client.create(PODS, manifest, self._namespace)
            node = await self._bound(f"{self._namespace}/{service.name}-{number}")
            placed[service.name, number] = node
            extender.busy[node] += _BUSY * service.cpu
        labels = {str(node.name): node.labels for node in nodes_of_classes(node_classes())}
        found = violations(of, placed, labels) | {"added_watts": extender.added_watts()}
        await self._clear()
        return found

    async def _bound(self, key: str) -> str:
        async with asyncio.timeout(_BOUND_S):
            while key not in self._bindings.store:
                self._changed.clear()
                await self._changed.wait()
        return self._bindings.store[key]

    async def _clear(self) -> None:
        query = (("gracePeriodSeconds", "0"),)
        await self._client.request("DELETE", PODS.collection_path(self._namespace), query=query, timeout_s=_BOUND_S)
        async with asyncio.timeout(_BOUND_S):
            while self._bindings.store:
                self._changed.clear()
                await self._changed.wait()


def _curves(group: HardwareGroup) -> NodeCurves:
    assert group.power.curves is not None, "all nodes have known CPUs"
    return group.power.curves


def _node_of(body: bytes) -> str:
    return str(json.loads(body)["spec"]["nodeName"])


async def _serve(extender: PowerExtender, port: int) -> web.AppRunner:
    app = web.Application()
    app.router.add_post("/filter", extender.pass_all)
    app.router.add_post("/prioritize", extender.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def run() -> list[Row]:
    """Run all arms; return a row for each."""
    classes = node_classes()
    extender = PowerExtender(machines_of(nodes_of_classes(classes), Inventory.load()))
    arms = [("none", None, 0), *((name, each, most) for name, each in SCORE_POLICIES.items() for most in SCORE_MAXIMA)]
    rows = []
    async with (
        DevCluster(ClusterConfig(name="spread", nodes=tuple(classes))) as cluster,
        await cluster.client() as client,
    ):
        runner = await _serve(extender, cluster.extender_port)
        study = SpreadStudy(client, await create_namespace(client), extender)
        following = asyncio.create_task(study.follow())
        try:
            for seed in range(SEEDS):
                for name, policy, score_max in arms:
                    found = await study.place(policy, score_max, seed)
                    rows.append(text_row({"score": name, "score_max": score_max, "seed": seed} | found))
                    sys.stderr.write(f"{rows[-1]}\n")
        finally:
            following.cancel()
            await runner.cleanup()
    return rows


def table() -> str:
    """Return pods against their preference and added power, means over the seeds."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    with (DIRECTORY / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["score"], row["score_max"]].append(row)

    def mean(rows: Sequence[Row], name: str) -> float:
        return fmean(float(row[name]) for row in rows)

    base_watts = mean(found["none", "0"], "added_watts")
    titles = ("beyond their zone's share", "not alone on their node", "not on a preferred node")
    head = (f"pods {title}, %" for title in titles)
    lines = []
    for (score, score_max), rows in found.items():
        watts = mean(rows, "added_watts")
        shares = (f"{mean(rows, f'{request}_pct'):.1f}" for request in ("zones", "nodes", "label"))
        power = (f"{watts:.0f}", f"{100.0 * (watts / base_watts - 1.0):+.1f}")
        lines.append((score, score_max if score != "none" else "", *shares, *power))
    return TextTable(("score", "`SCORE_MAX`", *head, "added power, W", "of no score, %"), lines).markdown()


if __name__ == "__main__":
    write_rows(DIRECTORY / "runs.csv", asyncio.run(run()))
    write_between("06-score-max", table(), ROOT / "README.md")
