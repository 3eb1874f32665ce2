"""Seconds from a lower limit of the root to the read-back of each node, on a real control plane with simulated nodes.

    just bench cut                                 1,000 nodes in twenty racks, three rounds of cuts of 30 %
    just bench cut --nodes 200 --cuts 1            a smaller cluster, in some minutes

etcd, kube-apiserver, one operator, two agents for all nodes and the simulator that is their hardware, all on this
machine. A cut takes 30 % of what all nodes may draw; all is raised again before the next one. A round has a lower limit
of the PowerDomain, a PowerEvent that starts when it is created, and one that was created before its start. `in force`
of a node is the time from just before the write, or from the start of the last, until a watch of NodePowerBudgets first
shows that its agent has read back the limit of the end of the cut, or less; `asked` is the same for what the operator
has written. `sum of caps` is when the simulator's own sum is within the limit, by a look each half second. CPU is that
of the processes, from then until the last node. Exit code 1 where a limit of the project is missed.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import numpy as np

from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_BUDGETS, NODES, POWER_DOMAINS, POWER_EVENTS
from joulie_api.wire import Versioned, decode_kind
from joulie_core.kinds import NodePowerBudget
from joulie_core.labels import HW_GPU_COUNT, RACK
from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.host.usage import cpu_s
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig

#: Limits of the project, in seconds.
P50_S, P99_S = 2.0, 5.0
_RACKS: Final = 20
#: Two packages of 360 W.
_NODE_W: Final = 720
_CUT: Final = 0.7
_ROOT: Final = "feed"
_EVENT: Final = "cut"
#: From the write of an event to its start: the operator has read it by then.
_AHEAD_S: Final = 10
_ENV: Final = {
    Service.OPERATOR: {
        "POWER_DOMAINS": "Enforce",
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "1.0",
        "LEASE_DURATION": "60s",
        "LEASE_RENEW_DEADLINE": "40s",
    },
    Service.AGENT: {"POWER_BUDGETS": "On"},
}


@dataclass(frozen=True, slots=True)
class _Start:
    #: By the monotonic clock.
    at_s: float
    #: CPU of each process until then.
    cpu_s: Mapping[str, float]


class Bench:
    """One cluster under a tree of domains."""

    def __init__(self, stack: JoulieStack, client: KubeClient, nodes: int) -> None:
        self._stack = stack
        self._client = client
        self.most_w = nodes * _NODE_W
        self._budgets = Reflector(client, NODE_POWER_BUDGETS, decode_kind(NodePowerBudget))
        self._budgets.subscribe(self._on_budget)
        #: Nodes whose agents have confirmed what they are asked for now.
        self.confirmed: set[str] = set()
        #: Of the cut under way, by node: when which watts were asked, and when which were in force.
        self._asked: dict[str, list[tuple[float, float]]] = {}
        self._in_force: dict[str, list[tuple[float, float]]] = {}
        self._nodes = nodes
        self.met = True

    def _on_budget(
        self, key: str, _old: Versioned[NodePowerBudget] | None, new: Versioned[NodePowerBudget] | None
    ) -> None:
        if new is None:
            return
        spec, status, now = new.model.spec, new.model.status, time.monotonic()
        if spec.limit_watts is not None:
            self._asked.setdefault(key, []).append((now, spec.limit_watts))
        if status.in_force_watts is not None:
            self._in_force.setdefault(key, []).append((now, status.in_force_watts))
        held = status.in_force_watts is not None or spec.limit_watts is None
        if status.sequence == spec.sequence and not status.refused and held:
            self.confirmed.add(key)
        else:
            self.confirmed.discard(key)

    async def put_tree(self) -> None:
        """Label the nodes, create the domains without a need for limits, and wait until all nodes have answered."""
        names = [each["metadata"]["name"] for each in await self._client.list(NODES)]
        for number, name in enumerate(sorted(names)):
            labels = {RACK: f"rack-{number % _RACKS}", HW_GPU_COUNT: "0"}
            await self._client.merge_patch(NODES, name, {"metadata": {"labels": labels}})
        racks: dict[str, dict[str, Any]] = {
            f"rack-{number}": {"parent": _ROOT, "nodeSelector": {RACK: f"rack-{number}"}} for number in range(_RACKS)
        }
        for name, spec in ({_ROOT: {}} | racks).items():
            fields = {"mode": "Enforce", "onLostControl": "KeepGuaranteed", "limitWatts": self.most_w, **spec}
            body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": name}}
            await self._client.create(POWER_DOMAINS, {**body, "spec": fields})

    async def limit(self, watts: float) -> None:
        """Write the limit of the root."""
        await self._client.merge_patch(POWER_DOMAINS, _ROOT, {"spec": {"limitWatts": int(watts)}})

    async def event(self, watts: float, start_s: int | None) -> None:
        """Create an event with a limit of the root; without a start it starts when it is created."""
        spec: dict[str, Any] = {"domain": _ROOT, "limitWatts": int(watts), "standing": True}
        if start_s is not None:
            spec["start"] = rfc3339(start_s, "seconds")
        body = {"apiVersion": POWER_EVENTS.api_version, "kind": "PowerEvent", "metadata": {"name": _EVENT}}
        await self._client.create(POWER_EVENTS, {**body, "spec": spec})

    async def sum_w(self) -> float:
        """Return the sum of the caps of all nodes, as the simulator has them."""
        async with aiohttp.ClientSession() as session, session.get(f"{self._stack.sim_url}/state") as answer:
            return sum(float(node["capWatts"]) for node in (await answer.json())["nodes"].values())

    async def run(self, cuts: int) -> None:
        """Measure all cuts."""
        watch = asyncio.create_task(self._budgets.run())
        try:
            print(f"{self._nodes} nodes, root of {self.most_w:,} W in {_RACKS} racks", flush=True)
            await self.put_tree()
            await self._until(lambda: len(self.confirmed) == self._nodes, "every node has answered", 600)
            limit_w = _CUT * self.most_w
            for number in range(1, cuts + 1):
                start = self._now()
                await self.limit(limit_w)
                await self._cut(f"limit {number}", start)
                await self.limit(self.most_w)
                await self._until(self._all_raised, "limits raised again", 600)
                start = self._now()
                await self.event(limit_w, None)
                await self._cut(f"event {number}, from its write", start)
                await self._call_off()
                start_s = int(time.time()) + _AHEAD_S
                await self.event(limit_w, start_s)
                await asyncio.sleep(start_s - time.time())
                await self._cut(f"event {number}, from its start", self._now())
                await self._call_off()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def _limits_w(self) -> float:
        return sum(each.model.spec.limit_watts or _NODE_W for each in self._budgets.store.values())

    def _all_raised(self) -> bool:
        return len(self.confirmed) == self._nodes and self._limits_w() > 0.99 * self.most_w

    async def _call_off(self) -> None:
        await self._client.delete(POWER_EVENTS, _EVENT)
        await self._until(self._all_raised, "limits raised again", 600)

    def _now(self) -> _Start:
        """Begin a cut."""
        self._asked.clear()
        self._in_force.clear()
        return _Start(time.monotonic(), self._cpu_s())

    async def _cut(self, name: str, start: _Start) -> None:
        """Print the times of one cut that has begun."""
        limit_w, began = _CUT * self.most_w, start.at_s
        held_s: float | None = None

        def is_done() -> bool:
            return len(self.confirmed) == self._nodes and self._limits_w() <= limit_w

        while not is_done():
            if time.monotonic() - began > 300:
                raise SystemExit(f"after 300 s {len(self.confirmed)} nodes have confirmed")
            await asyncio.sleep(0.5)
            if held_s is None and await self.sum_w() <= limit_w:
                held_s = time.monotonic() - began
        asked, times = self._first(self._asked, began), self._first(self._in_force, began)
        spent = {process: after - start.cpu_s.get(process, 0.0) for process, after in self._cpu_s().items()}
        print(f"{name}: {self.most_w:,} to {limit_w:,.0f} W")
        self._row("asked, p50", float(np.percentile(asked, 50)))
        self._row("asked, last", float(asked.max()))
        self._row("in force, p50", float(np.percentile(times, 50)), P50_S)
        self._row("in force, p99", float(np.percentile(times, 99)), P99_S)
        self._row("in force, last", float(times.max()))
        self._row("sum of caps within the limit", time.monotonic() - began if held_s is None else held_s)
        for process, used_s in spent.items():
            self._row(f"CPU of {process}", used_s)

    def _first(self, seen: Mapping[str, list[tuple[float, float]]], began: float) -> np.ndarray[Any, Any]:
        """Return the seconds until each node had its limit of the end of the cut, or less."""
        lasts = ((name, each.model.spec.limit_watts or _NODE_W) for name, each in self._budgets.store.items())
        return np.array([min(at for at, watts in seen[name] if watts <= last) - began for name, last in lasts])

    def _row(self, what: str, value_s: float, limit_s: float | None = None) -> None:
        result = ""
        if limit_s is not None:
            self.met &= value_s <= limit_s
            result = f"{'ok' if value_s <= limit_s else 'MISSED'} (limit {limit_s:g} s)"
        print(f"  {what:44} {value_s:8.2f} s  {result}", flush=True)

    def _cpu_s(self) -> Mapping[str, float]:
        processes = {**self._stack.cluster.processes, **self._stack.services}
        return {name: cpu_s(each.pid) for name, each in processes.items()} | {"this": time.process_time()}

    async def _until(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > within_s:
                raise SystemExit(f"not within {within_s:g} s: {what}; {len(self.confirmed)} nodes have confirmed")
            await asyncio.sleep(0.2)
        print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)


async def _main(nodes: int, cuts: int) -> bool:
    cpu = CpuClass(model="AMD-EPYC-9654", sockets=2, cores=192)
    config = ClusterConfig(name="cut", nodes=(NodeClass(name="n", count=nodes, cpu=cpu, memory="768Gi"),))
    services = (Service.SIM, Service.OPERATOR, Service.AGENT)
    async with (
        DevCluster(config) as cluster,
        JoulieStack(cluster, StackConfig(services=services, env=_ENV, start_timeout_s=300)) as stack,
        await cluster.client(user_agent="joulie-bench") as client,
    ):
        bench = Bench(stack, client, nodes)
        await bench.run(cuts)
        return bench.met


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--cuts", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _arguments()
    sys.exit(0 if asyncio.run(_main(arguments.nodes, arguments.cuts)) else 1)
