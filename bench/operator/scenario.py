"""The API server's process: it holds the cluster, simulates agents and users, and records the operator's writes.

A scenario is a series of phases; each is announced to the parent process with what was seen in it.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from cluster import drainers, hardware, node_name, nodes, pods, telemetry

from joulie_testing.api import FakeApiServer, make_pod

#: How often the log of requests is read: the resolution of every time here.
TICK_S = 0.02
#: Seconds between two reports of one agent.
REPORT_S = 60.0
#: Nodes that are announced eco settle, then the events follow; no scenario waits longer.
PATIENCE_S = 300.0
QUIET_S = 3
PODS_PER_NODE = 10


@dataclass(frozen=True)
class Plan:
    """Plan of the changes to play."""

    nodes: int
    pods: int
    rest_s: float
    churn_s: float
    #: Pods that leave draining nodes, each second of the churn.
    leaves_per_s: float = 4.0


@dataclass
class Seen:
    """Writes of the operator."""

    started_at: float = field(default_factory=time.monotonic)
    #: (second since the start, what) -> writes.
    writes: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: Node -> when its labels were last patched.
    labelled_at: dict[str, float] = field(default_factory=dict)
    #: When nodes became performance nodes, in order.
    grown_at: list[float] = field(default_factory=list)

    def totals(self, since_s: int) -> Counter[str]:
        """Return the number of writes by kind, from a second on."""
        found: Counter[str] = Counter()
        for (second, what), count in self.writes.items():
            if second >= since_s:
                found[what] += count
        return found

    @property
    def second(self) -> int:
        """Whole seconds since the start."""
        return int(time.monotonic() - self.started_at)


def serve(plan: Plan, directory: Path, parent: Connection) -> None:
    """Run the process."""
    asyncio.run(_serve(plan, directory, parent))


async def _serve(plan: Plan, directory: Path, parent: Connection) -> None:
    async with FakeApiServer(bookmark_interval_s=30) as server:
        server.put_all(nodes(plan.nodes))
        for number in range(plan.nodes):
            name = node_name(number)
            server.put_all([hardware(name), telemetry(name, 100.0, 300.0)])
        server.put_all(pods(plan.nodes, plan.pods))
        seen = Seen()
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(_note(server, seen)), group.create_task(_report(server, plan.nodes))]
            parent.send(str(server.kubeconfig(directory)))
            await _play(server, plan, seen, parent)
            for task in background:
                task.cancel()


async def _play(server: FakeApiServer, plan: Plan, seen: Seen, parent: Connection) -> None:
    converged_s = await _until_quiet(seen, plan.nodes, besides={"Lease", "NodeTwin/status", "Event"})
    parent.send((converged_s, seen.totals(0), len(drainers(plan.nodes))))
    await _until_quiet(seen, plan.nodes, besides={"Lease", "NodeTwin/status"})
    await _next_message(parent)
    since = seen.second + 1
    await asyncio.sleep(plan.rest_s)
    parent.send(seen.totals(since))
    await _next_message(parent)
    parent.send(await _churn(server, plan, seen))
    await _next_message(parent)
    since = seen.second + 1
    await _next_message(parent)
    parent.send((seen.totals(since), dict(seen.writes)))
    await _next_message(parent)


async def _until_quiet(seen: Seen, count: int, *, besides: set[str]) -> float:
    """Wait until every node is labelled and for `QUIET_S` nothing else was written; return when the last write was."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await asyncio.sleep(0.2)
            lately = seen.totals(seen.second - QUIET_S).keys() - besides
            if len(seen.labelled_at) == count and not lately:
                return max(second for second, what in seen.writes if what not in besides) + 1.0


async def _churn(server: FakeApiServer, plan: Plan, seen: Seen) -> dict[str, list[float]]:
    """Let pods leave and come; return the seconds from each cause to the label that follows from it."""
    dice = random.Random(7)
    leaving = list(drainers(plan.nodes))
    dice.shuffle(leaving)
    left_at: dict[str, float] = {}
    grow_at: list[float] = []
    grown_before = len(seen.grown_at)
    ends_at = time.monotonic() + plan.churn_s
    number = 0
    while time.monotonic() < ends_at and leaving:
        await asyncio.sleep(dice.expovariate(plan.leaves_per_s))
        node = leaving.pop()
        if not _is_draining(server, node_name(node)):
            # The densest node of its family, or one that demand has made a performance node since: nothing follows.
            continue
        number += 1
        # Its demand stays: only the node is concerned.
        server.put(make_pod(f"standin-{number}", workload_class="performance"))
        server.remove("Pod", f"drainer-{node}", "default")
        left_at[node_name(node)] = time.monotonic()
        if number % PODS_PER_NODE == 0:
            for each in range(PODS_PER_NODE):
                server.put(make_pod(f"more-{number}-{each}", workload_class="performance"))
            grow_at.append(time.monotonic())
    await asyncio.sleep(5)
    grown = seen.grown_at[grown_before:]
    return {
        "pod leaves, node stops draining": [
            seen.labelled_at[name] - at if seen.labelled_at[name] > at else float("inf") for name, at in left_at.items()
        ],
        "ten pods more, one more performance node": [
            grown[index] - at if index < len(grown) else float("inf") for index, at in enumerate(grow_at)
        ],
    }


def _is_draining(server: FakeApiServer, name: str) -> bool:
    node = server.get("Node", name)
    return node is not None and node["metadata"]["labels"].get("joulie.io/draining") == "true"


async def _note(server: FakeApiServer, seen: Seen) -> None:
    """Take what was written from the server's journal."""
    while True:
        await asyncio.sleep(TICK_S)
        now, second = time.monotonic(), seen.second
        taken = list(server.requests)
        server.requests.clear()
        for request in taken:
            if request.verb in {"get", "list", "watch", "other"}:
                continue
            seen.writes[second, f"{request.kind}/{request.subresource}" if request.subresource else request.kind] += 1
            if request.kind == "Node" and request.verb == "patch":
                patch = request.json()["metadata"]["labels"]
                seen.labelled_at[request.name] = now
                if patch.get("joulie.io/power-profile") == "performance":
                    seen.grown_at.append(now)


async def _report(server: FakeApiServer, count: int) -> None:
    """Report as every node's agent does, the watts moving within a percent."""
    dice = random.Random(11)
    number = 0
    while True:
        await asyncio.sleep(0.1)
        for _ in range(round(count / REPORT_S * 0.1)):
            number = (number + 1) % count
            server.put(telemetry(node_name(number), 100 + dice.uniform(-1, 1), 300.0))


async def _next_message(parent: Connection) -> None:
    """Wait for the parent's next message."""
    await asyncio.to_thread(parent.recv)
