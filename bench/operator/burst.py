"""A burst of pods while no plan changes: what each scheduled pod makes the operator do.

`serve` plays it in the API server's process. The policy of the burst plans by the number of nodes, so nothing follows
from a pod but the numbers of its node's twin. Every pod sends the events that it has in a real cluster: pending,
bound, initialized, running. The agents read power at their interval and report nodes whose power moved, as agents do.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cluster import bound_pod, hardware, node_name, nodes, telemetry

from joulie_testing.api import FakeApiServer
from joulie_testing.api.request_log import WRITING_VERBS, Request

#: Watts of a node without pods, and those that a pod adds: within the noise, and beyond what is worth a write.
IDLE_WATTS, POD_WATTS, SMALL_POD_WATTS = 100.0, 25.0, 2.0
#: Power of the GPUs of a node, whether it has any or not: it is small.
GPU_WATTS = 1.0
#: Share of the pods that request performance, and of those that draw almost nothing.
PERFORMANCE_SHARE, SMALL_SHARE = 0.2, 0.2
#: Seconds between two readings of one agent, and between two reports of unchanged power.
AGENT_INTERVAL_S, HEARTBEAT_S = 10.0, 60.0
#: After the last pod: two readings of every agent and two sweeps of the twins.
SETTLE_S = 30.0
#: Longest time until every node is published, and more of it for each node.
PATIENCE_S, PATIENCE_PER_NODE_S = 300.0, 0.1
#: Seconds without a write but heartbeats after which everything is published.
QUIET_S = 5.0
_TICK_S = 0.05


@dataclass(frozen=True)
class BurstPlan:
    """Plan of the changes to play."""

    nodes: int
    pods: int
    pods_per_s: float
    rest_s: float


@dataclass
class _Agents:
    """The power of every node, and what its agent has reported of it."""

    watts: list[float]
    reported: list[tuple[float, float]] = field(default_factory=list)

    def due(self, number: int, now: float) -> bool:
        """Return whether a reading is worth a report, by the agent's rule."""
        watts, at = self.reported[number]
        return abs(self.watts[number] - watts) > 0.02 * watts or now - at > HEARTBEAT_S


def serve(plan: BurstPlan, directory: Path, parent: Connection) -> None:
    """Run the process."""
    asyncio.run(_serve(plan, directory, parent))


async def _serve(plan: BurstPlan, directory: Path, parent: Connection) -> None:
    async with FakeApiServer(bookmark_interval_s=30, history=200_000) as server:
        server.put_all(nodes(plan.nodes))
        for number in range(plan.nodes):
            server.put_all([hardware(node_name(number)), telemetry(node_name(number), IDLE_WATTS, GPU_WATTS)])
        agents = _Agents([IDLE_WATTS] * plan.nodes, [(IDLE_WATTS, time.monotonic())] * plan.nodes)
        async with asyncio.TaskGroup() as group:
            reports = group.create_task(_report(server, agents))
            parent.send(str(server.kubeconfig(directory)))
            await _play(server, plan, agents, parent)
            reports.cancel()


async def _play(server: FakeApiServer, plan: BurstPlan, agents: _Agents, parent: Connection) -> None:
    """Converge, rest, send the burst, let it settle, remove the pods; each phase ends with its requests."""
    await _converged(server, plan.nodes)
    for phase in (_rest, _burst, _settle, _leave):
        parent.send("ready")
        await asyncio.to_thread(parent.recv)
        server.requests.clear()
        await phase(server, plan, agents)
        parent.send(_counts(server.requests))


async def _converged(server: FakeApiServer, count: int) -> None:
    """Return when every node is planned and everything was written that follows."""
    async with asyncio.timeout(PATIENCE_S + PATIENCE_PER_NODE_S * count):
        while server.count("NodePowerProfile") < count or _written_lately(server):
            server.requests.clear()
            await asyncio.sleep(QUIET_S)


def _written_lately(server: FakeApiServer) -> bool:
    heartbeats = {("Lease", ""), ("NodeTwin", "status")}
    return any(
        each.verb in WRITING_VERBS and (each.kind, each.subresource) not in heartbeats for each in server.requests
    )


async def _rest(_server: FakeApiServer, plan: BurstPlan, _agents: _Agents) -> None:
    await asyncio.sleep(plan.rest_s)


async def _burst(server: FakeApiServer, plan: BurstPlan, agents: _Agents) -> None:
    dice = random.Random(3)
    started_at = time.monotonic()
    for number in range(plan.pods):
        await asyncio.sleep(max(0.0, started_at + number / plan.pods_per_s - time.monotonic()))
        node = dice.randrange(plan.nodes)
        for pod in _life(number, node, performance=dice.random() < PERFORMANCE_SHARE):
            server.put(pod)
        agents.watts[node] += SMALL_POD_WATTS if dice.random() < SMALL_SHARE else POD_WATTS


def _life(number: int, node: int, *, performance: bool) -> list[dict[str, Any]]:
    """Return the states of a pod: created, bound by the scheduler, then twice what its kubelet reports."""
    stages = [("Pending", 0, None), ("Pending", 1, node_name(node)), ("Pending", 2, node_name(node))]
    stages.append(("Running", 4, node_name(node)))
    return [
        bound_pod(f"burst-{number}", where, phase=phase, conditions=conditions, performance=performance)
        for phase, conditions, where in stages
    ]


async def _settle(_server: FakeApiServer, _plan: BurstPlan, _agents: _Agents) -> None:
    await asyncio.sleep(SETTLE_S)


async def _leave(server: FakeApiServer, plan: BurstPlan, agents: _Agents) -> None:
    started_at = time.monotonic()
    for number in range(plan.pods):
        await asyncio.sleep(max(0.0, started_at + number / plan.pods_per_s - time.monotonic()))
        server.remove("Pod", f"burst-{number}", "default")
    agents.watts[:] = [IDLE_WATTS] * plan.nodes
    await asyncio.sleep(SETTLE_S)


async def _report(server: FakeApiServer, agents: _Agents) -> None:
    """Report as every node's agent does, spread over the interval."""
    count = len(agents.watts)
    done = 0
    started_at = time.monotonic()
    while True:
        await asyncio.sleep(_TICK_S)
        now = time.monotonic()
        until = int((now - started_at) / AGENT_INTERVAL_S * count)
        for number in (each % count for each in range(done, until)):
            if agents.due(number, now):
                agents.reported[number] = (agents.watts[number], now)
                server.put(telemetry(node_name(number), agents.watts[number], GPU_WATTS))
        done = until


def _counts(requests: Any) -> Counter[str]:
    return Counter(_title(each) for each in requests)


def _title(request: Request) -> str:
    return f"{request.verb} {request.kind}{'/' if request.subresource else ''}{request.subresource}"
